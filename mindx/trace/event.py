"""Events: one recorded fact each, one line each, chained by digest.

A line is a JSON object in ASCII: `seq` (from 0), `time` (UTC), `kind`, `data`, `prev` (the digest of the line
before, or 64 zeros) and, last, `sha256`: the digest of the line's own bytes up to that key. So a change of any
byte breaks the line it is in, and a line that is taken out, put in or moved breaks the next. Only what hangs at
the end can be cut without a trace; a run's result.json therefore holds the number of events and the last digest.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

GENESIS = "0" * 64
_encode = json.JSONEncoder(allow_nan=False).encode
_SEAL = b', "sha256": "'
_SEAL_BYTES = len(_SEAL) + 64 + len('"}')


@dataclass(frozen=True, slots=True)
class Event:
    """One fact. `kind` may be one that this version does not know; `data` holds JSON values."""

    seq: int
    time: str
    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    prev: str = GENESIS
    sha256: str = ""


class BrokenLineError(ValueError):
    """A line of a trace is not what a recorder wrote."""


def encode_line(
    seq: int, time: str, kind: str, data: dict[str, Any], prev: str, members: str = ""
) -> tuple[bytes, str]:
    """Return the line with its newline, and its digest; `members` are more of `data`, as JSON without braces.

    Raises ValueError for what JSON cannot hold (NaN).
    """
    inner = _encode(data)[1:-1]
    inner = f"{inner}, {members}" if inner and members else inner or members
    head = f'{{"seq": {seq}, "time": {_encode(time)}, "kind": {_encode(kind)}, "data": {{{inner}}}, "prev": "{prev}"'
    body = head.encode("ascii")
    digest = hashlib.sha256(body).hexdigest()
    return b'%b%b%b"}\n' % (body, _SEAL, digest.encode("ascii")), digest


def decode_line(line: bytes) -> Event:
    """Return the Event of one line (without its newline). Raises BrokenLineError, saying what is wrong."""
    body, seal = line[:-_SEAL_BYTES], line[-_SEAL_BYTES:]
    if not seal.startswith(_SEAL) or not seal.endswith(b'"}'):
        raise BrokenLineError("it has no digest at its end")
    digest = seal[len(_SEAL) : -2].decode("ascii", "replace")
    if hashlib.sha256(body).hexdigest() != digest:
        raise BrokenLineError("its digest does not fit its content")
    try:
        value = json.loads(line)
        event = Event(value["seq"], value["time"], value["kind"], value["data"], value["prev"], value["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BrokenLineError("it is not an event") from error
    if not isinstance(event.seq, int) or not isinstance(event.data, dict) or not isinstance(event.kind, str):
        raise BrokenLineError("it is not an event")
    return event
