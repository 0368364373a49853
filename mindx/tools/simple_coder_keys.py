"""The keys of a terminal by their names, as the bytes that a terminal sends for them."""

from __future__ import annotations

from types import MappingProxyType

from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
KEYS: MappingProxyType[str, bytes] = MappingProxyType(
    {
        "enter": b"\r",
        "tab": b"\t",
        "escape": b"\x1b",
        "backspace": b"\x7f",
        "space": b" ",
        "up": b"\x1b[A",
        "down": b"\x1b[B",
        "right": b"\x1b[C",
        "left": b"\x1b[D",
        "home": b"\x1b[H",
        "end": b"\x1b[F",
        "insert": b"\x1b[2~",
        "delete": b"\x1b[3~",
        "page-up": b"\x1b[5~",
        "page-down": b"\x1b[6~",
        **{f"ctrl-{letter}": bytes([number]) for number, letter in enumerate(_LETTERS, 1)},
    }
)


def key_fault(name: str) -> tuple[str, str]:
    """Return what is wrong with a name that is no key's, and which there are."""
    near = did_you_mean(name, KEYS)
    known = ", ".join(key for key in KEYS if not key.startswith("ctrl-"))
    said = f"has no key {quoted(name)}"
    return f"{said}, {near}" if near else said, f"the keys are {known}, ctrl-a to ctrl-z"
