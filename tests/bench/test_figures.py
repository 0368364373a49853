"""Gates and aims: what counts as reached, and that nothing unknown does."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from scripts.bench.__main__ import main
from scripts.bench.figures import FIGURES, Figure, judge, select_figures
from scripts.bench.probes import PROBES, parse_cpuset
from scripts.bench.report import document, table
from scripts.bench.samples import Samples

AT_MOST = Figure("slow", "g", "ours / theirs", "ours", "theirs", gate=2.0, aim=1.4)
AT_LEAST = Figure("fast", "g", "theirs / ours", "theirs", "ours", gate=40.0, at_least=True)
MEMORY = Figure("memory", "g", "held", "held", "bare", gate=15.0, aim=8.0, unit="MiB")
ROOT = Path(__file__).parents[2]
SPECIFICATION = ROOT / "docs" / "specification.md"


def samples_of(**values: list[float]) -> Samples:
    samples = Samples()
    for name, numbers in values.items():
        for number in numbers:
            samples.add(name, number)
    return samples


@pytest.mark.parametrize(
    ("figure", "value", "standing"),
    [
        (AT_MOST, 1.4, "aim"),
        (AT_MOST, 1.41, "gate"),
        (AT_MOST, 2.0, "gate"),
        (AT_MOST, 2.01, "below gate"),
        (AT_LEAST, 40.0, "gate"),
        (AT_LEAST, 39.9, "below gate"),
        (AT_LEAST, math.inf, "unknown"),
        (MEMORY, 8.0, "aim"),
        (MEMORY, 15.1, "below gate"),
        (AT_MOST, math.nan, "unknown"),
        (AT_LEAST, math.nan, "unknown"),
    ],
)
def test_standing(figure: Figure, value: float, standing: str) -> None:
    assert figure.standing(value) == standing


def test_a_ratio_is_of_the_same_percentile() -> None:
    samples = samples_of(ours=[1.0, 1.0, 9.0], theirs=[1.0, 2.0, 3.0])
    assert AT_MOST.value(samples) == 0.5
    at_the_top = Figure("p", "g", "", "ours", "theirs", gate=1.0, percent=100)
    assert at_the_top.value(samples) == 3.0


def test_memory_is_a_difference_or_alone() -> None:
    samples = samples_of(held=[40.0], bare=[30.0])
    assert MEMORY.value(samples) == 10.0
    took = Figure("took", "g", "", "held", "bare", gate=1.0, unit="ms")
    assert took.value(samples_of(held=[0.25], bare=[0.125])) == 125.0
    alone = Figure("alone", "g", "", "held", "", gate=1.0, unit="MiB")
    assert alone.value(samples) == 40.0


@pytest.mark.parametrize("values", [{}, {"ours": [1.0]}, {"theirs": [1.0]}, {"ours": [1.0], "theirs": [0.0]}])
def test_what_was_not_measured_is_not_met(values: dict[str, list[float]]) -> None:
    (outcome,) = judge((AT_MOST,), samples_of(**values))
    assert outcome.standing == "unknown"
    assert not outcome.met
    assert outcome.to_dict()["value"] is None


def test_the_document_is_json_and_says_whether_all_gates_are_reached() -> None:
    samples = samples_of(ours=[1.0], theirs=[1.0], held=[99.0], bare=[1.0])
    good = document(judge((AT_MOST,), samples), samples, {"engine": "x"})
    both = document(judge((AT_MOST, MEMORY), samples), samples, {})
    assert good["met"] is True
    assert both["met"] is False
    assert good["setting"]["engine"] == "x"
    again = json.loads(json.dumps(both, allow_nan=False))
    assert [figure["standing"] for figure in again["figures"]] == ["aim", "below gate"]
    assert again["samples"]["held"] == {"count": 1, "p50": 99.0, "p95": 99.0, "min": 99.0, "max": 99.0}


def test_the_table_shows_every_figure_with_both_sides() -> None:
    samples = samples_of(ours=[0.001], theirs=[0.004])
    text = table(judge((AT_MOST, AT_LEAST, MEMORY), samples), samples)
    slow, fast, memory = text.splitlines()[2:]
    assert re.search(r"slow\s+0\.25x\s+<= 2\s+<= 1\.4\s+aim\s+1\.00 ms / 4\.00 ms", slow)
    assert re.search(r"fast\s+4\.00x\s+>= 40\s+-\s+below gate", fast)
    assert re.search(r"memory\s+unknown\s+<= 15\s+<= 8\s+unknown\s+\? / \?", memory)


def test_every_figure_has_a_probe_and_a_name_of_its_own() -> None:
    assert {figure.group for figure in FIGURES} == set(PROBES)
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)
    # An aim that is easier than its gate would call a failure a success.
    assert all(figure.aim is None or (figure.aim >= figure.gate) is figure.at_least for figure in FIGURES)


def test_figures_are_chosen_by_name_or_group() -> None:
    assert select_figures(()) == FIGURES
    assert [figure.name for figure in select_figures(("start",))] == ["start", "stop"]
    assert [figure.name for figure in select_figures(("stop", "copy"))] == ["stop", "copy_in"]
    with pytest.raises(KeyError, match="nothing"):
        select_figures(("stop", "nothing"))


def test_an_unknown_name_ends_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing"]) == 2
    assert "no figure or group 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "cpus"), [("", set()), ("0", {0}), ("0-2,5", {0, 1, 2, 5})])
def test_a_cpuset_is_read(text: str, cpus: set[int]) -> None:
    assert parse_cpuset(text) == cpus


def test_the_specification_names_every_figure_with_its_gate_and_aim() -> None:
    rows = {}
    for line in SPECIFICATION.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            rows[cells[0].strip("`")] = cells
    for figure in FIGURES:
        _, gate, aim, *_ = rows[figure.name][1:]
        assert _number(gate) == figure.gate, figure.name
        assert _number(aim) == figure.aim, figure.name


def test_no_figure_of_the_specification_is_without_its_proof() -> None:
    """Each row names a test that is there or a probe of the bench, or says `pending`."""
    groups = {figure.name: figure.group for figure in FIGURES}
    rows = [line for line in SPECIFICATION.read_text().splitlines() if line.startswith("| ") and "---" not in line]
    for row in rows:
        first, *_, proof = (cell.strip() for cell in row.strip("|").split("|"))
        if proof in ("proved by", "test") or "pending" in row:
            continue
        if first.strip("`") in groups:
            assert proof == f"`--only {groups[first.strip('`')]}`", row
            continue
        places = re.findall(r"`(tests/[^`:]+)(?:::([^`]+))?`", proof)
        assert places, row
        for path, name in places:
            assert ROOT.joinpath(path).is_file(), row
            assert f"def {name}" in ROOT.joinpath(path).read_text(), row


def _number(cell: str) -> float | None:
    found = re.search(r"[\d.]+", cell)
    return float(found[0]) if found else None
