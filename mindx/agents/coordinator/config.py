"""What a coordinator works with: bounds, limits and times. All have defaults; no agent and no project changes them."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from mindx.agents.coordinator.performance import Price
from mindx.agents.coordinator.resources import ResourceLimits


class CoordinatorConfig(BaseModel):
    """Bounds of a coordinator, times in seconds, for whoever runs it.

    The command line takes them from `coordinator:` of the user's config.yaml, but for the model, the policy and the
    script of the work at hand.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_interactions: int = Field(default=8, ge=1, le=64, description="Light Interactions at the same time.")
    max_heavy: int = Field(default=2, ge=1, le=16, description="Analyses and verifications at the same time.")
    max_improvements: int = Field(default=1, ge=1, le=4, description="Improvement agents at the same time.")
    improvement_timeout_s: float = Field(default=1800.0, gt=0, le=86_400)
    verify_timeout_s: float = Field(default=300.0, gt=0, le=3600)
    listener_timeout_s: float = Field(default=5.0, gt=0, le=60)
    improvement_model: str = Field(default="", description="The model of the improvement agent; empty: its own.")
    improvement_policy: str = Field(default="", description="The policy of its containers; empty: the coordinator's.")
    improvement_script: Path | None = Field(default=None, description="Its model's turns from a file, for tries.")
    auto_apply: bool = Field(
        default=True, description="Apply what is not critical; else a person looks at all changes."
    )
    cooldown_s: float = Field(default=3 * 3600.0, ge=0, description="After a failure a target is left alone so long.")
    max_attempts: int = Field(default=3, ge=1, le=20, description="Tries of one backlog item.")
    max_backlog: int = Field(default=1000, ge=1, le=100_000, description="Open items of the backlog.")
    max_suggestions: int = Field(default=3, ge=1, le=20, description="Suggestions of one analysis.")
    worker_interval_s: float = Field(default=3600.0, gt=0)
    worker_analyzes: bool = Field(default=False, description="Analyse the system when the backlog has nothing to do.")
    max_cpu_percent: float = Field(default=90.0, gt=0, le=100, description="A busier machine starts no improvement.")
    resources: ResourceLimits = ResourceLimits()
    prices: dict[str, Price] = Field(default={}, description="By model; a model without one has no known cost.")
    model: str = Field(default="", description="The model for analyses and queries; empty: the provider's first.")
