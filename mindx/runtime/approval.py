"""Asking a person, and remembering a yes for exactly what it was given for."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path

from mindx.core.action import ActionRequest
from mindx.core.approval import ApprovalRequest, ApprovalResult, ApprovalScope
from mindx.core.protocols import HumanApprovalHandler
from mindx.errors import StateError

__all__ = ["ApprovalDesk", "ApprovalMemory", "ApprovalResult"]


class ApprovalMemory:
    """The keys that a person said yes to for longer than once. `path` keeps them beyond this process, or is None.

    Raises StateError when the file cannot be read or written; a torn last line is left out.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._keys: set[str] = set() if path is None else _read(path)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str) -> None:
        """Remember a key, on the disk too before it counts."""
        if key in self._keys:
            return
        if self._path is not None:
            _append(self._path, key)
        self._keys.add(key)


class ApprovalDesk:
    """Asks the handler, unless the exact arguments were approved before: in `session`, or for good in `always`."""

    def __init__(
        self,
        handler: HumanApprovalHandler | None,
        session: ApprovalMemory | None = None,
        always: ApprovalMemory | None = None,
    ) -> None:
        self.handler = handler
        self._session = session or ApprovalMemory()
        self._always = always or ApprovalMemory()

    def remembered(self, key: str) -> bool:
        """Return whether this very thing was approved for longer than once."""
        return bool(key) and (key in self._session or key in self._always)

    async def ask(self, request: ApprovalRequest) -> ApprovalResult:
        """Return the person's answer. Whatever a handler answers but True or an approving result is a no."""
        assert self.handler is not None
        answer = self.handler(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, ApprovalResult):
            return answer
        return ApprovalResult(answer is True)

    def remember(self, result: ApprovalResult, action: ActionRequest) -> None:
        """Keep a yes for the arguments that were really approved, if it holds for longer than once.

        A `rule_key` that the person named replaces the digest only when it is that digest: a yes never widens.
        """
        if not result.approved or result.scope is ApprovalScope.ONCE:
            return
        memory = self._session if result.scope is ApprovalScope.SESSION else self._always
        memory.add(action.digest)


def _read(path: Path) -> set[str]:
    try:
        text = path.read_text("utf-8", "replace") if path.exists() else ""
    except OSError as error:
        raise StateError("approvals_unreadable", f"the approvals in {path} cannot be read: {error.strerror}") from error
    keys: set[str] = set()
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        try:
            keys.add(str(json.loads(line)["key"]))
        except (ValueError, KeyError, TypeError):
            continue  # what cannot be read is no yes
    return keys


def _append(path: Path, key: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(handle, f"{json.dumps({'key': key})}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise StateError("approvals_unwritable", f"{path} cannot be written: {error.strerror}") from error
