"""The examination: what it says of engines, real and described, and of versions with known holes."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import docker
import pytest

from mindx.errors import EngineError
from mindx.sandbox.advisories import all_advisories, find_advisories, is_fixed, mended_by_distribution, parse_version
from mindx.sandbox.doctor import (
    EngineFacts,
    _no_engine,
    check_advisories,
    check_data_root,
    check_engine,
    engine_checks,
    examine,
)
from mindx.sandbox.engine_place import EnginePlace
from mindx.sandbox.host_system import host_system, read_host_system
from mindx.sandbox.image_records import BaseImage

FAR = EnginePlace("tcp://192.0.2.1:2376", "DOCKER_HOST", named=True)


def facts(info: dict[str, Any] | None = None, parts: dict[str, str] | None = None, version: str = "26.1.5") -> Any:
    whole = {
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"],
        "CgroupVersion": "2",
        "MemoryLimit": True,
        "PidsLimit": True,
        "CPUSet": True,
        "SwapLimit": True,
        "Runtimes": {"runc": {}, "runsc": {}},
        "DefaultRuntime": "runc",
        **(info or {}),
    }
    return EngineFacts(FAR, whole, {"Version": version, "ApiVersion": "1.45"}, parts or {})


def states(checks: Any) -> dict[str, str]:
    return {check.check_id: check.state for check in checks}


def test_here_a_run_can_work(base_image: BaseImage) -> None:
    found = examine()
    assert found.works
    assert not [check for check in found.checks if check.state == "fail"]
    assert {check.check_id for check in found.checks} >= {
        *("system", "python", "state", "engine", "kernel", "cgroups", "swap", "seccomp", "lsm", "runtimes", "disk"),
        *("known-engine", "known-containerd", "known-runc", "image"),
    }


def test_an_image_that_nobody_knows_is_told(base_image: BaseImage) -> None:
    found = examine("no-such-image")
    assert (found.works, found.next_command) == (False, "mindx image list")


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({"DOCKER_HOST": "unix:///no/such.sock"}, "unset DOCKER_HOST"),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1"}, "unset DOCKER_HOST"),
        ({"DOCKER_CONTEXT": "gone", "DOCKER_CONFIG": "/no/such"}, "docker context use default"),
    ],
)
def test_without_an_engine_it_says_what_to_type(environ: dict[str, str], command: str) -> None:
    found = examine(environ=environ)
    assert not found.works
    assert found.next_command == command


@pytest.mark.parametrize(("folder", "told"), [("with space", "'{}/with space/mindx'"), ("", "mindx")])
def test_sudo_is_given_a_path_that_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, told: str
) -> None:
    """It looks into no virtual environment: `sudo mindx` would only say that there is no such command."""
    program = tmp_path / folder / "mindx" if folder else Path("pytest")
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setattr("mindx.sandbox.doctor._PATH_OF_SUDO", str(tmp_path))
    check = _no_engine(EngineError("engine_denied", "no"), read_host_system())
    assert check.command == f"sudo {told.format(tmp_path)} doctor"


def test_the_command_has_codes_and_one_document(base_image: BaseImage) -> None:
    command = [sys.executable, "-m", "mindx.cli.main", "doctor"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    document = json.loads(done.stdout)
    assert (done.returncode, document["works"], done.stderr) == (0, True, "")
    done = subprocess.run(command, capture_output=True, text=True, env={"DOCKER_HOST": "tcp://127.0.0.1:1"})
    assert done.returncode == 4
    assert "Next: unset DOCKER_HOST" in done.stdout


def test_an_engine_with_everything_has_nothing_to_mend() -> None:
    assert set(states(engine_checks(facts(parts={"Engine": "99.0.0"}))).values()) == {"ok"}


@pytest.mark.parametrize(
    ("info", "check_id", "state"),
    [
        ({"PidsLimit": False}, "cgroups", "fail"),
        ({"MemoryLimit": False}, "cgroups", "fail"),
        ({"CPUSet": False}, "cgroups", "fail"),
        ({"SwapLimit": False}, "swap", "warn"),
        ({"SecurityOptions": ["name=apparmor"]}, "seccomp", "fail"),
        ({"SecurityOptions": ["name=seccomp,profile=default"]}, "lsm", "note"),
        ({"Runtimes": {"runc": {}}}, "runtimes", "note"),
    ],
)
def test_each_lack_is_told(info: dict[str, Any], check_id: str, state: str) -> None:
    told = next(check for check in engine_checks(facts(info)) if check.check_id == check_id)
    assert told.state == state
    assert told.advice or state == "note"


@pytest.mark.parametrize(
    ("version", "parts", "state"),
    [
        ("20.10.24+dfsg1", {}, "ok"),
        ("19.03.15", {}, "fail"),
        ("4.3.1", {"Podman Engine": "4.3.1"}, "ok"),
        ("3.4.4", {"Podman Engine": "3.4.4"}, "fail"),
        ("4.2.0", {"Podman Engine": "4.2.0"}, "warn"),
        ("5.4.2", {"Podman Engine": "5.4.2"}, "warn"),
    ],
)
def test_engines_that_are_too_old_or_another(version: str, parts: dict[str, str], state: str) -> None:
    assert check_engine(facts(parts=parts, version=version)).state == state


def test_a_home_that_is_told_inside_is_told_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (told,) = check_data_root(facts({"DockerRootDir": str(tmp_path / ".local/share/docker")}))
    assert (told.state, str(tmp_path) in told.found) == ("note", True)
    assert list(check_data_root(facts({"DockerRootDir": "/var/lib/docker"}))) == []


def test_holes_are_told_unless_the_distribution_mended_them() -> None:
    old = facts(parts={"runc": "1.1.5+ds1"})
    (told,) = check_advisories(old)
    assert "CVE-2024-21626" in told.found
    every = frozenset(one.cve for one in all_advisories())
    assert list(check_advisories(old, lambda product, version: every)) == [told], (
        "another machine's packages say nothing here"
    )


def test_the_changelog_of_a_package_names_what_it_mended(tmp_path: Path) -> None:
    (tmp_path / "runc").mkdir()
    with gzip.open(tmp_path / "runc" / "changelog.Debian.gz", "wt") as file:
        file.write("runc (1.1.5+ds1-1+deb12u1)\n  * Fix leaked descriptors (Fixes: CVE-2024-21626)\n")
    assert mended_by_distribution("runc", "1.1.5+ds1", tmp_path) == {"CVE-2024-21626"}
    assert mended_by_distribution("runc", "1.1.9", tmp_path) == frozenset(), "another one than the package's"
    assert mended_by_distribution("engine", "1.1.5+ds1", tmp_path) == frozenset()


@pytest.mark.parametrize(
    ("version", "fixed", "good"),
    [
        ("1.1.11", ["1.1.12"], False),
        ("1.1.12", ["1.1.12"], True),
        ("1.2.7", ["1.2.8", "1.3.3"], False),
        ("1.2.8", ["1.2.8", "1.3.3"], True),
        ("1.1.15", ["1.2.8", "1.3.3"], False),
        ("1.4.0", ["1.2.8", "1.3.3"], True),
        ("v2.0.4", ["1.7.27", "2.0.4"], True),
        ("1.0.0~rc93+ds1", ["1.0.0-rc95"], False),
        ("1.0.0-rc95", ["1.0.0-rc95"], True),
        ("1.0.0", ["1.0.0-rc95"], True),
        ("1.4.0-rc.2", ["1.3.3", "1.4.0-rc.3"], False),
    ],
)
def test_a_line_is_compared_with_its_own_repair(version: str, fixed: list[str], good: bool) -> None:
    parsed = parse_version(version)
    assert parsed is not None
    assert is_fixed(parsed, fixed) is good


def test_the_table_is_sound() -> None:
    ids = [one.cve for one in all_advisories()]
    assert len(set(ids)) == len(ids)
    for one in all_advisories():
        assert re.fullmatch(r"CVE-\d{4}-\d{4,}", one.cve)
        assert one.fixed
        assert re.fullmatch(r"GHSA(-[23456789cfghjmpqrvwx]{4}){3}", one.source)
        assert all(parse_version(version) for version in one.fixed)
    assert find_advisories("runc", "unknown") is None


@pytest.mark.parametrize(
    ("platform", "os_release", "word", "can_set_up"),
    [
        ("linux", 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 13"\n', "mindx setup", True),
        ("linux", "ID=linuxmint\nID_LIKE='ubuntu debian'\n", "mindx setup", True),
        ("linux", 'NAME="Fedora Linux"\nID=fedora\n', "dnf install moby-engine", False),
        ("linux", 'ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install", False),
        ("linux", "ID=alpine\n", "apk add docker", False),
        ("linux", "", "Install Docker Engine", False),
        ("darwin", "", "Docker Desktop", False),
        ("win32", "", "WSL 2", False),
    ],
)
def test_every_system_is_told_what_to_install(platform: str, os_release: str, word: str, can_set_up: bool) -> None:
    system = host_system(platform, os_release, "6.1.0", has_apt=platform == "linux")
    assert system.can_set_up is can_set_up
    assert word in system.advice


def test_facts_of_the_real_engine_are_read(engine: docker.DockerClient) -> None:
    from mindx.sandbox.doctor import read_facts

    found = read_facts(engine, EnginePlace("unix:///var/run/docker.sock", "the default socket"))
    assert found.parts["Engine"]
    assert found.is_local
