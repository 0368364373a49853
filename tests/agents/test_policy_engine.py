import asyncio
import itertools

import pytest

from mindx import (
    ActionDispatcher,
    ActionRequest,
    ActionRisk,
    ActionTraits,
    ActionType,
    AgentContext,
    AgentDecision,
    ApprovalResult,
    ApprovalScope,
    DefaultPolicyEngine,
    ErrorCode,
    ErrorPhase,
    Observation,
    RunConfig,
    SessionPolicy,
    Status,
    TaskState,
    ValidationDecision,
)
from mindx.runtime.approval import ApprovalMemory
from tests.agents.support import DANGEROUS, READ, WRITE, Made, World, act, run

ALL = RunConfig(heartbeat_s=0.0, allow_dangerous=True, interactive=False)


def verdict(name="look", *, policy=None, config=ALL, executor=None, **request):
    context = AgentContext("r", "", TaskState(""), config=config, policy=policy)
    engine = DefaultPolicyEngine(ActionDispatcher(executor or World().executor()))
    return engine.validate(ActionRequest("1", name, **request), context)


OPEN = SessionPolicy(allow_dangerous=True)


@pytest.mark.parametrize(
    ("name", "policy", "config", "decision", "rule"),
    [
        ("look", None, ALL, "allow", "risk"),
        ("write", None, ALL, "allow", "risk"),
        ("smash", None, ALL, "ask", "risk"),
        ("smash", OPEN, ALL, "ask", "risk"),
        ("smash", None, RunConfig(), "deny", "run.dangerous"),
        ("smash", SessionPolicy(), ALL, "deny", "session.dangerous"),
        ("write", SessionPolicy(allow_write=False), ALL, "deny", "session.write"),
        ("write", None, RunConfig(allow_write=False), "deny", "run.write"),
        ("smash", None, RunConfig(allow_write=False, allow_dangerous=True), "deny", "run.write"),
        ("look", SessionPolicy(allow_write=False), RunConfig(allow_write=False), "allow", "risk"),
        ("look", SessionPolicy(allowed_tools=frozenset({"write"})), ALL, "deny", "session.tools"),
        ("look", SessionPolicy(allowed_action_types=frozenset({ActionType.MCP})), ALL, "deny", "session.action_types"),
        ("none", None, ALL, "invalid", "arguments"),
    ],
)
def test_the_session_then_the_run_can_only_take_away(name, policy, config, decision, rule):
    found = verdict(name, policy=policy, config=config)
    assert (found.decision.value, found.rule) == (decision, rule)
    assert found.reason


def test_a_reasoners_word_raises_the_risk_and_never_lowers_it():
    assert verdict("smash", risk=READ).risk is DANGEROUS
    assert verdict("look", risk=WRITE).risk is WRITE
    assert verdict("look", risk=DANGEROUS).decision is ValidationDecision.ASK


def test_what_nobody_knows_is_dangerous():
    class Mute:
        async def execute(self, request, context):
            return Observation(request.action_id, Status.SUCCESS)

    class Broken(Mute):
        def assess(self, request, context):
            raise ZeroDivisionError

    assert verdict(executor=Mute()).risk is DANGEROUS
    assert verdict(executor=Mute(), risk=READ).decision is ValidationDecision.ASK
    assert verdict(executor=Broken()).decision is ValidationDecision.INVALID


def test_a_policy_that_fails_denies():
    class Failing:
        def validate(self, request, context):
            raise ZeroDivisionError("a secret")

    result, made = with_policy(Failing())
    assert result.observations[0].status is Status.DENIED
    assert "secret" not in result.observations[0].message
    assert made.world.calls == []


def with_policy(policy):
    async def main():
        made = Made(act("look"), policy=policy)
        return await made.run(), made

    return asyncio.run(main())


