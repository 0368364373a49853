"""The worker's side: one task for the host that started this process, over the socket that it names."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mindx.agents.process_wire import (
    SOCKET_VARIABLE,
    VERSION,
    WireError,
    bounds_from,
    encode,
    event_message,
    read_message,
    result_message,
)
from mindx.agents.worker import Bounds, least
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.errors import InputError, MindxError
from mindx.runtime.agent_runtime import AgentRuntime

_ASKING = (AgentEventType.APPROVAL_REQUESTED, AgentEventType.APPROVAL_RECEIVED)


async def serve_agent(runtime: AgentRuntime) -> None:
    """Do the one task of the AgentProcess that started this program, then close the runtime and what it is made of.

    The run may do what both the host's bounds and the runtime's own allow. It is cancelled when the host goes away.
    Raises InputError (worker_socket_missing, worker_message_invalid) when no AgentProcess is at the other end.
    """
    path = os.environ.pop(SOCKET_VARIABLE, "")  # what this process starts has no business there
    if not path:
        raise InputError("worker_socket_missing", "this program does the work of an AgentProcess, which starts it")
    try:
        reader, writer = await asyncio.open_unix_connection(path)
    except OSError as error:
        raise InputError("worker_socket_missing", f"the host does not answer at its socket: {error.strerror}") from None
    try:
        writer.write(encode({"type": "hello", "version": VERSION}))
        order = await read_message(reader)
        if order is not None:
            await _serve(runtime, order, reader, writer)
    finally:
        writer.close()
        await runtime.close(close_dependencies=True)


async def _serve(
    runtime: AgentRuntime, order: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        run_id, task, heard = str(order["run_id"]), str(order["task"]), order["events"] is True
        sent = bounds_from(order)
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise InputError("worker_message_invalid", f"the host's order is none: {type(error).__name__}") from None

    async def tell(event: AgentEvent) -> None:
        if heard or event.event_type in _ASKING:
            with suppress(WireError):  # one that is too large, or no JSON, is left out; its seq tells
                writer.write(encode(event_message(event)))
                await writer.drain()

    work = asyncio.create_task(_run(runtime, run_id, task, sent, tell))
    listening = asyncio.create_task(_listen(reader, runtime, run_id))
    try:
        message = await work
    finally:
        listening.cancel()
    try:
        data = encode(message)
    except WireError as error:
        data = encode(_failed(AgentError(ErrorCode.WORKER_FAILED, f"the result cannot be sent: {error}")))
    with suppress(ConnectionError):
        writer.write(data)
        await writer.drain()


async def _run(
    runtime: AgentRuntime, run_id: str, task: str, sent: Bounds, tell: Callable[[AgentEvent], Any]
) -> dict[str, Any]:
    try:
        result: AgentResult = await runtime.run(
            task,
            run_id=run_id,
            config=least(sent.config, runtime.config),
            policy=sent.policy,
            environment=sent.environment,
            event_handler=tell,
        )
        return result_message(result)
    except MindxError as error:
        return _failed(AgentError.of(ErrorCode.INTERNAL_ERROR, error, ErrorPhase.RUNTIME))


def _failed(error: AgentError) -> dict[str, Any]:
    return {"type": "failed", "error": error.to_dict()}


async def _listen(reader: asyncio.StreamReader, runtime: AgentRuntime, run_id: str) -> None:
    """Wait for the one thing that a host still says, or for its end: both cancel the run."""
    with suppress(WireError):
        await read_message(reader)
    runtime.cancel(run_id)


def _runtime_of(factory: str) -> Any:
    """Return what a factory's call gives."""
    place, _, name = factory.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        if spec is None or spec.loader is None:
            raise InputError("worker_invalid", f"{place} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    return getattr(module, name)()


async def _main(factory: str) -> None:
    runtime = _runtime_of(factory)
    if inspect.isawaitable(runtime):
        runtime = await runtime
    if not isinstance(runtime, AgentRuntime):
        raise InputError("worker_invalid", f"{factory} gives a {type(runtime).__name__}, no AgentRuntime")
    await serve_agent(runtime)


if __name__ == "__main__":
    try:
        asyncio.run(_main(sys.argv[1]))
    except MindxError as error:
        sys.exit(f"error: {error.message}")
