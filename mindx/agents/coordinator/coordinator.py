"""The CoordinatorAgent: it routes what agents ask of the system, each Interaction once, within bounds, on record."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any, Union
from weakref import WeakValueDictionary

from mindx.agents.bdi.criteria import CriterionLike
from mindx.agents.beliefs import BeliefSystem
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.agents.coordinator.agent_registry import AgentRecord, AgentRegistry
from mindx.agents.coordinator.analysis import SystemAnalysis, put_on_backlog, suggest
from mindx.agents.coordinator.backlog import Backlog
from mindx.agents.coordinator.backlog_item import OPEN
from mindx.agents.coordinator.config import CoordinatorConfig
from mindx.agents.coordinator.consent import Consent
from mindx.agents.coordinator.database import CoordinatorDatabase
from mindx.agents.coordinator.desk import Desk
from mindx.agents.coordinator.events import Delivery, EventBus, Listener
from mindx.agents.coordinator.improving import Improve, ImprovementDesk, NeedsApproval
from mindx.agents.coordinator.interaction import (
    MAX_METADATA_BYTES,
    MAX_RESPONSE_BYTES,
    Interaction,
    InteractionError,
    InteractionStatus,
    InteractionType,
    plain_json,
)
from mindx.agents.coordinator.interaction_store import InteractionStore
from mindx.agents.coordinator.inventory import inventory
from mindx.agents.coordinator.performance import PerformanceMonitor
from mindx.agents.coordinator.resources import Measure, ResourceMonitor
from mindx.agents.coordinator.verification import TaskVerification, TaskVerifier
from mindx.agents.coordinator.worker import BacklogWorker
from mindx.agents.improvement.paths import IMPROVEMENT_FOLDER
from mindx.errors import InputError, MindxError
from mindx.policy.load import LoadedPolicy
from mindx.policy.text import as_yaml
from mindx.providers.base import BaseProvider
from mindx.runtime.run_ids import new_id as fresh_id
from mindx.runtime.tasks.atomic import locked, replace_file

logger = logging.getLogger("coordinator")
COORDINATOR_ID = "coordinator"
LOCK = "coordinator.lock"
POLICY_FILE = "policy.yaml"
SHOWN_CAMPAIGNS, SHOWN_ITEMS = 3, 50
Handler = Callable[[Interaction], Awaitable[Any]]
_HEAVY = frozenset({InteractionType.SYSTEM_ANALYSIS, InteractionType.VERIFY_TASK})
_IMPROVING = frozenset({InteractionType.COMPONENT_IMPROVEMENT, InteractionType.ROLLBACK_COMPONENT})


class CoordinatorAgent:
    """The one coordinator of a state folder; use it with `async with`, or `close` it.

    `improve` has code changed (None: nothing improves here), and keeps what it made in `improvement/` of the state
    folder (`call_improvement` does); `provider` answers queries and analyses. `project` is the folder that is looked
    at and improved, None for none. `verifier` None makes one for the project, under `policy` (None: the preset
    `default`), as are the containers of improvements where `config` names no policy; `campaigns` gives the past
    campaigns, the latest last. Opening it takes the state folder's lock and
    marks what a dead host left in progress as INTERRUPTED. Raises InputError (coordinator_in_use) when another one has
    it open, StateError when the database cannot be used.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        beliefs: BeliefSystem,
        constitution: Constitution | None = None,
        improve: Improve | None = None,
        provider: BaseProvider | None = None,
        project: Path | None = None,
        policy: LoadedPolicy | None = None,
        verifier: TaskVerifier | None = None,
        campaigns: Callable[[], Sequence[Mapping[str, Any]]] = tuple,
        measure: Measure | None = None,
        config: CoordinatorConfig | None = None,
        now: Callable[[], float] = time.time,
        new_id: Callable[[str], str] = fresh_id,
    ) -> None:
        self.state_dir = Path(state_dir)
        self.beliefs = beliefs
        self.constitution = constitution or Constitution.load()
        self.project = project
        self.config = config or CoordinatorConfig()
        self._now, self._new_id, self._campaigns = now, new_id, campaigns
        self._closed = False
        self.events = EventBus(self.config.listener_timeout_s)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # one while somebody holds it
        self._light = asyncio.Semaphore(self.config.max_interactions)
        self._heavy = asyncio.Semaphore(self.config.max_heavy)
        self._improving = asyncio.Semaphore(self.config.max_improvements)
        self._tasks: list[asyncio.Task[None]] = []
        self.resources = ResourceMonitor(
            beliefs, self._announce, self.config.resources, constitution=self.constitution, measure=measure, now=now
        )
        self.worker = BacklogWorker(self, COORDINATOR_ID, self.resources.cpu_percent)
        self._held = ExitStack()
        try:
            self._open()
            if policy is not None and not self.config.improvement_policy:
                self.config = self.config.model_copy(update={"improvement_policy": self._write_policy(policy)})
        except BaseException:
            self._held.close()
            raise
        self.provider = provider and self.performance.watched(provider, COORDINATOR_ID)
        self.verifier = verifier or TaskVerifier(
            project, policy, self.provider, model=self.config.model, timeout_s=self.config.verify_timeout_s
        )
        desk = ImprovementDesk(
            self.constitution,
            self.backlog,
            self._announce,
            self.config,
            improve=improve,
            work_dir=self.state_dir / IMPROVEMENT_FOLDER,
            project=project,
        )
        self._handlers: dict[InteractionType, Handler] = {
            **Desk(self).handlers,
            InteractionType.COMPONENT_IMPROVEMENT: desk.process,
            InteractionType.ROLLBACK_COMPONENT: desk.roll_back,
        }

    def _open(self) -> None:
        """Take the folder, read what is there, and mark what a dead host left in progress."""
        busy = InputError("coordinator_in_use", f"another coordinator works in {self.state_dir}; end it first")
        self._held.enter_context(locked(self.state_dir / LOCK, busy))
        self.database = CoordinatorDatabase(self.state_dir)
        self._held.callback(self.database.close)
        self.interactions = InteractionStore(self.database)
        self.agents = AgentRegistry(self.database)
        self.backlog = Backlog(self.database, self.time, self._new_id, self.config.max_backlog)
        self.performance = PerformanceMonitor(self.database, self.config.prices, self._now)
        self.consent = Consent(self.backlog, self.interactions, self.constitution, self.time)
        self.interrupted = self.interactions.interrupt(self.time())
        self.backlog.interrupt_all()
        self.agents.register(COORDINATOR_ID, COORDINATOR_ID, self.time(), instance=self)

    def _write_policy(self, policy: LoadedPolicy) -> str:
        """Write down the policy in force, all its layers together, for the process of the improvement agent."""
        path = self.state_dir / POLICY_FILE
        replace_file(path, as_yaml(policy.policy).encode())
        return str(path)

    def time(self) -> datetime:
        """Return the time by this coordinator's clock."""
        return datetime.fromtimestamp(self._now(), timezone.utc)

    def register_agent(self, agent_id: str, agent_type: str, **known: Any) -> AgentRecord:
        """Write an agent down and return its record; see `AgentRegistry.register` for what may be `known`."""
        return self.agents.register(agent_id, agent_type, self.time(), **known)

    def subscribe(self, topic: str, listener: Listener) -> Callable[[], None]:
        """Have a listener called with the Events of a topic; see `EventBus.subscribe`."""
        self.database.require_open()
        return self.events.subscribe(topic, listener)

    async def publish(self, topic: str, data: Mapping[str, Any] | None = None) -> Delivery:
        """Tell all listeners of a topic; see `EventBus.publish`. Raises ConstitutionError besides."""
        self.database.require_open()
        self.constitution.require(Layer.COORDINATOR, Act.PUBLISH_EVENT, topic)
        return await self.events.publish(topic, data)

    def create_interaction(
        self,
        interaction_type: InteractionType | str,
        content: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        key: str | None = None,
    ) -> Interaction:
        """Keep a request and return it, PENDING; with a `key` that was used before, return what that one became.

        `user_id` is the person who asks, `agent_id` the registered agent: one of them. Raises InputError:
        interaction_invalid, interaction_key_taken, agent_unknown; and StateError.
        """
        if (user_id is None) == (agent_id is None):
            raise InputError("interaction_invalid", "an interaction comes from a person or from an agent: name one")
        if agent_id is not None:
            self.agents.get(agent_id)
        at = self.time()
        try:
            new = Interaction(
                interaction_id=self._new_id("int"),
                interaction_type=InteractionType(interaction_type),
                content=content,
                metadata=plain_json(dict(metadata or {}), "metadata", MAX_METADATA_BYTES),
                user_id=user_id,
                agent_id=agent_id,
                key=key,
                created_at=at,
            ).with_entry(user_id or agent_id or "", "asked", at)
        except ValueError as error:
            raise InputError("interaction_invalid", f"the interaction is not usable: {str(error)[:500]}") from None
        return self.interactions.add(new)

    async def process_interaction(self, interaction: Union[Interaction, str]) -> Interaction:  # noqa: UP007
        """Do what is asked, once, and return the Interaction as it ended, or as it waits for a person.

        One that has ended, waits for approval or was interrupted is returned as it is; one that another task processes
        is waited for. A failure is in `error`. Raises InputError (interaction_unknown) and StateError; when it is
        cancelled, so is the Interaction.
        """
        interaction_id = interaction if isinstance(interaction, str) else interaction.interaction_id
        lock = self._locks.setdefault(interaction_id, asyncio.Lock())
        async with lock:
            found = self.interactions.get(interaction_id)
            if found.status is not InteractionStatus.PENDING:
                return found
            async with self._bound(found.interaction_type):
                return await self._process(found)

    async def ask(self, interaction_type: InteractionType | str, content: str, **given: Any) -> Interaction:
        """Create an Interaction and process it."""
        return await self.process_interaction(self.create_interaction(interaction_type, content, **given))

    async def verify_task(
        self, criteria: Iterable[CriterionLike], *, files: Mapping[str, str] | None = None, results: Any = None
    ) -> TaskVerification:
        """Check in a container whether work is what it was to be; see `TaskVerifier.verify`."""
        self.database.require_open()
        self.constitution.require(Layer.COORDINATOR, Act.VERIFY_TASK)
        return await self.verifier.verify(criteria, files=files, results=results)

    async def analyze_system(self) -> SystemAnalysis:
        """Have the system looked at, and what is suggested put on the backlog; see `SystemAnalysis`.

        Raises InputError (analysis_unavailable: no provider or no project), ProviderError.
        """
        self.database.require_open()
        self.constitution.require(Layer.COORDINATOR, Act.ANALYZE_SYSTEM)
        if self.provider is None or self.project is None:
            raise InputError("analysis_unavailable", "an analysis needs a provider and a project")
        self.constitution.require(Layer.COORDINATOR, Act.CALL_MODEL)
        modules = await asyncio.to_thread(inventory, self.project)
        await self.resources.sample()
        state = {**self.state(), "campaigns": list(self._campaigns())[-SHOWN_CAMPAIGNS:]}
        limit, model = self.config.max_suggestions, self.config.model
        found = await suggest(self.provider, modules, state, self.constitution, most=limit, model=model)
        return put_on_backlog(self.backlog, found)

    def state(self) -> dict[str, Any]:
        """Return how the system does, as plain values: agents, Interactions, backlog, resources, models."""
        sample = self.resources.latest
        return {
            "agents": [agent.model_dump(mode="json", exclude={"metadata"}) for agent in self.agents.list()],
            "interactions": self.interactions.counts(),
            "backlog": self.backlog.counts(),
            "open_items": [item.summary() for item in self.backlog.list() if item.status in OPEN][:SHOWN_ITEMS],
            "resources": None if sample is None else sample.to_dict(),
            "alerts": [alert.to_dict() for alert in self.resources.alerts],
            "performance": [one.to_dict() for one in self.performance.list()],
        }

    def start(self, *, worker: bool = False) -> None:
        """Begin to watch the resources, and with `worker` to work on the backlog; needs a running loop."""
        self.database.require_open()
        if self._tasks:
            return
        self._tasks.append(asyncio.create_task(self.resources.run(), name="mindx-resources"))
        if worker:
            self._tasks.append(asyncio.create_task(self.worker.run(), name="mindx-backlog-worker"))

    async def stop(self) -> None:
        """End what `start` began and wait until it has ended; may be called twice."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop, write down what is not yet, close the database and let go of the folder; may be called twice.

        So also when it is cancelled meanwhile. What is used afterwards raises StateError (coordinator_closed).
        """
        if self._closed:
            return
        self._closed = True
        with self._held:
            try:
                await self.stop()
                await self.events.close()
            finally:
                self.performance.flush()

    async def _announce(self, topic: str, data: Mapping[str, Any]) -> None:
        """Tell what the coordinator itself has to tell, if it may; work that is done does not fail for it."""
        if self.constitution.check(Layer.COORDINATOR, Act.PUBLISH_EVENT, topic).allowed:
            await self.events.publish(topic, data)

    def _bound(self, kind: InteractionType) -> asyncio.Semaphore:
        if kind in _IMPROVING:
            return self._improving
        return self._heavy if kind in _HEAVY else self._light

    async def _process(self, asked: Interaction) -> Interaction:
        begun = self._moved(asked, InteractionStatus.IN_PROGRESS, "began", started_at=self.time())
        try:
            self._allow(begun)
            handler = self._handlers.get(begun.interaction_type)
            if handler is None:
                raise InputError("interaction_unsupported", f"nothing does {begun.interaction_type.value} here")
            response = plain_json(await handler(begun), "response", MAX_RESPONSE_BYTES)
        except NeedsApproval as waits:
            return self._moved(begun, InteractionStatus.PENDING_APPROVAL, str(waits), response=waits.response)
        except asyncio.CancelledError:
            self._moved(begun, InteractionStatus.CANCELLED, "cancelled", completed_at=self.time())
            raise
        except MindxError as error:
            failed = InteractionError(
                code=error.code, message=error.message, exit_code=error.exit_code, details=error.details
            )
            return self._failed(begun, failed, getattr(error, "response", begun.response))
        except Exception as error:
            logger.exception("the interaction %s failed", begun.interaction_id)
            message = f"a mistake of mindx or of what is plugged in: {type(error).__name__}"
            return self._failed(begun, InteractionError(code="internal_error", message=message))
        return self._moved(begun, InteractionStatus.COMPLETED, "done", response=response, completed_at=self.time())

    def _allow(self, asked: Interaction) -> None:
        """Ask the Constitution about an agent's request. A person may ask for anything; what it leads to is judged."""
        if asked.agent_id is not None:
            layer = self.agents.get(asked.agent_id).layer
            publishes = asked.interaction_type is InteractionType.PUBLISH_EVENT
            topic = str(asked.metadata.get("topic", "")) if publishes else ""
            self.constitution.require(layer, asked.interaction_type.act, topic)

    def _failed(self, begun: Interaction, error: InteractionError, response: Any = None) -> Interaction:
        return self._moved(
            begun,
            InteractionStatus.FAILED,
            error.message[:1000],
            error=error,
            response=response,
            completed_at=self.time(),
        )

    def _moved(self, was: Interaction, status: InteractionStatus, message: str, **changes: Any) -> Interaction:
        told = was.with_entry(COORDINATOR_ID, message, self.time())
        asker = was.agent_id or was.user_id
        logger.info("Interaction %s (%s of %s): %s", was.interaction_id, was.interaction_type.value, asker, message)
        return self.interactions.change(told.model_copy(update={**changes, "status": status}), was.status)

    async def __aenter__(self) -> CoordinatorAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
