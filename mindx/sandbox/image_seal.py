"""Runs once as root inside a container of the base image, with the image's own Python, to make it a session's image.

It is copied in and never imported on the host. Standard library only, and the language of Python 3.8; what is older
only has to get as far as saying so. Exit codes: 0 done, 3 Python is too old, anything else a fault.
"""

import sys

if sys.version_info < (3, 8):
    sys.exit(3)

import json
import os
import py_compile
import shutil
import stat

HOME = "/mindx"
RUN = "/run/mindx"
SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID


def main() -> None:
    """Seal the file system and leave what was found in /mindx/image.json."""
    os.umask(0o022)
    os.remove(HOME + "/seal.py")
    stripped = strip_privileges()
    name_users()
    trust_workspace()
    clear_workspace()
    compile_guest()
    found = {
        "python": os.path.realpath(sys.executable),
        "version": list(sys.version_info[:3]),
        "stripped": stripped,
    }
    with open(HOME + "/image.json", "w") as file:
        json.dump(found, file)
    freeze(HOME)


def strip_privileges() -> int:
    """Take setuid bits, setgid bits and file capabilities off everything; return how many names had one."""
    with open("/proc/self/mountinfo") as file:
        mounts = {line.split()[4] for line in file} - {"/"}
    count = 0
    for folder, names, files in os.walk("/"):
        names[:] = [name for name in names if os.path.join(folder, name) not in mounts]
        for name in names + files:
            path = os.path.join(folder, name)
            if path not in mounts:
                count += strip(path)
    return count


def strip(path: str) -> int:
    """Strip one name; return 1 when it had something, else 0."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return 0
    had = 0
    if mode & SPECIAL_BITS:
        os.chmod(path, stat.S_IMODE(mode) & ~SPECIAL_BITS)
        had = 1
    if stat.S_ISREG(mode):
        try:
            os.getxattr(path, "security.capability", follow_symlinks=False)
        except OSError:
            return had
        os.removexattr(path, "security.capability", follow_symlinks=False)
        had = 1
    return had


def name_users() -> None:
    """Make the user and group lists links to what the guest writes at each start; keep the image's own beside it."""
    os.makedirs(RUN, exist_ok=True)
    os.chmod(RUN, 0o755)
    for name in ("passwd", "group"):
        kept = HOME + "/" + name
        try:
            shutil.copyfile("/etc/" + name, kept)
            os.remove("/etc/" + name)
        except FileNotFoundError:
            open(kept, "w").close()
        os.symlink(RUN + "/" + name, "/etc/" + name)


def trust_workspace() -> None:
    """Let git work in folders of another owner: there is only one person in the container."""
    with open("/etc/gitconfig", "a") as file:
        file.write("[safe]\n\tdirectory = *\n")


def clear_workspace() -> None:
    """Leave no /workspace: a tmpfs keeps the mode of the folder that it covers."""
    try:
        os.remove("/workspace")
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):
        shutil.rmtree("/workspace")


def compile_guest() -> None:
    """Compile the guest ahead: it starts at every session, and its folder is read-only then."""
    folder = HOME + "/guest"
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(os.path.join(folder, name), doraise=True, invalidation_mode=mode)


def freeze(top: str) -> None:
    """Make all below `top` read-only, for root to own and everyone to read."""
    for folder, _, files in os.walk(top):
        os.chmod(folder, 0o555)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o444)


if __name__ == "__main__":
    main()
