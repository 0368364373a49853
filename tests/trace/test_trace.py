import json
import os
import resource
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindx.errors import InputError, StateError
from mindx.trace.event import GENESIS, encode_line
from mindx.trace.read import read, verify
from mindx.trace.recorder import Recorder, is_being_written, utc_now


def write_trace(path: Path, count: int = 5) -> Recorder:
    with Recorder(path) as recorder:
        for number in range(count):
            recorder.record("step", number=number, output=b'\xff\x00line\r\n{"seq": 9}')
    return recorder


def test_events_come_back_in_order(tmp_path):
    recorder = write_trace(tmp_path / "trace.jsonl")
    events = list(read(recorder.path))
    assert [event.seq for event in events] == [0, 1, 2, 3, 4]
    assert events[3].data == {"number": 3, "output": '\\xff\x00line\r\n{"seq": 9}'}
    assert events[0].prev == GENESIS
    assert events[-1].sha256 == recorder.head
    assert recorder.path.stat().st_mode & 0o777 == 0o600


def test_output_cannot_forge_a_line(tmp_path):
    recorder = Recorder(tmp_path / "trace.jsonl")
    forged, _ = encode_line(1, "2026-01-01T00:00:00Z", "run_finished", {"outcome": "completed"}, GENESIS)
    recorder.record("output", text="\n" + forged.decode() + "\u2028\x85\r")
    recorder.close()
    assert recorder.path.read_bytes().count(b"\n") == 1
    assert [event.kind for event in read(recorder.path)] == ["output"]


@pytest.mark.parametrize("figures", ["", '"cpu_s": 0.250000, "signal": null'])
@pytest.mark.parametrize("data", [{}, {"argv": ["ls"]}])
def test_figures_are_recorded_beside_what_is_redacted(tmp_path, data, figures):
    with Recorder(tmp_path / "trace.jsonl") as recorder:
        recorder.record("exec", figures, **data)
    [event] = read(recorder.path)
    assert event.data == data | ({"cpu_s": 0.25, "signal": None} if figures else {})
    assert verify(recorder.path, events=1, head=recorder.head).ok


