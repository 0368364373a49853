"""A person at the terminal says yes or no to an agent's Action."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from mindx.cli.escape import escape, escape_line
from mindx.cli.prose import note
from mindx.core.approval import ApprovalRequest, ApprovalResult, ApprovalScope

ReadAnswer = Callable[[str], Awaitable["str | None"]]
_SCOPES = {"y": ApprovalScope.ONCE, "yes": ApprovalScope.ONCE, "s": ApprovalScope.SESSION}
QUESTION = "Do it? y(es), s (yes, and again in this session), n(o), or say why not: "


async def ask_at_terminal(request: ApprovalRequest) -> ApprovalResult:
    """Ask on the terminal; the end of the input is a no."""
    return await ask(request, _typed)


async def ask(request: ApprovalRequest, read: ReadAnswer) -> ApprovalResult:
    """Show the exact arguments and return the answer that `read` gives to a prompt (None: none, which is a no)."""
    action = request.action
    arguments = json.dumps(dict(action.arguments), indent=2, ensure_ascii=False, default=dict)
    note(f"The agent wants to use {escape_line(action.name)} ({request.risk.value}): {escape_line(request.reason)}")
    note(escape(arguments))
    answer = ((await read(QUESTION)) or "n").strip()
    scope = _SCOPES.get(answer.lower())
    if scope is not None:
        return ApprovalResult(True, scope=scope)
    return ApprovalResult(False, feedback="" if answer.lower() in ("", "n", "no") else answer)


async def answer_at_terminal(question: str) -> str | None:
    """Put an agent's question to the person at the terminal; None for no answer."""
    note(escape(question))
    return await _typed("answer: ")


async def _typed(prompt: str) -> str | None:
    from prompt_toolkit import PromptSession

    try:
        session: PromptSession[str] = PromptSession()
        return await session.prompt_async(prompt, handle_sigint=False)
    except (EOFError, KeyboardInterrupt):
        return None
