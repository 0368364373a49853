"""The Policy: the operator's file as a closed schema. A key that nothing enforces is not in it."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from mindx.core.command import WORKSPACE
from mindx.core.frozen import dataclass
from mindx.core.table import Kind, Schema, Table, choice, key, several, table, text, whole
from mindx.policy.globs import gitignore
from mindx.policy.pattern import Pattern, parse_pattern
from mindx.policy.risk import RISK_WORDS, Risk, classify
from mindx.policy.units import format_duration, format_size, parse_duration, parse_size
from mindx.policy.words import Argv

if TYPE_CHECKING:
    import pathspec

Decision = Literal["allow", "ask", "deny"]
INODE_BYTES = 1331  # a tmpfs inode takes 1.3 KiB of kernel memory (measured; WALL rule 18)
SHM_INODES = 4096
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LATER_KEYS = {
    "packages": "packages come with a later version; until then a plan uses what is in the image",
    "egress": "egress comes with a later version; until then a container has no network",
    "network": "a container has no network; egress comes with a later version",
}


def _size(low: int, high: int) -> Kind:
    return Kind(
        _measure(parse_size, int, low, high, format_size),
        {"type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB|TiB)$", "examples": ["512MiB"]},
    )


def _duration(low: float, high: float) -> Kind:
    return Kind(
        _measure(parse_duration, float, low, high, lambda value: f"{value:g}s"),
        {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)$", "examples": ["30s", "5m"]},
    )


def _measure(
    parse: Callable[[str], Any], kind: type, low: float, high: float, show: Callable[[Any], str]
) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, str):
            value = parse(value)
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError("write a number and a unit in one word")
        if not low <= value <= high:
            raise ValueError(f"{show(value)} is out of range; write {show(low)} to {show(high)}")
        return kind(value)  # from Python: bytes or seconds

    return read


def _storage(low: int = MIB, high: int = 512 * GIB) -> Kind:
    return _size(low, high)


_INODES = whole(64, 10_000_000)


def _bytes(kind: Kind, default: int, alias: str) -> Any:
    return key(kind, default, alias=alias, schema_default=format_size(default))


def _seconds(default: float, alias: str) -> Any:
    return key(_duration(0.01, 86_400.0), default, alias=alias, schema_default=format_duration(default))


@dataclass(frozen=True, kw_only=True)
class Limits(Table):
    """What one session may use. From Python, sizes are given in bytes and durations in seconds."""

    memory_bytes: int = _bytes(_size(64 * MIB, 1024 * GIB), GIB, "memory")
    cpus: int = key(whole(1, 1024), 2)
    pids: int = key(whole(16, 32_768), 128)
    workspace_bytes: int = _bytes(_storage(), 256 * MIB, "workspace")
    workspace_inodes: int = key(_INODES, 65_536)
    tmp_bytes: int = _bytes(_storage(), 64 * MIB, "tmp")
    tmp_inodes: int = key(_INODES, 16_384)
    shm_bytes: int = _bytes(_storage(), 32 * MIB, "shm")
    nofile: int = key(whole(64, 1_048_576), 1024)
    command_timeout_s: float = _seconds(60.0, "command_timeout")
    session_timeout_s: float = _seconds(3600.0, "session_timeout")
    output_bytes: int = _bytes(_size(KIB, 256 * MIB), MIB, "output")
    run_output_bytes: int = _bytes(_storage(), GIB, "run_output")
    copy_out_bytes: int = _bytes(_storage(0), 256 * MIB, "copy_out")
    commands: int = key(whole(1, 10_000_000), 10_000)
    background: int = key(whole(0, 15), 0)

    @property
    def shm_inodes(self) -> int:
        """Return the number of inodes of /dev/shm."""
        return SHM_INODES

    def check(self) -> None:
        """Raise ValueError unless the files' limits fit into memory."""
        # WALL rule 18: files in tmpfs are memory; above half of the limit the OOM killer may choose PID 1.
        inodes = self.workspace_inodes + self.tmp_inodes + SHM_INODES
        used = self.workspace_bytes + self.tmp_bytes + self.shm_bytes + inodes * INODE_BYTES
        if used * 2 > self.memory_bytes:
            needed = math.ceil(used * 2 / MIB)
            raise ValueError(
                f"workspace, tmp and shm with their inodes may take {math.ceil(used / MIB)}MiB, more than half of "
                f"memory ({format_size(self.memory_bytes)}); set memory to {needed}MiB or more, or lower one of them"
            )


def one_glob(written: str) -> str:
    """Return one pattern as in .gitignore. Raises ValueError for what is none."""
    if not written.strip() or "\n" in written or "\0" in written or written.startswith("!"):
        raise ValueError("write one pattern as in .gitignore, without ! and line breaks")
    return written


GLOBS = several(text(high=1024, check=one_glob))


@lru_cache(maxsize=64)
def _spec(globs: tuple[str, ...]) -> pathspec.PathSpec[Any]:
    return gitignore(globs)


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


@dataclass(frozen=True, kw_only=True)
class WorkspaceRules(Table):
    """Which files of a folder become the workspace, and which a plan may not change. Patterns are .gitignore's."""

    include: tuple[str, ...] = key(GLOBS, ())
    exclude: tuple[str, ...] = key(GLOBS, ())
    secrets: tuple[str, ...] = key(GLOBS, SECRETS)
    protected: tuple[str, ...] = key(GLOBS, ())

    def protects(self, path: str) -> bool:
        """Return True when a plan may not change `path` (absolute, normalised), or a folder above it is protected."""
        return bool(self.protected) and _spec(self.protected).match_file(path.removeprefix(f"{WORKSPACE}/"))

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return gitignore lines to add after the folder's own: the last that matches decides; secrets always win."""
        return (*self.exclude, *(f"!{glob}" for glob in self.include), *self.secrets)


