"""Sub-agents in processes of their own: the same results and bounds, and nothing left of them whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import docker
import pytest

from mindx import (
    ActionRisk,
    AgentEventType,
    AgentProcess,
    AgentWorkerSpec,
    ErrorCode,
    InputError,
    RunConfig,
    RunOutcome,
    SessionEnvironment,
    SessionPolicy,
    Status,
)
from mindx.agents.process_wire import result_message
from mindx.core.agent_result import AgentResult
from mindx.core.agent_state import AgentState
from tests.agents.society import Society, ask, delegate

ROOT = Path(__file__).parents[2]
FACTORIES = "tests.agents.worker_factories"


def in_time(story):
    """Run a story; what hangs fails."""
    return asyncio.run(asyncio.wait_for(story, 60))


def run(factory, task="go", **options):
    return in_time(AgentProcess(f"{FACTORIES}:{factory}", **options).run(task, run_id="far"))


def speaking(text):
    """Return the command of a worker that runs this text with its socket open as `s`."""
    head = (
        "import os, socket, struct; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['MINDX_WORKER_SOCKET'])\n"
    )
    return [sys.executable, "-c", head + text]


def wait_until_gone(pids, seconds=20.0):
    """Wait until none of the processes is left; they are told of their end by the system, nobody polls."""
    until = time.monotonic() + seconds
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([handle], [], [], max(until - time.monotonic(), 0))[0], f"{pid} is still there"
        finally:
            os.close(handle)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def named_pipe(path):
    """Make a pipe at a path, into which another process writes as into a file, and return the path."""
    os.mkfifo(path)
    return path


async def written(pipe):
    """Return the pids that come through a named pipe, as soon as the line of them is whole."""
    handle = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # also for writing: nobody waits for the other end
    loop, come = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, come.set)
    text = b""
    try:
        while not text.endswith(b"\n"):
            await come.wait()
            come.clear()
            with contextlib.suppress(BlockingIOError):
                text += os.read(handle, 4096)
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    return [int(word) for word in text.split()]


def test_an_agent_in_another_process_answers_like_any_other(tmp_path):
    """Through the public interface: an agent gives a task to one in another process, and gets its answer."""
    heard = []

    async def story():
        society = Society({"chief": delegate("far")}, event_handler=heard.append)
        far = AgentProcess(f"{FACTORIES}:told")
        environment = SessionEnvironment(workspace_root=tmp_path)
        async with society.orchestrator as orchestrator:
            orchestrator.register(AgentWorkerSpec("far", far, environment=environment))
            chief = orchestrator.worker("chief")
            orchestrator.register(AgentWorkerSpec("top", chief.runtime, environment=environment))
            result = await orchestrator.run_agent("top", "the books")
            (tree,) = orchestrator.execution_tree()
            return result, tree["children"][0]

    result, child = in_time(story())
    found = json.loads(result.final_answer)
    assert found["pid"] != os.getpid()
    assert (found["statuses"], found["task"]) == (["SUCCESS", "SUCCESS"], "the books")
    assert (found["folder"], found["socket"]) == (str(tmp_path), None)
    assert (child["agent"], child["outcome"]) == ("far", "final")
    theirs = [event for event in heard if event.run_id == child["task_id"]]
    assert [event.seq for event in theirs] == list(range(len(theirs)))
    assert theirs[-1].event_type is AgentEventType.RUN_FINISHED


def test_a_worker_may_do_what_both_it_and_its_parent_may():
    """Delegating to another process never widens rights: not by its factory's own configuration either."""

    async def story():
        society = Society(
            {"reader": delegate("peek"), "narrow": delegate("far")},
            {
                "reader": {"config": RunConfig(allow_write=False, heartbeat_s=0.0)},
                "narrow": {"policy": SessionPolicy(allowed_tools=frozenset({"far", "look"}))},
            },
        )
        async with society.orchestrator as orchestrator:
            far = AgentProcess(f"{FACTORIES}:told", config=RunConfig(max_steps=1000))
            orchestrator.register(AgentWorkerSpec("far", far, policy=SessionPolicy(allow_dangerous=True)))
            orchestrator.register(AgentWorkerSpec("peek", far, risk=ActionRisk.READ_ONLY))
            return [
                json.loads((await orchestrator.run_agent(name, "go")).final_answer) for name in ("reader", "narrow")
            ]

    reader, narrow = in_time(story())
    assert reader["statuses"] == ["SUCCESS", "DENIED"]
    assert narrow["statuses"] == ["SUCCESS", "DENIED"]
    assert reader["max_steps"] == 8  # the factory's own bound, though the host would give more


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AgentProcess(f"{FACTORIES}:dies"), "it ended before its result"),
        (lambda: AgentProcess(f"{FACTORIES}:raises"), "it ended before it connected"),
        (lambda: AgentProcess(f"{FACTORIES}:nowhere"), "it ended before it connected"),
        (lambda: AgentProcess(f"{FACTORIES}:too_much"), "the result cannot be sent"),
        (lambda: AgentProcess(command=["/nowhere/at/all"]), "it ended before it connected"),
        (lambda: AgentProcess(command=[sys.executable, "-c", "input()"]), "it ended before it connected"),
        (
            lambda: AgentProcess(command=[sys.executable, "-c", "import time; time.sleep(600)"], start_timeout_s=0.3),
            "it did not connect within 0.3 s",
        ),
        (lambda: AgentProcess(command=speaking("s.recv(1)"), start_timeout_s=0.5), "it did not connect within 0.5 s"),
        (lambda: AgentProcess(command=speaking("s.sendall(b'\\xff' * 8); s.recv(1)")), "no message of the protocol"),
        (
            lambda: AgentProcess(command=speaking("s.sendall(struct.pack('>I', 5) + b'{{{{{'); s.recv(1)")),
            "no message of the protocol",
        ),
        (
            lambda: AgentProcess(
                command=speaking("d = b'[' * 10**5; s.sendall(struct.pack('>I', len(d)) + d); s.recv(1)")
            ),
            "no message of the protocol",
        ),
        (lambda: AgentProcess(command=speaking("s.sendall(b'\\0\\0')")), "it ended before its result"),
    ],
)
def test_a_worker_that_fails_is_an_observation_with_a_code(make, says):
    """Whatever the process does, the one who asked gets one Observation with a code, and goes on."""
    seen = []

    def chief(context):
        if context.step == 1:
            return ask("far")
        seen.extend(context.observations)
        return "went on"

    async def story():
        society = Society({"chief": chief})
        async with society.orchestrator as orchestrator:
            orchestrator.register(AgentWorkerSpec("far", make()))
            return await orchestrator.run_agent("chief", "go")

    assert in_time(story()).final_answer == "went on"
    (observation,) = seen
    assert observation.status is Status.ERROR
    assert observation.error_info.code is ErrorCode.WORKER_FAILED
    assert says in observation.message


