"""A goal is achieved when its criteria hold in the sandbox: each kind, where it holds and where not."""

import pytest

from mindx.agents.bdi import BDIStatus, Budget
from tests.mind.bdi_support import Made, Probe, act, coder, failing, plan, think, use

WRITE = coder("write", path="a.txt", content="one two")
STATEMENT = "the file says two"
YES, NO = '{"verified": true, "reason": "seen"}', '{"verified": false, "reason": "not seen"}'


@pytest.mark.parametrize(
    ("criterion", "holds"),
    [
        ({"file": "a.txt"}, True),
        ({"file": "./x/../a.txt", "contains": "two"}, True),
        ({"file": "a.txt", "equals": "one two"}, True),
        ({"file": "b.txt", "absent": True}, True),
        ({"command": ["true"]}, True),
        ({"command": ["false"], "exit_code": 1}, True),
        ({"file": "b.txt"}, False),
        ({"file": "a.txt", "contains": "three"}, False),
        ({"file": "a.txt", "equals": "one"}, False),
        ({"file": "a.txt", "absent": True}, False),
        ({"command": ["false"]}, False),
        ({"command": ["cat", "none"]}, False),
    ],
)
def test_each_kind_is_checked_in_the_sandbox(criterion, holds):
    made = Made([plan(WRITE), plan(act("FAIL", message="given up"))], budget=Budget(replans=1))
    result = made.run("write", criterion)
    assert result.achieved is holds
    if holds:
        assert len(made.model.requests) == 1
        evidence = [item for item in result.run.evidence if item.kind.value == "verification"]
        assert [item.valid for item in evidence] == [True]
    else:
        assert "CRITERIA_UNMET" in made.questions[1]
        assert "given up" in result.message


def test_all_of_them_must_hold_and_the_plan_is_told_which_do_not():
    criteria = [{"file": "a.txt"}, {"file": "b.txt"}, {"file": "c.txt", "contains": "x"}]
    made = Made([plan(WRITE), plan(*(coder("write", path=f"{name}.txt", content="x") for name in "bc"))])
    assert made.run("write", *criteria).achieved
    assert "`b.txt`" in made.questions[1]
    assert "there is no file `a.txt`" not in made.questions[1]


def test_a_statement_is_judged_by_the_model_from_what_was_really_done():
    made = Made([plan(WRITE), NO, plan(coder("read", path="a.txt")), YES])
    result = made.run("write", STATEMENT)
    assert result.achieved
    assert "one two" in made.questions[3]
    assert "not seen" in made.questions[2]


@pytest.mark.parametrize("answer", ["nonsense", "[]", '{"verified": "yes"}', '{"verified": 1, "reason": ""}'])
def test_no_verdict_is_no_proof(answer):
    made = Made([plan(WRITE), answer, plan(act("FAIL", message="given up"))])
    assert not made.run("write", STATEMENT).achieved


def test_what_a_tool_says_is_no_proof():
    """A tool that reports success, and a model that ends its plan, achieve nothing where a criterion does not hold."""
    tool = Probe("probe", {"status": "SUCCESS", "verified": True, "message": "all criteria hold"})
    count = iter(range(100))
    made = Made(lambda request: plan(use("probe", n=next(count))), tool, budget=Budget(replans=2))
    result = made.run("write", {"file": "a.txt"})
    assert result.status is BDIStatus.FAILED_ACTION
    assert len(tool.calls) == 3


def test_a_criterion_that_the_policy_denies_ends_the_goal_before_anything_is_done():
    made = Made([])
    result = made.run("write", {"command": ["curl", "http://x"]})
    assert result.status is BDIStatus.FAILED_ACTION
    assert "it cannot be checked that `curl http://x` succeeds" in result.message
    assert made.model.requests == []


def test_the_sub_goals_of_a_goal_need_no_criteria_but_the_whole_does():
    answers = {
        "The goal: whole": iter([plan(act("DECOMPOSE_GOAL", subgoals=["part"])), plan(WRITE)]),
        "The goal: part": iter([plan(think())]),
    }
    made = Made(lambda request: next(answers[request.messages[-1].text.splitlines()[0]]))
    assert made.run("whole", {"file": "a.txt"}).achieved
    assert "CRITERIA_UNMET" in made.questions[-1]


def test_criteria_that_hold_only_for_a_moment_do_not_count_after_a_failure():
    """They are checked at the end of the plan that is the last, not before."""
    made = Made(
        [plan(WRITE, use("probe", n=1)), plan(coder("write", path="a.txt", content="changed"), use("probe", n=2)),
         plan(act("FAIL", message="given up"))],
        Probe("probe", failing(), {"ok": 1}),
    )  # fmt: skip
    assert not made.run("write", {"file": "a.txt", "equals": "one two"}).achieved


def test_a_criterion_that_needs_a_yes_that_nobody_can_give_ends_the_goal_too():
    made = Made([])
    result = made.run("write", {"command": ["chmod", "777", "a.txt"]})
    assert result.status is BDIStatus.FAILED_ACTION
    assert "it cannot be checked" in result.message
    assert made.model.requests == []
