"""The control group's files, version 1 (as this engine's container showed them) and version 2 (as the kernel's
documentation of cgroup-v2 gives them), read by the guest's own code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindx.guest import cgroup

DATA = Path(__file__).parent / "data"


@pytest.fixture(params=["1", "2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    for name, text in json.loads((DATA / f"cgroup_v{request.param}.json").read_text("utf-8")).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "ascii")
    return request.param, tmp_path


def test_limits(tree: tuple[str, Path]) -> None:
    version, root = tree
    assert cgroup.limits(str(root)) == {
        "cgroup_version": version,
        "memory_limit": "268435456",
        "memory_swap_limit": "268435456" if version == "1" else "0",
        "pids_limit": "64",
        "cpuset": "0",
        "cpu_quota": "-1" if version == "1" else "max 100000",
    }


def counted(root: Path) -> tuple[int, ...]:
    count = cgroup.Counters(str(root)).look()
    return count.oom_kills, count.pids_refused, count.throttled, count.throttled_us


def test_counters(tree: tuple[str, Path]) -> None:
    version, root = tree
    assert counted(root) == ((0, 0, 0, 0) if version == "1" else (2, 5, 7, 350_000))
    assert cgroup.Counters(str(root)).look().memory_peak > 0


@pytest.mark.parametrize("tree", ["1"], indirect=True)
def test_counters_of_version_1_that_have_counted(tree: tuple[str, Path]) -> None:
    _, root = tree
    (root / "memory/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "ascii")
    (root / "pids/pids.events").write_text("max 4\n", "ascii")
    (root / "cpu/cpu.stat").write_text("nr_periods 9\nnr_throttled 2\nthrottled_time 5000000\n", "ascii")
    assert counted(root) == (3, 4, 2, 5_000)


def test_a_controller_that_is_not_there_is_no_guess(tmp_path: Path) -> None:
    limits = cgroup.limits(str(tmp_path))
    assert set(limits.values()) == {"", "1"}
    assert counted(tmp_path) == (0, 0, 0, 0)


def test_an_unlimited_group_says_so(tree: tuple[str, Path]) -> None:
    version, root = tree
    if version == "1":
        (root / "pids/pids.max").write_text("max\n", "ascii")
    else:
        (root / "pids.max").write_text("max\n", "ascii")
    assert cgroup.limits(str(root))["pids_limit"] == "max"
