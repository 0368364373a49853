"""What must hold for any run whatever: bundles whole, the budget kept, order kept, the beginning unchanged."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.checkpoint import TaskState
from mindx.core.decision import AgentDecision
from mindx.core.message import ChatMessage, Role, ToolCall
from mindx.core.observation import Observation, ObservationBatch, Status
from mindx.errors import ContextOverflowError
from mindx.runtime.context.manager import ContextManager
from mindx.runtime.context.models import ContextConfig

TOOLS = ({"name": "look", "description": "look", "parameters": {"type": "object", "properties": {}}},)

step = st.one_of(
    st.tuples(st.just("calls"), st.lists(st.integers(0, 4000), min_size=1, max_size=4), st.integers(0, 300)),
    st.tuples(st.just("message"), st.just([]), st.integers(0, 4000)),
)
configs = st.builds(
    ContextConfig,
    system_prompt=st.sampled_from(["", "You look."]),
    max_tokens=st.integers(600, 6000),
    reserve_tokens=st.just(100),
    margin_tokens=st.just(20),
    max_observation_chars=st.integers(200, 4000),
)


async def advance(manager, context, kind, sizes, size):
    context.step += 1
    if kind == "message":
        await manager.add_message(context, ChatMessage.user("m" * size), answers=None)
        return
    calls = tuple(ToolCall(f"c{context.step}_{index}", "look", {}) for index in range(len(sizes)))
    actions = [
        ActionRequest(f"a{context.step}_{index}", "look", call_id=call.call_id) for index, call in enumerate(calls)
    ]
    decision = AgentDecision.act(*actions, message=ChatMessage.assistant("t" * size, calls))
    await manager.add_decision(context, decision)
    results = tuple(
        Observation(action.action_id, Status.SUCCESS, value="r" * length)
        for action, length in zip(actions, sizes, strict=True)
    )
    await manager.add_observations(context, decision, ObservationBatch("b", results))


def check_pairs(messages):
    """Every call is followed by its one answer, before anyone else speaks."""
    waiting: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call.call_id for call in message.tool_calls]
    assert not waiting


@given(configs, st.lists(step, max_size=25))
def test_any_run_is_packed_soundly(config, steps):
    manager = ContextManager(config)
    context = AgentContext(run_id="r", task="the task", task_state=TaskState("the task"))

    async def walk():
        await manager.begin(context)
        views = []
        for kind, sizes, size in steps:
            await advance(manager, context, kind, sizes, size)
            try:
                views.append((await manager.compile(context, TOOLS), context.store.records))
            except ContextOverflowError:
                break
        return views

    before = None
    for view, records in asyncio.run(walk()):
        assert view.tokens <= config.budget_tokens
        check_pairs(view.messages)
        sent = [id(message) for message in view.messages]
        known = {id(record.message): record.record_id for record in records}
        order = [known[item] for item in sent if item in known]
        assert order == sorted(order)
        assert view.messages[-1] is records[-1].message
        assert any(message.text == "the task" for message in view.messages)
        if before is not None:
            assert view.prefix_sha256 == before.prefix_sha256
            if view.epoch == before.epoch:  # nothing is rewritten within an epoch: a provider's cache holds
                assert view.messages[: len(before.messages)] == before.messages
        before = view


@given(st.lists(st.integers(100, 900), min_size=30, max_size=60))
def test_history_is_rewritten_seldom(sizes):
    """With compaction by need alone, most steps extend what was sent before."""
    manager = ContextManager(ContextConfig(max_tokens=3000, reserve_tokens=100, margin_tokens=20))
    context = AgentContext(run_id="r", task="t", task_state=TaskState("t"))

    async def walk():
        await manager.begin(context)
        for size in sizes:
            await advance(manager, context, "calls", [size], 0)
            await manager.compile(context, TOOLS)

    asyncio.run(walk())
    assert context.store.state.epoch <= len(sizes) // 4
