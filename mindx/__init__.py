"""mindx: run plans that nobody vetted, without harm.

`async with mindx.Session(policy=..., workspace=...) as s: r = await s.run(["python3", "-c", "print(1)"])`
"""

from __future__ import annotations

# Not from typing: that costs more than all the rest, and while it loads Ctrl-C is a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mindx.agents.orchestrator import AgentOrchestrator
    from mindx.agents.pipeline import (
        AgentPipeline,
        OnFailure,
        PipelineResult,
        PipelineStep,
        PipelineStepResult,
        PipelineStepStatus,
    )
    from mindx.agents.planner import OrchestrationMode, OrchestrationPlan, OrchestrationPlanner
    from mindx.agents.sub_agent import SubAgentExecutor
    from mindx.agents.task_record import AgentTaskEvent, AgentTaskEventType, AgentTaskState, AgentTaskView
    from mindx.agents.worker import AgentWorkerSpec
    from mindx.core.action import (
        ActionBatch,
        ActionRequest,
        ActionRisk,
        ActionTraits,
        ActionType,
        ActionValidation,
        BatchValidationResult,
        ExecutionMode,
        ValidationDecision,
    )
    from mindx.core.agent_context import AgentContext, ContextPressure, ContextView
    from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
    from mindx.core.agent_event import AgentEvent, AgentEventType
    from mindx.core.agent_result import AgentResult, AgentRunStatus
    from mindx.core.agent_session import (
        SessionCommand,
        SessionCommandType,
        SessionEnvironment,
        SessionEvent,
        SessionEventType,
        SessionPolicy,
        SessionState,
    )
    from mindx.core.agent_state import AgentState, AgentStateMachine, StateMachineError
    from mindx.core.approval import ApprovalRequest, ApprovalResult, ApprovalScope
    from mindx.core.checkpoint import (
        BoundaryReason,
        BoundaryScope,
        ContinuationCheckpoint,
        ExecutionBoundary,
        RunOutcome,
        TaskConstraint,
        TaskState,
    )
    from mindx.core.command import Exec
    from mindx.core.decision import (
        AcceptanceCriterion,
        AgentDecision,
        CompletionClaim,
        CompletionValidationResult,
        DecisionKind,
        UserInputOption,
        UserInputRequest,
    )
    from mindx.core.evidence import ArtifactRef, Evidence, EvidenceKind, Provenance
    from mindx.core.message import ChatMessage, Role, ToolCall
    from mindx.core.observation import Observation, ObservationBatch, Status
    from mindx.core.protocols import ActionAssessor, ActionExecutor, CompletionGate, PolicyEngine, Reasoner
    from mindx.core.receipt import ExecResult, ExitCause, Receipt
    from mindx.core.run import Outcome, RunResult, StepRecord
    from mindx.core.run_config import RunConfig
    from mindx.errors import (
        ContextOverflowError,
        DeniedError,
        EngineError,
        FileError,
        ImageError,
        InputError,
        MindxError,
        ProviderError,
        SandboxError,
        SandboxLostError,
        StateError,
        WorkspaceError,
    )
    from mindx.policy.approval import Approval, Approver
    from mindx.policy.load import LoadedPolicy, load_policy
    from mindx.providers.base import (
        BaseProvider,
        ModelCapabilityRequest,
        ModelRequest,
        ProviderCapabilities,
        ProviderResponse,
        ProviderStreamChunk,
        ProviderToolCallDelta,
    )
    from mindx.providers.cassette import RecordingProvider, ReplayProvider
    from mindx.providers.openai import OpenAIProvider
    from mindx.providers.param import OpenAIProviderParam
    from mindx.providers.router import ProviderRouter
    from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
    from mindx.runtime.agent_runtime import AgentRuntime
    from mindx.runtime.agent_session import AgentSession
    from mindx.runtime.completion import DefaultCompletionGate
    from mindx.runtime.context.manager import ContextManager
    from mindx.runtime.context.models import ContextBundle, ContextConfig, ContextPackResult, ContextRecord
    from mindx.runtime.context.packer import CacheAwarePacker
    from mindx.runtime.context.store import ContextStore
    from mindx.runtime.conversation import ConversationStore, LocalConversationStore
    from mindx.runtime.dispatcher import ActionDispatcher
    from mindx.runtime.fixed_plan import FixedPlan
    from mindx.runtime.function_executor import FunctionExecutor
    from mindx.runtime.heartbeat import Heartbeat
    from mindx.runtime.limits import RunTimeoutError, StepTimeoutError
    from mindx.runtime.loop import LoopParts, ReActLoop
    from mindx.runtime.model_actions import ModelActionExecutor
    from mindx.runtime.plan_run import PlanRun
    from mindx.runtime.policy_engine import DefaultPolicyEngine
    from mindx.runtime.provider_reasoner import ProviderReasoner
    from mindx.runtime.reaping import CleanupFailure, CloseReport
    from mindx.runtime.scheduler import ActionScheduler
    from mindx.runtime.scripted_reasoner import ScriptedReasoner
    from mindx.runtime.session import Session
    from mindx.runtime.sync_session import SyncSession
    from mindx.runtime.tasks.coordinator import TaskCoordinator
    from mindx.runtime.tasks.ledger import LocalTaskLedgerStore, TaskLedger, TaskStatus
    from mindx.runtime.tasks.long_term import LongTermMemory
    from mindx.runtime.tasks.memory import LocalTaskMemoryStore
    from mindx.runtime.trace_recorder import TraceRecorder
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
    from mindx.tools.builtin.calculator import CalculatorTool
    from mindx.tools.builtin.context_query import ContextQueryTool
    from mindx.tools.builtin.image_understanding import ImageUnderstandingTool
    from mindx.tools.builtin.memory import MemoryTool
    from mindx.tools.builtin.memory_read import MemoryReadTool
    from mindx.tools.builtin.memory_search import LongTermMemoryTool
    from mindx.tools.builtin.time_now import TimeNowTool
    from mindx.tools.command_tool import BoundTool, CommandTool
    from mindx.tools.context import ToolContext
    from mindx.tools.executor import ToolExecutor
    from mindx.tools.function import FunctionTool, tool
    from mindx.tools.mcp.config import MCPServerConfig, load_mcp_servers
    from mindx.tools.mcp.errors import MCPConnectionError, MCPToolCallError
    from mindx.tools.mcp.toolset import MCPTool, MCPToolSet
    from mindx.tools.registry import ToolRegistry
    from mindx.tools.simple_coder import SimpleCoder
    from mindx.tools.skills import Skill, SkillTool, load_skills
    from mindx.tools.workspace.exec_command import ExecCommandTool
    from mindx.tools.workspace.file_edit import FileEditTool
    from mindx.tools.workspace.file_read import FileReadTool
    from mindx.tools.workspace.file_search import FileSearchTool
    from mindx.tools.workspace.paths import WorkspacePathError, WorkspacePathResolver
    from mindx.trace.run_folder import RunStore
    from mindx.workspace.changes import Change

