"""Who is there: the agents of a system, what they can do, and how much each is trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mindx.agents.constitution import Layer
from mindx.agents.coordinator.database import CoordinatorDatabase
from mindx.agents.coordinator.interaction import MAX_METADATA_BYTES, plain_json
from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.core.validation import faults
from mindx.errors import InputError
from mindx.runtime.run_ids import checked_id

MAX_AGENTS = 1000
_UPSERT = "INSERT INTO agents VALUES (?, ?) ON CONFLICT (agent_id) DO UPDATE SET document = excluded.document"


class AgentPresence(str, Enum):
    """Whether an agent is there."""

    ACTIVE = "active"
    OFFLINE = "offline"  # it was registered by a process that has ended


class AgentRecord(BaseModel):
    """One agent. `layer` decides what the Constitution lets it do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_id: str
    agent_type: str = Field(min_length=1, max_length=100)
    layer: Layer
    description: str = Field(default="", max_length=10_000)
    capabilities: tuple[str, ...] = Field(default=(), max_length=200)
    metadata: dict[str, Any] = {}
    status: AgentPresence = AgentPresence.ACTIVE
    registered_at: datetime


class AgentRegistry:
    """The table of agents, and the objects behind those that live in this process."""

    def __init__(self, database: CoordinatorDatabase) -> None:
        self._database = database
        self._instances: dict[str, Any] = {}
        self._active: set[str] = set()

    def register(
        self,
        agent_id: str,
        agent_type: str,
        at: datetime,
        *,
        layer: Layer | None = None,
        description: str = "",
        capabilities: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        instance: object = None,
    ) -> AgentRecord:
        """Write an agent down; the same id again takes the place of the old record.

        `layer` None is the layer that `agent_type` names, else TOOL, the least trusted. Raises InputError:
        agent_invalid, and agent_layer_fixed when the id was registered with another layer before.
        """
        checked_id(agent_id, "agent id")
        trusted = layer or _layer_of(agent_type)
        try:
            record = AgentRecord(
                agent_id=agent_id,
                agent_type=agent_type,
                layer=trusted,
                description=description,
                capabilities=tuple(capabilities),
                metadata=plain_json(dict(metadata or {}), "metadata", MAX_METADATA_BYTES),
                registered_at=at,
            )
        except ValidationError as error:
            message = f"the agent {quoted(agent_id)} cannot be registered: {faults(error)}"
            raise InputError("agent_invalid", message) from None
        with self._database.writing():
            found = self._database.rows("SELECT document FROM agents WHERE agent_id = ?", (agent_id,))
            if not found and self._database.rows("SELECT count(*) FROM agents")[0][0] >= MAX_AGENTS:
                raise InputError("too_many_agents", f"there are {MAX_AGENTS:,} agents already")
            if found and (old := self._read(found[0][0])).layer is not trusted:
                message = (
                    f"the agent {quoted(agent_id)} is of the layer {old.layer.value} and stays so; take another id"
                )
                raise InputError("agent_layer_fixed", message)
            self._database.rows(_UPSERT, (agent_id, json.dumps(record.model_dump(mode="json"))))
        self._active.add(agent_id)
        if instance is not None:
            self._instances[agent_id] = instance
        return record

    def get(self, agent_id: str) -> AgentRecord:
        """Return an agent. Raises InputError (agent_unknown)."""
        rows = self._database.rows("SELECT document FROM agents WHERE agent_id = ?", (agent_id,))
        if not rows:
            known = (str(row[0]) for row in self._database.rows("SELECT agent_id FROM agents"))
            hint = did_you_mean(agent_id, known) or "register it first"
            raise InputError("agent_unknown", f"there is no agent {quoted(agent_id)}; {hint}")
        return self._present(self._read(rows[0][0]))

    def instance(self, agent_id: str) -> Any:
        """Return the object of an agent of this process, None when it has none."""
        return self._instances.get(agent_id)

    def list(self) -> tuple[AgentRecord, ...]:
        """Return all agents by their id."""
        rows = self._database.rows("SELECT document FROM agents ORDER BY agent_id")
        return tuple(self._present(self._read(row[0])) for row in rows)

    def _present(self, record: AgentRecord) -> AgentRecord:
        status = AgentPresence.ACTIVE if record.agent_id in self._active else AgentPresence.OFFLINE
        return record.model_copy(update={"status": status})

    def _read(self, document: str) -> AgentRecord:
        try:
            return AgentRecord.model_validate(json.loads(document))
        except (ValueError, RecursionError) as error:
            raise self._database.damaged("an agent", error) from None


def _layer_of(agent_type: str) -> Layer:
    try:
        return Layer(agent_type.lower())
    except ValueError:
        return Layer.TOOL
