"""Whether a run's document tells what its trace tells: both are written by the run, and each can be changed alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindx.core.count import counted
from mindx.trace.event import Event
from mindx.trace.redact import Redactor

# What ends a run when its record cannot be written: then the trace lacks the last step or the end.
_UNWRITTEN = frozenset({"trace_unwritable", "output_unwritable", "state_unwritable"})
_NOT_REACHED = ("not reached", "not reached: the plan may not run")
_MAX_SHOWN_CHARS = 80
_NOTHING: Mapping[str, Any] = {}
# An agent's step has no program's figures of its own: the Commands of its tool are events of the trace.
_NO_PROGRAM = {
    "exit_code": None,
    "exit_cause": None,
    "stdout": "",
    "stderr": "",
    "stdout_bytes": 0,
    "stderr_bytes": 0,
    "receipt": None,
}


def differences(document: Mapping[str, Any], events: Iterable[Event]) -> tuple[str, ...]:
    """Return one sentence for each thing that the document of a run and its trace tell differently; () when none.

    The events are those of a sound trace. What the trace keeps redacted or cut is compared so.
    """
    told = _Told()
    for event in events:
        told.hear(event)
    return tuple(_Comparison(document, told).found)


@dataclass(slots=True)
class _Told:
    """What the trace says of the things that the document says too; None where it says nothing."""

    start: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] | None = None
    vetted: Mapping[str, Any] | None = None
    changes: Mapping[str, Any] | None = None
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    opened: bool = False
    _names: dict[str, str] = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        """Take one event; kinds that the document does not tell of are passed over."""
        data = event.data
        if event.kind == "run_started":
            self.start = data
        elif event.kind == "run_finished":
            self.end = data
        elif event.kind == "plan_vetted":
            self.vetted = data
        elif event.kind == "session_started":
            self.opened = True
        elif event.kind == "changes":
            self.changes = data
        elif event.kind == "observation":
            self.steps.append(data)
        elif event.kind == "decision_created":
            for action in _mapping(data.get("payload")).get("actions") or ():
                if isinstance(action, Mapping):
                    self._names[str(action.get("action_id"))] = str(action.get("name"))
        elif event.kind == "observation_created":
            self.steps.append(self._of_agent(_mapping(data.get("payload"))))

    def _of_agent(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a step as the document has it, of an agent's Observation."""
        known = {key: payload.get(key) for key in ("action_id", "status", "message", "result")}
        took = payload.get("duration_s")
        known["duration_s"] = round(took, 6) if isinstance(took, (int, float)) else took
        name = self._names.get(str(payload.get("action_id")))
        command = {} if name is None else {"command": name}
        return {"index": len(self.steps), "type": "TOOL", **known, **command, **_NO_PROGRAM}


