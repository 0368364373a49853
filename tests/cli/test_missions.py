"""`mindx missions`, and names that are nearly those of what there is."""

import pytest

from mindx.agents.agint.life import AGIntStatus
from mindx.agents.agint.mission import Mission, MissionStore
from mindx.agents.agint.phase import Phase, PhaseStatus
from mindx.agents.mastermind.campaign import StrategicCampaign
from mindx.agents.mastermind.campaign_store import CampaignStore
from mindx.runtime.tasks.ledger import LocalTaskLedgerStore, TaskLedger
from tests.cli.test_schemas import fits


@pytest.fixture
def store(mindx):
    """The missions of this state folder: one that ended, and one whose process died."""
    made = MissionStore(mindx.state / "mind" / "missions")
    phases = (
        Phase(name="look", task="look", status=PhaseStatus.ACHIEVED, told="seen\x1b[31m"),
        Phase(name="port", task="port", depends_on=("look",)),
    )
    done = Mission(mission_id="mission_1", directive="first", status=AGIntStatus.COMPLETED, created_at=1.0)
    cut = Mission(
        mission_id="mission_2", directive="port\x1b it", phases=phases, status=AGIntStatus.RUNNING, created_at=2.0
    )
    for mission in (done, cut):
        with made.writing(mission.mission_id):
            made.save(mission)
    return made


def test_missions_are_listed_and_shown(mindx, store):
    """One that says running while nobody works on it was cut off; nothing that the terminal obeys is shown."""
    rows = fits(mindx("missions", "list", "--json").json, "missions")["missions"]
    assert [(row["mission_id"], row["status"]) for row in rows] == [
        ("mission_2", "running"),
        ("mission_1", "completed"),
    ]
    listed = mindx("missions", "list")
    latest, first = listed.out.splitlines()
    assert ("cut off" in latest, "1 of 2 phases" in latest, "completed" in first) == (True, True, True)
    assert "\x1b" not in listed.out
    with store.writing("mission_2"):
        assert "running" in mindx("missions", "list").out
    shown = mindx("missions", "show", "last")
    assert "+ look: achieved. seen" in shown.out
    assert "`mindx mission --resume mission_2` takes it up again, in a new container: 1 achieved phase" in shown.out
    assert "\x1b" not in shown.out
    assert fits(mindx("missions", "show", "mission_1", "--json").json, "mission-show")["directive"] == "first"


def test_no_mission_is_a_word_on_stderr(mindx):
    listed = mindx("missions", "list")
    assert (listed.code, listed.out, "no mission yet" in listed.err) == (0, "", True)
    assert fits(mindx("missions", "list", "--json").json, "missions")["missions"] == []
    assert mindx("missions", "show", "last").code == 2


@pytest.mark.parametrize("word", ["list", "show"])
def test_a_verb_is_no_directive(mindx, word):
    """`mindx mission list` would have a model divide the word `list` into phases."""
    done = mindx("mission", word)
    assert (done.code, f"did you mean `mindx missions {word}`?" in done.err) == (2, True)


def test_a_name_that_is_nearly_one_is_told_which(mindx, store):
    """Whatever is named, bad input is exit code 2 and says what was meant."""
    CampaignStore(mindx.state / "mind").save(StrategicCampaign(campaign_id="mscamp_1234", directive="evolve"))
    ledgers = LocalTaskLedgerStore(mindx.state / "tasks")
    with ledgers.writing("port-it"):
        ledgers.save(TaskLedger("port-it", "port it"))
    refused = mindx("run", "-", "--json", stdin=b"{").json["run_id"]
    slip = refused[:-2] + refused[-1] + refused[-2]
    for arguments, meant in (
        (("missions", "show", "mision_2"), "mission_2"),
        (("mission", "--resume", "mission_22"), "mission_2"),
        (("campaign", "show", "mscamp_1243"), "mscamp_1234"),
        (("campaign", "stop", "mscamp_1243"), "mscamp_1234"),
        (("task", "resume", "port-ti"), "port-it"),
        (("runs", "show", "lats"), "last"),
        (("runs", "show", slip if slip != refused else refused[:-1] + "x"), refused),
        (("policy", "show", "--policy", "read-olny"), "read-only"),
        (("schema", "misions"), "missions"),
        (("misions", "list"), "missions"),
    ):
        done = mindx(*arguments)
        assert done.code == 2, (arguments, done.err)
        assert f"did you mean {meant}?" in done.err.replace("`", ""), (arguments, done.err)
