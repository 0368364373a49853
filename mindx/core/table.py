"""Tables: frozen dataclasses that are read from what a person wrote, with every fault and no unknown key.

For files that an operator writes (policies, image definitions). It takes a tenth of the memory and of the start-up time
of a general validation library, and a client that only holds a session pays for neither; see docs/decisions/0006.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field
from typing import Any, Literal, TypeVar

from mindx.core.frozen import dataclass

Path = tuple["str | int", ...]
Schema = dict[str, Any]
T = TypeVar("T", bound="Table")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at `path`, below the table. An unknown key has the `known` ones beside it."""

    path: Path
    message: str
    kind: Literal["invalid", "unknown", "missing"] = "invalid"
    known: tuple[str, ...] = ()

    def below(self, part: str | int) -> Problem:
        """Return the same problem as its parent sees it."""
        return dataclasses.replace(self, path=(part, *self.path))


class TableError(ValueError):
    """A value cannot be used: `problems` are all that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(_told(problem) for problem in self.problems))


def _told(problem: Problem) -> str:
    where = ".".join(str(part) for part in problem.path)
    return f"{where}: {problem.message}" if where else problem.message


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value: `read` returns it from what was written, or raises ValueError that says what to write."""

    read: Callable[[Any], Any]
    schema: Schema


def key(kind: Kind, default: Any = MISSING, *, alias: str = "", schema_default: Any = MISSING) -> Any:
    """Declare a field of a Table: `alias` is its name in files, `schema_default` the default as people write it."""
    shown = default if schema_default is MISSING else schema_default
    return field(default=default, metadata={"kind": kind, "alias": alias, "shown": shown})


@dataclass(frozen=True, kw_only=True)
class Table:
    """A frozen table with a fixed set of keys; `given` names the fields that were written, not left to defaults.

    However one is made, every value is checked, and then `check` looks at them together; what is wrong raises
    TableError.
    """

    given: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values, problems = _read(type(self), {item.name: getattr(self, item.name) for item in keys_of(type(self))})
        if problems:
            raise TableError(problems)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Raise ValueError when the values do not fit together."""

    @classmethod
    def read(cls: type[T], value: object) -> T:
        """Return the table that a mapping with the names of files holds. Raises TableError with every problem."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise TableError([Problem((), "this must be a list of keys and values")])
        names = {written_name(item): item.name for item in keys_of(cls)}
        problems = [
            Problem((name,), f"unknown key {str(name)[:80]}", "unknown", tuple(names))
            for name in value
            if name not in names
        ]
        for item in keys_of(cls):
            if item.default is MISSING and written_name(item) not in value:
                problems.append(Problem((written_name(item),), "this key is missing", "missing"))
        known = {names[name]: one for name, one in value.items() if name in names}
        if problems:
            raise TableError([*problems, *_read(cls, known)[1]])
        try:
            table = cls(**known)
        except TableError:
            raise
        except ValueError as error:
            raise TableError([Problem((), str(error))]) from None
        object.__setattr__(table, "given", frozenset(known))
        return table

    def changed(self: T, **values: Any) -> T:
        """Return a copy with other values, which then count as given. Raises TableError."""
        copy = dataclasses.replace(self, **values)
        object.__setattr__(copy, "given", self.given | values.keys())
        return copy

    def written(self) -> dict[str, Any]:
        """Return what was given, under the names of files; it reads again as the same table."""
        return {
            written_name(item): _written(getattr(self, item.name))
            for item in keys_of(type(self))
            if item.name in self.given
        }

    def plain(self) -> dict[str, Any]:
        """Return every value, under the fields' own names, as JSON can hold it."""
        return {item.name: _plain(getattr(self, item.name)) for item in keys_of(type(self))}

    @classmethod
    def schema(cls) -> Schema:
        """Return the JSON Schema of the table; tables below it are in place."""
        properties = {}
        for item in keys_of(cls):
            shown = item.metadata["shown"]
            default = {} if shown is MISSING or isinstance(shown, Table) else {"default": _plain(shown)}
            properties[written_name(item)] = {**item.metadata["kind"].schema, **default}
        required = [written_name(item) for item in keys_of(cls) if item.default is MISSING]
        told = {"title": cls.__name__, "description": inspect.cleandoc(cls.__doc__ or "")}
        closed = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**told, **closed, **({"required": required} if required else {})}


