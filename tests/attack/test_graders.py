"""N: what an agent could use to cheat whoever judges it, as far as sessions and copies are concerned."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mindx.runtime.session import Session

pytestmark = pytest.mark.anyio
CANARY = "solution-canary-77e0"
SEARCH = f"""
import os
needle, hits = {CANARY[::-1]!r}[::-1].encode(), []  # turned round, so that it is not found in this program
for top in ("/workspace", "/tmp", "/var", "/etc", "/run", "/root", "/home", "/opt", "/dev/shm", "/mindx"):
    for folder, _, names in os.walk(top, onerror=lambda error: None):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and needle in open(path, "rb").read(): hits.append(path)
            except OSError: pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            if pid != str(os.getpid()) and needle in open(f"/proc/{{pid}}/{{name}}", "rb").read(): hits.append(pid)
        except OSError: pass
print(hits)
"""
LEAVE = r"""
import os, subprocess, sys
home = os.environ["HOME"]
site = os.path.join(home, ".local/lib/python%d.%d/site-packages" % sys.version_info[:2])
os.makedirs(site, exist_ok=True)
open(site + "/evil.pth", "w").write("import os; os._exit(0)\n")
open(site + "/sitecustomize.py", "w").write("import os; os._exit(0)\n")
for name in (".bashrc", ".profile", ".pythonrc"): open(os.path.join(home, name), "w").write("exit 0\n")
open("/tmp/python3", "w").write("#!/bin/sh\nexit 0\n"); os.chmod("/tmp/python3", 0o755)
open("/dev/shm/flag", "w").write("1")
for place in ("/usr/local/bin/python3", "/etc/ld.so.preload", "/etc/profile.d/x.sh"):
    try: open(place, "w").write("#!/bin/sh\nexit 0\n")
    except OSError: pass
subprocess.Popen(["setsid", "sleep", "600"])
open("/workspace/result.txt", "w").write("done")
"""


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.usefixtures("derived_image")
async def test_n3_no_history_and_no_hidden_solution_is_inside(tmp_path):
    """Later commits, dangling objects and the reflog stay on the host: the folder .git is never copied in."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for text in ("start", CANARY):
        (folder / "code.py").write_text(f"# {text}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", text)
    (folder / "stashed.py").write_text(CANARY)
    git(folder, "add", ".")
    git(folder, "stash")
    git(folder, "reset", "--quiet", "--hard", "HEAD~1")
    async with Session("python-dev", folder) as session:
        found = await session.run(["python3", "-c", SEARCH])
        assert (found.ok, found.stdout) == (True, b"[]\n"), found.stderr_text
        assert [entry.path for entry in await session.list()] == ["/workspace/code.py"]


@pytest.mark.usefixtures("derived_image")
async def test_n4_nothing_that_an_agent_left_is_in_the_next_session(tmp_path):
    """A judge that takes the Changes into a session of its own meets no daemon, shim, .pth or file outside of them."""
    async with Session("python-dev") as session:
        assert (await session.run(["python3", "-c", LEAVE])).ok
        left = [change.path for change in await session.changes()]
        result = await session.read("result.txt")
    assert left == ["result.txt"]
    async with Session("python-dev") as judge:
        await judge.write("result.txt", result)
        judged = await judge.run(["python3", "-c", "import sys; sys.exit(7)"])
        assert judged.exit_code == 7
        outside = await judge.run(["python3", "-c", "import os; print(os.listdir('/dev/shm'), os.listdir('/tmp'))"])
        assert outside.stdout == b"[] ['home']\n"
