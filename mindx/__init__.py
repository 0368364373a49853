"""mindx: run plans that nobody vetted, without harm.

`async with mindx.Session(policy=..., workspace=...) as s: r = await s.run(["python3", "-c", "print(1)"])`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindx.core.command import Exec
    from mindx.core.receipt import ExecResult, ExitCause, Receipt
    from mindx.core.run import Outcome, RunResult, StepRecord
    from mindx.errors import (
        DeniedError,
        EngineError,
        FileError,
        ImageError,
        InputError,
        MindxError,
        SandboxError,
        SandboxLostError,
        StateError,
        WorkspaceError,
    )
    from mindx.policy.load import LoadedPolicy, load_policy
    from mindx.runtime.plan_run import PlanRun
    from mindx.runtime.session import Session
    from mindx.trace.run_folder import RunStore
    from mindx.workspace.changes import Change

# Where each public name lives. It is imported when it is first used (PEP 562): importing mindx costs next to nothing.
_HOMES = {
    "Change": "mindx.workspace.changes",
    "DeniedError": "mindx.errors",
    "EngineError": "mindx.errors",
    "Exec": "mindx.core.command",
    "ExecResult": "mindx.core.receipt",
    "ExitCause": "mindx.core.receipt",
    "FileError": "mindx.errors",
    "ImageError": "mindx.errors",
    "InputError": "mindx.errors",
    "LoadedPolicy": "mindx.policy.load",
    "MindxError": "mindx.errors",
    "Outcome": "mindx.core.run",
    "PlanRun": "mindx.runtime.plan_run",
    "Receipt": "mindx.core.receipt",
    "RunResult": "mindx.core.run",
    "RunStore": "mindx.trace.run_folder",
    "SandboxError": "mindx.errors",
    "SandboxLostError": "mindx.errors",
    "Session": "mindx.runtime.session",
    "StateError": "mindx.errors",
    "StepRecord": "mindx.core.run",
    "WorkspaceError": "mindx.errors",
    "load_policy": "mindx.policy.load",
}

__all__ = [
    "Change",
    "DeniedError",
    "EngineError",
    "Exec",
    "ExecResult",
    "ExitCause",
    "FileError",
    "ImageError",
    "InputError",
    "LoadedPolicy",
    "MindxError",
    "Outcome",
    "PlanRun",
    "Receipt",
    "RunResult",
    "RunStore",
    "SandboxError",
    "SandboxLostError",
    "Session",
    "StateError",
    "StepRecord",
    "WorkspaceError",
    "load_policy",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mindx' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
