"""SimpleCoder's search: find and grep do it in the container, as the agent's own user.

What is searched for reaches neither the guest nor the host as a pattern: what it costs is the container's, within the
session's deadline.
"""

from __future__ import annotations

import posixpath
from typing import Any

from mindx.core.command import WORKSPACE
from mindx.core.receipt import ExecResult, ExitCause

MAX_ITEMS = 1000
MAX_LINE = 300  # characters of a line that is shown


def search_argv(text: str, root: str, names: bool) -> tuple[str, ...]:
    """Return the program that searches below `root` (absolute). Pure."""
    if names:
        pattern = text if any(char in text for char in "*?[") else f"*{text}*"
        return ("find", root, "-mindepth", "1", "-name", ".git", "-prune", "-o", "-name", pattern, "-print0")
    return ("grep", "-rnIZF", "--exclude-dir=.git", "-e", text, "--", root)


def was_searched(execution: ExecResult, names: bool) -> bool:
    """Return True when the search was done: grep ends with 1 when nothing matches, find when something failed."""
    return execution.exit_cause is ExitCause.EXIT and execution.exit_code in ((0,) if names else (0, 1))


def found(execution: ExecResult, names: bool, cwd: str) -> dict[str, Any]:
    """Return `items`, paths as seen from `cwd`, and `truncated` when there was more."""
    items = _names(execution.stdout, cwd) if names else _lines(execution.stdout, cwd)
    result: dict[str, Any] = {"items": items[:MAX_ITEMS]}
    if len(items) > MAX_ITEMS or execution.truncated:
        result["truncated"] = True
    return result


def _names(data: bytes, cwd: str) -> list[str]:
    # What follows the last NUL was cut.
    return sorted(_shown(raw, cwd) for raw in data.split(b"\0")[:-1] if raw.startswith(b"/"))


def _lines(data: bytes, cwd: str) -> list[str]:
    """Read grep's `path NUL number : text` lines; what is none, as where a long output was cut, is left out."""
    items = []
    for raw in data.split(b"\n"):
        path, separator, rest = raw.partition(b"\0")
        number, colon, text = rest.partition(b":")
        if separator and colon and number.isdigit() and path.startswith(b"/"):
            line = text.decode("utf-8", "backslashreplace").strip()
            items.append(f"{_shown(path, cwd)}:{number.decode()}: {line[:MAX_LINE]}")
    return items


def _shown(path: bytes, cwd: str) -> str:
    text = path.decode("utf-8", "backslashreplace")
    return posixpath.relpath(text, cwd) if f"{text}/".startswith(f"{WORKSPACE}/") else text
