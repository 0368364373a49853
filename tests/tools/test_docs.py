"""docs/plans.md, tools.md and tasks.md say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from mindx.core.plan import ACTION_TYPES
from mindx.tools.simple_coder_args import COMMANDS, Call

ROOT = Path(__file__).parent.parent.parent
DOCS = (ROOT / "docs" / "plans.md").read_text("utf-8")
_CODE = re.compile(
    r"""(?:Error|Refused)\(\s*\(?"([a-z]+_[a-z_]+)"|(?:code|text) = "(mcp_[a-z]+)"|, "((?:tool|mcp)_[a-z_]+)"\)"""
)


def table(heading: str) -> list[str]:
    lines = DOCS.split(f"\n{heading}\n", 1)[1].split("\n## ")[0].splitlines()
    return [line for line in lines if line.startswith("| `")]


def row(model: type[Call]) -> str:
    arguments = "<br>".join(f"`{name}`: {field.description}" for name, field in model.model_fields.items())
    signature = model.signature().replace("|", "\\|")
    return f"| `{signature}` | {model.summary()} | {arguments or 'none'} | {model.result_keys} |"


def test_the_table_of_commands_is_that_of_the_models() -> None:
    documented = table("## SimpleCoder")
    assert documented[: len(COMMANDS)] == [row(model) for model in COMMANDS.values()]


def test_the_table_of_types_is_complete() -> None:
    assert [line.split("`")[1] for line in table("## Types")] == list(ACTION_TYPES)


def codes_of(folder: str) -> set[str]:
    """Return the error codes that the modules of a folder of the package raise."""
    found: set[str] = set()
    for path in (ROOT / "mindx" / folder).rglob("*.py"):
        found |= {code for match in _CODE.findall(path.read_text("utf-8")) for code in match if code}
    return found


def test_the_codes_of_tools_and_tasks_are_documented() -> None:
    tools = codes_of("tools")
    tasks = codes_of("runtime/tasks") - {"session_closed"}
    assert {"tool_unknown", "mcp_unreachable", "path_link", "tool_timeout", "network_denied"} <= tools
    assert {"task_in_use", "memory_changed", "state_unwritable"} <= tasks
    documented = (ROOT / "docs" / "tools.md").read_text("utf-8")
    known = {"call_refused"}  # SimpleCoder's, of plans
    assert {code for code in tools - known if f"`{code}`" not in documented} == set()
    documented = (ROOT / "docs" / "tasks.md").read_text("utf-8")
    assert {code for code in tasks if f"`{code}`" not in documented} == set()
