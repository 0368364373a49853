"""What AGInt does: each decision is one function from a mission to a mission and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mindx.agents.agint import prompts
from mindx.agents.agint.life import AGIntDecision
from mindx.agents.agint.mission import Mission, MissionBudget
from mindx.agents.agint.phase import MAX_TOLD, Phase, PhaseDraft, PhasesDraft, PhaseStatus, read_phases
from mindx.agents.agint.watch import next_phase
from mindx.agents.answer import ask_json, tokens_of
from mindx.agents.bdi.criteria import Criterion, StatementCriterion
from mindx.agents.bdi.goals import Goal
from mindx.agents.bdi.result import BDIResult
from mindx.agents.beliefs import BeliefSource, BeliefSystem
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.agents.outer_failure import raise_outer
from mindx.core.count import counted
from mindx.core.message import ChatMessage
from mindx.errors import InputError
from mindx.providers.base import BaseProvider, ModelRequest
from mindx.providers.failures import provider_error

PROBE = "Answer with the one word OK."


class TaskAgent(Protocol):
    """What AGInt needs of a BDI agent."""

    def set_goal(self, text: str, criteria: Sequence[Any] = (), priority: int = 100) -> Any:
        """Give it its goal."""
        ...

    @property
    def goal(self) -> Goal | None:
        """The goal that it has from before, or None."""
        ...

    async def run(self) -> BDIResult:
        """Pursue the goal to an end."""
        ...

    async def check(self, criteria: Sequence[Criterion]) -> tuple[str, ...]:
        """Return what keeps these criteria from holding now."""
        ...

    async def close(self) -> None:
        """Let go of its state."""
        ...


# Makes the BDI agent of one task, from its id, the file that its state lives in, and whether its final answer is wanted
# in the model's words. All of them work on the same files.
MakeAgent = Callable[[str, Path, bool], TaskAgent]


@dataclass(frozen=True, slots=True)
class Done:
    """A mission after an act, and what came of it; `message` is a sentence."""

    mission: Mission
    outcome: str
    message: str
    phase: str = ""


@dataclass(slots=True)
class Acts:
    """The acts of one mission; `keep` saves it before something begins that a killed process would leave half done."""

    provider: BaseProvider
    model: str
    make_agent: MakeAgent
    beliefs: BeliefSystem
    constitution: Constitution
    budget: MissionBudget
    folder: Path
    keep: Callable[[Mission], None]
    sleep: Callable[[float], Awaitable[Any]]
    tokens: int = 0
    agents: dict[str, TaskAgent] = field(default_factory=dict)  # those of tasks that have not ended

    async def close(self) -> None:
        """Let go of the agents whose task did not end."""
        for name in list(self.agents):
            await self.agents.pop(name).close()

    async def do(self, decision: AGIntDecision, mission: Mission, question: str) -> Done:
        """Do what was decided. Raises ProviderError, ConstitutionError, SandboxError."""
        if decision is AGIntDecision.PLAN_PHASES:
            return await self._plan(mission)
        if decision is AGIntDecision.DELEGATE_TO_BDI:
            return await self._delegate(mission)
        if decision is AGIntDecision.RESEARCH:
            return await self._research(mission, question)
        if decision is AGIntDecision.REVISE_PHASES:
            return await self._revise(mission)
        if decision is AGIntDecision.PERFORM_SELF_REPAIR:
            return await self._repair(mission)
        if decision is AGIntDecision.ENTER_COOLDOWN:
            await self.sleep(self.budget.cooldown_s)
            return Done(mission, "waited", f"waited {self.budget.cooldown_s:g} s")
        raise AssertionError(decision)  # COMPLETE and GIVE_UP end the loop

    async def ask(self, system: str, question: str, read: Callable[[Any], Any], schema: Mapping[str, Any]) -> Any:
        """Ask the model, within the Constitution, and count its tokens. Raises ProviderError."""
        self.constitution.require(Layer.AGINT, Act.CALL_MODEL)
        return await ask_json(
            self.provider, system, question, read, schema=schema, model=self.model, on_usage=self.count
        )

    def count(self, usage: Mapping[str, int]) -> None:
        """Count the tokens of one answer."""
        self.tokens += tokens_of(usage)

    async def _plan(self, mission: Mission) -> Done:
        text = prompts.standing(mission)
        drafts = await self.ask(prompts.PLAN, text, read_phases, PhasesDraft.model_json_schema())
        phases = tuple(Phase(**draft.model_dump()) for draft in drafts)
        names = ", ".join(phase.name for phase in phases)
        told = f"{counted(len(phases), 'phase')}: {names}"
        return Done(mission.model_copy(update={"phases": phases}), "planned", told)

    async def _revise(self, mission: Mission) -> Done:
        kept = mission.achieved
        names = [phase.name for phase in mission.phases]

        def read(value: Any) -> tuple[PhaseDraft, ...]:
            drafts = read_phases(_without(value, kept))
            again = [draft.name for draft in drafts if draft.name in names]
            if again:
                raise InputError("phases_invalid", f"the name {again[0]} is used already; give a new one")
            return drafts

        drafts = await self.ask(prompts.REVISE, prompts.standing(mission), read, PhasesDraft.model_json_schema())
        phases = (*kept, *(Phase(**draft.model_dump()) for draft in drafts))
        spent = mission.spent.model_copy(update={"revisions": mission.spent.revisions + 1})
        told = ", ".join(draft.name for draft in drafts)
        return Done(mission.model_copy(update={"phases": phases, "spent": spent}), "revised", f"what is left: {told}")

    async def _delegate(self, mission: Mission) -> Done:
        phase = next_phase(mission.phases)
        assert phase is not None
        text = prompts.task_text(mission, phase)
        if phase.status is not PhaseStatus.RUNNING:  # one that was interrupted goes on as the same attempt
            agent = f"{phase.name}-{mission.cycle}"
            started = {"status": PhaseStatus.RUNNING, "attempts": phase.attempts + 1, "agent": agent}
            phase = phase.model_copy(update=started)
            mission = mission.with_phase(phase)
            self.keep(mission)
        result = await self._pursue(phase.agent, mission, text, phase.criteria)
        status = PhaseStatus.ACHIEVED if result.achieved else PhaseStatus.FAILED
        told = f"done: {phase.task}" if result.achieved else result.message or result.status.value
        told = told[:MAX_TOLD]
        mission = mission.with_phase(phase.model_copy(update={"status": status, "told": told}))
        self._believe(mission, f"phase.{phase.name}", {"status": status.value, "told": told})
        return Done(mission, status.value, f"phase {phase.name}: {told}"[:MAX_TOLD], phase.name)

    async def _research(self, mission: Mission, question: str) -> Done:
        number = mission.spent.researches + 1
        spent = mission.spent.model_copy(update={"researches": number})
        mission = mission.model_copy(update={"spent": spent})
        self.keep(mission)  # counted before it begins: what kills this process each time is not tried for ever
        asked = f"Find out, and change nothing that exists: {question or 'why the last attempt failed'}\n\n"
        result = await self._pursue(
            f"research-{mission.cycle}", mission, asked + prompts.standing(mission), (), reports=True
        )
        told = (result.message or result.status.value)[:MAX_TOLD]
        findings = (*mission.findings, told)[-20:]
        self._believe(mission, f"research.{number}", {"question": question, "told": told})
        return Done(mission.model_copy(update={"findings": findings}), result.status.value, told)

    async def _repair(self, mission: Mission) -> Done:
        self.constitution.require(Layer.AGINT, Act.CALL_MODEL)
        request = ModelRequest((ChatMessage.user(PROBE),), model=self.model, max_output_tokens=1000)
        response = await self.provider.generate(request)
        self.count(response.usage)
        if not response.text.strip():  # whatever it says is a sign of life
            raise provider_error("provider_malformed_answer", "it answers a simple question with nothing")
        spent = mission.spent.model_copy(update={"repairs": 0})
        return Done(mission.model_copy(update={"spent": spent}), "repaired", "the model answers again")

    async def _pursue(
        self, name: str, mission: Mission, text: str, criteria: Sequence[Any], *, reports: bool = False
    ) -> BDIResult:
        """Have one BDI agent pursue one goal; its file makes it go on where a killed process left it."""
        self.constitution.require(Layer.AGINT, Act.PURSUE_GOAL)
        agent = self._agent(mission, name, reports=reports)
        if agent.goal is None or not agent.goal.open:  # one that was interrupted goes on with the goal that it has
            agent.set_goal(text, criteria)
        result = await agent.run()
        self.count(result.usage)
        # A phase whose model or container failed has not been tried: its agent waits until the mission has seen to it,
        # and knows then that the container is still the same.
        raise_outer(result.run)
        await self.agents.pop(name).close()
        return result

    def _agent(self, mission: Mission, name: str, *, reports: bool = False) -> TaskAgent:
        agent = self.agents.get(name)
        if agent is None:
            agent = self.make_agent(f"{mission.mission_id}.{name}", self.folder / f"{name}.sqlite3", reports)
            self.agents[name] = agent
        return agent

    async def still_holds(self, mission: Mission) -> Done | None:
        """Look once more at what every phase achieved: return None when it all holds, else the mission as it is.

        A later phase may have undone what an earlier one had done. Statements are not judged again.
        """
        if len(mission.phases) < 2:
            return None
        agent = self._agent(mission, "check")
        for phase in mission.phases:
            unmet = await agent.check([one for one in phase.criteria if not isinstance(one, StatementCriterion)])
            if unmet:
                told = f"it was achieved, and does not hold any more: {'; '.join(unmet)}"[:MAX_TOLD]
                changed = phase.model_copy(update={"status": PhaseStatus.FAILED, "told": told})
                return Done(mission.with_phase(changed), "undone", f"phase {phase.name}: {told}"[:MAX_TOLD], phase.name)
        return None

    def _believe(self, mission: Mission, key: str, value: Any) -> None:
        self.constitution.require(Layer.AGINT, Act.WRITE_BELIEF)
        self.beliefs.add(key, value, source=BeliefSource.SELF_ANALYSIS, namespace=f"agint.{mission.mission_id}")


def _without(value: Any, kept: Sequence[Phase]) -> Any:
    """Return a model's phases with what is achieved already taken out of their dependencies: that is there."""
    names = {phase.name for phase in kept}
    phases = value.get("phases") if isinstance(value, dict) else None
    if not isinstance(phases, list):
        return value
    cleaned = []
    for phase in phases:
        depends = phase.get("depends_on") if isinstance(phase, dict) else None
        if isinstance(depends, list):
            phase = {**phase, "depends_on": [name for name in depends if name not in names]}
        cleaned.append(phase)
    return {**value, "phases": cleaned}
