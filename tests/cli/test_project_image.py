"""A project's own image: only when trusted, of just these files, built once, and without a network when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from mindx.core.folders import CONFIG_VARIABLE
from mindx.errors import InputError
from mindx.project_file import trust_project_file
from mindx.sandbox.base_image import LABEL_NAME, ensure_base, rebuild_base
from mindx.sandbox.dockerfile import find_fault
from mindx.sandbox.image_catalog import list_images, remove_images
from mindx.sandbox.project_image import ProjectImage, find_project_image, remember_project_image, remembered_images
from mindx.settings import effective_policy

PINNED = "registry.example/tools@sha256:" + "0" * 64
DOCKERFILE = """ARG BASE
FROM ${BASE} AS first
RUN echo built > /opt/first
FROM $BASE
COPY --from=first /opt/first /opt/
COPY notes.txt /opt/
RUN cat /opt/first /opt/notes.txt \\
    # where it goes
    > /opt/both && chmod 4755 /opt/both && ls -A /proc/self/cwd > /dev/null
"""


@pytest.fixture
def project(mindx, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a Dockerfile that nobody has trusted yet."""
    mindx.env[CONFIG_VARIABLE] = str(mindx.folder.parent / "config")
    monkeypatch.setenv(CONFIG_VARIABLE, mindx.env[CONFIG_VARIABLE])
    for name in ("MINDX_POLICY", "MINDX_IMAGE"):
        monkeypatch.delenv(name, raising=False)
        mindx.env.pop(name, None)
    folder: Path = mindx.folder
    (folder / "mindx.yaml").write_text("image: {dockerfile: Dockerfile, files: [notes.txt]}\n")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    (folder / "notes.txt").write_text("by the project\n")
    (folder / "other.txt").write_text("no business of the build\n")
    return folder


@pytest.fixture
def tidy(engine: docker.DockerClient, project: Path) -> Iterator[None]:
    """Remove the images that a test has made."""
    yield
    names = sorted(remembered_images().items(), key=lambda item: not item[1].image.dockerfile)
    for name, _ in names:
        remove_images(engine, name)
    assert not [name for name, _ in names if engine.api.images(filters={"label": f"{LABEL_NAME}={name}"})]


def test_it_is_built_once_trusted_and_a_session_starts_from_it(
    engine_mindx, project: Path, engine: docker.DockerClient, tidy: None
) -> None:
    refused = engine_mindx("exec", "--workspace", ".", "--", "cat", "/opt/both")
    assert refused.code == 125
    assert "read it, Dockerfile, notes.txt, then: mindx trust" in refused.err
    assert remembered_images() == {}
    assert engine_mindx("trust", ".").out.startswith("mindx.yaml with Dockerfile, notes.txt is trusted while")
    built = engine_mindx("image", "build", "--project", ".", "--json")
    assert built.code == 0, built.err
    name = built.json["name"]
    assert [row.state for row in list_images(engine) if row.name == name] == ["ready"]
    # What its first stage left has the labels of the base, and is none.
    assert [row.state for row in list_images(engine) if row.name == "python"].count("ready") == 1
    # The mode shows that the image was sealed after the project's own steps.
    done = engine_mindx(
        "exec", "--workspace", ".", "--", "sh", "-c", "cat /opt/both; stat -c %a /opt/both; wc -l /proc/net/route"
    )
    assert done.out == "built\nby the project\n755\n1 /proc/net/route\n", done.err
    assert "building" not in done.err
    assert engine_mindx("exec", "--", "cat", "/opt/both").code != 0  # the image is that project's alone
    assert engine_mindx("exec", "--image", "python", "--workspace", ".", "--", "ls", "/opt").out == ""


def test_trust_ends_with_any_of_its_files(project: Path) -> None:
    trust_project_file(project / "mindx.yaml")
    name = effective_policy(None, None, project).policy.image
    assert name.startswith("project-")
    (project / "other.txt").write_text("changed")
    assert effective_policy(None, None, project).policy.image == name
    for changed in ("notes.txt", "Dockerfile"):
        before = (project / changed).read_text()
        (project / changed).write_text(before + "\n#\n")
        with pytest.raises(InputError, match="mindx trust"):
            effective_policy(None, None, project)
        (project / changed).write_text(before)
    assert effective_policy(None, None, project).policy.image == name


