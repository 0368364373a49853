"""I5: the state folder is full or read-only: typed, no torn record, and the next run works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LACKS = "" if os.geteuid() == 0 and shutil.which("unshare") else "a file system of the test's own needs root"
pytestmark = [
    pytest.mark.skipif(bool(LACKS), reason=LACKS or "there is one"),
    pytest.mark.usefixtures("derived_image"),
]
MINDX = f"{sys.executable} -m mindx.cli.main"


def in_folder(folder: Path, options: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script with a small file system of its own as the state folder."""
    folder.mkdir()
    mounted = f'mount -t tmpfs -o {options} none "$MINDX_STATE_DIR" && {{ {script} }}'
    environment = {**os.environ, "MINDX_STATE_DIR": str(folder)}
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )


def plan(folder: Path, *argv: str) -> Path:
    path = folder / "plan.json"
    params = {"tool_id": "simple_coder", "command": "run", "argv": list(argv)}
    path.write_text(json.dumps([{"type": "EXECUTE_TOOL", "params": params}]))
    return path


def test_i5_a_read_only_state_folder_is_told_before_anything_runs(tmp_path: Path) -> None:
    ran = in_folder(tmp_path / "state", "ro", f"{MINDX} run {plan(tmp_path, 'true')} --json;")
    assert ran.returncode == 4, ran.stderr
    document = json.loads(ran.stdout)
    assert document["error"]["code"] == "state_unwritable"
    assert "MINDX_STATE_DIR" in document["error"]["message"]


def test_i5_a_full_disk_tears_no_record_and_with_room_again_the_next_run_works(tmp_path: Path) -> None:
    loud = plan(tmp_path, "head", "-c", "1000000", "/dev/zero")
    script = f"""
        {MINDX} run {loud} --json > {tmp_path}/first.json; echo first $?
        {MINDX} trace verify last --json > {tmp_path}/trace.json; echo trace $?
        find "$MINDX_STATE_DIR/runs" -name '.*.json.*'
        rm -r "$MINDX_STATE_DIR/runs"
        {MINDX} run {loud} --json > {tmp_path}/second.json; echo second $?
        mount -o remount,size=64m "$MINDX_STATE_DIR"
        {MINDX} run {loud} --json > {tmp_path}/third.json; echo third $?
    """
    ran = in_folder(tmp_path / "state", "size=600k", script)
    assert ran.stdout.split("\n")[:4] == ["first 4", "trace 0", "second 4", "third 0"], (ran.stdout, ran.stderr)
    first = json.loads((tmp_path / "first.json").read_text())
    assert first["outcome"] == "error"
    assert first["error"]["code"] == "output_unwritable"
    assert json.loads((tmp_path / "trace.json").read_text())["ok"] is True
    assert json.loads((tmp_path / "third.json").read_text())["outcome"] == "completed"
