"""docs/agents.md says what is so."""

import re
import subprocess
import sys
from pathlib import Path

from mindx import AgentState, ErrorCode
from mindx.core.agent_state import TRANSITIONS

DOCS = Path(__file__).parents[2] / "docs" / "agents.md"


def test_every_error_code_is_explained():
    table = DOCS.read_text().partition("## Errors of a run")[2]
    told = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.M))))
    assert told == {code.value for code in ErrorCode}


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"


def test_every_state_can_be_reached():
    reached, found = set(), {AgentState.IDLE}
    while found - reached:
        state = (found - reached).pop()
        reached.add(state)
        found |= TRANSITIONS[state]
    assert reached == set(AgentState)
