"""SimpleCoder in a real container, with the default policy in between: what only a real system can show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mindx.core.observation import Status
from mindx.core.plan import EXECUTE_TOOL, parse_plan, thaw
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.driver import Driver
from mindx.sandbox.image import DerivedImage
from mindx.tools.command_tool import BoundTool
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.simple_coder_state import CoderState

ROOT = Path(__file__).parent.parent.parent
Work = Callable[[BoundTool[Any, CoderState]], Awaitable[None]]


@pytest.fixture
def in_container(derived_image: DerivedImage) -> Callable[[Work], None]:
    """Runs a coroutine with a tool in a fresh container."""
    policy = load_policy().policy

    def run(work: Work) -> None:
        async def main() -> None:
            judge = PolicyEngine(policy, autonomous=True).judge
            async with Driver(DockerSandbox(ContainerSettings(policy.limits)), judge) as sandbox:
                tool = SimpleCoder()
                await work(tool.bind(sandbox, tool.initial_state(autonomous=True)))

        asyncio.run(main())

    return run


WHO = "import os, shutil, sys; print(sys.prefix, shutil.which('pip'), os.environ.get('MOOD'), os.getcwd())"


def test_a_project_with_its_own_python(in_container: Callable[[Work], None]) -> None:
    async def work(tool: BoundTool[Any, CoderState]) -> None:
        do = tool.execute
        for call in (
            {"command": "mkdir", "path": "api_client"},
            {"command": "cd", "path": "api_client"},
            {"command": "create_venv", "venv_name": ".venv"},
            {"command": "activate_venv", "venv_name": ".venv"},
            {"command": "env_set", "name": "MOOD", "value": "deep blue"},
        ):
            assert (await do(**call))["status"] == "SUCCESS"
        venv = "/workspace/api_client/.venv"
        for program in ("python", "python3"):
            own = await do(command="run", argv=[program, "-c", WHO])
            assert own["stdout"] == f"{venv} {venv}/bin/pip deep blue /workspace/api_client", own
        by_shell = await do(command="run", argv=["bash", "-c", "python -c 'import sys; print(sys.prefix)'"])
        assert by_shell["stdout"] == venv
        pip = await do(command="run", cmdline="pip --version")
        assert "pip is not allowed" in pip["message"]
        await do(command="deactivate_venv")
        assert (await do(command="run", argv=["python3", "-c", WHO]))["stdout"].startswith("/usr ")
        assert "exists already" in (await do(command="create_venv", venv_name=".venv"))["message"]

    in_container(work)


def test_files_links_and_deadlines(in_container: Callable[[Work], None]) -> None:
    async def work(tool: BoundTool[Any, CoderState]) -> None:
        do = tool.execute
        assert (await do(command="write", path="a/b.txt", content="hä\0\n"))["status"] == "SUCCESS"
        assert (await do(command="read", path="a/b.txt"))["content"] == "hä\0\n"
        await do(command="run", argv=["ln", "-s", "/etc", "a/etc"])
        assert (await do(command="ls", path="a"))["items"] == ["b.txt", "etc"]
        for call in ({"command": "cd", "path": "a/etc"}, {"command": "read", "path": "a/etc/passwd"}):
            refused = await do(**call)
            assert (refused["status"], "not followed" in refused["message"]) == ("ERROR", True)
        assert (await do(command="rm", path="a/etc"))["status"] == "SUCCESS"
        assert (await do(command="run", argv=["cat"], stdin="to you"))["stdout"] == "to you"
        late = await do(command="run", argv=["sleep", "60"], timeout_seconds=0.2)
        assert (late["status"], late["exit_cause"], late["return_code"]) == ("FAILURE", "timeout", None)
        killed = await do(command="run", argv=["python3", "-c", "import os; os.kill(os.getpid(), 9)"])
        assert killed["message"] == "`python3` was ended by signal 9"
        assert (await do(command="run", argv=["python3", "-c", "raise SystemExit(7)"]))["return_code"] == 7

    in_container(work)


def test_the_first_plan_succeeds_step_by_step(in_container: Callable[[Work], None]) -> None:
    plan = parse_plan((ROOT / "examples/first_plan.json").read_bytes()).plan
    assert plan is not None

    async def work(tool: BoundTool[Any, CoderState]) -> None:
        for action in plan.actions:
            if action.type == EXECUTE_TOOL:
                result = await tool.execute(**thaw(action.params))
                assert result["status"] == Status.SUCCESS.value, result
        assert result["items"] == ["__init__.py", "__main__.py"]
        json.dumps(result)

    in_container(work)


def test_search_finds_lines_and_names(in_container: Callable[[Work], None]) -> None:
    async def work(tool: BoundTool[Any, CoderState]) -> None:
        do = tool.execute
        await do(command="write", path="src/a.py", content="one\nTODO: [a-z]* -e\n")
        await do(command="write", path="src/b b.py", content="two\n")
        await do(command="write", path=".git/x", content="TODO\n")
        await do(command="run", argv=["ln", "-s", "/etc", "src/etc"])
        assert (await do(command="search", text="TODO"))["items"] == ["src/a.py:2: TODO: [a-z]* -e"]
        # A text is no pattern, and no option.
        assert (await do(command="search", text="[a-z]*"))["items"] == ["src/a.py:2: TODO: [a-z]* -e"]
        assert (await do(command="search", text="-e"))["items"] == ["src/a.py:2: TODO: [a-z]* -e"]
        assert (await do(command="search", text="o.e"))["items"] == []
        assert (await do(command="search", text="root:"))["items"] == [], "the link to /etc is not followed"
        assert (await do(command="search", text="*.py", names=True))["items"] == ["src/a.py", "src/b b.py"]
        assert (await do(command="search", text="b b", names=True))["items"] == ["src/b b.py"]
        assert (await do(command="cd", path="src"))["status"] == "SUCCESS"
        assert (await do(command="search", text="two"))["items"] == ["b b.py:1: two"]
        assert (await do(command="search", text="none", names=True))["items"] == []
        missing = await do(command="search", text="x", path="nowhere")
        assert missing["status"] == "FAILURE"
        assert (await do(command="search", text="x", path="nowhere", names=True))["status"] == "FAILURE"
        await do(command="run", argv=["sh", "-c", "yes match | head -n 5000 > many"])
        many = await do(command="search", text="match")
        assert (len(many["items"]), many["truncated"]) == (1000, True)

    in_container(work)


def test_a_shell_line_is_judged_program_by_program_and_a_broken_pipe_fails(
    in_container: Callable[[Work], None],
) -> None:
    async def work(tool: BoundTool[Any, CoderState]) -> None:
        do = tool.execute
        assert (await do(command="run", shell="echo a b | wc -w"))["stdout"] == "2"
        assert (await do(command="run", shell="false | cat"))["return_code"] == 1
        denied = await do(command="run", shell="ls | pip list")
        assert denied["status"] == "ERROR"
        assert "pip is not allowed" in denied["message"]

    in_container(work)
