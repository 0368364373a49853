"""The seccomp profile: what it compiles to, what it refuses, and what must work under it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
import re
import time
from pathlib import Path

import docker
import pytest
from hatchling.builders.wheel import WheelBuilder
from hypothesis import given
from hypothesis import strategies as st

from mindx.core.command import Exec
from mindx.sandbox import seccomp
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.image import DerivedImage

from .toolchain import LIMITS, RUN_WORKLOAD, ToolchainSandbox, workload

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NUMBERS = st.integers(0, seccomp.LOW_32)


@given(NUMBERS, st.integers(0, 5000), NUMBERS)
def test_blocks_hold_exactly_their_range(low: int, length: int, other: int) -> None:
    high = min(low + length, seccomp.LOW_32)
    blocks = list(seccomp.blocks(low, high))
    inside = {low, high, (low + high) // 2}
    for number in inside | {other} | {max(0, low - 1), min(seccomp.LOW_32, high + 1)}:
        matches = sum(number & mask == value for mask, value in blocks)
        assert matches == (1 if low <= number <= high else 0)


def test_the_profile_is_the_same_text_every_time_and_for_both_architectures() -> None:
    text = seccomp.compile_profile(seccomp.SOURCE.read_text("utf-8"))
    assert text == seccomp.profile(), "run `python -m mindx.sandbox.seccomp` after a change of the source"
    assert hashlib.sha256(text.encode()).hexdigest() == seccomp.profile_sha256()
    document = json.loads(text)
    assert document["defaultAction"] == "SCMP_ACT_ERRNO"
    assert document["archMap"] == [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
    ]


def test_every_call_that_the_headers_name_is_decided() -> None:
    header = Path(f"/usr/include/{platform.machine()}-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    names = set(re.findall(r"#define __NR_(\w+) ", header.read_text("utf-8")))
    decided = {name for rule in json.loads(seccomp.profile())["syscalls"] for name in rule["names"]}
    assert names - decided == set()


GROUP = "version: 1\narchitectures: []\ndefault: EPERM\nrefuse: []\nabsent: []\ngroups:\n"
FAULTS = {
    "version: 2": "version 1",
    GROUP + "  - {name: a, allow: [read]}": "keys",
    GROUP + "  - {name: a, why: b, allow: [read, read]}": "twice",
    GROUP + "  - {name: a, why: b, allow: [read]}\n  - {name: c, why: d, allow: [read]}": "twice",
    GROUP + "  - {name: a, why: b, allow: [read], when: [[{arg: 0, below: 3}]]}": "condition",
    GROUP + "  - {name: a, why: b, allow: [read], when: [[{arg: 0, is: [0x100000000]}]]}": "32 bits",
}


@pytest.mark.parametrize("text", sorted(FAULTS))
def test_what_the_form_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=FAULTS[text]):
        seccomp.compile_profile(text)


def test_the_source_travels_in_the_wheel() -> None:
    files = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {"mindx/sandbox/data/seccomp.yaml", "mindx/sandbox/data/seccomp.json"} <= files


def test_the_digest_stands_on_the_container_and_in_the_attestation(
    engine: docker.DockerClient, derived_image: DerivedImage
) -> None:
    async def run() -> None:
        async with DockerSandbox() as sandbox:
            inspected = await asyncio.to_thread(engine.api.inspect_container, sandbox.container_id)
            assert inspected["Config"]["Labels"]["mindx.seccomp_sha256"] == seccomp.profile_sha256()
            assert sandbox.attestation is not None
            assert sandbox.attestation.to_dict()["seccomp_sha256"] == seccomp.profile_sha256()

    asyncio.run(run())


def test_the_calls_of_the_probe_end_as_the_table_says(derived_image: DerivedImage) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the table was taken on x86_64")
    program = (HERE / "syscall_probe.py").read_bytes()

    async def run() -> str:
        async with DockerSandbox() as sandbox:
            result = await sandbox.execute(Exec(("python3", "-I", "-"), stdin=program, timeout_s=30))
            assert result.ok, result.stderr_text
            return result.stdout_text

    found = asyncio.run(run()).splitlines()
    table = (HERE / "data" / "syscalls.txt").read_text("utf-8").splitlines()
    assert len(table) > 70
    assert found == table


async def run_workload(sandbox: DockerSandbox) -> float:
    async with sandbox:
        await sandbox.put(workload())
        began = time.perf_counter()
        result = await sandbox.execute(RUN_WORKLOAD)
        took = time.perf_counter() - began
        assert result.ok, (result.exit_cause, result.stdout_text[-3000:], result.stderr_text[-3000:])
        assert result.stdout_text.splitlines()[-1] == "done"
        return took


@pytest.mark.timeout(900)  # on a fresh machine its image is built first
def test_a_toolchain_works_under_the_profile(toolchain_image: DerivedImage) -> None:
    asyncio.run(run_workload(ToolchainSandbox(toolchain_image, ContainerSettings(LIMITS))))