# Where each public name lives. It is imported when it is first used (PEP 562): importing mindx costs next to nothing.
_HOMES = {
    "AcceptanceCriterion": "mindx.core.decision",
    "ActionAssessor": "mindx.core.protocols",
    "ActionBatch": "mindx.core.action",
    "ActionDispatcher": "mindx.runtime.dispatcher",
    "ActionExecutor": "mindx.core.protocols",
    "ActionRequest": "mindx.core.action",
    "ActionRisk": "mindx.core.action",
    "ActionScheduler": "mindx.runtime.scheduler",
    "ActionTraits": "mindx.core.action",
    "ActionType": "mindx.core.action",
    "ActionValidation": "mindx.core.action",
    "AgentContext": "mindx.core.agent_context",
    "AgentDecision": "mindx.core.decision",
    "AgentError": "mindx.core.agent_error",
    "AgentEvent": "mindx.core.agent_event",
    "AgentEventType": "mindx.core.agent_event",
    "AgentOrchestrator": "mindx.agents.orchestrator",
    "AgentPipeline": "mindx.agents.pipeline",
    "AgentResult": "mindx.core.agent_result",
    "AgentRunStatus": "mindx.core.agent_result",
    "AgentRuntime": "mindx.runtime.agent_runtime",
    "AgentSession": "mindx.runtime.agent_session",
    "AgentState": "mindx.core.agent_state",
    "AgentStateMachine": "mindx.core.agent_state",
    "AgentTaskEvent": "mindx.agents.task_record",
    "AgentTaskEventType": "mindx.agents.task_record",
    "AgentTaskState": "mindx.agents.task_record",
    "AgentTaskView": "mindx.agents.task_record",
    "AgentWorkerSpec": "mindx.agents.worker",
    "Approval": "mindx.policy.approval",
    "ApprovalRequest": "mindx.core.approval",
    "ApprovalResult": "mindx.core.approval",
    "ApprovalScope": "mindx.core.approval",
    "Approver": "mindx.policy.approval",
    "ArtifactRef": "mindx.core.evidence",
    "BaseProvider": "mindx.providers.base",
    "BaseTool": "mindx.tools.base",
    "BatchValidationResult": "mindx.core.action",
    "BoundTool": "mindx.tools.command_tool",
    "BoundaryReason": "mindx.core.checkpoint",
    "BoundaryScope": "mindx.core.checkpoint",
    "CacheAwarePacker": "mindx.runtime.context.packer",
    "CalculatorTool": "mindx.tools.builtin.calculator",
    "Change": "mindx.workspace.changes",
    "ChatMessage": "mindx.core.message",
    "CleanupFailure": "mindx.runtime.reaping",
    "CloseReport": "mindx.runtime.reaping",
    "CommandTool": "mindx.tools.command_tool",
    "CompletionClaim": "mindx.core.decision",
    "CompletionGate": "mindx.core.protocols",
    "CompletionValidationResult": "mindx.core.decision",
    "ContextBundle": "mindx.runtime.context.models",
    "ContextConfig": "mindx.runtime.context.models",
    "ContextManager": "mindx.runtime.context.manager",
    "ContextOverflowError": "mindx.errors",
    "ContextPackResult": "mindx.runtime.context.models",
    "ContextPressure": "mindx.core.agent_context",
    "ContextQueryTool": "mindx.tools.builtin.context_query",
    "ContextRecord": "mindx.runtime.context.models",
    "ContextStore": "mindx.runtime.context.store",
    "ContextView": "mindx.core.agent_context",
    "ContinuationCheckpoint": "mindx.core.checkpoint",
    "ConversationStore": "mindx.runtime.conversation",
    "DecisionKind": "mindx.core.decision",
    "DefaultCompletionGate": "mindx.runtime.completion",
    "DefaultPolicyEngine": "mindx.runtime.policy_engine",
    "DeniedError": "mindx.errors",
    "EngineError": "mindx.errors",
    "ErrorCode": "mindx.core.agent_error",
    "ErrorPhase": "mindx.core.agent_error",
    "Evidence": "mindx.core.evidence",
    "EvidenceKind": "mindx.core.evidence",
    "Exec": "mindx.core.command",
    "ExecCommandTool": "mindx.tools.workspace.exec_command",
    "ExecResult": "mindx.core.receipt",
    "ExecutionBoundary": "mindx.core.checkpoint",
    "ExecutionMode": "mindx.core.action",
    "ExitCause": "mindx.core.receipt",
    "FileEditTool": "mindx.tools.workspace.file_edit",
    "FileError": "mindx.errors",
    "FileReadTool": "mindx.tools.workspace.file_read",
    "FileSearchTool": "mindx.tools.workspace.file_search",
    "FixedPlan": "mindx.runtime.fixed_plan",
    "FunctionExecutor": "mindx.runtime.function_executor",
    "FunctionTool": "mindx.tools.function",
    "Heartbeat": "mindx.runtime.heartbeat",
    "ImageError": "mindx.errors",
    "ImageUnderstandingTool": "mindx.tools.builtin.image_understanding",
    "InputError": "mindx.errors",
    "LoadedPolicy": "mindx.policy.load",
    "LocalConversationStore": "mindx.runtime.conversation",
    "LocalTaskLedgerStore": "mindx.runtime.tasks.ledger",
    "LocalTaskMemoryStore": "mindx.runtime.tasks.memory",
    "LongTermMemory": "mindx.runtime.tasks.long_term",
    "LongTermMemoryTool": "mindx.tools.builtin.memory_search",
    "LoopParts": "mindx.runtime.loop",
    "MCPConnectionError": "mindx.tools.mcp.errors",
    "MCPServerConfig": "mindx.tools.mcp.config",
    "MCPTool": "mindx.tools.mcp.toolset",
    "MCPToolCallError": "mindx.tools.mcp.errors",
    "MCPToolSet": "mindx.tools.mcp.toolset",
    "MemoryReadTool": "mindx.tools.builtin.memory_read",
    "MemoryTool": "mindx.tools.builtin.memory",
    "MindxError": "mindx.errors",
    "ModelActionExecutor": "mindx.runtime.model_actions",
    "ModelCapabilityRequest": "mindx.providers.base",
    "ModelRequest": "mindx.providers.base",
    "Observation": "mindx.core.observation",
    "ObservationBatch": "mindx.core.observation",
    "OnFailure": "mindx.agents.pipeline",
    "OpenAIProvider": "mindx.providers.openai",
    "OpenAIProviderParam": "mindx.providers.param",
    "OrchestrationMode": "mindx.agents.planner",
    "OrchestrationPlan": "mindx.agents.planner",
    "OrchestrationPlanner": "mindx.agents.planner",
    "Outcome": "mindx.core.run",
    "PipelineResult": "mindx.agents.pipeline",
    "PipelineStep": "mindx.agents.pipeline",
    "PipelineStepResult": "mindx.agents.pipeline",
    "PipelineStepStatus": "mindx.agents.pipeline",
    "PlanRun": "mindx.runtime.plan_run",
    "PolicyEngine": "mindx.core.protocols",
    "Provenance": "mindx.core.evidence",
    "ProviderCapabilities": "mindx.providers.base",
    "ProviderError": "mindx.errors",
    "ProviderReasoner": "mindx.runtime.provider_reasoner",
    "ProviderResponse": "mindx.providers.base",
    "ProviderRouter": "mindx.providers.router",
    "ProviderStreamChunk": "mindx.providers.base",
    "ProviderToolCallDelta": "mindx.providers.base",
    "ReActLoop": "mindx.runtime.loop",
    "Reasoner": "mindx.core.protocols",
    "Receipt": "mindx.core.receipt",
    "RecordingProvider": "mindx.providers.cassette",
    "ReplayProvider": "mindx.providers.cassette",
    "Role": "mindx.core.message",
    "RunConfig": "mindx.core.run_config",
    "RunOutcome": "mindx.core.checkpoint",
    "RunResult": "mindx.core.run",
    "RunStore": "mindx.trace.run_folder",
    "RunTimeoutError": "mindx.runtime.limits",
    "SandboxError": "mindx.errors",
    "SandboxLostError": "mindx.errors",
    "ScriptedProvider": "mindx.providers.scripted",
    "ScriptedReasoner": "mindx.runtime.scripted_reasoner",
    "ScriptedTurn": "mindx.providers.scripted",
    "Session": "mindx.runtime.session",
    "SessionCommand": "mindx.core.agent_session",
    "SessionCommandType": "mindx.core.agent_session",
    "SessionEnvironment": "mindx.core.agent_session",
    "SessionEvent": "mindx.core.agent_session",
    "SessionEventType": "mindx.core.agent_session",
    "SessionPolicy": "mindx.core.agent_session",
    "SessionState": "mindx.core.agent_session",
    "SimpleCoder": "mindx.tools.simple_coder",
    "Skill": "mindx.tools.skills",
    "SkillTool": "mindx.tools.skills",
    "StateError": "mindx.errors",
    "StateMachineError": "mindx.core.agent_state",
    "Status": "mindx.core.observation",
    "StepRecord": "mindx.core.run",
    "StepTimeoutError": "mindx.runtime.limits",
    "StreamingTool": "mindx.tools.base",
    "SubAgentExecutor": "mindx.agents.sub_agent",
    "SyncSession": "mindx.runtime.sync_session",
    "TaskConstraint": "mindx.core.checkpoint",
    "TaskCoordinator": "mindx.runtime.tasks.coordinator",
    "TaskLedger": "mindx.runtime.tasks.ledger",
    "TaskState": "mindx.core.checkpoint",
    "TaskStatus": "mindx.runtime.tasks.ledger",
    "TimeNowTool": "mindx.tools.builtin.time_now",
    "ToolCall": "mindx.core.message",
    "ToolContext": "mindx.tools.context",
    "ToolDefinition": "mindx.tools.base",
    "ToolError": "mindx.tools.base",
    "ToolExecutor": "mindx.tools.executor",
    "ToolNotFoundError": "mindx.tools.base",
    "ToolProgress": "mindx.tools.base",
    "ToolRegistry": "mindx.tools.registry",
    "ToolResult": "mindx.tools.base",
    "ToolValidationError": "mindx.tools.base",
    "TraceRecorder": "mindx.runtime.trace_recorder",
    "UserInputOption": "mindx.core.decision",
    "UserInputRequest": "mindx.core.decision",
    "ValidationDecision": "mindx.core.action",
    "WorkspaceError": "mindx.errors",
    "WorkspacePathError": "mindx.tools.workspace.paths",
    "WorkspacePathResolver": "mindx.tools.workspace.paths",
    "load_mcp_servers": "mindx.tools.mcp.config",
    "load_policy": "mindx.policy.load",
    "load_skills": "mindx.tools.skills",
    "tool": "mindx.tools.function",
}

