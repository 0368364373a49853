"""Probes of what a container can reach of the host: network, files, secrets, the engine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import getpass
import json
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
import docker
import docker.errors

from mindx.core.command import ReadFile, WriteFile
from mindx.core.count import counted
from mindx.core.own_process import own_program
from mindx.errors import FileError
from mindx.sandbox.container import MASKED_PATHS
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, connect, engine_error
from mindx.sandbox.probe import Broken, Probe, Stage, expect

# The reserved documentation ranges and this machine only; link-local addresses are asked of the routing table.
_REACH = """
import errno, json, os, socket, sys, time
tried = {}
def attempt(name, family, kind, protocol, address):
    began = time.monotonic()
    try:
        with socket.socket(family, kind, protocol) as s:
            s.settimeout(2)
            s.connect(address)
            s.send(b"mindx")
            said = "ok"
    except OSError as error:
        said = errno.errorcode.get(error.errno, type(error).__name__)
    tried[name] = [said, time.monotonic() - began]
for host, port in json.loads(sys.argv[1]):
    six = socket.AF_INET6 if ":" in host else socket.AF_INET
    attempt("tcp %s" % host, six, socket.SOCK_STREAM, 0, (host, port))
    attempt("udp %s" % host, six, socket.SOCK_DGRAM, 0, (host, port))
attempt("icmp", socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP, ("192.0.2.1", 0))
print(json.dumps(tried))
"""
_NAMES = """
import json, socket, sys, time
began = time.monotonic()
try:
    socket.getaddrinfo(sys.argv[1], 80); said = "ok"
except OSError as error:
    said = type(error).__name__
print(json.dumps([said, time.monotonic() - began]))
"""
_WRITE = """
import errno, json, os, stat
good = ("/workspace", "/tmp", "/dev/shm", "/proc", "/dev/mqueue", "/dev/pts", "/dev/fd")
wrote, looked = [], 0
for top, folders, names in os.walk("/"):
    if top.startswith(good):
        folders[:] = []
        continue
    looked += 1
    try:
        path = os.path.join(top, ".mindx-probe")
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL)); wrote.append(path); os.unlink(path)
    except OSError:
        pass
    for name in names:
        path = os.path.join(top, name)
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                os.close(os.open(path, os.O_WRONLY)); wrote.append(path)
        except OSError:
            pass
try:
    os.close(os.open("/dev/mqueue/mindx", os.O_CREAT | os.O_WRONLY)); wrote.append("/dev/mqueue")
except OSError:
    pass
print(json.dumps([looked, wrote[:20]]))
"""
_MASKED = """
import json, os, sys
seen = []
for path in json.loads(sys.argv[1]):
    try:
        if os.path.isdir(path):
            if os.listdir(path): seen.append(path)
        elif open(path, "rb").read(16): seen.append(path)
    except OSError:
        pass
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches"):
    try:
        os.close(os.open(path, os.O_WRONLY)); seen.append(path)
    except OSError:
        pass
print(json.dumps(seen))
"""
_SEEN = """
import glob, json, os
texts = ["\\0".join("%s=%s" % item for item in os.environ.items())]
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline") + ["/proc/self/mountinfo", "/etc/hosts"]:
    try:
        texts.append(open(path, errors="replace").read())
    except OSError:
        pass
print(json.dumps(texts))
"""
_DOORS = """
import json, os, stat
sockets = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock")
found = [path for path in sockets if os.path.exists(path)]
plain = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}
for name in os.listdir("/dev"):
    mode = os.lstat("/dev/" + name).st_mode
    if (stat.S_ISBLK(mode) or stat.S_ISCHR(mode)) and name not in plain:
        found.append("/dev/" + name)
try:
    os.open("/dev/tty", os.O_RDWR); found.append("a terminal")
except OSError:
    pass
print(json.dumps(found))
"""
_ORPHAN = """
import asyncio, json, sys
from mindx.core.command import Exec
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.probe import ExaminedSandbox
async def main():
    async with ExaminedSandbox(ContainerSettings(**json.loads(sys.argv[1]))) as sandbox:
        print(sandbox.container_id, flush=True)
        await sandbox.execute(Exec(("sleep", "600"), timeout_s=600))
