"""Probes of the kernel's controls: rights, system calls, namespaces, and PID 1 itself."""

from __future__ import annotations

import os

from mindx.sandbox.attest import OWN_KERNEL
from mindx.sandbox.probe import Probe, Stage, expect, expect_refused

# Each try runs in a child of its own; a try that works says `ok`, else its error's name. A try that clones comes back
# twice, and the clone says nothing.
_PRELUDE = """
import ctypes, errno, json, os, platform, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"
def call(x86, other, *arguments):
    number = other if arm else x86
    if number < 0:
        raise OSError(errno.ENOSYS, "no such call here")
    ctypes.set_errno(0)
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "")
def attempt(action):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        own = os.getpid()
        try:
            action(); said = "ok"
        except OSError as error:
            said = errno.errorcode.get(error.errno, str(error.errno))
        except Exception as error:
            said = type(error).__name__
        if os.getpid() == own:
            os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode(); os.close(reader)
    status = os.waitpid(pid, 0)[1]
    return said or "signal %d" % (status & 127)
def report(tries):
    print(json.dumps({name: attempt(action) for name, action in tries.items()}))
"""

_CALLS = """
import fcntl, socket, struct
path = "/workspace/.mindx-probe"
open(path, "w").close()
handle = os.open(path, os.O_RDWR)
chunk = ctypes.create_string_buffer(256)
report({
    "ptrace": lambda: call(101, 117, 0, 0, 0, 0),
    "process_vm_readv": lambda: call(310, 270, os.getppid(), 0, 0, 0, 0, 0),
    "pidfd_getfd": lambda: call(438, 438, -1, 0, 0),
    "userfaultfd": lambda: call(323, 282, 1),
    "io_uring_setup": lambda: call(425, 425, 1, chunk),
    "bpf": lambda: call(321, 280, 0, chunk, 72),
    "perf_event_open": lambda: call(298, 241, chunk, 0, -1, -1, 0),
    "keyctl": lambda: call(250, 219, 0, -3, 0),
    "add_key": lambda: call(248, 217, b"user", b"x", b"y", 1, -3),
    "unshare user": lambda: call(272, 97, 0x10000000),
    "clone user": lambda: call(56, 220, 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": lambda: call(435, 435, chunk, 64),
    "setns": lambda: call(308, 268, os.open("/proc/self/ns/mnt", 0), 0),
    "mount": lambda: call(165, 40, b"none", b"/tmp", b"tmpfs", 0, 0),
    "chroot": lambda: call(161, 51, b"/tmp"),
    "memfd_secret": lambda: call(447, 447, 0),
    "openat2": lambda: call(437, 437, -100, b"/", chunk, 24),
    "personality": lambda: call(135, 92, 0x0040000),
    "kexec_load": lambda: call(246, 104, 0, 0, 0, 0),
    "syslog": lambda: call(103, 116, 3, chunk, 10),
    "lease on a file": lambda: fcntl.fcntl(handle, 1024, 1),
    "TIOCSTI": lambda: fcntl.ioctl(os.openpty()[1], 0x5412, b"x"),
    "TIOCSTI, high bits set": lambda: call(16, 29, os.openpty()[1], 0x100005412, b"x"),
    "TIOCSETD": lambda: fcntl.ioctl(os.openpty()[1], 0x5423, struct.pack("i", 2)),
})
"""

_SOCKETS = """
import socket
kinds = {"AF_VSOCK": 40, "AF_ALG": 38, "AF_PACKET": 17, "AF_BLUETOOTH": 31, "AF_CAN": 29, "AF_TIPC": 30, "AF_RDS": 21,
         "AF_KEY": 15, "AF_NETLINK audit": 16}
report({name: (lambda kind=kind: socket.socket(kind, 3 if kind in (16, 17, 15, 31, 29) else 1, 9 if kind == 16 else 0))
        for name, kind in kinds.items()})
"""

_RIGHTS = """
def better():  # down and up again: an engine may run with the best priority, and its containers with it
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, own + 1)
    os.setpriority(os.PRIO_PROCESS, 0, min(own, 18))
path = "/workspace/.mindx-probe"
open(path, "w").close()
report({
    "setuid 0": lambda: os.setuid(0),
    "setgid 0": lambda: os.setgid(0),
    "setgroups": lambda: os.setgroups([0]),
    "chown": lambda: os.chown(path, 0, 0),
    "device": lambda: os.mknod("/workspace/.mindx-device", 0o60600, os.makedev(8, 0)),
    "a better priority": better,
    "host name": lambda: call(170, 161, b"x", 1),
    "clock": lambda: __import__("time").clock_settime(0, 0),
    "raw socket": lambda: __import__("socket").socket(2, 3, 1),
    "oom score": lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-500"),
    "file limit": lambda: call(160, 164, 7, __import__("struct").pack("QQ", 1 << 20, 1 << 20)),
})
"""

