"""Every example of docs/examples.md runs and prints what stands under it; no example is left out."""

from pathlib import Path

import pytest

from scripts.examples_page import PATH, ROOT, blocks, run

BLOCKS = blocks(PATH.read_text(encoding="utf-8"))


def test_every_example_is_on_the_page():
    commands = " ".join(command for command, _ in BLOCKS)
    examples = [path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".json", ".py")]
    assert len(examples) >= 10
    assert [name for name in examples if f"examples/{name}" not in commands] == []


@pytest.mark.parametrize(("command", "output"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_an_example_prints_what_stands_under_it(command, output, derived_image, state_dir: Path):
    assert run(command, MINDX_STATE_DIR=str(state_dir)) == output
