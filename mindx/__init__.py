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

    from mindx.homes import HOMES  # not before a name is asked for: the command line never does

    if name not in HOMES:
        raise AttributeError(f"module 'mindx' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
