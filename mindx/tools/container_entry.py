"""What is known of a generated tool: its specification, and its entry in the registry of official tools."""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator
from typing_extensions import Self

from mindx.core.quote import quoted
from mindx.core.validation import faults
from mindx.errors import InputError

MAX_ENTRY_CHARS = 256 * 1024  # of an entry, as JSON
MAX_SCHEMA_CHARS = 32 * 1024
MAX_SCHEMA_DEPTH = 16
MAX_CAPABILITIES = 16
MAX_EXAMPLES = 16
# A model writes these schemas, and the host follows them. Left out: `$ref` and its kin, which can make the work grow
# without end, and `pattern`, whose search can take longer than anyone waits.
SCHEMA_WORDS = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "prefixItems", "enum", "const"),
        *("anyOf", "oneOf", "allOf", "not", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("title", "description", "default", "examples", "format"),
    )
)
RESERVED_ARGUMENTS = frozenset({"command", "tool_id"})  # a step of a plan says by these which tool and which capability
TOOL_ID = r"^[a-z][a-z0-9_]{0,63}$"
VERSION = r"^[0-9][0-9A-Za-z]*([.+-][0-9A-Za-z]+){0,8}$"


class ToolStatus(str, Enum):
    """How far a tool is. Only ACTIVE and EXPERIMENTAL ones are given to agents."""

    ACTIVE = "active"
    EXPERIMENTAL = "experimental"
    DEPRECATED = "deprecated"
    UNDER_DEVELOPMENT = "under_development"
    ARCHIVED = "archived"
    FAILED_DEVELOPMENT = "failed_development"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolExample(_Record):
    """One call that must succeed; with `result` given, with exactly that result."""

    arguments: dict[str, JsonValue] = {}
    result: JsonValue = None

    @property
    def says_result(self) -> bool:
        """True when `result` was given, be it null."""
        return "result" in self.model_fields_set

    def holds(self, answer: object) -> bool:
        """Return whether an answer is what the example says; true is not 1, and 1 is not 1.0."""
        return not self.says_result or json.dumps(answer, sort_keys=True) == json.dumps(self.result, sort_keys=True)


class Capability(_Record):
    """One thing that a tool can do: a function of its code, that takes one dict and returns a JSON value."""

    name: str = Field(pattern=TOOL_ID)
    description: str = Field(default="", max_length=2000)
    input_schema: dict[str, JsonValue] = {"type": "object"}
    output_schema: dict[str, JsonValue] = {}
    examples: tuple[ToolExample, ...] = Field(default=(), max_length=MAX_EXAMPLES)

    @field_validator("name")
    @classmethod
    def _no_keyword(cls, name: str) -> str:
        if keyword.iskeyword(name):
            raise ValueError("it is a word of Python; no function can be called so")
        return name

    @field_validator("input_schema", "output_schema")
    @classmethod
    def _plain(cls, schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if len(json.dumps(schema)) > MAX_SCHEMA_CHARS:
            raise ValueError(f"the schema has more than {MAX_SCHEMA_CHARS:,} characters")
        _check_words(schema, 0)
        return schema

    @field_validator("input_schema")
    @classmethod
    def _of_an_object(cls, schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if schema.get("type", "object") != "object":
            raise ValueError("the arguments are an object")
        properties = schema.get("properties", {})
        taken = RESERVED_ARGUMENTS & set(properties if isinstance(properties, dict) else ())
        if taken:
            raise ValueError(f"an argument cannot be called {quoted(min(taken))}")
        return schema


class AccessControl(_Record):
    """Who may use a tool: ids of agents, or `*` for all."""

    allowed_agents: tuple[str, ...] = Field(default=("*",), max_length=1000)

    def allows(self, agent_id: str) -> bool:
        """Return whether an agent may use it."""
        return "*" in self.allowed_agents or agent_id in self.allowed_agents


class ToolSpec(_Record):
    """What a new tool is to be: written by a model, checked here, before anyone writes code for it."""

    id: str = Field(pattern=TOOL_ID)
    display_name: str = Field(default="", max_length=200)
    description: str = Field(min_length=1, max_length=4000)
    capabilities: tuple[Capability, ...] = Field(min_length=1, max_length=MAX_CAPABILITIES)
    version: str = Field(default="0.1.0-alpha", pattern=VERSION, max_length=64)
    initialization_params: dict[str, JsonValue] = {}
    dependencies: tuple[str, ...] = Field(default=(), max_length=64)
    needs_identity: bool = False
    identity_details: dict[str, JsonValue] | None = None
    prompt_template_for_llm_interaction: str = Field(default="", max_length=8000)
    category: str = Field(default="", max_length=100)
    priority: int = Field(default=50, ge=0, le=100)
    access_control: AccessControl = AccessControl()
    metadata: dict[str, JsonValue] = {}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        names = [capability.name for capability in self.capabilities]
        if len(set(names)) < len(names):
            raise ValueError("two capabilities have one name")
        if len(self.model_dump_json()) > MAX_ENTRY_CHARS:
            raise ValueError(f"it has more than {MAX_ENTRY_CHARS:,} characters in all")
        return self

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """Return the specification in plain values. Raises InputError (tool_spec_invalid) with every fault."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise InputError("tool_spec_invalid", f"the tool's specification is not usable: {faults(error)}") from None

    def capability(self, name: str) -> Capability | None:
        """Return a capability by its name, or None."""
        return next((item for item in self.capabilities if item.name == name), None)


class ToolEntry(ToolSpec):
    """A tool as the registry has it. `module_path` and `class_name` are data: nothing is ever imported by them.

    `sha256` is of the code, which lies at `module_path` below the registry's folder and runs in a container only.
    `class_name` is "": the capabilities are plain functions.
    """

    module_path: str = Field(min_length=1, max_length=300)
    class_name: str = Field(default="", max_length=100)
    runs_in: Literal["container"] = "container"
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    status: ToolStatus = ToolStatus.EXPERIMENTAL
    enabled: bool = True
    added_by: str = Field(default="", max_length=200)
    added_at: str = Field(default="", max_length=40)
    updated_at: str = Field(default="", max_length=40)
    performance_summary: dict[str, JsonValue] = {}
    last_assessment: str = Field(default="", max_length=4000)
    deprecation_reason: str = Field(default="", max_length=2000)

    @model_validator(mode="after")
    def _own_place(self) -> Self:
        if self.module_path != place_of(self.id, self.version):
            raise ValueError(f"module_path must be {place_of(self.id, self.version)}")
        return self

    @property
    def usable(self) -> bool:
        """True when agents get it: enabled, and active or experimental."""
        return self.enabled and self.status in (ToolStatus.ACTIVE, ToolStatus.EXPERIMENTAL)


def place_of(tool_id: str, version: str) -> str:
    """Return where a tool's code lies, relative to the registry's folder."""
    return f"tools/{tool_id}/{version}/tool.py"


def _check_words(schema: object, depth: int) -> None:
    """Go through a schema. Raises ValueError for a word that is not taken, or too many levels."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise ValueError("a schema is an object, true or false")
    if depth > MAX_SCHEMA_DEPTH:
        raise ValueError(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")
    for word, value in schema.items():
        if word not in SCHEMA_WORDS:
            raise ValueError(f"{quoted(word)} is not taken in the schema of a generated tool")
        if word == "properties" and isinstance(value, dict):
            for inner in value.values():
                _check_words(inner, depth + 1)
        elif word in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            for inner in value:
                _check_words(inner, depth + 1)
        elif word in ("items", "not", "additionalProperties"):
            _check_words(value, depth + 1)
