"""Tables: what an operator writes is read whole, or every fault is told with its path."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from mindx.core.table import Table, TableError, choice, key, pairs, several, table, text, whole


@dataclass(frozen=True, kw_only=True)
class Wheel(Table):
    """One wheel."""

    size: int = key(whole(1, 99))
    tyres: tuple[str, ...] = key(several(text(1, 5), high=2, alone=True), ())


@dataclass(frozen=True, kw_only=True)
class Car(Table):
    """One car."""

    kind_of: str = key(choice("small", "large"), "small", alias="kind")
    wheels: tuple[Wheel, ...] = key(several(table(Wheel)), ())
    spare: Wheel = key(table(Wheel), Wheel(size=1))
    seats: tuple[tuple[str, str], ...] = key(pairs(text(1), text()), ())

    def check(self) -> None:
        if self.kind_of == "small" and len(self.wheels) > 4:
            raise ValueError("a small car has no more than four wheels")


def problems(value: object) -> dict[tuple[object, ...], str]:
    with pytest.raises(TableError) as caught:
        Car.read(value)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_every_fault_is_told_with_its_path() -> None:
    told = problems(
        {"kind": "huge", "whels": [], "wheels": [{"size": 0}, {"tyres": ["a"]}, 3, {"size": 2, "tyres": "too long"}]}
    )
    assert set(told) == {
        ("kind",), ("whels",), ("wheels", 0, "size"), ("wheels", 1, "size"), ("wheels", 2), ("wheels", 3, "tyres", 0)
    }  # fmt: skip
    assert told["kind",] == "write small or large"
    assert told["wheels", 1, "size"] == "this key is missing"


@pytest.mark.parametrize("value", [None, [], "x", 1, {"wheels": {"size": 1}}, {"wheels": "x"}, {"spare": None}, {1: 2}])
def test_what_has_another_shape_is_refused(value: object) -> None:
    assert problems(value)


@pytest.mark.parametrize("size", [True, 1.0, "1.0", "0x1", "9" * 30, " ", None, -1, 100])
def test_a_number_is_a_whole_number_in_its_range(size: object) -> None:
    assert ("spare", "size") in problems({"spare": {"size": size}})


def test_the_values_are_looked_at_together_once_each_is_sound() -> None:
    five = [{"size": 3}] * 5
    assert problems({"wheels": five}) == {(): "a small car has no more than four wheels"}
    assert () not in problems({"wheels": five, "wings": 2})
    assert len(Car.read({"kind": "large", "wheels": five}).wheels) == 5
    with pytest.raises(ValueError, match="four wheels"):
        Car(wheels=(Wheel(size=1),) * 5)


def test_what_was_given_is_known_and_is_written_again() -> None:
    car = Car.read({"kind": "small", "wheels": [{"size": "7", "tyres": "a"}], "seats": {"front": "red"}})
    assert car.given == {"kind_of", "wheels", "seats"}
    assert car.written()["wheels"] == [{"size": 7, "tyres": ["a"]}]
    assert car.changed(kind_of="large").given == car.given
    assert Car.read({}).changed(kind_of="large").written() == {"kind": "large"}
    assert Car.read({"kind": "small"}) == Car.read({})
    with pytest.raises(TableError):
        car.changed(kind_of="huge")


def test_the_schema_names_each_key() -> None:
    schema = Car.schema()
    assert list(schema["properties"]) == ["kind", "wheels", "spare", "seats"]
    assert schema["properties"]["kind"] == {"type": "string", "enum": ["small", "large"], "default": "small"}
    assert schema["properties"]["wheels"]["items"]["required"] == ["size"]
    assert schema["additionalProperties"] is False


def test_a_session_loads_no_validation_library() -> None:
    """A client that holds a session may take 15 MiB: pydantic alone is nine."""
    program = (
        "import sys, asyncio, mindx, mindx.sandbox.docker\n"
        "from mindx.sandbox.fake import FakeSandbox\n"
        "async def main():\n"
        "    async with mindx.Session(open_sandbox=lambda policy, tell: FakeSandbox()) as session:\n"
        "        await session.run(['true'])\n"
        "asyncio.run(main())\n"
        "print(sorted({'pydantic', 'rich', 'click', 'openai', 'jsonschema'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
