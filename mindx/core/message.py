"""Chat messages: what a context holds and a provider is sent, in no vendor's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Union

from mindx.core.frozen import dataclass


class Role(str, Enum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image: an http(s) URL or a data URL. `detail` is a hint of the field (auto, low, high)."""

    url: str
    detail: str = "auto"


MessagePart = Union[TextPart, ImagePart]  # noqa: UP007 - an alias that Python 3.10 evaluates


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool. `arguments` are as parsed; `problem` says why they could not be, or is "".

    `arguments_text` is what the model wrote, kept for the record and for sending back; "" means: make it from
    `arguments`.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    arguments_text: str = ""
    problem: str = ""

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        return self.arguments_text or json.dumps(self.arguments, default=dict)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message. An assistant's may carry `tool_calls`; a tool's answers the call `tool_call_id`."""

    role: Role
    parts: tuple[MessagePart, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def chars(self) -> int:
        """How long it is: texts, URLs and arguments."""
        parts = sum(len(part.text) if isinstance(part, TextPart) else len(part.url) for part in self.parts)
        return parts + sum(len(call.text) for call in self.tool_calls)

    @classmethod
    def system(cls, text: str) -> ChatMessage:
        """Return a system message."""
        return cls(Role.SYSTEM, (TextPart(text),))

    @classmethod
    def user(cls, text: str, images: tuple[str, ...] = ()) -> ChatMessage:
        """Return a user's message, with images by URL."""
        return cls(Role.USER, (TextPart(text), *map(ImagePart, images)))

    @classmethod
    def assistant(cls, text: str = "", tool_calls: tuple[ToolCall, ...] = ()) -> ChatMessage:
        """Return an assistant's message."""
        return cls(Role.ASSISTANT, (TextPart(text),) if text else (), tool_calls)

    @classmethod
    def tool(cls, call_id: str, text: str, name: str = "") -> ChatMessage:
        """Return the answer to one tool call."""
        return cls(Role.TOOL, (TextPart(text),), tool_call_id=call_id, name=name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        parts = [
            {"type": "text", "text": part.text}
            if isinstance(part, TextPart)
            else {"type": "image", "url": part.url, "detail": part.detail}
            for part in self.parts
        ]
        value: dict[str, Any] = {"role": self.role.value, "parts": parts}
        if self.tool_calls:
            value["tool_calls"] = [
                {"call_id": call.call_id, "name": call.name, "arguments": call.text, "problem": call.problem}
                for call in self.tool_calls
            ]
        if self.tool_call_id:
            value["tool_call_id"] = self.tool_call_id
        if self.name:
            value["name"] = self.name
        return value

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> ChatMessage:
        """Return what `to_dict` was called on. Raises KeyError, ValueError and TypeError for anything else."""
        parts: list[MessagePart] = [
            TextPart(str(part["text"])) if part["type"] == "text" else ImagePart(part["url"], part["detail"])
            for part in value["parts"]
        ]
        return cls(
            Role(value["role"]),
            tuple(parts),
            tuple(_call(call) for call in value.get("tool_calls", ())),
            str(value.get("tool_call_id", "")),
            str(value.get("name", "")),
        )


def _call(value: Mapping[str, Any]) -> ToolCall:
    text, problem = str(value["arguments"]), str(value["problem"])
    arguments = {} if problem else json.loads(text)
    return ToolCall(value["call_id"], value["name"], arguments, text, problem)
