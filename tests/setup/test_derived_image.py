"""The image that sessions start from, on the real engine."""

from __future__ import annotations

import io
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from mindx.errors import ImageError
from mindx.sandbox.image import DerivedImage, ensure_derived, entrypoint, prune_derived
from mindx.sandbox.image_records import BaseImage


def run(engine: docker.DockerClient, image_id: str, script: str) -> str:
    output = engine.containers.run(
        image_id, ["-c", script], remove=True, network_mode="none", read_only=True, user="0:0", entrypoint=["/bin/bash"]
    )
    return output.decode()


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    """A guest of this test alone, so that its image is too."""
    folder = tmp_path / "guest"
    folder.mkdir()
    (folder / "__main__.py").write_text(f"import os, part\nprint(os.getpid(), part.NAME)  # {uuid.uuid4()}\n")
    (folder / "part.py").write_text("NAME = 'part'\n")
    return folder


@pytest.fixture
def derived(engine: docker.DockerClient, base_image: BaseImage, guest: Path) -> Iterator[DerivedImage]:
    image = ensure_derived(engine, base_image.image_id, guest_folder=guest)
    yield image
    engine.api.remove_image(image.image_id, force=True, noprune=True)


def test_the_guest_runs_as_the_first_process(engine: docker.DockerClient, derived: DerivedImage) -> None:
    output = engine.containers.run(
        derived.image_id, entrypoint=entrypoint(derived.python), remove=True, network_mode="none", read_only=True
    )
    assert output == b"1 part\n"


def test_nothing_in_it_gives_privileges(engine: docker.DockerClient, derived: DerivedImage) -> None:
    find = "find / -xdev -perm /6000 -not -path '/proc/*' | wc -l"
    assert run(engine, derived.image_id, find) == "0\n"
    # The base has some, or the test above would show nothing.
    assert run(engine, derived.base_id, find) != "0\n"
    code = "import os; print([p for d, _, f in os.walk('/usr') for n in f"
    code += " if 'security.capability' in os.listxattr(p := os.path.join(d, n), follow_symlinks=False)])"
    assert run(engine, derived.image_id, f'python3 -c "{code}"') == "[]\n"


def test_our_files_belong_to_root_and_are_read_only(engine: docker.DockerClient, derived: DerivedImage) -> None:
    script = "find /mindx -printf '%m %U:%G %y\n' | sort -u"
    assert run(engine, derived.image_id, script).splitlines() == ["444 0:0 f", "555 0:0 d"]
    listed = run(engine, derived.image_id, "ls /mindx/guest /mindx/guest/__pycache__ /mindx")
    assert "part.py" in listed
    assert "part.cpython-" in listed
    assert "seal.py" not in listed


def test_users_are_named_by_the_guest(engine: docker.DockerClient, derived: DerivedImage) -> None:
    script = "readlink /etc/passwd /etc/group; stat -c '%a %u' /run/mindx; grep -c ^root: /mindx/passwd /mindx/group"
    assert run(engine, derived.image_id, script).splitlines() == [
        "/run/mindx/passwd",
        "/run/mindx/group",
        "755 0",
        "/mindx/passwd:1",
        "/mindx/group:1",
    ]


def test_the_workspace_is_absent_and_git_trusts_it(engine: docker.DockerClient, derived: DerivedImage) -> None:
    assert (
        run(engine, derived.image_id, "test ! -e /workspace && git config --system --get-all safe.directory") == "*\n"
    )


