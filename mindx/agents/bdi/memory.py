"""What an agent must not forget when its process dies: goals, plans, steps, and what it has spent."""

from __future__ import annotations

import json
import logging
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mindx.agents.bdi.budget import Spent
from mindx.agents.bdi.failure import Diagnosis
from mindx.agents.bdi.goals import Goal
from mindx.agents.bdi.intention import Intention, PlanStep
from mindx.agents.bdi.status import BDIStatus
from mindx.agents.database import Database
from mindx.errors import InputError, StateError
from mindx.runtime.tasks.atomic import locked

LOG = logging.getLogger("bdi_agent")
MAX_RESULT_CHARS = 64 * 1024  # of a step's result, in the file
MAX_FAILURES = 20
_SCHEMA = """
CREATE TABLE IF NOT EXISTS parts (
    kind TEXT NOT NULL, part_id TEXT NOT NULL, place INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, part_id)
) WITHOUT ROWID;
"""


class Tries(BaseModel):
    """What was tried for one goal: strategies by name, plans that failed by digest, failures by their signature.

    `trying` is the kind of failure and the strategy that are being tried now.
    """

    model_config = ConfigDict(extra="forbid")

    used: dict[str, int] = Field(default_factory=dict)
    failed_plans: list[str] = Field(default_factory=list)
    repeated: dict[str, int] = Field(default_factory=dict)
    trying: tuple[str, str] | None = None
    hint: str = ""
    trouble: str = ""


class Head(BaseModel):
    """The agent as a whole. `effects` are the plans that did something in the container of the latest run."""

    model_config = ConfigDict(extra="forbid")

    agent_id: str = ""
    status: BDIStatus = BDIStatus.INITIALIZED
    message: str = ""
    spent: Spent = Field(default_factory=Spent)
    failures: list[Diagnosis] = Field(default_factory=list)
    tries: dict[str, Tries] = Field(default_factory=dict)
    effects: list[str] = Field(default_factory=list)
    runs: int = 0


