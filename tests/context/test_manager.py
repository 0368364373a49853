from __future__ import annotations

import asyncio
import json
import sys

import pytest

from mindx.core.action import ActionRequest
from mindx.core.agent_context import ContextPressure
from mindx.core.checkpoint import TaskConstraint, TaskState
from mindx.core.decision import AcceptanceCriterion, AgentDecision
from mindx.core.evidence import ArtifactRef
from mindx.core.message import ChatMessage, ImagePart, Role, ToolCall
from mindx.core.observation import Observation, ObservationBatch, Status
from mindx.errors import ContextOverflowError, InputError
from mindx.runtime.context.manager import ContextManager
from mindx.runtime.context.models import NO_RESULT, ContextConfig, RecordKind

TOOL = {"name": "look", "description": "look", "parameters": {"type": "object", "properties": {}}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def begun(context, config=None):
    manager = ContextManager(config)
    asyncio.run(manager.begin(context))
    return manager


def compiled(manager, context, tools=()):
    return asyncio.run(manager.compile(context, tools))


def look(manager, context, *values, text="", usage=None):
    """One step in which a model looks, once for each value."""
    context.step += 1
    calls = tuple(ToolCall(f"c{context.step}_{index}", "look", {"n": index}) for index in range(len(values)))
    actions = [
        ActionRequest(f"a{context.step}_{index}", "look", call_id=call.call_id) for index, call in enumerate(calls)
    ]
    decision = AgentDecision.act(*actions, message=ChatMessage.assistant(text, calls), usage=usage)
    seen = tuple(
        value if isinstance(value, Observation) else Observation(action.action_id, Status.SUCCESS, value=value)
        for action, value in zip(actions, values, strict=True)
    )
    asyncio.run(manager.add_decision(context, decision))
    asyncio.run(manager.add_observations(context, decision, ObservationBatch("b", seen)))


def test_the_system_prompt_the_history_and_the_task_come_in_order(make_context):
    history = (ChatMessage.user("before"), ChatMessage.assistant("answered"))
    context = make_context("now", history=history, metadata={"system_context": "resumed"})
    view = compiled(begun(context, ContextConfig(system_prompt="rules")), context)
    assert [(m.role.value, m.text) for m in view.messages] == [
        ("system", "rules"), ("system", "resumed"), ("user", "before"), ("assistant", "answered"), ("user", "now"),
    ]  # fmt: skip


def test_images_of_a_run_go_with_its_task(make_context):
    context = make_context("what is it", artifacts={"images": [PIXEL, {"url": PIXEL, "detail": "low"}]})
    manager = begun(context)
    task = compiled(manager, context).messages[-1]
    assert [part for part in task.parts if isinstance(part, ImagePart)] == [ImagePart(PIXEL), ImagePart(PIXEL, "low")]
    without = make_context("what is it")
    assert compiled(manager, context).tokens - compiled(begun(without), without).tokens == 2 * 1024


@pytest.mark.parametrize(
    "images", ["a.png", ["a.png"], ["file:///etc/passwd"], ["data:text/html,x"], [{"u": 1}], [PIXEL] * 17]
)
def test_what_is_no_image_is_refused(make_context, images):
    with pytest.raises(InputError) as caught:
        begun(make_context(artifacts={"images": images}))
    assert caught.value.code == "image_invalid"


def test_images_that_an_action_made_follow_its_results(make_context):
    context = make_context()
    manager = begun(context)
    artifact = ArtifactRef("i", PIXEL, "image/png")
    inside = ArtifactRef("j", "/workspace/a.png", "image/png")
    outside = ArtifactRef("k", "https://192.0.2.1/?what=was-read", "image/png")
    look(manager, context, Observation("a1_0", Status.SUCCESS, artifacts=(artifact, inside, outside)), "two")
    roles = [message.role for message in compiled(manager, context).messages]
    assert roles[-4:] == [Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.USER]
    images = [part for part in compiled(manager, context).messages[-1].parts if isinstance(part, ImagePart)]
    assert images == [ImagePart(PIXEL)]
    assert len({record.group_id for record in context.store if record.kind is not RecordKind.TASK}) == 1


def test_the_task_tells_what_must_hold_and_what_is_unknown(make_context):
    state = TaskState(
        "all of it",
        constraints=(TaskConstraint("c", "touch no tests"),),
        criteria=(AcceptanceCriterion("green", "tests pass"), AcceptanceCriterion("nice", "tidy", required=False)),
        unknown_action_ids=("action_3_1",),
        progress_summary="half",
    )
    context = make_context("this part", task_state=state)
    text = compiled(begun(context), context).messages[-1].text
    for part in ("this part", "all of it", "touch no tests", "- green: tests pass", "(optional)", "action_3_1", "half"):
        assert part in text


def test_results_are_json_and_a_long_one_says_what_it_lost(make_context):
    context = make_context()
    manager = begun(context, ContextConfig(max_observation_chars=400))
    look(manager, context, {"n": 1}, "x" * 5000)
    first, second = compiled(manager, context).messages[-2:]
    assert json.loads(first.text) == {"status": "SUCCESS", "value": {"n": 1}}
    assert len(second.text) <= 400
    assert "characters in all, the middle is left out" in second.text


def test_a_refusal_is_told_beside_what_was_done(make_context):
    """Pairing stays sound after a partial rejection, whatever the order of the Observations."""
    context = make_context()
    manager = begun(context)
    denied = Observation("a1_1", Status.DENIED, "the policy forbids it")
    look(manager, context, "fine", denied)
    first, second = compiled(manager, context).messages[-2:]
    assert (first.tool_call_id, second.tool_call_id) == ("c1_0", "c1_1")
    assert json.loads(second.text) == {"status": "DENIED", "message": "the policy forbids it"}


def test_the_answer_to_a_control_call_closes_it(make_context):
    context = make_context()
    manager = begun(context)
    context.step = 1
    call = ToolCall("q1", "mindx_ask_user", {"question": "which?"})
    decision = AgentDecision.ask("which?", message=ChatMessage.assistant("", (call,)))
    asyncio.run(manager.add_decision(context, decision))
    asyncio.run(manager.add_message(context, ChatMessage.user("the red one"), answers=decision))
    last = compiled(manager, context).messages[-1]
    assert (last.role, last.tool_call_id, last.text) == (Role.TOOL, "q1", "the red one")


def test_feedback_to_a_plain_text_is_a_message(make_context):
    context = make_context()
    manager = begun(context)
    decision = AgentDecision.complete("done", message=ChatMessage.assistant("done"))
    asyncio.run(manager.add_decision(context, decision))
    asyncio.run(manager.add_message(context, ChatMessage.user("not yet"), answers=decision))
    assert [m.text for m in compiled(manager, context).messages[-2:]] == ["done", "not yet"]


def test_a_call_that_was_never_answered_is_answered_as_unknown(make_context):
    calls = (ToolCall("c1", "look"), ToolCall("c2", "look"))
    history = (ChatMessage.assistant("", calls), ChatMessage.tool("c2", "seen"), ChatMessage.tool("zz", "stray"))
    context = make_context(history=history)
    messages = compiled(begun(context), context).messages
    assert [(m.tool_call_id, m.text) for m in messages if m.role is Role.TOOL] == [("c1", NO_RESULT), ("c2", "seen")]


def test_a_decision_without_a_model_gets_a_message(make_context):
    context = make_context()
    manager = begun(context)
    context.step = 1
    decision = AgentDecision.act(ActionRequest("a1", "look", {"n": 1}))
    asyncio.run(manager.add_decision(context, decision))
    seen = ObservationBatch("b", (Observation("a1", Status.SUCCESS, value=3),))
    asyncio.run(manager.add_observations(context, decision, seen))
    assert [m.role for m in compiled(manager, context).messages[-2:]] == [Role.ASSISTANT, Role.TOOL]


def test_pressure_rises_and_compaction_happens_once(make_context):
    context = make_context()
    manager = begun(context, ContextConfig(max_tokens=2000, reserve_tokens=0, margin_tokens=0))
    told = []
    for _ in range(20):
        look(manager, context, "x" * 500)
        view = compiled(manager, context)
        told.append((view.pressure, view.packed["decision"], view.epoch))
    first = next(index for index, item in enumerate(told) if item[1] == "compacted")
    pressures = [item[0] for item in told[: first + 1]]
    assert pressures[0] is ContextPressure.NORMAL
    assert pressures[-2:] == [ContextPressure.WARNING, ContextPressure.CRITICAL]
    assert [item[1] for item in told].count("compacted") == 1
    assert {item[2] for item in told[:first]} == {0}
    assert told[first + 1][2] == 1  # the epoch stays while what is left out stays
    assert (ContextPressure.CRITICAL, "kept", 1) in told[first + 1 :]  # and full is no reason to rewrite it again
    assert any(decision == "forced" and epoch == 2 for _, decision, epoch in told)  # but that it would not fit is


def test_the_oldest_go_first_and_a_note_says_so(make_context):
    context = make_context(history=(ChatMessage.user("h" * 400), ChatMessage.assistant("i" * 400)))
    manager = begun(context, ContextConfig(system_prompt="rules", max_tokens=2000, reserve_tokens=0, margin_tokens=0))
    while not context.store.state.dropped:
        look(manager, context, "x" * 500)
        view = compiled(manager, context)
    gone = context.store.state.dropped
    left = [record.record_id for record in context.store if record.group_id not in gone and not record.pinned]
    assert max(record.record_id for record in context.store if record.group_id in gone) < min(left[1:])
    assert [message.text for message in view.messages[:3]] == [
        "rules",
        f"[Left out here, as it no longer fits: {len(gone)} earlier parts of this conversation.]",
        "do it",
    ]
    assert view.tokens <= 0.60 * 2000


def test_what_packing_decided_is_told(make_context):
    context = make_context()
    manager = begun(context, ContextConfig(system_prompt="rules"))
    packed = compiled(manager, context, (TOOL,)).packed
    assert packed["decision"] == "kept"
    assert packed["pressure"] == "normal"
    assert packed["budget_tokens"] == 120_000 - 4096 - 256
    assert 0 < packed["tool_tokens"] < packed["tokens"] < 100
    assert packed["estimator"] == "characters"
    json.dumps(packed)


def test_the_prefix_fingerprint_knows_system_and_tools_only(make_context):
    context = make_context()
    manager = begun(context, ContextConfig(system_prompt="rules"))
    before = compiled(manager, context, (TOOL,)).prefix_sha256
    look(manager, context, "x")
    assert compiled(manager, context, (TOOL,)).prefix_sha256 == before
    reordered = {"parameters": TOOL["parameters"], "name": "look", "description": "look"}
    assert compiled(manager, context, (reordered,)).prefix_sha256 == before
    assert compiled(manager, context, ({**TOOL, "name": "other"},)).prefix_sha256 != before
    other = make_context()
    assert compiled(begun(other, ContextConfig(system_prompt="Rules")), other, (TOOL,)).prefix_sha256 != before


def test_schemas_given_as_a_list_are_measured_anew(make_context):
    context = make_context()
    manager, tools = begun(context), [TOOL]
    before = compiled(manager, context, tools)
    tools.append({**TOOL, "name": "other"})
    after = compiled(manager, context, tools)
    assert after.tokens > before.tokens
    assert after.prefix_sha256 != before.prefix_sha256


def test_what_cannot_be_left_out_and_does_not_fit_is_an_error(make_context):
    context = make_context("x" * 3700)
    manager = begun(context, ContextConfig(max_tokens=1000, reserve_tokens=100, margin_tokens=0))
    with pytest.raises(ContextOverflowError) as caught:
        compiled(manager, context)
    assert caught.value.code == "context_overflow"
    assert caught.value.details["budget_tokens"] == 900


def test_what_the_provider_counted_scales_the_estimate(make_context):
    context = make_context()
    manager = begun(context)
    before = compiled(manager, context)
    look(manager, context, "x" * 4000, usage={"input_tokens": before.tokens * 2})
    after = compiled(manager, context)
    assert after.packed["scale"] == 2.0
    assert after.tokens > 2 * 1000


def test_runs_of_one_manager_do_not_meet(make_context):
    manager = ContextManager()
    one, two = make_context("one"), make_context("two")
    for context in (one, two):
        asyncio.run(manager.begin(context))
    look(manager, one, "x")
    assert len(compiled(manager, two).messages) == 1


def test_the_store_only_grows(make_context):
    context = make_context()
    manager = begun(context, ContextConfig(max_tokens=1500, reserve_tokens=0, margin_tokens=0))
    records = context.store.records
    for _ in range(10):
        look(manager, context, "x" * 600)
        compiled(manager, context)
        assert context.store.records[: len(records)] == records
        records = context.store.records
    assert context.store.state.dropped
    assert len(records) == 21


@pytest.mark.parametrize(
    "wrong",
    [{"warning_ratio": 0.9}, {"max_tokens": 100}, {"target_ratio": 0}, {"image_tokens": 0}, {"chars_per_token": 0}],
)
def test_limits_that_do_not_fit_are_refused(wrong):
    with pytest.raises(InputError) as caught:
        ContextConfig(**wrong)
    assert caught.value.code == "context_config_invalid"


def test_tiktoken_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(InputError) as caught:
        ContextManager(ContextConfig(use_tiktoken=True))
    assert caught.value.code == "tiktoken_unavailable"
    assert "mindx[tiktoken]" in caught.value.message


def test_other_scripts_are_not_counted_as_latin(make_context):
    short, long = make_context("a" * 400), make_context("\u6f22" * 400)
    assert compiled(begun(long), long).tokens - compiled(begun(short), short).tokens == 300
