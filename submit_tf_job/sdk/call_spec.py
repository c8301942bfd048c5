"""Make a job spec for a call of a Python function. The job's name is made from the names of the
user's script and function; the user's own code is pickled by value, and installed packages by name.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import inspect
import io
import sys
import sysconfig
import threading
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import distributions
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.jobspec.kinds import as_label
from submit_tf_job.sdk import callee

__all__ = ["as_label", "call_name", "call_spec"]

_CALLEE = "tfjob_callee.py"
_IN_TASK = Path(__file__).parents[1] / "compat" / "in_task.py"
_OWN_PACKAGE = "submit_tf_job"  # tasks have `compat.in_task` of it, as a file
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_one_at_a_time = threading.Lock()  # cloudpickle has one registry of modules
_LONGEST = 24  # of the words: YARN's host names have the job's name, the user and the domain
_calls: Counter[str] = Counter()
_counting = threading.Lock()


def call_spec(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    job: Mapping[str, Any],
    directory: Path,
) -> dict[str, Any]:
    """Return the job spec for a call, and write the files that it needs into a directory.

    Args:
        function: The function, which every task calls.
        args: The function's positional arguments.
        kwargs: The function's named arguments.
        job: A job spec without `command`; `strategy` is `single` by default.
        directory: The directory for the files; it must exist until the job is submitted.

    Raises:
        UsageError: The function is not callable, is a coroutine function, or cannot be pickled; or
            `job` has a command, or has `files` that is not a list.
        SettingsError: cloudpickle is not installed.
    """
    if "command" in job:
        raise UsageError(
            "a job that calls a function has no command of its own", hint="leave command out"
        )
    own_files = job.get("files", [])
    if not isinstance(own_files, (list, tuple)):
        raise UsageError(f"files: expected a list, found {own_files!r}")
    if not callable(function):
        raise UsageError(f"{function!r} is not a function")
    if inspect.iscoroutinefunction(function):
        raise UsageError(
            f"{function.__name__} is a coroutine function, and a task does not await its result",
            hint="Give a function that calls asyncio.run.",
        )
    packed = base64.b64encode(pickled_call(function, args, kwargs)).decode("ascii")
    version = ".".join(map(str, sys.version_info[:2]))
    (directory / callee.CALL_FILE).write_text(f"{version}\n{packed}", encoding="ascii")
    sources = {
        callee.PICKLE_FILE: str(cloudpickle().__file__),
        callee.COMPAT_FILE: str(_IN_TASK),
        _CALLEE: callee.__file__,
    }
    for name, source in sources.items():
        (directory / name).write_bytes(Path(source).read_bytes())
    files = [str(directory / name) for name in (callee.CALL_FILE, *sources)]
    python = job.get("python", "python3")
    if isinstance(python, Mapping):
        python = python.get("interpreter", "python3")
    return {
        "strategy": "single",
        **job,
        "command": [str(python), _CALLEE],
        "files": [*own_files, *files],
    }


def call_name(function: Callable[..., Any], user: str) -> str:
    """Return the name of the next call's job, such as `train-3f2a`, and `train-3f2a-2` for the
    second call of the function in this process.

    When the same script is started again, it gives the same names, so its jobs are found. Different
    scripts and different users get different names.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    script = Path(file).resolve() if file else Path.cwd()
    process = getattr(sys.modules.get("multiprocessing.process"), "current_process", None)
    worker = (
        process().name if process else "MainProcess"
    )  # a pool's workers make calls of their own
    own_name = _name_of(function)
    made_of = (user, str(script), getattr(function, "__module__", ""), own_name, worker)
    words = (
        [as_label(script.parent.name if script.stem == "__main__" else script.stem)] if file else []
    )
    if as_label(own_name) not in words:
        words.append(as_label(own_name))
    text = "-".join(words)[:_LONGEST].strip("-")
    if not text[:1].isalpha():
        text = f"call-{text}".rstrip("-")
    name = f"{text}-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:4]}"
    with _counting:
        _calls[name] += 1
        number = _calls[name]
    return name if number == 1 else f"{name}-{number}"


def _name_of(function: Callable[..., Any]) -> str:
    called = getattr(function, "func", function)  # of functools.partial
    return str(getattr(called, "__name__", None) or type(called).__name__)


# --- the pickled call ---


def cloudpickle() -> Any:
    """Return cloudpickle as a single module, which is sent with a call.

    Raises:
        SettingsError: cloudpickle is not installed.
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
    """Return the pickle of (function, args, kwargs), with the user's own code by value.

    Raises:
        SettingsError: cloudpickle is not installed.
        UsageError: An object that the function uses cannot be pickled; the message names the
            variable.
    """
    pickler = cloudpickle()
    with _own_modules_by_value(pickler):
        try:
            return _pickle_value(pickler, (function, args, kwargs))
        except Exception as error:
            name = getattr(function, "__name__", "the function")
            what = (
                _name_of_unpicklable(pickler, function, args, kwargs)
                or "something that it refers to"
            )
            raise UsageError(
                f"{name} cannot be sent to the cluster: {what} cannot be pickled ({error})",
                hint="Create it inside the function, or pass what it is made of as an argument.",
            ) from error


def _pickle_value(pickler: Any, value: object) -> bytes:
    """Return the pickle of a value. Code keeps the name of its file, so that tracebacks can show
    its lines: cloudpickle 3.1.3 and later alone would write `<dynamic-code>` instead of the name.
    """
    reduce_code = pickler.Pickler.dispatch_table[CodeType]

    def with_its_file(code: CodeType) -> tuple[Any, tuple[Any, ...]]:
        make, made_of = reduce_code(code)
        return make, tuple(code.co_filename if x == "<dynamic-code>" else x for x in made_of)

    tables = ChainMap({CodeType: with_its_file}, pickler.Pickler.dispatch_table)
    content = io.BytesIO()
    type("Pickler", (pickler.Pickler,), {"dispatch_table": tables})(content).dump(value)
    return content.getvalue()


def _name_of_unpicklable(
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
            _pickle_value(pickler, value)
        except Exception:  # noqa: BLE001, PERF203 - as above, and a few values
            return f"its {what} of type {type(value).__qualname__}"
    return ""


# --- what belongs to the user ---


@contextmanager
def _own_modules_by_value(pickler: Any) -> Iterator[None]:
    """While the block runs, have cloudpickle pickle the modules of the user's own files by value,
    because a container does not have them. One thread at a time can be in the block.
    """
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
    """Return the imported modules that belong neither to the standard library, nor to an installed
    package, nor to this package.

    `multiprocessing` puts the script into `sys.modules` under a second name (`__mp_main__`), which
    is left out: the script itself is pickled by value anyway.
    """
    stdlib = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    found: list[tuple[ModuleType, Path]] = []
    for name, module in sys.modules.copy().items():  # a thread may import meanwhile
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
    """Return those of the given files that belong to an installed distribution, also if `pip
    install --target` installed it. The sources of an editable project are in no RECORD, so they
    count as the user's own files.
    """
    found: set[Path] = set()
    for distribution in distributions() if paths else ():
        root = Path(str(distribution.locate_file(""))).resolve()
        near = {path for path in paths if path.is_relative_to(root)}
        if near and distribution.read_text("RECORD") is not None:
            listed = {str(file) for file in distribution.files or ()}
            found |= {path for path in near if str(path.relative_to(root)) in listed}
    return found
