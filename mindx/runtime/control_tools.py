"""The two tools by which a model steers the run itself: to ask the user, and to complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.core.decision import AgentDecision, CompletionClaim, UserInputOption
from mindx.core.message import ChatMessage, ToolCall
from mindx.errors import InputError

ASK_USER, COMPLETE = "mindx_ask_user", "mindx_complete"
_ALIASES = {ASK_USER: ASK_USER, COMPLETE: COMPLETE, "mindagent_ask_user": ASK_USER, "mindagent_complete": COMPLETE}
MAX_OPTIONS = 20

_STRING = {"type": "string"}
CONTROL_SCHEMAS: tuple[Mapping[str, Any], ...] = (
    {
        "name": ASK_USER,
        "description": "Ask the user for information that you need and cannot find out. Not for permission: what needs "
        "one is asked for by itself. Call it alone.",
        "parameters": {
            "type": "object",
            "properties": {
                "question": _STRING,
                "options": {"type": "array", "items": _STRING, "description": "answers to choose from, if there are"},
            },
            "required": ["question"],
            "additionalProperties": False,
        },
    },
    {
        "name": COMPLETE,
        "description": "Say that the work is done, with the final answer. Call it alone. Where the task has acceptance "
        "criteria, cite for each the evidence_ids of results that prove it.",
        "parameters": {
            "type": "object",
            "properties": {
                "answer": _STRING,
                "evidence": {
                    "type": "object",
                    "description": "criterion id to evidence ids",
                    "additionalProperties": {"type": "array", "items": _STRING},
                },
            },
            "required": ["answer"],
            "additionalProperties": False,
        },
    },
)


def is_control(name: str) -> bool:
    """Return whether a tool of this name steers the run (the seed's names do too)."""
    return name in _ALIASES


def control_decision(call: ToolCall, message: ChatMessage, usage: Mapping[str, int]) -> AgentDecision:
    """Return the decision that a call of a control tool is. Raises InputError (decision_invalid)."""
    if call.problem:
        raise _invalid(call, call.problem)
    if _ALIASES[call.name] == ASK_USER:
        return _ask(call, message, usage)
    return _complete(call, message, usage)


def _ask(call: ToolCall, message: ChatMessage, usage: Mapping[str, int]) -> AgentDecision:
    question, options = call.arguments.get("question"), call.arguments.get("options") or []
    if not isinstance(question, str) or not question.strip():
        raise _invalid(call, "`question` is a text")
    if not isinstance(options, list) or len(options) > MAX_OPTIONS:
        raise _invalid(call, f"`options` is a list of at most {MAX_OPTIONS} texts")
    return AgentDecision.ask(question, [_option(call, option) for option in options], message=message, usage=usage)


def _option(call: ToolCall, value: Any) -> UserInputOption:
    if isinstance(value, Mapping) and isinstance(value.get("value"), str):
        return UserInputOption(value["value"], str(value.get("label", "")))
    if not isinstance(value, str):
        raise _invalid(call, "an option is a text")
    return UserInputOption(value)


def _complete(call: ToolCall, message: ChatMessage, usage: Mapping[str, int]) -> AgentDecision:
    answer = call.arguments.get("answer", call.arguments.get("summary"))
    cited = call.arguments.get("evidence") or {}
    if not isinstance(answer, str):
        raise _invalid(call, "`answer` is a text")
    sound = isinstance(cited, Mapping) and all(
        isinstance(ids, list) and all(isinstance(item, str) for item in ids) for ids in cited.values()
    )
    if not sound:
        raise _invalid(call, "`evidence` maps a criterion id to a list of evidence ids")
    return AgentDecision.complete(answer, CompletionClaim(answer, cited), message=message, usage=usage)


def _invalid(call: ToolCall, problem: str) -> InputError:
    return InputError("decision_invalid", f"{call.name}: {problem}")
