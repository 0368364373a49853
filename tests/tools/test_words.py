"""Command lines: split as a POSIX shell splits them, and refused where only a shell could go on."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindx.tools.words import WordsError, split_words

WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(WORD, min_size=1, max_size=5))
def test_what_is_quoted_for_a_shell_comes_back(words: list[str]) -> None:
    assert split_words(shlex.join(words)) == tuple(words)


@given(st.lists(WORD, min_size=1, max_size=5), st.sampled_from([" ", "\t", "  ", " \\\n", "\\\n "]))
def test_double_quotes_work_too(words: list[str], blank: str) -> None:
    def quote(word: str) -> str:
        return '"' + "".join("\\" + char if char in '$`"\\' else char for char in word) + '"'

    assert split_words(blank.join(map(quote, words))) == tuple(words)


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("ab \\'\"$`|&;<>()*?[~#=\n\t1{}!"), max_size=12))
def test_what_is_accepted_is_what_a_shell_would_pass_on(line: str) -> None:
    try:
        words = split_words(f"printf {line}")
    except WordsError:
        return
    script = f'p() {{ for w in "$@"; do printf \'%s\\0\' "$w"; done; }}; p printf {line}'
    shell = subprocess.run(["sh", "-c", script], capture_output=True, check=True, cwd="/proc/self/fdinfo")
    assert shell.stdout.decode().split("\0")[:-1] == list(words)


@given(st.text(max_size=20))
def test_never_anything_but_words_or_a_reason(line: str) -> None:
    try:
        words, reason = split_words(line), ""
    except WordsError as error:
        words, reason = (), error.message
    assert bool(words) != bool(reason)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("python main.py", ("python", "main.py")),
        ("  a\t b \n", ("a", "b")),
        ("a ''", ("a", "")),
        ("a\\ b", ("a b",)),
        ("a b\\ ", ("a", "b ")),
        ("a'b c'\"d e\"f", ("ab cd ef",)),
        ('"\\$x \\n"', ("$x \\n",)),
        ("echo 'a|b' \"c;d\" e\\&f", ("echo", "a|b", "c;d", "e&f")),
        ("echo a#b x=y b~", ("echo", "a#b", "x=y", "b~")),
        ('echo 5$ "100$"', ("echo", "5$", "100$")),
        ("a \\\n b", ("a", "b")),
        ("a\\\nb", ("ab",)),
    ],
)
def test_words(line: str, words: tuple[str, ...]) -> None:
    assert split_words(line) == words


@pytest.mark.parametrize(
    ("line", "named", "advice"),
    [
        ("cat a | grep b", "`|` feeds one program into another", "`shell`"),
        ("a && b", "`&`", "step of its own"),
        ("a; b", "`;` runs programs in a row", "step of its own"),
        ("a\nb", "a new line", "step of its own"),
        ("a > f", "`>` writes the output to a file", "`write` step"),
        ("a < f", "`<` reads standard input", "`stdin`"),
        ("(a)", "`(` starts a sub-shell", "`shell`"),
        ("echo `a`", "a backquote", "`shell`"),
        ('echo "`a`"', "a backquote", "`shell`"),
        ("echo $HOME", "`$` puts a value in its place", "the value itself"),
        ('echo "$(a)"', "`$` puts a value in its place", "single quotes"),
        ("ls *.py", "`*` stands for file names", "name the files"),
        ("ls ?", "`?` stands for file names", "name the files"),
        ("pip install a[b]", "`[` stands for file names", "single quotes"),
        ("ls ~/x", "`~` stands for the home folder", "name the folder"),
        ("ls # all", "`#` begins a comment", "remove it"),
        ("A=1 python x.py", "`A=` sets a variable", "env_set"),
        ("echo 'a", "a single quote is not closed", "apostrophe"),
        ('echo "a', "a double quote is not closed", "close it"),
        ("a \\", "a backslash at the end", ""),
        ("  \n", "the command line is empty", "name a program"),
    ],
)
def test_what_needs_a_shell_is_refused_and_says_what_to_do(line: str, named: str, advice: str) -> None:
    with pytest.raises(WordsError) as caught:
        split_words(line)
    assert named in caught.value.message
    assert advice in caught.value.suggestion


def test_a_long_line_is_split_in_time_that_grows_with_its_length() -> None:
    assert split_words("x " * 300_000 + "'" + "y" * 400_000 + "'")[-1] == "y" * 400_000
