import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from mindx.cli.policy import command as policy_command
from mindx.cli.policy_runs import commands_of, fitted
from mindx.cli.trust import command as trust_command
from mindx.core.command import Exec, ReadFile, WriteFile
from mindx.core.data_files import data_path
from mindx.core.folders import state_dir
from mindx.core.table import keys_of, written_name
from mindx.errors import InputError
from mindx.policy.document import read_document
from mindx.policy.layers import PROJECT_FILE
from mindx.policy.load import PRESETS, load_policy, parse_policy
from mindx.policy.model import Approvals, Limits, Policy, Rule, WorkspaceRules
from mindx.policy.text import as_yaml, json_schema
from mindx.trace.recorder import Recorder
from mindx.trace.run_folder import RunFolder, RunStore


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MINDX_CONFIG_DIR", str(tmp_path / "config"))


def run(*arguments: str, verb: Any = policy_command) -> Result:
    return CliRunner().invoke(verb, list(arguments), standalone_mode=False)


def code(result: Result) -> int:
    assert result.exception is None, result.exception
    return int(result.return_value or 0)


def document(*arguments: str) -> dict[str, Any]:
    result = run(arguments[0], "--json", *arguments[1:])
    assert result.exception is None
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["schema_version"] == 1
    return found


def policy_file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "p.yaml"
    path.write_text(f"version: 1\n{text}\n")
    path.chmod(0o600)
    return str(path)


def test_the_schema_accepts_every_preset_and_refuses_what_the_loader_refuses() -> None:
    schema = json.loads(run("schema").stdout)
    Draft202012Validator.check_schema(schema)
    assert schema == json.loads(json.dumps(json_schema()))
    validator = Draft202012Validator(schema)
    for name in PRESETS:
        value = typed(read_document(data_path("policies", f"{name}.yaml").read_bytes()).value)
        assert list(validator.iter_errors(value)) == []
    wrong_ones: tuple[dict[str, Any], ...] = (
        {},
        {"version": 2},
        {"version": 1, "x": 1},
        {"version": 1, "limits": {"memory": "1g"}},
        {"version": 1, "limits": {"pids": 1}},
        {"version": 1, "commands": [{"allow": "ls", "deny": "ls"}]},
    )
    for wrong in wrong_ones:
        assert list(validator.iter_errors(wrong))


