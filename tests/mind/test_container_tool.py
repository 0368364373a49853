"""A generated tool runs in the session's container and nowhere else, and what it answers is checked."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from mindx import Observation, Session
from mindx.agents.constitution import Constitution, Layer
from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.core.action import ActionRequest
from mindx.core.observation import Status
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import LoadedPolicy, load_policy, parse_policy
from mindx.tools.container_entry import ToolSpec
from mindx.tools.container_tool import ContainerTool
from mindx.tools.executor import ToolExecutor
from mindx.tools.registry import plan_arguments
from mindx.trace.read import read
from mindx.trace.recorder import Recorder
from tests.mind.improvement_support import CODE, SPEC
from tests.tools.tool_kit import opener, run_context


def made(folder: Path, code: str = CODE, agent_id: str = "", **more: Any) -> ContainerTool:
    """Return the tool of SPEC, registered with this code."""
    registry = OfficialToolsRegistry(folder, constitution=Constitution.load(), layer=Layer.MASTERMIND)
    entry = registry.register(ToolSpec.read({**SPEC, **more}), code.encode(), added_by="test")
    return ContainerTool(entry, folder, agent_id=agent_id)


def do(tool: ContainerTool, arguments: dict[str, Any], policy: LoadedPolicy | None = None) -> Observation:
    """Do one call in a fresh container, through the executor, as the loop would."""

    async def main() -> Observation:
        async with Session(policy) as session:
            engine = PolicyEngine(session.policy.policy, autonomous=False)
            context = run_context(open_sandbox=opener(session.sandbox), operator_engine=lambda: engine)
            return await ToolExecutor([tool]).execute(ActionRequest("a1", tool.tool_id, arguments), context)

    return asyncio.run(main())


pytestmark = pytest.mark.usefixtures("base_image")


def test_a_generated_tool_answers_from_the_container(tmp_path: Path):
    """It runs there: its process sees the container's files, and none of the host's; what it prints is no answer."""
    code = (
        "import os\n\ndef count(arguments):\n    print('noise')\n"
        f"    assert not os.path.exists({str(tmp_path)!r}), 'the host'\n"
        "    return {'words': len(arguments['text'].split()), 'cwd': os.getcwd()}\n"
    )
    answer = do(made(tmp_path, code), {"text": "a b c"})
    assert answer.status is Status.SUCCESS, answer.message
    assert dict(answer.result) == {"status": "SUCCESS", "words": 3, "cwd": "/workspace"}


def test_a_step_of_a_plan_calls_it_by_its_capability(tmp_path: Path):
    """EXECUTE_TOOL with tool_id, command and flat arguments, as for every tool."""
    tool = made(tmp_path)
    arguments = plan_arguments(tool, {"command": "count", "text": "a b"})
    assert do(tool, arguments).result["words"] == 2


def test_a_tool_of_several_capabilities_takes_a_command(tmp_path: Path):
    """Each command has its own schema; an unknown one is told what there is."""
    upper = {
        "name": "upper",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}, "twice": {"type": "boolean"}}},
        "output_schema": {"type": "string"},
    }
    code = CODE + "\n\nasync def upper(arguments):\n    return arguments['text'].upper()\n"
    tool = made(tmp_path, code, capabilities=[*SPEC["capabilities"], upper])
    assert do(tool, {"command": "upper", "text": "a", "twice": True}).value == "A"
    assert "twice" in do(tool, {"command": "count", "text": "a", "twice": True}).message
    assert 'expected one of "count", "upper"' in do(tool, {"command": "uper", "text": "a"}).message


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def count(arguments):\n    raise ValueError('no text today')\n", "no text today"),
        ("def count(arguments):\n    return {'words': 'many'}\n", "output_schema"),
        ("def count(arguments):\n    return {'words': 1, 'more': {1, 2}}\n", "not JSON serializable"),
        ("def count(arguments):\n    return {'words': float('nan')}\n", "not JSON compliant"),
        ("def count(arguments):\n    return {'words': 'x' * 300000}\n", "more than 262,144 bytes"),
        ("import os\n\ndef count(arguments):\n    os._exit(0)\n", "no JSON"),
        ("import os\n\ndef count(arguments):\n    os.write(3, b'{}'); os._exit(0)\n", "output_schema|no JSON"),
        ("def other(arguments):\n    return {'words': 1}\n", "has no attribute 'count'"),
        ("def count(arguments)\n", "SyntaxError"),
        ("import nothing_like_this\n", "No module named"),
    ],
)
def test_a_tool_that_misbehaves_fails_its_own_call(tmp_path: Path, code: str, says: str):
    """Whatever its code does, the call ends as an ERROR with a reason, and nothing of it is taken for an answer."""
    answer = do(made(tmp_path, code), {"text": "a"})
    assert answer.status is Status.ERROR
    assert re.search(says, answer.message), answer.message


def test_a_tool_that_hangs_is_killed_at_the_deadline(tmp_path: Path):
    """The policy's command_timeout holds for generated tools as for every command."""
    policy = parse_policy(
        b"version: 1\nname: short\nlimits: {command_timeout: 1s}\ncommands:\n  - allow: python3\n", source="test"
    )
    answer = do(made(tmp_path, "import time\n\ndef count(arguments):\n    time.sleep(60)\n"), {"text": "a"}, policy)
    assert answer.status is Status.ERROR
    assert "deadline of 1 s" in answer.message


