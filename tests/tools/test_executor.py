"""The one tool core: definitions, arguments by schema, and one Observation whatever a tool does."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from mindx.core.action import ActionRequest, ActionRisk, ActionType
from mindx.core.agent_error import ErrorCode
from mindx.core.agent_event import AgentEventType
from mindx.core.command import WriteFile
from mindx.core.observation import Observation, Status
from mindx.errors import DeniedError, InputError, SandboxLostError
from mindx.runtime.agent_runtime import AgentRuntime
from mindx.runtime.dispatcher import ActionDispatcher
from mindx.sandbox.fake import FakeSandbox
from mindx.tools import executor as executor_module
from mindx.tools.base import (
    BaseTool,
    StreamingTool,
    ToolDefinition,
    ToolError,
    ToolNotFoundError,
    ToolProgress,
    ToolResult,
    ToolValidationError,
)
from mindx.tools.context import ToolContext
from mindx.tools.executor import ToolExecutor
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder
from tests.tools.tool_kit import Events, call, opener, run_context

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class AddTool(BaseTool):
    definition = ToolDefinition(name="add", description="Add two integers.", parameters=NUMBERS)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return arguments["a"] + arguments["b"]


class Answers(BaseTool):
    """Returns, or raises, what it was made with."""

    definition = ToolDefinition("answers")

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def answer(value: Any) -> Observation:
    return asyncio.run(call(Answers(value), "answers", {}))


def test_a_tool_gives_one_observation_with_its_value() -> None:
    observation = asyncio.run(call(AddTool(), "add", {"a": 17, "b": 25}))
    assert (observation.action_id, observation.status, observation.value) == ("action-1", Status.SUCCESS, 42)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"a": 1}, "missing `b`"),
        ({"a": 1, "b": "2"}, "`b`: expected integer, not string"),
        ({"a": 1, "b": True}, "expected integer, not boolean"),
        ({"a": 1, "b": 2, "bb": 3}, "unknown `bb`; did you mean `b`?"),
    ],
)
def test_arguments_that_do_not_fit_the_schema(arguments: dict[str, Any], words: str) -> None:
    executor = ToolExecutor([AddTool()])
    request = ActionRequest("action-1", "add", arguments)
    assert words in executor.assess(request, run_context()).problem
    observation = asyncio.run(executor.execute(request, run_context()))
    assert observation.status is Status.ERROR
    assert observation.error_info is not None
    assert observation.error_info.code is ErrorCode.ACTION_EXECUTION_FAILED
    assert words in observation.message


def test_arguments_that_a_model_wrote_badly_are_refused_with_its_own_problem() -> None:
    request = ActionRequest("action-1", "add", {}, problem="the arguments are no JSON: line 1")
    observation = asyncio.run(ToolExecutor([AddTool()]).execute(request, run_context()))
    assert observation.message == "the arguments are no JSON: line 1"


def test_an_unknown_tool_is_an_error_that_suggests_one() -> None:
    executor = ToolExecutor([AddTool()])
    request = ActionRequest("action-1", "ad", {})
    traits = executor.assess(request, run_context())
    assert (traits.risk, traits.problem) == (
        ActionRisk.DANGEROUS,
        "unknown tool `ad`; did you mean `add`? the tools are add",
    )
    assert asyncio.run(executor.execute(request, run_context())).message == traits.problem


@pytest.mark.parametrize(
    ("value", "status", "result"),
    [
        ({"status": "SUCCESS", "n": 1}, Status.SUCCESS, {"status": "SUCCESS", "n": 1}),
        ({"status": "ERROR", "message": "no"}, Status.ERROR, {"status": "ERROR", "message": "no"}),
        ({"status": "failed"}, Status.FAILURE, {"status": "failed"}),
        ({"status": "DENIED"}, Status.DENIED, {"status": "DENIED"}),
        ({"status": "open", "n": 2}, Status.SUCCESS, {"status": "open", "n": 2}),
        ({"n": 3}, Status.SUCCESS, {"status": "SUCCESS", "n": 3}),
        (ToolResult([1], Status.FAILURE, "half"), Status.FAILURE, {"status": "FAILURE"}),
    ],
)
def test_status_dicts_become_observations(value: Any, status: Status, result: dict[str, Any]) -> None:
    observation = answer(value)
    assert (observation.status, dict(observation.result)) == (status, result)
    assert (observation.error_info is None) is (status is Status.SUCCESS)


@pytest.mark.parametrize("value", [None, False, 0, "", "text", 1.5, [1, [2]]])
def test_plain_values_stay_what_they_are(value: Any) -> None:
    assert answer(value).value == value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (object(), "tool_result_invalid"),
        (b"bytes", "tool_result_invalid"),
        (float("nan"), "tool_result_invalid"),
        ({1: "x"}, "tool_result_invalid"),
        ("x" * 2_000_000, "tool_result_too_large"),
        (["x"] * 200_000, "tool_result_too_large"),
        (endless(), "tool_result_too_large"),
    ],
)
def test_a_result_that_is_no_value_of_json_or_too_large(value: Any, code: str) -> None:
    observation = answer(value)
    assert observation.status is Status.ERROR
    assert observation.error_info is not None
    assert observation.error_info.details["code"] == code
    assert len(observation.message) < 500


@pytest.mark.parametrize(
    ("error", "words", "code"),
    [
        (ToolError("give b another value"), "give b another value", "tool_failed"),
        (ValueError("b must not be 0"), "b must not be 0", "ValueError"),
        (RuntimeError("password=hunter2"), "the tool answers failed (RuntimeError)", "RuntimeError"),
        (SystemExit(3), "the tool answers failed (ExitedError)", "ExitedError"),
        (RecursionError(), "the tool answers failed (RecursionError)", "RecursionError"),
        (asyncio.CancelledError(), "the tool cancelled itself", "tool_cancelled_itself"),
        (InputError("x", "not like this"), "not like this", "x"),
    ],
)
def test_a_tool_that_raises(error: BaseException, words: str, code: str) -> None:
    observation = answer(error)
    assert (observation.status, observation.message) == (Status.ERROR, words)
    assert observation.error_info is not None
    assert observation.error_info.details["code"] == code


def test_a_denial_of_the_policy_is_denied_and_a_broken_sandbox_goes_on_to_the_run() -> None:
    observation = answer(DeniedError("denied_by_policy", "not this", details={"rule": "commands[1]"}))
    assert (observation.status, observation.message) == (
        Status.DENIED,
        "denied by policy rule commands[1]: not this",
    )
    with pytest.raises(SandboxLostError):
        answer(SandboxLostError("sandbox_lost", "gone"))


class Waits(BaseTool):
    """Waits for ever; with `stubborn` it does not let itself be cancelled."""

    def __init__(self, stubborn: bool = False, timeout_s: float | None = None) -> None:
        self.definition = ToolDefinition("waits", timeout_s=timeout_s)
        self.stubborn = stubborn
        self.began = asyncio.Event()
        self.free = asyncio.Event()
        self.refused = asyncio.Event()
        self.ended = False

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        self.began.set()
        while True:
            try:
                await self.free.wait()
                return "free"
            except asyncio.CancelledError:
                if not self.stubborn:
                    self.ended = True
                    raise
                self.refused.set()


def test_cancelling_ends_the_tool_at_once() -> None:
    async def main() -> None:
        waits = Waits()
        task = asyncio.ensure_future(call(waits, "waits", {}))
        await waits.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waits.ended

    asyncio.run(main())


def test_a_tool_that_ignores_its_cancellation_is_left_behind() -> None:
    async def main() -> None:
        waits = Waits(stubborn=True)
        executor = ToolExecutor([waits], cancel_grace_s=0.05)
        task = asyncio.ensure_future(executor.execute(ActionRequest("a", "waits"), run_context()))
        await waits.began.wait()
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 5
        waits.free.set()

    asyncio.run(main())


def test_a_tools_own_deadline_is_a_typed_error() -> None:
    async def main() -> None:
        waits = Waits(timeout_s=0.05)
        observation = await call(waits, "waits", {})
        assert observation.error_info is not None
        assert observation.error_info.details["code"] == "tool_timeout"
        assert waits.ended

    asyncio.run(main())


def test_a_cancellation_while_a_late_tool_is_being_stopped_is_not_lost() -> None:
    async def main() -> None:
        waits = Waits(stubborn=True, timeout_s=0.05)
        executor = ToolExecutor([waits], cancel_grace_s=0.3)
        task = asyncio.ensure_future(executor.execute(ActionRequest("a", "waits"), run_context()))
        await waits.refused.wait()  # the deadline has come, and the tool did not let itself be stopped
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        waits.free.set()

    asyncio.run(main())


class Blocks(BaseTool):
    """Blocks its thread until it is let go."""

    def __init__(self, timeout_s: float | None = None) -> None:
        self.definition = ToolDefinition("blocks", timeout_s=timeout_s, blocking=True)
        self.let_go = threading.Event()
        self.thread = ""

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        self.thread = threading.current_thread().name
        await context.progress("blocked")
        self.let_go.wait(30)
        return "went on"


def test_a_blocking_tool_holds_up_nobody_and_is_left_behind() -> None:
    async def main() -> None:
        blocks, events = Blocks(timeout_s=0.2), Events()
        observation = await call(blocks, "blocks", {}, run_context(emit=events))
        assert observation.error_info is not None
        assert observation.error_info.details["code"] == "tool_timeout"
        assert blocks.thread == "tool-blocks"
        assert events.told[0][1]["message"] == "blocked"
        blocks.let_go.set()

    asyncio.run(main())


def test_a_blocking_tool_that_ends_gives_its_value_or_its_error() -> None:
    async def main() -> None:
        blocks = Blocks()
        blocks.let_go.set()
        assert (await call(blocks, "blocks", {})).value == "went on"

    asyncio.run(main())


class Holds(BaseTool):
    """Holds the loop, though it says that it does not."""

    definition = ToolDefinition("holds")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        threading.Event().wait(0.5)
        return "held"


def test_a_tool_that_holds_the_loop_is_told_of_and_its_result_counts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "HELD_S", 0.1)
    assert asyncio.run(call(Holds(), "holds", {})).value == "held"
    assert "while holds ran; say `blocking` for it" in caplog.text
    caplog.clear()

    async def patient() -> None:
        waits = Waits(timeout_s=0.6)
        await call(waits, "waits", {})

    asyncio.run(patient())
    assert "stood still" not in caplog.text


class Awaits(BaseTool):
    """Has a thread of its own, and awaits in it."""

    definition = ToolDefinition("awaits", blocking=True)

    def __init__(self) -> None:
        self.began, self.ended = threading.Event(), threading.Event()

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def test_cancelling_reaches_a_tool_in_its_thread() -> None:
    async def main() -> None:
        awaits = Awaits()
        task = asyncio.ensure_future(call(awaits, "awaits", {}))
        assert await asyncio.to_thread(awaits.began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(awaits.ended.wait, 30)

    asyncio.run(main())


class Counts(StreamingTool):
    definition = ToolDefinition("counts", risk=ActionRisk.READ_ONLY)

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces
        self.closed = False

    async def stream(self, arguments: Mapping[str, Any], context: ToolContext) -> AsyncGenerator[ToolProgress, None]:
        try:
            for piece in self.pieces:
                yield piece
        finally:
            self.closed = True


def test_a_stream_is_told_piece_by_piece_and_gives_one_observation() -> None:
    pieces = [ToolProgress("working", progress=0.5), ToolProgress("done", {"n": 7}, 1.0)]
    events = Events()
    observation = asyncio.run(call(Counts(pieces), "counts", {}, run_context(emit=events)))
    assert (observation.status, observation.result["n"]) == (Status.SUCCESS, 7)
    assert events.told == [
        (
            AgentEventType.ACTION_PROGRESS,
            {"action_id": "action-1", "message": "working", "progress": 0.5, "data": None},
        ),
        (
            AgentEventType.ACTION_PROGRESS,
            {"action_id": "action-1", "message": "done", "progress": 1.0, "data": {"n": 7}},
        ),
    ]


def test_streams_without_data_too_long_and_of_the_wrong_kind() -> None:
    assert asyncio.run(call(Counts([ToolProgress("a"), ToolProgress("b")]), "counts", {})).value == "a\nb"
    tool = Counts([ToolProgress("x")] * 10_001)
    endless = asyncio.run(call(tool, "counts", {}))
    assert endless.error_info is not None
    assert endless.error_info.details["code"] == "tool_endless"
    assert tool.closed
    wrong = asyncio.run(call(Counts(["text"]), "counts", {}))
    assert wrong.error_info is not None
    assert wrong.error_info.details["code"] == "tool_result_invalid"


def test_progress_that_is_no_share_or_too_large_is_told_in_bounds() -> None:
    events = Events()
    pieces = [ToolProgress("x" * 9000, "y" * 90_000, 7.0), ToolProgress(progress=float("nan"))]
    asyncio.run(call(Counts(pieces), "counts", {}, run_context(emit=events)))
    first, second = (payload for _, payload in events.told)
    assert (len(first["message"]), first["progress"], len(first["data"]) < 100) == (2000, 1.0, True)
    assert second["progress"] is None


def test_the_registry_serves_models_and_plans() -> None:
    registry = ToolRegistry([AddTool(), SimpleCoder()])
    assert [schema["function"]["name"] for schema in registry.provider_schemas()] == ["add", "simple_coder"]
    assert registry.provider_schemas()[0] == {
        "type": "function",
        "function": {"name": "add", "description": "Add two integers.", "parameters": NUMBERS},
    }
    assert registry.action_risks() == {"add": ActionRisk.WRITE, "simple_coder": ActionRisk.READ_ONLY}
    assert registry.approval_required() == {"add": False, "simple_coder": False}
    assert registry.find("simple_coder") is registry.command_tools[0]
    with pytest.raises(ToolNotFoundError, match="did you mean `add`"):
        registry.get("adn")
    with pytest.raises(InputError, match="two tools"):
        ToolRegistry([AddTool(), AddTool()])
    assert registry.only(["add"]).names == ("add",)
    assert registry.only([]).with_tools(AddTool()).names == ("add",)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolDefinition("no name"),
        lambda: ToolDefinition("x" * 65),
        lambda: ToolDefinition("x", parameters={"type": "array"}),
        lambda: ToolExecutor([_with({"type": "object", "properties": {"a": {"type": "nonsense"}}})]),
        lambda: ToolExecutor([_with({"type": "object", "properties": {"a": object()}})]),
    ],
)
def test_definitions_that_are_none(make: Any) -> None:
    with pytest.raises(ToolValidationError):
        make()


def _with(parameters: dict[str, Any]) -> BaseTool:
    tool = Answers(1)
    tool.definition = ToolDefinition("answers", parameters=parameters)
    return tool


def test_a_schema_never_reaches_for_the_network() -> None:
    reached = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                server.accept()[0].close()
            except OSError:  # it was closed, as it should be
                return
            reached.set()

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        tool = _with({"type": "object", "properties": {"a": {"$ref": address}}})
        observation = asyncio.run(call(tool, "answers", {"a": 1}))
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert not reached.is_set()
    assert "the tool's schema cannot be followed" in observation.message


def test_simple_coder_is_a_tool_for_models_too() -> None:
    async def main() -> None:
        async with FakeSandbox() as sandbox:
            context = run_context(open_sandbox=opener(sandbox))
            executor = ToolExecutor([SimpleCoder()])

            async def do(**arguments: Any) -> Observation:
                return await executor.execute(ActionRequest("a", "simple_coder", arguments), context)

            assert (await do(command="mkdir", path="app")).ok
            assert (await do(command="cd", path="app")).ok
            assert (await do(command="write", path="x", content="hello")).ok
            assert (await do(command="read", path="x")).result["content"] == "hello"
            assert sandbox.tree.read("/workspace/app/x", 10) == b"hello"
            run = await do(command="run", argv=["echo", "hi"])
            assert (run.result["stdout"], run.execution is not None) == ("hi", True)
            # State is the run's: another run begins where a session begins.
            other = run_context(run_id="run-2", open_sandbox=opener(sandbox))
            request = ActionRequest("a", "simple_coder", {"command": "ls"})
            assert (await executor.execute(request, other)).result["items"] == ["app/"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "risk"),
    [
        ({"command": "ls"}, ActionRisk.READ_ONLY),
        ({"command": "write", "path": "a", "content": ""}, ActionRisk.WRITE),
        ({"command": "run", "argv": ["python3", "x.py"]}, ActionRisk.WRITE),
        ({"command": "run", "argv": ["sudo", "ls"]}, ActionRisk.DANGEROUS),
        ({"command": "rm", "path": "a"}, ActionRisk.DANGEROUS),
    ],
)
def test_simple_coders_risk_is_that_of_its_commands(arguments: dict[str, Any], risk: ActionRisk) -> None:
    request = ActionRequest("a", "simple_coder", arguments)
    assert ToolExecutor([SimpleCoder()]).assess(request, run_context()).risk is risk


def test_a_tools_sandbox_does_nothing_that_no_policy_judges() -> None:
    """A model's arguments must not reach copy in and copy out, nor end the session."""

    class Reaching(BaseTool):
        definition = ToolDefinition(name="reach", description="Reach.")

        async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
            sandbox = await context.sandbox()
            refused = []
            for work in (
                lambda: sandbox.put([]),
                lambda: sandbox.fetch("/workspace/x", 10),
                lambda: sandbox.manifest(),
            ):
                try:
                    await work()  # type: ignore[misc]
                except InputError as error:
                    refused.append(error.code)
            async with sandbox:
                await sandbox.write_file(WriteFile("/workspace/x", b"1"))
            return refused

    async def main() -> None:
        async with FakeSandbox() as sandbox:
            observation = await call(Reaching(), "reach", {}, run_context(open_sandbox=opener(sandbox)))
            assert observation.value == ["not_for_tools"] * 3
            assert sandbox.tree.read("/workspace/x", 10) == b"1"

    asyncio.run(main())


