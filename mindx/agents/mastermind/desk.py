"""What the meta-actions of one campaign share: the campaign's record, its facts, and the parts of the system."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mindx.agents.agint.mission import Mission
from mindx.agents.answer import ask_json, tokens_of
from mindx.agents.beliefs import BeliefSource, BeliefSystem
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.agents.coordinator.coordinator import CoordinatorAgent
from mindx.agents.mastermind.campaign import CampaignBudget, StrategicCampaign
from mindx.agents.mastermind.objectives import ObjectiveStore
from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.core.count import counted
from mindx.providers.base import BaseProvider
from mindx.tools.base import ToolError

T = TypeVar("T")
MASTERMIND_ID = "mastermind"
MAX_BELIEF = 32_000  # characters of JSON
PLACEHOLDER = "..."  # what a plan has for a value that does not exist when it is made


@dataclass(slots=True)
class CampaignDesk:
    """The desk of one campaign. `keep` saves its record; `history` returns the campaigns before, the latest first.

    `launch_mission` gives AGInt a directive and returns the mission as it ended.
    """

    campaign: StrategicCampaign
    provider: BaseProvider
    model: str
    coordinator: CoordinatorAgent
    registry: OfficialToolsRegistry
    beliefs: BeliefSystem
    constitution: Constitution
    budget: CampaignBudget
    keep: Callable[[StrategicCampaign], None]
    history: Callable[[], tuple[StrategicCampaign, ...]]
    launch_mission: Callable[[str], Awaitable[Mission]]
    objectives: ObjectiveStore
    spent_before: int = 0  # tokens, by the campaign before it was taken up

    def change(self, **changes: Any) -> None:
        """Change the campaign's record, on the disk too."""
        self.put(self.campaign.model_copy(update=changes))

    def put(self, campaign: StrategicCampaign) -> None:
        """Make this the campaign's record, on the disk too."""
        self.campaign = campaign
        self.keep(campaign)

    def learn(self, name: str, value: Any) -> None:
        """Keep the result of a meta-action as a fact of the campaign, and as a belief."""
        self.change(facts={**self.campaign.facts, name: value})
        self.require(Act.WRITE_BELIEF)
        # The state itself is large, and soon old; what a model wrote may be as long as it likes.
        small = name != "system_state" and len(json.dumps(value)) <= MAX_BELIEF
        told = value if small else {"found": True}
        namespace = f"mastermind.{self.campaign.campaign_id}"
        self.beliefs.add(name, told, source=BeliefSource.SELF_ANALYSIS, namespace=namespace)

    def fact(self, name: str, meta_action: str) -> Any:
        """Return a fact. Raises ToolError that names the meta-action which finds it."""
        if name not in self.campaign.facts:
            raise ToolError(f"there is no {name} yet; do {meta_action} first", "campaign_order")
        return self.campaign.facts[name]

    def require(self, act: Act, target: str = "") -> None:
        """Ask the Constitution. Raises ConstitutionError."""
        self.constitution.require(Layer.MASTERMIND, act, target)

    def count(self, usage: Mapping[str, int]) -> None:
        """Count the tokens of an answer; they reach the disk with the next change of the record."""
        known = {**self.campaign.usage}
        for name, count in usage.items():
            known[name] = known.get(name, 0) + count
        self.campaign = self.campaign.model_copy(update={"usage": known})

    async def ask(
        self, system: str, question: str, read: Callable[[Any], T], schema: Mapping[str, Any] | None = None
    ) -> T:
        """Ask the model. Raises ProviderError, ConstitutionError, ToolError when the campaign's tokens are spent."""
        self.require(Act.CALL_MODEL)
        if tokens_of(self.campaign.usage) - self.spent_before >= self.budget.max_tokens:
            raise ToolError(f"the campaign has spent its {counted(self.budget.max_tokens, 'token')}", "campaign_tokens")
        return await ask_json(
            self.provider, system, question, read, schema=schema, model=self.model, on_usage=self.count
        )


def hint(value: Any) -> str:
    """Return what a planner wrote for a value as a hint: a placeholder and what came by reference say nothing new."""
    return "" if not isinstance(value, str) or value.strip() in ("", PLACEHOLDER) else value.strip()[:4000]
