"""Options that several verbs share, and the input that they name."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mindx.errors import InputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
MAX_PLAN_BYTES = 32 * 1024 * 1024


def complete_file(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_policy(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the presets that begin so; where none does, the shell completes the name of a file."""
    from click.shell_completion import CompletionItem

    from mindx.policy.load import PRESETS

    presets = [CompletionItem(name) for name in PRESETS if name.startswith(incomplete)]
    return presets or complete_file(ctx, parameter, incomplete)


policy_option = click.option(
    "--policy",
    metavar="P",
    shell_complete=complete_policy,
    help="A preset (default, read-only, python-dev, ci-eval) or the path of a policy file.",
)
workspace_option = click.option(
    "--workspace",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A folder to copy into the container; it is never mounted. Without it the workspace is empty.",
)
autonomous_option = click.option("--autonomous", is_flag=True, help="Grant the removal of files (rm).")
image_option = click.option("--image", metavar="NAME", help="Use this image instead of the policy's.")
approve_option = click.option(
    "--approve-from",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Answers to what the policy asks about, instead of a person at the terminal.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout, and nothing else."
)


def read_plan(plan: str) -> bytes:
    """Return the text of a plan file, or of standard input for `-`. Raises InputError."""
    try:
        if plan == "-":
            if sys.stdin is None:
                raise InputError("plan_unreadable", "standard input is closed; name a plan file")
            data = sys.stdin.buffer.read(MAX_PLAN_BYTES + 1)
        else:
            data = _read_file(plan)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("plan_unreadable", f"the plan {plan} cannot be read: {reason}; name a plan file") from None
    if len(data) > MAX_PLAN_BYTES:
        raise InputError("plan_too_big", f"the plan {plan} is larger than {MAX_PLAN_BYTES // 1024**2} MiB")
    return data


def _read_file(name: str) -> bytes:
    """Read a regular file, or a pipe as the shell's `<(...)` gives it; a device would have no end."""
    # Without O_NONBLOCK a FIFO that nobody writes to would hold us before we can look at it.
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(0, "it is a directory")
        if not (stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and _is_descriptor(name))):
            raise OSError(0, "it is no regular file")
        os.set_blocking(handle, True)
        return file.read(MAX_PLAN_BYTES + 1)


def _is_descriptor(name: str) -> bool:
    return name.startswith(("/dev/fd/", "/proc/self/fd/")) or name == "/dev/stdin"
