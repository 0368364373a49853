"""The registry of official tools: one file that the Mastermind alone writes, and the code that its entries name."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from mindx.agents.constitution import Act, Constitution, Layer
from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.core.strict_json import read_json
from mindx.core.validation import faults
from mindx.errors import InputError, StateError
from mindx.policy.engine import PolicyEngine
from mindx.runtime.tasks.atomic import locked, read_file, replace_file
from mindx.tools.container_entry import ToolEntry, ToolSpec, ToolStatus, place_of
from mindx.tools.container_runner import MAX_SOURCE_BYTES
from mindx.tools.container_tool import ContainerTool, definition_of, read_source
from mindx.tools.schema import compile_check
from mindx.trace.recorder import utc_now

FILE, PREVIOUS, LOCK = "official_tools_registry.json", "official_tools_registry.previous.json", ".official_tools.lock"
MAX_BYTES = 16 * 1024 * 1024
MAX_TOOLS = 1000
LOCK_WAIT_S = 2.0  # a writer holds the lock for milliseconds
_LOG = logging.getLogger("official_tools")
# Names that tools of mindx itself have: a generated one could pass for them.
RESERVED_IDS = frozenset(
    (
        *("simple_coder", "file_search", "file_read", "file_edit", "exec_command", "time_now", "calculator", "skill"),
        *("context_query", "memory", "memory_read", "memory_search", "image_understanding", "agent_delegate"),
    )
)


class RegistryDocument(BaseModel):
    """The file as it is written. `revision` grows by one with each write."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools_schema_version: Literal["1.2"] = "1.2"
    revision: int = Field(default=0, ge=0)
    last_updated_by: str = Field(default="", max_length=200)
    last_updated_at: str = Field(default="", max_length=40)
    registered_tools: dict[str, ToolEntry] = Field(default={}, max_length=MAX_TOOLS)

    @model_validator(mode="after")
    def _named_as_they_are(self) -> Self:
        for name, entry in self.registered_tools.items():
            if name != entry.id:
                raise ValueError(f"the entry {quoted(name)} calls itself {quoted(entry.id)}")
        return self


