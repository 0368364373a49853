"""The order for the improvement agent: what a requester says, and what only the coordinator decides."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mindx.agents.coordinator.config import CoordinatorConfig
from mindx.agents.coordinator.interaction import Interaction
from mindx.agents.improvement.models import SELF, TOOL_FILE, ImprovementRequest
from mindx.core.quote import quoted
from mindx.core.validation import faults
from mindx.errors import InputError
from mindx.tools.container_entry import ToolSpec

# What a requester may say. Folders, files of the host, programs and policies are the coordinator's own to choose.
_KNOWN = frozenset(
    {
        "target_component",
        "target_component_path",
        "analysis_context",
        "tool_spec",
        "max_cycles",
        "sia_llm_provider",
        "sia_llm_model",
        "sia_critique_threshold",
        "sia_self_test_timeout",
        "source",
        "backlog_item_id",
        "original_priority",
        "priority",
        "is_critical_target",
    }
)


def order_of(
    asked: Interaction, config: CoordinatorConfig, project: Path | None, *, finished: bool = False
) -> ImprovementRequest:
    """Return what the improvement agent is asked for an Interaction.

    `project` None allows new tools and `self` only, unless the change is `finished` already. Raises InputError
    (improvement_invalid).
    """
    about = asked.metadata
    unknown = sorted(set(about) - _KNOWN)
    if unknown:
        raise InputError("improvement_invalid", f"an improvement has no {quoted(unknown[0])} in its metadata")
    spec = about.get("tool_spec")
    target = about.get("target_component") or about.get("target_component_path") or ""
    if spec is None and project is None and target != SELF and not finished:
        raise InputError("improvement_invalid", "there is no project here; only new tools can be developed")
    optional: dict[str, Any] = {
        "cycles": about.get("max_cycles"),
        "critique_threshold": about.get("sia_critique_threshold"),
        "self_test_timeout_s": about.get("sia_self_test_timeout"),
        "llm_provider": about.get("sia_llm_provider"),
        "llm_model": about.get("sia_llm_model") or config.improvement_model,
    }
    context = "\n\n".join(part for part in (asked.content, _text(about.get("analysis_context"))) if part)
    try:
        return ImprovementRequest.model_validate(
            {
                **{name: value for name, value in optional.items() if value is not None},
                "interaction_id": asked.interaction_id,
                "target_file": TOOL_FILE if spec is not None else _plain_path(target),
                "workspace": project if spec is None else None,
                "context": context,
                "tool_spec": None if spec is None else ToolSpec.read(spec),
                "policy": config.improvement_policy,
                "script": config.improvement_script,
            }
        )
    except ValidationError as error:
        message = f"the improvement that is asked for is not usable: {faults(error)}"
        raise InputError("improvement_invalid", message) from None


def _plain_path(target: Any) -> str:
    """Return a path below the project in its plain spelling; what is none is refused by the Constitution."""
    if not isinstance(target, str) or not target:
        raise InputError("improvement_invalid", "metadata.target_component names the file to improve")
    return posixpath.normpath(target)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise InputError("improvement_invalid", "metadata.analysis_context is a text")
