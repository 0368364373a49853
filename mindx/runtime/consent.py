"""A person's yes to an Action, as far as the Commands that its tool sends: what the operator's policy asks about is
then answered. What the policy denies stays denied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The action_id that runs in this task with a person's yes to its exact arguments, or "". Tasks and threads that a tool
# starts inherit it; those of other Actions never see it.
_APPROVED: ContextVar[str] = ContextVar("approved_action", default="")


def approved_action_id() -> str:
    """Return the approved Action that this code runs for, or ""."""
    return _APPROVED.get()


@contextmanager
def consent(action_id: str) -> Iterator[None]:
    """Let the block, and the tasks started in it, count as this approved Action; "" for one that nobody was asked."""
    token = _APPROVED.set(action_id)
    try:
        yield
    finally:
        _APPROVED.reset(token)
