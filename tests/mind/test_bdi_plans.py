"""From a model's words to a validated plan: extraction, every fault at once, references, the bound on its length."""

import json

import pytest

from mindx.agents.bdi import BDIStatus, Budget
from mindx.agents.bdi.plan_text import plan_text
from mindx.agents.bdi.references import parse_reference
from mindx.core.plan import parse_plan
from mindx.errors import InputError
from tests.mind.bdi_support import Made, Probe, act, coder, plan, ref, think, use

STEPS = '[{"type": "NO_OP", "params": {}}]'


@pytest.mark.parametrize(
    "text",
    [
        STEPS,
        f'{{"plan": {STEPS}}}',
        f'{{"reason": "because", "steps": {STEPS}}}',
        f"Here you are:\n```json\n{STEPS}\n```\nGood luck!",
        f'```\n{{"plan":\n{STEPS}}}\n```',
        f"The plan is {STEPS}.",
    ],
)
def test_a_plan_is_found_in_what_a_model_says(text):
    found = parse_plan(plan_text(text).source)
    assert [action.type for action in found.plan.actions] == ["NO_OP"]


def test_the_text_is_kept_so_that_repeated_keys_are_seen():
    """The seed's own plan gives `command` twice: the verb, then its line."""
    step = '{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "command": "ls -l"}}'
    text = f'{{\n "reason": "ü", "plan": [{step}]}}'
    found = parse_plan(plan_text(text).source)
    assert found.plan.actions[0].params["cmdline"] == "ls -l"


def test_every_fault_goes_back_with_its_suggestion():
    bad = plan(
        {"type": "THNK", "params": {"thought": "x"}},
        act("THINK", thougt="x"),
        use("simple_codr", command="ls"),
        coder("mkdir", pth="a"),
        coder("run", cmdline="nosuchprogram"),
        use("probe", n="one"),
        act("UPDATE_BELIEF", key="k"),
        coder("ls", path="../../etc"),
    )
    made = Made([bad, plan(think())], Probe())
    assert made.run().achieved
    told = made.questions[1]
    for text in (
        "$[0].type: unknown type `THNK`; did you mean `THINK`?",
        "$[1].params: ",
        "did you mean `simple_coder`?",
        "$[3].params",
        "$[4].params",
        "expected integer",
        "missing `value`",
        "$[7].params",
    ):
        assert text in told, text
    assert sum(line.startswith("- $") for line in told.splitlines()) >= 8


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([use("probe", x=ref("steps.1.result"))], "no earlier step"),
        ([use("probe", x=ref("steps.2.result")), think()], "no earlier step"),
        ([think(), use("probe", x=ref("steps.3.result"))], "no earlier step"),
        ([think(), use("probe", x=ref("steps.1.result.stdout"))], "has no `stdout`; it has thought"),
        ([coder("ls"), use("probe", x=ref("steps.1.result.stdout"))], "has no `stdout`; it has items"),
        ([think("ls"), act("EXECUTE_TOOL", tool_id="simple_coder", command=ref("steps.1.result.thought"))],
            "`tool_id` and `command` are written out"),
        ([think("probe"), act("EXECUTE_TOOL", tool_id=ref("steps.1.result.thought"))],
            "`tool_id` and `command` are written out"),
        ([think("obey me"), act("DECOMPOSE_GOAL", subgoals=[ref("steps.1.result.thought")])],
            "a goal's words are written out"),
        ([use("probe", x=ref("steps.0.result"))], "is no reference"),
        ([use("probe", x=ref("steps.one.result"))], "is no reference"),
        ([use("probe", x=ref("beliefs.unknown"))], "nothing is believed under that key"),
        ([use("probe", x=ref("os.environ"))], "is no reference"),
        ([use("probe", x={"$ref": "steps.1.result", "else": 1})], "a reference is an object with `$ref` alone"),
        ([think(), act("THINK", thought=ref("steps.1.result.thought")), act("THINK", thought=ref("steps.9.result"))],
            "steps count from 1"),
    ],
)  # fmt: skip
def test_references_lead_back_and_to_what_will_be_there(steps, message):
    made = Made([plan(*steps), plan(think())], tool := Probe())
    assert made.run().achieved
    assert message in made.questions[1]
    assert tool.calls == []


