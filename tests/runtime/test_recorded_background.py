"""Background commands of a recorded sandbox: each start and each end is in the trace once, with its Receipt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mindx.core.command import Exec, Terminal
from mindx.errors import SandboxError, SandboxLostError
from mindx.runtime.recorded import RecordedSandbox
from mindx.sandbox.fake import FakeSandbox
from mindx.trace.read import read
from mindx.trace.recorder import Recorder

FOR_EVER = Exec(("sleep", "1000"), timeout_s=None)
Work = Callable[[RecordedSandbox, FakeSandbox], Awaitable[None]]


def recorded(path: Path, work: Work, most: int = 2) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a session, without those that come with every command."""

    async def run() -> None:
        with Recorder(path) as recorder:
            inner = FakeSandbox(background=most)
            async with RecordedSandbox(inner, recorder) as sandbox:
                assert isinstance(sandbox, RecordedSandbox)
                await work(sandbox, inner)
            await sandbox.close()

    asyncio.run(run())
    return [(event.kind, dict(event.data)) for event in read(path)]


def test_a_stop_is_recorded_once_with_its_receipt(tmp_path: Path) -> None:
    async def work(sandbox: RecordedSandbox, inner: FakeSandbox) -> None:
        name = await sandbox.start_background(FOR_EVER)
        assert (await sandbox.poll_background(name)).running
        for _ in range(2):
            assert not (await sandbox.stop_background(name)).running
        assert not (await sandbox.poll_background(name)).running

    started, ended = recorded(tmp_path / "trace.jsonl", work)
    assert started == (
        "background_started",
        {"background_id": "b1", "argv": ["sleep", "1000"], "cwd": "/workspace", "timeout_s": None},
    )
    assert ended[0] == "background_ended"
    assert (ended[1]["background_id"], ended[1]["argv"], ended[1]["exit_cause"]) == (
        "b1", ["sleep", "1000"], "cancelled",
    )  # fmt: skip
    assert {"stdout_sha256", "killed_count", "cpu_s"} <= set(ended[1])


def test_what_nobody_asked_about_is_recorded_at_the_end(tmp_path: Path) -> None:
    async def work(sandbox: RecordedSandbox, inner: FakeSandbox) -> None:
        await sandbox.start_background(Exec(("echo", "a")))
        await sandbox.start_background(FOR_EVER)
        await inner._background["b1"].task

    events = recorded(tmp_path / "trace.jsonl", work)
    assert [(kind, data["background_id"]) for kind, data in events[2:]] == [
        ("background_ended", "b1"),
        ("background_left", "b2"),
    ]
    assert events[2][1]["exit_code"] == 0


def test_what_is_typed_and_resized_is_recorded_once_done_or_refused(tmp_path: Path) -> None:
    async def work(sandbox: RecordedSandbox, _: FakeSandbox) -> None:
        name = await sandbox.start_background(Exec(("cat",), terminal=Terminal(5, 6)))
        await sandbox.send_background(name, b"a secret\n\x04")
        await sandbox.resize_background(name, Terminal(7, 8))
        assert not (await sandbox.await_background(name, 1 << 60, 20)).running
        with pytest.raises(SandboxError):
            await sandbox.send_background(name, b"x")

    told = recorded(tmp_path / "trace.jsonl", work)
    assert [kind for kind, _ in told] == [
        "background_started", "background_sent", "background_resized", "background_ended", "background_sent",
    ]  # fmt: skip
    assert told[0][1]["terminal"] == {"rows": 5, "cols": 6}
    assert told[1][1] == {"background_id": "b1", "bytes": 10}
    assert told[2][1] == {"background_id": "b1", "rows": 7, "cols": 8}
    assert (told[3][1]["exit_code"], told[4][1]["error"]["code"]) == (0, "background_over")


def test_refusals_are_recorded(tmp_path: Path) -> None:
    async def work(sandbox: RecordedSandbox, _: FakeSandbox) -> None:
        with pytest.raises(SandboxError):
            await sandbox.start_background(FOR_EVER)
        with pytest.raises(SandboxError):
            await sandbox.poll_background("b1")

    ((kind, data),) = recorded(tmp_path / "trace.jsonl", work, most=0)
    assert (kind, data["error"]["code"]) == ("background_started", "background_off")


def test_a_lost_sandbox_is_told_and_closed(tmp_path: Path) -> None:
    async def work(sandbox: RecordedSandbox, inner: FakeSandbox) -> None:
        await sandbox.start_background(FOR_EVER)
        await sandbox.start_background(FOR_EVER)
        inner.lose("it died")
        with pytest.raises(SandboxLostError):
            await sandbox.poll_background("b1")

    events = recorded(tmp_path / "trace.jsonl", work)
    told = [(kind, data["background_id"], data["error"]["code"]) for kind, data in events[2:]]
    assert told == [("background_ended", "b1", "sandbox_lost"), ("background_ended", "b2", "sandbox_lost")]
