"""The Policy: the operator's file as a closed schema. A key that nothing enforces is not in it."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Literal

import pathspec
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from mindx.core.command import WORKSPACE
from mindx.policy.pattern import Pattern, parse_pattern
from mindx.policy.risk import RISK_WORDS, Risk, classify
from mindx.policy.units import format_size, parse_duration, parse_size
from mindx.policy.words import Argv

Decision = Literal["allow", "ask", "deny"]
INODE_BYTES = 1331  # a tmpfs inode takes 1.3 KiB of kernel memory (measured; WALL rule 18)
SHM_INODES = 4096
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LATER_KEYS = {
    "packages": "packages come with a later version; until then a plan uses what is in the image",
    "egress": "egress comes with a later version; until then a container has no network",
    "network": "a container has no network; egress comes with a later version",
}


def _unit(parse: Callable[[str], Any], kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError("write a number and a unit in one word")
        return kind(value)  # from Python: bytes or seconds

    return convert


def _between(low: float, high: float, show: Callable[[Any], str]) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not low <= value <= high:
            raise ValueError(f"{show(value)} is out of range; write {show(low)} to {show(high)}")
        return value

    return check


def _seconds(value: float) -> str:
    return f"{value:g}s"


_BYTES = BeforeValidator(_unit(parse_size, int))
_SIZE_SCHEMA = WithJsonSchema({"type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB|TiB)$", "examples": ["512MiB"]})
_DURATION_SCHEMA = WithJsonSchema(
    {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)$", "examples": ["30s", "5m"]}
)
Memory = Annotated[int, _SIZE_SCHEMA, _BYTES, AfterValidator(_between(64 * MIB, 1024 * GIB, format_size))]
Storage = Annotated[int, _SIZE_SCHEMA, _BYTES, AfterValidator(_between(MIB, 512 * GIB, format_size))]
Output = Annotated[int, _SIZE_SCHEMA, _BYTES, AfterValidator(_between(KIB, 256 * MIB, format_size))]
CopyOut = Annotated[int, _SIZE_SCHEMA, _BYTES, AfterValidator(_between(0, 512 * GIB, format_size))]
Inodes = Annotated[int, Field(ge=64, le=10_000_000)]
Duration = Annotated[
    float,
    _DURATION_SCHEMA,
    BeforeValidator(_unit(parse_duration, float)),
    AfterValidator(_between(0.01, 86_400.0, _seconds)),
]


class _Closed(BaseModel):
    """Frozen, no unknown keys, YAML names as aliases."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)


class Limits(_Closed):
    """What one session may use. From Python, sizes are given in bytes and durations in seconds."""

    memory_bytes: Memory = Field(default=GIB, alias="memory")
    cpus: Annotated[int, Field(ge=1, le=1024)] = 2
    pids: Annotated[int, Field(ge=16, le=32_768)] = 128
    workspace_bytes: Storage = Field(default=256 * MIB, alias="workspace")
    workspace_inodes: Inodes = 65_536
    tmp_bytes: Storage = Field(default=64 * MIB, alias="tmp")
    tmp_inodes: Inodes = 16_384
    shm_bytes: Storage = Field(default=32 * MIB, alias="shm")
    nofile: Annotated[int, Field(ge=64, le=1_048_576)] = 1024
    command_timeout_s: Duration = Field(default=60.0, alias="command_timeout")
    session_timeout_s: Duration = Field(default=3600.0, alias="session_timeout")
    output_bytes: Output = Field(default=MIB, alias="output")
    copy_out_bytes: CopyOut = Field(default=256 * MIB, alias="copy_out")
    commands: Annotated[int, Field(ge=1, le=10_000_000)] = 10_000
    background: Annotated[int, Field(ge=0, le=15)] = 0

    @property
    def shm_inodes(self) -> int:
        """Return the number of inodes of /dev/shm."""
        return SHM_INODES

    @model_validator(mode="after")
    def _fits_in_memory(self) -> Limits:
        # WALL rule 18: files in tmpfs are memory; above half of the limit the OOM killer may choose PID 1.
        inodes = self.workspace_inodes + self.tmp_inodes + SHM_INODES
        used = self.workspace_bytes + self.tmp_bytes + self.shm_bytes + inodes * INODE_BYTES
        if used * 2 > self.memory_bytes:
            needed = math.ceil(used * 2 / MIB)
            raise ValueError(
                f"workspace, tmp and shm with their inodes may take {math.ceil(used / MIB)}MiB, more than half of "
                f"memory ({format_size(self.memory_bytes)}); set memory to {needed}MiB or more, or lower one of them"
            )
        return self


def _glob(text: str) -> str:
    if not text.strip() or "\n" in text or "\0" in text or text.startswith("!"):
        raise ValueError("write one pattern as in .gitignore, without ! and line breaks")
    return text


Glob = Annotated[str, Field(max_length=1024), AfterValidator(_glob)]


@lru_cache(maxsize=64)
def _spec(globs: tuple[str, ...]) -> pathspec.PathSpec[Any]:
    return pathspec.PathSpec.from_lines("gitignore", globs)


# Files that hold keys and passwords by their name. A policy that says nothing of secrets keeps these out.
SECRETS = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "id_rsa",
    "id_ed25519",
    ".netrc",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
    ".aws/",
    ".ssh/",
)


