"""The suites are kept apart, and the architecture's picture is the package that is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
APART = {"mindagent", "mindcode", "mindwatch", "mind", "wall"}


def made(*arguments: str) -> str:
    """Return what `make` prints."""
    command = ["make", "-s", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def suites() -> dict[str, list[str]]:
    """Return each suite with the files and folders that are in it."""
    pairs = (line.split(": ") for line in made("suites").splitlines())
    return {name: paths.split() for name, paths in pairs}


def test_every_test_belongs_to_one_suite():
    """A new file of tests is in one of them, and in one only; none of the paths is gone."""
    found = suites()
    assert set(found) == APART
    for path in ROOT.glob("tests/**/test_*.py"):
        name = path.relative_to(ROOT)
        owners = [suite for suite, paths in found.items() if any(name.is_relative_to(one) for one in paths)]
        assert len(owners) == 1, f"{name}: {owners}"
    assert all((ROOT / path).exists() for paths in found.values() for path in paths)


@pytest.mark.parametrize("suite", sorted(APART))
def test_a_suite_is_run_apart(suite):
    """`make test-NAME` runs the files of that suite and no others."""
    (line,) = (line for line in made("-n", f"test-{suite}").splitlines() if "/pytest " in line)
    assert [word for word in line.split() if word.startswith("tests/")] == suites()[suite]


def test_the_architecture_tells_every_room():
    """docs/architecture.md names each folder of the package and of its agents, with what is in it."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    floors = text.partition("## The floors")[2].partition("\nThe agents, ")[0]
    told = set(re.findall(r"`([a-z_]+)/`", "".join(re.findall(r"^\| ([^|]*) \|", floors, re.M))))
    rooms = {path.parent.name for path in (ROOT / "mindx").glob("*/__init__.py")}
    assert told == rooms
    layers = set(re.findall(r"^\| `([a-z_]+)/` \|", text.partition("| in `agents/`")[2].partition("\n\n")[0], re.M))
    assert layers == {path.parent.name for path in (ROOT / "mindx" / "agents").glob("*/__init__.py")}
    assert {"core", "providers", "tools", "runtime"} <= rooms
    assert all((ROOT / name).is_dir() for name in ("mindx/runtime/context", "examples/agents", "tests"))