def _read(table: type[Table], values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return what the values of some fields are, one by one, and what is wrong with them."""
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for item in keys_of(table):
        if item.name not in values:
            continue
        try:
            found[item.name] = item.metadata["kind"].read(values[item.name])
        except TableError as error:
            problems += [problem.below(written_name(item)) for problem in error.problems]
        except ValueError as error:
            problems.append(Problem((written_name(item),), str(error)))
    return found, problems


def keys_of(table: type[Table]) -> list[dataclasses.Field[Any]]:
    """Return the fields that are keys of files."""
    return [item for item in dataclasses.fields(table) if "kind" in item.metadata]


def written_name(item: dataclasses.Field[Any]) -> str:
    """Return the name of a field in files."""
    return str(item.metadata["alias"] or item.name)


def _plain(value: Any) -> Any:
    if isinstance(value, Table):
        return value.plain()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, Mapping) else value


def _written(value: Any) -> Any:
    if isinstance(value, Table):
        return value.written()
    return [_written(item) for item in value] if isinstance(value, tuple) else value


def text(
    low: int = 0,
    high: int | None = None,
    *,
    pattern: str = "",
    check: Callable[[str], str] | None = None,
    none: bool = False,
) -> Kind:
    """Return the kind of a text of `low` to `high` characters that fits a pattern, and passes a check; or None."""

    def read(value: Any) -> str | None:
        if none and value is None:
            return None
        if not isinstance(value, str):
            raise ValueError("write a text")
        if len(value) < low:
            raise ValueError("write something here" if low == 1 else f"write {low} characters or more")
        if high is not None and len(value) > high:
            raise ValueError(f"{len(value)} characters; write {high} at the most")
        if pattern and not re.fullmatch(pattern, value):
            raise ValueError(f"{value[:80]!a} does not fit; it must match {pattern}")
        return value if check is None else check(value)

    bounds = {"minLength": low or None, "maxLength": high, "pattern": pattern or None}
    schema: Schema = {"type": "string", **{name: bound for name, bound in bounds.items() if bound is not None}}
    return Kind(read, {"anyOf": [schema, {"type": "null"}]} if none else schema)


def whole(low: int, high: int) -> Kind:
    """Return the kind of a whole number from `low` to `high`."""

    def read(value: Any) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"write a whole number from {low:,} to {high:,}".replace(",", "_"))
        return value

    return Kind(read, {"type": "integer", "minimum": low, "maximum": high})


def choice(*words: str, none: bool = False) -> Kind:
    """Return the kind of one of some words; with `none` it may also be left out, as None."""

    def read(value: Any) -> str | None:
        if (none and value is None) or value in words:
            return value  # type: ignore[no-any-return]
        raise ValueError(f"write {' or '.join((', '.join(words[:-1]), words[-1])) if words[1:] else words[0]}")

    schema: Schema = {"type": "string", "enum": list(words)}
    return Kind(read, {"anyOf": [schema, {"type": "null"}]} if none else schema)


def several(kind: Kind, *, high: int | None = None, none: bool = False, alone: bool = False) -> Kind:
    """Return the kind of a list; with `alone` one text stands for a list of one, with `none` None is left as it is."""

    def read(value: Any) -> tuple[Any, ...] | None:
        if none and value is None:
            return None
        items = (value,) if alone and isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise ValueError("this must be a list; write each item on a line of its own, after a dash")
        if high is not None and len(items) > high:
            raise ValueError(f"{len(items)} items; write {high} at the most")
        return _read_all(kind, items)

    schema: Schema = {"type": "array", "items": kind.schema, **({} if high is None else {"maxItems": high})}
    if alone:
        schema = {"anyOf": [{"type": "string"}, {**schema, "minItems": 1}]}
    return Kind(read, schema)


def pairs(names: Kind, values: Kind) -> Kind:
    """Return the kind of a mapping with names that are not fixed; it is read as pairs, in order."""

    def read(value: Any) -> tuple[tuple[Any, Any], ...]:
        if isinstance(value, tuple):  # read before
            return value
        if not isinstance(value, Mapping):
            raise ValueError("this must be a list of keys and values")
        return tuple(zip(_read_all(names, value), _read_all(values, value.values()), strict=True))

    return Kind(read, {"type": "object", "additionalProperties": values.schema})


def _read_all(kind: Kind, items: Iterable[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    problems: list[Problem] = []
    for index, item in enumerate(items):
        try:
            found.append(kind.read(item))
        except TableError as error:
            problems += [problem.below(index) for problem in error.problems]
        except ValueError as error:
            problems.append(Problem((index,), str(error)))
    if problems:
        raise TableError(problems)
    return tuple(found)


def table(cls: type[Table]) -> Kind:
    """Return the kind of a table within a table."""
    return Kind(cls.read, cls.schema())
