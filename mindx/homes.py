"""Where each public name lives. It is imported when it is first used (PEP 562), so importing mindx costs nothing."""

from __future__ import annotations

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
HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
