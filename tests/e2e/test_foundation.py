"""What the foundation promises, line by line, with a real engine."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

import mindx as package
from mindx.trace.read import read, verify
from mindx.trace.run_folder import RunStore
from tests.steps import tool

ROOT = Path(__file__).resolve().parents[2]
PLANS = ROOT / "tests" / "data"
UNREACHABLE = {"DOCKER_HOST": "tcp://127.0.0.1:1"}


def owned(engine, process):
    return engine.api.containers(all=True, filters={"label": f"mindx.pid={process.pid}"})


def until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


def test_the_seeds_first_plan_completes_and_changes_one_directory(mindx):
    done = mindx("run", str(PLANS / "seed_mkdir_cd.json"), "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["outcome"]) == (0, "completed")
    assert [(c["kind"], c["entry"], c["path"]) for c in document["changes"]] == [("added", "directory", "my_web_app")]
    assert document["policy"]["name"] == "default"
    assert Path(document["trace"]).is_file()


def test_check_lists_the_ten_steps_of_the_api_client_and_what_is_denied(mindx):
    plan = str(PLANS / "seed_api_client.json")
    document = mindx.document("check", plan, "--json", env=UNREACHABLE)
    assert len(document["steps"]) == 10
    denied = [step for step in document["steps"] if step["verdict"] == "denied"]
    assert [step["index"] for step in denied] == [6]
    assert "pip" in denied[0]["reason"]
    shown = mindx("check", plan, env=UNREACHABLE)
    assert shown.returncode == 3
    assert b"[10/10]" in shown.stdout
    assert b"pip install httpx  denied" in shown.stdout


def test_a_hostile_plan_ends_before_any_container_and_every_fault_is_named(mindx):
    done = mindx("run", str(PLANS / "hostile_mixed.json"), "--json", env=UNREACHABLE)
    document = json.loads(done.stdout)
    assert (done.returncode, document["outcome"]) == (2, "invalid")
    assert {fault["path"].split(".")[0] for fault in document["faults"]} == {f"$[{n}]" for n in range(1, 8)}
    assert all(fault["line"] and fault["message"] for fault in document["faults"])


def test_exec_passes_the_programs_code_and_is_not_root(mindx):
    assert mindx("exec", "--", "python3", "-c", "raise SystemExit(7)").returncode == 7
    assert int(mindx("exec", "--", "id", "-u").stdout) != 0


def long_plan(count: int):
    """Return a plan of `count` steps that write, run and check files."""
    steps = [tool("mkdir", path="work"), tool("cd", path="work")]
    number = 0
    while len(steps) < count:
        number += 1
        steps += [
            tool("write", path=f"f{number}.txt", content=f"{number}\n"),
            tool(
                "run", argv=["python3", "-c", f"assert int(open('f{number}.txt').read()) == {number}; print({number})"]
            ),
            tool("read", path=f"f{number}.txt"),
        ]
    return steps[:count]


def test_a_plan_of_200_steps_completes(mindx, tmp_path):
    plan = tmp_path / "long.json"
    plan.write_text(json.dumps(long_plan(200)))
    done = mindx("run", str(plan), "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["outcome"], len(document["steps"])) == (0, "completed", 200)
    head = document["trace_head"]
    assert verify(Path(document["trace"]), events=head["events"], head=head["sha256"]).ok


def test_sigkill_in_the_middle_leaves_nothing(mindx, engine, tmp_path):
    plan = tmp_path / "long.json"
    plan.write_text(json.dumps(long_plan(200)))
    volumes = {volume["Name"] for volume in engine.api.volumes()["Volumes"] or ()}
    with mindx.start("run", str(plan)) as process:

        def in_the_middle():
            trace = next((folder.trace_path for folder in RunStore(mindx.state / "runs").runs()), None)
            return trace is not None and sum(event.kind == "observation" for event in read(trace)) > 50

        until(in_the_middle, 60)
        assert owned(engine, process)
        process.kill()
        process.communicate(timeout=30)
    until(lambda: not owned(engine, process), 5)
    left = {volume["Name"]: volume for volume in engine.api.volumes()["Volumes"] or () if volume["Name"] not in volumes}
    assert not [name for name, volume in left.items() if "mindx" in json.dumps(volume)]
    folder = RunStore(mindx.state / "runs").find("last")
    assert verify(folder.trace_path).ok
    assert folder.state() == "interrupted"


def test_a_real_program_with_a_workspace_and_a_virtual_environment(mindx, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "data.csv").write_text("a,b\n1,2\n")
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            [
                tool("create_venv", venv_name=".venv"),
                tool("activate_venv", venv_name=".venv"),
                tool("run", argv=["python", "-c", "import sys; print(sys.prefix)"]),
                tool(
                    "write",
                    path="sum.py",
                    content="import csv\nprint(sum(map(int, list(csv.reader(open('data.csv')))[1])))\n",
                ),
                tool("run", cmdline="python sum.py"),
                tool("run", argv=["git", "init", "-q", "repo"]),
            ]
        )
    )
    document = mindx.document("run", str(plan), "--workspace", str(project), "--json")
    assert document["outcome"] == "completed", document
    assert document["steps"][2]["stdout"] == "/workspace/.venv\n"
    assert document["steps"][4]["stdout"] == "3\n"
    changed = {change["path"]: change for change in document["changes"]}
    assert "virtual environment" in changed[".venv"]["note"]
    assert not any(path.startswith(".venv/") for path in changed)
    assert changed["sum.py"]["stored"]
    assert sorted(path.name for path in project.iterdir()) == ["data.csv"]


def test_the_python_session(derived_image, tmp_path):
    (tmp_path / "in.txt").write_text("from the host")

    async def main():
        async with package.Session(policy="default", workspace=tmp_path) as s:
            done = await s.run(["python3", "-c", "print(open('in.txt').read()); raise SystemExit(3)"])
            assert (done.exit_code, done.exit_cause.value, done.stdout) == (3, "exit", b"from the host\n")
            assert done.argv[0] == "python3"
            assert not done.truncated
            assert done.duration_s > 0
            late = await s.run(["sleep", "30"], timeout_s=0.3)
            assert late.exit_cause is package.ExitCause.TIMEOUT
            await s.write("out.bin", bytes(range(256)))
            assert await s.read("out.bin") == bytes(range(256))
            assert [(change.kind, change.path) for change in await s.changes()] == [("added", "out.bin")]
            with pytest.raises(package.DeniedError):
                await s.run(["curl", "http://192.0.2.1"])
            task = asyncio.ensure_future(s.run(["sleep", "30"]))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await s.run(["true"])).ok  # a cancelled command does not end the session

    asyncio.run(main())


def test_a_sandbox_that_dies_is_an_exception_and_an_error(mindx, engine, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([tool("run", argv=["true"]), tool("run", argv=["sleep", "60"]), tool("ls")]))
    with mindx.start("run", str(plan), "--json") as process:
        until(lambda: any(one["State"] == "running" for one in owned(engine, process)), 60)
        store = RunStore(mindx.state / "runs")

        def sleeping():
            events = [event for folder in store.runs() for event in read(folder.trace_path)]
            return sum(event.kind == "action_started" for event in events) == 2

        until(sleeping, 60)
        engine.api.kill(owned(engine, process)[0]["Id"])
        stdout, stderr = process.communicate(timeout=60)
    document = json.loads(stdout)
    assert (process.returncode, document["outcome"]) == (4, "error"), stderr
    assert [step["status"] for step in document["steps"]] == ["SUCCESS", "ERROR", "SKIPPED"]
    assert document["error"]["code"]
    assert b"Traceback" not in stderr
