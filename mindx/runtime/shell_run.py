"""The Run of a person who types: each line is an Action of the one loop, judged and recorded alike."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from types import MappingProxyType
from typing import Any

import anyio

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.command import ListDir
from mindx.core.decision import AgentDecision
from mindx.core.observation import Observation, Status
from mindx.core.plan import EXECUTE_TOOL, Action
from mindx.core.run import Outcome
from mindx.errors import MindxError
from mindx.policy.load import LoadedPolicy
from mindx.runtime.actions import PlanActions
from mindx.runtime.fixed_plan import PlanRequest
from mindx.runtime.run import Run
from mindx.runtime.session import Session
from mindx.runtime.vetting import tools_for
from mindx.tools.command_tool import CallError
from mindx.tools.simple_coder_line import parse_line
from mindx.tools.simple_coder_state import CoderState
from mindx.trace.run_folder import RunStore

TOOL_ID = "simple_coder"
MAX_NAMES = 1000
NAMES_TIMEOUT_S = 3.0
ReadLine = Callable[[CoderState], Awaitable["str | None"]]


class ShellRun(Run):
    """One Run of typed lines. `read_line` is given the state and returns a line, or None at the end.

    `on_refused` is told why a line is no call. The other arguments are Run's. `person` True: a person types, who is
    the operator: `toggle_autonomous_mode` grants what destroys, if the policy leaves that to the operator, and a step
    that did not succeed was seen. False: the lines come from a pipe; they grant nothing that `autonomous` did not, and
    the run has failed when a line did not succeed.
    """

    def __init__(
        self,
        read_line: ReadLine,
        policy: LoadedPolicy,
        store: RunStore,
        *,
        on_refused: Callable[[str], None] | None = None,
        person: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(policy, store, **options)
        self._read_line = read_line
        self._person = person
        self._no_grant = _no_grant(policy, person or bool(options.get("autonomous")))
        self._refused = False
        self._on_refused = on_refused or (lambda text: None)
        self._actions: PlanActions | None = None
        self._running: asyncio.Task[Observation] | None = None
        self._typed = 0

    def interrupt(self) -> bool:
        """Cancel the command that is under way, not the shell; return False when there is none."""
        if self._running is None or self._running.done():
            return False
        return self._running.cancel()

    async def names(self, folder: str) -> tuple[tuple[str, bool], ...]:
        """Return the names in a folder, relative to the current one, and which are folders; () when it cannot be read.

        It is a Command like any other: judged, recorded, and at most a few seconds long.
        """
        if self._actions is None or self._actions.states.get(TOOL_ID) is None:
            return ()
        path = posixpath.normpath(posixpath.join(self._state().cwd, folder))
        try:
            with anyio.move_on_after(NAMES_TIMEOUT_S):
                found = await self.session.sandbox.list_dir(ListDir(path))
                return tuple((posixpath.basename(one.path), one.kind == "directory") for one in found[:MAX_NAMES])
        except MindxError:
            return ()
        return ()

    async def decide(self, context: AgentContext) -> AgentDecision:
        """Return the next typed line as an Action."""
        while True:
            line = await self._read_line(self._state())
            if line is None or line.strip() in ("exit", "quit"):
                return AgentDecision.complete("the shell was left")
            if not line.strip():
                continue
            try:
                params = {"tool_id": TOOL_ID, **parse_line(line)}
            except CallError as error:
                self._refused = True
                self._on_refused(error.message)
                continue
            self._typed += 1
            action = Action(f"line_{self._typed}", EXECUTE_TOOL, MappingProxyType(params), self._typed - 1)
            return AgentDecision.act(PlanRequest.of(action))

    async def execute(self, request: ActionRequest, context: AgentContext) -> Observation:
        """Do one line; an interrupt ends it alone."""
        assert self._actions is not None
        task = self._running = asyncio.ensure_future(self._actions.execute(request, context))
        try:
            observation = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():  # it is the shell itself that is cancelled
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
            observation = Observation(request.action_id, Status.CANCELLED, "interrupted")
        self.session.engine.autonomous = self.policy.policy.grants_autonomous(self._state().autonomous)
        return observation

    def _state(self) -> CoderState:
        assert self._actions is not None
        state: CoderState = self._actions.states[TOOL_ID]
        return state

    async def _walk(self) -> Outcome:
        def actions(session: Session) -> ShellRun:
            tools = tools_for(self.policy.policy.limits, operator=True, no_grant=self._no_grant)
            self._actions = PlanActions(tools, session.sandbox, autonomous=session.engine.autonomous)
            return self

        return await self._in_session(self, actions)

    def _outcome(self, statuses: Sequence[Status]) -> Outcome:
        if self._person:
            return Outcome.COMPLETED  # a person saw each failure and went on; leaving is the end
        done = not self._refused and all(status is Status.SUCCESS for status in statuses)
        return Outcome.COMPLETED if done else Outcome.FAILED


def _no_grant(policy: LoadedPolicy, operator: bool) -> str:
    """Return why a line may not switch autonomous mode, or nothing."""
    if policy.policy.autonomous == "never":
        return "the policy says `autonomous: never`"
    return "" if operator else "only a person at a terminal, or --autonomous, grants autonomous mode; not piped text"
