"""Skills: loaded on demand, read within their folder, and run nowhere but in the container."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mindx.core.action import ActionRequest, ActionRisk
from mindx.core.observation import Observation
from mindx.errors import InputError
from mindx.sandbox.fake import FakeSandbox
from mindx.tools.executor import ToolExecutor
from mindx.tools.skills import SkillTool, load_skills
from tests.tools.tool_kit import call, opener, run_context

FRONT = "---\nname: release-notes\ndescription: Write release notes\n  from the log.\nlicense: x\n---\n\n# How\nLook.\n"


def skill(folder: Path, text: str = FRONT, name: str = "release-notes") -> Path:
    place = folder / name
    (place / "scripts").mkdir(parents=True)
    (place / "SKILL.md").write_text(text)
    (place / "scripts" / "notes.py").write_text("open('/tmp/it-ran', 'w')\n")
    return place


def do(tool: SkillTool, context: Any = None, **arguments: Any) -> Observation:
    return asyncio.run(call(tool, "skill", arguments, context))


def test_skills_are_found_in_folders_and_told_by_name_and_description(tmp_path: Path) -> None:
    place = skill(tmp_path)
    (tmp_path / "no-skill").mkdir()
    (found,) = load_skills([tmp_path, tmp_path / "none"])
    assert (found.name, found.description) == ("release-notes", "Write release notes from the log.")
    assert found.files == ("scripts/notes.py",)
    assert load_skills([place])[0] == found
    tool = SkillTool([found])
    assert "- release-notes: Write release notes from the log." in tool.definition.description
    assert "# How" not in tool.definition.description


def test_loading_reading_and_copying(tmp_path: Path) -> None:
    skill(tmp_path)
    tool = SkillTool(load_skills([tmp_path]))
    loaded = do(tool, action="load", name="release-notes")
    assert loaded.result["instructions"] == "# How\nLook.\n"
    assert loaded.result["files"] == ["scripts/notes.py"]
    assert "it-ran" in do(tool, action="read", name="release-notes", path="scripts/notes.py").result["content"]

    async def main() -> None:
        async with FakeSandbox() as sandbox:
            context = run_context(open_sandbox=opener(sandbox))
            copied = await call(tool, "skill", {"action": "copy", "name": "release-notes", "to": "s"}, context)
            assert copied.result["copied"] == ["SKILL.md", "scripts/notes.py"]
            assert sandbox.tree.read("/workspace/s/scripts/notes.py", 100).startswith(b"open(")

    asyncio.run(main())
    assert not Path("/tmp/it-ran").exists()


def test_the_risk_is_that_of_the_action(tmp_path: Path) -> None:
    skill(tmp_path)
    executor = ToolExecutor([SkillTool(load_skills([tmp_path]))])

    def assess(**arguments: Any) -> Any:
        return executor.assess(ActionRequest("a", "skill", {"name": "release-notes", **arguments}), run_context())

    assert assess(action="load").risk is ActionRisk.READ_ONLY
    assert assess(action="copy", to="x").risk is ActionRisk.WRITE
    assert "`..`" in assess(action="copy", to="../x").problem
    assert assess(action="read").problem == "read needs a `path`"


def test_no_path_leads_out_of_a_skill(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    place = skill(tmp_path / "skills")
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "folder").symlink_to(tmp_path)
    tool = SkillTool(load_skills([tmp_path / "skills"]))
    assert tool.skills["release-notes"].files == ("scripts/notes.py",)
    for path in ("link", "folder/secret", "../../secret", str(tmp_path / "secret"), "none", "scripts"):
        observation = do(tool, action="read", name="release-notes", path=path)
        assert not observation.ok, path
        assert "secret" not in str(observation.result.get("content"))
    assert "there is no skill `release`; did you mean `release-notes`?" in (
        do(tool, action="load", name="release").message
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# no front matter\n", "does not begin with front matter"),
        ("---\nname: x\n", "does not begin with front matter"),
        ("---\n- a\n---\n", "does not begin with front matter"),
        ("---\nname: [\n---\n", "cannot be read"),
        ("---\nname: !!python/object/apply:os.system ['id']\n---\n", "cannot be read"),
        ("---\nname: Not A Name\ndescription: x\n---\n", "`name` is up to 64"),
        ("---\nname: x\n---\n", "`description` has"),
        (f"---\nname: x\ndescription: {'d' * 1025}\n---\n", "`description` has"),
        ("x" * 300_000, "more than 262,144 bytes"),
    ],
)
def test_files_that_are_no_skill(tmp_path: Path, text: str, words: str) -> None:
    skill(tmp_path, text)
    with pytest.raises(InputError) as refused:
        load_skills([tmp_path])
    assert refused.value.code == "skill_invalid"
    assert words in refused.value.message


def test_two_skills_of_one_name(tmp_path: Path) -> None:
    skill(tmp_path, name="a")
    skill(tmp_path, name="b")
    with pytest.raises(InputError) as refused:
        load_skills([tmp_path])
    assert refused.value.code == "skill_twice"


def test_a_skill_that_is_a_link_is_none(tmp_path: Path) -> None:
    place = skill(tmp_path / "elsewhere")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "linked").symlink_to(place)
    assert load_skills([tmp_path / "skills"]) == ()
