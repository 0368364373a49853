"""The seccomp profile: `data/seccomp.yaml` compiled into the JSON that the engine takes, `data/seccomp.json`.

The compiled text travels with mindx, so that no session waits 20 ms for it; `python -m mindx.sandbox.seccomp` writes it
anew after a change of the source, and a test sees that it has been done.

The engine's language knows no range and no bit test on part of an argument but MASKED_EQ, so a range becomes aligned
blocks of numbers, each one comparison under a mask, as networks are written as address and prefix.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent / "data" / "seccomp.yaml"
COMPILED = SOURCE.with_suffix(".json")
KEYS = {"version", "architectures", "default", "groups", "refuse", "absent"}
ERRNO = {"EPERM": 1, "ENOSYS": 38}
LOW_32 = 0xFFFF_FFFF
Comparison = tuple[int, int, int]  # argument, mask, value


@lru_cache(maxsize=1)
def profile() -> str:
    """Return the profile of this mindx as JSON; the same text on every machine."""
    return COMPILED.read_text("ascii").removesuffix("\n")


@lru_cache(maxsize=1)
def profile_sha256() -> str:
    """Return the digest of the profile."""
    return hashlib.sha256(profile().encode()).hexdigest()


def compile_profile(text: str) -> str:
    """Return the engine's JSON for a profile in our own form. Raises ValueError for what that form does not know."""
    import yaml  # costs time and memory that no session needs

    source = yaml.safe_load(text)
    if source.get("version") != 1 or source.keys() != KEYS:
        raise ValueError("not a profile of version 1")
    named: set[str] = set()
    calls = [call for group in source["groups"] for call in _group(group, named)]
    for names, errno in (("refuse", "EPERM"), ("absent", "ENOSYS")):
        calls.append({"names": _fresh(source[names], named), "action": "SCMP_ACT_ERRNO", "errnoRet": ERRNO[errno]})
    document = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ERRNO[source["default"]],
        "archMap": [{"architecture": name, "subArchitectures": []} for name in source["architectures"]],
        "syscalls": calls,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _group(group: dict[str, Any], named: set[str]) -> Iterator[dict[str, Any]]:
    if not {"name", "why", "allow"} <= group.keys() <= {"name", "why", "allow", "when"}:
        raise ValueError(f"a group with the keys {sorted(group)}")
    rule = {"names": _fresh(group["allow"], named), "action": "SCMP_ACT_ALLOW"}
    if "when" not in group:
        yield rule
        return
    for alternative in group["when"]:
        choices = [list(_comparisons(condition)) for condition in alternative]
        for comparisons in itertools.product(*choices):
            yield {**rule, "args": [_argument(*comparison) for comparison in comparisons]}


def _fresh(names: list[str], named: set[str]) -> list[str]:
    """Return the names, each of which stands in the profile once: the engine would let two rules of a name add up."""
    twice = named.intersection(names)
    if twice or len(set(names)) != len(names):
        raise ValueError(f"named twice: {sorted(twice or names)}")
    named.update(names)
    return list(names)


def _argument(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _comparisons(condition: dict[str, Any]) -> Iterator[Comparison]:
    """Yield the comparisons of which one must hold. Raises ValueError."""
    keys = condition.keys() - {"arg"}
    if keys == {"clear"}:
        yield condition["arg"], number(condition["clear"]), 0
    elif keys == {"is", "mask"}:
        yield from ((condition["arg"], number(condition["mask"]), number(value)) for value in condition["is"])
    elif keys == {"is"}:
        for low, high in _ranges(condition["is"]):
            yield from ((condition["arg"], mask, value) for mask, value in blocks(low, high))
    else:
        raise ValueError(f"a condition with the keys {sorted(condition)}")


def _ranges(values: list[Any]) -> Iterator[tuple[int, int]]:
    for value in values:
        if isinstance(value, list):
            yield from _ranges(value)
        else:
            low, _, high = str(value).partition("-")
            yield number(low), number(high or low)


def number(value: Any) -> int:
    """Return a number that YAML has read as one or left as text: `12`, `0x5412`, `0o4000`. Raises ValueError."""
    found = value if isinstance(value, int) else int(str(value), 0)
    if not 0 <= found <= LOW_32:
        raise ValueError(f"{value} does not fit 32 bits")
    return found


def blocks(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield (mask, value) of the fewest aligned blocks that hold exactly `low` to `high`, 32-bit numbers."""
    while low <= high:
        size = low & -low or 1 << 32
        while low + size - 1 > high:
            size >>= 1
        yield LOW_32 & ~(size - 1), low
        low += size


def write() -> None:
    """Compile the source into its place."""
    COMPILED.write_text(compile_profile(SOURCE.read_text("utf-8")) + "\n", "ascii")


if __name__ == "__main__":
    write()
