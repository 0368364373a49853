"""Floods and oddities of output: nothing is lost without being counted, and the host's memory stays as it was."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path

import pytest

from mindx.core.receipt import ExitCause
from tests.wall.support import MIB, python, sh

pytestmark = pytest.mark.anyio
ALLOWED_BYTES = 64 * MIB


class Memory:
    """How far this process has grown at its highest since `reset`, in bytes."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
        self._before = self._read("VmRSS")

    @staticmethod
    def _read(name: str) -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(name)

    def growth(self) -> int:
        return self._read("VmHWM") - self._before


async def test_a_gibibyte_is_counted_and_marked_and_costs_no_memory(sandbox):
    memory, began = Memory(), time.monotonic()
    result = await sandbox.execute(sh("head -c 1G /dev/zero | tr '\\0' x", max_output_bytes=MIB))
    seconds = time.monotonic() - began
    assert result.ok
    assert (result.receipt.stdout_bytes, result.stdout_truncated) == (1 << 30, True)
    assert b"bytes left out" in result.stdout
    assert len(result.stdout) < MIB + 100
    assert memory.growth() < ALLOWED_BYTES
    whole = hashlib.sha256()
    for _ in range(1024):
        whole.update(b"x" * MIB)
    assert result.receipt.stdout_sha256 == whole.hexdigest()
    assert seconds < 30


async def test_one_line_of_100_mb(sandbox):
    memory = Memory()
    result = await sandbox.execute(python("import sys; sys.stdout.write('x' * 100_000_000)"))
    assert (result.receipt.stdout_bytes, result.stdout_truncated) == (100_000_000, True)
    assert memory.growth() < ALLOWED_BYTES


async def test_writes_of_one_byte(sandbox):
    memory = Memory()
    code = "import os\nfor n in range(100_000): os.write(1, b'ab'[n % 2 : n % 2 + 1])"
    result = await sandbox.execute(python(code, max_output_bytes=MIB))
    assert (result.stdout, result.truncated) == (b"ab" * 50_000, False)
    small = await sandbox.execute(python(code, max_output_bytes=1000))
    assert (small.receipt.stdout_bytes, small.stdout[:4], small.stdout[-4:]) == (100_000, b"abab", b"abab")
    assert memory.growth() < ALLOWED_BYTES


async def test_every_byte_comes_through(sandbox):
    data = bytes(range(256)) * 40 + b"\xff\xfe\x00\x1b]0;title\x07\r\n\xe2\x80\xae"
    result = await sandbox.execute(python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", stdin=data))
    assert (result.stdout, result.truncated) == (data, False)
    assert isinstance(result.stdout_text, str)


async def test_a_flood_on_stderr_is_apart(sandbox):
    memory = Memory()
    result = await sandbox.execute(sh("echo out; head -c 300M /dev/zero >&2; echo done", max_output_bytes=100_000))
    assert (result.stdout, result.stdout_truncated) == (b"out\ndone\n", False)
    assert (result.receipt.stderr_bytes, result.stderr_truncated) == (300 * MIB, True)
    assert memory.growth() < ALLOWED_BYTES


async def test_a_listener_that_is_slow_slows_the_program_and_loses_nothing(sandbox):
    memory, heard = Memory(), hashlib.sha256()

    def listen(stream: str, data: bytes) -> None:
        heard.update(data)
        time.sleep(0.01)

    size = 20 * MIB
    result = await sandbox.execute(sh(f"head -c {size} /dev/zero", max_output_bytes=32 * MIB), listen)
    assert (len(result.stdout), result.truncated) == (size, False)
    assert heard.hexdigest() == result.receipt.stdout_sha256
    assert memory.growth() < ALLOWED_BYTES + 2 * size


async def test_a_host_that_stands_still_for_a_while_loses_no_command(sandbox):
    task = asyncio.create_task(sandbox.execute(sh("head -c 30M /dev/zero; exec sleep 60", timeout_s=1)))
    await asyncio.sleep(0.1)
    time.sleep(7)  # noqa: ASYNC251 - longer than the deadline and the grace together
    result = await task
    assert result.exit_cause is ExitCause.TIMEOUT
    assert result.receipt.stdout_bytes == 30 * MIB


async def test_what_came_before_the_deadline_is_there(sandbox):
    result = await sandbox.execute(sh("echo first; echo second >&2; sleep 60; echo never", timeout_s=0.5))
    assert (result.exit_cause, result.stdout, result.stderr) == (ExitCause.TIMEOUT, b"first\n", b"second\n")


async def test_a_flood_ends_at_its_deadline(sandbox):
    result = await sandbox.execute(sh("exec yes", timeout_s=1, max_output_bytes=1000))
    assert result.exit_cause is ExitCause.TIMEOUT
    assert result.receipt.stdout_bytes > MIB
    assert result.receipt.duration_s < 3


@pytest.mark.parametrize("cap", [0, 1, 2, 7, 1000])
async def test_small_caps_are_kept_to_the_byte(sandbox, cap):
    result = await sandbox.execute(sh("seq 2000", max_output_bytes=cap))
    whole = "".join(f"{n}\n" for n in range(1, 2001)).encode()
    assert result.receipt.stdout_sha256 == hashlib.sha256(whole).hexdigest()
    assert result.stdout_truncated
    marker = result.stdout.index(b"\n[mindx: ")
    assert whole.startswith(result.stdout[:marker])
    assert f"{len(whole) - cap} bytes".encode() in result.stdout
