"""The executor of tools: judges a call by its arguments, does it, and answers with one Observation whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from mindx.core.action import ActionRequest, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.observation import Observation, Status
from mindx.core.output import plain_text
from mindx.core.quote import quoted
from mindx.errors import DeniedError, MindxError, SandboxError
from mindx.tools.base import BaseTool, ToolError
from mindx.tools.context import ToolContext
from mindx.tools.held import HELD_S, HeldLoop
from mindx.tools.outcome import MAX_MESSAGE, observe
from mindx.tools.registry import ToolRegistry
from mindx.tools.schema import Check, compile_check
from mindx.tools.thread import Threads

_LOG = logging.getLogger("mindx.tools.executor")
CANCEL_GRACE_S = 2.0


class ToolExecutor:
    """Does the Actions that call a tool of `registry`. Raises ToolValidationError for a tool whose schema is none.

    A tool that ignores its cancellation is left behind after `cancel_grace_s` seconds. A tool whose code blocks is
    bounded when its definition says `blocking`; one that does not say so holds up the whole loop.
    """

    def __init__(self, registry: ToolRegistry | Iterable[BaseTool], *, cancel_grace_s: float = CANCEL_GRACE_S) -> None:
        self.registry = registry if isinstance(registry, ToolRegistry) else ToolRegistry(registry)
        self._grace_s = cancel_grace_s
        self._threads = Threads()
        self._checks: dict[str, tuple[BaseTool, Check]] = {}
        for tool in self.registry:
            self._check_of(tool)

    @property
    def workspace(self) -> Path | None:
        """The folder that the tools were made for, or None: a run that names none works on a copy of it."""
        return self.registry.workspace

    def assess(self, request: ActionRequest, context: AgentContext) -> ActionTraits:
        """Return risk, need of approval and concurrency key of this very call, or why it cannot be done."""
        tool = self.registry.find(request.name)
        if tool is None:
            return ActionTraits(problem=self._unknown(request))
        problem = self._problem(tool, request)
        if problem:
            return ActionTraits(problem=problem)
        try:
            return tool.assess(request.arguments, context)
        except MindxError as error:
            return ActionTraits(problem=error.message)

    async def execute(self, request: ActionRequest, context: AgentContext) -> Observation:
        """Do one call. Raises SandboxError when the sandbox broke, and CancelledError when the caller gave up."""
        tool = self.registry.find(request.name)
        if tool is None:
            return failure(request, self._unknown(request))
        problem = self._problem(tool, request)
        if problem:
            return failure(request, problem)
        try:
            returned = await self._call(tool, dict(request.arguments), ToolContext.of(context, request))
            return observe(request, returned)
        except SandboxError:
            raise
        except DeniedError as error:
            rule = str(error.details.get("rule", ""))
            text = f"denied by policy rule {rule}: {error.message}" if rule else f"denied: {error.message}"
            info = AgentError(ErrorCode.ACTION_REJECTED, text, ErrorPhase.POLICY, True, error.details)
            return Observation(request.action_id, Status.DENIED, text, _error_result(text), error_info=info)
        except MindxError as error:
            details = {**error.details, "code": error.code}
            return failure(request, error.message, details)
        except ValueError as error:
            return failure(request, str(error) or "a value is not usable", {"code": "ValueError"})
        except Exception as error:  # noqa: BLE001 - a tool's mistake ends its own call alone
            # The text may hold what no model should see (a path of this machine, a key): only the kind is told.
            _LOG.exception("the tool %s failed in %s", tool.tool_id, request.action_id)
            kind = type(error).__name__
            return failure(request, f"the tool {tool.tool_id} failed ({kind})", {"code": kind})

    def bind(self, name: str, context: AgentContext) -> BoundAction:
        """Return a tool in the form of `execute(**arguments) -> dict with a status`. Raises ToolNotFoundError."""
        return BoundAction(self, self.registry.get(name).tool_id, context)

    async def close(self) -> None:
        """Close all tools. Raises the first failure, when all are closed."""
        await self.registry.close()

    def _unknown(self, request: ActionRequest) -> str:
        return f"unknown tool {quoted(request.name)}; {self.registry.suggest(request.name)}"

    def _problem(self, tool: BaseTool, request: ActionRequest) -> str:
        if request.problem:
            return request.problem
        if not isinstance(request.arguments, Mapping):
            return "the arguments are no object"
        problem = self._check_of(tool)(request.arguments)
        return f"{tool.tool_id} does not take these arguments: {problem}" if problem else ""

    def _check_of(self, tool: BaseTool) -> Check:
        """Return a tool's check; the registry may have got the tool, or another version of it, since we began."""
        known = self._checks.get(tool.tool_id)
        if known is None or known[0] is not tool:
            known = self._checks[tool.tool_id] = (tool, compile_check(tool.definition, tool.argument_schema))
        return known[1]

    async def _call(self, tool: BaseTool, arguments: dict[str, Any], context: ToolContext) -> Any:
        if tool.definition.blocking:
            work: Coroutine[Any, Any, Any] = self._threads.run(tool, arguments, context)
        else:
            work = _contained(tool.execute(arguments, context))
        # A task of its own: what the tool does to the current task (a cancellation that it makes up or swallows)
        # is then the tool's affair, not the run's.
        task = asyncio.ensure_future(work)
        task.set_name(f"{tool.tool_id}:{context.action_id}")
        held = HeldLoop()
        try:
            done, _ = await asyncio.wait({task}, timeout=tool.definition.timeout_s)
        except asyncio.CancelledError:
            await self._end(task, tool)
            raise
        finally:
            held_s = held.stop()
            if held_s > HELD_S:
                _LOG.warning(
                    "the loop stood still for %.1f s while %s ran; say `blocking` for it", held_s, tool.tool_id
                )
        if not done:
            await self._end(task, tool)
            if not task.done() or task.cancelled():
                limit_s = tool.definition.timeout_s or 0.0
                raise ToolError(f"the tool did not end within its {limit_s:g} s and was stopped", "tool_timeout")
        if task.cancelled():
            raise ToolError("the tool cancelled itself", "tool_cancelled_itself")
        return task.result()

    async def _end(self, task: asyncio.Future[Any], tool: BaseTool) -> None:
        """Cancel a call and wait for its end, `cancel_grace_s` seconds at most."""
        task.cancel()
        loop = asyncio.get_running_loop()
        until, given_up = loop.time() + self._grace_s, False
        while not task.done() and loop.time() < until:
            try:
                await asyncio.wait({task}, timeout=until - loop.time())
            except asyncio.CancelledError:
                given_up = True  # a second cancellation hurries nobody
        if not task.done():
            _LOG.warning(
                "the tool %s ignored its cancellation for %g s and is left behind", tool.tool_id, self._grace_s
            )
        task.add_done_callback(_look)
        if given_up:
            raise asyncio.CancelledError


