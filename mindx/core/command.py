"""Commands: the requests that cross the wall, and nothing else does.

Paths are absolute POSIX paths inside the container, normalised, under WORKSPACE; names that are not
UTF-8 carry surrogate escapes (PEP 383).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from mindx.core.frozen import dataclass

WORKSPACE = "/workspace"
DEFAULT_TIMEOUT_S = 60.0
DEFAULT_MAX_OUTPUT_BYTES = 1024 * 1024
MAX_TERMINAL = 1000  # rows, and columns


@dataclass(frozen=True, slots=True)
class Terminal:
    """The size of a terminal: rows and columns, each 1 to MAX_TERMINAL."""

    rows: int = 24
    cols: int = 80

    @property
    def fits(self) -> bool:
        """Whether a terminal can have this size."""
        return 1 <= self.rows <= MAX_TERMINAL and 1 <= self.cols <= MAX_TERMINAL


@dataclass(frozen=True, slots=True)
class Exec:
    """Run one program, never through a shell.

    `argv` is not empty; `argv[0]` is a bare program name, looked up in the image's own system folders.
    `executable`, if given, is the absolute path to start instead (an activated virtual environment's interpreter).
    `env` is added to the container's fixed variables. `timeout_s` None means no deadline.
    `max_output_bytes` caps what is kept of each stream: head and tail are kept, the rest is counted.
    `tells_files` has the Receipt name the files that changed, at the price of a look at each file of the workspace.
    `terminal`, for what starts in the background only, is the program's controlling terminal; all output is stdout
    then, of which the first `max_output_bytes` are kept, and `stdin` comes before what is sent later.
    """

    argv: tuple[str, ...]
    cwd: str = WORKSPACE
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES
    executable: str | None = None
    tells_files: bool = False
    terminal: Terminal | None = None


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Read a regular file of at most `max_bytes` bytes; a larger one is an error, not a cut."""

    path: str
    max_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Replace or create a regular file at once (a temporary file, then a rename); parents must exist.

    `mode` None keeps the mode of a file that exists, else 0o664.
    """

    path: str
    data: bytes
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class ListDir:
    """List one directory."""

    path: str


@dataclass(frozen=True, slots=True)
class MakeDir:
    """Make a directory and its missing parents; one that exists is left as it is."""

    path: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove one regular file or link; a directory is an error (EISDIR)."""

    path: str


@dataclass(frozen=True, slots=True)
class Stat:
    """Look at one path without following a link at its end."""

    path: str


FileCommand = ReadFile | WriteFile | ListDir | MakeDir | Remove | Stat
Command = Exec | FileCommand
