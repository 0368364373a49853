"""Skills: folders with a SKILL.md, told to the model by name and description, and loaded when it asks.

A skill is text that the operator chose. Its scripts are never run on the host: `copy` puts them into the workspace,
where exec_command runs them in the container, under the policy like anything else.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import WORKSPACE, MakeDir, WriteFile
from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.tools.base import BaseTool, ToolDefinition, ToolError
from mindx.tools.context import ToolContext
from mindx.tools.workspace.paths import WorkspacePathError, WorkspacePathResolver, container_path, shown_path

SKILL_FILE = "SKILL.md"
MAX_SKILLS = 100
MAX_FRONT_CHARS = 16 * 1024
MAX_TEXT_BYTES = 256 * 1024  # of a SKILL.md
MAX_FILE_BYTES = 1_000_000
MAX_FILES = 200  # of one skill
MAX_COPY_BYTES = 8 * 1024 * 1024
MAX_DESCRIPTION = 1024
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. `files` are the folder's other files, relative to it; links are none of them."""

    name: str
    description: str
    folder: Path
    files: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the instructions of SKILL.md, without its front matter. Raises WorkspacePathError when it is gone."""
        return _split(_read(self.folder))[1]

    def read(self, path: str) -> bytes:
        """Return one of the skill's files; no link is followed. Raises WorkspacePathError."""
        return WorkspacePathResolver(self.folder).read(path, MAX_FILE_BYTES)


def load_skills(folders: Iterable[Path | str]) -> tuple[Skill, ...]:
    """Return the skills of folders, by name: each folder is a skill, or holds skills one level down.

    A folder that is not there holds none. Raises InputError (skill_invalid, skill_twice, skills_too_many).
    """
    found: dict[str, Skill] = {}
    for folder in folders:
        for place in _places(Path(folder)):
            skill = _load(place)
            if skill.name in found:
                other = found[skill.name].folder
                raise InputError("skill_twice", f"two skills are called {skill.name}: in {other} and in {place}")
            found[skill.name] = skill
            if len(found) > MAX_SKILLS:
                raise InputError("skills_too_many", f"there are more than {MAX_SKILLS} skills")
    return tuple(sorted(found.values(), key=lambda item: item.name))


class SkillTool(BaseTool):
    """Loads skills: `load` gives the instructions, `read` one file, `copy` puts the files into the workspace."""

    works_inside = True

    def __init__(self, skills: Iterable[Skill]) -> None:
        self.skills = {skill.name: skill for skill in skills}
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in self.skills.values())
        self.definition = ToolDefinition(
            name="skill",
            description=_listing(listed),
            parameters={
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["load", "read", "copy"]},
                    "name": {"type": "string", "minLength": 1, "maxLength": 64},
                    "path": {"type": "string", "minLength": 1, "description": "read: a file of the skill"},
                    "to": {"type": "string", "minLength": 1, "description": "copy: a folder of the workspace"},
                },
                "required": ["action", "name"],
                "additionalProperties": False,
            },
            risk=ActionRisk.WRITE,
        )

    @property
    def least_risk(self) -> ActionRisk:
        """Loading changes nothing."""
        return ActionRisk.READ_ONLY

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return WRITE for a copy, READ_ONLY for the rest."""
        action = arguments["action"]
        if action == "read" and "path" not in arguments:
            return ActionTraits(problem="read needs a `path`")
        if action != "copy":
            return ActionTraits(ActionRisk.READ_ONLY)
        container_path(arguments.get("to", "."))
        return ActionTraits(ActionRisk.WRITE)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return `instructions` and `files`, or `content`, or `copied`. Raises ToolError, InputError."""
        skill = self.skills.get(arguments["name"])
        if skill is None:
            hint = did_you_mean(arguments["name"], self.skills) or f"there are {', '.join(self.skills) or 'none'}"
            raise ToolError(f"there is no skill {quoted(arguments['name'])}; {hint}")
        if arguments["action"] == "load":
            text = await asyncio.to_thread(skill.text)
            return {"name": skill.name, "instructions": text, "files": list(skill.files)}
        if arguments["action"] == "copy":
            return await self._copy(skill, container_path(arguments.get("to", f".skills/{skill.name}")), context)
        path = arguments.get("path", SKILL_FILE)
        data = await asyncio.to_thread(skill.read, path)
        if b"\0" in data[:8192]:
            raise ToolError(f"{quoted(path)} is no text file; copy the skill into the workspace to use it")
        return {"name": skill.name, "path": path, "content": data.decode("utf-8", "replace")}

    async def _copy(self, skill: Skill, target: str, context: ToolContext) -> Any:
        if target == WORKSPACE:
            raise ToolError("name a folder of the workspace in `to`")
        contents: dict[str, bytes] = {}
        for path in (SKILL_FILE, *skill.files):
            contents[path] = await asyncio.to_thread(skill.read, path)
            if sum(map(len, contents.values())) > MAX_COPY_BYTES:
                raise ToolError(f"the skill has more than {MAX_COPY_BYTES:,} bytes")
        sandbox = await context.sandbox()
        for path, data in contents.items():
            place = posixpath.join(target, path)
            await sandbox.make_dir(MakeDir(posixpath.dirname(place)))
            await sandbox.write_file(WriteFile(place, data))
        return {"name": skill.name, "to": shown_path(target), "copied": list(contents)}


