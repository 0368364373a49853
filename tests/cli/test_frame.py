"""The frame of the command line: help, usage, errors, signals; nothing here needs an engine."""

import subprocess
import sys

import click
import pytest

from mindx.cli.errors import exit_code, guarded
from mindx.cli.verbs import VERBS, cli
from mindx.errors import DeniedError, EngineError, InputError, StateError


def commands():
    """Yield every command that exists, with the words that call it."""
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        yield name, command
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                yield f"{name} {inner}", command.get_command(context, inner)


def test_the_main_jobs_come_first_and_only_verbs_that_exist_are_listed(mindx):
    listed = cli.list_commands(click.Context(cli))
    assert listed[:4] == ["run", "check", "exec", "shell"]
    assert set(listed) <= set(VERBS)
    help_text = mindx("--help")
    assert help_text.code == 0
    for name in listed:
        assert f"\n  {name} " in help_text.out


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_help_has_an_example(name, command):
    text = command.get_help(click.Context(command, info_name=name))
    assert f"mindx {name.split()[0]}" in text
    assert "xample" in text


def test_help_loads_no_verb_and_no_engine():
    program = (
        "import sys; from mindx.cli.verbs import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "print(' '.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & {"docker", "rich", "pydantic", "asyncio", "anyio", "yaml", "mindx.cli.run"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["bogus"], 2),
        (["run"], 2),
        (["run", "--bogus"], 2),
        (["run", "x.json", "--apply"], 2),
        (["runs", "show"], 2),
        (["exec", "--bogus", "--", "true"], 125),
        (["exec"], 125),
        (["exec", "--timeout", "0", "--", "true"], 125),
        (["exec", "--env", "X", "--", "true"], 125),
        ([], 2),
    ],
)
def test_usage_errors_are_one_message(mindx, arguments, code):
    done = mindx(*arguments)
    assert done.code == code
    assert done.stdout == b""
    assert "Traceback" not in done.err
    assert done.err


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["run", "missing.json"], 2, "missing.json"),
        (["check", "missing.json"], 2, "missing.json"),
        (["run", "."], 2, "directory"),
        (["run", "/dev/zero"], 2, "regular file"),
        (["check", "plan.json", "--policy", "nope"], 2, "nope"),
        (["check", "plan.json", "--policy", "./nope.yaml"], 2, "nope.yaml"),
        (["run", "plan.json", "--workspace", "nope"], 2, "nope"),
        (["exec", "--policy", "nope", "--", "true"], 125, "nope"),
        (["exec", "--", "curl", "x"], 126, "curl"),
        (["exec", "--workspace", "nope", "--", "true"], 125, "nope"),
        (["runs", "show", "last"], 2, "no run"),
        (["runs", "show", "../.."], 2, "../.."),
        (["trace", "verify", "2026"], 2, "2026"),
    ],
)
def test_bad_input_is_one_clear_message(mindx, arguments, code, word):
    mindx.plan([{"type": "THINK", "params": {"thought": "x"}}])
    done = mindx(*arguments, env={"DOCKER_HOST": "tcp://127.0.0.1:1"})
    assert done.code == code
    assert word in done.err
    assert "Traceback" not in done.err + done.out


def test_with_json_an_error_is_a_document(mindx):
    done = mindx("run", "missing.json", "--json")
    assert done.code == 2
    assert done.json["outcome"] == "invalid"
    assert done.json["error"]["code"] == "plan_unreadable"


def test_an_engine_that_does_not_answer(mindx):
    plan = mindx.plan([{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "ls"}}])
    env = {"DOCKER_HOST": "tcp://127.0.0.1:1"}
    done = mindx("run", plan, "--json", env=env)
    assert done.code == 4
    assert (done.json["outcome"], done.json["steps"][0]["status"]) == ("error", "SKIPPED")
    assert "127.0.0.1:1" in done.err
    assert mindx("exec", "--", "true", env=env).code == 125
    assert mindx("gc", env=env).code == 4


def test_a_state_folder_that_cannot_be_used(mindx):
    (mindx.folder / "file").write_text("")
    plan = mindx.plan([{"type": "THINK", "params": {"thought": "x"}}])
    done = mindx("run", plan, env={"MINDX_STATE_DIR": str(mindx.folder / "file")})
    assert done.code == 4
    assert "MINDX_STATE_DIR" in done.err
    assert "Traceback" not in done.err


def test_a_full_standard_output_is_not_success(mindx):
    with open("/dev/full", "wb") as full:
        done = mindx("runs", "list", "--json", stdout=full)
    assert done.code == 1
    assert "standard output" in done.err


def test_a_reader_that_has_gone_ends_it_silently(mindx):
    with mindx.start("runs", "list", "--json") as process:
        process.stdout.close()
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (141, b"")


def test_a_closed_standard_output_is_no_traceback(mindx):
    done = mindx("runs", "list", stdout=None, preexec_fn=lambda: __import__("os").close(1))
    assert b"Traceback" not in done.stderr


def test_codes_of_errors():
    assert exit_code(InputError("x", "y")) == 2
    assert exit_code(DeniedError("x", "y")) == 3
    assert exit_code(EngineError("x", "y")) == 4
    assert exit_code(StateError("x", "y")) == 4
    assert exit_code(DeniedError("x", "y"), "exec") == 126
    assert exit_code(InputError("x", "y"), "exec") == 125


def test_a_bug_is_one_line_and_a_file(state_dir, capsys):
    def bug():
        raise ZeroDivisionError("a secret detail")

    assert guarded(bug, ["run"]) == 4
    assert guarded(bug, ["exec"]) == 125
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "a secret detail" not in err
    reports = list((state_dir / "logs").iterdir())
    assert len(reports) == 2
    assert str(reports[0]) in err or str(reports[1]) in err
    assert "a secret detail" in reports[0].read_text()
    assert reports[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_has_its_code(error, capsys):
    def interrupted():
        raise error

    assert guarded(interrupted) == 130
    assert "interrupted" in capsys.readouterr().err


def test_messages_cannot_carry_control_sequences(mindx):
    done = mindx("run", "\x1b[2J.json")
    assert done.code == 2
    assert b"\x1b" not in done.stderr


def test_an_end_with_a_text_is_a_failure(capsys):
    def ends():
        raise SystemExit("it did not work")

    assert guarded(ends, "run") == 1
    assert "it did not work" in capsys.readouterr().err
