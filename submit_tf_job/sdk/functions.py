"""Run a Python function as a job: pickled here, called in every task, and what the deciding task returns or raises comes back.

Example:
    >>> from submit_tf_job import run
    >>> def train(epochs):
    ...     import tensorflow as tf
    ...     return tf.__version__, epochs
    >>> run(train, 3, job={"image": "tf:2.15", "roles": {"worker": {"memory": "2Gi"}}})  # doctest: +SKIP
    ('2.15.1', 3)
"""

from __future__ import annotations

import base64
import importlib
import pickle
import re
import secrets
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from submit_tf_job import callee
from submit_tf_job.errors import JobFailed, NoSuchJob, SettingsError, SubmitTFJobError, UsageError
from submit_tf_job.sdk import Client, JobHandle
from submit_tf_job.settings import process_environment

__all__ = ["Call", "RemoteTraceback", "remote", "run", "start"]

P = ParamSpec("P")
R = TypeVar("R")
SETTLE_S = 60.0  # logs of a job that has just ended are collected within that


class RemoteTraceback(Exception):
    """The traceback of a task, as the cause of the exception that came back with it."""

    def __init__(self, task: str, text: str) -> None:
        super().__init__(f"\n\nin task {task}:\n{text.rstrip()}")


@dataclass
class Call(Generic[R]):
    """A function that runs as a job.

    Attributes:
        handle: The job.
    """

    handle: JobHandle
    keep: bool = False
    _done: bool = field(default=False, repr=False)

    def result(self, timeout_s: float | None = None) -> R:
        """Wait until it is over and return what the function returned in the deciding task; in a notebook it is shown meanwhile.

        Args:
            timeout_s: Seconds after which to give up; None for no limit. The job may go on.

        Raises:
            BaseException: What the function raised first, with the task's traceback as its cause.
            JobFailed: It failed without an exception of Python's.
            JobStopped: It was stopped.
            DeadlinePassed: `timeout_s` passed.
        """
        from submit_tf_job.notebook import in_notebook

        try:
            self.handle.result(timeout_s, watch=in_notebook())
        except JobFailed:
            found = self.handle.why_failed()
            raised = self._left(found.task, needed=False) if found and found.task else None
            self._forget()
            if raised is None or found is None:
                raise
            raise _raised(raised, found.task or "")  # noqa: B904 - its cause is the task's traceback
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
        """Read what a task has left, waiting until its logs are to be had."""
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
                f"{self.handle.name} succeeded, and what {task} returned cannot be read: its logs are not to be had",
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
        return JobFailed(text.strip().splitlines()[-1] if text.strip() else f"{task} failed")
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
        function: The function; it and what it refers to are pickled by value where they are not of an installed package.
        args: Its arguments.
        kwargs: Its named arguments.
        job: A job spec without `command`: `image`, `roles` and whatever else it needs; `name` and `strategy` have defaults.
        client: The client; one made from the settings by default.
        keep: Leave the job when its result was read.

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
    """Run a function as a job and return what it returned in the deciding task.

    Args:
        function: The function; every task calls it.
        args: Its arguments.
        job: As for `start`.
        client: As for `start`.
        local: Run it on this machine, one process for each task, without a cluster.
        timeout_s: Seconds after which to give up; None for no limit.
        kwargs: Its named arguments; one that has the name of an option here goes through `start`.

    Raises:
        BaseException: What the function raised first, with the task's traceback as its cause.
        JobFailed: It failed without an exception of Python's.
    """
    if local:
        return _run_here(function, args, kwargs, job, timeout_s)
    return start(function, args, kwargs, job=job, client=client).result(timeout_s)


