"""Trying a registered tool: its own examples, or one call, in a container of the user's choosing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.errors import InputError
from mindx.runtime.session import Session
from mindx.tools.base import ToolError
from mindx.tools.container_entry import ToolEntry, ToolExample
from mindx.tools.container_runner import DEFAULT_TIMEOUT_S
from mindx.tools.container_tool import CapabilityCall


@dataclass(frozen=True, slots=True)
class Trial:
    """One call that is to be made, as an example says it."""

    capability: str
    example: ToolExample

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The call's arguments."""
        return self.example.arguments


@dataclass(frozen=True, slots=True)
class TrialReport:
    """What became of one call; `message` says why it is not `ok`."""

    trial: Trial
    ok: bool
    answer: Any = None
    message: str = ""
    duration_s: float = 0.0


def trials_of(entry: ToolEntry, capability: str = "", arguments: Mapping[str, Any] | None = None) -> list[Trial]:
    """Return the examples of a tool (of one capability, if it is named), or the one call with `arguments`.

    Raises InputError: tool_capability_unknown, tool_examples_none.
    """
    names = ", ".join(item.name for item in entry.capabilities)
    if capability and entry.capability(capability) is None:
        raise InputError("tool_capability_unknown", f"{entry.id} has no capability {capability!a}; it has {names}")
    if arguments is not None:
        if not capability and len(entry.capabilities) > 1:
            raise InputError("tool_capability_unknown", f"{entry.id} has {names}; say which with --capability")
        return [Trial(capability or entry.capabilities[0].name, ToolExample(arguments=dict(arguments)))]
    chosen = [item for item in entry.capabilities if capability in ("", item.name)]
    found = [Trial(item.name, example) for item in chosen for example in item.examples]
    if not found:
        raise InputError("tool_examples_none", f"{entry.id} has no examples; give a call with --arguments")
    return found


async def try_tool(
    registry: OfficialToolsRegistry, entry: ToolEntry, trials: Sequence[Trial], session: Session
) -> list[TrialReport]:
    """Make the calls in the session's container, one after the other. Raises SandboxError, DeniedError."""
    source = registry.source(entry.id)
    calls = {item.name: CapabilityCall(entry, item) for item in entry.capabilities}
    limit_s = min(DEFAULT_TIMEOUT_S, session.policy.policy.limits.command_timeout_s)
    return [await _tried(calls[trial.capability], source, trial, session, limit_s) for trial in trials]


async def _tried(call: CapabilityCall, source: bytes, trial: Trial, session: Session, limit_s: float) -> TrialReport:
    began = time.monotonic()
    try:
        answer = await call.run(session.sandbox, call.command(source, trial.arguments, timeout_s=limit_s))
    except ToolError as error:
        return TrialReport(trial, False, None, error.message, time.monotonic() - began)
    message = "" if trial.example.holds(answer) else "it is not the result that the example names"
    return TrialReport(trial, not message, answer, message, time.monotonic() - began)
