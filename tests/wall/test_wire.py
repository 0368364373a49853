"""The wire's two sides: what goes in comes out, whatever the cuts; garbage is a WireError and nothing else."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.guest import records, wire

numbers = st.integers(0, 2**32 - 1)
kinds = st.integers(0, 255)
frames = st.lists(st.tuples(kinds, kinds, numbers, st.binary(max_size=300)), max_size=12)
cuts = st.lists(st.integers(1, 40), min_size=1, max_size=20)
texts = st.lists(st.binary(max_size=20).map(lambda text: text.replace(b"\0", b"")), max_size=5)


def stream_of(sent: list[tuple[int, int, int, bytes]]) -> bytes:
    return b"".join(
        wire.frame(kind, number, request_id, payload, flags)
        for number, (kind, flags, request_id, payload) in enumerate(sent)
    )


def read_in_pieces(data: bytes, sizes: list[int]) -> list[tuple[int, int, int, bytes]]:
    reader, found, at, turn = wire.FrameReader(), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found += reader.feed(memoryview(data)[at : at + size])
        at, turn = at + size, turn + 1
    return found


def joined(found: list[tuple[int, int, int, bytes]]) -> list[tuple[int, int, int, bytes]]:
    """Put the pieces of a flowing payload together again."""
    whole: list[tuple[int, int, int, bytes]] = []
    for kind, flags, request_id, payload in found:
        if whole and kind in wire.FLOWING and whole[-1][:3] == (kind, flags, request_id):
            whole[-1] = (kind, flags, request_id, whole[-1][3] + payload)
        else:
            whole.append((kind, flags, request_id, payload))
    return whole


@given(frames, cuts)
def test_frames_arrive_as_they_were_sent_whatever_the_cuts(sent, sizes):
    found = read_in_pieces(stream_of(sent), sizes)
    assert joined(found) == joined(sent)


@given(frames)
def test_frames_that_come_one_by_one_arrive_one_by_one(sent):
    """As nearly all do: they are read by a shorter way."""
    reader = wire.FrameReader()
    found = [reader.feed(wire.frame(k, number, r, p, f)) for number, (k, f, r, p) in enumerate(sent)]
    assert found == [[one] for one in sent]


@pytest.mark.parametrize("kind", [wire.OUT, wire.EXITED])
@pytest.mark.parametrize("due", [0, 1])
def test_a_payload_that_looks_like_a_frame_is_none_wherever_it_is_cut(kind, due):
    """A program chooses what it prints, and when."""
    forged = wire.frame(wire.EXITED, due, 7, b"forged")
    honest = (kind, 0, 7, forged + forged)
    data = stream_of([honest])
    head = wire.HEADER.size
    for pieces in ((head, len(forged)), (head + len(forged), len(forged)), (head, len(forged) * 2)):
        assert joined(read_in_pieces(data, list(pieces))) == [honest]


@given(st.lists(st.binary(max_size=200), max_size=10), cuts)
def test_garbage_is_a_wire_error_or_nothing(pieces, sizes):
    try:
        found = read_in_pieces(b"".join(pieces), sizes)
    except wire.WireError:
        return
    assert all(len(payload) <= wire.MAX_PAYLOAD for *_, payload in found)


@given(frames.filter(lambda sent: len(sent) > 1), st.data())
def test_a_frame_that_is_missing_or_repeated_is_noticed(sent, data):
    whole = [wire.frame(k, number, r, p, f) for number, (k, f, r, p) in enumerate(sent)]
    place = data.draw(st.integers(0, len(whole) - 2))
    for torn in (whole[:place] + whole[place + 1 :], whole[: place + 1] + whole[place:]):
        with pytest.raises(wire.WireError, match="was due"):
            wire.FrameReader().feed(b"".join(torn))
        with pytest.raises(wire.WireError, match="was due"):
            list(map(wire.FrameReader().feed, torn))


@pytest.mark.parametrize("length", [wire.MAX_PAYLOAD + 1, 2**31, 2**32 - 1])
def test_a_huge_length_is_refused_before_a_byte_of_it_is_kept(length):
    with pytest.raises(wire.WireError, match="bytes"):
        wire.FrameReader().feed(wire.HEADER.pack(wire.OUT, 0, 0, 1, length))


sizes = st.none() | st.tuples(st.integers(1, 1000), st.integers(1, 1000))


@given(texts.filter(bool), texts, st.binary(max_size=9), numbers, st.booleans(), sizes)
def test_an_exec_request_comes_back_as_it_was(argv, env, cwd, deadline_ms, has_stdin, terminal):
    cwd = cwd.replace(b"\0", b"")
    sent = (argv, cwd, env, b"/bin/x", deadline_ms, 2**40, 7, has_stdin, 3, True, terminal)
    got = records.ExecRequest.unpack(records.ExecRequest.pack(*sent))
    assert (got.argv, got.cwd, got.env, got.executable, got.deadline_ms) == sent[:5]
    assert (got.head_bytes, got.tail_bytes, got.has_stdin) == sent[5:8]
    assert (got.slot, got.tells_files, got.terminal) == sent[8:]


def test_a_nul_in_a_text_is_refused_where_it_is_sent():
    with pytest.raises(ValueError, match="NUL"):
        wire.join_texts([b"a", b"b\0c"])


def accepts(read, payload: bytes) -> bool:
    try:
        read(payload)
    except wire.WireError:
        return False
    return True


@given(st.binary(max_size=400))
def test_records_of_garbage_are_a_wire_error_or_well_formed(payload):
    if accepts(records.ExitRecord.unpack, payload):
        assert records.ExitRecord.unpack(payload).cause <= records.CAUSE_NOT_EXECUTABLE
    if accepts(wire.unpack_entries, payload):
        assert all(kind <= wire.KIND_OTHER for _, kind, *_ in wire.unpack_entries(payload))
    if accepts(wire.unpack_failure, payload):
        assert isinstance(wire.unpack_failure(payload)[0], int)
    accepts(records.ExecRequest.unpack, payload)


entries = st.lists(
    st.tuples(st.binary(max_size=30), st.integers(0, 3), st.integers(0, 0o7777), st.integers(0, 2**63)), max_size=6
)


@given(entries, st.data())
def test_entries_come_back_and_a_torn_one_is_noticed(records, data):
    payload = b"".join(wire.pack_entry(*record, 5, b"d" * 32, b"t") for record in records)
    assert [one[:4] for one in wire.unpack_entries(payload)] == records
    if payload:
        cut = data.draw(st.integers(1, len(payload) - 1))
        whole = accepts(wire.unpack_entries, payload[:cut])
        assert not whole or len(wire.unpack_entries(payload[:cut])) < len(records)


def test_an_exit_record_comes_back_as_it_was():
    sent = records.ExitRecord()
    sent.stdout_sha256 = sent.stderr_sha256 = b"x" * 32
    sent.cause, sent.exit_code, sent.killed_count, sent.killed = records.CAUSE_TIMEOUT, -1, 70, [b"12 sh", b"13 a b"]
    got = records.ExitRecord.unpack(sent.pack())
    assert [getattr(got, name) for name in sent.__slots__] == [getattr(sent, name) for name in sent.__slots__]


def test_a_record_that_is_too_short_for_its_numbers_is_a_wire_error():
    for read in (records.ExecRequest.unpack, records.ExitRecord.unpack):
        with pytest.raises(wire.WireError):
            read(b"")
    assert struct.calcsize("<i") == wire.FAILURE.size
