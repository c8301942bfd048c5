"""Run a Python function as a job: every task calls it; the deciding task's result is returned.

Example:
    >>> from submit_tf_job import run
    >>> def train(epochs):
    ...     import tensorflow as tf
    ...     return tf.__version__, epochs
    >>> run(train, 3, job={"image": "tf:2.15", "roles": {"worker": {"memory": "2Gi"}}})  # doctest: +SKIP
    ('2.15.1', 3)
"""  # noqa: E501

from __future__ import annotations

import base64
import importlib
import inspect
import io
import pickle
import re
import secrets
import sys
import sysconfig
import tempfile
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, Generic, ParamSpec, TypeVar

from submit_tf_job.container.programs import callee
from submit_tf_job.errors import JobFailed, NoSuchJob, SettingsError, SubmitTFJobError, UsageError
from submit_tf_job.sdk.client import Client, JobHandle
from submit_tf_job.settings import process_environment

__all__ = ["Call", "RemoteTraceback", "remote", "run", "start"]

P = ParamSpec("P")
R = TypeVar("R")
SETTLE_S = 60.0  # the logs of a job that has just ended are collected in that time


class RemoteTraceback(Exception):
    """The traceback of a task, as the cause of the exception that the task raised."""

    def __init__(self, task: str, text: str) -> None:
        super().__init__(f"\n\nin task {task}:\n{text.rstrip()}")


@dataclass
class Call(Generic[R]):
    """A call of a function that runs as a job.

    Attributes:
        handle: The job.
    """

    handle: JobHandle
    keep: bool = False
    _done: bool = field(default=False, repr=False)

    def result(self, timeout_s: float | None = None) -> R:
        """Wait until the job is over and return the function's result in the deciding task; a
        notebook shows the job meanwhile.

        Args:
            timeout_s: Time limit in seconds; None for no limit. The job keeps running.

        Raises:
            BaseException: The first exception of the function, with the task's traceback as its
                cause.
            JobFailed: The job failed without a Python exception.
            JobStopped: The job was stopped.
            DeadlinePassed: `timeout_s` passed.
        """
        from submit_tf_job.sdk.notebook import in_notebook

        try:
            self.handle.result(timeout_s, watch=in_notebook())
        except JobFailed:
            found, raised, task = self.handle.why_failed(), None, ""
            if found and found.task:
                task = found.task
                raised = self._left(task, needed=False)
            self._forget()
            if raised is None:
                raise
            raise _raised(raised, task)  # noqa: B904 - its cause is the task's traceback
        packed = self._left(self._deciding, needed=True)
        self._forget()
        assert packed is not None
        value: R = _value(packed, self._deciding)
        return value

    @property
    def _deciding(self) -> str:
        submission = self.handle.submission
        assert submission is not None
        return submission.plan.job.deciding_task

    def _left(self, task: str, *, needed: bool) -> bytes | None:
        """Return the output of a task, after waiting until its logs can be read."""
        cluster = self.handle.client.cluster
        deadline = cluster.clock() + SETTLE_S
        while True:
            try:
                lines = [line.text for line in self.handle.logs(task, files=[callee.RESULT_FILE])]
            except NoSuchJob:
                lines = []
            if lines:
                return base64.b64decode("".join(lines))
            if cluster.clock() > deadline or not needed:
                break
            cluster.sleep(1.0)
        if needed:
            raise SubmitTFJobError(
                f"{self.handle.name} succeeded, and what {task} returned cannot be read: "
                f"its logs are not available",
                hint=f"submit_tf_job logs {self.handle.name} --list",
            )
        return None

    def _forget(self) -> None:
        if not self.keep and not self._done:
            self._done = True
            self.handle.delete(force=True)


def _raised(packed: bytes, task: str) -> BaseException:
    kind, error, text = pickle.loads(packed)
    if kind != callee.ERROR or error is None:
        return JobFailed(next(reversed(text.strip().splitlines()), f"{task} failed"))
    error.__cause__ = RemoteTraceback(task, text)
    assert isinstance(error, BaseException)
    return error


def _value(packed: bytes, task: str) -> Any:
    kind, value, _text = pickle.loads(packed)
    if kind != callee.VALUE:
        raise _raised(packed, task)
    return value


def start(
    function: Callable[P, R],
    /,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    job: Mapping[str, Any],
    client: Client | None = None,
    keep: bool = False,
) -> Call[R]:
    """Submit a call of a function and return at once.

    Args:
        function: The function; it and the objects that it uses are pickled by value, except those
            of installed packages.
        args: Its arguments.
        kwargs: Its named arguments.
        job: A job spec without `command`: `image`, `roles` and other keys; `name` and `strategy`
            have defaults.
        client: The client; default: one with the settings.
        keep: Keep the job after its result was read.

    Raises:
        JobSpecError: The job spec is not valid.
        SettingsError: cloudpickle is not installed.
    """
    client = client or Client()
    with tempfile.TemporaryDirectory(prefix="submit_tf_job-call-") as directory:
        handle = client.submit(_job(function, args, dict(kwargs or {}), job, Path(directory)))
    return Call(handle, keep)


def run(
    function: Callable[..., R],
    /,
    *args: Any,
    job: Mapping[str, Any],
    client: Client | None = None,
    local: bool = False,
    timeout_s: float | None = None,
    **kwargs: Any,
) -> R:
    """Run a function as a job and return its result in the deciding task.

    Args:
        function: The function; every task calls it.
        args: Its arguments.
        job: As for `start`.
        client: As for `start`.
        local: Run it on this machine, one process for each task, without a cluster.
        timeout_s: Time limit in seconds; None for no limit.
        kwargs: Its named arguments; use `start` for one with the name of an option here.

    Raises:
        BaseException: The first exception of the function, with the task's traceback as its cause.
        JobFailed: The job failed without a Python exception.
    """
    if local:
        return _run_here(function, args, kwargs, job, timeout_s)
    return start(function, args, kwargs, job=job, client=client).result(timeout_s)


