"""Pickle a call of a Python function: the user's own code by value, installed packages by name."""

from __future__ import annotations

import importlib
import inspect
import io
import sys
import sysconfig
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import distributions
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from submit_tf_job.errors import SettingsError, UsageError

_OWN_PACKAGE = "submit_tf_job"  # tasks have `compat.in_task` of it, as a file
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_one_at_a_time = threading.Lock()  # cloudpickle has one registry of modules


def cloudpickle() -> Any:
    """Return cloudpickle as one module, which travels with a call.

    Raises:
        SettingsError: It is not installed.
    """
    try:
        return importlib.import_module("cloudpickle.cloudpickle")
    except ImportError:
        raise SettingsError(
            "to run a function its code is pickled by cloudpickle, which is not installed here",
            hint="pip install 'cloudpickle>=3'",
        ) from None


def pickled_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bytes:
    """Pickle a call.

    Raises:
        SettingsError: cloudpickle is not installed.
        UsageError: An object that it uses cannot be pickled; the message names the variable.
    """
    pickler = cloudpickle()
    with _own_modules_by_value(pickler):
        try:
            return _dumps(pickler, (function, args, kwargs))
        except Exception as error:
            name = getattr(function, "__name__", "the function")
            what = _unpicklable(pickler, function, args, kwargs) or "something that it refers to"
            raise UsageError(
                f"{name} cannot be sent to the cluster: {what} cannot be pickled ({error})",
                hint="Create it inside the function, or pass what it is made of as an argument.",
            ) from error


def _dumps(pickler: Any, value: object) -> bytes:
    """Pickle a value; code keeps the name of its file, so that tracebacks show its lines.

    cloudpickle 3.1.3 and later write `<dynamic-code>` in its place.
    """
    reduce_code = pickler.Pickler.dispatch_table[CodeType]

    def with_its_file(code: CodeType) -> tuple[Any, tuple[Any, ...]]:
        make, made_of = reduce_code(code)
        return make, tuple(code.co_filename if x == "<dynamic-code>" else x for x in made_of)

    tables = ChainMap({CodeType: with_its_file}, pickler.Pickler.dispatch_table)
    content = io.BytesIO()
    type("Pickler", (pickler.Pickler,), {"dispatch_table": tables})(content).dump(value)
    return content.getvalue()


def _unpicklable(
    pickler: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str:
    """Return the first variable or argument that cannot be pickled, such as `its argument 1 of type
    socket`; "" if each of them can be pickled by itself.
    """
    candidates: list[tuple[str, Any]] = []
    if inspect.isroutine(function):
        used = inspect.getclosurevars(inspect.unwrap(function))
        candidates += ((f"variable {name!r}", value) for name, value in used.nonlocals.items())
        candidates += ((f"global variable {name!r}", value) for name, value in used.globals.items())
    candidates += ((f"argument {number}", value) for number, value in enumerate(args, 1))
    candidates += ((f"argument {name!r}", value) for name, value in kwargs.items())
    for what, value in candidates:
        try:
            _dumps(pickler, value)
        except Exception:  # noqa: BLE001, PERF203 - as above, and a few values
            return f"its {what} of type {type(value).__qualname__}"
    return ""


# --- what belongs to the user ---


@contextmanager
def _own_modules_by_value(pickler: Any) -> Iterator[None]:
    """Pickle code of the user's own files by value: a container does not have these modules."""
    with _one_at_a_time:
        before = pickler.list_registry_pickle_by_value()
        own = [module for module in _own_modules() if module.__name__ not in before]
        for module in own:
            pickler.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in own:
                with suppress(ValueError):  # it must not hide the error that ends the block
                    pickler.unregister_pickle_by_value(module)


def _own_modules() -> list[ModuleType]:
    """Return the imported modules that are not installed.

    `multiprocessing` gives the script a second name in `sys.modules` (`__mp_main__`); the script
    itself is pickled by value anyway.
    """
    stdlib = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    found: list[tuple[ModuleType, Path]] = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or name != getattr(module, "__name__", None) or name == "__main__":
            continue
        path = Path(file).resolve()
        if (
            name.partition(".")[0] != _OWN_PACKAGE
            and _INSTALLED.isdisjoint((*Path(file).parts, *path.parts))
            and not any(path.is_relative_to(place) for place in stdlib)
        ):
            found.append((module, path))
    installed = _files_of_distributions({path for _module, path in found})
    return [module for module, path in found if path not in installed]


def _files_of_distributions(paths: set[Path]) -> set[Path]:
    """Return those files that a distribution has installed, as `pip install --target` does. The
    sources of an editable project are in no RECORD, and stay their user's own.
    """
    found: set[Path] = set()
    for distribution in distributions() if paths else ():
        root = Path(str(distribution.locate_file(""))).resolve()
        near = {path for path in paths if path.is_relative_to(root)}
        if near and distribution.read_text("RECORD") is not None:
            listed = {str(file) for file in distribution.files or ()}
            found |= {path for path in near if str(path.relative_to(root)) in listed}
    return found
