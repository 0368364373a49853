"""The agent's gates: what a candidate must pass in the container before anyone is told that it is good."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mindx.agents.improvement import ImplementationStatus, ImprovementRequest, ImprovementResult, SelfImprovementAgent
from mindx.agents.improvement.models import SELF_FILE
from mindx.agents.improvement.paths import project_folder, rule_target
from mindx.agents.improvement.self_test import check
from mindx.providers.scripted import ScriptedProvider
from mindx.trace.read import read
from tests.mind.improvement_support import CODE, TESTS, tool_request, turns

_Status = ImplementationStatus
pytestmark = pytest.mark.usefixtures("base_image")
GOOD = "def double(number):\n    return 2 * number\n"
PROJECT_TESTS = (
    "import unittest\nfrom sums import double\n\n\nclass Doubles(unittest.TestCase):\n    def test_two(self):\n"
    "        self.assertEqual(double(2), 4)\n"
)


def improve(
    request: ImprovementRequest, answers: Sequence[Any], folder: Path
) -> tuple[ImprovementResult, ScriptedProvider]:
    provider = ScriptedProvider(answers)
    return asyncio.run(SelfImprovementAgent(provider, request, folder).improve()), provider


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose one function is wrong, with the test that shows it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "sums.py").write_text("def double(number):\n    return number\n")
    (folder / "test_sums.py").write_text(PROJECT_TESTS)
    return folder


def order(project: Path, **more: Any) -> ImprovementRequest:
    known: dict[str, Any] = {"interaction_id": "int_1", "target_file": "sums.py", "workspace": project}
    return ImprovementRequest(**{**known, **more})


def test_a_candidate_that_passes_leaves_its_diff_and_nothing_in_the_project(project: Path, tmp_path: Path):
    """The target is read and shown to the model, the tests run in a copy, the project on the host is not touched."""
    log = tmp_path / "run.log"
    log.write_text("x" * 50_000 + "AssertionError: 2 != 4")
    request = order(project, context="double() is wrong", logs=(log,))
    before = {path.name: path.read_bytes() for path in project.iterdir()}
    result, provider = improve(request, turns(GOOD), tmp_path / "work")
    assert result.ok, result.message
    candidate = result.data.candidate
    assert candidate is not None
    assert candidate.diff_patch.splitlines()[-2:] == ["-    return number", "+    return 2 * number"]
    assert candidate.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    evaluation = candidate.evaluation
    assert (evaluation.passed_syntax_check, evaluation.passed_self_tests) == (True, True)
    assert evaluation.llm_self_critique_score == 0.9
    assert not candidate.promoted_to_main
    asked = provider.requests[0].messages[-1].text
    assert "return number" in asked
    assert "double() is wrong" in asked
    assert "AssertionError: 2 != 4" in asked
    assert len(asked) < 30_000
    assert {path.name: path.read_bytes() for path in project.iterdir()} == before


@pytest.mark.parametrize(
    ("answers", "status", "says"),
    [
        (turns("def double(number:\n"), _Status.FAILED_EVALUATION, "syntax"),
        (turns("def double(number):\n    return 3 * number\n"), _Status.FAILED_EVALUATION, "tests failed"),
        (turns(GOOD, score=0.59), _Status.FAILED_EVALUATION, "threshold"),
        (turns(GOOD, score="great"), _Status.FAILED_EVALUATION, "threshold"),
        (turns(GOOD, score=7), _Status.FAILED_EVALUATION, "threshold"),
        ([*turns(GOOD)[:2], "looks good to me"], _Status.FAILED_EVALUATION, "threshold"),
        (turns(GOOD)[:2], _Status.FAILED_EVALUATION, "threshold"),
        (turns("def double(number):\n    return number\n"), _Status.FAILED_EVALUATION, "tests failed"),
        (["", GOOD], _Status.FAILED_ANALYSIS, "said nothing"),
        ([], _Status.FAILED_ANALYSIS, ""),
        (["do it", "I cannot help with that."], _Status.FAILED_IMPLEMENTATION, "neither JSON"),
        (["do it", json.dumps({"content": "  "})], _Status.FAILED_IMPLEMENTATION, "empty"),
        (["do it", json.dumps({"content": "x" * 300_000})], _Status.FAILED_IMPLEMENTATION, "262,144"),
        (turns("import os, time\ntime.sleep(60)\n"), _Status.FAILED_EVALUATION, "deadline"),
        (turns(GOOD + "open('sums.py', 'a').write('# more')\n"), _Status.FAILED_EVALUATION, "altered"),
    ],
)
def test_every_gate_stops_what_must_not_pass(
    project: Path, tmp_path: Path, answers: list[str], status: ImplementationStatus, says: str
):
    """Wrong syntax, failing tests, a low or missing critique, a model that says nothing of use, code that hangs or
    rewrites itself after it was read: none of it is a SUCCESS, and no Changes are left to apply."""
    limit_s = 1 if says == "deadline" else 60
    result, _ = improve(order(project, self_test_timeout_s=limit_s), answers, tmp_path / "work")
    assert not result.ok
    assert result.data.final_status is status
    last = result.data.cycle_results[-1]
    assert says in f"{last.error_message} {last.evaluation.notes}"
    assert result.data.candidate is None


def test_a_failed_attempt_teaches_the_next_one_and_leaves_nothing_behind(project: Path, tmp_path: Path):
    """The second attempt starts from the file as it was, and is told why the first one failed."""
    bad = "def double(number):\n    return 3 * number\n\n\ndef left_over():\n    pass\n"
    result, provider = improve(order(project, cycles=3), [*turns(bad)[:2], *turns(GOOD)], tmp_path / "work")
    assert result.ok
    assert (result.data.cycles_attempted, result.data.cycles_successful_eval) == (2, 1)
    asked = provider.requests[2].messages[-1].text
    assert "the tests failed" in asked
    assert "left_over" not in asked
    kinds = [event.kind for event in read(tmp_path / "work" / "trace.jsonl")]
    assert (kinds[0], kinds[-1]) == ("improvement_started", "improvement_finished")
    assert kinds.count("cycle_finished") == 2
    assert kinds.count("exec") == 5  # all that ran in the containers of both attempts, and in that of the control


@pytest.mark.parametrize("what", ["folder", "link", "binary", "huge"])
def test_a_target_that_cannot_be_read_is_not_written_anew(project: Path, tmp_path: Path, what: str):
    """Only what is not there counts as new; the rest must have been seen by the model before it is replaced."""
    target = project / "target.py"
    if what == "folder":
        (target / "more").mkdir(parents=True)
    elif what == "link":
        target.symlink_to("sums.py")
    else:
        target.write_bytes(b"\xff\xfe" if what == "binary" else b"#" * 300_000)
    result, provider = improve(order(project, target_file="target.py"), turns(GOOD), tmp_path / "work")
    assert result.data.final_status is _Status.FAILED_ANALYSIS
    assert provider.requests == []


def test_what_nothing_tests_does_not_pass(project: Path, tmp_path: Path):
    """No test at all is not the same as passing them."""
    (project / "test_sums.py").unlink()
    result, _ = improve(order(project), turns(GOOD), tmp_path / "work")
    assert result.data.final_status is _Status.FAILED_EVALUATION
    assert "no test was found" in result.data.cycle_results[0].evaluation.notes


@pytest.mark.parametrize(
    ("code", "tests", "says"),
    [
        (CODE.replace("split()", "split('x')"), TESTS, "gave"),
        ("def count(arguments):\n    return 2\n", "", "output_schema"),
        (CODE, TESTS.replace("2}", "3}"), "tests failed"),
    ],
)
def test_a_tool_must_do_what_its_specification_says(tmp_path: Path, code: str, tests: str, says: str):
    """Examples and output_schema bind the code, the model's own tests too."""
    result, _ = improve(tool_request(), turns(code, tests), tmp_path / "work")
    assert result.data.final_status is _Status.FAILED_EVALUATION
    assert says in result.data.cycle_results[0].evaluation.notes