@dataclass(frozen=True)
class Remote(Generic[P, R]):
    """A function that runs as a job when it is called; `local` runs it on this machine, and `start`
    returns at once.
    """

    function: Callable[P, R]
    job: Mapping[str, Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return start(self.function, args, kwargs, job=self.job).result()

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function on this machine, one process for each task."""
        return _run_here(self.function, args, kwargs, self.job, None)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Submit the function as a job and return at once."""
        return start(self.function, args, kwargs, job=self.job)


def remote(**job: Any) -> Callable[[Callable[P, R]], Remote[P, R]]:
    """Make a function run as a job when it is called; the arguments are the keys of a job spec.

    Example:
        >>> @remote(image="tf:2.15", strategy="multi-worker", roles={"worker": {"instances": 4, "memory": "4Gi"}})
        ... def train(epochs): ...
        >>> train(3)  # doctest: +SKIP
    """  # noqa: E501

    def decorate(function: Callable[P, R]) -> Remote[P, R]:
        made = Remote(function, job)
        object.__setattr__(made, "__doc__", function.__doc__)
        object.__setattr__(made, "__wrapped__", function)
        return made

    return decorate


def _run_here(
    function: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    job: Mapping[str, Any],
    timeout_s: float | None,
) -> R:
    from submit_tf_job import operations
    from submit_tf_job.local import LocalRun, run_local

    left: dict[str, bytes] = {}

    def keep(run: LocalRun) -> None:
        for task in run.tasks.values():
            path = task.logs / callee.RESULT_FILE
            if path.is_file():
                left[task.name] = base64.b64decode(path.read_bytes())

    client = Client()
    environ = process_environment()
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ.get('PATH', '')}"
    with tempfile.TemporaryDirectory(prefix="submit_tf_job-call-") as directory:
        spec = {"image": "local", **job, "python": sys.executable}
        loaded = client.load(_job(function, args, dict(kwargs), spec, Path(directory)))
        data = operations.DataCheck(loaded, client.settings, here=True)
        data.look()
        done = run_local(
            loaded,
            client.settings.user,
            environ,
            port_range=client.settings.ports.range,
            timeout_s=timeout_s,
            on_line=_show,
            then=keep,
            lists=data.lists,
        )
    error = operations.error_of(done.status)
    if error is None:
        value: R = _value(left[loaded.deciding_task], loaded.deciding_task)
        return value
    first = loaded.deciding_task
    if done.status.verdict.failure:
        first = done.status.verdict.failure.task
    if first in left:
        raise _raised(left[first], first)
    raise error


def _show(task: str, _file: str, text: str) -> None:
    from submit_tf_job.container.contract import OUTCOME_MARK

    if not text.startswith((OUTCOME_MARK, "[submit_tf_job]")):
        sys.stdout.write(f"{task} | {text}\n")


def _job(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    job: Mapping[str, Any],
    directory: Path,
) -> dict[str, Any]:
    """Write the job spec of a call, and its files into a directory."""
    if "command" in job:
        raise UsageError(
            "a job that calls a function has no command of its own", hint="leave command out"
        )
    module = _cloudpickle()
    with _own_modules_by_value(module):
        packed = base64.b64encode(_pickled(module, function, args, kwargs)).decode("ascii")
    version = ".".join(map(str, sys.version_info[:2]))
    (directory / callee.CALL_FILE).write_text(f"{version}\n{packed}", encoding="ascii")
    (directory / callee.PICKLE_FILE).write_bytes(Path(str(module.__file__)).read_bytes())
    (directory / "tfjob_callee.py").write_bytes(Path(callee.__file__).read_bytes())
    files = [
        str(directory / name) for name in (callee.CALL_FILE, callee.PICKLE_FILE, "tfjob_callee.py")
    ]
    python = job.get("python", "python3")
    if isinstance(python, Mapping):
        python = python.get("interpreter", "python3")
    return {
        # A unique name: a function that is called twice is run twice.
        "name": f"{_slug(function)}-{secrets.token_hex(4)}",
        "strategy": "single",
        **job,
        "command": [str(python), "tfjob_callee.py"],
        "files": [*job.get("files", []), *files],
    }


def _pickled(
    pickler: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bytes:
    """Pickle a call.

    Raises:
        UsageError: An object that it uses cannot be pickled; the message names the variable.
    """
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
            pickler.dumps(value)
        except Exception:  # noqa: BLE001, PERF203 - as above, and a few values
            return f"its {what} of type {type(value).__qualname__}"
    return ""


@contextmanager
def _own_modules_by_value(pickler: Any) -> Iterator[None]:
    """Pickle code of the user's own files by value: a container does not have these modules."""
    installed = {
        Path(sysconfig.get_path(name)).resolve()
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    mine = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or module.__name__ not in sys.modules:
            continue
        own = not any(Path(file).resolve().is_relative_to(path) for path in installed)
        if own or module.__name__ == "submit_tf_job.compat.in_task":
            mine.append(module)
    for module in mine:
        pickler.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in mine:
            pickler.unregister_pickle_by_value(module)


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle.cloudpickle")
    except ImportError:
        raise SettingsError(
            "to run a function its code is pickled by cloudpickle, which is not installed here",
            hint="pip install 'cloudpickle>=3'",
        ) from None


def _slug(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None) or type(getattr(function, "func", function)).__name__
    words = re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-")
    if not words[:1].isalpha():
        words = f"call-{words}"
    return words.strip("-")[:40].rstrip("-")
