"""The command line as a user has it: a real process, a real engine, a state folder of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

COMMAND = (sys.executable, "-m", "mindx.cli.main")
CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION", "GITLAB_CI", "BUILDKITE", "JENKINS_URL")


@dataclass(frozen=True)
class Done:
    """What a process left."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def err(self) -> str:
        return self.stderr.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


class Mindx:
    """Starts `mindx`; its folder is the working directory."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        self.state = state
        self.env = {name: value for name, value in os.environ.items() if name not in CI_VARIABLES}
        self.env |= {"MINDX_STATE_DIR": str(state), "NO_COLOR": "1"}

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        env = self.env | options.pop("env", {})
        return subprocess.Popen([*COMMAND, *arguments], cwd=self.folder, env=env, **options)

    def __call__(self, *arguments: str, stdin: bytes | None = None, **options: Any) -> Done:
        options |= {} if stdin is None else {"stdin": subprocess.PIPE}
        with self.start(*arguments, **options) as process:
            stdout, stderr = process.communicate(stdin, timeout=100)
        return Done(process.returncode, stdout or b"", stderr or b"")

    def watched(self, text: str) -> None:
        """Wait until `mindx watch` shows this text of the run that goes on."""
        with self.start("watch") as process:
            try:
                assert process.stdout is not None
                assert any(text.encode() in line for line in process.stdout), f"{text!r} never came"
            finally:
                process.kill()

    def plan(self, actions: Sequence[Any], name: str = "plan.json") -> str:
        (self.folder / name).write_text(json.dumps(actions))
        return name


@pytest.fixture
def mindx(tmp_path: Path, state_dir: Path) -> Mindx:
    """`mindx` without a promise of an engine: for what must not need one."""
    folder = tmp_path / "folder"
    folder.mkdir()
    return Mindx(folder, state_dir)


@pytest.fixture
def engine_mindx(mindx: Mindx, derived_image: Any) -> Mindx:
    """`mindx` where the image is there already."""
    return mindx


@pytest.fixture
def script(mindx: Mindx) -> Callable[..., str]:
    """A function that writes a script of a model's turns into the folder and returns its name."""

    def write(*turns: Any) -> str:
        (mindx.folder / "turns.jsonl").write_text("".join(f"{json.dumps(turn)}\n" for turn in turns))
        return "turns.jsonl"

    return write
