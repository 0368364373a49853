"""The name that was meant."""

from mindx.core.nearest import did_you_mean, nearest_id


def test_a_slip_of_a_name_is_told_and_a_stranger_is_not():
    assert did_you_mean("Pyton", ["node", "python"]) == "did you mean `python`?"
    assert did_you_mean("cobol", ["node", "python"]) == ""
    assert did_you_mean("p" * 65, ["p" * 64]) == ""


def test_ids_look_alike_so_only_a_slip_or_two_is_taken_for_one():
    known = ["mission_66b4fa08eb50", "mission_0a1b2c3d4e5f"]
    assert nearest_id("mission_66b4fa08eb05", known, "look") == "did you mean `mission_66b4fa08eb50`?"
    assert nearest_id("mission_77777777777a", known, "look") == "look"
