"""A session's way to its engine, without the SDK where the engine is a socket of this machine.

What this module names later (`except engine_way.ENGINE_EXCEPTIONS`) loads the SDK: only what goes wrong needs it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mindx.errors import EngineError
from mindx.sandbox.engine_api import DirectApi, DirectClient, engine_version
from mindx.sandbox.engine_place import EnginePlace, configured_headers, find_places

if TYPE_CHECKING:
    import docker
    from docker import errors as errors

    from mindx.sandbox.engine import ENGINE_EXCEPTIONS as ENGINE_EXCEPTIONS
    from mindx.sandbox.engine import engine_error as engine_error
    from mindx.sandbox.engine import is_gone as is_gone

REQUEST_TIMEOUT_S = 120.0
PING_WITHIN_S = 5.0  # a slower engine is asked by the SDK, which has more patience


def __getattr__(name: str) -> Any:
    """Return the SDK's `errors`, or what is the module `engine`'s."""
    if name == "errors":
        import docker.errors

        return docker.errors
    if name in ("ENGINE_EXCEPTIONS", "engine_error", "is_gone"):
        from mindx.sandbox import engine

        return getattr(engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def reach(environ: Mapping[str, str] | None = None) -> docker.DockerClient:
    """Do as `connect` of the module `engine`; the client does a session's calls itself where it can."""
    environ = os.environ if environ is None else environ
    first: EngineError | None = None
    for place in find_places(environ):
        try:
            return _reach_place(place, environ)
        except EngineError as error:
            first = first or error
    assert first is not None
    raise first


def _reach_place(place: EnginePlace, environ: Mapping[str, str]) -> docker.DockerClient:
    def open_sdk() -> docker.DockerClient:
        from mindx.sandbox.engine import connect_to

        return connect_to(place, environ)

    if place.socket is None or environ.get("DOCKER_TLS_VERIFY"):
        return open_sdk()
    path, headers = str(place.socket), configured_headers(environ)
    try:
        version = engine_version(path, headers, PING_WITHIN_S)
    except OSError:
        version = None  # the SDK meets the same, and its error is told
    if version is None:
        return open_sdk()
    api = DirectApi(path, version, headers, REQUEST_TIMEOUT_S, open_sdk)
    return cast("docker.DockerClient", DirectClient(api))
