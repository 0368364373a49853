"""Approvals: a person's word on one Action whose arguments are fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mindx.core.action import ActionRequest, ActionRisk


class ApprovalScope(str, Enum):
    """How long a yes holds, always for the same exact arguments."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked. `key` is the digest of the exact arguments; a yes is for it and nothing else."""

    action: ActionRequest
    risk: ActionRisk
    reason: str
    key: str
    run_id: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalResult:
    """A person's answer. `feedback` reaches the model. `modified_arguments` replace the Action's and are judged anew.

    `rule_key` may narrow the answer to another key than the request's; "" means the request's own.
    """

    approved: bool
    feedback: str = ""
    modified_arguments: Mapping[str, Any] | None = None
    scope: ApprovalScope = ApprovalScope.ONCE
    rule_key: str = ""
