"""Beliefs: what is kept of each, what is found again, and that no crash, bad file or bad listener harms the store."""

import json
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from mindx.agents.beliefs import BeliefChange, BeliefSource, BeliefSystem
from mindx.errors import InputError, StateError


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "file"])
def beliefs(request, tmp_path, clock):
    with BeliefSystem(None if request.param == "memory" else tmp_path / "b.sqlite3", now=clock) as system:
        yield system


def test_a_belief_has_confidence_source_and_times(beliefs, clock):
    first = beliefs.add("door", {"open": True}, confidence=0.4, source=BeliefSource.INFERENCE, metadata={"by": "me"})
    clock.now = 2000.0
    second = beliefs.add("door", {"open": False}, confidence=7)
    assert (first.created, first.updated, first.source, first.metadata) == (1000, 1000, "inference", {"by": "me"})
    assert (second.created, second.updated, second.confidence) == (1000, 2000, 1.0)
    assert beliefs.get("door") == second
    assert beliefs.value("door") == {"open": False}
    assert beliefs.value("window", "shut") == "shut"
    assert beliefs.get("door", namespace="other") is None


def test_an_update_keeps_what_is_not_given(beliefs):
    beliefs.add("k", 1, confidence=0.3, source=BeliefSource.LEARNED, ttl_s=60, metadata={"a": 1})
    changed = beliefs.update("k", confidence=0.9)
    assert (changed.value, changed.confidence, changed.source, changed.ttl_s) == (1, 0.9, "learned", 60)
    assert beliefs.update("k", None, ttl_s=None).to_dict()["value"] is None
    assert beliefs.get("k").ttl_s is None
    with pytest.raises(InputError, match="nothing is believed"):
        beliefs.update("unknown", 1)


def test_what_has_outlived_its_time_is_not_believed(beliefs, clock):
    heard = []
    beliefs.subscribe(heard.append)
    beliefs.add("short", 1, ttl_s=10)
    beliefs.add("long", 2)
    clock.now += 10
    assert beliefs.get("short") is None
    assert [belief.key for belief in beliefs.query()] == ["long"]
    beliefs.add("new", 3)
    assert [(event.change, event.belief.key) for event in heard][-2:] == [
        (BeliefChange.EXPIRED, "short"),
        (BeliefChange.ADDED, "new"),
    ]
    assert beliefs.add("short", 4).created == clock.now


def test_queries_by_key_confidence_source_and_namespace(beliefs):
    for number in range(20):
        source = BeliefSource.PERCEPTION if number % 2 else BeliefSource.DERIVED
        beliefs.add(f"Fact.{number:02}", number, confidence=number / 20, source=source, namespace=f"n{number % 4}")
    found = beliefs.query("fact.1", min_confidence=0.6, source=BeliefSource.PERCEPTION)
    assert [belief.value for belief in found] == [13, 17, 15, 19]  # by namespace, then key
    assert [belief.value for belief in beliefs.query(namespace="n1", limit=2)] == [1, 5]
    assert beliefs.query("%") == ()
    assert beliefs.query("fact_") == ()
    assert beliefs.namespaces() == {"n0": 5, "n1": 5, "n2": 5, "n3": 5}


def test_changes_are_told_and_a_bad_listener_hurts_nobody(beliefs, caplog):
    heard = []

    def bad(event):
        raise RuntimeError("no")

    beliefs.subscribe(bad)
    end = beliefs.subscribe(heard.append)
    beliefs.add("k", 1)
    beliefs.add("k", 2)
    assert beliefs.remove("k")
    assert not beliefs.remove("k")
    end()
    beliefs.add("k", 3)
    told = [(event.change.value, event.belief.value, event.before and event.before.value) for event in heard]
    assert told == [("added", 1, None), ("updated", 2, 1), ("removed", 2, None)]
    assert "a listener failed" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"key": ""},
        {"key": "x" * 300},
        {"key": "a\nb"},
        {"value": float("nan")},
        {"value": "x" * 70_000},
        {"confidence": float("nan")},
        {"confidence": "high"},
        {"ttl_s": 0},
        {"ttl_s": float("inf")},
        {"metadata": {"x": "y" * 9000}},
        {"namespace": " "},
    ],
)
def test_what_is_no_belief_is_refused(beliefs, options):
    with pytest.raises(InputError) as caught:
        beliefs.add(**{"key": "k", "value": 1, **options})
    assert caught.value.code == "belief_invalid"
    assert beliefs.all() == ()


def test_it_is_durable_private_and_shared(tmp_path, clock):
    path = tmp_path / "mind" / "beliefs.sqlite3"
    with BeliefSystem(path, now=clock) as one, BeliefSystem(path, now=clock) as other:
        one.add("k", "ü", metadata={"a": [1]})
        assert other.value("k") == "ü"
    one.close()
    assert path.stat().st_mode & 0o077 == 0
    clock.now += 500
    with BeliefSystem(path, now=clock) as again:
        assert (again.get("k").created, again.get("k").metadata) == (1000, {"a": [1]})


def test_threads_may_write_at_once(beliefs):
    def write(number):
        for index in range(20):
            beliefs.add(f"{number}.{index}", index)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(beliefs.all()) == 80


WRITER = """
import sys
from mindx.agents.beliefs import BeliefSystem
from pathlib import Path
beliefs = BeliefSystem(Path(sys.argv[1]))
for number in range(10**9):
    beliefs.add("a", number)
    beliefs.add("b", number, metadata={"x": "y" * 2000})
    if number == 50:
        print("on", flush=True)
"""


def test_a_writer_that_is_killed_leaves_a_whole_store(tmp_path):
    path = tmp_path / "b.sqlite3"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    with BeliefSystem(path) as beliefs:
        assert beliefs.value("a") >= 50
        assert beliefs.value("a") - beliefs.value("b") in (0, 1)


def damage_header(path):
    path.write_bytes(b"this is no database at all" * 100)


def damage_row(path):
    with sqlite3.connect(path) as db:
        db.execute("UPDATE beliefs SET value = '{'")
    db.close()


def damage_source(path):
    with sqlite3.connect(path) as db:
        db.execute("UPDATE beliefs SET source = 'rumour'")
    db.close()


def damage_version(path):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize("damage", [damage_header, damage_row, damage_source, damage_version])
def test_a_damaged_store_is_told_and_left_as_it_is(tmp_path, damage):
    path = tmp_path / "b.sqlite3"
    with BeliefSystem(path) as beliefs:
        beliefs.add("k", 1)
    damage(path)
    before = path.read_bytes()
    with pytest.raises(StateError, match="move it away") as caught, BeliefSystem(path) as beliefs:
        beliefs.all()
    assert caught.value.code == "beliefs_corrupt"
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_place_that_cannot_be_used(tmp_path, kind):
    path = tmp_path / "b.sqlite3"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="cannot be used"):
        BeliefSystem(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_belief_is_a_json_document(beliefs):
    told = json.loads(json.dumps(beliefs.add("k", [1], namespace="n", ttl_s=5).to_dict()))
    assert told == {
        "namespace": "n",
        "key": "k",
        "value": [1],
        "confidence": 1.0,
        "source": "perception",
        "created": 1000.0,
        "updated": 1000.0,
        "ttl_s": 5.0,
        "metadata": {},
    }
