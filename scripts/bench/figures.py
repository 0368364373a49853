"""The figures as one table of data: what is compared, and the gate and the aim of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from scripts.bench.samples import Samples

Unit = Literal["times", "MiB", "ms"]
Standing = Literal["aim", "gate", "below gate", "unknown"]


@dataclass(frozen=True)
class Figure:
    """One promise. `value` is `over` divided by `under` (both names of samples), at the percentile `percent`.

    With unit MiB or ms the value is `over` minus `under` (or `over` alone when `under` is "").
    `at_least` turns the comparison round: the value must not be smaller than the gate. `aim` None: no aim is set.
    """

    name: str
    group: str
    title: str
    over: str
    under: str
    gate: float
    aim: float | None = None
    percent: float = 50
    at_least: bool = False
    unit: Unit = "times"

    def value(self, samples: Samples) -> float:
        """Return the figure, NaN when a sample is missing or nothing can be divided by it."""
        over = samples.percentile(self.over, self.percent)
        under = samples.percentile(self.under, self.percent) if self.under else 0.0
        if self.unit == "MiB":
            return over - under
        if self.unit == "ms":
            return (over - under) * 1000
        return over / under if under > 0 else math.nan

    def standing(self, value: float) -> Standing:
        """Say what a value reaches; what is not known reaches nothing."""
        if not math.isfinite(value):
            return "unknown"
        if not self._reaches(value, self.gate):
            return "below gate"
        return "aim" if self.aim is not None and self._reaches(value, self.aim) else "gate"

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound


FIGURES: tuple[Figure, ...] = (
    Figure("command_p50", "command", "warm `true` / native subprocess", "session_true", "native_true", 2.0, 1.4),
    Figure("command_p95", "command", "the same at p95", "session_true", "native_true", 3.0, percent=95),
    Figure("command_exec", "exec", "SDK exec_run / warm `true`", "sdk_exec", "exec_session_true", 40.0, at_least=True),
    Figure("start", "start", "start to first answer / SDK create + start", "session_start", "sdk_start", 1.5, 1.15),
    Figure("stop", "start", "session stop / `rm -f`", "session_stop", "sdk_remove", 1.3),
    Figure(
        "hardening",
        "hardening",
        "start, hardened and attested / neither",
        "hardened_start",
        "bare_start",
        30.0,
        unit="ms",
    ),
    Figure("workload", "workload", "compile, pytest, pip: hardened / bare", "hardened_workload", "bare_workload", 1.05),
    Figure("write_1k", "small", "put_archive / write, 1 KiB", "sdk_put_1k", "session_write_1k", 80.0, at_least=True),
    Figure("read_1k", "small", "get_archive / read, 1 KiB", "sdk_get_1k", "session_read_1k", 80.0, at_least=True),
    Figure("write_64m", "large", "write / put_archive, 64 MiB", "session_write_64m", "sdk_put_64m", 1.5),
    Figure("read_64m", "large", "read / get_archive, 64 MiB", "session_read_64m", "sdk_get_64m", 1.5),
    Figure("stdout_256m", "stdout", "256 MiB kept / native captured", "session_stdout", "native_stdout", 3.5),
    Figure("drain", "drain", "native pipe / 10 GB drained", "native_drain", "session_drain", 0.13, at_least=True),
    Figure("kill", "kill", "100 processes dead / native `true`", "kill_to_empty", "kill_native_true", 156, percent=99),
    Figure("session_memory", "memory", "one more idle session", "session_pss", "", 14.0, 8.0, unit="MiB"),
    Figure(
        "client_memory", "memory", "client over a bare SDK client", "client_rss", "sdk_client_rss", 15.0, unit="MiB"
    ),
    Figure("copy_in", "copy", "copy in 2,000 files of 4 KiB / `cp -r`", "session_copy_in", "native_cp", 4.0),
    Figure("judge", "judge", "one judgement by 200 rules / native `true`", "judge_200_rules", "judge_native_true", 0.3),
    Figure("agent_step", "agent", "one ReAct step, traced / native `true`", "agent_step", "agent_native_true", 7.8),
    Figure(
        "agent_sessions", "agent", "a step of 100 sessions / `true`", "agent_step_of_100", "agent_native_true", 23.0
    ),
    Figure("bdi_action", "mind", "a BDI action - its command", "bdi_action", "bdi_command", 5.0, unit="ms"),
    Figure("beliefs_query", "mind", "a query of 10,000 beliefs", "beliefs_query", "", 5.0, percent=95, unit="ms"),
    # 20 s on a machine whose native `true` takes 0.64 ms.
    Figure("campaign", "campaign", "campaign of 25 cycles / native `true`", "campaign", "campaign_native_true", 31250),
    # 150 and 400 ms on a machine whose bare Python starts in 12.
    Figure("cli_help", "cli", "`mindx --help` / a bare Python", "mindx_help", "python_start", 12.5),
    Figure("cli_check", "cli", "`mindx check`, 200 steps / the same", "mindx_check", "python_start", 33.3),
    Figure("cli_exec", "cli", "`mindx exec -- true` / `docker run --rm`", "mindx_exec", "docker_run", 1.5),
)


@dataclass(frozen=True)
class Outcome:
    """A figure with its value of this run."""

    figure: Figure
    value: float
    standing: Standing

    @property
    def met(self) -> bool:
        """True when the gate is reached."""
        return self.standing in ("aim", "gate")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a value that is not known is None."""
        return {
            "name": self.figure.name,
            "title": self.figure.title,
            "value": round(self.value, 4) if math.isfinite(self.value) else None,
            "unit": self.figure.unit,
            "percent": self.figure.percent,
            "bound": "at least" if self.figure.at_least else "at most",
            "gate": self.figure.gate,
            "aim": self.figure.aim,
            "standing": self.standing,
        }


def select_figures(only: tuple[str, ...]) -> tuple[Figure, ...]:
    """Return the figures of these names or groups, all of them for (). Raises KeyError for one that is not known."""
    known = {figure.name for figure in FIGURES} | {figure.group for figure in FIGURES}
    for name in only:
        if name not in known:
            raise KeyError(name)
    return tuple(figure for figure in FIGURES if not only or figure.name in only or figure.group in only)


def judge(figures: tuple[Figure, ...], samples: Samples) -> list[Outcome]:
    """Return each figure's outcome."""
    outcomes = []
    for figure in figures:
        value = figure.value(samples)
        outcomes.append(Outcome(figure, value, figure.standing(value)))
    return outcomes
