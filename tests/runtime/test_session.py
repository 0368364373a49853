import asyncio
import os
import subprocess
import sys

import pytest

import mindx
from mindx.errors import DeniedError, EngineError, FileError, InputError, SandboxError, WorkspaceError
from mindx.runtime.session import Session, workspace_path
from mindx.sandbox.fake import FakeSandbox
from mindx.trace.read import read
from mindx.trace.recorder import Recorder


class Box(FakeSandbox):
    """A sandbox in memory that remembers its end."""

    closed = 0

    async def close(self):
        self.closed += 1
        await super().close()


def session(box=None, **options):
    return Session(open_sandbox=lambda loaded, progress: box or Box(), **options)


def in_session(scenario, **options):
    async def main():
        async with session(**options) as s:
            return await scenario(s)

    return asyncio.run(main())


def test_a_command_runs_and_a_failure_is_a_value():
    async def scenario(s):
        done = await s.run(["cat"], stdin="héllo")
        failed = await s.run(("false",))
        return done, failed

    done, failed = in_session(scenario)
    assert (done.argv, done.exit_code, done.stdout, done.stdout_text) == (("cat",), 0, "héllo".encode(), "héllo")
    assert done.ok
    assert not done.truncated
    assert (failed.exit_code, failed.exit_cause.value, failed.ok) == (1, "exit", False)


def test_the_policys_limits_are_the_defaults():
    s = session()
    command = s.command(["true"])
    limits = s.policy.policy.limits
    assert (command.timeout_s, command.max_output_bytes) == (limits.command_timeout_s, limits.output_bytes)
    assert s.command(["true"], cwd="a/../b", timeout_s=2).cwd == "/workspace/b"


def test_a_denied_command_never_arrives():
    box = Box()

    async def scenario(s):
        for argv in (["curl", "x"], ["/bin/true"], []):
            with pytest.raises(DeniedError):
                await s.run(argv)
        with pytest.raises(DeniedError):
            await s.run(["true"], cwd="../etc")
        with pytest.raises(DeniedError):
            await s.run(["true"], timeout_s=10_000)
        with pytest.raises(DeniedError):
            await s.run(["true"], env={"LD_PRELOAD": "x"})
        with pytest.raises(DeniedError):
            await s.read("/etc/passwd")
        with pytest.raises(DeniedError):
            await s.remove("x")

    in_session(scenario, box=box)
    assert box.commands == []


def test_argv_is_a_list_and_never_a_line():
    async def scenario(s):
        with pytest.raises(TypeError):
            await s.run("true")

    in_session(scenario)


def test_files_and_changes(tmp_path):
    (tmp_path / "old.txt").write_text("old")

    async def scenario(s):
        assert await s.read("old.txt") == b"old"
        await s.mkdir("new/deep")
        await s.write("new/deep/a.txt", "text")
        await s.write("/workspace/b.bin", b"\x00\xff", mode=0o755)
        assert await s.read("new/deep/a.txt") == b"text"
        assert [entry.path for entry in await s.list("new")] == ["/workspace/new/deep"]
        assert (await s.stat("b.bin")).mode == 0o755
        with pytest.raises(FileError) as missing:
            await s.read("missing")
        assert isinstance(missing.value, OSError)
        await s.remove("old.txt")
        return [(change.kind, change.path) for change in await s.changes()]

    changes = in_session(scenario, workspace=tmp_path, autonomous=True)
    assert changes == [
        ("added", "b.bin"),
        ("added", "new"),
        ("added", "new/deep"),
        ("added", "new/deep/a.txt"),
        ("deleted", "old.txt"),
    ]
    assert (tmp_path / "old.txt").read_text() == "old"


def test_outside_of_the_block_the_session_is_closed():
    box = Box()
    s = session(box)

    async def main():
        with pytest.raises(SandboxError) as early:
            await s.run(["true"])
        async with s:
            await s.run(["true"])
            with pytest.raises(SandboxError):
                await s.open()
        await s.close()
        with pytest.raises(SandboxError):
            await s.read("x")
        return early.value.code

    assert asyncio.run(main()) == "session_closed"
    assert box.closed >= 1


def test_an_exception_closes_the_session():
    box = Box()

    async def scenario(s):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_session(scenario, box=box)
    assert box.closed >= 1


