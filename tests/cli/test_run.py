"""`run`, `check`, `runs`, `trace` and `gc` with a real engine."""

import contextlib
import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time

import docker
import docker.errors
import pytest

from mindx.trace.read import read, verify
from mindx.trace.run_folder import RunStore
from tests.steps import tool


def sessions(engine: docker.DockerClient, process: subprocess.Popen[bytes], state=None):
    """Return the containers that a process owns, in any state or in one."""
    found = engine.api.containers(all=True, filters={"label": f"mindx.pid={process.pid}"})
    return [container for container in found if state in (None, container["State"])]


def wait_for(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)
    return found


def trace_of(mindx):
    """Return the path of the newest run's trace, or None: the folder is there a moment before the trace."""
    newest = next(iter(RunStore(mindx.state / "runs").runs()), None)
    return newest.trace_path if newest is not None and newest.trace_path.exists() else None


def test_a_plan_in_a_container_and_its_changes(engine_mindx):
    plan = engine_mindx.plan(
        [
            tool("mkdir", path="app"),
            tool("write", path="app/hello.py", content="import os\nprint('uid', os.getuid() != 0)\n"),
            tool("run", argv=["python3", "app/hello.py"]),
        ]
    )
    done = engine_mindx("run", plan)
    assert done.code == 0, done.err
    assert "uid True" in done.err
    assert "[3/3] run python3 app/hello.py  SUCCESS" in done.err
    assert "+ app/\n" in done.out
    assert "+ app/hello.py" in done.out
    assert "completed (3 SUCCESS)" in done.out
    assert b"\x1b" not in done.stdout + done.stderr
    assert not (engine_mindx.folder / "app").exists()


def test_json_is_one_document_from_standard_input(engine_mindx):
    plan = json.dumps([tool("run", argv=["printf", "\\377\\033[2J"]), tool("run", argv=["false"]), tool("ls")])
    done = engine_mindx("run", "-", "--json", stdin=plan.encode())
    assert done.code == 1
    document = done.json
    assert (document["schema_version"], document["outcome"]) == (1, "failed")
    assert [step["status"] for step in document["steps"]] == ["SUCCESS", "FAILURE", "SKIPPED"]
    step = document["steps"][0]
    assert (step["stdout"], step["stdout_encoding"], step["stdout_bytes"]) == ("\\xff\x1b[2J", "escaped", 5)
    assert b"\x1b" not in done.stdout
    found = verify(RunStore(engine_mindx.state / "runs").find(document["run_id"]).trace_path)
    assert found.head == document["trace_head"]["sha256"]


def test_apply_writes_only_what_completed(engine_mindx):
    project = engine_mindx.folder / "project"
    project.mkdir()
    (project / "a.txt").write_text("old")
    good = engine_mindx.plan([tool("write", path="a.txt", content="new"), tool("write", path="b.txt", content="b")])
    bad = engine_mindx.plan([tool("write", path="a.txt", content="bad"), tool("run", argv=["false"])], "bad.json")
    done = engine_mindx("run", bad, "--workspace", "project", "--apply")
    assert done.code == 1
    assert "not applied" in done.err
    assert (project / "a.txt").read_text() == "old"
    done = engine_mindx("run", good, "--workspace", "project", "--apply")
    assert done.code == 0, done.err
    assert (project / "a.txt").read_text() == "new"
    assert (project / "b.txt").read_text() == "b"


