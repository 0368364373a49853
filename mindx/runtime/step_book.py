"""The book of a Run's steps: what memory and the result's document hold is bounded, the spool holds the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from mindx.core.abridge import MAX_DOCUMENT_CHARS, json_chars
from mindx.core.observation import Observation, Status
from mindx.core.output import plain_value
from mindx.core.plan import Action
from mindx.core.run import StepRecord
from mindx.trace.spool import MAX_BYTES, Spool


class StepBook:
    """Keeps one StepRecord for each step, in `records`, and spools whole what a step printed.

    Once the outputs and results of all records are longer than `max_chars`, later records hold only what was counted
    and where the spool has it. The spool holds at most `max_spool_bytes`.
    """

    def __init__(self, run_folder: Path, max_chars: int = MAX_DOCUMENT_CHARS, max_spool_bytes: int = MAX_BYTES) -> None:
        self.records: list[StepRecord] = []
        self._spool = Spool(run_folder, max_spool_bytes)
        self._left = max_chars

    def begin(self, action: Action) -> None:
        """Spool what `hear` is told of as the output of this step, until it is kept."""
        self._spool.begin(action.index + 1)

    def hear(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Spool a piece of output as it arrives."""
        self._spool.hear(stream, data)

    def close(self) -> None:
        """Write no more."""
        self._spool.close()

    def keep(self, action: Action, observation: Observation) -> StepRecord:
        """Keep one step and return its record. Raises StateError when the spool cannot take it; the record is kept."""
        return self.add(step_record(action, observation), observation)

    def add(self, record: StepRecord, observation: Observation) -> StepRecord:
        """Keep a record that was made of an Observation, as `keep` does."""
        record = self._fit(record)
        self.records.append(record)  # also when the disk is full
        self.records[-1] = record = record.model_copy(update=self._spooled(record, observation))
        return record

    def _fit(self, record: StepRecord) -> StepRecord:
        size = json_chars([record.stdout, record.stderr, record.result])
        if size <= self._left:
            self._left -= size
            return record
        truncated = record.truncated or bool(record.stdout or record.stderr)
        empty = {"stdout": "", "stderr": "", "result": {}, "truncated": truncated, "abridged": True}
        return record.model_copy(update=empty)

    def _spooled(self, record: StepRecord, observation: Observation) -> dict[str, Any]:
        """Spool the streams, and the tool's own result where the record holds only a part of it."""
        step, execution = record.index + 1, observation.execution
        if execution is not None:
            out = self._spool.keep(step, "stdout", execution.stdout)
            err = self._spool.keep(step, "stderr", execution.stderr)
            left_out = out.left_out_bytes + err.left_out_bytes
            return {"stdout_spool": out.name, "stderr_spool": err.name, "spool_left_out_bytes": left_out}
        known: dict[str, Any] = {}
        if observation.status in (Status.CANCELLED, Status.ERROR):  # cut short: what it printed is all that there is
            known = {f"{name}_spool": kept.name for name, kept in self._spool.settle(step).items()}
        else:
            self._spool.drop(step)
        if record.abridged:
            text = json.dumps(plain_value(dict(observation.result)), ensure_ascii=True)
            result = self._spool.keep(step, "result.json", text.encode("ascii"))
            known |= {"result_spool": result.name, "spool_left_out_bytes": result.left_out_bytes}
        return known


def step_record(action: Action, observation: Observation) -> StepRecord:
    """Return the record of one step."""
    return StepRecord.of(action.index, action.type, str(action.params.get("command", "")), observation)
