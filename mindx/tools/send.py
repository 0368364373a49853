"""One Command to the method of the sandbox that does it."""

from __future__ import annotations

from typing import Any

from mindx.core.command import Command, Exec, ListDir, MakeDir, ReadFile, Remove, WriteFile
from mindx.sandbox.base import Sandbox


async def send(sandbox: Sandbox, command: Command) -> Any:
    """Return what the sandbox's own method returns. Raises DeniedError, FileError and SandboxError as it does."""
    if isinstance(command, Exec):
        return await sandbox.execute(command)
    if isinstance(command, ReadFile):
        return await sandbox.read_file(command)
    if isinstance(command, WriteFile):
        return await sandbox.write_file(command)
    if isinstance(command, ListDir):
        return await sandbox.list_dir(command)
    if isinstance(command, MakeDir):
        return await sandbox.make_dir(command)
    if isinstance(command, Remove):
        return await sandbox.remove(command)
    return await sandbox.stat(command)
