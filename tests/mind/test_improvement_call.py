"""The self-improvement agent as a process: believed only when all that it says agrees, gone when its call ends."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import docker
import docker.errors
import pytest

from mindx.agents.improvement import ImplementationStatus, ImprovementResult, call_improvement
from mindx.agents.improvement.call import COMMAND
from mindx.agents.improvement.command import parser, request_of
from mindx.errors import InputError
from mindx.trace.read import verify
from tests.mind.improvement_support import CODE, SPEC, program, tool_request, turns, write_script
from tests.providers.conftest import Remote, endpoint_address, remote  # noqa: F401 - fixtures

_Status = ImplementationStatus
# An agent that answers: `say` gives its answer, `code` its exit code.
ANSWERS = """
import json, sys
options = dict(item[2:].split("=", 1) for item in sys.argv if item.startswith("--") and "=" in item)
request = json.load(open(options["context-file"]))
answer = {answer}
{before}
line = json.dumps(answer)
open(options["result-file"], "w").write({kept})
sys.stderr.write("at work\\n")
print({printed})
sys.exit({code})
"""


def good(**changed: object) -> dict[str, object]:
    attempt = {
        "cycle": 1,
        "target_path": "tool.py",
        "implementation_status": "SUCCESS_EVALUATED",
        "new_content": CODE,
        "sha256": hashlib.sha256(CODE.encode()).hexdigest(),
        **changed,
    }
    data = {"operation_type": "develop_tool", "final_status": "SUCCESS_EVALUATED", "cycle_results": [attempt]}
    return {"status": "SUCCESS", "message": "done", "data": data}


def agent(
    answer: object = None,
    *,
    kept: str = "line",
    printed: str = "line",
    code: int = 0,
    before: str = "",
    operation: str = "",
) -> tuple[str, ...]:
    shown = good() if answer is None else answer
    before += f"\nanswer['data']['operation_type'] = {operation!r}" if operation else ""
    return program(ANSWERS.format(answer=repr(shown), kept=kept, printed=printed, code=code, before=before))


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def call(tmp_path: Path, command: tuple[str, ...], timeout_s: float = 30.0) -> ImprovementResult:
    return asyncio.run(call_improvement(tool_request(), work_dir=tmp_path, timeout_s=timeout_s, command=command))


def test_the_real_agent_builds_a_tool_in_a_container(tmp_path: Path, base_image: object):
    """The whole way: a process, a context file that is gone afterwards, a container, an answer that agrees."""
    script = write_script(tmp_path / "script.jsonl", turns())
    work = tmp_path / "improvement"
    result = asyncio.run(call_improvement(tool_request(script), work_dir=work, timeout_s=60))
    assert result.ok, result.message
    assert result.data.final_status is _Status.SUCCESS_EVALUATED
    folder = work / "int_1"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    kept = [".lock", "agent.log", "changes", "result.json", "trace.jsonl"]
    assert sorted(entry.name for entry in folder.iterdir()) == kept
    told = verify(folder / "trace.jsonl", events=result.data.trace_events, head=result.data.trace_sha256)
    assert told.ok, told.problem
    assert "Cycle 1 of 1" in (folder / "agent.log").read_text()


def test_the_agents_model_is_the_endpoint_of_the_environment(
    tmp_path: Path,
    base_image: object,
    remote: Remote,  # noqa: F811
):
    """Real HTTP: key, address and model by MINDX_*, and neither key nor address in what the agent leaves."""
    remote.script(*({"text": text} for text in turns()))
    param = remote.param("script")
    variables = {
        **os.environ,
        "MINDX_API_KEY": param.api_key.get_secret_value(),
        "MINDX_BASE_URL": param.base_url,
        "MINDX_MODELS": "served",
    }
    request = tool_request(llm_model="coder-1")
    result = asyncio.run(call_improvement(request, work_dir=tmp_path, timeout_s=60, environ=variables))
    assert result.ok, result.message
    assert [asked["body"]["model"] for asked in remote.requests] == ["coder-1"] * 3
    left = b"".join(path.read_bytes() for path in (tmp_path / "int_1").rglob("*") if path.is_file())
    assert param.api_key.get_secret_value().encode() not in left
    assert param.base_url.encode() not in left


def test_a_model_that_never_answers_is_left_when_the_call_is_given_up(
    tmp_path: Path,
    base_image: object,
    remote: Remote,  # noqa: F811
):
    """Cancelling ends a model's silence too: the connection is closed."""
    param = remote.param("stall")
    variables = {**os.environ, "MINDX_API_KEY": "key", "MINDX_BASE_URL": param.base_url, "MINDX_MODELS": "served"}

    async def silent() -> None:
        call = asyncio.create_task(call_improvement(tool_request(), work_dir=tmp_path, environ=variables))
        await remote.saw("stalled")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await remote.saw("closed")

    asyncio.run(silent())


