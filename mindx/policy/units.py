"""Units as people write them: sizes (`512MiB`) and durations (`30s`)."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))? ?(B|KiB|MiB|GiB|TiB|k|kB|KB|MB|GB|TB|K|M|G|T)?", re.ASCII)
_BINARY = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_DECIMAL_NAMES = {"k": "KiB", "K": "KiB", "kB": "KiB", "KB": "KiB", "M": "MiB", "MB": "MiB"}
_DECIMAL_NAMES |= {"G": "GiB", "GB": "GiB", "T": "TiB", "TB": "TiB"}
_DURATION = re.compile(r"(?:([0-9]{1,9})(?:\.([0-9]{1,3}))?(ms|s|m|h|d))", re.ASCII)
_SECONDS_IN_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_size(text: str) -> int:
    """Return bytes. `text` is a whole number and a unit: B, KiB, MiB, GiB or TiB (powers of 1024).

    Raises ValueError that says what to write. `1g`, `1GB` and the like are refused, because people differ on them.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{_shown(text)} is not a size; write a number and a unit, such as 512MiB or 2GiB")
    whole, fraction, unit = found.group(1), found.group(2), found.group(3) or ""
    if unit in _DECIMAL_NAMES:
        raise ValueError(f"the unit in {_shown(text)} is ambiguous; write {whole}{_DECIMAL_NAMES[unit]}")
    if not unit and int(whole):
        raise ValueError(f"{_shown(text)} has no unit; write {whole}B, {whole}KiB, {whole}MiB or {whole}GiB")
    if fraction:
        raise ValueError(f"{_shown(text)} is not whole; use the next smaller unit, such as 1536MiB for 1.5GiB")
    return int(whole) * _BINARY[unit]


def parse_duration(text: str) -> float:
    """Return seconds. `text` is a number and a unit: ms, s, m, h or d. Raises ValueError that says what to write."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{_shown(text)} is not a duration; write a number and a unit, such as 500ms, 30s, 5m or 1h")
    whole, fraction, unit = found.group(1), found.group(2) or "", found.group(3)
    thousandths = int(whole) * 1000 + int(fraction.ljust(3, "0"))
    return thousandths * _SECONDS_IN_MS[unit] / 1_000_000


def format_size(size_bytes: int) -> str:
    """Return the size in the largest unit that keeps it whole."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _BINARY[unit] == 0:
            return f"{size_bytes // _BINARY[unit]}{unit}"
    return f"{size_bytes}B"


def format_duration(duration_s: float) -> str:
    """Return the duration in the largest unit that keeps it whole."""
    milliseconds = round(duration_s * 1000)
    for unit in ("d", "h", "m", "s"):
        if milliseconds and milliseconds % _SECONDS_IN_MS[unit] == 0:
            return f"{milliseconds // _SECONDS_IN_MS[unit]}{unit}"
    return f"{milliseconds}ms"


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:37] + "...")
