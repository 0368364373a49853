"""Changes: what a plan did to the files, as differences between the Baseline and a manifest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from mindx.core.frozen import dataclass
from mindx.errors import SandboxLostError
from mindx.sandbox.base import EntryKind, ManifestEntry
from mindx.workspace.baseline import Baseline
from mindx.workspace.handle import MAX_PATH_BYTES, is_relative
from mindx.workspace.names import name_from, name_to

ChangeKind = Literal["added", "modified", "deleted"]

_KINDS = ("file", "directory", "link", "other")
_DIGEST = re.compile(r"[0-9a-f]{64}")
# A program that goes down folder by folder makes longer paths than any call takes; they are told, and never written.
MAX_TOLD_BYTES = 1 << 16
VENV_MARK = "pyvenv.cfg"
CACHE_NAMES = frozenset(
    [
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        ".ipynb_checkpoints",
        ".npm",
        ".yarn",
        "node_modules",
        ".gradle",
        ".eggs",
        ".cache",
        ".parcel-cache",
        ".turbo",
    ]
)
# Characters that some file systems pass over in a name, so that `.g\\u200cit` is `.git` to them.
_PASSED_OVER = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])


@dataclass(frozen=True, slots=True)
class State:
    """What stands at a path. `mode` holds permission bits; `sha256` is "" where there is no content to know."""

    entry: EntryKind
    mode: int
    size: int = 0
    sha256: str = ""
    target: str = ""

    def same_content(self, other: State) -> bool:
        """Return True if both are of one kind and hold the same bytes or link text; the mode may differ."""
        known = self.entry != "file" or self.sha256 != ""
        return known and (self.entry, self.sha256, self.target) == (other.entry, other.sha256, other.target)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `before` is None for what was added, `after` for what was deleted.

    `collapsed` names what a folder is whose files are not listed (`virtual environment`, `cache`), with the number
    and bytes of its files. `blocked` says why the Change cannot be applied, or is "". `note` says what else there
    is to know, such as why its content was not copied out.
    """

    path: str
    before: State | None
    after: State | None
    collapsed: str = ""
    files: int = 0
    total_bytes: int = 0
    blocked: str = ""
    note: str = ""
    stored: bool = False

    @property
    def kind(self) -> ChangeKind:
        """`added`, `modified` or `deleted`."""
        return "added" if self.before is None else "deleted" if self.after is None else "modified"

    @property
    def state(self) -> State:
        """What stands there now; for what was deleted, what stood there."""
        state = self.after or self.before
        assert state is not None
        return state

    @property
    def entry(self) -> EntryKind:
        """`file`, `directory`, `link` or `other`."""
        return self.state.entry

    @property
    def mode(self) -> int:
        """Permission bits."""
        return self.state.mode

    @property
    def size(self) -> int:
        """Bytes of content; of a collapsed folder, of all its files."""
        return self.total_bytes if self.collapsed else self.state.size

    @property
    def sha256(self) -> str:
        """Digest of the content, "" where there is none."""
        return self.state.sha256

    @property
    def has_content(self) -> bool:
        """True for a file whose new content is needed to apply it."""
        return self.after is not None and self.after.entry == "file" and not self.collapsed

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: those of now at the top, those from before under `before` (None if added)."""
        document: dict[str, Any] = {
            **name_to("path", self.path),
            "kind": self.kind,
            "entry": self.entry,
            "mode": f"{self.mode:04o}",
            "size": self.size,
            "sha256": self.sha256,
            "stored": self.stored,
            "before": None if self.before is None else state_to(self.before),
        }
        if self.state.target:
            document |= name_to("target", self.state.target)
        if self.collapsed:
            document |= {"collapsed": self.collapsed, "files": self.files}
        return document | {key: text for key in ("blocked", "note") if (text := getattr(self, key))}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Change:
        """Return what `to_dict` wrote. Raises KeyError, ValueError or TypeError on anything else."""
        path = name_from("path", document)
        if not is_relative(path, MAX_TOLD_BYTES):
            raise ValueError(f"{path!a} is no path inside a folder")
        files = int(document.get("files", 0))
        now = state_from(document)
        collapsed = str(document.get("collapsed", ""))
        return cls(
            path=path,
            before=None if document["before"] is None else state_from(document["before"]),
            after=None if document["kind"] == "deleted" else replace(now, size=0) if collapsed else now,
            collapsed=collapsed,
            files=files,
            total_bytes=int(document["size"]) if collapsed else 0,
            blocked=str(document.get("blocked", "")),
            note=str(document.get("note", "")),
            stored=bool(document["stored"]),
        )


def compare(
    baseline: Baseline, manifest: Iterable[ManifestEntry], protects: Callable[[str], bool] | None = None
) -> tuple[Change, ...]:
    """Return the differences, sorted by path, a folder before what it holds.

    A virtual environment or cache that the plan made is one Change. `protects` tells of a path below the workspace
    whether the policy protects it: a script may have changed the copy, the Change is listed and blocked.
    Raises SandboxLostError if the manifest holds what no file can be: then its sender cannot be trusted.
    """
    now: dict[str, ManifestEntry] = {}
    for entry in manifest:
        if not _is_possible(entry) or entry.path in now:
            raise SandboxLostError("manifest_invalid", f"the sandbox reported an impossible file: {entry.path!a}")
        now[entry.path] = entry
    found = [
        Change(path, _state(baseline.entries.get(path)), _state(now.get(path)))
        for path in sorted(baseline.entries.keys() | now.keys(), key=_path_order)
    ]
    differing = (change for change in found if _differs(change))
    return tuple(_block(_collapse(differing, now), protects or (lambda path: False)))


def _is_possible(entry: ManifestEntry) -> bool:
    digest_is_sound = entry.sha256 == "" or (entry.kind == "file" and _DIGEST.fullmatch(entry.sha256) is not None)
    numbers_are_sound = entry.size >= 0 and 0 <= entry.mode <= 0o7777
    return is_relative(entry.path, MAX_TOLD_BYTES) and entry.kind in _KINDS and digest_is_sound and numbers_are_sound


def _path_order(path: str) -> list[str]:
    return path.split("/")


def _state(entry: ManifestEntry | None) -> State | None:
    if entry is None:
        return None
    # A folder's setgid bit is the sandbox's own doing: new folders inherit it.
    mode = entry.mode & (0o777 if entry.kind == "directory" else 0o7777)
    size = 0 if entry.kind == "directory" else entry.size
    return State(entry.kind, mode, size, entry.sha256 if entry.kind == "file" else "", entry.target)


def _differs(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return not before.same_content(after) or (before.entry != "link" and before.mode != after.mode)


def _collapse(changes: Iterable[Change], now: Mapping[str, ManifestEntry]) -> Iterator[Change]:
    """Yield the Changes, with each folder that tools made folded into one."""
    folded: Change | None = None
    for change in changes:
        if folded is not None and change.path.startswith(folded.path + "/"):
            is_file = change.entry == "file"
            size = folded.total_bytes + (change.size if is_file else 0)
            folded = replace(folded, files=folded.files + is_file, total_bytes=size)
            continue
        if folded is not None:
            yield folded
            folded = None
        what = _made_by_tools(change, now)
        if what:
            blocked = f"a {what} is made anew on your machine, not copied back"
            folded = replace(change, collapsed=what, blocked=blocked)
        else:
            yield change
    if folded is not None:
        yield folded


def _made_by_tools(change: Change, now: Mapping[str, ManifestEntry]) -> str:
    if change.kind != "added" or change.entry != "directory":
        return ""
    if f"{change.path}/{VENV_MARK}" in now:
        return "virtual environment"
    return "cache" if change.path.rpartition("/")[2] in CACHE_NAMES else ""


def _block(changes: Iterable[Change], protects: Callable[[str], bool]) -> Iterator[Change]:
    """Yield the Changes, with the reason on each that cannot be applied."""
    lost_folder = ""  # a folder that became something that cannot be applied: what it held stays on the host
    for change in changes:
        if lost_folder and change.path.startswith(lost_folder + "/"):
            yield replace(change, blocked="its folder became something that cannot be applied")
            continue
        reason = change.blocked or ("the policy protects it" if protects(change.path) else _reason_against(change))
        if reason and change.before is not None and change.before.entry == "directory" and change.entry != "directory":
            lost_folder = change.path
        yield replace(change, blocked=reason) if reason else change


def _reason_against(change: Change) -> str:
    if is_history(change.path):
        return "nothing named .git is ever written"
    if not is_relative(change.path):
        return f"a path of {MAX_PATH_BYTES} bytes or more cannot be written"
    after, before = change.after, change.before
    if after is None:
        return "" if before is not None and before.entry != "other" else "a special file"
    if after.entry == "link":
        return "links are not written; make it yourself if you want it"
    if after.entry == "other":
        return "a socket, FIFO or device, or a folder too deep to be looked into"
    if after.entry == "file" and not after.sha256:
        return "it could not be read in the container"
    if before is not None and before.entry == after.entry == "directory":
        return "modes of folders are not taken over"
    if before is not None and before.same_content(after) and executable(before) == executable(after):
        return f"only the modes 0644 and 0755 are taken over, not {after.mode:04o}"
    return ""


def executable(state: State) -> bool:
    """Return True for a file that its owner may run: the one bit of a mode that is taken over."""
    return state.entry == "file" and bool(state.mode & 0o100)


def is_history(path: str) -> bool:
    """Return True if a name of the path is `.git`, or would be on a file system that folds names."""
    return any(folded(name.partition(":")[0]).casefold() in (".git", "git~1") for name in path.split("/"))


def folded(name: str) -> str:
    """Return a name without what some file systems pass over in it or drop at its end; case stays."""
    return name.translate(_PASSED_OVER).rstrip(". ")


def state_to(state: State) -> dict[str, Any]:
    """Return a State as plain values."""
    document = {"entry": state.entry, "mode": f"{state.mode:04o}", "size": state.size, "sha256": state.sha256}
    return document | (name_to("target", state.target) if state.target else {})


def state_from(document: Mapping[str, Any]) -> State:
    """Return what `state_to` wrote. Raises KeyError, ValueError or TypeError on anything else."""
    entry = document["entry"]
    if entry not in _KINDS:
        raise ValueError(f"{entry!r} is no kind of entry")
    target = name_from("target", document) if "target" in document else ""
    return State(entry, int(document["mode"], 8), int(document["size"]), str(document["sha256"]), target)
