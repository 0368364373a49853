"""docs/plans.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from mindx.core.plan import ACTION_TYPES
from mindx.tools.simple_coder_args import COMMANDS, Call

DOCS = (Path(__file__).parent.parent.parent / "docs" / "plans.md").read_text("utf-8")


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