def test_without_a_sandbox_a_tool_that_needs_one_says_so() -> None:
    observation = asyncio.run(call(SimpleCoder(), "simple_coder", {"command": "ls"}))
    assert observation.error_info is not None
    assert observation.error_info.details["code"] == "sandbox_missing"


def test_every_tool_has_the_bound_form_that_gives_a_dict_with_a_status() -> None:
    async def main() -> None:
        async with FakeSandbox() as sandbox:
            executor = ToolExecutor([AddTool(), SimpleCoder(), Answers(ValueError("not so"))])
            context = run_context(open_sandbox=opener(sandbox))
            results = {}
            calls: dict[str, dict[str, Any]] = {
                "add": {"a": 1, "b": 2},
                "simple_coder": {"command": "ls"},
                "answers": {},
            }
            for name, arguments in calls.items():
                results[name] = await executor.bind(name, context).execute(**arguments)
            assert results == {
                "add": {"status": "SUCCESS", "value": 3},
                "simple_coder": {"status": "SUCCESS", "items": []},
                "answers": {"status": "ERROR", "message": "not so"},
            }
            wrong = await executor.bind("add", context).execute(a=1)
            assert (wrong["status"], "missing `b`" in wrong["message"]) == ("ERROR", True)
            with pytest.raises(ToolNotFoundError):
                executor.bind("none", context)

    asyncio.run(main())


