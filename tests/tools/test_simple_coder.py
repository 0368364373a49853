"""SimpleCoder in a sandbox: its results, its state, and what it refuses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindx.core.command import WORKSPACE, Exec, MakeDir, Stat
from mindx.core.observation import Status
from mindx.core.receipt import ExitCause
from mindx.errors import FileError, SandboxLostError
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy
from mindx.sandbox.driver import Driver
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.fake_programs import ProgramContext, ProgramEnd
from mindx.tools.command_tool import BoundTool, CallError, ToolOutcome
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.simple_coder_lower import CoderSettings
from mindx.tools.simple_coder_state import SYSTEM_PATH, CoderState

Do = Callable[..., Awaitable[dict[str, Any]]]


async def python(ctx: ProgramContext) -> int:
    """As much of Python as makes a virtual environment, and tells who it is."""
    if ctx.argv[1:3] == ("-m", "venv"):
        for name in ("python", "python3", "pip", "pip3"):
            ctx.fs.make_dir(f"{ctx.argv[3]}/bin")
            ctx.fs.write(f"{ctx.argv[3]}/bin/{name}", b"", 0o755)
        return 0
    ctx.write_stdout(f"{ctx.argv[0]} {ctx.env.get('VIRTUAL_ENV', '-')} {ctx.env['PATH']}\n".encode())
    return 0


async def killed(ctx: ProgramContext) -> int:
    raise ProgramEnd(ExitCause.SIGNAL, signal=9)


async def hidden_oom(ctx: ProgramContext) -> int:
    raise ProgramEnd(ExitCause.OOM, exit_code=0, oom_kills=1)


async def mixed(ctx: ProgramContext) -> int:
    ctx.write_stdout(b" out \xff\n")
    ctx.write_stderr(b"\nerr\n")
    return 3


PROGRAMS = dict.fromkeys(("python", "python3", "pip"), python) | {
    "killed": killed,
    "oom": hidden_oom,
    "mixed": mixed,
}


def session(
    work: Callable[[BoundTool[Any, CoderState], FakeSandbox], Awaitable[None]],
    *,
    autonomous: bool = False,
    settings: CoderSettings | None = None,
) -> None:
    """Run `work` with a tool in a fresh sandbox."""

    async def run() -> None:
        tool = SimpleCoder(settings)
        async with FakeSandbox(PROGRAMS) as sandbox:
            await work(tool.bind(sandbox, tool.initial_state(autonomous)), sandbox)

    asyncio.run(run())


def test_files_and_directories() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        do = tool.execute
        assert await do(command="mkdir", path="b/c") == {
            "status": "SUCCESS",
            "message": "Directory created/ensured at `b/c`",
        }
        assert (await do(command="mkdir", path="b/c"))["status"] == "SUCCESS"
        assert await do(command="write", path="d/e/a.txt", content="ä\n") == {
            "status": "SUCCESS",
            "message": "Wrote 3 bytes to `d/e/a.txt`",
        }
        assert await do(command="read", path="/workspace/d/e/a.txt") == {"status": "SUCCESS", "content": "ä\n"}
        await do(command="write", path="b.txt", content="")
        assert await do(command="ls") == {"status": "SUCCESS", "items": ["b/", "b.txt", "d/"]}
        assert await do(command="ls", path="d/e/..") == {"status": "SUCCESS", "items": ["e/"]}
        assert await do(command="mkdir", path=".") == {
            "status": "SUCCESS",
            "message": "Directory created/ensured at `.`",
        }

    session(work)


def test_the_tool_id_of_the_envelope_is_no_argument() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        result = await tool.execute(tool_id="simple_coder", command="mkdir", path="my_web_app")
        assert result["status"] == "SUCCESS"

    session(work)


def test_the_current_directory_is_kept() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        do = tool.execute
        await do(command="write", path="a/b/x", content="1")
        assert (await do(command="cd", path="a"))["message"] == "Current directory is now: ./a"
        assert (await do(command="cd", path="b"))["message"] == "Current directory is now: ./a/b"
        assert (await do(command="ls"))["items"] == ["x"]
        assert (await do(command="run", argv=["pwd"]))["stdout"] == "/workspace/a/b"
        assert (await do(command="cd", path="../../../x"))["status"] == "ERROR"
        for path in ("nothing", "x", "x/y"):
            assert (await do(command="cd", path=path))["status"] == "ERROR"
        assert tool.state.cwd == "/workspace/a/b"
        assert (await do(command="cd", path="/workspace"))["message"] == "Current directory is now: ."

    session(work)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"command": "read", "path": "no"}, "`no`: there is no such file or directory"),
        ({"command": "read", "path": "dir"}, "`dir`: that is a directory"),
        ({"command": "read", "path": "link"}, "`link`: that is a link"),
        ({"command": "ls", "path": "file"}, "`file`: that, or something on the way to it, is not a directory"),
        ({"command": "mkdir", "path": "file"}, "`file`: a file is there already"),
        ({"command": "write", "path": "file/x", "content": ""}, "`file/x`: "),
        ({"command": "write", "path": "dir", "content": ""}, "`dir`: that is a directory"),
        ({"command": "write", "path": "new/", "content": ""}, "`new/` is a directory; name a file in it"),
        ({"command": "cd", "path": "link"}, "`link` is a link; links are not followed"),
        ({"command": "read", "path": "../x"}, "outside the workspace"),
        ({"command": "read", "path": "/etc/shadow"}, "outside the workspace"),
        ({"command": "write", "path": "/workspace2/x", "content": ""}, "outside the workspace"),
        ({"command": "ls", "path": "a\0b"}, "NUL"),
        ({"command": "mkdr", "path": "x"}, "unknown command `mkdr`, did you mean `mkdir`?"),
        ({"command": "write", "path": "x"}, "`content` is missing"),
        ({"command": "run", "argv": ["nosuch"]}, "`nosuch` is not in the sandbox; nothing ran"),
        ({"command": "activate_venv", "venv_name": "v"}, "`v` is no virtual environment here"),
        ({"command": "create_venv", "venv_name": "dir"}, "`dir` exists already"),
        ({"command": "toggle_autonomous_mode"}, "granted by the operator, never by a plan"),
        ({"command": "rm", "path": "file"}, "needs autonomous mode, which is off"),
        ({"command": "help", "topic": "mkdr"}, "did you mean `mkdir`?"),
    ],
)
def test_refused_or_failed(params: dict[str, Any], message: str) -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        sandbox.tree.make_dir("/workspace/dir")
        sandbox.tree.write("/workspace/file", b"")
        sandbox.tree.link("/workspace/link", "file")
        before = tool.state
        result = await tool.execute(**params)
        assert result["status"] == "ERROR"
        assert message in result["message"]
        assert tool.state == before

    session(work)


def test_nothing_reaches_the_sandbox_from_a_path_that_leaves() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        for command in ("ls", "cd", "read", "mkdir", "rm"):
            await tool.execute(command=command, path="a/../../etc")
        await tool.execute(command="write", path="/etc/cron.d/x", content="x")
        assert sandbox.commands == []

    session(work, autonomous=True)


def test_rm_removes_one_file_when_the_operator_grants_it() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        do = tool.execute
        await do(command="write", path="a/x", content="")
        assert await do(command="rm", path="a/x") == {"status": "SUCCESS", "message": "Removed `a/x`"}
        assert "that is a directory" in (await do(command="rm", path="a"))["message"]
        await do(command="cd", path="a")
        sent = len(sandbox.commands)
        for path in (".", "..", "/workspace"):
            assert "`rm` removes one file" in (await do(command="rm", path=path))["message"]
        assert len(sandbox.commands) == sent

    session(work, autonomous=True)


def test_only_the_person_at_the_keyboard_switches_autonomous_mode() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        assert (await tool.execute(command="toggle_autonomous_mode"))["message"] == "Autonomous mode is on"
        assert tool.state.autonomous
        assert (await tool.execute(command="toggle_autonomous_mode"))["message"] == "Autonomous mode is off"

    session(work, settings=CoderSettings(operator=True))


def test_run_tells_how_a_program_ended() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        do = tool.execute
        assert await do(command="run", cmdline="echo 'a  b' c") == {
            "status": "SUCCESS",
            "return_code": 0,
            "exit_cause": "exit",
            "stdout": "a  b c",
            "stderr": "",
        }
        assert await do(command="run", argv=["mixed"]) == {
            "status": "FAILURE",
            "return_code": 3,
            "exit_cause": "exit",
            "stdout": "out \\xff",
            "stderr": "err",
            "message": "`mixed` ended with exit code 3",
        }
        assert (await do(command="run", argv=["cat"], stdin="in"))["stdout"] == "in"
        late = await do(command="run", argv=["sleep", "60"], timeout_seconds=0.01)
        assert (late["status"], late["return_code"], late["exit_cause"]) == ("FAILURE", None, "timeout")
        assert late["message"] == "`sleep` was killed at its deadline of 0.01 s"
        signalled = await do(command="run", argv=["killed"])
        assert (signalled["status"], signalled["message"]) == ("FAILURE", "`killed` was ended by signal 9")
        starved = await do(command="run", argv=["oom"])
        assert (starved["status"], starved["return_code"], starved["exit_cause"]) == ("FAILURE", 0, "oom")

    session(work)


def test_output_that_is_cut_says_so() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        result = await tool.execute(command="run", argv=["echo", "x" * 500])
        assert result["truncated"] is True
        assert len(result["stdout"]) < 500

    session(work, settings=CoderSettings(max_output_bytes=100))


def test_a_file_that_is_no_text_is_escaped_and_says_so() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        sandbox.tree.write("/workspace/x", b"a\xff")
        sandbox.tree.write("/workspace/\udcff", b"")
        result = await tool.execute(command="read", path="x")
        assert (result["content"], "not UTF-8" in result["message"]) == ("a\\xff", True)
        assert (await tool.execute(command="ls"))["items"] == ["\\xff", "x"]

    session(work)


def test_an_active_virtual_environment_gives_python_and_pip() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        do = tool.execute
        await do(command="mkdir", path="p")
        await do(command="cd", path="p")
        assert await do(command="create_venv", venv_name=".venv") == {
            "status": "SUCCESS",
            "message": "Virtual environment created at `.venv`",
        }
        await do(command="activate_venv", venv_name=".venv")
        await do(command="cd", path="..")
        venv = "/workspace/p/.venv"
        ran = await do(command="run", cmdline="python main.py")
        assert ran["stdout"] == f"python {venv} {venv}/bin:{SYSTEM_PATH}"
        assert (await do(command="run", argv=["printenv", "VIRTUAL_ENV"]))["stdout"] == venv
        started = [command for command in sandbox.commands if isinstance(command, Exec)]
        assert [command.executable for command in started] == [None, f"{venv}/bin/python", None]
        await do(command="deactivate_venv")
        assert (await do(command="run", argv=["python3"]))["stdout"].split()[1] == "-"
        assert (await do(command="deactivate_venv"))["status"] == "SUCCESS"

    session(work)


def test_two_projects_each_have_their_own() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        for project in ("one", "two"):
            await tool.execute(command="mkdir", path=f"/workspace/{project}")
            await tool.execute(command="cd", path=f"/workspace/{project}")
            await tool.execute(command="create_venv", venv_name="v")
            await tool.execute(command="activate_venv", venv_name="v")
            assert (await tool.execute(command="run", argv=["pip"]))["stdout"].split()[1] == f"/workspace/{project}/v"

    session(work)


def test_variables_are_kept_for_the_programs_that_follow() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        do = tool.execute
        await do(command="env_set", name="B", value="two words")
        await do(command="env_set", name="A", value="")
        assert await do(command="env_list") == {"status": "SUCCESS", "items": ["A=", "B=two words"]}
        assert (await do(command="run", argv=["printenv", "B"]))["stdout"] == "two words"
        await do(command="env_unset", name="B")
        await do(command="env_unset", name="B")
        assert (await do(command="run", argv=["printenv", "B"]))["return_code"] == 1
        for index in range(255):
            await do(command="env_set", name=f"V{index}", value="")
        assert "no more fit" in (await do(command="env_set", name="W", value=""))["message"]
        assert (await do(command="env_set", name="A", value="new"))["status"] == "SUCCESS"

    session(work)


def test_help() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        everything = (await tool.execute(command="help"))["content"]
        assert "write(path, content)" in everything
        assert 'run(argv | cmdline | shell, stdin="", timeout_seconds=null)' in everything
        assert "  path: the file\n" in (await tool.execute(command="help", topic="write"))["content"]

    session(work)


def test_what_the_policy_denies_is_an_error_in_the_dict_and_denied_outside() -> None:
    judge = PolicyEngine(load_policy().policy, autonomous=False).judge

    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        coder = SimpleCoder()
        driver = Driver(sandbox, judge)
        outcome = await coder.perform({"command": "run", "cmdline": "pip install x"}, coder.initial_state(), driver)
        assert outcome.status is Status.DENIED
        assert outcome.result["status"] == "ERROR"
        assert outcome.message.startswith("denied by the policy: pip is not allowed")
        allowed = await coder.perform({"command": "run", "argv": ["echo"]}, coder.initial_state(), driver)
        assert allowed.status is Status.SUCCESS
        refused = await coder.perform({"command": "toggle_autonomous_mode"}, coder.initial_state(), driver)
        assert (refused.status, refused.result["status"]) == (Status.DENIED, "ERROR")

    session(work)


def test_a_broken_sandbox_is_an_exception() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        sandbox.lose("power")
        with pytest.raises(SandboxLostError):
            await tool.execute(command="ls")

    session(work)


def test_the_log_trail(caplog: pytest.LogCaptureFixture) -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        await tool.execute(command="mkdir", path="api_client")
        await tool.execute(command="cd", path="api_client")
        await tool.execute(command="run", argv=["echo", "a\nFAKE - INFO"])
        await tool.execute(command="read", path="x\n\x1b[2J")

    with caplog.at_level(logging.INFO, "tool.SimpleCoder"):
        session(work)
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("tool.SimpleCoder", "Directory created/ensured at `api_client`"),
        ("tool.SimpleCoder", "Current directory is now: ./api_client"),
        ("tool.SimpleCoder", "Executing in './api_client': [`echo`, `a\\nFAKE - INFO`]"),
        ("tool.SimpleCoder", "read refused or failed: `x\\n\\x1b[2J`: there is no such file or directory"),
    ]


def test_what_is_sent_is_what_was_lowered() -> None:
    calls: list[dict[str, Any]] = [
        {"command": "write", "path": "a/b", "content": "x"},
        {"command": "create_venv", "venv_name": "v"},
        {"command": "run", "argv": ["echo"]},
        {"command": "cd", "path": "a"},
    ]

    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        coder = SimpleCoder()
        expected = []
        for params in calls:
            expected += coder.lower(coder.validate(params), tool.state).commands
            await tool.execute(**params)
        assert sandbox.commands == expected
        assert [type(command) for command in expected[2:4]] == [Stat, Exec]
        assert expected[0] == MakeDir("/workspace/a")

    session(work)


PARTS = st.lists(st.sampled_from(["a", "b", "..", ".", ""]), max_size=5).map("/".join)
PATHS = PARTS | PARTS.map(lambda path: f"/workspace/{path}") | PARTS.map(lambda path: f"/{path}")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["mkdir", "cd", "write", "activate_venv"]), PATHS), max_size=12))
def test_the_state_that_vetting_foresees_is_the_state_that_comes(steps: list[tuple[str, str]]) -> None:
    """However a plan walks: cwd is a directory that exists below the workspace, and lowering foretold it."""

    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        coder = SimpleCoder()
        for command, path in steps:
            key = "venv_name" if command == "activate_venv" else "path"
            params = {"command": command, key: path} | ({"content": ""} if command == "write" else {})
            before = tool.state
            result = await tool.execute(**params)
            try:
                foreseen = coder.lower(coder.validate(params), before).state
            except CallError:
                foreseen = None
            assert tool.state == (foreseen if result["status"] == "SUCCESS" else before)
            assert tool.state.cwd == WORKSPACE or tool.state.cwd.startswith(f"{WORKSPACE}/")
            assert ".." not in tool.state.cwd.split("/")
            assert sandbox.tree.look(tool.state.cwd).kind == "directory"
        with pytest.raises(FileError):
            sandbox.tree.look("/workspace/../a")

    session(work)


def test_an_outcome_carries_the_execution() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        coder = SimpleCoder()
        outcome: ToolOutcome[CoderState] = await coder.perform(
            {"command": "run", "argv": ["false"]}, coder.initial_state(), sandbox
        )
        assert outcome.status is Status.FAILURE
        assert outcome.execution is not None
        assert outcome.execution.exit_code == 1

    session(work)
