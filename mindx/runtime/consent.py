"""A person's yes to an Action, as far as the Commands that its tool sends: what the operator's policy asks about is
then answered. What the policy denies stays denied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class _Yes:
    """A person's yes to one Action; it ends with the Action, also for a task that the Action left behind."""

    __slots__ = ("action_id",)

    def __init__(self, action_id: str) -> None:
        self.action_id = action_id


# Tasks and threads that a tool starts inherit it; those of other Actions never see it.
_APPROVED: ContextVar[_Yes | None] = ContextVar("approved_action", default=None)


def approved_action_id() -> str:
    """Return the approved Action that this code runs for, or ""."""
    yes = _APPROVED.get()
    return "" if yes is None else yes.action_id


@contextmanager
def consent(action_id: str) -> Iterator[None]:
    """Let the block, and the tasks started in it, count as this approved Action; "" for one that nobody was asked."""
    yes = _Yes(action_id)
    token = _APPROVED.set(yes)
    try:
        yield
    finally:
        yes.action_id = ""
        _APPROVED.reset(token)
