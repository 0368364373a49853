"""SimpleCoder's calls: each command takes its own arguments, and a wrong call names all that is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mindx.tools.command_tool import CallError, ParamFault
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.simple_coder_args import COMMANDS, Call, Ls, Run
from mindx.tools.simple_coder_fields import MAX_CONTENT_BYTES, MAX_WORD_BYTES

VALIDATE = SimpleCoder().validate


def faults(**params: Any) -> list[ParamFault]:
    with pytest.raises(CallError) as caught:
        VALIDATE(params)
    return list(caught.value.faults)


def test_all_commands_of_the_documents_are_there() -> None:
    wanted = "ls cd read write mkdir rm run create_venv activate_venv deactivate_venv toggle_autonomous_mode help"
    assert set(COMMANDS) == {
        *wanted.split(),
        "env_set",
        "env_unset",
        "env_list",
        "start",
        "poll",
        "logs",
        "stop",
        "pty_open",
        "pty_send",
        "pty_expect",
        "pty_resize",
        "pty_close",
        "search",
    }


def test_each_model_is_closed_frozen_and_says_what_its_arguments_are() -> None:
    for model in COMMANDS.values():
        assert model.model_config["extra"] == "forbid"
        assert model.model_config["frozen"]
        assert model.summary().endswith((".", ")."))
        assert all(field.description for field in model.model_fields.values())
    call = VALIDATE({"command": "ls"})
    assert call == Ls(path=".")
    with pytest.raises(ValidationError):
        call.path = "x"  # type: ignore[attr-defined]


def test_an_unknown_command_names_the_one_that_may_be_meant_and_all_others() -> None:
    (fault,) = faults(command="mkdr", path="x")
    assert fault.message == "unknown command `mkdr`, did you mean `mkdir`?"
    assert fault.suggestion == f"the commands are {', '.join(sorted(COMMANDS))}"
    assert fault.path == ".command"
    assert faults(command="format_disk")[0].message == "unknown command `format_disk`"


def test_all_that_is_wrong_with_the_arguments_is_named_at_once() -> None:
    assert faults(command="write", pth="x", content=1) == [
        ParamFault("", "`path` is missing", 'add "path": "..."'),
        ParamFault(".content", "`content` is text, not a number"),
        ParamFault(".pth", "unknown parameter `pth`", "did you mean `path`?"),
    ]
    assert faults(command="env_list", all=True) == [
        ParamFault(".all", "unknown parameter `all`", "it takes no parameters")
    ]
    assert faults(command="run", argv=["a", 3, "b\0"]) == [
        ParamFault(".argv[1]", "`argv[1]` is text, not a number"),
        ParamFault(".argv[2]", "`argv[2]` holds a NUL byte, which no argument can"),
    ]
    assert faults() == [ParamFault("", "`command` is missing", f"one of {', '.join(COMMANDS)}")]


def test_a_path_outside_is_named_beside_what_else_is_wrong() -> None:
    found = faults(command="read", pth="x", path="/etc/passwd")
    assert [fault.path for fault in found] == [".pth", ".path"]
    assert "'/etc/passwd' is outside the workspace" in found[1].message
    assert [fault.path for fault in faults(command="write", path="/workspace/x", content=5)] == [".content"]
    assert [fault.path for fault in faults(command="write", path=5, content=5)] == [".path", ".content"]


@pytest.mark.parametrize("params", [{}, {"argv": ["a"], "cmdline": "a"}])
def test_run_takes_exactly_one_of_argv_and_cmdline(params: dict[str, Any]) -> None:
    (fault,) = faults(command="run", **params)
    assert "exactly one of `argv`, `cmdline` and `shell`" in fault.message


@pytest.mark.parametrize(
    ("params", "path", "message"),
    [
        ({"argv": []}, ".argv", "`argv` names no program"),
        ({"argv": [""]}, ".argv", "`argv` names no program"),
        ({"argv": "ls -l"}, ".argv", "`argv` is a list, not text"),
        ({"cmdline": ""}, ".cmdline", "the command line is empty"),
        ({"cmdline": "a | b"}, ".cmdline", "`|` feeds one program into another"),
        ({"argv": ["./x.sh"]}, ".argv", "`./x.sh` is a path; a program is called by its name"),
        ({"cmdline": "/usr/bin/python3 x"}, ".cmdline", "is a path"),
        ({"cmdline": ".venv/bin/pip install x"}, ".cmdline", "is a path"),
        ({"argv": ["a", "\ud800"]}, ".argv[1]", "half of a surrogate pair"),
        ({"argv": ["a", "x" * (MAX_WORD_BYTES + 1)]}, ".argv[1]", "at most 131,071"),
        ({"cmdline": "a " + "x" * (MAX_WORD_BYTES + 1)}, ".cmdline", "more than 131,071 bytes"),
        ({"argv": ["a"] * 200_000}, ".argv", "more than 1,048,576 bytes"),
        ({"argv": ["a"], "timeout_seconds": 0}, ".timeout_seconds", "more than 0"),
        ({"argv": ["a"], "timeout_seconds": float("nan")}, ".timeout_seconds", "not nan"),
        ({"argv": ["a"], "timeout_seconds": 1e9}, ".timeout_seconds", "at most 86,400"),
        ({"argv": ["a"], "timeout_seconds": True}, ".timeout_seconds", "a number, not true or false"),
        ({"argv": ["a"], "timeout_seconds": "5"}, ".timeout_seconds", "a number, not text"),
    ],
)
def test_run_refuses(params: dict[str, Any], path: str, message: str) -> None:
    (fault,) = faults(command="run", **params)
    assert fault.path == path
    assert message in fault.message


@pytest.mark.parametrize(
    ("line", "suggestion"), [("ls -l a.b", 'write ["ls", "-l", "a.b"]'), ("echo 'a b'", ""), ("a | b", ""), ("", "")]
)
def test_a_line_in_the_place_of_words_is_taken_apart_only_when_it_is_plain(line: str, suggestion: str) -> None:
    (fault,) = faults(command="run", argv=line)
    assert fault.suggestion == suggestion


def test_run_accepts() -> None:
    call = VALIDATE({"command": "run", "cmdline": "python3 -c 'print(1)'", "timeout_seconds": 5, "stdin": "x"})
    assert isinstance(call, Run)
    assert call.words == ("python3", "-c", "print(1)")
    assert call.timeout_seconds == 5.0
    assert VALIDATE({"command": "run", "argv": ("a", "|")}) == Run(argv=("a", "|"))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "../x", "a\n", "a" * 101])
def test_names_that_no_virtual_environment_has(name: str) -> None:
    for command in ("create_venv", "activate_venv"):
        (fault,) = faults(command=command, venv_name=name)
        assert fault.path == ".venv_name"
        assert fault.suggestion.endswith("such as `.venv`")


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "PATH", "PYTHONHOME", "BASH_ENV", "GIT_SSH_COMMAND", "VIRTUAL_ENV", "HOME"]
)
def test_variables_that_change_what_runs_are_reserved(name: str) -> None:
    (fault,) = faults(command="env_set", name=name, value="x")
    assert f"is `{name}`, which is reserved" in fault.message


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "Ä", "A\n", "A" * 101])
def test_names_that_no_variable_has(name: str) -> None:
    assert [fault.path for fault in faults(command="env_set", name=name, value="x")] == [".name"]


def test_variables_that_may_be_set() -> None:
    for name in ("DEBUG", "_x1", "PYTHONPATH", "LDFLAGS", "PATHS"):
        VALIDATE({"command": "env_set", "name": name, "value": "a b\n"})
    assert "holds a NUL" in faults(command="env_set", name="A", value="\0")[0].message
    assert "at most 32,768" in faults(command="env_set", name="A", value="x" * 40_000)[0].message


def test_a_write_of_16_mib_fits_and_not_a_byte_more() -> None:
    VALIDATE({"command": "write", "path": "x", "content": "\0" * MAX_CONTENT_BYTES})
    (fault,) = faults(command="write", path="x", content="ä" * (MAX_CONTENT_BYTES // 2) + "a")
    assert "16,777,217 bytes" in fault.message


@given(
    st.dictionaries(
        st.sampled_from(["command", "path", "argv", "cmdline", "name", "value", "content", "x"]),
        st.sampled_from([*COMMANDS, "", 1, None, True, [], ["a"], {"a": 1}, "\ud800", "a|b", 1.5]),
    )
)
def test_any_params_give_a_call_or_faults(params: dict[str, Any]) -> None:
    try:
        call = VALIDATE(params)
    except CallError as error:
        call, reasons = None, [fault.message for fault in error.faults]
        assert all(reasons)
    assert isinstance(call, Call) or reasons


def test_a_shell_line_is_bash_with_pipefail():
    call = SimpleCoder().validate({"command": "run", "shell": "ls | wc -l"})
    assert call.words == ("bash", "-o", "pipefail", "-c", "ls | wc -l")
    assert call.subject == ".shell"
