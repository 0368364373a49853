"""What a newcomer types in the first hour: slips, narrow terminals, answers that are none, Ctrl-C at a live line."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mindx.cli.verbs import cli
from mindx.core.run import Outcome
from mindx.core.unwritable import remedy
from tests.cli.test_agent import NO_KEY
from tests.cli.test_interrupt import PROGRAM
from tests.workspace.support import fill, put, work
from tests.workspace.terminal import MINDX, Terminal, environment

RUN = "20260101T000000000-abcdef"
NARROW = 60


@pytest.mark.parametrize(("word", "meant"), [("help", "mindx --help"), ("version", "mindx --version")])
def test_an_option_typed_as_a_command_is_named(mindx, word, meant):
    done = mindx(word)
    assert (done.code, f"write `{meant}`" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("./run.sh", "its interpreter: sh './run.sh'"),
        ("src/a.py", "its interpreter: python3 'src/a.py'"),
        ("/bin/ls", "such as 'ls'"),
    ],
)
def test_a_script_is_not_named_as_a_program_that_no_rule_allows(mindx, program, told):
    """To name `run.sh` alone would only lead to the next refusal."""
    done = mindx("exec", "--", program)
    assert (done.code, told in done.err) == (126, True), done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("runs", "output", "last"), "STEP is missing; write mindx runs output RUN STEP (see"),
        (("trust",), "DIR is missing; write mindx trust DIR"),
        (("exec",), "ARGV is missing; write mindx exec -- ARGV... (see"),
        (("completion",), "write mindx completion {bash|zsh|fish}"),
    ],
)
def test_what_was_left_out_is_shown_in_its_place(mindx, words, told):
    assert told in mindx(*words).err


def test_a_plan_in_the_place_of_a_run_or_a_command(mindx):
    """Whoever asks the policy about a plan file learns which command does that."""
    plan = mindx.plan([])
    assert f"`mindx run {plan}`" in mindx("policy", "suggest", plan).err
    assert "no run has the id" in mindx("policy", "suggest", "nosuch").err
    assert f"mindx check {plan}" in mindx("policy", "explain", plan).err
    assert "mindx check" not in mindx("policy", "explain", "ls", plan).err


def test_the_plan_that_the_readme_shows_works(engine_mindx):
    """It is the first that a newcomer types in."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    plan = engine_mindx.plan(json.loads(readme.split("```json\n")[1].split("```")[0]))
    done = engine_mindx("run", plan)
    assert (done.code, "    42\n" in done.err) == (0, True), done.err


def test_a_task_that_never_began_has_no_name(mindx):
    """To name it would send the user to `mindx task resume` of a task that there is not."""
    done = mindx("task", "run", "hi", env=NO_KEY)
    assert (done.code, done.err.startswith("mindx: no API key")) == (6, True), done.err
    assert "no task yet" in mindx("task", "list").err


def test_mindx_is_a_module_as_well():
    done = subprocess.run([sys.executable, "-m", "mindx", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mindx ")


def test_no_line_of_a_help_is_longer_than_a_terminal():
    """Only examples keep their lines; what is prose is broken at the width of the terminal."""

    def walk(command, context):
        after_examples = (command.epilog or "").split("\n\n", 1)[-1]
        formatter = click.HelpFormatter(80)
        formatter.write_text(after_examples)
        yield from (line for line in formatter.getvalue().splitlines() if "  mindx" not in line)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                yield from walk(inner, click.Context(inner, context, name))

    longest = max(walk(cli, click.Context(cli, info_name="mindx")), key=len)
    assert len(longest) <= 80, longest


def listed(mindx, width):
    """Return what `runs list` prints in a terminal of that width."""
    env = environment(mindx.state) | {"COLUMNS": str(width), "NO_COLOR": "1"}
    terminal = Terminal([*MINDX, "runs", "list"], env)
    assert terminal.end() == 0
    return click.unstyle(terminal.shown).replace("\r", "").splitlines()


def test_a_runs_id_can_be_copied_from_a_narrow_terminal(mindx):
    assert mindx("run", mindx.plan([{"type": "NO_SUCH", "params": {}}])).code == 2
    run_id = json.loads(mindx("runs", "list", "--json").stdout)["runs"][0]["run_id"]
    wide, narrow = listed(mindx, 120), listed(mindx, NARROW)
    assert ("started" in wide[0], "started" in narrow[0]) == (True, False)
    assert narrow[1].startswith(f"{run_id}  {Outcome.INVALID.value}")
    assert max(map(len, narrow)) <= NARROW, narrow


def worked(mindx, tmp_path):
    """Return a folder of which a run has changes to apply."""
    folder = tmp_path / "w"
    fill(folder, {"kept": "x\n"})
    (mindx.state / "runs").mkdir(parents=True)
    work(folder, mindx.state / "runs" / RUN, lambda tree: put(tree, "new", "new\n"))
    return folder


def test_an_undo_says_what_stands_in_its_way(mindx, tmp_path):
    """It compares with what was applied; what was copied in has nothing to do with it."""
    folder = worked(mindx, tmp_path)
    assert mindx("changes", "apply", RUN, "--yes").code == 0
    (folder / "new").write_text("mine\n")
    undone = mindx("changes", "undo", RUN, "--yes")
    assert (undone.code, "conflict: new: it was changed after it was applied" in undone.err) == (1, True)
    assert "--merge" not in undone.err
    assert "--merge" in mindx("changes", "apply", RUN, "--yes").err


@pytest.mark.parametrize(("number", "told"), [(errno.EACCES, "right"), (errno.EROFS, "right"), (errno.ENOSPC, "space")])
def test_a_state_folder_that_refuses_is_told_by_its_cause(number, told):
    assert told in remedy(OSError(number, "no"))


def test_an_answer_that_is_none_is_told_how_to_be_one(mindx, tmp_path):
    folder = worked(mindx, tmp_path)
    terminal = Terminal([*MINDX, "changes", "apply", RUN], environment(mindx.state))
    terminal.answer("[Y/n]: ", "perhaps")
    terminal.expect("answer y or n")
    terminal.answer("[Y/n]: ", "NO")
    terminal.expect("nothing was applied")
    assert terminal.end() == 0
    assert not (folder / "new").exists()


@pytest.mark.parametrize(("variables", "before"), [({}, "\r\x1b[2K"), ({"NO_COLOR": "1"}, "\r\n")])
def test_ctrl_c_does_not_write_into_the_line_that_shows_what_runs(mindx, variables, before):
    terminal = Terminal([sys.executable, "-c", PROGRAM.format(cleaning_s=0)], environment(mindx.state) | variables)
    terminal.expect("working")
    terminal.type("\x03")
    assert terminal.expect("mindx: stopping").endswith(f"{before}mindx: stopping")
    assert terminal.end() == 130
