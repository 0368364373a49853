"""mindx: run plans that nobody vetted, without harm.

`async with mindx.Session(policy=..., workspace=...) as s: r = await s.run(["python3", "-c", "print(1)"])`
"""

from __future__ import annotations

# Not from typing: that costs more than all the rest, and while it loads Ctrl-C is a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mindx.agents.agent_process import AgentProcess
    from mindx.agents.agint.agint import AGInt
    from mindx.agents.agint.life import AGIntStatus
    from mindx.agents.agint.mission import Mission, MissionBudget
    from mindx.agents.bdi import (
        BDIAgent,
        BDIResult,
        BDIStatus,
        Budget,
        CommandCriterion,
        FileCriterion,
        Goal,
        GoalFailedError,
        GoalStatus,
        StatementCriterion,
    )
    from mindx.agents.beliefs import Belief, BeliefChange, BeliefEvent, BeliefSource, BeliefSystem
    from mindx.agents.constitution import Act, Constitution, ConstitutionError, Layer, Ruling
    from mindx.agents.coordinator.backlog_item import BacklogItem, BacklogStatus
    from mindx.agents.coordinator.config import CoordinatorConfig
    from mindx.agents.coordinator.coordinator import CoordinatorAgent
    from mindx.agents.coordinator.interaction import Interaction, InteractionStatus, InteractionType
    from mindx.agents.coordinator.verification import TaskVerification
    from mindx.agents.improvement.agent import SelfImprovementAgent
    from mindx.agents.improvement.apply import apply_improvement, rollback_improvement
    from mindx.agents.improvement.call import call_improvement
    from mindx.agents.improvement.models import ImprovementRequest, ImprovementResult
    from mindx.agents.live_tools import LiveTools
    from mindx.agents.mastermind.campaign import CampaignBudget, CampaignStatus, StrategicCampaign
    from mindx.agents.mastermind.mastermind import MastermindAgent
    from mindx.agents.official_tools import OfficialToolsRegistry
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
    from mindx.agents.system import MindSystem, MissionSystem
    from mindx.agents.task_record import AgentTaskEvent, AgentTaskEventType, AgentTaskState, AgentTaskView
    from mindx.agents.worker import AgentWorkerSpec
    from mindx.agents.worker_program import serve_agent
    from mindx.core.action import (
        ActionBatch,
        ActionRequest,
        ActionRisk,
        ActionTraits,
        ActionType,
        ActionValidation,
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
    from mindx.runtime.session_plan import PlanResult
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
    from mindx.tools.container_entry import ToolEntry, ToolSpec
    from mindx.tools.container_tool import ContainerTool
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
_NAMES = {
    "mindx.agents.agent_process": "AgentProcess",
    "mindx.agents.agint.agint": "AGInt",
    "mindx.agents.agint.life": "AGIntStatus",
    "mindx.agents.agint.mission": "Mission MissionBudget",
    "mindx.agents.mastermind.campaign": "CampaignBudget CampaignStatus StrategicCampaign",
    "mindx.agents.mastermind.mastermind": "MastermindAgent",
    "mindx.agents.system": "MindSystem MissionSystem",
    "mindx.agents.bdi": (
        "BDIAgent BDIResult BDIStatus Budget CommandCriterion FileCriterion Goal "
        "GoalFailedError GoalStatus StatementCriterion"
    ),
    "mindx.agents.beliefs": "Belief BeliefChange BeliefEvent BeliefSource BeliefSystem",
    "mindx.agents.constitution": "Act Constitution ConstitutionError Layer Ruling",
    "mindx.agents.coordinator.backlog_item": "BacklogItem BacklogStatus",
    "mindx.agents.coordinator.config": "CoordinatorConfig",
    "mindx.agents.coordinator.coordinator": "CoordinatorAgent",
    "mindx.agents.coordinator.interaction": "Interaction InteractionStatus InteractionType",
    "mindx.agents.coordinator.verification": "TaskVerification",
    "mindx.agents.improvement.agent": "SelfImprovementAgent",
    "mindx.agents.improvement.apply": "apply_improvement rollback_improvement",
    "mindx.agents.improvement.call": "call_improvement",
    "mindx.agents.improvement.models": "ImprovementRequest ImprovementResult",
    "mindx.agents.live_tools": "LiveTools",
    "mindx.agents.official_tools": "OfficialToolsRegistry",
    "mindx.agents.orchestrator": "AgentOrchestrator",
    "mindx.agents.pipeline": (
        "AgentPipeline OnFailure PipelineResult PipelineStep PipelineStepResult PipelineStepStatus "
    ),
    "mindx.agents.planner": "OrchestrationMode OrchestrationPlan OrchestrationPlanner",
    "mindx.agents.sub_agent": "SubAgentExecutor",
    "mindx.agents.task_record": "AgentTaskEvent AgentTaskEventType AgentTaskState AgentTaskView",
    "mindx.agents.worker": "AgentWorkerSpec",
    "mindx.agents.worker_program": "serve_agent",
    "mindx.core.action": (
        "ActionBatch ActionRequest ActionRisk ActionTraits ActionType ActionValidation "
        "ExecutionMode ValidationDecision "
    ),
    "mindx.core.agent_context": "AgentContext ContextPressure ContextView",
    "mindx.core.agent_error": "AgentError ErrorCode ErrorPhase",
    "mindx.core.agent_event": "AgentEvent AgentEventType",
    "mindx.core.agent_result": "AgentResult AgentRunStatus",
    "mindx.core.agent_session": (
        "SessionCommand SessionCommandType SessionEnvironment SessionEvent SessionEventType SessionPolicy SessionState "
    ),
    "mindx.core.agent_state": "AgentState AgentStateMachine StateMachineError",
    "mindx.core.approval": "ApprovalRequest ApprovalResult ApprovalScope",
    "mindx.core.checkpoint": (
        "BoundaryReason BoundaryScope ContinuationCheckpoint ExecutionBoundary RunOutcome TaskConstraint TaskState "
    ),
    "mindx.core.command": "Exec",
    "mindx.core.decision": (
        "AcceptanceCriterion AgentDecision CompletionClaim CompletionValidationResult DecisionKind "
        "UserInputOption UserInputRequest "
    ),
    "mindx.core.evidence": "ArtifactRef Evidence EvidenceKind Provenance",
    "mindx.core.message": "ChatMessage Role ToolCall",
    "mindx.core.observation": "Observation ObservationBatch Status",
    "mindx.core.protocols": "ActionAssessor ActionExecutor CompletionGate PolicyEngine Reasoner",
    "mindx.core.receipt": "ExecResult ExitCause Receipt",
    "mindx.core.run": "Outcome RunResult StepRecord",
    "mindx.core.run_config": "RunConfig",
    "mindx.errors": (
        "ContextOverflowError DeniedError EngineError FileError ImageError InputError MindxError "
        "ProviderError SandboxError SandboxLostError StateError WorkspaceError "
    ),
    "mindx.policy.approval": "Approval Approver",
    "mindx.policy.load": "LoadedPolicy load_policy",
    "mindx.providers.base": (
        "BaseProvider ModelCapabilityRequest ModelRequest ProviderCapabilities ProviderResponse "
        "ProviderStreamChunk ProviderToolCallDelta "
    ),
    "mindx.providers.cassette": "RecordingProvider ReplayProvider",
    "mindx.providers.openai": "OpenAIProvider",
    "mindx.providers.param": "OpenAIProviderParam",
    "mindx.providers.router": "ProviderRouter",
    "mindx.providers.scripted": "ScriptedProvider ScriptedTurn",
    "mindx.runtime.agent_runtime": "AgentRuntime",
    "mindx.runtime.agent_session": "AgentSession",
    "mindx.runtime.completion": "DefaultCompletionGate",
    "mindx.runtime.context.manager": "ContextManager",
    "mindx.runtime.context.models": "ContextBundle ContextConfig ContextPackResult ContextRecord",
    "mindx.runtime.context.packer": "CacheAwarePacker",
    "mindx.runtime.context.store": "ContextStore",
    "mindx.runtime.conversation": "ConversationStore LocalConversationStore",
    "mindx.runtime.dispatcher": "ActionDispatcher",
    "mindx.runtime.fixed_plan": "FixedPlan",
    "mindx.runtime.function_executor": "FunctionExecutor",
    "mindx.runtime.heartbeat": "Heartbeat",
    "mindx.runtime.limits": "RunTimeoutError StepTimeoutError",
    "mindx.runtime.loop": "LoopParts ReActLoop",
    "mindx.runtime.model_actions": "ModelActionExecutor",
    "mindx.runtime.plan_run": "PlanRun",
    "mindx.runtime.policy_engine": "DefaultPolicyEngine",
    "mindx.runtime.provider_reasoner": "ProviderReasoner",
    "mindx.runtime.reaping": "CleanupFailure CloseReport",
    "mindx.runtime.scheduler": "ActionScheduler",
    "mindx.runtime.scripted_reasoner": "ScriptedReasoner",
    "mindx.runtime.session": "Session",
    "mindx.runtime.session_plan": "PlanResult",
    "mindx.runtime.sync_session": "SyncSession",
    "mindx.runtime.tasks.coordinator": "TaskCoordinator",
    "mindx.runtime.tasks.ledger": "LocalTaskLedgerStore TaskLedger TaskStatus",
    "mindx.runtime.tasks.long_term": "LongTermMemory",
    "mindx.runtime.tasks.memory": "LocalTaskMemoryStore",
    "mindx.runtime.trace_recorder": "TraceRecorder",
    "mindx.tools.base": (
        "BaseTool StreamingTool ToolDefinition ToolError ToolNotFoundError ToolProgress ToolResult ToolValidationError "
    ),
    "mindx.tools.builtin.calculator": "CalculatorTool",
    "mindx.tools.builtin.context_query": "ContextQueryTool",
    "mindx.tools.builtin.image_understanding": "ImageUnderstandingTool",
    "mindx.tools.builtin.memory": "MemoryTool",
    "mindx.tools.builtin.memory_read": "MemoryReadTool",
    "mindx.tools.builtin.memory_search": "LongTermMemoryTool",
    "mindx.tools.builtin.time_now": "TimeNowTool",
    "mindx.tools.command_tool": "BoundTool CommandTool",
    "mindx.tools.container_entry": "ToolEntry ToolSpec",
    "mindx.tools.container_tool": "ContainerTool",
    "mindx.tools.context": "ToolContext",
    "mindx.tools.executor": "ToolExecutor",
    "mindx.tools.function": "FunctionTool tool",
    "mindx.tools.mcp.config": "MCPServerConfig load_mcp_servers",
    "mindx.tools.mcp.errors": "MCPConnectionError MCPToolCallError",
    "mindx.tools.mcp.toolset": "MCPTool MCPToolSet",
    "mindx.tools.registry": "ToolRegistry",
    "mindx.tools.simple_coder": "SimpleCoder",
    "mindx.tools.skills": "Skill SkillTool load_skills",
    "mindx.tools.workspace.exec_command": "ExecCommandTool",
    "mindx.tools.workspace.file_edit": "FileEditTool",
    "mindx.tools.workspace.file_read": "FileReadTool",
    "mindx.tools.workspace.file_search": "FileSearchTool",
    "mindx.tools.workspace.paths": "WorkspacePathError WorkspacePathResolver",
    "mindx.trace.run_folder": "RunStore",
    "mindx.workspace.changes": "Change",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

# fmt: off
__all__ = [
    "AGInt", "AGIntStatus", "AcceptanceCriterion", "Act", "ActionAssessor", "ActionBatch", "ActionDispatcher",
    "ActionExecutor", "ActionRequest", "ActionRisk", "ActionScheduler", "ActionTraits", "ActionType",
    "ActionValidation", "AgentContext", "AgentDecision", "AgentError", "AgentEvent", "AgentEventType",
    "AgentOrchestrator", "AgentPipeline", "AgentProcess", "AgentResult", "AgentRunStatus", "AgentRuntime",
    "AgentSession", "AgentState", "AgentStateMachine", "AgentTaskEvent", "AgentTaskEventType", "AgentTaskState",
    "AgentTaskView", "AgentWorkerSpec", "Approval", "ApprovalRequest", "ApprovalResult", "ApprovalScope", "Approver",
    "ArtifactRef", "BDIAgent", "BDIResult", "BDIStatus", "BacklogItem", "BacklogStatus", "BaseProvider", "BaseTool",
    "Belief", "BeliefChange", "BeliefEvent", "BeliefSource", "BeliefSystem", "BoundTool", "BoundaryReason",
    "BoundaryScope", "Budget", "CacheAwarePacker", "CalculatorTool", "CampaignBudget", "CampaignStatus", "Change",
    "ChatMessage", "CleanupFailure", "CloseReport", "CommandCriterion", "CommandTool", "CompletionClaim",
    "CompletionGate", "CompletionValidationResult", "Constitution", "ConstitutionError", "ContainerTool",
    "ContextBundle", "ContextConfig", "ContextManager", "ContextOverflowError", "ContextPackResult", "ContextPressure",
    "ContextQueryTool", "ContextRecord", "ContextStore", "ContextView", "ContinuationCheckpoint", "ConversationStore",
    "CoordinatorAgent", "CoordinatorConfig", "DecisionKind", "DefaultCompletionGate", "DefaultPolicyEngine",
    "DeniedError", "EngineError", "ErrorCode", "ErrorPhase", "Evidence", "EvidenceKind", "Exec", "ExecCommandTool",
    "ExecResult", "ExecutionBoundary", "ExecutionMode", "ExitCause", "FileCriterion", "FileEditTool", "FileError",
    "FileReadTool", "FileSearchTool", "FixedPlan", "FunctionExecutor", "FunctionTool", "Goal", "GoalFailedError",
    "GoalStatus", "Heartbeat", "ImageError", "ImageUnderstandingTool", "ImprovementRequest", "ImprovementResult",
    "InputError", "Interaction", "InteractionStatus", "InteractionType", "Layer", "LiveTools", "LoadedPolicy",
    "LocalConversationStore", "LocalTaskLedgerStore", "LocalTaskMemoryStore", "LongTermMemory", "LongTermMemoryTool",
    "LoopParts", "MCPConnectionError", "MCPServerConfig", "MCPTool", "MCPToolCallError", "MCPToolSet",
    "MastermindAgent", "MemoryReadTool", "MemoryTool", "MindSystem", "MindxError", "Mission", "MissionBudget",
    "MissionSystem", "ModelActionExecutor", "ModelCapabilityRequest", "ModelRequest", "Observation",
    "ObservationBatch", "OfficialToolsRegistry", "OnFailure", "OpenAIProvider", "OpenAIProviderParam",
    "OrchestrationMode", "OrchestrationPlan", "OrchestrationPlanner", "Outcome", "PipelineResult", "PipelineStep",
    "PipelineStepResult", "PipelineStepStatus", "PlanResult", "PlanRun", "PolicyEngine", "Provenance",
    "ProviderCapabilities", "ProviderError", "ProviderReasoner", "ProviderResponse", "ProviderRouter",
    "ProviderStreamChunk", "ProviderToolCallDelta", "ReActLoop", "Reasoner", "Receipt", "RecordingProvider",
    "ReplayProvider", "Role", "Ruling", "RunConfig", "RunOutcome", "RunResult", "RunStore", "RunTimeoutError",
    "SandboxError", "SandboxLostError", "ScriptedProvider", "ScriptedReasoner", "ScriptedTurn", "SelfImprovementAgent",
    "Session", "SessionCommand", "SessionCommandType", "SessionEnvironment", "SessionEvent", "SessionEventType",
    "SessionPolicy", "SessionState", "SimpleCoder", "Skill", "SkillTool", "StateError", "StateMachineError",
    "StatementCriterion", "Status", "StepRecord", "StepTimeoutError", "StrategicCampaign", "StreamingTool",
    "SubAgentExecutor", "SyncSession", "TaskConstraint", "TaskCoordinator", "TaskLedger", "TaskState", "TaskStatus",
    "TaskVerification", "TimeNowTool", "ToolCall", "ToolContext", "ToolDefinition", "ToolEntry", "ToolError",
    "ToolExecutor", "ToolNotFoundError", "ToolProgress", "ToolRegistry", "ToolResult", "ToolSpec",
    "ToolValidationError", "TraceRecorder", "UserInputOption", "UserInputRequest", "ValidationDecision",
    "WorkspaceError", "WorkspacePathError", "WorkspacePathResolver", "apply_improvement", "call_improvement",
    "load_mcp_servers", "load_policy", "load_skills", "rollback_improvement", "serve_agent", "tool",
]
# fmt: on


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'mindx' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
