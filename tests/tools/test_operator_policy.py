"""The session's own policy decides what its tools may do: who is asked, who is denied, and by which limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mindx import (
    ActionRequest,
    AgentDecision,
    AgentRuntime,
    BaseTool,
    ExecCommandTool,
    FileEditTool,
    FileSearchTool,
    RunConfig,
    ScriptedReasoner,
    Session,
    SessionPolicy,
    SimpleCoder,
    ToolExecutor,
)
from mindx.core.observation import Observation, Status
from mindx.policy.load import load_policy, parse_policy
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.sandbox.fake import FakeSandbox

POLICY = """
version: 1
limits: {command_timeout: 5s}
workspace: {protected: [kept]}
commands:
  - ask: echo
  - allow: [cat, grep]
"""


def coder(*argv: str) -> tuple[BaseTool, ActionRequest]:
    arguments = {"command": "run", "argv": list(argv), "timeout_seconds": 5}
    return SimpleCoder(), ActionRequest("one", "simple_coder", arguments)


def program(*argv: str) -> tuple[BaseTool, ActionRequest]:
    return ExecCommandTool(), ActionRequest("one", "exec_command", {"command": list(argv)})


def done(
    tool: BaseTool, request: ActionRequest, *, answer: bool | None = True, text: str = POLICY
) -> tuple[Observation, int, FakeSandbox]:
    """Do one Action in a session under `text`; also return how often a person was asked, and the sandbox."""
    asked: list[Any] = []
    sandbox = FakeSandbox()
    policy = parse_policy(text.encode(), source="test")

    def ask(question: Any) -> bool:
        asked.append(question)
        return bool(answer)

    async def main() -> Observation:
        async with AgentRuntime(
            ScriptedReasoner([AgentDecision.act(request), AgentDecision.complete("done")]),
            ToolExecutor([tool]),
            config=RunConfig(heartbeat_s=0.0, interactive=False, allow_dangerous=True),
            approval_handler=None if answer is None else ask,
            open_session=lambda environment, limits: Session(policy, open_sandbox=lambda loaded, tell: sandbox),
        ) as runtime:
            return (await runtime.run("do it", policy=SessionPolicy(allow_dangerous=True))).observations[0]

    return asyncio.run(main()), len(asked), sandbox


@pytest.mark.parametrize("call", [coder, program])
def test_what_the_policy_asks_about_is_asked_and_a_yes_is_enough(call: Any) -> None:
    observation, asked, _ = done(*call("echo", "hi"))
    assert (observation.status, observation.result["stdout"].strip(), asked) == (Status.SUCCESS, "hi", 1)


@pytest.mark.parametrize("call", [coder, program])
def test_a_no_or_nobody_there_keeps_it_from_the_sandbox(call: Any) -> None:
    for answer, asked in ((False, 1), (None, 0)):
        observation, found, sandbox = done(*call("echo", "hi"), answer=answer)
        assert (observation.status, found, sandbox.commands) == (Status.DENIED, asked, [])


@pytest.mark.parametrize("call", [coder, program])
def test_what_the_policy_denies_is_denied_with_its_rule_and_nobody_is_asked(call: Any) -> None:
    observation, asked, sandbox = done(*call("pwd"))  # the preset `default` would allow it
    assert (observation.status, asked, sandbox.commands) == (Status.DENIED, 0, [])
    assert "denied by the policy: no rule allows pwd" in observation.message


def test_the_limits_are_the_sessions() -> None:
    _, _, sandbox = done(*program("cat", "none"))
    (command,) = sandbox.commands
    assert command.timeout_s == 5  # the tool's own is 30 s, the preset's 60


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (FileEditTool(), {"path": "kept", "mode": "create", "content": "x"}),
        (FileSearchTool(), {"query": "x", "target": "names"}),  # needs find, and no rule allows it
    ],
)
def test_a_tools_own_work_is_denied_before_it_begins(tool: BaseTool, arguments: dict[str, Any]) -> None:
    observation, asked, sandbox = done(tool, ActionRequest("one", tool.tool_id, arguments))
    assert (observation.status, asked, sandbox.commands) == (Status.DENIED, 0, [])
    assert "denied by" in observation.message


def test_the_removal_that_only_the_operator_grants_is_no_question() -> None:
    request = ActionRequest("one", "simple_coder", {"command": "rm", "path": "a"})
    observation, asked, _ = done(SimpleCoder(), request, text="version: 1\n")
    assert (observation.status, asked) == (Status.DENIED, 0)
    assert "--autonomous" in observation.message


def test_judging_opens_no_container() -> None:
    made: list[Session] = []

    def make() -> Session:
        made.append(Session(load_policy(), open_sandbox=lambda loaded, tell: FakeSandbox()))
        return made[-1]

    async def main() -> None:
        box = LazySandbox(make)
        engine = box.engine()
        assert (box.session, box.opened) == (None, 0)
        await box.open()
        assert box.session is made[0]
        assert box.session.engine is engine
        await box.close()
        assert box.engine() is not engine
        assert len(made) == 2

    asyncio.run(main())
