"""Every error that mindx raises, as one small tree.

MindxError
├── InputError            2  a plan, policy, folder or argument is not usable
│   ├── WorkspaceError    2  the folder to copy in, or to apply to, is not usable
│   ├── ImageInputError   2  a name, a reference or a file given for an image is not usable (also an ImageError)
│   └── ContextOverflowError  2  what must be told to the model does not fit its context
├── DeniedError           3  the policy says no
├── SandboxError          4  the sandbox could not do what it promised
│   ├── EngineError       4  the engine cannot be reached or refuses
│   ├── ImageError        4  an image is missing, unfit or cannot be built
│   └── SandboxLostError  4  the container ended, or its replies cannot be trusted
├── ProviderError         6  a model endpoint failed, or its answer cannot be used
├── StateError            4  the folder of runs and records cannot be written
└── FileError             1  a file operation inside the container failed (also an OSError)

The number is the exit code of the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any


class Phase(str, Enum):
    """Where in a run an error arose."""

    INPUT = "input"
    POLICY = "policy"
    ENGINE = "engine"
    IMAGE = "image"
    COPY_IN = "copy_in"
    EXECUTION = "execution"
    COPY_OUT = "copy_out"
    APPLY = "apply"
    CONTEXT = "context"
    REASONING = "reasoning"


class MindxError(Exception):
    """The root: `code` is unique per kind of failure, `message` says what failed, on what, and what to do next.

    `recoverable` is True when the same call may succeed later without a change by the user.
    `details` holds plain JSON values only.
    """

    exit_code = 1
    default_phase = Phase.EXECUTION

    def __init__(
        self,
        code: str,
        message: str,
        *,
        phase: Phase | None = None,
        recoverable: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.phase = phase or self.default_phase
        self.recoverable = recoverable
        self.details = dict(details or {})

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, Any]:
        """Return `code`, `message`, `phase`, `recoverable` and `details` as plain values."""
        return {
            "code": self.code,
            "message": self.message,
            "phase": self.phase.value,
            "recoverable": self.recoverable,
            "details": self.details,
        }


class InputError(MindxError):
    """What the user gave cannot be used."""

    exit_code = 2
    default_phase = Phase.INPUT


class WorkspaceError(InputError):
    """A folder cannot be copied in, or Changes cannot be applied to it."""

    default_phase = Phase.COPY_IN


class DeniedError(MindxError):
    """The policy refuses."""

    exit_code = 3
    default_phase = Phase.POLICY


class SandboxError(MindxError):
    """The sandbox could not do what it promised."""

    exit_code = 4


class EngineError(SandboxError):
    """The container engine cannot be reached or refuses a request."""

    default_phase = Phase.ENGINE


class ImageError(SandboxError):
    """An image is missing, unfit or cannot be built."""

    default_phase = Phase.IMAGE


class ImageInputError(InputError, ImageError):
    """What the user gave for an image (its name, a registry's reference, an exported file) cannot be used."""

    default_phase = Phase.IMAGE


class SandboxLostError(SandboxError):
    """The container is gone or its replies cannot be trusted; the session cannot go on."""


class ProviderError(MindxError):
    """A model endpoint failed, or its answer cannot be used; `details` never holds a key or a request's headers."""

    exit_code = 6
    default_phase = Phase.REASONING


class ContextOverflowError(InputError):
    """What must be told to the model (instructions, tools, the goal) is larger than its context."""

    default_phase = Phase.CONTEXT


class StateError(MindxError):
    """The user's state folder, where runs and records are kept, cannot be used."""

    exit_code = 4


class FileError(MindxError, OSError):
    """A file operation inside the container failed; `errno` is the system's own number."""

    def __init__(self, code: str, message: str, *, errno: int, path: str) -> None:
        MindxError.__init__(self, code, message, details={"errno": errno, "path": path})
        self.errno = errno
        self.filename = path
