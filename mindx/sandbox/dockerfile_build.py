"""The build of a project's Dockerfile by the engine, as root and with its network; only once the user trusts it."""

from __future__ import annotations

import base64
import io
import os
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence

import docker

from mindx.errors import ImageError
from mindx.sandbox.dockerfile import BASE_ARGUMENT
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error

# The engine's own predefined arguments: they reach the steps and are not kept in the image.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
_KEPT_LINES = 30
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # the engine paints what came on stderr

Progress = Callable[[str], None]


def build_dockerfile(
    client: docker.DockerClient,
    text: str,
    files: Sequence[tuple[str, str]],
    base_id: str,
    reference: str,
    labels: Mapping[str, str],
    progress: Progress,
    anew: bool = False,
) -> str:
    """Build `text` with `files` (path and base64) beside it, name the image `reference` and return its id; blocking.

    The steps have the engine's network and its resolver; the certificates of this host are in the base already. With
    `anew` no step is taken from the engine's cache. Raises EngineError, or ImageError (image_build_failed).
    """
    said: list[str] = []
    image_id = ""
    environ = {name: value for name in _PROXIES for key in (name, name.lower()) if (value := os.environ.get(key))}
    try:
        stream = client.api.build(
            fileobj=_context(text, files),
            custom_context=True,
            tag=reference,
            buildargs={BASE_ARGUMENT: base_id, **environ},
            labels=dict(labels),
            nocache=anew,
            rm=True,
            forcerm=True,
            decode=True,
        )
        for part in stream:
            said_now = _COLOURS.sub("", str(part.get("stream") or ""))
            lines = [line for line in said_now.splitlines() if line.strip()]
            said = [*said, *lines][-_KEPT_LINES:]
            for line in lines:
                progress(line.strip())
            if "error" in part:
                raise _failure(str(part["error"]), said)
            image_id = str((part.get("aux") or {}).get("ID") or image_id)
        if not image_id:
            image_id = str(client.api.inspect_image(reference)["Id"])
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "build the project's Dockerfile") from error
    return image_id


def _failure(text: str, said: list[str]) -> ImageError:
    last = [line for line in said if not line.startswith((" --->", "Step ", "Removing intermediate"))]
    shown = f" It said at last: {last[-1][:200]}" if last else ""
    return ImageError(
        "image_build_failed",
        f"cannot build the project's Dockerfile: {text.strip()[:300]}.{shown}",
        details={"output": said},
    )


def _context(text: str, files: Sequence[tuple[str, str]]) -> io.BytesIO:
    """Return the build's context: nothing but the Dockerfile and the files that the project's file lists."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in (
            ("Dockerfile", text.encode()),
            *((name, base64.b64decode(data)) for name, data in files),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    buffer.seek(0)
    return buffer
