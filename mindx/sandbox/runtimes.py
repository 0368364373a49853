"""The runtime of a container: the engine's default, or one that the policy names and that has proved to work here."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mindx.core.folders import state_dir
from mindx.errors import EngineError
from mindx.sandbox import engine_way
from mindx.sandbox.image import DerivedImage
from mindx.sandbox.owner import Owner

if TYPE_CHECKING:
    import docker

SMOKE_WITHIN_S = 20.0
# How much longer than the engine's bound this client waits for the engine, which cannot end a runtime that hangs while
# it makes a container.
PATIENCE_S = 5.0
WORD = "mindx-runtime-works"
SMOKE_ARGUMENTS = ("-I", "-S", "-c", f"print({WORD!r})")
_proving = threading.Lock()


def require(client: docker.DockerClient, info: Mapping[str, Any], runtime: str | None, image: DerivedImage) -> None:
    """Return when containers may use `runtime` (None: the engine's default); blocking.

    Any other one runs a small program first, since a runtime can be listed and not work, or hang; once for each
    version of engine, kernel and runtime. Raises EngineError: runtime_missing, runtime_broken.
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
    proof = state_dir() / "runtimes" / version_of(info, runtime)
    with _proving:
        if not proof.exists():
            smoke_test(client, runtime, image)
            with contextlib.suppress(OSError):  # then it is proved again next time
                proof.parent.mkdir(parents=True, exist_ok=True)
                proof.touch()


def version_of(info: Mapping[str, Any], runtime: str) -> str:
    """Return a digest that changes with the engine, the kernel, the runtime's settings and, if it is here, its file."""
    settings = info["Runtimes"][runtime]
    try:
        found = os.stat(str(settings.get("path", "")))
        file = [found.st_size, found.st_mtime_ns]
    except OSError:
        file = []  # the engine is elsewhere, or looks the name up
    parts = [info.get("ID"), info.get("ServerVersion"), info.get("KernelVersion"), runtime, settings, file]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def smoke_test(
    client: docker.DockerClient, runtime: str, image: DerivedImage, within_s: float = SMOKE_WITHIN_S
) -> None:
    """Run one small program under `runtime` and see that it ran. Raises EngineError: runtime_broken.

    The bound is the engine's: after `within_s` seconds it is told, beside the calls that wait, to kill and remove the
    container. A runtime that hangs before there is a process to kill makes the engine itself wait; then this client
    gives up PATIENCE_S later, and `mindx gc` removes the container once the engine lets go of it.
    """
    name = secrets.token_hex(8)
    late = threading.Event()

    def end() -> None:
        late.set()
        _remove(client, f"mindx-{name}")

    timer = threading.Timer(within_s, end)
    timer.daemon = True
    patience, client.api.timeout = client.api.timeout, within_s + PATIENCE_S
    try:
        client.api.create_container_from_config(_request(runtime, image, name), f"mindx-{name}")
        timer.start()
        client.api.start(f"mindx-{name}")
        status = client.api.wait(f"mindx-{name}")["StatusCode"]
        said = client.api.logs(f"mindx-{name}", stdout=True, stderr=True).decode("utf-8", "backslashreplace").strip()
    except engine_way.ENGINE_EXCEPTIONS as error:
        reason = (
            f"it did not end within {within_s:g} s"
            if late.is_set()
            else engine_way.engine_error(error, "try it").message
        )
        raise _broken(runtime, reason) from error
    finally:
        timer.cancel()
        if late.is_set():
            timer.join(PATIENCE_S)  # it removes the container
        else:
            _remove(client, f"mindx-{name}")
        client.api.timeout = patience
    if late.is_set() or status != 0 or WORD not in said:
        raise _broken(runtime, said[-300:] or f"its program ended with {status} and said nothing")


def _request(runtime: str, image: DerivedImage, name: str) -> dict[str, Any]:
    return {
        "Image": image.image_id,
        "Entrypoint": [image.python, *SMOKE_ARGUMENTS],
        "Cmd": [],
        "User": "65534:65534",
        "WorkingDir": "/",
        "Labels": {"mindx.session": name, **Owner.me().labels()},
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


def _remove(client: docker.DockerClient, name: str) -> None:
    try:
        client.api.remove_container(name, force=True, v=True)
    except engine_way.ENGINE_EXCEPTIONS:
        return  # it is gone, or the other side removes it


def _broken(runtime: str, reason: str) -> EngineError:
    return EngineError(
        "runtime_broken",
        f"the runtime {runtime} is listed by the engine and does not work here: {reason}. "
        f"Try `docker run --rm --runtime {runtime}` with any image, or take `runtime` out of the policy.",
        details={"runtime": runtime},
    )
