"""Runs a project's unittest tests in the container and tells what came of them; standard library only.

The host runs its text (`python3 -I -B -c TEXT NAMES...`, without names all tests that are found) with a key on
standard input. The candidate's code runs in a child that has neither the key nor our standard output: whatever it
prints, and however it ends, counts for nothing without a whole report. Controls run before and after the tests: most of
them must fail, so that a run in which nothing fails any more is noticed.
"""
# ruff: noqa: PT009, PT027 - these are unittest's own tests, in a container that has nothing else

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import sys
import unittest
from typing import Any

MAX_REPORT_BYTES = 65536
MAX_NAMES = 100
LOOK_S = 0.1
PR_SET_DUMPABLE = 4


class Control(unittest.TestCase):
    """Tests whose outcome is known: every one but the last must fail."""

    def equal(self) -> None:
        """Two values that differ."""
        self.assertEqual(1, 2)

    def true(self) -> None:
        """What is not true."""
        self.assertTrue(False)

    def raises(self) -> None:
        """An error that does not come."""
        with self.assertRaises(ValueError):
            str(1)

    def stated(self) -> None:
        """A plain assert."""
        assert not self

    def error(self) -> None:
        """An error."""
        raise ZeroDivisionError

    def good(self) -> None:
        """What holds."""
        self.assertEqual([1], [1])


CONTROLS = ("equal", "true", "raises", "stated", "error", "good")
EXPECTED = ["failed", "failed", "failed", "failed", "failed", "passed"] * 2


class Outcomes(unittest.TestResult):
    """What came of each test; of the controls by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = self.failed = 0
        self.left_out: list[str] = []
        self.controls: list[str] = []

    def note(self, test: Any, outcome: str) -> None:
        """Count one outcome."""
        if type(test) is Control:
            self.controls.append(outcome)
        elif outcome == "passed":
            self.passed += 1
        else:
            self.failed += 1

    def addSuccess(self, test: Any) -> None:
        """It passed."""
        self.note(test, "passed")

    def addError(self, test: Any, err: Any) -> None:
        """It did not end."""
        super().addError(test, err)
        self.note(test, "failed")

    def addFailure(self, test: Any, err: Any) -> None:
        """It failed."""
        super().addFailure(test, err)
        self.note(test, "failed")

    def addUnexpectedSuccess(self, test: Any) -> None:
        """It should have failed."""
        super().addUnexpectedSuccess(test)
        self.note(test, "failed")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        """It failed as it should."""
        self.note(test, "passed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        """A part of it ended."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failed")

    def addSkip(self, test: Any, reason: str) -> None:
        """It was left out."""
        self.left_out.append(str(test.id())[:200])


def main(names: list[str]) -> int:
    """Run the tests in a child and write one line: the key, and the child's report (null for none)."""
    dumpable(0)  # nobody of the same user looks into this process
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(run(names, writing))
    os.close(writing)
    key = sys.stdin.read()
    data, code = heard(child, reading)
    report: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        report = json.loads(data)
    if not isinstance(report, dict) or report.get("controls") != EXPECTED or code != 0:
        report = None
    json.dump({"key": key, "exit_code": code, "report": report}, sys.stdout)
    return 1 if report is None or report.get("failed") != 0 else 0


def heard(child: int, reading: int) -> tuple[bytes, int]:
    """Return all that the child reports, and its exit code; whoever it leaves behind is not waited for."""
    data, code = b"", None
    while True:
        ready = select.select([reading], [], [], LOOK_S if code is None else 0)[0]
        piece = os.read(reading, 4096) if ready else b""
        data = (data + piece)[: MAX_REPORT_BYTES + 1]
        if code is not None and not piece:
            return data, code
        if code is None and not piece:
            if ready:
                return data, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            ended, status = os.waitpid(child, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if ended else None


def run(names: list[str], writing: int) -> int:
    """Be the child: run the tests, report, and return the exit code."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.closerange(3, writing)
    os.closerange(writing + 1, 1024)
    sys.argv = ["unittest"]
    dumpable(1)
    sys.path[:0] = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    outcomes = Outcomes()
    controls = [unittest.TestSuite(map(Control, CONTROLS)) for _ in range(2)]
    try:
        loader = unittest.TestLoader()
        tests = loader.loadTestsFromNames(names) if names else loader.discover(".")
        unittest.TestSuite([controls[0], tests, controls[1]]).run(outcomes)
    except BaseException as error:  # noqa: BLE001 - whatever it is, there is no report
        sys.stderr.write(f"the tests could not be run: {error!r}\n")
        return 1
    for test, told in (*outcomes.failures, *outcomes.errors):
        if type(test) is not Control:
            sys.stderr.write(f"FAIL: {test.id()}\n{told}\n")
    sys.stderr.write(f"{outcomes.passed} passed, {outcomes.failed} failed, {len(outcomes.left_out)} left out\n")
    sys.stderr.flush()
    left_out = {"left_out": len(outcomes.left_out), "names": sorted(outcomes.left_out)[:MAX_NAMES]}
    report = {"passed": outcomes.passed, "failed": outcomes.failed, "controls": outcomes.controls, **left_out}
    os.write(writing, json.dumps(report).encode())
    return 0


def dumpable(value: int) -> None:
    """Say whether others may look into this process; only Linux can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
