"""docs/society.md says what is so: the types, figures and rules of the Constitution and the Coordinator."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from mindx.agents.constitution import Constitution
from mindx.agents.coordinator.config import CoordinatorConfig
from mindx.agents.coordinator.events import MAX_FAILURES
from mindx.agents.coordinator.interaction import InteractionType
from mindx.agents.coordinator.interaction_store import KEPT_SMALL
from mindx.agents.coordinator.performance import WINDOW
from mindx.agents.coordinator.resources import ALERT_TOPIC, NAMESPACE, RESOLVED_TOPIC

TEXT = (Path(__file__).parents[2] / "docs" / "society.md").read_text()
PARTS = ("The Constitution", "The Coordinator")
PART = "".join(part for part in TEXT.split("\n## ") if part.startswith(PARTS))
PLAIN = " ".join(PART.split())


def test_every_type_of_interaction_is_told():
    table = "".join(re.findall(r"^\| (`.*?) \|", PART, re.M))
    told = set(re.findall(r"`([a-z_]+)`", table))
    assert told - {"trust", "never", "person"} == {kind.value for kind in InteractionType}


def test_the_figures_are_those_of_the_code():
    config = CoordinatorConfig()
    limits = config.resources
    for words in (
        f"have {config.listener_timeout_s:g} seconds each",
        f"({limits.cpu_percent:g}, {limits.memory_percent:g} and {limits.disk_percent:g} percent)",
        f"told again every {limits.repeat_s:g} s",
        f"the last {WINDOW} latencies",
        f"unless the machine is busier than {config.max_cpu_percent:g} percent",
        f"the latest {KEPT_SMALL:,}",
    ):
        assert words in PLAIN, words
    assert (config.max_improvements, config.max_heavy, config.max_interactions) == (1, 2, 8)
    assert "At most one improvement, two analyses or verifications and eight light requests" in PLAIN
    assert (config.cooldown_s, config.max_attempts, MAX_FAILURES) == (3 * 3600, 3, 3)
    assert "left alone for three hours, and an item is tried three times" in PLAIN
    assert {NAMESPACE, ALERT_TOPIC, RESOLVED_TOPIC} <= set(re.findall(r"`([a-z.]+)`", PART))


def test_the_example_of_a_file_of_ones_own_loads(tmp_path):
    file = tmp_path / "constitution.yaml"
    file.write_text(re.findall(r"```yaml\n(.*?)```", PART, re.S)[0])
    assert {rule.name for rule in Constitution.load(file).document.never} >= {"not-the-billing", "the-wall-stays"}


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", PART, re.S)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert done.stdout == "there is a gap\ncompleted 1\nconstitution_forbids\n"
