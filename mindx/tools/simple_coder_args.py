"""SimpleCoder's commands: one frozen model of arguments each, whose docstring is what users read."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mindx.core.quote import quoted
from mindx.tools.param_faults import refused
from mindx.tools.simple_coder_fields import (
    MAX_ARGV_BYTES,
    MAX_WORD_BYTES,
    WORD_OVERHEAD,
    Cmdline,
    Content,
    Expected,
    Keys,
    SearchText,
    Size,
    Tail,
    Timeout,
    Typed,
    Value,
    Variable,
    VenvName,
    Word,
)
from mindx.tools.simple_coder_keys import KEYS
from mindx.tools.words import WordsError, split_words


class Call(BaseModel):
    """A call of one command; `result_keys` are the keys of its result beside `status`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    command: ClassVar[str]
    result_keys: ClassVar[str] = "message"

    @classmethod
    def signature(cls) -> str:
        """Return the command with its arguments, as a person writes it: `ls(path=".")`."""
        shown = [
            name if field.is_required() else f"{name}={json.dumps(field.default)}"
            for name, field in cls.model_fields.items()
        ]
        return f"{cls.command}({', '.join(shown)})"

    @classmethod
    def usage(cls) -> str:
        """Return the signature, the summary and what each argument is, one a line."""
        rows = [f"  {name}: {field.description}" for name, field in cls.model_fields.items()]
        return "\n".join((cls.signature(), cls.summary(), *rows))

    @classmethod
    def summary(cls) -> str:
        """Return the one sentence that says what it does."""
        return (cls.__doc__ or "").split("\n\n")[0].replace("\n    ", " ").strip()


class Ls(Call):
    """List a directory: names in order, `/` after a directory."""

    command: ClassVar[str] = "ls"
    result_keys: ClassVar[str] = "items"
    path: str = Field(".", description="the directory")


class Cd(Call):
    """Change the current directory for the steps that follow."""

    command: ClassVar[str] = "cd"
    path: str = Field(description="the directory; it must exist")


class Read(Call):
    """Read a file as text."""

    command: ClassVar[str] = "read"
    result_keys: ClassVar[str] = "content"
    path: str = Field(description="the file, at most 16 MiB")


class Write(Call):
    """Write a file, new or in place of the old one, with the directories on the way to it."""

    command: ClassVar[str] = "write"
    path: str = Field(description="the file")
    content: Content = Field(description="the whole text, at most 16 MiB")


class Mkdir(Call):
    """Make a directory and those on the way to it; one that exists is fine."""

    command: ClassVar[str] = "mkdir"
    path: str = Field(description="the directory")


class Rm(Call):
    """Remove one file or link, never a directory; needs the operator's autonomous mode."""

    command: ClassVar[str] = "rm"
    path: str = Field(description="the file")


class Search(Call):
    """Find lines that hold a text, or names; `.git` is left out, links are not followed."""

    command: ClassVar[str] = "search"
    result_keys: ClassVar[str] = "items"
    text: SearchText = Field(description="what to look for, one line; with `names` a name's part, or such as `*.py`")
    path: str = Field(".", description="the directory to search")
    names: bool = Field(False, description="search names instead of lines")


SHELL = ("bash", "-o", "pipefail", "-c")  # a pipe fails when any part of it does


