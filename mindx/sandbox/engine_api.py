"""The engine's API over its own socket, for what every session asks of it.

The SDK takes as long to load as the engine takes to start half a container. It does all else that is asked of a client,
and makes the errors out of the engine's refusals; until then it is not loaded.
"""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    import docker

_JSON = {"Content-Type": "application/json"}
_UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}
NO_HEADERS: Mapping[str, str] = {}
NO_DOCUMENT = (204, 304)
LIBPOD = "4.0.0"  # the oldest version of Podman's own API that has all that is asked
DEFAULT = -1.0  # the client's own timeout


class Connection(http.client.HTTPConnection):
    """One connection to a socket of this machine, for one call."""

    def __init__(self, path: str, timeout_s: float | None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Open it."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def engine_version(path: str, headers: Mapping[str, str], timeout_s: float) -> str | None:
    """Return the API's version that the engine at this socket names, None for an answer that is not understood.

    A ping says it at once; for its `/version` an engine starts programs of its own. Raises OSError.
    """
    connection = Connection(path, timeout_s)
    try:
        connection.request("GET", "/_ping", headers=dict(headers))
        answer = connection.getresponse()
        answer.read()
    except http.client.HTTPException:
        return None
    finally:
        connection.close()
    version = answer.getheader("Api-Version") or ""
    return version if answer.status == 200 and re.fullmatch(r"\d+\.\d+", version) else None


class DirectApi:
    """A session's calls, named as the SDK's low-level client names them, with its results and errors.

    A call waits at most `timeout` seconds for each piece of the answer, but one that says that it has no bound.
    """

    def __init__(
        self,
        path: str,
        version: str,
        headers: Mapping[str, str],
        timeout_s: float,
        open_sdk: Callable[[], docker.DockerClient],
    ) -> None:
        self.socket_path = path
        self.timeout: float = timeout_s
        self._version = version
        self._headers = dict(headers)
        self._open_sdk = open_sdk
        self._sdk: docker.DockerClient | None = None
        self._opening = threading.Lock()

    def info(self) -> Any:
        """Return what the engine says of itself."""
        return self._ask("GET", "/info")

    def inspect_image(self, image: str) -> Any:
        """Return what is known of an image. Raises ImageNotFound."""
        return self._ask("GET", f"/images/{_quoted(image)}/json")

    def inspect_container(self, container: str) -> Any:
        """Return what is known of a container. Raises NotFound."""
        return self._ask("GET", f"/containers/{_quoted(container)}/json")

    def containers(self, all: bool = False, filters: Mapping[str, str] | None = None) -> Any:
        """Return the containers that run, or all, that fit the filters."""
        return self._ask("GET", "/containers/json", {"all": int(all), "filters": _filters(filters or {})})

    def create_container_from_config(self, config: Mapping[str, Any], name: str) -> Any:
        """Make a container and return its id and the engine's warnings."""
        return self._ask("POST", "/containers/create", {"name": name}, config)

    def start(self, container: str) -> None:
        """Start it."""
        self._ask("POST", f"/containers/{_quoted(container)}/start")

    def wait(self, container: str, timeout: float | None = None, condition: str = "not-running") -> Any:
        """Wait until it is in that condition; `timeout` in seconds, None waits for ever. Raises NotFound."""
        query = {"condition": condition}
        return self._ask("POST", f"/containers/{_quoted(container)}/wait", query, timeout_s=timeout)

    def remove_container(self, container: str, v: bool = False, force: bool = False) -> None:
        """Remove it. Raises NotFound, APIError."""
        self._ask("DELETE", f"/containers/{_quoted(container)}", {"v": v, "force": force})

    def attach_socket(self, container: str, params: Mapping[str, int]) -> socket.socket:
        """Return the stream to a container that has said nothing yet."""
        with self._request("POST", f"/containers/{_quoted(container)}/attach", params, headers=_UPGRADE) as connection:
            with _told():
                stream = connection.sock.dup()  # http.client closes its own with the answer
            try:
                _answer(connection)
            except BaseException:
                stream.close()
                raise
        return stream

    def libpod(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer of Podman's own API, which no SDK here knows."""
        return self._ask(method, f"/libpod{path}", body=body, version=LIBPOD)

    def events(self, since: int | None, filters: Mapping[str, str]) -> Iterator[Any]:
        """Return the engine's events from now on, or from `since` on, as they come; the stream is open then."""
        query = {"filters": _filters(filters), **({} if since is None else {"since": since})}
        connection = self._request("GET", "/events", query, timeout_s=None)
        try:
            return _documents(connection, _answer(connection))
        except BaseException:
            connection.close()
            raise

    def sdk(self) -> docker.DockerClient:
        """Return the SDK's client of the same engine."""
        with self._opening:
            if self._sdk is None:
                self._sdk = self._open_sdk()
        self._sdk.api.timeout = self.timeout
        return self._sdk

    def close(self) -> None:
        """Close what the SDK holds, if it was needed."""
        with self._opening:
            if self._sdk is not None:
                self._sdk.close()
                self._sdk = None

    def __getattr__(self, name: str) -> Any:
        """All that is not here is the SDK's."""
        return getattr(self.sdk().api, name)

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = DEFAULT,
        version: str = "",
    ) -> Any:
        """Return the document of the answer, None where the status says that there is none."""
        with self._request(method, path, query, body, timeout_s=timeout_s, version=version) as connection:
            answer = _answer(connection)
            with _told():
                content = answer.read()
                return None if answer.status in NO_DOCUMENT else json.loads(content)

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        timeout_s: float | None = DEFAULT,
        version: str = "",
    ) -> Connection:
        """Send a request and return the connection, on which the answer comes."""
        connection = Connection(self.socket_path, self.timeout if timeout_s == DEFAULT else timeout_s)
        url = f"/v{version or self._version}{path}?{urlencode(query or {})}".rstrip("?")
        content = b"" if body is None else json.dumps(body).encode()
        try:
            with _told():
                connection.request(method, url, content, {**self._headers, **(_JSON if content else {}), **headers})
        except BaseException:
            connection.close()
            raise
        return connection