def test_past_runs_are_listed_shown_and_verified(engine_mindx):
    plan = engine_mindx.plan([tool("mkdir", path="x")])
    run_id = engine_mindx("run", plan, "--json").json["run_id"]
    invalid = engine_mindx("run", "-", "--json", stdin=b"{").json["run_id"]
    listed = engine_mindx("runs", "list", "--json").json["runs"]
    assert [(row["run_id"], row["outcome"], row["steps"], row["changes"]) for row in listed] == [
        (invalid, "invalid", 0, 0),
        (run_id, "completed", 1, 1),
    ]
    table = engine_mindx("runs", "list")
    assert run_id in table.out
    assert "completed" in table.out
    assert engine_mindx("runs", "show", run_id[:-1], "--json").json["outcome"] == "completed"
    assert "  + x/\n" in engine_mindx("runs", "show", run_id).out
    assert engine_mindx("trace", "verify", run_id).code == 0
    assert engine_mindx("trace", "show", run_id, "--json").json["events"][0]["kind"] == "run_started"
    trace = RunStore(engine_mindx.state / "runs").find(run_id).trace_path
    trace.write_bytes(trace.read_bytes().replace(b"make_dir", b"make_dog"))
    forged = engine_mindx("trace", "verify", run_id, "--json")
    assert (forged.code, forged.json["ok"]) == (1, False)


def test_a_spoilt_result_cannot_hide_that_the_trace_was_cut(engine_mindx):
    assert engine_mindx("run", engine_mindx.plan([tool("ls")])).code == 0
    folder = RunStore(engine_mindx.state / "runs").find("last")
    lines = folder.trace_path.read_bytes().splitlines(keepends=True)
    folder.trace_path.write_bytes(b"".join(lines[:-2]))
    assert engine_mindx("trace", "verify", "last").code == 1
    (folder.path / "result.json").write_text("{}")
    spoilt = engine_mindx("trace", "verify", "last")
    assert spoilt.code == 1
    assert "nothing says where the trace ends" in spoilt.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_cleanly(engine_mindx, engine, number):
    plan = engine_mindx.plan([tool("write", path="a", content="a"), tool("run", argv=["sleep", "60"]), tool("ls")])
    with engine_mindx.start("run", plan, "--json") as process:
        wait_for(lambda: _sleeping(engine_mindx))
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    document = json.loads(stdout)
    assert document["outcome"] == "cancelled"
    assert [step["status"] for step in document["steps"]] == ["SUCCESS", "CANCELLED", "SKIPPED"]
    assert [change["path"] for change in document["changes"]] == ["a"]
    assert sessions(engine, process) == []
    assert b"Traceback" not in stderr
    assert engine_mindx("runs", "list", "--json").json["runs"][0]["outcome"] == "cancelled"


def _sleeping(mindx):
    path = trace_of(mindx)
    return path is not None and any(
        event.kind == "action_started" and event.data["params"]["command"] == "run" for event in read(path)
    )


def test_a_second_signal_ends_at_once_and_the_container_too(engine_mindx, engine):
    plan = engine_mindx.plan([tool("run", argv=["sleep", "60"])])
    with engine_mindx.start("run", plan) as process:
        wait_for(lambda: _sleeping(engine_mindx))
        process.send_signal(signal.SIGSTOP)  # both signals are there before it can act on the first
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=30)
    assert process.returncode == 130
    wait_for(lambda: not sessions(engine, process), 10)


def test_sigkill_leaves_nothing_and_the_run_is_interrupted(engine_mindx, engine):
    plan = engine_mindx.plan([tool("run", argv=["sleep", "60"])])
    with engine_mindx.start("run", plan) as process:
        wait_for(lambda: _sleeping(engine_mindx))
        assert sessions(engine, process)
        assert engine_mindx("runs", "list", "--json").json["runs"][0]["outcome"] == "running"
        process.kill()
        process.communicate(timeout=30)
    wait_for(lambda: not sessions(engine, process), 5)
    assert engine_mindx("runs", "list", "--json").json["runs"][0]["outcome"] == "interrupted"
    assert verify(trace_of(engine_mindx)).ok
    assert engine_mindx("runs", "show", "last").code == 2


