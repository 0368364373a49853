import random
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindx.core.command import Exec
from mindx.core.table import keys_of
from mindx.errors import InputError
from mindx.policy.engine import PolicyEngine
from mindx.policy.layers import Layer, merge
from mindx.policy.load import LoadedPolicy, parse_policy
from mindx.policy.model import Limits, Policy
from mindx.policy.pattern import parse_pattern
from mindx.policy.risk import Risk, classify, table
from mindx.policy.rules import STRICTNESS
from mindx.policy.shell import leaves
from mindx.policy.shell_leaf import ShellFault
from mindx.policy.words import Dynamic
from mindx.policy.wrappers import inner

QUICK = settings(deadline=None, max_examples=150)
words = st.sampled_from(["a", "b", "ab", "-a", "-b", "-ab", "--all", "a.txt", "x y", "*", "(", ""])
elements = st.sampled_from(["a", "b", "-a", "*", "**", "*.txt", "(a|b)", "[-a|b]", "{-a|-b}", "'*'", "--all"])

LIMITS = [item.name for item in keys_of(Limits)]


def regex_of(element: str) -> str:
    """Return a regular expression over words that end in NUL: the meaning of an element, told another way."""
    if element == "*":
        return "[^\0]*\0"
    if element == "**":
        return "(?:[^\0]*\0)*"
    if element[0] in "([{":
        inside = "|".join(re.escape(word) + "\0" for word in element[1:-1].split("|"))
        bundle = "|-[ab]{2,}\0" if element[0] == "{" else ""
        return f"(?:{inside}{bundle})" + {"(": "", "[": "?", "{": "*"}[element[0]]
    if element.startswith("'"):
        return re.escape(element[1:-1]) + "\0"
    return re.escape(element).replace(r"\*", "[^\0]*") + "\0"


@QUICK
@given(st.lists(elements, min_size=1, max_size=5), st.lists(words, max_size=6))
def test_a_pattern_read_narrowly_means_what_its_regular_expression_means(parts: list[str], argv: list[str]) -> None:
    pattern = parse_pattern(" ".join(["p", *parts]))
    expected = re.fullmatch("".join(map(regex_of, parts)), "".join(word + "\0" for word in argv), re.DOTALL)
    assert pattern.matches(("p", *argv)) is (expected is not None)


@QUICK
@given(st.lists(elements, max_size=5), st.lists(words, max_size=6), st.integers(0, 6))
def test_what_is_covered_narrowly_is_covered_widely_and_so_is_more_of_it(
    parts: list[str], argv: list[str], place: int
) -> None:
    pattern = parse_pattern(" ".join(["p", *parts]))
    if pattern.matches(("p", *argv)):
        assert pattern.matches(("p", *argv), wide=True)
        assert pattern.matches(("p", *argv, "more"), wide=True)
        assert pattern.matches(("p", *argv[:place], "-z", *argv[place:]), wide=True)
        assert pattern.matches(("p", *argv[:place], Dynamic("$x", many=True), *argv[place + 1 :]), wide=True)


@QUICK
@given(st.lists(elements, max_size=5), st.lists(words, max_size=5), st.integers(0, 5))
def test_a_word_that_nobody_knows_is_let_through_only_if_any_word_would_be(
    parts: list[str], argv: list[str], place: int
) -> None:
    pattern = parse_pattern(" ".join(["p", *parts]))
    if pattern.matches(("p", *argv[:place], Dynamic("$x"), *argv[place:])):
        for word in ("a", "-a", "--z", "qq", ""):
            assert pattern.matches(("p", *argv[:place], word, *argv[place:]))
    if pattern.matches(("p", *argv[:place], Dynamic("$x", many=True), *argv[place:])):
        for more in ((), ("a", "-a"), ("--z", "qq", "")):
            assert pattern.matches(("p", *argv[:place], *more, *argv[place:]))


programs = st.sampled_from(sorted({name.split()[0] for name in table()}))
any_word = st.one_of(words, st.text(max_size=5), st.builds(Dynamic, st.text(max_size=3), many=st.booleans()))


@QUICK
@given(programs, st.lists(any_word, max_size=5))
def test_classifying_and_looking_inside_never_fail(program: str, rest: list[str]) -> None:
    argv = (program, *rest)
    assert classify(argv) in Risk
    for found in inner(argv):
        assert bool(found.argv) + (found.line is not None) + bool(found.unknown) == 1


@QUICK
@given(programs, st.lists(words, max_size=3), st.integers(0, 3))
def test_a_word_that_nobody_knows_is_as_risky_as_the_worst_that_it_may_be(
    program: str, rest: list[str], place: int
) -> None:
    unknown = classify((program, *rest[:place], Dynamic("$x"), *rest[place:]))
    for word in ("a", "-a", "--all", "--output=x", "-exec"):
        known = classify((program, *rest[:place], word, *rest[place:]))
        assert unknown >= known or (rest[:place] and rest[place - 1].startswith("-"))


