"""OpenAI-compatible endpoints, through the `openai` package (the extra `mindx[openai]`)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio

from mindx.errors import ProviderError
from mindx.providers.base import BaseProvider, ModelRequest, ProviderResponse, ProviderStreamChunk
from mindx.providers.chat_wire import API as CHAT
from mindx.providers.chat_wire import ChatStream, chat_params, read_chat
from mindx.providers.dialect import adjusted, adjustment_for, lacks_interface
from mindx.providers.failures import FAILURES, failure_code, provider_error, server_text
from mindx.providers.openai_client import open_client
from mindx.providers.param import OpenAIProviderParam
from mindx.providers.responses_wire import API as RESPONSES
from mindx.providers.responses_wire import ResponsesStream, read_responses, responses_params
from mindx.providers.retry import RetryRules, retry_after_s, with_retries

T = TypeVar("T")


class _NoSuchInterfaceError(Exception):
    """The endpoint has no chat completions, or no images there; `error` is what to raise if nothing else works."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__()
        self.error = error


class _AdjustedError(Exception):
    """The endpoint wants the request otherwise, and now knows how; it is sent once more."""


@dataclass(slots=True)
class _Open:
    """A stream that has begun: `ready` holds what came with the first chunk."""

    stream: Any
    builder: ChatStream | ResponsesStream
    api: str
    end: float
    ready: list[ProviderStreamChunk] = field(default_factory=list)


