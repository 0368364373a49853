"""What a run keeps of its Observations in memory: all of it at first, then less of each, however loud it is."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from mindx.core.abridge import abridge, abridge_value
from mindx.core.evidence import ArtifactRef
from mindx.core.observation import Observation
from mindx.core.output import plain_value

WHOLE_BYTES = 24 * 1024 * 1024  # of one run, kept as they are
ABRIDGED_BYTES = 8 * 1024 * 1024  # of what is kept beyond that, shortened
MAX_URI_CHARS = 1024  # of an artifact; a longer one carries its own data
MAX_ABRIDGED_BYTES = 4 * 1024  # of one Observation's result, and of each stream of its program
VALUE_BYTES = 64  # of a number, or of a place in a list


class KeptObservations:
    """Takes one run's Observations one by one.

    The first `whole_bytes` are kept as they are; then each loses the middle of long texts, up to `abridged_bytes`;
    then only status and evidence are left. The trace and the caller's events have them whole.
    """

    def __init__(self, whole_bytes: int = WHOLE_BYTES, abridged_bytes: int = ABRIDGED_BYTES) -> None:
        self._whole_left = whole_bytes
        self._abridged_left = abridged_bytes

    def keep(self, observation: Observation) -> Observation:
        """Return what is kept of it."""
        size = size_of(observation)
        if size <= self._whole_left:
            self._whole_left -= size
            return observation
        shorter = abridged(observation)
        size = size_of(shorter)
        if size <= self._abridged_left:
            self._abridged_left -= size
            return shorter
        return dataclasses.replace(
            observation,
            message=observation.message[:200],
            result={},
            value=None,
            execution=None,
            artifacts=short_artifacts(observation),
        )


def size_of(observation: Observation) -> int:
    """Return about how many bytes of memory an Observation takes."""
    execution = observation.execution
    streams = 0 if execution is None else len(execution.stdout) + len(execution.stderr) + len(execution.command.stdin)
    artifacts = sum(len(item.uri) for item in observation.artifacts)
    return streams + artifacts + size_of_value(observation.result) + size_of_value(observation.value)


def size_of_value(value: Any) -> int:
    """Return about how many bytes of memory a JSON value takes."""
    total = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            total += sys.getsizeof(item)
        elif isinstance(item, Mapping):
            waiting.extend(item.values())
            total += VALUE_BYTES * len(item)
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
            total += VALUE_BYTES * len(item)
        else:
            total += VALUE_BYTES
    return total


def abridged(observation: Observation) -> Observation:
    """Return the Observation with the middle of long texts left out; the Receipt's counts stay true."""
    execution = observation.execution
    if execution is not None:
        stdout, out_cut = abridge(execution.stdout, MAX_ABRIDGED_BYTES)
        stderr, err_cut = abridge(execution.stderr, MAX_ABRIDGED_BYTES)
        execution = execution._replace(
            command=dataclasses.replace(execution.command, stdin=b""),
            stdout=stdout,
            stderr=stderr,
            stdout_truncated=execution.stdout_truncated or out_cut,
            stderr_truncated=execution.stderr_truncated or err_cut,
        )
    result, _ = abridge_value(plain_value(dict(observation.result)), MAX_ABRIDGED_BYTES)
    value, _ = abridge_value(plain_value(observation.value), MAX_ABRIDGED_BYTES)
    return dataclasses.replace(
        observation, result=result, value=value, execution=execution, artifacts=short_artifacts(observation)
    )


def short_artifacts(observation: Observation) -> tuple[ArtifactRef, ...]:
    """Return the artifacts but for those that carry their own data."""
    return tuple(item for item in observation.artifacts if len(item.uri) <= MAX_URI_CHARS)
