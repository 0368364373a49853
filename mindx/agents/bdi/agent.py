"""The BDI agent: goals in, validated plans, actions through the one loop, and an outcome that was checked."""

from __future__ import annotations

import asyncio
import inspect
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mindx.agents.answer import tokens_of
from mindx.agents.bdi.budget import Budget
from mindx.agents.bdi.checking import VerifyCriterion
from mindx.agents.bdi.criteria import CriterionLike, criteria_of
from mindx.agents.bdi.goals import PRIMARY_PRIORITY, Desires, Goal, GoalStatus
from mindx.agents.bdi.memory import AgentMemory
from mindx.agents.bdi.mind import BDIMind
from mindx.agents.bdi.mind_parts import MindParts
from mindx.agents.bdi.model_desk import ModelDesk
from mindx.agents.bdi.own_actions import AnalyzeFailure, AskUser, DecomposeGoal, Fail, NoOp, Think, UpdateBelief
from mindx.agents.bdi.plan_check import PlanChecker
from mindx.agents.bdi.plan_dialogue import PlanDialogue
from mindx.agents.bdi.prompts import plan_schema, planner_prompt
from mindx.agents.bdi.recovery import Recovery
from mindx.agents.bdi.recovery_rules import RecoveryRules
from mindx.agents.bdi.reporting import Reporting
from mindx.agents.bdi.result import BDIResult
from mindx.agents.bdi.run import result_of, run_agent
from mindx.agents.bdi.status import BDIPhase, BDIStateMachine, BDIStatus
from mindx.agents.bdi.trail import Trail
from mindx.agents.beliefs import BeliefSystem
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.core.agent_context import AgentContext
from mindx.core.agent_result import AgentResult
from mindx.core.approval import ApprovalRequest, ApprovalResult
from mindx.core.decision import AgentDecision
from mindx.core.protocols import HumanApprovalHandler
from mindx.errors import InputError
from mindx.providers.base import BaseProvider
from mindx.providers.router import ProviderRouter
from mindx.tools.base import BaseTool
from mindx.tools.registry import ToolRegistry


def short_id(prefix: str) -> str:
    """Return a fresh id: `plan_` and 6 random digits."""
    return f"{prefix}_{secrets.token_hex(3)}"


