"""Candidates and models that want the gates to say yes, whatever the code does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import docker
import pytest

from mindx.agents.improvement import ImplementationStatus
from mindx.agents.improvement.models import MAX_CODE_CHARS
from mindx.agents.improvement.prompts import read_implementation
from mindx.agents.process_keeper import below
from mindx.errors import InputError
from tests.mind.improvement_support import CODE, TESTS, tool_request, turns
from tests.mind.test_improvement_agent import GOOD, PROJECT_TESTS, improve, order, project
from tests.providers.conftest import Remote, endpoint_address, remote

__all__ = ["endpoint_address", "project", "remote"]  # the fixtures
_BAD = "def double(number):\n    return 5\n"
_RAN = "print('.\\n---\\nRan 1 test in 0.001s\\n\\nOK', file=sys.stderr, flush=True)\n"
_OTHER = (
    "import unittest\nimport sums\n\n\nclass Other(unittest.TestCase):\n    def test_three(self):\n"
    "        self.assertEqual(sums.double(3), 6)\n"
)


@pytest.mark.usefixtures("base_image")
@pytest.mark.parametrize(
    ("code", "says"),
    [
        (f"import os, sys\n{_RAN}os._exit(0)\n", "tests failed"),
        (f"import os, sys\n{_RAN}def double(number):\n    os._exit(0)\n", "tests failed"),
        (f"import sys\n{_RAN}sys.exit(0)\n", "tests failed"),
        ("import sys\ndef double(number):\n    sys.exit(0)\n", "tests failed"),
        (f"import unittest\n{_BAD}unittest.TestCase.assertEqual = lambda *given: None\n", "tests failed"),
        (
            f"import unittest\n{_BAD}unittest.TestCase.run = lambda test, result: result.addSuccess(test)\n",
            "tests failed",
        ),
        (f"import unittest\n{_BAD}unittest.TestResult.wasSuccessful = lambda result: True\n", "tests failed"),
        (f"import unittest\n{_BAD}unittest.TestSuite.run = lambda suite, result: result\n", "tests failed"),
        ("import unittest\nraise unittest.SkipTest('not here')\n", "skipped"),
        ("import unittest\ndef double(number):\n    raise unittest.SkipTest('not now')\n", "skipped"),
        (f"import os\nos.remove('test_sums.py')\n{GOOD}", "deleted another file"),
        (f"open('test_sums.py', 'w').close()\n{GOOD}", "modified another file"),
        (f"import os\nos.chmod('sums.py', 0o755)\n{GOOD}", "made executable"),
        (f"open('expected.json', 'w').write('5')\n{GOOD}", "modified another file"),
        (
            f"import json, os\n{_RAN.replace('sys.stderr', 'None')}"
            "report = {'key': '', 'exit_code': 0, 'report': {'passed': 1, 'failed': 0, 'left_out': 0, 'names': []}}\n"
            "for number in range(64):\n    try:\n        os.write(number, json.dumps(report).encode())\n"
            "    except OSError:\n        pass\nos._exit(0)\n",
            "tests failed",
        ),
        (
            "import os\nfor name in ('fd/1', 'fd/0', 'mem', 'environ'):\n    try:\n"
            "        open(f'/proc/{os.getppid()}/{name}', 'rb').close()\n        os._exit(0)\n"
            "    except OSError:\n        pass\nraise RuntimeError('nothing is' + ' open')\n",
            "nothing is open",
        ),
    ],
    ids=lambda value: None if "\n" in value else value,
)
def test_no_trick_of_a_candidate_stands_for_passing_its_tests(project: Path, tmp_path: Path, code: str, says: str):
    """An early exit, forged lines, a patched unittest, skipped tests, tests that are taken away, and a look at the
    program that counts: none of it is a candidate."""
    (project / "expected.json").write_text("4")
    result, _ = improve(order(project), turns(code), tmp_path / "work")
    assert result.data.candidate is None
    assert result.data.final_status is ImplementationStatus.FAILED_EVALUATION
    last = result.data.cycle_results[-1]
    assert says in f"{last.error_message} {last.evaluation.notes}"


@pytest.mark.usefixtures("base_image")
def test_a_candidate_cannot_hide_the_test_that_comes_after(project: Path, tmp_path: Path):
    """A candidate that passes the first module and replaces the second before it is read is found by the files."""
    (project / "test_zero.py").write_text(_OTHER)
    code = "open('test_zero.py', 'w').close()\ndef double(number):\n    return 4\n"
    result, _ = improve(order(project), turns(code), tmp_path / "work")
    assert "modified another file while the tests ran: test_zero.py" in result.message


@pytest.mark.usefixtures("base_image")
@pytest.mark.parametrize("command", [(), ("true",), ("python3", "-c", f"print({_RAN!r})")])
def test_tests_that_an_empty_file_passes_are_no_gate(project: Path, tmp_path: Path, command: tuple[str, ...]):
    """What does not look at the target says nothing about it, whichever program the tests are."""
    (project / "test_sums.py").write_text(
        "import unittest\n\n\nclass No(unittest.TestCase):\n    def test_it(self): ...\n"
    )
    result, _ = improve(order(project, test_command=command), turns(GOOD), tmp_path / "work")
    assert result.data.final_status is ImplementationStatus.FAILED_EVALUATION
    assert "an empty sums.py passes the tests too" in result.message


@pytest.mark.usefixtures("base_image")
def test_a_tools_own_tests_must_test_it(tmp_path: Path):
    """Tests of the same model that never call the tool are no tests of it."""
    tests = TESTS.replace("self.assertEqual(tool.count({'text': 'a b'}), {'words': 2})", "self.assertTrue(tool)")
    result, _ = improve(tool_request(), turns(tests=tests), tmp_path / "work")
    assert "an empty tool.py passes the tests too" in result.message


@pytest.mark.usefixtures("base_image")
def test_a_tool_cannot_exchange_its_tests_when_its_examples_are_called(tmp_path: Path):
    """The examples run its code before the tests are read: tests that it wrote there are not the model's."""
    tests = TESTS.replace("{'words': 2})", "{'words': 3})")
    code = "open('/workspace/test_tool.py', 'w').write(\"" + TESTS.replace("\n", "\\n") + '")\n' + CODE
    result, _ = improve(tool_request(), turns(code, tests), tmp_path / "work")
    assert "modified another file while the tests ran: test_tool.py" in result.message


