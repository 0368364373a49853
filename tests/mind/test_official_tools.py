"""The registry of official tools: one writer, whole files, a version for each code, nothing believed of a bad one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mindx.agents import official_tools
from mindx.agents.constitution import Constitution, ConstitutionError, Layer
from mindx.agents.live_tools import LiveTools
from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.errors import InputError, MindxError, StateError
from mindx.runtime.tasks.atomic import locked
from mindx.tools.builtin.calculator import CalculatorTool
from mindx.tools.builtin.time_now import TimeNowTool
from mindx.tools.container_entry import ToolExample, ToolSpec, ToolStatus
from mindx.tools.container_tool import ContainerTool
from mindx.tools.registry import ToolRegistry
from tests.mind.improvement_support import CODE, SPEC

SOURCE = CODE.encode()


def registry(folder: Path, layer: Layer = Layer.MASTERMIND) -> OfficialToolsRegistry:
    return OfficialToolsRegistry(folder, constitution=Constitution.load(), layer=layer)


def spec(**more: Any) -> ToolSpec:
    return ToolSpec.read({**SPEC, **more})


def test_a_registered_tool_is_in_the_file_with_what_the_schema_asks_for(tmp_path: Path):
    """What other programs read: schema version, who and when, the entry with place, hash and where it runs."""
    registry(tmp_path).register(spec(), SOURCE, added_by="mscamp_1")
    document = json.loads((tmp_path / "official_tools_registry.json").read_text())
    assert document["tools_schema_version"] == "1.2"
    assert (document["revision"], document["last_updated_by"]) == (1, "mscamp_1")
    entry = document["registered_tools"]["word_count"]
    assert (entry["runs_in"], entry["status"], entry["enabled"]) == ("container", "experimental", True)
    assert entry["access_control"] == {"allowed_agents": ["*"]}
    assert (tmp_path / entry["module_path"]).read_bytes() == SOURCE


@pytest.mark.parametrize("layer", [layer for layer in Layer if layer is not Layer.MASTERMIND])
def test_only_the_mastermind_writes(tmp_path: Path, layer: Layer):
    """A layer below can read, and cannot register, mark or deprecate, whoever orders it."""
    registry(tmp_path).register(spec(), SOURCE, added_by="x")
    below = registry(tmp_path, layer)
    with pytest.raises(ConstitutionError):
        below.register(spec(id="other"), SOURCE, added_by="x")
    with pytest.raises(ConstitutionError):
        below.deprecate("word_count", "I say so")
    assert below.revision == 1
    assert below.entry("word_count").usable


def test_a_tool_registered_meanwhile_is_there_for_the_next_plan(tmp_path: Path):
    """The same set until it is refreshed, then what is registered now, also beside more tools of an agent's own."""
    writer = registry(tmp_path)
    live = LiveTools(ToolRegistry([TimeNowTool()]), registry(tmp_path, Layer.BDI), "bdi_1")
    wider = live.with_tools(CalculatorTool())
    writer.register(spec(), SOURCE, added_by="x")
    assert (live.names, wider.names) == (("time_now",), ("time_now", "calculator"))
    live.refresh()
    wider.refresh()
    assert live.names == ("time_now", "word_count")
    assert wider.names == ("time_now", "calculator", "word_count")
    same = live.get("word_count")
    live.refresh()
    assert live.get("word_count") is same
    writer.deprecate("word_count", "replaced")
    live.refresh()
    assert live.names == ("time_now",)
    assert writer.entry("word_count").deprecation_reason == "replaced"


def test_a_registered_tool_takes_no_other_tools_place(tmp_path: Path):
    """An agent's own tool of the same name stays."""
    writer = registry(tmp_path)
    writer.register(spec(), SOURCE, added_by="x")
    own = ContainerTool(writer.entry("word_count"), tmp_path)
    assert LiveTools(ToolRegistry([own]), writer).get("word_count") is own


