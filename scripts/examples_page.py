#!/usr/bin/env python3
"""Runs the commands of docs/examples.md and puts what they print under them: `examples_page.py`.

Whatever changes from run to run (times, ids) is replaced, so that a test can compare.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "docs" / "examples.md"
BLOCK = re.compile(r"```console\n\$ ([^\n]+)\n(.*?)```", re.S)
_VARYING = (
    (re.compile(r" \(\d+\.\d s\)$", re.M), ""),
    (re.compile(r"in \d+\.\d+ ?s\b"), "in N s"),
    (re.compile(r" \([\w.]+\) \.\.\. ok$", re.M), " ... ok"),  # how unittest names a test depends on Python
    (re.compile(r"\d{8}T\d{9}-[0-9a-f]{6}"), "RUN"),
)


def blocks(text: str) -> list[tuple[str, str]]:
    """Return each command of a page with what is printed under it."""
    return [(match[1], match[2]) for match in BLOCK.finditer(text)]


def run(command: str, **environ: str) -> str:
    """Run one command of the page and return what it printed, both streams, without what varies."""
    program, *arguments = shlex.split(command)
    start = {"mindx": [sys.executable, "-m", "mindx.cli.main"], "python": [sys.executable]}[program]
    env = {**os.environ, "NO_COLOR": "1", **environ}
    for name in ("CI", "GITHUB_ACTIONS", "GITLAB_CI"):
        env.pop(name, None)
    done = subprocess.run(
        [*start, *arguments],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    text = done.stdout
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def main() -> int:
    """Write the page anew."""
    text = PATH.read_text(encoding="utf-8")
    PATH.write_text(BLOCK.sub(lambda match: f"```console\n$ {match[1]}\n{run(match[1])}```", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
