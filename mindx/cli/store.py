"""The user's run folders, as the verbs that read them need them."""

from __future__ import annotations

from mindx.core.folders import state_dir
from mindx.trace.run_folder import RunStore


def run_store() -> RunStore:
    """Return the user's run folders."""
    return RunStore(state_dir() / "runs")