_SETUID = """
path = "/workspace/.mindx-setuid"
open(path, "w").close()
def search():
    found = []
    for top in ("/bin", "/sbin", "/usr", "/lib", "/opt", "/mindx", "/var"):
        for folder, _, names in os.walk(top):
            modes = [os.lstat(folder + "/" + name).st_mode for name in names]
            found += [mode for mode in modes if mode & 0o6000 and mode & 0o170000 == 0o100000]
    if not found:
        raise OSError(errno.ENOENT, "")
report({
    "chmod": lambda: os.chmod(path, 0o4755),
    "fchmod": lambda: os.fchmod(os.open(path, 0), 0o4755),
    "open": lambda: os.open(path + "2", os.O_CREAT | os.O_WRONLY, 0o4755),
    "mknod": lambda: os.mknod(path + "3", 0o104755),
    "a setuid file in the image": search,
})
"""

_GUEST = """
import resource
def reading(path):
    return lambda: os.read(os.open(path, os.O_RDONLY), 1)
tries = {name: reading("/proc/1/" + name) for name in ("mem", "environ", "maps", "syscall", "stack", "io", "auxv")}
tries.update({
    "fd": lambda: os.listdir("/proc/1/fd"),
    "root": lambda: os.listdir("/proc/1/root/"),
    "cwd": lambda: os.readlink("/proc/1/cwd"),
    "exe": lambda: os.readlink("/proc/1/exe"),
    "its output": lambda: os.open("/proc/1/fd/1", os.O_WRONLY),
    "writing its memory": lambda: os.open("/proc/1/mem", os.O_RDWR),
    "SIGKILL": lambda: os.kill(1, 9),
    "SIGSTOP": lambda: os.kill(1, 19),
    "pidfd": lambda: signal.pidfd_send_signal(os.pidfd_open(1), 9),
    "prlimit": lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)),
    "affinity": lambda: os.sched_setaffinity(1, {0}),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    "ptrace attach": lambda: call(101, 117, 16, 1, 0, 0),
    "ptrace seize": lambda: call(101, 117, 0x4206, 1, 0, 0),
    "oom score": lambda: os.write(os.open("/proc/1/oom_score_adj", os.O_WRONLY), b"1000"),
})
report(tries)
"""

_NAMESPACES = """
import json, os
kinds = ("ipc", "mnt", "net", "pid", "uts", "cgroup")
print(json.dumps({kind: os.readlink("/proc/self/ns/" + kind) for kind in kinds}))
"""


async def _attested(stage: Stage) -> str:
    attestation = (await stage.sandbox()).attestation
    if attestation is None:
        expect(False, "nothing was attested")
        return ""
    expect(not attestation.differences, "; ".join(map(str, attestation.differences)))
    gaps = f", accepted by the policy: {', '.join(attestation.gaps)}" if attestation.gaps else ""
    return f"{len(attestation.facts)} facts and the engine's settings are as asked{gaps}"


async def _calls(stage: Stage) -> str:
    return expect_refused(await stage.python(_PRELUDE + _CALLS))


async def _sockets(stage: Stage) -> str:
    unknown = ("EAFNOSUPPORT",) if stage.settings.runtime in OWN_KERNEL else ()  # what such a kernel does not have
    return expect_refused(await stage.python(_PRELUDE + _SOCKETS), unknown)


async def _rights(stage: Stage) -> str:
    return expect_refused(await stage.python(_PRELUDE + _RIGHTS))


async def _setuid(stage: Stage) -> str:
    return expect_refused(await stage.python(_PRELUDE + _SETUID), ("ENOENT",))


async def _guest(stage: Stage) -> str:
    return expect_refused(await stage.python(_PRELUDE + _GUEST))


async def _user(stage: Stage) -> str:
    uid, gid, groups = await stage.python("import json,os; print(json.dumps([os.getuid(),os.getgid(),os.getgroups()]))")
    ids = (await stage.sandbox()).ids
    expect((uid, gid) == (ids.uid, ids.gid), f"uid {uid}, gid {gid}; its own are {ids.uid} and {ids.gid}")
    expect(set(groups) <= {gid}, f"groups {groups}")
    return f"uid {uid}, gid {gid}, no other group"


async def _namespaces(stage: Stage) -> str:
    inside = await stage.python(_NAMESPACES)
    shared = []
    for kind, name in inside.items():
        try:
            if os.readlink(f"/proc/self/ns/{kind}") == name:
                shared.append(kind)
        except OSError:
            continue  # not Linux here: the engine is in another machine
    expect(not shared, f"shared with the host: {', '.join(shared)}")
    return f"{len(inside)} namespaces of its own"


PROBES = (
    Probe("attested", "what was asked of the engine is in force", "compared inside and at the engine", _attested),
    Probe("user", "programs run as a user of their own, in no other group", "asked for uid, gid and groups", _user),
    Probe("rights", "programs have no rights of root", "setuid, chown, device, clock, raw socket and more", _rights),
    Probe("setuid", "no file gives rights to who runs it", "made setuid files in four ways, looked for some", _setuid),
    Probe("calls", "the kernel's dangerous calls are refused", "ptrace, io_uring, bpf, keys, leases and more", _calls),
    Probe("sockets", "sockets past the network namespace are refused", "VSOCK, ALG, PACKET and more", _sockets),
    Probe("guest", "programs cannot touch our PID 1", "read, wrote, traced, stopped and limited it", _guest),
    Probe("namespaces", "no namespace is shared with the host", "compared six namespaces", _namespaces),
)
