"""The whole way, from the command line to the container and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "mindx.cli.main")


class Mindx:
    """Starts `mindx` in the checkout, with a state folder of the test's own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.env = {**os.environ, "MINDX_STATE_DIR": str(state), "CI": ""}

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        env = self.env | streams.pop("env", {})
        return subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, env=env, **streams)

    def __call__(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        with self.start(*arguments, **options) as process:
            stdout, stderr = process.communicate(timeout=110)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def document(self, *arguments: str, **options: Any) -> Any:
        return json.loads(self(*arguments, **options).stdout)


@pytest.fixture
def mindx(state_dir: Path, derived_image: Any) -> Mindx:
    return Mindx(state_dir)