class DirectClient:
    """A client of one session, as the SDK's client is used."""

    def __init__(self, api: DirectApi) -> None:
        self.api = api

    def info(self) -> Any:
        """Return what the engine says of itself."""
        return self.api.info()

    def events(self, since: int | None, decode: bool, filters: Mapping[str, str]) -> Iterator[Any]:
        """Return the engine's events, decoded, as they come."""
        return self.api.events(since, filters)

    def close(self) -> None:
        """Let go of what is open."""
        self.api.close()

    def __getattr__(self, name: str) -> Any:
        """All that is not here is the SDK's."""
        return getattr(self.api.sdk(), name)


def _answer(connection: Connection) -> http.client.HTTPResponse:
    """Return the engine's answer; read it before the connection is closed. Raises the SDK's APIError for a refusal."""
    with _told():
        answer = connection.getresponse()
        if answer.status < 400:
            return answer
        content = answer.read()
    import docker.errors
    import requests

    response = requests.Response()
    response.status_code, response.reason, response.raw = answer.status, answer.reason, io.BytesIO(content)
    refused = requests.exceptions.HTTPError(f"{answer.status} {answer.reason}", response=response)
    raise docker.errors.create_api_error_from_http_exception(refused)  # which raises by itself


def _documents(connection: Connection, answer: http.client.HTTPResponse) -> Iterator[Any]:
    try:
        for line in answer:
            if line.strip():
                yield json.loads(line)
    finally:
        connection.close()


def _filters(filters: Mapping[str, str]) -> str:
    return json.dumps({name: [value] for name, value in filters.items()})


def _quoted(name: str) -> str:
    return quote(name, safe="/:")


@contextmanager
def _told() -> Iterator[None]:
    """Let what can go wrong on the way be a ConnectionError or a TimeoutError, as the classifier knows them."""
    try:
        yield
    except (ConnectionError, TimeoutError):
        raise
    except (http.client.HTTPException, ValueError) as error:
        raise ConnectionResetError("the engine's answer broke off") from error
    except OSError as error:
        raise ConnectionError(str(error)) from error
