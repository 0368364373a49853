"""What the host does with a candidate: only the reviewed bytes, only on what they were made from, and back again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mindx.agents.constitution import Constitution, ConstitutionError, Layer
from mindx.agents.improvement import (
    ApplyStatus,
    ImprovementReport,
    ImprovementRequest,
    ImprovementResult,
    OperationType,
    SelfImprovementAgent,
    apply_improvement,
    rollback_improvement,
)
from mindx.agents.improvement.history import applied_self, roll_back_self
from mindx.agents.improvement.models import SELF, SELF_FILE
from mindx.errors import InputError
from mindx.providers.scripted import ScriptedProvider
from mindx.workspace.store import ChangesFolder
from tests.mind.improvement_support import turns

pytestmark = pytest.mark.usefixtures("base_image")
RULES = Constitution.load()
OLD, NEW = "value = 1\n", "value = 2\n"
FILLED = "import os, sys; sys.exit(not os.path.getsize(sys.argv[1]))"  # a test that an empty file does not pass


class Improved:
    """A project with a candidate for one of its files, not applied yet."""

    def __init__(self, tmp_path: Path, target: str = "sums.py", **more: Any) -> None:
        self.project, self.work = tmp_path / "project", tmp_path / "improvement"
        self.target = self.project / target
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.write_text(OLD)
        known: dict[str, Any] = {"interaction_id": "int_1", "workspace": self.project, "target_file": target}
        known["test_command"] = ("python3", "-c", FILLED, SELF_FILE if target == SELF else target)
        self.request = ImprovementRequest(**{**known, **more})
        agent = SelfImprovementAgent(ScriptedProvider(turns(NEW)), self.request, self.work / "int_1")
        self.result = asyncio.run(agent.improve())
        assert self.result.ok, self.result.message

    def apply(self, result: ImprovementResult | None = None, **more: Any) -> ImprovementReport:
        known: dict[str, Any] = {"work_dir": self.work, "constitution": RULES, **more}
        return apply_improvement(self.request, result or self.result, **known)

    def roll_back(self, **more: Any) -> ImprovementReport:
        return rollback_improvement("int_1", **{"work_dir": self.work, "constitution": RULES, "approved": True, **more})


def test_a_candidate_is_applied_and_taken_back(tmp_path: Path):
    """The target holds the new bytes, then the old ones again; the old ones were kept for that."""
    made = Improved(tmp_path)
    applied = made.apply()
    assert (applied.status, applied.paths) == (ApplyStatus.APPLIED, ("sums.py",))
    assert made.target.read_text() == NEW
    assert made.roll_back().status is ApplyStatus.ROLLED_BACK
    assert made.target.read_text() == OLD
    with pytest.raises(InputError, match="nothing to undo"):
        made.roll_back()


def test_a_target_that_changed_meanwhile_is_a_conflict(tmp_path: Path):
    """The hash of what the candidate was made from must still be there: nobody's work is overwritten."""
    made = Improved(tmp_path)
    made.target.write_text("value = 'mine'\n")
    report = made.apply()
    assert report.status is ApplyStatus.CONFLICT
    assert "differs from what was copied in" in report.message
    assert made.target.read_text() == "value = 'mine'\n"


def test_a_file_that_was_edited_since_is_not_rolled_back(tmp_path: Path):
    """A roll-back is held against what was applied, too."""
    made = Improved(tmp_path)
    assert made.apply().ok
    made.target.write_text("value = 'mine'\n")
    assert made.roll_back().status is ApplyStatus.CONFLICT
    assert made.target.read_text() == "value = 'mine'\n"


def test_another_folder_in_the_projects_place_is_not_written(tmp_path: Path):
    """The folder must be the very one that was copied in."""
    made = Improved(tmp_path)
    made.project.rename(tmp_path / "moved")
    made.project.mkdir()
    (made.project / "sums.py").write_text(OLD)
    with pytest.raises(InputError, match="not the folder that was copied in"):
        made.apply()
    assert (made.project / "sums.py").read_text() == OLD


@pytest.mark.parametrize("target", ["mindx/agents/bdi/agent.py", "pyproject.toml", "conftest.py"])
def test_a_critical_target_waits_for_a_person(tmp_path: Path, target: str):
    """Parts of mindx, and files that run on this machine by themselves: not without a yes, and then they are."""
    made = Improved(tmp_path, target)
    waiting = made.apply()
    assert waiting.status is ApplyStatus.NEEDS_APPROVAL
    assert made.target.read_text() == OLD
    assert made.apply(approved=True).ok
    assert made.target.read_text() == NEW


def test_a_target_that_was_marked_as_critical_waits_too(tmp_path: Path):
    """The request says so, and the agent's answer repeats it."""
    made = Improved(tmp_path, is_critical_target=True)
    assert made.result.needs_person
    assert made.apply().status is ApplyStatus.NEEDS_APPROVAL
    assert made.target.read_text() == OLD


