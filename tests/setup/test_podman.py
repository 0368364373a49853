"""Podman 4.3, the one of Debian 12: sessions start on it, every promise holds, and what differs refuses the session."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from mindx.core.command import Exec
from mindx.errors import SandboxError, SandboxLostError
from mindx.sandbox import container, podman, podman_words
from mindx.sandbox.base_build import _import
from mindx.sandbox.base_image import reference_of
from mindx.sandbox.container import ContainerSettings, EngineControls, Ids
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.image import ensure_derived
from mindx.sandbox.image_records import BaseImage
from mindx.sandbox.owner import Owner
from mindx.sandbox.verify import verify
from tests.setup.started_engine import as_own_user, lacks_for_own_user, started

STARTS_WITHIN_S = 30.0
VERIFIED_WITHIN_S = 300.0  # other tests run beside it
UID = 4323
GAPS = "version: 1\nname: gaps\naccept_gaps: [memory, swap, pids, cpuset]\ncommands:\n  - allow: [cat]\n"


def lacks() -> str:
    """Return why Podman cannot be tried here, "" when it can."""
    if os.geteuid() != 0:
        return "needs root, for a Podman with folders of its own"
    if shutil.which("podman") is None:
        return "needs podman"
    version = subprocess.run(["podman", "--version"], capture_output=True, text=True).stdout.split()[-1]
    return "" if version.startswith("4.") else f"is about Podman 4; this is {version}"


REASON = lacks()
ROOTLESS_REASON = REASON or lacks_for_own_user(UID, ())
pytestmark = [pytest.mark.skipif(bool(REASON), reason=REASON), pytest.mark.timeout(400)]  # it brings an image over


@contextlib.contextmanager
def podman_at(address: str, folder: Path, uid: int | None, engine: docker.DockerClient, *more: str) -> Iterator[str]:
    """Start a Podman, of root when `uid` is None, give it the base image, and yield its address."""
    place = folder if uid is None else folder / "home"
    options = ["--root", str(place / "root"), "--runroot", str(place / "run"), "--tmpdir", str(place / "tmp")]
    options += ["--storage-driver", "overlay", "--cgroup-manager", "cgroupfs"]
    command = ["podman", *options, *more, "system", "service", "-t", "0", address]
    if uid is None:
        # All that it started ends with it, also a container that a test has forgotten.
        command = ["unshare", "-m", "-p", "--fork", "--kill-child", "--mount-proc", *command]
    else:
        command = as_own_user(folder, uid, command)
    with started(command, folder, address, STARTS_WITHIN_S):
        client = docker.DockerClient(base_url=address, timeout=120)
        client.api.load_image(engine.api.get_image(reference_of("python")))
        client.close()
        yield address


@pytest.fixture(scope="module")
def podman_of_root(engine: docker.DockerClient, base_image: BaseImage) -> Iterator[str]:
    """The address of a Podman of root with folders and namespaces of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mindx-podman-"))
    with podman_at(f"unix://{folder}/s", folder, None, engine) as address:
        yield address


