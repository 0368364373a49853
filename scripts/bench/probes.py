"""The probes: each measures one group of figures, session and baseline in turns, through the public Session."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import docker

import mindx
from mindx.core.command import Exec
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import parse_policy
from mindx.trace.recorder import Recorder
from scripts.bench.baselines import (
    BareContainer,
    archive_of,
    drain_native,
    make_files,
    memory_folder,
    pinned,
    run_native,
)
from scripts.bench.cli_probe import MINDX, PYTHON, compile_package, docker_run, run_cold, write_plan
from scripts.bench.hardening_probe import probe_hardening, probe_workload
from scripts.bench.memory import measure_memory
from scripts.bench.samples import Samples, interleave, repeat

KIB, MIB = 1 << 10, 1 << 20
BLOCK = 10  # quick things take turns in blocks
LARGE_OUTPUT_BYTES = 256 * MIB
# As the default policy, but it keeps the whole of a large output.
LARGE_OUTPUT_POLICY = """\
version: 1
name: bench-large-output
limits: {output: 256MiB}
commands:
  - allow: [head]
"""
# 100 processes, each in a session of its own and deaf to SIGTERM.
HOPPERS = """
import os, signal, time
for _ in range(100):
    if not os.fork():
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
time.sleep(60)
"""


@dataclass
class Bench:
    """What every probe needs: the engine, a scratch folder, and what a session's container is made of."""

    client: docker.DockerClient
    folder: Path
    samples: Samples
    quick: bool = False
    image_id: str = ""
    cpuset: str = ""
    cpus: int = 1
    host: dict[str, Any] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def rounds(self, whole: int) -> int:
        """Return how often to measure: a quick run does a fifth, and five at least."""
        return max(5, whole // 5) if self.quick else whole

    @contextmanager
    def recorder(self) -> Iterator[Recorder]:
        """Yield a recorder with a trace of its own: every session is recorded, as a run's is."""
        with Recorder(self.folder / f"trace{next(self._numbers)}.jsonl") as recorder:
            yield recorder

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncIterator[mindx.Session]:
        with self.recorder() as recorder:
            async with mindx.Session(recorder=recorder, **options) as session:
                yield session

    def bare(self) -> BareContainer:
        return BareContainer(self.client, self.image_id, self.cpuset)

    def native(self, name: str, *argv: str) -> Callable[[], Awaitable[None]]:
        """Return an action that runs a program natively, on as many CPUs as the container has."""

        async def action() -> None:
            with pinned(self.cpus), self.samples.time(name):
                run_native(*argv)

        return action

    def cold(self, name: str, argv: list[str]) -> Callable[[], Awaitable[None]]:
        """Return an action that starts a program and waits for its end."""

        async def action() -> None:
            with self.samples.time(name):
                run_cold(argv)

        return action

    async def look(self) -> None:
        """Open one session, which also prepares the image, and take down what the baselines have to share with it."""
        async with self.session() as session:
            await session.run(["true"])
            (owned,) = self.client.api.containers(filters={"label": f"mindx.pid={os.getpid()}"})
            found = self.client.api.inspect_container(owned["Id"])
        self.image_id, self.host = found["Image"], found["HostConfig"]
        self.cpuset = found["HostConfig"]["CpusetCpus"]
        self.cpus = len(parse_cpuset(self.cpuset)) or len(os.sched_getaffinity(0))


def parse_cpuset(text: str) -> set[int]:
    """Return the CPUs that a cpuset such as `0-2,5` names."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


async def probe_command(bench: Bench) -> None:
    """A warm `true` against a native subprocess."""
    async with bench.session() as session:

        async def warm() -> None:
            with bench.samples.time("session_true"):
                await session.run(["true"])

        native = bench.native("native_true", "true")
        both = [repeat(warm, BLOCK), repeat(native, BLOCK)]
        await interleave(bench.samples, both, bench.rounds(200), warm_up=5)


async def probe_exec(bench: Bench) -> None:
    """A warm `true` against the SDK's exec."""
    async with bench.session() as session:
        with bench.bare() as bare:

            async def warm() -> None:
                with bench.samples.time("exec_session_true"):
                    await session.run(["true"])

            async def sdk() -> None:
                with bench.samples.time("sdk_exec"):
                    bare.run("true")

            await interleave(bench.samples, [repeat(warm, BLOCK), sdk], bench.rounds(60), warm_up=3)


async def probe_start(bench: Bench) -> None:
    """Start until the first answer, and the end, against create + start and forced removal."""
    samples = bench.samples

    async def ours() -> None:
        with bench.recorder() as recorder:
            session = mindx.Session(recorder=recorder)
            try:
                with samples.time("session_start"):
                    await session.open()
                    await session.run(["true"])
            finally:
                with samples.time("session_stop"):
                    await session.close()

    async def sdk() -> None:
        bare = bench.bare()
        try:
            with samples.time("sdk_start"):
                bare.start()
        finally:
            with samples.time("sdk_remove"):
                bare.remove()

    await interleave(samples, [ours, sdk], bench.rounds(30), warm_up=2)


async def probe_small(bench: Bench) -> None:
    """1 KiB in and out."""
    await _probe_files(bench, "1k", os.urandom(KIB), bench.rounds(60), BLOCK)


async def probe_large(bench: Bench) -> None:
    """64 MiB in and out."""
    await _probe_files(bench, "64m", os.urandom(MIB) * 64, bench.rounds(15), 1)


async def _probe_files(bench: Bench, label: str, data: bytes, rounds: int, block: int) -> None:
    samples, archive = bench.samples, archive_of("file", data)
    async with bench.session() as session:
        with bench.bare() as bare:

            async def ours() -> None:
                with samples.time(f"session_write_{label}"):
                    await session.write("file", data)
                with samples.time(f"session_read_{label}"):
                    found = await session.read("file")
                if found != data:
                    raise RuntimeError("what was read is not what was written")

            async def sdk() -> None:
                with samples.time(f"sdk_put_{label}"):
                    bare.put(archive)
                with samples.time(f"sdk_get_{label}"):
                    size = bare.get("file")
                if size < len(data):
                    raise RuntimeError("get_archive gave less than was put")

            await interleave(samples, [repeat(ours, block), sdk], rounds)


async def probe_stdout(bench: Bench) -> None:
    """256 MiB of output, kept, against the same program captured natively."""
    policy = bench.folder / "policy.yaml"
    policy.write_text(LARGE_OUTPUT_POLICY)
    argv = ["head", "-c", str(LARGE_OUTPUT_BYTES), "/dev/zero"]
    async with bench.session(policy=policy) as session:

        async def ours() -> None:
            with bench.samples.time("session_stdout"):
                result = await session.run(argv)
            if len(result.stdout) != LARGE_OUTPUT_BYTES or result.truncated or not result.ok:
                raise RuntimeError("the output was not kept whole")

        await interleave(bench.samples, [ours, bench.native("native_stdout", *argv)], bench.rounds(10))


async def probe_drain(bench: Bench) -> None:
    """Output far over the cap, counted and digested to the last byte, against a native pipe that throws it away."""
    size = (1 if bench.quick else 10) * 1000 * MIB
    argv = ["head", "-c", str(size), "/dev/zero"]
    async with bench.session() as session:

        async def ours() -> None:
            with bench.samples.time("session_drain"):
                result = await session.run(argv)
            if result.receipt.stdout_bytes != size or not result.ok:
                raise RuntimeError("not every byte was counted")

        async def native() -> None:
            with pinned(bench.cpus), bench.samples.time("native_drain"):
                drain_native(*argv)

        await interleave(bench.samples, [ours, native], 3, warm_up=0)


async def probe_kill(bench: Bench) -> None:
    """From the deadline of 100 processes that leave their session and ignore SIGTERM until none is left."""
    timeout_s = 1.0
    async with bench.session() as session:

        async def ours() -> None:
            result = await session.run(["python3", "-c", HOPPERS], timeout_s=timeout_s)
            if result.exit_cause is not mindx.ExitCause.TIMEOUT or result.receipt.killed_count < 100:
                raise RuntimeError(f"the processes were not there to be killed: {result.stderr_text}")
            bench.samples.add("kill_to_empty", result.receipt.duration_s - timeout_s)

        both = [ours, repeat(bench.native("kill_native_true", "true"), BLOCK)]
        await interleave(bench.samples, both, bench.rounds(100), warm_up=1)


async def probe_copy(bench: Bench) -> None:
    """2,000 files of 4 KiB into a new session, without the start of the container, against `cp -r`."""
    with tempfile.TemporaryDirectory(prefix="mindx-bench-", dir=memory_folder()) as folder:
        source, target = Path(folder, "files"), Path(folder, "copied")
        make_files(source, 2000, 4 * KIB)
        await _probe_copy(bench, source, target)


async def _probe_copy(bench: Bench, source: Path, target: Path) -> None:

    async def ours() -> None:
        moments = [time.perf_counter()]
        with bench.recorder() as recorder:
            session = mindx.Session(workspace=source, recorder=recorder)
            try:
                # Told first when the folder has been looked through, and last when the copying begins.
                await session.open(lambda text: moments.append(time.perf_counter()))
                moments.append(time.perf_counter())
                bench.samples.add("session_copy_in", moments[1] - moments[0] + moments[-1] - moments[-2])
            finally:
                await session.close()

    native = bench.native("native_cp", "cp", "-r", str(source), str(target))

    async def copy() -> None:
        await native()
        shutil.rmtree(target)

    await interleave(bench.samples, [ours, copy], bench.rounds(15))


async def probe_memory(bench: Bench) -> None:
    """An idle session in the engine, and the client beside a bare SDK client."""
    for _ in range(2 if bench.quick else 5):
        await measure_memory(bench.samples, bench.client)


async def probe_judge(bench: Bench) -> None:
    """One judgement by a policy of 200 rules, all for the same program, against a native `true`."""
    engine = PolicyEngine(parse_policy(many_rules(200), source="bench").policy, autonomous=False)
    command = Exec(("git", "log", "--oneline", "-5"))

    async def judged() -> None:
        with bench.samples.time("judge_200_rules"):
            engine.judge(command)

    both = [repeat(judged, BLOCK), repeat(bench.native("judge_native_true", "true"), BLOCK)]
    await interleave(bench.samples, both, bench.rounds(100), warm_up=5)


async def probe_agent(bench: Bench) -> None:
    """A step of the loop with a model that answers at once and a sandbox in memory, alone and in 100 sessions."""
    from scripts.bench.agent_probe import SESSIONS, seconds_per_step

    folder = bench.folder / "agent-traces"

    async def alone() -> None:
        bench.samples.add("agent_step", await seconds_per_step(folder, 1))

    async def many() -> None:
        bench.samples.add("agent_step_of_100", await seconds_per_step(folder, SESSIONS))

    both = [repeat(alone, 1), repeat(bench.native("agent_native_true", "true"), BLOCK)]
    await interleave(bench.samples, both, bench.rounds(40), warm_up=2)
    for _ in range(3):
        await many()


async def probe_mind(bench: Bench) -> None:
    """An action of a BDI agent and its command, both in a sandbox in memory; questions to 10,000 beliefs on disk."""
    from scripts.bench.mind_probe import many_beliefs, query_seconds, seconds_per_action

    for _ in range(bench.rounds(20)):
        action_s, command_s = await seconds_per_action(bench.folder / "mind")
        bench.samples.add("bdi_action", action_s)
        bench.samples.add("bdi_command", command_s)
    with many_beliefs(bench.folder / "mind" / "beliefs.sqlite3") as system:
        for number in range(bench.rounds(400)):
            bench.samples.add("beliefs_query", query_seconds(system, number))


async def probe_campaign(bench: Bench) -> None:
    """A whole campaign: the improvement agent is a process of its own, and the containers are real."""
    from scripts.bench.campaign_probe import campaign_seconds

    for number in range(max(2, bench.rounds(5))):
        await repeat(bench.native("campaign_native_true", "true"), BLOCK)()
        bench.samples.add("campaign", await campaign_seconds(bench.folder / f"campaign-{number}"))


async def probe_cli(bench: Bench) -> None:
    """Whole processes: the help, a check and a program in a container, each from a cold start."""
    compile_package()
    plan = str(write_plan(bench.folder / "plan200.json"))
    python, mindx_exec = list(PYTHON), [*MINDX, "exec", "--no-stdin", "--", "true"]
    # As a user has it: on all CPUs, and with bytecode that is there already.
    quick = [
        bench.cold(name, argv)
        for name, argv in (
            ("python_start", python),
            ("mindx_help", [*MINDX, "--help"]),
            ("mindx_check", [*MINDX, "check", plan]),
        )
    ]
    await interleave(bench.samples, quick, bench.rounds(30), warm_up=2)
    run = docker_run(bench.host, bench.image_id, bench.folder)
    whole = [bench.cold("mindx_exec", mindx_exec), bench.cold("docker_run", run)]
    await interleave(bench.samples, whole, bench.rounds(20), warm_up=2)


def many_rules(count: int) -> bytes:
    """Return a policy with `count` rules for git, none quick to tell from another by the program alone."""
    rules = [
        f"  - deny: git verb{i} --force" if i % 2 else f"  - allow: git (verb{i}|log{i}) **" for i in range(count - 1)
    ]
    return "\n".join(["version: 1", "commands:", *rules, "  - allow: git"]).encode()


PROBES: dict[str, Callable[[Bench], Awaitable[None]]] = {
    "command": probe_command,
    "exec": probe_exec,
    "start": probe_start,
    "hardening": probe_hardening,
    "workload": probe_workload,
    "small": probe_small,
    "large": probe_large,
    "stdout": probe_stdout,
    "drain": probe_drain,
    "kill": probe_kill,
    "memory": probe_memory,
    "copy": probe_copy,
    "judge": probe_judge,
    "agent": probe_agent,
    "mind": probe_mind,
    "campaign": probe_campaign,
    "cli": probe_cli,
}
