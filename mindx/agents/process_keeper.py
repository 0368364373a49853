"""Keeps one worker's process and all that it starts, and leaves nothing of them behind; standard library only.

Its host starts `python process_keeper.py COMMAND...` (`kept` returns that) and holds its standard input. When that is
closed (also because the host was killed), when the worker ends, or at SIGTERM, everything below the keeper is killed:
as the subreaper it is the parent of whatever lost its own. Its exit code is the worker's, or 128 and the number of a
signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_STARTED = 127


def kept(command: Sequence[str]) -> tuple[str, ...]:
    """Return the argv that runs a command below a keeper, which imports nothing of the folder it is started in."""
    return (sys.executable, "-I", os.path.abspath(__file__), *command)


def main(command: list[str]) -> int:
    """Run the command to its end, or to that of standard input."""
    adopt_orphans()
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)
    try:
        worker = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_keeper,  # this process has one thread, so it may run code before the exec
        )
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)
        return NOT_STARTED
    while worker.poll() is None:
        ready, _, _ = select.select([0, reading], [], [])
        if 0 in ready and not os.read(0, 1):
            break
        if reading in ready and set(os.read(reading, 4096)) != {signal.SIGCHLD}:
            break
    code = worker.returncode
    end_all(worker.pid)
    if code is None:
        return 128 + signal.SIGKILL
    return code if code >= 0 else 128 - code


def adopt_orphans() -> None:
    """Become the parent of every process below whose own parent dies; only Linux can do that."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_keeper() -> None:
    """Have the system kill this process when the keeper is killed, which then ends nothing itself."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def end_all(worker: int) -> None:
    """Kill all that is below and wait for the last of it; what is born meanwhile is found at the next look."""
    while True:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker, signal.SIGKILL)
        for pid in below(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def below(top: int) -> list[int]:
    """Return the processes below one, as /proc tells; none where there is no /proc."""
    parents: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found: list[int] = []
    seen = {top}
    grown = True
    while grown:
        grown = False
        for pid, parent in parents.items():
            if parent in seen and pid not in seen:
                seen.add(pid)
                found.append(pid)
                grown = True
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
