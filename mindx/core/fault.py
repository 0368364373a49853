"""Faults: what is wrong in a file that a person or a model wrote, and where."""

from __future__ import annotations

from typing import Any, Literal

from mindx.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong. `path` is a JSON path (`$[2].params.path`); `line` counts from 1, None if unknown.

    `kind` is `invalid` (the text is wrong), `denied` (the policy says no) or `warning` (understood all the same).
    `suggestion` tells what to write instead, or is "".
    """

    path: str
    line: int | None
    message: str
    suggestion: str = ""
    kind: Literal["invalid", "denied", "warning"] = "invalid"
    column: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fault as plain values, as `--json` prints it."""
        return {
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "kind": self.kind,
            "message": self.message,
            "suggestion": self.suggestion,
        }
