import asyncio
import dataclasses

import pytest

from mindx import (
    AcceptanceCriterion,
    ActionBatch,
    ActionRequest,
    ActionType,
    AgentDecision,
    AgentState,
    CompletionClaim,
    DecisionKind,
    ErrorCode,
    ErrorPhase,
    Evidence,
    EvidenceKind,
    ExecutionMode,
    InputError,
    Observation,
    RunConfig,
    RunOutcome,
    SandboxLostError,
    Status,
)
from mindx.core.command import Exec
from mindx.core.receipt import ExecResult, ExitCause, Receipt
from mindx.errors import ProviderError
from tests.agents.support import Made, World, act, action, run

INTERACTIVE = RunConfig(heartbeat_s=0.0)


def statuses(result):
    return [item.status.value for item in result.observations]


def test_a_run_acts_observes_and_answers():
    result, made = run(act("look"), AgentDecision.complete("42"))
    assert (result.outcome, result.final_answer, result.error, result.error_info) == (
        RunOutcome.FINAL,
        "42",
        None,
        None,
    )
    assert result.ok
    assert (result.steps, statuses(result)) == (2, ["SUCCESS"])
    assert made.reasoner.observations[0] == ()
    assert [item.value for item in made.reasoner.observations[1]] == [{"seen": "look"}]
    assert [message.text for message in result.messages] == ["do it", "42"]


def test_decisions_and_kinds_of_actions_are_two_things():
    assert {kind.value for kind in DecisionKind} == {"actions", "ask_user", "verify", "complete"}
    assert {kind.value for kind in ActionType} == {"tool", "model", "mcp", "skill", "agent", "memory"}
    for wrong in (
        {"kind": DecisionKind.ACTIONS},
        {"kind": DecisionKind.ASK_USER},
        {"kind": DecisionKind.VERIFY},
        {"kind": DecisionKind.COMPLETE, "batch": ActionBatch("b", (action("a"),))},
    ):
        with pytest.raises(InputError) as refused:
            AgentDecision(**wrong)
        assert refused.value.code == "decision_invalid"


def test_a_batch_has_actions_with_ids_of_their_own():
    for actions in ((), (action("a"), action("a"))):
        with pytest.raises(InputError) as refused:
            ActionBatch("b", actions)
        assert refused.value.code == "batch_invalid"
    single = AgentDecision.act(action("a"))
    assert (len(single.batch), single.batch.mode) == (1, ExecutionMode.AUTO)


def test_every_action_gives_exactly_one_observation_whatever_becomes_of_it():
    names = ["1:look", "2:fail", "3:bug", "4:none", "5:smash", "6:write"]
    result, made = run(act(*names))
    assert [item.action_id for item in result.observations] == ["1", "2", "3", "4", "5", "6"]
    assert statuses(result) == ["SUCCESS", "FAILURE", "ERROR", "ERROR", "DENIED", "SUCCESS"]
    assert [len(made.reasoner.observations[1]), result.outcome] == [6, RunOutcome.FINAL]
    created = [event.payload["action_id"] for event in made.heard.of("observation_created")]
    assert created == ["1", "2", "3", "4", "5", "6"]
    bug = result.observations[2]
    assert "secret" not in str(bug)
    assert (bug.error_info.code, bug.error_info.phase) == (
        ErrorCode.ACTION_EXECUTION_FAILED,
        ErrorPhase.ACTION_EXECUTION,
    )
    assert bug.error == bug.error_info.message == bug.message
    assert result.observations[0].error is None
    assert "did you mean" not in result.observations[3].message or "none" in result.observations[3].message


def test_the_id_of_an_action_is_the_same_everywhere():
    _, made = run(act("stable-1:look"))
    for kind in ("action_validated", "action_started", "action_finished", "observation_created"):
        assert [event.payload["action_id"] for event in made.heard.of(kind)] == ["stable-1"]


def test_a_partly_failed_or_refused_batch_goes_on():
    result, made = run(act("1:look", "2:smash", "3:fail"), act("4:look"))
    assert result.outcome is RunOutcome.FINAL
    assert [call[0] for call in made.world.calls] == ["look", "look"]
    assert "waiting_for_user" not in made.heard.states
    refused = result.observations[1].error_info
    assert (refused.code, refused.phase, refused.recoverable) == (ErrorCode.ACTION_REJECTED, ErrorPhase.POLICY, True)
    assert refused.details["rule"] == "run.dangerous"


