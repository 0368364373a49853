"""YAML, hardened: a small, closed subset of it, read event by event, with the place of every value.

Scalars stay text (plain `null`, `~` and nothing become None): the model decides what a value means, so `no` and `1:30`
are not turned into something else. Refused: tags, anchors, aliases, duplicate keys, several documents, a byte-order
mark, control characters, and what is too big, too deep or too long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from mindx.core.fault import Fault

MAX_FILE_BYTES = 1024 * 1024
MAX_DEPTH = 12
MAX_VALUES = 50_000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Path = tuple["str | int", ...]


@dataclass
class Document:
    """Plain values (dict, list, str, None), and where each value and each key began, as (line, column) from 1."""

    value: Any = None
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, path: Path, message: str, suggestion: str = "", *, at_key: bool = False) -> Fault:
        """Return a fault at the nearest known place of a path: of its value, or of its key."""
        known = path
        while known and known not in self.places:
            known = known[:-1]
        line, column = (self.keys if at_key and known in self.keys else self.places).get(known, (None, None))
        return Fault(json_path(path), line, message, suggestion, column=column)


def json_path(path: Path) -> str:
    """Return `$.limits.memory`, `$.commands[3].allow`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def read_document(data: bytes) -> Document:
    """Return the document in `data`. Faults are in `.faults`; then the value may be incomplete and must not be used."""
    document = Document()
    text = _decode(data, document)
    if text is None:
        return document
    try:
        _Builder(document, yaml.parse(text, Loader=_LOADER)).build()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or "it is not YAML"
        place = (mark.line + 1, mark.column + 1) if mark else (None, None)
        document.faults.append(Fault("$", place[0], f"not readable as YAML: {problem}", column=place[1]))
    except _Stop:
        pass
    return document


def _decode(data: bytes, document: Document) -> str | None:
    def refuse(message: str, suggestion: str, line: int = 1) -> None:
        document.faults.append(Fault("$", line, message, suggestion, column=1))

    if len(data) > MAX_FILE_BYTES:
        refuse(f"the file has more than {MAX_FILE_BYTES} bytes", "write a shorter policy")
        return None
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        refuse("the file begins with a byte-order mark", "save it as plain UTF-8, without a BOM")
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse("the file is not UTF-8", "save it as UTF-8", data.count(b"\n", 0, error.start) + 1)
        return None
    for number, line in enumerate(text.split("\n"), 1):
        bad = next((c for c in line if not c.isprintable() and c not in "\t\r"), None)
        if bad is not None:
            refuse(f"the file holds the unprintable character {bad!a}", "remove it", number)
            return None
    if not text.strip():
        refuse("the file is empty", "write at least: version: 1")
        return None
    return text


class _Stop(Exception):
    """Reading on makes no sense."""


class _Builder:
    """Builds the value from the parser's events, without YAML's own composer and its recursion and aliases."""

    def __init__(self, document: Document, events: Iterator[Any]) -> None:
        self.document = document
        self.events = events
        self.count = 0
        self.documents = 0

    def build(self) -> None:
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.documents += 1
                if self.documents > 1:
                    self._stop(event, "a second document begins here", "write one document, without another ---")
                if event.tags or event.version:
                    self._stop(event, "YAML directives (%) are not supported", "remove the line")
            elif isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent, yaml.AliasEvent)):
                self.document.value = self._value(event, ())

    def _value(self, event: Any, path: Path) -> Any:
        self.document.places.setdefault(path, _place(event))
        self.count += 1
        if self.count > MAX_VALUES or len(path) > MAX_DEPTH:
            self._stop(event, f"more than {MAX_VALUES} values or {MAX_DEPTH} levels", "write a simpler policy")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._fault(event, path, "YAML anchors and aliases (& and *) are not supported", "write the value in full")
        elif event.tag is not None:
            self._fault(event, path, f"the YAML tag {event.tag[:40]} is not supported", "write the plain value")
        if isinstance(event, yaml.AliasEvent):
            return None
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        return None if event.style is None and event.value in ("", "~", "null") else event.value

    def _sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            unknown: Path = (*path, "?")
            key = self._value(event, unknown)
            del self.document.places[unknown]
            name = key if isinstance(key, str) else "?"
            at: Path = (*path, name)
            if name == "<<" or not isinstance(key, str):
                self._fault(event, path, "this is not a key that a policy can have", "write a plain name and a colon")
            elif name in items:
                message = f"the key {name[:80]} is written twice, first on line {self.document.keys[at][0]}"
                self._fault(event, at, message, "keep one of them")
            self.document.keys[at] = _place(event)
            items[name] = self._value(next(self.events), at)
        return items

    def _fault(self, event: Any, path: Path, message: str, suggestion: str) -> None:
        line, column = _place(event)
        self.document.faults.append(Fault(json_path(path), line, message, suggestion, column=column))

    def _stop(self, event: Any, message: str, suggestion: str) -> None:
        self._fault(event, (), message, suggestion)
        raise _Stop


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
