"""The dataclasses that are generated at their first instance."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

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
