"""The built-in tools, each by a call as the loop makes it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.core.action import ActionRequest, ActionRisk
from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.core.evidence import EvidenceKind
from mindx.core.observation import Status
from mindx.providers.router import ProviderRouter
from mindx.providers.scripted import ScriptedProvider
from mindx.tools.base import ToolError
from mindx.tools.builtin.calculator import CalculatorTool, calculate
from mindx.tools.builtin.context_query import ContextQueryTool
from mindx.tools.builtin.image_understanding import ImageUnderstandingTool
from mindx.tools.builtin.memory import MAX_KEYS, MAX_NAMESPACES, MemoryTool
from mindx.tools.builtin.memory_read import MemoryReadTool
from mindx.tools.builtin.time_now import TimeNowTool
from mindx.tools.executor import ToolExecutor
from tests.tools.tool_kit import call, run_context

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=timezone.utc)
PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()


def do(tool: Any, context: Any = None, **arguments: Any) -> Any:
    """Do one call and return its value, or the message of what went wrong."""
    observation = asyncio.run(call(tool, tool.tool_id, arguments, context))
    if observation.status is not Status.SUCCESS:
        return f"{observation.status.value}: {observation.message}"
    return observation.result if observation.value is None else observation.value


def test_time_now_tells_the_time_of_a_zone() -> None:
    tool = TimeNowTool(lambda: NOON)
    assert do(tool)["time"] == "2026-07-01T12:00:00+00:00"
    shanghai = do(tool, timezone="Asia/Shanghai")
    assert (shanghai["time"], shanghai["utc_offset"], shanghai["weekday"]) == (
        "2026-07-01T20:00:00+08:00",
        "+0800",
        "Wednesday",
    )
    assert do(tool, timezone="Europe/Berlin")["unix_s"] == int(NOON.timestamp())
    assert abs(datetime.fromisoformat(do(TimeNowTool())["time"]).timestamp() - datetime.now().timestamp()) < 60


@pytest.mark.parametrize("name", ["Mars/Base", "", "../../etc/passwd", "America", "/etc/localtime", "a\0b"])
def test_time_now_refuses_what_is_no_zone(name: str) -> None:
    assert "is no IANA time zone" in do(TimeNowTool(), timezone=name)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("17 + 25", 42),
        (" (1 + 2) * -3 ", -9),
        ("2 ** 10 % 1000", 24),
        ("7 // 2 + 7 / 2", 6.5),
        ("2 ** -1", 0.5),
        ("sqrt(16) + max(1, 2, 3)", 7.0),
        ("round(pi, 2)", 3.14),
        ("factorial(5) + gcd(12, 18)", 126),
        ("1e3", 1000.0),
        ("-2 ** 2", -4),
    ],
)
def test_calculator_computes(expression: str, value: float) -> None:
    found = do(CalculatorTool(), expression=expression)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("__import__('os').system('id')", "is no function here"),
        ("().__class__", "is no arithmetic"),
        ("'a' * 9", "is no number"),
        ("True + 1", "is no number"),
        ("[1, 2]", "is no arithmetic"),
        ("x", "is no arithmetic"),
        ("1 if 1 else 2", "is no arithmetic"),
        ("(lambda: 1)()", "is no function here"),
        ("f'{1}'", "is no arithmetic"),
        ("1 +", "is no arithmetic expression"),
        ("1 / 0", "divides by zero"),
        ("9 ** 9 ** 9", "too large"),
        ("10 ** 400 * 10 ** 400 * 10 ** 400 * 10 ** 400", "too large"),
        ("2.0 ** 5000", "too large"),
        ("factorial(100000)", "factorial takes"),
        ("round(1.5, 99999)", "digits"),
        ("(-8) ** 0.5", "no real number"),
        ("sqrt(-1)", "cannot be computed"),
        ("1j", "is no number"),
        ("1e999", "too large"),
        ("(" * 400 + "1" + ")" * 400, "is no arithmetic expression"),
        ("-" * 200 + "1", "too deep"),
        ("1 << 100", "is no arithmetic"),
        ("abs()", "takes 1"),
        ("log(1, 2, 3)", "takes 1 to 2"),
    ],
)
def test_calculator_refuses(expression: str, words: str) -> None:
    assert words in do(CalculatorTool(), expression=expression)


@given(st.text(alphabet="0123456789+-*/%.()e ,sqrtmaxpi", max_size=40))
def test_calculator_gives_a_number_or_a_tool_error(text: str) -> None:
    try:
        assert isinstance(calculate(text), (int, float))
    except ToolError:
        return


def test_context_query_reads_metadata_and_artifacts() -> None:
    context = run_context(metadata={"project": "x"}, artifacts={"images": ["u"], "object": object()}, step=3)
    tool = ContextQueryTool()
    assert do(tool, context, source="metadata")["keys"] == ["project", "run_id", "session_id", "step"]
    assert do(tool, context, source="metadata", key="step")["value"] == 3
    assert do(tool, context, source="artifacts", key="images")["value"] == ["u"]
    assert do(tool, context, source="artifacts", key="object")["value"].startswith("<object object")
    assert "did you mean `images`" in do(tool, context, source="artifacts", key="image")
    assert "expected one of" in do(tool, context, source="secrets")


def of(namespace: str = "", session_id: str = "", run_id: str = "run-1") -> Any:
    return run_context(run_id=run_id, session_id=session_id, environment=SessionEnvironment(memory_namespace=namespace))


def test_memory_keeps_values_by_namespace() -> None:
    tool = MemoryTool()
    value = {"a": [1]}
    assert do(tool, of("p"), action="set", key="k", value=value)["stored"] is True
    value["a"].append(2)
    assert do(tool, of("p", run_id="other"), action="get", key="k")["value"] == {"a": [1]}
    assert "nothing is kept under `k`" in do(tool, of("q"), action="get", key="k")
    assert "nothing is kept" in do(tool, of(session_id="s"), action="get", key="k")
    assert do(tool, of(session_id="s"), action="set", key="own", value=None)["stored"] is True
    assert do(tool, of(session_id="s", run_id="later"), action="list")["keys"] == ["own"]
    assert do(tool, of("p"), action="delete", key="k")["deleted"] is True
    assert do(tool, of("p"), action="list")["keys"] == []
    assert do(MemoryTool(), of(session_id="s"), action="list")["keys"] == []


def test_memory_is_bounded() -> None:
    tool = MemoryTool()
    assert "at most 65,536 are kept" in do(tool, action="set", key="k", value="x" * 70_000)
    for number in range(MAX_KEYS):
        tool._set(tool._space("n"), str(number), {"value": number})
    assert "delete one first" in do(tool, of("n"), action="set", key="more", value=1)
    for number in range(MAX_NAMESPACES + 5):
        tool._space(f"space {number}")
    assert len(tool._spaces) == MAX_NAMESPACES


@pytest.mark.parametrize(
    ("arguments", "risk", "problem"),
    [
        ({"action": "get", "key": "k"}, ActionRisk.READ_ONLY, ""),
        ({"action": "list"}, ActionRisk.READ_ONLY, ""),
        ({"action": "set", "key": "k", "value": 1}, ActionRisk.WRITE, ""),
        ({"action": "delete", "key": "k"}, ActionRisk.WRITE, ""),
        ({"action": "set", "key": "k"}, ActionRisk.DANGEROUS, "set needs a `value`"),
        ({"action": "get"}, ActionRisk.DANGEROUS, "get needs a `key`"),
    ],
)
def test_memorys_risk_is_that_of_the_action(arguments: dict[str, Any], risk: ActionRisk, problem: str) -> None:
    traits = ToolExecutor([MemoryTool()]).assess(ActionRequest("a", "memory", arguments), run_context())
    assert (traits.risk, traits.problem) == (risk, problem)


class Remembered:
    """A task's memory in a list."""

    def read(self) -> str:
        return "# What is known\n"

    def recent_events(self, limit: int) -> Sequence[Mapping[str, Any]]:
        return [{"n": number} for number in range(500)][-limit:]


