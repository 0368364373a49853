"""The limits of one run; their order is checked when they are made."""

from __future__ import annotations

import math

from mindx.core.frozen import dataclass
from mindx.errors import InputError

STEP_TIMEOUT_S, ACTION_TIMEOUT_S, BATCH_TIMEOUT_S, TOTAL_TIMEOUT_S = 60.0, 60.0, 120.0, 300.0


@dataclass(frozen=True, slots=True, init=False)
class RunConfig:
    """Limits in steps and seconds.

    An Action has `action_timeout_s`, a batch `batch_timeout_s`, what a step does around its batch (context, thinking,
    validation) `step_timeout_s`, and all of it `total_timeout_s`. The clocks stop while a person decides. A smaller
    limit that is not given shrinks to fit a larger one that is; given ones must be in order:
    action <= batch <= total, step <= total; infinity means no limit. `heartbeat_s` 0 means none. `interactive` False
    means that nobody can answer: questions come back to the Reasoner at once. Raises InputError (run_config_invalid).
    """

    max_steps: int
    step_timeout_s: float
    total_timeout_s: float
    heartbeat_s: float
    parallel: bool
    max_parallel_actions: int
    action_timeout_s: float
    batch_timeout_s: float
    allow_write: bool
    allow_dangerous: bool
    event_handler_timeout_s: float
    interactive: bool

    def __init__(
        self,
        max_steps: int = 8,
        step_timeout_s: float | None = None,
        total_timeout_s: float | None = None,
        *,
        heartbeat_s: float = 2.0,
        parallel: bool = True,
        max_parallel_actions: int = 4,
        action_timeout_s: float | None = None,
        batch_timeout_s: float | None = None,
        allow_write: bool = True,
        allow_dangerous: bool = False,
        event_handler_timeout_s: float = 5.0,
        interactive: bool = True,
    ) -> None:
        # Defaults follow what is given, up where it must hold more, down where it must fit.
        batch_default = max(BATCH_TIMEOUT_S, action_timeout_s or 0.0)
        total = total_timeout_s
        if total is None:
            total = max(TOTAL_TIMEOUT_S, batch_timeout_s or batch_default, step_timeout_s or 0.0)
        batch = min(batch_default, total) if batch_timeout_s is None else batch_timeout_s
        action = min(ACTION_TIMEOUT_S, batch) if action_timeout_s is None else action_timeout_s
        step = min(STEP_TIMEOUT_S, total) if step_timeout_s is None else step_timeout_s
        values = {
            "max_steps": max_steps,
            "step_timeout_s": step,
            "total_timeout_s": total,
            "heartbeat_s": heartbeat_s,
            "parallel": parallel,
            "max_parallel_actions": max_parallel_actions,
            "action_timeout_s": action,
            "batch_timeout_s": batch,
            "allow_write": allow_write,
            "allow_dangerous": allow_dangerous,
            "event_handler_timeout_s": event_handler_timeout_s,
            "interactive": interactive,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        for name in ("step_timeout_s", "total_timeout_s", "action_timeout_s", "batch_timeout_s"):
            if math.isnan(getattr(self, name)) or getattr(self, name) <= 0:
                _refuse(f"{name} is a number of seconds above 0")
        if self.max_steps < 1 or self.max_parallel_actions < 1:
            _refuse("max_steps and max_parallel_actions are at least 1")
        if self.heartbeat_s < 0 or self.event_handler_timeout_s <= 0:
            _refuse("heartbeat_s is 0 or more, event_handler_timeout_s is above 0")
        for smaller, larger in (
            ("action_timeout_s", "batch_timeout_s"),
            ("batch_timeout_s", "total_timeout_s"),
            ("step_timeout_s", "total_timeout_s"),
        ):
            if getattr(self, smaller) > getattr(self, larger):
                _refuse(f"{smaller} ({getattr(self, smaller):g}) is longer than {larger} ({getattr(self, larger):g})")


def _refuse(reason: str) -> None:
    raise InputError("run_config_invalid", f"the limits of a run do not fit: {reason}")
