"""`dataclass` of the standard library, generating the methods of a class at its first instance.

Generating them takes 4.5 million instructions for a frozen class of six fields, a fiftieth of the
start of a hello-world typer application, and a command makes instances of few of the classes that
it imports. `dataclasses.fields`, `dataclasses.is_dataclass` and a subclass that is a dataclass
generate them earlier.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_building = threading.RLock()
_OPTIONS = "__deferred_options__"
_FIELDS = "__dataclass_fields__"


def _build(cls: Any) -> None:
    """Generate the methods of a class and of its bases, once."""
    with _building:
        for base in reversed(cls.__mro__):
            options = base.__dict__.get(_OPTIONS)
            if options is not None:
                dataclasses.dataclass(**options)(base)
                # not deleted: a class that had a `__new__` accepts no arguments without one
                base.__new__ = _new
                delattr(base, _OPTIONS)


def _new(cls: Any, *_args: object, **_named: object) -> Any:
    return object.__new__(cls)


def _first_new(cls: Any, *_args: object, **_named: object) -> Any:
    """Build the class, before it has an instance that another thread could compare."""
    _build(cls)
    return object.__new__(cls)


class _Unbuilt:
    """Builds a class at the first look at its fields, which are in `__dataclass_fields__`."""

    def __get__(self, _instance: object, cls: type) -> dict[str, dataclasses.Field[Any]]:
        _build(cls)
        found: dict[str, dataclasses.Field[Any]] = getattr(cls, _FIELDS)
        return found


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a class a dataclass, as `dataclasses.dataclass` does."""

        def defer(cls: type) -> type:
            setattr(cls, _OPTIONS, options)
            setattr(cls, _FIELDS, _Unbuilt())
            cls.__new__ = _first_new
            return cls

        return defer if cls is None else defer(cls)
