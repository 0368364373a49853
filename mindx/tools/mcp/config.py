"""Which MCP servers there are, where they run, and what their tools may do: the operator's file, and nobody else's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from mindx.core.action import ActionRisk
from mindx.core.endpoint import endpoint_url
from mindx.core.strict_json import read_json
from mindx.core.validation import faults
from mindx.errors import InputError

MAX_CONFIG_BYTES = 1024 * 1024
MAX_TIMEOUT_S = 600.0
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


@dataclass(frozen=True, slots=True)
class MCPServerConfig:
    """One server. `command` is its argv; `env` is added to the little that it gets by itself.

    Or it is at `url`, spoken to over streamable HTTP with `headers`: from the host only, so `run_on` must say `host`.

    `run_on` is `sandbox` (a container of its own, without network) or `host`, which the operator must write out.
    `folder` is copied into the sandbox's workspace, or is the working directory on the host. `image` None takes the
    policy's. `tools` None offers all tools of the server. `risks` says what a tool may do: one that is not named is
    DANGEROUS, whatever the server says of itself. `approval` names tools that need a person's yes each time.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    run_on: Literal["sandbox", "host"] = "sandbox"
    folder: Path | None = None
    image: str | None = None
    tools: frozenset[str] | None = None
    risks: Mapping[str, ActionRisk] = field(default_factory=dict)
    approval: frozenset[str] = frozenset()
    timeout_s: float = 60.0
    start_timeout_s: float = 30.0
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # a key may be among them

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                "mcp_config_invalid", f"{self.name!a:.60} is no name for a server: up to 32 of A-Z a-z 0-9 _ -"
            )
        problem = self._no_command() if self.url is None else self._no_address(self.url)
        if problem:
            raise InputError("mcp_config_invalid", f"the server {self.name} {problem}")

    def _no_command(self) -> str:
        if not self.command or not all(isinstance(word, str) and "\0" not in word for word in self.command):
            return "has no command (or `url`)"
        return "has headers, which only a `url` takes" if self.headers else ""

    def _no_address(self, url: str) -> str:
        if self.command or self.env or self.folder is not None or self.image is not None:
            return "has a url: it takes no command, args, env, folder or image"
        if self.run_on != "host":
            return 'has a url, and a sandbox has no network: write "run_on": "host" to have the host speak to it'
        try:
            endpoint_url(url, "the url")
        except ValueError as error:
            return f"cannot be used: {error}"
        sound = all(
            _HEADER.fullmatch(name) and value.isprintable() and value.isascii() for name, value in self.headers.items()
        )
        return "" if sound else "has headers that HTTP does not carry"


class _Server(BaseModel):
    """One entry of `mcpServers`, as the clients of the field write it, and mindx's own keys beside."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    type: Literal["stdio", "http", "streamable-http"] | None = None  # other clients want it; url or command tells
    command: str | None = Field(None, min_length=1)
    url: str | None = None
    headers: dict[str, str] = Field({}, repr=False)
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    run_on: Literal["sandbox", "host"] = "sandbox"
    folder: str | None = None
    image: str | None = None
    tools: tuple[str, ...] | None = None
    risks: dict[str, ActionRisk] = {}
    approval: tuple[str, ...] = ()
    timeout_s: float = Field(60.0, gt=0, le=MAX_TIMEOUT_S)
    start_timeout_s: float = Field(30.0, gt=0, le=MAX_TIMEOUT_S)

    @field_validator("risks", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: str(word).replace("-", "_") for name, word in value.items()}
        return value


def load_mcp_servers(path: Path | str) -> tuple[MCPServerConfig, ...]:
    """Return the servers of a JSON file: `{"mcpServers": {"NAME": {"command": "...", "args": [...]}}}`.

    A relative `folder` is relative to the file. Raises InputError (mcp_config_invalid) with every fault.
    """
    place = Path(path)
    try:
        data = place.read_bytes()
    except OSError as error:
        raise InputError("mcp_config_invalid", f"{place} cannot be read: {error.strerror}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise InputError("mcp_config_invalid", f"{place} has more than {MAX_CONFIG_BYTES:,} bytes")
    document = read_json(data)
    problems = [str(fault.message) for fault in document.faults]
    problems += [f"{twice.parent} has the key {twice.key} twice" for twice in document.duplicates]
    value = document.value
    if not problems and (not isinstance(value, dict) or set(value) != {"mcpServers"}):
        problems.append('it is not of the form {"mcpServers": {...}}')
    if problems or not isinstance(value["mcpServers"], dict):
        raise InputError("mcp_config_invalid", f"{place}: {'; '.join(problems) or 'mcpServers is no object'}")
    return tuple(_server(name, entry, place) for name, entry in value["mcpServers"].items())


def _server(name: str, entry: Any, place: Path) -> MCPServerConfig:
    try:
        made = _Server.model_validate(entry)
    except ValidationError as error:
        raise InputError("mcp_config_invalid", f"{place}: the server {name}: {faults(error)}") from None
    return MCPServerConfig(
        name,
        (*(() if made.command is None else (made.command,)), *made.args),
        made.env,
        made.run_on,
        None if made.folder is None else place.parent / made.folder,
        made.image,
        None if made.tools is None else frozenset(made.tools),
        made.risks,
        frozenset(made.approval),
        made.timeout_s,
        made.start_timeout_s,
        made.url,
        made.headers,
    )
