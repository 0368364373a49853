"""F10: files and answers that are small to send and huge to read. The host unpacks and expands nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mindx.core.command import Exec
from mindx.core.receipt import ExecResult, ExitCause, Receipt
from mindx.tools.base import ToolError
from mindx.tools.container_runner import read_answer
from mindx.tools.mcp.transport import _message

ROOT = Path(__file__).resolve().parents[2]
PLANT = r"""
import gzip, json, struct, zipfile, zlib
with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("zeros", bytes(64 << 20))
open("bomb.tar.gz", "wb").write(gzip.compress(bytes(64 << 20)))
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
header = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 6, 0, 0, 0)
pixels = chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
open("bomb.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels)
open("result.json", "w").write("[" * 200_000 + "]" * 200_000)
entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
open("junit.xml", "w").write(f'<!DOCTYPE t [<!ENTITY l0 "lol">{entities}]><testsuite name="&l11;"/>')
open("coverage.xml", "w").write('<!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]><coverage>&x;</coverage>')
open("regex.txt", "w").write("a" * 200_000 + "!")
open("pyproject.toml", "w").write("x = " + "[" * 100_000)
open("sparse", "wb").truncate(1 << 40)
"""
DEEP = b"[" * 100_000 + b"]" * 100_000


def mindx(state: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run mindx with at most 1 GiB of memory to its name."""
    program = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
    program += "from mindx.cli.main import main; sys.argv[0] = 'mindx'; main()"
    environment = {**os.environ, "MINDX_STATE_DIR": str(state)}
    return subprocess.run(
        [sys.executable, "-c", program, *words], cwd=ROOT, env=environment, capture_output=True, timeout=120
    )


@pytest.mark.usefixtures("derived_image")
def test_f10_planted_bombs_are_bytes_to_the_host(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    params = {"tool_id": "simple_coder", "command": "run", "argv": ["python3", "-c", PLANT]}
    plan.write_text(json.dumps([{"type": "EXECUTE_TOOL", "params": params}]))
    began = time.monotonic()
    ran = mindx(tmp_path / "state", "run", str(plan), "--policy", "python-dev", "--json")
    document = json.loads(ran.stdout)
    assert document["outcome"] == "completed", document["steps"][0]["stderr"]
    changed = {change["path"]: change for change in document["changes"]}
    assert {"bomb.zip", "bomb.tar.gz", "bomb.png", "result.json", "junit.xml", "coverage.xml", "sparse"} <= set(changed)
    assert not changed["sparse"]["stored"]
    for form in ("--patch", "--json", f"--html={tmp_path / 'page.html'}"):
        shown = mindx(tmp_path / "state", "changes", "show", "last", form)
        assert shown.returncode == 0, (form, shown.stderr[-500:])
        assert b"root:x:0:0" not in shown.stdout
    assert time.monotonic() - began < 60


def test_f10_answers_nested_without_end_are_typed() -> None:
    began = time.monotonic()
    assert isinstance(_message(b'{"jsonrpc":"2.0","id":1,"result":' + DEEP + b"}"), ValueError)
    assert isinstance(_message(b'{"jsonrpc":"2.0","id":' + b"9" * 1_000_000 + b"}"), ValueError)
    answered = ExecResult(Exec(("python3",)), Receipt(ExitCause.EXIT, 0), DEEP, b"")
    with pytest.raises(ToolError):
        read_answer("tool", answered)
    assert time.monotonic() - began < 10
