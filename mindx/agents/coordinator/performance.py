"""How the models do: for each model and task the calls, failures, times, tokens and costs."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mindx.agents.coordinator.database import CoordinatorDatabase
from mindx.errors import MindxError, StateError
from mindx.providers.base import BaseProvider, ModelRequest, ProviderResponse, ProviderStreamChunk

logger = logging.getLogger("coordinator.performance")
WINDOW = 100  # latencies that are kept
MAX_KEYS = 500  # of models and tasks; what comes beyond is counted under `other`
MAX_ERROR_TYPES = 50
OTHER = "other"
SAVE_EVERY_S, SAVE_EVERY_CALLS = 300.0, 20
_UPSERT = (
    "INSERT INTO performance VALUES (?, ?, ?) ON CONFLICT (model, task) DO UPDATE SET document = excluded.document"
)


class Price(BaseModel):
    """What a model costs for a million tokens, in the operator's currency."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of so many tokens."""
        return (input_tokens * self.input_per_million + output_tokens * self.output_per_million) / 1_000_000


class ModelPerformance(BaseModel):
    """What is known of one model at one task. `latencies_s` are the last ones; `cost` leaves out `unpriced_calls`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    task: str
    calls: int = 0
    ok: int = 0
    failed: int = 0
    latencies_s: tuple[float, ...] = ()
    error_types: dict[str, int] = {}
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced_calls: int = 0
    first_call_at: datetime | None = None
    last_call_at: datetime | None = None

    @property
    def mean_latency_s(self) -> float | None:
        """The mean of the last latencies, None before the first call."""
        return sum(self.latencies_s) / len(self.latencies_s) if self.latencies_s else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the latencies as their mean."""
        value = self.model_dump(mode="json", exclude={"latencies_s"})
        return {**value, "mean_latency_s": self.mean_latency_s}


class PerformanceMonitor:
    """Counts calls of models; written to the database every 20 calls or 300 s, and when it is flushed."""

    def __init__(
        self,
        database: CoordinatorDatabase,
        prices: Mapping[str, Price] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database, self._prices, self._now = database, dict(prices or {}), now
        self._known: dict[tuple[str, str], ModelPerformance] = {}
        self._changed: set[tuple[str, str]] = set()
        self._unsaved, self._saved_at = 0, now()
        for model, task, document in database.rows("SELECT model, task, document FROM performance"):
            try:
                self._known[model, task] = ModelPerformance.model_validate(json.loads(document))
            except (ValueError, RecursionError) as error:
                raise database.damaged("the record of a model", error) from None

    def record(
        self,
        model: str,
        task: str,
        *,
        latency_s: float,
        usage: Mapping[str, int] | None = None,
        error: str = "",
    ) -> ModelPerformance:
        """Count one call; `error` "" means that it was answered. `usage` None or empty: the tokens are not known."""
        key = self._key(model[:200], task[:200])
        old = self._known.get(key) or ModelPerformance(model=key[0], task=key[1])
        spent = usage or {}
        inputs, outputs = max(0, spent.get("input_tokens", 0)), max(0, spent.get("output_tokens", 0))
        price = self._prices.get(model)
        priced = price is not None and bool(spent)
        at = datetime.fromtimestamp(self._now(), timezone.utc)
        new = old.model_copy(
            update={
                "calls": old.calls + 1,
                "ok": old.ok + (not error),
                "failed": old.failed + bool(error),
                "latencies_s": (*old.latencies_s, max(0.0, latency_s))[-WINDOW:],
                "error_types": _counted(old.error_types, error[:100]) if error else old.error_types,
                "input_tokens": old.input_tokens + inputs,
                "output_tokens": old.output_tokens + outputs,
                "cost": old.cost + (price.of(inputs, outputs) if price is not None and priced else 0.0),
                "unpriced_calls": old.unpriced_calls + (not priced),
                "first_call_at": old.first_call_at or at,
                "last_call_at": at,
            }
        )
        self._known[key] = new
        self._changed.add(key)
        self._unsaved += 1
        if self._unsaved >= SAVE_EVERY_CALLS or self._now() - self._saved_at >= SAVE_EVERY_S:
            try:
                self.flush()
            except StateError as trouble:  # no call of a model fails because it could not be counted
                logger.warning("calls of models could not be written down: %s", trouble.message)
        return new

    def list(self) -> tuple[ModelPerformance, ...]:
        """Return what is known, by model and task."""
        return tuple(self._known[key] for key in sorted(self._known))

    def flush(self) -> None:
        """Write down what is not yet. Raises StateError."""
        with self._database.writing():
            for key in self._changed:
                self._database.rows(_UPSERT, (*key, self._known[key].model_dump_json()))
        self._changed.clear()
        self._unsaved, self._saved_at = 0, self._now()

    def watched(self, provider: BaseProvider, task: str) -> WatchedProvider:
        """Return the provider as one that counts its calls for a task."""
        return WatchedProvider(provider, self, task)

    def _key(self, model: str, task: str) -> tuple[str, str]:
        return (model, task) if (model, task) in self._known or len(self._known) < MAX_KEYS else (OTHER, OTHER)


class WatchedProvider(BaseProvider):
    """A provider whose calls are counted; it answers as the one inside does. Closing it closes that."""

    def __init__(self, inner: BaseProvider, monitor: PerformanceMonitor, task: str) -> None:
        self._inner, self._monitor, self._task = inner, monitor, task
        self.name, self.models, self.capabilities = inner.name, inner.models, inner.capabilities

    async def generate(self, request: ModelRequest) -> ProviderResponse:
        """Return the answer of the provider inside, counted. Raises what that raises."""
        began = time.monotonic()
        try:
            response = await self._inner.generate(request)
        except BaseException as error:
            self._count(request.model, began, error=_kind(error))
            raise
        self._count(response.model or request.model, began, response.usage)
        return response

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderStreamChunk, None]:
        """Yield what the provider inside yields; the call counts when it has ended. Raises what that raises."""
        began, response = time.monotonic(), None
        try:
            async for chunk in self._inner.stream(request):
                response = chunk.response or response
                yield chunk
        except BaseException as error:
            self._count(request.model, began, error=_kind(error))
            raise
        self._count(
            (response.model if response else "") or request.model,
            began,
            response.usage if response else None,
            "" if response else "no_response",
        )

    async def close(self) -> None:
        """Close the provider inside."""
        await self._inner.close()

    def _count(self, model: str, began: float, usage: Mapping[str, int] | None = None, error: str = "") -> None:
        name = model or (self.models[0] if self.models else self.name)
        self._monitor.record(name, self._task, latency_s=time.monotonic() - began, usage=usage, error=error)


def _kind(error: BaseException) -> str:
    if isinstance(error, MindxError):
        return error.code
    cancelled = isinstance(error, (asyncio.CancelledError, GeneratorExit))
    return "cancelled" if cancelled else type(error).__name__


def _counted(counts: Mapping[str, int], error: str) -> dict[str, int]:
    name = error if error in counts or len(counts) < MAX_ERROR_TYPES else OTHER
    return {**counts, name: counts.get(name, 0) + 1}
