"""The coordinator with its real parts: containers that verify, and the improvement agent as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from mindx.agents.coordinator.interaction import InteractionStatus
from mindx.agents.coordinator.verification import TaskVerifier
from mindx.agents.improvement import call_improvement
from mindx.errors import InputError, SandboxError
from mindx.policy.load import load_policy
from mindx.providers.scripted import ScriptedProvider
from tests.mind.coordinator_support import TOOL, Clock, in_coordinator
from tests.mind.improvement_support import turns, write_script

ROOT = Path(__file__).parents[2]
GOOD = "def double(x):\n    return 2 * x\n"


@pytest.fixture
def project(tmp_path):
    """A project with a fault and a test that sees it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "sums.py").write_text("def double(x):\n    return x\n")
    (folder / "test_sums.py").write_text(
        "import unittest\nimport sums\n\n\nclass Sums(unittest.TestCase):\n    def test_double(self):\n"
        "        self.assertEqual(sums.double(2), 4)\n"
    )
    return folder


def test_a_task_is_verified_in_a_container_by_its_criteria(tmp_path, project, derived_image):
    criteria = [
        {"command": ["python3", "-m", "unittest", "-q"]},
        {"file": "sums.py", "contains": "2 * x"},
        {"file": "secret.txt", "absent": True},
    ]

    async def work(made):
        wrong = await made.ask("verify_task", "is it done?", metadata={"criteria": criteria}, agent_id="bdi")
        assert [check["verified"] for check in wrong.response["checks"]] == [False, False, True]
        assert wrong.response["verified"] is False
        assert "AssertionError" in wrong.response["checks"][0]["reason"]
        # The same with what the work made, and a statement that a model judges.
        judged = [*criteria, "double() doubles"]
        metadata = {"criteria": judged, "files": {"sums.py": GOOD}, "results": {"said": "it doubles"}}
        right = await made.ask("verify_task", "is it done?", metadata=metadata, agent_id="agint")
        assert right.response["verified"] is True, right.response
        assert "it doubles" in provider.requests[0].messages[1].text
        assert (project / "sums.py").read_text().endswith("return x\n")  # a copy was looked at

    provider = ScriptedProvider([json.dumps({"holds": True, "reason": "it was seen"})])
    in_coordinator(tmp_path / "state", work, project=project, provider=provider)


def test_what_cannot_be_verified_is_not_verified(project, derived_image):
    verifier = TaskVerifier(project)

    async def verify(*criteria, **options):
        return await verifier.verify(criteria, **options)

    denied = asyncio.run(verify({"command": ["curl", "http://example.org"]}, "the sky is blue"))
    assert [check.verified for check in denied.checks] == [False, False]
    assert "denies" in denied.checks[0].reason
    for criteria, options in (
        ((), {}),
        (({"command": []},), {}),
        (({"file": "../x"},), {}),
        (({"file": "a", "absent": True}, {"file": "a"}), {}),
        (({"file": "a"},), {"files": {"a": 1}}),
    ):
        with pytest.raises(InputError):
            asyncio.run(verify(*criteria, **options))
    strict = TaskVerifier(project, load_policy("read-only"))
    [check] = asyncio.run(strict.verify([{"command": ["python3", "-c", "1"]}])).checks
    assert (check.verified, "denies" in check.reason) == (False, True)
    slow = TaskVerifier(project, timeout_s=0.01)
    with pytest.raises(SandboxError) as caught:
        asyncio.run(slow.verify([{"command": ["sleep", "20"]}]))
    assert caught.value.code == "verify_timeout"


def test_a_component_is_improved_by_the_real_agent_applied_and_taken_back(tmp_path, project, derived_image):
    state = tmp_path / "state"
    script = write_script(tmp_path / "model.jsonl", turns(GOOD, ""))
    old = (project / "sums.py").read_text()

    async def work(made):
        made.backlog.add("sums.py", "double() does not double", priority=9)
        ended = await made.worker.work_once()
        assert ended.ok, ended.error
        assert ended.response["data"]["final_status"] == "SUCCESS_EVALUATED"
        assert "+    return 2 * x" in ended.response["data"]["cycle_results"][0]["diff_patch"]
        assert (ended.response["applied"]["status"], (project / "sums.py").read_text()) == ("APPLIED", GOOD)
        assert not list(state.glob("improvement/*/context.json"))
        metadata = {"interaction_id": ended.interaction_id}
        back = await made.ask("rollback_component", "", metadata=metadata, user_id="ann")
        assert (back.ok, (project / "sums.py").read_text()) == (True, old)

    improve = partial(call_improvement, work_dir=state / "improvement")
    config = {"improvement_script": script, "max_cpu_percent": 100}
    in_coordinator(state, work, improve=improve, project=project, config=config)


def test_a_tools_whole_specification_reaches_the_agent_and_its_answer_is_the_response(tmp_path, derived_image):
    state = tmp_path / "state"
    script = write_script(tmp_path / "model.jsonl", turns())

    async def work(made):
        metadata = {"target_component": "tools/word_count/0.1.0/tool.py", "source": "mastermind", **TOOL}
        ended = await made.ask("component_improvement", "develop it", metadata=metadata, agent_id="mastermind")
        assert ended.ok, ended.error
        assert ended.response["data"]["tool_spec"]["id"] == "word_count"
        assert ended.response["data"]["cycle_results"][0]["evaluation"]["passed_self_tests"] is True

    improve = partial(call_improvement, work_dir=state / "improvement")
    in_coordinator(state, work, improve=improve, config={"improvement_script": script})


HOST = """
import asyncio, sys
from functools import partial
from pathlib import Path
from mindx.agents.improvement import call_improvement
from tests.mind.coordinator_support import TOOL, coordinator

AGENT = "import os, time; open({mark!r}, 'w').write(str(os.getpid())); time.sleep(100)"
state = Path(sys.argv[1])
improve = partial(
    call_improvement, work_dir=state / "improvement", command=(sys.executable, "-c", AGENT.format(mark=sys.argv[2]))
)

async def main():
    async with coordinator(state, improve=improve) as made:
        await made.ask("component_improvement", "a tool", metadata=TOOL, agent_id="mastermind", key="k")

asyncio.run(main())
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_host_that_is_killed_while_the_real_agent_works(tmp_path):
    state, mark = tmp_path / "state", tmp_path / "pid"
    os.mkfifo(mark)  # reading it waits until the agent is at work
    with subprocess.Popen([sys.executable, "-c", HOST, str(state), str(mark)], cwd=ROOT) as host:
        agent = int(mark.read_text())
        os.kill(host.pid, signal.SIGKILL)
        host.wait(10)

    async def work(made):
        [one] = made.interrupted
        assert (one.key, one.status) == ("k", InteractionStatus.INTERRUPTED)

    try:
        in_coordinator(state, work, now=Clock())
    finally:
        if alive(agent):
            os.kill(agent, signal.SIGKILL)
