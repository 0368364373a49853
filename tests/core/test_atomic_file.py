"""A file that is written whole is never seen in part, whatever breaks."""

import os

import pytest

from mindx.core.atomic_file import write_whole


def test_a_file_is_replaced_or_as_it_was(tmp_path):
    """Whatever the pieces raise, the file is untouched and nothing lies beside it."""
    path = tmp_path / "state.json"
    write_whole(path, b"old")
    assert path.stat().st_mode & 0o777 == 0o600

    def pieces():
        yield b"new"
        raise ValueError("it breaks in the middle")

    with pytest.raises(ValueError):
        write_whole(path, pieces())
    assert os.listdir(tmp_path) == ["state.json"]
    assert path.read_bytes() == b"old"
    write_whole(path, (b"n", b"ew"))
    assert path.read_bytes() == b"new"
    with pytest.raises(OSError):
        write_whole(tmp_path / "nowhere" / "x", b"")


def test_a_link_is_replaced_and_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"kept")
    link = tmp_path / "state.json"
    link.symlink_to(other)
    write_whole(link, b"new")
    assert (other.read_bytes(), link.is_symlink()) == (b"kept", False)
