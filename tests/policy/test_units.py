import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.policy.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2GiB", 2 << 30), ("512MiB", 512 << 20), ("64KiB", 64 << 10), ("1 TiB", 1 << 40), ("100B", 100), ("0", 0)],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("1g", "such as 512MiB"),
        ("1G", "write 1GiB"),
        ("1GB", "write 1GiB"),
        ("4k", "write 4KiB"),
        ("512", "write 512B, 512KiB"),
        ("1.5GiB", "1536MiB"),
        ("-1MiB", "is not a size"),
        ("1e9B", "is not a size"),
        (".nan", "is not a size"),
        ("inf", "is not a size"),
        ("٣MiB", "is not a size"),
        ("9" * 16 + "B", "is not a size"),
        ("", "is not a size"),
    ],
)
def test_a_size_that_people_could_misread_is_refused_with_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_size(text)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"), [("30s", 30), ("5m", 300), ("500ms", 0.5), ("1h", 3600), ("2d", 172_800), ("1.5s", 1.5)]
)
def test_durations(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["30", "-1s", "1 week", "", "nan", "1e3s", "1:30", "9" * 10 + "s", "s"])
def test_a_duration_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert "is not a duration" in str(caught.value)


@given(st.integers(0, 1 << 49))
def test_a_size_reads_back(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@given(st.integers(0, 86_400_000))
def test_a_duration_reads_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)
