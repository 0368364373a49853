"""The campaign's figure: 25 cycles of the agent, with all that is real but the models.

Five meta-actions make a tool (the improvement agent's process, its tests in a container), it is registered, looked at
and used in a container, and the rest of the cycles observes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from mindx import MindSystem, ScriptedProvider

CYCLES = 25
_CAPABILITY = {
    "name": "count",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "output_schema": {"type": "integer"},
    "examples": [{"arguments": {"text": "a b"}, "result": 2}],
}
_CONCEPT = {"id": "words", "description": "Counts words.", "capabilities": [_CAPABILITY]}
_CODE = "def count(arguments):\n    return len(arguments['text'].split())\n"
_DEVELOPER = ("Count.", {"content": _CODE, "tests": "", "description": "counts"}, {"score": 1.0, "notes": ""})
_STEPS = (
    "OBSERVE_SYSTEM_STATE",
    "ASSESS_TOOL_SUITE",
    "PROPOSE_TOOL_STRATEGY",
    "CONCEPTUALIZE_NEW_TOOL",
    "INITIATE_TOOL_DEVELOPMENT",
    "REGISTER_TOOL",
)
_ANSWERS = (
    {"assessment": "Nothing counts.", "gaps": []},
    {"strategy": "Build it.", "identified_need": "count words"},
    _CONCEPT,
)


async def campaign_seconds(folder: Path) -> float:
    """Return wall seconds from the opening of a system to the end of its campaign."""
    folder.mkdir(parents=True)  # noqa: ASYNC240 - nothing else goes on
    script = folder / "developer.jsonl"
    texts = [turn if isinstance(turn, str) else json.dumps(turn) for turn in _DEVELOPER]
    script.write_text("".join(f"{json.dumps(text)}\n" for text in texts))
    # The last cycle finds that the plan is done.
    names = (*_STEPS, *["OBSERVE_SYSTEM_STATE"] * (CYCLES - 1 - len(_STEPS)))
    plan = [{"type": name, "params": {}} for name in names]
    model = ScriptedProvider([json.dumps(turn) for turn in (plan, *_ANSWERS)])
    began = time.perf_counter()
    async with MindSystem(folder / "mind", model, improvement_script=script) as system:
        campaign = await system.mastermind.launch_campaign()
    seconds = time.perf_counter() - began
    outcome = "" if campaign.outcome is None else campaign.outcome.summary
    assert (campaign.status.value, campaign.cycles) == ("COMPLETED", CYCLES), outcome
    return seconds