@pytest.mark.usefixtures("base_image")
def test_what_is_skipped_without_the_candidate_too_is_no_trick(project: Path, tmp_path: Path):
    """A test for another system stays skipped; the candidate has nothing to do with it."""
    skipped = "    @unittest.skip('another system')\n    def test_elsewhere(self):\n        pass\n"
    (project / "test_sums.py").write_text(PROJECT_TESTS + skipped)
    result, _ = improve(order(project), turns(GOOD), tmp_path / "work")
    assert result.ok, result.message


def test_of_a_killed_host_nothing_is_left_within_five_seconds(
    tmp_path: Path, engine: docker.DockerClient, base_image: object, remote: Remote
):
    """SIGKILL for the host while the agent's container is open: neither the agent nor the container stays."""
    param = remote.param("stall")
    variables = {**os.environ, "MINDX_API_KEY": "key", "MINDX_BASE_URL": param.base_url, "MINDX_MODELS": "served"}
    text = (
        "import asyncio, sys; from pathlib import Path; from tests.mind.improvement_support import tool_request\n"
        "from mindx.agents.improvement import call_improvement\n"
        "asyncio.run(call_improvement(tool_request(), work_dir=Path(sys.argv[1])))"
    )
    with subprocess.Popen([sys.executable, "-c", text, str(tmp_path)], env=variables) as host:
        asyncio.run(remote.saw("stalled"))
        pids = below(host.pid)
        handles = [os.pidfd_open(pid) for pid in pids]
        found = [engine.containers.list(filters={"label": f"mindx.pid={pid}"}) for pid in pids]
        host.kill()
        until = time.monotonic() + 5
    containers = [item for items in found for item in items]
    assert containers
    for handle in handles:
        assert select.select([handle], [], [], max(until - time.monotonic(), 0))[0]
        os.close(handle)
    for container in containers:
        with contextlib.suppress(docker.errors.NotFound):
            container.wait(condition="removed", timeout=max(until - time.monotonic(), 0.1))


@pytest.mark.parametrize(
    "answer",
    [
        "```\n" + " " * 390_000,
        "```\n```" * 60_000,
        '{"content":' * 30_000,
        "[{" * 150_000,
        json.dumps({"content": "\ud800" * (MAX_CODE_CHARS - 1)}),
        json.dumps({"content": "a", "tests": "\ud800" * (MAX_CODE_CHARS - 1)}),
        json.dumps({"content": ["a"]}),
        json.dumps({"content": "a\0"}),
    ],
    ids=["blanks", "fences", "nested", "brackets", "surrogates", "surrogates-in-tests", "list", "nul"],
)
def test_no_answer_of_a_model_holds_up_or_breaks_the_reader(answer: str):
    """A long, deep or odd answer is refused as such, at once: the reader runs in the loop that serves everybody."""
    began = time.process_time()
    with pytest.raises(InputError, match=r"answer|content|characters|NUL"):
        read_implementation(answer)
    assert time.process_time() - began < 5
