"""The derived image, which sessions start from: a base image, sealed, with our guest in it.

It is made by one container whose file system is committed, not by a builder: one layer, the same on every engine, and
the path of the image's Python is known when the labels are written (docs/decisions/0001).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindx.core.frozen import dataclass
from mindx.errors import ImageError
from mindx.sandbox import engine_way
from mindx.sandbox.build_leftovers import CONTAINER_PREFIX, container_name
from mindx.sandbox.image_records import locked
from mindx.sandbox.owner import Owner

if TYPE_CHECKING:
    import docker

REPOSITORY = "mindx-session"
GUEST_PATH = "/mindx/guest"
LABEL_GUEST = "mindx.guest"
LABEL_BASE = "mindx.base"
LABEL_PYTHON = "mindx.python"

_SOURCE = Path(__file__).resolve().parent
_GUEST_FOLDER = _SOURCE.parent / "guest"
_SEAL = _SOURCE / "image_seal.py"
_SEAL_TIMEOUT_S = 120
_TOO_OLD = 3
_ABANDONED_S = 600
# Raise it when this module itself makes something else of the same files.
_RECIPE = b"1"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DerivedImage:
    """One derived image. `python` is the absolute path of the interpreter in it that runs the guest."""

    image_id: str
    base_id: str
    guest_sha256: str
    python: str


def ensure_derived(
    client: docker.DockerClient, base_id: str, progress: Progress | None = None, guest_folder: Path | None = None
) -> DerivedImage:
    """Return the derived image of `base_id` (an image's id), made first if the engine has none; blocking.

    One call of the engine when it is there. `guest_folder` is mindx's own guest when None. Raises EngineError, or
    ImageError: image_missing, image_has_volumes, image_no_python, image_seal_failed, image_state_unusable.
    """
    files = _guest_files(guest_folder or _GUEST_FOLDER)
    guest_sha256 = _digest(files)
    known = _find(client, base_id, guest_sha256)
    if known is not None:
        return known
    progress = progress or (lambda line: None)
    with locked("derived", lambda: progress("waiting for another process that prepares an image")):
        known = _find(client, base_id, guest_sha256)
        if known is None:
            progress("preparing the image for sessions")
            known = _make(client, base_id, guest_sha256, files)
        return known


def guest_digest(guest_folder: Path | None = None) -> str:
    """Return the sha256 of all that we put into an image: the guest and how it is put there."""
    return _digest(_guest_files(guest_folder or _GUEST_FOLDER))


def prune_derived(client: docker.DockerClient) -> list[str]:
    """Remove derived images of another guest than today's, and what an interrupted build left; return their ids.

    An image that a container still uses is kept, and so is a build of the last ten minutes: it may be somebody's.
    Raises EngineError.
    """
    removed: list[str] = []
    try:
        for container in client.api.containers(all=True, filters={"name": f"^/?{CONTAINER_PREFIX}"}):
            if time.time() - container["Created"] > _ABANDONED_S and _remove_container(client, container["Id"]):
                removed.append(container["Id"])
        for image in client.api.images(filters={"label": LABEL_GUEST}):
            old = image["Labels"].get(LABEL_GUEST) != guest_digest() or not image.get("RepoTags")
            if old and _remove_image(client, image["Id"]):
                removed.append(image["Id"])
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, "remove old images") from error
    return removed


def _remove_image(client: docker.DockerClient, image_id: str) -> bool:
    try:
        # Without noprune the base image goes too when nothing else names it.
        client.api.remove_image(image_id, noprune=True)
    except engine_way.errors.APIError as error:
        return _let_pass(error)
    return True


def _remove_container(client: docker.DockerClient, container_id: str) -> bool:
    try:
        client.api.remove_container(container_id, v=True, force=True)
    except engine_way.errors.APIError as error:
        return _let_pass(error)
    return True


def _let_pass(error: engine_way.errors.APIError) -> bool:
    """Return False when it is gone, in use, or being removed by someone else; else raise the error again."""
    if engine_way.is_gone(error):
        return False
    raise error


@lru_cache(maxsize=4)
def _guest_files(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """Return the guest's files by name; read once a process, so that one process never mixes two guests."""
    return tuple((path.name, path.read_bytes()) for path in sorted(folder.glob("*.py")))


def _digest(files: tuple[tuple[str, bytes], ...]) -> str:
    total = hashlib.sha256(_RECIPE)
    for name, content in (*files, ("seal", _SEAL.read_bytes())):
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


def _tag(base_id: str, guest_sha256: str) -> str:
    return hashlib.sha256(f"{base_id}\0{guest_sha256}".encode()).hexdigest()[:32]


def _find(client: docker.DockerClient, base_id: str, guest_sha256: str) -> DerivedImage | None:
    """Look by tag, which is the digest of both parts; a tag that someone moved does not carry the labels."""
    try:
        found = client.api.inspect_image(f"{REPOSITORY}:{_tag(base_id, guest_sha256)}")
    except engine_way.errors.ImageNotFound:
        return None
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, "look for the image for sessions") from error
    labels = found["Config"].get("Labels") or {}
    if labels.get(LABEL_BASE) != base_id or labels.get(LABEL_GUEST) != guest_sha256 or not labels.get(LABEL_PYTHON):
        return None
    return DerivedImage(found["Id"], base_id, guest_sha256, labels[LABEL_PYTHON])


