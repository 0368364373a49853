"""A program in a terminal gets nothing beyond it: no other's terminal, no hold on PID 1, and nothing stays."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from mindx.core.command import Terminal
from mindx.core.receipt import ExitCause
from mindx.errors import SandboxError
from mindx.guest import wire
from mindx.guest.connection import Connection
from mindx.guest.streams import OutputStream
from mindx.guest.terminal import Pair
from tests.wall.support import only_ours, python, sh, top

pytestmark = pytest.mark.anyio
FOR_EVER = {"timeout_s": None, "terminal": Terminal()}
THE_END = 1 << 60
PATIENCE_S = 20.0


async def shows(sandbox, name: str, wanted: bytes) -> bytes:
    """Return the output so far once it holds `wanted`, or all of it when the program has ended."""
    state = await sandbox.poll_background(name)
    while wanted not in state.stdout and state.running:
        before = len(state.stdout)
        state = await sandbox.await_background(name, before, PATIENCE_S)
        assert len(state.stdout) > before or not state.running, state.stdout
    assert wanted in state.stdout, state.stdout
    return state.stdout


async def output(sandbox, command) -> bytes:
    state = await sandbox.await_background(await sandbox.start_background(command), THE_END, PATIENCE_S)
    assert not state.running
    return state.stdout


async def test_it_is_the_controlling_terminal_of_the_slots_own_user(make):
    script = """
import os, stat
found = os.fstat(0)
print(os.getpid() == os.getsid(0) == os.tcgetpgrp(0), os.isatty(0) and os.isatty(1) and os.isatty(2))
print(found.st_uid == os.getuid(), oct(stat.S_IMODE(found.st_mode)), os.environ["TERM"])
print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1])
os.close(0), os.close(1), os.close(2)
again = os.open("/dev/tty", os.O_RDWR)
os.write(again, b"heard again\\n")
"""
    async with make(background=1) as sandbox:
        lines = (await output(sandbox, python(script, terminal=Terminal()))).decode().split("\r\n")
        assert lines == ["True True", "True 0o620 xterm", "[0, 1, 2]", "heard again", ""]


async def test_real_programs_talk_as_with_a_person(make):
    async with make(background=2) as sandbox:
        name = await sandbox.start_background(sh("exec python3 -i -q", **FOR_EVER))
        await shows(sandbox, name, b">>> ")
        await sandbox.send_background(name, b"print(6 * 7)\r")
        await shows(sandbox, name, b"\r\n42\r\n>>> ")
        await sandbox.send_background(name, b"import time; print('in' 'side'); time.sleep(1000)\r")
        await shows(sandbox, name, b"inside")  # what is typed ahead of ^C is thrown away by it, as at any terminal
        await sandbox.send_background(name, b"\x03")
        await shows(sandbox, name, b"KeyboardInterrupt")
        await sandbox.send_background(name, b"exit(3)\r")
        state = await sandbox.await_background(name, THE_END, PATIENCE_S)
        assert state.result.receipt.exit_code == 3
        shell = await sandbox.start_background(sh("exec bash --norc -i", **FOR_EVER))
        await sandbox.send_background(shell, b"sleep 100 & jobs; echo job con''trol\r")
        assert b"Running" in await shows(sandbox, shell, b"job control")
        inside = b"import time; print('in' 'side', flush=True); time.sleep(100)"
        await sandbox.send_background(shell, b'python3 -c "%s"; echo back:$?\r' % inside)
        await shows(sandbox, shell, b"inside\r\n")
        await sandbox.send_background(shell, b"\x1a")
        await shows(sandbox, shell, b"back:148")


async def test_a_full_screen_in_raw_mode_hears_keys_and_a_new_size(make):
    screen = """
import os, signal, sys, tty
tty.setraw(0)
def drawn(*_):
    size = os.get_terminal_size()
    os.write(1, b"\\x1b[2J\\x1b[Hsize %d %d" % (size.lines, size.columns))
signal.signal(signal.SIGWINCH, drawn)
drawn()
while (key := os.read(0, 8)) != b"q":
    os.write(1, b"key " + key.hex().encode())
