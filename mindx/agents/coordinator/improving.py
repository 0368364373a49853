"""COMPONENT_IMPROVEMENT: from the request through the Constitution to the improvement agent, and to what is applied."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from pydantic import ValidationError

from mindx.agents.constitution import Act, Constitution, Layer
from mindx.agents.coordinator.backlog import Backlog
from mindx.agents.coordinator.backlog_item import BacklogItem, BacklogStatus, WaitsFor
from mindx.agents.coordinator.config import CoordinatorConfig
from mindx.agents.coordinator.improvement_order import order_of
from mindx.agents.coordinator.interaction import Interaction
from mindx.agents.improvement.apply import ApplyStatus, ImprovementReport, apply_improvement, rollback_improvement
from mindx.agents.improvement.models import SELF, SELF_FILE, CycleResult, ImprovementRequest, ImprovementResult
from mindx.agents.improvement.paths import rule_target
from mindx.core.quote import quoted
from mindx.errors import InputError, MindxError

Improve = Callable[[ImprovementRequest], Awaitable[ImprovementResult]]
Publish = Callable[[str, Mapping[str, Any]], Awaitable[object]]
SUCCESS_TOPIC, FAILURE_TOPIC = "component.improvement.success", "component.improvement.failure"


class NeedsApproval(Exception):
    """A person has to say yes before an Interaction can go on; `response` is what there is by then."""

    def __init__(self, message: str, response: Any = None) -> None:
        super().__init__(message)
        self.response = response


class ImprovementFailedError(MindxError):
    """The improvement agent brought nothing usable; `response` is its answer."""

    def __init__(self, message: str, response: Any) -> None:
        super().__init__("improvement_failed", message)
        self.response = response


class ImprovementDesk:
    """Has components improved, and lets a person's word decide where the Constitution says so.

    `improve` None: nothing can be improved here. `work_dir` is where each improvement keeps its Changes. `project` is
    the folder whose files are improved; a new tool needs none.
    """

    def __init__(
        self,
        constitution: Constitution,
        backlog: Backlog,
        publish: Publish,
        config: CoordinatorConfig,
        *,
        improve: Improve | None,
        work_dir: Path,
        project: Path | None = None,
    ) -> None:
        self._constitution, self._backlog, self._publish, self._config = constitution, backlog, publish, config
        self._improve, self._work_dir, self._project = improve, work_dir, project

    async def process(self, asked: Interaction) -> Any:
        """Do one request and return the improvement agent's answer, with what was `applied`.

        The backlog's item for it, if there is one, follows. Raises NeedsApproval, ConstitutionError, InputError
        (improvement_invalid, improvement_unavailable, improvement_known), ImprovementFailedError.
        """
        item = self._backlog.of_interaction(asked.interaction_id)
        if item is not None:
            item = self._backlog.begin(item.item_id)
        try:
            document = await self._processed(asked, item)
        except NeedsApproval:
            raise
        except asyncio.CancelledError:
            if item is not None:
                self._backlog.interrupted(item.item_id, "it was cancelled")
            raise
        except Exception as error:
            code, message = getattr(error, "code", "internal_error"), getattr(error, "message", type(error).__name__)
            if item is not None:
                self._backlog.failed(item.item_id, message, self._config.max_attempts)
            await self._publish(FAILURE_TOPIC, {**_about(asked), "error": code})
            raise
        if item is not None:
            data = document["data"]
            self._backlog.completed(item.item_id, data["final_status"], data["message"])
        await self._publish(SUCCESS_TOPIC, _about(asked))
        return document

    async def _processed(self, asked: Interaction, item: BacklogItem | None) -> dict[str, Any]:
        result = self._finished(asked, item)
        request = order_of(asked, self._config, self._project, finished=result is not None)
        critical = self._judged(asked, request, item)
        result = result or await self._worked(request)
        document = result.model_dump(mode="json")
        if request.tool_spec is None:
            document["applied"] = await self._applied(asked, request, result, item, critical)
        return document

    async def roll_back(self, asked: Interaction) -> Any:
        """Take an applied change back: of `metadata.interaction_id`, or of `metadata.backlog_item_id`.

        Only a person asks for this; see the Constitution. Raises InputError (improvement_none, undo_nothing).
        """
        item_id, interaction_id = asked.metadata.get("backlog_item_id"), asked.metadata.get("interaction_id", "")
        item = self._backlog.get(str(item_id)) if item_id else self._backlog.of_interaction(str(interaction_id))
        report = await _to_its_end(
            partial(
                rollback_improvement,
                item.interaction_id if item is not None else str(interaction_id),
                work_dir=self._work_dir,
                constitution=self._constitution,
                approved=asked.user_id is not None and asked.agent_id is None,
            )
        )
        if not report.ok:
            raise ImprovementFailedError(report.message, report.model_dump(mode="json"))
        if item is not None:
            self._backlog.change(item.item_id, frozenset({item.status}), status=BacklogStatus.ROLLED_BACK)
        return report.model_dump(mode="json")

    def _judged(self, asked: Interaction, request: ImprovementRequest, item: BacklogItem | None) -> bool:
        """Return whether the target is critical. Raises NeedsApproval until a person has approved the work."""
        approved = item is not None and item.approved_at is not None
        names = self._names(request)
        rulings = [self._constitution.check(Layer.COORDINATOR, Act.CHANGE_CODE, name) for name in names]
        forbidden = any(not ruling.allowed and not ruling.needs_person for ruling in rulings)
        flagged = bool(asked.metadata.get("is_critical_target")) or (item is not None and item.is_critical_target)
        is_file = request.tool_spec is None  # a new tool stands in a folder of its own until a campaign registers it
        critical = is_file and (flagged or any(ruling.needs_person for ruling in rulings))
        if critical and not approved and not forbidden:
            if item is None:
                self._keep(asked, request, WaitsFor.WORK)
            raise NeedsApproval(f"a person must approve work on {quoted(request.target_file)}: it is critical")
        for name in names:
            self._constitution.require(Layer.COORDINATOR, Act.CHANGE_CODE, name, approved=approved)
        return critical

    def _names(self, request: ImprovementRequest) -> set[str]:
        """Return the names by which rules may know the target; every one of them is asked about."""
        if request.tool_spec is not None:
            return {f"tools/{request.tool_spec.id}/{request.target_file}"}
        return {request.target_file, rule_target(request.workspace, request.target_file)}

    def _keep(self, asked: Interaction, request: ImprovementRequest, waits_for: WaitsFor) -> BacklogItem:
        """Put a request on the backlog, where a person finds it. Raises InputError (improvement_known)."""
        priority = asked.metadata.get("priority", asked.metadata.get("original_priority", 5))
        item, added = self._backlog.add(
            request.target_file,
            asked.content or "improve it",
            priority=priority,
            source=asked.agent_id or asked.user_id or "",
            critical=waits_for is WaitsFor.WORK,
            waits_for=waits_for,
            interaction_id=asked.interaction_id,
        )
        if not added:
            message = f"this idea is on the backlog already: {item.item_id} is {item.status.value}"
            raise InputError("improvement_known", message, details={"item_id": item.item_id})
        return item

    async def _worked(self, request: ImprovementRequest) -> ImprovementResult:
        if self._improve is None:
            raise InputError("improvement_unavailable", "no improvement agent is set up here")
        try:
            with anyio.fail_after(self._config.improvement_timeout_s):
                result = await self._improve(request)
        except TimeoutError:
            limit = f"{self._config.improvement_timeout_s:g} s"
            raise ImprovementFailedError(f"the improvement agent did not end within {limit}", None) from None
        if not isinstance(result, ImprovementResult):
            raise ImprovementFailedError("the improvement agent gave no result", None)
        if not result.ok:
            raise ImprovementFailedError(result.message, result.model_dump(mode="json"))
        return result

    def _finished(self, asked: Interaction, item: BacklogItem | None) -> ImprovementResult | None:
        """Return the change that was made before a person was asked about it, or None when it must be made now."""
        if item is None or not item.change_sha256 or item.change_approved_at is None or asked.response is None:
            return None
        try:
            return ImprovementResult.model_validate(asked.response)
        except ValidationError:
            raise ImprovementFailedError("the finished change was damaged; ask for it again", None) from None

    async def _applied(
        self,
        asked: Interaction,
        request: ImprovementRequest,
        result: ImprovementResult,
        item: BacklogItem | None,
        critical: bool,
    ) -> dict[str, Any]:
        """Have a finished change applied and return the report. Raises NeedsApproval, ImprovementFailedError."""
        candidate = result.data.candidate
        if candidate is None:
            raise ImprovementFailedError("the improvement agent says that it is done, and has nothing to show", None)
        expected = SELF_FILE if request.target_file == SELF else request.target_file
        if candidate.target_path != expected:
            raise ImprovementFailedError("the improvement agent changed another file than it was asked to", None)
        digest = digest_of(candidate)
        approved = item is not None and item.change_approved_at is not None and item.change_sha256 == digest
        wanted = approved or not (critical or not self._config.auto_apply)
        report = None
        if wanted:
            apply = partial(apply_improvement, request, result, approved=approved)
            report = await _to_its_end(partial(apply, work_dir=self._work_dir, constitution=self._constitution))
        if report is None or report.status is ApplyStatus.NEEDS_APPROVAL:
            self._ask_about_change(asked, request, item, digest)
            why = f"a person must look at the change of {quoted(request.target_file)}"
            raise NeedsApproval(why if report is None else report.message, result.model_dump(mode="json"))
        if not report.ok:
            raise ImprovementFailedError(report.message, result.model_dump(mode="json"))
        return report.model_dump(mode="json")

    def _ask_about_change(
        self, asked: Interaction, request: ImprovementRequest, item: BacklogItem | None, digest: str
    ) -> None:
        item = item or self._keep(asked, request, WaitsFor.CHANGE)
        changes: dict[str, Any] = {"status": BacklogStatus.PENDING_APPROVAL, "waits_for": WaitsFor.CHANGE}
        changes |= {"change_sha256": digest, "change_approved_at": None, "change_approved_by": None}
        self._backlog.change(item.item_id, frozenset({item.status}), **changes)


def digest_of(candidate: CycleResult) -> str:
    """Return the digest of exactly what a person says yes to: the file and its new content."""
    return hashlib.sha256(f"{candidate.target_path}\0{candidate.new_content}".encode()).hexdigest()


async def _to_its_end(write: Callable[[], ImprovementReport]) -> ImprovementReport:
    """Write in a thread; who cancels this waits until all is there, or nothing."""
    work = asyncio.ensure_future(asyncio.to_thread(write))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def _about(asked: Interaction) -> dict[str, Any]:
    target = asked.metadata.get("target_component") or asked.metadata.get("target_component_path") or ""
    return {"interaction_id": asked.interaction_id, "target_component": target}
