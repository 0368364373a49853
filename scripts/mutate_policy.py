"""Mutation run over the policy engine: each condition negated or fixed, and the golden cases must notice.

    python scripts/mutate_policy.py            all mutants, a table of survivors; exit 1 if one lives
    python scripts/mutate_policy.py judge.py   the mutants of one module

A mutant is one module of mindx/policy with one change: a condition negated, one side of an `and` or `or` dropped, a
comparison turned, a `return True` or `False` flipped. Each runs the golden cases (tests/policy_cases) and the checks
of tests/policy/engine_checks.py in a process of its own, with a deadline; a mutant that hangs or breaks counts as
noticed. Mutants that change nothing that can be seen are listed with their reason in
tests/policy_cases/equivalent_mutants.txt.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    "paths.py",
    "pattern.py",
    "rules.py",
    "risk.py",
    "wrappers.py",
    "variables.py",
    "builtins.py",
    "shell_words.py",
    "shell_redirects.py",
    "shell.py",
    "judge.py",
    "engine.py",
)
DEADLINE_S = 20
LISTED = ROOT / "tests" / "policy_cases" / "equivalent_mutants.txt"


def equivalent() -> set[tuple[str, str, str, str]]:
    """Return the mutants that nobody can tell from the sound module, as (module, function, before, after).

    In the file a line that begins with # is the reason for the lines below it: module | function | before | after.
    """
    lines = LISTED.read_text().splitlines() if LISTED.exists() else []
    fields = [tuple(part.strip() for part in line.split(" | ")) for line in lines if line.strip() and line[0] != "#"]
    return {(module, function, before, after) for module, function, before, after in fields}


@dataclass(frozen=True)
class Mutant:
    """One change of one module: the change `choice` of the place `index`."""

    module: str
    line: int
    function: str
    before: str
    after: str
    index: int
    choice: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return what names it in the list of equivalent mutants."""
        return self.module, self.function, self.before, self.after

    def tree(self) -> ast.Module:
        """Return the changed module."""
        tree = _parsed(self.module)
        node = [node for node, _ in _walk(tree, "") if _changes(node)][self.index]
        _Replace(node, _changes(node)[self.choice]).visit(tree)
        return ast.fix_missing_locations(tree)


def mutants(module: str) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    sites = [(node, name) for node, name in _walk(_parsed(module), "") if _changes(node)]
    for index, (node, function) in enumerate(sites):
        for choice, changed in enumerate(_changes(node)):
            yield Mutant(module, _line(node), function, _told(node), _told(changed), index, choice)


def _parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / "mindx" / "policy" / module).read_text())


def _told(node: ast.AST) -> str:
    """Return a node on one line; of a statement with a body its head alone."""
    return " ".join(ast.unparse(node).split("\n", 1)[0].split())


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0) or next((n.lineno for n in ast.walk(node) if hasattr(n, "lineno")), 0)


def _walk(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    for child in ast.iter_child_nodes(node):
        name = child.name if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else function
        yield child, name
        yield from _walk(child, name)


def _changes(node: ast.AST) -> list[ast.AST]:
    """Return what may stand in the place of a node: only for conditions and booleans."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return [_with(node, test=_negated(node.test))]
    if isinstance(node, ast.comprehension):
        return [_with(node, ifs=[_negated(node.ifs[0])])] if node.ifs else []
    if isinstance(node, ast.BoolOp):
        rest = [node.values[:i] + node.values[i + 1 :] for i in range(len(node.values))]
        return [values[0] if len(values) == 1 else ast.BoolOp(node.op, values) for values in rest]
    if isinstance(node, ast.Return) and isinstance(node.value, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        return [ast.Return(_negated(node.value))]
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
        return [ast.Return(ast.Constant(not node.value.value))]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _TURNED:
        return [ast.Compare(node.left, [_TURNED[type(node.ops[0])]()], node.comparators)]
    return []


_TURNED: dict[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self.target = target
        self.replacement = replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self.replacement if node is self.target else super().visit(node)  # type: ignore[no-any-return]


def survives(mutant: Mutant) -> bool:
    """Run the checks on one mutant in a child process; True when nothing was noticed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(DEADLINE_S)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 2)
            _install(mutant)
            code = 0 if _sound() else 1
        except BaseException:  # noqa: BLE001 - whatever breaks was noticed
            code = 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _install(mutant: Mutant) -> None:
    """Put the changed module in the place of the sound one, before anything imports it."""
    assert not any(loaded.startswith("mindx.policy.") for loaded in sys.modules)
    name = f"mindx.policy.{mutant.module[:-3]}"
    module = ModuleType(name)
    module.__file__ = str(ROOT / "mindx" / "policy" / mutant.module)
    sys.modules[name] = module
    exec(compile(mutant.tree(), module.__file__, "exec"), module.__dict__)
    import mindx.policy

    setattr(mindx.policy, mutant.module[:-3], module)


def _sound() -> bool:
    from tests.policy import cases, engine_checks

    for file, kind, text, expected in cases.judged():
        if cases.judge(file, kind, text) != expected:
            return False
    if any(cases.classify(text) != word for text, word in cases.classified()):
        return False
    return not engine_checks.broken()


def _prepare() -> None:
    """Load what every child needs, but nothing of mindx.policy: a child loads that with its mutant in place."""
    sys.path.insert(0, str(ROOT))
    for name in (
        "pydantic",
        "pathspec",
        "yaml",
        "tree_sitter",
        "tree_sitter_bash",
        "platformdirs",
        "mindx.core.command",
    ):
        importlib.import_module(name)
    from tests.policy import cases

    cases.documents()


def run(modules: tuple[str, ...], workers: int = 2, budget_s: float | None = None) -> tuple[int, list[Mutant], bool]:
    """Return how many mutants ran, those that live and are not known to be equivalent, and whether all ran."""
    _prepare()
    known = equivalent()
    todo = [mutant for module in modules for mutant in mutants(module) if mutant.key not in known]
    random.Random(4).shuffle(todo)  # a budget cuts off a fair sample
    began = time.monotonic()
    pipes: list[tuple[int, int]] = []
    for worker in range(workers):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            for index in range(worker, len(todo), workers):
                if budget_s is not None and time.monotonic() - began > budget_s:
                    os.write(writing, b"late\n")
                    break
                os.write(writing, f"{index} {int(survives(todo[index]))}\n".encode())
            os._exit(0)
        os.close(writing)
        pipes.append((child, reading))
    alive: list[Mutant] = []
    ran, whole = 0, True
    for child, reading in pipes:
        with os.fdopen(reading) as lines:
            for line in lines:
                if line == "late\n":
                    whole = False
                    continue
                index, lived = line.split()
                ran += 1
                if lived == "1":
                    alive.append(todo[int(index)])
        os.waitpid(child, 0)
    return ran, alive, whole and ran == len(todo)


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description="Mutation run over the policy engine.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as judge.py; all of the engine's by default")
    parser.add_argument("--seconds", type=float, help="stop after so long, with a fair sample")
    options = parser.parse_args()
    began = time.monotonic()
    ran, alive, whole = run(tuple(options.modules) or MODULES, os.cpu_count() or 1, options.seconds)
    for mutant in sorted(alive, key=lambda m: (m.module, m.line)):
        print(f"{mutant.module}:{mutant.line} | {' | '.join(mutant.key[1:])}", file=sys.stderr)
    print(f"{ran} mutants in {time.monotonic() - began:.0f} s, {len(alive)} live{'' if whole else ', not all ran'}")
    return 1 if alive or not (whole or options.seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
