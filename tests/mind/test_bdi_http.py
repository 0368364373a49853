"""A BDI agent and its model over real HTTP: what is sent, what is taken, and an endpoint that misbehaves."""

import pytest

from mindx.agents.bdi import BDIStatus, Budget
from tests.mind.bdi_support import Made, Probe, coder, plan, think, use
from tests.providers.conftest import endpoint_address, remote  # noqa: F401 - fixtures


def test_a_goal_over_http(remote):  # noqa: F811
    """The schema goes along as a wish (its params are open, which no endpoint takes as strict); usage is counted."""
    bad = plan(coder("mkdr", path="a"), use("probe", n=1))
    remote.script({"text": bad}, {"text": f"```json\n{plan(coder('mkdir', path='a'), use('probe', n=2))}\n```"})
    made = Made(remote.provider("script"), tool := Probe())
    result = made.run("make a")
    assert result.achieved, result.message
    assert tool.calls == [{"n": 2}]
    bodies = [request["body"] for request in remote.requests]
    form = bodies[0]["response_format"]["json_schema"]
    assert (form["strict"], form["schema"]["required"]) == (False, ["plan", "complete"])
    assert "did you mean `mkdir`?" in bodies[1]["messages"][-1]["content"]
    assert result.usage["total_tokens"] == 28


def test_an_endpoint_that_takes_no_schema_is_asked_without(remote):  # noqa: F811
    refusal = {"status": 400, "body": {"error": {"message": "response_format is not supported", "code": None}}}
    remote.script(refusal, {"text": plan(think())})
    assert Made(remote.provider("script")).run().achieved
    assert ["response_format" in request["body"] for request in remote.requests] == [True, False]


@pytest.mark.parametrize("mode", ["status-500", "status-429", "malformed", "drop", "gzip", "redirect"])
def test_an_endpoint_that_fails_ends_the_run_and_not_the_goal(remote, mode):  # noqa: F811
    made = Made(remote.provider(mode, rules=remote.waits.rules(max_attempts=2)))
    result = made.run()
    assert result.status is BDIStatus.FAILED_UNRECOVERABLE
    assert result.run.error_info.code.value == "provider_failed"
    assert made.agent.goal.open


def test_an_incompetent_model_over_http_holds_the_budget(remote):  # noqa: F811
    remote.script(*({"text": "I am only a language model."} for _ in range(50)))
    made = Made(remote.provider("script"), budget=Budget(tokens=30))
    result = made.run()
    assert result.status is BDIStatus.TIMED_OUT
    assert len(remote.requests) == 3  # of 14 tokens each