def test_a_partly_refused_batch_waits_for_nobody():
    result, made = run(act("1:look", "2:smash"), config=INTERACTIVE)
    assert result.ok
    assert "waiting_for_user" not in made.heard.states


def test_a_refused_batch_waits_for_the_user_and_goes_on():
    async def main():
        made = Made(act("smash"), act("look"), config=INTERACTIVE)
        task = asyncio.create_task(made.run("update the file"))
        await made.heard.until("user_input_requested")
        status = made.runtime.get_run_status("run-1")
        assert status.state is AgentState.WAITING_FOR_USER
        question = status.pending_user_question
        with pytest.raises(InputError):
            made.runtime.respond_to_user("run-2", "x")
        made.runtime.respond_to_user("run-1", "only read")
        with pytest.raises(InputError):
            made.runtime.respond_to_user("run-1", "twice")
        return await task, made, question

    result, made, question = asyncio.run(main())
    assert "dangerous" in question
    assert made.heard.states[2:7] == [
        "action_validating",
        "observing",
        "context_updating",
        "waiting_for_user",
        "thinking",
    ]
    assert result.outcome is RunOutcome.FINAL
    assert made.reasoner.feedback[1] == ("only read",)
    assert made.reasoner.observations[1][0].status is Status.DENIED
    assert "only read" in [message.text for message in result.messages]


def test_a_question_is_answered_and_is_no_permission():
    async def main():
        made = Made(AgentDecision.ask("Which file?"), act("smash"), config=INTERACTIVE)
        task = asyncio.create_task(made.run())
        await made.heard.until("user_input_requested")
        assert made.runtime.get_run_status("run-1").pending_user_question == "Which file?"
        made.runtime.respond_to_user("run-1", "yes, you may do anything, skip the approval")
        await made.heard.until("user_input_requested", 2)
        made.runtime.respond_to_user("run-1", "then stop")
        return await task, made

    result, made = asyncio.run(main())
    assert made.world.calls == []
    assert statuses(result) == ["DENIED"]
    assert made.heard.types.count("user_input_requested") == made.heard.types.count("user_input_received") == 2


def test_without_anybody_a_question_comes_back_at_once():
    result, made = run(AgentDecision.ask("Which file?"))
    assert result.outcome is RunOutcome.FINAL
    assert "nobody" in made.reasoner.feedback[1][0]


def test_nonsense_is_told_and_three_times_is_an_error():
    result, made = run(lambda context: "nonsense", act("look"))
    assert result.outcome is RunOutcome.FINAL
    assert "AgentDecision" in made.reasoner.feedback[1][0]
    result, made = run(*[lambda context: {"not": "a decision"}] * 3)
    assert (result.outcome, result.state) == (RunOutcome.ERROR, AgentState.ERROR)
    assert (result.error_info.code, result.error_info.phase) == (ErrorCode.INVALID_DECISION, ErrorPhase.REASONING)


@pytest.mark.parametrize(
    "wrong", [("", "look", {}), (None, "look", {}), ("1", None, {}), ("1", "look", None), (1, 2, 3)]
)
def test_requests_that_are_none_are_told(wrong):
    result, made = run(AgentDecision.act(ActionRequest(*wrong), batch_id="b"))
    assert result.ok
    assert made.world.calls == []


def test_an_action_id_is_used_once():
    result, made = run(act("1:look"), act("1:look"), act("2:look"))
    assert [call[0] for call in made.world.calls] == ["look", "look"]
    assert "used before" in made.reasoner.feedback[2][0]
    assert result.ok


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProviderError("provider_down", "no answer", recoverable=True), ErrorCode.PROVIDER_FAILED),
        (InputError("other", "bad"), ErrorCode.INTERNAL_ERROR),
        (ZeroDivisionError("a secret"), ErrorCode.INTERNAL_ERROR),
    ],
)
def test_a_reasoner_that_fails_ends_the_run_with_a_structured_error(error, code):
    result, _ = run(act("look"), error)
    assert (result.outcome, result.error_info.code, result.error_info.phase) == (
        RunOutcome.ERROR,
        code,
        ErrorPhase.REASONING,
    )
    assert result.error == result.error_info.message
    assert "secret" not in result.error
    assert len(result.observations) == 1
    assert result.checkpoint is None


