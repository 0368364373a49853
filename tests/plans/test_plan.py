"""Plan files: what is understood, and that every fault is named at once with its place and a suggestion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.core.plan import ACTION_TYPES, MAX_ACTIONS, Action, parse_plan
from mindx.core.quote import quoted
from mindx.core.strict_json import MAX_FAULTS

DATA = Path(__file__).parent.parent / "data"


def tool(**params: Any) -> dict[str, Any]:
    return {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", **params}}


def faults(text: str) -> list[tuple[str, int | None, str, str]]:
    return [(fault.path, fault.line, fault.message, fault.suggestion) for fault in parse_plan(text).faults]


def test_a_sound_plan() -> None:
    parsed = parse_plan(
        json.dumps(
            [
                {"type": "THINK", "params": {"thought": "hm"}},
                tool(command="run", argv=["true"]),
                {"type": "NO_OP", "params": {}},
                {"type": "FAIL", "params": {}},
                {"type": "FAIL", "params": {"message": "enough"}},
            ]
        )
    )
    assert parsed.faults == ()
    assert parsed.plan is not None
    assert parsed.plan.actions == parsed.actions
    assert [action.type for action in parsed.actions] == ["THINK", "EXECUTE_TOOL", "NO_OP", "FAIL", "FAIL"]
    assert [action.index for action in parsed.actions] == [0, 1, 2, 3, 4]
    assert parsed.plan.plan_id == f"plan_{parsed.plan.sha256[:6]}"
    assert parsed.actions[1].action_id == f"act_{parsed.plan.sha256[:6]}_1"
    assert parsed.actions[1].to_dict() == tool(command="run", argv=["true"])


def test_an_action_is_immutable_all_the_way_down() -> None:
    (action,) = parse_plan(json.dumps([tool(command="run", argv=["a"], extra={"x": [1]})])).actions
    with pytest.raises(TypeError):
        action.params["command"] = "rm"  # type: ignore[index]
    with pytest.raises(TypeError):
        action.params["extra"]["x"] = []
    assert action.params["argv"] == ("a",)
    with pytest.raises(AttributeError):
        action.index = 7  # type: ignore[misc]


def test_the_digest_is_of_the_actions_not_of_the_layout() -> None:
    one = parse_plan('[{"type": "FAIL", "params": {"message": "\\u00e4"}}]').plan
    two = parse_plan('[\n {"params":{"message":"ä"},"type":"FAIL"}]'.encode()).plan
    other = parse_plan('[{"type": "FAIL", "params": {"message": "a"}}]').plan
    assert one is not None
    assert two is not None
    assert other is not None
    assert one.sha256 == two.sha256 != other.sha256


def test_every_fault_at_once() -> None:
    text = """[
 1,
 {"typ": "THINK", "params": {}},
 {"type": "Think", "params": {"thought": "x"}},
 {"type": "THINK", "params": {"thougt": "x"}},
 {"type": "FAIL", "params": {"message": 3}},
 {"type": "NO_OP", "params": {"x": 1}, "why": ""},
 {"type": "NO_OP"},
 {"type": "NO_OP", "params": []},
 {"type": "EXECUTE_TOOL", "params": {"tool_id": null, "command": "ls"}},
 {"type": "EXECUTE_TOOL", "params": {"tool_id": "a", "command": "rm", "path": "x",
  "path": "y"}},
 {"type": null, "params": {}}
]"""
    known = f"the types are {', '.join(ACTION_TYPES)}"
    assert faults(text) == [
        ("$[0]", 2, "an action is an object, not a number", 'write {"type": ..., "params": {...}}'),
        ("$[1]", 3, "`type` is missing", "rename `typ`"),
        ("$[1].typ", 3, "unknown key `typ`", "did you mean `type`?"),
        ("$[2].type", 4, "unknown type `Think`", f"did you mean `THINK`? {known}"),
        ("$[3].params", 5, "`thought` is missing", "rename `thougt`"),
        ("$[3].params.thougt", 5, "unknown parameter `thougt`", "did you mean `thought`?"),
        ("$[4].params.message", 6, "`message` is text, not a number", ""),
        ("$[5].params.x", 7, "unknown parameter `x`", "NO_OP takes no parameters"),
        ("$[5].why", 7, "unknown key `why`", "an action has `type` and `params`, and all else in there"),
        ("$[6]", 8, "`params` is missing", "{} when there are none"),
        ("$[7].params", 9, "`params` is an object, not a list", "{} when there are none"),
        ("$[8].params.tool_id", 10, "`tool_id` is text, not null", ""),
        ("$[9].params.path", 12, "`path` is given twice (first on line 11)", "keep one of them"),
        ("$[10].type", 13, "`type` is text, not null", f"one of {', '.join(ACTION_TYPES)}"),
    ]
    assert parse_plan(text).plan is None


def test_the_sound_actions_of_a_faulty_plan_are_there_for_more_checks() -> None:
    parsed = parse_plan('[{"type": "THNK", "params": {}}, {"type": "NO_OP", "params": {}}]')
    assert parsed.plan is None
    assert [action.index for action in parsed.actions] == [1]


@pytest.mark.parametrize(
    ("text", "message", "suggestion"),
    [
        ("{}", "a plan is a list of actions, not an object", 'write [{"type": ..., "params": {...}}, ...]'),
        ('{"steps": []}', "a plan is a list of actions, not an object", "give the list in `steps` alone"),
        ("null", "a plan is a list of actions, not null", 'write [{"type": ..., "params": {...}}, ...]'),
        ("true", "a plan is a list of actions, not true or false", 'write [{"type": ..., "params": {...}}, ...]'),
        ("[]", "the plan is empty", "give at least one action"),
    ],
)
def test_what_is_no_plan(text: str, message: str, suggestion: str) -> None:
    assert faults(text) == [("$", 1, message, suggestion)]


def test_a_plan_has_at_most_ten_thousand_actions() -> None:
    action = '{"type": "NO_OP", "params": {}}'
    most = parse_plan("[" + ",".join([action] * MAX_ACTIONS) + "]")
    assert most.plan is not None
    more = parse_plan("[" + ",".join([action] * (MAX_ACTIONS + 1)) + "]")
    assert more.plan is None
    assert [fault.message for fault in more.faults] == ["10,001 actions; a plan has at most 10,000"]


def test_a_flood_of_faults_is_cut_and_counted() -> None:
    parsed = parse_plan("[" + ",".join(["1"] * 1000) + "]")
    assert parsed.plan is None
    assert len(parsed.faults) == MAX_FAULTS + 1
    assert parsed.faults[-1].message == "200 faults; the rest is not checked"
    for flood in ('{"a": 1' + ', "a": 1' * 1000 + "}", "[" + "NaN, " * 1000 + "1]"):
        assert len(parse_plan(flood).faults) <= MAX_FAULTS + 1


def test_the_seeds_own_double_command_is_understood_with_a_warning() -> None:
    parsed = parse_plan((DATA / "seed_api_client.json").read_bytes())
    assert parsed.plan is not None
    assert len(parsed.plan.actions) == 10
    run = parsed.plan.actions[6]
    assert (run.params["command"], run.params["cmdline"]) == ("run", "pip install httpx")
    assert [(fault.path, fault.line, fault.column, fault.kind) for fault in parsed.faults] == [
        ("$[6].params.cmdline", 8, 82, "warning"),
        ("$[9].params.cmdline", 11, 82, "warning"),
    ]
    assert '"command": "run", "cmdline": "pip install httpx"' in parsed.faults[0].suggestion


@pytest.mark.parametrize(
    "params",
    [
        '"command": "write", "command": "x"',  # only `run` takes a command line
        '"command": "x", "command": "run"',
        '"command": "run", "command": ["x"]',
        '"command": "run", "command": "x", "command": "y"',
        '"command": "run", "command": "x", "cmdline": "y"',
        '"command": "run", "command": "x", "argv": ["y"]',
        '"command": "run", "command": "x", "stdin": "a", "stdin": "b"',
        '"command": "run", "more": {"command": "run", "command": "x"}',
    ],
)
def test_every_other_double_key_is_an_error(params: str) -> None:
    parsed = parse_plan('[{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", ' + params + "}}]")
    assert parsed.plan is None
    assert all("is given twice (first on line 1)" in fault.message for fault in parsed.faults)


def test_a_double_key_of_the_envelope_is_an_error() -> None:
    parsed = parse_plan('[{"type": "NO_OP", "type": "FAIL", "params": {}, "params": {"message": "x"}}]')
    assert parsed.plan is None
    assert [fault.path for fault in parsed.faults] == ["$[0].type", "$[0].params"]


def test_the_plans_of_the_seeds() -> None:
    assert parse_plan((DATA / "seed_mkdir_cd.json").read_bytes()).plan is not None
    assert parse_plan((DATA / "hostile_mixed.json").read_bytes()).plan is not None  # its faults are the tool's to find
    campaign = parse_plan((DATA / "seed_campaign.json").read_bytes())
    assert [fault.path for fault in campaign.faults] == [f"$[{index}].type" for index in range(5)]
    assert "THINK, EXECUTE_TOOL, NO_OP, FAIL" in campaign.faults[0].suggestion


def test_a_fault_of_a_later_floor_takes_the_nearest_place() -> None:
    parsed = parse_plan('[\n{"type": "NO_OP",\n "params": {}}]')
    assert (parsed.fault("$[0].params.path", "x").line, parsed.fault("$[0].params.path", "x").column) == (3, 2)
    assert parsed.fault("$[0].params.argv[3]", "x").line == 3
    assert parsed.fault("$[7]", "x").line == 1


def test_names_from_a_plan_are_shown_harmlessly() -> None:
    (fault,) = parse_plan('[{"type": "\\u001b[31mX\\n\\u202e`", "params": {}}]').faults
    assert fault.message == "unknown type `\\x1b[31mX\\n\\u202e\\x60`"
    assert quoted("a" * 100) == "`" + "a" * 60 + "...`"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([*ACTION_TYPES, "run", "simple_coder", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "params", "tool_id", "command", "thought", "message", "argv", "typ"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(JSON | st.lists(st.fixed_dictionaries({"type": st.sampled_from(ACTION_TYPES), "params": JSON}), max_size=4))
def test_whatever_it_is_there_is_a_plan_or_a_reason(value: Any) -> None:
    parsed = parse_plan(json.dumps(value))
    assert (parsed.plan is None) == any(fault.kind != "warning" for fault in parsed.faults)
    if parsed.plan is not None:
        assert [action.to_dict() for action in parsed.plan.actions] == value
    assert all(isinstance(action, Action) for action in parsed.actions)
    assert all(fault.line is not None for fault in parsed.faults)
