"""How many tokens a message costs: from its length, offline, or by tiktoken where that is asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mindx.core.message import ChatMessage, TextPart
from mindx.errors import InputError
from mindx.runtime.context.models import ContextConfig

MESSAGE_TOKENS = 4  # role and separators of one message
CALL_TOKENS = 8  # id and wrapping of one tool call


class Estimator:
    """Counts tokens. Raises InputError (tiktoken_unavailable) when it was asked for and is not there."""

    def __init__(self, config: ContextConfig) -> None:
        self.name = "tiktoken" if config.use_tiktoken else "characters"
        self._image_tokens = config.image_tokens
        self._count: Callable[[str], int] = _by_characters(config.chars_per_token)
        if config.use_tiktoken:
            self._count = _by_tiktoken(config.tiktoken_encoding)

    def text(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._count(text) if text else 0

    def message(self, message: ChatMessage) -> int:
        """Return the tokens of a message with its images and calls."""
        total = MESSAGE_TOKENS
        for part in message.parts:
            total += self.text(part.text) if isinstance(part, TextPart) else self._image_tokens
        for call in message.tool_calls:
            total += CALL_TOKENS + self.text(call.name) + self.text(call.text)
        return total

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens of tool schemas."""
        return sum(self.text(canonical(tool)) + CALL_TOKENS for tool in tools)


def canonical(value: Any) -> str:
    """Return JSON in which the order of an object's keys makes no difference."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)


def _by_characters(chars_per_token: float) -> Callable[[str], int]:
    def count(text: str) -> int:
        # A character beyond Latin is a token or more by itself, not a quarter of one.
        wide = 0 if text.isascii() else sum(character > "\u024f" for character in text)
        return math.ceil((len(text) - wide) / chars_per_token) + wide

    return count


def _by_tiktoken(name: str) -> Callable[[str], int]:
    try:
        import tiktoken
    except ImportError:
        encoding, problem = None, "install `mindx[tiktoken]`"
    else:
        try:
            encoding, problem = tiktoken.get_encoding(name), ""
        except Exception as error:  # noqa: BLE001 - it fetches its tables, with whatever client it has
            encoding, problem = None, f"its encoding {name} cannot be loaded ({type(error).__name__})"
    if encoding is None:
        raise InputError("tiktoken_unavailable", f"use_tiktoken needs tiktoken: {problem}, or set use_tiktoken=False")
    found = encoding
    return lambda text: len(found.encode(text, disallowed_special=()))