class Closes(AddTool):
    def __init__(self, name: str, fails: bool = False) -> None:
        self.definition = ToolDefinition(name)
        self.closed, self.fails = 0, fails

    async def close(self) -> None:
        self.closed += 1
        if self.fails:
            raise RuntimeError("it will not close")


class Nothing:
    async def decide(self, context: Any) -> Any:
        raise AssertionError


def test_closing_the_executor_closes_every_tool() -> None:
    tools = [Closes("a", fails=True), Closes("b")]
    with pytest.raises(RuntimeError):
        asyncio.run(ToolExecutor(tools).close())
    assert [tool.closed for tool in tools] == [1, 1]

    async def main() -> None:
        runtime = AgentRuntime(Nothing(), ToolExecutor([Closes("c")]))
        await runtime.close()
        assert next(iter(runtime.dispatcher.executors[0].registry)).closed == 0  # type: ignore[attr-defined]
        await runtime.close(close_dependencies=True)
        assert next(iter(runtime.dispatcher.executors[0].registry)).closed == 1  # type: ignore[attr-defined]

    asyncio.run(main())


def test_an_executor_behind_the_dispatcher() -> None:
    dispatcher = ActionDispatcher({ActionType.TOOL: ToolExecutor([AddTool()])})
    request = ActionRequest("a", "add", {"a": 1, "b": 2})
    assert dispatcher.assess(request, run_context()).risk is ActionRisk.WRITE
    assert asyncio.run(dispatcher.execute(request, run_context())).value == 3
