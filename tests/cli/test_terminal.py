"""Programs in a terminal as a user has them: a plan, a policy file and a real container."""

from __future__ import annotations

import pytest

from mindx.trace.read import read, verify
from mindx.trace.run_folder import RunStore
from tests.steps import tool

POLICY = """
version: 1
name: terminals
limits:
  background: 2
commands:
  - allow: [python3, bash, printf]
"""


@pytest.fixture
def policy(mindx):
    (mindx.folder / "terminals.yaml").write_text(POLICY)
    return "terminals.yaml"


def test_a_talk_with_an_interpreter(engine_mindx, policy):
    plan = engine_mindx.plan(
        [
            tool("pty_open", argv=["python3", "-i", "-q"], rows=30, cols=100),
            tool("pty_expect", job="job1", text=">>> "),
            tool("pty_send", job="job1", text="import os; print(os.get_terminal_size())", keys=["enter"]),
            tool("pty_expect", job="job1", text="columns=100, lines=30"),
            tool("pty_resize", job="job1", rows=40, cols=120),
            tool("pty_send", job="job1", text="print(os.get_terminal_size())\n"),
            tool("pty_expect", job="job1", text="columns=120, lines=40"),
            tool("pty_send", job="job1", text="exit(7)", keys=["enter"]),
            tool("pty_expect", job="job1"),
            tool("pty_close", job="job1"),
            tool("pty_open", argv=["bash", "--norc"]),
            tool("pty_send", job="job2", text="echo pr''ompt > made; echo made''it", keys=["enter"]),
            tool("pty_expect", job="job2", text="madeit", timeout_seconds=30),
            tool("poll", job="job2"),
        ]
    )
    done = engine_mindx("run", plan, "--policy", policy, "--json")
    assert done.code == 0, done.err + done.out
    results = [step["result"] for step in done.json["steps"]]
    assert results[3]["output"].endswith("os.terminal_size(columns=100, lines=30")
    assert (results[8]["state"], results[8]["return_code"]) == ("ended", 7)
    assert (results[9]["return_code"], results[9]["exit_cause"]) == (7, "exit")
    assert results[13]["state"] == "running"
    assert [change["path"] for change in done.json["changes"]] == ["made"]
    trace = RunStore(engine_mindx.state / "runs").find(done.json["run_id"]).trace_path
    verify(trace)
    told = [(event.kind, event.data["background_id"]) for event in read(trace) if event.kind.startswith("background")]
    assert told == [
        ("background_started", "b1"),
        ("background_sent", "b1"),
        ("background_resized", "b1"),
        ("background_sent", "b1"),
        ("background_sent", "b1"),
        ("background_ended", "b1"),
        ("background_started", "b2"),
        ("background_sent", "b2"),
        ("background_left", "b2"),
    ]


def test_no_escape_sequence_reaches_the_users_terminal(engine_mindx, policy):
    bad = r"printf '\033]0;title\007\033[2Jgot\040it'; read x"
    lines = f"pty_open bash -c \"{bad}\"\npty_expect job1 'got it'\nlogs job1\n"
    with engine_mindx.start("shell", "--policy", policy, stdin=-1) as process:
        stdout, stderr = process.communicate(lines.encode(), timeout=60)
    assert process.returncode == 0, stderr
    assert b"got it" in stdout
    assert not {b"\x1b", b"\x07"} & {bytes([byte]) for byte in stdout + stderr}
    plan = engine_mindx.plan(
        [tool("pty_open", argv=["bash", "-c", bad]), tool("pty_expect", job="job1", text="got it")]
    )
    for flags in ((), ("--json",), ("--verbose",)):
        done = engine_mindx("run", plan, "--policy", policy, *flags)
        assert done.code == 0, done.err
        assert b"\x1b" not in done.stdout + done.stderr
    assert mentions_escape(engine_mindx("run", plan, "--policy", policy, "--json").json)


def mentions_escape(document) -> bool:
    return document["steps"][1]["result"]["output"] == "\x1b]0;title\x07\x1b[2Jgot it"


def test_a_wait_in_vain_fails_the_run_and_leaves_nothing(engine, engine_mindx, policy):
    plan = engine_mindx.plan(
        [tool("pty_open", argv=["bash", "--norc"]), tool("pty_expect", job="job1", text="never", timeout_seconds=0.3)]
    )
    done = engine_mindx("run", plan, "--policy", policy)
    assert done.code == 1
    assert "did not come in time" in done.err + done.out
