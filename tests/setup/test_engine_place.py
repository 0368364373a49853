"""Where an engine is looked for: the order, and that what the user named is never replaced."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import docker
import pytest

from mindx.errors import EngineError
from mindx.sandbox import engine_place
from mindx.sandbox.engine import connect, connect_place
from mindx.sandbox.engine_place import find_places

REAL_SOCKET = engine_place.DEFAULT_SOCKET


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without engines, and no default socket."""
    monkeypatch.setattr(engine_place, "DEFAULT_SOCKET", tmp_path / "none" / "docker.sock")
    (tmp_path / "runtime" / "podman").mkdir(parents=True)
    (tmp_path / ".docker").mkdir()
    return tmp_path


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "runtime"), **more}


def context(home: Path, name: str, host: object, *, active: bool = True) -> None:
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker" / "contexts" / "meta" / key / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host}}}))
    if active:
        (home / ".docker" / "config.json").write_text(json.dumps({"currentContext": name}))


def test_a_docker_host_is_the_only_place(home: Path) -> None:
    context(home, "far", "unix:///elsewhere.sock")
    (place,) = find_places(environ(home, DOCKER_HOST="tcp://127.0.0.1:1", DOCKER_CONTEXT="far"))
    assert (place.address, place.origin, place.named) == ("tcp://127.0.0.1:1", "DOCKER_HOST", True)


def test_the_active_context_is_the_only_place(home: Path) -> None:
    (home / "runtime" / "docker.sock").touch()
    context(home, "far", "unix:///elsewhere.sock")
    (place,) = find_places(environ(home))
    assert (place.address, place.named) == ("unix:///elsewhere.sock", True)
    with pytest.raises(EngineError, match=r"elsewhere\.sock \(the docker context far") as caught:
        connect(environ(home))
    assert caught.value.code == "engine_missing"


def test_a_context_by_variable_goes_before_the_active_one(home: Path) -> None:
    context(home, "near", "unix:///near.sock", active=False)
    context(home, "far", "unix:///far.sock")
    (place,) = find_places(environ(home, DOCKER_CONTEXT="near"))
    assert place.address == "unix:///near.sock"
    assert find_places(environ(home, DOCKER_CONTEXT="default"))[0].origin == "the default socket"


def test_a_context_may_have_certificates_of_its_own(home: Path) -> None:
    context(home, "far", "tcp://127.0.0.1:1")
    folder = home / ".docker" / "contexts" / "tls" / hashlib.sha256(b"far").hexdigest() / "docker"
    folder.mkdir(parents=True)
    (place,) = find_places(environ(home))
    assert place.certificates == folder
    with pytest.raises(EngineError) as caught:
        connect(environ(home))
    assert caught.value.code == "engine_tls"


@pytest.mark.parametrize("host", ["", None, 3])
def test_a_context_that_is_not_understood_is_an_error(home: Path, host: object) -> None:
    context(home, "bad", host)
    with pytest.raises(EngineError, match="docker context ls") as caught:
        find_places(environ(home))
    assert caught.value.code == "engine_context_unknown"
    with pytest.raises(EngineError, match="the docker context gone"):
        find_places(environ(home, DOCKER_CONTEXT="gone"))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"currentContext": 3}', '{"currentContext": "default"}'])
def test_without_an_active_context_there_is_the_default(home: Path, text: str) -> None:
    (home / ".docker" / "config.json").write_text(text)
    assert [place.origin for place in find_places(environ(home))] == ["the default socket"]


def test_known_sockets_are_tried_in_order_when_they_exist(home: Path, engine: docker.DockerClient) -> None:
    # Nobody listens on the first; the last is a way to the real engine.
    runtime = home / "runtime"
    (runtime / "docker.sock").symlink_to("/dev/null")
    (runtime / "podman" / "podman.sock").symlink_to(REAL_SOCKET)
    places = find_places(environ(home))
    assert [place.origin for place in places] == ["the rootless engine's socket", "Podman's socket"]
    client, place = connect_place(environ(home))
    client.close()
    assert place.origin == "Podman's socket"


def test_when_none_answers_the_first_is_told(home: Path) -> None:
    with pytest.raises(EngineError, match=r"none/docker\.sock") as caught:
        connect(environ(home))
    assert caught.value.code == "engine_missing"
