"""Ignore rules: the .gitignore files of a folder, as git reads them, below the policy's own patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pathspec import GitIgnoreSpec, RegexPattern

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
            compiled.append(_Pattern(pattern.regex, pattern.include, line.endswith("/")))
    return tuple(compiled)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one file. `base` is the folder that they are relative to, "" for the root."""

    base: str
    patterns: tuple[_Pattern, ...]

    @classmethod
    def parse(cls, base: str, lines: Iterable[str]) -> IgnoreRules:
        """Return the rules of these lines; comments, blank and broken lines count for nothing."""
        return cls(base, _compile(lines))

    def verdict(self, path: str, is_directory: bool) -> bool | None:
        """Return True to ignore, False to take, None if no pattern speaks. `path` is relative to the root."""
        inner = path[len(self.base) + 1 :] if self.base else path
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