__all__ = [
    "AcceptanceCriterion",
    "ActionAssessor",
    "ActionBatch",
    "ActionDispatcher",
    "ActionExecutor",
    "ActionRequest",
    "ActionRisk",
    "ActionScheduler",
    "ActionTraits",
    "ActionType",
    "ActionValidation",
    "AgentContext",
    "AgentDecision",
    "AgentError",
    "AgentEvent",
    "AgentEventType",
    "AgentOrchestrator",
    "AgentPipeline",
    "AgentResult",
    "AgentRunStatus",
    "AgentRuntime",
    "AgentSession",
    "AgentState",
    "AgentStateMachine",
    "AgentTaskEvent",
    "AgentTaskEventType",
    "AgentTaskState",
    "AgentTaskView",
    "AgentWorkerSpec",
    "Approval",
    "ApprovalRequest",
    "ApprovalResult",
    "ApprovalScope",
    "Approver",
    "ArtifactRef",
    "BaseProvider",
    "BaseTool",
    "BatchValidationResult",
    "BoundTool",
    "BoundaryReason",
    "BoundaryScope",
    "CacheAwarePacker",
    "CalculatorTool",
    "Change",
    "ChatMessage",
    "CleanupFailure",
    "CloseReport",
    "CommandTool",
    "CompletionClaim",
    "CompletionGate",
    "CompletionValidationResult",
    "ContextBundle",
    "ContextConfig",
    "ContextManager",
    "ContextOverflowError",
    "ContextPackResult",
    "ContextPressure",
    "ContextQueryTool",
    "ContextRecord",
    "ContextStore",
    "ContextView",
    "ContinuationCheckpoint",
    "ConversationStore",
    "DecisionKind",
    "DefaultCompletionGate",
    "DefaultPolicyEngine",
    "DeniedError",
    "EngineError",
    "ErrorCode",
    "ErrorPhase",
    "Evidence",
    "EvidenceKind",
    "Exec",
    "ExecCommandTool",
    "ExecResult",
    "ExecutionBoundary",
    "ExecutionMode",
    "ExitCause",
    "FileEditTool",
    "FileError",
    "FileReadTool",
    "FileSearchTool",
    "FixedPlan",
    "FunctionExecutor",
    "FunctionTool",
    "Heartbeat",
    "ImageError",
    "ImageUnderstandingTool",
    "InputError",
    "LoadedPolicy",
    "LocalConversationStore",
    "LocalTaskLedgerStore",
    "LocalTaskMemoryStore",
    "LongTermMemory",
    "LongTermMemoryTool",
    "LoopParts",
    "MCPConnectionError",
    "MCPServerConfig",
    "MCPTool",
    "MCPToolCallError",
    "MCPToolSet",
    "MemoryReadTool",
    "MemoryTool",
    "MindxError",
    "ModelActionExecutor",
    "ModelCapabilityRequest",
    "ModelRequest",
    "Observation",
    "ObservationBatch",
    "OnFailure",
    "OpenAIProvider",
    "OpenAIProviderParam",
    "OrchestrationMode",
    "OrchestrationPlan",
    "OrchestrationPlanner",
    "Outcome",
    "PipelineResult",
    "PipelineStep",
    "PipelineStepResult",
    "PipelineStepStatus",
    "PlanRun",
    "PolicyEngine",
    "Provenance",
    "ProviderCapabilities",
    "ProviderError",
    "ProviderReasoner",
    "ProviderResponse",
    "ProviderRouter",
    "ProviderStreamChunk",
    "ProviderToolCallDelta",
    "ReActLoop",
    "Reasoner",
    "Receipt",
    "RecordingProvider",
    "ReplayProvider",
    "Role",
    "RunConfig",
    "RunOutcome",
    "RunResult",
    "RunStore",
    "RunTimeoutError",
    "SandboxError",
    "SandboxLostError",
    "ScriptedProvider",
    "ScriptedReasoner",
    "ScriptedTurn",
    "Session",
    "SessionCommand",
    "SessionCommandType",
    "SessionEnvironment",
    "SessionEvent",
    "SessionEventType",
    "SessionPolicy",
    "SessionState",
    "SimpleCoder",
    "Skill",
    "SkillTool",
    "StateError",
    "StateMachineError",
    "Status",
    "StepRecord",
    "StepTimeoutError",
    "StreamingTool",
    "SubAgentExecutor",
    "SyncSession",
    "TaskConstraint",
    "TaskCoordinator",
    "TaskLedger",
    "TaskState",
    "TaskStatus",
    "TimeNowTool",
    "ToolCall",
    "ToolContext",
    "ToolDefinition",
    "ToolError",
    "ToolExecutor",
    "ToolNotFoundError",
    "ToolProgress",
    "ToolRegistry",
    "ToolResult",
    "ToolValidationError",
    "TraceRecorder",
    "UserInputOption",
    "UserInputRequest",
    "ValidationDecision",
    "WorkspaceError",
    "WorkspacePathError",
    "WorkspacePathResolver",
    "load_mcp_servers",
    "load_policy",
    "load_skills",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mindx' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
