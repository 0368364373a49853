"""What a task's folder looks like now: its names, and what its git repository says of itself.

No git ever runs on the host: on a tree that an agent has written, `git status` runs what the tree says (hooks of
core.fsmonitor, filters). HEAD is read as a plain file, by handle; the status comes from git inside the container.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindx.core.command import WORKSPACE, Exec
from mindx.core.output import plain_text
from mindx.errors import MindxError
from mindx.sandbox.base import Sandbox
from mindx.tools.workspace.paths import WorkspacePathError, WorkspacePathResolver

MAX_NAMES = 200
MAX_STATUS_LINES = 100
MAX_STATUS_BYTES = 64 * 1024
STATUS_TIMEOUT_S = 20.0
_MAX_HEAD_BYTES = 4096
_MAX_PACKED_BYTES = 4 * 1024 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"refs/[A-Za-z0-9_./+@-]{1,200}")

OpenSandbox = Callable[[], Awaitable[Sandbox]]


@dataclass(frozen=True, slots=True)
class WorkspaceFacts:
    """`names` are the folder's own names (`/` after a folder, `@` after a link), `more` is True when some are left out.

    `branch` and `head` are "" where there is none, or it could not be read. `status` holds git's short lines, None
    when nobody has asked git; `notes` say what could not be found out, and why.
    """

    names: tuple[str, ...] = ()
    more: bool = False
    branch: str = ""
    head: str = ""
    status: tuple[str, ...] | None = None
    status_more: bool = False
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "names": list(self.names),
            "more_names": self.more,
            "git_branch": self.branch,
            "git_head": self.head,
            "git_status": None if self.status is None else list(self.status),
            "more_git_status": self.status_more,
            "notes": list(self.notes),
        }


def host_facts(folder: str | Path | None) -> WorkspaceFacts:
    """Return what the folder itself tells; never raises for what is in it. It blocks: call it in a thread."""
    if folder is None:
        return WorkspaceFacts(notes=("the task has no folder",))
    try:
        resolver = WorkspacePathResolver(folder)
        names, more = resolver.listing(".", MAX_NAMES)
    except WorkspacePathError as error:
        return WorkspaceFacts(notes=(error.message,))
    facts = WorkspaceFacts(tuple(map(plain_text, names)), more)
    if ".git/" not in names:
        return facts
    try:
        branch, head = _head(resolver)
    except WorkspacePathError as error:
        return replace(facts, notes=(f"HEAD could not be read: {error.message}",))
    return replace(facts, branch=branch, head=head)


async def with_status(facts: WorkspaceFacts, open_sandbox: OpenSandbox | None) -> WorkspaceFacts:
    """Return the facts with the status that git in the container gives; a failure is a note, never an exception."""
    if not facts.head and not facts.branch:
        return facts
    if open_sandbox is None:
        return replace(facts, notes=(*facts.notes, "git was not asked for the status: there is no container"))
    command = Exec(
        # Optional locks would make git write to the repository only because somebody looked.
        ("git", "--no-optional-locks", "status", "--porcelain=v1", "-z"),
        cwd=WORKSPACE,
        timeout_s=STATUS_TIMEOUT_S,
        max_output_bytes=MAX_STATUS_BYTES,
    )
    try:
        ran = await (await open_sandbox()).execute(command)
    except MindxError as error:
        return replace(facts, notes=(*facts.notes, f"git was not asked for the status: {error.message[:300]}"))
    if not ran.ok:
        reason = ran.stderr_text.strip()[:300] or ran.exit_cause.value
        return replace(facts, notes=(*facts.notes, f"git gave no status: {reason}"))
    lines = [line.decode("utf-8", "backslashreplace") for line in ran.stdout.split(b"\0") if line]
    kept = tuple(lines[:MAX_STATUS_LINES])
    return replace(facts, status=kept, status_more=len(lines) > len(kept) or ran.stdout_truncated)


def _head(resolver: WorkspacePathResolver) -> tuple[str, str]:
    """Return the branch and the commit that HEAD names, "" for what is not there or is no name git would write."""
    text = resolver.read(".git/HEAD", _MAX_HEAD_BYTES).decode("ascii", "replace").strip()
    if _COMMIT.fullmatch(text):
        return "", text
    ref = text[5:].strip() if text.startswith("ref: ") else ""
    if not _REF.fullmatch(ref) or ".." in ref:
        return "", ""
    branch = ref.removeprefix("refs/heads/")
    try:
        commit = resolver.read(f".git/{ref}", _MAX_HEAD_BYTES).decode("ascii", "replace").strip()
    except WorkspacePathError as error:
        if error.code != "path_missing":
            raise
        commit = _packed(resolver, ref)
    return branch, commit if _COMMIT.fullmatch(commit) else ""


def _packed(resolver: WorkspacePathResolver, ref: str) -> str:
    try:
        text = resolver.read(".git/packed-refs", _MAX_PACKED_BYTES).decode("ascii", "replace")
    except WorkspacePathError as error:
        if error.code != "path_missing":
            raise
        return ""
    for line in text.splitlines():
        commit, _, name = line.partition(" ")
        if name.strip() == ref:
            return commit
    return ""