def _patterns(*, none: bool = True, high: int | None = None) -> Kind:
    return several(text(1, 4096), none=none, high=high, alone=True)


@dataclass(frozen=True, kw_only=True)
class Rule(Table):
    """One command rule: exactly one of allow, ask and deny, with one pattern or several.

    `at_most` narrows an allow rule to arguments of that risk. `match` and `not_match` are examples, checked at loading.
    """

    allow: tuple[str, ...] | None = key(_patterns(), None)
    ask: tuple[str, ...] | None = key(_patterns(), None)
    deny: tuple[str, ...] | None = key(_patterns(), None)
    at_most: Literal["read-only", "write", "dangerous"] | None = key(
        choice("read-only", "write", "dangerous", none=True), None
    )
    reason: str = key(text(high=500), "")
    match: tuple[str, ...] = key(_patterns(none=False, high=100), ())
    not_match: tuple[str, ...] = key(_patterns(none=False, high=100), ())

    def check(self) -> None:
        """Raise ValueError unless it is one rule whose patterns are understood and whose examples hold."""
        given = [name for name in ("allow", "ask", "deny") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("write exactly one of allow, ask and deny, with a pattern or a list of patterns")
        if not self.texts:
            raise ValueError(f"{given[0]} has no pattern")
        if self.at_most is not None and given != ["allow"]:
            raise ValueError(f"at_most narrows what is allowed; it has no meaning with {given[0]}")
        for pattern in self.texts:
            parse_pattern(pattern)
        for examples, wanted in ((self.match, True), (self.not_match, False)):
            for example in examples:
                if self.covers(tuple(shlex.split(example))) is not wanted:
                    raise ValueError(f"the example {example[:80]!r} is {'not ' if wanted else ''}covered by this rule")

    @classmethod
    def schema(cls) -> Schema:
        """Return the JSON Schema of a rule: exactly one of the three decisions."""
        return {**super().schema(), "oneOf": [{"required": [name]} for name in ("allow", "ask", "deny")]}

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
        return tuple(parse_pattern(pattern) for pattern in self.texts)


@dataclass(frozen=True, kw_only=True)
class Approvals(Table):
    """When a person is asked, and what the answer may cover. Deny is the answer when nobody can be asked.

    `ask_from` turns allow into ask for commands of that risk and above; None leaves it to the rules. `remember` is
    `session` when an answer may hold for the same argv for the rest of the session, else `never`.
    """

    ask_from: Literal["write", "dangerous"] | None = key(choice("write", "dangerous", none=True), None)
    remember: Literal["session", "never"] = key(choice("session", "never"), "session")


def _version(value: Any) -> Any:
    if str(value) != "1":
        raise ValueError("this mindx knows version 1 only; write version: 1")
    return 1


@dataclass(frozen=True, kw_only=True)
class Policy(Table):
    """The operator's policy. Everything has a default but `version`; what is not allowed is denied.

    `runtime` is None for the engine's default. `accept_gaps` names controls that the engine may lack; each that it
    does lack stands in every record of the run.
    """

    version: Literal[1] = key(Kind(_version, {"const": 1}), 1)
    name: str = key(text(1, 64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), "policy")
    description: str = key(text(high=2000), "")
    image: str = key(text(1, 255, pattern=r"^[a-z0-9][A-Za-z0-9./:@_-]*$"), "python")
    runtime: Literal["runc", "crun", "runsc", "kata"] | None = key(
        choice("runc", "crun", "runsc", "kata", none=True), None
    )
    accept_gaps: tuple[str, ...] = key(several(choice("seccomp", "swap", "memory", "pids", "cpuset")), ())
    limits: Limits = key(table(Limits), Limits())
    workspace: WorkspaceRules = key(table(WorkspaceRules), WorkspaceRules())
    commands: tuple[Rule, ...] = key(several(table(Rule), high=2000), ())
    approvals: Approvals = key(table(Approvals), Approvals())
    autonomous: Literal["never", "flag", "always"] = key(choice("never", "flag", "always"), "flag")

    @property
    def command_layers(self) -> tuple[tuple[str, tuple[Rule, ...]], ...]:
        """Return the rules of each layer with its name; the policy's own come first, with the name ""."""
        return (("", self.commands),)

    @property
    def sha256(self) -> str:
        """Return the digest of the policy in force: of every value, also of those that were not written."""
        values = json.dumps(self.plain(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(values.encode()).hexdigest()

    def grants_autonomous(self, requested: bool) -> bool:
        """Return whether file removal is granted when the operator did, or did not, pass --autonomous."""
        return self.autonomous == "always" or (self.autonomous == "flag" and requested)


@dataclass(frozen=True, kw_only=True)
class CommandLayer(Table):
    """The command rules of a layer that only tightens."""

    name: str = key(text())
    rules: tuple[Rule, ...] = key(several(table(Rule)))


@dataclass(frozen=True, kw_only=True)
class MergedPolicy(Policy):
    """Several layers in one: made by layers.merge, never read from a file."""

    tightened_by: tuple[CommandLayer, ...] = key(several(table(CommandLayer)), ())

    @property
    def command_layers(self) -> tuple[tuple[str, tuple[Rule, ...]], ...]:
        """Return the rules of each layer with its name; the base comes first."""
        return (("", self.commands), *((layer.name, layer.rules) for layer in self.tightened_by))
