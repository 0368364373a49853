"""SyncSession: the same calls without a loop of the caller's own; over the fake sandbox."""

import asyncio
import threading

import pytest

from mindx.errors import DeniedError, FileError, SandboxError, SandboxLostError
from mindx.runtime.sync_session import SyncSession
from mindx.sandbox.fake import FakeSandbox


def session(**options):
    return SyncSession(open_sandbox=lambda loaded, progress: FakeSandbox(), **options)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "mindx-session"]


def test_calls_wait_and_errors_come_through():
    with session() as opened:
        opened.mkdir("a")
        opened.write("a/b.txt", "text")
        assert opened.read("a/b.txt") == b"text"
        assert [entry.path for entry in opened.list("a")] == ["/workspace/a/b.txt"]
        assert opened.stat("a/b.txt").size == 4
        assert opened.run(["cat", "a/b.txt"]).stdout_text == "text"
        assert {change.path for change in opened.changes()} == {"a", "a/b.txt"}
        with pytest.raises(DeniedError):
            opened.run(["curl"])
        with pytest.raises(DeniedError):
            opened.remove("a/b.txt")
        with pytest.raises(FileError):
            opened.read("none")
    assert not threads()


def test_it_closes_twice_and_is_closed_then():
    opened = session()
    opened.close()
    opened.open()
    with pytest.raises(SandboxError) as caught:
        opened.open()
    assert caught.value.code == "session_open"
    opened.close()
    opened.close()
    with pytest.raises(SandboxError) as caught:
        opened.run(["true"])
    assert caught.value.code == "session_closed"
    with opened:  # and may be opened again
        assert opened.list() == []


def test_it_works_where_a_loop_runs_already():
    async def notebook():
        with session() as opened:
            return opened.run(["echo", "x"]).stdout_text

    assert asyncio.run(notebook()) == "x\n"


def test_it_may_be_used_from_several_threads():
    with session() as opened:
        done = []
        workers = [threading.Thread(target=lambda n=n: done.append(opened.run(["echo", str(n)]).ok)) for n in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert done == [True] * 8


def test_an_open_that_fails_leaves_nothing():
    class Broken(FakeSandbox):
        async def start(self):
            raise SandboxLostError("broken", "it does not start")

    opened = SyncSession(open_sandbox=lambda loaded, progress: Broken())
    with pytest.raises(SandboxLostError, match="does not start"):
        opened.open()
    assert not threads()
