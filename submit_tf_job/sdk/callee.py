"""Call a Python function in a container, and write its result or exception to the log directory.

Standard library only, Python 3.7 and later: this file travels with the job of `submit_tf_job.run`,
beside the pickled call and the module that reads it (cloudpickle as one file).
"""

from __future__ import annotations

import base64
import importlib.util
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
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


def module_of(name: str, file: str) -> ModuleType:
    """Load a module that travels with the call, under the name that pickles use."""
    location = importlib.util.spec_from_file_location(name, os.path.join(os.getcwd(), file))
    assert location is not None
    assert location.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(location)
    location.loader.exec_module(module)
    return module


def package_of(name: str) -> ModuleType:
    """Make a package without files."""
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = []
    return package


def compat() -> None:
    """Load what tasks use of `submit_tf_job.compat`, in images without the package under the names
    of all its modules.
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
    """Load the cloudpickle module that travels with the call."""
    package = package_of("cloudpickle")
    module = module_of("cloudpickle.cloudpickle", PICKLE_FILE)
    package.__dict__.update(
        {key: value for key, value in vars(module).items() if not key.startswith("__")}
    )
    package.cloudpickle = module  # type: ignore[attr-defined]
    return module


def read_call() -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return the function and its arguments."""
    with open(CALL_FILE, encoding="ascii") as file:
        version, _, packed = file.read().partition("\n")
    here = "%d.%d" % sys.version_info[:2]
    if version != here:
        raise RuntimeError(
            "the call was made by Python %s, and this task runs Python %s: a function's "
            "code fits one of them only" % (version, here)
        )
    function, args, kwargs = pickle.loads(base64.b64decode(packed))
    return function, args, kwargs


def leave(directory: str, kind: str, packed: bytes | None, text: str) -> None:
    """Write a result to the log directory."""
    data = base64.b64encode(pickle.dumps((kind, packed, text))).decode("ascii")
    path = os.path.join(directory, RESULT_FILE)
    with open(path + ".part", "w", encoding="ascii") as file:
        file.writelines(data[at : at + LINE] + "\n" for at in range(0, len(data), LINE))
    os.replace(path + ".part", path)  # a full disk leaves no half of it


def returned(value: Any, pack: Callable[[Any], bytes]) -> tuple[str, bytes | None, str]:
    """Return the record of a value."""
    try:
        packed = pack(value)
    except Exception as error:  # the user's own classes may raise anything
        return REFUSED, None, "what the function returned cannot be sent back: %r" % error
    if len(packed) > RESULT_MAX:
        sentence = "what the function returned has %d bytes, and at most %d are sent back: write it"
        return REFUSED, None, (sentence + " to a file system") % (len(packed), RESULT_MAX)
    return VALUE, packed, ""


def raised(error: BaseException, pack: Callable[[Any], bytes]) -> tuple[str, bytes | None, str]:
    """Return the record of an exception.

    Pickle calls a class with `args`. Many classes take other arguments, so the second form has
    what an exception without that call is made of; the third leaves out its attributes.
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
    """Call the function, and return the exit status."""
    directory = os.path.abspath((os.environ.get("LOG_DIRS") or ".").split(",")[0])
    try:
        pack = cloudpickle().dumps
        compat()
        function, args, kwargs = read_call()
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


if __name__ == "__main__":
    sys.exit(main())
