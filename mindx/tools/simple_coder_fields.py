"""The values that SimpleCoder's commands take, each with what makes it refused."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import AfterValidator

from mindx.core.command import MAX_TERMINAL
from mindx.tools.param_faults import refused
from mindx.tools.simple_coder_keys import KEYS, key_fault

MAX_CONTENT_BYTES = 16 * 1024 * 1024
MAX_ARGV_BYTES = 1024 * 1024  # half of what Linux passes to a program with the usual 8 MiB stack
WORD_OVERHEAD = 9  # the closing NUL and a pointer
MAX_WORD_BYTES = 128 * 1024 - 1  # Linux MAX_ARG_STRLEN, with its closing NUL
MAX_TIMEOUT_S = 24 * 3600.0
MAX_VALUE_BYTES = 32 * 1024
MAX_NAME = 100
MAX_TAIL = 1_000_000
MAX_SEARCH = 1000
MAX_TYPED_BYTES = 64 * 1024
MAX_KEYS = 1000

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


def _typed(text: str) -> str:
    return _sized(text, MAX_TYPED_BYTES, "text to type", nul=True)


def _keys(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MAX_KEYS:
        raise refused(f"has {len(names):,} keys; at most {MAX_KEYS:,} are pressed at once")
    for name in names:
        if name not in KEYS:
            raise refused(*key_fault(name))
    return names


def _expected(text: str) -> str:
    if len(text) > MAX_SEARCH:
        raise refused(f"is at most {MAX_SEARCH:,} characters")
    return _word(text)


def _size(number: int) -> int:
    if not 1 <= number <= MAX_TERMINAL:
        raise refused(f"is from 1 to {MAX_TERMINAL:,}, not {number}")
    return number


SearchText = Annotated[str, AfterValidator(_search_text)]
Content = Annotated[str, AfterValidator(_content)]
Word = Annotated[str, AfterValidator(_word)]
VenvName = Annotated[str, AfterValidator(_venv_name)]
Variable = Annotated[str, AfterValidator(_variable)]
Value = Annotated[str, AfterValidator(_value)]
Cmdline = Annotated[str, AfterValidator(_cmdline)]
Timeout = Annotated[float, AfterValidator(_timeout)]
Tail = Annotated[int, AfterValidator(_tail)]
Typed = Annotated[str, AfterValidator(_typed)]
Keys = Annotated[tuple[str, ...], AfterValidator(_keys)]
Expected = Annotated[str, AfterValidator(_expected)]
Size = Annotated[int, AfterValidator(_size)]
