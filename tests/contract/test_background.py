"""The contract of background commands: beside the foreground, counted, stopped, and gone with the session."""

from __future__ import annotations

import asyncio

import pytest

from mindx.core.command import Exec
from mindx.core.receipt import ExitCause
from mindx.errors import SandboxError, SandboxLostError

pytestmark = pytest.mark.anyio
FOR_EVER = Exec(("sleep", "1000"), timeout_s=None)


async def ended(sandbox, background_id):
    for _ in range(1000):
        state = await sandbox.poll_background(background_id)
        if not state.running:
            return state
        await asyncio.sleep(0.01)
    raise AssertionError("it did not end")


async def refusal(call) -> str:
    with pytest.raises(SandboxError) as caught:
        await call
    return caught.value.code


async def test_off_unless_it_is_asked_for(backend):
    async with backend.make() as sandbox:
        assert await refusal(sandbox.start_background(FOR_EVER)) == "background_off"


async def test_it_survives_the_foreground_and_is_stopped(backend):
    async with backend.make(background=2) as sandbox:
        name = await sandbox.start_background(FOR_EVER)
        for _ in range(3):
            assert (await sandbox.execute(Exec(("true",)))).ok
        state = await sandbox.poll_background(name)
        assert (state.running, state.command, state.result) == (True, FOR_EVER, None)
        stopped = await sandbox.stop_background(name)
        assert not stopped.running
        assert stopped.result.exit_cause is ExitCause.CANCELLED
        assert (await sandbox.stop_background(name)).result.exit_cause is ExitCause.CANCELLED


async def test_it_ends_by_itself_and_its_output_stays(backend):
    async with backend.make(background=1) as sandbox:
        state = await ended(sandbox, await sandbox.start_background(Exec(("echo", "a", "b"))))
        assert (state.result.ok, state.stdout, state.result.stdout) == (True, b"a b\n", b"a b\n")


async def test_output_so_far(backend):
    async with backend.make(background=1) as sandbox:
        name = await sandbox.start_background(Exec(("yes",), timeout_s=None, max_output_bytes=1000))
        for _ in range(1000):
            if (state := await sandbox.poll_background(name)).stdout:
                break
            await asyncio.sleep(0.01)
        assert state.stdout.startswith(b"y\ny\n")
        assert len(state.stdout) <= 1000
        await sandbox.stop_background(name)


async def test_no_more_than_are_allowed_at_a_time(backend):
    async with backend.make(background=2) as sandbox:
        first, _ = [await sandbox.start_background(FOR_EVER) for _ in range(2)]
        assert await refusal(sandbox.start_background(FOR_EVER)) == "background_full"
        await sandbox.stop_background(first)
        assert await sandbox.start_background(FOR_EVER)


async def test_an_unknown_one_is_refused(backend):
    async with backend.make(background=1) as sandbox:
        assert await refusal(sandbox.poll_background("b9")) == "background_unknown"
        assert await refusal(sandbox.stop_background("b9")) == "background_unknown"


async def test_a_deadline_holds_for_it_too(backend):
    async with backend.make(background=1) as sandbox:
        state = await ended(sandbox, await sandbox.start_background(Exec(("sleep", "1000"), timeout_s=0.2)))
        assert state.result.exit_cause is ExitCause.TIMEOUT


async def test_it_ends_with_the_session(backend):
    async with backend.make(background=1) as sandbox:
        name = await sandbox.start_background(FOR_EVER)
    with pytest.raises(SandboxLostError):
        await sandbox.poll_background(name)
