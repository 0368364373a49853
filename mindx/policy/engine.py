"""The policy engine: one Verdict for one Command, whoever sends it.

This is the early, clear refusal and the record of what was intended. The boundary is the container.
"""

from __future__ import annotations

from collections.abc import Mapping

from mindx.core.command import WORKSPACE, Command, Exec, MakeDir, ReadFile, Remove, WriteFile
from mindx.core.frozen import dataclass
from mindx.core.verdict import Verdict
from mindx.policy import paths
from mindx.policy.judge import Judge, Step, strictest
from mindx.policy.model import Policy
from mindx.policy.risk import RISK_WORDS, Risk
from mindx.policy.units import format_duration, format_size
from mindx.policy.variables import encoded_size, variable_problem

MAX_ARGS = 4096
MAX_ARG_BYTES = 128 * 1024 - 1  # Linux MAX_ARG_STRLEN, with its NUL
MAX_ARGV_BYTES = 1024 * 1024
MAX_ENV_NAMES = 256
MAX_ENV_BYTES = 256 * 1024
MAX_STDIN_BYTES = 64 * 1024 * 1024
MAX_FILE_BYTES = 256 * 1024 * 1024
_VENV_PROGRAMS = ("python", "python3", "pip", "pip3")


@dataclass(frozen=True, slots=True)
class Explanation:
    """A Verdict and how it came about: the risk, and each step that was judged, in order."""

    verdict: Verdict
    risk: Risk
    steps: tuple[Step, ...]


class PolicyEngine:
    """Judges Commands by one Policy. Pure: nothing is looked up, nothing is kept from one Command to the next.

    `autonomous` is True when the operator granted it (`--autonomous`); the policy's own key decides on that.
    """

    def __init__(self, policy: Policy, *, autonomous: bool) -> None:
        self.policy = policy
        self.autonomous = policy.grants_autonomous(autonomous)
        self._judge = Judge(policy)

    def judge(self, command: Command) -> Verdict:
        """Return the Verdict. What is not understood is denied; never raises for a Command of mindx.core.command."""
        return self.explain(command).verdict

    def explain(self, command: Command) -> Explanation:
        """Return the Verdict with the steps that led to it."""
        if not isinstance(command, Exec):
            verdict, risk = self._judge_file(command), _file_risk(command)
            return Explanation(verdict, risk, (Step((type(command).__name__,), verdict, risk),))
        refused = self._judge_form(command)
        if refused is not None:
            return Explanation(refused, Risk.DANGEROUS, (Step(command.argv[:1], refused, Risk.DANGEROUS),))
        steps = self._judge.command(command.argv, command.cwd, command.stdin)
        verdict, risk = strictest(steps), max(step.risk for step in steps)
        least = self.policy.approvals.ask_from
        if verdict.decision == "allow" and least is not None and risk >= RISK_WORDS[least]:
            verdict = Verdict("ask", "approvals.ask_from", f"{risk.word} commands need a yes; {verdict.reason}")
        return Explanation(verdict, risk, tuple(steps))

    def _judge_form(self, command: Exec) -> Verdict | None:
        """Return a denial for an Exec that no rule can allow, else None."""
        limits = self.policy.limits
        problem = _argv_problem(command.argv) or _env_problem(command.env) or _executable_problem(command)
        if problem is not None:
            return _deny("arguments", problem)
        if not paths.inside(command.cwd):
            return _deny("paths", f"the working directory {command.cwd[:80]!a} is not a path under {WORKSPACE}")
        timeout_s = command.timeout_s
        if timeout_s is None or not 0 < timeout_s <= limits.command_timeout_s:
            asked = "no deadline" if timeout_s is None else f"a deadline of {timeout_s:g}s"
            allowed = format_duration(limits.command_timeout_s)
            return _deny("limits.command_timeout", f"{asked} is not within the policy's command_timeout of {allowed}")
        if not 0 <= command.max_output_bytes <= limits.output_bytes:
            asked, allowed = f"{command.max_output_bytes} bytes of output", format_size(limits.output_bytes)
            return _deny("limits.output", f"{asked} are not within the policy's output of {allowed}")
        if len(command.stdin) > MAX_STDIN_BYTES:
            return _deny("arguments", f"standard input is larger than {format_size(MAX_STDIN_BYTES)}")
        return None

    def _judge_file(self, command: Command) -> Verdict:
        path = getattr(command, "path", None)
        if not isinstance(path, str) or not paths.inside(path):
            return _deny("paths", f"{str(path)[:80]!a} is not a normalised path under {WORKSPACE}")
        if isinstance(command, (WriteFile, MakeDir, Remove)):
            if path == WORKSPACE:
                return _deny("paths", f"{WORKSPACE} itself cannot be replaced or removed")
            if self.policy.workspace.protects(path):
                return _deny("workspace.protected", f"{path[:80]!a} is protected: a plan may not change it")
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


def _file_risk(command: Command) -> Risk:
    return Risk.WRITE if isinstance(command, (WriteFile, MakeDir, Remove)) else Risk.READ_ONLY


def _argv_problem(argv: tuple[str, ...]) -> str | None:
    if not argv:
        return "no program is named"
    if len(argv) > MAX_ARGS:
        return f"more than {MAX_ARGS} arguments"
    total = 0
    for word in argv:
        size = encoded_size(word)
        if size is None:
            return f"the argument {word[:80]!a} holds a NUL byte or half a character"
        if size > MAX_ARG_BYTES:
            return f"one argument is longer than {MAX_ARG_BYTES} bytes; write it to a file"
        total += size + 1
    if total > MAX_ARGV_BYTES:
        return f"the arguments are longer than {MAX_ARGV_BYTES} bytes; write them to a file"
    return None


def _env_problem(env: Mapping[str, str]) -> str | None:
    if len(env) > MAX_ENV_NAMES:
        return f"more than {MAX_ENV_NAMES} environment variables"
    problem = next((p for name, value in env.items() if (p := variable_problem(name, value))), None)
    if problem is not None:
        return problem
    total = sum(len(name) + len(value.encode("utf-8", "surrogateescape")) + 2 for name, value in env.items())
    return f"the environment is larger than {MAX_ENV_BYTES} bytes" if total > MAX_ENV_BYTES else None


def _executable_problem(command: Exec) -> str | None:
    if command.executable is None:
        return None
    folder, _, name = command.executable.rpartition("/")
    if name in _VENV_PROGRAMS and name == command.argv[0] and folder.endswith("/bin") and paths.inside(folder):
        return None
    return f"{command.executable[:80]!a} is not the {' or '.join(_VENV_PROGRAMS)} of a virtual environment"


def _deny(rule: str, reason: str) -> Verdict:
    return Verdict("deny", rule, reason)
