"""The meta-actions: the tools that only Mastermind's own BDI agent has.

A parameter may be the placeholder "..." or a text: what counts is what the campaign itself has found, for much does not
exist yet when a plan is made. A text is passed on to the model as the planner's hint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from mindx.agents.coordinator.interaction import Interaction, InteractionStatus, InteractionType
from mindx.agents.mastermind import prompts
from mindx.agents.mastermind.campaign import Development
from mindx.agents.mastermind.desk import MASTERMIND_ID, CampaignDesk, hint
from mindx.agents.mastermind.observe import system_state
from mindx.core.action import ActionRisk
from mindx.core.count import counted
from mindx.errors import InputError
from mindx.tools.base import BaseTool, ToolDefinition, ToolError
from mindx.tools.container_entry import ToolSpec
from mindx.tools.context import ToolContext

ANYTHING: Mapping[str, Any] = {}
TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1}
DEVELOPMENT_TIMEOUT_S = 3600.0
MODEL_TIMEOUT_S = 900.0


class MetaAction(BaseTool):
    """One meta-action: its name in capitals, its parameters, and the names that its result has."""

    name = ""
    description = ""
    optional: Mapping[str, Mapping[str, Any]] = {}
    required: Mapping[str, Mapping[str, Any]] = {}
    fields: tuple[str, ...] = ()
    risk = ActionRisk.WRITE
    timeout_s = MODEL_TIMEOUT_S

    def __init__(self, desk: CampaignDesk) -> None:
        self.desk = desk
        parameters = {
            "type": "object",
            "properties": {**self.required, **self.optional},
            "required": list(self.required),
            "additionalProperties": False,
        }
        self.definition = ToolDefinition(
            self.name,
            self.description,
            parameters,
            self.risk,
            concurrency_key="campaign",
            timeout_s=self.timeout_s,
        )

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the names of the result, so that a plan's references can be checked before it begins."""
        return frozenset({"status", *self.fields})

    async def concluded(self, fact: str, system: str, form: type[BaseModel], told: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the model concludes from `told`, in this form; it becomes a fact of the campaign."""
        desk = self.desk
        question = prompts.data_text(directive=desk.campaign.directive, **told)
        found = await desk.ask(system, question, prompts.reader(form), form.model_json_schema())
        value = found.model_dump(mode="json")
        desk.learn(fact, value)
        return {"status": "SUCCESS", **value}


class ObserveSystemState(MetaAction):
    """OBSERVE_SYSTEM_STATE: look at the system; no model is asked."""

    name = "OBSERVE_SYSTEM_STATE"
    description = "Look at the system: its tools, agents, requests, resources, earlier campaigns. Gives `system_state`."
    fields = ("system_state",)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the system's state."""
        state = system_state(self.desk)
        self.desk.learn("system_state", state)
        return {"status": "SUCCESS", "system_state": state}


class AssessToolSuite(MetaAction):
    """ASSESS_TOOL_SUITE: what the tools do well, and what is missing."""

    name = "ASSESS_TOOL_SUITE"
    description = "Assess the tools in the light of the observed system_state. Gives `assessment`, `gaps`, `tools`."
    optional = {"system_state": ANYTHING}
    fields = ("assessment", "gaps", "tools")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the assessment."""
        state = self.desk.fact("system_state", ObserveSystemState.name)
        told = {"system_state": state, "hint_of_the_planner": hint(arguments.get("system_state"))}
        return await self.concluded("assessment", prompts.ASSESS, prompts.Assessment, told)


class ProposeToolStrategy(MetaAction):
    """PROPOSE_TOOL_STRATEGY: what to build, enhance or give up."""

    name = "PROPOSE_TOOL_STRATEGY"
    description = "Propose what to do about the assessment. Gives `strategy`, `identified_need`, `actions`."
    optional = {"assessment": ANYTHING}
    fields = ("strategy", "identified_need", "actions")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the strategy."""
        assessment = self.desk.fact("assessment", AssessToolSuite.name)
        told = {"assessment": assessment, "hint_of_the_planner": hint(arguments.get("assessment"))}
        return await self.concluded("strategy", prompts.STRATEGY, prompts.Strategy, told)


class ConceptualizeNewTool(MetaAction):
    """CONCEPTUALIZE_NEW_TOOL: the full specification of a new tool."""

    name = "CONCEPTUALIZE_NEW_TOOL"
    description = "Specify the tool that meets a need, in full. Gives `tool_concept`, `tool_id`."
    optional = {"identified_need": ANYTHING}
    fields = ("tool_concept", "tool_id")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the specification."""
        desk = self.desk
        told = hint(arguments.get("identified_need"))
        strategy = desk.campaign.facts.get("strategy")
        need = told or (strategy or {}).get("identified_need", "")
        if not need:
            if strategy is None:
                desk.fact("strategy", ProposeToolStrategy.name)
            raise ToolError("the strategy names no need: nothing is to be built; propose another one", "campaign_order")
        known = [f"{entry.id} {entry.version} ({entry.status.value})" for entry in desk.registry.entries()]
        question = prompts.data_text(directive=desk.campaign.directive, need=need, tools_that_exist=known)
        spec = await desk.ask(prompts.CONCEPT, question, self._read, ToolSpec.model_json_schema())
        value = spec.model_dump(mode="json", exclude_unset=True)
        desk.learn("tool_concept", value)
        return {"status": "SUCCESS", "tool_concept": value, "tool_id": spec.id}

    def _read(self, value: Any) -> ToolSpec:
        if not isinstance(value, dict):
            raise InputError("tool_spec_invalid", "a tool's specification is an object")
        spec = ToolSpec.read(value)
        taken = next((one for one in self.desk.registry.entries() if one.id == spec.id), None)
        if taken is not None and taken.version == spec.version:
            message = f"there is a tool {spec.id} {spec.version} already; take another id, or a higher version"
            raise InputError("tool_spec_invalid", message)
        return _with_examples(spec)


class InitiateToolDevelopment(MetaAction):
    """INITIATE_TOOL_DEVELOPMENT: a structured request to the Coordinator, which has the code written and tested."""

    name = "INITIATE_TOOL_DEVELOPMENT"
    description = (
        "Have the Coordinator develop the conceived tool: code is written, tested in a container and reviewed. Gives "
        "`tool_id`, `interaction_id`, `tool_spec`."
    )
    optional = {"tool_concept": ANYTHING}
    fields = ("tool_id", "version", "interaction_id", "tool_spec", "message")
    timeout_s = DEVELOPMENT_TIMEOUT_S

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return what the Coordinator's Interaction gave."""
        desk = self.desk
        spec = self._spec(arguments.get("tool_concept"))
        made = self._attempt(spec)
        concept = spec.model_dump(mode="json", exclude_unset=True)
        interaction = desk.coordinator.create_interaction(
            InteractionType.COMPONENT_IMPROVEMENT,
            f"Develop the new tool {spec.id}: {spec.description}",
            metadata={
                "target_component": f"tools/{spec.id}/{spec.version}/tool.py",
                "tool_spec": concept,
                "analysis_context": desk.campaign.directive[:4000],
                "source": MASTERMIND_ID,
            },
            agent_id=MASTERMIND_ID,
            # The same request after a crash is the same Interaction: nothing is developed twice.
            key=f"{desk.campaign.campaign_id}:{spec.id}:{spec.version}:{made.attempt}",
        )
        made = made.model_copy(update={"interaction_id": interaction.interaction_id})
        desk.put(desk.campaign.with_development(made))
        ended = await desk.coordinator.process_interaction(interaction)
        return self._answer(made, ended)

    def _spec(self, given: Any) -> ToolSpec:
        if not isinstance(given, dict):
            return ToolSpec.read(self.desk.fact("tool_concept", ConceptualizeNewTool.name))
        spec = _with_examples(ToolSpec.read(given))
        self.desk.learn("tool_concept", spec.model_dump(mode="json", exclude_unset=True))  # the plan's own
        return spec

    def _attempt(self, spec: ToolSpec) -> Development:
        """Return the attempt that this is: one that a killed process left open, or the next, if one is left."""
        desk = self.desk
        earlier = [one for one in desk.campaign.sub_tasks if (one.tool_id, one.version) == (spec.id, spec.version)]
        if earlier and not earlier[-1].status:
            left = earlier[-1]
            if not left.interaction_id or not self._cut_off(left):
                return left
        most = desk.budget.max_developments
        if len(desk.campaign.sub_tasks) >= most:
            told = f"a campaign may have tools developed {counted(most, 'time')}, and did"
            raise ToolError(told, "campaign_developments")
        return Development(tool_id=spec.id, version=spec.version, attempt=len(earlier) + 1)

    def _cut_off(self, left: Development) -> bool:
        """Return whether an attempt that was left open came to nothing: its process was killed, or it was cancelled."""
        found = self.desk.coordinator.interactions.get(left.interaction_id)
        cut = found.status in (InteractionStatus.CANCELLED, InteractionStatus.INTERRUPTED)
        if cut:
            closed = left.model_copy(update={"status": found.status.value, "problem": "it was cut off"})
            self.desk.put(self.desk.campaign.with_development(closed))
        return cut

    def _answer(self, made: Development, ended: Interaction) -> dict[str, Any]:
        """Keep what came of it. Raises ToolError for a development that is not complete."""
        problem = "" if ended.ok else ended.history[-1].message if ended.error is None else ended.error.message
        made = made.model_copy(update={"status": ended.status.value, "problem": problem[:4000]})
        self.desk.put(self.desk.campaign.with_development(made))
        if not ended.ok:
            waits = " (a person has to approve it)" if ended.status is InteractionStatus.PENDING_APPROVAL else ""
            message = f"the development of {made.tool_id} is {ended.status.value}{waits}: {problem}"
            raise ToolError(message[:4000], "development_failed")
        self.desk.learn("development", {"tool_id": made.tool_id, "version": made.version})
        return {
            "status": "SUCCESS",
            "tool_id": made.tool_id,
            "version": made.version,
            "interaction_id": ended.interaction_id,
            "tool_spec": self.desk.campaign.facts["tool_concept"],
            "message": f"{made.tool_id} was developed and passed its tests; register it with REGISTER_TOOL",
        }


def _with_examples(spec: ToolSpec) -> ToolSpec:
    """Return a specification by which code can be tested. Raises InputError (tool_spec_invalid)."""
    if not any(capability.examples for capability in spec.capabilities):
        raise InputError("tool_spec_invalid", "no capability has an example; give one at least, with its result")
    return spec
