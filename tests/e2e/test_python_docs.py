"""Every block of docs/python.md runs and prints what stands under it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.M | re.S)


def test_every_block_is_found():
    assert len(BLOCKS) == TEXT.count("```python\n") >= 6


@pytest.mark.parametrize(("title", "code", "output"), BLOCKS, ids=[block[0] for block in BLOCKS])
def test_a_block_prints_what_stands_under_it(title, code, output, derived_image, state_dir, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    command = [sys.executable, "-W", "error", "-c", code]
    env = {**os.environ, "MINDX_STATE_DIR": str(state_dir)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == (output, "")