class ProgramCall(Call):
    """A call that names a program; not a command itself."""

    argv: tuple[Word, ...] | None = Field(None, description="the program's name and its arguments, as a list")
    cmdline: Cmdline | None = Field(None, description="the same as one line, split into words as a POSIX shell does")
    shell: Cmdline | None = Field(None, description="a line for bash, with pipefail; each program in it is judged")

    @classmethod
    def signature(cls) -> str:
        """Return it with the choice between the three forms."""
        return super().signature().replace("argv=null, cmdline=null, shell=null", "argv | cmdline | shell")

    @model_validator(mode="before")
    @classmethod
    def _argv_is_a_list(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("argv"), list):
            return {**data, "argv": tuple(data["argv"])}
        return data

    @model_validator(mode="after")
    def _names_one_program(self) -> ProgramCall:
        given = [name for name in ("argv", "cmdline", "shell") if getattr(self, name) is not None]
        if len(given) != 1:
            there = f"{' and '.join(given)} are there" if given else "none is there"
            raise refused(f"`{self.command}` takes exactly one of `argv`, `cmdline` and `shell`; {there}")
        try:
            words = self.words
        except WordsError as error:
            raise refused(f"`cmdline`: {error.message}", error.suggestion, self.subject) from None
        if not words or not words[0]:
            raise refused(f"`{self.subject[1:]}` names no program", 'such as ["python3", "main.py"]', self.subject)
        if "/" in words[0]:
            raise refused(
                f"{quoted(words[0])} is a path; a program is called by its name",
                "run a script as `python3 script.py`; for a virtual environment, `activate_venv` and then `python`",
                self.subject,
            )
        if any(len(word.encode()) > MAX_WORD_BYTES for word in words):
            raise refused(f"an argument has more than {MAX_WORD_BYTES:,} bytes", path=self.subject)
        if sum(len(word.encode()) + WORD_OVERHEAD for word in words) > MAX_ARGV_BYTES:
            raise refused(f"the arguments have more than {MAX_ARGV_BYTES:,} bytes", path=self.subject)
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments. Raises WordsError before the model is validated."""
        if self.argv is not None:
            return self.argv
        return (*SHELL, self.shell) if self.shell is not None else split_words(self.cmdline or "")

    @property
    def subject(self) -> str:
        """The JSON path of what was given."""
        return ".argv" if self.argv is not None else ".shell" if self.shell is not None else ".cmdline"


class Run(ProgramCall):
    """Run one program in the current directory; a shell only where `shell` asks for one."""

    command: ClassVar[str] = "run"
    result_keys: ClassVar[str] = "return_code, exit_cause, stdout, stderr"
    stdin: Content = Field("", description="text for its standard input")
    timeout_seconds: Timeout | None = Field(None, description="the deadline; null is the session's own (60)")


class Start(ProgramCall):
    """Start one program in the background and go on; needs a policy with `limits.background`."""

    command: ClassVar[str] = "start"
    result_keys: ClassVar[str] = "job, message"
    timeout_seconds: Timeout | None = Field(None, description="the deadline; null: until `stop` or the session's end")


class JobCall(Call):
    """A call about a job that `start` or `pty_open` has begun; not a command itself."""

    result_keys: ClassVar[str] = "job, state, return_code, exit_cause, message"
    job: str = Field(description="what `start` or `pty_open` has returned: `job1` for the first")


class Poll(JobCall):
    """Say whether a background job runs, and how it ended."""

    command: ClassVar[str] = "poll"


class Logs(JobCall):
    """Return what a background job has printed so far."""

    command: ClassVar[str] = "logs"
    result_keys: ClassVar[str] = "job, state, stdout, stderr"
    tail: Tail | None = Field(None, description="only so many of the last lines of each stream; null for all")


class Stop(JobCall):
    """Kill a background job with all that it has started; one that has ended is fine."""

    command: ClassVar[str] = "stop"


class PtyOpen(ProgramCall):
    """Start one program in a terminal, in the background; needs a policy with `limits.background`."""

    command: ClassVar[str] = "pty_open"
    result_keys: ClassVar[str] = "job, message"
    rows: Size = Field(24, description="the terminal's rows, at most 1,000")
    cols: Size = Field(80, description="its columns, at most 1,000")
    timeout_seconds: Timeout | None = Field(None, description="the deadline; null: until its end or the session's")


class PtyCall(JobCall):
    """A call about the terminal of a job that `pty_open` has begun; not a command itself."""


class PtySend(PtyCall):
    """Type into a job's terminal: the text, and then the keys."""

    command: ClassVar[str] = "pty_send"
    result_keys: ClassVar[str] = "job, message"
    text: Typed = Field("", description="sent as it is, at most 64 KiB; no line end is added")
    keys: Keys = Field((), description="such as `enter`, `tab`, `up`, `ctrl-c`, in order")

    @model_validator(mode="before")
    @classmethod
    def _keys_are_a_list(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("keys"), list):
            return {**data, "keys": tuple(data["keys"])}
        return data

    @model_validator(mode="after")
    def _types_something(self) -> PtySend:
        if not self.text and not self.keys:
            raise refused("`pty_send` takes `text` or `keys`; none is there")
        return self

    @property
    def typed(self) -> bytes:
        """What goes to the terminal."""
        return self.text.encode() + b"".join(KEYS[name] for name in self.keys)


