"""What pydantic found wrong with a document, told to who wrote it."""

from __future__ import annotations

from pydantic import ValidationError

_MAX_MESSAGE = 300  # characters of one fault


def faults(error: ValidationError, most: int = 8) -> str:
    """Return the first `most` faults in one line, each with its place, without the values: they may be secret."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    told = [_fault(item["loc"], item["msg"][:_MAX_MESSAGE]) for item in found[:most]]
    return "; ".join(told) + (f"; and {len(found) - most} more" if len(found) > most else "")


def _fault(place: tuple[int | str, ...], message: str) -> str:
    return f"`{'.'.join(map(str, place))}`: {message}" if place else message
