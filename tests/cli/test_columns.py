"""Lists: the name in the first column can be typed again however narrow the terminal is, and a pipe gets all."""

from __future__ import annotations

import sys

import click
import pytest

from mindx.agents.beliefs import BeliefSource, BeliefSystem
from mindx.agents.beliefs.system import BELIEFS_FILE
from mindx.cli.columns import print_columns
from tests.workspace.terminal import MINDX, Terminal, environment

NAME = "mission_0123456789abcd"
ROWS = [
    {"name": NAME, "begun": "2026-01-31T12:00:00Z", "state": "completed", "what": "Look at the tests " * 4},
    {"name": "mission_2", "begun": "2026-01-31T12:00:00Z", "state": "cut off", "what": "\u6f22\u5b57" * 30},
]


@pytest.fixture
def listed(monkeypatch, capsys):
    """Return the lines that a terminal so wide shows; None is a pipe."""

    def listed(width, rows=ROWS):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: width is not None, raising=False)
        monkeypatch.setenv("COLUMNS", str(width or 10))
        print_columns(rows, gives_way=("begun", "state"), prose="what")
        return capsys.readouterr().out.splitlines()

    return listed


@pytest.mark.parametrize("width", [*range(24, 140, 4), 60, 80])
def test_names_are_whole_and_lines_fit(listed, width):
    from rich.cells import cell_len

    lines = listed(width)
    assert [line.split("  ")[0] for line in lines] == [NAME, "mission_2"]
    assert max(map(cell_len, lines)) <= width


def test_prose_gives_way_first_then_the_columns_in_their_order(listed):
    assert [("2026-" in listed(width)[0], "completed" in listed(width)[0]) for width in (80, 60, 34)] == [
        (True, True),
        (False, True),
        (False, False),
    ]
    assert listed(80)[0].endswith("...")
    assert listed(60)[0].endswith("Look at the tests Look...")


def test_a_pipe_gets_all_of_it(listed):
    assert listed(None)[0] == "  ".join(ROWS[0].values()).rstrip()


def test_one_very_long_name_takes_a_line_of_its_own(listed):
    long = {**ROWS[0], "name": "n" * 100}
    first, rest, second = listed(60, [long, ROWS[1]])
    assert (first, rest.split()[0], second.split()[0]) == ("n" * 100, "2026-01-31T12:00:00Z", "mission_2")


def test_a_belief_can_be_named_from_a_narrow_terminal(mindx):
    (mindx.state / "mind").mkdir(parents=True)
    key = "what.the.user.likes.best.of.all"
    with BeliefSystem(mindx.state / "mind" / BELIEFS_FILE) as beliefs:
        beliefs.add(key, "tea " * 30, confidence=0.9, source=BeliefSource.INFERENCE, namespace="bdi.agent")
    env = environment(mindx.state) | {"COLUMNS": "60", "NO_COLOR": "1"}
    terminal = Terminal([*MINDX, "beliefs", "list"], env)
    assert terminal.end() == 0
    name, rest = click.unstyle(terminal.shown).replace("\r", "").splitlines()
    assert name == f"bdi.agent/{key}"
    assert rest.split()[:3] == ["0.90", "inference", '"tea']
    assert len(rest) <= 60
