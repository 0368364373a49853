"""Every line of the seeds' checklist is claimed by tests that exist and are not skipped, or waits for an issue."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
LINES = range(1, 223)
CHECKLIST: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "seed_checklist.yaml").read_text())
CLAIMED: dict[int, list[str]] = CHECKLIST["lines"]


def pending() -> dict[int, int]:
    """Return line to issue."""
    found: dict[int, int] = {}
    for issue, items in CHECKLIST["pending"].items():
        for item in items:
            first, last = item if isinstance(item, list) else (item, item)
            for line in range(first, last + 1):
                assert line not in found, f"line {line} is pending twice"
                found[line] = issue
    return found


@lru_cache
def functions_of(path: str) -> dict[str, list[str]]:
    """Return each test function of a file with the names of its decorators."""
    tree = ast.parse((ROOT / path).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {node.name: [ast.unparse(mark) for mark in node.decorator_list] for node in functions}


def test_no_line_is_missing_and_none_is_both_claimed_and_pending():
    waiting = pending()
    assert set(CLAIMED) | set(waiting) == set(LINES)
    assert not set(CLAIMED) & set(waiting)


@pytest.mark.parametrize("line", sorted(CLAIMED))
def test_the_functions_of_a_line_exist_and_run(line):
    assert CLAIMED[line], f"line {line} names no test"
    for node_id in CLAIMED[line]:
        path, *names = node_id.split("::")
        assert (ROOT / path).is_file(), f"line {line}: {path} does not exist"
        name = names[-1].partition("[")[0]
        assert name.startswith("test_")
        marks = functions_of(path).get(name)
        assert marks is not None, f"line {line}: {path} has no {name}"
        assert not any("skip" in mark or "xfail" in mark for mark in marks), f"line {line}: {name} does not run"
