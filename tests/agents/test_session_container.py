"""One test in a real container: a session is one container without network, gone when the session closes."""

import asyncio

import docker
import pytest

from mindx import (
    ActionRequest,
    ActionRisk,
    AgentDecision,
    AgentRuntime,
    FunctionExecutor,
    RunConfig,
    ScriptedReasoner,
    Session,
    SessionEnvironment,
    SessionEventType,
    SessionPolicy,
)
from mindx.core.command import Exec
from mindx.runtime.sandboxes import docker_sandbox

CONNECT = "import socket; socket.create_connection(('1.1.1.1', 53), 2)"


async def execute(arguments, context):
    sandbox = await context.open_sandbox()
    env = dict(context.environment.env_vars)
    done = await sandbox.execute(Exec(tuple(arguments["argv"]), env=env))
    return {"status": "SUCCESS", "exit_code": done.exit_code, "stdout": done.stdout_text, "stderr": done.stderr_text}


def call(action_id, *argv):
    return ActionRequest(action_id, "execute", {"argv": list(argv)})


@pytest.mark.usefixtures("derived_image")
def test_a_session_is_one_container_that_has_no_network_and_is_gone_at_the_end(engine, tmp_path):
    (tmp_path / "a.txt").write_text("from the host")
    mine = "python3", "-c"
    script = [
        AgentDecision.act(
            call("1", "cat", "a.txt"),
            call("2", *mine, "import os; open('/workspace/b', 'w').write('kept'); print(os.environ['PROJECT'])"),
            call("3", *mine, CONNECT),
        ),
        AgentDecision.complete("one"),
        AgentDecision.act(call("4", "cat", "b"), call("5", "cat", "/etc/hostname")),
        AgentDecision.complete("two"),
    ]

    boxes = []

    def open_session(environment, policy):
        def make(loaded, progress):
            boxes.append(docker_sandbox(loaded, progress))
            return boxes[-1]

        return Session(workspace=environment.workspace_root, open_sandbox=make)

    async def main():
        executor = FunctionExecutor({"execute": execute}, {"execute": ActionRisk.WRITE})
        config = RunConfig(heartbeat_s=0.0, interactive=False)
        async with AgentRuntime(
            ScriptedReasoner(script), executor, config=config, open_session=open_session
        ) as runtime:
            session = runtime.create_session(
                environment=SessionEnvironment(workspace_root=tmp_path, env_vars={"PROJECT": "a"}),
                policy=SessionPolicy(allow_network=True),
            )
            results = []
            for task in ("first", "second"):
                await session.submit_run(task)
                async for event in session.events():
                    if event.event_type is SessionEventType.RUN_COMPLETED:
                        results.append(event.payload["result"])
                        break
            inspected = engine.api.inspect_container(boxes[0].container_id)
            await session.close()
            return results, inspected

    (first, second), inspected = asyncio.run(main())
    assert first.ok, first.error
    assert second.ok, second.error
    assert len(boxes) == 1
    assert inspected["HostConfig"]["NetworkMode"] == "none"
    assert not [mount for mount in inspected["Mounts"] if mount["Type"] == "bind"]
    with pytest.raises(docker.errors.NotFound):
        engine.api.inspect_container(inspected["Id"])
    one, two, three = (item.result for item in first.observations)
    assert (one["stdout"], two["stdout"]) == ("from the host", "a\n")
    assert three["exit_code"] == 1
    assert "unreachable" in three["stderr"] or "Error" in three["stderr"]
    assert second.observations[0].result["stdout"] == "kept"
    assert not (tmp_path / "b").exists()
