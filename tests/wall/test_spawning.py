"""WALL rules 1 to 5 and 8: how a program is started, and what it may do to the one who starts it."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from mindx.core.command import Exec
from mindx.core.receipt import ExitCause
from tests.wall.support import HOPPER, STORM, Heard, children, first_pid, only_ours, python, sh, top, until

pytestmark = pytest.mark.anyio


async def test_rule_1_a_storm_of_signals_is_swept_before_the_next_spawn(sandbox):
    for _ in range(10):
        left = await sandbox.execute(sh(f"setsid python3 -c '{STORM}' & read line < /dev/null; sleep 0.05"))
        assert left.receipt.killed_count >= 1
        after = await asyncio.wait_for(sandbox.execute(sh("echo sound")), 5)
        assert (after.ok, after.stdout) == (True, b"sound\n")


async def test_rule_1_file_work_beside_a_storm_is_not_stopped(sandbox):
    heard = Heard()
    storm = asyncio.create_task(sandbox.execute(python(STORM, timeout_s=3), heard))
    await heard.first()
    for _ in range(200):
        await asyncio.wait_for(sandbox.manifest(), 5)
    assert (await storm).exit_cause in (ExitCause.TIMEOUT, ExitCause.SIGNAL)


async def test_rule_2_the_watchdog_is_root_and_holds_no_pipe_of_a_command(engine, sandbox):
    pid = first_pid(engine, sandbox)
    (dog,) = children(pid)
    assert sorted(int(name) for name in os.listdir(f"/proc/{dog}/fd")) == [0, 1, 2]
    assert os.stat(f"/proc/{dog}").st_uid == 0


async def test_rule_2_pid_1_restarts_the_watchdog(engine, sandbox):
    pid = first_pid(engine, sandbox)
    for _ in range(3):
        (dog,) = children(pid)
        os.kill(dog, signal.SIGKILL)
        await until(lambda dog=dog: len(children(pid)) == 1 and children(pid) != [dog])
        assert (await sandbox.execute(sh("true"))).ok


async def test_rule_3_all_four_ids_are_the_agents_and_no_capability_is_left(sandbox):
    result = await sandbox.execute(sh("cat /proc/self/status"))
    status = dict(line.split(":\t", 1) for line in result.stdout_text.splitlines())
    uid, gid = str(sandbox.ids.uid), str(sandbox.ids.gid)
    assert status["Uid"].split() == [uid] * 4
    assert status["Gid"].split() == [gid] * 4
    assert status["Groups"].split() == []
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


async def test_rule_3_the_way_back_to_root_is_closed_to_the_child(sandbox):
    code = """
import os
for call in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    try:
        call()
        print("root again")
    except PermissionError:
        pass
"""
    result = await sandbox.execute(python(code))
    assert (result.ok, result.stdout) == (True, b""), result.stderr_text


async def test_rule_3_the_agent_owns_its_streams(sandbox):
    script = "echo out > /dev/stdout; echo err > /dev/stderr; echo fd > /proc/self/fd/1; stat -Lc %u /dev/stdout"
    result = await sandbox.execute(sh(script))
    assert result.stdout_text == f"out\nfd\n{sandbox.ids.uid}\n"
    assert result.stderr == b"err\n"


async def test_rule_3_the_child_inherits_no_handle(sandbox):
    result = await sandbox.execute(sh("exec ls /proc/self/fd", stdin=b"x"))
    assert result.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is what ls opened


async def test_rule_4_pid_1_has_no_handlers_threads_or_blocked_signals(sandbox):
    result = await sandbox.execute(sh("sleep 0.3; cat /proc/1/status; echo; cat /proc/self/status"))
    first, own = result.stdout_text.split("\n\n")
    guest = dict(line.split(":", 1) for line in first.splitlines())
    child = dict(line.split(":", 1) for line in own.splitlines())
    assert guest["Threads"].strip() == "1"
    for status in (guest, child):
        assert int(status["SigCgt"], 16) == 0
        assert int(status["SigBlk"], 16) == 0
    assert int(child["SigIgn"], 16) & ~0b11 << 31 == 0  # 32 and 33 are the C library's own


async def test_rule_4_a_sigint_to_pid_1_does_nothing(sandbox):
    code = STORM.replace("while True", "for _ in range(20000)").replace("(1, -1)", "(1,)")
    result = await sandbox.execute(python(code, timeout_s=20))
    assert result.ok, result.receipt
    assert (await sandbox.execute(sh("true"))).ok


async def test_rule_5_children_are_the_first_to_go_and_pid_1_has_its_start_value_back(sandbox):
    read = "cat /proc/self/oom_score_adj"
    # PID 1 wears the child's value until the spawn has returned, which may be after the child's first steps.
    settled = "for i in 1 2 3 4 5 6 7 8 9; do grep -q 300 /proc/1/oom_score_adj && break; sleep 0.1; done"
    result = await sandbox.execute(sh(f"{settled}; {read} /proc/1/oom_score_adj; sh -c '{read}'"))
    assert result.stdout.split() == [b"1000", b"300", b"1000"]


async def test_rule_8_the_agent_has_a_name_and_a_home(sandbox):
    code = """
import getpass, json, os, pathlib, pwd, grp, stat
home = pathlib.Path.home()
print(json.dumps([getpass.getuser(), pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name, str(home),
    stat.S_IMODE(home.stat().st_mode), home.stat().st_uid == os.getuid(), os.access("/etc/passwd", os.W_OK)]))
"""
    names = json.loads((await sandbox.execute(python(code))).stdout)
    assert names == ["agent", "agent", "agent", "/tmp/home", 0o700, True, False]
    assert (await sandbox.execute(sh("whoami; id -un; id -gn"))).stdout.split() == [b"agent"] * 3


async def test_rule_8_git_trusts_the_workspace(sandbox):
    script = "mkdir -p rule8 && cd rule8 && git init -q . && git status --porcelain"
    result = await sandbox.execute(sh(script))
    assert (result.ok, result.stdout, result.stderr) == (True, b"", b"")


async def test_rule_7_hoppers_are_gone_and_listed(engine, sandbox):
    result = await sandbox.execute(sh(f"for i in 1 2 3 4 5 6 7 8; do python3 -c '{HOPPER}' & done; sleep 0.3"))
    assert result.receipt.killed_count >= 1
    assert only_ours(engine, sandbox), top(engine, sandbox)


async def test_rule_1_a_lease_cannot_be_had(sandbox):
    code = """
import fcntl, os
handle = os.open("leased", os.O_CREAT | os.O_RDWR)
for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
    try:
        fcntl.fcntl(handle, fcntl.F_SETLEASE, kind)
        print("leased")
    except OSError as error:
        print(error.errno)
"""
    result = await sandbox.execute(python(code))
    assert set(result.stdout.split()) <= {b"1", b"13", b"22"}, result
    assert result.stdout.split()


async def test_scripts_that_name_each_other_as_interpreters_are_no_programs(sandbox):
    """It is the script's fault: nothing in the background is in the way, and no limit is too low."""
    made = "printf '#!/workspace/b\\n' > a && printf '#!/workspace/a\\n' > b && chmod 755 a b"
    assert (await sandbox.execute(sh(made))).ok
    result = await sandbox.execute(Exec(("a",), executable="/workspace/a"))
    assert (result.exit_cause, result.exit_code) == (ExitCause.NOT_EXECUTABLE, None)
    assert (await sandbox.execute(sh("true"))).ok
