"""Transaction: the steps of an apply, done so that a kill at any moment leaves each file old or new.

First every new content is written into a staging folder inside the target (a full disk is noticed here, before
anything visible changed); then old things move into the staging folder and new ones out of it, by rename.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from mindx.workspace.changes import State
from mindx.workspace.handle import look, open_directory, parent_of, write_all
from mindx.workspace.journal import Step
from mindx.workspace.present import Fingerprint
from mindx.workspace.rename import rename_new
from mindx.workspace.store import BlobStore

MAX_SINGLE_SYNCS = 32  # above, one sync of the whole file system takes less time


def _find_sync_file_system() -> Callable[[int], None] | None:
    """Return syncfs(2), which Python does not have; None where the system has none."""
    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None

    def sync(handle: int) -> None:
        if call(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return sync


sync_file_system = _find_sync_file_system()


class ChangedMeanwhile(Exception):
    """Something of the target changed between the check and the step. `path` tells which."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


class Transaction:
    """Carries out steps inside the folder behind the handle `root`. Raises OSError, ChangedMeanwhile, InputError."""

    def __init__(
        self,
        root: int,
        staging: str,
        blobs: BlobStore,
        seen: Mapping[str, Fingerprint] | None = None,
        *,
        backwards: bool = False,
    ) -> None:
        # Names in the staging folder follow the journal's sense of before and after, whichever way we go: what a
        # run that was killed has put aside is then found as what a run in the other direction wants.
        self._wanted, self._aside = ("before", "after") if backwards else ("after", "before")
        self._root = root
        self._staging_name = staging
        self._blobs = blobs
        self._seen = seen or {}
        self._touched: set[str] = set()
        self._sync_at_once = False
        self.kept: list[str] = []
        self.begun: set[int] = set()  # steps that may have changed something that can be seen
        with suppress(FileExistsError):  # left by a run that was killed: its old contents are wanted
            os.mkdir(staging, 0o700, dir_fd=root)
        self._staging = open_directory(root, staging)

    def close(self, discard: bool) -> None:
        """Let go of the staging folder, and remove it with all that it holds if `discard`."""
        os.close(self._staging)
        if discard:
            with suppress(OSError):  # the next apply or undo of the run tries again
                remove_staging(self._root, self._staging_name)

    def run(self, steps: Sequence[Step], todo: Iterable[int]) -> None:
        """Carry out `steps[i]` for each i of `todo`; the number names a step's contents in the staging folder."""
        wanted = sorted(todo, key=lambda number: steps[number].path.split("/"))
        self._sync_at_once = len(wanted) > MAX_SINGLE_SYNCS and sync_file_system is not None
        for number in wanted:
            self._stage(number, steps[number].after)
        if self._sync_at_once and sync_file_system is not None:
            sync_file_system(self._staging)
        os.fsync(self._staging)
        for number in reversed(wanted):
            if steps[number].replaces_kind:
                self._take_away(number, steps[number])
        for number in wanted:
            after = steps[number].after
            if after is not None and after.entry == "directory":
                self._make_directory(number, steps[number].path, after)
        for number in wanted:
            after = steps[number].after
            if after is not None and after.entry != "directory":
                self._place(number, steps[number])
        self._sync()

    def _stage(self, number: int, after: State | None) -> None:
        """Bring a step's new content into the staging folder, unless an earlier run put it aside there."""
        if after is None or after.entry == "directory":
            return
        wanted = f"{self._wanted}-{number}"
        if look(self._staging, wanted) is not None:
            return
        self._discard_unfinished()
        if after.entry == "link":
            os.symlink(after.target, "unfinished", dir_fd=self._staging)
        else:
            self._write("unfinished", after)
        os.rename("unfinished", wanted, src_dir_fd=self._staging, dst_dir_fd=self._staging)

    def _write(self, name: str, content: State) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        handle = os.open(name, flags, 0o600, dir_fd=self._staging)
        try:
            for chunk in self._blobs.chunks(content.sha256):
                write_all(handle, chunk)
            os.fchmod(handle, content.mode & 0o777)
            if not self._sync_at_once:
                os.fsync(handle)
        finally:
            os.close(handle)

    def _take_away(self, number: int, step: Step) -> None:
        before = step.before
        assert before is not None
        try:
            with parent_of(self._root, step.path) as (directory, name):
                found = look(directory, name)
                if found is None:
                    return
                self._check_unchanged(step.path, found)
                self.begun.add(number)
                if stat.S_ISDIR(found.st_mode):
                    self._remove_directory(directory, name, step)
                else:
                    self._move(name, directory, f"{self._aside}-{number}", self._staging)
        except FileNotFoundError:
            return
        self._touched.add(step.path.rpartition("/")[0])

    def _remove_directory(self, directory: int, name: str, step: Step) -> None:
        try:
            os.rmdir(name, dir_fd=directory)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if step.after is not None:
                raise ChangedMeanwhile(step.path, "the folder holds files that were not copied in") from None
            self.kept.append(step.path)

    def _make_directory(self, number: int, path: str, after: State) -> None:
        with parent_of(self._root, path) as (directory, name):
            found = look(directory, name)
            if found is not None and not stat.S_ISDIR(found.st_mode):
                raise ChangedMeanwhile(path, "something else stands there now")
            if found is not None:
                return
            self._prepare_directory(after, os.fstat(directory))
            self.begun.add(number)
            self._move("unfinished", self._staging, name, directory)
        self._touched.add(path.rpartition("/")[0])

    def _prepare_directory(self, state: State, parent: os.stat_result) -> None:
        """Make a directory in the staging folder, so that it is seen only with its mode and owner."""
        self._discard_unfinished()
        os.mkdir("unfinished", 0o700, dir_fd=self._staging)
        handle = open_directory(self._staging, "unfinished")
        try:
            if os.geteuid() == 0:
                os.fchown(handle, parent.st_uid, parent.st_gid)
            os.fchmod(handle, state.mode & 0o777)
        finally:
            os.close(handle)

    def _discard_unfinished(self) -> None:
        """Remove what a run that was killed was making."""
        found = look(self._staging, "unfinished")
        if found is not None and stat.S_ISDIR(found.st_mode):
            os.rmdir("unfinished", dir_fd=self._staging)
        elif found is not None:
            os.unlink("unfinished", dir_fd=self._staging)

    def _place(self, number: int, step: Step) -> None:
        with parent_of(self._root, step.path) as (directory, name):
            found = look(directory, name)
            if found is not None:
                if step.before is None or not stat.S_ISREG(found.st_mode):
                    raise ChangedMeanwhile(step.path, "something else stands there now")
                self._check_unchanged(step.path, found)
                with suppress(OSError):  # some file systems have no hard links: then the store's copy must do
                    aside = f"{self._aside}-{number}"
                    os.link(name, aside, src_dir_fd=directory, dst_dir_fd=self._staging, follow_symlinks=False)
            self.begun.add(number)
            self._give_owner(number, found or os.fstat(directory))
            try:
                self._move(f"{self._wanted}-{number}", self._staging, name, directory, new=found is None)
            except FileExistsError:
                self.begun.discard(number)
                raise ChangedMeanwhile(step.path, "something else stands there now") from None
        self._touched.add(step.path.rpartition("/")[0])

    def _give_owner(self, number: int, like: os.stat_result) -> None:
        """Run by root, a file belongs to whom the one that it replaces, or else its folder, belongs to."""
        if os.geteuid() == 0:
            name = f"{self._wanted}-{number}"
            os.chown(name, like.st_uid, like.st_gid, dir_fd=self._staging, follow_symlinks=False)

    def _check_unchanged(self, path: str, found: os.stat_result) -> None:
        seen = self._seen.get(path)
        if seen is not None and seen != Fingerprint.of(found):
            raise ChangedMeanwhile(path, "it changed while the Changes were applied")

    def _move(self, name: str, source: int, new_name: str, target: int, *, new: bool = False) -> None:
        """Rename; with `new` only onto a free name: else FileExistsError."""
        try:
            if new:
                rename_new(name, source, new_name, target)
            else:
                os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise OSError(error.errno, "another file system is mounted inside the folder; apply to it alone") from None

    def _sync(self) -> None:
        for path in self._touched:
            with suppress(FileNotFoundError, NotADirectoryError):  # removed by a later step, or a file now
                handle = open_directory(self._root, path)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)


def remove_staging(root: int, staging: str) -> None:
    """Remove a staging folder if it is there; it holds files and at most empty folders."""
    try:
        handle = open_directory(root, staging)
    except FileNotFoundError:
        return
    try:
        for name in os.listdir(handle):
            found = look(handle, name)
            if found is not None and stat.S_ISDIR(found.st_mode):
                os.rmdir(name, dir_fd=handle)
            else:
                os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)
    os.rmdir(staging, dir_fd=root)