def test_a_second_time_it_is_found_by_one_call(
    engine: docker.DockerClient, derived: DerivedImage, guest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    send = engine.api.send

    def count(request, **options):  # type: ignore[no-untyped-def]
        calls.append(request.url)
        return send(request, **options)

    monkeypatch.setattr(engine.api, "send", count)
    assert ensure_derived(engine, derived.base_id, guest_folder=guest) == derived
    assert len(calls) == 1


def test_another_guest_makes_another_image(
    engine: docker.DockerClient, derived: DerivedImage, guest: Path, tmp_path: Path
) -> None:
    other_guest = tmp_path / "other"
    other_guest.mkdir()
    (other_guest / "__main__.py").write_text((guest / "__main__.py").read_text() + "# more\n")
    other = ensure_derived(engine, derived.base_id, guest_folder=other_guest)
    try:
        assert other.guest_sha256 != derived.guest_sha256
        assert other.image_id != derived.image_id
    finally:
        engine.api.remove_image(other.image_id, force=True, noprune=True)


def test_a_tag_that_was_moved_is_not_believed(engine: docker.DockerClient, derived: DerivedImage, guest: Path) -> None:
    (tag,) = engine.api.inspect_image(derived.image_id)["RepoTags"]
    repository, name = tag.split(":")
    engine.api.tag(derived.base_id, repository, name)
    again = ensure_derived(engine, derived.base_id, guest_folder=guest)
    assert again.image_id != derived.base_id
    assert engine.api.inspect_image(tag)["Id"] == again.image_id
    engine.api.remove_image(again.image_id, force=True, noprune=True)


def make_image(engine: docker.DockerClient, files: dict[str, bytes], changes: list[str]) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    tag = uuid.uuid4().hex
    engine.api.import_image_from_data(buffer.getvalue(), repository="mindx-test", tag=tag, changes=changes)
    return str(engine.api.inspect_image(f"mindx-test:{tag}")["Id"])


def test_an_image_without_python_is_refused(engine: docker.DockerClient, guest: Path) -> None:
    image_id = make_image(engine, {"etc/motd": b"empty\n"}, ["ENV PATH=/bin"])
    try:
        with pytest.raises(ImageError, match=r"no Python 3\.8") as caught:
            ensure_derived(engine, image_id, guest_folder=guest)
        assert caught.value.code == "image_no_python"
    finally:
        engine.api.remove_image(image_id, force=True, noprune=True)
    assert not engine.api.containers(all=True, filters={"ancestor": image_id})


def test_an_image_whose_python_is_too_old_is_refused(
    engine: docker.DockerClient, base_image: BaseImage, guest: Path
) -> None:
    container = engine.api.create_container(base_image.image_id, ["true"])["Id"]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        # What our script does under such a Python, without an old Python at hand.
        content = b"#!/bin/sh\nexit 3\n"
        member = tarfile.TarInfo("usr/local/bin/python3")
        member.size, member.mode = len(content), 0o755
        archive.addfile(member, io.BytesIO(content))
    engine.api.put_archive(container, "/", buffer.getvalue())
    image_id = engine.api.commit(container)["Id"]
    engine.api.remove_container(container)
    try:
        with pytest.raises(ImageError) as caught:
            ensure_derived(engine, image_id, guest_folder=guest)
        assert caught.value.code == "image_no_python"
    finally:
        engine.api.remove_image(image_id, force=True, noprune=True)


def test_an_image_with_volumes_is_refused(engine: docker.DockerClient, base_image: BaseImage, guest: Path) -> None:
    container = engine.api.create_container(base_image.image_id, ["true"])["Id"]
    image_id = engine.api.commit(container, changes=["VOLUME /data"])["Id"]
    engine.api.remove_container(container)
    try:
        with pytest.raises(ImageError, match="/data") as caught:
            ensure_derived(engine, image_id, guest_folder=guest)
        assert caught.value.code == "image_has_volumes"
    finally:
        engine.api.remove_image(image_id, force=True, noprune=True)


def test_an_image_that_is_not_there_is_refused(engine: docker.DockerClient, guest: Path) -> None:
    with pytest.raises(ImageError) as caught:
        ensure_derived(engine, "sha256:" + "0" * 64, guest_folder=guest)
    assert caught.value.code == "image_missing"


def test_pruning_spares_todays_image(
    engine: docker.DockerClient, derived_image: DerivedImage, base_image: BaseImage, guest: Path
) -> None:
    old = ensure_derived(engine, base_image.image_id, guest_folder=guest)
    removed = prune_derived(engine)
    assert old.image_id in removed
    assert derived_image.image_id not in removed
    assert engine.api.inspect_image(derived_image.image_id)["Id"] == derived_image.image_id
