"""Output that is passed on while a program runs, beside a reader that does not read."""

import asyncio
import os
import sys
import threading
import tracemalloc

import pytest

from mindx.cli.live import MAX_WAITING_BYTES, LiveOutput

MIB = 1024 * 1024


@pytest.fixture
def pipe():
    """The two ends of a pipe. A fixture cannot set sys.stdout: pytest sets its own before the test begins."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stdout, os.fdopen(reading, "rb") as stdin:
        yield stdin, stdout


def piece(number):
    return bytes([number % 256]) * (MIB // 4)


def test_a_reader_that_stalls_costs_no_memory_and_loses_nothing(pipe, monkeypatch):
    reader, stdout = pipe
    monkeypatch.setattr(sys, "stdout", stdout)
    count = 160  # 40 MiB
    read = bytearray()

    def read_all():
        while len(read) < count * MIB // 4 and (data := reader.read1(MIB)):
            read.extend(data)

    async def stall():
        live = LiveOutput(raw=True)
        tracemalloc.start()
        try:
            for number in range(count):
                live("stdout", piece(number))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        thread = threading.Thread(target=read_all)
        thread.start()
        await live.finish(b"".join(map(piece, range(count))))
        await asyncio.to_thread(thread.join)
        return held

    held = asyncio.run(stall())
    assert MAX_WAITING_BYTES / 2 < held < MAX_WAITING_BYTES + 2 * MIB
    assert bytes(read) == b"".join(map(piece, range(count)))


def test_a_reader_that_reads_gets_all_as_it_comes(pipe, monkeypatch):
    reader, stdout = pipe
    monkeypatch.setattr(sys, "stdout", stdout)

    async def pass_on():
        live = LiveOutput(raw=True)
        for number in range(20):
            live("stdout", b"%d\n" % number)
            assert await asyncio.to_thread(reader.readline) == b"%d\n" % number
        await live.finish(b"".join(b"%d\n" % number for number in range(20)) + b"end")

    asyncio.run(pass_on())
    assert reader.read1(100) == b"end"
