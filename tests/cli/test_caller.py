"""Under sudo: the state files belong to the calling user, and nothing else is given away."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mindx.cli.caller import hand_over
from mindx.core.folders import calling_home, calling_user, state_dir
from tests.cli.conftest import COMMAND

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
CALLER = (4321, 4321)


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, *CALLER)
    return home


def test_who_called():
    assert calling_user({"SUDO_UID": "1000", "SUDO_GID": "1001"}) == (1000, 1001)
    for environ in ({}, {"SUDO_UID": "x", "SUDO_GID": "1"}, {"SUDO_UID": "0", "SUDO_GID": "0"}, {"SUDO_UID": "1"}):
        assert calling_user(environ) is None


def test_a_run_under_sudo_leaves_files_of_the_caller(mindx, home):
    state = home / "state"
    plan = mindx.plan([{"type": "THINK", "params": {"thought": "x"}}])
    environ = {
        "MINDX_STATE_DIR": str(state),
        "SUDO_UID": "4321",
        "SUDO_GID": "4321",
        "DOCKER_HOST": "tcp://127.0.0.1:1",
    }
    assert mindx("run", plan, env=environ).code in (0, 4)
    found = list(state.rglob("*"))
    assert [path for path in found if path.name == "result.json"]
    assert {path.lstat().st_uid for path in (state, *found)} == {4321}


def test_links_and_files_with_other_names_stay(home, tmp_path):
    state = home / "state"
    (state / "runs").mkdir(parents=True)
    outside = tmp_path / "shadow"
    outside.write_text("root's")
    os.link(outside, state / "runs" / "hard")
    (state / "runs" / "soft").symlink_to(outside)
    (state / "elsewhere").symlink_to(tmp_path)
    (state / "runs" / "own").write_text("")
    os.mkfifo(state / "runs" / "fifo")
    assert hand_over(state, CALLER) == 3  # two folders and one file
    assert outside.stat().st_uid == 0
    assert tmp_path.stat().st_uid == 0
    assert (state / "runs" / "own").stat().st_uid == 4321


def test_a_folder_of_root_stays(tmp_path):
    (tmp_path / "state").mkdir()
    assert hand_over(tmp_path / "state", CALLER) == 0
    assert hand_over(tmp_path / "none", CALLER) == 0


@pytest.fixture
def roots(tmp_path):
    """Root's own folder, with a folder of the caller in it, as a service may make one."""
    folder = tmp_path / "service" / "state"
    folder.mkdir(parents=True)
    (folder / "key").write_text("root's")
    os.chown(folder, *CALLER)
    return folder


def test_a_link_that_the_caller_planted_in_the_path_is_not_followed(home, roots):
    (home / ".local").symlink_to(roots.parent)
    assert hand_over(home / ".local" / "state", CALLER) == 0
    (home / "state").symlink_to(roots)
    assert hand_over(home / "state", CALLER) == 0
    assert (roots / "key").stat().st_uid == 0


def test_a_parent_that_is_swapped_while_it_is_looked_at_gives_nothing_away(home, roots, monkeypatch):
    state = home / "deep" / "state"
    state.mkdir(parents=True)
    (state / "own").write_text("")
    real = os.fwalk

    def swapped(*args, **kwargs):
        (home / "deep").rename(home / "away")
        (home / "deep").symlink_to(roots.parent)
        return real(*args, **kwargs)

    os.chown(home / "deep", *CALLER)
    monkeypatch.setattr(os, "fwalk", swapped)
    assert hand_over(state, CALLER) == 2
    assert (roots / "key").stat().st_uid == 0
    assert (home / "away" / "state" / "own").stat().st_uid == 4321


def test_a_link_of_root_in_a_folder_of_root_is_followed(home, tmp_path):
    (home / "state").mkdir()
    (tmp_path / "homes").symlink_to(home)
    assert hand_over(tmp_path / "homes" / "state", CALLER) == 1
    assert (home / "state").stat().st_uid == 4321
    os.chown(tmp_path / "homes", 1, 1, follow_symlinks=False)
    os.chown(home / "state", 0, 0)
    assert hand_over(tmp_path / "homes" / "state", CALLER) == 0


@pytest.fixture
def as_caller(tmp_path, home):
    """Run a program in a mount namespace whose list of users names the caller; `sudo` and `setpriv` are the real ones.

    The keyword `sudo` True: as root that the caller has become by sudo, with root's home; False: as the caller.
    """
    users = tmp_path / "passwd"
    users.write_text(Path("/etc/passwd").read_text() + f"caller:x:4321:4321::{home}:/bin/sh\n")
    roots = tmp_path / "roots-home"
    roots.mkdir()
    rules = tmp_path / "sudoers"
    rules.write_text("caller ALL=(ALL) NOPASSWD: ALL\n")
    rules.chmod(0o440)
    shadow = tmp_path / "shadow"
    shadow.write_text("root:*:19000:0:99999:7:::\ncaller:*:19000:0:99999:7:::\n")
    shadow.chmod(0o600)

    def run(*argv, sudo):
        with_sudo = shutil.which("sudo") is not None
        mounts = [f"mount --bind {users} /etc/passwd"]
        drop = ["setpriv", "--reuid=4321", "--regid=4321", "--clear-groups"]
        if not sudo:
            start = [*drop, "env", f"HOME={home}"]
        elif with_sudo:
            mounts += [f"mount --bind {rules} /etc/sudoers", f"mount --bind {shadow} /etc/shadow"]
            start = [*drop, "sudo", "-n", "env", f"HOME={roots}"]
        else:
            start = ["env", f"HOME={roots}", "SUDO_UID=4321", "SUDO_GID=4321", "SUDO_USER=caller"]
        script = " && ".join([*mounts, 'exec "$@"'])
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("MINDX_", "XDG_"))}
        command = ["unshare", "-m", "sh", "-c", script, "sh", *start, *argv]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=home, stdin=subprocess.DEVNULL)
        assert not list(roots.iterdir()), "something was written into root's home"
        return done

    tmp_path.chmod(0o755)
    return run


def test_sudo_uses_the_callers_state_and_settings(as_caller, home, derived_image):
    config = home / ".config" / "mindx" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("policy: read-only\n")
    shown = as_caller(*COMMAND, "config", "show", "--json", sudo=True)
    settings = json.loads(shown.stdout)["settings"]
    assert settings["policy"] == {"value": "read-only", "origin": str(config)}
    assert settings["state_dir"]["value"] == str(home / ".local/state/mindx")
    (home / "plan.json").write_text(json.dumps([{"type": "THINK", "params": {"thought": "x"}}]))
    done = as_caller(*COMMAND, "run", "plan.json", "-q", sudo=True)
    assert done.returncode == 0, done.stderr
    made = list((home / ".local").rglob("*"))
    assert [path for path in made if path.name == "result.json"]
    assert {path.lstat().st_uid for path in (home / ".local", *made)} == {4321}


def test_a_link_on_the_way_to_the_state_folder_is_refused(as_caller, home, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / ".local").symlink_to(elsewhere)
    done = as_caller(*COMMAND, "runs", "list", sudo=True)
    assert (done.returncode, "No link may be on the way" in done.stderr) == (4, True), done.stderr
    assert not list(elsewhere.iterdir())


def test_what_root_calls_by_itself_is_roots(as_caller, monkeypatch):
    monkeypatch.setenv("SUDO_UID", "0")
    monkeypatch.setenv("SUDO_GID", "0")
    monkeypatch.delenv("MINDX_STATE_DIR")
    assert calling_home() is None
    assert state_dir().is_relative_to(Path.home())