def test_an_agent_does_not_outlive_its_caller(
    tmp_path: Path,
    base_image: object,
    remote: Remote,  # noqa: F811
):
    """SIGKILL for the caller, which could kill nothing any more: its keeper sees its input end, and kills it."""
    param = remote.param("stall")
    variables = {**os.environ, "MINDX_API_KEY": "key", "MINDX_BASE_URL": param.base_url, "MINDX_MODELS": "served"}
    text = (
        "import asyncio, sys; from pathlib import Path; from tests.mind.improvement_support import tool_request\n"
        "from mindx.agents.improvement import call_improvement\n"
        "asyncio.run(call_improvement(tool_request(), work_dir=Path(sys.argv[1])))"
    )
    with subprocess.Popen([sys.executable, "-c", text, str(tmp_path)], env=variables) as caller:
        asyncio.run(remote.saw("stalled"))
        caller.kill()
    asyncio.run(remote.saw("closed"))


def test_a_killed_agent_leaves_no_container(
    tmp_path: Path,
    engine: docker.DockerClient,
    base_image: object,
    remote: Remote,  # noqa: F811
):
    """SIGKILL while it works: nothing could be tidied up, and the container ends by itself all the same."""
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(SPEC))
    param = remote.param("stall")
    variables = {**os.environ, "MINDX_API_KEY": "key", "MINDX_BASE_URL": param.base_url, "MINDX_MODELS": "served"}
    argv = [*COMMAND, "tool.py", f"--context-file={spec}", f"--work-dir={tmp_path}"]
    with subprocess.Popen(argv, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        asyncio.run(remote.saw("stalled"))
        (mine,) = engine.containers.list(filters={"label": f"mindx.pid={process.pid}"})
        process.kill()
    with suppress(docker.errors.NotFound):
        mine.wait(condition="removed", timeout=60)
    assert engine.containers.list(all=True, filters={"label": f"mindx.pid={process.pid}"}) == []


def test_the_specification_reaches_the_agent_in_a_private_file(tmp_path: Path):
    """The context file holds the whole request, is the user's alone, and does not outlive the call."""
    before = (
        "import os\n"
        "assert request['tool_spec']['id'] == 'word_count'\n"
        "assert os.stat(options['context-file']).st_mode & 0o777 == 0o600"
    )
    assert call(tmp_path, agent(before=before)).ok
    assert not (tmp_path / "int_1" / "context.json").exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (agent(code=1), "exit code 1"),
        (agent({**good(), "status": "FAILURE"}), "does not go with"),
        (
            agent({"status": "FAILURE", "message": "no", "data": {"operation_type": "develop_tool",
                   "final_status": "FAILED_EVALUATION"}}),
            "exit code 0",
        ),
        (agent(printed="'{}'"), "differ"),
        (agent(printed="''"), "differ"),
        (agent(kept="line[:-1]", printed="line[:-1]"), "no JSON"),
        (agent(kept="'rubbish'", printed="'rubbish'"), "no JSON"),
        (agent({**good(), "more": 1}), "does not have the form"),
        (agent({"status": "SUCCESS", "message": "", "data": {"operation_type": "develop_tool",
               "final_status": "SUCCESS_EVALUATED"}}), "attempts"),
        (agent(good(new_content="evil()")), "sha256"),
        (agent(good(sha256="")), "sha256"),
        (agent(good(), operation="improve_self"), "was asked for develop_tool"),
        (agent({"status": "FAILURE", "message": "no context", "data": {"operation_type": "improve_self",
               "final_status": "FAILED_INPUT"}}, code=2), "no context"),
        (agent(before="import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), "signal 9"),
        (program("import sys; sys.exit('Traceback: it broke')"), "it broke"),
        (("/nonexistent/agent",), "cannot be started"),
    ],
)  # fmt: skip
def test_an_answer_that_does_not_agree_with_itself_is_a_failure(tmp_path: Path, command: tuple[str, ...], says: str):
    """Exit code, result file and last line must say one thing, in the one form; else nothing of it is believed."""
    result = call(tmp_path, command)
    assert not result.ok
    assert says in result.message
    assert not (tmp_path / "int_1" / "context.json").exists()


def test_noise_on_standard_output_before_the_last_line_is_no_harm(tmp_path: Path):
    """Warnings of a library do not cost a good answer."""
    assert call(tmp_path, agent(before="print('a warning'); print('{\"status\": \"FAILURE\"}')")).ok


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_is_stopped(tmp_path: Path, stream: str):
    """An agent that writes without end is killed long before it has written a gigabyte."""
    began = time.monotonic()
    flood = f"import sys\npiece = 'x' * 65536\nfor _ in range(16384): sys.{stream}.write(piece)"
    result = call(tmp_path, program(flood))
    assert result.data.final_status is _Status.FAILED_PROCESS
    assert "was killed" in result.message
    assert time.monotonic() - began < 20


def test_an_agent_that_hangs_is_killed(tmp_path: Path):
    """At the deadline of the call."""
    result = call(tmp_path, program("import time; time.sleep(600)"), timeout_s=0.3)
    assert result.data.final_status is _Status.FAILED_TIMEOUT
    assert "did not end within 0.3 s" in result.message


def test_a_child_that_holds_the_pipes_does_not_hold_the_answer(tmp_path: Path):
    """What a good agent leaves behind is ended, and its answer counts."""
    leave = "import subprocess; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    began = time.monotonic()
    assert call(tmp_path, agent(before=leave)).ok
    assert time.monotonic() - began < 20


def test_cancelling_the_call_kills_the_agent_with_all_that_it_started(tmp_path: Path):
    """Nobody waits for the answer any more: nothing goes on, not even what left its group, session and parent."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    child = (
        "import os, time; os.fork() and os._exit(0); os.setsid()\n"
        f"open({str(ready)!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    start = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]).wait(); time.sleep(600)"

    async def cancelled() -> int:
        task = asyncio.create_task(call_improvement(tool_request(), work_dir=tmp_path, command=program(start)))
        said = await asyncio.to_thread(ready.read_text)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return int(said)

    assert not alive(asyncio.run(cancelled()))


def test_one_interaction_is_worked_on_once_at_a_time(tmp_path: Path):
    """A second call with the same id is refused and does not touch the first one's files."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    text = f"open({str(ready)!r}, 'w').write('x'); import time; time.sleep(600)"

    async def twice() -> bool:
        task = asyncio.create_task(call_improvement(tool_request(), work_dir=tmp_path, command=program(text)))
        await asyncio.to_thread(ready.read_text)
        with pytest.raises(InputError, match="being worked on already"):
            await call_improvement(tool_request(), work_dir=tmp_path, command=agent())
        kept = (tmp_path / "int_1" / "context.json").exists()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return kept

    assert asyncio.run(twice())
    assert call(tmp_path, agent()).ok


def test_an_answer_that_cannot_be_kept_is_a_failure(tmp_path: Path):
    """A result file in a place that is none: the last line says so, and the exit code is not 0."""
    (tmp_path / "file").write_text("")
    done, document = asyncio.run(_by_hand(["self", "--rollback", f"--result-file={tmp_path / 'file' / 'x'}"]))
    assert (done, document["status"]) == (1, "FAILURE")
    assert "cannot be written" in document["data"]["message"]


def test_arguments_make_the_request_that_they_say():
    """By hand, all of it: what follows an option with several words belongs to it."""
    line = [
        "a.py",
        "--context=fix it",
        "--cycles=3",
        "--test-command=python3 -m pytest -q 'my tests'",
        "--logs",
        "x.log",
    ]
    asked = request_of(parser().parse_args([*line, "--critique-threshold=0.9", "--self-test-timeout=5"]))
    assert (asked.target_file, asked.context, asked.cycles) == ("a.py", "fix it", 3)
    assert asked.test_command == ("python3", "-m", "pytest", "-q", "my tests")
    assert (asked.logs, asked.critique_threshold, asked.self_test_timeout_s) == ((Path("x.log"),), 0.9, 5.0)


def test_every_argument_is_told_in_the_docs():
    """docs/society.md names them all, but those that are for ourselves."""
    told = (Path(__file__).parents[2] / "docs" / "society.md").read_text()
    options = set(re.findall(r"--[a-z-]+", parser().format_help())) - {"--help"}
    internal = {"--output-json", "--llm-provider"}
    assert options - internal == {option for option in options if f"`{option}" in told}


def test_a_plain_specification_and_bad_arguments_on_the_command_line(tmp_path: Path):
    """The command by hand: a specification alone is a context file, and what cannot be used is exit code 2."""
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({**SPEC, "id": "Not A Name"}))
    for arguments in (["tool.py", f"--context-file={spec}"], ["tool.py", "--cycles=99"], ["tool.py", "--nonsense"]):
        done, document = asyncio.run(_by_hand(arguments))
        assert done == 2
        assert document["data"]["final_status"] == "FAILED_INPUT"


def test_rules_of_the_user_hold_for_the_command_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A `constitution.yaml` among the society's state takes trust from the agent also where no system started it."""
    rules = tmp_path / "mind" / "constitution.yaml"
    rules.parent.mkdir()
    rules.write_text("version: 1\ntrust: {improvement: [model.call]}\n")
    monkeypatch.setenv("MINDX_STATE_DIR", str(tmp_path))
    done, document = asyncio.run(_by_hand(["tool.py", f"--script={write_script(tmp_path / 'script', turns())}"]))
    assert done == 1
    assert document["data"]["final_status"] == "FAILED_SETUP"
    assert "is not trusted" in str(document["message"])


async def _by_hand(arguments: list[str]) -> tuple[int | None, dict[str, dict[str, str]]]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, *arguments, stdout=pipe, stderr=pipe)
    out, _ = await process.communicate()
    return process.returncode, json.loads(out)
