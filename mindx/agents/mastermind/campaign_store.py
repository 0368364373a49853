"""Where campaigns are kept: each in a folder of its own, and the history of all in one file that only grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mindx.agents.mastermind.campaign import StrategicCampaign
from mindx.core.nearest import nearest_id
from mindx.core.quote import quoted
from mindx.core.validation import faults
from mindx.errors import InputError, StateError
from mindx.runtime.run_ids import checked_id
from mindx.runtime.tasks.atomic import load_all, names_in, read_file, replace_file

HISTORY_FILE = "mastermind_campaign_history.json"
MAX_KEPT = 1000  # campaigns in the history; older ones stay in their folders
MAX_FILE = 64 * 1024 * 1024  # bytes


class CampaignHistory(BaseModel):
    """The file: the campaigns that have ended, the oldest first, without their facts. `revision` counts the writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = 1
    revision: int = 0
    campaigns: tuple[StrategicCampaign, ...] = Field(default=(), max_length=MAX_KEPT)


class CampaignStore:
    """The campaigns below `folder` (a system's state folder); its holder of the lock is the one writer.

    Raises InputError: id_invalid, campaign_unknown, campaign_corrupt; StateError, also campaign_history_corrupt.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history_path = folder / HISTORY_FILE

    def path(self, campaign_id: str) -> Path:
        """Return the folder of a campaign. Raises InputError (id_invalid)."""
        return self.folder / "campaigns" / checked_id(campaign_id, "campaign's id")

    def save(self, campaign: StrategicCampaign) -> None:
        """Write a campaign; one that has ended goes into the history too, once, with its latest end."""
        replace_file(self.path(campaign.campaign_id) / "campaign.json", campaign.model_dump_json(indent=1).encode())
        if not campaign.status.ended:
            return
        history = self.history()
        bare = campaign.model_copy(update={"facts": {}})
        kept = [one for one in history.campaigns if one.campaign_id != campaign.campaign_id]
        changed = CampaignHistory(revision=history.revision + 1, campaigns=tuple([*kept, bare][-MAX_KEPT:]))
        replace_file(self.history_path, changed.model_dump_json(indent=1).encode() + b"\n")

    def load(self, campaign_id: str) -> StrategicCampaign:
        """Return a campaign. Raises InputError (campaign_unknown, campaign_corrupt), StateError."""
        path = self.path(campaign_id) / "campaign.json"
        data = read_file(path, MAX_FILE)
        if data is None:
            hint = nearest_id(campaign_id, names_in(self.folder / "campaigns"), "`mindx campaign list` names them")
            raise InputError("campaign_unknown", f"there is no campaign {quoted(campaign_id)}; {hint}")
        try:
            found = StrategicCampaign.model_validate_json(data)
        except ValidationError as error:
            message = f"the record {path} of a campaign is damaged ({faults(error, 1)}); it was left as it is"
            raise InputError("campaign_corrupt", message, details={"path": str(path)}) from None
        if found.campaign_id != campaign_id:
            raise InputError("campaign_corrupt", f"{path} is the record of another campaign")
        return found

    def list(self) -> tuple[StrategicCampaign, ...]:
        """Return all campaigns, the latest first; a damaged one is left out."""
        return tuple(
            sorted(load_all(self.folder / "campaigns", self.load), key=lambda one: one.created_at, reverse=True)
        )

    def history(self) -> CampaignHistory:
        """Return the history. Raises StateError (campaign_history_corrupt): a damaged file is never written over."""
        data = read_file(self.history_path, MAX_FILE)
        if data is None:
            return CampaignHistory()
        try:
            return CampaignHistory.model_validate_json(data)
        except ValidationError as error:
            message = (
                f"{self.history_path} is damaged ({faults(error, 1)}); it was left as it is: mend it or move it away"
            )
            details: dict[str, Any] = {"path": str(self.history_path)}
            raise StateError("campaign_history_corrupt", message, details=details) from None
