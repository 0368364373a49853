"""Replaying a trace: what was asked and what came of it, step by step, held against the rules that every run keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mindx.core.agent_state import TRANSITIONS, AgentState
from mindx.trace.event import Event

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """One Action with its Observation; `status` is None when the trace tells of none.

    `asked_s` and `ended_s` are seconds since the run began; `arguments` and `message` are as recorded, redacted.
    """

    number: int
    action_id: str
    name: str
    arguments: Mapping[str, Any]
    asked_s: float
    ended_s: float | None = None
    status: str | None = None
    message: str = ""


@dataclass(slots=True)
class Replay:
    """Takes a run's events in order; `steps` holds what has ended, `outcome` is "" until the run's end was told.

    `problems` are sentences: what no sound run does, such as two results of one Action or a state that does not follow.
    """

    steps: list[ReplayedStep] = field(default_factory=list)
    outcome: str = ""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    _began: datetime | None = None
    _asked: dict[_Key, ReplayedStep] = field(default_factory=dict)
    _ended: set[_Key] = field(default_factory=set)
    _states: dict[str, str] = field(default_factory=dict)
    _number: int = 0

    def take(self, events: Iterable[Event]) -> Iterator[ReplayedStep]:
        """Yield each step when its Observation comes, and at the end those without one."""
        for event in events:
            self._at(event)
            yield from self._heard(event)
        for key in list(self._asked):
            step = self._asked.pop(key)
            if self.outcome:
                self.problems.append(f"the action {step.action_id} has no result, though the run has an end")
            yield self._kept(step)

    def _at(self, event: Event) -> None:
        try:
            told = datetime.fromisoformat(event.time.replace("Z", "+00:00"))
            self._began = self._began or told
            self.seconds = max((told - self._began).total_seconds(), self.seconds)
        except (ValueError, TypeError, AttributeError):
            self.problems.append(f"the event {event.seq} has a time that is none")

    def _heard(self, event: Event) -> Iterator[ReplayedStep]:
        data = event.data
        payload = data.get("payload")
        run = str(data.get("agent_run_id") or data.get("run_id") or "")
        payload = payload if isinstance(payload, Mapping) else {}
        if event.kind == "action_started" and not payload:  # of a plan
            params = data.get("params")
            self._ask(("", str(data.get("action_id"))), _plan_name(data), params if isinstance(params, Mapping) else {})
        elif event.kind == "decision_created":
            for action in payload.get("actions") or ():
                if isinstance(action, Mapping):
                    arguments = action.get("arguments")
                    arguments = arguments if isinstance(arguments, Mapping) else {}
                    self._ask((run, str(action.get("action_id"))), str(action.get("name")), arguments)
        elif event.kind == "observation":
            yield from self._end(("", str(data.get("action_id"))), data)
        elif event.kind == "observation_created":
            yield from self._end((run, str(payload.get("action_id"))), payload)
        elif event.kind == "state_changed":
            self._move(run, str(payload.get("from")), str(payload.get("to")))
        elif event.kind == "run_finished":
            self.outcome = str(data.get("outcome") or payload.get("outcome") or "unknown")

    def _ask(self, key: _Key, name: str, arguments: Mapping[str, Any]) -> None:
        if key in self._asked or key in self._ended:
            self.problems.append(f"the action {key[1]} is asked for twice")
        self._number += 1
        self._asked[key] = ReplayedStep(self._number, key[1], name, arguments, self.seconds)

    def _end(self, key: _Key, data: Mapping[str, Any]) -> Iterator[ReplayedStep]:
        asked = self._asked.pop(key, None)
        if key in self._ended:
            self.problems.append(f"the action {key[1]} has two results")
            return
        self._ended.add(key)
        if asked is None:
            if data.get("status") in ("SUCCESS", "FAILURE"):  # what is refused or skipped never began
                self.problems.append(f"there is a result of the action {key[1]}, which was not asked for")
            self._number += 1
            asked = ReplayedStep(self._number, key[1], str(data.get("command") or ""), {}, self.seconds)
        status, message = str(data.get("status")), str(data.get("message") or "")
        yield self._kept(replace(asked, ended_s=self.seconds, status=status, message=message))

    def _kept(self, step: ReplayedStep) -> ReplayedStep:
        self.steps.append(step)
        return step

    def _move(self, run: str, before: str, after: str) -> None:
        known = self._states.get(run, before)
        self._states[run] = after
        try:
            sound = known == before and AgentState(after) in TRANSITIONS[AgentState(before)]
        except ValueError:
            return  # a state that this version does not know
        if not sound:
            self.problems.append(f"no way leads from the state {known} to {after}")


def _plan_name(data: Mapping[str, Any]) -> str:
    params = data.get("params")
    params = params if isinstance(params, Mapping) else {}
    words = (str(params[key]) for key in ("tool_id", "command") if isinstance(params.get(key), str))
    return " ".join(words) or str(data.get("type"))