def test_an_unknown_type_is_a_structured_error():
    request = ActionRequest("1", "look", action_type=ActionType.SKILL)
    result, _ = run(AgentDecision.act(request))
    error = result.observations[0].error_info
    assert (error.code, error.recoverable) == (ErrorCode.ACTION_TYPE_UNSUPPORTED, True)
    context = AgentContext("r", "", TaskState(""))
    direct = asyncio.run(ActionDispatcher(World().executor()).execute(request, context))
    assert direct.error_info.code is ErrorCode.ACTION_TYPE_UNSUPPORTED


def test_each_type_goes_to_its_executor():
    tools, memory = World(), World()
    executors = {ActionType.TOOL: tools.executor(), ActionType.MEMORY: memory.executor()}
    batch = AgentDecision.act(ActionRequest("1", "look"), ActionRequest("2", "look", action_type=ActionType.MEMORY))
    run(batch, executor=executors)
    assert (len(tools.calls), len(memory.calls)) == (1, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    list(itertools.combinations([None, frozenset(), frozenset({"a"}), frozenset({"a", "b"})], 2)),
)
def test_an_intersection_never_widens(one, other):
    both = SessionPolicy(allowed_tools=one, allow_write=False).intersect(SessionPolicy(allowed_tools=other))
    assert both == SessionPolicy(allowed_tools=other).intersect(SessionPolicy(allowed_tools=one, allow_write=False))
    for single in (one, other):
        assert single is None or both.allowed_tools <= single
    assert both.allow_write is False
    assert SessionPolicy().intersect(SessionPolicy()) == SessionPolicy()


# Approval


def asked(*answers, script=None, **options):
    """Run a dangerous action with a handler that gives these answers; return result, what was made, the requests."""
    requests, queue = [], list(answers)

    def handler(request):
        requests.append(request)
        answer = queue.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    script = script or [act("1:smash")]
    config = options.pop("config", ALL)
    return (*run(*script, approval_handler=handler, config=config, **options), requests)


def test_a_yes_runs_it_and_the_state_tells():
    result, made, requests = asked(True)
    assert made.world.calls == [("smash", {})]
    assert made.heard.states[2:5] == ["action_validating", "need_human_approval", "action_executing"]
    assert (requests[0].action.action_id, requests[0].risk) == ("1", DANGEROUS)
    assert requests[0].key == requests[0].action.digest
    assert result.ok


@pytest.mark.parametrize("answer", [False, None, "yes", 1, ApprovalResult(False)])
def test_anything_but_a_yes_is_a_no(answer):
    result, made, _ = asked(answer)
    assert made.world.calls == []
    error = result.observations[0].error_info
    assert (error.code, error.phase) == (ErrorCode.HUMAN_APPROVAL_REJECTED, ErrorPhase.APPROVAL)
    assert "waiting_for_user" not in made.heard.states


def test_feedback_reaches_the_next_step():
    result, made, _ = asked(ApprovalResult(False, "use the test database"))
    seen = made.reasoner.observations[1][0]
    assert "use the test database" in seen.message
    assert seen.error_info.details["feedback"] == "use the test database"
    assert result.ok
    _, made, _ = asked(ApprovalResult(True, "but be quick"))
    assert "be quick" in made.reasoner.observations[1][0].result["note"]


def test_without_a_handler_the_action_is_refused_and_the_run_goes_on():
    result, made = run(act("1:smash", "2:look"), config=ALL)
    error = result.observations[0].error_info
    assert (error.code, error.recoverable) == (ErrorCode.HUMAN_APPROVAL_UNAVAILABLE, True)
    assert result.ok
    assert [call[0] for call in made.world.calls] == ["look"]


def test_a_handler_that_fails_is_no_yes():
    result, made, _ = asked(ZeroDivisionError("x"))
    assert result.observations[0].error_info.code is ErrorCode.HUMAN_APPROVAL_UNAVAILABLE
    assert made.world.calls == []


