"""Ignore rules: the .gitignore files of a folder, as git reads them, below the policy's own patterns."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from typing import NamedTuple

from mindx.core.frozen import dataclass
from mindx.policy.globs import bounded

MAX_IGNORE_BYTES = 1024 * 1024
MAX_IGNORE_LINES = 10_000  # each costs 0.1 ms once, and 0.4 microseconds for each file that it is asked about
_DIRECTORY_MARK = "ps_d"  # pathspec's name for the slash behind a directory that a pattern names


class _Pattern(NamedTuple):
    regex: re.Pattern[str]
    ignores: bool
    directories_only: bool

    def names(self, subject: str) -> bool:
        """Return True if the pattern names this very entry (a directory ends with a slash).

        What lies inside a directory that it names is not asked here: the walk does not go in.
        """
        if self.directories_only and not subject.endswith("/"):
            return False
        has_mark = _DIRECTORY_MARK in self.regex.groupindex
        for match in self.regex.finditer(subject):
            if has_mark and match.start(_DIRECTORY_MARK) in (-1, len(subject) - 1):
                return True
            # Without a mark it is `a/**`, which names all in `a` but not `a` itself.
            if not has_mark and not (match.end() == len(subject) and subject.endswith("/")):
                return True
        return False


def _compile(lines: Iterable[str]) -> tuple[_Pattern, ...]:
    from pathspec import GitIgnoreSpec, RegexPattern  # only here: it takes time that a session without a folder saves

    compiled: list[_Pattern] = []
    for line in lines:
        # pathspec takes `a/**/` for `a/`; to git it is all directories in `a`.
        line = line if line.endswith("\\ ") else line.rstrip(" ")
        text = line[:-1] if line.endswith("/**/") else line
        try:
            (pattern,) = GitIgnoreSpec.from_lines([text]).patterns
        except ValueError:  # git passes over a line that it does not understand
            continue
        if isinstance(pattern, RegexPattern) and pattern.include is not None and pattern.regex is not None:
            compiled.append(_Pattern(bounded(pattern.regex), pattern.include, line.endswith("/")))
    return tuple(compiled)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one file. `base` is the folder that they are relative to, "" for the root.

    A file above the root has `prefix` instead: the root's path as seen from its folder.
    """

    base: str
    patterns: tuple[_Pattern, ...]
    prefix: str = ""

    @classmethod
    def parse(cls, base: str, lines: Iterable[str]) -> IgnoreRules:
        """Return the rules of these lines; comments, blank and broken lines count for nothing."""
        return cls(base, _compile(lines))

    def verdict(self, path: str, is_directory: bool) -> bool | None:
        """Return True to ignore, False to take, None if no pattern speaks. `path` is relative to the root."""
        inner = path[len(self.base) + 1 :] if self.base else self.prefix + path
        subject = inner + "/" if is_directory else inner
        for pattern in reversed(self.patterns):
            if pattern.names(subject):
                return pattern.ignores
        return None


@dataclass(frozen=True, slots=True)
class IgnoreStack:
    """All rules that hold in one directory: the policy's, then .gitignore files from the root down."""

    policy: IgnoreRules
    files: tuple[IgnoreRules, ...] = ()

    def below(self, rules: IgnoreRules) -> IgnoreStack:
        """Return the stack with one more .gitignore, which wins over those above it."""
        return IgnoreStack(self.policy, (*self.files, rules)) if rules.patterns else self

    def reason(self, path: str, is_directory: bool) -> str | None:
        """Return why an entry is left out (`policy` or `.gitignore`), or None if it goes in."""
        verdict = self.policy.verdict(path, is_directory)
        if verdict is not None:
            return "policy" if verdict else None
        for rules in reversed(self.files):
            verdict = rules.verdict(path, is_directory)
            if verdict is not None:
                return ".gitignore" if verdict else None
        return None


def outer_rules(folder: str) -> tuple[IgnoreRules, ...]:
    """Return the rules of the .gitignore files above `folder` (a real path), up to the root of its git repository.

    None if it is such a root itself, in no repository, or ignored by that repository: then whoever names it means
    what is in it. Raises OSError.
    """
    found: list[IgnoreRules] = []
    at = folder
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return ()
        prefix = os.path.relpath(folder, above) + "/"
        found.append(IgnoreRules("", _compile(_lines_of(os.path.join(above, ".gitignore"))), prefix))
        at = above
    outer = tuple(reversed(found))
    return () if outer and _is_ignored(outer) else outer


def _is_ignored(outer: tuple[IgnoreRules, ...]) -> bool:
    """Return True if the rules from the repository's root down leave out the folder, or one that it lies in."""
    parts = outer[0].prefix.rstrip("/").split("/")
    for depth in range(1, len(parts) + 1):
        # The rules of the folder at depth n see a path without its first n names.
        for number in range(min(depth, len(outer)) - 1, -1, -1):
            verdict = IgnoreRules("", outer[number].patterns).verdict("/".join(parts[number:depth]), True)
            if verdict:
                return True
            if verdict is False:
                break
    return False


def _lines_of(path: str) -> list[str]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        if error.errno == errno.ELOOP:  # git does not follow a link here either
            return []
        raise
    with open(handle, "rb") as file:
        text = file.read(MAX_IGNORE_BYTES + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    if len(text) > MAX_IGNORE_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_IGNORE_BYTES} bytes")
    return lines_in(text)


def lines_in(text: bytes) -> list[str]:
    """Return the lines of an ignore file. Raises OSError (EFBIG) for more than MAX_IGNORE_LINES."""
    lines = text.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
    if len(lines) > MAX_IGNORE_LINES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_IGNORE_LINES:,} lines")
    return [line.removesuffix("\r") for line in lines]
