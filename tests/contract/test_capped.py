"""What is kept of a long stream, and what the marker says."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.sandbox.capped import CappedStream, join, split_cap


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 64))
def test_any_cutting_into_pieces_keeps_the_same(pieces: list[bytes], max_bytes: int) -> None:
    stream = CappedStream(max_bytes)
    for piece in pieces:
        stream.write(piece)
    whole = b"".join(pieces)

    kept, truncated = stream.result()

    assert stream.total_bytes == len(whole)
    assert stream.sha256 == hashlib.sha256(whole).hexdigest()
    assert truncated == (len(whole) > max_bytes)
    if not truncated:
        assert kept == whole
        return
    head, tail = split_cap(max_bytes)
    marker = b"\n[mindx: %d bytes left out]\n" % (len(whole) - max_bytes)
    assert kept == whole[:head] + marker + whole[len(whole) - tail :]


def test_a_stream_as_long_as_the_cap_is_kept_whole_and_one_byte_more_is_not() -> None:
    stream = CappedStream(8)
    stream.write(b"12345678")
    assert stream.result() == (b"12345678", False)
    stream.write(b"9")
    assert stream.result() == (b"123456\n[mindx: 1 bytes left out]\n89", True)


def test_the_cap_is_split_three_to_one() -> None:
    assert split_cap(100) == (75, 25)
    assert [sum(split_cap(size)) for size in range(10)] == list(range(10))


@given(st.binary(max_size=60), st.data())
def test_join_puts_overlapping_ends_together(whole: bytes, data: st.DataObject) -> None:
    head = data.draw(st.integers(0, len(whole)))
    tail = data.draw(st.integers(len(whole) - head, len(whole)))
    assert join(whole[:head], whole[len(whole) - tail :], len(whole)) == (whole, False)


def test_join_refuses_parts_longer_than_the_stream() -> None:
    with pytest.raises(ValueError, match="cannot be parts"):
        join(b"123", b"", 2)
    with pytest.raises(ValueError, match="cannot be parts"):
        join(b"", b"123", 2)


def test_a_negative_cap_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        CappedStream(-1)
