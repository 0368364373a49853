"""Which Interactions still need what was kept of them, for whoever clears up beside a coordinator."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from mindx.agents.coordinator.backlog import Backlog
from mindx.agents.coordinator.backlog_item import OPEN, BacklogStatus
from mindx.agents.coordinator.database import FILE, CoordinatorDatabase
from mindx.agents.coordinator.interaction import InteractionStatus
from mindx.agents.coordinator.interaction_store import InteractionStore

_MOST = 1_000_000


def unfinished_interactions(state_dir: Path) -> frozenset[str]:
    """Return the ids of those that go on, wait for a person, or were interrupted with an item of the backlog.

    None where no coordinator has worked. Raises StateError.
    """
    if not (state_dir / FILE).exists():
        return frozenset()
    database = CoordinatorDatabase(state_dir)
    try:
        items = Backlog(database, lambda: datetime.now(timezone.utc)).list()
        found = {item.interaction_id for item in items if item.status in (*OPEN, BacklogStatus.INTERRUPTED)}
        store = InteractionStore(database)
        for status in (status for status in InteractionStatus if not status.ended):
            found |= {one.interaction_id for one in store.list(status, _MOST)}
        return frozenset(found)
    finally:
        database.close()
