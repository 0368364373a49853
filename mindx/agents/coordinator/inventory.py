"""What a project is made of: the public classes and functions of its Python modules. Nothing of it is imported."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mindx.core.count import counted

MAX_MODULES = 2000
MAX_MODULE_BYTES = 512 * 1024
MAX_NAMES = 40  # of one module
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "build", "dist", "site-packages", "venv"})


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """One module. `problem` says why it could not be read, or is ""."""

    path: str
    lines: int = 0
    classes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        names = ", ".join([*self.classes, *(f"{name}()" for name in self.functions)])
        return f"{self.path} ({self.problem or counted(self.lines, 'line')}){f': {names}' if names else ''}"


def inventory(folder: Path) -> tuple[ModuleFacts, ...]:
    """Return the modules below a folder by their path, at most 2,000; it blocks. Links are not followed."""
    return tuple(_facts(folder, path) for path, _ in zip(_modules(folder), range(MAX_MODULES), strict=False))


def _modules(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted(files):
            path = Path(place, name)
            if name.endswith(".py") and not path.is_symlink() and path.is_file():
                yield path.relative_to(folder).as_posix()


def _facts(folder: Path, path: str) -> ModuleFacts:
    try:
        with (folder / path).open("rb") as file:
            data = file.read(MAX_MODULE_BYTES + 1)
        if len(data) > MAX_MODULE_BYTES:
            return ModuleFacts(path, problem=f"more than {MAX_MODULE_BYTES:,} bytes")
        tree = ast.parse(data)
    except OSError as error:
        return ModuleFacts(path, problem=error.strerror or "unreadable")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ModuleFacts(path, problem="no Python that can be parsed")
    public = [node for node in tree.body if not getattr(node, "name", "_").startswith("_")]
    classes = tuple(node.name for node in public if isinstance(node, ast.ClassDef))[:MAX_NAMES]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = tuple(node.name for node in public if isinstance(node, kinds))[:MAX_NAMES]
    return ModuleFacts(path, len(data.splitlines()), classes, functions)