leaf = st.sampled_from(["ls", "wc -l", "cat 'a b'", 'echo "x $y"', "grep -r x .", "true"])
joint = st.sampled_from([" | ", " && ", " || ", "; ", "\n", " |& "])


def wrapped(line: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = ["( {} )", "{{ {}; }}", "if {}; then true; fi", "while {}; do true; done", "echo $( {} )", "! echo $( {} )"]
    forms += ["for i in a b; do {}; done", 'echo "$( {} )"', "cat <({})", "case x in a) {};; esac", "x=$( {} )"]
    return st.one_of(
        st.builds(lambda form, text: form.format(text), st.sampled_from(forms), line),
        st.builds(lambda left, by, right: left + by + right, line, joint, line),
    )


@QUICK
@given(st.recursive(leaf, wrapped, max_leaves=8))
def test_every_program_of_a_line_is_a_leaf(line: str) -> None:
    expected = sorted(re.findall(r"\b(ls|wc|grep)\b(?=[ \n;)|&]|$)", line))
    assert sorted(found.argv[0] for found in leaves(line) if found.argv[0] in ("ls", "wc", "grep")) == expected
    assert PolicyEngine(policy("commands: [{allow: bash}]"), autonomous=False).judge(Exec(("bash", "-c", line)))


@QUICK
@given(st.recursive(leaf, wrapped, max_leaves=6), st.integers(0, 40))
def test_one_forbidden_program_denies_the_line_wherever_it_stands(line: str, place: int) -> None:
    stops = [found.start() for found in re.finditer(r"\b(ls|wc -l|true)\b", line)]
    if not stops:
        return
    at = stops[place % len(stops)]
    changed = line[:at] + re.sub(r"^(ls|wc -l|true)", "rm", line[at:])
    engine = PolicyEngine(policy("commands: [{allow: [bash, ls, wc, cat, grep]}]"), autonomous=False)
    verdict = engine.judge(Exec(("bash", "-c", line)))
    assert verdict.allowed or "(line " in verdict.reason, "only what the grammar does not understand is denied"
    assert engine.judge(Exec(("bash", "-c", changed))).decision == "deny"


shell_text = st.lists(
    st.sampled_from(["ls", " ", "$", "(", ")", "{", "}", "`", "'", '"', "\\", "\n", ";", "|", "&", "<", ">", "<<EOF\n",
                     "EOF", "x", "=", "[", "]", "[[", "]]", "#", "*", "~", "$(", "${", "((", "do", "if", "then", "fi",
                     "for", "in", "case", "esac", "!", "1", "é", "eval ", "export "]),
    max_size=25,
).map("".join)  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(shell_text)
def test_any_text_is_taken_apart_or_refused_with_a_place(text: str) -> None:
    with pytest.raises(ShellFault, match=r"\(line \d+, column \d+\)$") if not sound(text) else nullcontext():
        for one in leaves(text):
            assert bool(one.argv) != (one.line is not None)
            assert not isinstance(one.argv[:1] and one.argv[0], Dynamic)


def sound(text: str) -> bool:
    try:
        leaves(text)
    except ShellFault:
        return False
    return True


def policy(text: str) -> Policy:
    return parse_policy(f"version: 1\n{text}\n".encode(), source="t").policy


layer_text = st.builds(
    lambda pids, memory, timeout, *rest: "\n".join(
        filter(None, [f"limits: {{{', '.join(filter(None, [pids, memory, timeout]))}}}", *rest])
    ),
    st.sampled_from(["", "pids: 64", "pids: 200"]),
    st.sampled_from(["", "memory: 1GiB", "memory: 2GiB", "memory: 1500MiB"]),
    st.sampled_from(["", "command_timeout: 5s", "command_timeout: 5m"]),
    st.sampled_from(["", "autonomous: never", "autonomous: always", "autonomous: flag"]),
    st.sampled_from(["", "approvals: {ask_from: write}", "approvals: {ask_from: dangerous, remember: never}"]),
    st.sampled_from(["", "workspace: {exclude: [a], secrets: [b]}", "workspace: {protected: [c]}"]),
    st.sampled_from(
        ["", "commands: [{allow: [ls, cat, rm]}, {deny: rm -f}]", "commands: [{deny: cat}, {ask: ls}]",
         "commands: [{allow: ls -l}]", "commands: [{ask: rm}, {allow: cat x}]"]
    ),
)  # fmt: skip
BATTERY = [("ls",), ("ls", "-l"), ("cat",), ("cat", "x"), ("rm", "x"), ("rm", "-f", "x"), ("wc",)]


def layer(name: str, text: str, trusted: bool = True) -> Layer:
    one = policy(text)
    return Layer(name, LoadedPolicy(one, name, one.sha256, name), trusted)  # type: ignore[arg-type]


def decision(one: Policy | PolicyEngine, argv: tuple[str, ...]) -> int:
    engine = one if isinstance(one, PolicyEngine) else PolicyEngine(one, autonomous=True)
    limits = engine.policy.limits
    asked = Exec(argv, timeout_s=limits.command_timeout_s, max_output_bytes=limits.output_bytes)
    return STRICTNESS[engine.judge(asked).decision]


@settings(deadline=None, max_examples=100)
@given(layer_text, st.lists(st.tuples(layer_text, st.booleans()), max_size=2))
def test_merging_is_never_looser_than_any_layer(base: str, others: list[tuple[str, bool]]) -> None:
    names = ("user", "project")
    layers = [layer(name, text, trusted) for name, (text, trusted) in zip(names, others, strict=False)]
    first = layer("command line", base)
    merged = merge(first, layers).loaded.policy
    for one in (first, *layers):
        for name in LIMITS:
            if one is first or name in one.policy.limits.given:
                assert getattr(merged.limits, name) <= getattr(one.policy.limits, name)
        for kind in ("exclude", "secrets", "protected"):
            assert set(getattr(one.policy.workspace, kind)) <= set(getattr(merged.workspace, kind))
        if one is first or "autonomous" in one.policy.given:
            assert merged.grants_autonomous(True) <= one.policy.grants_autonomous(True)
            assert merged.grants_autonomous(False) <= one.policy.grants_autonomous(False)
        for argv in BATTERY:
            own = one.policy if one.allows or one is first else None
            if own is not None:
                assert decision(merged, argv) >= decision(own, argv)
            else:
                rules = [rule for rule in one.policy.commands if rule.covers(argv)]
                if len(rules) == 1:
                    assert decision(merged, argv) >= STRICTNESS[rules[0].decision]


BASE = (Path(__file__).parent.parent.parent / "policies" / "python-dev.yaml").read_text()
NOISE = ["&", "*", "!", "!!int ", "%", "@", "`", "\t", "'", '"', "{", "}", "[", "]", ",", ":", "- ", "#", "|", ">", "?",
         "---\n", "...\n", "<<: ", "~", "null", "true", ".nan", ".inf", "-", "x", "E", " ", "\n", "\ufeff", "\0",
         "é"]  # fmt: skip


def mutated(seed: int) -> str:
    """Return the preset with noise: a piece put in or taken out, lines doubled, dropped, swapped or cut off."""
    rng = random.Random(seed)
    text = BASE
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        lines, at = text.splitlines(keepends=True), rng.randrange(len(text))
        line = rng.randrange(len(lines))
        kind = rng.choice(("insert", "insert", "delete", "double", "drop", "swap", "cut", "indent"))
        if kind == "insert":
            text = text[:at] + rng.choice(NOISE) + text[at:]
        elif kind == "delete":
            text = text[:at] + text[at + 1 :]
        elif kind == "cut":
            text = text[:at]
        else:
            if kind == "double":
                lines.insert(line, lines[line])
            elif kind == "drop":
                del lines[line]
            elif kind == "swap":
                lines[line - 1], lines[line] = lines[line], lines[line - 1]
            else:
                lines[line] = rng.choice((" ", "  ", "\t")) + lines[line]
            text = "".join(lines)
    return text


@pytest.mark.parametrize("first", [0, 250, 500, 750])
def test_a_thousand_spoilt_policy_files_are_refused_or_stricter(first: int) -> None:
    sound = parse_policy(BASE.encode(), source="sound").policy
    battery = [(rule_text,) for rule in sound.commands for rule_text in rule.texts]
    battery += [("rm", "x"), ("pip", "install"), ("curl",), ("env", "ls"), ("sudo", "ls"), ("ssh", "x"), ("chmod", "x")]
    engine = PolicyEngine(sound, autonomous=True)
    wanted = {argv: decision(engine, argv) for argv in battery}
    refused = told = 0
    for seed in range(first, first + 250):
        text = mutated(seed)
        try:
            spoilt = parse_policy(text.encode("utf-8", "surrogateescape"), source="spoilt").policy
        except InputError as error:
            refused += bool(error.code == "policy_invalid" and error.details["faults"])
            told += 1
            continue
        for name in LIMITS:
            assert getattr(spoilt.limits, name) <= getattr(sound.limits, name), (seed, name)
        assert spoilt.autonomous == "flag"
        engine = PolicyEngine(spoilt, autonomous=True)
        looser = [argv for argv in battery if decision(engine, argv) < wanted[argv]]
        assert not looser, (seed, looser)
    assert refused == told > 75


@pytest.mark.parametrize("text", ["ls 'a", "ls (a", "ls (a|)", "ls a|b", "(a b) x", "* x", "/bin/ls", "", "ls (*)"])
def test_a_pattern_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_pattern(text)
