"""The tests that the workload's own pytest runs in the container; not collected on the host."""

import asyncio
import concurrent.futures
import fcntl
import mmap
import multiprocessing
import os
import pty
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time


def square(number):
    return number * number


def test_multiprocessing_pool():
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]


def test_multiprocessing_queue_and_shared_memory():
    from multiprocessing import shared_memory

    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=queue.put, args=(7,))
    process.start()
    assert queue.get(timeout=10) == 7
    process.join()
    memory = shared_memory.SharedMemory(create=True, size=4096)
    memory.buf[0] = 1
    memory.close()
    memory.unlink()


def test_process_pool_executor():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, [2, 3])) == [4, 9]


def test_threads():
    seen = []
    threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(20))


def test_asyncio_server_and_subprocess():
    async def serve(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        assert await reader.readline() == b"HELLO\n"
        writer.close()
        server.close()
        process = await asyncio.create_subprocess_exec("echo", "x", stdout=asyncio.subprocess.PIPE)
        assert (await process.communicate())[0] == b"x\n"

    asyncio.run(main())


def test_unix_sockets_and_descriptors(tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
    one, two = socket.socketpair()
    with open(tmp_path / "f", "w+") as file:
        socket.send_fds(one, [b"x"], [file.fileno()])
        assert socket.recv_fds(two, 10, 1)[0] == b"x"
    one.close()
    two.close()


def test_sqlite(tmp_path):
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("pragma journal_mode=wal")
        db.execute("create table t(x)")
        db.executemany("insert into t values (?)", [(n,) for n in range(1000)])
        assert db.execute("select sum(x) from t").fetchone() == (499500,)


def test_mmap_and_locks(tmp_path):
    with open(tmp_path / "m", "w+b") as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as mapped:
            mapped[0:2] = b"ok"
            mapped.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.posix_fallocate(file.fileno(), 0, 16384)


def test_pseudo_terminal():
    master, slave = pty.openpty()
    process = subprocess.Popen(["sh", "-c", "tty; stty size"], stdin=slave, stdout=slave, start_new_session=True)
    os.close(slave)
    assert process.wait(10) == 0
    assert b"/dev/pts/" in os.read(master, 100)


def test_signals_and_timers():
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(0.1)
    assert seen == [1]


def test_temporary_files():
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
