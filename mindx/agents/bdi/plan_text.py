"""From a model's words to the text of a plan."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from mindx.agents.answer import MAX_ANSWER, json_candidates
from mindx.core.strict_json import Document, read_json

KEYS = ("plan", "actions", "steps")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan as a model wrote it. `complete` False: what comes after it depends on what it finds."""

    source: str
    complete: bool = True


def plan_text(text: str) -> PlanText:
    """Return the JSON list in a model's answer: the answer itself, its member `plan`, or what stands in a fence.

    Where there is none, return what comes nearest, so that the plan's reader says what is wrong with it. The text is
    as the model wrote it: a key that it gave twice is still there twice.
    """
    if len(text) > MAX_ANSWER:
        return PlanText(f'"the answer has {len(text)} characters; give a plan of at most {MAX_ANSWER} characters"')
    candidates = json_candidates(text)
    for candidate in candidates:
        document = read_json(candidate)
        if isinstance(document.value, list):
            return PlanText(candidate)
        if isinstance(document.value, dict):
            key = next((key for key in KEYS if isinstance(document.value.get(key), list)), None)
            if key is not None:
                return PlanText(_member(candidate, document, key), document.value.get("complete") is not False)
    return PlanText(candidates[-1] if candidates else text)


def _member(text: str, document: Document, key: str) -> str:
    """Return the text of one member's value."""
    line, column = document.positions[f"$.{key}"]
    start = sum(len(row) + 1 for row in text.split("\n")[: line - 1]) + column - 1
    found = re.compile(rf'"{key}"\s*:\s*').match(text, start)
    if found is not None:
        try:
            return text[found.end() : _DECODER.raw_decode(text, found.end())[1]]
        except ValueError:
            pass  # the strict reader and this one differ on where it ends
    return json.dumps(document.value[key])
