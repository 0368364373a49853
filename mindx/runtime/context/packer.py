"""What of a record goes to the model: all of it while it fits, else the newest, and the same from step to step.

A provider's cache holds a request's beginning. So history is not rewritten at every step: what is left out stays left
out (one epoch), compaction happens once in a run, and after that only when there is no other way to fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mindx.core.agent_context import ContextPressure
from mindx.errors import ContextOverflowError
from mindx.runtime.context.models import ContextBundle, ContextConfig, ContextPackResult
from mindx.runtime.context.store import PackState

NOTE_TOKENS = 48  # of the message that tells what is left out


class CacheAwarePacker:
    """Chooses bundles within the budget of `config`; it changes the PackState that it is given."""

    def __init__(self, config: ContextConfig) -> None:
        self._config = config

    def pack(self, bundles: Sequence[ContextBundle], tool_tokens: int, state: PackState) -> ContextPackResult:
        """Return the choice, in order, never splitting a bundle and never over the budget.

        Raises ContextOverflowError when what may not be left out (the stable prefix, pinned bundles, the last one and
        the tool schemas) is larger than the budget.
        """
        budget = self._budget(state)
        kept = [bundle for bundle in bundles if bundle.group_id not in state.dropped]
        before = self._size(kept, tool_tokens, state, bool(state.dropped))
        decision = "kept"
        if before > budget or (before >= self._config.compact_ratio * budget and not state.compacted):
            decision = "forced" if state.compacted else "compacted"
            dropped = self._drop(bundles, kept, tool_tokens, state)
            if dropped != state.dropped:
                state.epoch += 1
                state.dropped = dropped
            state.compacted = True
            kept = [bundle for bundle in bundles if bundle.group_id not in dropped]
        size = self._size(kept, tool_tokens, state, bool(state.dropped))
        if size > budget:
            raise ContextOverflowError(
                "context_overflow",
                f"the instructions, the tools, the task and the last step need {size:,} tokens; the context has room "
                f"for {budget:,}. Shorten them, or use a model with a larger context",
                details={"tokens": size, "budget_tokens": budget, "tool_tokens": tool_tokens},
            )
        state.estimated = self._size(kept, tool_tokens, state, bool(state.dropped), scaled=False)
        prefix = sum(bundle.tokens for bundle in kept if bundle.records[0].stable_prefix)
        return ContextPackResult(
            bundles=tuple(kept),
            dropped=state.dropped,
            decision=decision,
            pressure=self._pressure(before, budget),
            epoch=state.epoch,
            tokens=size,
            tool_tokens=tool_tokens,
            prefix_tokens=prefix,
            note_tokens=NOTE_TOKENS if state.dropped else 0,
            budget_tokens=budget,
        )

    def _drop(
        self, bundles: Sequence[ContextBundle], kept: list[ContextBundle], tool_tokens: int, state: PackState
    ) -> frozenset[str]:
        """Return what to leave out: as much as brings the rest down to the target, the least first."""
        target = self._config.target_ratio * self._budget(state)
        last = bundles[-1].group_id if bundles else ""
        dropped = set(state.dropped)
        size = self._size(kept, tool_tokens, state, noted=True)
        for bundle in sorted(kept, key=lambda item: item.rank):
            if size <= target:
                break
            if bundle.pinned or bundle.group_id == last:
                continue
            dropped.add(bundle.group_id)
            size -= math.floor(bundle.tokens * state.scale)
        return frozenset(dropped)

    def _size(
        self, kept: Sequence[ContextBundle], tool_tokens: int, state: PackState, noted: bool, *, scaled: bool = True
    ) -> int:
        plain = sum(bundle.tokens for bundle in kept) + tool_tokens + (NOTE_TOKENS if noted else 0)
        return math.ceil(plain * state.scale) if scaled else plain

    def _budget(self, state: PackState) -> int:
        budget = self._config.budget_tokens
        return budget if state.ceiling is None else min(budget, state.ceiling)

    def _pressure(self, tokens: int, budget: int) -> ContextPressure:
        ratio = tokens / budget
        if ratio >= self._config.compact_ratio:
            return ContextPressure.CRITICAL
        return ContextPressure.WARNING if ratio >= self._config.warning_ratio else ContextPressure.NORMAL