def test_a_start_that_fails_leaves_nothing():
    class Failing(Box):
        async def start(self):
            raise EngineError("engine_unreachable", "no engine")

    box = Failing()
    with pytest.raises(EngineError):
        in_session(None, box=box)
    assert box.closed >= 1


@pytest.mark.parametrize("options", [{"policy": "no-such"}, {"policy": "./missing.yaml"}, {"image": "Not An Image"}])
def test_bad_options_are_refused_at_once(options):
    with pytest.raises(InputError):
        session(**options)


def test_a_bad_workspace_is_refused_before_a_sandbox_exists(tmp_path):
    opened = []
    s = Session(workspace=tmp_path / "missing", open_sandbox=lambda loaded, progress: opened.append(1) or Box())
    with pytest.raises(WorkspaceError):
        asyncio.run(s.open())
    assert opened == []


def test_every_command_is_recorded(tmp_path):
    with Recorder(tmp_path / "trace.jsonl") as recorder:

        async def scenario(s):
            await s.run(["cat"], stdin=b"abc", env={"API_TOKEN": "hidden", "A": "b"})
            await s.write("a", b"abc")
            with pytest.raises(DeniedError):
                await s.run(["curl"])
            with pytest.raises(FileError):
                await s.read("missing")

        in_session(scenario, recorder=recorder)
    events = [(event.kind, event.data) for event in read(recorder.path)]
    assert [kind for kind, _ in events] == ["exec", "write_file", "exec", "read_file"]
    assert events[0][1]["argv"] == ["cat"]
    assert events[0][1]["env"] == {"API_TOKEN": "[redacted]", "A": "b"}
    assert (events[0][1]["exit_code"], events[0][1]["stdout_bytes"]) == (0, 3)
    assert events[2][1]["error"]["code"] == "denied_by_policy"
    assert "error" in events[3][1]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", "/workspace/a"),
        (".", "/workspace"),
        ("/workspace/a/../b", "/workspace/b"),
        ("../etc", "/etc"),
        ("/etc", "/etc"),
        ("//etc", "/etc"),
    ],
)
def test_paths_are_of_the_workspace(path, expected):
    assert workspace_path(path) == expected


