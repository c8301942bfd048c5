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
VALUE, ERROR = "value", "error"
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


def leave(kind: str, what: Any, text: str, pack: Callable[[Any], bytes]) -> None:
    """Write a result to the log directory; an object that cannot be pickled becomes its text."""
    try:
        packed = pack((kind, what, text))
    except Exception as error:  # the user's own classes may raise anything
        what = {VALUE: "returned", ERROR: "raised"}[kind]
        text += "\n\nwhat the function %s cannot be sent back: %r" % (what, error)
        packed = pickle.dumps((ERROR, None, text))
    if len(packed) > RESULT_MAX:
        text = (
            "what the function returned has %d bytes, and at most %d are sent back: write "
            "it to a file system" % (len(packed), RESULT_MAX)
        )
        packed = pickle.dumps((ERROR, None, text))
    logs = (os.environ.get("LOG_DIRS") or ".").split(",")[0]
    data = base64.b64encode(packed).decode("ascii")
    with open(os.path.join(logs, RESULT_FILE), "w", encoding="ascii") as file:
        file.writelines(data[at : at + LINE] + "\n" for at in range(0, len(data), LINE))


def main() -> int:
    """Call the function, and return the exit status."""
    try:
        pack = cloudpickle().dumps
        compat()
        function, args, kwargs = read_call()
    except Exception as error:
        traceback.print_exc()
        text = "the function could not be called: %s: %s" % (type(error).__name__, error)
        leave(ERROR, None, text, pickle.dumps)
        return EXIT_CANNOT_CALL
    try:
        value = function(*args, **kwargs)
    except SystemExit:
        raise
    except BaseException as error:
        text = traceback.format_exc()
        sys.stderr.write(text)
        leave(ERROR, error, text, pack)
        return 1
    leave(VALUE, value, "", pack)
    return 0


if __name__ == "__main__":
    sys.exit(main())