"""
    async with make(background=1) as sandbox:
        name = await sandbox.start_background(python(screen, timeout_s=None, terminal=Terminal(10, 20)))
        await shows(sandbox, name, b"size 10 20")
        await sandbox.resize_background(name, Terminal(33, 44))
        await shows(sandbox, name, b"size 33 44")
        await sandbox.send_background(name, b"\x1b[A")
        await shows(sandbox, name, b"key 1b5b41")
        await sandbox.send_background(name, b"\x03")
        await shows(sandbox, name, b"key 03")  # in raw mode it is a key like any
        await sandbox.send_background(name, b"q")
        state = await sandbox.await_background(name, THE_END, PATIENCE_S)
        assert (state.result.ok, state.result.receipt.killed_count) == (True, 0)


async def test_what_ignores_the_hang_up_is_killed_and_nothing_stays(engine, make):
    stubborn = "trap '' HUP INT TERM QUIT; (setsid sleep 1000 &) ; sleep 1000 & echo on; while :; do sleep 1; done"
    async with make(background=1) as sandbox:
        name = await sandbox.start_background(sh(stubborn, **FOR_EVER))
        await shows(sandbox, name, b"on\r\n")
        await sandbox.send_background(name, b"\x03\x1c\x04")
        result = (await sandbox.stop_background(name)).result
        assert result.exit_cause is ExitCause.CANCELLED
        assert result.receipt.killed_count >= 3
        assert only_ours(engine, sandbox), top(engine, sandbox)


async def test_a_deadline_ends_it(engine, make):
    async with make(background=1) as sandbox:
        raw = python("import tty, time; tty.setraw(0); print('on', flush=True); time.sleep(1000)",
                     timeout_s=0.5, terminal=Terminal())  # fmt: skip
        state = await sandbox.await_background(await sandbox.start_background(raw), THE_END, PATIENCE_S)
        assert state.result.exit_cause is ExitCause.TIMEOUT
        assert only_ours(engine, sandbox)


async def test_nobody_else_opens_it_and_it_opens_nobody_elses(make):
    grab = """
import os, sys
for path in ("/dev/pts/0", "/dev/pts/1", "/dev/tty"):
    for mode in (os.O_RDONLY, os.O_WRONLY):
        try:
            print("OPENED", path, os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY))
        except OSError as error:
            print(error.strerror)
for place in ("/proc/1/fd", "/proc/1/task/1/fd"):
    try:
        print("LISTED", os.listdir(place))
    except OSError as error:
        print(error.strerror)
"""
    async with make(background=3) as sandbox:
        first = await sandbox.start_background(sh("echo on; cat", **FOR_EVER))
        await shows(sandbox, first, b"on")
        foreground = (await sandbox.execute(python(grab))).stdout_text
        beside = (await output(sandbox, python(grab))).decode()
        for said in (foreground, beside):
            assert said.splitlines() == (
                ["Permission denied"] * 2 + ["No such file or directory"] * 2
                + ["No such device or address"] * 2 + ["Permission denied"] * 2
            )  # fmt: skip
        in_one = (await output(sandbox, python(grab, terminal=Terminal()))).decode().splitlines()
        assert in_one[:2] == ["Permission denied"] * 2
        assert sum("OPENED /dev/pts/1" in line or "OPENED /dev/tty" in line for line in in_one) == 4  # its own
        assert b"OPENED" not in (await sandbox.poll_background(first)).stdout


async def test_typing_into_a_terminal_from_within_is_refused(make):
    inject = """
import fcntl, os, struct
for name, code, value in (("TIOCSTI", 0x5412, b"x"), ("TIOCSTI", 0x100005412, b"x"), ("TIOCLINUX", 0x541C, b"\\x02"),
                          ("TIOCSETD", 0x5423, struct.pack("i", 2)), ("TIOCCONS", 0x541D, b"")):
    try:
        fcntl.ioctl(0, code & 0xFFFFFFFF, value)
        print("DONE", name)
    except OSError as error:
        print(name, error.errno)
