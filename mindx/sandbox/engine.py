"""The way to the container engine, and the one classifier of what can go wrong on it."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping

import docker
import docker.errors
import docker.tls
import docker.utils
import requests.exceptions
import urllib3.exceptions

from mindx.errors import EngineError
from mindx.sandbox.engine_place import EnginePlace, find_places

REQUEST_TIMEOUT_S = 120
# One connection for each worker thread, and some for streams that stay open.
MAX_POOL_SIZE = 32

# What a call to the engine may raise: `except ENGINE_EXCEPTIONS as error: raise engine_error(error, "...") from error`.
ENGINE_EXCEPTIONS: tuple[type[Exception], ...] = (
    docker.errors.DockerException,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
    ConnectionError,
    TimeoutError,
)

# The SDK lets these through while it reads an address or opens a socket.
_OPENING_EXCEPTIONS: tuple[type[Exception], ...] = (*ENGINE_EXCEPTIONS, OSError, ValueError)

_START = "Start it with `mindx setup` (in a checkout: `make engine`), or see `mindx doctor`."


def connect(environ: Mapping[str, str] | None = None) -> docker.DockerClient:
    """Return a client of the engine that has answered once; blocking, so call it in a thread.

    The places of find_places are tried in their order. What the user has named (DOCKER_HOST, with DOCKER_TLS_VERIFY and
    DOCKER_CERT_PATH as docker reads them, or a docker context) is used and nothing else is tried. `environ` is the
    process's own when None. Raises EngineError when no engine answers: that of the first place.
    """
    return connect_place(environ)[0]


def connect_place(environ: Mapping[str, str] | None = None) -> tuple[docker.DockerClient, EnginePlace]:
    """Do as `connect`, and tell the place too."""
    environ = os.environ if environ is None else environ
    first: EngineError | None = None
    for place in find_places(environ):
        try:
            return connect_to(place, environ), place
        except EngineError as error:
            first = first or error
    assert first is not None
    raise first


def connect_to(place: EnginePlace, environ: Mapping[str, str]) -> docker.DockerClient:
    """Return a client of the engine at one place. Raises EngineError."""
    doing = f"reach the engine at {place.address.removeprefix('unix://')}"
    if place.origin == "DOCKER_HOST":
        return _connect_named(place.address, environ)
    if place.named:
        doing = f"reach the engine at {place.address} ({place.origin})"
    settings: dict[str, object] = {}
    if place.certificates is not None:
        folder = place.certificates
        try:
            settings["tls"] = docker.tls.TLSConfig(
                client_cert=(str(folder / "cert.pem"), str(folder / "key.pem")),
                ca_cert=str(folder / "ca.pem"),
                verify=place.verify,
            )
        except ENGINE_EXCEPTIONS as error:
            raise engine_error(error, doing) from error
    return _open(place.address, doing, settings)


def _connect_named(host: str, environ: Mapping[str, str]) -> docker.DockerClient:
    doing = f"reach the engine at {host} (from DOCKER_HOST)"
    try:
        settings = docker.utils.kwargs_from_env(environment=dict(environ))
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, doing) from error
    base_url = settings.pop("base_url", None) or host
    try:
        return _open(base_url, doing, settings)
    except EngineError as error:
        if _START not in error.message:
            raise
        # `mindx setup` starts the engine of the default socket, which would not be asked.
        text = error.message.replace(_START, f"DOCKER_HOST names {host}; unset it or start that engine.")
        raise EngineError(error.code, text, recoverable=error.recoverable) from error


def _open(base_url: str, doing: str, settings: Mapping[str, object]) -> docker.DockerClient:
    """Connect; the SDK asks for the version at once and settles on the engine's own."""
    try:
        if base_url.startswith("unix://"):
            # The SDK leaves its socket open when there is nobody to connect to.
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(REQUEST_TIMEOUT_S)
                probe.connect(base_url.removeprefix("unix://"))
        if base_url.startswith("ssh://"):
            # By the ssh program, with the user's own keys and settings; else the SDK asks for a library.
            settings = {**settings, "use_ssh_client": True}
        return docker.DockerClient(
            base_url=base_url, timeout=REQUEST_TIMEOUT_S, max_pool_size=MAX_POOL_SIZE, **settings
        )
    except _OPENING_EXCEPTIONS as error:
        raise engine_error(error, doing) from error


def engine_error(error: BaseException, doing: str) -> EngineError:
    """Return what an exception of the SDK means, as "cannot <doing>: <what>. <what to do next>".

    Pure. `doing` is a verb phrase that names the object and, when it matters, the place. An EngineError is returned
    as it is. `details["status"]` is the engine's HTTP status, when it answered.

    Codes: engine_missing, engine_denied, engine_down, engine_unknown_host, engine_tls, engine_timeout, engine_lost,
    engine_bad_address, engine_version, engine_disk_full, engine_not_found, engine_conflict, engine_no_program,
    engine_unfit, engine_refused (another 4xx), engine_failed (another 5xx), engine_other.
    """
    if isinstance(error, EngineError):
        return error
    chain = list(_causes(error))
    for link in chain:
        if isinstance(link, docker.errors.APIError):
            return _answered(link, doing)
    for kinds, code, what, advice in _UNANSWERED:
        if any(isinstance(link, kinds) for link in chain):
            recoverable = code in ("engine_down", "engine_timeout", "engine_lost")
            return EngineError(code, f"cannot {doing}: {what}. {advice}", recoverable=recoverable)
    text = " ".join(str(link) for link in chain)
    for pattern, code, what, advice in _UNANSWERED_TEXTS:
        if re.search(pattern, text):
            return EngineError(code, f"cannot {doing}: {what}. {advice}")
    return EngineError("engine_other", f"cannot {doing}: {_first_line(str(error)) or type(error).__name__}.")


