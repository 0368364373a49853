import json
from datetime import datetime, timezone

import pytest

from mindx.errors import InputError, StateError
from mindx.trace.recorder import Recorder
from mindx.trace.run_folder import MAX_RESULT_BYTES, RunStore, new_run_id


def test_ids_sort_by_time():
    early = new_run_id(datetime(2026, 1, 31, 12, 0, 0, 5_000, timezone.utc), "ffffff")
    late = new_run_id(datetime(2026, 1, 31, 12, 0, 0, 6_000, timezone.utc), "000000")
    assert early == "20260131T120000005-ffffff"
    assert early < late
    assert new_run_id() != new_run_id()


def test_a_folder_is_its_users_alone(tmp_path):
    store = RunStore(tmp_path / "state" / "runs")
    folder = store.create()
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert store.root.stat().st_mode & 0o777 == 0o700


def test_runs_come_newest_first_and_strangers_are_passed_over(tmp_path):
    store = RunStore(tmp_path)
    made = [store.create().run_id for _ in range(20)]
    (tmp_path / "notes").mkdir()
    (tmp_path / "20260131T120000005-ffffff").write_text("a file")
    assert [folder.run_id for folder in store.runs()] == sorted(made, reverse=True)
    assert list(RunStore(tmp_path / "missing").runs()) == []


def test_find_takes_ids_prefixes_and_last(tmp_path):
    store = RunStore(tmp_path)
    for name in ("20260131T120000005-aaaaaa", "20260131T120000005-bbbbbb"):
        (tmp_path / name).mkdir()
    assert store.find("last").run_id.endswith("bbbbbb")
    assert store.find("20260131T120000005-a").run_id.endswith("aaaaaa")
    with pytest.raises(InputError) as ambiguous:
        store.find("2026")
    assert ambiguous.value.code == "run_ambiguous"


@pytest.mark.parametrize(
    ("result", "passed_over"),
    [
        ({"outcome": "invalid", "steps": []}, True),
        ({"outcome": "invalid", "steps": [{"status": "ERROR", "duration_s": 0.0}]}, True),
        ({"outcome": "invalid", "steps": [{"status": "SUCCESS", "duration_s": 0.0}]}, False),
        ({"outcome": "invalid", "steps": [{"status": "ERROR", "duration_s": 0.1}]}, False),
        ({"outcome": "invalid", "steps": [{}]}, False),
        ({"outcome": "denied", "steps": []}, False),
        ({"outcome": "error", "steps": []}, False),
        (None, False),
    ],
)
def test_last_passes_over_what_was_refused_for_its_input_and_nothing_else(tmp_path, result, passed_over):
    for name in ("20260131T120000005-aaaaaa", "20260131T120000006-bbbbbb"):
        (tmp_path / name).mkdir()
    if result is not None:
        (tmp_path / "20260131T120000006-bbbbbb" / "result.json").write_text(json.dumps(result))
    assert RunStore(tmp_path).find("last").run_id.endswith("aaaaaa" if passed_over else "bbbbbb")


@pytest.mark.parametrize("name", ["", "..", "../x", "/etc", "nope", "1" * 100, "20260131T120000005-aaaaaa/.."])
def test_what_names_no_run_is_refused(tmp_path, name):
    (tmp_path / "20260131T120000005-aaaaaa").mkdir()
    with pytest.raises(InputError):
        RunStore(tmp_path).find(name)


def test_last_of_nothing_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match="mindx run"):
        RunStore(tmp_path).find("last")


def test_a_result_is_written_whole(tmp_path):
    folder = RunStore(tmp_path).create()
    assert folder.read_result() is None
    folder.write("result.json", b'{"outcome": "completed"}')
    assert folder.read_result() == {"outcome": "completed"}
    assert [entry.name for entry in folder.path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_a_broken_result_is_an_input_error(tmp_path, text):
    folder = RunStore(tmp_path).create()
    folder.result_path.write_text(text)
    with pytest.raises(InputError):
        folder.read_result()


def test_states_are_told_apart(tmp_path):
    folder = RunStore(tmp_path).create()
    recorder = Recorder(folder.trace_path)
    assert folder.state() == "running"
    recorder.close()
    assert folder.state() == "interrupted"
    folder.write("result.json", b"{}")
    assert folder.state() == "finished"


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="MINDX_STATE_DIR"):
        RunStore(tmp_path / "file" / "runs").create()


def test_a_result_that_is_too_large_is_refused_as_such(tmp_path):
    folder = RunStore(tmp_path).create()
    with folder.result_path.open("wb") as file:
        file.truncate(MAX_RESULT_BYTES + 1)  # a hole: it takes no room
    with pytest.raises(InputError, match="larger than 512 MiB"):
        folder.read_result()