"""
    async with make(background=1) as sandbox:
        said = (await output(sandbox, python(inject, terminal=Terminal()))).decode()
        assert said.splitlines() == ["TIOCSTI 1", "TIOCSTI 1", "TIOCLINUX 1", "TIOCSETD 1", "TIOCCONS 1"]


async def test_a_flood_keeps_nobody_waiting_and_is_counted(engine, make):
    async with make(background=2) as sandbox:
        flood = sh("yes | head -c 30000000; echo over", timeout_s=60, max_output_bytes=5000, terminal=Terminal())
        name = await sandbox.start_background(flood)
        for _ in range(20):
            assert (await asyncio.wait_for(sandbox.execute(sh("true")), 5)).ok
        state = await sandbox.await_background(name, THE_END, 60)
        assert state.result.receipt.stdout_bytes == 45_000_006  # each line end is two
        assert len(state.stdout) < 5100
        name = await sandbox.start_background(sh("yes", max_output_bytes=5000, **FOR_EVER))
        await shows(sandbox, name, b"y\r\ny")
        assert (await sandbox.stop_background(name)).result.exit_cause is ExitCause.CANCELLED
        assert only_ours(engine, sandbox)


async def test_the_last_words_of_a_program_are_not_lost(make):
    """The leader of a session ends while its terminal still holds what it has written."""
    async with make(background=1) as sandbox:
        for size in (1, 4095, 4096, 9000, 70_000):
            said = await output(sandbox, python(f"import os; os.write(1, b'x' * {size} + b'.')", terminal=Terminal()))
            assert said == b"x" * size + b"."


def test_the_end_takes_all_that_a_terminal_holds():
    pair, said = Pair(24, 80), []
    try:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(pair.held, b"x" * 100)
                said.append(100)
        assert sum(said) > 4096  # more than one read gives
        stream = OutputStream(Connection(), 1, pair.master, wire.STDOUT, 1 << 20, 0)
        stream.drain()
        assert stream.total >= sum(said)  # the last write may have been taken in part
    finally:
        pair.close()


async def test_a_stopped_output_and_changed_modes_are_its_own_trouble(make):
    modes = """
import sys, termios, time
print("on", flush=True)
found = termios.tcgetattr(0)
for index in range(4):
    found[index] = 0
termios.tcsetattr(0, termios.TCSANOW, found)
termios.tcflow(0, termios.TCOOFF)
time.sleep(1000)
"""
    async with make(background=1) as sandbox:
        name = await sandbox.start_background(python(modes, **FOR_EVER))
        await shows(sandbox, name, b"on")
        await sandbox.send_background(name, b"x" * 1000)
        assert (await sandbox.execute(sh("true"))).ok
        assert (await sandbox.stop_background(name)).result.exit_cause is ExitCause.CANCELLED
        name = await sandbox.start_background(sh("stty -a | head -1; echo fresh", terminal=Terminal()))
        await shows(sandbox, name, b"fresh\r\n")


async def overfill(sandbox, name: str) -> None:
    for _ in range(20):
        await sandbox.send_background(name, b"y" * 60_000)
        await sandbox.execute(sh("true"))  # the guest has had its turn


async def test_what_is_not_read_waits_and_has_a_bound_and_all_that_was_taken_arrives(make):
    reader = """
import os, sys, time, tty
tty.setraw(0)
os.write(1, b"on")
while not os.path.exists("go"):
    time.sleep(0.01)
count = 0
while count < 250_000:
    count += len(os.read(0, 65536).strip(b"y"))
os.write(1, b"counted %d" % count)
"""
    async with make(background=1) as sandbox:
        name = await sandbox.start_background(python(reader, **FOR_EVER))
        await shows(sandbox, name, b"on")
        await sandbox.send_background(name, b"x" * 250_000)
        with pytest.raises(SandboxError) as caught:
            await overfill(sandbox, name)
        assert caught.value.code == "background_stuck"
        assert (await sandbox.execute(sh("touch go"))).ok
        await shows(sandbox, name, b"counted 250000")


async def test_250_terminals_leave_nothing(engine, make):
    count = "import os; print(len(os.listdir('/dev/pts')))"
    async with make(background=2) as sandbox:
        before = (await sandbox.execute(python(count))).stdout
        for number in range(250):
            name = await sandbox.start_background(sh("echo on; exec cat", **FOR_EVER))
            if number % 2:
                await shows(sandbox, name, b"on")
            await sandbox.stop_background(name)
        assert (await sandbox.execute(python(count))).stdout == before
        said = (await output(sandbox, sh("tty", terminal=Terminal()))).decode()
        assert said == "/dev/pts/0\r\n"  # every number is free again
        assert only_ours(engine, sandbox)


async def test_at_the_end_of_the_session_nothing_is_left(engine, make):
    sandbox = make(background=15)
    await sandbox.start()
    for _ in range(15):
        await sandbox.start_background(sh("trap '' HUP TERM; cat", **FOR_EVER))
    await sandbox.close()
    assert not engine.api.containers(all=True, filters={"label": f"mindx.session={sandbox.session_id}"})
