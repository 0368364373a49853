"""The golden cases of tests/policy_cases: read once, run by the tests and by the mutation run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "policy_cases"


@lru_cache(maxsize=1)
def documents() -> dict[str, dict[str, Any]]:
    """Return every file of cases by its name."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}


def judged() -> Iterator[tuple[str, str, str, str]]:
    """Yield (file, kind, text, expected verdict); kind is argv or lines."""
    for name, document in documents().items():
        for kind in ("argv", "lines"):
            for expected, text in document.get(kind, ()):
                yield name, kind, text, expected


def classified() -> Iterator[tuple[str, str]]:
    """Yield (argv as text, expected risk)."""
    for document in documents().values():
        for word, texts in document.get("risk", {}).items():
            for text in texts:
                yield text, word


def judge(name: str, kind: str, text: str) -> str:
    """Return the verdict of the engine on one case."""
    from mindx.core.command import Exec
    from mindx.policy.engine import PolicyEngine
    from mindx.policy.load import parse_policy

    source = "version: 1\n" + documents()[name]["policy"]
    engine = _ENGINES.get(name)
    if engine is None:
        engine = _ENGINES[name] = PolicyEngine(parse_policy(source.encode(), source=name).policy, autonomous=False)
    words = ["bash", "-o", "pipefail", "-c", text] if kind == "lines" else shlex.split(text)
    return str(engine.judge(Exec(tuple(words))).decision)


_ENGINES: dict[str, Any] = {}


def classify(text: str) -> str:
    """Return the risk that the table gives."""
    from mindx.policy.risk import classify

    return str(classify(tuple(shlex.split(text))).word)
