"""docs/mind.md says what is so."""

import re
import subprocess
import sys
from pathlib import Path

from mindx.agents.bdi import BDIStatus
from mindx.agents.bdi.own_actions import OWN_TYPES
from mindx.agents.beliefs import BeliefSource

TEXT = (Path(__file__).parents[2] / "docs" / "mind.md").read_text()


def test_the_example_runs():
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", TEXT, re.S) if "BDIAgent" in code]
    done = subprocess.run([sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("GOAL_ACHIEVED 51\n", "")


def test_types_of_action_statuses_and_sources_are_told():
    assert all(f"`{name}`" in TEXT for name in OWN_TYPES)
    assert all(status.value in TEXT for status in BDIStatus if status.terminal and "INIT" not in status.value)
    assert all(source.value in TEXT for source in BeliefSource)
