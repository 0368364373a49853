"""Where an engine may be: DOCKER_HOST, the active docker context, and the sockets that engines are known to open."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindx.core.frozen import dataclass
from mindx.errors import EngineError

DEFAULT_SOCKET = Path("/var/run/docker.sock")


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """One address and who named it.

    `named` is True when the user chose it (DOCKER_HOST, a context): then no other place is tried. `certificates` is a
    folder with ca.pem, cert.pem and key.pem, None without TLS; `verify` False accepts a server that nobody vouches for.
    """

    address: str
    origin: str
    named: bool = False
    certificates: Path | None = None
    verify: bool = True

    @property
    def socket(self) -> Path | None:
        """The socket's path, None when the engine is reached in another way."""
        return Path(self.address.removeprefix("unix://")) if self.address.startswith("unix://") else None


def find_places(environ: Mapping[str, str] | None = None) -> tuple[EnginePlace, ...]:
    """Return where to look, in this order; one place only when the user has named it. Nothing is opened.

    1. DOCKER_HOST; 2. the context that DOCKER_CONTEXT or docker's config.json names (`default` names none); 3. the
    default socket; 4. a rootless engine's; 5. Docker Desktop's; 6. Podman's, the user's own, then root's.
    Of 3 to 6 those whose socket exists, or the default socket when none does. Raises EngineError
    (engine_context_unknown) for a context that is not there or not understood.
    """
    environ = os.environ if environ is None else environ
    host = environ.get("DOCKER_HOST", "")
    if host:
        return (EnginePlace(host, "DOCKER_HOST", named=True),)
    context = _active_context(environ)
    if context:
        return (_read_context(*context, environ),)
    known = [EnginePlace(f"unix://{path}", origin) for path, origin in _sockets(environ)]
    there = tuple(place for place in known if place.socket is not None and os.path.lexists(place.socket))
    return there or (known[0],)


def _sockets(environ: Mapping[str, str]) -> list[tuple[Path, str]]:
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    home = _home(environ)
    desktop = home / ".docker" / ("run" if sys.platform == "darwin" else "desktop") / "docker.sock"
    machine = home / ".local/share/containers/podman/machine/podman.sock"
    return [
        (DEFAULT_SOCKET, "the default socket"),
        (runtime / "docker.sock", "the rootless engine's socket"),
        (desktop, "Docker Desktop's socket"),
        (runtime / "podman" / "podman.sock", "Podman's socket"),
        (machine, "Podman's machine"),
        (Path("/run/podman/podman.sock"), "Podman's socket of root"),
    ]


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def _config_dir(environ: Mapping[str, str]) -> Path:
    chosen = environ.get("DOCKER_CONFIG", "")
    return Path(chosen) if chosen else _home(environ) / ".docker"


def configured_headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what docker's config.json adds to each request (HttpHeaders), as the SDK adds it."""
    headers = _config(environ).get("HttpHeaders")
    return {str(name): str(text) for name, text in headers.items()} if isinstance(headers, dict) else {}


def _config(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return docker's config.json; empty, as docker does without it, when it is missing or not understood."""
    try:
        config = json.loads((_config_dir(environ) / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def _active_context(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the active context's name and who named it; None for the default one."""
    name, origin = environ.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not name:
        found = _config(environ).get("currentContext")
        name, origin = found if isinstance(found, str) else "", str(_config_dir(environ) / "config.json")
    return None if name in ("", "default") else (name, origin)


def _read_context(name: str, origin: str, environ: Mapping[str, str]) -> EnginePlace:
    # Docker's own layout: the folder is the sha256 of the name.
    folder, key = _config_dir(environ) / "contexts", hashlib.sha256(name.encode()).hexdigest()
    path = folder / "meta" / key / "meta.json"
    try:
        endpoint: Any = json.loads(path.read_bytes())["Endpoints"]["docker"]
        host = endpoint["Host"]
        if not isinstance(host, str) or not host:
            raise ValueError(host)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(
            "engine_context_unknown",
            f"the docker context {name} (from {origin}) cannot be read from {path}. "
            "`docker context ls` shows what there is; `docker context use default` goes back to the default socket.",
        ) from error
    certificates = folder / "tls" / key / "docker"
    return EnginePlace(
        host,
        f"the docker context {name}, from {origin}",
        named=True,
        certificates=certificates if certificates.is_dir() else None,
        verify=not endpoint.get("SkipTLSVerify", False),
    )