def test_the_exit_code_of_a_worker_is_told():
    assert run("dies").error_info.details == {"exit_code": 3}


def test_words_after_the_greeting_that_are_none_end_the_worker():
    """A hostile or broken program cannot pass off another run's result, or anything that is no result."""
    greeting = "import json\ndef say(m):\n    d = json.dumps(m).encode(); s.sendall(struct.pack('>I', len(d)) + d)\n"
    greeting += "say({'type': 'hello', 'version': 1})\ns.recv(10**6)\n"
    for said in ({"type": "result"}, {"type": "event"}, {"type": "failed", "error": 1}, {"type": "what"}):
        command = speaking(f"{greeting}say({said!r})\ns.recv(1)")
        result = in_time(AgentProcess(command=command).run("go"))
        assert result.error_info.code is ErrorCode.WORKER_FAILED, said


SAY = (
    "import json\ndef say(d):\n    d = d.encode(); s.sendall(struct.pack('>I', len(d)) + d)\n"
    'say(\'{"type": "hello", "version": 1}\')\ns.recv(10**6)\n'
)
EVENT = {
    "type": "event",
    "event_type": "approval_requested",
    "run_id": "far",
    "seq": 1,
    "time": "",
    "step": 1,
    "payload": {},
    "cause_id": "",
    "session_id": "",
}
DEEP: list = []
for _ in range(900):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        ("result", {"steps": math.inf}),
        ("result", {"steps": -1}),
        ("result", {"usage": {"total_tokens": -1_000_000}}),
        ("result", {"usage": {"total_tokens": math.nan}}),
        ("result", {"usage": []}),
        ("result", {"duration_s": math.inf}),
        ("result", {"duration_s": -1.0}),
        ("result", {"run_id": "near"}),
        ("result", {"task_state": {**dict.fromkeys(("objective", "progress_summary"), ""), "constraints": DEEP}}),
        ("event", {"run_id": "near"}),
        ("event", {"seq": math.inf}),
        ("event", {"step": "1"}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_odd_figures_and_the_names_of_others_end_the_worker(message, changed):
    """Figures count against budgets and stand in records: none below zero, none without end, none of another run."""
    whole = result_message(AgentResult("far", RunOutcome.ERROR, AgentState.ERROR, "done"))
    said = {**(whole if message == "result" else EVENT), **changed}
    command = speaking(f"{SAY}say({json.dumps(said)!r})\ns.recv(1)")
    result = in_time(AgentProcess(command=command).run("go", run_id="far"))
    assert result.error_info.code is ErrorCode.WORKER_FAILED
    assert "no message of the protocol" in result.error


def test_a_worker_that_claims_to_wait_for_a_person_gets_no_time_for_it():
    """Where nobody can be asked, the clock goes on: the claim would else be a way around every limit."""
    config = RunConfig(total_timeout_s=0.5)
    command = speaking(f"{SAY}say({json.dumps(EVENT)!r})\ns.recv(1)")
    result = in_time(AgentProcess(command=command, config=config, grace_s=0.5).run("go", run_id="far"))
    assert "it did not end within 0.5 s" in result.error


def test_a_run_without_a_limit_is_not_ended_by_the_limit_of_its_start():
    error = {"code": "cancelled", "message": "mine", "phase": "runtime", "recoverable": False, "details": {}}
    text = "import json, time\ndef say(m):\n    d = json.dumps(m).encode(); s.sendall(struct.pack('>I', len(d)) + d)\n"
    text += "say({'type': 'hello', 'version': 1})\ntime.sleep(3.2)\n"
    said = {"type": "failed", "error": error}
    command = speaking(f"{text}say({said!r})\ns.recv(1)")
    config = RunConfig(total_timeout_s=math.inf)
    result = in_time(AgentProcess(command=command, config=config, start_timeout_s=3.0).run("go"))
    assert result.error == "mine"


def test_cancelling_kills_all_that_the_worker_started(tmp_path):
    """The worker holds its loop and does not hear; its stray child has left its session. Both are gone afterwards."""
    pids = named_pipe(tmp_path / "pids")

    async def story():
        far = AgentProcess(f"{FACTORIES}:strays", grace_s=0.2)
        running = asyncio.create_task(far.run(str(pids), run_id="far"))
        found = await written(pids)
        assert far.cancel("far")
        return await running, found

    result, found = in_time(story())
    assert (result.outcome, len(found)) == (RunOutcome.CANCELLED, 2)
    wait_until_gone(found, 0)


def test_a_cancelled_caller_leaves_nothing_behind(tmp_path):
    pids = named_pipe(tmp_path / "pids")

    async def story():
        far = AgentProcess(f"{FACTORIES}:strays", grace_s=0.2)
        running = asyncio.create_task(far.run(str(pids)))
        found = await written(pids)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return found

    wait_until_gone(in_time(story()), 0)


def test_the_time_of_a_worker_is_bounded_though_it_does_not_look_at_the_clock(tmp_path):
    config = RunConfig(total_timeout_s=0.5, heartbeat_s=0.0)
    result = run("strays", str(tmp_path / "pids"), config=config, grace_s=0.5)
    assert result.error_info.code is ErrorCode.WORKER_FAILED
    assert "it did not end within 0.5 s" in result.error


def test_a_killed_host_takes_its_workers_with_it(tmp_path):
    """SIGKILL leaves no time for anything: the keeper sees its standard input closed."""
    pids = named_pipe(tmp_path / "pids")
    temporary = tmp_path / "t"
    temporary.mkdir()
    environ = os.environ | {"TMPDIR": str(temporary), "XDG_RUNTIME_DIR": ""}
    host = subprocess.Popen([sys.executable, "-m", FACTORIES, str(pids)], cwd=ROOT, env=environ)
    try:
        found = asyncio.run(asyncio.wait_for(written(pids), 60))
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    wait_until_gone(found)
    assert list(temporary.iterdir()) == []


def test_a_killed_keeper_takes_the_worker_with_it(tmp_path):
    """Whoever kills the keeper (for memory, say) ends the task, and leaves no worker that nobody watches."""

    pids = named_pipe(tmp_path / "pids")

    async def story():
        running = asyncio.create_task(AgentProcess(f"{FACTORIES}:strays").run(str(pids), run_id="far"))
        worker, stray = await written(pids)
        os.kill(parent_of(worker), signal.SIGKILL)
        result = await running
        return result, worker, stray

    result, worker, stray = in_time(story())
    try:
        assert result.error_info.code is ErrorCode.WORKER_FAILED
        wait_until_gone([worker], 5)
    finally:
        os.kill(stray, signal.SIGKILL)  # it had left its session, and the keeper that would have found it is dead


@pytest.mark.usefixtures("derived_image")
def test_the_container_of_a_killed_worker_ends_with_it(engine, tmp_path):
    """The boundary of what an agent does is the container, and its worker cannot leave one behind."""
    place = named_pipe(tmp_path / "pid")

    def containers(pid):
        return engine.containers.list(filters={"label": f"mindx.pid={pid}"})

    async def story():
        far = AgentProcess(f"{FACTORIES}:contained", grace_s=0.2)
        running = asyncio.create_task(far.run(str(place), run_id="far"))
        (pid,) = await written(place)
        (container,) = await asyncio.to_thread(containers, pid)
        far.cancel("far")
        await running
        return container

    container = in_time(story())
    with contextlib.suppress(docker.errors.NotFound):
        container.wait(condition="removed", timeout=30)


def test_the_socket_is_its_users_alone_and_is_gone_afterwards():
    folder, mode = json.loads(run("place").final_answer)
    assert mode == 0o700
    assert not Path(folder).exists()


def test_a_file_can_hold_the_factory():
    file = ROOT / "tests" / "agents" / "worker_factories.py"
    assert in_time(AgentProcess(f"{file}:told").run("go")).ok


def test_what_cannot_be_a_worker_is_refused():
    for arguments in ({}, {"factory": "a:b", "command": ["c"]}, {"factory": "nothing"}, {"factory": ":x"}):
        with pytest.raises(InputError) as caught:
            AgentProcess(**arguments)
        assert caught.value.code == "worker_invalid"

    with pytest.raises(InputError, match="at most 16,777,216"):
        run("told", "x" * (17 * 1024 * 1024))

    async def story():
        far = AgentProcess(f"{FACTORIES}:told")
        await far.close()
        await far.run("go")

    with pytest.raises(InputError, match="closed"):
        in_time(story())
