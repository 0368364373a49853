"""What a task keeps on the disk: its ledger, its memory, and the long-term memory."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.checkpoint import TaskConstraint
from mindx.core.decision import AcceptanceCriterion
from mindx.errors import InputError, StateError
from mindx.runtime.tasks import memory as memory_module
from mindx.runtime.tasks.ledger import LatestRun, LocalTaskLedgerStore, TaskLedger, TaskStatus
from mindx.runtime.tasks.long_term import LongTermMemory
from mindx.runtime.tasks.memory import LocalTaskMemoryStore


def code(call: object, *arguments: object, **named: object) -> str:
    with pytest.raises((InputError, StateError)) as refused:
        call(*arguments, **named)  # type: ignore[operator]
    return refused.value.code


def test_a_ledger_is_saved_and_loaded_whole(tmp_path: Path) -> None:
    store = LocalTaskLedgerStore(tmp_path)
    ledger = TaskLedger(
        "task-1",
        "mend it",
        "/w",
        created_at="2026-01-01T00:00:00Z",
        run_count=1,
        latest_run=LatestRun("run_1", "2026-01-01T00:00:00Z", unknown_action_ids=("a",)),
        criteria=(AcceptanceCriterion("tests", "they pass"),),
        constraints=(TaskConstraint("c", "no new files"),),
    )
    with store.writing("task-1"):
        saved = store.save(ledger)
    assert saved == replace(ledger, revision=1)
    assert LocalTaskLedgerStore(tmp_path).get("task-1") == saved
    assert saved.task_state.criteria == ledger.criteria
    assert (store.path("task-1") / "ledger.json").stat().st_mode & 0o777 == 0o600


def test_a_save_over_what_was_never_seen_is_refused(tmp_path: Path) -> None:
    store = LocalTaskLedgerStore(tmp_path)
    first = store.save(TaskLedger("t", "one"))
    store.save(replace(first, status=TaskStatus.PARTIAL))
    assert code(store.save, first) == "task_revision_old"
    assert code(store.save, TaskLedger("t", "two")) == "task_revision_old"
    assert store.get("t").status is TaskStatus.PARTIAL


def test_one_writer_at_a_time_also_of_another_process(tmp_path: Path) -> None:
    store = LocalTaskLedgerStore(tmp_path)
    script = "import sys; from mindx.runtime.tasks.ledger import *\n"
    script += "with LocalTaskLedgerStore(sys.argv[1]).writing('t'): pass"
    with store.writing("t"):
        with pytest.raises(InputError) as refused, LocalTaskLedgerStore(tmp_path).writing("t"):
            raise AssertionError("two writers")
        assert refused.value.code == "task_in_use"
        other = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
        assert "is being worked on already" in other.stderr
    with store.writing("t"):
        pass


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"version": 1}', '{"version": 2, "objective": "x"}', "[" * 100_000, "\ud800"],
)
def test_a_damaged_ledger_is_a_typed_error_and_stays(tmp_path: Path, text: str) -> None:
    store = LocalTaskLedgerStore(tmp_path)
    path = store.path("t") / "ledger.json"
    path.parent.mkdir(parents=True)
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(data)
    assert code(store.load, "t") == "task_ledger_corrupt"
    assert code(store.save, TaskLedger("t", "x")) == "task_ledger_corrupt"
    assert path.read_bytes() == data
    store.save(TaskLedger("sound", "x"))
    assert [ledger.task_id for ledger in store.list()] == ["sound"]


def test_the_ledger_of_another_task_and_links_and_names(tmp_path: Path) -> None:
    store = LocalTaskLedgerStore(tmp_path)
    store.save(TaskLedger("a", "x"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "ledger.json").write_bytes((tmp_path / "a" / "ledger.json").read_bytes())
    assert code(store.load, "b") == "task_ledger_corrupt"
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "ledger.json").symlink_to(tmp_path / "a" / "ledger.json")
    assert code(store.load, "c") == "state_unreadable"
    assert code(store.get, "none") == "task_unknown"
    for name in ("../a", "a/b", "", ".", "a\0"):
        assert code(store.load, name) == "id_invalid"
    assert LocalTaskLedgerStore(tmp_path / "none").list() == ()


def test_a_ledger_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalTaskLedgerStore(tmp_path)
    first = store.save(TaskLedger("t", "x"))

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert code(store.save, first) == "state_unwritable"
    assert store.get("t") == first
    assert sorted(item.name for item in (tmp_path / "t").iterdir()) == ["ledger.json"]


def test_the_memory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    store = LocalTaskMemoryStore(tmp_path / "t")
    assert store.read() == ""
    digest = store.replace("# known\n")
    assert (store.read(), store.sha256) == ("# known\n", digest)
    assert code(store.replace, "late", expected_sha256="0" * 64) == "memory_changed"
    store.replace("next", expected_sha256=digest)
    assert code(store.replace, "x" * 300_000) == "memory_invalid"
    assert code(store.replace, "\ud800") == "memory_invalid"
    assert LocalTaskMemoryStore(tmp_path / "t").read() == "next"
    assert [item.name for item in (tmp_path / "t").iterdir()] == ["memory.md"]


def test_the_memory_has_one_way_in() -> None:
    public = {name for name in vars(LocalTaskMemoryStore) if not name.startswith("_")}
    assert public == {"read", "sha256", "replace", "append_event", "recent_events", "sync", "close"}


def test_a_memory_is_never_seen_half_written(tmp_path: Path) -> None:
    texts = ("a" * 200_000, "b" * 200_000)
    LocalTaskMemoryStore(tmp_path).replace(texts[0])
    done = threading.Event()

    def write() -> None:
        store = LocalTaskMemoryStore(tmp_path)
        for number in range(40):
            store.replace(texts[number % 2])
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    reader = LocalTaskMemoryStore(tmp_path)
    while not done.is_set():
        assert reader.read() in texts
    thread.join()


def event(seq: int, kind: AgentEventType = AgentEventType.ACTION_FINISHED, **payload: object) -> AgentEvent:
    return AgentEvent(kind, "run_1", seq, "2026-01-01T00:00:00Z", 1, payload)


def test_events_are_added_redacted_and_read_back_from_the_end(tmp_path: Path) -> None:
    store = LocalTaskMemoryStore(tmp_path, secrets=("hunter2-hunter2",))
    for number in range(30):
        store.append_event(event(number, action_id=f"a{number}"))
    store.append_event(event(30, AgentEventType.TEXT_DELTA, text="x"))
    store.append_event(event(31, AgentEventType.HEARTBEAT))
    store.append_event(event(32, text="it is hunter2-hunter2", api_key="k"))
    store.append_event(event(33, data=["x" * 9000] * 9))
    found = store.recent_events(4)
    assert [item["seq"] for item in found] == [28, 29, 32, 33]
    assert found[2]["payload"] == {"text": "it is [redacted]", "api_key": "[redacted]"}
    assert found[3]["payload"] == {"note": "too large to keep; the trace has it"}
    assert len(store.recent_events(1000)) == 32
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"torn": ')
    assert LocalTaskMemoryStore(tmp_path).recent_events(1)[0]["seq"] == 33
    assert LocalTaskMemoryStore(tmp_path / "none").recent_events() == []
    store.close()


def test_the_events_file_is_put_aside_when_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "MAX_EVENTS_BYTES", 2000)
    store = LocalTaskMemoryStore(tmp_path)
    for number in range(40):
        store.append_event(event(number, text="x" * 100))
    store.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 6000
    found = [item["seq"] for item in store.recent_events(10)]
    assert found == list(range(30, 40))


def test_long_term_memory_finds_texts_by_their_words_within_a_namespace(tmp_path: Path) -> None:
    memory = LongTermMemory(tmp_path / "m.sqlite", lambda: "2026-01-01T00:00:00Z")
    parser = memory.remember("p", "The parser fails on tabs; see lexer.py", "run_1")
    memory.remember("p", "Deploy with make release")
    memory.remember("q", "Another project's parser")
    memory.remember("p", "解析器在制表符上失败")
    assert memory.search("p", "parser tabs") == [
        {
            "memory_id": parser,
            "text": "The parser fails on tabs; see lexer.py",
            "source": "run_1",
            "created_at": "2026-01-01T00:00:00Z",
        }
    ]
    assert [row["text"] for row in memory.search("q", "parser")] == ["Another project's parser"]
    assert [row["text"] for row in memory.search("p", "制表符")] == ["解析器在制表符上失败"]
    assert memory.search("p", "xer.p")[0]["memory_id"] == parser
    assert memory.search("p", "100%_!") == []
    assert len(memory.search("p", "parser deploy", limit=1)) == 1
    assert not memory.forget("q", parser)
    assert memory.forget("p", parser)
    assert memory.search("p", "parser") == []
    assert LongTermMemory(tmp_path / "m.sqlite").count("p") == 2


@pytest.mark.parametrize("query", ['"', "a OR", "NEAR(", "text:x", "*", "'; DROP TABLE memories; --", "", "  "])
def test_a_query_is_words_and_no_language(tmp_path: Path, query: str) -> None:
    memory = LongTermMemory(tmp_path / "m.sqlite")
    memory.remember("n", "something else")
    assert memory.search("n", query) == []
    assert memory.count("n") == 1


def test_long_term_memory_refuses_what_it_cannot_keep(tmp_path: Path) -> None:
    memory = LongTermMemory(tmp_path / "m.sqlite")
    for namespace, text in (("", "x"), ("n" * 201, "x"), ("n", " "), ("n", "x" * 20_001), ("n", "\ud800")):
        assert code(memory.remember, namespace, text) == "memory_invalid"
    (tmp_path / "bad.sqlite").write_bytes(b"this is no database" * 100)
    assert code(LongTermMemory(tmp_path / "bad.sqlite").remember, "n", "x") == "memory_unusable"


def test_many_writers_of_one_long_term_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    failures: list[Exception] = []

    def write(number: int) -> None:
        try:
            for count in range(10):
                LongTermMemory(path).remember("n", f"writer {number} text {count}")
        except (StateError, sqlite3.Error) as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert LongTermMemory(path).count("n") == 60


def test_a_ledgers_file_is_json_for_people(tmp_path: Path) -> None:
    store = LocalTaskLedgerStore(tmp_path)
    store.save(TaskLedger("t", "修复"))
    assert json.loads((tmp_path / "t" / "ledger.json").read_text())["objective"] == "修复"