def test_gc_removes_what_a_dead_mindx_left(engine_mindx, engine, derived_image):
    with engine_mindx.start("exec", "--", "sleep", "60") as process:
        container = wait_for(lambda: sessions(engine, process, "running"))[0]
        labels, name = container["Labels"], container["Names"][0].removeprefix("/")
        entrypoint = engine.api.inspect_container(container["Id"])["Config"]["Entrypoint"]
        process.kill()
        process.communicate(timeout=30)
    wait_for(lambda: not sessions(engine, process), 20)  # a guest that was never greeted waits 10 s
    # What a mindx leaves that is killed between create and start: the same container, never started.
    same = {"name": name, "labels": labels, "entrypoint": entrypoint, "network_mode": "none"}
    left = engine.containers.create(derived_image.image_id, **same)
    foreign = engine.containers.create(derived_image.image_id, labels={"mindx.session": "spoofed"}, network_mode="none")
    try:

        def present():
            return [one["Id"] for one in engine.api.containers(all=True)]

        # A session that starts beside this test sweeps too, and may have been first.
        dry = engine_mindx("gc", "--dry-run", "--json").json
        assert left.id in [found["container_id"] for found in dry["found"]] or left.id not in present()
        assert dry["removed"] == []
        assert engine_mindx("gc", "--json").code == 0
        assert left.id not in present()
        assert foreign.id in present()
    finally:
        foreign.remove(force=True)
        with contextlib.suppress(docker.errors.NotFound):
            left.remove(force=True)


def read_terminal(handle, until, seconds=40.0):
    """Read a pseudo-terminal until the bytes are there, or its end (until None)."""
    seen = b""
    deadline = time.monotonic() + seconds
    while until is None or until not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([handle], [], [], 0.2)[0]:
            try:
                piece = os.read(handle, 65536)
            except OSError:  # the other end was closed
                piece = b""
            if not piece:
                return seen
            seen += piece
    return seen


def test_at_a_terminal_no_sequence_of_a_program_is_obeyed(engine_mindx):
    evil = "\x1b]52;c;aGk=\x07\x1b[2Jafter"
    plan = engine_mindx.plan([tool("run", argv=["printf", "%s", evil])])
    master, slave = pty.openpty()
    process = engine_mindx.start("run", plan, stdin=slave, stdout=slave, stderr=slave, env={"NO_COLOR": ""})
    os.close(slave)
    seen = read_terminal(master, None)
    assert process.wait(30) == 0
    os.close(master)
    assert b"\x1b]52" not in seen
    assert b"\x1b[2J" not in seen
    assert b"\\x1b]52;c;aGk=" in seen
    assert b"\x1b[32mSUCCESS\x1b[0m" in seen
    assert b"completed" in seen


def test_in_ci_no_line_is_a_command(engine_mindx):
    plan = engine_mindx.plan([tool("run", argv=["printf", "::set-output name=x::y\\n##vso[task.x]\\n"])])
    done = engine_mindx("run", plan, env={"GITHUB_ACTIONS": "true"})
    lines = [line.strip() for line in (done.out + done.err).splitlines()]
    assert "|::set-output name=x::y" in lines
    assert "|##vso[task.x]" in lines
    assert not any(line.startswith(("::", "##")) for line in lines)


@pytest.mark.parametrize("limit", [200, 900, 4000, 9000])
def test_a_full_disk_is_one_message_and_leaves_nothing_torn(engine_mindx, engine, limit):
    plan = engine_mindx.plan([tool("run", argv=["printf", "x" * 300])] * 5)
    earlier = engine_mindx("run", plan, "--json").json["run_id"]
    # The largest file that a process may write stands for the disk: a write ends in its middle.
    full = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}
    with engine_mindx.start("run", plan, "--json", **full) as process:
        stdout, stderr = process.communicate(timeout=100)
    document = json.loads(stdout)
    assert (process.returncode, document["outcome"]) == (4, "error")
    assert b"MINDX_STATE_DIR" in stderr
    assert b"Traceback" not in stderr
    assert sessions(engine, process) == []
    trace = verify(trace_of(engine_mindx))
    assert (trace.ok, trace.cut) == (True, False)
    assert engine_mindx("trace", "verify", earlier).code == 0
    assert engine_mindx("runs", "show", earlier, "--json").json["outcome"] == "completed"


