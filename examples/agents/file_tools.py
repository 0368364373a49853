"""The file tools on a copy of a folder, in a container: find, read, change, run. Your files stay as they are."""

import asyncio
import tempfile
from pathlib import Path

from mindx import (
    AgentRuntime,
    ExecCommandTool,
    FileEditTool,
    FileReadTool,
    FileSearchTool,
    ProviderReasoner,
    ScriptedProvider,
    ScriptedTurn,
    SessionEnvironment,
    ToolExecutor,
    ToolRegistry,
)


async def main(folder: Path) -> None:
    (folder / "app.py").write_text("def answer():\n    return 41\n")
    registry = ToolRegistry([FileSearchTool(), FileReadTool(), FileEditTool(), ExecCommandTool()])
    model = ScriptedProvider(
        [
            ScriptedTurn.call("file_search", query="return"),
            ScriptedTurn.call("file_read", path="app.py"),
            ScriptedTurn.call("file_edit", path="app.py", mode="replace", old_text="41", new_text="42"),
            ScriptedTurn.call("exec_command", command=["python3", "-c", "import app; print(app.answer())"]),
            "answer() returns 42 now.",
        ]
    )
    reasoner = ProviderReasoner(
        model, registry.provider_schemas(), registry.action_risks(), registry.approval_required()
    )
    async with AgentRuntime(reasoner, ToolExecutor(registry)) as runtime:
        result = await runtime.run("Make answer() right.", environment=SessionEnvironment(workspace_root=folder))
    print("found", result.observations[0].result["results"])
    print("ran", result.observations[3].result["stdout"].strip())
    print(result.final_answer)
    print("on the host it is still", (folder / "app.py").read_text().split()[-1])


with tempfile.TemporaryDirectory() as name:
    asyncio.run(main(Path(name)))
