"""The runtime of a container: the engine's default, or one that the policy names and that has proved to work here."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import docker
import docker.errors

from mindx.errors import EngineError
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error
from mindx.sandbox.image import DerivedImage

SMOKE_WITHIN_S = 20.0
WORD = "mindx-runtime-works"
_proved: set[tuple[str, str]] = set()
_proving = threading.Lock()


def require(client: docker.DockerClient, info: Mapping[str, Any], runtime: str | None, image: DerivedImage) -> None:
    """Return when containers may use `runtime` (None: the engine's default); blocking.

    Any other one runs a small program first, once a process and engine, since a runtime can be listed and not work, or
    hang. Raises EngineError: runtime_missing, runtime_broken.
    """
    if runtime is None:
        return
    known = info.get("Runtimes") or {}
    if runtime not in known:
        names = ", ".join(sorted(known)) or "none"
        raise EngineError(
            "runtime_missing",
            f"the policy asks for the runtime {runtime}, and the engine has none of that name (it lists {names}). "
            "Install it and name it under `runtimes` in the engine's daemon.json, or take `runtime` out of the policy.",
            details={"runtime": runtime, "known": sorted(known)},
        )
    if runtime == info.get("DefaultRuntime"):
        return
    with _proving:
        mark = (str(info.get("ID", "")), f"{runtime} {known[runtime]}")
        if mark not in _proved:
            smoke_test(client, runtime, image)
            _proved.add(mark)


def smoke_test(
    client: docker.DockerClient, runtime: str, image: DerivedImage, within_s: float = SMOKE_WITHIN_S
) -> None:
    """Run one small program under `runtime` and see that it ran. Raises EngineError: runtime_broken.

    The bound is the engine's: at `within_s` seconds it is told by a second connection to kill and remove the
    container, whatever this client still waits for.
    """
    try:
        container_id = client.api.create_container_from_config(_request(runtime, image))["Id"]
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, f"create a container with the runtime {runtime}") from error
    late = threading.Event()

    def end() -> None:
        late.set()
        _remove(client, container_id)

    timer = threading.Timer(within_s, end)
    timer.daemon = True
    timer.start()
    try:
        client.api.start(container_id)
        status = client.api.wait(container_id, timeout=None)["StatusCode"]
        said = client.api.logs(container_id, stdout=True, stderr=True).decode("utf-8", "backslashreplace").strip()
    except ENGINE_EXCEPTIONS as error:
        reason = f"it did not end within {within_s:g} s" if late.is_set() else engine_error(error, "try it").message
        raise _broken(runtime, reason) from error
    finally:
        timer.cancel()
        _remove(client, container_id)
    if late.is_set() or status != 0 or WORD not in said:
        raise _broken(runtime, said[-300:] or f"its program ended with {status} and said nothing")


def _request(runtime: str, image: DerivedImage) -> dict[str, Any]:
    return {
        "Image": image.image_id,
        "Entrypoint": [image.python, "-I", "-S", "-c", f"print({WORD!r})"],
        "Cmd": [],
        "User": "65534:65534",
        "WorkingDir": "/",
        "NetworkDisabled": True,
        "HostConfig": {
            "Runtime": runtime,
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "ReadonlyRootfs": True,
            "Memory": 256 << 20,
            "PidsLimit": 64,
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "64k"}},
        },
    }


def _remove(client: docker.DockerClient, container_id: str) -> None:
    try:
        client.api.remove_container(container_id, force=True, v=True)
    except ENGINE_EXCEPTIONS:
        return  # it is gone, or the other side removes it


def _broken(runtime: str, reason: str) -> EngineError:
    return EngineError(
        "runtime_broken",
        f"the runtime {runtime} is listed by the engine and does not work here: {reason}. "
        f"Try `docker run --rm --runtime {runtime}` with any image, or take `runtime` out of the policy.",
        details={"runtime": runtime},
    )