def test_memory_read_gives_the_memory_or_the_latest_events() -> None:
    tool = MemoryReadTool(Remembered())
    assert do(tool, source="memory")["content"] == "# What is known\n"
    assert [event["n"] for event in do(tool, source="events", limit=2)["events"]] == [498, 499]
    assert len(do(tool, source="events")["events"]) == 20
    assert "maximum is 200" in do(tool, source="events", limit=201)


@dataclass
class Said:
    text: str
    model: str = "eyes-1"


class Eyes:
    """A model that can see, as far as the tool knows."""

    def __init__(self, text: str = "a cat") -> None:
        self.text = text
        self.asked: list[Any] = []

    async def ask(
        self, prompt: str, images: Sequence[str] = (), *, system: str = "", model: str = "", api: str = ""
    ) -> Said:
        self.asked.append((prompt, tuple(images), api))
        return Said(self.text)


def test_image_understanding_asks_a_model_that_can_see() -> None:
    eyes = Eyes()
    tool = ImageUnderstandingTool(eyes)
    arguments = {"image_url": PNG, "prompt": "What is it?", "api": "responses"}
    observation = asyncio.run(call(tool, "image_understanding", arguments))
    assert (observation.result["text"], observation.result["model"]) == ("a cat", "eyes-1")
    assert eyes.asked == [("What is it?", (PNG,), "responses")]
    assert (observation.evidence[0].kind, observation.evidence[0].valid) == (EvidenceKind.VISUAL_FINDING, True)
    assert do(tool, image_url="https://example.com/a.png")["text"] == "a cat"
    assert eyes.asked[-1] == ("Describe the image.", ("https://example.com/a.png",), "auto")


