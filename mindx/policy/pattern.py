"""Patterns of command rules: a program, then words, `*`, `**`, alternatives and options.

    git                     git with any arguments (a program alone ends in an unwritten **)
    git status **           `**`: any number of words; `*`: one word; `*.py`: one word of that form
    (pytest|ruff) src       `(a|b)`: one of these words
    ls [-l|-a] *            `[a|b]`: one of these words, or none
    ls {-l|-a|--all} **     `{a|b}`: any number of these words, in any order; `-la` counts as both
    grep 'a b' **           quotes take the meaning from every character between them

An allow rule is read narrowly: only what is written. Deny and ask are read widely, so that nothing slips by: more words
may follow; options may stand between the words; an option is found wherever it stands, `-r` also in `-fr`, `--force`
also as `--for` or `--force=1`; and a word that only the shell will know may be any word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal

from mindx.core.frozen import dataclass
from mindx.policy.globs import words
from mindx.policy.words import PROGRAM_NAME, Argv, Dynamic

Kind = Literal["literal", "glob", "any", "rest", "oneof", "optional", "options"]
_OPENERS = {"(": ")", "[": "]", "{": "}"}
_GROUPS: dict[str, Kind] = {"(": "oneof", "[": "optional", "{": "options"}
MAX_ELEMENTS = 64


@dataclass(frozen=True, slots=True)
class Element:
    """One part of a pattern; `items` are the words that it stands for."""

    kind: Kind
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One word of an element: its text, or a regular expression when it holds an unquoted `*`."""

    text: str
    regex: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """One parsed pattern. `specificity` orders patterns: the greater one says more."""

    text: str
    programs: tuple[str, ...]
    elements: tuple[Element, ...]
    specificity: tuple[int, int, int]
    needed: tuple[frozenset[str], ...] = ()  # of each set a match has a word, unless one is dynamic: for a quick no

    def matches(self, argv: Argv, *, wide: bool = False) -> bool:
        """Return True when the pattern covers this argv: read narrowly (allow), or widely (ask, deny)."""
        if not argv or argv[0] not in self.programs:
            return False
        fits = _fits_wide if wide else _fits
        states, after_option = self._skip({0}), False
        for word in argv[1:]:
            loose = wide and (after_option or word.startswith("-"))
            states = self._skip(self._step(states, word, fits, wide, loose))
            after_option = word.startswith("-")
            if not states:
                return False
        return len(self.elements) in states

    def _step(
        self, states: set[int], word: str, fits: Callable[[Item, str], bool], wide: bool, loose: bool
    ) -> set[int]:
        """Return the places in the pattern after one more word; `loose`: an option or its value may stand here."""
        many = isinstance(word, Dynamic) and word.many
        after: set[int] = set()
        for state in states:
            if state == len(self.elements):
                after |= {state} if wide else set()
                continue
            element = self.elements[state]
            if loose or element.kind == "rest" or (wide and _is_option(element)):
                after.add(state)
            if many:
                after |= set(range(state, len(self.elements) + 1)) if wide else set()
            elif element.kind == "any":
                after.add(state + 1)
            elif any(fits(item, word) for item in element.items) or _bundled(element, word):
                after.add(state if element.kind == "options" else state + 1)
        return after

    def _skip(self, states: set[int]) -> set[int]:
        """Return the places, and those that need no word to be reached from them."""
        reached = set(states)
        for state in sorted(states):
            while state < len(self.elements) and self.elements[state].kind in ("rest", "optional", "options"):
                state += 1
                reached.add(state)
        return reached


def _is_option(element: Element) -> bool:
    return bool(element.items) and all(item.text.startswith("-") for item in element.items)


def _fits(item: Item, word: str) -> bool:
    if isinstance(word, Dynamic):
        return False
    return item.regex.fullmatch(word) is not None if item.regex else item.text == word


def _fits_wide(item: Item, word: str) -> bool:
    if isinstance(word, Dynamic):
        return item.regex is not None or item.text.startswith(word.prefix) or word.prefix.startswith("-")
    if _fits(item, word):
        return True
    name = item.text.split("=", 1)[0]
    if name.startswith("--"):
        given = word.split("=", 1)[0]
        return len(given) > 2 and name.startswith(given)
    return len(name) == 2 and name[0] == "-" and word[0:1] == "-" and word[1:2] != "-" and name[1] in word[1:]


