"""The Constitution: what no order gets past, what waits for a person, and a file that can only be made stricter."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.agents.constitution import Act, Constitution, ConstitutionError, Layer
from mindx.errors import InputError
from tests.test_seed_checklist import functions_of

RULES = Constitution.load()
# Every rule that is built in, with an act (and a target) that it forbids, or that it makes wait for a person. Whoever
# changes a rule changes this table.
NEVER = {
    "no-code-of-a-model-on-the-host": (Act.RUN_ON_HOST, ""),
    "no-writing-past-the-review": (Act.WRITE_ON_HOST, "src/a.py"),
    "no-secrets": (Act.READ_SECRET, "MINDX_API_KEY"),
    "no-network": (Act.OPEN_NETWORK, "example.org"),
    "no-self-given-rights": (Act.APPROVE_IMPROVEMENT, "item_1"),
    "no-request-for-approval": (Act.REQUEST_APPROVE_IMPROVEMENT, ""),
    "no-forged-events": (Act.REQUEST_PUBLISH_EVENT, "component.improvement.success"),
    "no-forged-record": (Act.CHANGE_TRACE, ""),
    "the-wall-stays": (Act.APPLY_CODE, "mindx/policy/engine.py"),
}
PERSON = {
    "critical-components": (Act.CHANGE_CODE, "mindx/agents/bdi/agent.py"),
    "rollback-by-a-person": (Act.ROLL_BACK_CODE, "src/a.py"),
}
# The tests in which a layer above, a model or a request orders a layer below to break the rule, through the interface
# that it has, and the layer below does not.
MIND = "tests/mind/test_"
ORDERS = {
    "no-code-of-a-model-on-the-host": [
        f"{MIND}container_tool.py::test_a_generated_tool_answers_from_the_container",
        f"{MIND}container_tool.py::test_altered_code_is_not_run",
    ],
    "no-writing-past-the-review": [
        f"{MIND}improvement_agent.py::test_a_candidate_that_passes_leaves_its_diff_and_nothing_in_the_project",
        f"{MIND}improvement_apply.py::test_only_the_judged_bytes_of_the_target_are_written",
    ],
    "no-secrets": [
        "tests/attack/test_machine.py::test_k1_no_variable_of_the_host_gets_in",
        "tests/attack/test_model.py::test_k2_the_key_to_the_model_is_nowhere",
    ],
    "no-network": [
        "tests/attack/test_machine.py::test_e1_nothing_is_reachable",
        f"{MIND}coordinator_interactions.py::test_a_request_cannot_choose_folders_policies_or_approvals",
    ],
    "no-self-given-rights": [
        f"{MIND}coordinator_interactions.py::test_an_agent_asks_for_what_its_layer_may_and_only_a_person_approves",
        f"{MIND}coordinator_interactions.py::test_a_request_cannot_choose_folders_policies_or_approvals",
        f"{MIND}mastermind.py::test_budgets_hold",
    ],
    "no-request-for-approval": [
        f"{MIND}coordinator_interactions.py::test_an_agent_asks_for_what_its_layer_may_and_only_a_person_approves",
    ],
    "no-forged-events": [f"{MIND}coordinator_interactions.py::test_no_agent_tells_what_only_the_coordinator_has_seen"],
    "no-forged-record": [
        f"{MIND}mastermind_parts.py::test_what_has_ended_is_in_the_history_once_with_its_latest_end",
        f"{MIND}mastermind_parts.py::test_a_damaged_history_is_never_written_over",
    ],
    "the-wall-stays": [
        f"{MIND}coordinator_backlog.py::test_no_yes_opens_the_wall",
        f"{MIND}improvement_agent.py::test_what_the_constitution_forbids_is_not_even_tried",
    ],
    "critical-components": [
        f"{MIND}coordinator_backlog.py::test_a_critical_target_waits_for_a_person_before_anything_is_done",
        f"{MIND}improvement_apply.py::test_a_critical_target_waits_for_a_person",
    ],
    "rollback-by-a-person": [
        f"{MIND}coordinator_interactions.py::test_an_agent_asks_for_what_its_layer_may_and_only_a_person_approves",
        f"{MIND}improvement_apply.py::test_a_person_decides_about_a_roll_back",
    ],
}
ONE = "{name: a, acts: [model.call], reason: r}"
# The trust of S2: who may do what, and nobody else.
TRUST = {
    Act.START_CAMPAIGN: {Layer.MASTERMIND},
    Act.WRITE_REGISTRY: {Layer.MASTERMIND},
    Act.CHANGE_CODE: {Layer.COORDINATOR},
    Act.APPLY_CODE: {Layer.COORDINATOR},
    Act.REGISTER_AGENT: {Layer.MASTERMIND, Layer.COORDINATOR},
    Act.REQUEST_COMPONENT_IMPROVEMENT: {Layer.MASTERMIND, Layer.COORDINATOR},
    Act.START_MISSION: {Layer.MASTERMIND, Layer.AGINT},
    Act.PURSUE_GOAL: {Layer.MASTERMIND, Layer.AGINT},
    Act.EXECUTE_TOOL: {Layer.MASTERMIND, Layer.BDI},
    Act.BUILD_CANDIDATE: {Layer.IMPROVEMENT},
    Act.RUN_COMMAND: {Layer.IMPROVEMENT, Layer.TOOL},
}


def test_the_tables_of_this_test_name_every_rule():
    assert {rule.name for rule in RULES.document.never} == set(NEVER)
    assert {rule.name for rule in RULES.document.person} == set(PERSON)


@pytest.mark.parametrize("rule", [*NEVER, *PERSON])
def test_every_rule_has_orders_that_a_layer_below_did_not_obey(rule):
    assert ORDERS[rule]
    for node_id in ORDERS[rule]:
        path, _, name = node_id.partition("::")
        assert name in functions_of(path), node_id


@pytest.mark.parametrize("layer", Layer)
@pytest.mark.parametrize("name", NEVER)
def test_what_may_never_be_done_no_layer_does_and_no_yes_allows(name, layer):
    act, target = NEVER[name]
    for approved in (False, True):
        ruling = RULES.check(layer, act, target, approved=approved)
        assert (ruling.allowed, ruling.needs_person, ruling.rule) == (False, False, name)
    with pytest.raises(ConstitutionError) as caught:
        RULES.require(layer, act, target, approved=True)
    assert (caught.value.code, caught.value.exit_code) == ("constitution_forbids", 3)
    assert caught.value.details["rule"] == name


def test_every_act_of_a_rule_is_bound_by_it():
    for rule in RULES.document.never:
        for act in rule.acts:
            target = rule.targets[0].replace("*", "x") if rule.targets else "x"
            assert not any(RULES.check(layer, act, target, approved=True).allowed for layer in Layer), (rule.name, act)


@pytest.mark.parametrize("name", PERSON)
def test_what_waits_for_a_person_is_done_with_a_yes_only(name):
    act, target = PERSON[name]
    asked = RULES.check(Layer.COORDINATOR, act, target)
    assert (asked.allowed, asked.needs_person, asked.rule) == (False, True, name)
    assert RULES.check(Layer.COORDINATOR, act, target, approved=True).allowed
    with pytest.raises(ConstitutionError) as caught:
        RULES.require(Layer.COORDINATOR, act, target)
    assert caught.value.code == "constitution_needs_person"
    # The yes is to the coordinator: it does not make another layer one that changes code.
    assert not RULES.check(Layer.MASTERMIND, act, target, approved=True).allowed


@pytest.mark.parametrize("act", TRUST)
def test_trust_is_layered(act):
    allowed = {layer for layer in Layer if RULES.check(layer, act, "src/a.py").allowed}
    assert allowed == TRUST[act]


def test_agint_and_bdi_act_through_their_tools_and_requests_only():
    reach = {Act.EXECUTE_TOOL, Act.START_MISSION, Act.PURSUE_GOAL, Act.CALL_MODEL, Act.WRITE_BELIEF, Act.PUBLISH_EVENT}
    for layer in (Layer.AGINT, Layer.BDI):
        done = {act for act in Act if RULES.check(layer, act, "src/a.py", approved=True).allowed}
        assert {act for act in done if not act.value.startswith("request.")} <= reach
        assert Act.REQUEST_COMPONENT_IMPROVEMENT not in done


def test_what_no_rule_speaks_of_is_refused():
    for layer in Layer:
        assert RULES.check(layer, "code.destroy", "a", approved=True).rule == "unknown-act"
    assert not RULES.check(Layer.TOOL, Act.CALL_MODEL).allowed


@pytest.mark.parametrize(
    "target",
    [
        "mindx/policy/engine.py",
        "./mindx//policy/./engine.py",
        "MINDX/Policy/engine.py",
        "\uff4dindx/policy/engine.py",  # a full-width m
        "mindx.policy.engine",
        "Mindx.Policy.Engine",
        "mindx/policy",
        "mindx/policy/",
        "mindx",
        "mindx/agents/constitution.yaml",
        "mindx/agents/constitution",
        "policies/default.yaml",
        ".git/hooks/post-checkout",
    ],
)
def test_the_wall_is_known_by_every_spelling(target):
    ruling = RULES.check(Layer.COORDINATOR, Act.CHANGE_CODE, target, approved=True)
    assert (ruling.allowed, ruling.rule) == (False, "the-wall-stays")


JOINTS = st.sampled_from(["/", "//", "/./", "/././/"])
PROTECTED = st.sampled_from(["mindx/policy/engine.py", "mindx/guest/new/file.py", "policies/x.yaml", ".git/config"])


def spelled(letter: str, way: int) -> str:
    """Return a letter, large, or as its full-width twin, which some file systems take for the same."""
    return (
        letter,
        letter.upper(),
        chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" and letter not in "./" else letter,
    )[way]


@given(path=PROTECTED, ways=st.lists(st.integers(0, 2), min_size=30, max_size=30), joints=st.lists(JOINTS, min_size=6))
def test_no_spelling_gets_past_the_wall(path, ways, joints):
    letters = "".join(spelled(letter, ways[number % len(ways)]) for number, letter in enumerate(path))
    target = "".join((joints[number] if number else "./") + part for number, part in enumerate(letters.split("/")))
    for act in (Act.BUILD_CANDIDATE, Act.CHANGE_CODE, Act.APPLY_CODE):
        assert not any(RULES.check(layer, act, target, approved=True).allowed for layer in Layer)


@pytest.mark.parametrize(
    "target",
    ["", ".", "/etc/passwd", "~/x", "../mindx/x.py", "src/../mindx/policy/engine.py", "a\\b", "a\nb", "x" * 2000],
)
def test_a_target_that_is_no_clear_path_is_refused(target):
    for act in (Act.CHANGE_CODE, Act.APPLY_CODE, Act.ROLL_BACK_CODE):
        assert RULES.check(Layer.COORDINATOR, act, target, approved=True).rule == "unclear-target"


def test_self_is_a_critical_component():
    assert RULES.check(Layer.COORDINATOR, Act.CHANGE_CODE, "self").rule == "critical-components"


def write(path: Path, text: str) -> Path:
    file = path / "constitution.yaml"
    file.write_text(text)
    return file


def test_a_file_of_ones_own_takes_trust_away_and_adds_rules(tmp_path):
    stricter = Constitution.load(
        write(
            tmp_path,
            """
            version: 1
            trust:
              mastermind: [model.call, registry.write, code.apply]
            never:
              - {name: not-the-billing, acts: [code.change], targets: [src/billing/*], reason: it is audited}
            person:
              - {name: ask-me, acts: [registry.write], reason: I want to see each tool}
            """,
        )
    )
    assert not stricter.check(Layer.MASTERMIND, Act.START_CAMPAIGN).allowed
    assert not stricter.check(Layer.MASTERMIND, Act.APPLY_CODE, "src/a.py").allowed  # trust is not given
    assert stricter.check(Layer.MASTERMIND, Act.WRITE_REGISTRY).needs_person
    assert stricter.check(Layer.COORDINATOR, Act.CHANGE_CODE, "src/billing/a.py").rule == "not-the-billing"
    assert stricter.check(Layer.COORDINATOR, Act.CHANGE_CODE, "src/a.py").allowed
    for name, (act, target) in NEVER.items():
        assert stricter.check(Layer.COORDINATOR, act, target, approved=True).rule == name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: 1\nnever: []\nnever: []\n", "written twice"),
        ("version: 2\n", "version"),
        ("version: 1\nallow: []\n", "allow"),
        ("version: 1\ntrust: {king: [model.call]}\n", "trust"),
        ("version: 1\nnever: [{name: a, acts: [world.end], reason: r}]\n", "acts"),
        ("version: 1\nnever: [{name: no-secrets, acts: [model.call], reason: r}]\n", "built in"),
        (f"version: 1\nnever: [{ONE}, {ONE}]", "two"),
        ("- a\n", "constitution"),
        ("version: [\n", "YAML"),
    ],
)
def test_a_file_that_is_not_clear_is_refused_with_what_is_wrong(tmp_path, text, problem):
    with pytest.raises(InputError) as caught:
        Constitution.load(write(tmp_path, text))
    assert caught.value.code == "constitution_invalid"
    assert problem in caught.value.message


def test_a_file_that_is_not_there_is_no_empty_one(tmp_path):
    with pytest.raises(InputError) as caught:
        Constitution.load(tmp_path / "none.yaml")
    assert caught.value.code == "constitution_unreadable"
