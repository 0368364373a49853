"""The report of a bench: one JSON document and one table."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from typing import Any

from scripts.bench.figures import Outcome
from scripts.bench.samples import Samples

SCHEMA_VERSION = 1


def document(outcomes: list[Outcome], samples: Samples, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run as plain values: the figures, the samples behind them and the setting."""
    return {
        "schema_version": SCHEMA_VERSION,
        "met": all(outcome.met for outcome in outcomes),
        "setting": {
            "python": platform.python_version(),
            "kernel": platform.release(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            **setting,
        },
        "figures": [outcome.to_dict() for outcome in outcomes],
        "samples": {name: _summary(samples, name) for name in samples.names()},
    }


def table(outcomes: list[Outcome], samples: Samples) -> str:
    """Return the figures as lines for a terminal, with p50 and p95 of both sides."""
    head = ("figure", "value", "gate", "aim", "standing", "p50", "p95", "compared with")
    rows = [head, *(_row(outcome, samples) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _row(outcome: Outcome, samples: Samples) -> tuple[str, ...]:
    figure = outcome.figure
    sign = ">=" if figure.at_least else "<="
    unit = "x" if figure.unit == "times" else f" {figure.unit}"

    def pair(percent: float) -> str:
        names = [name for name in (figure.over, figure.under) if name]
        return " / ".join(_amount(samples.percentile(name, percent), figure.unit) for name in names)

    return (
        figure.name,
        f"{outcome.value:.2f}{unit}" if math.isfinite(outcome.value) else "unknown",
        f"{sign} {figure.gate:g}",
        f"{sign} {figure.aim:g}" if figure.aim is not None else "-",
        outcome.standing,
        pair(50),
        pair(95),
        figure.title,
    )


def _amount(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return "?"
    return f"{value:.1f} MiB" if unit == "MiB" else f"{value * 1000:.2f} ms"


def _summary(samples: Samples, name: str) -> dict[str, Any]:
    values = samples.of(name)
    return {
        "count": len(values),
        "p50": round(samples.percentile(name, 50), 7),
        "p95": round(samples.percentile(name, 95), 7),
        "min": round(min(values), 7),
        "max": round(max(values), 7),
    }
