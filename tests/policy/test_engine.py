import math
from dataclasses import replace

import pytest

from mindx.core.command import Command, Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy, parse_policy

LS = Exec(("ls",))
PYTHON = Exec(("python3", "-c", "print(1)"))


def engine(text: str = "", *, autonomous: bool = False) -> PolicyEngine:
    text = text or "commands: [{allow: [ls, python, python3]}]"
    return PolicyEngine(parse_policy(f"version: 1\n{text}\n".encode(), source="t").policy, autonomous=autonomous)


@pytest.mark.parametrize("command", [LS, PYTHON, replace(LS, cwd="/workspace/src"), replace(LS, env={"A": "b"})])
def test_what_a_rule_allows_is_allowed(command: Command) -> None:
    verdict = engine().judge(command)
    assert verdict.allowed
    assert verdict.rule == "commands[0]"


def test_without_a_rule_the_denial_says_how_to_allow_it() -> None:
    verdict = engine().judge(Exec(("make", "all")))
    assert (verdict.decision, verdict.rule) == ("deny", "default")
    assert "- allow: make" in verdict.reason


@pytest.mark.parametrize("program", ["pip", "pip3"])
def test_pip_is_denied_by_default_and_the_denial_says_where_packages_come_from(program: str) -> None:
    verdict = PolicyEngine(load_policy().policy, autonomous=True).judge(Exec((program, "install", "httpx")))
    assert verdict.decision == "deny"
    assert "add packages of the distribution to the image" in verdict.reason


def test_the_strictest_of_two_rules_wins() -> None:
    judge = engine("commands: [{deny: ls, reason: no lists}, {allow: ls}, {ask: python3}]").judge
    assert (judge(LS).decision, judge(LS).reason) == ("deny", "no lists")
    assert judge(PYTHON).decision == "ask"
    assert not judge(PYTHON).allowed


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("",),
        ("/bin/ls",),
        ("./ls",),
        ("../ls",),
        ("-ls",),
        ("l s",),
        ("ls\n",),
        ("ls", "a\0b"),
        ("ls", "\ud800"),
        ("ls", "x" * (128 * 1024)),
        ("ls", *["x"] * 4096),
        ("ls", *["x" * 100_000] * 11),
        ("LS",),
    ],
)
def test_a_program_is_a_bare_name_and_its_arguments_have_limits(argv: tuple[str, ...]) -> None:
    assert engine().judge(Exec(argv)).decision == "deny"


@pytest.mark.parametrize(
    ("opens", "middle", "closes"),
    [("( ", "a", " )"), ("! ", "a", ""), ("a && ", "a", ""), ("( ! ", "a", " )")],
)
def test_a_test_nested_without_end_is_denied(opens: str, middle: str, closes: str) -> None:
    judge = engine("commands:\n  - allow: bash\n")
    line = f"[[ {opens * 2000}{middle}{closes * 2000} ]]"
    assert judge.judge(Exec(("bash", "-c", line))).rule == "shell"
    assert judge.judge(Exec(("bash", "-c", f"[[ {opens * 20}{middle}{closes * 20} ]]"))).allowed


@pytest.mark.parametrize(
    "script", ["1" + " " * 120_000 + "z", "s/" + "[a]" * 40_000, "1,2 " * 30_000, "/" + "a" * 120_000]
)
def test_a_long_script_for_sed_is_judged_at_once(script: str) -> None:
    judge = engine("commands:\n  - allow: sed\n    at_most: read-only\n")
    assert not judge.judge(Exec(("sed", script, "f"))).allowed


@pytest.mark.parametrize("cwd", ["/", "/etc", "src", "", "/workspace/../etc", "/workspace-evil", "/workspace/"])
def test_the_working_directory_is_under_the_workspace(cwd: str) -> None:
    assert engine().judge(replace(LS, cwd=cwd)).rule == "paths"


@pytest.mark.parametrize("timeout_s", [None, 61.0, math.inf, math.nan, 0.0, -1.0])
def test_a_longer_deadline_than_the_policy_gives_is_denied_by_name(timeout_s: float | None) -> None:
    verdict = engine().judge(replace(LS, timeout_s=timeout_s))
    assert verdict.rule == "limits.command_timeout"
    assert "command_timeout of 1m" in verdict.reason
    assert engine("limits: {command_timeout: 2m}\ncommands: [{allow: ls}]").judge(replace(LS, timeout_s=61.0)).allowed


@pytest.mark.parametrize("size", [1024 * 1024 + 1, -1])
def test_more_output_than_the_policy_gives_is_denied_by_name(size: int) -> None:
    verdict = engine().judge(replace(LS, max_output_bytes=size))
    assert verdict.rule == "limits.output"
    assert "1MiB" in verdict.reason


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "A B", "A\n", "Ä", "x" * 256])
def test_environment_names_are_plain(name: str) -> None:
    assert engine().judge(replace(LS, env={name: "1"})).rule == "arguments"


