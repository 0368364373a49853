"""The action that checks one acceptance criterion, in the sandbox; what it finds is evidence. And asking for it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from mindx.agents.bdi.criteria import CommandCriterion, Criterion, FileCriterion, criteria_of, posixpath_of
from mindx.agents.bdi.goals import Goal
from mindx.agents.bdi.prompts import shown
from mindx.core.action import ActionRequest, ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import Exec, ReadFile
from mindx.core.observation import Observation
from mindx.core.quote import quoted
from mindx.core.receipt import ExitCause
from mindx.errors import FileError, InputError
from mindx.policy.engine import PolicyEngine
from mindx.tools.base import BaseTool, ToolDefinition
from mindx.tools.command_risk import command_traits, session_engine
from mindx.tools.context import ToolContext

LOG = logging.getLogger("bdi_agent")
VERIFY_CRITERION = "VERIFY_CRITERION"
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_SHOWN = 600  # characters of a program's last output

Judge = Callable[[str], Awaitable["tuple[bool, str]"]]


class VerifyCriterion(BaseTool):
    """Checks one criterion: `verified` and `reason`. `judge` has a statement judged by a model."""

    definition = ToolDefinition(
        VERIFY_CRITERION,
        "Check one acceptance criterion.",
        {
            "type": "object",
            "properties": {"criterion": {"type": "object"}},
            "required": ["criterion"],
            "additionalProperties": False,
        },
    )

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def least_risk(self) -> ActionRisk:
        """Files are only read."""
        return ActionRisk.READ_ONLY

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return what the policy says of a criterion's command; anything else only reads."""
        try:
            criterion = _criterion(arguments)
        except InputError as error:
            return ActionTraits(problem=error.message)
        if isinstance(criterion, CommandCriterion):
            engine = session_engine(context)
            return command_traits((command_of(criterion, engine),), engine, VERIFY_CRITERION)
        return ActionTraits(ActionRisk.READ_ONLY)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Check it. Raises DeniedError, SandboxError, ProviderError."""
        criterion = _criterion(arguments)
        if isinstance(criterion, CommandCriterion):
            verified, reason = await _ran(criterion, context)
        elif isinstance(criterion, FileCriterion):
            verified, reason = await _read(criterion, context)
        else:
            verified, reason = await self._judge(criterion.statement)
        return {"verified": verified, "reason": reason}


def checks(goal: Goal, cycle: int) -> list[ActionRequest]:
    """Return one request for each criterion of a goal; `cycle` makes their ids new."""
    return [
        ActionRequest(
            f"check_{goal.goal_id}_{len(goal.plan_ids)}_{cycle}_{number}",
            VERIFY_CRITERION,
            {"criterion": item.model_dump(mode="json", exclude_none=True)},
        )
        for number, item in enumerate(goal.criteria, 1)
    ]


def judged(goal: Goal, observations: Sequence[Observation]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the evidence for each criterion that holds, and why the others do not."""
    evidence: dict[str, tuple[str, ...]] = {}
    unmet: list[str] = []
    for number, observation in enumerate(observations, 1):
        reason = str(observation.result.get("reason") or observation.error or observation.message)
        if observation.ok and observation.result.get("verified") is True:
            evidence[f"{goal.goal_id}.{number}"] = (f"ev_{observation.action_id}",)
            LOG.info("Criterion %d of goal '%s' holds: %s", number, goal.goal_id, shown(reason, 400))
        else:
            LOG.warning("Criterion %d of '%s' does not hold: %s", number, goal.goal_id, shown(reason, 400))
            unmet.append(reason)
    if len(observations) < len(goal.criteria):
        unmet.append("not all criteria were checked")
    return evidence, unmet


def command_of(criterion: CommandCriterion, engine: PolicyEngine) -> Exec:
    """Return the Command of a criterion, within the policy's limits."""
    return criterion.exec(engine.policy.limits.command_timeout_s)


def unfit(criteria: Iterable[Criterion], context: AgentContext) -> str:
    """Say which criterion can never be checked: the policy denies its command, or asks where nobody answers; or ""."""
    engine = session_engine(context)
    for item in criteria:
        if not isinstance(item, CommandCriterion):
            continue
        traits = command_traits((command_of(item, engine),), engine)
        if traits.denial:
            return f"it cannot be checked that {item}: policy rule {traits.rule}: {traits.denial}"
        if (traits.require_approval or traits.risk is ActionRisk.DANGEROUS) and not somebody_approves(context):
            return f"it cannot be checked that {item}: it needs a person's yes, and nobody is there to give it"
    return ""


def somebody_approves(context: AgentContext) -> bool:
    """Return whether what the policy asks about can get a person's yes."""
    policy = context.policy
    return context.config.allow_dangerous and (policy is None or policy.allow_dangerous)


def _criterion(arguments: Mapping[str, Any]) -> Criterion:
    return criteria_of([arguments["criterion"]])[0]


async def _ran(criterion: CommandCriterion, context: ToolContext) -> tuple[bool, str]:
    sandbox = await context.sandbox()
    execution = await sandbox.execute(command_of(criterion, session_engine(context)))
    if execution.exit_cause is ExitCause.EXIT and execution.exit_code == criterion.exit_code:
        return True, f"{criterion}"
    ending = (
        f"exit code {execution.exit_code}" if execution.exit_cause is ExitCause.EXIT else execution.exit_cause.value
    )
    said = (execution.stderr_text.strip() or execution.stdout_text.strip())[-MAX_SHOWN:]
    return False, f"{quoted(' '.join(criterion.command), 200)} ended with {ending}{f': {said}' if said else ''}"


async def _read(criterion: FileCriterion, context: ToolContext) -> tuple[bool, str]:
    sandbox = await context.sandbox()
    name = quoted(criterion.file)
    try:
        data = await sandbox.read_file(ReadFile(posixpath_of(criterion.file), MAX_FILE_BYTES))
    except FileError as trouble:
        if trouble.errno in (errno.ENOENT, errno.ENOTDIR):
            return criterion.absent, f"there is no file {name}"
        return False, f"{name} is no regular file that can be read: {trouble.message}"
    text = data.decode("utf-8", "backslashreplace")
    if criterion.absent:
        return False, f"there is a file {name}"
    if criterion.equals is not None and text != criterion.equals:
        return False, f"the file {name} is not what it must be; it begins with {quoted(text, 200)}"
    if criterion.contains is not None and criterion.contains not in text:
        return False, f"the file {name} does not contain {quoted(criterion.contains)}"
    return True, f"{criterion}"
