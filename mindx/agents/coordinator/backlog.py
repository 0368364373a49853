"""The improvement backlog: ideas in the order in which they are worked on, none twice, the critical ones by consent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from mindx.agents.coordinator.backlog_item import BLOCKS_SAME, MAX_NOTE, OPEN, BacklogItem, BacklogStatus, WaitsFor
from mindx.agents.coordinator.database import CoordinatorDatabase
from mindx.core.nearest import nearest_id
from mindx.core.quote import quoted
from mindx.core.validation import faults
from mindx.errors import InputError
from mindx.runtime.run_ids import new_id as fresh_id

_INSERT = """INSERT INTO backlog (item_id, target, status, priority, added_at, interaction_id, document)
  VALUES (?, ?, ?, ?, ?, ?, ?)"""
_UPDATE = "UPDATE backlog SET status = ?, failed_at = ?, interaction_id = ?, document = ? WHERE item_id = ?"
_NEXT = """SELECT document FROM backlog
  WHERE status = 'pending' AND target NOT IN (SELECT target FROM backlog WHERE failed_at > ?)
  ORDER BY priority DESC, added_at, rowid LIMIT 1"""
_OF_INTERACTION = "SELECT document FROM backlog WHERE interaction_id = ? AND interaction_id != ''"
_OF_TARGET = "SELECT document FROM backlog WHERE target = ?"
_BY_STATUS = "SELECT document FROM backlog WHERE status = ?"
_BEGUN = frozenset({BacklogStatus.IN_PROGRESS})
_ORDERED = """SELECT document FROM backlog
  ORDER BY status = 'pending_approval', priority DESC, added_at, rowid"""


class Backlog:
    """The table of ideas. Several processes may use it; each change is one transaction.

    `now` gives the present time. Raises StateError when the database cannot be used.
    """

    def __init__(
        self,
        database: CoordinatorDatabase,
        now: Callable[[], datetime],
        new_id: Callable[[str], str] = fresh_id,
        most: int = 1000,
    ) -> None:
        self._database = database
        self._now, self._new_id, self._most = now, new_id, most

    def add(
        self,
        target: str,
        suggestion: str,
        *,
        priority: int = 5,
        source: str = "",
        critical: bool = False,
        waits_for: WaitsFor = WaitsFor.NOTHING,
        interaction_id: str = "",
    ) -> tuple[BacklogItem, bool]:
        """Return the item and True, or the one that is the same idea and False.

        Raises InputError: backlog_invalid, backlog_full.
        """
        status = BacklogStatus.PENDING_APPROVAL if waits_for is not WaitsFor.NOTHING else BacklogStatus.PENDING
        try:
            item = BacklogItem(
                item_id=self._new_id("item"),
                target_component_path=target,
                suggestion=suggestion,
                priority=priority,
                status=status,
                waits_for=waits_for,
                source=source,
                is_critical_target=critical,
                added_at=self._now(),
                interaction_id=interaction_id,
            )
        except ValidationError as error:
            raise InputError("backlog_invalid", f"this is no item of a backlog: {faults(error)}") from None
        key = item.target_component_path.casefold()
        with self._database.writing():
            for (document,) in self._database.rows(_OF_TARGET, (key,)):
                found = self._read(document)
                if found.status in BLOCKS_SAME and found.same_as == item.same_as:
                    return found, False
            count = sum(self.counts().get(status.value, 0) for status in OPEN)
            if count >= self._most:
                raise InputError("backlog_full", f"the backlog has {count:,} open items; work on them, or reject some")
            row = (item.item_id, key, status.value, priority, item.added_at.isoformat(), interaction_id)
            self._database.rows(_INSERT, (*row, json.dumps(item.to_dict())))
        return item, True

    def get(self, item_id: str) -> BacklogItem:
        """Return one item. Raises InputError (backlog_unknown)."""
        rows = self._database.rows("SELECT document FROM backlog WHERE item_id = ?", (item_id,))
        if not rows:
            known = (str(row[0]) for row in self._database.rows("SELECT item_id FROM backlog ORDER BY rowid DESC"))
            hint = nearest_id(item_id, known, "`mindx coordinator backlog` names them")
            raise InputError("backlog_unknown", f"the backlog has no item {quoted(item_id)}; {hint}")
        return self._read(rows[0][0])

    def of_interaction(self, interaction_id: str) -> BacklogItem | None:
        """Return the item that an Interaction works on, or None."""
        rows = self._database.rows(_OF_INTERACTION, (interaction_id,))
        return self._read(rows[0][0]) if rows else None

    def list(self) -> tuple[BacklogItem, ...]:
        """Return all items: the most urgent first, of these the oldest; what waits for a person comes last."""
        return tuple(self._read(row[0]) for row in self._database.rows(_ORDERED))

    def counts(self) -> dict[str, int]:
        """Return how many there are of each status."""
        return dict(self._database.rows("SELECT status, count(*) FROM backlog GROUP BY status"))

    def next(self, cooldown_s: float) -> BacklogItem | None:
        """Return the first item that can be worked on now, or None: no target that has failed within `cooldown_s`."""
        rows = self._database.rows(_NEXT, (self._now().timestamp() - cooldown_s,))
        return self._read(rows[0][0]) if rows else None

    def change(self, item_id: str, allowed: frozenset[BacklogStatus], **changes: Any) -> BacklogItem:
        """Change an item whose status is one of `allowed`. Raises InputError: backlog_unknown, backlog_moved_on."""
        with self._database.writing():
            item = self.get(item_id)
            if item.status not in allowed:
                message = f"the item {item_id} is {item.status.value}; this can only be done when it is "
                raise InputError("backlog_moved_on", message + " or ".join(sorted(status.value for status in allowed)))
            changed = item.model_copy(update=changes)
            failed_at = None if changed.last_failed_at is None else changed.last_failed_at.timestamp()
            row = (changed.status.value, failed_at, changed.interaction_id, json.dumps(changed.to_dict()))
            self._database.rows(_UPDATE, (*row, item_id))
        return changed

    def begin(self, item_id: str) -> BacklogItem:
        """Mark an item as being worked on."""
        item = self.get(item_id)
        changes = {"attempt_count": item.attempt_count + 1, "last_attempted_at": self._now()}
        return self.change(item_id, frozenset({BacklogStatus.PENDING}), status=BacklogStatus.IN_PROGRESS, **changes)

    def completed(self, item_id: str, final_status: str, message: str) -> BacklogItem:
        """Mark an item as done, with what the improvement agent said."""
        said = {"sia_final_op_status": final_status, "sia_message": message[:MAX_NOTE], "sia_error": ""}
        return self.change(item_id, _BEGUN, status=BacklogStatus.COMPLETED, **said)

    def failed(self, item_id: str, error: str, max_attempts: int) -> BacklogItem:
        """Mark an attempt as failed: it is tried again later as a new request, up to `max_attempts` times."""
        item = self.get(item_id)
        status = BacklogStatus.FAILED if item.attempt_count >= max_attempts else BacklogStatus.PENDING
        changes = {"sia_error": error[:MAX_NOTE], "last_failed_at": self._now(), "interaction_id": ""}
        return self.change(item_id, _BEGUN, status=status, **changes)

    def interrupted(self, item_id: str, why: str) -> BacklogItem:
        """Mark work of which nobody knows how far it came."""
        note = f"{why}; approve it to have it done again"
        return self.change(item_id, _BEGUN, status=BacklogStatus.INTERRUPTED, sia_error=note)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Have all changes inside happen, or none."""
        with self._database.writing():
            yield

    def interrupt_all(self) -> tuple[BacklogItem, ...]:
        """Mark what was in progress when its host died, and return it. Only the coordinator's owner may call it."""
        found = [self._read(row[0]) for row in self._database.rows(_BY_STATUS, (BacklogStatus.IN_PROGRESS.value,))]
        return tuple(self.interrupted(item.item_id, "the host ended in the middle of the work") for item in found)

    def _read(self, document: str) -> BacklogItem:
        try:
            return BacklogItem.model_validate(json.loads(document))
        except (ValueError, RecursionError) as error:
            raise self._database.damaged("an item of the backlog", error) from None
