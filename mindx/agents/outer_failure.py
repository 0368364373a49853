"""What an agent's run failed with outside of its goal: whoever gave the goal deals with that itself."""

from __future__ import annotations

from mindx.core.agent_error import ErrorCode
from mindx.core.agent_result import AgentResult
from mindx.errors import ProviderError, SandboxError


def raise_outer(run: AgentResult | None) -> None:
    """Raise ProviderError or SandboxError when model or container failed: the goal has then not been tried."""
    error = None if run is None else run.error_info
    if error is None:
        return
    code = str(error.details.get("code", error.code.value))
    if error.code is ErrorCode.PROVIDER_FAILED:
        raise ProviderError(code, error.message, recoverable=error.recoverable)
    if error.code is ErrorCode.SANDBOX_FAILED:
        raise SandboxError(code, error.message)
