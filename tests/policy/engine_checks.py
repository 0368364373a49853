"""Checks of the engine that are no golden cases: forms, limits, paths, layers. Shared with the mutation run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mindx.core.command import Command, Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import parse_policy
from mindx.policy.paths import PathRefused, inside, resolve
from mindx.policy.pattern import parse_pattern
from mindx.policy.shell import leaves
from mindx.policy.shell_leaf import ShellFault
from mindx.policy.variables import encoded_size, variable_problem

TEXT = """
version: 1
workspace: {protected: [keep/, "*.lock"]}
commands: [{allow: [ls, python, python3, pip]}, {allow: bash -o pipefail -c *}]
"""
LS = Exec(("ls",))
BIG = "x" * (128 * 1024 - 1)


def engine(text: str = TEXT, *, autonomous: bool = False) -> PolicyEngine:
    return PolicyEngine(parse_policy(text.encode(), source="checks").policy, autonomous=autonomous)


def commands() -> Iterator[tuple[Command, str]]:
    """Yield Commands with the verdict and, after a colon, the rule that must decide."""
    yield LS, "allow"
    yield replace(LS, argv=()), "deny:arguments"
    yield replace(LS, argv=("",)), "deny:arguments"
    yield replace(LS, argv=("ls", "")), "allow"
    yield replace(LS, argv=("ls", "a\0")), "deny:arguments"
    yield replace(LS, argv=("ls", "\ud800")), "deny:arguments"
    yield replace(LS, argv=("ls", "\udcff")), "allow"
    yield replace(LS, argv=("ls", BIG)), "allow"
    yield replace(LS, argv=("ls", BIG + "x")), "deny:arguments"
    yield replace(LS, argv=("ls", *["x"] * 4095)), "allow"
    yield replace(LS, argv=("ls", *["x"] * 4096)), "deny:arguments"
    yield replace(LS, argv=("ls", *[BIG] * 7, "x" * (128 * 1024 - 4))), "allow"
    yield replace(LS, argv=("ls", *[BIG] * 7, "x" * (128 * 1024 - 3))), "deny:arguments"
    yield replace(LS, argv=("/bin/ls",)), "deny:arguments"
    yield replace(LS, argv=("-ls",)), "deny:arguments"
    yield replace(LS, argv=("l s",)), "deny:arguments"
    yield replace(LS, cwd="/workspace/a"), "allow"
    for cwd in ("/", "/etc", "a", "", "/workspace/", "/workspace/../etc", "/workspace-evil"):
        yield replace(LS, cwd=cwd), "deny:paths"
    for timeout_s in (0.1, 60.0):
        yield replace(LS, timeout_s=timeout_s), "allow"
    for wrong_s in (None, 60.1, 0.0, -1.0, math.inf, math.nan, -math.inf):
        yield replace(LS, timeout_s=wrong_s), "deny:limits.command_timeout"
    for size in (0, 1024 * 1024):
        yield replace(LS, max_output_bytes=size), "allow"
    for size in (-1, 1024 * 1024 + 1):
        yield replace(LS, max_output_bytes=size), "deny:limits.output"
    yield replace(LS, stdin=bytes(64 << 20)), "allow"
    yield replace(LS, stdin=bytes((64 << 20) + 1)), "deny:arguments"
    yield replace(LS, env={f"V{i}": "x" for i in range(256)}), "allow"
    yield replace(LS, env={f"V{i}": "x" for i in range(257)}), "deny:arguments"
    yield replace(LS, env={"A": BIG[:-2]}), "allow"
    yield replace(LS, env={"A": BIG[:-1]}), "deny:arguments"
    yield replace(LS, env={"A": BIG[:-2], "B": BIG[:-2]}), "allow"
    yield replace(LS, env={"A": BIG[:-2], "B": BIG[:-2], "C": ""}), "deny:arguments"
    yield replace(LS, env={"A": "\0"}), "deny:arguments"
    for name in ("IFS", "LD_PRELOAD", "", "1A", "A-B", "A=B"):
        yield replace(LS, env={name: "x"}), "deny:arguments"
    for path, fine in (("/usr/bin:/bin", True), ("/workspace/v/bin", True), ("/workspace/bin", False), (".", False),
                       ("/tmp/bin", False), ("/workspace/v", False), ("", False), ("/bin:", False)):  # fmt: skip
        yield replace(LS, env={"PATH": path}), "allow" if fine else "deny:arguments"
    python = Exec(("python3", "x"))
    yield replace(python, executable="/workspace/v/bin/python3"), "allow"
    for executable in ("/workspace/v/bin/python", "/usr/bin/python3", "/workspace/v/python3", "python3", "",
                       "/workspace/v/x/../bin/python3", "/workspace/v/bin/ls"):  # fmt: skip
        yield replace(python, executable=executable), "deny:arguments"
    yield Exec(("ls",), executable="/workspace/v/bin/ls"), "deny:arguments"
    yield Exec(("pip",), executable="/workspace/v/bin/pip"), "allow"
    yield from _files()
    shell = ("bash", "-o", "pipefail", "-c")
    yield Exec((*shell, "ls > keep/x")), "deny:paths"
    yield Exec((*shell, "ls > ../x"), cwd="/workspace/a/b"), "deny:default"  # tee has no rule
    yield Exec((*shell, "ls > ../../../x"), cwd="/workspace/a/b"), "deny:paths"
    yield Exec((*shell, "cd ..; ls"), cwd="/workspace/a"), "allow"
    yield Exec((*shell, "cd ../..; ls"), cwd="/workspace/a"), "deny:arguments"
    yield Exec((*shell, "x" * 40_000)), "deny:shell"
    yield Exec((*shell, "( " * 70 + "ls" + " )" * 70)), "deny:shell"
    yield Exec((*shell, "( " * 20 + "ls" + " )" * 20)), "allow"
    yield Exec((*shell, "ls;" * 200)), "allow"
    yield Exec((*shell, "ls;" * 400)), "deny:shell"
    yield Exec((*shell, "echo " + "${a:-" * 100 + "}" * 100)), "deny:shell"
    yield Exec((*shell, "\udcff")), "deny:shell"
    yield Exec((*shell, ";".join(f"cd d{i}" for i in range(7)))), "deny:arguments"
    yield Exec((*shell, ";".join(f"cd d{i}" for i in range(6)))), "allow"


def _files() -> Iterator[tuple[Command, str]]:
    good, bad = "/workspace/a", "/etc/passwd"
    kinds: tuple[Any, ...] = (ReadFile, ListDir, MakeDir, Stat)
    for kind in kinds:
        yield kind(good), "allow"
        yield kind(bad), "deny:paths"
        yield kind("a"), "deny:paths"
    yield WriteFile(good, b""), "allow"
    yield WriteFile(bad, b""), "deny:paths"
    yield ListDir("/workspace"), "allow"
    yield WriteFile("/workspace", b""), "deny:paths"
    yield MakeDir("/workspace"), "deny:paths"
    yield Remove("/workspace"), "deny:paths"
    yield Remove(good), "deny:autonomous"
    yield WriteFile("/workspace/keep/x", b""), "deny:workspace.protected"
    yield MakeDir("/workspace/keep/x"), "deny:workspace.protected"
    yield WriteFile("/workspace/a.lock", b""), "deny:workspace.protected"
    yield ReadFile("/workspace/a.lock"), "allow"
    yield ReadFile(5), "deny:paths"  # type: ignore[arg-type]
    yield WriteFile(good, bytes(256 << 20)), "allow"
    yield WriteFile(good, bytes((256 << 20) + 1)), "deny:paths"
    for mode, fine in ((0o777, True), (0, True), (-1, False), (0o1000, False), (None, True)):
        yield WriteFile(good, b"", mode=mode), "allow" if fine else "deny:paths"
    for size, fine in ((0, True), (256 << 20, True), ((256 << 20) + 1, False), (-1, False)):
        yield ReadFile(good, max_bytes=size), "allow" if fine else "deny:paths"


def broken() -> list[str]:
    """Return what does not hold."""
    judge = engine().judge
    found = []
    for command, expected in commands():
        verdict = judge(command)
        decision, _, rule = expected.partition(":")
        if verdict.decision != decision or (rule and verdict.rule != rule):
            found.append(f"{str(command)[:200]}: expected {expected}, got {verdict}")
    found += [text for text, holds in facts() if not holds]
    return found


def facts() -> Iterator[tuple[str, bool]]:
    """Yield single facts."""
    yield "autonomous removes", engine(autonomous=True).judge(Remove("/workspace/a")).allowed
    never, always = engine(TEXT + "autonomous: never\n", autonomous=True), engine(TEXT + "autonomous: always\n")
    yield "never stays never", "never" in never.judge(Remove("/workspace/a")).reason
    yield "the flag is named", "--autonomous" in engine().judge(Remove("/workspace/a")).reason
    yield "always removes", always.judge(Remove("/workspace/a")).allowed
    yield "reading is read-only", engine().explain(ReadFile("/workspace/a")).risk.word == "read-only"
    yield "writing is write", engine().explain(WriteFile("/workspace/a", b"")).risk.word == "write"
    yield "a refused form is dangerous", engine().explain(Exec(())).risk.word == "dangerous"
    yield "no deadline is named", "no deadline" in engine().judge(replace(LS, timeout_s=None)).reason
    yield "a deadline is named", "61s" in engine().judge(replace(LS, timeout_s=61.0)).reason
    yield "pip is packages", "packages" in engine("version: 1\n").judge(Exec(("pip",))).reason
    yield "ls is not packages", "add this" in engine("version: 1\n").judge(LS).reason
    limited = engine("version: 1\ncommands: [{allow: find, at_most: read-only}]")
    yield "the ceiling is named", "read-only arguments only" in limited.judge(Exec(("find", "-delete"))).reason
    yield "the place is named", "line 2, column 3" in engine().judge(line("ls;\n  rm x")).reason
    note = engine().judge(line("ls > x"))
    yield "a redirection is named", "writing to 'x' counts as tee" in note.reason
    yield from _reason_facts()
    yield from _limit_facts()
    yield from _layer_facts()
    yield from _path_facts()
    yield from _variable_facts()


def line(text: str) -> Exec:
    return Exec(("bash", "-o", "pipefail", "-c", text))


def _reason_facts() -> Iterator[tuple[str, bool]]:
    judge = engine(
        "version: 1\ncommands: [{allow: [bash, tee, env]}, {ask: ls}, {deny: rm}, {deny: wc, reason: no}]"
    ).judge
    yield "an allow says which rule", judge(Exec(("tee",))).reason == "the rule 'tee' allows it"
    yield "an ask says what", judge(Exec(("ls", "a"))).reason == "the rule 'ls' asks about ls a"
    yield "a deny says what", judge(Exec(("rm", "a"))).reason == "the rule 'rm' denies rm a"
    yield "a reason is told", judge(Exec(("wc",))).reason == "no"
    yield "an inner place", judge(line("env rm")).reason.startswith("in bash, line 1, column 1, env: the rule")
    yield "a nested place", judge(line("ls; sh -c rm")).reason.startswith("in bash, line 1, column 5: no rule")
    yield "an outer fault has no place", judge(Exec(("/x",))).reason.startswith("'/x' is a path")
    yield "an allowed redirection is not told", judge(line("tee > x")).reason == "the rule 'bash' allows it"
    yield (
        "other limited rules are not named",
        "add this" in engine("version: 1\ncommands: [{allow: find, at_most: read-only}]").judge(LS).reason,
    )


def _limit_facts() -> Iterator[tuple[str, bool]]:
    yield from _line_limits()
    yield from _input_facts()
    judge = engine("version: 1\ncommands: [{allow: [env, ls, bash]}]").judge
    yield "eight inside one another", judge(Exec((*["env"] * 8, "ls"))).allowed
    yield "nine inside one another", judge(Exec((*["env"] * 9, "ls"))).rule == "limits"
    yield "300 steps", judge(line("ls;" * 200 + f"bash -c '{'ls;' * 97}'")).allowed
    yield "301 steps", judge(line("ls;" * 200 + f"bash -c '{'ls;' * 98}'")).rule == "limits"


def _input_facts() -> Iterator[tuple[str, bool]]:
    judge = engine("version: 1\ncommands: [{allow: [bash, env, ls, cat]}]").judge
    for argv, text, fine in (
        (("bash",), b"ls", True),
        (("bash",), b"ls; rm x", False),
        (("bash", "-e"), b"rm x", False),
        (("bash", "-s"), b"rm x", False),
        (("env", "bash"), b"rm x", False),
        (("env", "bash"), b"ls", True),
        (("bash", "x.sh"), b"rm x", True),
        (("bash", "-c", "ls"), b"rm x", True),
        (("cat",), b"rm x", True),
        (("bash",), b"\xff", False),
    ):
        yield f"input of {argv}: {text!r}", judge(Exec(argv, stdin=text)).allowed is fine
    yield (
        "the place in the input",
        judge(Exec(("bash",), stdin=b"ls; rm x")).reason.startswith(
            "in bash's input, line 1, column 5: no rule allows rm"
        ),
    )
    inside = judge(Exec(("env", "bash"), stdin=b"rm x")).reason
    yield "the place in an inner shell's input", inside.startswith("in env, bash's input, line 1, column 1: no rule")
    yield (
        "no input is no line",
        len(engine("version: 1\ncommands: [{allow: bash}]").explain(Exec(("bash",))).steps) == 1,
    )


def _line_limits() -> Iterator[tuple[str, bool]]:
    longest = "ls " + "x" * (32 * 1024 - 3)
    yield "the longest line", _fault(longest) == ""
    yield "a longer line", "longer than" in _fault(longest + "x")
    yield "most statements", _fault("x=1\n" * 4999) == ""
    yield "one more statement", "too long" in _fault("x=1\n" * 5000)
    yield "most leaves", _fault("ls\n" * 257) == ""
    yield "one more leaf", "too long" in _fault("ls\n" * 258)
    yield "deepest", _fault("( " * 58 + "ls" + " )" * 58) == ""
    yield "one deeper", "too deep" in _fault("( " * 59 + "ls" + " )" * 59)
    yield "deepest word", _fault("echo " + "${a:-" * 60 + "}" * 60) == ""
    yield "one deeper word", "too deep" in _fault("echo " + "${a:-" * 61 + "}" * 61)
    yield "the place of an error", _fault("ls\nls )").endswith("(line 2, column 4)")
    yield "the kind of a statement", "a function definition is" in _fault("f() { ls; }")
    yield "the kind of a token", "'select' is" in _fault("select x in a; do ls; done")
    yield "a pattern covers no empty argv", not parse_pattern("ls").matches(())
    yield "64 words", len(parse_pattern("ls" + " x" * 63).elements) == 63
    for text in ("ls" + " x" * 64, "ls (a", "* x", "** x", "{a} x", "[a] x", "p* x", "(a|b*) x", "ls 'a", "", "/a"):
        yield f"no pattern: {text[:9]}", _is_no_pattern(text)
    yield "the program [", parse_pattern("[").programs == ("[",)


def _is_no_pattern(text: str) -> bool:
    try:
        parse_pattern(text)
    except ValueError:
        return True
    return False


def _fault(text: str) -> str:
    try:
        leaves(text)
    except ShellFault as fault:
        return str(fault)
    return ""


def _layer_facts() -> Iterator[tuple[str, bool]]:
    rules = "version: 1\ncommands: [{allow: [ls, wc, cat, bash]}]"
    layers = ("commands: [{ask: wc}, {deny: cat}]", "commands: [{allow: [ls, wc, cat, bash, tee]}]")
    for index, (text, expected) in enumerate(
        [("ls", "allow:commands[0]"), ("wc", "ask:other:commands[0]"), ("cat", "deny:other:commands[1]"),
         ("tee", "deny:default")]
    ):  # fmt: skip
        verdict = layered(rules, layers[0]).judge(Exec((text,)))
        yield f"layer {index} {text}", f"{verdict.decision}:{verdict.rule}" == expected
    both = layered(rules, layers[1])
    yield "equal verdicts name the base", both.judge(LS).rule == "commands[0]"
    yield "the base must allow", both.judge(Exec(("tee",))).rule == "default"
    narrow = layered(rules, "commands: [{allow: wc}]").judge(LS)
    yield "a layer that allows denies the rest", (narrow.decision, narrow.rule) == ("deny", "other:default")
    yield (
        "builtins need no rule in any layer",
        layered(rules, "commands: [{allow: [bash, ls]}]").judge(line("cd a; ls")).allowed,
    )


def layered(base: str, other: str) -> PolicyEngine:
    from mindx.policy.model import CommandLayer, MergedPolicy

    policy = parse_policy(base.encode(), source="base").policy
    rules = parse_policy(f"version: 1\n{other}".encode(), source="other").policy.commands
    merged = MergedPolicy(commands=policy.commands, tightened_by=(CommandLayer(name="other", rules=rules),))
    return PolicyEngine(merged, autonomous=False)


def _path_facts() -> Iterator[tuple[str, bool]]:
    names = {"a": "/workspace/a", "./a//b/": "/workspace/a/b", "b/..": "/workspace", "//workspace//a": "/workspace/a",
             "/workspace": "/workspace", "x" * 255: "/workspace/" + "x" * 255}  # fmt: skip
    for text, expected in names.items():
        yield f"resolve {text}", resolve(text) == expected
    codes = {"": "path_empty", "a\0": "path_invalid", "\ud800": "path_invalid", "x" * 256: "path_too_long",
             "a/" * 2043 + "bb": "path_too_long", "..": "path_outside", "a/../..": "path_outside",
             "/": "path_outside", "/etc": "path_outside", "/workspaces": "path_outside"}  # fmt: skip
    for text, code in codes.items():
        yield f"refuse {text[:20]!r}", _code(text) == code
    yield "longest", len(resolve("a/" * 2042 + "a")) == 4096
    yield "too long itself", _code("/workspace" + "/." * 2044) == "path_too_long"
    yield "long but normal", resolve("/workspace" + "/." * 2043) == "/workspace"
    yield "relative to cwd", resolve("../b", "/workspace/a") == "/workspace/b"
    yield "bad cwd", _code("a", "/etc") == "path_outside"
    yield "relative cwd of that name", _code("a", "workspace") == "path_outside"
    yield "shown in full", "..." not in _message("../" + "x" * 77)
    yield "relative cwd", _code("a", "x") == "path_outside"
    yield "absolute ignores cwd", resolve("/workspace/a", "/workspace/b") == "/workspace/a"
    yield "inside", inside("/workspace/a") and inside("/workspace")
    for text in ("a", "/workspace/", "//workspace", "/etc", "/workspace/a/..", ""):
        yield f"not inside {text}", not inside(text)
    yield "shown", "..." in _message("../" + "x" * 100) and "'../a'" in _message("../a")


def _code(text: str, cwd: str = "/workspace") -> str:
    try:
        resolve(text, cwd)
    except PathRefused as refused:
        return refused.code
    return ""


def _message(text: str) -> str:
    try:
        resolve(text)
    except PathRefused as refused:
        return refused.message
    return ""


def _variable_facts() -> Iterator[tuple[str, bool]]:
    yield "IFS in a line", variable_problem("IFS", ",", in_line=True) is None
    yield "IFS outside", variable_problem("IFS", ",") is not None
    yield "LD in a line", variable_problem("LD_PRELOAD", ",", in_line=True) is not None
    yield "NUL", encoded_size("\0") is None
    yield "size", encoded_size("é") == 2
