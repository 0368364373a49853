"""Vetting: a whole plan is judged before a container exists, and every fault is named at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mindx.core.command import Command, Exec, MakeDir, Stat, WriteFile
from mindx.core.plan import parse_plan
from mindx.core.verdict import Verdict
from mindx.errors import InputError
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.vet import VettedPlan, vet

ROOT = Path(__file__).parent.parent
REGISTRY = ToolRegistry([SimpleCoder()])


def vetted(source: str | bytes, *, autonomous: bool = False) -> VettedPlan:
    judge = PolicyEngine(load_policy().policy, autonomous=autonomous).judge
    return vet(parse_plan(source), REGISTRY, judge, autonomous)


def plan_of(*calls: dict[str, Any]) -> str:
    return json.dumps([{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", **call}} for call in calls])


def test_the_seeds_worked_example_lists_ten_steps_and_says_what_is_denied_and_why() -> None:
    plan = vetted((ROOT / "data/seed_api_client.json").read_bytes())
    assert [step.command for step in plan.steps] == (
        ["mkdir", "cd", "", "create_venv", "activate_venv", "", "run", "", "write", "run"]
    )
    (denied,) = [fault for fault in plan.faults if fault.kind == "denied"]
    assert (denied.path, denied.line) == ("$[6].params.cmdline", 8)
    assert denied.message.startswith("policy rule ")
    assert "pip" in denied.message
    assert [step.index for step in plan.steps if step.verdict and not step.verdict.allowed] == [6]
    assert denied in plan.steps[6].faults
    assert (plan.invalid, plan.denied, plan.ok) == (False, True, False)


def test_the_seeds_worked_example_is_lowered_with_the_state_that_each_step_leaves() -> None:
    steps = vetted((ROOT / "data/seed_api_client.json").read_bytes()).steps
    assert steps[0].commands == (MakeDir("/workspace/api_client"),)
    assert [type(command) for command in steps[3].commands] == [Stat, Exec]
    assert isinstance(steps[8].commands[0], WriteFile)
    assert steps[8].commands[0].path == "/workspace/api_client/main.py"
    run = steps[9].commands[0]
    assert isinstance(run, Exec)
    assert run.argv == ("python", "main.py")
    assert run.cwd == "/workspace/api_client"
    assert run.executable == "/workspace/api_client/.venv/bin/python"
    assert run.env["VIRTUAL_ENV"] == "/workspace/api_client/.venv"


def test_a_plan_that_tries_to_get_out_has_every_fault_named() -> None:
    plan = vetted((ROOT / "data/hostile_mixed.json").read_bytes())
    assert [(fault.path, fault.line, fault.kind) for fault in plan.faults] == [
        ("$[1].params.path", 3, "invalid"),
        ("$[2].params.path", 4, "invalid"),
        ("$[3].params.command", 5, "denied"),
        ("$[4].params.command", 6, "denied"),
        ("$[5].params.argv", 7, "denied"),
        ("$[6].params.command", 8, "invalid"),
        ("$[7].params.tool_id", 9, "invalid"),
    ]
    assert "'../../../../etc/shadow' is outside the workspace" in plan.faults[0].message
    assert "unknown command `format_disk`" in plan.faults[5].message
    assert "the commands are" in plan.faults[5].suggestion
    assert plan.faults[6].suggestion == "the tools are simple_coder"
    assert len(plan.steps) == 9
    assert plan.invalid


def test_sound_plans() -> None:
    for name in ("data/seed_mkdir_cd.json", "../examples/first_plan.json"):
        plan = vetted((ROOT / name).read_bytes())
        assert plan.ok, plan.faults
        assert plan.faults == ()


def test_faults_of_the_file_and_of_the_calls_come_together() -> None:
    plan = vetted(
        '[{"type": "THNK", "params": {"thought": ""}},\n'
        '{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "mkdr", "path": "x"}},\n'
        '{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_codr", "command": "ls"}}]'
    )
    assert [(fault.line, fault.message) for fault in plan.faults] == [
        (1, "unknown type `THNK`"),
        (2, "unknown command `mkdr`, did you mean `mkdir`?"),
        (3, "unknown tool `simple_codr`"),
    ]
    assert plan.faults[2].suggestion.startswith("did you mean `simple_coder`?")


def test_a_path_is_checked_from_where_the_plan_stands() -> None:
    inside = plan_of({"command": "cd", "path": "a/b"}, {"command": "read", "path": "../../x"})
    outside = plan_of({"command": "cd", "path": "a"}, {"command": "read", "path": "../../x"})
    assert vetted(inside).ok
    assert [fault.path for fault in vetted(outside).faults] == ["$[1].params.path"]


def test_rm_needs_the_operators_grant() -> None:
    text = plan_of({"command": "rm", "path": "x"})
    refused = vetted(text)
    assert (refused.denied, refused.invalid) == (True, False)
    assert "--autonomous" in refused.faults[0].suggestion
    assert vetted(text, autonomous=True).ok


def test_a_plan_can_never_grant_itself_the_autonomous_mode() -> None:
    text = plan_of({"command": "toggle_autonomous_mode"}, {"command": "rm", "path": "x"})
    assert [fault.path for fault in vetted(text).faults] == ["$[0].params.command", "$[1].params.command"]
    assert [fault.path for fault in vetted(text, autonomous=True).faults] == ["$[0].params.command"]


@pytest.mark.parametrize(
    ("decisions", "strictest"),
    [(("allow", "allow"), "allow"), (("allow", "deny"), "deny"), (("ask", "allow"), "ask"), (("deny", "ask"), "deny")],
)
def test_the_strictest_verdict_of_a_steps_commands_counts(decisions: tuple[Any, Any], strictest: str) -> None:
    answers = iter(decisions)

    def judge(command: Command) -> Verdict:
        return Verdict(next(answers), "r", "because")

    plan = vet(parse_plan(plan_of({"command": "create_venv", "venv_name": "v"})), REGISTRY, judge)
    verdict = plan.steps[0].verdict
    assert verdict is not None
    assert verdict.decision == strictest
    assert plan.ok == (strictest == "allow")
    assert [fault.path for fault in plan.faults] == ([] if plan.ok else ["$[0].params.venv_name"])


def test_a_registry_has_each_tool_once() -> None:
    with pytest.raises(InputError, match="two tools are called `simple_coder`"):
        ToolRegistry([SimpleCoder(), SimpleCoder()])
    with pytest.raises(InputError, match="did you mean `simple_coder`"):
        REGISTRY.get("simple_code")
    assert [tool.tool_id for tool in REGISTRY] == ["simple_coder"]


def test_a_flood_of_faults_is_cut_and_counted_but_warnings_hide_nothing() -> None:
    call = '{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "command": "%s"}}'
    sound = vetted("[" + ",\n".join([call % "true"] * 300) + "]")
    assert sound.ok
    assert len(sound.faults) == 300
    last_is_denied = vetted("[" + ",\n".join([call % "true"] * 300 + [call % "nosuch"]) + "]")
    assert (last_is_denied.ok, last_is_denied.denied, last_is_denied.invalid) == (False, True, False)
    all_denied = vetted("[" + ",\n".join([call % "nosuch"] * 300) + "]")
    assert (all_denied.ok, all_denied.denied, all_denied.invalid) == (False, True, False)
    assert all_denied.faults[-1].message == "not listed: 100 more faults"
