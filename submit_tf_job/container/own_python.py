"""Start a module of this package as a separate process that no file or variable of the job can
change.

A program may ship its own `queue.py`, and set PYTHONPATH or PYTHONHOME for its own Python. So the
separate process starts its Python like the bootstrap's, looks for modules in Python's own library
first, and does not run a `sitecustomize` of the job or of the image.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from submit_tf_job.container import contract
from submit_tf_job.container.child import FORWARDED, PATIENCE
from submit_tf_job.container.info import Info

# what decides how this Python starts: as the bootstrap has it, not as the program does
PREFIXES = ("PYTHON", "LD_", "LC_", "LANG")
KEPT = "PYTHONHOME"  # an image whose Python needs it has it for the bootstrap, too
# `-c` has the working directory first on the path; nothing is imported before it is replaced
START = (
    "import sys; sys.path[0] = %r; "
    "from submit_tf_job.container.own_python import run_module; run_module(%r, %r, %r)"
)


def command_line(module: str, info: Info, env: Mapping[str, str]) -> list[str]:
    """Return the arguments that run `main` of a module; `env` is the program's environment.

    The process runs in the task's working directory: the path of a credential file in a variable
    may be relative to it.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    named = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    named = [os.path.join(info.cwd, path) for path in named]
    sites = (contract.SITE_DIRECTORY, os.path.join(contract.PACKAGES_LINK, "site"))
    packages = [os.path.join(info.cwd, path) for path in sites]
    first = [path for path in named if path in packages]
    last = [path for path in named if path not in packages]
    # without bytecode, which a full disk cuts off (gh-126606): the next process would fail
    return [sys.executable, "-B", "-S", "-c", START % (root, module, first, last)]


def directory_of(info: Info) -> str:
    """Return the directory to start in: the task's working directory, or the root directory if the
    program has removed it.

    Popen cannot start a process in a directory that does not exist.
    """
    return info.cwd if os.path.isdir(info.cwd) else os.sep


@contextlib.contextmanager
def out_of_reach_of_stops() -> Iterator[None]:
    """Keep the signals of a stop from each process that is started in the block.

    Without Docker a NodeManager sends a signal to all processes of the container's group. The
    process is in that group, so that SIGKILL still ends it together with the bootstrap.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, PATIENCE))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def environment_of(info: Info, env: Mapping[str, str]) -> dict[str, str]:
    """Return the program's variables; but those that change how a Python process starts
    (`PREFIXES`) are those of the bootstrap, or are left out.
    """
    own = {name: value for name, value in env.items() if not name.startswith(PREFIXES)}
    mine = {name: value for name, value in info.env.items() if name.startswith(PREFIXES)}
    own.update((name, mine[name]) for name in mine if name == KEPT or "PYTHON" not in name)
    own["PYTHONUTF8"] = "1"
    if sys.getfilesystemencoding() != "utf-8":  # Python 3.6 in an image without the locale
        own["LC_ALL"] = "C.UTF-8"
    return own


def run_module(module: str, packages: Sequence[str], others: Sequence[str]) -> None:
    """Run `main` of a module, and exit with its result.

    Args:
        module: The name of the module.
        packages: Directories of the job's packages, which come before the image's packages.
        others: The other directories of PYTHONPATH, which come last.
    """
    import site

    site.execsitecustomize = site.execusercustomize = lambda: None
    library = len(sys.path)
    site.main()
    sys.path[library:library] = packages
    sys.path += others
    sys.exit(import_module(module).main())
