"""An agent with two tools, one of them a plain function; the model is a script, so it runs without a network."""

import asyncio

from mindx import (
    ActionRisk,
    AgentRuntime,
    CalculatorTool,
    ProviderReasoner,
    ScriptedProvider,
    ScriptedTurn,
    ToolExecutor,
    ToolRegistry,
    tool,
)


@tool(risk=ActionRisk.READ_ONLY)
def price(item: str) -> float:
    """Return the price of one item."""
    return {"apple": 0.5, "pear": 0.75}[item]


async def main() -> None:
    registry = ToolRegistry([price, CalculatorTool()])
    model = ScriptedProvider(
        [
            ScriptedTurn.call("price", item="pear"),
            ScriptedTurn.call("calculator", expression="0.75 * 12"),
            "Twelve pears cost 9.00.",
        ]
    )
    reasoner = ProviderReasoner(
        model, registry.provider_schemas(), registry.action_risks(), registry.approval_required()
    )
    async with AgentRuntime(reasoner, ToolExecutor(registry)) as runtime:
        result = await runtime.run("What do twelve pears cost?")
    for observation in result.observations:
        print(observation.action_id, observation.status.value)
    print(result.final_answer)


asyncio.run(main())
