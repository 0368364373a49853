"""Risk: what a program may do with these arguments, by the table in programs.py. What is not in it is dangerous."""

from __future__ import annotations

import re
from dataclasses import field
from enum import IntEnum
from functools import lru_cache

from mindx.core.frozen import dataclass
from mindx.policy.programs import PROGRAMS
from mindx.policy.words import Argv, Dynamic


class Risk(IntEnum):
    """What a command may do: look, change files, or anything (start other programs, run code, reach outside)."""

    READ_ONLY = 0
    WRITE = 1
    DANGEROUS = 2

    @property
    def word(self) -> str:
        """Return the name as a policy writes it."""
        return self.name.lower().replace("_", "-")


RISK_WORDS = {risk.word: risk for risk in Risk}
_BASE = {"read": Risk.READ_ONLY, "write": Risk.WRITE, "danger": Risk.DANGEROUS}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the least risk it brings; whether it takes a value; whether the value is itself a command."""

    name: str
    risk: Risk
    value: str = ""  # "" none, "=" the next word or attached, "?" attached only
    runs: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    """One line of the table. `operands` is the risk that each operand brings beyond the first `free` ones."""

    program: str
    base: Risk
    options: dict[str, Option]
    marks: frozenset[str]
    writes_from: int = 1_000_000


@dataclass(slots=True)
class Parsed:
    """An argv read by a Spec: the options with their values, the operands, and the risk of all of it.

    `unclear` is True when a word that only the shell will know may turn out to be an option.
    """

    risk: Risk
    options: list[tuple[Option, str]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    unclear: bool = False


@lru_cache(maxsize=1)
def table() -> dict[str, Spec]:
    """Return the table: program, or `git status`, to its Spec."""
    specs: dict[str, Spec] = {}
    for line in PROGRAMS.replace("\\\n", " ").splitlines():
        names, _, rest = line.partition(":")
        if not rest or line.startswith("#"):
            continue
        for name in names.split(","):
            specs[name.strip()] = read_spec(name.strip(), rest.split())
    return specs


def read_spec(program: str, words: list[str]) -> Spec:
    """Return one line of the table: its base risk, then marks and options."""
    base, options, marks, writes_from = _BASE[words[0]], {}, set(), 1_000_000
    for word in words[1:]:
        if word.startswith("@"):
            marks.add(word[1:])
            if word.startswith("@writes-from-"):
                writes_from = int(word.rpartition("-")[2])
            continue
        letter, name = ("", word) if word[0] in "-+" else (word[0], word[2:])
        value = name[-1] if name[-1] in "=?" else ""
        name = name.rstrip("=?")
        risk = {"": base, "w": Risk.WRITE, "d": Risk.DANGEROUS, "c": Risk.DANGEROUS}[letter]
        options[name] = Option(name, risk, value, letter == "c")
    return Spec(program, base, options, frozenset(marks), writes_from)


def parse(spec: Spec, words: Argv) -> Parsed:
    """Return the words after the program, read by its line of the table. Unknown options are dangerous."""
    parsed = Parsed(spec.base)
    rest = list(words)
    if "old-style" in spec.marks and _beginning(rest)[:1] not in ("", "-"):
        _take_old_style(spec, rest.pop(0), rest, parsed)
    while rest:
        word = rest.pop(0)
        if isinstance(word, Dynamic) and (not word.prefix or word.prefix.startswith("-")):
            parsed.risk, parsed.unclear = max(parsed.risk, _worst(spec)), True
            parsed.operands.append(word)
        elif word == "--":
            parsed.operands += rest
            rest = []
        elif word == "-" or not (word.startswith("-") or ("plus" in spec.marks and word.startswith("+"))):
            parsed.operands.append(word)
            if "first-operand-ends" in spec.marks:
                parsed.operands += rest
                rest = []
        else:
            _take(spec, word, rest, parsed)
    if len(parsed.operands) >= spec.writes_from:
        parsed.risk = max(parsed.risk, Risk.WRITE)
    return parsed


def _worst(spec: Spec) -> Risk:
    return Risk.DANGEROUS if spec.options else spec.base


def _take(spec: Spec, word: str, rest: list[str], parsed: Parsed) -> None:
    """Read one word of options, and its value from `rest`."""
    if word.startswith("--") or word in spec.options:
        name, equals, value = word.partition("=")
        option = _lookup(spec, name)
        if option.value == "=" and not equals:
            value = rest.pop(0) if rest else ""
        _add(parsed, option, value)
        return
    letters = word[1:]
    for position, letter in enumerate(letters):
        if letter.isdigit() and "-#" in spec.options:
            continue
        option = _lookup(spec, f"{word[0]}{letter}")
        if not option.value:
            _add(parsed, option, "")
            continue
        value = letters[position + 1 :]
        if not value and option.value == "=" and rest:
            value = rest.pop(0)
        _add(parsed, option, value)
        return


def _beginning(words: list[str]) -> str:
    """Return what the first word surely begins with."""
    first = words[0] if words else ""
    return first.prefix if isinstance(first, Dynamic) else first


def _take_old_style(spec: Spec, letters: str, rest: list[str], parsed: Parsed) -> None:
    """Read `tfI` of `tar tfI a.tar xz`: every letter is an option, and their values follow in the same order."""
    if isinstance(letters, Dynamic):  # `t$x`
        parsed.risk, parsed.unclear = Risk.DANGEROUS, True
        return
    for letter in letters:
        option = _lookup(spec, f"-{letter}")
        _add(parsed, option, rest.pop(0) if option.value == "=" and rest else "")


def _lookup(spec: Spec, name: str) -> Option:
    found = spec.options.get(name)
    if found is not None:
        return found
    if name.startswith("--"):
        # Programs take any beginning of a long option that fits one only; the riskiest that fits is assumed.
        fitting = [option for option in spec.options.values() if option.name.startswith(name)]
        if fitting:
            return max(fitting, key=lambda option: (option.risk, option.runs))
    return Option(name, spec.base if "any" in spec.marks else Risk.DANGEROUS)


def _add(parsed: Parsed, option: Option, value: str) -> None:
    parsed.options.append((option, value))
    parsed.risk = max(parsed.risk, option.risk)
    if isinstance(value, Dynamic) and value.many:  # it may be no word, and then the next one is the value
        parsed.risk, parsed.unclear = Risk.DANGEROUS, True


def spec_of(argv: Argv) -> tuple[Spec | None, Argv, Parsed | None]:
    """Return the line of the table for an argv, the words after its (sub)command, and its parsed global options.

    The Spec is None for a program, or a subcommand, that is not in the table.
    """
    spec = table().get(argv[0])
    if spec is None or "subcommands" not in spec.marks:
        return spec, argv[1:], None
    head = parse(spec, argv[1:])
    if not head.operands:
        return spec, (), head
    return table().get(f"{argv[0]} {head.operands[0]}"), tuple(head.operands[1:]), head


def classify(argv: Argv) -> Risk:
    """Return the risk of a program with these arguments; the commands that it starts are not looked at."""
    spec, words, head = spec_of(argv)
    if spec is None:
        return Risk.DANGEROUS
    least = head.risk if head else Risk.READ_ONLY
    if head is not None and not head.operands:
        return least
    parsed = parse(spec, words)
    return max(least, parsed.risk, _script_risk(spec, parsed), _value_risk(spec, parsed))


# In a pattern sed looks for the end of a set such as [/] first, and only then for its delimiter: a set that holds the
# delimiter, or another set, is not read here.
_SED_MEMBER = r"(?!(?P=d))[^\[\]\n]|\[:[a-z]+:\]"
_SED_SET = rf"\[(?:\^|(?!\^))(?:\]|{_SED_MEMBER})(?:{_SED_MEMBER})*\]"
_SED_ADDRESS = r"\d+|\$|/(?:[^/\[\\\n]|" + _SED_SET.replace("(?P=d)", "/") + ")*/"
_SED_READS = re.compile(
    rf"\s*(?:(?:{_SED_ADDRESS})(?:,\s*(?:\+\d+|{_SED_ADDRESS}))?\s*(?:!\s*)?)?"
    rf"(?:[pdqDPNnhHgGxl=]|s(?P<d>[/|,#:@])(?:(?!(?P=d))[^\[\\\n]|\\[^\n]|{_SED_SET})*(?P=d)"
    r"(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)[gpIi0-9]*"
    r"|y(?P<y>[/|,#:@])(?:(?!(?P=y))[^\\\n])*(?P=y)(?:(?!(?P=y))[^\\\n])*(?P=y))\s*"
)
_AWK_ACTS = re.compile(r"system|getline|\||>|@|close|fflush|-f|/inet|ENVIRON|PROCINFO|ARGV")


def _script_risk(spec: Spec, parsed: Parsed) -> Risk:
    """Return the risk of a sed or awk script in the arguments; anything but plain reading is dangerous."""
    if not {"sed", "awk"} & spec.marks:
        return Risk.READ_ONLY
    scripts = [value for option, value in parsed.options if option.name in ("-e", "--expression")]
    if not scripts:
        scripts = parsed.operands[:1]
    for script in scripts:
        if isinstance(script, Dynamic):
            return Risk.DANGEROUS
        if "awk" in spec.marks and _AWK_ACTS.search(script):
            return Risk.DANGEROUS
        if "sed" in spec.marks and not all(_SED_READS.fullmatch(part) for part in re.split(r"[;\n]", script) if part):
            return Risk.DANGEROUS
    return Risk.READ_ONLY


def _value_risk(spec: Spec, parsed: Parsed) -> Risk:
    """Return the risk that lies in values: `tar -f host:file` starts a remote shell, `git clone ext::` a program."""
    remote = "remote-file" in spec.marks and any(o.name in ("-f", "--file") and ":" in v for o, v in parsed.options)
    return Risk.DANGEROUS if remote else Risk.READ_ONLY
