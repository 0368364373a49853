import asyncio
import json
import os
import stat

import pytest

from mindx import (
    ActionRequest,
    AgentDecision,
    AgentEvent,
    AgentEventType,
    AgentRuntime,
    InputError,
    RunConfig,
    ScriptedReasoner,
    TraceRecorder,
)
from mindx.trace.read import verify
from mindx.trace.recorder import Recorder
from tests.agents.support import Heard, World, act

CONFIG = RunConfig(heartbeat_s=0.0, interactive=False)


def traced(recorder, *lines, run_id="run-1"):
    async def main():
        heard = Heard()
        async with AgentRuntime(
            ScriptedReasoner(lines), World().executor(), event_handler=recorder, config=CONFIG
        ) as runtime:
            return await runtime.run("x", run_id=run_id, event_handler=heard), heard

    return asyncio.run(main())


def test_a_trace_is_replayed_as_it_was(tmp_path):
    with TraceRecorder(tmp_path / "traces") as recorder:
        result, heard = traced(recorder, act("1:look", "2:fail"))
    assert result.ok
    path = tmp_path / "traces" / "run-1.jsonl"
    events = TraceRecorder.replay(path)
    assert [event.event_type for event in events] == [event.event_type for event in heard.events]
    assert [event.event_id for event in events] == [event.event_id for event in heard.events]
    assert [event.cause_id for event in events] == [event.cause_id for event in heard.events]
    assert [event.time for event in events] == [event.time for event in heard.events]
    assert events[-1].event_type is AgentEventType.RUN_FINISHED
    assert verify(path).ok
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_trace_is_durable_when_the_run_has_ended(tmp_path):
    recorder = TraceRecorder(tmp_path)
    traced(recorder, act("1:look"))
    assert TraceRecorder.replay(str(tmp_path / "run-1.jsonl"))[-1].event_type is AgentEventType.RUN_FINISHED
    recorder.close()
    recorder.close()


def test_a_cut_last_line_and_unknown_types_are_read(tmp_path):
    with TraceRecorder(tmp_path) as recorder:
        traced(recorder, act("1:look"))
    path = tmp_path / "run-1.jsonl"
    whole = TraceRecorder.replay(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert len(TraceRecorder.replay(path)) == len(whole) - 1
    with Recorder(tmp_path / "new.jsonl") as later:
        later.record("brand_new_type", payload={"a": 1}, run_id="r", event_seq=0)
        later.record("state_changed", payload={"to": "thinking"}, run_id="r", event_seq=1)
    found = TraceRecorder.replay(tmp_path / "new.jsonl")
    assert [event.event_type.value for event in found] == ["unknown", "state_changed"]
    assert found[0].payload == {"a": 1, "event_type": "brand_new_type"}


def test_secrets_stay_out(tmp_path):
    with TraceRecorder(tmp_path, secrets=["hunter2-hunter2"]) as recorder:
        request = ActionRequest("1", "look", {"api_key": "sk-1234567890", "text": "it is hunter2-hunter2"})
        traced(recorder, AgentDecision.act(request))
    text = (tmp_path / "run-1.jsonl").read_text()
    assert "hunter2-hunter2" not in text
    assert "sk-1234567890" not in text


def test_ids_never_lead_out_of_the_folder(tmp_path):
    recorder = TraceRecorder(tmp_path / "traces")
    for run_id in ("../../etc/passwd", "a/b", "\ud800", "x" * 500):
        path = recorder.path(run_id)
        assert path.parent == tmp_path / "traces"

    async def main():
        event = AgentEvent(AgentEventType.RUN_FINISHED, "../evil", 0, "now")
        await recorder(event)

    asyncio.run(main())
    recorder.close()
    assert [path.parent.name for path in tmp_path.rglob("*.jsonl")] == ["traces"]


def test_an_id_that_was_used_before_gets_a_file_of_its_own(tmp_path):
    with TraceRecorder(tmp_path) as recorder:
        traced(recorder, act("1:look"))
        traced(recorder, act("1:look"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-1.2.jsonl", "run-1.jsonl"]


def test_a_folder_that_cannot_be_written_is_told_and_the_run_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    with TraceRecorder(tmp_path / "file" / "traces") as recorder:
        result, _ = traced(recorder, act("1:look"))
    assert result.ok
    assert recorder.problem.code == "trace_unwritable"


def test_what_is_no_trace_is_refused(tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps({"a": 1}) + "\n")
    with pytest.raises(InputError):
        TraceRecorder.replay(tmp_path / "x.jsonl")
    with pytest.raises(InputError):
        TraceRecorder.replay(tmp_path / "missing.jsonl")
    assert not os.path.exists(tmp_path / "missing.jsonl")


def test_a_flood_of_events_waits_for_the_disk(tmp_path):
    """What waits to be written is bounded: the run waits in its turn, and nothing is lost."""

    async def flood():
        with TraceRecorder(tmp_path) as recorder:
            kind, text = AgentEventType.OBSERVATION_CREATED, "x" * 2**20
            events = [AgentEvent(kind, "run-1", seq, "2026-01-31T12:00:00Z", 1, {"text": text}) for seq in range(64)]
            waits = [wait for event in events if (wait := recorder(event)) is not None]
            await asyncio.gather(*waits)
            return len(waits)

    assert 0 < asyncio.run(flood()) < 64
    assert [event.seq for event in TraceRecorder.replay(tmp_path / "run-1.jsonl")] == list(range(64))
