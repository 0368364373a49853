"""A coding agent in a conversation: one tool at a time, and a person says yes to each that writes.

Lines come from standard input: a task, /clear, /exit. The answer to a question is a line too.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from mindx import (
    AgentResult,
    AgentRuntime,
    ApprovalRequest,
    ApprovalResult,
    ExecCommandTool,
    FileEditTool,
    FileReadTool,
    ProviderReasoner,
    RunConfig,
    ScriptedProvider,
    ScriptedTurn,
    SessionEnvironment,
    SessionPolicy,
    ToolExecutor,
    ToolRegistry,
)

EDIT = ScriptedTurn.call("file_edit", path="hello.py", mode="create", content="print('hello')\n")
RUN = ScriptedTurn.call("exec_command", command=["python3", "hello.py"])
TURNS = [EDIT, "I did not write it, as you said.", EDIT, RUN, "hello.py prints hello.", "We have just begun."]


async def read(prompt: str) -> str | None:
    print(prompt, end="", flush=True)
    line = await asyncio.to_thread(sys.stdin.readline)
    print(line.strip())
    return line.strip() if line else None


async def approve(request: ApprovalRequest) -> ApprovalResult:
    words = json.dumps(dict(request.action.arguments))
    answer = await read(f"{request.action.name} {words} ({request.risk.value}): y or n? ")
    return ApprovalResult(answer == "y", feedback="" if answer == "y" else "do not write it")


async def main(folder: Path) -> None:
    registry = ToolRegistry([FileReadTool(), FileEditTool(), ExecCommandTool()])
    asks = {**registry.approval_required(), "file_edit": True, "exec_command": True}
    reasoner = ProviderReasoner(ScriptedProvider(TURNS), registry.provider_schemas(), registry.action_risks(), asks)
    config = RunConfig(allow_dangerous=True)
    async with AgentRuntime(reasoner, ToolExecutor(registry), approval_handler=approve, config=config) as runtime:
        session = runtime.create_session(
            environment=SessionEnvironment(workspace_root=folder),
            policy=SessionPolicy(allow_dangerous=True, max_parallel_actions=1),
        )
        while (line := await read("> ")) not in (None, "/exit"):
            if line == "/clear":
                session.clear()
                print("forgotten")
                continue
            await session.submit_run(line)
            result = None
            while not isinstance(result, AgentResult):
                result = (await session.next_event()).payload.get("result")
            print(result.final_answer or result.error, f"({len(session.messages)} messages)")


with tempfile.TemporaryDirectory() as name:
    asyncio.run(main(Path(name)))
