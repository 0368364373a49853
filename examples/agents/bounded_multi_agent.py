"""Agents below an agent, within bounds: a chief asks two readers at once, and one asks too deep."""

import asyncio

from mindx import (
    ActionDispatcher,
    ActionRisk,
    ActionType,
    AgentOrchestrator,
    AgentPipeline,
    AgentRuntime,
    AgentWorkerSpec,
    FunctionExecutor,
    PipelineStep,
    ProviderReasoner,
    ScriptedProvider,
    SubAgentExecutor,
    ToolCall,
)


def worker(name: str, *turns: object) -> AgentWorkerSpec:
    """Return an agent that only reads, whose model says these turns to every task."""

    def turn(request):
        said = sum(message.role.value == "assistant" for message in request.messages)
        return turns[min(said, len(turns) - 1)]

    executor = SubAgentExecutor(orchestrator)
    reasoner = ProviderReasoner(
        ScriptedProvider(turn), executor.provider_schemas(), action_types=executor.action_types()
    )
    dispatcher = ActionDispatcher({ActionType.TOOL: FunctionExecutor({}), ActionType.AGENT: executor})
    return AgentWorkerSpec(name, AgentRuntime(reasoner, dispatcher), risk=ActionRisk.READ_ONLY)


orchestrator = AgentOrchestrator(max_concurrent_tasks=1, max_task_depth=2, max_children_per_task=2, task_timeout_s=60)


async def main() -> None:
    orchestrator.register(worker("north", "It rains in the north."))
    orchestrator.register(worker("south", "The sun shines in the south."))
    both = [ToolCall("1", "north", {"task": "weather?"}), ToolCall("2", "south", {"task": "weather?"})]
    orchestrator.register(worker("chief", both, "Rain in the north, sun in the south."))
    orchestrator.register(worker("boss", ToolCall("1", "chief", {"task": "weather?"}), "My chief may ask nobody."))

    result = await orchestrator.run_agent("chief", "What is the weather?")
    print(result.final_answer)
    for root in orchestrator.execution_tree():
        print(root["agent"], "->", [child["agent"] for child in root["children"]])

    result = await orchestrator.run_agent("boss", "What is the weather?")  # three deep, and two are allowed
    depths = [node["depth"] for node in orchestrator.execution_graph()["nodes"]]
    print(result.final_answer, "deepest:", max(depths))

    steps = [PipelineStep("first", "north", "look"), PipelineStep("then", "south", "look too", ("first",))]
    done = await AgentPipeline(orchestrator, steps).run()
    print({name: step.status.value for name, step in done.steps.items()})
    report = await orchestrator.close(close_workers=True)
    print("all ended:", report.ok)


asyncio.run(main())
