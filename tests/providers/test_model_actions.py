from __future__ import annotations

import asyncio
import json

import pytest

from mindx.core.action import ActionRequest, ActionRisk, ActionType
from mindx.core.agent_context import AgentContext
from mindx.core.agent_session import SessionPolicy
from mindx.core.checkpoint import RunOutcome, TaskState
from mindx.core.decision import AcceptanceCriterion
from mindx.core.evidence import EvidenceKind
from mindx.core.observation import Status
from mindx.providers.failures import provider_error
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
from mindx.runtime.agent_runtime import AgentRuntime
from mindx.runtime.dispatcher import ActionDispatcher
from mindx.runtime.model_actions import ModelActionExecutor
from mindx.runtime.provider_reasoner import ProviderReasoner

PIXEL = "data:image/png;base64,iVBORw0KGgo="
CLAIM = {"claim": "tests pass", "material": "5 passed"}


def request(name, **arguments):
    return ActionRequest("a1", name, arguments, ActionType.MODEL)


def context():
    return AgentContext(run_id="r", task="t", task_state=TaskState("t"), policy=SessionPolicy())


def done(turn, name, **arguments):
    provider = ScriptedProvider([turn])
    dispatcher = ActionDispatcher({ActionType.MODEL: ModelActionExecutor(provider)})
    assert dispatcher.assess(request(name, **arguments), context()).risk is ActionRisk.READ_ONLY
    return asyncio.run(dispatcher.execute(request(name, **arguments), context())), provider


def test_a_question_and_an_image():
    observation, _ = done("42", "model_generate", prompt="what?")
    assert observation.result["text"] == "42"
    assert observation.evidence[0].kind is EvidenceKind.MODEL_OUTPUT
    observation, provider = done("a cat", "model_inspect_image", prompt="what?", image_url=PIXEL)
    assert observation.evidence[0].kind is EvidenceKind.VISUAL_FINDING
    assert provider.requests[0].has_images


@pytest.mark.parametrize("verified", [True, False])
def test_a_verdict_is_evidence_only_when_it_is_yes(verified):
    observation, provider = done(json.dumps({"verified": verified, "reason": "seen"}), "model_verify", **CLAIM)
    (evidence,) = observation.evidence
    assert (evidence.kind, evidence.valid, evidence.summary) == (EvidenceKind.VERIFICATION, verified, "seen")
    assert provider.requests[0].response_schema is not None


@pytest.mark.parametrize("answer", ["yes", "{", '{"verified": "true"}', '{"verified": 1}', "[true]", ""])
def test_what_is_no_verdict_proves_nothing(answer):
    observation, _ = done(answer, "model_verify", **CLAIM)
    assert observation.status is Status.ERROR
    assert not any(evidence.valid for evidence in observation.evidence)


def test_a_failing_endpoint_is_one_failed_action():
    observation, _ = done(provider_error("provider_overloaded"), "model_generate", prompt="x")
    assert observation.status is Status.ERROR
    assert observation.error_info.details["code"] == "provider_overloaded"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("model_other", {}),
        ("model_generate", {}),
        ("model_generate", {"prompt": 3}),
        ("model_generate", {"prompt": "x" * 400_001}),
        ("model_generate", {"prompt": "x", "more": 1}),
        ("model_verify", {"claim": "x"}),
        ("model_inspect_image", {"prompt": "x", "image_url": "https://192.0.2.1/?what=was-read"}),
    ],
)
def test_calls_that_cannot_be_made(name, arguments):
    assert ModelActionExecutor(ScriptedProvider()).assess(request(name, **arguments), context()).problem


def test_an_image_that_the_user_gave_may_be_fetched():
    url = "https://192.0.2.1/a.png"
    given = context()
    given.artifacts["images"] = [url]
    traits = ModelActionExecutor(ScriptedProvider()).assess(
        request("model_inspect_image", prompt="x", image_url=url), given
    )
    assert not traits.problem


def test_a_completion_rests_on_a_verification():
    judge = ScriptedProvider(['{"verified": true, "reason": "it says so"}'])
    models = ModelActionExecutor(judge)

    def mind(asked):
        answer = asked.messages[-1]
        if answer.name != "model_verify":
            return ScriptedTurn.call("model_verify", **CLAIM)
        cited = json.loads(answer.text)["evidence_ids"]
        return ScriptedTurn.call("mindx_complete", answer="done", evidence={"green": cited})

    reasoner = ProviderReasoner(ScriptedProvider(mind), models.provider_schemas(), action_types=models.action_types())

    async def scene():
        async with AgentRuntime(reasoner, {ActionType.MODEL: models}) as runtime:
            return await runtime.run("make it green", criteria=[AcceptanceCriterion("green", "tests pass")])

    result = asyncio.run(scene())
    assert (result.outcome, result.final_answer, result.steps) == (RunOutcome.FINAL, "done", 2)