class WorkspaceRules(_Closed):
    """Which files of a folder become the workspace, and which a plan may not change. Patterns are .gitignore's."""

    include: tuple[Glob, ...] = ()
    exclude: tuple[Glob, ...] = ()
    secrets: tuple[Glob, ...] = SECRETS
    protected: tuple[Glob, ...] = ()

    def protects(self, path: str) -> bool:
        """Return True when a plan may not change `path` (absolute, normalised), or a folder above it is protected."""
        return bool(self.protected) and _spec(self.protected).match_file(path.removeprefix(f"{WORKSPACE}/"))

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return gitignore lines to add after the folder's own: the last that matches decides; secrets always win."""
        return (*self.exclude, *(f"!{glob}" for glob in self.include), *self.secrets)


PatternText = Annotated[str, Field(min_length=1, max_length=4096)]


Patterns = Annotated[
    tuple[PatternText, ...],
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class Rule(_Closed):
    """One command rule: exactly one of allow, ask and deny, with one pattern or several.

    `at_most` narrows an allow rule to arguments of that risk. `match` and `not_match` are examples, checked at loading.
    """

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [k]} for k in ("allow", "ask", "deny")]})

    allow: Patterns | None = None
    ask: Patterns | None = None
    deny: Patterns | None = None
    at_most: Literal["read-only", "write", "dangerous"] | None = None
    reason: Annotated[str, Field(max_length=500)] = ""
    match: Annotated[Patterns, Field(max_length=100)] = ()
    not_match: Annotated[Patterns, Field(max_length=100)] = ()

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: Any) -> Any:
        if isinstance(value, dict):
            keys = ("allow", "ask", "deny", "match", "not_match")
            return {k: [v] if k in keys and isinstance(v, str) else v for k, v in value.items()}
        return value

    @model_validator(mode="after")
    def _checked(self) -> Rule:
        given = [name for name in ("allow", "ask", "deny") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("write exactly one of allow, ask and deny, with a pattern or a list of patterns")
        if not self.texts:
            raise ValueError(f"{given[0]} has no pattern")
        if self.at_most is not None and given != ["allow"]:
            raise ValueError(f"at_most narrows what is allowed; it has no meaning with {given[0]}")
        for text in self.texts:
            parse_pattern(text)
        for examples, wanted in ((self.match, True), (self.not_match, False)):
            for example in examples:
                if self.covers(tuple(shlex.split(example))) is not wanted:
                    raise ValueError(f"the example {example[:80]!r} is {'not ' if wanted else ''}covered by this rule")
        return self

    def covers(self, argv: Argv) -> bool:
        """Return True when a pattern of this rule covers an argv, and its risk is not above at_most."""
        if not argv or (self.decision == "allow" and classify(argv) > self.ceiling):
            return False
        return any(pattern.matches(argv, wide=self.decision != "allow") for pattern in self.patterns)

    @property
    def decision(self) -> Decision:
        """Return the verdict of this rule."""
        return "allow" if self.allow is not None else "ask" if self.ask is not None else "deny"

    @property
    def ceiling(self) -> Risk:
        """Return the highest risk that an allow rule covers."""
        return RISK_WORDS[self.at_most or "dangerous"]

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the patterns as written."""
        return self.allow or self.ask or self.deny or ()

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Return the patterns, parsed."""
        return tuple(parse_pattern(text) for text in self.texts)


class Approvals(_Closed):
    """When a person is asked, and what the answer may cover. Deny is the answer when nobody can be asked.

    `ask_from` turns allow into ask for commands of that risk and above; None leaves it to the rules. `remember` is
    `session` when an answer may hold for the same argv for the rest of the session, else `never`.
    """

    ask_from: Literal["write", "dangerous"] | None = None
    remember: Literal["session", "never"] = "session"


def _version(value: Any) -> Any:
    if str(value) != "1":
        raise ValueError("this mindx knows version 1 only; write version: 1")
    return 1


class Policy(_Closed):
    """The operator's policy. Everything has a default but `version`; what is not allowed is denied.

    `runtime` is None for the engine's default. `accept_gaps` names controls that the engine may lack; each that it
    does lack stands in every record of the run.
    """

    version: Annotated[Literal[1], BeforeValidator(_version)] = 1
    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "policy"
    description: Annotated[str, Field(max_length=2000)] = ""
    image: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[a-z0-9][A-Za-z0-9./:@_-]*$")] = "python"
    runtime: Literal["runc", "crun", "runsc", "kata"] | None = None
    accept_gaps: tuple[Literal["seccomp", "swap", "memory", "pids", "cpuset"], ...] = ()
    limits: Limits = Limits()
    workspace: WorkspaceRules = WorkspaceRules()
    commands: Annotated[tuple[Rule, ...], Field(max_length=2000)] = ()
    approvals: Approvals = Approvals()
    autonomous: Literal["never", "flag", "always"] = "flag"

    @property
    def command_layers(self) -> tuple[tuple[str, tuple[Rule, ...]], ...]:
        """Return the rules of each layer with its name; the policy's own come first, with the name ""."""
        return (("", self.commands),)

    @property
    def sha256(self) -> str:
        """Return the digest of the policy in force: of every value, also of those that were not written."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def grants_autonomous(self, requested: bool) -> bool:
        """Return whether file removal is granted when the operator did, or did not, pass --autonomous."""
        return self.autonomous == "always" or (self.autonomous == "flag" and requested)


class CommandLayer(_Closed):
    """The command rules of a layer that only tightens."""

    name: str
    rules: tuple[Rule, ...]


class MergedPolicy(Policy):
    """Several layers in one: made by layers.merge, never read from a file."""

    tightened_by: tuple[CommandLayer, ...] = ()

    @property
    def command_layers(self) -> tuple[tuple[str, tuple[Rule, ...]], ...]:
        """Return the rules of each layer with its name; the base comes first."""
        return (("", self.commands), *((layer.name, layer.rules) for layer in self.tightened_by))
