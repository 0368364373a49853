"""Leaves: what a shell line does, one by one; and why a line cannot be judged."""

from __future__ import annotations

from mindx.core.frozen import dataclass
from mindx.policy.words import Argv


class ShellFault(Exception):
    """A line cannot be judged: `reason`, and the place as line and column from 1."""

    def __init__(self, reason: str, place: tuple[int, int]) -> None:
        super().__init__(f"{reason} (line {place[0]}, column {place[1]})")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One thing that a line does: a program with its words, or (`line`) a line for another shell.

    `env` are the variables set for it alone. `stands_for` says what is judged as this program (a redirection).
    `files` are paths that it writes by redirection, as written.
    """

    argv: Argv = ()
    place: tuple[int, int] = (1, 1)
    env: tuple[tuple[str, str], ...] = ()
    line: str | None = None
    stands_for: str = ""
    file: str | None = None
