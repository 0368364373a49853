"""What SimpleCoder remembers between calls, on the host and out of the plan's reach; a Run starts with a clean one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType

from mindx.core.command import WORKSPACE
from mindx.core.frozen import dataclass

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VENV_PROGRAMS = frozenset({"python", "python3", "pip", "pip3"})


@dataclass(frozen=True, slots=True)
class CoderState:
    """`cwd` and `venv` (None: the container's own Python) are absolute paths in the container.

    `env` holds what env_set has set. `autonomous` is the operator's grant for what destroys (rm).
    `jobs` has the sandbox's id of each background job, by the job's name; "" before it is really started.
    `terminals` has, for each job in a terminal, how many bytes of its output `pty_expect` has found already.
    """

    cwd: str = WORKSPACE
    venv: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    autonomous: bool = False
    jobs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    terminals: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def next_job(self) -> str:
        """The name of the job that is started next, so that a plan can tell it before it runs."""
        return f"job{len(self.jobs) + 1}"

    def with_job(self, job: str, background_id: str = "") -> CoderState:
        """Return the state that knows a job."""
        return replace(self, jobs=MappingProxyType({**self.jobs, job: background_id}))

    def with_terminal(self, job: str, found: int = 0) -> CoderState:
        """Return the state that knows that a job has a terminal, and how much of its output was found."""
        return replace(self, terminals=MappingProxyType({**self.terminals, job: found}))

    def with_variable(self, name: str, value: str | None) -> CoderState:
        """Return the state with a variable set, or without it (None)."""
        env = {**self.env, name: value} if value is not None else {k: v for k, v in self.env.items() if k != name}
        return replace(self, env=MappingProxyType(env))

    def program_env(self) -> dict[str, str]:
        """Return the variables for a program: those that are set, and the active virtual environment's."""
        if self.venv is None:
            return dict(self.env)
        return {**self.env, "VIRTUAL_ENV": self.venv, "PATH": f"{self.venv}/bin:{SYSTEM_PATH}"}

    def executable(self, program: str) -> str | None:
        """Return the file to start instead of the image's own program, or None."""
        return f"{self.venv}/bin/{program}" if self.venv is not None and program in VENV_PROGRAMS else None


def relative(path: str) -> str:
    """Return an absolute path of the workspace as people read it: `.`, `./api_client`."""
    return "." + path[len(WORKSPACE) :]
