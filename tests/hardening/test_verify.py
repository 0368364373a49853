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

from mindx.sandbox import container
from mindx.sandbox.container import ContainerSettings, EngineControls, Ids
from mindx.sandbox.probe import Finding, Stage, examine
from mindx.sandbox.verify import ALL, verify

from .sabotages import SABOTAGES, Change, Sabotage, altered_guest, put

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


def test_every_probe_has_a_sabotage() -> None:
    assert set(SABOTAGES) == set(PROBES)


@pytest.mark.parametrize(
    ("probe_id", "sabotaged"),
    [
        pytest.param(probe_id, one, id=f"{probe_id}-{number}")
        for probe_id, ways in SABOTAGES.items()
        for number, one in enumerate(ways, 1)
    ],
)
def test_a_probe_is_red_when_its_control_is_sabotaged(
    probe_id: str,
    sabotaged: Sabotage,
    sabotage_request: Callable[[Change], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if (os.cpu_count() or 1) < sabotaged.cpus:
        pytest.skip(f"this machine has fewer than {sabotaged.cpus} CPUs")

    def change(request: dict[str, Any]) -> None:
        host = request["HostConfig"]
        if sabotaged.host is not None:
            sabotaged.host(host)
            request["NetworkDisabled"] = host["NetworkMode"] == "none"
        if sabotaged.request is not None:
            sabotaged.request(request)
        host.update(altered)

    altered = altered_guest(tmp_path, sabotaged.guest) if sabotaged.guest else {}
    sabotage_request(change)
    if sabotaged.ours is not None:
        sabotaged.ours(monkeypatch, tmp_path)
    finding = found(probe_id, sabotaged.settings)
    assert not finding.passed, finding.happened
    assert sabotaged.says in finding.happened


def test_verify_says_no_when_one_limit_is_missing(
    sabotage: Callable[[Change], None],
) -> None:
    sabotage(put("PidsLimit", 4096))
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
