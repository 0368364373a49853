"""Background jobs as a user has them: a plan, a policy file and a real container."""

from __future__ import annotations

import pytest

from mindx.trace.read import read, verify
from mindx.trace.run_folder import RunStore
from tests.steps import tool

POLICY = """
version: 1
name: jobs
limits:
  background: 2
commands:
  - allow: [python3, sh, sleep, id, mkdir, chmod, echo, printf, test, tee]
"""
SERVER = "import http.server as s; s.test(s.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"
# The server is up when it answers: until then the client tries again.
CLIENT = """
import sys, time, urllib.request
for _ in range(500):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8000/" + sys.argv[1], timeout=10).read().decode())
        break
    except OSError as error:
        if getattr(error, "code", 0):
            raise
        time.sleep(0.02)
else:
    sys.exit("nobody answers")
"""
# A foreground command sees that the job goes on: the file grows under it.
GROWS = """
import pathlib, sys, time
path = pathlib.Path("ticks")
before = path.stat().st_size if path.exists() else 0
for _ in range(500):
    if path.exists() and path.stat().st_size > before:
        sys.exit(0)
    time.sleep(0.02)
sys.exit("it stands still")
"""


@pytest.fixture
def policy(mindx):
    (mindx.folder / "jobs.yaml").write_text(POLICY)
    return "jobs.yaml"


def test_a_server_in_the_background_and_its_client(engine_mindx, policy):
    plan = engine_mindx.plan(
        [
            tool("write", path="page.txt", content="hello from the server"),
            tool("write", path="client.py", content=CLIENT),
            tool("write", path="grows.py", content=GROWS),
            tool("start", argv=["python3", "-u", "-c", SERVER]),
            tool("start", argv=["sh", "-c", "while :; do echo tick >> ticks; sleep 0.05; done"]),
            tool("run", argv=["python3", "client.py", "page.txt"]),
            tool("run", argv=["python3", "grows.py"]),
            tool("run", argv=["python3", "grows.py"]),
            tool("run", argv=["python3", "client.py", "page.txt"]),
            tool("poll", job="job1"),
            tool("logs", job="job1", tail=50),
            tool("stop", job="job1"),
            tool("poll", job="job1"),
            tool("poll", job="job2"),
            tool("run", argv=["id", "-u"]),
        ]
    )
    done = engine_mindx("run", plan, "--policy", policy, "--json")
    assert done.code == 0, done.err + done.out
    document = done.json
    results = [step["result"] for step in document["steps"]]
    assert [results[3]["job"], results[4]["job"]] == ["job1", "job2"]
    assert results[5]["stdout"] == results[8]["stdout"] == "hello from the server"
    assert (results[9]["state"], results[9]["return_code"]) == ("running", None)
    assert results[10]["stderr"].count('"GET /page.txt HTTP/1.1" 200') == 2
    assert "Serving HTTP" in results[10]["stdout"]
    assert (results[11]["state"], results[11]["exit_cause"]) == ("ended", "cancelled")
    assert results[12] == results[11]
    assert results[13]["state"] == "running"
    assert {"page.txt", "ticks"} <= {change["path"] for change in document["changes"]}
    trace = RunStore(engine_mindx.state / "runs").find(document["run_id"]).trace_path
    verify(trace)
    told = [(event.kind, event.data["background_id"]) for event in read(trace) if event.kind.startswith("background")]
    assert told == [
        ("background_started", "b1"),
        ("background_started", "b2"),
        ("background_ended", "b1"),
        ("background_left", "b2"),
    ]


def test_a_job_dies_with_the_session_and_its_output_is_shown(engine, engine_mindx, policy):
    lines = (
        "start sh -c 'echo up; printf \"\\033[2J\"; while :; do sleep 1; done'\nrun sleep 0.3\nlogs job1\npoll job1\n"
    )
    with engine_mindx.start("shell", "--policy", policy, stdin=-1) as process:
        stdout, stderr = process.communicate(lines.encode(), timeout=60)
        mine = engine.api.containers(all=True, filters={"label": f"mindx.pid={process.pid}"})
    assert process.returncode == 0, stderr
    assert b"up" in stdout
    assert b'"running"' in stdout
    assert b"\x1b" not in stdout + stderr
    assert mine == []


def test_a_job_over_the_number_fails_and_says_what_to_do(engine_mindx, policy):
    plan = engine_mindx.plan([tool("start", argv=["sleep", "1000"]) for _ in range(3)])
    done = engine_mindx("run", plan, "--policy", policy)
    assert done.code == 1
    assert "2 background commands run already; stop one of them." in done.err


def test_what_a_job_closes_is_an_omission_and_no_failed_run(engine_mindx, policy):
    hide = "umask 077; mkdir hidden; echo secret > hidden/file; echo x > open; chmod 644 open; exec sleep 1000"
    wait = "while ! test -e open; do sleep 0.02; done; sleep 0.1"
    plan = engine_mindx.plan([tool("start", argv=["sh", "-c", hide]), tool("run", argv=["sh", "-c", wait])])
    done = engine_mindx("run", plan, "--policy", policy, "--json")
    assert done.code == 0, done.err + done.out
    changes = {change["path"]: change for change in done.json["changes"]}
    assert changes["hidden/file"]["sha256"]
    assert not changes["hidden/file"]["stored"]
    assert changes["hidden/file"]["note"].startswith("not copied out")
    assert changes["open"]["stored"]


def test_under_the_default_policy_it_is_denied_before_it_runs(mindx):
    plan = mindx.plan([tool("start", argv=["sleep", "1"]), tool("poll", job="job1")])
    done = mindx("check", plan)
    assert done.code == 3, done.err
    assert done.err.count("limits.background") == 2
    assert "limits: {background: 2} in a policy allows two" in done.err
    assert "it is denied" in done.out
    assert mindx("check", plan, "--policy", "python-dev").code == 0
