"""The endpoint as a compose service in our own base image: another process, another network, the same behaviour."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import docker
import pytest

from mindx.errors import ProviderError
from mindx.sandbox.engine import connect_place
from tests.providers.conftest import Remote, collect
from tests.providers.test_openai import APIS, HELLO

PROJECT = "mindx-test-"


def compose_program() -> str | None:
    """Return the compose that is here: the plugin of the engine's client, or the program of its own."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is None:
            continue
        if subprocess.run([*command, "version"], capture_output=True, timeout=60, check=False).returncode == 0:
            return " ".join(command)
    return None


@pytest.fixture(scope="session")
def docker_compose_command(base_image):
    program = compose_program()
    if program is None:
        pytest.skip("no compose here: install docker-compose or the engine's compose plugin")
    client, place = connect_place()
    client.close()
    settings = {"DOCKER_HOST": place.address, "MINDX_TEST_IMAGE": base_image.image_id}
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in settings.items()), program])


@pytest.fixture(scope="session")
def docker_compose_file():
    return str(Path(__file__).with_name("compose.yaml"))


@pytest.fixture(scope="session")
def docker_compose_project_name(engine):
    remove_orphans(engine)
    return f"{PROJECT}{os.getpid()}"


def remove_orphans(engine):
    """Remove what a test run that was killed has left: its project's name tells its process."""
    label = "com.docker.compose.project"
    for found in (
        *engine.containers.list(all=True, filters={"label": label}),
        *engine.networks.list(filters={"label": label}),
    ):
        labels = found.labels if hasattr(found, "labels") else found.attrs.get("Labels") or {}
        project = labels.get(label, "")
        owner = project.removeprefix(PROJECT)
        if project.startswith(PROJECT) and owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            with contextlib.suppress(docker.errors.NotFound, docker.errors.APIError):
                found.remove(**({"force": True} if hasattr(found, "kill") else {}))


@pytest.fixture(scope="session")
def docker_setup():
    return ["up -d"]


@pytest.fixture
def service(engine, docker_ip, docker_services):
    """The address of the running service; its first line says that it listens."""
    compose = docker_services._docker_compose
    container = engine.containers.get(compose.execute("ps -q endpoint", ignore_stderr=True).decode().strip())
    lines = container.logs(stream=True, follow=True)
    with contextlib.closing(lines._response):  # its own close leaves the socket to the collector
        assert next(iter(lines)).startswith(b"ready")
    return f"{docker_ip}:{docker_services.port_for('endpoint', 8080)}"


def test_the_endpoint_in_a_container(service):
    """In one test: the service is started once, whatever the number of workers."""

    async def answered(remote, mode, **settings):
        async with remote.provider(mode, **settings) as provider:
            whole = await provider.generate(HELLO)
            streamed = (await collect(provider.stream(HELLO)))[-1].response
            return whole, streamed

    async def refused(remote, mode):
        async with remote.provider(mode) as provider:
            with pytest.raises(ProviderError) as caught:
                await collect(provider.stream(HELLO))
            return caught.value.code

    async def cancelled(remote):
        async with remote.provider("stall-body") as provider:
            task = asyncio.ensure_future(collect(provider.stream(HELLO)))
            await remote.saw("stalled")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await remote.saw("closed")

    async def scene():
        for api in APIS:
            remote = Remote(service, f"ok-{api}")
            whole, streamed = await answered(remote, "ok", api=api)
            assert (whole.text, streamed.text, whole.api) == ("hello", "hello", api)
            remote = Remote(service, f"calls-{api}")
            remote.script(*[{"calls": [{"name": "add", "arguments": {"a": 1}}]}] * 2)
            for response in await answered(remote, "script", api=api):
                assert [(call.name, dict(call.arguments)) for call in response.tool_calls] == [("add", {"a": 1})]
        limited = Remote(service, "limited")
        await answered(limited, "status-429-1")
        assert limited.waits.waited == [7.0]
        faults = {
            "half-cut": "provider_interrupted",
            "status-401": "provider_auth",
            "malformed": "provider_malformed_answer",
            "drop": "provider_unreachable",
            "status-500": "provider_server_error",
        }
        for mode, code in faults.items():
            assert await refused(Remote(service, mode), mode) == code
        await cancelled(Remote(service, "cancelled"))

    asyncio.run(scene())
