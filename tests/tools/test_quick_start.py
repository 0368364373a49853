"""The seed's own quick start and its tools in a session, with a scripted model in the place of a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import mindx
from mindx import (
    ActionRequest,
    ActionRisk,
    AgentDecision,
    AgentEvent,
    AgentRuntime,
    AgentSession,
    BaseTool,
    CalculatorTool,
    ContextConfig,
    ContextManager,
    ContextQueryTool,
    ExecCommandTool,
    FileEditTool,
    FileReadTool,
    FileSearchTool,
    LongTermMemory,
    LongTermMemoryTool,
    MemoryTool,
    ProviderReasoner,
    ProviderRouter,
    RunConfig,
    ScriptedProvider,
    ScriptedReasoner,
    ScriptedTurn,
    Session,
    SessionEnvironment,
    SessionPolicy,
    StreamingTool,
    TimeNowTool,
    ToolContext,
    ToolDefinition,
    ToolExecutor,
    ToolProgress,
    ToolRegistry,
)
from mindx.core.observation import Observation, Status
from mindx.policy.load import parse_policy
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.image import DerivedImage

ALONE = RunConfig(heartbeat_s=0.0, interactive=False)


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
    )

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return arguments["a"] + arguments["b"]


def test_the_quick_start_of_the_seed() -> None:
    async def main() -> None:
        registry = ToolRegistry([AddTool()])
        provider = ScriptedProvider([ScriptedTurn.call("add", a=17, b=25), "17 + 25 is 42."])
        reasoner = ProviderReasoner(
            ProviderRouter([provider]),
            tools=registry.provider_schemas(),
            action_risks=registry.action_risks(),
            approval_required=registry.approval_required(),
        )
        runtime = AgentRuntime(
            reasoner,
            ToolExecutor(registry),
            context_manager=ContextManager(ContextConfig(system_prompt="Use tools when required.")),
        )
        result = await runtime.run("Use the add tool to calculate 17 + 25.")
        assert result.final_answer == "17 + 25 is 42."
        assert [observation.value for observation in result.observations] == [42]
        # The observation went back into the context.
        assert any("42" in message.text for message in provider.requests[1].messages)
        await runtime.close()

    asyncio.run(main())


class Slow(StreamingTool):
    definition = ToolDefinition("slow", risk=ActionRisk.READ_ONLY)

    async def stream(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        yield ToolProgress(message="working", progress=0.5)
        yield ToolProgress(message="done", data=[1, 2], progress=1.0)


def run(tools: list[BaseTool], *actions: ActionRequest, **options: Any) -> tuple[list[Observation], list[AgentEvent]]:
    """Run a script that does these Actions one after the other, in a session over the fake sandbox."""
    heard: list[AgentEvent] = []

    def opened(environment: SessionEnvironment, policy: Any) -> Session:
        return Session(open_sandbox=lambda loaded, progress: FakeSandbox())

    async def main() -> list[Observation]:
        reasoner = ScriptedReasoner([AgentDecision.act(action) for action in actions])
        made = {"config": ALONE, "open_session": opened, "event_handler": heard.append}
        session_options = {name: options.pop(name) for name in ("policy", "environment") if name in options}
        async with AgentRuntime(reasoner, ToolExecutor(tools), **{**made, **options}) as runtime:
            session = runtime.create_session("s", **session_options)
            return await _finished(session)

    return asyncio.run(main()), heard


async def _finished(session: AgentSession) -> list[Observation]:
    await session.submit_run("do it", metadata={"project": "x"})
    async for event in session.events():
        if event.event_type is mindx.SessionEventType.RUN_COMPLETED:
            return list(event.payload["result"].observations)
    raise AssertionError("the run did not end")


def act(name: str, number: int = 1, **arguments: Any) -> ActionRequest:
    return ActionRequest(f"action-{number}", name, arguments)


def test_a_streaming_tool_in_a_run_is_progress_events_and_one_observation() -> None:
    observations, heard = run([Slow()], act("slow"))
    told = [event for event in heard if event.event_type.value == "action_progress"]
    assert [event.payload["message"] for event in told] == ["working", "done"]
    assert all(event.payload["action_id"] == "action-1" for event in told)
    assert [observation.value for observation in observations] == [[1, 2]]
    assert [event.event_type.value for event in heard].count("observation_created") == 1


def test_arguments_that_do_not_fit_come_back_to_the_model_and_the_run_goes_on() -> None:
    observations, _ = run([AddTool()], act("add", 1, a=1), act("nothing", 2), act("add", 3, a=1, b=2))
    assert [item.status for item in observations] == [Status.ERROR, Status.ERROR, Status.SUCCESS]
    assert "missing `b`" in observations[0].message
    assert "unknown tool `nothing`" in observations[1].message


def test_tools_of_a_session_see_its_folder_variables_and_names_and_no_others(tmp_path: Path) -> None:
    """Line 169: nothing is kept in the process that another session could see."""
    memory = MemoryTool()
    tools: list[BaseTool] = [ExecCommandTool(), FileEditTool(), memory, ContextQueryTool()]
    environment = SessionEnvironment(env_vars={"MOOD": "blue"}, memory_namespace="one")
    first, _ = run(
        tools,
        act("exec_command", 1, command=["printenv", "MOOD"]),
        act("memory", 2, action="set", key="k", value="mine"),
        act("file_edit", 3, path="a", mode="create", content="x"),
        act("context_query", 4, source="metadata", key="project"),
        environment=environment,
    )
    assert [item.status for item in first] == [Status.SUCCESS] * 4
    assert first[0].result["stdout"] == "blue\n"
    assert first[3].result["value"] == "x"
    second, _ = run(
        tools,
        act("exec_command", 1, command=["printenv", "MOOD"]),
        act("memory", 2, action="get", key="k"),
        act("file_edit", 3, path="a", mode="create", content="x"),
        environment=SessionEnvironment(memory_namespace="two"),
    )
    assert [item.status for item in second] == [Status.FAILURE, Status.ERROR, Status.SUCCESS]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"command": ["cat", "x"]}, Status.FAILURE),  # it ran: there is no x
        ({"command": ["echo", "x"]}, Status.SUCCESS),
        ({"command": ["mkdir", "x"]}, Status.DENIED),
        ({"command": ["rm", "x"]}, Status.DENIED),
    ],
)
def test_a_session_that_only_reads_runs_commands_that_only_read(arguments: dict[str, Any], status: Status) -> None:
    observations, _ = run(
        [ExecCommandTool()], act("exec_command", **arguments), policy=SessionPolicy(allow_write=False)
    )
    assert observations[0].status is status


def test_a_dangerous_command_needs_leave_and_a_yes_whatever_the_model_says() -> None:
    """F25: neither the tool's static risk nor the model's word makes it less than it is."""
    asked: list[Any] = []

    def yes(request: Any) -> bool:
        asked.append((request.action.arguments["command"], request.risk))
        return True

    words = ActionRequest("action-1", "exec_command", {"command": ["kill", "1"]}, risk=ActionRisk.READ_ONLY)
    denied, _ = run([ExecCommandTool()], words, approval_handler=yes)
    assert (denied[0].status, asked) == (Status.DENIED, [])
    operator = parse_policy(b"version: 1\ncommands:\n  - allow: kill\n", source="test")
    allowed = {
        "policy": SessionPolicy(allow_dangerous=True),
        "config": RunConfig(allow_dangerous=True, interactive=False),
        "open_session": lambda environment, policy: Session(
            operator, open_sandbox=lambda loaded, progress: FakeSandbox()
        ),
    }
    run([ExecCommandTool()], words, approval_handler=yes, **allowed)
    assert asked == [(["kill", "1"], ActionRisk.DANGEROUS)]


def test_reads_of_several_tools_share_a_batch() -> None:
    batch = AgentDecision.act(
        act("time_now", 1), act("calculator", 2, expression="6 * 7"), act("context_query", 3, source="metadata")
    )

    async def main() -> list[Observation]:
        tools = [TimeNowTool(), CalculatorTool(), ContextQueryTool()]
        async with AgentRuntime(ScriptedReasoner([batch]), ToolExecutor(tools), config=ALONE) as runtime:
            return list((await runtime.run("look")).observations)

    observations = asyncio.run(main())
    assert [item.action_id for item in observations] == ["action-1", "action-2", "action-3"]
    assert observations[1].value == 42


def test_long_term_memory_outlives_a_run_and_stays_in_its_namespace(tmp_path: Path) -> None:
    def tools() -> list[BaseTool]:
        return [LongTermMemoryTool(LongTermMemory(tmp_path / "m.sqlite"))]

    text = "deploys go through make release"
    first, _ = run(
        tools(),
        act("long_term_memory", action="remember", text=text),
        environment=SessionEnvironment(memory_namespace="p"),
    )
    assert first[0].result["memory_id"] == 1
    search = act("long_term_memory", action="search", query="how to release")
    again, _ = run(tools(), search, environment=SessionEnvironment(memory_namespace="p"))
    assert [row["text"] for row in again[0].result["found"]] == [text]
    other, _ = run(tools(), search, environment=SessionEnvironment(memory_namespace="q"))
    assert other[0].result["found"] == []


def test_the_file_tools_find_read_and_change_in_one_run(tmp_path: Path, derived_image: DerivedImage) -> None:
    """The seed's file tools together, in a real container over a copied folder."""
    (tmp_path / "app.py").write_text("def main():\n    return 1\n")

    async def main() -> list[Observation]:
        registry = ToolRegistry(
            [FileSearchTool(tmp_path), FileReadTool(tmp_path), FileEditTool(tmp_path), ExecCommandTool(tmp_path)]
        )
        provider = ScriptedProvider(
            [
                ScriptedTurn.call("file_search", query="return"),
                ScriptedTurn.call("file_read", path="app.py", anchor="return"),
                ScriptedTurn.call("file_edit", path="app.py", mode="replace", old_text="return 1", new_text="return 2"),
                ScriptedTurn.call("exec_command", command=["python3", "-c", "import app; print(app.main())"]),
                "It returns 2 now.",
            ]
        )
        reasoner = ProviderReasoner(
            provider, registry.provider_schemas(), registry.action_risks(), registry.approval_required()
        )
        async with AgentRuntime(
            reasoner, ToolExecutor(registry), context_manager=ContextManager(), config=ALONE
        ) as runtime:
            # The tools name the folder, so the run works on a copy of it.
            result = await runtime.run("make it 2")
            assert result.final_answer == "It returns 2 now."
            return list(result.observations)

    found, read, edited, ran = asyncio.run(main())
    assert found.result["results"] == [{"path": "app.py", "line": 2, "text": "    return 1"}]
    assert read.result["content"] == "def main():\n    return 1\n"
    assert edited.result["previous_sha256"] == read.result["sha256"]
    assert ran.result["stdout"] == "2\n"
    # The folder of the host is as it was: what changed is to be reviewed.
    assert (tmp_path / "app.py").read_text() == "def main():\n    return 1\n"