def test_quiet_and_verbose(engine_mindx):
    lines = "\n".join(f"line {number}" for number in range(50))
    argv = ["printf", f"{lines}\n"]
    step = {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "argv": argv}}
    plan = engine_mindx.plan([step])
    quiet = engine_mindx("run", plan, "--quiet")
    assert (quiet.code, quiet.stderr) == (0, b"")
    assert "completed" in quiet.out
    usual = engine_mindx("run", plan)
    assert "[30 lines more]" in usual.err
    verbose = engine_mindx("run", plan, "--verbose")
    assert "line 25" in verbose.err
    assert "lines more" not in verbose.err
    assert engine_mindx("run", plan, "-q", "-v").code == 2


def test_a_gone_reader_of_standard_error_does_not_stop_a_run(engine_mindx):
    plan = engine_mindx.plan([tool("run", argv=["echo", str(number)]) for number in range(3)])
    reading, writing = os.pipe()
    os.close(reading)
    done = engine_mindx("run", plan, stderr=writing)
    os.close(writing)
    assert done.code == 0
    assert "completed (3 SUCCESS)" in done.out


def test_a_review_without_a_terminal_says_how_to_do_it_later(engine_mindx):
    plan = engine_mindx.plan([tool("write", path="a.txt", content="x")])
    done = engine_mindx("run", plan, "--workspace", ".", "--review")
    assert done.code == 0, done.err
    assert "--review needs a terminal" in done.err
    (folder,) = RunStore(engine_mindx.state / "runs").runs()
    assert f"mindx changes apply {folder.run_id}" in done.err
    assert not (engine_mindx.folder / "a.txt").exists()


def test_an_engine_that_docker_host_names_is_not_ours_to_set_up(mindx):
    plan = mindx.plan([tool("ls", path=".")])
    done = mindx("run", plan, env={"DOCKER_HOST": "unix:///nonexistent"})
    assert done.code == 4
    assert "DOCKER_HOST names unix:///nonexistent; unset it or start that engine" in done.err
    assert "mindx setup" not in done.err
    assert "Changes" not in done.out


@pytest.mark.parametrize(
    ("arguments", "code"), [(["exec", "--workspace", ".", "--", "ls"], 125), (["check", "-", "--workspace", "."], 2)]
)
def test_a_deleted_current_folder_is_the_cause_that_is_named(mindx, arguments, code):
    gone = mindx.folder / "gone"
    gone.mkdir()
    words = [sys.executable, "-m", "mindx.cli.main", *arguments]
    script = 'cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *words], cwd=mindx.folder, env=mindx.env, input=b"[]", capture_output=True
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == b"mindx: the current folder has been deleted; go to another one (cd) and try again\n"


def test_check_lists_the_steps_whose_form_is_wrong_too(mindx):
    plan = mindx.plan([tool("ls", path="."), {"type": "NO_SUCH", "params": {}}, {"type": "THINK"}, 7, tool("pwdd")])
    done = mindx("check", plan)
    assert done.code == 2
    lines = [line for line in done.out.splitlines() if line.startswith("[")]
    assert [line.split("]")[0] for line in lines] == ["[1/5", "[2/5", "[3/5", "[4/5", "[5/5"]
    assert "[1/5] ls .  ok" in lines[0]
    assert all("invalid: " in line for line in lines[1:])
    steps = mindx("check", plan, "--json").json["steps"]
    assert [(step["index"], step["verdict"]) for step in steps] == [(0, "ok"), *((at, "invalid") for at in range(1, 5))]


