"""The pair of a pseudo-terminal: PID 1 keeps the master, the program opens the slave as its controlling terminal."""

from __future__ import annotations

import errno
import fcntl
import os
import struct

UNLOCK, NUMBER, SET_SIZE = 0x40045431, 0x80045430, 0x5414  # TIOCSPTLCK, TIOCGPTN, TIOCSWINSZ
OURS = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


class Pair:
    """A master, a slave that is held open, and the slave's path.

    Without the held one the master would tell of an end as soon as the program has closed its last handle, which it
    may open again by /dev/tty.
    """

    __slots__ = ("held", "master", "path")

    def __init__(self, rows: int, cols: int) -> None:
        """Make it as the user that PID 1 is in this moment, who alone may then open the slave. Raises OSError."""
        self.held = -1
        self.master = -1
        try:
            self.master = os.open("/dev/ptmx", OURS)
            fcntl.ioctl(self.master, UNLOCK, struct.pack("i", 0))
            (number,) = struct.unpack("I", fcntl.ioctl(self.master, NUMBER, bytes(4)))
            self.path = b"/dev/pts/%d" % number
            resize(self.master, rows, cols)
            self.held = os.open(self.path, OURS)
        except OSError as error:
            self.close()
            # Not with its own number: of a spawn, ENOENT and EACCES say that the program is wanting.
            raise OSError(errno.EIO, "no terminal: %s" % error.strerror) from None

    def close(self) -> None:
        """Close both."""
        for handle in (self.master, self.held):
            if handle >= 0:
                os.close(handle)


def resize(master: int, rows: int, cols: int) -> None:
    """Give the terminal a size; its foreground programs get SIGWINCH when it is a new one."""
    fcntl.ioctl(master, SET_SIZE, struct.pack("HHHH", rows, cols, 0, 0))