class AgentMemory:
    """Goals, plans and counters of one agent; `path` None keeps them in memory alone.

    A file is one agent's at a time: it is locked until `close`. Raises InputError (agent_in_use), StateError
    (agent_state_corrupt, agent_state_unusable); a damaged file is left as it is.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._held = _hold(path)
        self._letting_go = weakref.finalize(self, self._held.close)  # who forgets to close it keeps nobody out
        self.head = Head()
        self.goals: list[Goal] = []
        self.plans: dict[str, Intention] = {}
        try:
            self._db = Database(path, "agent_state", _SCHEMA)
            self._load()
        except BaseException:
            self._held.close()
            raise

    def save(self, *, goals: tuple[Goal, ...] = (), plan: Intention | None = None) -> None:
        """Write the head, these goals and this plan as a whole."""
        with self._db.writing():
            self._put("head", "head", 0, _json(self.head))
            for goal in goals:
                if goal not in self.goals:
                    self.goals.append(goal)
                self._put("goal", goal.goal_id, self.goals.index(goal), _json(goal))
            if plan is not None:
                self.plans[plan.plan_id] = plan
                self._put_plan(plan)
                for index in range(len(plan.steps)):
                    self._put_step(plan, index)

    def save_step(self, plan: Intention, index: int) -> None:
        """Write one step, where its plan stands, and the head."""
        with self._db.writing():
            self._put("head", "head", 0, _json(self.head))
            self._put_plan(plan)
            self._put_step(plan, index)

    @contextmanager
    def lenient(self) -> Iterator[None]:
        """Let the end of a run be the run's, also where the file cannot be written: then only the log tells of it."""
        try:
            yield
        except StateError as error:
            LOG.error("The agent's state was not written: %s", error.message)

    def end(self, status: BDIStatus, message: str) -> None:
        """Note how a run ended."""
        self.head.status, self.head.message = status, message
        with self.lenient():
            self.save()

    def plan_of(self, goal: Goal) -> Intention | None:
        """Return the plan that a goal goes on with: the first that is open, else its latest, None without any."""
        plans = [self.plans[plan_id] for plan_id in goal.plan_ids]
        return next((plan for plan in plans if plan.open), plans[-1] if plans else None)

    def before(self, goal: Goal, plan: Intention) -> Intention | None:
        """Return the plan that came before this one, for one goal, or None."""
        place = goal.plan_ids.index(plan.plan_id)
        return self.plans[goal.plan_ids[place - 1]] if place else None

    def tries(self, goal: Goal) -> Tries:
        """Return what was tried for a goal."""
        return self.head.tries.setdefault(goal.goal_id, Tries())

    def keep_in(self, path: Path) -> None:
        """Go on in another file, which takes in all that is known; the one of before stays as it is.

        Raises InputError (agent_in_use), StateError.
        """
        held = _hold(path)
        try:
            database = Database(path, "agent_state", _SCHEMA)
        except BaseException:
            held.close()
            raise
        self.close()
        self._db, self._held, self.path = database, held, path
        self._letting_go = weakref.finalize(self, held.close)
        with self._db.writing():
            self._db.rows("DELETE FROM parts")
            self._put("head", "head", 0, _json(self.head))
            for place, goal in enumerate(self.goals):
                self._put("goal", goal.goal_id, place, _json(goal))
            for plan in self.plans.values():
                self._put_plan(plan)
                for index in range(len(plan.steps)):
                    self._put_step(plan, index)

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        self._db.close()
        self._letting_go()

    def _put_plan(self, plan: Intention) -> None:
        head = {**plan.model_dump(mode="json", exclude={"steps"}), "steps": len(plan.steps)}
        self._put("plan", plan.plan_id, list(self.plans).index(plan.plan_id), json.dumps(head))

    def _put_step(self, plan: Intention, index: int) -> None:
        step = plan.steps[index]
        text = _json(step)
        if len(text) > MAX_RESULT_CHARS + len(json.dumps(step.params)):
            kept = {"status": (step.result or {}).get("status"), "note": "too large to keep"}
            text = _json(step.model_copy(update={"result": kept}))
        self._put("step", f"{plan.plan_id}/{index:05}", index, text)

    def _put(self, kind: str, part_id: str, place: int, value: str) -> None:
        self._db.rows("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?)", (kind, part_id, place, value))

    def _load(self) -> None:
        rows = self._db.rows("SELECT kind, part_id, value FROM parts ORDER BY kind, place, part_id")
        parts: dict[str, list[tuple[str, str]]] = {"head": [], "goal": [], "plan": [], "step": []}
        try:
            for kind, part_id, value in rows:
                parts[kind].append((part_id, value))
            for _, value in parts["head"]:
                self.head = Head.model_validate_json(value)
            self.goals = [Goal.model_validate_json(value) for _, value in parts["goal"]]
            for plan_id, value in parts["plan"]:
                self.plans[plan_id] = _plan(json.loads(value), parts["step"], plan_id)
        except (ValidationError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            failure = self._db.failure(ValueError(f"what it holds cannot be read ({type(error).__name__})"))
            self._db.close()
            raise failure from error


def _hold(path: Path | None) -> ExitStack:
    """Hold the lock beside an agent's file. Raises InputError (agent_in_use), StateError."""
    held = ExitStack()
    if path is not None:
        message = f"the agent of {path} is open already, in this process or another; wait for its end, or close it"
        held.enter_context(locked(path.with_name(f"{path.name}.lock"), InputError("agent_in_use", message)))
    return held


def _plan(head: Mapping[str, Any], rows: list[tuple[str, str]], plan_id: str) -> Intention:
    own = sorted((part_id, value) for part_id, value in rows if part_id.startswith(f"{plan_id}/"))
    if len(own) != head["steps"]:
        raise ValueError("steps are missing")
    steps = [PlanStep.model_validate_json(value) for _, value in own]
    return Intention.model_validate({**head, "steps": [step.model_dump() for step in steps]})


def _json(model: BaseModel) -> str:
    return model.model_dump_json()
