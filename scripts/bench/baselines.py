"""The baselines: the same work done natively and with the bare Docker SDK, under the same CPU limit."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker

FOLDER = "/tmp"
CREATED_BY = {"mindx.bench": "baseline"}


@contextmanager
def pinned(cpus: int) -> Iterator[None]:
    """Give this process, and what it starts, as many CPUs as the container has."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(allowed)[:cpus]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def run_native(*argv: str) -> bytes:
    """Run a program with its output captured, as a Python program would without a sandbox."""
    return subprocess.run(argv, capture_output=True, check=True).stdout


def drain_native(*argv: str) -> int:
    """Run a program, read its output from a pipe and throw it away; return the number of bytes."""
    total = 0
    with subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while data := process.stdout.read(1 << 18):
            total += len(data)
    return total


class BareContainer:
    """A container of the session's own image with nothing but a program that waits; low-level calls only.

    It has no network, as sessions have none: with one its start would take longer and the ratio would flatter us.
    """

    def __init__(self, client: docker.DockerClient, image_id: str, cpuset: str) -> None:
        self._api = client.api
        self._image_id = image_id
        self._cpuset = cpuset
        self.container_id = ""

    def start(self) -> None:
        host_config = self._api.create_host_config(network_mode="none", cpuset_cpus=self._cpuset)
        created = self._api.create_container(
            self._image_id, ["infinity"], entrypoint=["sleep"], host_config=host_config, labels=CREATED_BY
        )
        self.container_id = created["Id"]
        self._api.start(self.container_id)

    def remove(self) -> None:
        container_id, self.container_id = self.container_id, ""
        if container_id:
            self._api.remove_container(container_id, force=True)

    def run(self, *argv: str) -> bytes:
        """What the SDK's exec_run does."""
        made = self._api.exec_create(self.container_id, list(argv))
        output: bytes = self._api.exec_start(made["Id"])
        if self._api.exec_inspect(made["Id"])["ExitCode"] != 0:
            raise RuntimeError(f"{argv[0]} failed in the bare container")
        return output

    def put(self, archive: bytes) -> None:
        if not self._api.put_archive(self.container_id, FOLDER, archive):
            raise RuntimeError("put_archive failed")

    def get(self, name: str) -> int:
        """Take a file's archive out, whole, and return its size."""
        pieces, _ = self._api.get_archive(self.container_id, f"{FOLDER}/{name}")
        return len(b"".join(pieces))

    def __enter__(self) -> BareContainer:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


def archive_of(name: str, data: bytes) -> bytes:
    """Return a tar archive with one file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def make_files(folder: Path, files: int, size_bytes: int) -> None:
    """Fill a folder with files of one size, a hundred to a folder."""
    for number in range(files):
        parent = folder / f"part{number // 100}"
        parent.mkdir(parents=True, exist_ok=True)
        (parent / f"file{number}").write_bytes(os.urandom(size_bytes))


def memory_folder() -> str | None:
    """Return a folder in memory, so that no disk makes a baseline slow; None (the usual place) where there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