def _make(
    client: docker.DockerClient, base_id: str, guest_sha256: str, files: tuple[tuple[str, bytes], ...]
) -> DerivedImage:
    _check_base(client, base_id)
    with _build_container(client, base_id) as container_id:
        found = _seal(client, container_id, base_id, files)
        labels = {LABEL_GUEST: guest_sha256, LABEL_BASE: base_id, LABEL_PYTHON: found["python"]}
        changes = [f"LABEL {name}={json.dumps(value)}" for name, value in labels.items()]
        changes += ["USER 0:0", "WORKDIR /", "CMD []", f"ENTRYPOINT {json.dumps(entrypoint(found['python']))}"]
        try:
            tag = _tag(base_id, guest_sha256)
            made = client.api.commit(container_id, REPOSITORY, tag, changes=changes)
        except engine_way.ENGINE_EXCEPTIONS as error:
            raise engine_way.engine_error(error, "keep the image for sessions") from error
    return DerivedImage(made["Id"], base_id, guest_sha256, found["python"])


def entrypoint(python: str) -> list[str]:
    """Return the argv of PID 1: the guest alone, without site packages, environment or bytecode written."""
    return [python, "-I", "-S", "-E", "-B", GUEST_PATH]


def _check_base(client: docker.DockerClient, base_id: str) -> None:
    try:
        config = client.api.inspect_image(base_id)["Config"] or {}
    except engine_way.errors.ImageNotFound as error:
        raise ImageError(
            "image_missing", f"the engine has no image {base_id}. See `mindx image list` and `mindx image build`."
        ) from error
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, f"look at the image {base_id[:19]}") from error
    if config.get("Volumes"):
        # They would be writable places without a size limit, whatever else the container is refused.
        names = ", ".join(sorted(config["Volumes"]))
        raise ImageError(
            "image_has_volumes", f"the image {base_id[:19]} declares volumes ({names}). Use one that declares none."
        )


@contextmanager
def _build_container(client: docker.DockerClient, base_id: str) -> Iterator[str]:
    host_config = client.api.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        cap_add=["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETFCAP"],
        security_opt=["no-new-privileges:true"],
        mem_limit="512m",
        pids_limit=64,
        log_config={"type": "none"},
        # Podman would ask for the highest, which it may not set everywhere.
        ulimits=[{"name": name, "soft": 1024, "hard": 1024} for name in ("nofile", "nproc")],
    )
    try:
        container = client.api.create_container(
            base_id,
            command=[],
            entrypoint=["python3", "-I", "-S", "/mindx/seal.py"],
            user="0:0",
            working_dir="/",
            name=container_name(Owner.me()),
            host_config=host_config,
        )
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, f"create a container of the image {base_id[:19]}") from error
    try:
        yield container["Id"]
    finally:
        try:
            _remove_container(client, container["Id"])
        except engine_way.ENGINE_EXCEPTIONS as error:
            raise engine_way.engine_error(error, "remove the container that prepared an image") from error


def _seal(
    client: docker.DockerClient, container_id: str, base_id: str, files: tuple[tuple[str, bytes], ...]
) -> Mapping[str, Any]:
    """Put our files in, run the seal and return what it found. Raises EngineError, ImageError."""
    try:
        client.api.put_archive(container_id, "/", _pack(files))
        client.api.start(container_id)
        status = client.api.wait(container_id, timeout=_SEAL_TIMEOUT_S)["StatusCode"]
        if status == 0:
            return _read_result(client, container_id)
    except engine_way.ENGINE_EXCEPTIONS as error:
        fault = engine_way.engine_error(error, f"prepare the image {base_id[:19]}")
        raise (_no_python(base_id) if fault.code == "engine_no_program" else fault) from error
    if status == _TOO_OLD:
        raise _no_python(base_id)
    raise ImageError("image_seal_failed", f"cannot prepare the image {base_id[:19]}: its Python ended with {status}.")


def _no_python(base_id: str) -> ImageError:
    return ImageError(
        "image_no_python",
        f"the image {base_id[:19]} has no Python 3.8 or newer, which the guest needs. Choose one that has it.",
    )


def _pack(files: tuple[tuple[str, bytes], ...]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("mindx", "mindx/guest"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for name, content in (("seal.py", _SEAL.read_bytes()), *((f"guest/{name}", data) for name, data in files)):
            file = tarfile.TarInfo(f"mindx/{name}")
            file.size, file.mode = len(content), 0o444
            archive.addfile(file, io.BytesIO(content))
    return buffer.getvalue()


def _read_result(client: docker.DockerClient, container_id: str) -> Mapping[str, Any]:
    """Read what the seal left. The image's own Python wrote it: take nothing but an absolute path."""
    pieces, _ = client.api.get_archive(container_id, "/mindx/image.json")
    try:
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
            content = archive.extractfile("image.json")
            found = json.loads(content.read(65536)) if content else {}
        python = found["python"]
        if not (isinstance(python, str) and python.startswith("/") and python.isprintable()):
            raise ValueError(python)
    except (tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise ImageError("image_seal_failed", "cannot prepare the image: its Python left no result.") from error
    return {"python": python}
