"""Call a Python function in a container, and write its result or exception to the log directory.

Standard library only, Python 3.7 and later: this file is sent with the job of `submit_tf_job.run`,
together with the pickled call and the module that reads it (cloudpickle as one file).

The function's code arrives by value, without the modules that define it. But processes that the
function starts (`multiprocessing`, `ProcessPoolExecutor`) look up functions and classes by module
and name. So this file makes modules with these names, also in each process that is started from it.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

CALL_FILE = "tfjob-call.txt"  # first line: the Python version that pickled the call; then base64
PICKLE_FILE = "tfjob_cloudpickle.py"
COMPAT_FILE = "tfjob_in_task.py"
RESULT_FILE = "tfjob-result.txt"
RESULT_MAX = 16 * 1024 * 1024
# what the result file holds: what was returned; what was raised, with its traceback; or why neither
# can be sent, as a sentence. Value and exception are pickled on their own, as the reader may lack
# a module of theirs.
VALUE, ERROR, REFUSED = "value", "error", "refused"
# the call could not be unpickled: another Python, or a module that the image lacks
EXIT_CANNOT_CALL = 97
LINE = 76
MOST_ENTRIES = 1000  # of a container that is searched for functions
HERE = os.path.dirname(os.path.abspath(__file__))  # the program may change the working directory
NOT_SENT = (
    "module %r was sent with what the function uses of it, and %r is not; "
    "`files` of the job sends the whole module"
)


def module_of(name: str, file: str) -> ModuleType:
    """Load a module from a file that was sent with the call, under the name by which the pickles
    refer to it.
    """
    location = importlib.util.spec_from_file_location(name, os.path.join(HERE, file))
    assert location is not None
    assert location.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(location)
    location.loader.exec_module(module)
    return module


def package_of(name: str) -> ModuleType:
    """Add an empty package with this name to `sys.modules`, and return it."""
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = []
    return package


def compat() -> None:
    """Load the functions of `submit_tf_job.compat` that tasks call. In an image without
    `submit_tf_job`, also make its modules, so that the program's imports work.
    """
    package = "submit_tf_job.compat"
    missing = importlib.util.find_spec("submit_tf_job") is None
    module = module_of(package + ".in_task", COMPAT_FILE)
    if missing:
        package_of("submit_tf_job")
        made = package_of(package)
        for name in ("tensorflowonspark", "tf_yarn"):
            sys.modules["%s.%s" % (package, name)] = module
            setattr(made, name, module)


def cloudpickle() -> ModuleType:
    """Load the cloudpickle module that was sent with the call, also as the package `cloudpickle`,
    and return it.
    """
    package = package_of("cloudpickle")
    module = module_of("cloudpickle.cloudpickle", PICKLE_FILE)
    package.__dict__.update(
        {key: value for key, value in vars(module).items() if not key.startswith("__")}
    )
    package.cloudpickle = module  # type: ignore[attr-defined]
    return module


def read_call() -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return the function to call, and its arguments, from the file that was sent with the job.

    Raises:
        RuntimeError: Another Python version has pickled the call.
    """
    with open(os.path.join(HERE, CALL_FILE), encoding="ascii") as file:
        version, _, packed = file.read().partition("\n")
    here = "%d.%d" % sys.version_info[:2]
    if version != here:
        raise RuntimeError(
            "the call was made by Python %s, and this task runs Python %s: a function's "
            "code fits one of them only" % (version, here)
        )
    function, args, kwargs = pickle.loads(base64.b64decode(packed))
    return function, args, kwargs


# --- the modules of the function ---


def has_module(value: Any) -> bool:
    """Return whether a function or class is found by its module and qualified name, so that pickles
    refer to it by name.
    """
    found: Any = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def parts_of(value: Any) -> Iterator[Any]:
    """Yield the objects to which a function, class, module, container or object of the user's own
    class refers; none for a container of more than `MOST_ENTRIES` entries.
    """
    if isinstance(value, FunctionType):
        yield from value.__globals__.values()
        yield from value.__defaults__ or ()
        yield from vars(value).values()
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # noqa: PERF203 - an empty cell
                continue
    elif isinstance(value, (list, tuple, set, frozenset, dict)):
        if len(value) <= MOST_ENTRIES:
            yield from value.values() if isinstance(value, dict) else value
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, property):
        yield from (value.fget, value.fset, value.fdel)
    elif isinstance(value, (type, ModuleType)):
        yield from list(vars(value).values())
        yield from getattr(value, "__bases__", ())
    elif not has_module(type(value)):  # an object of the user's own class
        yield type(value)
        yield getattr(value, "__dict__", None)


def own_names(*values: Any) -> dict[str, dict[str, Any]]:
    """Return module → name → object, for the functions, classes and objects that were sent by value
    and can be reached from the given objects.
    """
    found: dict[str, dict[str, Any]] = {"__main__": {}}
    queue, seen = list(values), set()
    while queue:
        value = queue.pop()
        is_named = isinstance(value, (FunctionType, type))
        by_reference = value.__name__ in sys.modules if isinstance(value, ModuleType) else False
        if id(value) in seen or by_reference or (is_named and has_module(value)):
            continue
        seen.add(id(value))
        if isinstance(value, ModuleType):
            found.setdefault(value.__name__, {}).update(vars(value))
        elif is_named and value.__module__:
            names = found.setdefault(value.__module__, {})
            if isinstance(value, FunctionType):
                names.update(value.__globals__)
            if "." not in value.__qualname__:
                names[value.__name__] = value
        queue.extend(parts_of(value))
    return found


def can_import(name: str) -> bool:
    """Return whether a module can be imported in the task."""
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # a parent that is not there
        return False


