"""From the run straight into the review, with a real container and a real terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindx.core.folders import state_dir as users_state
from tests.workspace.support import fill, listing
from tests.workspace.terminal import at_terminal, mindx


def step(path: str, content: str) -> dict[str, object]:
    params = {"tool_id": "simple_coder", "command": "write", "path": path, "content": content}
    return {"type": "EXECUTE_TOOL", "params": params}


@pytest.fixture
def project(tmp_path: Path, derived_image: object) -> Path:
    fill(tmp_path / "w", {"text": "one\ntwo\n"})
    plan = [step("text", "one\n2\n"), step("new", "new\n"), step("conftest.py", "print('hello')\n")]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return tmp_path / "w"


def test_review(project: Path, tmp_path: Path) -> None:
    terminal = at_terminal(users_state(), "run", str(tmp_path / "plan.json"), "--workspace", str(project), "--review")
    terminal.answer("runs on your machine later (test set-up). Take it [y,n,q,x,?]? ", "n")
    terminal.answer("Take this: added", "n")
    assert "+2" in terminal.answer("Take this hunk", "y")
    assert terminal.end() == 0
    assert listing(project) == {"text": (0o644, b"one\n2\n")}


def test_apply_leaves_out_what_runs_on_the_machine(project: Path, tmp_path: Path) -> None:
    done = mindx(users_state(), "run", str(tmp_path / "plan.json"), "--workspace", str(project), "--apply", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["outcome"] == "completed"
    assert "left out: conftest.py: runs on your machine: test set-up" in done.stderr
    assert listing(project).keys() == {"text", "new"}


@pytest.mark.parametrize("other", [["--apply"], ["--json"]])
def test_review_needs_a_person(project: Path, tmp_path: Path, other: list[str]) -> None:
    words = ["run", str(tmp_path / "plan.json"), "--workspace", str(project), "--review", *other]
    assert mindx(users_state(), *words).returncode == 2
