"""The Reasoner that asks a model: its view of the run goes out, an AgentDecision comes back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from mindx.core.action import ActionRequest, ActionRisk, ActionType
from mindx.core.agent_context import AgentContext
from mindx.core.agent_event import AgentEventType
from mindx.core.decision import AgentDecision
from mindx.core.message import ChatMessage, ToolCall
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.providers.base import FINISH_FILTER, FINISH_LENGTH, BaseProvider, ModelRequest, ProviderResponse
from mindx.providers.router import ProviderRouter
from mindx.providers.wire import function_of, malformed
from mindx.runtime.control_tools import CONTROL_SCHEMAS, control_decision, is_control

MAX_BATCH = 64


class ProviderReasoner:
    """Asks a model what to do next.

    `tools` are the schemas that the model sees (`registry.provider_schemas()`); two control tools join them: to ask
    the user, and to complete. `action_risks` and `approval_required` name tools whose risk is at least that, or that
    always need a person's yes; they can tighten what the policy computes, never loosen it. `action_types` names tools
    that are something else than ActionType.TOOL. With `stream` text is told as TEXT_DELTA events while it comes.

    `decide` raises ProviderError, and InputError (decision_invalid) for an answer that is no decision: the loop tells
    the model, a few times.
    """

    def __init__(
        self,
        router: ProviderRouter | BaseProvider,
        tools: Sequence[Mapping[str, Any]] = (),
        action_risks: Mapping[str, ActionRisk | str] | None = None,
        approval_required: Mapping[str, bool] | Collection[str] = (),
        *,
        action_types: Mapping[str, ActionType] | None = None,
        model: str = "",
        stream: bool = True,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        api: str = "",
    ) -> None:
        self.router = ProviderRouter([router]) if isinstance(router, BaseProvider) else router
        flat = sorted((function_of(tool) for tool in tools), key=lambda tool: str(tool["name"]))
        names = [tool["name"] for tool in flat]
        taken = {name for name in names if names.count(name) > 1 or is_control(name)}
        if taken:
            raise InputError("tool_schema_invalid", f"the tool {quoted(min(taken))} is there twice, or a control tool")
        # In one order whatever the caller's, so that a provider's cache finds the same beginning again.
        self.tools: tuple[Mapping[str, Any], ...] = (*flat, *CONTROL_SCHEMAS)
        self._risks = {name: ActionRisk(risk) for name, risk in (action_risks or {}).items()}
        asks = approval_required
        self._asks = {name for name in asks if not isinstance(asks, Mapping) or asks[name]}
        self._types = dict(action_types or {})
        self._stream = stream
        self._request = ModelRequest(
            (), self.tools, model=model, temperature=temperature, max_output_tokens=max_output_tokens, api=api
        )

    async def decide(self, context: AgentContext) -> AgentDecision:
        """Return the model's decision."""
        request = replace(self._request, messages=_messages(context))
        response = await (self._streamed(request, context) if self._stream else self.router.generate(request))
        return self._decision(response, context.step)

    async def close(self) -> None:
        """Close the router and its providers."""
        await self.router.close()

    async def _streamed(self, request: ModelRequest, context: AgentContext) -> ProviderResponse:
        async with aclosing(self.router.stream(request)) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    await context.emit(AgentEventType.TEXT_DELTA, {"text": chunk.text})
                if chunk.response is not None:
                    return chunk.response
        raise malformed("the stream had no last chunk")

    def _decision(self, response: ProviderResponse, step: int) -> AgentDecision:
        calls = response.tool_calls
        if not calls:
            return _answered(response)
        controls = [call for call in calls if is_control(call.name)]
        if controls:
            if len(calls) > 1:
                raise _invalid(f"{controls[0].name} was called beside other tools; call it alone")
            return control_decision(controls[0], response.message, response.usage)
        if len(calls) > MAX_BATCH:
            raise _invalid(f"{len(calls)} tools were called at once; at most {MAX_BATCH} are")
        actions = (self._action(call, f"action_{step}_{index}") for index, call in enumerate(calls, 1))
        return AgentDecision.act(
            *actions,
            batch_id=f"batch_{step}",
            text=response.text,
            message=response.message,
            usage=response.usage,
        )

    def _action(self, call: ToolCall, action_id: str) -> ActionRequest:
        return ActionRequest(
            action_id,
            call.name,
            call.arguments,
            self._types.get(call.name, ActionType.TOOL),
            risk=self._risks.get(call.name),
            require_approval=call.name in self._asks,
            call_id=call.call_id,
            problem=call.problem,
        )


def _answered(response: ProviderResponse) -> AgentDecision:
    """Return the completion that a plain text is."""
    if response.finish_reason == FINISH_LENGTH:
        raise _invalid("the answer was cut at the token limit; give a shorter one")
    if response.finish_reason == FINISH_FILTER:
        raise _invalid("the answer was cut by the endpoint's content filter")
    if not response.text.strip():
        raise _invalid("the answer was empty: call a tool, ask the user, or give the final answer as text")
    return AgentDecision.complete(response.text, message=response.message, usage=response.usage)


def _messages(context: AgentContext) -> tuple[ChatMessage, ...]:
    if context.view is not None:
        return context.view.messages
    feedback = (ChatMessage.user(text) for text in context.feedback)
    return (*context.history, ChatMessage.user(context.task), *context.messages, *feedback)


def _invalid(problem: str) -> InputError:
    return InputError("decision_invalid", problem)
