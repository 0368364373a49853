"""A trace is followed while it is written, and the following ends with the writing."""

import asyncio

import pytest

from mindx.errors import InputError
from mindx.trace.follow import follow
from mindx.trace.recorder import Recorder


def test_what_is_there_comes_first_then_what_comes_then_the_end(tmp_path):
    path = tmp_path / "trace.jsonl"

    async def story():
        recorder = Recorder(path)
        recorder.record("one", n=1)
        seen = []
        async for event in follow(path, wait_s=0.001):
            seen.append(event.kind)
            if event.kind == "one":
                recorder.record("two", text="x" * 3_000_000)  # more than one piece
            elif event.kind == "two":
                asyncio.get_running_loop().call_later(0.01, recorder.record, "three")
            else:
                recorder.close()
        return seen

    assert asyncio.run(asyncio.wait_for(story(), 30)) == ["one", "two", "three"]


def test_a_cut_last_line_is_left_out_and_a_broken_one_is_told(tmp_path):
    path = tmp_path / "trace.jsonl"
    with Recorder(path) as recorder:
        recorder.record("one")
    whole = path.read_bytes()

    async def kinds():
        return [event.kind async for event in follow(path)]

    path.write_bytes(whole + whole[:20])
    assert asyncio.run(kinds()) == ["one"]
    path.write_bytes(whole + b"no event\n")
    with pytest.raises(InputError, match="line 2"):
        asyncio.run(kinds())
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        asyncio.run(kinds())
