"""`exec`: the program's own streams and exit code, and what mindx adds to them."""

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from mindx.cli.exec import exit_code_of
from mindx.core.command import Exec
from mindx.core.receipt import ExecResult, ExitCause, Receipt
from mindx.policy.load import load_policy


@pytest.mark.parametrize(
    ("receipt", "code"),
    [
        (Receipt(ExitCause.EXIT, exit_code=0), 0),
        (Receipt(ExitCause.EXIT, exit_code=7), 7),
        (Receipt(ExitCause.EXIT), 125),
        (Receipt(ExitCause.SIGNAL, signal=11), 139),
        (Receipt(ExitCause.SIGNAL), 125),
        (Receipt(ExitCause.TIMEOUT), 124),
        (Receipt(ExitCause.OOM), 137),
        (Receipt(ExitCause.OOM, exit_code=0), 137),
        (Receipt(ExitCause.OOM, exit_code=3), 3),
        (Receipt(ExitCause.CANCELLED), 130),
        (Receipt(ExitCause.NOT_FOUND), 127),
        (Receipt(ExitCause.NOT_EXECUTABLE), 126),
        (Receipt(ExitCause.POLICY), 126),
        (Receipt(ExitCause.ENGINE), 125),
    ],
)
def test_exit_codes(receipt, code):
    assert exit_code_of(ExecResult(Exec(("x",)), receipt, b"", b"")) == code


def test_every_cause_has_a_code_and_none_but_exit_is_0():
    for cause in ExitCause:
        code = exit_code_of(ExecResult(Exec(("x",)), Receipt(cause), b"", b""))
        assert code > 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--", "python3", "-c", "raise SystemExit(7)"], 7),
        (["--timeout", "0.5", "--", "sleep", "60"], 124),
        (["--", "python3", "-c", "import os; os.kill(os.getpid(), 15)"], 143),
        (["--", "rm", "x"], 126),
    ],
)
def test_programs_end_as_they_do(engine_mindx, arguments, code):
    done = engine_mindx("exec", *arguments)
    assert done.code == code, done.err
    assert done.out == ""


def test_streams_are_kept_apart_and_binary(engine_mindx):
    program = "import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stderr.write('err')"
    done = engine_mindx("exec", "--", "python3", "-c", program)
    assert (done.code, done.stdout, done.stderr) == (0, bytes(range(256)), b"err")


def test_the_uid_is_not_0_and_options_arrive(engine_mindx):
    program = "import os; print(os.getuid() != 0, os.environ['WORD'], os.getcwd())"
    (engine_mindx.folder / "sub").mkdir()
    (engine_mindx.folder / "sub" / "f").write_text("")
    arguments = ["--env", "WORD=a=b", "--cwd", "sub", "--workspace", ".", "--", "python3", "-c", program]
    assert engine_mindx("exec", *arguments).out == "True a=b /workspace/sub\n"


@pytest.mark.parametrize("data", [b"", b"hello", os.urandom(300_000)], ids=len)
def test_standard_input_is_passed_on(engine_mindx, data):
    done = engine_mindx("exec", "--", "cat", stdin=data)
    assert (done.code, done.stdout) == (0, data)


def test_no_stdin_does_not_wait_for_an_open_pipe(engine_mindx):
    reading, writing = os.pipe()
    try:
        with engine_mindx.start("exec", "--no-stdin", "--", "cat", stdin=reading) as process:
            stdout, _ = process.communicate(timeout=60)
        assert (process.returncode, stdout) == (0, b"")
    finally:
        os.close(reading)
        os.close(writing)


def test_output_comes_while_the_program_runs(engine_mindx):
    program = "import time; print('first', flush=True); time.sleep(60)"
    with engine_mindx.start("exec", "--", "python3", "-c", program) as process:
        assert process.stdout.readline() == b"first\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_reader_that_has_gone_ends_the_program(engine_mindx):
    with engine_mindx.start("exec", "--", "yes") as process:
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 141