def test_altered_code_is_not_run(tmp_path: Path):
    """The hash is held against the code before each call: neither another file nor a link in its place passes."""
    tool = made(tmp_path)
    path = tmp_path / tool.entry.module_path
    assert do(tool, {"text": "a"}).status is Status.SUCCESS
    path.write_text(CODE + "# altered\n")
    assert "not what was registered" in do(tool, {"text": "a"}).message
    (tmp_path / "same.py").write_text(CODE)
    path.unlink()
    path.symlink_to(tmp_path / "same.py")
    assert "not there" in do(tool, {"text": "a"}).message


def test_the_record_says_which_tool_ran_and_which_code(tmp_path: Path):
    """A trace tells of the very code, though it went in on standard input."""
    tool = made(tmp_path)
    with Recorder(tmp_path / "trace.jsonl") as recorder:

        async def main() -> None:
            async with Session(recorder=recorder) as session:
                context = run_context(open_sandbox=opener(session.sandbox))
                await ToolExecutor([tool]).execute(ActionRequest("a1", tool.tool_id, {"text": "a"}), context)

        asyncio.run(main())
    (ran,) = [event.data for event in read(tmp_path / "trace.jsonl") if event.kind == "exec"]
    assert list(ran["argv"][-2:]) == ["word_count.count", tool.entry.sha256]


def test_arguments_that_do_not_fit_never_reach_the_code(tmp_path: Path):
    """Held against input_schema on the host."""
    answer = do(made(tmp_path), {"text": 5})
    assert answer.status is Status.ERROR
    assert "text" in answer.message


def test_the_policy_decides_about_generated_tools_too(tmp_path: Path):
    """Where python3 is not allowed, a generated tool is refused before anything runs."""
    policy = parse_policy(b"version: 1\nname: none\ncommands:\n  - allow: ls\n", source="test")
    tool = made(tmp_path)
    assert do(tool, {"text": "a"}, policy).status is Status.DENIED
    engine = PolicyEngine(policy.policy, autonomous=False)
    context = run_context(operator_engine=lambda: engine)
    assert ToolExecutor([tool]).assess(ActionRequest("a1", "word_count", {"text": "a"}), context).denial


def test_another_agents_tool_is_refused_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """access_control is checked at each call."""
    tool = made(tmp_path, agent_id="bdi_2", access_control={"allowed_agents": ["bdi_1"]})
    assert do(tool, {"text": "a"}).status is Status.DENIED
    assert "bdi_2" in caplog.text


def test_a_file_of_the_workspace_takes_no_modules_place(tmp_path: Path):
    """A plan that writes json.py into the workspace does not get into the tool that runs after it."""
    tool = made(tmp_path)

    async def main() -> Observation:
        async with Session(load_policy()) as session:
            await session.write("json.py", "raise SystemExit('taken over')")
            context = run_context(open_sandbox=opener(session.sandbox))
            return await ToolExecutor([tool]).execute(ActionRequest("a1", "word_count", {"text": "a"}), context)

    assert asyncio.run(main()).status is Status.SUCCESS
