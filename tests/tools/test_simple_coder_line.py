"""Lines that a person types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.tools.command_tool import CallError
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.simple_coder_line import parse_line


@pytest.mark.parametrize(
    ("line", "params"),
    [
        ("ls", {"command": "ls"}),
        (" ls 'a b' ", {"command": "ls", "path": "a b"}),
        ("run echo 'a  b' | cat", {"command": "run", "cmdline": "echo 'a  b' | cat"}),
        ("run", {"command": "run", "cmdline": ""}),
        ("write a.txt one two  'three  four'", {"command": "write", "path": "a.txt", "content": "one two three  four"}),
        ("write a.txt", {"command": "write", "path": "a.txt"}),
        ("env_set A=b c", {"command": "env_set", "name": "A", "value": "b c"}),
        ("env_set A b=c", {"command": "env_set", "name": "A", "value": "b=c"}),
        ("create_venv .venv", {"command": "create_venv", "venv_name": ".venv"}),
        ("help mkdir", {"command": "help", "topic": "mkdir"}),
        ("mkdr x", {"command": "mkdr"}),
        ("start python3 -m http.server  80", {"command": "start", "cmdline": "python3 -m http.server  80"}),
        ("poll job1", {"command": "poll", "job": "job1"}),
        ("logs job1 20", {"command": "logs", "job": "job1", "tail": 20}),
        ("logs job1 x", {"command": "logs", "job": "job1", "tail": "x"}),
        ("stop job1", {"command": "stop", "job": "job1"}),
        ("pty_open bash -i", {"command": "pty_open", "cmdline": "bash -i"}),
        (
            "pty_send job1 'a b' up,enter",
            {"command": "pty_send", "job": "job1", "text": "a b", "keys": ["up", "enter"]},
        ),
        ("pty_expect job1 '>>> ' 5", {"command": "pty_expect", "job": "job1", "text": ">>> ", "timeout_seconds": 5}),
        ("pty_resize job1 30 100", {"command": "pty_resize", "job": "job1", "rows": 30, "cols": 100}),
    ],
)
def test_lines(line: str, params: dict[str, str | int]) -> None:
    assert parse_line(line) == params


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "nothing is typed; `help` lists the commands"),
        ("cd a b", "`cd` has 2 arguments; it takes path; put a name with blanks in quotes"),
        ("env_list x", "`env_list` has 1 argument; it takes no arguments"),
        ("read 'x", "no closing quotation; close the quote"),
    ],
)
def test_lines_that_say_nothing(line: str, message: str) -> None:
    with pytest.raises(CallError) as caught:
        parse_line(line)
    assert caught.value.message == message


@given(st.text())
def test_any_line_gives_a_call_or_a_reason(line: str) -> None:
    try:
        SimpleCoder().validate(parse_line(line))
    except CallError as error:
        reason = error.message
        assert reason


def test_search_is_typed_with_a_word_for_names() -> None:
    assert parse_line("search 'two words'") == {"command": "search", "text": "two words"}
    assert parse_line("search x . true") == {"command": "search", "text": "x", "path": ".", "names": True}
