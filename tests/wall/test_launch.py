"""A program's start: both ways of starting do the same, whichever this version of Python takes."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest

from mindx.guest import launch
from mindx.guest.launch import Launcher, mapping_of, with_variables

WAYS = [
    pytest.param(Launcher.start_by_posix_spawn, id="posix_spawn"),
    pytest.param(
        Launcher.start_by_fork_exec,
        id="fork_exec",
        marks=pytest.mark.skipif(not launch._PRIVATE_CALL, reason="its arguments are not known for this Python"),
    ),
]
Way = Callable[..., int]
TELLS = (
    "import os, signal, sys\n"
    "sys.stderr.write('wrong')\n"
    "masked = signal.pthread_sigmask(signal.SIG_BLOCK, [])\n"
    "listed = [int(name) for name in os.listdir('/proc/self/fd')]\n"
    "handles = sorted(number for number in listed if os.path.exists(f'/proc/self/fd/{number}'))\n"
    "print(os.getsid(0) == os.getpid(), sorted(os.environ.items()), masked, handles, sys.stdin.read())\n"
)


def run(way: Way, path: bytes, argv: list[bytes], variables: dict[bytes, bytes], stdin: bytes = b"") -> tuple[str, str]:
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    os.write(in_write, stdin)
    os.close(in_write)
    try:
        pid = way(Launcher(), path, argv, with_variables([], variables), in_read, out_write, err_write)
    finally:
        for end in (in_read, out_write, err_write):
            os.close(end)
    assert os.waitpid(pid, 0)[1] == 0
    said = os.read(out_read, 65536), os.read(err_read, 65536)
    os.close(out_read)
    os.close(err_read)
    return said[0].decode(), said[1].decode()


def inherited() -> list[int]:
    """Return the handles that any child of this process gets, whoever starts it."""
    handles = {0, 1, 2}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.get_inheritable(int(name)):
                handles.add(int(name))
    return sorted(handles)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_gets_its_streams_its_variables_and_a_session_and_nothing_else(way: Way) -> None:
    variables = {b"A": b"b=c", b"LC_ALL": b"C.UTF-8"}
    out, err = run(way, os.fsencode(sys.executable), [b"python", b"-I", b"-c", TELLS.encode()], variables, b"read")
    assert err == "wrong"
    assert out == f"True [('A', 'b=c'), ('LC_ALL', 'C.UTF-8')] set() {inherited()} read\n"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [13, 25])  # SIGPIPE, SIGXFSZ
def test_what_python_ignores_is_not_ignored_by_a_program(way: Way, number: int) -> None:
    out, _ = run(way, b"/bin/grep", [b"grep", b"SigIgn", b"/proc/self/status"], {})
    assert not int(out.split()[1], 16) & 1 << number - 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("path", "number"), [(b"/no/such", errno.ENOENT), (b"/etc/passwd", errno.EACCES)])
def test_what_cannot_be_started_says_why_and_leaves_no_process(way: Way, path: bytes, number: int) -> None:
    for _ in range(2):  # what the first one said is not taken for the second's
        with pytest.raises(OSError) as caught:
            run(way, path, [b"x"], {})
        assert (caught.value.errno, caught.value.strerror) == (number, os.strerror(number))


@pytest.mark.parametrize("way", WAYS)
def test_a_nul_is_refused(way: Way) -> None:
    with pytest.raises(ValueError, match="null byte"):
        run(way, b"/bin/true", [b"a\0b"], {})


def test_the_last_of_two_variables_of_one_name_holds() -> None:
    environment = with_variables([b"A=1", b"B=x=y"], {b"A": b"2", b"C": b""})
    assert environment == [b"A=2", b"B=x=y", b"C="]
    assert mapping_of([*environment, b"A=3"]) == {b"A": b"3", b"B": b"x=y", b"C": b""}


WITHOUT_VFORK = """
import ctypes, os, struct, sys
from mindx.guest.launch import Launcher
rules = ((0x20, 0, 0, 0), (0x15, 0, 1, 58), (0x06, 0, 0, 0x50000 | 11), (0x06, 0, 0, 0x7FFF0000))  # vfork: EAGAIN
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(text)))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, program, 0, 0) == 0
launcher, null = Launcher(), os.open("/dev/null", os.O_RDWR)
for path in sys.argv[1:] * 20:
    try:
        pid = launcher.start_by_fork_exec(path.encode(), [b"x"], [], null, null, null)
        print(os.waitpid(pid, 0)[1])
    except OSError as error:
        print(error.errno)
print(len(os.listdir("/proc/self/fd")) - 1)
"""


@pytest.mark.skipif(not launch._PRIVATE_CALL, reason="its arguments are not known for this Python")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names vfork by its number there")
def test_a_fork_in_place_of_a_refused_vfork_tells_its_own_error_and_no_others() -> None:
    """Python falls back to fork; the error of such a child came late and was taken for the next program's."""
    argv = [sys.executable, "-c", WITHOUT_VFORK, "/no/such", "/bin/true", "/etc/passwd"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=launch.__file__.rsplit("/", 3)[0], timeout=60)
    assert done.stdout.split() == [str(errno.ENOENT), "0", str(errno.EACCES)] * 20 + ["4"], done.stderr
