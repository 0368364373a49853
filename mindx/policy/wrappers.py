"""Wrappers: programs that start another one. What they start is taken out, so that it is judged like any other.

`inner(argv)` gives the commands that an argv starts besides itself: an Inner holds words, a line for a shell, or the
reason why nobody can tell, which is a denial.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from mindx.core.frozen import dataclass
from mindx.policy.risk import Option, Parsed, Spec, parse, read_spec, spec_of
from mindx.policy.words import Argv, Dynamic

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_LOADER = re.compile(r"ld(-linux.*|-musl.*)?\.so(\..*)?|ld64\.so\..*")

# program: words to skip before the inner command, then the options that may come first (as in programs.py).
_SKIPPING = {
    "timeout": (1, "-k= --kill-after= -s= --signal= -f --foreground -p --preserve-status -v --verbose"),
    "nice": (0, "-n= --adjustment= -#"),
    "nohup": (0, ""),
    "stdbuf": (0, "-i= -o= -e= --input= --output= --error="),
    "setsid": (0, "-c -f -w --ctty --fork --wait"),
    "ionice": (0, "-c= -n= -t --class= --classdata= --ignore"),
    "taskset": (1, "-a -c --all-tasks --cpu-list"),
    "time": (0, "-p -v -a --portability --verbose --append -f= --format= -o= --output="),
    "busybox": (0, ""),
    "toybox": (0, ""),
    "command": (0, "-p"),
    "builtin": (0, ""),
    "exec": (0, "-c -l -a="),
    "env": (0, "-i -0 -v -u= -C= --ignore-environment --null --debug --unset= --chdir="),
    "xargs": (
        0,
        "-0 -r -t -x -p -o -a= -d= -E= -e? -I= -i? -L= -l? -n= -P= -s= --null --no-run-if-empty --verbose --exit"
        " --open-tty --interactive --arg-file= --delimiter= --eof? --replace? --max-lines?"
        " --max-args= --max-procs= --max-chars=",
    ),
    "flock": (
        1,
        "-s -x -e -u -n -o -w= -E= -F --shared --exclusive --unlock --nonblock --close --timeout= --wait= --verbose"
        " --conflict-exit-code= --no-fork",
    ),
    "script": (0, "-a -e -f -q -c= -T= -O= -B= -I= --append --return --flush --quiet --command= --force"),
}
_UNSEEN = frozenset(
    {
        "sudo",
        "su",
        "doas",
        "chroot",
        "unshare",
        "nsenter",
        "chrt",
        "prlimit",
        "setpriv",
        "runuser",
        "setarch",
        "linux32",
    }
    | {"linux64", "strace", "ltrace", "gdb", "valgrind", "watch", "parallel", "entr", "expect", "unbuffer", "ssh", "at"}
    | {"batch", "systemd-run", "xvfb-run", "fakeroot", "proot", "bwrap", "firejail", "capsh", "start-stop-daemon"}
    | {"run-parts", "socat", "ncat", "nc", "dbus-launch", "daemonize", "catchsegv"}
)
# python -m MODULE that is also a program of its own, and modules that run the file or module after them.
_MODULE_PROGRAMS = frozenset(
    {"pip", "pytest", "coverage", "black", "ruff", "mypy", "tox", "nox", "flake8", "isort", "pylint", "build", "twine"}
    | {"pipx", "virtualenv", "uv", "poetry", "pdm", "hatch", "ensurepip"}
)
_MODULE_RUNNERS = frozenset(["cProfile", "profile", "trace", "pdb", "runpy", "timeit"])
_GIT_SAFE_KEYS = re.compile(
    r"(user\.(name|email)|color\..*|core\.(quotepath|abbrev|autocrlf|whitespace)|init\.defaultbranch|advice\..*"
    r"|log\.(date|decorate)|status\.\w+|safe\.directory|commit\.gpgsign|tag\.gpgsign|diff\.(renames|algorithm))=.*",
    re.IGNORECASE | re.DOTALL,
)
_GIT_REMOTE_VERBS = frozenset({"clone", "fetch", "pull", "push", "remote", "ls-remote", "submodule", "archive"})
_MAKE_CODE = re.compile(r"SHELL\b|\.SHELLFLAGS\b|MAKEFLAGS\b|\w+\s*[:+?!]*=.*\$[({]shell\b|\w+\s*!=", re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Inner:
    """One command that another starts: exactly one of `argv`, `line` and `unknown` (a reason) is given.

    `env` holds the variables that the wrapper sets for it.
    """

    argv: Argv = ()
    line: str | None = None
    unknown: str = ""
    env: tuple[tuple[str, str], ...] = ()


def inner(argv: Argv) -> list[Inner]:
    """Return the commands that `argv` starts besides itself; an empty list if it starts none."""
    program = argv[0]
    if program in _UNSEEN or _LOADER.fullmatch(program):
        return [Inner(unknown=f"{program} starts another program that cannot be judged; start that one directly")]
    if program in _SKIPPING:
        return _skipping(argv)
    if program in SHELLS:
        return _shell(argv)
    found = list(_option_commands(argv))
    special: dict[str, Callable[[Argv], Iterator[Inner]]] = {
        "find": _find,
        "git": _git,
        "python": _python,
        "python3": _python,
        "make": _make,
        "gmake": _make,
        "gcc": _compiler,
        "cc": _compiler,
        "g++": _compiler,
        "eval": _eval,
        "trap": _trap,
        "source": _source,
        ".": _source,
    }
    if program in special:
        found += special[program](argv)
    return found


@lru_cache(maxsize=64)
def _wrapper_spec(program: str) -> Spec:
    return read_spec(program, ["read", "@first-operand-ends", *_SKIPPING[program][1].split()])


def _skipping(argv: Argv) -> list[Inner]:
    program, spec = argv[0], _wrapper_spec(argv[0])
    parsed = parse(spec, argv[1:])
    strange = next((option.name for option, _ in parsed.options if option.name not in spec.options), None)
    if program == "command" and strange in ("-v", "-V"):
        return []
    if program == "script":
        lines = [value for option, value in parsed.options if option.name in ("-c", "--command")]
        if not lines or "--" in argv:  # newer ones take a command after --
            return [Inner(unknown="script without -c starts a shell, and what is after -- may be started as well")]
        return [Inner(line=line) for line in lines]
    if strange is not None:
        return [Inner(unknown=f"the option {strange} of {program} is not known; leave it out")]
    if parsed.unclear:
        return [Inner(unknown=f"what {program} starts is known only when it runs; write it out")]
    rest, env = list(parsed.operands), []
    if program == "env":
        if rest[:1] == ["-"]:
            rest.pop(0)
        while rest and not isinstance(rest[0], Dynamic) and (found := _ASSIGNMENT.fullmatch(rest[0])):
            env.append((found.group(1), found.group(2)))
            rest.pop(0)
        if rest[:1] == ["-"]:
            rest.pop(0)
    rest = rest[_SKIPPING[program][0] :]
    if program == "flock" and rest[:1] in (["-c"], ["--command"]):
        return [Inner(line=line) for line in rest[1:2]]
    if program == "xargs":
        rest = _xargs(rest, parsed)
    if not rest:
        return [] if not env else [Inner(argv=("true",), env=tuple(env))]
    return [Inner(argv=tuple(rest), env=tuple(env))]


def _xargs(rest: list[str], parsed: Parsed) -> list[str]:
    """Return the inner command with the words that xargs reads as words nobody knows."""
    marks = [value or "{}" for o, value in parsed.options if o.name in ("-I", "-i", "--replace")]
    rest = rest or ["echo"]
    if not marks:
        return [*rest, Dynamic("(input)", many=True)]
    return [_replaced(word, marks[-1]) for word in rest]


def _replaced(word: str, mark: str) -> str:
    if isinstance(word, Dynamic) or mark not in word:
        return word
    return Dynamic(word, prefix=word.split(mark, 1)[0])


def _shell(argv: Argv) -> list[Inner]:
    """Return the line of `bash -c LINE`. A script file, or commands on standard input, cannot be seen: no line."""
    spec, words, _ = spec_of(argv)
    assert spec is not None
    parsed = parse(spec, words)
    for option, value in parsed.options:
        if option.name not in spec.options:
            return [Inner(unknown=f"the option {option.name} of {argv[0]} is not known; leave it out")]
        if option.name in ("--init-file", "--rcfile") or isinstance(value, Dynamic):
            return [Inner(unknown=f"the option {option.name} of {argv[0]} runs what cannot be seen; leave it out")]
    if parsed.unclear:
        return [Inner(unknown=f"what {argv[0]} runs is known only when it runs; write it out")]
    if not any(option.name == "-c" for option, _ in parsed.options):
        return []
    return [Inner(line=parsed.operands[0])] if parsed.operands else [Inner(unknown="-c has no line after it")]


def reads_input(argv: Argv) -> bool:
    """Return True for a shell that takes its commands from standard input."""
    return argv[0] in SHELLS and all(word.startswith(("-", "+")) for word in argv[1:])


def _option_commands(argv: Argv) -> Iterator[Inner]:
    """Yield the values of options that are commands themselves, by the table of programs."""
    spec, words, _ = spec_of(argv)
    if spec is None or not any(option.runs for option in spec.options.values()):
        return
    parsed = parse(spec, words)
    if parsed.unclear:
        yield Inner(unknown=f"a word of {argv[0]} may turn out to be an option that starts a program; put -- before it")
    for option, value in parsed.options:
        if option.runs:
            yield Inner(line=_command_text(option, value))


def _command_text(option: Option, value: str) -> str:
    if option.name == "--checkpoint-action":
        return value[5:] if value.startswith("exec=") else ":"
    return value


def _find(argv: Argv) -> Iterator[Inner]:
    words = list(argv[1:])
    if any(isinstance(word, Dynamic) and word.prefix[:1] in ("", "-", "(", "!") for word in words):
        yield Inner(unknown="a word of find may turn out to start a program; write it out, or begin it with ./")
    while words:
        word = words.pop(0)
        if word not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        command: list[str] = []
        while words and words[0] != ";" and not (words[0] == "+" and command and command[-1] == "{}"):
            command.append(words.pop(0))
        many = words[:1] == ["+"]
        words = words[1:]
        if command:
            found = Dynamic("{}", "", True) if many else Dynamic("{}")
            yield Inner(argv=tuple(found if w == "{}" else _replaced(w, "{}") for w in command))
        else:
            yield Inner(unknown=f"{word} has no command after it")


def _git(argv: Argv) -> Iterator[Inner]:
    _, words, head = spec_of(argv)
    assert head is not None
    for option, value in head.options:
        if option.name == "-c" and (isinstance(value, Dynamic) or not _GIT_SAFE_KEYS.fullmatch(value)):
            yield Inner(unknown=f"git -c {value[:40]!a} may start any program; set it in the repository instead")
        if option.name in ("--config-env", "--exec-path") and value:
            yield Inner(unknown=f"git {option.name} may start any program")
    if not head.operands:
        return
    verb, rest = head.operands[0], list(words)
    if isinstance(verb, Dynamic):
        yield Inner(unknown="which git command this is, is known only when it runs")
    elif verb == "submodule" and "foreach" in rest:
        command = [word for word in rest[rest.index("foreach") + 1 :] if word not in ("--recursive", "--quiet", "-q")]
        yield Inner(line=command[0]) if len(command) == 1 else Inner(argv=tuple(command))
    elif verb == "bisect" and rest[:1] == ["run"]:
        yield Inner(argv=tuple(rest[1:]))
    elif verb == "filter-branch":
        yield Inner(unknown="git filter-branch runs its filters as shell code; use other means")
    if verb in _GIT_REMOTE_VERBS and any("::" in word for word in rest):
        yield Inner(unknown="a git address with :: starts a helper program")


def _python(argv: Argv) -> Iterator[Inner]:
    # -m and -c end python's own options; the rest belongs to the module. A script, named or not, is code unseen.
    words = argv[1:]
    for position, word in enumerate(words):
        if word == "-" or not word.startswith("-"):
            return
        name, module, skip = _python_option(word, words[position + 1 :])
        if name == "c":
            return
        if name == "m":
            rest = words[position + 1 + skip :]
            if module in _MODULE_PROGRAMS:
                yield Inner(argv=(module, *rest))
            elif module in _MODULE_RUNNERS:
                yield from _run_module(argv[0], module, rest)
            elif isinstance(module, Dynamic):
                yield Inner(unknown=f"which module {argv[0]} runs is known only when it runs")
            return
        if skip:
            yield from _python((argv[0], *words[position + 2 :]))
            return


def _run_module(python: str, runner: str, words: Argv) -> Iterator[Inner]:
    """Yield what `python -m cProfile -m pip install` runs in the end; runpy takes the module without an option."""
    if runner == "runpy":
        yield from _python((python, "-m", *words))
        return
    for position, word in enumerate(words):
        rest = words[position + 1 :]
        name, equals, value = word.partition("=")
        if word == "-m" or (len(name) > 3 and "--module".startswith(name)):
            yield from _python((python, "-m", *([value] if equals else []), *rest))
            return
        if word.startswith("-m"):
            yield from _python((python, "-m", word[2:], *rest))
            return


def _python_option(word: str, rest: Argv) -> tuple[str, str, int]:
    """Return the first option of a bundle that takes a value, the value, and 1 if that was the next word."""
    for position, letter in enumerate(word[1:], 1):
        if letter in "cmWX":
            attached = word[position + 1 :]
            return letter, attached or (rest[0] if rest else ""), 0 if attached else 1
    return "", "", 0


def _make(argv: Argv) -> Iterator[Inner]:
    for word in argv[1:]:
        if _MAKE_CODE.match(word):
            yield Inner(unknown=f"{word[:40]!a} makes make run other code; leave it out")


def _compiler(argv: Argv) -> Iterator[Inner]:
    for word in argv[1:]:
        if word.startswith(("-B", "-wrapper", "--wrapper", "-specs", "--specs", "-fplugin", "@")):
            yield Inner(unknown=f"{word[:40]!a} makes the compiler start other programs; leave it out")


def _eval(argv: Argv) -> Iterator[Inner]:
    if any(isinstance(word, Dynamic) for word in argv):
        yield Inner(unknown="what eval runs is known only when it runs; write it out")
    elif argv[1:]:
        yield Inner(line=" ".join(argv[1:]))


def _trap(argv: Argv) -> Iterator[Inner]:
    if any(isinstance(word, Dynamic) for word in argv[1:2]):
        yield Inner(unknown="what trap runs is known only when it runs; write it out")
    elif len(argv) > 2 and argv[1] not in ("", "-"):
        yield Inner(line=argv[1])


def _source(argv: Argv) -> Iterator[Inner]:
    yield Inner(argv=("bash", *argv[1:])) if argv[1:] else Inner(unknown="source names no file")
