"""Asking a model for JSON: the answer is taken out of what it says around it, checked, and asked for again."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mindx.core.count import counted
from mindx.core.message import ChatMessage
from mindx.core.strict_json import read_json
from mindx.errors import InputError, ProviderError
from mindx.providers.base import BaseProvider, ModelRequest
from mindx.providers.failures import provider_error
from mindx.providers.router import ProviderRouter

_LOG = logging.getLogger("model")

T = TypeVar("T")
ATTEMPTS = 3
MAX_ANSWER = 400_000  # characters
MAX_PROBLEM = 4000
_FENCE = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\n(.*?)```", re.S)


async def ask_json(
    provider: BaseProvider | ProviderRouter,
    system: str,
    question: str,
    read: Callable[[Any], T],
    *,
    schema: Mapping[str, Any] | None = None,
    model: str = "",
    attempts: int = ATTEMPTS,
    on_usage: Callable[[Mapping[str, int]], None] = lambda usage: None,
) -> T:
    """Return what `read` makes of the model's JSON.

    `read` raises InputError with what is wrong, which the model is then told, up to `attempts` times in all.
    `schema` is sent where the endpoint takes one; it is `read` that checks. `on_usage` hears the tokens of each
    answer. Raises ProviderError (provider_malformed_answer) when no answer was usable, and what the provider raises.
    """
    messages = [ChatMessage.system(system), ChatMessage.user(question)]
    known = provider.providers if isinstance(provider, ProviderRouter) else (provider,)
    sent = schema if any(one.capabilities.json_schema for one in known) else None
    problem = ""
    for _ in range(attempts):
        try:
            response = await provider.generate(ModelRequest(tuple(messages), model=model, response_schema=sent))
        except ProviderError as error:
            if sent is None or error.code != "provider_bad_request":
                raise
            sent = None  # the endpoint says that it takes schemas, and does not take this one
            response = await provider.generate(ModelRequest(tuple(messages), model=model))
        on_usage(response.usage)
        try:
            return read(json_of(response.text))
        except InputError as error:
            problem = error.message[:MAX_PROBLEM]
            _LOG.warning("An answer of the model cannot be used: %s", problem)
        told = f"This answer cannot be used: {problem}. Answer with the corrected JSON alone."
        messages[2:] = [ChatMessage.assistant(response.text[:MAX_ANSWER]), ChatMessage.user(told)]
    raise provider_error("provider_malformed_answer", f"no usable answer in {counted(attempts, 'attempt')}: {problem}")


def json_of(text: str) -> Any:
    """Return the one JSON value in a model's text: all of it, or what stands in a fence, or between the outer brackets.

    Raises InputError (answer_no_json): there is none, it is not valid, or a key stands twice in it.
    """
    if len(text) > MAX_ANSWER:
        raise InputError("answer_no_json", f"it has more than {MAX_ANSWER:,} characters")
    first = ""
    for candidate in json_candidates(text):
        document = read_json(candidate)
        if not document.problem:
            return document.value
        first = first or document.problem
    raise InputError("answer_no_json", f"it is no valid JSON ({first or 'it is empty'})")


def tokens_of(usage: Mapping[str, int]) -> int:
    """Return all tokens that a model's usage counts."""
    total = usage.get("total_tokens")
    return total if total is not None else usage.get("input_tokens", 0) + usage.get("output_tokens", 0)


def fenced(text: str) -> list[str]:
    """Return what stands between fences of three backticks, each without the end of its last line."""
    # The pattern takes no blanks before the closing fence: it would try them from every place, for minutes.
    return [match[1].rstrip(" \t").removesuffix("\n") for match in _FENCE.finditer(text)]


def json_candidates(text: str) -> list[str]:
    """Return what may be JSON in a text: all of it, then what stands in fences, then all between the outer brackets."""
    stripped = text.strip()
    found = [stripped] if stripped else []
    found += [block.strip() for block in fenced(text)]
    starts = [at for at in (stripped.find("{"), stripped.find("[")) if at >= 0]
    if starts:
        start = min(starts)
        end = stripped.rfind("}" if stripped[start] == "{" else "]")
        if end > start:
            found.append(stripped[start : end + 1])
    return found