class BoundAction:
    """One tool with the run that it works for. Every call is numbered; none raises but SandboxError."""

    def __init__(self, executor: ToolExecutor, name: str, context: AgentContext) -> None:
        self.name = name
        self._executor = executor
        self._context = context
        self._calls = 0

    async def execute(self, **arguments: Any) -> dict[str, Any]:
        """Do one call and return its result: `status` always, `value` when the tool gave no dict, `message`."""
        self._calls += 1
        request = ActionRequest(f"{self.name}_{self._calls}", self.name, arguments)
        observation = await self._executor.execute(request, self._context)
        result = {**observation.result, "status": observation.status.value}
        if observation.value is not None:
            result["value"] = observation.value
        if observation.message:
            result.setdefault("message", observation.message)
        return result


async def _contained(work: Awaitable[Any]) -> Any:
    """Await a tool's own code; one that calls sys.exit would end the loop and all of its runs."""
    try:
        return await work
    except SystemExit as error:
        raise ExitedError from error


class ExitedError(Exception):
    """A tool called sys.exit."""


def failure(
    request: ActionRequest,
    message: str,
    details: Mapping[str, Any] | None = None,
) -> Observation:
    """Return the Observation of a call that gave no result."""
    text = plain_text(message)[:MAX_MESSAGE]
    info = AgentError(ErrorCode.ACTION_EXECUTION_FAILED, text, ErrorPhase.ACTION_EXECUTION, True, dict(details or {}))
    return Observation(request.action_id, Status.ERROR, text, _error_result(text), error_info=info)


def _error_result(text: str) -> dict[str, Any]:
    return {"status": Status.ERROR.value, "message": text}


def _look(task: asyncio.Future[Any]) -> None:
    """Take the exception of a call that nobody waits for, so that nobody complains that it was never seen."""
    if not task.cancelled():
        task.exception()