class PtyExpect(PtyCall):
    """Wait until a job's terminal shows a text, and return what came up to and with it; or wait for the job's end."""

    command: ClassVar[str] = "pty_expect"
    result_keys: ClassVar[str] = "job, state, return_code, exit_cause, message, output"
    text: Expected = Field("", description="looked for as it is, behind what was found last; empty: the job's end")
    timeout_seconds: Timeout | None = Field(None, description="how long; null is the session's own (60), and the most")


class PtyResize(PtyCall):
    """Give a job's terminal another size."""

    command: ClassVar[str] = "pty_resize"
    result_keys: ClassVar[str] = "job, message"
    rows: Size = Field(description="its rows, at most 1,000")
    cols: Size = Field(description="its columns, at most 1,000")


class PtyClose(PtyCall):
    """End a job in a terminal with all that it has started, if it still runs, and say how it ended."""

    command: ClassVar[str] = "pty_close"


class CreateVenv(Call):
    """Make a Python virtual environment in the current directory; refused when the name is taken."""

    command: ClassVar[str] = "create_venv"
    venv_name: VenvName = Field(description="its directory's name: A-Z a-z 0-9 _ . -")


class ActivateVenv(Call):
    """From now on `python`, `python3`, `pip` and `pip3` are those of this virtual environment."""

    command: ClassVar[str] = "activate_venv"
    venv_name: VenvName = Field(description="its directory's name, in the current directory")


class DeactivateVenv(Call):
    """Back to the container's own Python."""

    command: ClassVar[str] = "deactivate_venv"


class ToggleAutonomousMode(Call):
    """Switch autonomous mode; refused in a plan, as only the operator grants it (`--autonomous`)."""

    command: ClassVar[str] = "toggle_autonomous_mode"


class Help(Call):
    """Say which commands there are, or what one of them takes."""

    command: ClassVar[str] = "help"
    result_keys: ClassVar[str] = "content"
    topic: str = Field("", description="the command; none for all")


class EnvSet(Call):
    """Set a variable for the programs of the steps that follow."""

    command: ClassVar[str] = "env_set"
    name: Variable = Field(description="A-Z a-z 0-9 _; none that changes which program runs (PATH, LD_*, GIT_*, ...)")
    value: Value = Field(description="its text, at most 32 KiB")


class EnvUnset(Call):
    """Forget a variable; one that is not set is fine."""

    command: ClassVar[str] = "env_unset"
    name: Variable = Field(description="the variable")


class EnvList(Call):
    """List the variables that env_set has set."""

    command: ClassVar[str] = "env_list"
    result_keys: ClassVar[str] = "items"


COMMANDS: MappingProxyType[str, type[Call]] = MappingProxyType(
    {
        model.command: model
        for model in (
            *(Ls, Cd, Read, Write, Mkdir, Rm, Search, Run),
            *(Start, Poll, Logs, Stop),
            *(PtyOpen, PtySend, PtyExpect, PtyResize, PtyClose),
            *(CreateVenv, ActivateVenv, DeactivateVenv),
            *(EnvSet, EnvUnset, EnvList),
            *(ToggleAutonomousMode, Help),
        )
    }
)