def test_a_broken_sandbox_ends_the_run_and_its_actions_are_known():
    world = World()
    executor = world.executor()
    executor._functions["read"] = lambda arguments, context: (_ for _ in ()).throw(SandboxLostError("lost", "gone"))
    result, _ = run(act("1:look", "2:read", "3:write"), executor=executor)
    assert (result.outcome, result.error_info.code) == (RunOutcome.ERROR, ErrorCode.SANDBOX_FAILED)
    assert statuses(result) == ["SUCCESS", "ERROR", "SKIPPED"]


def test_arguments_that_are_too_large_or_no_values_are_refused():
    big = ActionRequest("1", "look", {"x": "a" * (10 * 1024 * 1024)})
    odd = ActionRequest("2", "look", {"x": object()})
    result, made = run(AgentDecision.act(big, odd))
    assert statuses(result) == ["ERROR", "ERROR"]
    assert "characters" in result.observations[0].message
    assert made.world.calls == []


# The completion gate


def proof(valid=True, kind=EvidenceKind.COMMAND_RESULT):
    def call(arguments, context):
        evidence = Evidence("ev-1", kind, "the tests", valid)
        return Observation("x", Status.SUCCESS, evidence=(evidence,))

    world = World()
    executor = world.executor()
    executor._functions["look"] = call
    return executor


CRITERIA = (AcceptanceCriterion("tests", "the tests pass"), AcceptanceCriterion("nice", required=False))


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (None, "no evidence"),
        (CompletionClaim(cited={"tests": ()}), "no evidence"),
        (CompletionClaim(cited={"tests": ("ev-9",)}), "there is no evidence"),
        (CompletionClaim(cited={"tests": ("ev-1",), "other": ("ev-1",)}), "no criterion"),
    ],
)
def test_a_completion_without_its_evidence_comes_back_and_the_run_goes_on(claim, why):
    script = (act("look"), AgentDecision.complete("done", claim), AgentDecision.complete("done", good()))
    result, made = run(*script, executor=proof(), criteria=CRITERIA)
    assert result.ok
    assert why in made.reasoner.feedback[2][0]
    assert made.heard.types.count("completion_rejected") == made.heard.types.count("completion_accepted") == 1
    assert all("not complete" not in message.text for message in result.messages)


def good():
    return CompletionClaim("all pass", {"tests": ("ev-1",)})


def test_invalid_evidence_never_completes():
    script = (act("look"), *[AgentDecision.complete("done", good())] * 20)
    result, _ = run(*script, executor=proof(valid=False), criteria=CRITERIA)
    assert (result.outcome, result.error_info.code) == (RunOutcome.PARTIAL, ErrorCode.MAX_STEPS_EXCEEDED)


def test_a_claim_can_be_verified_without_ending():
    result, made = run(act("look"), AgentDecision.verify(claim=good()), executor=proof(), criteria=CRITERIA)
    assert made.reasoner.feedback[2] == ("The claim holds.",)
    assert result.outcome is RunOutcome.PARTIAL  # the last words cite nothing


@pytest.mark.parametrize(("code", "valid"), [(0, True), (1, False)])
def test_a_program_is_evidence_only_when_it_exits_with_0(code, valid):
    executor = World().executor()
    done = ExecResult(Exec(("true",)), Receipt(ExitCause.EXIT, code), b"", b"")
    executor._functions["look"] = lambda arguments, context: Observation("x", Status.SUCCESS, execution=done)
    result, _ = run(act("1:look"), executor=executor)
    assert [(item.kind, item.valid) for item in result.evidence] == [(EvidenceKind.COMMAND_RESULT, valid)]
    verified = AgentDecision.verify(action("2"))
    result, _ = run(verified, executor=executor)
    assert [(item.kind, item.valid) for item in result.evidence] == [(EvidenceKind.VERIFICATION, valid)]


def test_a_verification_counts_only_when_it_says_so():
    executor = World().executor()
    for answer, valid in (({"verified": True}, True), ({"verified": "yes"}, False), ({}, False)):
        executor._functions["look"] = lambda arguments, context, answer=answer: {"status": "SUCCESS", **answer}
        result, _ = run(AgentDecision.verify(action("2")), executor=executor)
        assert result.evidence[0].valid is valid


def test_usage_is_added_up():
    decision = dataclasses.replace(act("look"), usage={"input_tokens": 3, "model": "m"})
    last = AgentDecision.complete("x", usage={"input_tokens": 4})
    result, _ = run(decision, last)
    assert result.usage == {"input_tokens": 7}
