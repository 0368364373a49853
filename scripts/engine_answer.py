"""Asks an engine whether it is there, without the SDK: scripts/engine.py runs before anything is installed."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

SOCKET = Path("/var/run/docker.sock")
PING_TIMEOUT_S = 10


def context() -> str:
    """Return who named a docker context that is in force, "" when none is."""
    places = known_places()
    return places[0].origin if places and places[0].named and not os.environ.get("DOCKER_HOST") else ""


def known_places() -> tuple[Any, ...]:
    """Return where mindx itself looks for an engine; () when that cannot be told yet (an old Python)."""
    root = Path(__file__).resolve().parent.parent
    if (root / "mindx" / "sandbox").is_dir() and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        from mindx.sandbox.engine_place import find_places
    except Exception:  # noqa: BLE001 - whatever it is, the default socket is left
        return ()
    return find_places()


def answer() -> str:
    """Return "" when an engine answers where mindx looks for one; else why the first place does not."""
    host = os.environ.get("DOCKER_HOST", "")
    if host:
        return ask(host)
    try:
        addresses = [place.address for place in known_places()]
    except Exception as error:  # noqa: BLE001 - a context that cannot be read
        return str(error)
    reasons = []
    for address in addresses or [f"unix://{SOCKET}"]:
        reasons.append(ask(address))
        if not reasons[-1]:
            return ""
    return reasons[0]


def ask(host: str) -> str:
    """Return "" when the engine at an address answers; else why it does not."""
    connection = None
    try:
        connection = connect_named(host)
        connection.request("GET", "/_ping", headers={"Host": "docker"})
        reply = connection.getresponse()
        return "" if reply.status == 200 else f"it answers with HTTP status {reply.status}"
    except PermissionError:
        return "permission denied"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        if connection is not None:
            connection.close()


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PING_TIMEOUT_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PING_TIMEOUT_S)
        self.sock.connect(self.path)


class ProcessConnection(http.client.HTTPConnection):
    """HTTP over the standard streams of a program, as docker does it for ssh."""

    def __init__(self, command: list[str]) -> None:
        super().__init__("localhost", timeout=PING_TIMEOUT_S)
        self.command = command

    def connect(self) -> None:
        self.sock, far = socket.socketpair()
        self.sock.settimeout(PING_TIMEOUT_S)
        with far:
            subprocess.Popen(self.command, stdin=far, stdout=far)


def connect_named(host: str) -> http.client.HTTPConnection:
    scheme, _, place = host.rpartition("://")
    if scheme == "unix":
        return UnixConnection(place)
    if scheme == "ssh":
        return ProcessConnection(["ssh", "-o", "BatchMode=yes", host, "docker", "system", "dial-stdio"])
    name, _, port = place.rstrip("/").rpartition(":")
    if scheme not in ("tcp", "http", "https", "") or not name or not port.isdigit():
        raise ValueError("this is no address of an engine, such as unix:///var/run/docker.sock or tcp://HOST:PORT")
    folder = os.environ.get("DOCKER_CERT_PATH", "")
    if not os.environ.get("DOCKER_TLS_VERIFY") and not folder and scheme != "https":
        return http.client.HTTPConnection(name, int(port), timeout=PING_TIMEOUT_S)
    certificates = Path(folder or Path.home() / ".docker")
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    return http.client.HTTPSConnection(name, int(port), timeout=PING_TIMEOUT_S, context=context)
