"""Ignore rules: the .gitignore files of a folder, as git reads them, below the policy's own patterns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pathspec import GitIgnoreSpec

_DIRECTORY_MARK = "ps_d"  # pathspec's name for the slash behind a directory that a pattern names


def _compile(lines: Iterable[str]) -> tuple[Any, ...]:
    patterns: list[Any] = []
    for line in lines:
        try:
            patterns.extend(GitIgnoreSpec.from_lines([line]).patterns)
        except ValueError:  # git passes over a line that it does not understand
            continue
    return tuple(pattern for pattern in patterns if pattern.include is not None)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one file. `base` is the folder that they are relative to, "" for the root."""

    base: str
    patterns: tuple[Any, ...]

    @classmethod
    def parse(cls, base: str, lines: Iterable[str]) -> IgnoreRules:
        """Return the rules of these lines; comments, blank and broken lines count for nothing."""
        return cls(base, _compile(lines))

    def verdict(self, path: str, is_directory: bool) -> bool | None:
        """Return True to ignore, False to take, None if no pattern speaks. `path` is relative to the root."""
        inner = path[len(self.base) + 1 :] if self.base else path
        subject = inner + "/" if is_directory else inner
        for pattern in reversed(self.patterns):
            if _names(pattern, subject):
                return bool(pattern.include)
        return None


def _names(pattern: Any, subject: str) -> bool:
    """Return True if the pattern names this very entry; one inside a directory that it names is not asked here."""
    for match in pattern.regex.finditer(subject):
        mark = match.start(_DIRECTORY_MARK) if _DIRECTORY_MARK in match.re.groupindex else -1
        if mark in (-1, len(subject) - 1):
            return True
    return False


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