asyncio.run(main())
"""
ORPHAN_WITHIN_S = 5.0


@contextlib.contextmanager
def _listeners(addresses: list[str]) -> Iterator[tuple[int, list[socket.socket]]]:
    """Listen on the same port of each of the host's addresses, over TCP and UDP."""
    sockets: list[socket.socket] = []
    port = 0
    with contextlib.ExitStack() as stack:
        for address in addresses:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                one = stack.enter_context(socket.socket(socket.AF_INET, kind))
                one.settimeout(0.05)
                try:
                    one.bind((address, port))
                except OSError:
                    continue  # the engine's bridge is on another machine
                port = port or one.getsockname()[1]
                if kind == socket.SOCK_STREAM:
                    one.listen()
                sockets.append(one)
        yield port, sockets


async def _network(stage: Stage) -> str:
    await stage.sandbox()
    bridge = await anyio.to_thread.run_sync(_bridge_address)
    here = ["127.0.0.1", *([bridge] if bridge else [])]
    with _listeners(here) as (port, listeners):
        targets = [*((host, port) for host in here), ("192.0.2.1", 80), ("2001:db8::1", 80), ("::1", port)]
        tried = await stage.python(_REACH, json.dumps(targets))
        heard = [one for one in listeners if await anyio.to_thread.run_sync(_heard, one)]
    # A datagram to the container's own loopback interface is sent and goes nowhere; the listeners tell.
    through = [name for name, (said, _) in tried.items() if said == "ok" and name not in ("udp 127.0.0.1", "udp ::1")]
    slow = [name for name, (_, took) in tried.items() if took > 1]
    expect(not heard, "a packet reached the host")
    expect(not through, f"connected: {', '.join(through)}")
    expect(not slow, f"not refused at once: {', '.join(slow)}")
    causes = ", ".join(sorted({said for said, _ in tried.values()} - {"ok"}))
    return f"{counted(len(tried), 'try')} came to nothing at once ({causes})"


def _heard(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(1)
    except OSError:
        return False
    return True


def _bridge_address() -> str:
    """Return the host's address on the engine's default bridge, "" when it has none."""
    client = connect()
    try:
        networks = client.api.networks(names=["bridge"])
        configs = [config for network in networks for config in (network.get("IPAM") or {}).get("Config") or ()]
        return next((str(config["Gateway"]) for config in configs if config.get("Gateway")), "")
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "look at the engine's networks") from error
    finally:
        client.close()


async def _names(stage: Stage) -> str:
    said, took = await stage.python(_NAMES, "canary.invalid")
    expect(said != "ok", "a name was resolved")
    expect(took < 1, f"it took {took:.1f} s")
    return f"{said} after {took * 1000:.0f} ms"


async def _writing(stage: Stage) -> str:
    looked, wrote = await stage.python(_WRITE, timeout_s=30)
    expect(not wrote, f"written: {', '.join(wrote)}")
    return f"no file and none of {looked} folders could be written"


async def _masked(stage: Stage) -> str:
    seen = await stage.python(_MASKED, json.dumps(MASKED_PATHS))
    expect(not seen, f"readable or writable: {', '.join(seen)}")
    return f"{len(MASKED_PATHS)} places are empty or not there"


async def _secrets(stage: Stage) -> str:
    canary = f"canary-{secrets.token_hex(8)}"
    os.environ["MINDX_VERIFY_CANARY"] = canary
    try:
        await stage.renew()
        texts = "\n".join(await stage.python(_SEEN))
        sandbox = await stage.sandbox()
        inspected = json.dumps(await anyio.to_thread.run_sync(_inspect, sandbox.container_id))
    finally:
        del os.environ["MINDX_VERIFY_CANARY"]
    expect(canary not in texts and canary not in inspected, "the host's environment is visible")
    return "a planted variable is neither inside nor in the container's settings"


async def _paths(stage: Stage) -> str:
    texts = "\n".join(await stage.python(_SEEN))
    told = {str(Path.home()), os.getcwd(), socket.gethostname()}
    told = {text for text in told if len(text) > 5 and text not in ("/workspace", "/tmp/home")}
    user = getpass.getuser()
    found = [text for text in told if text in texts]
    if user not in ("root", "agent") and f"/{user}/" in texts:
        found.append(user)
    expect(not found, f"told inside: {', '.join(found)}")
    return "no folder, user or host name of this machine is told inside"


def _inspect(container_id: str) -> object:
    client = connect()
    try:
        return client.api.inspect_container(container_id)
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "look at the container") from error
    finally:
        client.close()


async def _doors(stage: Stage) -> str:
    found = await stage.python(_DOORS)
    expect(not found, f"there: {', '.join(found)}")
    return "no engine's socket, no terminal, no device of the machine"


