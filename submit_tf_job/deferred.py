"""`dataclass` of the standard library, for classes of which most commands make no instance.

The standard library compiles six methods of a frozen class of six fields in 4.2 million
instructions, a sixtieth of the start of a hello-world typer application. Here that happens at the
first instance, and only `__init__` is compiled; the other methods are the same functions for all
classes. `dataclasses.fields`, `dataclasses.is_dataclass` and a subclass that is a dataclass
complete a class earlier. A class that inherits fields, has one of the methods, or has options
besides `frozen` (of fields: besides defaults, `compare` and `repr`) is left to the standard
library.
"""

from __future__ import annotations

import dataclasses
import threading
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_building = threading.RLock()
_OPTIONS = "__deferred_options__"
_FIELDS = "__dataclass_fields__"
_COMPARED = "__deferred_compared__"


def _build(cls: Any) -> None:
    """Generate the methods of a class and of its bases, once."""
    with _building:
        for base in reversed(cls.__mro__):
            options = base.__dict__.get(_OPTIONS)
            if options is not None:
                _complete(base, options)
                # not deleted: a class that had a `__new__` accepts no arguments without one
                base.__new__ = _new
                delattr(base, _OPTIONS)


def _complete(cls: Any, options: dict[str, bool]) -> None:
    methods = _FROZEN if options.get("frozen") else _MUTABLE
    inherits = any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])
    has_own = bool({"__init__", *methods} & vars(cls).keys())
    if inherits or has_own or options.keys() - {"frozen"} or _has_special_fields(cls):
        dataclasses.dataclass(**options)(cls)
        return
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls.__dataclass_params__.frozen = methods is _FROZEN  # read where a subclass is a dataclass
    cls.__init__ = _init_of(cls, frozen=methods is _FROZEN)
    names = [item.name for item in dataclasses.fields(cls) if item.compare]
    setattr(cls, _COMPARED, attrgetter(*names) if names else lambda _self: ())
    for name, method in methods.items():
        setattr(cls, name, method)


def _has_special_fields(cls: type) -> bool:
    described = [each for each in vars(cls).values() if isinstance(each, dataclasses.Field)]
    return any(not each.init or each.kw_only is True or each.hash is not None for each in described)


def _init_of(cls: type, *, frozen: bool) -> Any:
    """Compile `__init__`."""
    fixed: dict[str, Any] = {"_deferred_set": object.__setattr__, "_deferred_absent": _ABSENT}
    arguments, lines = ["self"], []
    for item in dataclasses.fields(cls):
        name, value, default = item.name, item.name, ""
        if item.default_factory is not dataclasses.MISSING:
            fixed[f"_deferred_new_{name}"], default = item.default_factory, "=_deferred_absent"
            value = f"_deferred_new_{name}() if {name} is _deferred_absent else {name}"
        elif item.default is not dataclasses.MISSING:
            fixed[f"_deferred_{name}"], default = item.default, f"=_deferred_{name}"
        arguments.append(name + default)
        lines.append(
            f"_deferred_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}"
        )
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines) or "pass"
    exec(f"def __init__({', '.join(arguments)}):\n {body}", fixed)  # noqa: S102 - as dataclasses do
    init = fixed["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (
        f"{item.name}={getattr(self, item.name)!r}"
        for item in dataclasses.fields(self)
        if item.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    compared = getattr(type(self), _COMPARED)
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(getattr(type(self), _COMPARED)(self))


def _setattr(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: Any, name: str, what: str) -> None:
    """Raise an error, unless the attribute is one that a subclass added."""
    if _FIELDS in vars(type(self)) or name in getattr(self, _FIELDS):
        raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")


_ABSENT = object()
_MUTABLE: dict[str, Any] = {"__repr__": _repr, "__eq__": _eq, "__hash__": None}
_FROZEN: dict[str, Any] = {
    **_MUTABLE,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}


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
