"""What the agent tests share: decisions and actions in one line, an executor of functions, events by name."""

from __future__ import annotations

import asyncio
from typing import Any

from mindx import ActionRequest, ActionRisk, AgentDecision, AgentRuntime, FunctionExecutor, RunConfig, ScriptedReasoner

READ, WRITE, DANGEROUS = ActionRisk.READ_ONLY, ActionRisk.WRITE, ActionRisk.DANGEROUS


def action(action_id: str, name: str = "look", **arguments: Any) -> ActionRequest:
    return ActionRequest(action_id, name, arguments)


def act(*names: str, **options: Any) -> AgentDecision:
    """Return a decision of actions: `name` or `id:name`."""
    requests = []
    for number, name in enumerate(names):
        action_id, _, short = name.rpartition(":")
        requests.append(action(action_id or f"{short}_{number}", short))
    return AgentDecision.act(*requests, **options)


class World:
    """Functions to act with: `calls` lists what was really done, in order; `gate` holds `wait` until it is set."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.running = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.entries = asyncio.Semaphore(0)

    def executor(self) -> FunctionExecutor:
        functions = {
            "look": self.note("look"),
            "read": self.slow("read"),
            "write": self.note("write"),
            "smash": self.note("smash"),
            "fail": lambda arguments, context: {"status": "FAILURE", "message": "it did not work"},
            "bug": self.bug,
            "wait": self.wait,
            "wait_writing": self.wait,
        }
        risks = {"look": READ, "read": READ, "fail": READ, "bug": READ, "wait": READ, "write": WRITE}
        return FunctionExecutor(functions, {**risks, "wait_writing": WRITE}, {"read": "key"})

    def note(self, name: str) -> Any:
        def call(arguments: Any, context: Any) -> Any:
            self.calls.append((name, dict(arguments)))
            return {"seen": name, **arguments}

        return call

    def slow(self, name: str) -> Any:
        async def call(arguments: Any, context: Any) -> Any:
            self.running += 1
            self.most = max(self.most, self.running)
            for _ in range(5):
                await asyncio.sleep(0)
            self.running -= 1
            self.calls.append((name, dict(arguments)))
            return arguments.get("n")

        return call

    def bug(self, arguments: Any, context: Any) -> Any:
        raise ZeroDivisionError("a secret detail")

    async def wait(self, arguments: Any, context: Any) -> Any:
        self.running += 1
        self.entered.set()
        self.entries.release()
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
            self.calls.append(("left", dict(arguments)))
        return "waited"


class Heard:
    """An event handler that keeps what it heard."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._news = asyncio.Event()

    def __call__(self, event: Any) -> None:
        self.events.append(event)
        self._news.set()

    async def until(self, event_type: str, count: int = 1) -> Any:
        """Wait for the event of this type and number (from 1), and return it."""
        while len(found := self.of(event_type)) < count:
            self._news.clear()
            await self._news.wait()
        return found[count - 1]

    @property
    def types(self) -> list[str]:
        return [event.event_type.value for event in self.events]

    @property
    def states(self) -> list[str]:
        return [event.payload["to"] for event in self.events if event.event_type.value == "state_changed"]

    def of(self, event_type: str) -> list[Any]:
        return [event for event in self.events if event.event_type.value == event_type]


class Made:
    """A runtime with a script, and all that can be seen of it."""

    def __init__(self, *lines: Any, world: World | None = None, **options: Any) -> None:
        self.world = world or World()
        self.heard = Heard()
        self.reasoner = ScriptedReasoner(lines)
        config = options.pop("config", RunConfig(heartbeat_s=0.0, interactive=False))
        executor = options.pop("executor", None) or self.world.executor()
        self.runtime = AgentRuntime(self.reasoner, executor, event_handler=self.heard, config=config, **options)

    async def run(self, task: str = "do it", **options: Any) -> Any:
        async with self.runtime:
            return await self.runtime.run(task, run_id="run-1", **options)


def run(*lines: Any, **options: Any) -> tuple[Any, Made]:
    """Run a script to its end; return the result and what was made."""
    run_options = {name: options.pop(name) for name in ("criteria", "policy", "artifacts") if name in options}

    async def main() -> tuple[Any, Made]:
        made = Made(*lines, **options)
        return await made.run(**run_options), made

    return asyncio.run(main())
