"""What the user's own config.yaml says of campaigns and of the coordinator, as the society takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from mindx.agents.coordinator.config import CoordinatorConfig
from mindx.agents.mastermind.campaign import CampaignBudget
from mindx.core.nearest import did_you_mean
from mindx.core.validation import faults
from mindx.errors import InputError
from mindx.settings import Settings, read_settings

M = TypeVar("M", bound=BaseModel)


def campaign_budget(flags: Mapping[str, object] | None = None, settings: Settings | None = None) -> CampaignBudget:
    """Return what campaigns may spend: a flag that is given (not None) goes before config.yaml, that before defaults.

    Raises InputError (project_file_invalid).
    """
    settings = settings or read_settings()
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    return _read(CampaignBudget, "campaign", settings).model_copy(update=given)


def coordinator_config(settings: Settings | None = None) -> CoordinatorConfig:
    """Return what a coordinator works with. Raises InputError (project_file_invalid)."""
    return _read(CoordinatorConfig, "coordinator", settings or read_settings())


def _read(model: type[M], key: str, settings: Settings) -> M:
    wished: dict[str, object] = dict(getattr(settings.user, key))
    for name in wished:
        if name not in model.model_fields:
            hint = did_you_mean(name, model.model_fields) or f"write {', '.join(model.model_fields)}"
            raise _invalid(settings, f"{key} has no key {name[:60]!r}; {hint}")
    try:
        return model.model_validate(wished)
    except ValidationError as error:
        raise _invalid(settings, f"{key}: {faults(error)}") from None


def _invalid(settings: Settings, what: str) -> InputError:
    return InputError("project_file_invalid", f"{settings.user_path} cannot be used: {what}")
