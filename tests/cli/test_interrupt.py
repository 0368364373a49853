"""Signals and asynchronous work, in a process of their own."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys
from mindx.cli.errors import guarded
from mindx.cli.interrupt import run_async

async def work():
    print("working", flush=True)
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        print("cleaning", flush=True)
        for _ in range(2):  # cleaning up goes on, whatever is asked of it
            try:
                await asyncio.sleep({cleaning_s})
            except asyncio.CancelledError:
                pass
        print("clean", flush=True)
        raise

sys.exit(guarded(lambda: run_async(work)))
"""


def start(cleaning_s):
    program = PROGRAM.replace("{cleaning_s}", str(cleaning_s))
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_once_ends_it_cleanly(number):
    with start(0) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "cleaning\nclean\n")
    assert "Traceback" not in stderr


def test_twice_ends_it_at_once():
    with start(100) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "cleaning\n"
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    assert "once more" in stderr


def test_a_signal_that_our_parent_ignores_stays_ignored():
    program = PROGRAM.replace("asyncio.sleep(100)", "asyncio.sleep(1)").replace("{cleaning_s}", "0")
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    with process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == 0
