"""Lock files: one holder at a time, and who only looks keeps nobody out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindx.core.lock_file import hold_lock


def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    held = hold_lock(path)
    assert held is not None
    assert hold_lock(path, 0.0) is None
    os.close(held)
    again = hold_lock(path, 0.0)
    assert again is not None
    os.close(again)


def test_who_comes_to_work_waits_for_who_only_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = hold_lock(tmp_path / "lock")
    assert looking is not None
    monkeypatch.setattr("mindx.core.lock_file.time.monotonic", lambda: 0.0)
    monkeypatch.setattr("mindx.core.lock_file.time.sleep", lambda seconds: os.close(looking))
    held = hold_lock(tmp_path / "lock")
    assert held is not None
    os.close(held)


def test_a_link_is_no_lock_file(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        hold_lock(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()
