"""A sub-agent compresses a task's memory; its parent looks it over and swaps it in one step."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mindx import InputError, LocalTaskMemoryStore
from tests.agents.society import Society, ask


def test_a_child_compresses_its_parent_reviews_and_the_memory_is_swapped(tmp_path: Path) -> None:
    """The child never writes: it sees the text in its task and answers a shorter one. The parent replaces only what
    it has read, so that what was written meanwhile is not lost."""
    memory = LocalTaskMemoryStore(tmp_path)
    memory.replace("the bug is in app.py line 2\n" * 50)
    read, digest = memory.read(), memory.sha256

    def parent(context):
        if context.step == 1:
            return ask("shortener", task=read)
        (observation,) = context.observations
        shorter = observation.result["final_answer"]
        assert len(shorter) < len(read)  # its review
        assert "app.py" in shorter
        memory.replace(shorter, expected_sha256=digest)
        return "swapped"

    async def story():
        society = Society({"parent": parent, "shortener": lambda context: context.task.splitlines()[0]})
        async with society.orchestrator as orchestrator:
            return await orchestrator.run_agent("parent", "keep the memory short")

    assert asyncio.run(story()).final_answer == "swapped"
    assert LocalTaskMemoryStore(tmp_path).read() == "the bug is in app.py line 2"
    with pytest.raises(InputError) as caught:
        memory.replace("late", expected_sha256=digest)
    assert caught.value.code == "memory_changed"
