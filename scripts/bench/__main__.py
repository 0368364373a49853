"""Measure the figures of docs/specification.md and compare them with their gates.

The JSON document goes to stdout (or to --json FILE), the table to stderr.
Exit code 0: every gate is reached; 1: one is not, or could not be measured; 2: wrong usage; 4: no engine or image.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from mindx.errors import MindxError
from mindx.sandbox.engine import connect
from scripts.bench.figures import Figure, judge, select_figures
from scripts.bench.probes import PROBES, Bench
from scripts.bench.report import document, table
from scripts.bench.samples import Samples

BUSY = 0.5


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.bench", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a figure or group; again for more")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the document to FILE instead of stdout")
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds: to see that it works")
    return parser.parse_args(argv)


async def measure(bench: Bench, figures: tuple[Figure, ...]) -> dict[str, str]:
    """Run the probes of these figures; return what failed by group, whose figures then stay unknown."""
    await bench.look()
    failed: dict[str, str] = {}
    for group in dict.fromkeys(figure.group for figure in figures):
        print(f"measuring {group}", file=sys.stderr, flush=True)
        try:
            await PROBES[group](bench)
        except (MindxError, OSError, RuntimeError) as error:
            failed[group] = f"{type(error).__name__}: {error}"
            print(f"  {group} failed: {failed[group]}", file=sys.stderr)
    return failed


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        figures = select_figures(tuple(arguments.only))
    except KeyError as error:
        print(f"there is no figure or group {error}; see scripts/bench/figures.py", file=sys.stderr)
        return 2
    samples = Samples()
    load_before = os.getloadavg()[0]
    if load_before > BUSY:
        print(f"this machine is busy (load {load_before:.1f}): figures will look worse than they are", file=sys.stderr)
    try:
        client = connect()
        with tempfile.TemporaryDirectory(prefix="mindx-bench-") as folder:
            bench = Bench(client, Path(folder), samples, quick=arguments.quick)
            failed = asyncio.run(measure(bench, figures))
        engine = client.version()["Version"]
        client.close()
    except MindxError as error:
        print(f"the bench cannot run: {error}", file=sys.stderr)
        return error.exit_code
    outcomes = judge(figures, samples)
    setting = {
        "engine": engine,
        "container_cpus": bench.cpus,
        "quick": arguments.quick,
        "failed": failed,
        # What others did meanwhile: ratios suffer too when there are more programs to run than CPUs.
        "load_before": round(load_before, 2),
        "load_after": round(os.getloadavg()[0], 2),
    }
    text = json.dumps(document(outcomes, samples, setting), indent=2)
    if arguments.json is None:
        print(text)
    else:
        arguments.json.write_text(text + "\n")
    print(table(outcomes, samples), file=sys.stderr)
    return 0 if all(outcome.met for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
