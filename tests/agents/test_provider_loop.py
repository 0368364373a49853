"""The loop with a model: every call of it has its answer, whatever became of the call."""

import asyncio

import pytest

from mindx import (
    AcceptanceCriterion,
    AgentRuntime,
    ErrorCode,
    RunConfig,
    RunOutcome,
    ToolCall,
)
from mindx.core.message import Role
from mindx.providers.failures import provider_error
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
from mindx.runtime.context.manager import ContextManager
from mindx.runtime.provider_reasoner import ProviderReasoner
from tests.agents.support import Heard, World


def tool(name):
    return {"name": name, "description": name, "parameters": {"type": "object"}}


TOOLS = [tool(name) for name in ("look", "write", "smash", "fail", "wait")]
ALONE = RunConfig(heartbeat_s=0.0, interactive=False)


def calls(*names):
    return ScriptedTurn(calls=tuple(ToolCall(f"call-{n}", name, {"n": n}) for n, name in enumerate(names)))


def talk(*turns, config=ALONE, criteria=(), answers=(), world=None):
    """Run a scripted model to the end; return the result, the provider and the world."""

    async def main():
        provider = ScriptedProvider(turns)
        heard, made = Heard(), world or World()
        reasoner = ProviderReasoner(provider, TOOLS)
        async with AgentRuntime(
            reasoner, made.executor(), context_manager=ContextManager(), event_handler=heard, config=config
        ) as runtime:
            task = asyncio.create_task(runtime.run("do it", run_id="run-1", criteria=criteria))
            for number, answer in enumerate(answers, 1):
                await heard.until("user_input_requested", number)
                runtime.respond_to_user("run-1", answer)
            return await task, provider, made, heard

    return asyncio.run(main())


TOO_LONG = provider_error("provider_context_too_long")


def test_a_model_that_finds_its_context_too_long_is_asked_once_more_with_less():
    """A smaller model than the configuration says must not end the run while older steps can be left out."""
    turns = [calls("look"), calls("look"), calls("look"), TOO_LONG, calls("look"), "done"]
    result, provider, _, heard = talk(*turns)
    assert (result.outcome, result.final_answer) == (RunOutcome.FINAL, "done")
    sent = [sum(len(message.text) for message in request.messages) for request in provider.requests]
    kept = [len(request.messages) for request in provider.requests]
    assert kept[4] < kept[3]
    assert paired(provider.requests[4].messages)  # no call without its answer
    assert len(sent) == 6
    packed = [event.payload for event in heard.events if event.event_type.value == "context_packed"]
    assert [item["decision"] for item in packed[:5]] == ["kept"] * 4 + ["compacted"]
    assert packed[4]["tokens"] < packed[3]["tokens"]
    assert packed[5]["budget_tokens"] < packed[3]["tokens"]  # it is remembered


@pytest.mark.parametrize("turns", [[TOO_LONG, "never"], [calls("look"), calls("look"), TOO_LONG, TOO_LONG, "never"]])
def test_a_context_that_stays_too_long_is_the_providers_error(turns):
    """Nothing to leave out, or too long again: one typed error, no endless trying."""
    result, provider, _, _ = talk(*turns)
    assert result.outcome is RunOutcome.ERROR
    assert result.error_info.code is ErrorCode.PROVIDER_FAILED
    assert result.error_info.details["code"] == "provider_context_too_long"
    assert len(provider.requests) == len(turns) - 1


def paired(messages):
    """Return the text of each answer by its call, after a check that calls and answers belong together."""
    waiting, answers = [], {}
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in waiting, "an answer without its call"
            waiting.remove(message.tool_call_id)
            answers[message.tool_call_id] = message.text
            continue
        assert waiting == [], "a call without its answer"
        waiting = [call.call_id for call in message.tool_calls]
    assert waiting == []
    return answers


def test_a_models_calls_are_done_and_answered():
    result, provider, world, heard = talk(calls("look", "look"), "I saw both")
    assert (result.final_answer, result.ok) == ("I saw both", True)
    assert len(world.calls) == 2
    answers = paired(provider.requests[1].messages)
    assert set(answers) == {"call-0", "call-1"}
    assert "look" in answers["call-0"]
    assert "context_packed" in heard.types


def test_of_two_calls_one_is_denied_and_each_has_its_answer():
    result, provider, world, _ = talk(calls("look", "smash", "fail", "none"), "I see")
    assert result.ok
    answers = paired(provider.requests[1].messages)
    assert len(answers) == 4
    assert "denied" in answers["call-1"]
    assert "did not work" in answers["call-2"]
    assert "there is no" in answers["call-3"]
    assert [call[0] for call in world.calls] == ["look"]


def test_after_a_refusal_the_user_speaks_and_the_pairing_stays_valid():
    config = RunConfig(heartbeat_s=0.0)
    result, provider, world, heard = talk(calls("smash"), "then not", config=config, answers=["only read, please"])
    assert (result.ok, world.calls) == (True, [])
    messages = provider.requests[1].messages
    assert "denied" in paired(messages)["call-0"]
    assert (messages[-1].role, messages[-1].text) == (Role.USER, "only read, please")
    assert heard.states[2:7] == ["action_validating", "observing", "context_updating", "waiting_for_user", "thinking"]


@pytest.mark.parametrize("name", ["mindx_ask_user", "mindagent_ask_user"])
def test_a_question_of_the_model_is_answered_in_its_call(name):
    ask = ScriptedTurn(calls=(ToolCall("q", name, {"question": "Which?"}),))
    result, provider, _, _ = talk(ask, "thanks", config=RunConfig(heartbeat_s=0.0), answers=["that one"])
    assert result.ok
    assert "that one" in " ".join(message.text for message in provider.requests[1].messages)
    paired(provider.requests[1].messages)


def test_a_rejected_completion_is_answered_and_its_evidence_can_be_cited():
    first = ScriptedTurn(calls=(ToolCall("c1", "mindx_complete", {"answer": "done"}),))
    second = ScriptedTurn(
        calls=(ToolCall("c2", "mindx_complete", {"answer": "done", "evidence": {"seen": ["ev_action_1_1"]}}),)
    )
    criteria = (AcceptanceCriterion("seen", "it was looked at"),)
    result, provider, _, _ = talk(calls("look"), first, second, criteria=criteria)
    assert (result.outcome, result.final_answer) == (RunOutcome.FINAL, "done")
    assert "ev_action_1_1" in paired(provider.requests[1].messages)["call-0"]
    text = " ".join(message.text for message in provider.requests[2].messages)
    assert "no evidence is cited" in text
    paired(provider.requests[2].messages)
    assert [message.text for message in result.messages] == ["do it", "done"]


def test_nonsense_of_a_model_is_told_and_then_an_error():
    both = ScriptedTurn(calls=(ToolCall("a", "look", {}), ToolCall("b", "mindx_complete", {"answer": "x"})))
    result, provider, world, _ = talk(both, "fine")
    assert result.ok
    assert world.calls == []
    paired(provider.requests[1].messages)
    assert "alone" in provider.requests[1].messages[-1].text
    result, _, _, _ = talk(both, both, both)
    assert result.error_info.code.value == "invalid_decision"


def test_a_cut_batch_keeps_its_calls_answered_and_the_next_run_is_told():
    config = RunConfig(heartbeat_s=0.0, total_timeout_s=0.1, interactive=False)
    result, _, _, _ = talk(calls("write", "wait"), "never", config=config)
    assert result.outcome is RunOutcome.PARTIAL
    assert [item.status.value for item in result.observations] == ["SUCCESS", "ERROR"]