def typed(value: Any) -> Any:
    """Return the loader's text values as a YAML reader for schemas gives them."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return int(value) if isinstance(value, str) and value.isdigit() else value


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_shown_loads_again_as_the_same_policy(name: str) -> None:
    shown = run("show", "--policy", name).stdout
    loaded = load_policy(name)
    again = parse_policy(shown.encode(), source="shown").policy
    assert again.limits == loaded.policy.limits
    assert [(r.texts, r.decision, r.ceiling) for r in again.commands] == [
        (r.texts, r.decision, r.ceiling) for r in loaded.policy.commands
    ]
    assert f"# sha256: {loaded.sha256}" in shown
    assert as_yaml(again) == as_yaml(loaded.policy)


def test_show_names_the_layer_of_each_key(tmp_path: Path) -> None:
    write_project(tmp_path, "limits: {pids: 33}\ncommands: [{deny: git push}]")
    text = run("show", "--workspace", str(tmp_path), "--origin").stdout
    assert "pids: 33  # project" in text
    assert "memory: 1GiB  # preset" in text
    assert "nofile: 1024  # built-in" in text
    assert "not trusted: it can only tighten" in text
    assert document("show", "--workspace", str(tmp_path))["origin"]["limits.pids"] == "project"


def write_project(folder: Path, text: str) -> None:
    path = folder / PROJECT_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"version: 1\n{text}\n")
    path.chmod(0o600)


def test_trust_and_forget(tmp_path: Path) -> None:
    write_project(tmp_path, "commands: [{allow: make}]")
    explain = ("explain", "--workspace", str(tmp_path), "--", "make")
    assert code(run(*explain)) == 3
    assert "trusted while its content is sha256:" in run(str(tmp_path), verb=trust_command).stdout
    assert code(run(*explain)) == 0
    run("--forget", str(tmp_path), verb=trust_command)
    assert code(run(*explain)) == 3


def test_check_tells_warnings_and_with_strict_exits_1(tmp_path: Path) -> None:
    path = policy_file(tmp_path, "commands: [{allow: ls}, {deny: ls}]")
    result = run("check", path)
    assert code(result) == 0
    assert "commands[0]: shadowed" in result.stderr
    assert code(run("check", "--strict", path)) == 1
    assert document("check", path)["warnings"][0]["kind"] == "shadowed"
    assert code(run("check", "--strict", "default")) == 0


def test_check_tells_every_fault_with_its_place(tmp_path: Path) -> None:
    error = run("check", policy_file(tmp_path, "limts: {}\ncommands: [{alow: ls}]")).exception
    assert isinstance(error, InputError)
    assert "p.yaml:2:1" in error.message
    assert "p.yaml:3:13" in error.message
    assert error.exit_code == 2


def test_explain_shows_verdict_rule_reason_layer_and_what_is_inside(tmp_path: Path) -> None:
    path = policy_file(tmp_path, "commands: [{allow: [env, ls]}, {ask: git push, reason: it leaves}]")
    result = run("explain", "--policy", path, "--", "env", "rm", "-r", "x")
    assert code(result) == 3
    assert "deny: in env: no rule allows rm" in result.stdout
    assert "rule: default (command line), risk: dangerous" not in result.stdout  # rm writes, no more
    assert "rule: default (command line), risk: write" in result.stdout
    found = document("explain", "--policy", path, "--", "git", "push")
    assert (found["verdict"], found["rule"], found["reason"]) == ("ask", "commands[1]", "it leaves")
    assert (found["layer"], found["risk"]) == ("command line", "dangerous")


def test_explain_takes_a_line_apart(tmp_path: Path) -> None:
    path = policy_file(tmp_path, "commands: [{allow: [bash, ls]}]")
    found = document("explain", "--policy", path, "--line", "ls | rm x")
    assert found["verdict"] == "deny"
    assert [step["argv"][0] for step in found["steps"]] == ["bash", "ls", "rm"]
    assert run("explain", "--policy", path).exception is not None
    assert run("explain", "--policy", path, "--line", "ls", "--", "ls").exception is not None


def test_the_examples_are_tried_against_the_whole_policy(tmp_path: Path) -> None:
    path = policy_file(
        tmp_path, "commands: [{allow: git, match: [git log, git push]}, {deny: git push, match: git push}]"
    )
    result = run("test", path)
    assert code(result) == 1
    assert "commands[0]: git push: expected allow, got deny by commands[1]" in result.stderr
    assert "as expected: 2 of 3 examples." in result.stdout
    assert code(run("test", "read-only")) == 0


def recorded(events: list[tuple[str, dict[str, Any]]], result: dict[str, Any], plan: Any = None) -> RunFolder:
    folder = RunStore(state_dir() / "runs").create()
    with Recorder(folder.trace_path) as recorder:
        for kind, data in events:
            recorder.record(kind, **data)
    folder.write("result.json", json.dumps(result).encode())
    if plan is not None:
        folder.write("plan.json", json.dumps(plan).encode())
    return folder


def test_replay_finds_what_would_change_and_exits_1_if_any_is_looser(tmp_path: Path) -> None:
    recorded(
        [
            ("exec", {"argv": ["ls"], "cwd": "/workspace", "exit_code": 0}),
            ("exec", {"argv": ["make"], "cwd": "/workspace", "error": {"code": "denied_by_policy", "message": "no"}}),
            ("write_file", {"path": "/workspace/a", "bytes": 1}),
            ("read_file", {"path": "/workspace/a", "bytes": 1}),
        ],
        {"outcome": "completed", "steps": []},
    )
    stricter = policy_file(tmp_path, "commands: [{allow: cat}]")
    result = run("replay", "--policy", stricter, "last")
    assert code(result) == 0
    assert "stricter" in result.stdout
    assert "4 actions, 1 would change, 0 of them looser." in result.stdout
    looser = policy_file(tmp_path, "commands: [{allow: [ls, make]}]")
    assert code(run("replay", "--policy", looser, "last")) == 1
    found = document("replay", "--policy", looser, "last")
    assert [(row["argv"], row["before"], row["after"], row["looser"]) for row in found["changed"]] == [
        (["make"], "deny", "allow", True)
    ]


@pytest.mark.parametrize(
    "data",
    [
        {"argv": ["ls"], "stdin_bytes": 3},
        {"argv": ["ls", "x" * 20_000]},
        {"argv": ["ls", *["x"] * 1001]},
        {"argv": ["ls"], "env": {"API_TOKEN": "hidden"}},
        {"argv": ["ls"], "env": {f"A{number}": "x" for number in range(1001)}},
    ],
)
def test_what_a_trace_does_not_hold_is_unknown_and_never_allowed(tmp_path: Path, data: dict[str, Any]) -> None:
    denied = {"error": {"code": "denied_by_policy", "message": "no"}}
    recorded([("exec", {"cwd": "/workspace", **data, **denied})], {"outcome": "completed", "steps": []})
    policy = policy_file(tmp_path, "commands: [{allow: ls}]")
    result = run("replay", "--policy", policy, "last")
    assert code(result) == 1
    assert result.stdout.startswith("unknown ")
    assert "1 action, 0 would change, 0 of them looser. 1 cannot be told." in result.stdout
    found = document("replay", "--policy", policy, "last")
    assert (found["looser"], found["unknown"]) == (0, 1)
    assert [(row["before"], row["after"], row["looser"]) for row in found["changed"]] == [("deny", "unknown", False)]
    suggested = run("suggest", "--policy", policy_file(tmp_path, "commands: [{allow: cat}]"), "last")
    assert "allow: " not in suggested.stdout
    assert "left out: 1 action whose record" in suggested.stderr


def test_a_plan_that_was_refused_is_replayed_and_suggested_for_too(tmp_path: Path) -> None:
    plan = [
        {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "argv": ["make", "all"]}},
        {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "read", "path": "a"}},
    ]
    steps = [{"index": 0, "status": "DENIED"}, {"index": 1, "status": "SKIPPED"}]
    folder = recorded([], {"outcome": "denied", "steps": steps}, plan)
    commands = list(commands_of(folder))
    assert [(type(c), before) for c, before, _ in commands] == [(Exec, "deny"), (ReadFile, "allow")]
    assert '- allow: "make all"' in run("suggest", "--policy", "default", "last").stdout
    found = document("suggest", "--policy", "default", folder.run_id)
    assert found["rules"][0]["evidence"] == [f"{folder.run_id}: make all"]


def test_rules_are_suggested_beside_the_policy_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = [{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "argv": ["make", "all"]}}]
    recorded([], {"outcome": "denied", "steps": [{"index": 0, "status": "DENIED"}]}, plan)
    monkeypatch.setenv("MINDX_POLICY", policy_file(tmp_path, "commands: [{allow: make}]"))
    assert "allow: " not in run("suggest", "last").stdout
    assert '- allow: "make all"' in run("suggest", "--policy", "default", "last").stdout


def test_commands_of_a_run_keep_what_decided(tmp_path: Path) -> None:
    folder = recorded(
        [
            (
                "exec",
                {
                    "argv": ["python3"],
                    "cwd": "/workspace/a",
                    "env": {"A": "b"},
                    "executable": "/workspace/v/bin/python3",
                },
            ),
            ("write_file", {"path": "/workspace/a", "bytes": 1}),
            ("exec", {"argv": "not a list"}),
            ("unknown", {"path": "/workspace"}),
        ],
        {"outcome": "completed", "steps": []},
    )
    first, second = [command for command, _, _ in commands_of(folder)]
    assert first == Exec(("python3",), cwd="/workspace/a", env={"A": "b"}, executable="/workspace/v/bin/python3")
    assert isinstance(second, WriteFile)


def test_an_unknown_run_is_told() -> None:
    assert isinstance(run("suggest", "nothing").exception, InputError)


def test_the_documentation_names_every_key() -> None:
    text = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
    named = {word.rpartition(".")[2] for word in re.findall(r"`([a-z_.]+)`", text)}
    tables = (Policy, Limits, WorkspaceRules, Approvals, Rule)
    keys = {written_name(item) for table in tables for item in keys_of(table)}
    assert keys - {"limits", "workspace", "approvals"} <= named
    for preset in PRESETS:
        assert f"**{preset}**" in text


def test_the_input_of_a_refused_plan_is_judged_again() -> None:
    command = fitted(Exec(("bash",), stdin=b"rm x\n", timeout_s=999.0), Limits())
    assert (command.stdin, command.timeout_s) == (b"rm x\n", Limits().command_timeout_s)
