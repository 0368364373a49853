"""`mindx verify`: green here, red when a limit is sabotaged, and what it prints."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindx.policy.model import Limits
from mindx.sandbox import container
from mindx.sandbox.container import ContainerSettings, EngineControls, Ids
from mindx.sandbox.probe import Finding, Stage, examine
from mindx.sandbox.verify import ALL, verify

ROOT = Path(__file__).resolve().parents[2]
PROBES = {probe.probe_id: probe for probe in ALL}


def found(probe_id: str, settings: ContainerSettings | None = None) -> Finding:
    """Run one probe on a sandbox of its own."""

    async def run() -> Finding:
        stage = Stage(settings or ContainerSettings())
        try:
            return await examine(PROBES[probe_id], stage)
        finally:
            await stage.renew()

    return asyncio.run(run())


def test_every_promise_holds_and_the_document_says_so(ready: None) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mindx.cli.main", "verify", "--json"], capture_output=True, text=True, timeout=90
    )
    document = json.loads(done.stdout)
    failed = [probe for probe in document["probes"] if not probe["pass"]]
    assert failed == []
    assert done.returncode == 0
    assert document["holds"] is True
    assert [probe["id"] for probe in document["probes"]] == list(PROBES)
    assert all(probe["tried"] and probe["happened"] for probe in document["probes"])
    assert document["duration_s"] < 60


def test_no_probe_stands_twice() -> None:
    assert len({probe.probe_id for probe in ALL}) == len(ALL)
    assert len({probe.promise for probe in ALL}) == len(ALL)


def test_each_promise_of_security_md_has_one_probe() -> None:
    lines = (ROOT / "SECURITY.md").read_text("utf-8").splitlines()
    named = [line.split("|")[2].strip().strip("`") for line in lines if line.startswith("| ") and "`" in line]
    assert sorted(named) == sorted(PROBES)


def test_hardening_md_names_every_control_and_every_probe() -> None:
    text = (ROOT / "docs" / "hardening.md").read_text("utf-8")
    host = container.host_config(ContainerSettings(), Ids(10_000, 10_000), "0", EngineControls(1, apparmor=True))
    wanted = {*host, *(limit["Name"] for limit in host["Ulimits"]), *host["Tmpfs"], *host["Sysctls"]}
    assert {name for name in wanted if name not in text} == set()
    assert {probe_id for probe_id in PROBES if f"`{probe_id}`" not in text} - UNCONTROLLED == set()


# Promises about what mindx itself does; no setting of the container stands behind them.
UNCONTROLLED = {"links", "pipes", "deadline", "forging", "exit", "output", "policy"}


def without(key: str, value: Any = None) -> Callable[[dict[str, Any]], None]:
    def change(host: dict[str, Any]) -> None:
        host[key] = value

    return change


def unlimited(point: str) -> Callable[[dict[str, Any]], None]:
    def change(host: dict[str, Any]) -> None:
        host["Tmpfs"] = {**host["Tmpfs"], point: "rw,exec,nosuid,nodev,mode=1777"}

    return change


SABOTAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "processes": without("PidsLimit", 4096),
    "fork-bomb": without("PidsLimit", 4096),
    "writing": without("ReadonlyRootfs", False),
    "calls": without("SecurityOpt", ["no-new-privileges:true"]),
    "sockets": without("SecurityOpt", ["no-new-privileges:true"]),
    "network": without("NetworkMode", "bridge"),
    "tmp-size": unlimited("/tmp"),
    "shm-size": unlimited("/dev/shm"),
    "open-files": without("Ulimits", []),
    "kernel-files": without("MaskedPaths", []),
    "swap": without("MemorySwap", -1),
    "namespaces": without("IpcMode", "host"),
    "segments": without("Sysctls", {"kernel.shm_rmid_forced": "0"}),
    "attested": without("OomScoreAdj", 0),
    "setuid": without("SecurityOpt", ["seccomp=unconfined"]),
    "workspace-size": unlimited("/workspace"),
    "core": without("Ulimits", []),
    "doors": without("Devices", [{"PathOnHost": "/dev/mem", "PathInContainer": "/dev/mem", "CgroupPermissions": "r"}]),
    "names": lambda host: host.update(NetworkMode="bridge", ExtraHosts=["canary.invalid:192.0.2.1"]),
    "logs": without("LogConfig", {"Type": "json-file", "Config": {}}),
}


@pytest.mark.parametrize("probe_id", sorted(SABOTAGES))
def test_a_probe_is_red_when_its_control_is_sabotaged(
    probe_id: str, sabotage: Callable[[Callable[[dict[str, Any]], None]], None]
) -> None:
    sabotage(SABOTAGES[probe_id])
    finding = found(probe_id)
    assert not finding.passed, finding.happened


def test_the_memory_probe_is_red_without_a_memory_limit(
    sabotage: Callable[[Callable[[dict[str, Any]], None]], None],
) -> None:
    def change(host: dict[str, Any]) -> None:
        host["Memory"] = host["MemorySwap"] = 0

    sabotage(change)
    assert not found("memory").passed


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="this machine has one CPU")
def test_the_cpus_probe_is_red_when_a_session_gets_more_than_its_own(
    sabotage: Callable[[Callable[[dict[str, Any]], None]], None],
) -> None:
    sabotage(without("CpusetCpus", ""))
    assert not found("cpus", ContainerSettings(Limits(cpus=1))).passed


def test_verify_says_no_when_one_limit_is_missing(
    sabotage: Callable[[Callable[[dict[str, Any]], None]], None],
) -> None:
    sabotage(without("PidsLimit", 4096))
    result = asyncio.run(verify(ContainerSettings()))
    failed = {finding.probe_id for finding in result.findings if not finding.passed}
    assert {"attested", "processes", "fork-bomb"} <= failed
    assert not result.holds


def test_time_that_is_up_is_a_failure(ready: None) -> None:
    result = asyncio.run(verify(ContainerSettings(), within_s=0.0))
    assert not result.holds
    assert {finding.happened for finding in result.findings} == {"no time was left"}


def test_without_an_engine_the_exit_code_is_4(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mindx.cli.main", "verify"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"DOCKER_HOST": f"unix://{tmp_path}/none.sock", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 4
    assert "engine" in done.stderr
    assert done.stdout == ""
