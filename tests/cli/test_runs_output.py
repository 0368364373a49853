"""`mindx runs output`: what steps printed, streamed from the spool; no engine and no terminal needed."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from mindx.cli.runs_output import show_output
from mindx.core.folders import state_dir as find_state_dir
from mindx.trace.recorder import Recorder
from mindx.trace.run_folder import RunStore
from mindx.trace.spool import Spool, lines_of

MIB = 1024 * 1024


@pytest.fixture
def folder(state_dir, monkeypatch):
    """The folder of a run that ended: its step 1 printed, its step 2 did not."""
    monkeypatch.delenv("CI", raising=False)
    folder = RunStore(find_state_dir() / "runs").create()
    Recorder(folder.trace_path).close()
    steps = [{"stdout_bytes": 8, "stderr_bytes": 4}, {}, {"status": "SKIPPED"}]
    folder.write("result.json", json.dumps({"steps": steps}).encode())
    return folder


def output(*arguments):
    return CliRunner().invoke(show_output, list(arguments), standalone_mode=False)


def printed(*arguments):
    done = output(*arguments)
    assert done.exception is None, done.exception
    return done.stdout


def test_lines_of_both_streams_or_of_one(folder):
    Spool(folder.path).keep(1, "stdout", b"one\ntwo\n")
    Spool(folder.path).keep(1, "stderr", b"warn")
    assert printed("last", "1") == "one\ntwo\nwarn\n"
    assert printed("last", "1", "--stderr") == "warn\n"
    assert printed("last", "1", "--stdout") == "one\ntwo\n"
    assert printed("last", "1", "--tail", "2") == "two\nwarn\n"
    assert printed("last", "1", "--grep", "w", "--tail", "5") == "two\nwarn\n"
    assert printed("last", "1", "--grep", "w.", "--tail", "1") == ""
    assert printed("last", "2") == ""
    assert output("last", "1").stderr == ""


def test_an_unknown_step_is_refused(folder):
    assert output("last", "4").exception.code == "step_unknown"


def test_silence_is_told_from_what_did_not_run(folder):
    assert output("last", "2").stderr == "step 2 printed nothing\n"
    assert output("last", "2", "--stderr").stderr == "step 2 printed nothing on stderr\n"
    assert output("last", "3").stderr == "step 3 did not run\n"
    assert "nothing" not in output("last", "1").stderr  # its record tells of output that is gone


def test_control_characters_are_written_out(folder):
    Spool(folder.path).keep(1, "stdout", b"\x1b[2Jgone\r\nb\xff\xe2\x80\xaec\ttab\n")
    assert printed("last", "1") == "\\x1b[2Jgone\\x0d\nb\\xff\\u202ec\\ttab\n"


def test_commands_of_a_ci_log_are_shown_not_obeyed(folder, monkeypatch):
    monkeypatch.setenv("CI", "true")
    Spool(folder.path).keep(1, "stdout", b"::error::x\n")
    assert printed("last", "1") == "|::error::x\n"


def test_what_the_policy_cut_is_said(folder):
    Spool(folder.path).keep(1, "stdout", b"one\n")
    assert "limits.output" in output("last", "1").stderr


def test_a_run_that_may_keep_no_more_is_said(folder):
    steps = [{"stdout_bytes": 8, "spool_left_out_bytes": 4}]
    folder.write("result.json", json.dumps({"steps": steps}).encode())
    Spool(folder.path).keep(1, "stdout", b"one\n")
    assert "limits.run_output" in output("last", "1").stderr


def test_json_is_the_same_lines(folder):
    Spool(folder.path).keep(1, "stdout", b'a"b\n\x1b[2J\n')
    done = json.loads(printed("last", "1", "--json"))
    assert done["lines"] == ['a"b', "\x1b[2J"]
    assert (done["index"], done["stream"], done["state"]) == (0, "both", "finished")
    assert json.loads(printed("last", "2", "--json"))["lines"] == []


def test_a_run_without_a_spool_tells_what_its_record_holds(folder):
    steps = [{"stdout": "\\xff\\\\n", "stdout_encoding": "escaped", "stderr": "warn\n"}]
    folder.write("result.json", json.dumps({"steps": steps}).encode())
    assert printed("last", "1") == "\\xff\\n\nwarn\n"


def test_an_interrupted_and_a_running_run_tell_what_there_is(folder):
    folder.result_path.unlink()
    folder.trace_path.unlink()
    Spool(folder.path).keep(1, "stdout", b"one\n")
    with Recorder(folder.trace_path) as recorder:
        recorder.record("observation", index=1, status="SUCCESS")
        assert (output("last", "1").stdout, "is running" in output("last", "1").stderr) == ("one\n", True)
    with folder.trace_path.open("ab") as trace:
        trace.write(b'{"seq": 1, "ti')  # a cut line, as a kill leaves it
    done = output("last", "1")
    assert (done.stdout, "is interrupted" in done.stderr) == ("one\n", True)
    assert printed("last", "2") == ""
    assert output("last", "3").exception.code == "step_unknown"
    assert json.loads(printed("last", "1", "--json"))["state"] == "interrupted"


@pytest.mark.parametrize("options", [(), ("--grep", "7"), ("--tail", "600000"), ("--json",)])
def test_50_mib_are_streamed(folder, options):
    line = b"0123456789abcdef" * 4 + b"\n"
    count = 50 * MIB // len(line) - 1
    with_long = line * count + b"x" * (2 * MIB)
    Spool(folder.path).keep(1, "stdout", with_long)
    program = (
        "import sys\n"
        "from mindx.cli.main import main\n"
        "def peak(): return int(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
        "before = peak()\n"
        "try: code = main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "print(code, peak() - before, file=sys.stderr)\n"
    )
    arguments = [sys.executable, "-c", program, "runs", "output", "last", "1", *options]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        size = lines = 0
        while piece := process.stdout.read(MIB):
            size += len(piece)
            lines += piece.count(b"\n")
        told = process.stderr.read().split()
    assert told[-2] in (b"0", b"None"), told
    assert int(told[-1]) < 32 * 1024  # KiB; with the modules of the command
    expected = {(): count + 32, ("--grep", "7"): count, ("--tail", "600000"): 600_000, ("--json",): count + 32 + 8}
    assert lines == expected[options]
    assert size > 30 * MIB


def test_no_character_is_cut_in_two(tmp_path):
    spool = Spool(tmp_path)
    text = "aé€😀" * 40
    spool.keep(1, "stdout", text.encode())
    for size in range(8, 24):
        with spool.open(1, "stdout") as file:
            pieces = list(lines_of(file, max_bytes=size))
        assert "".join(piece.decode() for piece in pieces) == text
        assert max(map(len, pieces)) <= size


def test_bytes_that_are_no_utf8_do_not_stop_it(tmp_path):
    spool = Spool(tmp_path)
    data = b"\xf0\x9f\x98" * 50 + b"\n\xff\xfe\n" + b"\x80" * 30 + b"\xf0\x9f"
    spool.keep(1, "stdout", data)
    for size in range(8, 24):
        with spool.open(1, "stdout") as file:
            assert b"".join(lines_of(file, max_bytes=size)) == data.replace(b"\n", b"")


def test_a_needle_across_two_pieces_is_found(tmp_path):
    spool = Spool(tmp_path)
    spool.keep(1, "stdout", b"x" * 13 + b"needle" + b"y" * 40 + b"\nneed\nle\n")
    with spool.open(1, "stdout") as file:
        assert list(lines_of(file, b"needle", max_bytes=16)) == [b"dleyyyyyyyyyyyyy"]
