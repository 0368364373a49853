"""Images by name: listed, shown, exported, imported and removed; with a tiny image of the test's own."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from mindx.errors import ImageError
from mindx.sandbox import image_definition
from mindx.sandbox.base_image import LABEL_DEFINITION, LABEL_NAME, definition_digest, find_base, reference_of
from mindx.sandbox.bill_of_materials import bill_of_materials
from mindx.sandbox.image_archive import CONTENT, MANIFEST, export_image, import_image
from mindx.sandbox.image_catalog import list_images, remove_images, show_image
from mindx.sandbox.image_records import BaseImage

STATUS = b"Package: moon\nStatus: install ok installed\nVersion: 1:2.0+dfsg~1\nArchitecture: all\n\n"


def tar_of(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name.replace("__", "/"))
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def tiny(
    engine: docker.DockerClient, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The name of an image that holds nothing but a list of packages; it is gone afterwards."""
    name = f"tiny-{secrets.token_hex(4)}"
    folder = tmp_path / "images" / name
    folder.mkdir(parents=True)
    (folder / "image.yaml").write_text("description: nothing but a list\npackages: [moon]\n")
    monkeypatch.setattr(image_definition, "data_path", lambda kind, rest="": tmp_path / "images" / rest)
    put(engine, name, definition_digest(name), reference_of(name))
    yield name
    for image in engine.api.images(filters={"label": f"{LABEL_NAME}={name}"}):
        engine.api.remove_image(image["Id"], force=True)


def put(engine: docker.DockerClient, name: str, definition: str, reference: str) -> None:
    repository, _, tag = reference.rpartition(":")
    changes = [f"LABEL {LABEL_NAME}={name}", f"LABEL {LABEL_DEFINITION}={definition}", "LABEL mindx.distribution=Test"]
    content = tar_of(var__lib__dpkg__status=STATUS)
    engine.api.import_image_from_data(content, repository=repository, tag=tag, changes=changes)


def silent(line: str) -> None:
    pass


def test_an_image_is_listed_and_shown(engine: docker.DockerClient, tiny: str) -> None:
    (row,) = list_images(engine)
    assert (row.name, row.state, row.description, row.sessions) == (tiny, "ready", "nothing but a list", 0)
    shown, record = show_image(engine, tiny)
    assert shown.image_id == record.image_id == row.image_id
    assert [(one.name, one.version) for one in record.packages] == [("moon", "1:2.0+dfsg~1")]


def test_what_is_not_built_is_missing(engine: docker.DockerClient, tiny: str, tmp_path: Path) -> None:
    remove_images(engine, tiny)
    (row,) = list_images(engine)
    assert (row.state, row.image_id) == ("missing", "")
    for call in (show_image, remove_images):
        with pytest.raises(ImageError, match="mindx image") as caught:
            call(engine, tiny)
        assert caught.value.code == "image_missing"


def test_an_image_of_another_definition_is_old_and_can_go(engine: docker.DockerClient, tiny: str) -> None:
    put(engine, tiny, "0-older", f"mindx-base-{tiny}:older")
    old = [row for row in list_images(engine) if row.state == "old"]
    assert len(old) == 1
    assert old[0].image_id in remove_images(engine, None)
    assert [row.state for row in list_images(engine)] == ["ready"]


def test_an_image_goes_out_and_comes_back(engine: docker.DockerClient, tiny: str, tmp_path: Path) -> None:
    before = find_base(engine, tiny)
    assert before is not None
    file = tmp_path / "tiny.tar"
    manifest = export_image(engine, tiny, file, silent)
    assert sorted(path.name for path in tmp_path.glob("*tiny.tar*")) == ["tiny.tar"]
    with pytest.raises(ImageError) as caught:
        export_image(engine, tiny, file, silent)
    assert caught.value.code == "image_file_exists"
    assert remove_images(engine, tiny)
    assert find_base(engine, tiny) is None
    back = import_image(engine, file, silent)
    assert back == before
    assert find_base(engine, tiny) == before
    with tarfile.open(file) as archive:
        assert archive.getnames() == [MANIFEST, CONTENT]
        assert archive.getmember(CONTENT).size == manifest.size