def test_changed_arguments_are_judged_anew_and_told():
    result, made, _ = asked(ApprovalResult(True, modified_arguments={"path": "b"}))
    assert made.world.calls == [("smash", {"path": "b"})]
    assert "changed the arguments" in result.observations[0].result["note"]


def test_changed_arguments_that_the_policy_denies_do_not_run():
    class ByPath:
        def assess(self, request, context):
            bad = request.arguments.get("path") == "/etc"
            return ActionTraits(DANGEROUS, problem="not there" if bad else "")

        async def execute(self, request, context):
            raise AssertionError("it must not run")

    result, _, _ = asked(ApprovalResult(True, modified_arguments={"path": "/etc"}), executor=ByPath())
    assert result.observations[0].message == "not there"


def test_arguments_that_change_while_a_person_decides_are_refused():
    arguments = {"path": "a"}

    def handler(request):
        arguments["path"] = "/"
        return True

    result, made = run(AgentDecision.act(ActionRequest("1", "smash", arguments)), config=ALL, approval_handler=handler)
    assert result.observations[0].status is Status.DENIED
    assert made.world.calls == []


def with_argument(action_id, value):
    return AgentDecision.act(ActionRequest(action_id, "smash", {"x": value}))


@pytest.mark.parametrize("scope", [ApprovalScope.SESSION, ApprovalScope.ALWAYS])
def test_a_yes_holds_for_the_exact_arguments_only(scope):
    yes = ApprovalResult(True, scope=scope, rule_key="smash")
    script = [with_argument("1", 1), with_argument("2", 1), with_argument("3", 2)]
    _, made, requests = asked(yes, False, script=script)
    assert [request.action.action_id for request in requests] == ["1", "3"]
    assert [call[1] for call in made.world.calls] == [{"x": 1}, {"x": 1}]


def test_a_yes_once_is_asked_again():
    _, _, requests = asked(True, True, script=[with_argument("1", 1), with_argument("2", 1)])
    assert len(requests) == 2


def test_a_yes_to_changed_arguments_is_for_those():
    yes = ApprovalResult(True, modified_arguments={"x": 2}, scope=ApprovalScope.ALWAYS)
    script = [with_argument("1", 1), with_argument("2", 2), with_argument("3", 1)]
    _, made, requests = asked(yes, False, script=script)
    assert [request.action.action_id for request in requests] == ["1", "3"]
    assert [call[1] for call in made.world.calls] == [{"x": 2}, {"x": 2}]


def test_the_digest_is_of_everything_that_matters():
    base = ActionRequest("1", "smash", {"a": 1, "b": [1, {"c": 2}]})
    assert base.digest == ActionRequest("2", "smash", {"b": [1, {"c": 2}], "a": 1}).digest
    for other in (
        ActionRequest("1", "smash", {"a": 1, "b": [1, {"c": 3}]}),
        ActionRequest("1", "smasher", {"a": 1, "b": [1, {"c": 2}]}),
        ActionRequest("1", "smash", {"a": "1", "b": [1, {"c": 2}]}),
        ActionRequest("1", "smash", {"a": 1, "b": [1, {"c": 2}]}, ActionType.MCP),
    ):
        assert other.digest != base.digest


def test_lasting_approvals_survive_and_what_is_torn_is_no_yes(tmp_path):
    path = tmp_path / "approvals.jsonl"
    memory = ApprovalMemory(path)
    memory.add("one")
    memory.add("two")
    path.write_bytes(path.read_bytes() + b'{"key": "thr')
    again = ApprovalMemory(path)
    assert "one" in again
    assert "two" in again
    assert "thr" not in again


def test_a_tools_own_flag_asks_too():
    class Careful:
        def assess(self, request, context):
            return ActionTraits(ActionRisk.READ_ONLY, require_approval=True)

        async def execute(self, request, context):
            return Observation(request.action_id, Status.SUCCESS)

    result, _, requests = asked(True, executor=Careful())
    assert (len(requests), result.observations[0].ok) == (1, True)