def _listing(listed: str) -> str:
    head = "Load instructions for a kind of work when it comes up. Skills:\n"
    room = 7000
    return head + (listed if len(listed) <= room else listed[:room] + "\n(the list is cut)")


def _places(folder: Path) -> list[Path]:
    if (folder / SKILL_FILE).is_file():
        return [folder]
    try:
        below = sorted(item for item in folder.iterdir() if item.is_dir() and not item.is_symlink())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError("skill_invalid", f"the skills in {folder} cannot be read: {error.strerror}") from None
    return [item for item in below if (item / SKILL_FILE).is_file()]


def _load(folder: Path) -> Skill:
    try:
        front, _ = _split(_read(folder))
        value = yaml.safe_load(front)
    except WorkspacePathError as error:
        raise _invalid(folder, error.message) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _invalid(folder, f"its front matter cannot be read ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise _invalid(folder, "it does not begin with front matter: a line ---, name and description, a line ---")
    name, description = value.get("name"), value.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 64:
        raise _invalid(folder, "`name` is up to 64 of a-z 0-9 with single dashes between")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= MAX_DESCRIPTION:
        raise _invalid(folder, f"`description` has 1 to {MAX_DESCRIPTION:,} characters")
    return Skill(name, " ".join(description.split()), folder.resolve(), _files(folder))


def _read(folder: Path) -> str:
    return WorkspacePathResolver(folder).read(SKILL_FILE, MAX_TEXT_BYTES).decode("utf-8", "replace")


def _split(text: str) -> tuple[str, str]:
    """Return the front matter and the rest; "" where there is none."""
    match = _FRONT.match(text.removeprefix("\ufeff"))
    if match is None or len(match.group(1)) > MAX_FRONT_CHARS:
        return "", text
    return match.group(1), text.removeprefix("\ufeff")[match.end() :].lstrip("\n")


def _files(folder: Path) -> tuple[str, ...]:
    found: list[str] = []
    for place, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            shown = path.relative_to(folder).as_posix()
            if shown == SKILL_FILE or name.startswith(".") or path.is_symlink() or not path.is_file():
                continue
            found.append(shown)
            if len(found) > MAX_FILES:
                raise _invalid(folder, f"it has more than {MAX_FILES} files")
    return tuple(found)


def _invalid(folder: Path, reason: str) -> InputError:
    return InputError("skill_invalid", f"{folder / SKILL_FILE} is no skill: {reason}")
