"""file_read: a piece of a text file, by line numbers or around an anchor."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Mapping
from typing import Any

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import ReadFile
from mindx.core.evidence import Evidence, EvidenceKind, Provenance
from mindx.core.quote import quoted
from mindx.errors import FileError
from mindx.tools.base import ToolDefinition, ToolError, ToolResult
from mindx.tools.context import ToolContext
from mindx.tools.workspace.paths import container_path, shown_path
from mindx.tools.workspace.tool import WorkspaceTool

MAX_FILE_BYTES = 1_000_000
MAX_LINES = 2000
DEFAULT_LINES = 400


class FileReadTool(WorkspaceTool):
    """Reads files of at most MAX_FILE_BYTES bytes; a longer piece than MAX_LINES lines is cut, and says so."""

    definition = ToolDefinition(
        name="file_read",
        description="Read a text file of the workspace: lines start_line to end_line, or the lines around the first "
        "line that holds `anchor`. Gives the file's sha256.",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "relative to the workspace"},
                "start_line": {"type": "integer", "minimum": 1, "description": "counts from 1"},
                "end_line": {"type": "integer", "minimum": 1, "description": "the last line wanted"},
                "anchor": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "text of a line"},
                "before": {"type": "integer", "minimum": 0, "maximum": MAX_LINES, "description": "lines, with anchor"},
                "after": {"type": "integer", "minimum": 0, "maximum": MAX_LINES, "description": "lines, with anchor"},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        risk=ActionRisk.READ_ONLY,
    )

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return READ_ONLY, or what is wrong with the arguments together."""
        container_path(arguments["path"])
        by_line = {"start_line", "end_line"} & set(arguments)
        around = {"before", "after"} & set(arguments)
        if "anchor" in arguments and by_line:
            return ActionTraits(problem="give either `anchor` or lines, not both")
        if around and "anchor" not in arguments:
            return ActionTraits(problem="`before` and `after` go with an `anchor`")
        if arguments.get("end_line", 10**9) < arguments.get("start_line", 1):
            return ActionTraits(problem="`end_line` is before `start_line`")
        return ActionTraits(ActionRisk.READ_ONLY)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return path, content, start_line, end_line, total_lines, size, sha256 and truncated."""
        path = container_path(arguments["path"])
        sandbox = await self.opened(context)
        try:
            data = await sandbox.read_file(ReadFile(path, MAX_FILE_BYTES))
        except FileError as error:
            if error.errno != errno.EFBIG:
                raise
            shown, limit = quoted(arguments["path"]), f"{MAX_FILE_BYTES:,} bytes"
            raise ToolError(f"{shown} is larger than {limit}; take a piece of it with head, tail or sed -n") from None
        if b"\0" in data[:8192]:
            raise ToolError(f"{quoted(arguments['path'])} is no text file")
        lines = data.decode("utf-8", "backslashreplace").splitlines(keepends=True)
        first, last = _piece(lines, arguments)
        cut = last - first + 1 > MAX_LINES
        last = min(last, first + MAX_LINES - 1)
        digest = hashlib.sha256(data).hexdigest()
        result = {
            "path": shown_path(path),
            "content": "".join(lines[first - 1 : last]),
            "start_line": first,
            "end_line": last,
            "total_lines": len(lines),
            "size": len(data),
            "sha256": digest,
            "truncated": cut or ("anchor" not in arguments and "end_line" not in arguments and last < len(lines)),
        }
        origin = Provenance(context.run_id, context.action_id, self.tool_id)
        seen = Evidence(
            f"ev_{context.action_id}",
            EvidenceKind.FILE_SNAPSHOT,
            f"{shown_path(path)} as it was read",
            valid=True,
            provenance=origin,
            data={"path": shown_path(path), "sha256": digest, "size": len(data)},
        )
        return ToolResult(result, evidence=(seen,))


def _piece(lines: list[str], arguments: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first and last line, from 1; an empty file gives (1, 0)."""
    total = len(lines)
    anchor = arguments.get("anchor")
    if anchor is None:
        first = arguments.get("start_line", 1)
        if first > max(total, 1):
            raise ToolError(f"the file has {total} lines; line {first} is past its end")
        return first, min(arguments.get("end_line", first + DEFAULT_LINES - 1), total)
    at = next((number for number, line in enumerate(lines, 1) if anchor in line), None)
    if at is None:
        raise ToolError(f"no line holds {quoted(anchor)}; search for it, or read by line numbers")
    return max(1, at - arguments.get("before", 20)), min(total, at + arguments.get("after", 60))