class BDIAgent:
    """Pursues goals: a Reasoner of the runtime's loop, so that each of its actions passes policy, approval and trace.

    `provider` makes its plans; `tools` are what EXECUTE_TOOL may use, refreshed before each plan; `actions` are more
    types of action by their name in capitals, each done by a tool in the same way. `beliefs` are its own under the
    namespace `bdi.<domain>`. `state_path` is the file that lets it go on after its process died; None keeps all in
    memory. `constitution` None asks no rules. `reports` has the model write the final answer. `escalates` tells
    whoever gave the goal of a failure, by the belief `escalation`. `now` gives seconds since 1970, `clock` monotonic
    seconds, `new_id` an id from a prefix.

    Raises StateError for a state file that cannot be used, InputError for actions that have a taken name.
    """

    def __init__(
        self,
        provider: BaseProvider | ProviderRouter,
        tools: ToolRegistry,
        *,
        beliefs: BeliefSystem,
        actions: Mapping[str, BaseTool] | None = None,
        state_path: Path | None = None,
        budget: Budget | None = None,
        domain: str = "bdi",
        agent_id: str = "",
        constitution: Constitution | None = None,
        model: str = "",
        reports: bool = False,
        escalates: bool = False,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        new_id: Callable[[str], str] = short_id,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.agent_id = agent_id or f"bdi_agent_{domain}"
        self.beliefs = beliefs
        self.namespace = f"bdi.{domain}"
        self.budget = budget or Budget()
        self._constitution = constitution
        self._now, self._clock, self._new_id = now, clock, new_id
        self._machine = BDIStateMachine()
        self._memory = AgentMemory(state_path)
        self._memory.head.agent_id = self._memory.head.agent_id or self.agent_id
        self._desires = Desires(self._memory.goals, most=self.budget.goals, depth=self.budget.depth)
        self._desk = ModelDesk(provider, model=model, spend=self._spend, sleep=sleep)
        self._reporting = Reporting(self._desk, self._memory, reports=reports)
        acts = self._acts(actions or {})
        self.registry = tools.with_tools(*acts.values(), VerifyCriterion(self._reporting.verdict))
        rules = RecoveryRules(beliefs, self.namespace, replans=self.budget.replans, escalates=escalates)
        self._mind = BDIMind(self._parts(tools, acts, rules, sleep))
        self._machine.move(BDIStatus.INITIALIZED)

    @property
    def status(self) -> BDIStatus:
        """How its work stands."""
        return self._machine.status

    @property
    def phase(self) -> BDIPhase:
        """Where it is in its cycle."""
        return self._machine.phase

    @property
    def goals(self) -> tuple[Goal, ...]:
        """All goals, in the order they came."""
        return self._desires.all

    @property
    def goal(self) -> Goal | None:
        """The primary goal, or None."""
        return self._desires.primary

    def set_goal(self, text: str, criteria: Sequence[CriterionLike] = (), priority: int = PRIMARY_PRIORITY) -> Goal:
        """Make this the primary goal; another one that is open is given up.

        `criteria` must hold before it counts as achieved: Criterion models, objects (`{"command": [...]}`,
        `{"file": "a.txt", "contains": "x"}`) or statements as texts. Raises InputError (goal_invalid,
        criterion_invalid, criteria_contradictory).
        """
        goal = self._goal("primary", text, criteria, priority)
        goal.primary = True
        old = [item for item in self._desires.all if item.primary and item.open]
        self._desires.add(goal)
        parts = [part for item in old for part in self._desires.below(item.goal_id) if part.open]
        for item in (*old, *parts):
            item.status, item.reason = GoalStatus.CANCELLED, f"{goal.goal_id} took its place"
        self._memory.save(goals=(*old, *parts, goal))
        return goal

    def add_goal(
        self,
        text: str,
        criteria: Sequence[CriterionLike] = (),
        priority: int = 50,
        *,
        depends_on: Sequence[str] = (),
        parent_id: str | None = None,
    ) -> Goal:
        """Add a goal; it comes after those of a higher priority, and after all that it depends on (goal ids).

        Raises InputError as `set_goal`, and goal_unknown, goal_circular, goals_full.
        """
        goal = self._goal("goal", text, criteria, priority)
        goal.depends_on, goal.parent_id = [*dict.fromkeys(depends_on)], parent_id
        self._desires.add(goal)
        self._memory.save(goals=(goal,))
        return goal

    def depend(self, goal_id: str, *on: str) -> None:
        """Let a goal wait for others. Raises InputError (goal_unknown, goal_circular)."""
        self._desires.depend(goal_id, on)
        self._memory.save(goals=(self._desires.get(goal_id),))

    async def decide(self, context: AgentContext) -> AgentDecision:
        """Return what to do next; the runtime's loop calls this."""
        return await self._mind.decide(context)

    async def run(self, **options: Any) -> BDIResult:
        """Pursue the open goals to an end and return it; a failure is a result too.

        See `mindx.agents.bdi.run.run_agent` for the options: policy, workspace, box, approvals, events, limits.
        """
        return await run_agent(self, self._mind, **options)

    def keep_in(self, path: Path) -> None:
        """Keep the state in another file from now on; the one that it was read from stays as it is."""
        self._memory.keep_in(path)

    def take(self, result: AgentResult) -> BDIResult:
        """Return what a run of the loop came to, for who runs it by other means than `run`."""
        return result_of(self, self._mind, result)

    def timed(self, handler: HumanApprovalHandler) -> HumanApprovalHandler:
        """Return an approval handler whose waiting for a person counts for no budget."""

        async def ask(request: ApprovalRequest) -> bool | ApprovalResult:
            began = self._clock()
            try:
                answer = handler(request)
                return await answer if inspect.isawaitable(answer) else answer
            finally:
                self._mind.wait_for_person(self._clock() - began)

        return ask

    def renew_budget(self) -> None:
        """Begin to count anew, as when a person lets an agent go on whose budget is spent."""
        spent = self._memory.head.spent
        spent.cycles = spent.tokens = spent.commands = 0
        spent.seconds = 0.0
        self._memory.save()

    async def close(self) -> None:
        """Let go of the model and the state file; may be called twice."""
        try:
            await self._desk.close()
        finally:
            self._memory.close()

    def _goal(self, prefix: str, text: str, criteria: Sequence[CriterionLike], priority: int) -> Goal:
        made = criteria_of(criteria)
        return Goal(
            goal_id=self._new_id(prefix), text=text.strip(), priority=priority, criteria=made, added=self._now()
        )

    def _parts(
        self,
        tools: ToolRegistry,
        acts: Mapping[str, BaseTool],
        recovery_rules: RecoveryRules,
        sleep: Callable[[float], Awaitable[None]],
    ) -> MindParts:
        """Return what the mind is made of; what it plans is checked for these tools and acts."""
        most, rules = self.budget.plan_steps, self._constitution
        checker = PlanChecker(tools, acts, self.beliefs, self.namespace, most=most, constitution=rules)
        trail = Trail()
        return MindParts(
            memory=self._memory,
            desires=self._desires,
            machine=self._machine,
            dialogue=PlanDialogue(
                self._desk,
                checker,
                lambda: self._told(tools, acts),
                repairs=self.budget.repairs,
                new_id=self._new_id,
                trail=trail,
            ),
            recovery=Recovery(recovery_rules, self._memory, self.beliefs, self.namespace, sleep, trail),
            reporting=self._reporting,
            tools=tools,
            acts=acts,
            beliefs=self.beliefs,
            namespace=self.namespace,
            budget=self.budget,
            clock=self._clock,
            trail=trail,
            before_model=self._before_model,
        )

    def _acts(self, actions: Mapping[str, BaseTool]) -> dict[str, BaseTool]:
        own: list[BaseTool] = [
            Think(),
            UpdateBelief(self.beliefs, self.namespace),
            DecomposeGoal(self._split),
            AnalyzeFailure(lambda: [item.model_dump(mode="json") for item in self._memory.head.failures]),
            NoOp(),
            Fail(),
            AskUser(),
        ]
        acts = {tool.tool_id: tool for tool in own}
        for name, tool in actions.items():
            if name in acts or name == "EXECUTE_TOOL" or not name.isidentifier() or name != name.upper():
                raise InputError("action_type_invalid", f"{name!a} is no free name for a type of action")
            acts[name] = tool
        return acts

    def _told(self, tools: ToolRegistry, acts: Mapping[str, BaseTool]) -> tuple[str, dict[str, Any]]:
        """Return what the planner's model is told; between two plans the set of tools may change."""
        tools.refresh()
        self.registry.refresh()  # the last: it has all that a plan may use
        return planner_prompt(tools, acts, self.budget.plan_steps), plan_schema(acts, tools)

    async def _split(self, given: Sequence[str]) -> list[str]:
        """Add the parts of the goal that is being pursued, each after the one before it."""
        goal = self._mind.goal_in_flight
        if goal is None:
            raise InputError("goal_unknown", "no goal is being pursued")
        if not given:
            self._before_model()
        texts = list(given) or await self._reporting.parts(goal)
        made: list[Goal] = []
        # An agent that died in this very step has them already.
        there = {part.text: part for part in self._desires.below(goal.goal_id) if part.open}
        for text in texts:
            part = there.get(text.strip()) or self._goal("goal", text, (), goal.priority + 1)
            part.parent_id, part.depends_on = goal.goal_id, [made[-1].goal_id] if made else []
            made.append(part)
        for part in made:
            if part.text not in there:
                self._desires.add(part)
        self._desires.depend(goal.goal_id, [part.goal_id for part in made])
        self._memory.save(goals=(*made, goal))
        return texts

    def _before_model(self) -> None:
        if self._constitution is not None:
            self._constitution.require(Layer.BDI, Act.CALL_MODEL.value)

    def _spend(self, usage: Mapping[str, int]) -> None:
        self._mind.spend(tokens_of(usage), usage)
