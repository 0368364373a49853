"""Globs: no pattern and no name keep a machine busy, and what they match is what pathspec and git say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec, RegexPattern

from mindx.core.command import Exec
from mindx.policy.engine import PolicyEngine
from mindx.policy.globs import bounded, gitignore, words
from mindx.policy.load import parse_policy

PIECES = ["a", "b", "*", "**", "/", "?", "[ab]", "[!a]", "\\*", ".", "/**/", "**/", "/**"]
NAMES = st.text("aab.*", min_size=1, max_size=4)


def spans(regex: re.Pattern[str], path: str) -> list[object]:
    found = regex.finditer(path)
    return [(match.span(), match.start("ps_d") if "ps_d" in regex.groupindex else None) for match in found]


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=9), st.lists(NAMES, min_size=1, max_size=6), st.booleans()
)
def test_the_same_is_matched(pieces: list[str], names: list[str], is_directory: bool) -> None:
    try:
        (pattern,) = GitIgnoreSpec.from_lines(["".join(pieces)]).patterns
    except ValueError:
        return
    if isinstance(pattern, RegexPattern) and pattern.regex is not None:
        # In git no set holds a slash; pathspec's [!a] does.
        theirs = re.compile(pattern.regex.pattern.replace("[^a]", "[^/a]"))
        path = "/".join(names) + "/" * is_directory
        assert spans(bounded(pattern.regex), path) == spans(theirs, path)


@given(st.lists(st.text("ab.*", max_size=2), min_size=2, max_size=5), st.text("ab.*\n", max_size=12))
def test_the_same_words_are_matched(pieces: list[str], word: str) -> None:
    theirs = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
    assert bool(words(pieces).fullmatch(word)) == bool(theirs.fullmatch(word))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 500 + "*b", "a" * 255),
        ("[!b]*" * 100 + "z", "a" * 255),
        ("**/a" * 200 + "/b", "a/" * 2000 + "c"),
        ("a/**/" * 200 + "b", "a/" * 2000 + "c"),
        ("**/*a*a*a*b/**/*a*a*c/x", ("a" * 50 + "/") * 80),
        ("a*" * 200 + "/**/" + "*a" * 100 + "b", "/".join(["a" * 255] * 16)),
    ],
)
def test_many_stars_and_a_long_name_come_to_an_end(pattern: str, path: str) -> None:
    assert not gitignore([pattern]).match_file(path)


def test_many_stars_in_a_rule_and_a_long_word_come_to_an_end() -> None:
    text = f"version: 1\ncommands:\n  - allow: cat\n  - deny: cat {'*a' * 20}*b\n"
    engine = PolicyEngine(parse_policy(text.encode(), source="x").policy, autonomous=False)
    assert engine.judge(Exec(("cat", "a" * 120_000))).allowed
    assert not engine.judge(Exec(("cat", "a" * 120_000 + "b"))).allowed


def test_a_line_feed_is_a_character_like_others() -> None:
    assert gitignore([".env"]).match_file("a\nb/.env")
    assert not gitignore(["x"]).match_file("x\n")