def test_a_registry_that_breaks_meanwhile_leaves_the_set_as_it_was(tmp_path: Path):
    """The error is told, and what the agent had it still has."""
    writer = registry(tmp_path)
    writer.register(spec(), SOURCE, added_by="x")
    live = LiveTools(ToolRegistry(), writer)
    writer.path.write_text("{")
    with pytest.raises(StateError):
        live.refresh()
    assert live.names == ("word_count",)


def test_a_tool_is_given_to_the_agents_that_are_allowed(tmp_path: Path):
    """access_control is checked when tools are handed out; what is disabled goes to nobody."""
    writer = registry(tmp_path)
    writer.register(spec(access_control={"allowed_agents": ["bdi_1"]}), SOURCE, added_by="x")
    assert [tool.tool_id for tool in writer.tools("bdi_1")] == ["word_count"]
    assert writer.tools("bdi_2") == ()
    writer.mark("word_count", by="x", enabled=False)
    assert writer.tools("bdi_1") == ()


def test_one_version_has_one_code(tmp_path: Path):
    """The same again changes nothing that matters; other code needs a new version, and the old code stays."""
    writer = registry(tmp_path)
    first = writer.register(spec(), SOURCE, added_by="x")
    assert writer.register(spec(), SOURCE, added_by="y").added_by == "x"
    with pytest.raises(InputError, match="new version"):
        writer.register(spec(), SOURCE + b"# more\n", added_by="x")
    second = writer.register(spec(version="0.2.0"), SOURCE + b"# more\n", added_by="x")
    assert second.sha256 != first.sha256
    assert (tmp_path / first.module_path).read_bytes() == SOURCE
    assert writer.source("word_count") == SOURCE + b"# more\n"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"id": "simple_coder"}, "tool_reserved"),
        ({"id": "../../evil"}, "tool_spec_invalid"),
        ({"version": "../1"}, "tool_spec_invalid"),
        ({"version": ".."}, "tool_spec_invalid"),
        ({"capabilities": []}, "tool_spec_invalid"),
        ({"runs_in": "host"}, "tool_spec_invalid"),
        ({"module_path": "os"}, "tool_spec_invalid"),
        ({"capabilities": [{"name": "import"}]}, "tool_spec_invalid"),
        ({"capabilities": [{"name": "__import__"}]}, "tool_spec_invalid"),
        ({"capabilities": [{"name": "a", "input_schema": {"pattern": "(a+)+$"}}]}, "tool_spec_invalid"),
        ({"capabilities": [{"name": "a", "output_schema": {"items": {"$ref": "#"}}}]}, "tool_spec_invalid"),
        ({"capabilities": [{"name": "a", "input_schema": {"properties": {"command": {}}}}]}, "tool_spec_invalid"),
        ({"capabilities": [{"name": "a", "input_schema": {"type": "objekt"}}]}, "tool_spec_invalid"),
        ({"capabilities": [{"name": "a", "output_schema": {"type": "objekt"}}]}, "tool_invalid"),
    ],
)
def test_a_specification_that_could_do_harm_is_refused(tmp_path: Path, changed: dict[str, Any], code: str):
    """Names that lead elsewhere, a place on the host, schemas that never end: none of it reaches the file."""
    with pytest.raises(MindxError) as caught:
        registry(tmp_path).register(spec(**changed), SOURCE, added_by="x")
    assert caught.value.code == code
    assert not (tmp_path / "official_tools_registry.json").exists()


def test_an_example_holds_only_for_exactly_its_result():
    """true is not 1, null must be said, and without a result any answer will do."""
    says = {value: ToolExample.model_validate({"result": value}) for value in (1, None, "1")}
    assert says[1].holds(1)
    assert not any(says[1].holds(other) for other in (True, 1.5, "1", None))
    assert says[None].holds(None)
    assert not says[None].holds({})
    assert ToolExample().holds({"anything": 1})


