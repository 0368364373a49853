"""A Reasoner that says what it was told to: for tests, examples and runs without a model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Union

from mindx.core.agent_context import AgentContext
from mindx.core.decision import AgentDecision
from mindx.core.observation import Observation

Line = Union[  # noqa: UP007 - an alias that Python 3.10 evaluates
    AgentDecision, Exception, Callable[[AgentContext], Union[AgentDecision, Awaitable[AgentDecision]]]  # noqa: UP007
]


class ScriptedReasoner:
    """Answers the lines of a script one after the other, then completes with `last_words`.

    A line is a decision, an exception to raise, or a function of the AgentContext that returns a decision (or awaits
    one). `observations` and `feedback` hold what it was shown at each step. A script is for one run at a time.
    """

    def __init__(self, lines: Iterable[Line] = (), last_words: str = "done") -> None:
        self.observations: list[tuple[Observation, ...]] = []
        self.feedback: list[tuple[str, ...]] = []
        self._lines = iter(lines)
        self._last_words = last_words

    async def decide(self, context: AgentContext) -> AgentDecision:
        """Return the next line's decision."""
        self.observations.append(context.observations)
        self.feedback.append(tuple(context.feedback))
        line = next(self._lines, None)
        if line is None:
            return AgentDecision.complete(self._last_words)
        if isinstance(line, Exception):
            raise line
        if isinstance(line, AgentDecision):
            return line
        decision = line(context) if callable(line) else line
        return await decision if inspect.isawaitable(decision) else decision
