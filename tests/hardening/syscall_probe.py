"""Runs in the container: makes each call once, in a child of its own, and prints what came of it, one call a line.

The arguments are such that a call that is let through fails otherwise than by EPERM or ENOSYS, or succeeds.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
chunk = ctypes.create_string_buffer(512)
FILE = b"/workspace/.probe"
open(FILE, "w").close()
handle = os.open(FILE, os.O_RDWR)
HIGH = 1 << 32  # the kernel does not look at these bits of an int, and neither may the filter


def call(x86, arm, *arguments):
    number = arm if ARM else x86
    if number < 0:
        raise OSError(errno.ENOSYS, "")
    ctypes.set_errno(0)
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    if libc.syscall(ctypes.c_long(number), *words) == -1:
        raise OSError(ctypes.get_errno(), "")


def thirty_two_bits():
    """getpid by the call gate of 32-bit programs."""
    if ARM:
        os.kill(os.getpid(), 31)
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()


def x32():
    """getpid as a program with 32-bit pointers calls it."""
    call(0x40000000 | 39, -1)


TERMINAL = os.openpty()[1]
CALLS = {
    # another process
    "ptrace TRACEME": lambda: call(101, 117, 0, 0, 0, 0),
    "ptrace ATTACH": lambda: call(101, 117, 16, os.getppid(), 0, 0),
    "process_vm_readv": lambda: call(310, 270, os.getpid(), 0, 0, 0, 0, 0),
    "process_vm_writev": lambda: call(311, 271, os.getpid(), 0, 0, 0, 0, 0),
    "process_madvise": lambda: call(440, 440, -1, 0, 0, 0, 0),
    "process_mrelease": lambda: call(448, 448, -1, 0),
    "pidfd_getfd": lambda: call(438, 438, -1, 0, 0),
    "kcmp": lambda: call(312, 272, os.getpid(), os.getpid(), 0, 0, 0),
    "pidfd_open": lambda: call(434, 434, os.getpid(), 0),
    "kill self 0": lambda: os.kill(os.getpid(), 0),
    # faults, rings and programs in the kernel
    "userfaultfd": lambda: call(323, 282, 1),
    "io_uring_setup": lambda: call(425, 425, 1, chunk),
    "io_uring_enter": lambda: call(426, 426, -1, 0, 0, 0, 0, 0),
    "io_uring_register": lambda: call(427, 427, -1, 0, 0, 0),
    "io_setup": lambda: call(206, 0, 1, chunk),
    "bpf": lambda: call(321, 280, 0, chunk, 72),
    "perf_event_open": lambda: call(298, 241, chunk, 0, -1, -1, 0),
    "memfd_secret": lambda: call(447, 447, 0),
    "memfd_create": lambda: call(319, 279, b"x", 0),
    "vmsplice": lambda: call(278, 75, -1, 0, 0, 0),
    "splice": lambda: call(275, 76, -1, 0, -1, 0, 0, 0),
    "remap_file_pages": lambda: call(216, 234, 0, 0, 0, 0, 0),
    "modify_ldt": lambda: call(154, -1, 0, chunk, 1),
    "mbind": lambda: call(237, 235, 0, 0, 0, 0, 0, 0),
    # keys, queues, System V
    "keyctl": lambda: call(250, 219, 0, -3, 0),
    "add_key": lambda: call(248, 217, b"user", b"x", b"y", 1, -3),
    "request_key": lambda: call(249, 218, b"user", b"x", 0, 0),
    "mq_open": lambda: call(240, 180, b"x", os.O_CREAT | os.O_RDWR, 0o600, 0),
    "msgget": lambda: call(68, 186, 0, 0o600),
    "shmget": lambda: call(29, 194, 0, 4096, 0o600),
    "semget": lambda: call(64, 190, 0, 1, 0o600),
    # namespaces, mounts, handles
    "unshare NEWUSER": lambda: call(272, 97, 0x10000000),
    "unshare FILES": lambda: call(272, 97, 0x400),
    "setns": lambda: call(308, 268, -1, 0),
    "clone NEWUSER": lambda: call(56, 220, 0x10000000 | 17, 0, 0, 0, 0),
    "clone NEWNET, high bits": lambda: call(56, 220, HIGH | 0x40000000 | 17, 0, 0, 0, 0),
    "clone3": lambda: call(435, 435, chunk, 64),
    "mount": lambda: call(165, 40, 0, 0, 0, 0, 0),
    "umount2": lambda: call(166, 39, b"/nowhere", 0),
    "move_mount": lambda: call(429, 429, -1, b"", -1, b"", 0),
    "open_tree": lambda: call(428, 428, -100, b"/", 0),
    "fsopen": lambda: call(430, 430, b"tmpfs", 0),
    "pivot_root": lambda: call(155, 41, b"/", b"/"),
    "chroot": lambda: call(161, 51, b"/nowhere"),
    "name_to_handle_at": lambda: call(303, 264, -100, b"/", chunk, chunk, 0),
    "open_by_handle_at": lambda: call(304, 265, -1, chunk, 0),
    "fanotify_init": lambda: call(300, 262, 0, 0),
    "inotify_init1": lambda: call(294, 26, 0),
    "openat2": lambda: call(437, 437, -100, b"/", chunk, 24),
    "landlock_create_ruleset": lambda: call(444, 444, 0, 0, 1),
    # the machine
    "syslog": lambda: call(103, 116, 3, chunk, 10),
    "sethostname": lambda: call(170, 161, b"x", 1),
    "settimeofday": lambda: call(164, 170, chunk, 0),
    "adjtimex": lambda: call(159, 171, chunk),
    "init_module": lambda: call(175, 105, 0, 0, 0),
    "kexec_load": lambda: call(246, 104, 0, 0, 0, 0),
    "reboot": lambda: call(169, 142, 0, 0, 0, 0),
    "acct": lambda: call(163, 89, b"/nowhere"),
    "quotactl": lambda: call(179, 60, 0, 0, 0, 0),
    "iopl": lambda: call(172, -1, 0),
    "sync": lambda: call(162, 81),
    "ioprio_set": lambda: call(251, 30, 1, 0, 0),
    "personality ask": lambda: call(135, 92, 0xFFFFFFFF),
    "personality no randomisation": lambda: call(135, 92, 0x0040000),
    "personality, high bits": lambda: call(135, 92, HIGH | 0x0040000),
    # sockets
    "socket UNIX": lambda: socket.socket(socket.AF_UNIX),
    "socket INET": lambda: socket.socket(socket.AF_INET),
    "socket INET6": lambda: socket.socket(socket.AF_INET6),
    "socket NETLINK_ROUTE": lambda: socket.socket(16, 3, 0),
    "socket NETLINK_AUDIT": lambda: socket.socket(16, 3, 9),
    "socket VSOCK": lambda: socket.socket(40, 1, 0),
    "socket VSOCK, high bits": lambda: call(41, 198, HIGH | 40, 1, 0),
    "socket ALG": lambda: socket.socket(38, 5, 0),
    "socket PACKET": lambda: socket.socket(17, 3, 0),
    "socket KEY": lambda: socket.socket(15, 3, 2),
    "socketpair VSOCK": lambda: call(53, 199, 40, 1, 0, chunk),
    # leases, terminals
    "fcntl GETFL": lambda: call(72, 25, handle, 3, 0),
    "fcntl DUPFD_CLOEXEC": lambda: call(72, 25, handle, 1030, 0),
    "fcntl SETLEASE": lambda: call(72, 25, handle, 1024, 1),
    "fcntl SETLEASE, high bits": lambda: call(72, 25, handle, HIGH | 1024, 1),
    "fcntl NOTIFY": lambda: call(72, 25, handle, 1026, 0),
    "ioctl TIOCGWINSZ": lambda: fcntl.ioctl(TERMINAL, 0x5413, bytes(8)),
    "ioctl FIONREAD": lambda: fcntl.ioctl(TERMINAL, 0x541B, bytes(4)),
    "ioctl TIOCSTI": lambda: fcntl.ioctl(TERMINAL, 0x5412, b"x"),
    "ioctl TIOCSTI, high bits": lambda: call(16, 29, TERMINAL, HIGH | 0x5412, b"x"),
    "ioctl TIOCLINUX": lambda: fcntl.ioctl(TERMINAL, 0x541C, b"x"),
    "ioctl TIOCSETD": lambda: fcntl.ioctl(TERMINAL, 0x5423, struct.pack("i", 0)),
    # modes
    "chmod 755": lambda: os.chmod(FILE, 0o755),
    "chmod 4755": lambda: os.chmod(FILE, 0o4755),
    "chmod 2755": lambda: os.chmod(FILE, 0o2755),
    "fchmod 4755": lambda: os.fchmod(handle, 0o4755),
    "fchmodat 4755": lambda: call(268, 53, -100, FILE, 0o4755),
    "open 644": lambda: os.open(FILE + b"1", os.O_CREAT | os.O_WRONLY, 0o644),
    "open 4755": lambda: os.open(FILE + b"2", os.O_CREAT | os.O_WRONLY, 0o4755),
    "open without O_CREAT, any mode": lambda: call(257, 56, -100, FILE, os.O_RDONLY, 0o4755),
    "open O_TMPFILE 4755": lambda: call(257, 56, -100, b"/workspace", os.O_TMPFILE | os.O_RDWR, 0o4755),
    "creat 4755": lambda: call(85, -1, FILE + b"3", 0o4755),
    "mknod pipe": lambda: os.mkfifo(FILE + b"4"),
    "mknod file 4755": lambda: os.mknod(FILE + b"5", 0o104755),
    "mknod device": lambda: os.mknod(FILE + b"6", 0o20600, os.makedev(1, 3)),
    "mknod socket": lambda: os.mknod(FILE + b"7", 0o140600),
    # other ways in
    "32-bit call": thirty_two_bits,
    "x32 call": x32,
    "a call of the future": lambda: call(900, 900),
    "seccomp": lambda: call(317, 277, 2, 0, ctypes.byref(ctypes.c_uint32(0x7FFF0000))),
    "rseq": lambda: call(334, 293, 0, 0, 0, 0),
}


def attempt(action):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            action()
            said = "ok"
        except OSError as error:
            said = errno.errorcode.get(error.errno, str(error.errno))
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    return said or f"signal {status & 127}"


for name, action in CALLS.items():
    print(f"{name:<32} {attempt(action)}")
