"""One belief: a value with its confidence, its source and its times."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mindx.core.output import plain_value
from mindx.core.quote import quoted
from mindx.errors import InputError

MAX_KEY = 256  # characters, of a namespace too
MAX_VALUE = 64 * 1024  # characters of JSON
MAX_METADATA = 8 * 1024
MAX_TTL_S = 100 * 365 * 86_400


class BeliefSource(str, Enum):
    """Where a belief comes from."""

    PERCEPTION = "perception"
    COMMUNICATION = "communication"
    INFERENCE = "inference"
    SELF_ANALYSIS = "self_analysis"
    EXTERNAL_INPUT = "external_input"
    DEFAULT = "default"
    LEARNED = "learned"
    DERIVED = "derived"


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed. `confidence` is 0 to 1; times are seconds since 1970; `ttl_s` None means that it stays.

    `value` and `metadata` are JSON values.
    """

    key: str
    value: Any
    confidence: float
    source: BeliefSource
    namespace: str = ""
    created: float = 0.0
    updated: float = 0.0
    ttl_s: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expires(self) -> float | None:
        """When it is no longer believed, or None."""
        return None if self.ttl_s is None else self.updated + self.ttl_s

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "namespace": self.namespace,
            "key": self.key,
            "value": self.value,
            "confidence": self.confidence,
            "source": self.source.value,
            "created": self.created,
            "updated": self.updated,
            "ttl_s": self.ttl_s,
            "metadata": dict(self.metadata),
        }


class BeliefChange(str, Enum):
    """What happened to a belief."""

    ADDED = "added"
    UPDATED = "updated"
    REMOVED = "removed"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class BeliefEvent:
    """A change. `belief` is what is believed now, or was last; `before` what it replaced, None when it is new."""

    change: BeliefChange
    belief: Belief
    before: Belief | None = None


def checked_name(name: str, what: str) -> str:
    """Return a key or a namespace. Raises InputError (belief_invalid)."""
    sound = isinstance(name, str) and len(name) <= MAX_KEY and name.isprintable() and (name or what != "key")
    if not sound or name != name.strip():
        raise InputError(
            "belief_invalid", f"{quoted(str(name))} is no {what} of a belief: up to {MAX_KEY} printable characters"
        )
    return name


def checked_confidence(confidence: float) -> float:
    """Return a confidence, brought between 0 and 1. Raises InputError (belief_invalid) for what is no number."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or math.isnan(confidence):
        raise InputError("belief_invalid", "the confidence of a belief is a number from 0 to 1")
    return min(1.0, max(0.0, float(confidence)))


def checked_ttl(ttl_s: float | None) -> float | None:
    """Return a time to live in seconds. Raises InputError (belief_invalid)."""
    if ttl_s is None:
        return None
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, (int, float)) or not 0 < ttl_s <= MAX_TTL_S:
        raise InputError("belief_invalid", "the time to live of a belief is a number of seconds above 0")
    return float(ttl_s)


def encoded(value: Any, most: int, what: str) -> str:
    """Return a value as JSON. Raises InputError (belief_invalid) when it is none, or too large."""
    try:
        text = json.dumps(plain_value(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError("belief_invalid", f"the {what} of a belief is no JSON: {type(error).__name__}") from None
    if len(text) > most:
        raise InputError("belief_invalid", f"the {what} of a belief has {len(text):,} characters; at most {most:,}")
    return text