# Order matters: the innermost cause of a refused connection is also wrapped in the SDK's general exceptions.
_UNANSWERED: tuple[tuple[tuple[type[BaseException], ...], str, str, str], ...] = (
    ((FileNotFoundError,), "engine_missing", "there is no socket", _START),
    (
        (PermissionError,),
        "engine_denied",
        "this user may not use the engine's socket",
        "Use sudo, or let an administrator add you to the group that owns it (whoever is in it is root).",
    ),
    ((ConnectionRefusedError,), "engine_down", "nothing listens there", _START),
    (
        (docker.errors.TLSParameterError, requests.exceptions.SSLError, urllib3.exceptions.SSLError, ssl.SSLError),
        "engine_tls",
        "the certificates do not fit",
        "Check DOCKER_TLS_VERIFY and DOCKER_CERT_PATH.",
    ),
    (
        (urllib3.exceptions.NameResolutionError,),
        "engine_unknown_host",
        "the host name is not known",
        "Check DOCKER_HOST.",
    ),
    (
        (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError, TimeoutError),
        "engine_timeout",
        "the engine did not answer in time",
        "It may be busy or stuck: try again, or see `mindx doctor`.",
    ),
    (
        (ConnectionResetError, BrokenPipeError, ConnectionAbortedError, urllib3.exceptions.ProtocolError),
        "engine_lost",
        "the engine closed the connection",
        "It may have been restarted: try again.",
    ),
    (
        (
            requests.exceptions.InvalidURL,
            requests.exceptions.InvalidSchema,
            urllib3.exceptions.LocationValueError,
            ValueError,
        ),
        "engine_bad_address",
        "this is not an address of an engine",
        "DOCKER_HOST looks like unix:///var/run/docker.sock or tcp://HOST:PORT.",
    ),
)

_UNANSWERED_TEXTS = (
    (
        r"Invalid bind address|Bind address needs a port",
        "engine_bad_address",
        "this is not an address of an engine",
        "DOCKER_HOST looks like unix:///var/run/docker.sock or tcp://HOST:PORT.",
    ),
    (
        r"TLS/SSL|Path to a certificate",
        "engine_tls",
        "the certificates do not fit",
        "Check DOCKER_TLS_VERIFY and DOCKER_CERT_PATH.",
    ),
    (
        r"No route to host|Network is unreachable",
        "engine_down",
        "there is no way to that host",
        "Check DOCKER_HOST and the network.",
    ),
)

# Only the engine's own words at their own place: names that a user chose may hold any of these.
_ANSWERED_TEXTS = (
    (
        r"client version [\d.]+ is too (?:old|new)",
        "engine_version",
        "the engine and this client have no version in common",
        "Upgrade the older of the two.",
    ),
    (
        r"(?:: |^)(?:no space left on device|disk quota exceeded)(?:$|[\s\"':,.])",
        "engine_disk_full",
        "the engine's disk is full",
        "Make room (`docker system df` shows what takes it), then try again.",
    ),
    (
        r"opening seccomp profile failed|unknown mount option",
        "engine_unfit",
        "this engine does not take what mindx must ask of it",
        "Use Docker Engine, or Podman 4.3 or newer; see `mindx doctor` and docs/engines.md.",
    ),
    (
        # Podman, where it lacks the right to raise limits (CAP_SYS_RESOURCE).
        r"error setting rlimits? (?:for ready process|type \d+)",
        "engine_unfit",
        "this engine asks for higher limits (ulimits) than it may set here",
        "Ask for fewer processes (limits.pids) or open files (limits.nofile) in the policy; see docs/engines.md.",
    ),
    (
        r"exec: \"?[^\n]*\"?: (?:executable file not found in \$PATH|stat [^\n]*: no such file or directory"
        r"|no such file or directory|permission denied)",
        "engine_no_program",
        "the container's program is not in the image or may not run",
        "Choose another image.",
    ),
)


def _answered(error: docker.errors.APIError, doing: str) -> EngineError:
    """Classify an answer of the engine by its status and its own words."""
    status = error.response.status_code if error.response is not None else 0
    said = str(error.explanation or error)
    details = {"status": status}
    for pattern, code, what, advice in _ANSWERED_TEXTS:
        if re.search(pattern, said):
            return EngineError(code, f"cannot {doing}: {what}. {advice}", details=details)
    code = {404: "engine_not_found", 409: "engine_conflict"}.get(status, "")
    if not code:
        code = "engine_failed" if status >= 500 else "engine_refused"
    return EngineError(code, f"cannot {doing}: the engine says: {_first_line(said)}", details=details)


def is_gone(error: docker.errors.APIError) -> bool:
    """Return True when the container or image that was asked about is gone, or somebody removes it right now."""
    if error.response is None:
        return False
    # Podman answers with 500 when a container goes while it looks.
    return error.response.status_code in (404, 409) or "no such container" in str(error.explanation)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all that it wraps: as cause, as context, or as an argument (as requests does)."""
    seen: set[int] = set()
    queue: list[BaseException] = [error]
    while queue:
        link = queue.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        inner = (link.__cause__, link.__context__, getattr(link, "reason", None), *link.args)
        queue.extend(item for item in inner if isinstance(item, BaseException))


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:500] if lines else ""