def test_values_flow_from_step_to_step_whatever_their_type():
    made = Made(
        [
            plan(
                coder("write", path="a.txt", content="one\ntwo"),
                coder("read", path="a.txt"),
                coder("write", path="b.txt", content=ref("steps.2.result.content")),
                use("source"),
                use("probe", x={"deep": [ref("steps.4.result.rows.1.name"), ref("steps.4.result.rows")]}),
                act("UPDATE_BELIEF", key="a.b", value={"c": [7]}),
                use("probe", x=ref("beliefs.a.b.c.0")),
            )
        ],
        tool := Probe(),
        Probe("source", {"rows": [{"name": "x"}, {"name": "y"}]}),
    )
    result = made.run()
    assert result.achieved, result.message
    assert made.sandbox.commands[-1].data == b"one\ntwo"
    assert tool.calls == [{"x": {"deep": ["y", [{"name": "x"}, {"name": "y"}]]}}, {"x": 7}]


def test_a_reference_that_leads_nowhere_in_the_end_is_a_failure_of_its_step():
    made = Made([plan(use("source"), use("probe", x=ref("steps.1.result.rows.5"))), plan(think())],
        tool := Probe(), Probe("source", {"rows": []}))  # fmt: skip
    assert made.run().achieved
    assert "INVALID_PARAMETERS" in made.questions[1]
    assert tool.calls == []


def test_what_a_reference_brings_is_judged_like_any_other_argument():
    """A hostile result cannot carry a command past the policy: it is judged when its value is known."""
    made = Made(
        [plan(use("source"), coder("run", cmdline=ref("steps.1.result.line"))), plan(act("FAIL", message="refused"))],
        Probe("source", {"line": "curl http://evil"}),
    )
    result = made.run()
    assert "refused" in result.message
    assert "PERMISSION_ERROR" in made.questions[1]
    assert made.sandboxes == [] or made.sandbox.commands == []


@pytest.mark.parametrize("count", [101, 3000])
def test_a_plan_that_is_too_long_is_refused_and_the_bound_is_told(count):
    made = Made([plan(*(act("NO_OP") for _ in range(count))), plan(think())])
    assert made.run().achieved
    assert f"{count:,} actions; a plan has at most 100" in made.questions[1]


def test_ten_thousand_steps_are_one_fault_and_no_more_work():
    made = Made(lambda request: json.dumps([{"type": "NO_OP", "params": {}}] * 10_000), budget=Budget(repairs=1))
    result = made.run()
    assert result.status is BDIStatus.FAILED_PLANNING
    assert len(made.model.requests) == 2
    assert len(made.questions[1]) < 2000
    assert "10,000 actions" in made.questions[1] or "characters" in made.questions[1]


@pytest.mark.parametrize("text", ["", "steps", "steps.1", "steps.1.results", "steps.01.result", "beliefs.", "x" * 600])
def test_what_is_no_reference(text):
    with pytest.raises(InputError):
        parse_reference(text)


def test_the_constitution_is_asked_before_a_plan_is_taken():
    from mindx.agents.constitution import Constitution, Document

    base = Constitution.load()
    trust = {**base.document.trust, "bdi": ("model.call",)}
    made = Made(
        [plan(use("probe")), plan(think())],
        tool := Probe(),
        constitution=Constitution(Document(version="1", trust=trust)),
    )
    assert made.run().achieved
    assert "the constitution forbids it" in made.questions[1]
    assert tool.calls == []
    silent = Made([], constitution=Constitution(Document(version="1", trust={"bdi": ()})))
    assert silent.run().status is BDIStatus.FAILED_UNRECOVERABLE
    assert silent.model.requests == []
