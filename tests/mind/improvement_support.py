"""What the tests of the self-improvement agent share: a specification, a model's turns, a project to improve."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindx.agents.improvement.models import (
    CycleResult,
    Evaluation,
    ImplementationStatus,
    ImprovementData,
    ImprovementRequest,
    ImprovementResult,
    ImprovementStatus,
)
from mindx.tools.container_entry import ToolSpec

CODE = "def count(arguments):\n    return {'words': len(arguments['text'].split())}\n"
TESTS = (
    "import unittest\nimport tool\n\n\nclass Counts(unittest.TestCase):\n    def test_words(self):\n"
    "        self.assertEqual(tool.count({'text': 'a b'}), {'words': 2})\n"
)
SPEC: dict[str, Any] = {
    "id": "word_count",
    "description": "Counts words.",
    "capabilities": [
        {
            "name": "count",
            "description": "Counts the words of a text.",
            "input_schema": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
            "output_schema": {
                "type": "object",
                "properties": {"words": {"type": "integer"}},
                "required": ["words"],
            },
            "examples": [{"arguments": {"text": "one two"}, "result": {"words": 2}}],
        }
    ],
}


def turns(code: str = CODE, tests: str = TESTS, score: object = 0.9) -> list[str]:
    """Return what a good model answers in one cycle: analysis, implementation, critique."""
    made = {"content": code, "tests": tests, "description": "counts words"}
    return ["Write the function.", json.dumps(made), json.dumps({"score": score, "notes": "as asked"})]


def write_script(path: Path, answers: Sequence[str]) -> Path:
    """Write a model's turns as a script."""
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    return path


def tool_request(script: Path | None = None, **more: Any) -> ImprovementRequest:
    """Return the order for the tool of SPEC."""
    known: dict[str, Any] = {"interaction_id": "int_1", "target_file": "tool.py", "tool_spec": ToolSpec.read(SPEC)}
    return ImprovementRequest(**{**known, "script": script, **more})


def developed(request: ImprovementRequest, code: str, *, passed: bool | None = True) -> ImprovementResult:
    """Return the answer of an agent that did what it was asked; `passed` is what its gates said."""
    status = ImplementationStatus.SUCCESS_EVALUATED
    attempt = CycleResult(
        cycle=1,
        target_path=request.target_file,
        implementation_status=status,
        new_content=code,
        sha256=hashlib.sha256(code.encode()).hexdigest(),
        evaluation=Evaluation(passed_syntax_check=passed, passed_self_tests=passed, llm_self_critique_score=0.9),
    )
    data = ImprovementData(
        operation_type=request.operation,
        target_path=request.target_file,
        final_status=status,
        message="it is done",
        cycle_results=(attempt,),
        tool_spec=request.tool_spec,
    )
    return ImprovementResult(status=ImprovementStatus.SUCCESS, message="it is done", data=data)


def program(text: str) -> tuple[str, ...]:
    """Return the command of an agent that is this Python program; its arguments are the call's."""
    return (sys.executable, "-c", text)
