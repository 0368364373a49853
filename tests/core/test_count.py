"""Counts as people write them."""

import re
from pathlib import Path

import pytest

import mindx
from mindx.core.count import counted


@pytest.mark.parametrize(
    ("count", "noun", "told"),
    [
        (0, "step", "0 steps"),
        (1, "step", "1 step"),
        (1024, "byte", "1,024 bytes"),
        (2, "try", "2 tries"),
        (2, "key", "2 keys"),
        (2, "process", "2 processes"),
        (1, "more fault", "1 more fault"),
    ],
)
def test_a_noun_agrees_with_its_count(count, noun, told):
    assert counted(count, noun) == told


def test_the_command_line_counts_by_the_one_helper():
    """`1 runs` is never shown: a number straight before a plural is written by `counted`, not by hand."""
    by_hand = re.compile(
        r"\{[^{}\"']*\}[^\S\n](more )?"
        r"(actions|attempts|bytes|calls|changes|events|files|lines|missions|packages|runs|steps|tools|warnings)\b"
    )
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted((Path(mindx.__file__).parent / "cli").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if by_hand.search(line)
    ]
    assert found == []
