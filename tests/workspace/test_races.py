"""Races: folders and links swapped while mindx reads and writes. No escape, and progress all the same."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mindx.errors import WorkspaceError
from mindx.workspace.apply import apply
from mindx.workspace.changes import Change, State
from mindx.workspace.copy_in import plan_copy
from mindx.workspace.handle import open_regular, open_root, parent_of, read_chunks
from mindx.workspace.store import ChangesFolder
from tests.workspace.support import LIMIT_BYTES, fill, listing

_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _EXCHANGE = -100, 2
SECRET = b"canary-7f1d"


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[Callable[[], int]]:
    """Exchange two names over and over in a thread; gives a function that tells how often."""
    first, second = os.fsencode(one), os.fsencode(other)
    stop, count = threading.Event(), 0

    def swap() -> None:
        nonlocal count
        while not stop.is_set():
            for _ in range(64):
                if _LIBC.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _EXCHANGE) == 0:
                    count += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield lambda: count
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder `w` whose `d` is swapped with a link to `outside`, where the canary lies."""
    fill(tmp_path, {"outside/f": SECRET, "w/d/f": "fine", "w/a": "a"})
    (tmp_path / "w" / "link").symlink_to(tmp_path / "outside")
    return tmp_path


def test_reads_by_handle_never_follow_a_swapped_folder(place: Path) -> None:
    root, tries, good = open_root(str(place / "w")), 0, 0
    try:
        with swapping(place / "w" / "d", place / "w" / "link") as swaps:
            until = time.monotonic() + 3
            while time.monotonic() < until or swaps() + tries < 100_000:  # a busy machine takes longer
                tries += 1
                try:
                    with parent_of(root, "d/f") as (directory, name):
                        handle = open_regular(directory, name)
                except OSError:
                    continue
                data = b"".join(read_chunks(handle))
                os.close(handle)
                assert data == b"fine"
                good += 1
    finally:
        os.close(root)
    assert good
    assert good < tries, "the swaps were never met: the test shows nothing"


def test_a_copy_in_never_takes_what_lies_outside(place: Path) -> None:
    tries, good = 0, 0
    with swapping(place / "w" / "d", place / "w" / "link") as swaps:
        until = time.monotonic() + 3
        while time.monotonic() < until or not good or swaps() < 10_000:
            tries += 1
            try:
                with plan_copy(place / "w", max_bytes=LIMIT_BYTES) as copy:
                    data = [b"".join(item.content()) for item in copy.items if item.content]
            except WorkspaceError:
                continue
            assert SECRET not in b"".join(data)
            good += 1
    assert good < tries, "the swaps were never met: the test shows nothing"


def test_an_apply_never_writes_outside(place: Path) -> None:
    run, folder = ChangesFolder(place / "run"), place / "w"
    run.path.mkdir()
    digest = run.blobs.add([b"new"])
    new = State("file", 0o644, 3, digest)
    outside, tries, good = listing(place / "outside"), 0, 0
    with swapping(folder / "d", folder / "link") as swaps:
        until = time.monotonic() + 4
        while time.monotonic() < until or not good or swaps() < 10_000:
            tries += 1
            name = f"d/new-{tries}"
            with suppress(WorkspaceError):
                good += apply([Change(name, None, new, stored=True)], run, folder).ok
            for journal in (run.path / "applied").glob("*"):
                journal.unlink()  # each try stands by itself
            assert listing(place / "outside") == outside
    assert good < tries, "the swaps were never met: the test shows nothing"