def _bundled(element: Element, word: str) -> bool:
    """Return True when `-ab` is made of options of the element, one letter each."""
    if element.kind != "options" or not re.fullmatch(r"-[A-Za-z0-9]{2,}", word):
        return False
    letters = {item.text[1] for item in element.items if re.fullmatch(r"-[A-Za-z0-9]", item.text)}
    return set(word[1:]) <= letters


@lru_cache(maxsize=8192)
def parse_pattern(text: str) -> Pattern:
    """Return the pattern. Raises ValueError that says where it goes wrong and what to write."""
    tokens = list(_tokens(text))
    if not tokens:
        raise ValueError("a pattern is empty; begin with a program's name")
    if len(tokens) > MAX_ELEMENTS:
        raise ValueError(f"a pattern has more than {MAX_ELEMENTS} words")
    programs = _programs(tokens[0], text)
    elements = tuple(tokens[1:]) or (Element("rest"),)
    literals = len(programs) == 1
    exact = sum(element.kind == "literal" for element in elements) + literals
    partial = sum(element.kind in ("glob", "oneof") for element in elements) + (not literals)
    single = sum(element.kind == "any" for element in elements)
    needed = tuple(
        frozenset(item.text for item in element.items)
        for element in elements
        if element.kind in ("literal", "oneof") and not any(i.regex or i.text.startswith("-") for i in element.items)
    )
    return Pattern(text, programs, elements, (exact, partial, single), needed)


def _programs(first: Element, text: str) -> tuple[str, ...]:
    if first.kind not in ("literal", "oneof", "glob"):
        raise ValueError(f"{text[:80]!r} must begin with the name of a program, or with (one|or|another)")
    for item in first.items:
        if PROGRAM_NAME.fullmatch(item.text) is None:
            raise ValueError(f"{item.text[:80]!r} is not a program name; write one such as python3, without a path")
    return tuple(item.text for item in first.items)


def _tokens(text: str) -> Iterator[Element]:
    position = 0
    while position < len(text):
        char = text[position]
        if char in " \t\n":
            position += 1
        elif char in _OPENERS and text[position : position + 2] != "[ " and text[position:] != "[":
            close = _closing(text, position)
            items = tuple(_item(part, text) for part in _split(text[position + 1 : close]))
            if close + 1 < len(text) and text[close + 1] not in " \t\n":
                raise ValueError(f"{text[:80]!r}: put a space after {_OPENERS[char]}, or quote it")
            yield Element(_GROUPS[char], items)
            position = close + 1
        else:
            end = _word_end(text, position)
            yield _word(text[position:end], text)
            position = end


def _word(word: str, text: str) -> Element:
    if word == "**":
        return Element("rest")
    if word == "*":
        return Element("any")
    item = _item(word, text)
    return Element("glob" if item.regex else "literal", (item,))


def _item(word: str, text: str) -> Item:
    word = word.strip()
    if not word:
        raise ValueError(f"{text[:80]!r}: an alternative is empty; write [a] for a word that may be absent")
    if word in ("*", "**"):
        raise ValueError(f"{text[:80]!r}: {word} cannot be an alternative; write it as a word of its own")
    pieces, position = [""], 0
    while position < len(word):
        char = word[position]
        if char in "'\"":
            end = word.index(char, position + 1)
            pieces[-1] += word[position + 1 : end]
            position = end + 1
            continue
        if char in "()[]{}|" and word != "[":
            raise ValueError(f"{text[:80]!r}: quote {char} if you mean the character itself")
        if char == "*":
            pieces.append("")
        else:
            pieces[-1] += char
        position += 1
    return Item("*".join(pieces), words(pieces) if len(pieces) > 1 else None)


def _word_end(text: str, position: int) -> int:
    while position < len(text) and text[position] not in " \t\n":
        position = _after_quote(text, position) if text[position] in "'\"" else position + 1
    return position


def _closing(text: str, position: int) -> int:
    close, position = _OPENERS[text[position]], position + 1
    while position < len(text):
        if text[position] == close:
            return position
        position = _after_quote(text, position) if text[position] in "'\"" else position + 1
    raise ValueError(f"{text[:80]!r}: {close} is missing")


def _after_quote(text: str, position: int) -> int:
    end = text.find(text[position], position + 1)
    if end < 0:
        raise ValueError(f"{text[:80]!r}: a quote is not closed")
    return end + 1


def _split(text: str) -> Iterator[str]:
    start = position = 0
    while position < len(text):
        if text[position] == "|":
            yield text[start:position]
            start = position = position + 1
        else:
            position = _after_quote(text, position) if text[position] in "'\"" else position + 1
    yield text[start:]
