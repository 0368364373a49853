"""The ContextManager: it takes in what happens in a run and compiles what the model sees before each thought."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from mindx.core.agent_context import AgentContext, ContextView
from mindx.core.decision import AgentDecision
from mindx.core.message import ChatMessage, ImagePart, Role, TextPart
from mindx.core.observation import ObservationBatch
from mindx.runtime.context.estimate import Estimator, canonical
from mindx.runtime.context.models import ContextConfig, ContextPackResult, ContextScope, RecordKind
from mindx.runtime.context.packer import CacheAwarePacker
from mindx.runtime.context.store import ContextStore
from mindx.runtime.context.texts import (
    SEE_FIRST,
    capped,
    image_parts,
    left_out_note,
    observation_images,
    observation_text,
    task_text,
    with_calls,
)

_MIN_SCALE, _MAX_SCALE = 0.5, 3.0


class ContextManager:
    """Keeps nothing of a run but in `context.store` (a ContextStore): one manager serves many runs at once.

    `artifacts["images"]` of a run (http(s) or data URLs, or `{"url", "detail"}`) go to the model with its task; the
    text in `metadata["system_context"]`, if any, follows the system prompt.
    """

    def __init__(self, config: ContextConfig | None = None) -> None:
        self.config = config or ContextConfig()
        self._estimator = Estimator(self.config)
        self._packer = CacheAwarePacker(self.config)
        self._tools: tuple[Sequence[Mapping[str, Any]], int, str] | None = None

    async def begin(self, context: AgentContext) -> None:
        """Take in the system prompt, the history, the task and its images. Raises InputError (image_invalid)."""
        store = context.store = ContextStore()
        for text in (self.config.system_prompt, str(context.metadata.get("system_context") or "")):
            if text:
                message = ChatMessage.system(text)
                self._add(store, RecordKind.SYSTEM, message, scope=ContextScope.GLOBAL, stable_prefix=True)
        self._add_history(store, context.history)
        images = image_parts(context.artifacts.get("images"), self.config.max_images)
        task = ChatMessage(Role.USER, (TextPart(task_text(context.task, context.task_state)), *images))
        self._add(store, RecordKind.TASK, task, pinned=True)

    def _add_history(self, store: ContextStore, history: Sequence[ChatMessage]) -> None:
        """Take in earlier turns; a call and its results stay together there too."""
        groups: dict[str, str] = {}
        for index, message in enumerate(history):
            group = ""
            if message.tool_calls:
                group = f"history:{index}"
                groups.update((call.call_id, group) for call in message.tool_calls)
            elif message.role is Role.TOOL:
                group = groups.get(message.tool_call_id, "")
                if not group:
                    continue  # a result whose call is gone: no provider takes it
            if message.role is not Role.SYSTEM:
                scope = ContextScope.SESSION
                self._add(store, RecordKind.HISTORY, message, group_id=group, scope=scope, priority=-1)

    async def compile(self, context: AgentContext, tools: Sequence[Mapping[str, Any]] = ()) -> ContextView:
        """Return the messages for this step. Raises ContextOverflowError."""
        store = _store(context)
        tool_tokens, tool_text = self._measured(tools)
        result = self._packer.pack(store.bundles, tool_tokens, store.state)
        store.let_go()
        prefix: list[ChatMessage] = []
        messages: list[ChatMessage] = []
        for bundle in result.bundles:
            (prefix if bundle.records[0].stable_prefix else messages).extend(bundle.messages)
        fingerprint = self._fingerprint(prefix, tool_text)
        if result.dropped:
            prefix.append(ChatMessage.user(left_out_note(len(result.dropped))))
        return ContextView(
            messages=(*prefix, *messages),
            prefix_sha256=fingerprint,
            pressure=result.pressure,
            epoch=result.epoch,
            tokens=result.tokens,
            packed=self._told(result, store, fingerprint),
        )

    def shrink(self, context: AgentContext) -> None:
        """Have the next `compile` leave out more: a model has said that the last view is too much for it."""
        if context.view is not None:
            _store(context).state.ceiling = max(context.view.tokens - 1, 1)

    def _told(self, result: ContextPackResult, store: ContextStore, fingerprint: str) -> dict[str, Any]:
        return {
            **result.to_dict(),
            "max_tokens": self.config.max_tokens,
            "reserve_tokens": self.config.reserve_tokens,
            "records": len(store),
            "prefix_sha256": fingerprint,
            "estimator": self._estimator.name,
            "scale": round(store.state.scale, 4),
        }

    def _measured(self, tools: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
        """Return tokens and canonical text of the schemas; they are the same ones at almost every step."""
        known = self._tools
        if known is None or known[0] is not tools:
            known = (tools, self._estimator.tools(tools), canonical(list(tools)))
            if isinstance(tools, tuple):  # what can change is measured anew
                self._tools = known
        return known[1], known[2]

    @staticmethod
    def _fingerprint(prefix: Sequence[ChatMessage], tool_text: str) -> str:
        digest = hashlib.sha256()
        for message in prefix:
            digest.update(canonical(message.to_dict()).encode() + b"\x00")
        digest.update(tool_text.encode())
        return digest.hexdigest()

    async def add_decision(self, context: AgentContext, decision: AgentDecision) -> None:
        """Take in a decision; what the provider counted makes later estimates better."""
        store = _store(context)
        self._calibrate(store, decision.usage)
        kind = RecordKind.DECISION
        self._add(store, kind, with_calls(decision), group_id=_group(context), scope=ContextScope.ITERATION)

    def _calibrate(self, store: ContextStore, usage: Mapping[str, Any]) -> None:
        counted, estimated = usage.get("input_tokens"), store.state.estimated
        if isinstance(counted, int) and counted > 0 and estimated > 0:
            store.state.scale = min(max(counted / estimated, _MIN_SCALE), _MAX_SCALE)

    async def add_observations(self, context: AgentContext, decision: AgentDecision, batch: ObservationBatch) -> None:
        """Take in the Observations: each is the answer to its call, in the bundle of its decision."""
        store, group = _store(context), _group(context)
        seen = {observation.action_id: observation for observation in batch}
        actions = decision.batch.actions if decision.batch is not None else ()
        limit = self._result_chars(len(actions))
        images: list[ImagePart] = []
        for action in actions:
            observation = seen[action.action_id]
            text = capped(observation_text(observation), limit)
            message = ChatMessage.tool(action.call_id or action.action_id, text, action.name)
            self._add(store, RecordKind.OBSERVATION, message, group_id=group, scope=ContextScope.ITERATION)
            images += observation_images(observation)
        if images:
            head = TextPart("Images from these results:")
            shown = ChatMessage(Role.USER, (head, *images[: self.config.max_images]))
            self._add(store, RecordKind.IMAGE, shown, group_id=group)

    def _result_chars(self, results: int) -> int:
        """Return how long one of several results may be, so that together they fill half of the budget at most."""
        share = int(self.config.budget_tokens / 2 / max(results, 1))
        by_length = int(share * self.config.chars_per_token)
        return max(min(self.config.max_observation_chars, by_length), 100)

    async def add_message(self, context: AgentContext, message: ChatMessage, *, answers: AgentDecision | None) -> None:
        """Take in the user's or the runtime's words; they answer the calls of `answers`, if it made any."""
        store = _store(context)
        message = _capped_message(message, self._result_chars(1))
        calls = with_calls(answers).tool_calls if answers is not None else ()
        for index, call in enumerate(calls):
            answer = ChatMessage.tool(call.call_id, message.text if index == 0 else SEE_FIRST, call.name)
            self._add(store, RecordKind.MESSAGE, answer, group_id=_group(context))
        if not calls:
            self._add(store, RecordKind.MESSAGE, message)

    def _add(self, store: ContextStore, kind: RecordKind, message: ChatMessage, **traits: Any) -> None:
        store.append(kind, message, self._estimator.message(message), **traits)


def _store(context: AgentContext) -> ContextStore:
    store = context.store
    if not isinstance(store, ContextStore):
        raise TypeError("ContextManager.begin comes first")
    return store


def _group(context: AgentContext) -> str:
    """Return the bundle of this step's decision, its calls and their results."""
    return f"step:{context.step}"


def _capped_message(message: ChatMessage, limit: int) -> ChatMessage:
    if len(message.text) <= limit:
        return message
    rest = tuple(part for part in message.parts if isinstance(part, ImagePart))
    return ChatMessage(message.role, (TextPart(capped(message.text, limit)), *rest))