@pytest.mark.parametrize("source", [b"", b" \n", b"x" * (256 * 1024 + 1), b"\xff\xfe"])
def test_code_that_can_never_run_is_refused(tmp_path: Path, source: bytes):
    """Empty, too large, no text."""
    with pytest.raises(InputError):
        registry(tmp_path).register(spec(), source, added_by="x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"registered_tools": {"a": {}}}',
        '{"tools_schema_version": "9"}',
        '{"revision": 1, "revision": 2}',
    ],
)
def test_a_corrupt_registry_is_told_and_left_alone(tmp_path: Path, text: str):
    """Nothing is read of it, nothing is written over it, and the message names the copy before the last change."""
    writer = registry(tmp_path)
    writer.register(spec(), SOURCE, added_by="x")
    writer.mark("word_count", by="x", status=ToolStatus.ACTIVE)
    path = tmp_path / "official_tools_registry.json"
    path.write_text(text)
    for attempt in (lambda: writer.read(), lambda: writer.register(spec(id="other"), SOURCE, added_by="x")):
        with pytest.raises(StateError, match=r"official_tools_registry\.previous\.json") as caught:
            attempt()
        assert caught.value.code == "registry_damaged"
    assert path.read_text() == text
    path.write_bytes((tmp_path / "official_tools_registry.previous.json").read_bytes())
    assert writer.revision == 1


def test_an_entry_for_another_place_is_no_entry(tmp_path: Path):
    """A file edited by hand cannot name code elsewhere, nor a tool under another's name."""
    writer = registry(tmp_path)
    writer.register(spec(), SOURCE, added_by="x")
    path = tmp_path / "official_tools_registry.json"
    document = json.loads(path.read_text())
    document["registered_tools"]["word_count"]["module_path"] = "../../tool.py"
    path.write_text(json.dumps(document))
    with pytest.raises(StateError, match="module_path"):
        writer.read()


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path):
    """Two processes and two threads: every registration that was said to be done is there, one revision each."""
    text = (
        "import sys; from pathlib import Path; from tests.mind.test_official_tools import *\n"
        "for n in range(20): registry(Path(sys.argv[1])).register(spec(id=f'{sys.argv[2]}_{n}'), SOURCE, added_by='x')"
    )
    argv = [sys.executable, "-c", text, str(tmp_path)]
    processes = [subprocess.Popen([*argv, name]) for name in ("a", "b")]
    own = [threading.Thread(target=_register_many, args=(tmp_path, name)) for name in ("c", "d")]
    for thread in own:
        thread.start()
    for thread in own:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0]
    document = registry(tmp_path).read()
    assert (len(document.registered_tools), document.revision) == (80, 80)


def _register_many(folder: Path, name: str) -> None:
    for number in range(20):
        registry(folder).register(spec(id=f"{name}_{number}"), SOURCE, added_by="x")


def test_a_writer_that_holds_on_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A process that was stopped while it wrote: the next writer is told so, and nothing was written."""
    monkeypatch.setattr(official_tools, "LOCK_WAIT_S", 0.05)
    with locked(tmp_path / official_tools.LOCK, InputError("unexpected", "")), pytest.raises(InputError) as caught:
        registry(tmp_path).register(spec(), SOURCE, added_by="mscamp_1")
    assert caught.value.code == "registry_busy"
    assert registry(tmp_path).revision == 0


def test_a_full_disk_leaves_the_registry_as_it_was(tmp_path: Path):
    """A write that cannot be finished is an error, and everything that was there still is, and works."""
    writer = registry(tmp_path)
    for number in range(5):
        writer.register(spec(id=f"tool_{number}"), SOURCE, added_by="x")
    before = writer.path.read_bytes()
    text = (
        "import resource, sys; from tests.mind.test_official_tools import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))\n"
        "try: registry(Path(sys.argv[1])).register(spec(id='one_more'), SOURCE, added_by='x')\n"
        "except StateError as error: sys.exit(0 if error.code == 'state_unwritable' else 2)\n"
        "sys.exit(1)"
    )
    assert subprocess.run([sys.executable, "-c", text, str(tmp_path)]).returncode == 0
    assert writer.path.read_bytes() == before
    assert not list(tmp_path.glob(".official_tools_registry*"))
    assert writer.register(spec(id="one_more"), SOURCE, added_by="x").usable