def test_a_file_that_was_changed_is_not_loaded(engine: docker.DockerClient, tiny: str, tmp_path: Path) -> None:
    file = tmp_path / "tiny.tar"
    manifest = export_image(engine, tiny, file, silent)
    remove_images(engine, tiny)
    whole = file.read_bytes()
    at = whole.index(b"Package: moon")
    file.write_bytes(whole[:at] + b"Package: noon" + whole[at + 13 :])
    with pytest.raises(ImageError, match="digest") as caught:
        import_image(engine, file, silent)
    assert caught.value.code == "image_file_damaged"
    document = manifest.plain()
    document["image"]["definition_sha256"] = "3-other"
    said = json.dumps(document).encode()
    file.write_bytes(tar_of(**{MANIFEST: said, CONTENT: b""}))
    with pytest.raises(ImageError, match="another definition"):
        import_image(engine, file, silent)
    for content in (b"", b"no archive", tar_of(other=b"x"), tar_of(**{MANIFEST: b"{}", CONTENT: b"x"}), whole[:2000]):
        file.write_bytes(content)
        with pytest.raises(ImageError) as caught:
            import_image(engine, file, silent)
        assert caught.value.code == "image_file_damaged"
    assert find_base(engine, tiny) is None


def test_a_file_cannot_put_an_image_behind_another_name(engine: docker.DockerClient, tiny: str, tmp_path: Path) -> None:
    """A stranger's file may fit by its digests and still hold names that are the user's."""
    file, victim = tmp_path / "tiny.tar", f"victim-{secrets.token_hex(4)}:latest"
    manifest = export_image(engine, tiny, file, silent)
    with tarfile.open(file) as archive:
        content = archive.extractfile(CONTENT)
        assert content is not None
        honest = content.read()

    def write(listing: list[dict[str, Any]]) -> None:
        said = json.dumps(listing).encode()
        with tarfile.open(fileobj=io.BytesIO(honest)) as old:
            parts = {member.name: old.extractfile(member) for member in old if member.isfile()}
            whole = tar_of(**{name: part.read() for name, part in parts.items() if part} | {"manifest.json": said})
        document = manifest.plain() | {"sha256": hashlib.sha256(whole).hexdigest(), "size": len(whole)}
        file.write_bytes(tar_of(**{MANIFEST: json.dumps(document).encode(), CONTENT: whole}))

    with tarfile.open(fileobj=io.BytesIO(honest)) as old:
        found = old.extractfile("manifest.json")
        assert found is not None
        (listed,) = json.loads(found.read())
    remove_images(engine, tiny)
    write([listed | {"RepoTags": [manifest.reference, victim]}])
    assert import_image(engine, file, silent).name == tiny
    with pytest.raises(docker.errors.ImageNotFound):
        engine.api.inspect_image(victim)
    remove_images(engine, tiny)
    for listing in (
        [listed, listed | {"RepoTags": [victim]}],
        [],
        [listed | {"Config": "../x"}],
        [listed | {"Layers": ["manifest.json"]}],
        [listed | {"Layers": ["not-there"]}],
        [{}],
    ):
        write(listing)
        with pytest.raises(ImageError) as caught:
            import_image(engine, file, silent)
        assert caught.value.code == "image_file_damaged"
    assert find_base(engine, tiny) is None


def test_the_bill_of_materials_names_every_package(engine: docker.DockerClient, tiny: str) -> None:
    _, record = show_image(engine, tiny)
    bill = bill_of_materials(record)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    (component,) = bill["components"]
    assert component["purl"] == "pkg:deb/debian/moon@1%3A2.0%2Bdfsg~1?arch=all"
    assert bill == bill_of_materials(record)


def test_the_commands(base_image: BaseImage) -> None:
    listed = run("image", "list", "--json")
    assert ("python", "ready") in {(row["name"], row["state"]) for row in listed["images"]}
    shown = run("image", "show", "python", "--json")
    assert shown["image_id"] == base_image.image_id
    assert shown["labels"]["org.opencontainers.image.title"] == "mindx-base-python"
    assert run("image", "build", "--json")["image_id"] == base_image.image_id
    assert len(run("image", "show", "python", "--sbom")["components"]) == len(base_image.packages)


def run(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, "-m", "mindx.cli.main", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_setup_leaves_alone_what_is_there(base_image: BaseImage) -> None:
    done = subprocess.run([sys.executable, "-m", "mindx.cli.main", "setup"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[:3]) == (0, ["python", "is", "there"]), done.stderr


@pytest.mark.parametrize("arguments", [["image", "remove"], ["image", "remove", "python", "--old"]])
def test_what_is_removed_is_said_clearly(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "mindx.cli.main", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
