"""A program's start on three handles, as whoever PID 1 is at the moment: vfork and one exec.

That takes 0.4 ms, where a fork costs more with every MiB of the parent. `os.posix_spawn` does it, but glibc's sets 62
signals and maps a stack for each child; what `subprocess` itself calls leaves the signals alone and is 20 us cheaper.
That call is private, and its arguments are known for the versions of Python that are named here.
"""

from __future__ import annotations

import os
import sys

IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE and SIGXFSZ: the child gets the default back
_PRIVATE_CALL = (3, 11) <= sys.version_info[:2] <= (3, 13)

if _PRIVATE_CALL:
    import _posixsubprocess

    fork_exec = vars(_posixsubprocess)["fork_exec"]  # its stub is another version's


def mapping_of(environment: list[bytes]) -> dict[bytes, bytes]:
    """Return texts `name=value` as a mapping; of two with one name the last holds."""
    found = {}
    for text in environment:
        name, _, value = text.partition(b"=")
        found[name] = value
    return found


def with_variables(environment: list[bytes], variables: dict[bytes, bytes]) -> list[bytes]:
    """Return the environment with these variables set."""
    return [b"%b=%b" % item for item in {**mapping_of(environment), **variables}.items()]


class Launcher:
    """Starts programs as leaders of sessions of their own."""

    def __init__(self) -> None:
        self.start = self.start_by_fork_exec if _PRIVATE_CALL else self.start_by_posix_spawn

    def start_by_posix_spawn(
        self, path: bytes, argv: list[bytes], environment: list[bytes], stdin: int, stdout: int, stderr: int
    ) -> int:
        """Start a program on its three streams and return its pid. Raises OSError with the errno of the exec."""
        return os.posix_spawn(
            path,
            argv,
            mapping_of(environment),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigdef=IGNORED_BY_PYTHON,
        )

    def start_by_fork_exec(
        self, path: bytes, argv: list[bytes], environment: list[bytes], stdin: int, stdout: int, stderr: int
    ) -> int:
        """Do the same by the call of `subprocess`. It cuts a variable at a NUL, which no request can hold."""
        close_others, restore_signals, new_session, by_vfork = False, True, True, True
        # A child writes here why it could not become the program. Each has a pipe of its own: when a vfork is refused
        # for want of a slot, Python forks, and such a child may tell it when the next is on its way.
        trouble, trouble_end = os.pipe()
        try:
            pid = fork_exec(
                argv,
                (path,),
                close_others,
                (),
                None,  # the current folder
                environment,
                *(stdin, -1, -1, stdout, -1, stderr),
                *(trouble, trouble_end),
                restore_signals,
                new_session,
                *(-1, None, None, None, -1),  # group, ids and umask are the parent's
                None,
                by_vfork,
            )
            os.close(trouble_end)
            trouble_end = -1
            said = piece = os.read(trouble, 256)  # nothing once the child has become the program
            while piece:
                piece = os.read(trouble, 256)
                said += piece
        finally:
            os.close(trouble)
            if trouble_end >= 0:
                os.close(trouble_end)
        if not said:
            return int(pid)
        os.waitpid(pid, 0)
        number = int(said.split(b":")[1], 16)  # `OSError:2:`
        raise OSError(number, os.strerror(number))
