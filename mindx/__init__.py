"""mindx: run plans that nobody vetted, without harm.

`async with mindx.Session(policy=..., workspace=...) as s: r = await s.run(["python3", "-c", "print(1)"])`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from mindx.runtime.trace_recorder import TraceRecorder
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
    "AgentResult": "mindx.core.agent_result",
    "AgentRunStatus": "mindx.core.agent_result",
    "AgentRuntime": "mindx.runtime.agent_runtime",
    "AgentSession": "mindx.runtime.agent_session",
    "AgentState": "mindx.core.agent_state",
    "AgentStateMachine": "mindx.core.agent_state",
    "ApprovalRequest": "mindx.core.approval",
    "ApprovalResult": "mindx.core.approval",
    "ApprovalScope": "mindx.core.approval",
    "ArtifactRef": "mindx.core.evidence",
    "BaseProvider": "mindx.providers.base",
    "BatchValidationResult": "mindx.core.action",
    "BoundaryReason": "mindx.core.checkpoint",
    "BoundaryScope": "mindx.core.checkpoint",
    "CacheAwarePacker": "mindx.runtime.context.packer",
    "Change": "mindx.workspace.changes",
    "ChatMessage": "mindx.core.message",
    "CleanupFailure": "mindx.runtime.reaping",
    "CloseReport": "mindx.runtime.reaping",
    "CompletionClaim": "mindx.core.decision",
    "CompletionGate": "mindx.core.protocols",
    "CompletionValidationResult": "mindx.core.decision",
    "ContextBundle": "mindx.runtime.context.models",
    "ContextConfig": "mindx.runtime.context.models",
    "ContextManager": "mindx.runtime.context.manager",
    "ContextOverflowError": "mindx.errors",
    "ContextPackResult": "mindx.runtime.context.models",
    "ContextPressure": "mindx.core.agent_context",
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
    "ExecResult": "mindx.core.receipt",
    "ExecutionBoundary": "mindx.core.checkpoint",
    "ExecutionMode": "mindx.core.action",
    "ExitCause": "mindx.core.receipt",
    "FileError": "mindx.errors",
    "FixedPlan": "mindx.runtime.fixed_plan",
    "FunctionExecutor": "mindx.runtime.function_executor",
    "Heartbeat": "mindx.runtime.heartbeat",
    "ImageError": "mindx.errors",
    "InputError": "mindx.errors",
    "LoadedPolicy": "mindx.policy.load",
    "LocalConversationStore": "mindx.runtime.conversation",
    "LoopParts": "mindx.runtime.loop",
    "MindxError": "mindx.errors",
    "ModelActionExecutor": "mindx.runtime.model_actions",
    "ModelCapabilityRequest": "mindx.providers.base",
    "ModelRequest": "mindx.providers.base",
    "Observation": "mindx.core.observation",
    "ObservationBatch": "mindx.core.observation",
    "OpenAIProvider": "mindx.providers.openai",
    "OpenAIProviderParam": "mindx.providers.param",
    "Outcome": "mindx.core.run",
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
    "StateError": "mindx.errors",
    "StateMachineError": "mindx.core.agent_state",
    "Status": "mindx.core.observation",
    "StepRecord": "mindx.core.run",
    "StepTimeoutError": "mindx.runtime.limits",
    "TaskConstraint": "mindx.core.checkpoint",
    "TaskState": "mindx.core.checkpoint",
    "ToolCall": "mindx.core.message",
    "TraceRecorder": "mindx.runtime.trace_recorder",
    "UserInputOption": "mindx.core.decision",
    "UserInputRequest": "mindx.core.decision",
    "ValidationDecision": "mindx.core.action",
    "WorkspaceError": "mindx.errors",
    "load_policy": "mindx.policy.load",
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
    "AgentResult",
    "AgentRunStatus",
    "AgentRuntime",
    "AgentSession",
    "AgentState",
    "AgentStateMachine",
    "ApprovalRequest",
    "ApprovalResult",
    "ApprovalScope",
    "ArtifactRef",
    "BaseProvider",
    "BatchValidationResult",
    "BoundaryReason",
    "BoundaryScope",
    "CacheAwarePacker",
    "Change",
    "ChatMessage",
    "CleanupFailure",
    "CloseReport",
    "CompletionClaim",
    "CompletionGate",
    "CompletionValidationResult",
    "ContextBundle",
    "ContextConfig",
    "ContextManager",
    "ContextOverflowError",
    "ContextPackResult",
    "ContextPressure",
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
    "ExecResult",
    "ExecutionBoundary",
    "ExecutionMode",
    "ExitCause",
    "FileError",
    "FixedPlan",
    "FunctionExecutor",
    "Heartbeat",
    "ImageError",
    "InputError",
    "LoadedPolicy",
    "LocalConversationStore",
    "LoopParts",
    "MindxError",
    "ModelActionExecutor",
    "ModelCapabilityRequest",
    "ModelRequest",
    "Observation",
    "ObservationBatch",
    "OpenAIProvider",
    "OpenAIProviderParam",
    "Outcome",
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
    "StateError",
    "StateMachineError",
    "Status",
    "StepRecord",
    "StepTimeoutError",
    "TaskConstraint",
    "TaskState",
    "ToolCall",
    "TraceRecorder",
    "UserInputOption",
    "UserInputRequest",
    "ValidationDecision",
    "WorkspaceError",
    "load_policy",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mindx' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
