"""I4: the engine dies and comes back, or the shim of a container is killed: typed, recorded whole, and tried again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from mindx.core.command import Exec
from mindx.core.run import Outcome, RunResult
from mindx.errors import EngineError, SandboxError, SandboxLostError
from mindx.policy.load import load_policy
from mindx.runtime.plan_run import PlanRun
from mindx.runtime.session import Session
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.gc import collect, find_leftovers
from mindx.sandbox.image import DerivedImage
from mindx.trace.read import verify
from mindx.trace.run_folder import RunStore
from tests.wall.support import Heard, exists, first_pid, until

from .second_engine import LACKS, SecondEngine, bring, second_engine
from .toolchain import ToolchainSandbox

pytestmark = [
    pytest.mark.skipif(bool(LACKS), reason=LACKS or "there is one"),
    # The SDK leaves the socket of a connection that was refused to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"),
]
LONG = Exec(("sh", "-c", "echo on; sleep 60; echo done"), timeout_s=None)


@pytest.fixture(scope="module", params=[False, True], ids=["restart", "live-restore"])
def beside(
    request: pytest.FixtureRequest, engine: docker.DockerClient, derived_image: DerivedImage
) -> Iterator[SecondEngine]:
    with second_engine({}, live_restore=request.param) as started:
        with contextlib.closing(docker.DockerClient(base_url=started.address)) as client:
            bring(derived_image, engine, client)
        yield started


@pytest.fixture
def second(beside: SecondEngine, monkeypatch: pytest.MonkeyPatch) -> SecondEngine:
    """The engine that sessions of this test use. Each test leaves it running."""
    monkeypatch.setenv("DOCKER_HOST", beside.address)
    return beside


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What the SDK left is collected here, where its warning is expected, and not in a later test."""
    yield
    gc.collect()


def left(second: SecondEngine) -> list[str]:
    """Return what is there of ours after gc, which is what the next session does too."""
    with contextlib.closing(docker.DockerClient(base_url=second.address)) as client:
        collect(client, find_leftovers(client))
        return [found["Id"] for found in client.api.containers(all=True)]


def test_i4_a_command_ends_typed_when_the_engine_dies_and_the_next_session_works(
    second: SecondEngine, derived_image: DerivedImage
) -> None:
    async def interrupted() -> None:
        sandbox = ToolchainSandbox(derived_image)
        await sandbox.start()
        heard = Heard()
        running = asyncio.create_task(sandbox.execute(LONG, heard))
        await heard.first()
        await asyncio.to_thread(second.kill)
        with pytest.raises(SandboxLostError):
            await asyncio.wait_for(running, 20)
        with pytest.raises(SandboxError):
            await sandbox.execute(Exec(("true",)))
        with contextlib.suppress(EngineError):  # the engine cannot say whether it is gone
            await asyncio.wait_for(sandbox.close(), 60)

    async def again() -> None:
        async with ToolchainSandbox(derived_image) as sandbox:
            assert (await sandbox.execute(Exec(("true",)))).ok

    asyncio.run(interrupted())
    second.start()
    asyncio.run(again())
    assert left(second) == []


def test_i4_without_an_engine_a_session_is_refused_with_what_to_do(
    second: SecondEngine, derived_image: DerivedImage
) -> None:
    second.kill()
    try:
        with pytest.raises(EngineError) as caught:
            asyncio.run(ToolchainSandbox(derived_image).start())
        assert caught.value.code == "engine_missing"
        assert "engine.sock" in caught.value.message
    finally:
        second.start()


def test_i4_a_run_whose_engine_dies_leaves_whole_records(
    second: SecondEngine, derived_image: DerivedImage, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ncommands:\n  - allow: sh -c *\n  - allow: sleep\n  - allow: 'true'\n")
    store = RunStore(tmp_path / "runs")

    def plan(*argv: str) -> bytes:
        params = {"tool_id": "simple_coder", "command": "run", "argv": list(argv)}
        return json.dumps([{"type": "EXECUTE_TOOL", "params": params}] * 2).encode()

    def make(source: bytes) -> PlanRun:
        return PlanRun(
            source, load_policy(policy), store, open_sandbox=lambda loaded, progress: ToolchainSandbox(derived_image)
        )

    async def interrupted(run: PlanRun) -> RunResult:
        going = asyncio.create_task(run.run())
        spool = run.folder.path / "output" / "1.stdout"
        await until(lambda: spool.exists() and spool.read_bytes() == b"on\n", 30)
        await asyncio.to_thread(second.kill)
        return await asyncio.wait_for(going, 60)

    broken = asyncio.run(interrupted(make(plan(*LONG.argv))))
    assert broken.outcome is Outcome.ERROR
    assert broken.error is not None
    assert [step.status.value for step in broken.steps] in (["ERROR", "SKIPPED"], ["CANCELLED", "SKIPPED"])
    folder = store.find(broken.run_id)
    assert folder.read_result() is not None
    assert verify(folder.trace_path).ok
    assert folder.path.joinpath("output/1.stdout").read_bytes() == b"on\n"
    second.start()
    assert asyncio.run(make(plan("true")).run()).outcome is Outcome.COMPLETED
    assert left(second) == []


def shim_of(pid: int) -> int:
    """Return the shim of a container by its first process."""
    parent = int(Path(f"/proc/{pid}/status").read_text().partition("PPid:")[2].split()[0])
    assert b"containerd-shim" in Path(f"/proc/{parent}/cmdline").read_bytes()
    return parent


def test_i4_a_killed_shim_ends_the_session_typed_and_nothing_is_left(
    engine: docker.DockerClient, derived_image: DerivedImage
) -> None:
    async def go() -> None:
        async with DockerSandbox() as sandbox:
            heard = Heard()
            running = asyncio.create_task(sandbox.execute(LONG, heard))
            await heard.first()
            pid = first_pid(engine, sandbox)
            os.kill(shim_of(pid), signal.SIGKILL)
            with pytest.raises(SandboxLostError) as caught:
                await asyncio.wait_for(running, 20)
            assert caught.value.code == "container_gone"
            await until(lambda: not Path(f"/proc/{pid}").exists())
        await until(lambda: not exists(engine, sandbox.container_id))
        async with Session() as session:
            assert (await session.run(["true"])).ok

    asyncio.run(go())
