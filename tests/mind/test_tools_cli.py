"""`mindx tools`: what campaigns have made, as a person sees and tries it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from mindx.agents.constitution import Constitution, ConstitutionError, Layer
from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.cli.schemas import schema
from mindx.tools.container_entry import ToolSpec
from tests.cli.conftest import Mindx, engine_mindx, mindx  # noqa: F401 - fixtures
from tests.cli.test_schemas import closed
from tests.mind.improvement_support import CODE, SPEC


@pytest.fixture
def registry(mindx: Mindx) -> OfficialToolsRegistry:  # noqa: F811
    """A registry with one tool."""
    made = OfficialToolsRegistry(mindx.state / "mind", constitution=Constitution.load(), layer=Layer.MASTERMIND)
    made.register(ToolSpec.read(SPEC), CODE.encode(), added_by="mscamp_1")
    return made


def fits(document: Any, name: str) -> Any:
    jsonschema.validate(document, closed(schema(name)), jsonschema.Draft202012Validator)
    return document


def test_list_show_and_deprecate(mindx: Mindx, registry: OfficialToolsRegistry):  # noqa: F811
    """Documents fit their schemas; what is deprecated leaves the list, and its entry and code stay."""
    assert fits(mindx("tools", "list", "--json").json, "tools")["tools"][0]["capabilities"] == ["count"]
    assert mindx("tools", "list").out.split() == ["word_count", "0.1.0-alpha", "experimental", "Counts", "words."]
    shown = fits(mindx("tools", "show", "word_count", "--code", "--json").json, "tool")
    assert (shown["code"], shown["entry"]["runs_in"]) == (CODE, "container")
    assert "def count" in mindx("tools", "show", "word_count", "--code").out
    gone = fits(mindx("tools", "deprecate", "word_count", "--reason", "it miscounts", "--json").json, "tool")
    assert (gone["revision"], gone["entry"]["deprecation_reason"]) == (2, "it miscounts")
    assert mindx("tools", "list").out == ""
    assert "deprecated" in mindx("tools", "list", "--all").out
    assert "it miscounts" in mindx("tools", "show", "word_count").out


def test_a_rule_that_wants_a_person_is_met_by_the_person_at_the_terminal(
    mindx: Mindx,  # noqa: F811
    registry: OfficialToolsRegistry,
):
    """The folder's own constitution holds for `mindx tools`: what waits for a person does not wait here, the rest is
    refused."""
    rules = registry.folder / "constitution.yaml"
    rules.write_text("version: 1\nperson:\n  - {name: ask-me, acts: [registry.write], reason: I look at each}\n")
    tight = OfficialToolsRegistry(registry.folder, constitution=Constitution.load(rules), layer=Layer.MASTERMIND)
    with pytest.raises(ConstitutionError, match="a person must approve"):
        tight.deprecate("word_count", "I say so")
    assert mindx("tools", "deprecate", "word_count", "--reason", "no more").code == 0
    rules.write_text("version: 1\nnever:\n  - {name: frozen, acts: [registry.write], reason: an audit is on}\n")
    refused = mindx("tools", "deprecate", "word_count", "--reason", "no more")
    assert (refused.code, "an audit is on" in refused.err) == (3, True)


def test_examples_and_calls_run_in_a_container(engine_mindx: Mindx, registry: OfficialToolsRegistry):  # noqa: F811
    """Exit code 0 when all calls gave what they should, else 1, with the reason."""
    done = engine_mindx("tools", "test", "word_count", "--json")
    report = fits(done.json, "tool-test")
    assert (done.code, report["ok"], report["calls"][0]["answer"]) == (0, True, {"words": 2})
    mine = engine_mindx("tools", "test", "word_count", "--arguments", '{"text": "a b c"}')
    assert (mine.code, mine.out) == (0, 'ok   count({"text": "a b c"}) -> {"words": 3}\n')
    wrong = engine_mindx("tools", "test", "word_count", "--arguments", '{"text": 5}')
    assert (wrong.code, wrong.out.startswith("FAIL count")) == (1, True)


def test_what_cannot_be_done_is_told(mindx: Mindx, registry: OfficialToolsRegistry):  # noqa: F811
    """Bad input is exit code 2 with a hint, before any container; a damaged registry is 4."""
    far = {"DOCKER_HOST": "tcp://127.0.0.1:1"}
    for arguments in (
        ["show", "nothing"],
        ["test", "word_count", "--capability", "nothing"],
        ["test", "word_count", "--arguments", "[1]"],
        ["test", "word_count", "--arguments", '{"a": 1, "a": 2}'],
        ["deprecate", "word_count", "--reason", " "],
    ):
        assert mindx("tools", *arguments, env=far).code == 2
    assert "did you mean `word_count`?" in mindx("tools", "show", "word_cuont").err
    (registry.folder / registry.entry("word_count").module_path).write_text("evil()")
    altered = mindx("tools", "test", "word_count", env=far)
    assert (altered.code, "not what was registered" in altered.err) == (1, True)
    registry.path.write_text("{")
    damaged = mindx("tools", "list")
    assert damaged.code == 4
    assert "official_tools_registry.previous.json" in damaged.err
    assert json.loads(mindx("tools", "list", "--json").stdout)["error"]["code"] == "registry_damaged"