def make_modules(names: dict[str, dict[str, Any]], pickler: ModuleType) -> None:
    """Create the modules of functions and classes that were sent by value, if the task has no
    module with that name.
    """
    for name in sorted(names):
        if name == "__main__" or can_import(name):
            continue
        parts = name.split(".")
        for end in range(1, len(parts)):
            parent = ".".join(parts[:end])
            if not can_import(parent):
                package_of(parent)
        module = package_of(name)
        module.__dict__.update(names[name], __name__=name, __getattr__=refusal_of(name))
        if len(parts) > 1:
            setattr(sys.modules[".".join(parts[:-1])], parts[-1], module)
        pickler.register_pickle_by_value(module)


def refusal_of(module: str) -> Callable[[str], Any]:
    """Return a `__getattr__` (PEP 562) for a module of which only some names were sent; it raises
    an AttributeError with a hint for the other names.
    """

    def refuse(name: str) -> Any:
        raise AttributeError(NOT_SENT % (module, name))

    return refuse


def make_main(names: dict[str, Any]) -> None:
    """Replace `__main__` by a module with the names that the user's script had there. Its file is
    this one, so processes that `multiprocessing` spawns start from this file.
    """
    main = ModuleType("__main__")
    main.__dict__.update(names, __name__="__main__", __file__=os.path.abspath(__file__))
    sys.modules["tfjob_callee"] = sys.modules["__main__"]  # it goes on
    sys.modules["__main__"] = main


# --- the result ---


def leave(directory: str, kind: str, packed: bytes | None, text: str) -> None:
    """Write the result file into the log directory, in base64, as a whole or not at all.

    Args:
        directory: The log directory.
        kind: `VALUE`, `ERROR` or `REFUSED`.
        packed: The pickled value or exception; None if it cannot be sent.
        text: The traceback of an exception, or why nothing can be sent; "" for a value.
    """
    data = base64.b64encode(pickle.dumps((kind, packed, text))).decode("ascii")
    path = os.path.join(directory, RESULT_FILE)
    with open(path + ".part", "w", encoding="ascii") as file:
        file.writelines(data[at : at + LINE] + "\n" for at in range(0, len(data), LINE))
    os.replace(path + ".part", path)  # a full disk leaves no half of it


def returned(value: Any, pack: Callable[[Any], bytes]) -> tuple[str, bytes | None, str]:
    """Return what `leave` writes about a returned value: (kind, packed, text). The kind is
    `REFUSED` if the value cannot be pickled, or has more than `RESULT_MAX` bytes.
    """
    try:
        packed = pack(value)
    except Exception as error:  # the user's own classes may raise anything
        return REFUSED, None, "what the function returned cannot be sent back: %r" % error
    if len(packed) > RESULT_MAX:
        sentence = "what the function returned has %d bytes, and at most %d are sent back: write it"
        return REFUSED, None, (sentence + " to a file system") % (len(packed), RESULT_MAX)
    return VALUE, packed, ""


def raised(error: BaseException, pack: Callable[[Any], bytes]) -> tuple[str, bytes | None, str]:
    """Return what `leave` writes about an exception: (kind, packed, text); None for `packed` if
    only the traceback can be sent.

    The exception is packed in the first of three forms that pickle can write and restore, and that
    has at most `RESULT_MAX` bytes. For the
    first form, pickle calls the exception's class with `args`, which fails for classes with other
    parameters. So the second form has class, `args` and attributes separately. The attributes may
    not be picklable, so the third form has none.
    """
    text = traceback.format_exc()
    for form in (error, (type(error), error.args, vars(error)), (type(error), error.args, {})):
        try:
            packed = pack(form)
            pickle.loads(packed)
        except Exception:  # noqa: S112 - the traceback is sent in any case
            continue
        if len(packed) <= RESULT_MAX:
            return ERROR, packed, text
    return ERROR, None, text


def main() -> int:
    """Call the function, write its result or exception to the log directory, and return the exit
    status: 0; 1 after an exception; `EXIT_CANNOT_CALL` if the call could not be read.

    Raises:
        SystemExit: The function has called `sys.exit`.
        RuntimeError: The result cannot be sent, and this is the deciding task.
    """
    directory = os.path.abspath((os.environ.get("LOG_DIRS") or ".").split(",")[0])
    try:
        pickler = cloudpickle()
        pack = pickler.dumps
        compat()
        function, args, kwargs = read_call()
        names = own_names(function, args, kwargs)
        make_modules(names, pickler)
        make_main(names["__main__"])
    except Exception as error:
        traceback.print_exc()
        text = "the function could not be called: %s: %s" % (type(error).__name__, error)
        leave(directory, REFUSED, None, text)
        return EXIT_CANNOT_CALL
    try:
        value = function(*args, **kwargs)
    except SystemExit as error:
        if error.code in (None, 0):
            leave(directory, *returned(None, pack))
        raise
    except BaseException as error:
        sys.stderr.write(traceback.format_exc())
        leave(directory, *raised(error, pack))
        return 1
    kind, packed, text = returned(value, pack)
    leave(directory, kind, packed, text)
    if kind == REFUSED and os.environ.get("TFJOB_RANK") == "0":
        raise RuntimeError(text)  # it was to be sent: only the deciding task's result is read
    return 0


def names_for_spawned() -> dict[str, Any]:
    """Return the names for `__main__` in a process that `multiprocessing` has spawned; also make
    the modules of what was sent by value.
    """
    pickler = cloudpickle()
    compat()
    names = own_names(*read_call())
    make_modules(names, pickler)
    return names["__main__"]


if __name__ == "__main__":
    sys.exit(main())
if __name__ == "__mp_main__":
    globals().update(names_for_spawned())