def test_the_users_own_choice_of_an_image_stands(project: Path) -> None:
    trust_project_file(project / "mindx.yaml")
    own = project.parent / "own.yaml"
    own.write_text("version: 1\nimage: node\ncommands:\n  - allow: cat\n")
    assert effective_policy(str(own), None, project).policy.image == "node"
    assert effective_policy(None, "python", project).policy.image == "python"


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("{dockerfile: ../Dockerfile}", "outside the project"),
        ("{dockerfile: link/Dockerfile}", "outside the project"),
        ("{dockerfile: missing}", "missing"),
        ("{dockerfile: Dockerfile, files: [link]}", "link"),
        ("{packages: [--hook=sh]}", "not a name of a package"),
        ("{packages: ['jq,curl']}", "not a name of a package"),
        ("{base: project-1, packages: [jq]}", "own image"),
        ("{files: [notes.txt]}", "adds nothing"),
        ("{}", "adds nothing"),
        ("{package: [jq]}", "did you mean `packages`?"),
        ("{dockerfile: tag}", "line 1: FROM debian:12"),
    ],
)
def test_what_cannot_be_built_is_said_at_trust(project: Path, image: str, words: str) -> None:
    (project / "link").symlink_to(project.parent)
    (project / "tag").write_text("FROM debian:12\n")
    (project / "mindx.yaml").write_text(f"image: {image}\n")
    with pytest.raises(InputError) as caught:
        trust_project_file(project / "mindx.yaml")
    assert (caught.value.code, words in caught.value.message) == ("project_file_invalid", True), caught.value.message


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ARG BASE\nFROM $BASE\n", ""),
        ("# hello\n\nFROM scratch\n", ""),
        (f"FROM --platform=linux/amd64 {PINNED} as Tools\nFROM tools\nCOPY --from=Tools /a /b\n", ""),
        ("FROM $BASE\nFROM 0\n", ""),
        ("FROM python\n", "line 1: FROM python"),
        ("from \\\n  # which one\n  python:3\n", "line 1: FROM python:3"),
        ("FROM later\nFROM $BASE AS later\n", "line 1: FROM later"),
        ("FROM $OTHER\n", "line 1: FROM $OTHER"),
        ("FROM $BASE\nCOPY --chown=1 --from=tools:1 /a /b\n", "line 2: --from=tools:1"),
        ("# syntax=docker/dockerfile:1\nFROM $BASE\n", "line 1: write it without"),
        ("#escape=`\nFROM $BASE\n", "line 1: write it without"),
        ("FROM a b\n", "line 1: 'FROM a b' is not understood"),
        ("RUN true\n", "no FROM"),
    ],
)
def test_a_dockerfile_begins_with_the_base_or_a_digest(text: str, fault: str) -> None:
    found = find_fault(text)
    assert found == "" if fault == "" else fault in found, found


def test_a_step_that_fails_says_what_it_said(
    engine: docker.DockerClient, project: Path, base_image, tidy: None
) -> None:
    image = ProjectImage(dockerfile="ARG BASE\nFROM $BASE\nRUN echo no moon today >&2; exit 3\n")
    name = remember_project_image(image, project)
    with pytest.raises(Exception, match=r"returned a non-zero code: 3.*no moon today") as caught:
        rebuild_base(engine, name)
    assert caught.value.code == "image_build_failed"  # type: ignore[attr-defined]
    assert [row.state for row in list_images(engine) if row.name == name] == ["missing"]


@pytest.mark.timeout(900)  # it builds a whole image, on a machine that may be busy
def test_packages_of_the_distribution_are_added(
    engine: docker.DockerClient, project: Path, tidy: None, engine_mindx
) -> None:
    """The only test that builds a whole image: what it adds is there, and so is all of the base."""
    (project / "mindx.yaml").write_text("image: {packages: [file], dockerfile: Dockerfile, files: [notes.txt]}\n")
    trust_project_file(project / "mindx.yaml")
    name = effective_policy(None, None, project).policy.image
    ensure_base(engine, name)
    done = engine_mindx("exec", "--workspace", ".", "--", "sh", "-c", "file -b notes.txt; cat /opt/both; git --version")
    assert done.out.startswith("ASCII text\nbuilt\nby the project\ngit version"), done.err
    parent = find_project_image(name).parent
    assert parent is not None
    assert {name, parent.name} <= {row.name for row in list_images(engine) if row.state == "ready"}
    # The project asks for something else: what it asked for before goes with `remove --old`.
    (project / "mindx.yaml").write_text("image: {packages: [file]}\n")
    trust_project_file(project / "mindx.yaml")
    states = {(row.name, row.state) for row in list_images(engine)}
    assert states >= {(name, "old"), (parent.name, "ready")}
    assert (name, "ready") not in states
    remove_images(engine, name)
    assert name not in remembered_images()