def test_times_are_those_of_utc_to_the_microsecond():
    before = datetime.now(timezone.utc)
    told = datetime.strptime(utc_now(), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    assert before <= told <= datetime.now(timezone.utc)


def test_a_sound_trace_verifies(tmp_path):
    recorder = write_trace(tmp_path / "trace.jsonl")
    found = verify(recorder.path, events=5, head=recorder.head)
    assert found.ok
    assert (found.events, found.head, found.cut) == (5, recorder.head, False)


def test_any_changed_byte_is_found(tmp_path):
    path = write_trace(tmp_path / "trace.jsonl", 3).path
    sound = path.read_bytes()
    for position in range(len(sound)):
        changed = bytearray(sound)
        changed[position] ^= 1
        path.write_bytes(bytes(changed))
        found = verify(path)
        assert not found.ok or found.cut, position  # only the very last newline can look like a cut
        assert not found.ok or position == len(sound) - 1


@settings(max_examples=50)
@given(st.permutations(range(5)), st.sets(st.integers(0, 4)))
def test_moved_and_missing_lines_are_found(tmp_path_factory, order, missing):
    path = write_trace(tmp_path_factory.mktemp("t") / "trace.jsonl").path
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [index for index in order if index not in missing]
    path.write_bytes(b"".join(lines[index] for index in kept))
    assert verify(path).ok == (kept == list(range(len(kept))))


def test_lines_cut_from_the_end_are_found_by_the_head(tmp_path):
    recorder = write_trace(tmp_path / "trace.jsonl")
    lines = recorder.path.read_bytes().splitlines(keepends=True)
    recorder.path.write_bytes(b"".join(lines[:-1]))
    assert verify(recorder.path).ok
    assert not verify(recorder.path, events=recorder.events, head=recorder.head).ok


@pytest.mark.parametrize("broken", ["seq", "prev"])
def test_a_line_with_a_sound_digest_of_its_own_must_still_follow(tmp_path, broken):
    recorder = write_trace(tmp_path / "trace.jsonl", 2)
    seq, prev = (7, recorder.head) if broken == "seq" else (2, "f" * 64)
    line, _ = encode_line(seq, "2026-01-01T00:00:00Z", "step", {}, prev)
    recorder.path.write_bytes(recorder.path.read_bytes() + line)
    found = verify(recorder.path)
    assert (found.ok, found.line, found.events) == (False, 3, 2)


def test_another_last_line_is_found_by_the_head(tmp_path):
    recorder = write_trace(tmp_path / "trace.jsonl", 2)
    lines = recorder.path.read_bytes().splitlines(keepends=True)
    event = next(read(recorder.path))
    line, _ = encode_line(1, "2026-01-01T00:00:00Z", "step", {"forged": True}, event.sha256)
    recorder.path.write_bytes(lines[0] + line)
    assert verify(recorder.path, events=2).ok
    assert not verify(recorder.path, events=2, head=recorder.head).ok


def test_a_cut_last_line_is_reported_and_tolerated(tmp_path):
    path = write_trace(tmp_path / "trace.jsonl").path
    path.write_bytes(path.read_bytes()[:-20])
    found = verify(path)
    assert (found.ok, found.cut, found.events) == (True, True, 4)
    assert len(list(read(path))) == 4


def test_unknown_kinds_are_read(tmp_path):
    with Recorder(tmp_path / "trace.jsonl") as recorder:
        recorder.record("a_kind_of_next_year", x=1)
    assert [event.kind for event in read(recorder.path)] == ["a_kind_of_next_year"]


def test_a_broken_or_missing_trace_is_an_input_error(tmp_path):
    path = tmp_path / "trace.jsonl"
    with pytest.raises(InputError):
        list(read(path))
    path.write_text('{"seq": 0}\n')
    with pytest.raises(InputError, match="line 1"):
        list(read(path))


@pytest.mark.parametrize("secrets", [["hunter2-canary"], []])
def test_secrets_and_large_values_stay_out(tmp_path, secrets):
    """Also where no secret is known: what a name calls one, what is too long or too deep."""
    with Recorder(tmp_path / "trace.jsonl", secrets=secrets) as recorder:
        recorder.record(
            "exec",
            argv=["echo", *(f"x{secret}x" for secret in secrets)],
            env={"API_KEY": "abc", "tokens": 5, "db.password": "p", "PATH": "/bin"},
            big="x" * 100_000,
            odd={"nan": float("nan"), "set": {1}, "deep": [[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]},
            many=[1] * 1005,
            name="\udc80",
        )
    text = recorder.path.read_text()
    assert "hunter2-canary" not in text
    (event,) = read(recorder.path)
    assert event.data["env"] == {"API_KEY": "[redacted]", "tokens": 5, "db.password": "[redacted]", "PATH": "/bin"}
    assert len(event.data["big"]) < 17_000
    assert "left out" in event.data["big"]
    assert json.loads(text)["data"]["odd"]["nan"] == "nan"
    assert "[too deep]" in text
    assert event.data["many"][1000:] == ["[5 more]"]
    assert event.data["name"] == "\\x80"


def test_a_trace_is_never_overwritten_nor_followed(tmp_path):
    path = write_trace(tmp_path / "trace.jsonl").path
    before = path.read_bytes()
    with pytest.raises(StateError):
        Recorder(path)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError):
        Recorder(tmp_path / "link")
    assert path.read_bytes() == before


def test_who_is_writing_can_be_told(tmp_path):
    recorder = Recorder(tmp_path / "trace.jsonl")
    assert is_being_written(recorder.path)
    recorder.close()
    recorder.close()
    assert not is_being_written(recorder.path)
    assert not is_being_written(tmp_path / "missing")


def test_a_full_disk_leaves_no_torn_line(tmp_path):
    # RLIMIT_FSIZE stands for the full disk: the write stops in the middle of a line.
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from mindx.errors import StateError; from mindx.trace.recorder import Recorder\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "recorder = Recorder(Path(sys.argv[1]))\n"
        "try:\n"
        "    for number in range(100): recorder.record('step', text='x' * 100)\n"
        "except StateError as error: print(error.code, recorder.events)\n"
    )
    path = tmp_path / "trace.jsonl"
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    code, events = done.stdout.split()
    assert code == "trace_unwritable"
    found = verify(path)
    assert (found.ok, found.cut, found.events) == (True, False, int(events))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 3000
    assert os.path.getsize(path) <= 3000