class OpenAIProvider(BaseProvider):
    """One endpoint. Its connections belong to the event loop of their first use.

    `rules` are the retries (None: as `param` says); the SDK's own are off. Raises ProviderError
    (provider_not_installed) without the `openai` package.
    """

    def __init__(self, param: OpenAIProviderParam, *, rules: RetryRules | None = None) -> None:
        self.param = param
        self.name = param.platform
        self.models = param.models
        self.capabilities = param.capabilities
        self._rules = rules or RetryRules(max_attempts=param.max_attempts, deadline_s=param.deadline_s)
        self._client = open_client(param)
        self._closed = False
        self._adjustments: set[str] = set()
        self._interfaces: dict[tuple[str, bool], str] = {}  # what has worked: (model, with images) -> interface

    def __repr__(self) -> str:
        return f"OpenAIProvider({self.name!r}, base_url={self.param.base_url!r}, models={self.models!r})"

    async def generate(self, request: ModelRequest) -> ProviderResponse:
        """Return the whole answer. Raises ProviderError."""
        return await self._through(request, lambda api, left: self._generate(api, request, left))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderStreamChunk, None]:
        """Yield the answer in pieces. A failure before the first piece is retried; one in the middle is raised."""
        end = self._rules.clock() + self._rules.deadline_s
        opened = await self._through(request, lambda api, left: self._open(api, request, left, end))
        try:
            while True:
                for chunk in opened.ready:
                    yield chunk
                try:
                    opened.ready = await self._next(opened, request)
                except StopAsyncIteration:
                    break
            with self._located(request):
                response = opened.builder.finish()
            yield ProviderStreamChunk(response=response)
        finally:
            with anyio.CancelScope(shield=True):
                await opened.stream.close()

    async def close(self) -> None:
        """Close the connections; what still waits for an answer fails."""
        if not self._closed:
            self._closed = True
            await self._client.close()

    async def _through(self, request: ModelRequest, attempt: Callable[[str, float], Awaitable[T]]) -> T:
        """Make the attempts, on the interface that the request, the settings or experience name."""
        if self._closed:
            raise provider_error("provider_closed", self.name)
        asked = request.api or self.param.api
        key = (request.model or self.param.model, request.has_images)
        if asked != "auto":
            return await self._retried(asked, attempt)
        known = self._interfaces.get(key)
        first_error: ProviderError | None = None
        for api in (known,) if known else (CHAT, RESPONSES):
            try:
                result = await self._retried(api, attempt)
            except _NoSuchInterfaceError as refusal:
                first_error = refusal.error
            else:
                self._interfaces[key] = api
                return result
            if api == RESPONSES or known:
                break
        assert first_error is not None
        raise first_error

    async def _retried(self, api: str, attempt: Callable[[str, float], Awaitable[T]]) -> T:
        async def once(left: float) -> T:
            for _ in range(3):  # each way of asking otherwise is tried once
                with suppress(_AdjustedError):
                    return await attempt(api, left)
            raise provider_error("provider_bad_request", self.name)

        return await with_retries(once, self._rules)

    async def _generate(self, api: str, request: ModelRequest, left: float) -> ProviderResponse:
        async def call() -> Any:
            with anyio.fail_after(min(self.param.timeout_s, left)):
                raw = await self._create(api, request, stream=False)
                return json.loads(raw.content)

        body = await self._guarded(call, api, request)
        with self._located(request):
            return (read_chat if api == CHAT else read_responses)(body, self.name)

    async def _open(self, api: str, request: ModelRequest, left: float, end: float) -> _Open:
        async def call() -> Any:
            with anyio.fail_after(min(self.param.timeout_s, left)):
                return await self._create(api, request, stream=True)

        stream = await self._guarded(call, api, request)
        builder = ChatStream(self.name) if api == CHAT else ResponsesStream(self.name)
        opened = _Open(stream, builder, api, end)
        whole = False
        try:
            try:
                opened.ready = await self._next(opened, request, begun=False)
            except StopAsyncIteration:
                raise provider_error("provider_interrupted", self._where(request)) from None
            whole = True
            return opened
        finally:
            if not whole:
                with anyio.CancelScope(shield=True):
                    await stream.close()

    async def _next(self, opened: _Open, request: ModelRequest, *, begun: bool = True) -> list[ProviderStreamChunk]:
        """Return what the next chunk brings. Raises StopAsyncIteration at the end, and ProviderError."""

        async def call() -> Any:
            left = opened.end - self._rules.clock()
            with anyio.fail_after(max(min(self.param.timeout_s, left), 0.0)):
                return await anext(opened.stream)

        chunk = await self._guarded(call, opened.api, request, begun=begun)
        body = chunk.to_dict(warnings=False) if hasattr(chunk, "to_dict") else chunk
        with self._located(request):
            return opened.builder.add(body)

    async def _create(self, api: str, request: ModelRequest, *, stream: bool) -> Any:
        model = request.model or self.param.model
        if api == RESPONSES:
            interface, params = self._client.responses, responses_params(request, model)
        else:
            interface, params = self._client.chat.completions, chat_params(request, model)
            if stream:
                params["stream_options"] = {"include_usage": True}
            params = adjusted(params, self._adjustments)
        if stream:
            return await interface.create(**params, stream=True)
        return await interface.with_raw_response.create(**params)

    async def _guarded(
        self, call: Callable[[], Awaitable[T]], api: str, request: ModelRequest, *, begun: bool = False
    ) -> T:
        """Return what `call` returns; what the SDK raises becomes ours.

        It is raised outside of the handler, so that no request, with its headers, hangs on the exception.
        """
        raised: Exception
        try:
            return await call()
        except StopAsyncIteration:
            raise
        except Exception as error:
            raised = self._translated(error, api, request, begun)
            if raised is error:
                raise
        raise raised

    def _translated(self, error: Exception, api: str, request: ModelRequest, begun: bool) -> Exception:
        ours = _own(error)
        if ours is not None:
            return ours
        code = failure_code(error)
        if code is None:
            return error  # a fault of mindx
        if begun and code == "provider_unreachable":
            code = "provider_interrupted"
        if not begun:
            adjustment = adjustment_for(error) if api == CHAT else None
            if adjustment and adjustment not in self._adjustments:
                self._adjustments.add(adjustment)
                return _AdjustedError()
        failure = self._failure(code, error, api, request)
        asked = request.api or self.param.api
        if asked == "auto" and api == CHAT and not begun and lacks_interface(error, has_images=request.has_images):
            return _NoSuchInterfaceError(failure)
        return failure

    def _failure(self, code: str, error: Exception, api: str, request: ModelRequest) -> ProviderError:
        details: dict[str, Any] = {"provider": self.name, "api": api}
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            details["status"] = status
        headers = getattr(getattr(error, "response", None), "headers", None)
        asked = retry_after_s(headers) if headers is not None else None
        if asked is not None:
            details["retry_after_s"] = asked
        failure = provider_error(code, self._where(request), **details)
        if FAILURES[code].quotes_server:
            said = server_text(error, (self.param.api_key.get_secret_value(),))
            if said and status is not None:
                failure.message += f" (it said: {said})"
                failure.args = (failure.message,)
        return failure

    @contextmanager
    def _located(self, request: ModelRequest) -> Iterator[None]:
        """Say of whose answer a fault is."""
        try:
            yield
        except ProviderError as error:
            error.message = f"{self._where(request)}: {error.message}"
            error.args = (error.message,)
            error.details.setdefault("provider", self.name)
            raise

    def _where(self, request: ModelRequest) -> str:
        return f"{self.name} at {self.param.base_url}, model {request.model or self.param.model}"


def _own(error: BaseException | None) -> ProviderError | None:
    """Return our own error, also when the SDK has wrapped it."""
    for _ in range(8):
        if error is None or isinstance(error, ProviderError):
            return error
        error = error.__cause__
    return None