def test_image_understanding_through_the_real_router() -> None:
    provider = ScriptedProvider(["I see a dog"])
    assert do(ImageUnderstandingTool(ProviderRouter([provider])), image_url=PNG)["text"] == "I see a dog"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.com/a.png", "http(s) address"),
        ("https://user:secret@example.com/a.png", "http(s) address"),
        ("file:///etc/passwd", "http(s) address"),
        ("/etc/passwd", "http(s) address"),
        ("http://[", "no address"),
        ("data:text/html;base64,AAAA", "data URL of an image"),
        ("data:image/png;base64,@@@@", "no sound base64"),
        ("data:image/png;base64,AAAA", "is no image/png"),
        ("data:image/svg+xml;base64,AAAA", "data URL of an image"),
    ],
)
def test_image_understanding_refuses(url: str, words: str) -> None:
    eyes = Eyes()
    assert words in do(ImageUnderstandingTool(eyes), image_url=url)
    assert not eyes.asked


def test_an_address_that_the_model_chose_is_denied_where_there_is_no_network() -> None:
    eyes = Eyes()
    tool = ImageUnderstandingTool(eyes)
    given = "https://example.com/given.png"
    context = run_context(policy=SessionPolicy(), artifacts={"images": [given]})
    denied = do(tool, context, image_url="https://example.com/?secret=1")
    assert denied.startswith("DENIED: denied by policy rule session.network")
    assert not eyes.asked
    assert do(tool, context, image_url=given)["text"] == "a cat"
    assert do(tool, context, image_url=PNG)["text"] == "a cat"
    allowed = run_context(policy=SessionPolicy(allow_network=True))
    assert do(tool, allowed, image_url="https://example.com/?x=1")["text"] == "a cat"


def test_a_model_that_says_nothing_is_a_failure() -> None:
    assert "said nothing" in do(ImageUnderstandingTool(Eyes(" ")), image_url=PNG)
