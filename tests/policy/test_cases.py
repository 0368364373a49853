import pytest

from tests.policy import cases, engine_checks


@pytest.mark.parametrize("name", sorted(cases.documents()))
def test_golden_cases(name: str) -> None:
    wrong = [
        f"{kind} {text!r}: expected {expected}, got {found}"
        for file, kind, text, expected in cases.judged()
        if file == name and (found := cases.judge(name, kind, text)) != expected
    ]
    assert not wrong, "\n".join(wrong)


def test_the_table_of_programs() -> None:
    wrong = [f"{text!r}: expected {word}" for text, word in cases.classified() if cases.classify(text) != word]
    assert not wrong, "\n".join(wrong)


def test_there_is_a_case_that_passes_and_one_that_is_stopped_in_every_file_of_rules() -> None:
    for name, document in cases.documents().items():
        verdicts = {expected for file, _, _, expected in cases.judged() if file == name}
        assert name == "bypass" or "risk" in document or len(verdicts) > 1, name


def test_the_checks_of_the_engine() -> None:
    assert engine_checks.broken() == []
