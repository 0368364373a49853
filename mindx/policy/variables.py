"""Environment variables: which names and values may be set for a command, and why not the others."""

from __future__ import annotations

import re

from mindx.core.command import WORKSPACE
from mindx.policy import paths
from mindx.policy.words import Dynamic

MAX_VALUE_BYTES = 128 * 1024 - 1  # Linux MAX_ARG_STRLEN, with its NUL
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Variables that make an allowed program run another one, or load code: the loader, bash, git, tar, make, pagers; and
# where programs look for the user's settings, which may name such (HOME with a .gitconfig that a plan wrote).
_REFUSED = re.compile(
    r"HOME|XDG_CONFIG_(HOME|DIRS)|RIPGREP_CONFIG_PATH"
    r"|LD_.*|GLIBC_TUNABLES|GCONV_PATH|NLSPATH|BASH_.*|ENV|BASHOPTS|SHELLOPTS|SHELL|PS4|PROMPT_COMMAND|CDPATH|EXECIGNORE"
    r"|GIT_(SSH|SSH_COMMAND|SSH_VARIANT|EXTERNAL_DIFF|PAGER|EDITOR|SEQUENCE_EDITOR|CONFIG.*|EXEC_PATH|PROXY_COMMAND"
    r"|ASKPASS|TEMPLATE_DIR|DIR|WORK_TREE|COMMON_DIR|ALTERNATE_OBJECT_DIRECTORIES)|SSH_ASKPASS"
    r"|PAGER|MANPAGER|EDITOR|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|LESS|MORE|TAR_OPTIONS|ZIPOPT|UNZIPOPT|MANOPT|RSYNC_RSH"
    r"|MAKEFLAGS|GNUMAKEFLAGS|MAKEFILES|GCC_EXEC_PREFIX|COMPILER_PATH|PYTHONSTARTUP|PYTHONHOME|PYTHONINSPECT"
    r"|PYTHONBREAKPOINT|PERL5OPT|PERL5LIB|PERL5DB|RUBYOPT|RUBYLIB|NODE_OPTIONS|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS"
)


def variable_problem(name: str, value: str, *, in_line: bool = False) -> str | None:
    """Return why a variable may not be set, or None. `in_line`: inside a shell line, where IFS does no harm."""
    if _NAME.fullmatch(name) is None:
        return f"{name[:80]!a} is not a name for an environment variable; use letters, digits and _"
    if _REFUSED.fullmatch(name) or (name == "IFS" and not in_line):
        return f"the environment variable {name} can make a program run other code, so it cannot be set"
    size = encoded_size(value)
    if size is None or size + len(name) + 1 > MAX_VALUE_BYTES:
        return f"the value of {name} holds a NUL byte or half a character, or is longer than {MAX_VALUE_BYTES} bytes"
    if name == "PATH" and (isinstance(value, Dynamic) or not all(_path_folder(entry) for entry in value.split(":"))):
        return "PATH may hold the system's folders and bin folders under the workspace only"
    return None


def encoded_size(text: str) -> int | None:
    """Return the length in bytes of a word for the kernel, or None when it cannot be one (NUL, half a character)."""
    if "\0" in text:
        return None
    try:
        return len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return None


def _path_folder(entry: str) -> bool:
    return entry in _SYSTEM_FOLDERS or (entry.endswith("/bin") and paths.inside(entry) and entry != f"{WORKSPACE}/bin")
