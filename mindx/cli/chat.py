"""`mindx chat`: a conversation with a coding agent in one container."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindx.agents.agent_work import AgentWork, workspace_tools
from mindx.cli.agent_parts import (
    AgentPrinter,
    at_terminal,
    exit_code_of,
    limits_of,
    max_steps_option,
    model_option,
    provider_of,
    reasoner_of,
    script_option,
)
from mindx.cli.approve_action import ask
from mindx.cli.changes import apply_after_run
from mindx.cli.changes_show import print_patch
from mindx.cli.errors import INTERRUPTED, say
from mindx.cli.escape import escape
from mindx.cli.interrupt import run_async
from mindx.cli.options import policy_option, workspace_option
from mindx.cli.prose import note
from mindx.cli.store import run_store
from mindx.cli.verbosity import remark, verbosity_options
from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.core.approval import ApprovalRequest, ApprovalResult
from mindx.errors import MindxError
from mindx.settings import effective_policy
from mindx.workspace.diff import diffs
from mindx.workspace.store import ChangesFolder

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

ReadLine = Callable[[str], Awaitable["str | None"]]
EPILOG = """\b
Examples:
  mindx chat --workspace .
  echo "what does app.py do?" | mindx chat --workspace .

/diff shows what the agent changed in its copy, /apply writes it to your folder, /clear forgets the conversation,
/exit or Ctrl-D leaves; Ctrl-C stops the answer that is coming. What is dangerous is asked about in place.
"""
HELP = "/diff /apply /clear /exit, or say what is to be done"


@click.command(name="chat", epilog=EPILOG)
@workspace_option
@policy_option
@model_option
@max_steps_option
@script_option
@verbosity_options
def command(workspace: Path | None, policy: str | None, model: str, max_steps: int, script: Path | None) -> int:
    """Work with a coding agent in a conversation; also reads lines from standard input."""
    loaded = effective_policy(policy, None, workspace)
    typed = at_terminal()
    tools = workspace_tools(loaded)
    reasoner = reasoner_of(provider_of(script, model), tools, model)
    chat = Chat(_typed() if typed else _read, workspace, typed=typed)
    work = AgentWork(
        reasoner,
        tools,
        loaded,
        run_store(),
        workspace=workspace,
        config=limits_of(loaded, max_steps, asks=typed),
        approval_handler=chat.approve if typed else None,
        on_event=chat.hear,
        on_question=chat.question if typed else None,
    )
    try:
        return run_async(lambda: chat.talk(work), chat.interrupt)
    except KeyboardInterrupt:
        return INTERRUPTED


class Chat:
    """One conversation. `read` gives the next line for a prompt, or None at the end."""

    def __init__(self, read: ReadLine, workspace: Path | None, *, typed: bool) -> None:
        self._read = read
        self._workspace = workspace
        self._typed = typed
        self._printer = AgentPrinter(self._say)
        self._answering: asyncio.Task[AgentResult] | None = None
        self._said = ""  # of the answer that is coming
        self._code = 0

    async def talk(self, work: AgentWork) -> int:
        """Take lines until the end; return the exit code: that of the last answer."""
        if self._typed:
            remark(HELP)
        async with work:
            while (line := await self._read("> ")) is not None:
                words = line.strip()
                if words in ("/exit", "/quit"):
                    break
                if words.startswith("/"):
                    await self._obey(work, words)
                elif words:
                    await self._answer(work, words)
        if work.changes:
            remark(f"`mindx changes show {work.folder.run_id}` shows what the agent changed in its copy")
        return self._code

    def interrupt(self) -> bool:
        """Stop the answer that is coming, not the conversation; return False when there is none."""
        return self._answering is not None and self._answering.cancel()

    def hear(self, event: AgentEvent) -> None:
        """Show what the agent does; its questions are put as they come."""
        if event.event_type is AgentEventType.DECISION_CREATED and event.payload["actions"]:
            self._line()
        self._printer(event)

    async def approve(self, request: ApprovalRequest) -> ApprovalResult:
        """Ask the person who types."""
        self._line()
        return await ask(request, self._read)

    async def question(self, text: str) -> str | None:
        """Put the agent's question to the person who types."""
        self._line()
        note(escape(text))
        return await self._read("answer: ")

    async def _answer(self, work: AgentWork, words: str) -> None:
        task = self._answering = asyncio.ensure_future(work.run(words))
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():  # it is the chat itself that is cancelled
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                raise
            self._line()
            note("stopped")
            self._code = INTERRUPTED
            return
        finally:
            self._answering = None
        self._told(result)

    def _told(self, result: AgentResult) -> None:
        answer = escape(result.final_answer).strip()
        if answer and not self._said.strip().endswith(answer):
            self._line()
            click.echo(answer)
        self._line()
        if result.error is not None:
            say(result.error)
        self._code = exit_code_of(result)

    async def _obey(self, work: AgentWork, words: str) -> None:
        try:
            if words == "/clear":
                work.session.clear()
                note("the conversation is forgotten; the files stay as they are")
            elif words == "/diff":
                await self._diff(work)
            elif words == "/apply":
                await self._apply(work)
            else:
                note(HELP)
        except MindxError as error:
            say(error.message)

    async def _diff(self, work: AgentWork) -> None:
        changes = await work.collect()
        if not changes:
            note("nothing has changed")
            return
        folder = ChangesFolder(work.folder.path)
        known = folder.read_baseline().entries  # a mark may depend on a file beside
        print_patch(list(diffs(folder.read_changes(), folder.blobs, known)), raw=False)

    async def _apply(self, work: AgentWork) -> None:
        if self._workspace is None:
            note("there is no folder to write to: start with --workspace DIR")
        elif not await work.collect():
            note("nothing has changed")
        else:
            await asyncio.to_thread(apply_after_run, work.folder.path, self._workspace)

    def _say(self, text: str) -> None:
        self._said += text
        click.echo(escape(text), nl=False)
        sys.stdout.flush()

    def _line(self) -> None:
        """End the line of a streamed answer."""
        if self._said and not self._said.endswith("\n"):
            click.echo()
        self._said = ""


def _typed() -> ReadLine:
    """Return a reader with line editing."""
    session: PromptSession[str] | None = None

    async def read_line(prompt: str) -> str | None:
        nonlocal session
        from prompt_toolkit import PromptSession
        from prompt_toolkit.output import ColorDepth

        if session is None:
            depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
            session = PromptSession(color_depth=depth)
        while True:
            try:
                return await session.prompt_async(prompt, handle_sigint=False)
            except KeyboardInterrupt:
                continue  # Ctrl-C at the prompt drops the line
            except EOFError:
                return None

    return read_line


async def _read(prompt: str) -> str | None:
    """Read a line of standard input; a thread waits, so that a signal is heard."""
    if sys.stdin is None:
        return None
    line = await asyncio.to_thread(sys.stdin.readline)
    return line or None