@pytest.mark.parametrize("name", ["LD_PRELOAD", "BASH_ENV", "GIT_SSH_COMMAND", "TAR_OPTIONS", "PAGER", "BASH_FUNC_ls"])
def test_variables_that_run_other_code_are_refused(name: str) -> None:
    verdict = engine().judge(replace(LS, env={name: "x"}))
    assert verdict.decision == "deny"
    assert name in verdict.reason


@pytest.mark.parametrize(
    ("path", "fine"),
    [
        ("/usr/bin:/bin", True),
        ("/workspace/app/.venv/bin:/usr/local/bin:/usr/bin", True),
        ("/workspace/bin", False),
        (".:/bin", False),
        ("/bin:", False),
        ("/workspace/../tmp/bin", False),
        ("/tmp/bin", False),
        ("/workspace/src", False),
    ],
)
def test_the_search_path_holds_system_folders_and_virtual_environments(path: str, fine: bool) -> None:
    assert engine().judge(replace(LS, env={"PATH": path})).allowed is fine


def test_the_environment_and_standard_input_have_limits() -> None:
    assert not engine().judge(replace(LS, env={f"V{i}": "" for i in range(257)})).allowed
    assert not engine().judge(replace(LS, env={f"V{i}": "x" * 100_000 for i in range(3)})).allowed
    assert not engine().judge(replace(LS, env={"A": "x" * 131_070})).allowed
    assert not engine().judge(replace(LS, env={"A": "x\0"})).allowed
    assert not engine().judge(replace(LS, stdin=bytes(64 * 1024 * 1024 + 1))).allowed
    assert engine().judge(replace(LS, stdin=bytes(1024), env={"A": "x" * 100_000})).allowed


@pytest.mark.parametrize(
    ("executable", "fine"),
    [
        ("/workspace/.venv/bin/python3", True),
        ("/workspace/a/b/bin/python3", True),
        ("/workspace/.venv/bin/python", False),  # not the name in argv
        ("/workspace/.venv/python3", False),
        ("/workspace/.venv/bin/../python3", False),
        ("/usr/bin/python3", False),
        ("python3", False),
        ("", False),
    ],
)
def test_an_executable_is_the_interpreter_of_a_virtual_environment(executable: str, fine: bool) -> None:
    assert engine().judge(replace(PYTHON, executable=executable)).allowed is fine


def test_the_rule_for_the_name_holds_for_the_executable_too() -> None:
    pip = Exec(("pip", "--version"), executable="/workspace/.venv/bin/pip")
    assert engine().judge(pip).rule == "default"
    assert engine("commands: [{allow: pip}]").judge(pip).allowed
    assert not engine().judge(Exec(("ls",), executable="/workspace/.venv/bin/ls")).allowed


@pytest.mark.parametrize(
    "path", ["a", "/etc/passwd", "/workspace/../x", "/workspace/a/", "/workspace//a", "", "\ud800"]
)
def test_file_commands_are_judged_again_whoever_asks(path: str) -> None:
    judge = engine(autonomous=True).judge
    for command in (ReadFile(path), WriteFile(path, b""), ListDir(path), MakeDir(path), Remove(path), Stat(path)):
        assert judge(command).rule == "paths"
        assert not judge(command).allowed


def test_file_commands_under_the_workspace_are_allowed() -> None:
    path = "/workspace/a"
    for command in (
        ReadFile(path),
        WriteFile(path, b""),
        ListDir(path),
        MakeDir(path),
        Stat(path),
        ListDir("/workspace"),
    ):
        assert engine().judge(command).allowed


def test_file_commands_have_limits() -> None:
    judge = engine(autonomous=True).judge
    assert not judge(WriteFile("/workspace", b"")).allowed
    assert not judge(MakeDir("/workspace")).allowed
    assert not judge(Remove("/workspace")).allowed
    assert not judge(WriteFile("/workspace/a", b"", mode=0o4755)).allowed
    assert not judge(WriteFile("/workspace/a", b"", mode=-1)).allowed
    assert judge(WriteFile("/workspace/a", b"", mode=0o755)).allowed
    assert not judge(ReadFile("/workspace/a", max_bytes=1 << 40)).allowed
    assert not judge(ReadFile("/workspace/a", max_bytes=-1)).allowed


@pytest.mark.parametrize(
    ("key", "flag", "fine"),
    [
        ("flag", False, False),
        ("flag", True, True),
        ("never", True, False),
        ("never", False, False),
        ("always", False, True),
        ("always", True, True),
    ],
)
def test_removing_needs_what_only_the_operator_grants(key: str, flag: bool, fine: bool) -> None:
    verdict = engine(f"autonomous: {key}", autonomous=flag).judge(Remove("/workspace/a"))
    assert verdict.allowed is fine
    assert fine or "only the operator grants it" in verdict.reason
