"""Our frozen dataclasses do what the standard ones do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
import weakref
from dataclasses import field
from typing import Any, Generic, TypeVar

import pytest

from mindx.core import frozen


@frozen.dataclass(frozen=True, slots=True)
class Made:
    name: str
    size: int = 3
    words: tuple[str, ...] = ()


@frozen.dataclass(frozen=True, slots=True)
class MadeBelow(Made):
    more: int = 0


T = TypeVar("T")


def classes(decorator: Any) -> dict[str, Any]:
    @decorator(frozen=True, slots=True)
    class Plain:
        name: str
        size: int = 3
        words: list[str] = field(default_factory=list)
        secret: str = field(default="", repr=False)
        seen: int = field(default=0, compare=False)

    @decorator(frozen=True, kw_only=True)
    class Named:
        kind: str
        made: str = field(default="made", init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", self.kind.upper())

    @decorator(frozen=True, kw_only=True)
    class Below(Named):
        more: tuple[int, ...] = ()

    @decorator(frozen=True, slots=True)
    class Own:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and other.name.lower() == self.name.lower()

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "mine"

    @decorator(frozen=True, slots=True)
    class Empty:
        pass

    @decorator(frozen=True, slots=True)
    class Box(Generic[T]):
        held: T
        note: list[str] = field(default_factory=list, hash=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "note", [*self.note, "seen"])

    return {"Box": Box, "Plain": Plain, "Named": Named, "Below": Below, "Own": Own, "Empty": Empty}


BOTH = [classes(frozen.dataclass), classes(dataclasses.dataclass)]


def told(made: dict[str, Any], call: Any) -> tuple[str, str]:
    """Return what a call gives, or what it raises, in words."""
    try:
        value = call(made)
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return type(error).__name__, str(error)
    return "", repr(value).replace("classes.<locals>.", "")


CALLS = {
    "all given": lambda c: c["Plain"]("a", 1, ["b"], "c", 2),
    "defaults": lambda c: c["Plain"]("a"),
    "a default of its own": lambda c: c["Plain"]("a").words is c["Plain"]("a").words,
    "missing": lambda c: c["Plain"](),
    "too many": lambda c: c["Plain"](1, 2, 3, 4, 5, 6),
    "unknown": lambda c: c["Plain"]("a", nothing=1),
    "by position": lambda c: c["Named"]("a"),
    "not to be given": lambda c: c["Named"](kind="a", made="b"),
    "after the fact": lambda c: c["Named"](kind="a"),
    "below": lambda c: c["Below"](kind="a", more=(1,)),
    "equal": lambda c: (c["Plain"]("a", seen=1) == c["Plain"]("a", seen=2), c["Plain"]("a") == c["Plain"]("b")),
    "of another class": lambda c: c["Named"](kind="a") == c["Below"](kind="a"),
    "no such thing": lambda c: c["Plain"]("a") == "a",
    "hash": lambda c: len({c["Named"](kind="a"), c["Named"](kind="a"), c["Below"](kind="a")}),
    "no hash": lambda c: hash(c["Plain"]("a")),
    "its own methods": lambda c: (c["Own"]("a") == c["Own"]("A"), hash(c["Own"]("a")), c["Own"]("a")),
    "empty": lambda c: (c["Empty"]() == c["Empty"](), c["Empty"]()),
    "set": lambda c: setattr(c["Plain"]("a"), "name", "b"),
    "delete": lambda c: delattr(c["Plain"]("a"), "name"),
    "set in one below": lambda c: setattr(c["Below"](kind="a"), "kind", "b"),
    "replace": lambda c: dataclasses.replace(c["Plain"]("a"), size=9),
    "as a dict": lambda c: dataclasses.asdict(c["Plain"]("a")),
    "fields": lambda c: [(one.name, one.type, one.init) for one in dataclasses.fields(c["Below"])],
    "copy": lambda c: (copy.copy(c["Plain"]("a")), copy.deepcopy(c["Named"](kind="a"))),
    "match": lambda c: (c["Plain"].__match_args__, c["Named"].__match_args__),
    "slots": lambda c: hasattr(c["Plain"]("a"), "__dict__"),
    "signature": lambda c: [str(inspect.signature(one)) for one in c.values()],
    "a field outside of the hash": lambda c: hash(c["Box"](1)) == hash(c["Box"](1, ["more"])) != hash(c["Box"](2)),
    "no weak reference": lambda c: weakref.ref(c["Plain"]("a")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_it_is_as_the_standard_one(call: Any) -> None:
    ours, standard = (told(made, call) for made in BOTH)
    assert ours == standard


@pytest.mark.parametrize("made", [Made("a", 2, ("b",)), MadeBelow("a", 2, ("b",), more=3)], ids=["first", "below"])
def test_it_can_be_pickled_and_copied(made: Made) -> None:
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert (type(again), again) == (type(made), made)
        with pytest.raises(dataclasses.FrozenInstanceError):
            again.name = "b"  # type: ignore[misc]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="weakref_slot came with Python 3.11")
def test_it_can_have_a_weak_reference() -> None:
    decorator: Any = frozen.dataclass  # mypy reads it as of Python 3.10

    @decorator(frozen=True, slots=True, weakref_slot=True)
    class Held:
        name: str = ""

    held = Held()
    assert weakref.ref(held)() is held


def test_it_can_be_generic() -> None:
    """The standard one with slots cannot in Python 3.11: making a `Box[int]` sets an attribute, in a wrong class."""
    box = classes(frozen.dataclass)["Box"]
    assert box[int](1) == box(1)


def test_a_class_may_be_given_beside_the_options() -> None:
    class Plain:
        name: str

    made: Any = frozen.dataclass(Plain, frozen=True)
    assert made("a") == made("a")


def test_a_standard_one_may_stand_below_it() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Child(Made):
        more: int = 0

    assert Child("a", more=1) == Child("a", more=1) != Child("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Child("a").name = "b"  # type: ignore[misc]


def test_what_is_not_frozen_is_left_to_the_standard_one() -> None:
    @frozen.dataclass
    class Open:
        name: str = ""

    made = Open()
    made.name = "b"
    assert made == Open("b")
