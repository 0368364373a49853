"""The stop switch: a file that a person sets, and that every campaign and the autonomous worker look at."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mindx.core.unwritable import state_unwritable
from mindx.errors import StateError
from mindx.runtime.tasks.atomic import read_file, replace_file

EVERY_S = 0.2
ALL = "*"


class StopSwitch:
    """The switch of one system. It stays set until a person releases it, also when no process runs."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "stop"

    def set(self, campaign_id: str = ALL) -> None:
        """Stop one campaign, or all of them and the worker; a switch that stops all stays so. Raises StateError."""
        if self.stops():
            return
        replace_file(self._path, campaign_id.encode())

    def release(self) -> bool:
        """Let campaigns be started again; return False when it was not set. Raises StateError."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise state_unwritable(self._path, error) from error
        return True

    def stops(self, campaign_id: str = ALL) -> bool:
        """Return whether this campaign (or, by default, everything) is to stop; what cannot be read stops all."""
        try:
            found = read_file(self._path, 4096)
        except StateError:
            return True
        return found is not None and found.decode("utf-8", "replace").strip() in (ALL, "", campaign_id)

    async def wait(self, campaign_id: str) -> None:
        """Return when this campaign is to stop."""
        # Another process sets it: there is no event to wait for.
        while not self.stops(campaign_id):  # noqa: ASYNC110
            await asyncio.sleep(EVERY_S)
