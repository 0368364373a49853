"""What the verbs with an agent share: their options, the model, limits, and how its steps are shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from mindx.agents.agent_work import AgentWork
from mindx.agents.work_record import WorkRecord
from mindx.cli.errors import INTERRUPTED, tell
from mindx.cli.escape import escape, escape_line, shortened
from mindx.cli.prose import styled
from mindx.cli.render import change_lines
from mindx.cli.verbosity import quiet, remark, verbose
from mindx.core.agent_error import ErrorCode
from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.core.checkpoint import RunOutcome
from mindx.core.protocols import Reasoner
from mindx.core.run import Outcome
from mindx.core.run_config import RunConfig
from mindx.errors import MindxError
from mindx.policy.load import LoadedPolicy
from mindx.providers.base import BaseProvider
from mindx.tools.registry import ToolRegistry

MAX_SHOWN = 160  # characters of an Action's arguments
STEP_TIMEOUT_S, ACTION_TIMEOUT_S = 300.0, 330.0
_COLOURS = {"SUCCESS": "green", "DENIED": "yellow", "CANCELLED": "yellow"}
_CODES = {
    ErrorCode.PROVIDER_FAILED: 6,
    ErrorCode.INVALID_DECISION: 6,
    ErrorCode.SANDBOX_FAILED: 4,
    ErrorCode.STATE_FAILED: 4,
}

_ENDS = {2: Outcome.INVALID, 3: Outcome.DENIED}

mind_option = click.option(
    "--mind",
    type=click.Choice(["bdi", "react"]),
    default="bdi",
    show_default=True,
    help="How it decides: by a validated plan for the goal, or step by step.",
)
model_option = click.option(
    "--model", metavar="M", default="", help="Use this model instead of the first in MINDX_MODELS."
)
max_steps_option = click.option(
    "--max-steps",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=40,
    show_default=True,
    help="Stop after N steps.",
)
script_option = click.option(
    "--script",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take the model's turns from a JSON Lines file, without a network: docs/providers.md has the form.",
)


def provider_of(script: Path | None, model: str) -> BaseProvider:
    """Return the model's provider: a script's, or the endpoint of the environment. Raises ProviderError."""
    if script is not None:
        from mindx.providers.scripted import ScriptedProvider

        return ScriptedProvider.from_file(script, models=(model or "scripted",))
    from mindx.providers.openai import OpenAIProvider
    from mindx.providers.param import OpenAIProviderParam

    return OpenAIProvider(OpenAIProviderParam.from_env())


def reasoner_of(provider: BaseProvider, tools: ToolRegistry, model: str) -> Reasoner:
    """Return the mind `react`: a model that is shown the tools and asked at each step."""
    from mindx.runtime.provider_reasoner import ProviderReasoner

    return ProviderReasoner(
        provider, tools.provider_schemas(), tools.action_risks(), tools.approval_required(), model=model
    )


def limits_of(policy: LoadedPolicy, max_steps: int, *, asks: bool, step_s: float = STEP_TIMEOUT_S) -> RunConfig:
    """Return the limits of a run: those of the policy, and leave for what a person says yes to if one `asks`.

    `step_s` is for all that goes on around the Actions of a step: thinking, or making a plan.
    """
    total_s = float(policy.policy.limits.session_timeout_s)
    action_s = min(ACTION_TIMEOUT_S, total_s)
    return RunConfig(
        max_steps,
        min(step_s, total_s),
        total_s,
        action_timeout_s=action_s,
        batch_timeout_s=total_s,
        allow_dangerous=asks,
        interactive=asks,
    )


def exit_code_of(result: AgentResult) -> int:
    """Return 0 for a final answer, 5 for a limit, 6 when the model failed, 4 when the sandbox did, else 1."""
    if result.outcome is RunOutcome.CANCELLED:
        return INTERRUPTED
    if result.error_info is None:
        return 0
    return 5 if result.outcome is RunOutcome.PARTIAL else _CODES.get(result.error_info.code, 1)


def at_terminal() -> bool:
    """Return whether a person is there who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def recorded(record: WorkRecord) -> Iterator[None]:
    """Write the Run's end when the block has ended, however that was."""
    try:
        yield
    except MindxError as error:
        record.outcome = _ENDS.get(error.exit_code, Outcome.ERROR)
        record.error = error
        raise
    finally:
        record.finish()


def tell_changes(work: AgentWork | WorkRecord) -> None:
    """Say on stderr what the agent changed in its copy."""
    if work.changes:
        for line in change_lines(work.changes):
            remark(line)
        remark(
            f"nothing is written to your files; `mindx changes show {work.folder.run_id}` shows what there is to apply"
        )


class AgentPrinter:
    """Shows on stderr what an agent does; `on_text` gets the pieces of what it says."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self._on_text = on_text or (lambda text: None)
        self._labels: dict[str, str] = {}

    def __call__(self, event: AgentEvent) -> None:
        """Take an event."""
        payload = event.payload
        if event.event_type is AgentEventType.TEXT_DELTA:
            self._on_text(str(payload["text"]))
        elif event.event_type is AgentEventType.DECISION_CREATED:
            for action in payload["actions"]:
                self._labels[action["action_id"]] = action_label(action["name"], action["arguments"])
        elif event.event_type is AgentEventType.OBSERVATION_CREATED:
            status = str(payload["status"])
            label = self._labels.pop(payload["action_id"], "")
            if not quiet():  # not by `remark`, which would write the colour out
                tell(f"[{event.step}] {label}  {styled(escape_line(status), _COLOURS.get(status, 'red'), sys.stderr)}")
            if payload["message"] and (status != "SUCCESS" or verbose()):
                remark(f"    {escape_line(str(payload['message'])[: None if verbose() else 500])}")


def action_label(name: str, arguments: Any) -> str:
    """Return one short, harmless line that says what an Action does."""
    text = escape_line(f"{name} {json.dumps(arguments, ensure_ascii=False, default=str)}", ci=False)
    return shortened(text, MAX_SHOWN)


def print_answer(text: str) -> None:
    """Print what the agent says on stdout, harmless."""
    click.echo(escape(text).rstrip("\n"))