def test_what_was_cut_is_said(engine_mindx):
    done = engine_mindx("exec", "--", "sh", "-c", "yes | head -c 3000000; echo the end")
    assert done.code == 0
    assert done.out.endswith("\ny\nthe end\n")
    marker = re.search(r"\n\[mindx: (\d+) bytes left out\]\n", done.out)
    assert marker is not None
    kept, left_out = len(done.stdout) - len(marker[0]), int(marker[1])
    assert kept + left_out == 3_000_008
    figures = f"{kept:,} kept (beginning and end), {left_out:,} left out"
    assert f"stdout was cut: 3,000,008 bytes in all, {figures}" in done.err
    assert "limits.output" in done.err


def test_a_full_disk_behind_standard_output_is_one_line(engine_mindx):
    for _ in range(4):  # which of the two ends comes first is chance
        with open("/dev/full", "wb") as full:
            done = engine_mindx("exec", "--", "echo", "hi", stdout=full)
        assert done.err == "mindx: standard output cannot be written: No space left on device\n"
        assert done.code == 125


def test_a_missing_folder_to_start_in_is_named(engine_mindx):
    done = engine_mindx("exec", "--cwd", "nowhere", "--", "ls")
    assert done.code == 126
    assert "there is no folder /workspace/nowhere" in done.err
    assert "cannot be executed" not in done.err


def test_an_option_before_the_two_dashes_is_explained(mindx):
    done = mindx("exec", "python3", "-V")
    assert done.code == 125
    assert "mindx exec -- PROGRAM ARGUMENTS" in done.err


def test_json_is_one_document(engine_mindx):
    done = engine_mindx(
        "exec", "--json", "--", "python3", "-c", "import os; os.write(1, b'\\xff'); raise SystemExit(3)"
    )
    document = done.json
    assert done.code == 3
    assert (document["exit_code"], document["exit_cause"]) == (3, "exit")
    assert document["policy"] == {"name": "default", "sha256": load_policy(None).sha256}
    assert isinstance(document["accepted_gaps"], list)
    assert (document["stdout"], document["stdout_encoding"], document["stdout_bytes"]) == ("\\xff", "escaped", 1)


def test_a_terminal_and_a_ci_log_are_protected(engine_mindx):
    master, slave = pty.openpty()
    process = engine_mindx.start(
        "exec", "--", "printf", "\\033]0;title\\007x\\n", stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    assert process.wait(60) == 0
    seen = os.read(master, 65536)
    os.close(master)
    assert b"\x1b" not in seen
    assert b"\\x1b]0;title\\x07x" in seen
    assert seen.count(b"\n") == 1  # nothing is said that nobody needs
    done = engine_mindx("exec", "--", "printf", "::set-output name=a::b\\n\\033[1m", env={"CI": "true"})
    assert done.stdout == b"|::set-output name=a::b\n\\x1b[1m"
    raw = engine_mindx("exec", "--raw", "--", "printf", "\\033[1m", env={"CI": "true"})
    assert raw.stdout == b"\x1b[1m"


def test_a_program_that_waits_for_a_terminal_is_told_of(engine_mindx):
    master, slave = pty.openpty()
    process = engine_mindx.start("exec", "--", "cat", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    assert process.wait(60) == 0
    assert b"standard input is a terminal and is not passed on; pipe it in" in os.read(master, 65536)
    os.close(master)


def test_json_of_what_never_ran(engine_mindx):
    done = engine_mindx("exec", "--json", "--", "tree")
    assert done.code == 127
    assert json.loads(done.stdout)["exit_cause"] == "not_found"


def test_nothing_is_left_open_at_the_end(engine_mindx):
    """In development mode Python tells of each file and socket that was closed in the wrong order, or never."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "mindx.cli.main", "exec", "--", "true"]
    done = subprocess.run(command, cwd=engine_mindx.folder, env=engine_mindx.env, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
    assert (done.returncode, told) == (0, [])
