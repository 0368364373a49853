"""MCP servers as tools: a real server of the official package on the host, a plain one in a container."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mindx.core.action import ActionRequest, ActionRisk
from mindx.core.command import Exec, ListDir, MakeDir, ReadFile, Remove, WriteFile
from mindx.core.observation import Observation, Status
from mindx.errors import EngineError, InputError
from mindx.policy.load import LoadedPolicy, parse_policy
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.image import DerivedImage
from mindx.tools.executor import ToolExecutor
from mindx.tools.mcp.config import MCPServerConfig, load_mcp_servers
from mindx.tools.mcp.errors import MCPConnectionError
from mindx.tools.mcp.toolset import MCPToolSet
from mindx.tools.mcp.transport import ServerJudge, container
from tests.tools.tool_kit import run_context

SERVERS = Path(__file__).parent / "servers"
Do = Callable[..., Awaitable[Observation]]


def on_host(**options: Any) -> MCPServerConfig:
    command = (sys.executable, str(SERVERS / "counting.py"))
    risks = {"add": ActionRisk.READ_ONLY, "calls": ActionRisk.READ_ONLY}
    return MCPServerConfig(**{"name": "count", "command": command, "run_on": "host", "risks": risks, **options})


def caller(tools: MCPToolSet) -> Do:
    executor = ToolExecutor(tools)

    async def do(name: str, /, **arguments: Any) -> Observation:
        return await executor.execute(ActionRequest("a", name, arguments), run_context())

    return do


def with_tools(work: Callable[[MCPToolSet, Do], Awaitable[None]], *configs: MCPServerConfig) -> None:
    async def main() -> None:
        async with MCPToolSet(configs) as tools:
            await work(tools, caller(tools))

    asyncio.run(main())


def test_a_servers_tools_are_called_like_any_other() -> None:
    async def work(tools: MCPToolSet, do: Do) -> None:
        names = [tool.tool_id for tool in tools]
        assert names == [f"count_{name}" for name in ("add", "calls", "environment", "fail", "leave", "wait")]
        added = await do("count_add", a=17, b=25)
        assert (added.status, added.result["content"]) == (Status.SUCCESS, "42")
        assert "expected integer, not string" in (await do("count_add", a="x", b=1)).message
        failed = await do("count_fail")
        assert failed.status is Status.FAILURE
        assert "Error executing tool fail" in failed.message
        # One process for the whole session of work.
        assert (await do("count_calls")).result["content"] == (await do("count_calls")).result["content"]
        assert (await do("count_calls")).result["content"].startswith("1 in ")

    with_tools(work, on_host())


def test_the_operator_says_which_tools_there_are_and_what_they_may_do() -> None:
    async def work(tools: MCPToolSet, do: Do) -> None:
        executor = ToolExecutor(tools)

        def traits(name: str) -> Any:
            return executor.assess(
                ActionRequest("a", name, {"a": 1, "b": 2} if name == "count_add" else {}), run_context()
            )

        assert [tool.tool_id for tool in tools] == ["count_add", "count_calls", "count_fail"]
        assert traits("count_add").risk is ActionRisk.READ_ONLY
        assert (traits("count_fail").risk, traits("count_fail").require_approval) == (ActionRisk.DANGEROUS, True)
        assert traits("count_add").concurrency_key == "mcp:count"

    with_tools(work, on_host(tools=frozenset({"add", "calls", "fail"}), approval=frozenset({"fail"})))


def test_a_server_gets_the_variables_that_are_written_out_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDX_API_KEY", "secret")

    async def work(tools: MCPToolSet, do: Do) -> None:
        assert (await do("count_environment", name="GIVEN")).result["content"] == "yes"
        assert (await do("count_environment", name="MINDX_API_KEY")).result["content"] == "-"

    with_tools(work, on_host(env={"GIVEN": "yes"}))


def test_a_server_that_ends_in_the_middle_is_a_typed_error_and_is_started_again() -> None:
    async def work(tools: MCPToolSet, do: Do) -> None:
        before = (await do("count_calls")).result["content"]
        gone = await do("count_leave")
        assert gone.status is Status.ERROR
        assert gone.error_info is not None
        assert gone.error_info.details["code"] == "mcp_ended"
        after = (await do("count_calls")).result["content"]
        assert after.startswith("0 in ")
        assert after != before
        for _ in range(3):
            await do("count_leave")
        last = await do("count_calls")
        assert "is not started again" in last.message

    with_tools(work, on_host())


def test_a_call_that_does_not_end_is_bounded_and_can_be_cancelled() -> None:
    async def work(tools: MCPToolSet, do: Do) -> None:
        late = await do("count_wait")
        assert late.status is Status.ERROR
        task = asyncio.ensure_future(do("count_wait"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await do("count_add", a=1, b=1)).result["content"] == "2"

    with_tools(work, on_host(timeout_s=0.5))


def test_the_server_is_gone_when_the_tools_are_closed() -> None:
    pids: list[int] = []

    async def work(tools: MCPToolSet, do: Do) -> None:
        pids.append(int((await do("count_calls")).result["content"].split()[-1]))

    with_tools(work, on_host())
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pids[0], 0)
        except ProcessLookupError:
            return
    raise AssertionError("the server still runs")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("/nowhere/at-all",), "could not be started on the host"),
        ((sys.executable, "-c", "print('hello')"), "could not be started on the host"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "did not answer within 1 s"),
    ],
)
def test_a_server_that_is_none(command: tuple[str, ...], words: str) -> None:
    async def main() -> None:
        await MCPToolSet([on_host(command=command, start_timeout_s=1.0)]).open()

    with pytest.raises(MCPConnectionError) as refused:
        asyncio.run(main())
    assert refused.value.code == "mcp_unreachable"
    assert words in refused.value.message


def test_a_server_runs_in_a_sandbox_unless_the_operator_says_host() -> None:
    ran: list[FakeSandbox] = []

    def sandbox(config: MCPServerConfig, policy: LoadedPolicy) -> FakeSandbox:
        ran.append(FakeSandbox())
        return ran[-1]

    async def main() -> None:
        config = MCPServerConfig("x", (sys.executable, str(SERVERS / "counting.py")), start_timeout_s=5)
        await MCPToolSet([config], open_sandbox=sandbox).open()

    with pytest.raises(MCPConnectionError) as refused:  # the fake has no python3: nothing ran on the host instead
        asyncio.run(main())
    assert "in its sandbox" in refused.value.message
    (command,) = [command for command in ran[0].commands if isinstance(command, Exec)]
    assert (command.argv[0], command.argv[4:]) == ("python3", (sys.executable, str(SERVERS / "counting.py")))


def test_its_container_is_what_the_operators_policy_wants() -> None:
    text = b"version: 1\nimage: base\nruntime: runsc\naccept_gaps: [swap]\nlimits: {pids: 77}\n"
    policy = parse_policy(text, source="test")
    made: list[Any] = []

    def sandbox(config: MCPServerConfig, loaded: LoadedPolicy) -> Any:
        made.append(container(config, loaded))
        raise EngineError("engine_unreachable", "enough was seen")

    for image in (None, "mine"):
        config = MCPServerConfig("x", ("true",), image=image)
        with pytest.raises(EngineError):
            asyncio.run(MCPToolSet([config], policy, open_sandbox=sandbox).open())
    settings = [one.settings for one in made]
    assert [one.image for one in settings] == ["base", "mine"]
    assert {(one.runtime, one.accept_gaps, one.limits.pids, one.policy_sha256) for one in settings} == {
        ("runsc", ("swap",), 77, policy.sha256)
    }


def test_nothing_but_the_server_and_its_messages_gets_into_its_sandbox() -> None:
    server, box = Exec(("python3", "-c", "x", "/workspace/b", "serve"), env={"A": "1"}, timeout_s=None), "/workspace/b"
    judge = ServerJudge(server, box)
    for command in (server, MakeDir(box), WriteFile(f"{box}/0", b"{}", 0o600), WriteFile(f"{box}/17", b"", 0o600)):
        assert judge(command).allowed, command
    others = [
        Exec((*server.argv, "more"), env={"A": "1"}, timeout_s=None),
        Exec(server.argv, env={"A": "2"}, timeout_s=None),
        Exec(server.argv, env={"A": "1"}, timeout_s=None, stdin=b"x"),
        Exec(("ls",)),
        MakeDir("/workspace/c"),
        WriteFile(f"{box}/x", b"", 0o600),
        WriteFile(f"{box}/../0", b"", 0o600),
        WriteFile(f"{box}/0", b"", 0o777),
        WriteFile("/workspace/0", b"", 0o600),
        ReadFile(f"{box}/0"),
        ListDir(box),
        Remove(f"{box}/0"),
    ]
    assert [command for command in others if judge(command).allowed] == []


def test_a_sandbox_that_cannot_start_is_its_own_error() -> None:
    def none(config: MCPServerConfig, policy: LoadedPolicy) -> Any:
        raise EngineError("engine_unreachable", "there is no engine")

    with pytest.raises(EngineError):
        asyncio.run(MCPToolSet([MCPServerConfig("x", ("true",))], open_sandbox=none).open())


def test_in_a_container(derived_image: DerivedImage) -> None:
    async def work(tools: MCPToolSet, do: Do) -> None:
        assert [tool.tool_id for tool in tools] == ["plain_bomb", "plain_echo", "plain_flood", "plain_where"]
        assert "plain: 'broken'" in tools.problems[0]
        found = json.loads((await do("plain_where")).result["content"])
        assert found["cwd"] == "/workspace"
        assert found["uid"] >= 10_000
        assert "unreachable" in found["network"].lower()
        assert "plain.py" in found["files"]
        for number in range(3):
            assert (await do("plain_echo", text=f"text {number}")).result["content"] == f"text {number}"
        # Its pattern would take for ever on this text; it is the server's to check.
        assert (await do("plain_echo", text="a" * 60 + "!")).result["content"].endswith("!")
        # Its schemas, of arguments and of answers, would take for ever too.
        assert (await do("plain_bomb")).result["structured"]["text"].endswith("!")
        flooded = await do("plain_flood")
        assert flooded.status is Status.ERROR
        assert (await do("plain_echo", text="again")).result["content"] == "again"

    config = MCPServerConfig("plain", ("python3", "plain.py"), folder=SERVERS, start_timeout_s=60, timeout_s=20)
    with_tools(work, config)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MCPConnectionError, match="pip install") as refused:
        asyncio.run(MCPToolSet([on_host()]).open())
    assert refused.value.code == "mcp_missing"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    return path


def test_the_configuration_is_that_of_the_field(tmp_path: Path) -> None:
    text = """{"mcpServers": {"files": {"command": "python3", "args": ["-m", "server"], "env": {"A": "1"},
      "folder": "tools", "risks": {"look": "read-only", "put": "write"}, "approval": ["put"], "tools": ["look", "put"]},
      "own": {"command": "own-server", "run_on": "host"}}}"""
    files, own = load_mcp_servers(written(tmp_path, text))
    assert (files.command, files.run_on, files.folder) == (
        ("python3", "-m", "server"),
        "sandbox",
        tmp_path / "tools",
    )
    assert files.risks == {"look": ActionRisk.READ_ONLY, "put": ActionRisk.WRITE}
    assert (own.run_on, own.tools) == ("host", None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "mcp.json"),
        ("[]", "is not of the form"),
        ('{"mcpServers": []}', "no object"),
        ('{"mcpServers": {"a": {}}}', "command"),
        ('{"mcpServers": {"a": {"command": "x", "run_on": "hosts"}}}', "run_on"),
        ('{"mcpServers": {"a": {"command": "x", "shell": true}}}', "shell"),
        ('{"mcpServers": {"a": {"command": "x", "risks": {"y": "none"}}}}', "risks"),
        ('{"mcpServers": {"a b": {"command": "x"}}}', "no name for a server"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "twice"),
    ],
)
def test_configurations_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        load_mcp_servers(written(tmp_path, text))
    assert refused.value.code == "mcp_config_invalid"
    assert words in refused.value.message
    assert len(load_mcp_servers(written(tmp_path, '{"mcpServers": {}}'))) == 0
