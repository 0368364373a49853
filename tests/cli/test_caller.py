"""Under sudo: the state files belong to the calling user, and nothing else is given away."""

import os

import pytest

from mindx.cli.caller import caller_ids, hand_over

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
CALLER = (4321, 4321)


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, *CALLER)
    return home


def test_who_called():
    assert caller_ids({"SUDO_UID": "1000", "SUDO_GID": "1001"}) == (1000, 1001)
    for environ in ({}, {"SUDO_UID": "x", "SUDO_GID": "1"}, {"SUDO_UID": "0", "SUDO_GID": "0"}, {"SUDO_UID": "1"}):
        assert caller_ids(environ) is None


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
