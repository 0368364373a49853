"""Frozen dataclasses that are quick to define.

The standard decorator compiles six functions for each class, a third of a millisecond, and a short command has eighty
classes (docs/decisions/0011). Here `__init__` alone is compiled; the others are made of what needs no compiling, and do
the same (tests/core/test_frozen.py). Two things differ: there is no `InitVar`, and a plain class below one of these
cannot set names of its own either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, init=True, repr=True, eq=True, order=False, **others):
        """Do what the standard decorator does; what is not frozen, or made in an unusual way, is left to it."""
        if frozen and init and repr and eq and not order:
            return (lambda plain: _frozen(plain, **others)) if cls is None else _frozen(cls, **others)
        given = {"frozen": frozen, "init": init, "repr": repr, "eq": eq, "order": order}
        return dataclasses.dataclass(cls, **given, **others)


class _Factory:
    """Stands in a signature for a default that is made anew for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _frozen(plain: type[Any], **others: Any) -> type[Any]:
    own = set(vars(plain))
    if plain.__hash__ is None:
        own.discard("__hash__")  # which Python itself puts beside an __eq__
    # A frozen class below another one is checked to be one: it gets the standard methods against setting.
    below = any(dataclasses.is_dataclass(one) for one in plain.__mro__)
    cls: type[Any] = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=below, **others)(plain)
    fields = dataclasses.fields(cls)
    methods = {
        "__init__": _init(cls, fields),
        "__repr__": _repr([one.name for one in fields if one.repr]),
        "__eq__": _eq([one.name for one in fields if one.compare]),
        "__hash__": _hash([one.name for one in fields if (one.compare if one.hash is None else one.hash)]),
    }
    if not below:
        cls.__dataclass_params__.frozen = True  # or none could be below it
        methods.update(__setattr__=_setattr, __delattr__=_delattr)
        if others.get("slots"):
            methods.update(__getstate__=_getstate, __setstate__=_setstate)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _init(cls: type[Any], fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    positional, named, body = ["self"], ["*"], []
    for one in fields:
        name = value = one.name
        parameter = name
        if one.default is not dataclasses.MISSING:
            scope[f"_default_{name}"] = one.default
            parameter = f"{name}=_default_{name}"
            value = name if one.init else f"_default_{name}"
        elif one.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"] = one.default_factory
            parameter = f"{name}=_factory"
            value = f"_make_{name}() if {name} is _factory else {name}" if one.init else f"_make_{name}()"
        elif not one.init:
            continue
        if one.init:
            (named if one.kw_only else positional).append(parameter)
        body.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(named if named[1:] else ())])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {one.name: one.type for one in fields if one.init} | {"return": None}
    return made


def _repr(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _values(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _eq(names: list[str]) -> Callable[[Any, object], bool]:
    values = _values(names)

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(names: list[str]) -> Callable[[Any], int]:
    values = _values(names)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _setattr(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
