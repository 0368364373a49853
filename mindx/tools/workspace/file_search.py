"""file_search: names or text in the workspace, found by find and grep in the container, as the agent's own user.

A pattern never reaches the guest or the host: what it costs is the container's, within a deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import Exec
from mindx.core.quote import quoted
from mindx.core.receipt import ExecResult, ExitCause
from mindx.tools.base import ToolDefinition, ToolError
from mindx.tools.command_risk import command_traits
from mindx.tools.context import ToolContext
from mindx.tools.workspace.paths import container_path, shown_path
from mindx.tools.workspace.tool import WorkspaceTool

DEFAULT_RESULTS, MAX_RESULTS = 50, 500
MAX_LINE = 500  # characters of a line that is shown
_SKIPPED = (".git", "node_modules", "__pycache__", ".venv")


class FileSearchTool(WorkspaceTool):
    """Finds at most MAX_RESULTS places; links are not followed, and folders like .git are left out."""

    definition = ToolDefinition(
        name="file_search",
        description="Search the workspace for files by name (target names) or for lines by text (target content).",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "text, or a pattern"},
                "target": {"type": "string", "enum": ["names", "content"], "description": "default content"},
                "path": {"type": "string", "minLength": 1, "description": "the folder to search; default all"},
                "regex": {"type": "boolean", "description": "content only: query is a regular expression (ERE)"},
                "ignore_case": {"type": "boolean", "description": "default false for content, true for names"},
                "include": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 200,
                    "description": "content only: names of the files to look into, such as *.py",
                },
                "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        risk=ActionRisk.READ_ONLY,
    )

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return READ_ONLY, with the policy's word on the program that searches, or what is wrong."""
        problem = _problem(arguments)
        if problem:
            return ActionTraits(problem=problem)
        return command_traits([self._command(arguments, context)], self.engine(context))

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return `results` (path, and line and text for content) and `truncated`. Raises ToolError."""
        problem = _problem(arguments)
        if problem:
            raise ToolError(problem)
        names = arguments.get("target") == "names"
        command = self._command(arguments, context)
        ran = await (await self.opened(context)).execute(command)
        _check(ran, names)
        limit = arguments.get("max_results", DEFAULT_RESULTS)
        found = _names(ran.stdout) if names else _lines(ran.stdout)
        return {
            "target": "names" if names else "content",
            "results": found[:limit],
            "truncated": len(found) > limit or ran.stdout_truncated or ran.exit_cause is ExitCause.TIMEOUT,
        }

    def _command(self, arguments: Mapping[str, Any], context: AgentContext | ToolContext) -> Exec:
        root, query = container_path(arguments.get("path", ".")), arguments["query"]
        if arguments.get("target") == "names":
            pattern = query if any(char in query for char in "*?[") else f"*{query}*"
            flag = "-iname" if arguments.get("ignore_case", True) else "-name"
            return self.program(("find", root, "-mindepth", "1", flag, pattern, "-print0"), context)
        flags = "-rnIZ" + ("E" if arguments.get("regex") else "F") + ("i" if arguments.get("ignore_case") else "")
        limits = [f"--exclude-dir={name}" for name in _SKIPPED]
        if "include" in arguments:
            limits.append(f"--include={arguments['include']}")
        return self.program(("grep", flags, "-m", str(MAX_RESULTS), *limits, "-e", query, "--", root), context)


def _problem(arguments: Mapping[str, Any]) -> str:
    container_path(arguments.get("path", "."))
    if any(char in arguments["query"] for char in "\n\0"):
        return "`query` is one line, without a NUL byte"
    if arguments.get("target") == "names":
        extra = [name for name in ("regex", "include") if name in arguments]
        if extra or "/" in arguments["query"]:
            return "names are searched by a plain name or a pattern such as *.py; use `path` for the folder"
    return ""


def _check(ran: ExecResult, names: bool) -> None:
    """Tell a search that found nothing from one that could not search."""
    cause, code = ran.exit_cause, ran.exit_code
    told = ran.stderr_text.strip().splitlines()
    if cause is ExitCause.TIMEOUT or (cause is ExitCause.EXIT and code == 0):
        return
    if cause is ExitCause.EXIT and code == 1 and (not names or ran.stdout):
        return
    if cause is ExitCause.EXIT and ran.stdout:  # some folder could not be read
        return
    program = ran.command.argv[0]
    if cause is ExitCause.NOT_FOUND:
        raise ToolError(f"the image has no {program}; search with another tool, or use another image")
    raise ToolError(f"{program} could not search: {quoted(told[0] if told else cause.value, 300)}")


def _names(data: bytes) -> list[dict[str, Any]]:
    paths = (_text(raw) for raw in data.split(b"\0")[:-1])
    shown = (shown_path(path) for path in paths if path.startswith("/"))
    return [{"path": path} for path in sorted(shown) if not set(path.split("/")[:-1]) & set(_SKIPPED)]


def _lines(data: bytes) -> list[dict[str, Any]]:
    """Read grep's `path NUL number : text` lines; what is none (the cut in a long output) is left out."""
    found = []
    for raw in data.split(b"\n"):
        path, separator, rest = raw.partition(b"\0")
        number, colon, text = rest.partition(b":")
        if not separator or not colon or not number.isdigit() or len(number) > 12:
            continue
        line = _text(text)
        cut = line if len(line) <= MAX_LINE else line[:MAX_LINE] + "..."
        found.append({"path": shown_path(_text(path)), "line": int(number), "text": cut})
    return sorted(found, key=lambda row: (row["path"], row["line"]))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
