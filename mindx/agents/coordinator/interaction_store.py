"""Interactions on the disk: each change is there before what it announces begins."""

from __future__ import annotations

import json
from datetime import datetime

from pydantic import ValidationError

from mindx.agents.coordinator.database import CoordinatorDatabase
from mindx.agents.coordinator.interaction import Interaction, InteractionStatus, InteractionType
from mindx.core.nearest import nearest_id
from mindx.core.quote import quoted
from mindx.errors import InputError

_INSERT = "INSERT INTO interactions (interaction_id, key, type, status, created_at, document) VALUES (?, ?, ?, ?, ?, ?)"
KEPT_SMALL, PRUNE_EVERY = 2000, 200
_SMALL = (InteractionType.QUERY.value, InteractionType.PUBLISH_EVENT.value)
_ENDED = tuple(status.value for status in InteractionStatus if status.ended)
_PRUNE = f"""DELETE FROM interactions WHERE rowid IN (
  SELECT rowid FROM interactions
  WHERE key IS NULL AND type IN (?, ?) AND status IN ({", ".join("?" for _ in _ENDED)})
  ORDER BY rowid DESC LIMIT -1 OFFSET ?)"""
_UPDATE = "UPDATE interactions SET status = ?, document = ? WHERE interaction_id = ? AND status = ?"


class InteractionStore:
    """The table of Interactions; of queries and events that have ended the latest 2,000 are kept.

    Raises StateError when the database cannot be used.
    """

    def __init__(self, database: CoordinatorDatabase) -> None:
        self._database = database
        self._added = 0

    def add(self, new: Interaction) -> Interaction:
        """Keep a new Interaction, or return the one of the same agent or person that has its key already.

        Raises InputError (interaction_key_taken) when that one asks for something else.
        """
        key = _scoped(new)
        row = (new.interaction_id, key, new.interaction_type.value, new.status.value, new.created_at.isoformat())
        with self._database.writing():
            if key is not None:
                found = self._database.rows("SELECT document FROM interactions WHERE key = ?", (key,))
                if found:
                    return _same(self._read(found[0][0]), new)
            self._database.rows(_INSERT, (*row, _text(new)))
            self._added += 1
            if self._added % PRUNE_EVERY == 0:
                self._database.rows(_PRUNE, (*_SMALL, *_ENDED, KEPT_SMALL))
        return new

    def change(self, changed: Interaction, was: InteractionStatus) -> Interaction:
        """Write a changed Interaction. Raises InputError (interaction_moved_on) when it is not `was` any more."""
        values = (changed.status.value, _text(changed), changed.interaction_id, was.value)
        with self._database.writing():
            self._database.rows(_UPDATE, values)
            if self._database.rows("SELECT changes()")[0][0] != 1:
                raise InputError(
                    "interaction_moved_on", f"the interaction {changed.interaction_id} is not {was.value} any more"
                )
        return changed

    def get(self, interaction_id: str) -> Interaction:
        """Return one. Raises InputError (interaction_unknown)."""
        rows = self._database.rows("SELECT document FROM interactions WHERE interaction_id = ?", (interaction_id,))
        if not rows:
            query = "SELECT interaction_id FROM interactions ORDER BY rowid DESC"
            known = (str(row[0]) for row in self._database.rows(query))
            hint = nearest_id(interaction_id, known, "`mindx coordinator backlog` names those that changed something")
            raise InputError("interaction_unknown", f"there is no interaction {quoted(interaction_id)}; {hint}")
        return self._read(rows[0][0])

    def list(self, status: InteractionStatus | None = None, limit: int = 100) -> tuple[Interaction, ...]:
        """Return the latest, newest first; `status` None is any."""
        where, values = ("", ()) if status is None else ("WHERE status = ?", (status.value,))
        query = f"SELECT document FROM interactions {where} ORDER BY created_at DESC, rowid DESC LIMIT ?"
        return tuple(self._read(row[0]) for row in self._database.rows(query, (*values, limit)))

    def counts(self) -> dict[str, int]:
        """Return how many there are of each status."""
        return dict(self._database.rows("SELECT status, count(*) FROM interactions GROUP BY status"))

    def interrupt(self, at: datetime) -> tuple[Interaction, ...]:
        """Mark all that were in progress when their host died, and return them. Only the owner may call it."""
        found = self.list(InteractionStatus.IN_PROGRESS, limit=10_000)
        message = "the host ended in the middle; what was done by then is not known, and nothing is repeated"
        return tuple(
            self.change(
                one.with_entry("coordinator", message, at).model_copy(
                    update={"status": InteractionStatus.INTERRUPTED, "completed_at": at}
                ),
                InteractionStatus.IN_PROGRESS,
            )
            for one in found
        )

    def _read(self, document: str) -> Interaction:
        try:
            return Interaction.from_dict(json.loads(document))
        except (ValueError, RecursionError, ValidationError) as error:
            raise self._database.damaged("an interaction", error) from None


def _scoped(new: Interaction) -> str | None:
    """Return the key among all: nobody can take another's."""
    who = f"agent {new.agent_id}" if new.agent_id is not None else f"user {new.user_id}"
    return None if new.key is None else f"{who}\n{new.key}"


def _text(interaction: Interaction) -> str:
    return json.dumps(interaction.to_dict())


def _same(found: Interaction, new: Interaction) -> Interaction:
    names = ("interaction_type", "content", "metadata", "user_id", "agent_id")
    if all(getattr(found, name) == getattr(new, name) for name in names):
        return found
    message = f"the key {quoted(new.key or '')} belongs to {found.interaction_id}, which asks for something else"
    raise InputError("interaction_key_taken", f"{message}; take a new key")
