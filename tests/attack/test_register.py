"""Every attack has a test of its name here, or a line in README.md that says where it is tested or why it waits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IDS = HERE.joinpath("ids.txt").read_text().split()
LINES = {
    match[1]: match[2].strip()
    for match in re.finditer(r"^\| ([A-Z]\d+) \| (.+) \|$", HERE.joinpath("README.md").read_text(), re.MULTILINE)
}


def ids_with_a_test() -> set[str]:
    text = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    return {name.upper() for name in re.findall(r"^(?:async )?def test_([a-z]\d+)_", text, re.MULTILINE)}


@pytest.mark.parametrize("attack_id", IDS)
def test_every_attack_has_a_test_or_a_line(attack_id):
    assert (attack_id in ids_with_a_test()) or LINES.get(attack_id)


def test_no_line_and_no_test_is_of_an_attack_that_there_is_not():
    assert set(LINES) | ids_with_a_test() <= set(IDS)
    assert not set(LINES) & ids_with_a_test(), "a test or a line, not both"


def test_every_place_that_a_line_names_is_there():
    for attack_id, line in LINES.items():
        places = re.findall(r"`(tests/[^`:]+)(?:::([^`]+))?`", line)
        assert places or line.startswith("waits:"), attack_id
        for path, name in places:
            assert ROOT.joinpath(path).exists(), (attack_id, path)
            if name:
                assert f"def {name}" in ROOT.joinpath(path).read_text(), (attack_id, name)
