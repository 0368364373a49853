"""After a deadline, a cancellation and each end nothing of a command is alive, and the receipt says what was killed."""

from __future__ import annotations

import asyncio
import select

import pytest

from mindx.core.receipt import ExitCause
from mindx.guest import crew
from mindx.guest.connection import Connection
from tests.wall.support import HOPPER, STORM, Heard, only_ours, python, sh, top

pytestmark = pytest.mark.anyio

BOMB = """
import os, sys, time
for _ in range(100):
    try:
        child = os.fork()
    except OSError:
        break
    if not child:
        os.setsid()
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.001)
print("on", flush=True)
while True: time.sleep(1)
"""
# Each says "on" when it has set itself up, and would live for ever.
CLINGING = {
    "sigterm ignored": "trap '' TERM HUP INT QUIT; echo on; while :; do sleep 1; done",
    "a daemon of two forks": "(setsid sh -c 'sleep 1000 & sleep 1000' > /dev/null 2>&1 &) ; echo on; sleep 1000",
    "stopped": "sh -c 'kill -STOP $$' & sleep 0.1; echo on; kill -STOP $$; sleep 1000",
    "hoppers": f"for i in 1 2 3 4 5 6 7 8; do python3 -c '{HOPPER}' & done; echo on; wait; sleep 1000",
    "a fork bomb": f"exec python3 -c '{BOMB}'",
    "a storm": f"exec python3 -c '{STORM}'",
    "threads": "exec python3 -c 'import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, "
    'args=(1000,)).start()\nprint("on", flush=True)\'',
    "zombies": "exec python3 -c 'import os, time\nfor _ in range(90):\n  if not os.fork(): os._exit(0)\n"
    'print("on", flush=True)\ntime.sleep(1000)\'',
    "waiting for a pipe": "mkfifo /tmp/p$$; echo on; cat /tmp/p$$",
    "spinning": "echo on; while :; do :; done",
    "a full pipe": "echo on; exec yes",
}


@pytest.fixture(params=CLINGING)
def clinging(request) -> str:
    return CLINGING[request.param]


async def test_after_the_deadline_nothing_is_alive(engine, sandbox, clinging):
    result = await sandbox.execute(sh(clinging, timeout_s=1.5, max_output_bytes=1000))
    assert result.exit_cause is ExitCause.TIMEOUT, result
    assert result.exit_code is None
    assert result.stdout.startswith(b"on")  # what came before the deadline is there
    assert result.receipt.killed_count >= 1
    assert result.receipt.killed
    assert only_ours(engine, sandbox), top(engine, sandbox)
    assert result.receipt.duration_s < 1.5 + 1
    assert (await sandbox.execute(sh("echo next"))).stdout == b"next\n"


async def test_after_a_cancellation_nothing_is_alive(engine, sandbox, clinging):
    heard = Heard()
    task = asyncio.create_task(sandbox.execute(sh(clinging, timeout_s=None, max_output_bytes=1000), heard))
    await heard.first()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    assert only_ours(engine, sandbox), top(engine, sandbox)
    assert (await sandbox.execute(sh("echo next"))).stdout == b"next\n"


@pytest.mark.parametrize(
    "left",
    [
        "setsid sleep 1000 > /dev/null 2>&1 &",
        "(setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' &) > /dev/null 2>&1",
        "sleep 1000 &",  # holds the streams
        "sh -c 'kill -STOP $$' &",
    ],
)
async def test_after_an_end_nothing_that_it_left_is_alive(engine, sandbox, left):
    result = await asyncio.wait_for(sandbox.execute(sh(f"{left}\n sleep 0.2; echo done")), 10)
    assert (result.exit_cause, result.exit_code, result.stdout[-5:]) == (ExitCause.EXIT, 0, b"done\n")
    assert result.receipt.killed_count >= 1
    assert {process.name for process in result.receipt.killed} & {"sleep", "sh", "python3", "setsid"}
    assert only_ours(engine, sandbox), top(engine, sandbox)


async def test_the_receipt_names_what_was_killed(sandbox):
    result = await sandbox.execute(sh("sleep 1000 & sleep 1001 & sleep 0.3; echo done"))
    assert sorted(process.name for process in result.receipt.killed) == ["sleep", "sleep"]
    many = await sandbox.execute(sh("for i in $(seq 100); do sleep 1000 & done; sleep 0.3"))
    assert many.receipt.killed_count == 100
    assert len(many.receipt.killed) == 64


async def test_names_that_lie_are_only_names(sandbox):
    code = """
import ctypes, os, time
for name in (b"\\n1 init", b"Uid:\\t0\\t0", b"\\xff\\x1b[2J", b"a b  c", b""):
    if not os.fork():
        ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
        open("/workspace/named", "a").write(".")
        time.sleep(60)
while len(open("/workspace/named", "a+").read() or open("/workspace/named").read()) < 5: time.sleep(0.01)
"""
    result = await sandbox.execute(python(code))
    assert result.ok, result.stderr_text
    assert result.receipt.killed_count == 5


async def test_a_hundred_deadlines_leave_nothing(engine, sandbox):
    for turn in range(100):
        result = await sandbox.execute(sh("setsid sleep 9 & sleep 9", timeout_s=0.001 + turn / 5000))
        assert result.exit_cause is ExitCause.TIMEOUT
    assert only_ours(engine, sandbox)


async def test_an_end_and_a_cancellation_at_once_give_one_verdict(engine, sandbox):
    """REDTEAM L3 is the long form of this."""
    for turn in range(120):
        task = asyncio.create_task(sandbox.execute(sh("exit 3", timeout_s=None)))
        await asyncio.sleep(0.0005 * (turn % 12))
        task.cancel()
        try:
            result = await asyncio.wait_for(task, 3)
        except asyncio.CancelledError:
            continue
        assert (result.exit_cause, result.exit_code) == (ExitCause.EXIT, 3)
    assert (await sandbox.execute(sh("true"))).ok
    assert only_ours(engine, sandbox)


async def test_children_that_die_faster_than_they_are_reaped_do_not_hold_the_loop(monkeypatch):
    """Many CPUs can bring it about; PID 1 would be deaf to the host until the watchdog kills everything."""
    reaped = []

    def wait4(pid, flags):
        reaped.append(pid)
        assert len(reaped) < 10_000
        return 4711, 0, None

    monkeypatch.setattr(crew.os, "wait4", wait4)
    first = crew.Crew(Connection(), select.poll())
    first.collect()
    assert len(reaped) >= 128  # no fewer than the usual limit of processes
    assert first.reap_after_s == crew.REAP_OFTEN_S
