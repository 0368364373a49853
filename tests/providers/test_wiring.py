"""Providers, tools and runtime put together as the documentation shows it, over real HTTP."""

from __future__ import annotations

import asyncio
import json

import mindx
from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.checkpoint import TaskState
from mindx.tools.base import BaseTool, ToolDefinition
from mindx.tools.builtin.image_understanding import ImageUnderstandingTool
from mindx.tools.context import ToolContext
from mindx.tools.executor import ToolExecutor
from mindx.tools.registry import ToolRegistry

PIXEL = "data:image/png;base64,iVBORw0KGgo="


class AddTool(BaseTool):
    definition = ToolDefinition(
        name="add",
        description="Add two integers.",
        parameters={
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        risk=mindx.ActionRisk.READ_ONLY,
    )

    async def execute(self, arguments, context):
        return arguments["a"] + arguments["b"]


def test_the_quick_start(remote):
    wrong = {"calls": [{"name": "add", "arguments": {"a": "17", "b": 25}}]}
    right = {"calls": [{"name": "add", "arguments": {"a": 17, "b": 25}}]}
    remote.script(wrong, right, {"text": "42"})
    registry = ToolRegistry([AddTool()])

    async def scene():
        reasoner = mindx.ProviderReasoner(
            mindx.ProviderRouter([remote.provider("script", api="chat_completions")]),
            tools=registry.provider_schemas(),
            action_risks=registry.action_risks(),
            approval_required=registry.approval_required(),
        )
        manager = mindx.ContextManager(mindx.ContextConfig(system_prompt="Use tools when required."))
        runtime = mindx.AgentRuntime(reasoner, ToolExecutor(registry), context_manager=manager)
        result = await runtime.run("Use the add tool to calculate 17 + 25.")
        await runtime.close(close_dependencies=True)
        return result

    result = asyncio.run(scene())
    assert result.final_answer == "42"
    bodies = [item["body"] for item in remote.requests]
    assert bodies[0]["messages"][0] == {"role": "system", "content": "Use tools when required."}
    answers = [json.loads(message["content"]) for message in bodies[2]["messages"] if message["role"] == "tool"]
    assert [answer["status"] for answer in answers] == ["ERROR", "SUCCESS"]
    assert answers[1]["value"] == 42


def test_the_image_tool_asks_the_provider_that_can_see(remote):
    blind = remote.provider("ok", capabilities=mindx.ProviderCapabilities(vision=False))
    seeing = remote.provider("noimages")
    tool = ImageUnderstandingTool(mindx.ProviderRouter([blind, seeing]))
    context = AgentContext(run_id="r", task="t", task_state=TaskState("t"))
    surroundings = ToolContext.of(context, ActionRequest("a1", "image_understanding"))

    async def scene():
        async with blind, seeing:
            return await tool.execute({"image_url": PIXEL, "prompt": "what?"}, surroundings)

    assert asyncio.run(scene()).value["text"] == "hello"
    paths = [item["path"] for item in remote.requests]
    assert paths == ["v1/chat/completions", "v1/responses"]
