"""What calls a Python function in a container, and leaves what it returned or raised in the container's log directory.

Standard library only, Python 3.7 and later: this very file travels with the job of `submit_tf_job.run`, beside the pickled call and the
module that can read it (cloudpickle's, as one file).
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

CALL_FILE = "tfjob-call.txt"  # first line: the Python version that pickled it; then base64
PICKLE_FILE = "tfjob_cloudpickle.py"
RESULT_FILE = "tfjob-result.txt"
RESULT_MAX = 16 * 1024 * 1024
VALUE, ERROR = "value", "error"
EXIT_CANNOT_CALL = 97  # the call could not be read: another Python, or a module that the image lacks
LINE = 76


def cloudpickle() -> ModuleType:
    """Load the module that travels with the call, under the names that pickles know it by."""
    name = "cloudpickle.cloudpickle"
    location = importlib.util.spec_from_file_location(name, os.path.join(os.getcwd(), PICKLE_FILE))
    assert location is not None
    assert location.loader is not None
    module = importlib.util.module_from_spec(location)
    package = ModuleType("cloudpickle")
    package.__path__ = []
    sys.modules["cloudpickle"], sys.modules[name] = package, module
    location.loader.exec_module(module)
    package.__dict__.update({key: value for key, value in vars(module).items() if not key.startswith("__")})
    package.cloudpickle = module  # type: ignore[attr-defined]
    return module


def read_call() -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Read the call."""
    with open(CALL_FILE, encoding="ascii") as file:
        version, _, packed = file.read().partition("\n")
    here = "%d.%d" % sys.version_info[:2]
    if version != here:
        raise RuntimeError(
            "the call was made by Python %s, and this task runs Python %s: a function's code fits one of them only" % (version, here)
        )
    function, args, kwargs = pickle.loads(base64.b64decode(packed))
    return function, args, kwargs


def leave(kind: str, what: Any, text: str, pack: Callable[[Any], bytes]) -> None:
    """Leave a result where the submitter finds it; what cannot be pickled is left as its text."""
    try:
        packed = pack((kind, what, text))
    except Exception as error:  # anything: the user's own classes
        packed = pickle.dumps(
            (ERROR, None, "%s\n\nwhat the function %s cannot be sent back: %r" % (text, "raised" if kind == ERROR else "returned", error))
        )
    if len(packed) > RESULT_MAX:
        words = "what the function returned has %d bytes, and at most %d are sent back: write it to a file system" % (
            len(packed),
            RESULT_MAX,
        )
        packed = pickle.dumps((ERROR, None, words))
    logs = (os.environ.get("LOG_DIRS") or ".").split(",")[0]
    data = base64.b64encode(packed).decode("ascii")
    with open(os.path.join(logs, RESULT_FILE), "w", encoding="ascii") as file:
        file.writelines(data[at : at + LINE] + "\n" for at in range(0, len(data), LINE))


def main() -> int:
    """Call it."""
    try:
        pack = cloudpickle().dumps
        function, args, kwargs = read_call()
    except Exception as error:
        traceback.print_exc()
        leave(ERROR, None, "the function could not be called: %s: %s" % (type(error).__name__, error), pickle.dumps)
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
