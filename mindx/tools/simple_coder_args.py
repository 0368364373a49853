"""SimpleCoder's commands: one frozen model of arguments each, whose docstring is what users read."""

from __future__ import annotations

import json
import math
import re
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from mindx.core.quote import quoted
from mindx.tools.param_faults import refused
from mindx.tools.words import WordsError, split_words

MAX_CONTENT_BYTES = 16 * 1024 * 1024
MAX_ARGV_BYTES = 1024 * 1024  # half of what Linux passes to a program with the usual 8 MiB stack
_WORD_OVERHEAD = 9  # the closing NUL and a pointer
MAX_WORD_BYTES = 128 * 1024 - 1  # Linux MAX_ARG_STRLEN, with its closing NUL
MAX_TIMEOUT_S = 24 * 3600.0
MAX_VALUE_BYTES = 32 * 1024
MAX_NAME = 100
MAX_TAIL = 1_000_000
MAX_SEARCH = 1000

_VENV_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables that change which program runs, or what a listed program is, behind the policy's back; and those that
# SimpleCoder or the container set themselves. This is early advice: a program that runs may set what it likes.
_RESERVED = re.compile(
    r"LD_\w*|DYLD_\w*|GCONV_PATH|GLIBC_TUNABLES|PATH|HOME|SHELL|USER|LOGNAME|VIRTUAL_ENV|IFS|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS4"
    r"|BASH_FUNC_\w*|PYTHONHOME|PYTHONSTARTUP|PYTHONEXECUTABLE|PYTHONPLATLIBDIR|GIT_\w*|EDITOR|VISUAL|PAGER"
    r"|PERL5OPT|PERL5LIB|PERL5DB|RUBYOPT|NODE_OPTIONS|JAVA_TOOL_OPTIONS"
)


def _sized(text: str, limit: int, what: str, nul: bool = False) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise refused("holds half of a surrogate pair, which is no character") from None
    if not nul and "\0" in text:
        raise refused(f"holds a NUL byte, which no {what} can")
    if size > limit:
        raise refused(f"has {size:,} bytes; a {what} has at most {limit:,}")
    return text


def _content(text: str) -> str:
    return _sized(text, MAX_CONTENT_BYTES, "text", nul=True)


def _word(text: str) -> str:
    return _sized(text, MAX_WORD_BYTES, "argument")


def _cmdline(text: str) -> str:
    return _sized(text, MAX_ARGV_BYTES, "command line")


def _value(text: str) -> str:
    return _sized(text, MAX_VALUE_BYTES, "variable")


def _timeout(timeout_s: float) -> float:
    if not (math.isfinite(timeout_s) and 0 < timeout_s <= MAX_TIMEOUT_S):
        raise refused(f"is more than 0 and at most {MAX_TIMEOUT_S:,.0f}, not {timeout_s:g}")
    return timeout_s


def _tail(lines: int) -> int:
    if not 1 <= lines <= MAX_TAIL:
        raise refused(f"is from 1 to {MAX_TAIL:,} lines, not {lines}")
    return lines


def _venv_name(name: str) -> str:
    if not _VENV_NAME.fullmatch(name) or name in (".", "..") or len(name) > MAX_NAME:
        raise refused(
            "is no name for a virtual environment",
            f"use up to {MAX_NAME} of A-Z a-z 0-9 _ . - (not . or ..), such as `.venv`",
        )
    return name


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name) or len(name) > MAX_NAME:
        raise refused("is no name for a variable", f"use up to {MAX_NAME} of A-Z a-z 0-9 _, no digit first")
    if _RESERVED.fullmatch(name):
        raise refused(f"is `{name}`, which is reserved: it changes which program runs, or mindx sets it itself")
    return name


def _search_text(text: str) -> str:
    if not text or "\n" in text or len(text) > MAX_SEARCH:
        raise refused(f"is one line of 1 to {MAX_SEARCH:,} characters")
    return _word(text)


SearchText = Annotated[str, AfterValidator(_search_text)]
Content = Annotated[str, AfterValidator(_content)]
Word = Annotated[str, AfterValidator(_word)]
VenvName = Annotated[str, AfterValidator(_venv_name)]
Variable = Annotated[str, AfterValidator(_variable)]
Value = Annotated[str, AfterValidator(_value)]
Cmdline = Annotated[str, AfterValidator(_cmdline)]
Timeout = Annotated[float, AfterValidator(_timeout)]
Tail = Annotated[int, AfterValidator(_tail)]


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
        if sum(len(word.encode()) + _WORD_OVERHEAD for word in words) > MAX_ARGV_BYTES:
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
    """A call about a job that `start` has begun; not a command itself."""

    result_keys: ClassVar[str] = "job, state, return_code, exit_cause, message"
    job: str = Field(description="what `start` has returned: `job1` for the first")


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
            *(CreateVenv, ActivateVenv, DeactivateVenv),
            *(EnvSet, EnvUnset, EnvList),
            *(ToggleAutonomousMode, Help),
        )
    }
)
