"""The policy engine: one Verdict for one Command, whoever sends it.

This is the early, clear refusal and the record of what was intended. The boundary is the container.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from mindx.core.command import WORKSPACE, Command, Exec, MakeDir, ReadFile, Remove, WriteFile
from mindx.core.verdict import Verdict
from mindx.policy import paths
from mindx.policy.model import Policy
from mindx.policy.rules import RuleSet
from mindx.policy.units import format_duration, format_size

MAX_ARGS = 4096
MAX_ARG_BYTES = 128 * 1024 - 1  # Linux MAX_ARG_STRLEN, with its NUL
MAX_ARGV_BYTES = 1024 * 1024
MAX_ENV_NAMES = 256
MAX_ENV_BYTES = 256 * 1024
MAX_STDIN_BYTES = 64 * 1024 * 1024
MAX_FILE_BYTES = 256 * 1024 * 1024
_PROGRAM = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9._+\[-]{0,254}", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_VENV_PROGRAMS = ("python", "python3", "pip", "pip3")
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Variables that make an allowed program run another one, or load code: the loader, bash, git, tar, make, pagers.
_ENV_REFUSED = re.compile(
    r"LD_.*|GLIBC_TUNABLES|BASH_ENV|ENV|BASH_FUNC_.*|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH"
    r"|GIT_(SSH|SSH_COMMAND|EXTERNAL_DIFF|PAGER|EDITOR|SEQUENCE_EDITOR|CONFIG.*|EXEC_PATH|PROXY_COMMAND|ASKPASS"
    r"|TEMPLATE_DIR)|PAGER|MANPAGER|EDITOR|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|TAR_OPTIONS|MAKEFLAGS|GNUMAKEFLAGS"
    r"|MAKEFILES|GCC_EXEC_PREFIX|COMPILER_PATH|PYTHONSTARTUP|PYTHONHOME|PERL5OPT|PERL5LIB|RUBYOPT|NODE_OPTIONS"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|RSYNC_RSH|MANOPT|GCONV_PATH|NLSPATH"
)


class PolicyEngine:
    """Judges Commands by one Policy. Pure: nothing is looked up, nothing is kept from one Command to the next.

    `autonomous` is True when the operator granted it (`--autonomous`); the policy's own key decides on that.
    """

    def __init__(self, policy: Policy, *, autonomous: bool) -> None:
        self.policy = policy
        self.autonomous = policy.grants_autonomous(autonomous)
        self._rules = RuleSet(policy.commands)

    def judge(self, command: Command) -> Verdict:
        """Return the Verdict. What is not understood is denied; never raises for a Command of mindx.core.command."""
        if isinstance(command, Exec):
            return self._judge_form(command) or self._rules.judge(command.argv)
        return self._judge_file(command)

    def _judge_form(self, command: Exec) -> Verdict | None:
        """Return a denial for an Exec that no rule can allow, else None."""
        limits = self.policy.limits
        problem = _argv_problem(command.argv) or _env_problem(command.env) or _executable_problem(command)
        if problem is not None:
            return _deny("arguments", problem)
        if not paths.inside(command.cwd):
            return _deny("paths", f"the working directory {command.cwd[:80]!a} is not a path under {WORKSPACE}")
        timeout_s = command.timeout_s
        if timeout_s is None or not math.isfinite(timeout_s) or not 0 < timeout_s <= limits.command_timeout_s:
            asked = "no deadline" if timeout_s is None else f"a deadline of {timeout_s:g}s"
            allowed = format_duration(limits.command_timeout_s)
            return _deny("limits.command_timeout", f"{asked} is not within the policy's command_timeout of {allowed}")
        if not 0 <= command.max_output_bytes <= limits.output_bytes:
            asked = f"{command.max_output_bytes} bytes of output"
            return _deny(
                "limits.output", f"{asked} are more than the policy's output of {format_size(limits.output_bytes)}"
            )
        if len(command.stdin) > MAX_STDIN_BYTES:
            return _deny("arguments", f"standard input is larger than {format_size(MAX_STDIN_BYTES)}")
        return None

    def _judge_file(self, command: Command) -> Verdict:
        path = getattr(command, "path", None)
        if not isinstance(path, str) or not paths.inside(path):
            return _deny("paths", f"{str(path)[:80]!a} is not a normalised path under {WORKSPACE}")
        if path == WORKSPACE and isinstance(command, (WriteFile, MakeDir, Remove)):
            return _deny("paths", f"{WORKSPACE} itself cannot be replaced or removed")
        if isinstance(command, WriteFile) and len(command.data) > MAX_FILE_BYTES:
            return _deny("paths", f"the file would be larger than {format_size(MAX_FILE_BYTES)}")
        if isinstance(command, WriteFile) and command.mode is not None and not 0 <= command.mode <= 0o777:
            return _deny("paths", "a file's mode may have permission bits only (0 to 0777)")
        if isinstance(command, ReadFile) and not 0 <= command.max_bytes <= MAX_FILE_BYTES:
            return _deny("paths", f"at most {format_size(MAX_FILE_BYTES)} of a file can be read at once")
        if isinstance(command, Remove) and not self.autonomous:
            todo = "the policy says never" if self.policy.autonomous == "never" else "run with --autonomous to grant it"
            return _deny("autonomous", f"removing files needs autonomous mode; only the operator grants it: {todo}")
        return Verdict("allow", "paths", "inside the workspace")


def _argv_problem(argv: tuple[str, ...]) -> str | None:
    if not argv or not argv[0]:
        return "no program is named"
    if len(argv) > MAX_ARGS:
        return f"more than {MAX_ARGS} arguments"
    total = 0
    for word in argv:
        size = _size(word)
        if size is None:
            return f"the argument {word[:80]!a} holds a NUL byte or half a character"
        if size > MAX_ARG_BYTES:
            return f"one argument is longer than {MAX_ARG_BYTES} bytes; write it to a file"
        total += size + 1
    if total > MAX_ARGV_BYTES:
        return f"the arguments are longer than {MAX_ARGV_BYTES} bytes; write them to a file"
    if "/" in argv[0]:
        return f"{argv[0][:80]!a} is a path; name the program alone, such as {argv[0].rsplit('/', 1)[1][:80]!a}"
    if _PROGRAM.fullmatch(argv[0]) is None:
        return f"{argv[0][:80]!a} is not the name of a program"
    return None


def _env_problem(env: Mapping[str, str]) -> str | None:
    if len(env) > MAX_ENV_NAMES:
        return f"more than {MAX_ENV_NAMES} environment variables"
    total = 0
    for name, value in env.items():
        if _ENV_NAME.fullmatch(name) is None:
            return f"{name[:80]!a} is not a name for an environment variable; use letters, digits and _"
        size = _size(value)
        if size is None or size + len(name) + 1 > MAX_ARG_BYTES:
            return f"the value of {name} holds a NUL byte or half a character, or is longer than {MAX_ARG_BYTES} bytes"
        total += size + len(name) + 2
        if _ENV_REFUSED.fullmatch(name):
            return f"the environment variable {name} can make a program run other code, so it cannot be set"
        if name == "PATH" and not all(_path_folder(entry) for entry in value.split(":")):
            return "PATH may hold the system's folders and bin folders under the workspace only"
    return f"the environment is larger than {MAX_ENV_BYTES} bytes" if total > MAX_ENV_BYTES else None


def _path_folder(entry: str) -> bool:
    return entry in _SYSTEM_FOLDERS or (entry.endswith("/bin") and paths.inside(entry) and entry != f"{WORKSPACE}/bin")


def _executable_problem(command: Exec) -> str | None:
    if command.executable is None:
        return None
    folder, _, name = command.executable.rpartition("/")
    if name in _VENV_PROGRAMS and name == command.argv[0] and folder.endswith("/bin") and paths.inside(folder):
        return None
    return f"{command.executable[:80]!a} is not the {' or '.join(_VENV_PROGRAMS)} of a virtual environment"


def _size(text: str) -> int | None:
    if "\0" in text:
        return None
    try:
        return len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return None


def _deny(rule: str, reason: str) -> Verdict:
    return Verdict("deny", rule, reason)