class OfficialToolsRegistry:
    """The registry in `folder` (the state folder of one mind). Readers see a whole file, old or new.

    `layer` is who holds this handle: every write asks the Constitution, which allows it to the Mastermind alone.
    `by_person` says that a person is at it, who has thereby said yes to what waits for one. A write holds a lock
    against other processes, and keeps the file before it beside it.
    `now` gives UTC text. Raises StateError: registry_damaged for a file that cannot be understood (it is then left
    alone), state_unreadable, state_unwritable.
    """

    def __init__(
        self,
        folder: Path,
        *,
        constitution: Constitution,
        layer: Layer,
        by_person: bool = False,
        now: Callable[[], str] = utc_now,
    ) -> None:
        self.folder = folder
        self.path = folder / FILE
        self._constitution = constitution
        self._layer = layer
        self._by_person = by_person
        self._now = now
        self._seen: tuple[bytes, RegistryDocument] | None = None

    def read(self) -> RegistryDocument:
        """Return what is registered now; without a file, nothing is."""
        data = read_file(self.path, MAX_BYTES)
        if data is None:
            return RegistryDocument()
        if self._seen is None or self._seen[0] != data:
            self._seen = (data, self._parsed(data))
        return self._seen[1]

    @property
    def revision(self) -> int:
        """The number of the last write, 0 for none."""
        return self.read().revision

    def entries(self) -> tuple[ToolEntry, ...]:
        """Return all entries, by id."""
        known = self.read().registered_tools
        return tuple(known[tool_id] for tool_id in sorted(known))

    def entry(self, tool_id: str) -> ToolEntry:
        """Return the entry of a tool. Raises InputError (tool_unknown)."""
        known = self.read().registered_tools
        entry = known.get(tool_id)
        if entry is None:
            hint = did_you_mean(tool_id, known) or "`mindx tools list` shows them"
            raise InputError("tool_unknown", f"no tool {quoted(tool_id)} is registered; {hint}")
        return entry

    def source(self, tool_id: str) -> bytes:
        """Return the code of a tool. Raises InputError (tool_unknown), ToolError (tool_altered, tool_missing)."""
        return read_source(self.entry(tool_id), self.folder)

    def tools(self, agent_id: str = "", *, engine: PolicyEngine | None = None) -> tuple[ContainerTool, ...]:
        """Return the usable tools that an agent is allowed, the one of the highest priority first."""
        found = [entry for entry in self.read().registered_tools.values() if entry.usable]
        allowed = [entry for entry in found if entry.access_control.allows(agent_id)]
        ordered = sorted(allowed, key=lambda entry: (-entry.priority, entry.id))
        return tuple(ContainerTool(entry, self.folder, agent_id=agent_id, engine=engine) for entry in ordered)

    def register(
        self,
        spec: ToolSpec,
        source: bytes,
        *,
        added_by: str,
        status: ToolStatus = ToolStatus.EXPERIMENTAL,
        last_assessment: str = "",
    ) -> ToolEntry:
        """Keep the code and enter the tool; a newer version takes the place of the one before. Return the entry.

        Raises ConstitutionError, InputError (tool_reserved, tool_too_large, tool_version_exists, registry_busy,
        registry_full), ToolValidationError, StateError.
        """
        self._check_code(spec, source)
        with self._writing(spec.id) as document:
            known = document.registered_tools.get(spec.id)
            sha256, place = hashlib.sha256(source).hexdigest(), place_of(spec.id, spec.version)
            if known is not None and known.version == spec.version and known.sha256 != sha256:
                message = f"{spec.id} {spec.version} is registered with other code; give the new one a new version"
                raise InputError("tool_version_exists", message)
            if known is None and len(document.registered_tools) >= MAX_TOOLS:
                raise InputError("registry_full", f"{MAX_TOOLS:,} tools are registered; none more is taken")
            replace_file(self.folder / place, source)
            made = {
                **spec.model_dump(),
                "module_path": place,
                "sha256": sha256,
                "status": status,
                "added_by": added_by if known is None else known.added_by,
                "added_at": self._now() if known is None else known.added_at,
                "updated_at": self._now(),
                "last_assessment": last_assessment,
            }
            entry = _entry(made)
            self._write(document, entry, added_by)
        _LOG.info("Registered tool '%s' %s as %s", entry.id, entry.version, entry.status.value)
        return entry

    def mark(
        self,
        tool_id: str,
        *,
        by: str,
        status: ToolStatus | None = None,
        enabled: bool | None = None,
        deprecation_reason: str | None = None,
        last_assessment: str | None = None,
    ) -> ToolEntry:
        """Change what an entry says of its tool; None leaves a field as it is. Raises as `register` does."""
        given = {
            "status": status,
            "enabled": enabled,
            "deprecation_reason": deprecation_reason,
            "last_assessment": last_assessment,
        }
        with self._writing(tool_id) as document:
            changed = {name: value for name, value in given.items() if value is not None}
            entry = _entry({**self.entry(tool_id).model_dump(), **changed, "updated_at": self._now()})
            self._write(document, entry, by)
        return entry

    def deprecate(self, tool_id: str, reason: str, *, by: str = "mastermind") -> ToolEntry:
        """Take a tool out of use; its entry and code stay. Raises as `register` does."""
        entry = self.mark(tool_id, by=by, status=ToolStatus.DEPRECATED, deprecation_reason=reason)
        _LOG.info("Deprecated tool '%s'", tool_id)
        return entry

    def _check_code(self, spec: ToolSpec, source: bytes) -> None:
        """Refuse what could never be called."""
        if spec.id in RESERVED_IDS:
            raise InputError("tool_reserved", f"{spec.id} is the name of a tool of mindx itself; take another")
        if not source.strip() or len(source) > MAX_SOURCE_BYTES:
            raise InputError("tool_too_large", f"a tool's code has 1 to {MAX_SOURCE_BYTES:,} bytes")
        try:
            source.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError("tool_code_invalid", f"the code of {spec.id} is no UTF-8 text") from None
        compile_check(definition_of(spec))
        for capability in spec.capabilities:
            for schema in (capability.input_schema, capability.output_schema):
                compile_check(definition_of(spec), schema)

    @contextmanager
    def _writing(self, tool_id: str) -> Iterator[RegistryDocument]:
        """Hold the registry and give what it says now."""
        self._constitution.require(self._layer, Act.WRITE_REGISTRY, tool_id, approved=self._by_person)
        busy = InputError("registry_busy", "another process writes the registry of tools; try again when it is done")
        with locked(self.folder / LOCK, busy, LOCK_WAIT_S):
            yield self.read()

    def _write(self, document: RegistryDocument, entry: ToolEntry, by: str) -> None:
        made = RegistryDocument(
            revision=document.revision + 1,
            last_updated_by=by,
            last_updated_at=self._now(),
            registered_tools={**document.registered_tools, entry.id: entry},
        )
        data = json.dumps(made.model_dump(mode="json"), indent=1).encode()
        if len(data) > MAX_BYTES:
            raise InputError("registry_full", f"the registry would have more than {MAX_BYTES:,} bytes")
        before = read_file(self.path, MAX_BYTES)
        if before is not None:
            replace_file(self.folder / PREVIOUS, before)
        replace_file(self.path, data)

    def _parsed(self, data: bytes) -> RegistryDocument:
        found = read_json(data)
        if found.problem:
            raise self._damaged(found.problem)
        try:
            return RegistryDocument.model_validate_json(json.dumps(found.value))
        except ValidationError as error:
            raise self._damaged(faults(error, 3)) from None

    def _damaged(self, reason: str) -> StateError:
        message = (
            f"{self.path} cannot be understood: {reason}; the file before its last change is {PREVIOUS}: put it in "
            "its place, or move the damaged one away"
        )
        return StateError("registry_damaged", message, details={"path": str(self.path)})


def _entry(made: Mapping[str, Any]) -> ToolEntry:
    try:
        return ToolEntry.model_validate(made)
    except ValidationError as error:
        raise InputError("tool_spec_invalid", f"the entry is not usable: {faults(error)}") from None
