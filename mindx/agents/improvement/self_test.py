"""The self test of a candidate of mindx itself; standard library only, because it runs where nothing is installed.

It reads every module of the package and looks for what a rewritten file breaks first: syntax, and names that other
modules import from it and that are no longer there. It imports nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is broken to stderr; return 0 when nothing is."""
    problems = check(PACKAGE)
    for problem in problems:
        sys.stderr.write(problem + "\n")
    return 1 if problems else 0


def check(package: Path) -> list[str]:
    """Return what is broken in a package, one line for each thing."""
    trees: dict[str, ast.Module] = {}
    problems: list[str] = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        try:
            trees[name] = ast.parse(path.read_bytes(), str(path))
        except (SyntaxError, ValueError) as error:
            problems.append(f"{name}: {error}")
    known = {name: _names(tree) for name, tree in trees.items()}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in known:
                missing = [a.name for a in node.names if not _is_there(known, str(node.module), a.name)]
                problems += [f"{name}: {node.module} has no {item}" for item in missing]
    return problems


def _is_there(known: dict[str, set[str]], module: str, name: str) -> bool:
    names = known[module]
    return name in ("*", "__doc__") or name in names or f"{module}.{name}" in known or "__getattr__" in names


def _names(tree: ast.Module) -> set[str]:
    """Return every name that a module may have at its top, also those that it makes under an `if`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return found
