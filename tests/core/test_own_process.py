"""A process of our own takes no module from the folder that the user stands in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mindx.agents.agent_process import AgentProcess
from mindx.agents.improvement.call import COMMAND
from mindx.core.own_process import own_module, own_program

ROOT = Path(__file__).resolve().parents[2]
TRAPS = ("asyncio", "json", "mindx", "runpy", "pydantic", "logging")


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, a stranger's: its modules leave a mark when they are imported."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'a').write({name!r})\n", "utf-8")
    monkeypatch.chdir(folder)
    return tmp_path / "sprung"


@pytest.mark.parametrize(
    "argv",
    [
        own_program("import asyncio, json, mindx; mindx.Session"),
        own_program("import asyncio, json, mindx; mindx.Session", here=True),
        own_module("mindx.agents.worker_program", "nothing:at_all"),
        [*COMMAND, "--help"],
        [*AgentProcess("nothing:at_all")._command],
    ],
)
def test_nothing_of_the_folder_is_imported(trapped: Path, argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert not trapped.exists(), trapped.read_text()
    assert "nothing" in done.stderr or done.returncode == 0, done.stderr


def test_what_is_found_nowhere_else_may_be_taken_from_the_folder(trapped: Path) -> None:
    Path("mine.py").write_text("print('mine')\n", "utf-8")
    done = subprocess.run(own_program("import mine", here=True), capture_output=True, text=True, timeout=60)
    assert done.stdout == "mine\n"
    assert subprocess.run(own_program("import mine"), capture_output=True, timeout=60).returncode != 0


def test_a_folder_that_is_gone_hurts_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    argv = own_program("import mindx; print('here')", here=True)
    monkeypatch.chdir(tmp_path)
    assert subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout == "here\n"


def test_no_other_place_starts_our_python() -> None:
    """`-I` looks in no folder, and a script looks in its own."""
    for path in (ROOT / "mindx").rglob("*.py"):
        if "guest" in path.parts or path.name in ("own_process.py", "image_seal.py"):
            continue
        for line in re.findall(r".*sys\.executable.*", path.read_text("utf-8")):
            assert '"-I"' in line or "data_path(" in line, f"{path.name}: {line.strip()}"
