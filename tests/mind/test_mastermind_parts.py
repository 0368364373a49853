"""What Mastermind keeps and what it takes for done: records, the history, the stop switch, what is missing."""

from __future__ import annotations

import asyncio

import pytest

from mindx.agents.mastermind.campaign import CampaignOutcome, CampaignStatus, Development, StrategicCampaign
from mindx.agents.mastermind.campaign_store import HISTORY_FILE, CampaignStore
from mindx.agents.mastermind.gaps import missing, unregistered
from mindx.agents.mastermind.stop_switch import StopSwitch
from mindx.errors import InputError, StateError

SEEN = {"system_state": {}, "assessment": {}, "strategy": {"identified_need": "count words"}}
CONCEPT = {"id": "word_count"}


def campaign(*made, facts=SEEN, **more):
    return StrategicCampaign(campaign_id="mscamp_1", directive="evolve", sub_tasks=made, facts=facts, **more)


def development(**more):
    return Development(tool_id="word_count", version="0.1.0", **{"status": "completed", **more})


def test_a_campaign_is_complete_only_when_the_tool_is_registered_and_was_seen_to_work():
    """No plan's word counts: each step of the cycle has left something that is looked up."""
    facts = {**SEEN, "tool_concept": CONCEPT}
    assert missing(campaign(facts={})) == (
        "there is no system_state",
        "there is no assessment",
        "there is no strategy",
    )
    assert missing(campaign()) == ("nothing was done about the need that was found: count words",)
    assert missing(campaign(facts=facts)) == ("word_count was conceived and not developed",)
    assert "came to nothing" in missing(campaign(development(status="failed", problem="tests"), facts=facts))[0]
    assert missing(campaign(development(), facts=facts)) == ("word_count was developed and is not registered",)
    registered = development(registered=True)
    assert missing(campaign(registered, facts=facts)) == ("word_count is registered, and was not seen to work",)
    assert missing(campaign(development(registered=True, used=True), facts=facts)) == ()


def test_a_system_that_lacks_nothing_is_complete_without_a_tool():
    content = {**SEEN, "strategy": {"identified_need": ""}}
    assert missing(campaign(facts=content)) == ()
    assert missing(campaign(facts={**SEEN, "deprecated": ["old"]})) == ()


def test_only_the_latest_attempt_at_a_tool_counts():
    first, second = development(attempt=1, status="failed", problem="x"), development(attempt=2)
    made = campaign(first).with_development(second)
    assert made.development("word_count") == second
    assert unregistered(made) == (second,)
    changed = made.with_development(second.model_copy(update={"registered": True}))
    assert len(changed.sub_tasks) == 2
    assert unregistered(changed) == ()


def test_what_has_ended_is_in_the_history_once_with_its_latest_end(tmp_path):
    store = CampaignStore(tmp_path)
    store.save(campaign(status=CampaignStatus.RUNNING))
    assert store.history().campaigns == ()
    store.save(campaign(status=CampaignStatus.STOPPED))
    ended = campaign(status=CampaignStatus.COMPLETED, outcome=CampaignOutcome(final_bdi_status="GOAL_ACHIEVED"))
    store.save(ended)
    history = store.history()
    assert history.campaigns == (ended.model_copy(update={"facts": {}}),)  # facts may be large; the record has them
    assert history.revision == 2
    assert store.load("mscamp_1") == ended
    assert store.list() == (ended,)


def test_a_damaged_history_is_never_written_over(tmp_path):
    (tmp_path / HISTORY_FILE).write_text('{"campaigns": [')
    with pytest.raises(StateError) as caught:
        CampaignStore(tmp_path).save(campaign(status=CampaignStatus.COMPLETED))
    assert caught.value.code == "campaign_history_corrupt"
    assert (tmp_path / HISTORY_FILE).read_text() == '{"campaigns": ['


def test_records_that_are_none_are_told(tmp_path):
    store = CampaignStore(tmp_path)
    for name, code in (("none", "campaign_unknown"), ("../x", "id_invalid")):
        with pytest.raises(InputError) as caught:
            store.load(name)
        assert caught.value.code == code
    (tmp_path / "campaigns" / "bad").mkdir(parents=True)
    (tmp_path / "campaigns" / "bad" / "campaign.json").write_text("{}")
    with pytest.raises(InputError) as caught:
        store.load("bad")
    assert caught.value.code == "campaign_corrupt"
    assert store.list() == ()


def test_the_switch_stops_one_or_all_until_it_is_released(tmp_path):
    switch = StopSwitch(tmp_path)
    assert not switch.stops("a")
    assert not switch.release()
    switch.set("a")
    assert switch.stops("a")
    assert not switch.stops("b")
    assert not switch.stops()
    switch.set()
    switch.set("a")  # stops no less than before
    assert switch.stops("b")
    assert switch.stops()
    asyncio.run(asyncio.wait_for(switch.wait("b"), 5))
    assert switch.release()
    assert not switch.stops("a")


def test_a_switch_that_cannot_be_read_stops(tmp_path):
    (tmp_path / "stop").mkdir()
    assert StopSwitch(tmp_path).stops("a")
