"""Asks an engine whether it is there, without the SDK: scripts/engine.py runs before anything is installed."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import subprocess
from pathlib import Path

SOCKET = Path("/var/run/docker.sock")
PING_TIMEOUT_S = 10


def answer() -> str:
    """Return "" when the engine of DOCKER_HOST, or else of the default socket, answers; else why it does not."""
    host = os.environ.get("DOCKER_HOST", "")
    connection = None
    try:
        connection = connect_named(host) if host else UnixConnection(str(SOCKET))
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