@pytest.fixture
def on_podman(podman_of_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let this test's sessions start there."""
    monkeypatch.setenv("DOCKER_HOST", podman_of_root)
    monkeypatch.setenv("MINDX_STATE_DIR", str(tmp_path / "state"))
    return podman_of_root


@pytest.fixture
def client(on_podman: str) -> Iterator[docker.DockerClient]:
    made = docker.DockerClient(base_url=on_podman, timeout=120)
    yield made
    assert made.api.containers(all=True) == []
    assert made.api.volumes()["Volumes"] in (None, [])
    made.close()


def mindx(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mindx.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | more, stdin=subprocess.DEVNULL)


def test_a_command_runs_without_a_gap_and_leaves_nothing(client: docker.DockerClient) -> None:
    done = mindx("exec", "--json", "--", "cat", "/proc/1/cmdline", "/etc/passwd")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["accepted_gaps"] == []
    assert "/mindx/guest" in document["stdout"]
    assert "agent:" in document["stdout"]  # Podman has put no list of users over the guest's


def test_the_name_servers_of_the_images_builder_are_not_in_sight(client: docker.DockerClient) -> None:
    done = mindx("exec", "--json", "--", "wc", "-c", "/etc/resolv.conf")
    assert json.loads(done.stdout)["stdout"].split()[0] == "0", done.stderr


def test_doctor_says_what_it_is(client: docker.DockerClient) -> None:
    told = mindx("doctor")
    assert told.returncode == 0, told.stdout
    assert "Podman 4." in told.stdout


def test_every_promise_holds(client: docker.DockerClient) -> None:
    found = asyncio.run(verify(ContainerSettings(), within_s=VERIFIED_WITHIN_S))
    assert [one for one in found.findings if not one.passed] == []
    assert found.holds


def put(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(said: dict[str, Any]) -> None:
        said[key] = value

    return change


def no_inodes(said: dict[str, Any]) -> None:
    for mount in said["mounts"]:
        mount["options"][-1] = mount["options"][-1].replace("nr_inodes", "uid=0,nr_blocks")


def hosts_ipc(said: dict[str, Any]) -> None:
    said["ipcns"] = {"nsmode": "host"}
    del said["shm_size"], said["sysctl"]


def more_files(said: dict[str, Any]) -> None:
    said["r_limits"][0]["soft"] = said["r_limits"][0]["hard"] = 1025


def no_pids(said: dict[str, Any]) -> None:
    said["resource_limits"]["pids"]["limit"] = 4096


# what is left out or altered on the way to Podman: the controls of which one must be named
SABOTAGES: dict[str, tuple[Callable[[dict[str, Any]], None], set[str]]] = {
    "hidden paths": (put("mask", []), {"kernel_files"}),
    "unhidden paths": (put("unmask", ["ALL"]), {"kernel_files"}),
    "shared memory": (put("sysctl", {}), {"sysctl"}),
    "our profile": (put("seccomp_policy", "default"), {"seccomp"}),
    "no profile": (put("seccomp_profile_path", "unconfined"), {"seccomp"}),
    "new privileges": (put("no_new_privileges", False), {"no_new_privileges"}),
    "control groups": (put("cgroupns", {"nsmode": "host"}), {"engine"}),
    "ipc": (hosts_ipc, {"engine"}),
    "processes": (put("pidns", {"nsmode": "host"}), {"engine"}),
    "network": (put("netns", {"nsmode": "host"}), {"network"}),
    "capability": (put("cap_add", ["SETUID", "SETGID", "KILL", "NET_RAW"]), {"capabilities"}),
    "read-only root": (put("read_only_filesystem", False), {"root"}),
    "inodes": (no_inodes, {"inodes"}),
    "pids": (no_pids, {"pids"}),
    "open files": (more_files, {"engine"}),
    "log": (put("log_configuration", {"driver": "k8s-file"}), {"engine"}),
    "writable places": (put("read_write_tmpfs", True), set()),  # 4.3 does not know it, and adds none
}


@pytest.mark.parametrize("name", sorted(SABOTAGES))
def test_what_podman_does_not_do_refuses_the_session(
    name: str, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, controls = SABOTAGES[name]
    true = podman_words.specification

    def altered(*arguments: Any) -> dict[str, Any]:
        said = true(*arguments)
        if name == "no profile":
            said.pop("seccomp_policy")
        change(said)
        return said

    monkeypatch.setattr(podman_words, "specification", altered)
    sandbox = DockerSandbox()
    if not controls:
        asyncio.run(_start_and_close(sandbox))
        return
    with pytest.raises(SandboxError) as caught:
        asyncio.run(_start_and_close(sandbox))
    assert caught.value.code == "not_as_asked", caught.value
    assert controls & {control for control, *_ in caught.value.details["differences"]}, caught.value.message


async def _start_and_close(sandbox: DockerSandbox) -> None:
    async with sandbox:
        pass


@pytest.mark.parametrize("touch", ["exec", "attach"])
def test_a_foreign_hand_ends_the_session(touch: str, client: docker.DockerClient) -> None:
    async def run() -> str:
        async with DockerSandbox() as sandbox:
            running = asyncio.create_task(sandbox.execute(Exec(("sleep", "60"))))
            await asyncio.sleep(0)
            if touch == "exec":
                made = await asyncio.to_thread(client.api.exec_create, sandbox.container_id, ["true"])
                await asyncio.to_thread(client.api.exec_start, made["Id"])
            else:
                params = {"stdout": 1, "stream": 1}
                stream = await asyncio.to_thread(client.api.attach_socket, sandbox.container_id, params=params)
                stream._sock.close()
                stream.close()
            with pytest.raises(SandboxLostError) as caught:
                await asyncio.wait_for(running, 10)
            return caught.value.code

    assert asyncio.run(run()) == "foreign_access"


def test_a_podman_that_tells_no_events_is_refused(
    engine: docker.DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    """Else nobody would notice a foreign hand, and nothing would say so."""
    folder = Path(tempfile.mkdtemp(prefix="mindx-podman-"))
    with podman_at(f"unix://{folder}/s", folder, None, engine, "--events-backend", "none") as address:
        done = mindx("exec", "--", "true", DOCKER_HOST=address, MINDX_STATE_DIR=str(tmp_path / "state"))
        assert done.returncode == 125
        assert "events_logger" in done.stderr


def test_a_volume_of_its_own_settings_refuses_the_session(
    engine: docker.DockerClient, base_image: BaseImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman's `inspect` does not tell of it, nor of what mounts.conf names; both are seen inside."""
    folder = Path(tempfile.mkdtemp(prefix="mindx-podman-"))
    (tmp_path / "secret").write_text("of the host")
    (tmp_path / "folder").mkdir()
    (tmp_path / "mounts.conf").write_text(f"{tmp_path}/folder:/opt/more\n")
    settings = tmp_path / "containers.conf"
    settings.write_text(f'[containers]\nvolumes = ["{tmp_path}/secret:/opt/secret:ro"]\n')
    monkeypatch.setenv("CONTAINERS_CONF", str(settings))
    more = ("--default-mounts-file", str(tmp_path / "mounts.conf"))
    with podman_at(f"unix://{folder}/s", folder, None, engine, *more) as address:
        done = mindx("exec", "--", "true", DOCKER_HOST=address, MINDX_STATE_DIR=str(tmp_path / "state"))
        assert done.returncode == 125
        assert "mount /opt/secret" in done.stderr
        assert "mount /opt/more" in done.stderr


def test_gc_removes_what_a_dead_owner_left(client: docker.DockerClient) -> None:
    base_id = client.api.inspect_image(reference_of("python"))["Id"]
    image = podman.ensure_profile(client, ensure_derived(client, base_id))
    ended = subprocess.Popen(["true"])
    ended.wait()
    me = Owner.me()
    owner = Owner(me.machine_id, me.boot_id, me.pid_namespace, ended.pid, "1")
    settings = ContainerSettings()
    host = container.host_config(settings, Ids.draw(), "0", EngineControls(1))
    labels = container.labels("feedfeedfeedfeed", owner, settings)
    request = container.create_request(image.image_id, image.python, labels, podman_words.fit(host))
    made = podman.create(client, request, "mindx-feedfeedfeedfeed")
    done = mindx("gc", "--json")
    assert done.returncode == 0, done.stderr
    assert made["Id"] in done.stdout


def test_an_image_that_is_imported_has_its_tag(client: docker.DockerClient, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "base.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("empty"), io.BytesIO())
    image_id = _import(client, tmp_path / "base.tar", "mindx-base-none:0123", {"mindx.image": "none"})
    found = client.api.inspect_image("mindx-base-none:0123")
    assert (found["Id"], found["Config"]["Labels"]) == (image_id, {"mindx.image": "none"})
    client.api.remove_image(image_id)


@pytest.mark.skipif(bool(ROOTLESS_REASON), reason=ROOTLESS_REASON)
def test_a_rootless_one_starts_sessions_once_its_missing_limits_are_accepted(
    engine: docker.DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="mindx-podman-"))
    policy = tmp_path / "gaps.yaml"
    policy.write_text(GAPS)
    with podman_at(f"unix://{folder}/home/s", folder, UID, engine) as address:
        environ = {"DOCKER_HOST": address, "MINDX_STATE_DIR": str(tmp_path / "state")}
        info = docker.DockerClient(base_url=address).info()
        limits = not podman_words.limits_nothing(info)
        strict = mindx("exec", "--", "true", **environ)
        assert (strict.returncode == 0) is limits, strict.stderr
        if not limits:
            assert "accept_gaps: [memory]" in strict.stderr
        done = mindx("exec", "--policy", str(policy), "--json", "--", "cat", "/proc/self/uid_map", **environ)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["stdout"].split()[:2] == ["0", str(UID)]  # root inside is that user outside
        assert set(document["accepted_gaps"]) == (set() if limits else {"memory", "swap", "pids", "cpuset"})