async def _links(stage: Stage) -> str:
    await stage.execute("ln", "-s", "/etc/passwd", "/workspace/.mindx-link")
    await stage.execute("ln", "-s", "/tmp", "/workspace/.mindx-folder")
    await stage.execute("ln", "-s", "/proc/self/maps", "/workspace/.mindx-maps")
    await stage.execute("touch", "/tmp/.mindx-file")
    driver = await stage.driver()
    refused = 0
    for path in (".mindx-link", ".mindx-maps", ".mindx-folder/.mindx-file", "../etc/passwd"):
        try:
            await stage.answered(driver.read_file(ReadFile(f"/workspace/{path}")))
        except FileError as error:
            expect(error.errno != errno.ENOENT, f"looked for {path} behind a link")
            refused += 1
            continue
        raise Broken(f"read through {path}")
    try:
        await stage.answered(driver.write_file(WriteFile("/workspace/.mindx-folder/x", b"x")))
    except FileError:
        return f"{counted(refused + 1, 'try')} refused"
    raise Broken("written through a link")


async def _pipes(stage: Stage) -> str:
    await stage.execute("mkfifo", "/workspace/.mindx-pipe")
    driver = await stage.driver()
    began = time.monotonic()
    try:
        await stage.answered(driver.read_file(ReadFile("/workspace/.mindx-pipe")))
    except FileError as error:
        took = time.monotonic() - began
        expect(took < 1, f"it took {took:.1f} s")
        return f"refused after {took * 1000:.0f} ms: {os.strerror(error.errno or 0)}"
    raise Broken("a pipe was read as a file")


async def _orphan(stage: Stage) -> str:
    settings = {"image": stage.settings.image, "runtime": stage.settings.runtime}
    process = await asyncio.create_subprocess_exec(
        *own_program(_ORPHAN, json.dumps(settings)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()
    container_id = line.decode().strip()
    expect(bool(container_id), "the second mindx did not start")
    began = time.monotonic()
    while await anyio.to_thread.run_sync(_exists, container_id):
        if time.monotonic() - began > ORPHAN_WITHIN_S:
            await anyio.to_thread.run_sync(_remove, container_id)
            raise Broken(f"its container was still there after {ORPHAN_WITHIN_S:g} s")
        await asyncio.sleep(0.02)
    return f"its container was gone {time.monotonic() - began:.1f} s later"


def _exists(container_id: str) -> bool:
    client = connect()
    try:
        client.api.inspect_container(container_id)
    except docker.errors.NotFound:
        return False
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "look for the container") from error
    finally:
        client.close()
    return True


def _remove(container_id: str) -> None:
    client = connect()
    try:
        client.api.remove_container(container_id, force=True, v=True)
    except docker.errors.APIError:
        return  # gone at last, or going
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "remove the container") from error
    finally:
        client.close()


async def _logs(stage: Stage) -> str:
    canary = f"canary-{secrets.token_hex(8)}"
    await stage.execute("echo", canary)
    sandbox = await stage.sandbox()
    said = await anyio.to_thread.run_sync(_engine_log, sandbox.container_id)
    expect(canary.encode() not in said, "the engine's log has it")
    return "a printed canary is in no log"


def _engine_log(container_id: str) -> bytes:
    client = connect()
    try:
        return bytes(client.api.logs(container_id, tail=1000))
    except docker.errors.APIError:
        return b""  # there is none to be read
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "read the container's log") from error
    finally:
        client.close()


PROBES = (
    Probe("network", "a container reaches no network", "TCP, UDP, ICMP to the host and reserved addresses", _network),
    Probe("names", "no name is resolved", "asked for a name", _names),
    Probe("writing", "only the workspace and temporary places can be written", "tried every file and folder", _writing),
    Probe(
        "kernel-files", "what the kernel tells of the host is hidden", "read and wrote under /proc and /sys", _masked
    ),
    Probe("secrets", "the host's environment is not inside", "planted a variable and looked for it", _secrets),
    Probe("paths", "names and folders of the host's user are not inside", "looked in mounts and environments", _paths),
    Probe("doors", "no device, terminal or engine's socket is inside", "looked for them", _doors),
    Probe("logs", "the engine keeps no log of what was printed", "printed a canary and asked for the log", _logs),
    Probe("links", "file operations follow no link", "read and wrote through links", _links),
    Probe("pipes", "a file operation never hangs", "read a pipe that nobody writes to", _pipes),
    Probe("orphan", "a killed mindx leaves no container", "killed a second mindx while it ran a command", _orphan),
)
