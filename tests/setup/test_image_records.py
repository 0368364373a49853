"""Definitions, records, the lock, and the folders that they live in."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from mindx.core.data_files import data_path
from mindx.core.folders import state_dir as find_state_dir
from mindx.errors import ImageError
from mindx.sandbox.base_build import parse_import
from mindx.sandbox.image_definition import definition_names, parse_definition, read_definition
from mindx.sandbox.image_records import BaseImage, PackageVersion, add_record, locked, read_records
from mindx.sandbox.mmdebstrap import failure_of


def make_image(image_id: str) -> BaseImage:
    package = PackageVersion(name="git", version="1:2.39", architecture="amd64")
    return BaseImage(
        name="probe",
        image_id=image_id,
        definition_sha256="1-0",
        distribution="Debian",
        built_at="2026-01-01T00:00:00+00:00",
        host_certificates=0,
        packages=(package,),
    )


def test_the_newest_record_comes_first(state_dir: Path) -> None:
    for image_id in ("sha256:a", "sha256:b", "sha256:a"):
        add_record(make_image(image_id))
    assert [image.image_id for image in read_records("probe")] == ["sha256:a", "sha256:b"]
    assert read_records("probe")[0].packages[0].version == "1:2.39"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 1}', "\ud800".encode("utf-8", "surrogatepass")])
def test_a_record_that_is_not_understood_counts_as_none(state_dir: Path, content: str | bytes) -> None:
    raw = content if isinstance(content, bytes) else content.encode()
    (state_dir / "images/probe.json").write_bytes(raw)
    assert read_records("probe") == ()


@pytest.mark.parametrize("name", ["", "../python", "Python", "a/b", "a b", "-x", "x" * 60])
def test_a_name_that_is_none_is_refused(state_dir: Path, name: str) -> None:
    with pytest.raises(ImageError) as caught:
        read_definition(name)
    assert caught.value.code == "image_unknown"


def test_an_unknown_image_names_those_that_there_are() -> None:
    with pytest.raises(ImageError, match=r"known: .*python"):
        read_definition("no-such-image")


def test_a_misspelt_image_is_told_the_name_that_was_meant() -> None:
    with pytest.raises(ImageError, match=r"did you mean `python`\?"):
        read_definition("pyton")


def test_a_package_that_there_is_not_is_told_as_such() -> None:
    """Not as trouble with apt: the name in the project's mindx.yaml is wrong, and another try would not help."""
    said = ["I: running apt-get install...", "E: Unable to locate package jqq", "E: setup failed: exit code 100"]
    error = failure_of(said)
    assert error.code == "image_package_unknown"
    assert "no package jqq." in error.message
    assert failure_of(["E: setup failed"]).code == "image_build_failed"


def test_every_definition_that_we_ship_can_be_read() -> None:
    assert "python" in definition_names()
    for name in definition_names():
        definition, digest = read_definition(name)
        assert definition.packages
        assert len(digest) == 64


@pytest.mark.parametrize(
    "text",
    [
        "packages: [",
        "[]",
        "description: x\npackages: [git]\nextra: 1\n",
        "description: x\npackages: ['git --option']\n",
        "description: x\npackages: [git]\nlinks: {'/usr/bin/$(id)': x}\n",
        "description: x\npackages: [git]\nlinks: {'/../x': x}\n",
        "description: x\npackages: [git]\nvariant: custom\n",
    ],
)
def test_a_definition_is_closed_and_plain(text: str) -> None:
    with pytest.raises(ImageError) as caught:
        parse_definition(text.encode(), Path("image.yaml"))
    assert caught.value.code == "image_bad_definition"
    assert "image.yaml" in caught.value.message


def test_two_holders_of_a_lock_take_turns(state_dir: Path) -> None:
    waited, entered = threading.Event(), threading.Event()

    def second() -> None:
        with locked("probe", waited.set):
            entered.set()

    with locked("probe"):
        other = threading.Thread(target=second)
        other.start()
        assert waited.wait(10)
        assert not entered.is_set()
    assert entered.wait(10)
    other.join()


def test_the_lock_is_free_after_an_exception(state_dir: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locked("probe"):
        raise KeyboardInterrupt
    descriptor = os.open(state_dir / "images/probe.lock", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def test_a_state_folder_that_cannot_be_used_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINDX_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(ImageError, match="MINDX_STATE_DIR") as caught, locked("probe"):
        pass
    assert caught.value.code == "image_state_unusable"


def test_the_state_folder_is_the_one_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDX_STATE_DIR", str(tmp_path))
    assert find_state_dir() == tmp_path
    monkeypatch.setenv("MINDX_STATE_DIR", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert find_state_dir() == tmp_path / "xdg/mindx"


def test_data_is_found_and_stays_inside_its_folder() -> None:
    assert data_path("sandbox_images", "python/image.yaml").is_file()
    for name in ("../pyproject.toml", "/etc/passwd"):
        with pytest.raises(ValueError, match="is not a name"):
            data_path("policies", name)


def test_a_fault_in_the_engines_answer_to_an_import_is_an_error() -> None:
    said = '{"status":"Importing"}\n{"error":"write /x: no space left on device"}\n'
    with pytest.raises(Exception, match="disk is full"):
        parse_import(said, "python")
    with pytest.raises(Exception, match="named no image"):
        parse_import('{"status":"Importing"}\n', "python")
    assert parse_import('{"status":"sha256:0123"}\n', "python") == "sha256:0123"
