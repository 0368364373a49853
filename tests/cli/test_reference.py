"""docs/cli.md is what the commands say of themselves; the completion scripts complete."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_reference_is_what_the_commands_say():
    done = subprocess.run([sys.executable, "scripts/cli_reference.py", "--check"], cwd=ROOT)
    assert done.returncode == 0, "docs/cli.md is not up to date: run `.venv/bin/python scripts/cli_reference.py`"


@pytest.mark.parametrize(
    ("words", "current", "expected"),
    [
        ("mindx d", "1", {"doctor"}),
        ("mindx runs s", "2", {"show"}),
        ("mindx completion ", "2", {"bash", "zsh", "fish"}),
        ("mindx run --keep", "2", {"--keep-going"}),
        ("mindx run pl", "2", {"pl"}),  # the shell completes the name of a file
        ("mindx exec --policy re", "3", {"read-only"}),
        ("mindx exec --policy ./m", "3", {"./m"}),
        ("mindx changes show la", "3", {"last"}),
    ],
)
def test_words_are_completed(mindx, words, current, expected):
    environ = {"_MINDX_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": current}
    done = mindx(env=environ)
    assert done.code == 0
    assert {line.split(",")[1] for line in done.out.splitlines()} == expected


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete -o"), ("zsh", "#compdef mindx"), ("fish", "complete ")])
def test_each_shell_has_its_script(mindx, shell, word):
    done = mindx("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert word in done.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.stdout, check=True)


def test_bash_completes_with_the_script(mindx, tmp_path):
    """As a user has it: the script is sourced, and bash asks the program."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "mindx"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mindx.cli.main "$@"\n')
    program.chmod(0o755)
    script = mindx("completion", "bash").out
    (tmp_path / "script").write_text(script)
    story = (
        f'source {tmp_path}/script; COMP_WORDS=(mindx doc); COMP_CWORD=1; _mindx_completion mindx; echo "$COMPREPLY"'
    )
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", story], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "doctor", done.stderr
