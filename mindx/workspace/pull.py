"""Copy out: changed contents come into the run's folder before the container stops, checked and capped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace

from mindx.core.command import WORKSPACE
from mindx.errors import FileError, WorkspaceError
from mindx.sandbox.base import Sandbox
from mindx.workspace.baseline import Baseline
from mindx.workspace.changes import Change, State, compare
from mindx.workspace.copy_in import format_bytes
from mindx.workspace.folder import identity
from mindx.workspace.handle import open_regular, open_root, parent_of, read_chunks
from mindx.workspace.store import BlobStore, ChangesFolder

DEFAULT_CAP_BYTES = 256 * 1024 * 1024
DEFAULT_MAX_ENTRIES = 200_000
MAX_BEFORE_BYTES = 1024 * 1024


async def pull(
    sandbox: Sandbox, changes: Iterable[Change], store: BlobStore, cap_bytes: int = DEFAULT_CAP_BYTES
) -> tuple[Change, ...]:
    """Fetch the new contents into `store`; return the Changes, each with `stored`, or a `note` that says why not.

    Contents come in the order of the Changes until `cap_bytes` in all are reached; a content that does not fit is
    passed over and smaller ones after it still come. Raises SandboxLostError.
    """
    left = cap_bytes
    pulled: list[Change] = []
    for change in changes:
        if not change.has_content or change.blocked or change.after is None:
            pulled.append(change)
        elif change.sha256 in store:
            pulled.append(replace(change, stored=True))
        elif change.size > left:
            note = f"not copied out: with it the contents would be more than {format_bytes(cap_bytes)}"
            pulled.append(replace(change, note=note))
        else:
            note = await _fetch(sandbox, change.path, change.after, store)
            left -= 0 if note else change.size
            pulled.append(replace(change, stored=not note, note=note))
    return tuple(pulled)


async def collect(
    sandbox: Sandbox,
    baseline: Baseline,
    run: ChangesFolder,
    cap_bytes: int = DEFAULT_CAP_BYTES,
    protects: Callable[[str], bool] | None = None,
    max_entries: int = DEFAULT_MAX_ENTRIES,
) -> tuple[Change, ...]:
    """Compare the sandbox with the Baseline, pull what is new, and keep all of it in the run's folder.

    `protects` as in `compare`; `max_entries` is how many names the workspace may hold.

    The folder that was copied in is only read. Raises SandboxLostError, FileError (too many names), OSError.
    """
    found = compare(baseline, await sandbox.manifest(max_entries), protects)
    changes = await pull(sandbox, found, run.blobs, cap_bytes)
    keep_before(baseline, changes, run.blobs)
    run.write_baseline(baseline)
    run.write_changes(changes)
    return changes


def keep_before(baseline: Baseline, changes: Iterable[Change], store: BlobStore) -> None:
    """Keep the old content of changed files up to 1 MiB, for the diff, if the folder still holds it unchanged."""
    changed = [(change.path, change.before) for change in changes if _is_worth_keeping(change)]
    if not baseline.folder or not changed:
        return
    try:
        root = open_root(baseline.folder)
    except OSError:
        return  # the folder is gone: the diff will say that the old content is not at hand
    try:
        if identity(root) == (baseline.device, baseline.inode):
            for path, before in changed:
                if before is not None and before.sha256 not in store:
                    _keep(root, path, before, store)
    finally:
        os.close(root)


def _is_worth_keeping(change: Change) -> bool:
    before = change.before
    return before is not None and before.entry == "file" and before.size <= MAX_BEFORE_BYTES and bool(before.sha256)


def _keep(root: int, path: str, before: State, store: BlobStore) -> None:
    try:
        with parent_of(root, path) as (directory, name):
            handle = open_regular(directory, name)
    except (OSError, ValueError):
        return
    try:
        with store.writer() as writer:
            size = 0
            for chunk in read_chunks(handle):
                size += len(chunk)
                if size > before.size:
                    return  # the user works on it: it is no longer what was copied in
                writer.write(chunk)
            if writer.sha256 == before.sha256:
                writer.keep()
    finally:
        os.close(handle)


async def _fetch(sandbox: Sandbox, path: str, expected: State, store: BlobStore) -> str:
    """Bring one content into the store; return why it did not come, or ""."""
    try:
        with store.writer() as writer:
            size = 0
            async with aclosing(sandbox.fetch(f"{WORKSPACE}/{path}", expected.size)) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    size += len(piece)
                    if size > expected.size:
                        return "not copied out: it changed while it was read"
                    writer.write(piece)
            if size != expected.size or writer.sha256 != expected.sha256:
                return "not copied out: it changed while it was read"
            writer.keep()
    except FileError as error:
        return f"not copied out: {error.message}"
    except OSError as error:
        raise WorkspaceError(
            "run_folder_full", f"the run's folder cannot take {path!a}: {error.strerror}; make room and run again"
        ) from error
    return ""