@dataclass(frozen=True)
class Remote(Generic[P, R]):
    """A function that runs as a job when it is called; `local` calls it on this machine, `start` returns at once."""

    function: Callable[P, R]
    job: Mapping[str, Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return start(self.function, args, kwargs, job=self.job).result()

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it here, one process for each task."""
        return _run_here(self.function, args, kwargs, self.job, None)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Submit it and return at once."""
        return start(self.function, args, kwargs, job=self.job)


def remote(**job: Any) -> Callable[[Callable[P, R]], Remote[P, R]]:
    """Let a function run as a job when it is called; the arguments are the keys of a job spec.

    Example:
        >>> @remote(image="tf:2.15", strategy="multi-worker", roles={"worker": {"instances": 4, "memory": "4Gi"}})
        ... def train(epochs): ...
        >>> train(3)  # doctest: +SKIP
    """

    def decorate(function: Callable[P, R]) -> Remote[P, R]:
        made = Remote(function, job)
        object.__setattr__(made, "__doc__", function.__doc__)
        object.__setattr__(made, "__wrapped__", function)
        return made

    return decorate


def _run_here(
    function: Callable[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any], job: Mapping[str, Any], timeout_s: float | None
) -> R:
    from submit_tf_job import api
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
        loaded = client.load(_job(function, args, dict(kwargs), {"image": "local", **job, "python": sys.executable}, Path(directory)))
        data = api.DataCheck(loaded, client.settings, here=True)
        data.look()
        done = run_local(
            loaded,
            client.settings.user,
            environ,
            port_range=client.settings["ports.range"],
            timeout_s=timeout_s,
            on_line=_show,
            then=keep,
            lists=data.lists,
        )
    error = api.error_of(done.look)
    if error is None:
        value: R = _value(left[loaded.deciding_task], loaded.deciding_task)
        return value
    first = done.look.verdict.failure.task if done.look.verdict.failure else loaded.deciding_task
    if first in left:
        raise _raised(left[first], first)
    raise error


def _show(task: str, _file: str, text: str) -> None:
    from submit_tf_job.contract import OUTCOME_MARK

    if not text.startswith((OUTCOME_MARK, "[submit_tf_job]")):
        sys.stdout.write(f"{task} | {text}\n")


def _job(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], job: Mapping[str, Any], directory: Path
) -> dict[str, Any]:
    """Write the job spec of a call, and its files into a directory."""
    if "command" in job:
        raise UsageError("a job that calls a function has no command of its own", hint="leave command out")
    module = _cloudpickle()
    with _own_modules_by_value(module):
        packed = base64.b64encode(module.dumps((function, args, kwargs))).decode("ascii")
    version = ".".join(map(str, sys.version_info[:2]))
    (directory / callee.CALL_FILE).write_text(f"{version}\n{packed}", encoding="ascii")
    (directory / callee.PICKLE_FILE).write_bytes(Path(str(module.__file__)).read_bytes())
    (directory / "tfjob_callee.py").write_bytes(Path(callee.__file__).read_bytes())
    files = [str(directory / name) for name in (callee.CALL_FILE, callee.PICKLE_FILE, "tfjob_callee.py")]
    python = job.get("python", "python3")
    interpreter = str(python.get("interpreter", "python3") if isinstance(python, Mapping) else python)
    return {
        # A name of its own: a function that is called twice is run twice.
        "name": f"{_slug(function)}-{secrets.token_hex(4)}",
        "strategy": "single",
        **job,
        "command": [interpreter, "tfjob_callee.py"],
        "files": [*job.get("files", []), *files],
    }


@contextmanager
def _own_modules_by_value(pickler: Any) -> Iterator[None]:
    """Let code of the user's own files travel: a module that is not installed is not there in a container."""
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    mine = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and not any(Path(file).resolve().is_relative_to(path) for path in installed) and module.__name__ in sys.modules:
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
            hint="pip install 'submit_tf_job[functions]'",
        ) from None


def _slug(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None) or type(getattr(function, "func", function)).__name__
    words = re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-")
    return (words if words[:1].isalpha() else f"call-{words}").strip("-")[:40].rstrip("-")
