"""The dataclasses that are generated at their first instance."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from submit_tf_job.deferred import dataclass


@dataclass(frozen=True)
class Point:
    """A point; pickled by one test, so it is at the module's level."""

    x: int
    y: int = 0
    tags: tuple[str, ...] = dataclasses.field(default=(), compare=False)


def test_an_instance_is_one_of_a_dataclass_of_the_standard_library() -> None:
    first = Point(1, y=2, tags=("a",))
    assert first == Point(1, 2)
    assert hash(first) == hash(Point(1, 2))
    assert repr(first).endswith("Point(x=1, y=2, tags=('a',))")
    assert dataclasses.replace(first, x=3) == Point(3, 2)
    assert dataclasses.asdict(first) == {"x": 1, "y": 2, "tags": ("a",)}
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.x = 5  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    assert pickle.loads(pickle.dumps(first)) == first


def test_nothing_is_generated_before_the_first_instance() -> None:
    @dataclass(frozen=True, order=True)
    class Late:
        x: int

    assert "__init__" not in vars(Late)
    assert Late(1) < Late(2)
    assert "__init__" in vars(Late)


def test_fields_of_a_class_without_instance() -> None:
    @dataclass
    class Unused:
        x: int
        y: int = 1

    assert dataclasses.is_dataclass(Unused)
    assert [item.name for item in dataclasses.fields(Unused)] == ["x", "y"]
    assert Unused(1) == Unused(1, 1)


def test_a_dataclass_of_the_standard_library_inherits_the_fields_of_a_class_without_instance() -> (
    None
):
    @dataclass
    class Base:
        x: int

    @dataclasses.dataclass
    class Derived(Base):
        y: int = 2

    assert dataclasses.asdict(Derived(1)) == {"x": 1, "y": 2}


def test_a_class_is_built_after_its_bases() -> None:
    @dataclass(frozen=True)
    class Base:
        x: int

    @dataclass(frozen=True)
    class Derived(Base):
        y: int = 1

    class Plain(Base):
        pass

    assert dataclasses.asdict(Derived(1)) == {"x": 1, "y": 1}
    assert Plain(3).x == 3
    assert Base(1) == Base(1) != Derived(1)


def test_no_thread_gets_an_instance_of_a_class_that_is_half_built() -> None:
    for _ in range(20):

        @dataclass(frozen=True)
        class Shared:
            x: int

        together = threading.Barrier(4)

        def make(shared: type = Shared, gate: threading.Barrier = together) -> int:
            gate.wait()
            return hash(shared(1))

        with ThreadPoolExecutor(4) as pool:
            made = [pool.submit(make) for _ in range(4)]
        assert [each.result() for each in made] == [hash(Shared(1))] * 4


# --- the same as in the standard library ----------------------------------------------------------


def _classes(dataclass: Callable[..., Any]) -> dict[str, type]:
    """Define classes with one of the two decorators."""

    @dataclass(frozen=True)
    class Frozen:
        """Has a default of each kind."""

        x: int
        y: str = "y"
        many: list[int] = dataclasses.field(default_factory=list)
        at: str = dataclasses.field(default="", compare=False)
        raw: str = dataclasses.field(default="raw", repr=False)

        def doubled(self) -> int:
            return self.x * 2

    @dataclass
    class Mutable:
        x: int
        y: str = "y"

        def __post_init__(self) -> None:
            self.y = self.y.upper()

    @dataclass(frozen=True)
    class One:
        x: Any

    @dataclass(frozen=True)
    class Empty:
        pass

    @dataclass(frozen=True)
    class Own:
        x: int
        y: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.x == other.x

        def __repr__(self) -> str:
            return "own"

        __hash__ = None  # type: ignore[assignment]

    @dataclass(frozen=True)
    class Special:
        x: int
        y: int = dataclasses.field(default=1, kw_only=True)
        z: list[int] = dataclasses.field(default_factory=list, init=False, hash=False)

    @dataclass(frozen=True)
    class Derived(Frozen):
        z: int = 5

    class Plain(Frozen):
        pass

    return {c.__name__: c for c in (Frozen, Mutable, One, Empty, Own, Special, Derived, Plain)}


BOTH = [_classes(dataclass), _classes(dataclasses.dataclass)]
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Frozen", (1,), {}),
    ("Frozen", (1, "b", [2]), {}),
    ("Frozen", (1,), {"at": "here", "raw": "r"}),
    ("Frozen", (), {"x": 5, "y": ""}),
    ("Frozen", (), {}),
    ("Frozen", (1, 2, 3, 4, 5, 6), {}),
    ("Frozen", (1,), {"no": 1}),
    ("Frozen", (1,), {"x": 1}),
    ("Mutable", (1,), {}),
    ("Mutable", (1, "b"), {}),
    ("One", (1,), {}),
    ("One", ((1, 2),), {}),
    ("Empty", (), {}),
    ("Empty", (1,), {}),
    ("Own", (1, 2), {}),
    ("Special", (1,), {"y": 2}),
    ("Special", (1, 2), {}),
    ("Derived", (1, "b"), {"z": 3}),
    ("Plain", (1,), {}),
]


def tried(function: Callable[[], Any]) -> object:
    """Return a result, or the error, as text."""
    try:
        return function()
    except (AttributeError, TypeError) as error:  # of which a frozen class's is one
        return type(error), str(error)


def seen(cls: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[object]:
    """Return all that a program can find out about one instance."""
    made: Any = tried(lambda: cls(*arguments, **named))
    if isinstance(made, tuple):
        return [made]
    again = cls(*arguments, **named)
    found: list[object] = [repr(made), repr(dataclasses.asdict(made)), made == again, made != 5]
    found.append(tried(lambda: hash(made) == hash(again)))
    for name in ("x", "other"):
        found.append(tried(lambda name=name: setattr(made, name, 7)))  # type: ignore[misc]
        found.append(tried(lambda name=name: delattr(made, name)))  # type: ignore[misc]
    found += [repr(dataclasses.replace(again)), copy.copy(again) == again]
    found.append(tried(lambda: made == again))
    return found


@pytest.mark.parametrize(("name", "arguments", "named"), CALLS)
def test_it_is_as_in_the_standard_library(
    name: str, arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    ours, theirs = (seen(classes[name], arguments, named) for classes in BOTH)
    assert ours == theirs


@pytest.mark.parametrize("name", BOTH[0])
def test_the_parameters_are_those_of_the_standard_library(name: str) -> None:
    seen = []
    for classes in BOTH:
        cls: Any = classes[name]
        with contextlib.suppress(TypeError):
            cls(1)
        parameters = inspect.signature(cls.__init__).parameters.values()
        seen.append(
            (
                [(each.name, each.kind, each.default is each.empty) for each in parameters],
                [(item.name, item.type, item.compare) for item in dataclasses.fields(cls)],
                cls.__match_args__,
                cls.__dataclass_params__.frozen,
            )
        )
    assert seen[0] == seen[1]


def test_a_class_of_the_standard_library_inherits_from_a_frozen_one() -> None:
    @dataclasses.dataclass(frozen=True)
    class Derived(Point):
        z: int = 1

    assert dataclasses.asdict(Derived(1)) == {"x": 1, "y": 0, "tags": (), "z": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        Derived(1).x = 2  # type: ignore[misc]


def test_an_instance_that_contains_itself_has_a_text() -> None:
    @dataclass
    class Loop:
        inside: list[object]

    loop = Loop([])
    loop.inside.append(loop)
    assert repr(loop).endswith("Loop(inside=[...])")
