"""A model in the loop: what it says over HTTP becomes Actions, questions and completions, and nonsense is borne."""

from __future__ import annotations

import asyncio
import json

import pytest

from mindx.core.action import ActionRequest, ActionRisk, ActionTraits, ActionType
from mindx.core.agent_context import AgentContext
from mindx.core.agent_event import AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import RunOutcome, TaskState
from mindx.core.decision import AcceptanceCriterion, AgentDecision, DecisionKind
from mindx.core.message import ToolCall
from mindx.core.observation import Observation, Status
from mindx.core.run_config import RunConfig
from mindx.errors import InputError
from mindx.providers.failures import provider_error
from mindx.providers.router import ProviderRouter
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
from mindx.runtime.agent_runtime import AgentRuntime
from mindx.runtime.context.manager import ContextManager
from mindx.runtime.context.models import ContextConfig
from mindx.runtime.provider_reasoner import ProviderReasoner

ADD = {
    "name": "add",
    "description": "Add two integers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}
DELETE = {"name": "delete", "description": "Delete.", "parameters": {"type": "object"}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


class Tools:
    """Adds at once, and deletes with a risk that no run here allows."""

    def __init__(self):
        self.done: list[ActionRequest] = []

    def assess(self, request, context):
        return ActionTraits(ActionRisk.READ_ONLY if request.name == "add" else ActionRisk.DANGEROUS)

    async def execute(self, request, context):
        self.done.append(request)
        return Observation(request.action_id, Status.SUCCESS, value=request.arguments["a"] + request.arguments["b"])


def started(
    provider, task="What is 17 + 25?", *, tools=None, events=None, settings=None, context=None, **run
) -> AgentResult:
    reasoner = ProviderReasoner(ProviderRouter([provider]), [DELETE, ADD], **(settings or {}))
    manager = ContextManager(context or ContextConfig(system_prompt="Use tools when required."))

    async def scene():
        handler = None if events is None else events.append
        async with AgentRuntime(reasoner, tools or Tools(), context_manager=manager, event_handler=handler) as runtime:
            result = await runtime.run(task, **run)
        await reasoner.close()
        return result

    return asyncio.run(scene())


def paired(body):
    """Every call that was sent has its answer right behind it."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting
    return True


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ["chat_completions", "responses"])
def test_a_tool_is_called_and_its_result_answers(remote, api, stream):
    remote.script({"calls": [{"name": "add", "arguments": {"a": 17, "b": 25}}]}, {"text": "It is 42."})
    tools, events = Tools(), []
    result = started(remote.provider("script", api=api), tools=tools, events=events, settings={"stream": stream})
    assert (result.outcome, result.final_answer) == (RunOutcome.FINAL, "It is 42.")
    assert [(request.action_id, request.action_type) for request in tools.done] == [("action_1_1", ActionType.TOOL)]
    first, second = (item["body"] for item in remote.requests)
    sent = [tool.get("function", tool)["name"] for tool in first["tools"]]
    assert sent == ["add", "delete", "mindx_ask_user", "mindx_complete"]
    assert first["tools"] == second["tools"]
    assert '"value": 42' in json.dumps(second).replace("\\", "")
    deltas = [event.payload["text"] for event in events if event.event_type is AgentEventType.TEXT_DELTA]
    assert "".join(deltas) == ("It is 42." if stream else "")
    assert result.usage["input_tokens"] == 22
    packed = [event.payload for event in events if event.event_type is AgentEventType.CONTEXT_PACKED]
    assert len(packed) == 2
    assert packed[0]["prefix_sha256"] == packed[1]["prefix_sha256"]


def test_of_two_calls_one_is_denied_and_the_other_done(remote):
    calls = [{"name": "delete", "arguments": {}, "id": "d"}, {"name": "add", "arguments": {"a": 1, "b": 2}, "id": "s"}]
    remote.script({"calls": calls}, {"text": "3, and nothing was deleted"})
    tools = Tools()
    result = started(remote.provider("script", api="chat_completions"), tools=tools)
    assert result.ok
    assert [request.name for request in tools.done] == ["add"]
    body = remote.requests[1]["body"]
    assert paired(body)
    answers = {
        message["tool_call_id"]: json.loads(message["content"])
        for message in body["messages"]
        if message["role"] == "tool"
    }
    assert (answers["d"]["status"], answers["s"]["status"]) == ("DENIED", "SUCCESS")
    assert answers["d"]["error"]["code"] == "action_rejected"


def test_bad_arguments_are_told_to_the_model_which_tries_again(remote):
    good = {"name": "add", "arguments": {"a": 17, "b": 25}}
    remote.script({"calls": [{"name": "add", "arguments": '{"a": 17, "b'}, good]}, {"calls": [good]}, {"text": "42"})
    tools = Tools()
    result = started(remote.provider("script", api="chat_completions"), tools=tools)
    assert result.final_answer == "42"
    assert len(tools.done) == 2
    body = remote.requests[1]["body"]
    assert paired(body)
    bad = next(json.loads(message["content"]) for message in body["messages"] if message["role"] == "tool")
    assert bad["status"] == "ERROR"
    assert "not valid JSON" in bad["message"]


def test_ten_megabytes_of_arguments_leave_the_run_intact(remote):
    huge = {"name": "add", "arguments": '{"a": "' + "x" * 10_000_000 + '"}'}
    remote.script({"calls": [huge]}, {"text": "too much"})
    tools = Tools()
    result = started(remote.provider("script"), tools=tools)
    assert result.final_answer == "too much"
    assert tools.done == []
    assert len(json.dumps(remote.requests[1]["body"])) < 20_000


@pytest.mark.parametrize(
    ("code", "mode"), [("provider_auth", "status-401"), ("provider_malformed_answer", "malformed")]
)
def test_a_failure_of_the_provider_ends_the_run_as_a_typed_error(remote, code, mode):
    result = started(remote.provider(mode))
    assert (result.outcome, result.state) == (RunOutcome.ERROR, AgentState.ERROR)
    assert result.error_info.code.value == "provider_failed"
    assert result.error_info.details["code"] == code


def test_cancel_ends_a_stalled_answer_at_once(remote):
    async def scene():
        reasoner = ProviderReasoner(remote.provider("stall"), [ADD])
        async with AgentRuntime(reasoner, Tools()) as runtime:
            task = asyncio.create_task(runtime.run("x", run_id="r1"))
            await remote.saw("stalled")
            assert runtime.cancel("r1")
            result = await task
            await remote.saw("closed")
            await reasoner.close()
            return result

    assert asyncio.run(scene()).outcome is RunOutcome.CANCELLED


def test_images_of_a_run_reach_the_model(remote):
    started(remote.provider("ok", api="chat_completions"), "what is it", artifacts={"images": [PIXEL]})
    assert PIXEL in json.dumps(remote.requests[0]["body"]["messages"])


def test_nonsense_is_told_and_borne_a_few_times():
    mixed = ScriptedTurn(calls=(ToolCall("", "add", {"a": 1, "b": 2}), ToolCall("", "mindx_complete", {"answer": "x"})))
    provider = ScriptedProvider(["  ", mixed, "fine"])
    result = started(provider)
    assert result.final_answer == "fine"
    told = [request.messages[-1].text for request in provider.requests]
    assert "empty" in told[1]
    assert "call it alone" in told[2]


def test_endless_nonsense_ends_as_an_invalid_decision():
    provider = ScriptedProvider(lambda request: "")
    result = started(provider)
    assert result.outcome is RunOutcome.ERROR
    assert result.error_info.code.value == "invalid_decision"
    assert len(provider.requests) == 3


def test_an_endless_tool_loop_ends_at_the_step_limit():
    provider = ScriptedProvider(lambda request: ScriptedTurn.call("add", a=1, b=1))
    result = started(provider, config=RunConfig(max_steps=5))
    assert (result.outcome, len(provider.requests)) == (RunOutcome.PARTIAL, 5)
    assert result.checkpoint is not None


def test_a_claim_without_evidence_goes_back_to_the_model():
    """The gate's answer is the answer to the control call, so that the pairing holds."""
    seen = []

    def model(request):
        seen.append(request.messages)
        if len(seen) == 2:
            return ScriptedTurn.call("add", a=1, b=2)
        answer = request.messages[-1]
        cited = json.loads(answer.text)["evidence_ids"] if answer.name == "add" else []
        return ScriptedTurn.call("mindx_complete", answer="done", evidence={"sum": cited} if cited else {})

    result = started(ScriptedProvider(model), criteria=[AcceptanceCriterion("sum", "the sum was computed")])
    assert (result.outcome, result.final_answer, len(seen)) == (RunOutcome.FINAL, "done", 3)
    rejection = seen[1][-1]
    assert (rejection.role.value, rejection.name) == ("tool", "mindx_complete")
    assert "sum" in rejection.text


def test_without_a_context_manager_results_reach_the_model_too():
    provider = ScriptedProvider([ScriptedTurn.call("add", a=17, b=25), "42"])

    async def scene():
        async with AgentRuntime(ProviderReasoner(provider, [ADD]), Tools()) as runtime:
            return await runtime.run("sum")

    assert asyncio.run(scene()).final_answer == "42"
    assert [message.role.value for message in provider.requests[1].messages] == ["user", "assistant", "tool"]


def decided(turn, step=1, **settings) -> AgentDecision:
    context = AgentContext(run_id="r", task="t", task_state=TaskState("t"), step=step)
    return asyncio.run(ProviderReasoner(ScriptedProvider([turn]), [ADD, DELETE], **settings).decide(context))


def test_action_ids_are_stable_and_unique():
    turn = [ToolCall("x", "add", {"a": 1, "b": 1}), ToolCall("y", "add", {"a": 2, "b": 2})]
    ids = [action.action_id for step in (1, 2) for action in decided(turn, step).batch]
    assert ids == ["action_1_1", "action_1_2", "action_2_1", "action_2_2"]
    assert ids[:2] == [action.action_id for action in decided(turn, 1).batch]
    assert [action.call_id for action in decided(turn).batch] == ["x", "y"]


def test_risks_approvals_and_types_are_passed_on():
    (action,) = decided(
        ScriptedTurn.call("delete"),
        action_risks={"delete": "dangerous"},
        approval_required=["delete"],
        action_types={"delete": ActionType.MCP},
    ).batch
    assert (action.risk, action.require_approval, action.action_type) == (ActionRisk.DANGEROUS, True, ActionType.MCP)
    (plain,) = decided(ScriptedTurn.call("add"), approval_required={"delete": True, "add": False}).batch
    assert (plain.risk, plain.require_approval, plain.action_type) == (None, False, ActionType.TOOL)


@pytest.mark.parametrize("name", ["mindx_ask_user", "mindagent_ask_user"])
def test_a_question_with_options(name):
    decision = decided(ScriptedTurn.call(name, question="which?", options=["red", {"value": "b", "label": "blue"}]))
    assert decision.kind is DecisionKind.ASK_USER
    assert decision.question.question == "which?"
    assert [option.value for option in decision.question.options] == ["red", "b"]


@pytest.mark.parametrize("name", ["mindx_complete", "mindagent_complete"])
def test_a_completion_cites_evidence(name):
    decision = decided(ScriptedTurn.call(name, answer="done", evidence={"c": ["e1", "e2"]}))
    assert (decision.kind, decision.text) == (DecisionKind.COMPLETE, "done")
    assert dict(decision.claim.cited) == {"c": ["e1", "e2"]}


@pytest.mark.parametrize(
    "turn",
    [
        "",
        ScriptedTurn("cut in the mid", finish_reason="length"),
        ScriptedTurn("cut", finish_reason="content_filter"),
        ScriptedTurn.call("mindx_ask_user"),
        ScriptedTurn.call("mindx_ask_user", question="  "),
        ScriptedTurn.call("mindx_ask_user", question="x", options="y"),
        ScriptedTurn.call("mindx_ask_user", question="x", options=[3]),
        ScriptedTurn.call("mindx_complete"),
        ScriptedTurn.call("mindx_complete", answer="x", evidence=["e"]),
        ScriptedTurn.call("mindx_complete", answer="x", evidence={"c": "e"}),
        ToolCall("c", "mindx_complete", {}, "{bad", "the arguments are not valid JSON"),
        [ToolCall("a", "mindx_complete", {"answer": "x"}), ToolCall("b", "add", {})],
        [ToolCall(str(index), "add", {}) for index in range(65)],
    ],
    ids=range(13),
)
def test_what_is_no_decision(turn):
    with pytest.raises(InputError) as caught:
        decided(turn)
    assert caught.value.code == "decision_invalid"


@pytest.mark.parametrize(
    "tools", [[ADD, ADD], [{**ADD, "name": "mindx_complete"}], [{"name": 3}], [{"name": "x", "parameters": 1}]]
)
def test_tool_schemas_must_be_sound_and_distinct(tools):
    with pytest.raises(InputError) as caught:
        ProviderReasoner(ScriptedProvider(), tools)
    assert caught.value.code == "tool_schema_invalid"


def test_the_order_of_schemas_does_not_depend_on_the_callers():
    one = ProviderReasoner(ScriptedProvider(), [ADD, DELETE]).tools
    two = ProviderReasoner(ScriptedProvider(), [DELETE, {"type": "function", "function": ADD}]).tools
    assert one == two


def test_a_reasoner_closes_its_provider():
    provider = ScriptedProvider()
    asyncio.run(ProviderReasoner(provider).close())
    assert provider.closed


def test_a_failure_in_the_middle_of_a_stream_is_the_runs_error():
    broken = ScriptedTurn(chunks=("half",), error=provider_error("provider_interrupted"))
    result = started(ScriptedProvider([broken]))
    assert result.error_info.details["code"] == "provider_interrupted"
