"""What the four workspace tools share: the folder they were made for, and the operator's policy for risk and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mindx.core.agent_context import AgentContext
from mindx.core.command import WORKSPACE, Exec
from mindx.errors import InputError
from mindx.policy.engine import PolicyEngine
from mindx.sandbox.base import Sandbox
from mindx.tools.base import BaseTool
from mindx.tools.command_risk import session_engine
from mindx.tools.context import ToolContext


class WorkspaceTool(BaseTool):
    """`workspace` is the folder of the host whose copy the session must work on; None takes whatever it works on.

    Risk and limits of commands are those of the session's policy. `engine` is for where no session is; None means the
    preset `default`.
    """

    works_inside = True

    def __init__(self, workspace: str | Path | None = None, *, engine: PolicyEngine | None = None) -> None:
        self.workspace = None if workspace is None else Path(workspace).absolute()
        self._engine = engine

    def engine(self, context: AgentContext | ToolContext) -> PolicyEngine:
        """Return the engine of the operator's policy."""
        return session_engine(context, self._engine)

    async def opened(self, context: ToolContext) -> Sandbox:
        """Return the session's sandbox. Raises InputError (workspace_other): it has another folder, or none."""
        if not self._same_folder(context.environment.workspace_root):
            hint = "give the session environment=SessionEnvironment(workspace_root=...) with that folder"
            message = f"{self.tool_id} was made for another folder than this session's; {hint}"
            raise InputError("workspace_other", message)
        return await context.sandbox()

    def _same_folder(self, root: str | Path | None) -> bool:
        return self.workspace is None or (root is not None and Path(root).absolute() == self.workspace)

    def program(
        self,
        argv: Sequence[str],
        context: AgentContext | ToolContext,
        *,
        cwd: str = WORKSPACE,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        max_output_bytes: int = 1024 * 1024,
    ) -> Exec:
        """Return an Exec within the policy's own limits of time and output."""
        limits = self.engine(context).policy.limits
        return Exec(
            tuple(argv),
            cwd,
            env or {},
            timeout_s=min(timeout_s, limits.command_timeout_s),
            max_output_bytes=min(max_output_bytes, limits.output_bytes),
        )
