"""The examples of agents run offline and print what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "agents"
TALK = "write hello\nn\nnow do\ny\ny\n/clear\nwhat did we do?\n/exit\n"


def output(name, stdin="", stderr=""):
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"], input=stdin, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(stderr) if stderr else not done.stderr
    return done.stdout.splitlines()


def test_the_tool_agent():
    assert output("tool_agent") == ["action_1_1 SUCCESS", "action_2_1 SUCCESS", "Twelve pears cost 9.00."]


def test_the_bounded_agents():
    assert output("bounded_multi_agent") == [
        "Rain in the north, sun in the south.",
        "chief -> ['north', 'south']",
        "My chief may ask nobody. deepest: 2",
        "{'first': 'completed', 'then': 'completed'}",
        "all ended: True",
    ]


def test_the_agents_in_processes():
    answer, *log = output("agents_in_processes", stderr="the worker of the task")
    assert (answer, log) == ("reader: read in another process; crasher: worker_failed", [])


def test_the_clean_up():
    assert output("resource_cleanup") == [
        "session: closed runs left: 0 clean: True",
        "refused: runtime_closed",
        "the model is still the caller's",
        "the model is closed",
        "background task: cancelled",
        "the worker's model is closed",
    ]


@pytest.mark.usefixtures("derived_image")
def test_the_file_tools():
    assert output("file_tools") == [
        "found [{'path': 'app.py', 'line': 2, 'text': '    return 41'}]",
        "ran 42",
        "answer() returns 42 now.",
        "on the host it is still 41",
    ]


@pytest.mark.usefixtures("derived_image")
def test_the_coding_loop_asks_before_it_writes_and_forgets():
    lines = output("coding_loop", TALK)
    assert [line.rpartition(": ")[2] for line in lines if "y or n?" in line] == ["y or n? n", "y or n? y", "y or n? y"]
    assert [line for line in lines if line.endswith("messages)") or line == "forgotten"] == [
        "I did not write it, as you said. (2 messages)",
        "hello.py prints hello. (4 messages)",
        "forgotten",
        "We have just begun. (2 messages)",
    ]


def test_no_example_is_left_out():
    here = Path(__file__).read_text()
    assert [path.stem for path in FOLDER.glob("*.py") if f'output("{path.stem}"' not in here] == []
