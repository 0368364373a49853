"""A person's word on the backlog: yes, no. Used by the command line beside a running coordinator, too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from mindx.agents.constitution import Act, Constitution, ConstitutionError, Layer
from mindx.agents.coordinator.backlog import Backlog
from mindx.agents.coordinator.backlog_item import MAX_NOTE, BacklogItem, BacklogStatus, WaitsFor
from mindx.agents.coordinator.interaction import InteractionStatus
from mindx.agents.coordinator.interaction_store import InteractionStore
from mindx.errors import InputError

MAX_NAME = 200
_APPROVABLE = frozenset({BacklogStatus.PENDING_APPROVAL, BacklogStatus.INTERRUPTED})
_REJECTABLE = frozenset({BacklogStatus.PENDING, *_APPROVABLE})


class Consent:
    """What persons decide; `by` is always a person's name. Raises InputError (backlog_unknown, backlog_moved_on)."""

    def __init__(
        self,
        backlog: Backlog,
        interactions: InteractionStore,
        constitution: Constitution,
        now: Callable[[], datetime],
    ) -> None:
        self._backlog, self._interactions = backlog, interactions
        self._constitution, self._now = constitution, now

    def approve(self, item_id: str, by: str, *, seen: BacklogItem | None = None) -> BacklogItem:
        """Let the work begin, or its finished change be applied, or work that was interrupted be done again.

        `seen` is the item as the person has looked at it: the yes is to nothing that came after. Raises
        ConstitutionError for what no person's yes can allow.
        """
        at, name = self._now(), _checked_name(by)
        with self._backlog.transaction():
            item = self._backlog.get(item_id)
            if seen is not None and _question(item) != _question(seen):
                raise InputError("backlog_moved_on", f"the item {item_id} waits for something else by now; look again")
            self._allow(item.target_component_path)
            changes: dict[str, object] = {"status": BacklogStatus.PENDING, "waits_for": WaitsFor.NOTHING}
            if item.waits_for is WaitsFor.CHANGE:
                changes |= {"change_approved_at": at, "change_approved_by": name}
            else:
                changes |= {"approved_at": at, "approved_by": name}
            if item.status is BacklogStatus.INTERRUPTED:
                changes |= {"interaction_id": ""}  # that Interaction stays interrupted: a new one does the work
            changed = self._backlog.change(item_id, _APPROVABLE, sia_error="", **changes)
            self._move(item, InteractionStatus.PENDING, name, f"approved ({item.waits_for.value or 'again'})", at)
        return changed

    def _allow(self, target: str) -> None:
        ruling = self._constitution.check(Layer.COORDINATOR, Act.CHANGE_CODE, target, approved=True)
        if not ruling.allowed:
            raise ConstitutionError(
                "constitution_forbids",
                f"no approval can allow a change of {target}: {ruling.reason}",
                details={"rule": ruling.rule},
            )

    def reject(self, item_id: str, by: str, reason: str = "") -> BacklogItem:
        """Refuse an item for good; the same idea does not come back."""
        item = self._backlog.get(item_id)
        at, name = self._now(), _checked_name(by)
        changes = {
            "status": BacklogStatus.REJECTED_MANUAL,
            "waits_for": WaitsFor.NOTHING,
            "rejected_at": at,
            "rejected_by": name,
            "rejection_reason": reason[:MAX_NOTE],
        }
        with self._backlog.transaction():
            changed = self._backlog.change(item_id, _REJECTABLE, **changes)
            self._move(item, InteractionStatus.CANCELLED, name, f"rejected {reason}"[:1000].strip(), at)
        return changed

    def _move(self, item: BacklogItem, status: InteractionStatus, by: str, message: str, at: datetime) -> None:
        """Move the Interaction that waits for this item, if one does."""
        if not item.interaction_id:
            return
        waiting = self._interactions.get(item.interaction_id)
        if waiting.status is not InteractionStatus.PENDING_APPROVAL:
            return
        ended = at if status.ended else None
        moved = waiting.with_entry(by, message, at).model_copy(update={"status": status, "completed_at": ended})
        self._interactions.change(moved, InteractionStatus.PENDING_APPROVAL)


def _question(item: BacklogItem) -> tuple[WaitsFor, str, str]:
    """Return what a person is asked about: the kind, the words and the very change."""
    return item.waits_for, item.suggestion, item.change_sha256


def _checked_name(by: str) -> str:
    if not by or len(by) > MAX_NAME or not by.isprintable():
        raise InputError("person_unknown", "an approval needs the name of the person who gives it")
    return by
