"""Receipts: peak memory, refused processes and throttling, as the kernel counted them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mindx.core.command import Exec
from mindx.core.receipt import ExecResult
from mindx.sandbox.docker import DockerSandbox

MIB = 1 << 20
TWO_BESIDE = """
import subprocess, sys
program = "import sys; b = bytearray(80 << 20); print(1, flush=True); sys.stdin.read()"
both = [subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1) for _ in range(2)]
for one in both: one.stdout.readline()
for one in both: one.communicate()
"""
FORKS = """
import os, time
try:
    while True:
        if os.fork() == 0: time.sleep(60)
except OSError:
    pass
"""


def run(*commands: tuple[str, ...]) -> list[ExecResult]:
    async def go() -> list[ExecResult]:
        async with DockerSandbox() as sandbox:
            return [await sandbox.execute(Exec(argv, timeout_s=20)) for argv in commands]

    return asyncio.run(go())


def test_the_largest_process_is_measured_and_a_small_one_is_not_guessed(ready: None) -> None:
    small, large, again = run(("true",), ("python3", "-c", "b = bytearray(200 << 20)"), ("true",))
    assert 200 * MIB <= large.receipt.max_rss_bytes <= 225 * MIB
    assert small.receipt.max_rss_bytes == 0
    assert again.receipt.max_rss_bytes == 0


def test_the_size_of_pid_1_is_not_taken_for_the_program_s(ready: None) -> None:
    flood = "import sys; sys.stdout.write('x' * 8_000_000)"

    async def go() -> ExecResult:
        async with DockerSandbox() as sandbox:
            await sandbox.execute(Exec(("python3", "-c", flood), max_output_bytes=8 << 20))
            return await sandbox.execute(Exec(("true",)))

    assert asyncio.run(go()).receipt.max_rss_bytes == 0


def test_processes_side_by_side_show_in_the_container_s_peak(ready: None) -> None:
    both, small, more = run(("python3", "-c", TWO_BESIDE), ("true",), ("python3", "-c", "b = bytearray(400 << 20)"))
    assert both.ok
    assert both.receipt.max_rss_bytes < 110 * MIB
    assert 160 * MIB <= both.receipt.memory_peak_bytes < 260 * MIB
    assert small.receipt.memory_peak_bytes == 0
    assert more.receipt.memory_peak_bytes >= 400 * MIB


def test_refused_processes_are_counted(ready: None) -> None:
    forks, quiet = run(("python3", "-c", FORKS), ("true",))
    assert forks.receipt.pids_refused > 0
    assert quiet.receipt.pids_refused == 0


def test_throttling_is_counted(sabotage: Callable[[Callable[[dict[str, Any]], None]], None]) -> None:
    def quota(host: dict[str, Any]) -> None:
        host["CpuPeriod"], host["CpuQuota"] = 50_000, 10_000

    sabotage(quota)
    spin = "import time\nwhile time.process_time() < 0.4: pass"
    (result,) = run(("python3", "-c", spin))
    assert result.ok
    assert result.receipt.throttled_s > 0  # how much depends on what else this machine does


def test_without_a_quota_nothing_is_throttled(ready: None) -> None:
    (result,) = run(("python3", "-c", "sum(range(1_000_000))"))
    assert result.receipt.throttled_s == 0


def test_a_kill_for_memory_is_counted_though_the_program_hid_it(ready: None) -> None:
    hidden = "python3 -c 'b = bytearray(3 << 30)' 2>/dev/null; exit 0"
    (result,) = run(("sh", "-c", hidden))
    assert result.receipt.oom_kills >= 1
    assert result.exit_code == 0
    assert not result.ok
