"""What the fake offers to tests beyond the contract."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from mindx.core.command import Exec, ReadFile, WriteFile
from mindx.core.receipt import ExitCause
from mindx.errors import SandboxError, SandboxLostError
from mindx.sandbox.base import PutItem
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.fake_programs import ProgramContext, ProgramEnd


def test_a_test_brings_its_own_programs() -> None:
    async def greet(ctx: ProgramContext) -> int:
        ctx.write_stdout(f"{ctx.argv} {ctx.cwd} {ctx.env['WHO']} ".encode() + ctx.stdin)
        ctx.write_stderr(b"seen")
        ctx.fs.write(ctx.resolve("out.txt"), b"made")
        return 3

    async def main() -> None:
        async with FakeSandbox({"greet": greet}) as sandbox:
            command = Exec(("greet", "you"), env={"WHO": "me"}, stdin=b"in")
            result = await sandbox.execute(command)
            assert result.stdout == b"('greet', 'you') /workspace me in"
            assert result.stderr == b"seen"
            assert result.exit_code == 3
            assert not result.ok
            assert await sandbox.read_file(ReadFile("/workspace/out.txt")) == b"made"
            assert sandbox.commands == [command, ReadFile("/workspace/out.txt")]

    asyncio.run(main())


def test_a_program_can_end_for_want_of_memory_or_by_a_signal() -> None:
    async def eat(ctx: ProgramContext) -> int:
        raise ProgramEnd(ExitCause.OOM, oom_kills=2)

    async def crash(ctx: ProgramContext) -> int:
        raise ProgramEnd(ExitCause.SIGNAL, signal=11)

    async def main() -> None:
        async with FakeSandbox({"eat": eat, "crash": crash}) as sandbox:
            eaten = (await sandbox.execute(Exec(("eat",)))).receipt
            assert (eaten.exit_cause, eaten.oom_kills, eaten.exit_code) == (ExitCause.OOM, 2, None)
            crashed = (await sandbox.execute(Exec(("crash",)))).receipt
            assert (crashed.exit_cause, crashed.signal, crashed.exit_code) == (ExitCause.SIGNAL, 11, None)

    asyncio.run(main())


def test_a_program_that_swallows_its_kill_still_timed_out() -> None:
    async def stubborn(ctx: ProgramContext) -> int:
        try:
            await anyio.sleep_forever()
        except BaseException:  # noqa: BLE001 - that is the point
            return 0

    async def main() -> None:
        async with FakeSandbox({"stubborn": stubborn}) as sandbox:
            result = await sandbox.execute(Exec(("stubborn",), timeout_s=0.01))
            assert result.exit_cause is ExitCause.TIMEOUT
            assert result.exit_code is None

    asyncio.run(main())


def test_a_fault_in_a_program_reaches_the_test() -> None:
    async def broken(ctx: ProgramContext) -> int:
        raise RuntimeError("a fault in the test")

    async def main() -> None:
        async with FakeSandbox({"broken": broken}) as sandbox:
            with pytest.raises(RuntimeError, match="a fault in the test"):
                await sandbox.execute(Exec(("broken",)))
            assert (await sandbox.execute(Exec(("true",)))).ok

    asyncio.run(main())


def test_an_executable_is_found_by_its_file() -> None:
    async def main() -> None:
        async with FakeSandbox() as sandbox:
            await sandbox.write_file(WriteFile("/workspace/true", b"", 0o755))
            await sandbox.write_file(WriteFile("/workspace/false", b"", 0o644))
            found = await sandbox.execute(Exec(("true",), executable="/workspace/true"))
            plain = await sandbox.execute(Exec(("false",), executable="/workspace/false"))
            missing = await sandbox.execute(Exec(("true",), executable="/workspace/none"))
            causes = [found.exit_cause, plain.exit_cause, missing.exit_cause]
            assert causes == [ExitCause.EXIT, ExitCause.NOT_EXECUTABLE, ExitCause.NOT_FOUND]

    asyncio.run(main())


def test_a_lost_sandbox_fails_the_running_command_and_all_that_follow() -> None:
    async def main() -> None:
        running = asyncio.Event()

        async def wait(ctx: ProgramContext) -> int:
            running.set()
            await anyio.sleep_forever()

        async with FakeSandbox({"wait": wait}) as sandbox:
            task = asyncio.create_task(sandbox.execute(Exec(("wait",), timeout_s=None)))
            await running.wait()
            sandbox.lose("the test broke it")
            with pytest.raises(SandboxLostError, match="the test broke it"):
                await task
            with pytest.raises(SandboxLostError):
                await sandbox.read_file(ReadFile("/workspace/x"))

    asyncio.run(main())


def test_before_the_start_and_at_a_second_one_it_says_what_to_do() -> None:
    async def main() -> None:
        sandbox = FakeSandbox()
        with pytest.raises(SandboxError, match="async with"):
            await sandbox.execute(Exec(("true",)))
        await sandbox.start()
        with pytest.raises(SandboxError, match="make a new one"):
            await sandbox.start()
        await sandbox.close()

    asyncio.run(main())


def test_content_of_another_size_than_announced_is_refused() -> None:
    async def main() -> None:
        async with FakeSandbox() as sandbox:
            with pytest.raises(OSError, match="x"):
                await sandbox.put([PutItem("x", "file", 0o644, size=3, content=lambda: [b"12"])])

    asyncio.run(main())
