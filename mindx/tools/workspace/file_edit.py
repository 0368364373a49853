"""file_edit: make a file, write it anew, or replace one piece of text that is there exactly once."""

from __future__ import annotations

import errno
import hashlib
import posixpath
from collections.abc import Mapping
from typing import Any

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import WORKSPACE, MakeDir, ReadFile, Stat, WriteFile
from mindx.core.quote import quoted
from mindx.errors import FileError
from mindx.sandbox.base import Sandbox
from mindx.tools.base import ToolDefinition, ToolError
from mindx.tools.command_risk import command_traits
from mindx.tools.context import ToolContext
from mindx.tools.workspace.paths import container_path, shown_path
from mindx.tools.workspace.tool import WorkspaceTool

MAX_FILE_BYTES = 1_000_000
_NEEDED = {"create": ("content",), "overwrite": ("content",), "replace": ("old_text", "new_text")}


class FileEditTool(WorkspaceTool):
    """Edits files of at most MAX_FILE_BYTES bytes; folders on the way are made."""

    definition = ToolDefinition(
        name="file_edit",
        description="Change a text file of the workspace. create: a new file with `content` (fails if it exists); "
        "overwrite: `content` takes the place of all that is there; replace: `old_text`, which must be there exactly "
        "once, becomes `new_text`.",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "relative to the workspace"},
                "mode": {"type": "string", "enum": list(_NEEDED)},
                "content": {"type": "string", "description": "for create and overwrite"},
                "old_text": {"type": "string", "minLength": 1, "description": "for replace"},
                "new_text": {"type": "string", "description": "for replace"},
                "expected_sha256": {
                    "type": "string",
                    "pattern": "^[0-9a-f]{64}$",
                    "description": "change the file only if it still is what file_read showed",
                },
            },
            "required": ["path", "mode"],
            "additionalProperties": False,
        },
        risk=ActionRisk.WRITE,
    )

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return WRITE, that the policy protects the file, or what is missing."""
        path = container_path(arguments["path"])
        problem = _problem(arguments, path)
        if problem:
            return ActionTraits(problem=problem)
        return command_traits([WriteFile(path, b"")], self.engine(context), f"file:{path}")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return path, mode, size, sha256 and, for a file that was there, previous_sha256."""
        path = container_path(arguments["path"])
        problem = _problem(arguments, path)
        if problem:
            raise ToolError(problem)
        sandbox = await self.opened(context)
        mode = arguments["mode"]
        old = await _present(sandbox, path, mode)
        expected = arguments.get("expected_sha256")
        if expected is not None and (old is None or _sha256(old) != expected):
            raise ToolError(f"{quoted(arguments['path'])} is not what it was when it was read; read it again")
        new = _replaced(old or b"", arguments) if mode == "replace" else arguments["content"].encode("utf-8")
        if len(new) > MAX_FILE_BYTES:
            raise ToolError(f"the file would have {len(new):,} bytes; at most {MAX_FILE_BYTES:,} are written")
        parent = posixpath.dirname(path)
        if old is None and parent != WORKSPACE:
            await sandbox.make_dir(MakeDir(parent))
        await sandbox.write_file(WriteFile(path, new))
        result = {"path": shown_path(path), "mode": mode, "size": len(new), "sha256": _sha256(new)}
        return result if old is None else {**result, "previous_sha256": _sha256(old)}


def _problem(arguments: Mapping[str, Any], path: str) -> str:
    mode = arguments["mode"]
    if path == WORKSPACE:
        return "`path` names the workspace itself; name a file in it"
    missing = [name for name in _NEEDED[mode] if name not in arguments]
    if missing:
        return f"{mode} needs {' and '.join(f'`{name}`' for name in missing)}"
    extra = [name for name in ("content", "old_text", "new_text") if name in arguments and name not in _NEEDED[mode]]
    if extra:
        return f"{mode} takes no {' and '.join(f'`{name}`' for name in extra)}"
    for name in _NEEDED[mode]:
        try:
            arguments[name].encode("utf-8")
        except UnicodeEncodeError:
            return f"`{name}` holds half of a surrogate pair, which is no character"
    return ""


async def _present(sandbox: Sandbox, path: str, mode: str) -> bytes | None:
    """Return what the file holds, None when there is none. Raises FileError and ToolError."""
    shown = quoted(shown_path(path))
    try:
        entry = await sandbox.stat(Stat(path))
    except FileError as error:
        if error.errno != errno.ENOENT:
            raise
        if mode == "replace":
            raise ToolError(f"there is no file {shown}") from None
        return None
    if mode == "create":
        raise ToolError(f"{shown} is there already; use overwrite or replace")
    if entry.kind != "file":
        raise ToolError(f"{shown} is a {entry.kind}; only a regular file can be changed")
    if mode == "overwrite" and entry.size > MAX_FILE_BYTES:
        raise ToolError(f"{shown} has {entry.size:,} bytes; at most {MAX_FILE_BYTES:,} are overwritten")
    return await sandbox.read_file(ReadFile(path, MAX_FILE_BYTES))


def _replaced(old: bytes, arguments: Mapping[str, Any]) -> bytes:
    wanted = arguments["old_text"].encode("utf-8")
    count = old.count(wanted)
    # Overlapping matches are two places as well: "aa" in "aaa".
    if count == 1 and old.find(wanted, old.find(wanted) + 1) >= 0:
        count = 2
    if count != 1:
        found = "is not in the file; read it and copy the text exactly" if not count else "is there more than once"
        raise ToolError(f"`old_text` {found}" + ("; add lines around it" if count else ""))
    return old.replace(wanted, arguments["new_text"].encode("utf-8"), 1)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