def test_run_counts_the_steps_whose_form_is_wrong_too(mindx):
    plan = mindx.plan([tool("ls", path="."), {"type": "NO_SUCH", "params": {}}, 7])
    done = mindx("run", plan)
    assert done.code == 2
    assert "invalid (1 SKIPPED, 2 ERROR)" in done.out
    assert mindx("runs", "list", "--json").json["runs"][0]["steps"] == 3
    steps = mindx("run", plan, "--json").json["steps"]
    assert [(step["index"], step["type"], step["status"]) for step in steps] == [
        (0, "EXECUTE_TOOL", "SKIPPED"),
        (1, "NO_SUCH", "ERROR"),
        (2, "?", "ERROR"),
    ]
    assert mindx("policy", "suggest", mindx("runs", "list", "--json").json["runs"][0]["run_id"]).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "plan.json", "--image", "pyton"),
        ("check", "plan.json", "--policy", "mine.yaml"),
        ("agent", "--script", "turns.jsonl", "--policy", "mine.yaml", "a goal"),
        ("image", "build", "pyton"),
        ("image", "show", "pyton"),
        ("image", "export", "pyton", "out.tar"),
        ("image", "remove", "pyton"),
        ("setup", "--image", "pyton"),
    ],
    ids=" ".join,
)
def test_a_misspelt_image_is_bad_input_wherever_it_is_named(engine_mindx, arguments):
    """Nothing is broken: the name is the user's, and the one that was meant is told. No run is left behind."""
    engine_mindx.plan([tool("ls")])
    (engine_mindx.folder / "mine.yaml").write_text("version: 1\nimage: pyton\n")
    (engine_mindx.folder / "turns.jsonl").write_text('"done"\n')
    done = engine_mindx(*arguments)
    assert done.code == 2, done.err
    assert "did you mean `python`?" in done.err
    assert not (engine_mindx.state / "runs").exists()


def test_a_run_that_ended_at_its_input_is_not_the_last(engine_mindx):
    """A mistyped folder, or plan, must not hide the run that the user wants to look at."""
    good = engine_mindx.plan([tool("mkdir", path="x")])
    run_id = engine_mindx("run", good, "--json").json["run_id"]
    assert engine_mindx("run", good, "--workspace", "nowhere").code == 2
    refused = engine_mindx("run", "-", "--json", stdin=b"{").json["run_id"]
    for arguments in (("runs", "show", "last"), ("trace", "verify", "last"), ("runs", "output", "last", "1")):
        done = engine_mindx(*arguments)
        assert done.code == 0, done.err
        assert f"the newest run {refused} was refused for what it was given; this is {run_id}\n" in done.err
    changes = engine_mindx("changes", "show", "last", "--json")
    assert changes.json["run_id"] == run_id
    assert f"the newest run {refused} has no changes" in changes.err
    assert engine_mindx("runs", "show", refused).code == 0


def test_check_takes_no_step_for_sound_beyond_the_faults_that_are_listed(mindx):
    steps = mindx("check", mindx.plan([{"type": "NO_SUCH"}] * 500), "--json").json["steps"]
    assert len(steps) == 500
    assert {step["verdict"] for step in steps} == {"invalid"}


def test_a_mistyped_workspace_is_told_before_the_summary(mindx):
    done = mindx("run", mindx.plan([tool("ls", path=".")]), "--workspace", "nowhere", stderr=subprocess.STDOUT)
    assert done.code == 2
    first, second = done.out.splitlines()
    assert first == "mindx: nowhere does not exist; name an existing folder"
    assert second.startswith("Run ")


def test_a_past_run_shows_the_command_lines(engine_mindx):
    engine_mindx("run", engine_mindx.plan([tool("run", argv=["echo", "hi"]), tool("run", argv=["false", "x"])]))
    shown = engine_mindx("runs", "show", "last").out
    assert "[1] run echo hi  SUCCESS" in shown
    assert "[2] run false x  FAILURE" in shown
