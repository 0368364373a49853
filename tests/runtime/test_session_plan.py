"""Plans in an open session: files stay, what a plan set for itself does not, unless the next one is pinned to it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import mindx
from mindx.core.observation import Status
from mindx.errors import InputError, SandboxLostError
from mindx.policy.load import LoadedPolicy, load_policy
from mindx.runtime.session import plan_bytes
from mindx.sandbox.fake import FakeSandbox

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def call(command: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": command, **arguments}}


def session(policy: LoadedPolicy | None = None, **options: Any) -> mindx.Session:
    return mindx.Session(policy, open_sandbox=lambda loaded, tell: FakeSandbox(), **options)


def printed(result: Any) -> list[str]:
    return [one.result.get("stdout", "") for one in result.observations]


ENTER = [call("mkdir", path="app"), call("cd", path="app"), call("env_set", name="COLOUR", value="red")]
LOOK = [call("run", argv=["pwd"]), call("env_list")]


async def test_a_second_plan_starts_clean_and_finds_the_files() -> None:
    async with session() as opened:
        assert (await opened.run_plan(ENTER)).completed
        second = await opened.run_plan([*LOOK, call("cd", path="app")])
        assert second.completed
        assert printed(second)[0] == "/workspace"
        assert "COLOUR" not in json.dumps(dict(second.observations[1].result))


async def test_a_pinned_plan_goes_on_where_the_last_one_stopped_also_after_a_failure() -> None:
    async with session() as opened:
        await opened.run_plan(ENTER)
        pinned = await opened.run_plan([*LOOK, call("run", argv=["false"]), call("cd", path="..")], pinned=True)
        assert printed(pinned)[0] == "/workspace/app"
        assert "COLOUR" in json.dumps(dict(pinned.observations[1].result))
        assert [one.status for one in pinned.observations[2:]] == [Status.FAILURE, Status.SKIPPED]
        assert pinned.outcome.value == "failed"
        again = await opened.run_plan([*LOOK, call("run", argv=["false"]), call("cd", path="..")], pinned=True)
        assert printed(again)[0] == "/workspace/app"
        kept_going = await opened.run_plan([call("run", argv=["false"]), call("mkdir", path="b")], keep_going=True)
        assert [one.status for one in kept_going.observations] == [Status.FAILURE, Status.SUCCESS]


async def test_a_pinned_plan_is_vetted_from_where_it_starts() -> None:
    """`..` leads out of the workspace from its root, and into it from a folder below."""
    async with session() as opened:
        await opened.run_plan(ENTER)
        up = [call("cd", path="..")]
        assert (await opened.run_plan(up, pinned=True)).completed
        assert (await opened.run_plan(up, pinned=True)).outcome.value in ("denied", "invalid")
        assert (await opened.run_plan(up)).outcome.value in ("denied", "invalid")


async def test_a_plan_that_may_not_run_does_nothing_and_says_why() -> None:
    async with session() as opened:
        refused = await opened.run_plan([call("mkdir", path="app"), call("run", argv=["pip", "install", "x"])])
        assert (refused.outcome.value, refused.observations) == ("denied", ())
        assert [fault.path for fault in refused.faults] == ["$[1].params.argv"]
        assert await opened.list() == []
        assert (await opened.run_plan("[{")).outcome.value == "invalid"
        with pytest.raises(InputError, match="JSON"):
            await opened.run_plan([{"type": "THINK", "params": {"thought": float("nan")}}])


async def test_two_plans_at_once_run_one_after_the_other() -> None:
    async with session() as opened:
        plan = [call("mkdir", path="app"), call("cd", path="app"), *LOOK]
        one, two = await asyncio.gather(opened.run_plan(plan), opened.run_plan(plan))
        assert printed(one) == printed(two)
        assert printed(one)[2] == "/workspace/app"


async def test_spent_commands_make_it_partial_and_a_closed_session_an_error() -> None:
    loaded = load_policy()
    limits = loaded.policy.limits.changed(commands=3)
    few = LoadedPolicy(loaded.policy.changed(limits=limits), loaded.name, loaded.sha256, loaded.source)
    async with session(few) as opened:
        assert (await opened.run_plan([call("run", argv=["true"])] * 9)).outcome.value == "partial"
    with pytest.raises(mindx.SandboxError):
        await opened.run_plan(LOOK)


async def test_in_a_real_container_a_plan_keeps_its_place_only_when_pinned(base_image: object) -> None:
    async with mindx.Session() as opened:
        write = call("write", path="a.txt", content="hello")
        assert (await opened.run_plan([*ENTER, write])).completed
        assert printed(await opened.run_plan([call("run", argv=["cat", "a.txt"])], pinned=True)) == ["hello"]
        assert printed(await opened.run_plan([call("run", argv=["cat", "app/a.txt"])])) == ["hello"]
        with pytest.raises(SandboxLostError):
            await asyncio.gather(opened.run_plan([call("run", argv=["sleep", "30"])]), opened.close())


@pytest.mark.parametrize("name", ["plan.json", Path("plan.json")])
def test_the_name_of_a_file_is_no_plan(name: Any) -> None:
    """People give it; the fault of a text that begins with `plan` would not tell them what is wrong."""
    with pytest.raises(InputError, match=r"read it from the file: plan\.json"):
        plan_bytes(name)