class _Comparison:
    """Holds the document against the trace; `found` are the sentences."""

    def __init__(self, document: Mapping[str, Any], told: _Told) -> None:
        self.found: list[str] = []
        self._document, self._told = document, told
        self._clean = Redactor().clean
        self._unwritten = _mapping(document.get("error")).get("code") in _UNWRITTEN
        self._compare_start()
        self._compare_steps()
        self._compare_changes()
        self._compare_end()

    def _compare_start(self) -> None:
        self._compare("the run's id", self._document.get("run_id"), self._told.start.get("run_id"))
        policy, told = _mapping(self._document.get("policy")), _mapping(self._told.start.get("policy"))
        for key in ("name", "sha256"):
            self._compare(f"the policy's {key}", policy.get(key), told.get(key))
        faults = [] if self._told.vetted is None else self._told.vetted.get("faults")
        self._compare("faults", self._cleaned("faults"), faults)

    def _compare_steps(self) -> None:
        steps, told = _list(self._document.get("steps")), self._told.steps
        for number, (step, fact) in enumerate(zip(steps, told, strict=False), start=1):
            self._compare_step(number, _mapping(step), fact)
        for number in range(len(steps) + 1, len(told) + 1):
            self.found.append(
                f"step {number}: the document lacks it, the trace says {_shown(told[number - 1], 'status')}"
            )
        missing = 0
        for number, step in enumerate(steps[len(told) :], start=len(told) + 1):
            if not self._may_be_untold(_mapping(step)):
                missing += 1
                if missing > 1 or not self._unwritten:  # the one whose record could not be written
                    self.found.append(f"step {number}: the document says {_shown(step, 'status')}, the trace nothing")
        self._compare_count(len(steps))

    def _compare_count(self, steps: int) -> None:
        vetted = self._told.vetted
        if vetted is not None and (self._told.opened or self._refused()) and steps != vetted.get("actions"):
            self.found.append(f"the document has {counted(steps, 'step')}, the trace tells of {vetted.get('actions')}")

    def _refused(self) -> bool:
        """Return True when the trace tells of a plan that may not run."""
        kinds = {_mapping(fault).get("kind") for fault in _list((self._told.vetted or _NOTHING).get("faults"))}
        return not self._told.opened and bool(kinds & {"invalid", "denied"})

    def _may_be_untold(self, step: Mapping[str, Any]) -> bool:
        """Return True for a step that was not reached, or that a refused plan never began."""
        if any(step.get(key, empty) != empty for key, empty in _NO_PROGRAM.items()) or step.get("result"):
            return False
        if step.get("status") == "SKIPPED":
            return step.get("message") in _NOT_REACHED
        return self._refused() and step.get("status") in ("ERROR", "DENIED")

    def _compare_step(self, number: int, step: Mapping[str, Any], told: Mapping[str, Any]) -> None:
        # As deep as the trace has it: how much of a value is kept goes by its depth.
        agents = "abridged" not in told
        mine = self._clean({"payload": dict(step)})["payload"] if agents else self._clean(dict(step))
        for key in dict.fromkeys((*told, *(() if agents else mine))):
            if agents and key == "result" and step.get("abridged"):
                continue
            self._compare(f"step {number}: {key}", mine.get(key), told.get(key))

    def _compare_changes(self) -> None:
        mine, fact = _list(self._cleaned("changes")), self._told.changes
        count = len(_list(self._document.get("changes")))
        if fact is None:
            if count and not self._unwritten:
                self.found.append(f"the document has {counted(count, 'change')}, the trace none")
            return
        self._compare("the number of changes", count, fact.get("count"))
        for number, (change, told) in enumerate(zip(mine, _list(fact.get("changes")), strict=False), start=1):
            if change == told:
                continue
            if not isinstance(change, Mapping) or not isinstance(told, Mapping):
                self._compare(f"change {number}", change, told)
                continue
            for key in dict.fromkeys((*told, *change)):
                self._compare(f"change {number}: {key}", change.get(key), told.get(key))

    def _compare_end(self) -> None:
        end, outcome = self._told.end, self._document.get("outcome")
        if self._unwritten and outcome == "error":
            return  # the end itself may be what could not be written
        if end is None:
            self.found.append(f"the document says {_shown(self._document, 'outcome')}, the trace has no end")
            return
        self._compare("outcome", outcome, end.get("outcome"))
        self._compare("error", self._cleaned("error"), end.get("error"))

    def _cleaned(self, key: str) -> Any:
        return self._clean({key: self._document.get(key)})[key]

    def _compare(self, what: str, mine: Any, told: Any) -> None:
        if _same(mine, told):
            return
        shown = [_short(mine), _short(told)]
        if shown[0] == shown[1] or "" in shown:
            self.found.append(f"{what}: the document and the trace differ")
        else:
            self.found.append(f"{what}: the document says {shown[0]}, the trace {shown[1]}")


def _same(mine: Any, told: Any) -> bool:
    if isinstance(mine, Mapping) and isinstance(told, Mapping):
        return mine.keys() == told.keys() and all(_same(value, told[key]) for key, value in mine.items())
    if isinstance(mine, list) and isinstance(told, list):
        return len(mine) == len(told) and all(map(_same, mine, told))
    if mine in ("nan", "inf", "-inf") and told is None:  # a plan's step is recorded without what is no number
        return True
    return bool(mine == told) and isinstance(mine, bool) == isinstance(told, bool)


def _short(value: Any) -> str:
    """Return a value to be shown, or nothing when it is too long for that."""
    if isinstance(value, (Mapping, list)):
        return ""
    text = "nothing" if value is None else str(value) if value != "" else "an empty text"
    return text if len(text) <= _MAX_SHOWN_CHARS and "\n" not in text else ""


def _shown(value: Any, key: str) -> str:
    return _short(_mapping(value).get(key)) or "something else"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NOTHING


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