def test_a_tool_in_fences_from_a_model_that_talks(tmp_path: Path):
    """A model without JSON answers: the first block is the code, the second its tests."""
    said = f"Here you are:\n```python\n{CODE}```\nand the tests\n```python\n{TESTS}```\nEnjoy!"
    answers = ["Count.", said, 'I would say {"score": 0.8, "notes": "fine"}']
    result, _ = improve(tool_request(), answers, tmp_path / "work")
    assert result.ok, result.message
    assert result.data.operation_type.value == "develop_tool"


@pytest.mark.parametrize("target", ["../outside.py", "/etc/passwd", "mindx/policy/engine.py", "policies/default.yaml"])
def test_what_the_constitution_forbids_is_not_even_tried(project: Path, tmp_path: Path, target: str):
    """No model is asked for the wall, nor for what lies outside the folder."""
    result, provider = improve(order(project, target_file=target), turns(GOOD), tmp_path / "work")
    assert result.data.final_status is _Status.FAILED_SETUP
    assert provider.requests == []


def test_a_part_of_mindx_is_known_by_whatever_folder_it_is_reached(tmp_path: Path):
    """Who names the package as the workspace does not get past the rules for its files."""
    root = project_folder()
    assert root is not None
    (tmp_path / "link").symlink_to(root / "mindx")
    for workspace in (root / "mindx", tmp_path / "link"):
        request = order(workspace, target_file="policy/engine.py")
        result, provider = improve(request, turns(GOOD), tmp_path / "work")
        assert "no agent changes them" in result.message
        assert provider.requests == []
    assert rule_target(root / "mindx", "agents/answer.py") == "mindx/agents/answer.py"
    assert rule_target(tmp_path, "mindx.py") == "mindx.py"


def test_a_broken_mindx_fails_its_self_test(tmp_path: Path):
    """A name that another module imports and that is gone, and a syntax error: both are found, importing nothing."""
    package = tmp_path / "mindx"
    (package / "core").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "core" / "__init__.py").write_text("")
    (package / "core" / "words.py").write_text("def kept(): ...\n")
    (package / "user.py").write_text("from mindx.core import words\nfrom mindx.core.words import kept\n")
    assert check(package) == []
    (package / "core" / "words.py").write_text("def other(): ...\n")
    (package / "broken.py").write_text("def (:\n")
    problems = "\n".join(check(package))
    assert "mindx.core.words has no kept" in problems
    assert "mindx.broken: " in problems


def test_self_is_improved_in_a_copy_and_waits_for_a_person(tmp_path: Path):
    """`self`: mindx's own project goes into the container, the self test runs there, a person decides."""
    root = project_folder()
    assert root is not None
    shutil.copytree(root / "mindx", tmp_path / "copy" / "mindx", ignore=shutil.ignore_patterns("__pycache__"))
    code = (root / SELF_FILE).read_text() + "# a remark\n"
    request = ImprovementRequest(interaction_id="int_1", target_file="self", workspace=tmp_path / "copy")
    result, _ = improve(request, turns(code), tmp_path / "work")
    assert result.ok, result.data.cycle_results[0].evaluation.notes
    assert result.needs_person
    result, _ = improve(request, turns("raise SystemExit(0)\n"), tmp_path / "work2")
    assert "has no SelfImprovementAgent" in result.data.cycle_results[0].evaluation.notes
