"""The policy of an agent's Actions: the session's first, then the run's; each can only take away."""

from __future__ import annotations

import json

from mindx.core.action import (
    ActionRequest,
    ActionRisk,
    ActionTraits,
    ActionValidation,
    ValidationDecision,
)
from mindx.core.agent_context import AgentContext
from mindx.core.agent_error import ErrorCode
from mindx.core.protocols import ActionAssessor
from mindx.core.quote import quoted

MAX_ARGUMENT_CHARS = 4 * 1024 * 1024


class DefaultPolicyEngine:
    """Judges an Action by the risk that its executor computes from the exact arguments (`assessor`).

    WRITE and DANGEROUS need the leave of the session's policy and of the run's limits; DANGEROUS always needs a
    person's yes, as does what its tool marks so. What a Reasoner says of the risk can raise it only. What the tool
    knows to be refused by the operator's policy is denied at once, for no yes would help; the Driver judges every
    Command once more.
    """

    def __init__(self, assessor: ActionAssessor) -> None:
        self._assessor = assessor

    def validate(self, request: ActionRequest, context: AgentContext) -> ActionValidation:
        """Return allow, ask, deny or invalid."""
        problem = argument_problem(request)
        traits = ActionTraits(problem=problem) if problem else self._assessor.assess(request, context)
        risk = max(traits.risk, request.risk or ActionRisk.READ_ONLY, key=lambda item: item.rank)
        keys = [key for key in (traits.concurrency_key, request.concurrency_key) if key]

        def judged(
            decision: ValidationDecision, rule: str, reason: str, code: ErrorCode = ErrorCode.ACTION_REJECTED
        ) -> ActionValidation:
            key = keys[0] if keys else None
            # A hostile argument is not digested for nothing.
            approval = request.digest if decision is ValidationDecision.ASK else ""
            return ActionValidation(request.action_id, decision, risk, rule, reason, key, approval, code)

        if traits.problem:
            return judged(ValidationDecision.INVALID, "arguments", traits.problem, traits.code)
        denied = denial(request, risk, context)
        if denied is not None:
            return judged(ValidationDecision.DENY, *denied)
        if traits.denial:
            by = {"": "", "default": "the policy"}.get(traits.rule, f"policy rule {traits.rule}")
            return judged(ValidationDecision.DENY, by, traits.denial)
        if traits.require_approval and traits.rule:
            return judged(ValidationDecision.ASK, traits.rule, "the operator's policy asks for a person's yes")
        if risk is ActionRisk.DANGEROUS:
            return judged(ValidationDecision.ASK, "risk", "it may do anything, so a person decides")
        if traits.require_approval or request.require_approval:
            return judged(ValidationDecision.ASK, "tool", "its tool asks for a person's yes")
        return judged(ValidationDecision.ALLOW, "risk", f"{risk.value} is allowed here")


def denial(request: ActionRequest, risk: ActionRisk, context: AgentContext) -> tuple[str, str] | None:
    """Return the rule and the reason that forbid it, or None."""
    policy, config = context.policy, context.config
    if policy is not None:
        types, tools = policy.allowed_action_types, policy.allowed_tools
        if types is not None and request.action_type not in types:
            return "session.action_types", f"this session does no actions of the type {request.action_type.value}"
        if tools is not None and request.name not in tools:
            return "session.tools", f"this session may not use {quoted(request.name)}"
        if risk.rank >= ActionRisk.WRITE.rank and not policy.allow_write:
            return "session.write", f"this session only reads, and this is {risk.value}"
        if risk is ActionRisk.DANGEROUS and not policy.allow_dangerous:
            return "session.dangerous", "this session does nothing dangerous"
    if risk.rank >= ActionRisk.WRITE.rank and not config.allow_write:
        return "run.write", f"this run only reads, and this is {risk.value}"
    if risk is ActionRisk.DANGEROUS and not config.allow_dangerous:
        return "run.dangerous", "this run does nothing dangerous"
    return None


def argument_problem(request: ActionRequest) -> str:
    """Return why the arguments cannot be taken at all, or ""."""
    if request.problem:
        return request.problem
    try:
        size = len(json.dumps(request.arguments, default=dict))
    except (TypeError, ValueError, RecursionError):
        return "the arguments are no JSON values"
    if size > MAX_ARGUMENT_CHARS:
        return f"the arguments are {size:,} characters long; at most {MAX_ARGUMENT_CHARS:,} are taken"
    return ""


class AllowAll:
    """The policy where everything was judged before: the Driver still judges every Command."""

    def validate(self, request: ActionRequest, context: AgentContext) -> ActionValidation:
        """Return allow; the risk is the worst, so that nothing runs side by side."""
        return ActionValidation(request.action_id, ValidationDecision.ALLOW, rule="plan")