def test_the_public_names_are_these():
    assert mindx.__all__ == sorted(mindx.__all__)
    assert set(mindx.__all__) == {
        "AGInt", "AGIntStatus", "CampaignBudget", "CampaignStatus", "MastermindAgent", "MindSystem", "Mission",
        "MissionBudget", "MissionSystem", "StrategicCampaign",
        "BacklogItem", "BacklogStatus", "ConstitutionError", "CoordinatorAgent", "CoordinatorConfig", "Interaction",
        "InteractionStatus", "InteractionType", "Ruling", "TaskVerification",
        "Act", "Constitution", "ContainerTool", "ImprovementRequest", "ImprovementResult", "Layer", "LiveTools",
        "OfficialToolsRegistry", "SelfImprovementAgent", "ToolEntry", "ToolSpec", "apply_improvement",
        "call_improvement", "rollback_improvement",
        "OrchestrationMode",
        "OrchestrationPlan",
        "OrchestrationPlanner",
        "AgentOrchestrator",
        "AgentPipeline",
        "AgentTaskEvent",
        "AgentTaskEventType",
        "AgentTaskState",
        "AgentTaskView",
        "AgentWorkerSpec",
        "OnFailure",
        "PipelineResult",
        "PipelineStep",
        "PipelineStepResult",
        "PipelineStepStatus",
        "SubAgentExecutor",
        "BDIAgent", "BDIResult", "BDIStatus", "Budget", "CommandCriterion", "FileCriterion", "Goal",
        "GoalFailedError", "GoalStatus", "StatementCriterion", "Belief", "BeliefChange", "BeliefEvent",
        "BeliefSource", "BeliefSystem",
        "AcceptanceCriterion", "ActionAssessor", "ActionBatch", "ActionDispatcher", "ActionExecutor", "ActionRequest",
        "ActionRisk", "ActionScheduler", "ActionTraits", "ActionType", "ActionValidation", "AgentContext",
        "AgentDecision", "AgentError", "AgentEvent", "AgentEventType", "AgentProcess", "AgentResult", "AgentRunStatus",
        "AgentRuntime", "AgentSession", "AgentState", "AgentStateMachine", "Approval", "ApprovalRequest",
        "ApprovalResult", "ApprovalScope", "Approver", "ArtifactRef",
        "BaseProvider", "BaseTool", "BoundTool",
        "BoundaryReason", "BoundaryScope", "CacheAwarePacker", "CalculatorTool", "Change", "ChatMessage",
        "CleanupFailure", "CloseReport", "CommandTool", "CompletionClaim", "CompletionGate",
        "CompletionValidationResult", "ContextBundle", "ContextConfig", "ContextManager", "ContextOverflowError",
        "ContextPackResult", "ContextPressure", "ContextQueryTool", "ContextRecord", "ContextStore", "ContextView",
        "ContinuationCheckpoint", "ConversationStore", "DecisionKind", "DefaultCompletionGate", "DefaultPolicyEngine",
        "DeniedError", "EngineError", "ErrorCode", "ErrorPhase", "Evidence", "EvidenceKind", "Exec",
        "ExecCommandTool", "ExecResult", "ExecutionBoundary", "ExecutionMode", "ExitCause", "FileEditTool",
        "FileError", "FileReadTool", "FileSearchTool", "FixedPlan", "FunctionExecutor", "FunctionTool", "Heartbeat",
        "ImageError", "ImageUnderstandingTool", "InputError", "LoadedPolicy", "LocalConversationStore",
        "LocalTaskLedgerStore", "LocalTaskMemoryStore", "LongTermMemory", "LongTermMemoryTool", "LoopParts",
        "MCPConnectionError", "MCPServerConfig", "MCPTool", "MCPToolCallError", "MCPToolSet", "MemoryReadTool",
        "MemoryTool", "MindxError", "ModelActionExecutor", "ModelCapabilityRequest", "ModelRequest", "Observation",
        "ObservationBatch", "OpenAIProvider", "OpenAIProviderParam", "Outcome", "PlanResult", "PlanRun", "PolicyEngine",
        "Provenance", "ProviderCapabilities", "ProviderError", "ProviderReasoner", "ProviderResponse",
        "ProviderRouter", "ProviderStreamChunk", "ProviderToolCallDelta", "ReActLoop", "Reasoner", "Receipt",
        "RecordingProvider", "ReplayProvider", "Role", "RunConfig", "RunOutcome", "RunResult", "RunStore",
        "RunTimeoutError", "SandboxError", "SandboxLostError", "ScriptedProvider", "ScriptedReasoner", "ScriptedTurn",
        "Session", "SessionCommand", "SessionCommandType", "SessionEnvironment", "SessionEvent", "SessionEventType",
        "SessionPolicy", "SessionState", "SimpleCoder", "Skill", "SkillTool", "StateError", "StateMachineError",
        "Status", "StepRecord", "StepTimeoutError", "StreamingTool", "SyncSession", "TaskConstraint", "TaskCoordinator",
        "TaskLedger", "TaskState", "TaskStatus", "TimeNowTool", "ToolCall", "ToolContext", "ToolDefinition",
        "ToolError", "ToolExecutor", "ToolNotFoundError", "ToolProgress", "ToolRegistry", "ToolResult",
        "ToolValidationError", "TraceRecorder", "UserInputOption", "UserInputRequest", "ValidationDecision",
        "WorkspaceError", "WorkspacePathError", "WorkspacePathResolver", "load_mcp_servers", "load_policy",
        "load_skills", "serve_agent", "tool",
    }  # fmt: skip
    for name in mindx.__all__:
        assert getattr(mindx, name).__name__ == name
    with pytest.raises(AttributeError):
        _ = mindx.no_such_name


def loaded_by(code: str) -> set[str]:
    """Return the modules that are loaded after the code, in a fresh interpreter."""
    program = f"{code}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    return set(done.stdout.split())


def test_importing_mindx_loads_nothing_heavy():
    assert not loaded_by("import mindx") & {"docker", "rich", "click", "pydantic", "yaml", "anyio", "asyncio"}
    assert not loaded_by("import mindx; mindx.Session") & {"docker", "rich", "click", "prompt_toolkit"}
