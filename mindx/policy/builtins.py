"""Builtins of the shell in a judged line: which of them need no rule, because they do nothing by themselves."""

from __future__ import annotations

import re

from mindx.policy import paths
from mindx.policy.variables import variable_problem
from mindx.policy.words import Argv, Dynamic

# What they start is judged in their place (wrappers.py).
STARTERS = frozenset({"command", "builtin", "exec", "eval", "trap", "source", ".", "time"})
_FREE = frozenset(
    {":", "true", "false", "echo", "printf", "pwd", "exit", "return", "break", "continue", "shift", "wait", "umask"}
    | {"test", "[", "set", "cd", "read", "times"}
)
_READ_OPTIONS = re.compile(r"-[rs]+|-[rs]*[ptnNdu].*", re.DOTALL)


def is_builtin(program: str) -> bool:
    """Return True for a builtin that needs no rule of its own inside a line."""
    return program in _FREE or program in STARTERS


def builtin_problem(argv: Argv, folders: list[str]) -> str | None:
    """Return why a builtin with these words cannot be judged, or None. `folders`: where the line may be by now.

    `cd` adds to `folders`.
    """
    words = argv[1:]
    if argv[0] == "printf" and words and (isinstance(words[0], Dynamic) or words[0].startswith("-v")):
        return "printf -v and formats that are not known evaluate names; write the format out"
    if argv[0] in ("test", "[") and {"-v", "-R"} & set(words):
        return "-v and -R evaluate what they are given; use -n with a default: ${x:-}"
    if argv[0] == "read":
        return _read_problem(words)
    if argv[0] == "cd":
        return _cd_problem(words, folders)
    return None


def _read_problem(words: Argv) -> str | None:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if isinstance(word, Dynamic) or not _READ_OPTIONS.fullmatch(word):
            return f"read {word[:20]!a} is not judged here"
        if re.fullmatch(r"-[rs]*[ptnNdu]", word) and rest:
            rest.pop(0)
    for name in rest:
        problem = variable_problem(name, Dynamic("(input)"), in_line=True)
        if problem is not None:
            return problem
    return None


def _cd_problem(words: Argv, folders: list[str]) -> str | None:
    targets = [word for word in words if word not in ("-P", "-L", "-e", "--")]
    if len(targets) != 1 or isinstance(targets[0], Dynamic) or targets[0] == "-":
        return "cd needs the name of a folder, written out"
    try:
        reached = [paths.resolve(targets[0], folder) for folder in folders]
    except paths.PathRefused as refused:
        return refused.message
    folders += [folder for folder in reached if folder not in folders]
    return "the line changes its folder too often to be judged" if len(folders) > 64 else None
