"""The classifier: captured strings of real engines, and texts that must not match."""

from __future__ import annotations

import docker.errors
import pytest
import requests
import requests.exceptions

from mindx.errors import EngineError
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, connect, engine_error

# (status, what the engine said, code): captured from Docker 20.10 and 26.1, Podman 4.3.
ANSWERS = [
    (404, "no such image: nope: No such image: nope:latest", "engine_not_found"),
    (404, "No such container: 0123abcd", "engine_not_found"),
    (409, 'Conflict. The container name "/x" is already in use by container "0123".', "engine_conflict"),
    (400, "Minimum memory limit allowed is 6MB", "engine_refused"),
    (500, "devices cgroup isn't mounted", "engine_failed"),
    (
        400,
        "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container "
        'process: exec: "python3": executable file not found in $PATH: unknown',
        "engine_no_program",
    ),
    (
        400,
        "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container "
        'process: exec: "/nope": stat /nope: no such file or directory: unknown',
        "engine_no_program",
    ),
    (
        400,
        "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container "
        'process: exec: "/etc/passwd": permission denied: unknown',
        "engine_no_program",
    ),
    (
        500,
        "Error processing tar file(exit status 1): write /usr/bin/git: no space left on device",
        "engine_disk_full",
    ),
    (500, "mkdir /var/lib/docker/overlay2/0123-init: no space left on device", "engine_disk_full"),
    (400, "client version 1.50 is too new. Maximum supported API version is 1.41", "engine_version"),
    (500, 'container create: opening seccomp profile failed: open {"arch": []}: file name too long', "engine_unfit"),
    (500, 'container create: unknown mount option "nr_inodes=4096": invalid mount option', "engine_unfit"),
    (
        500,
        "runc: runc create failed: unable to start container process: error during container init: error setting "
        "rlimits for ready process: error setting rlimit type 7: operation not permitted: OCI permission denied",
        "engine_unfit",
    ),
    (400, "client version 1.24 is too old. Minimum supported API version is 1.44", "engine_version"),
]

# What a user chose may hold the same words.
NO_MATCH = [
    (400, "Invalid container name (no space left on device), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"),
    (400, "invalid label 'note=my client version is too old'"),
    (400, "invalid label 'note=executable file not found in $PATH'"),
    (400, "permission denied by the authorization plugin"),
    (400, "invalid label 'note=error setting rlimit'"),
]


def answered(status: int, said: str) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError(f"{status} Error", response=response, explanation=said)


@pytest.mark.parametrize(("status", "said", "code"), ANSWERS)
def test_an_answer_has_its_code(status: int, said: str, code: str) -> None:
    error = engine_error(answered(status, said), "do this")
    assert error.code == code
    assert error.details["status"] == status
    assert error.message.startswith("cannot do this: ")


@pytest.mark.parametrize(("status", "said"), NO_MATCH)
def test_words_at_another_place_do_not_match(status: int, said: str) -> None:
    error = engine_error(answered(status, said), "do this")
    assert error.code == "engine_refused"
    assert said in error.message


@pytest.mark.parametrize(
    ("cause", "code", "recoverable"),
    [
        (FileNotFoundError(2, "No such file or directory"), "engine_missing", False),
        (PermissionError(13, "Permission denied"), "engine_denied", False),
        (ConnectionRefusedError(111, "Connection refused"), "engine_down", True),
        (ConnectionResetError(104, "Connection reset by peer"), "engine_lost", True),
        (TimeoutError("timed out"), "engine_timeout", True),
    ],
)
def test_a_cause_is_found_as_requests_wraps_it(cause: OSError, code: str, recoverable: bool) -> None:
    inner = requests.exceptions.ConnectionError("Connection aborted.", cause)
    outer = docker.errors.DockerException(f"Error while fetching server API version: {inner}")
    outer.__cause__ = inner
    error = engine_error(outer, "do this")
    assert error.code == code
    assert error.recoverable is recoverable


def test_an_engine_error_stays_what_it_is() -> None:
    first = EngineError("engine_lost", "cannot do that: gone")
    assert engine_error(first, "do this") is first


def test_the_unknown_is_told_as_it_came() -> None:
    error = engine_error(docker.errors.DockerException("something new\nwith details"), "do this")
    assert error.code == "engine_other"
    assert error.message == "cannot do this: something new."


def test_only_the_engines_exceptions_are_caught() -> None:
    for kind in (KeyError, AttributeError, ValueError, FileNotFoundError, EngineError):
        assert not issubclass(kind, ENGINE_EXCEPTIONS)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("unix:///no/such/folder/engine.sock", "engine_missing"),
        ("tcp://127.0.0.1:1", "engine_down"),
        ("tcp://no-such-host.invalid:2375", "engine_unknown_host"),
        ("no address", "engine_bad_address"),
        ("tcp://127.0.0.1", "engine_bad_address"),
    ],
)
def test_a_docker_host_that_does_not_answer_is_an_error_and_is_named(host: str, code: str) -> None:
    with pytest.raises(EngineError) as caught:
        connect({"DOCKER_HOST": host})
    assert caught.value.code == code
    assert host in caught.value.message
    assert "DOCKER_HOST" in caught.value.message


def test_certificates_that_are_not_there_are_an_error() -> None:
    environ = {"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/no/such/folder"}
    with pytest.raises(EngineError) as caught:
        connect(environ)
    assert caught.value.code == "engine_tls"


def test_the_version_is_settled_with_the_engine(engine: docker.DockerClient) -> None:
    assert engine.api.api_version <= engine.version()["ApiVersion"]