@pytest.mark.parametrize("layer", [layer for layer in Layer if layer is not Layer.COORDINATOR])
def test_only_the_coordinator_has_code_changed(tmp_path: Path, layer: Layer):
    """No other layer applies, not even with a person's yes; nor does the agent itself."""
    made = Improved(tmp_path)
    with pytest.raises(ConstitutionError):
        made.apply(layer=layer, approved=True)
    assert made.target.read_text() == OLD


def test_a_person_decides_about_a_roll_back(tmp_path: Path):
    """Without a yes what was applied stays."""
    made = Improved(tmp_path)
    assert made.apply().ok
    with pytest.raises(ConstitutionError):
        made.roll_back(approved=False)
    assert made.target.read_text() == NEW


def test_only_the_judged_bytes_of_the_target_are_written(tmp_path: Path):
    """Other files that the tests changed in the copy stay there; content that is not what passed is refused."""
    made = Improved(tmp_path, test_command=("python3", "-c", f"open('other.txt', 'w'); {FILLED}", "sums.py"))
    changed = {change.path for change in ChangesFolder(made.work / "int_1" / "changes").read_changes()}
    assert changed == {"other.txt", "sums.py"}
    assert made.apply().paths == ("sums.py",)
    assert not (made.project / "other.txt").exists()


def test_what_is_kept_must_be_what_passed_the_gates(tmp_path: Path):
    """An answer or a content that was exchanged after the gates is refused."""
    made = Improved(tmp_path)
    home = ChangesFolder(made.work / "int_1" / "changes")
    other = made.result.model_copy(
        update={
            "data": made.result.data.model_copy(
                update={"cycle_results": (made.result.data.cycle_results[0].model_copy(update={"sha256": "0" * 64}),)}
            )
        }
    )
    with pytest.raises(InputError, match="not the candidate"):
        made.apply(other)
    content = home.blobs.path(home.read_changes()[0].sha256)
    content.write_text("value = 'evil'\n")
    with pytest.raises(InputError, match="altered"):
        made.apply()
    assert made.target.read_text() == OLD


def test_an_answer_about_another_file_or_folder_is_refused(tmp_path: Path):
    """What is applied lies in the folder that was copied in, and is the file that was asked about: nothing else."""
    made = Improved(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sums.py").write_text(OLD)
    asked = made.request
    for change in ({"target_file": "setup.py"}, {"workspace": tmp_path / "other"}):
        made.request = asked.model_copy(update=change)
        with pytest.raises(InputError) as caught:
            made.apply(approved=True)
        assert caught.value.code == "improvement_altered"
    assert made.target.read_text() == OLD


def test_a_new_file_comes_with_its_folders_and_goes_with_them(tmp_path: Path):
    """A target that is not there yet is added, and a roll-back removes what was made for it."""
    made = Improved(tmp_path)
    folder = made.project / "new" / "place"
    path = "new/place/sums.py"
    changes = {"interaction_id": "int_2", "target_file": path, "test_command": ("python3", "-c", FILLED, path)}
    request = made.request.model_copy(update=changes)
    agent = SelfImprovementAgent(ScriptedProvider(turns(NEW)), request, made.work / "int_2")
    result = asyncio.run(agent.improve())
    known: dict[str, Any] = {"work_dir": made.work, "constitution": RULES}
    assert apply_improvement(request, result, **known).ok
    assert (folder / "sums.py").read_text() == NEW
    assert rollback_improvement("int_2", approved=True, **known).ok
    assert not (made.project / "new").exists()


def test_the_last_improvements_of_self_are_taken_back(tmp_path: Path):
    """`--rollback N` of the command: the newest first, and an honest failure where there is nothing."""
    made = Improved(tmp_path, SELF_FILE)
    data = made.result.data.model_copy(update={"operation_type": OperationType.IMPROVE_SELF})
    (made.work / "int_1" / "result.json").write_text(made.result.model_copy(update={"data": data}).line())
    (made.work / "a file").write_text("that somebody left")
    assert not roll_back_self(made.work, 1, RULES).ok
    assert made.apply(approved=True).ok
    assert applied_self(made.work) == ["int_1"]
    back = roll_back_self(made.work, 5, RULES)
    assert (back.ok, back.data.final_status.value) == (True, "SUCCESS_ROLLED_BACK")
    assert made.target.read_text() == OLD
    assert applied_self(made.work) == []


def test_a_candidate_without_a_folder_is_written_nowhere(tmp_path: Path):
    """What was made in an empty workspace has no place on the host, least of all the current folder."""
    made = Improved(tmp_path)
    request = made.request.model_copy(update={"interaction_id": "int_2", "workspace": None})
    agent = SelfImprovementAgent(ScriptedProvider(turns(NEW)), request, made.work / "int_2")
    with pytest.raises(InputError, match="no folder for it"):
        apply_improvement(request, asyncio.run(agent.improve()), work_dir=made.work, constitution=RULES)


def test_a_failure_is_not_applied(tmp_path: Path):
    """There is nothing to apply."""
    made = Improved(tmp_path)
    failed = ImprovementResult.failure(made.request, made.result.data.final_status.FAILED_EVALUATION, "it was bad")
    with pytest.raises(InputError, match="nothing to apply"):
        made.apply(failed)
