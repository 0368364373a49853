"""The society works on itself: it finds a gap, has a tool written, tested in a container and registered, and uses it.

It runs offline: two scripts stand for the models, one for Mastermind, one for the self-improvement agent.
"""

import asyncio
import json
import logging
import tempfile
from pathlib import Path

import mindx

PLAN = [
    {"type": "OBSERVE_SYSTEM_STATE", "params": {}},
    {"type": "ASSESS_TOOL_SUITE", "params": {"system_state": "..."}},
    {"type": "PROPOSE_TOOL_STRATEGY", "params": {"assessment": "..."}},
    {"type": "CONCEPTUALIZE_NEW_TOOL", "params": {"identified_need": "..."}},
    {"type": "INITIATE_TOOL_DEVELOPMENT", "params": {"tool_concept": "..."}},
    {"type": "REGISTER_TOOL", "params": {}},
    {"type": "DECOMPOSE_GOAL", "params": {"subgoals": ["Use the new tool once."]}},
]
USE = [{"type": "EXECUTE_TOOL", "params": {"tool_id": "slug", "title": "A Tale of Two Cities"}}]
ASSESSMENT = {
    "assessment": "There is no tool yet.",
    "gaps": [{"need": "names for files made of titles", "why": "each agent invents its own", "priority": 7}],
}
STRATEGY = {"strategy": "Build one small tool.", "identified_need": "turn a title into a name for a file"}
CONCEPT = {
    "id": "slug",
    "description": "Turns a title into a name for a file.",
    "version": "1.0.0",
    "capabilities": [
        {
            "name": "slug",
            "description": "Small letters and digits, joined by hyphens.",
            "input_schema": {
                "type": "object",
                "properties": {"title": {"type": "string"}},
                "required": ["title"],
                "additionalProperties": False,
            },
            "output_schema": {"type": "string"},
            "examples": [{"arguments": {"title": "War & Peace"}, "result": "war-peace"}],
        }
    ],
}
CODE = """\
import re


def slug(arguments):
    return "-".join(re.findall(r"[a-z0-9]+", arguments["title"].lower()))
"""
DEVELOPER = [
    "One regular expression does it.",
    json.dumps({"content": CODE, "tests": "", "description": "joins the words of a title"}),
    json.dumps({"score": 0.9, "notes": "it does what the examples say"}),
]


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "developer.jsonl").write_text("".join(f"{json.dumps(turn)}\n" for turn in DEVELOPER))
        mastermind = mindx.ScriptedProvider([json.dumps(turn) for turn in (PLAN, ASSESSMENT, STRATEGY, CONCEPT, USE)])
        system = mindx.MindSystem(folder / "mind", mastermind, improvement_script=folder / "developer.jsonl")
        async with system:
            campaign = await system.mastermind.launch_campaign("Find out which tool is missing, and have it made.")
            entry = system.registry.entry("slug")
        print(campaign.status.value, "-", campaign.outcome.summary)
        print("meta-actions found:", ", ".join(campaign.facts))
        print("registered:", entry.id, entry.version, entry.status.value, "runs in a", entry.runs_in)
        history = json.loads((folder / "mind" / "mastermind_campaign_history.json").read_text())
        print("on record:", [one["status"] for one in history["campaigns"]])


logging.getLogger().addHandler(logging.NullHandler())  # the agents' log, which tells each step, is read by nobody here
asyncio.run(main())
