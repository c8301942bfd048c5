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
import pickle
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from submit_tf_job import waiting
from submit_tf_job.errors import JobFailed, NameTaken, NoSuchJob, SubmitTFJobError, UsageError
from submit_tf_job.report.follow_text import submitted_line
from submit_tf_job.sdk import callee
from submit_tf_job.sdk.call_spec import call_name, call_spec
from submit_tf_job.sdk.client import Client, JobHandle, Status
from submit_tf_job.settings import process_environment

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
_HERE_MEMORY = "1Gi"  # of a task on this machine, where it bounds nothing


class RemoteTraceback(Exception):
    """The traceback in a task; it is the cause of the exception that is raised here for the task's
    exception.
    """

    def __init__(self, task: str, text: str) -> None:
        super().__init__(f"\n\nin task {task}:\n{text.rstrip()}")


@dataclass
class Call(Generic[R]):
    """A call of a function that runs as a job.

    Attributes:
        handle: The handle of the job.
        keep: Whether the run stays on the cluster after its result was read.
    """

    handle: JobHandle
    keep: bool = False
    _done: bool = field(default=False, repr=False)

    def result(self, timeout_s: float | None = None) -> R:
        """Wait until the job is over, and return the result that the function had in the deciding
        task.

        Meanwhile, changes of the job are printed to stderr, as by `submit_tf_job submit`; in a
        notebook, the job is displayed. The result is read from the task's logs, which YARN collects
        up to a minute after the end. After that the run is deleted, unless `keep`; if it cannot be
        deleted, only a line is printed. A job that has failed is kept, so that its status and logs
        can be read.

        Args:
            timeout_s: Time limit in seconds for the job's end; None for no limit. The job keeps
                running after it.

        Raises:
            BaseException: The first exception of the function, with the task's traceback as its
                cause.
            JobFailed: The job failed without a Python exception, or with an exception that cannot
                be unpickled on this host; or the deciding task's process ended before the function
                returned, or could not send the result.
            JobStopped: The job was stopped.
            NoSuchJob: YARN has no record of the job's end.
            SubmitTFJobError: The job succeeded, and its result cannot be read or unpickled.
            DeadlinePassed: `timeout_s` passed.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
            KeyboardInterrupt: The user interrupted. The job keeps running; the message says how to
                reach and stop it.
        """
        ended = self._follow_to_end(timeout_s)
        say(f"{self.handle.name} is over; YARN collects its logs, in which its tasks' results are")
        if ended.error is not None:
            task = _failed_task(ended)
            packed = _result_in_logs(self.handle, task, needed=False) if task else None
            if packed is None:
                raise ended.error
            raise _with_notes(_exception_of_task(packed, str(task)), ended)
        value: R = result_of(self.handle, self._deciding_task)
        self._delete_run()
        return value

    def _follow_to_end(self, timeout_s: float | None) -> Status:
        from submit_tf_job.sdk.notebook import in_notebook

        if in_notebook():
            return self.handle.watch(timeout_s)
        return self.handle.show(
            timeout_s, say, output=sys.stderr is not None and sys.stderr.isatty()
        )

    @property
    def _deciding_task(self) -> str:
        submission = self.handle.submission
        assert submission is not None
        return submission.plan.job.deciding_task

    def _delete_run(self) -> None:
        """Delete the run, unless `keep`; an error is only printed, as the caller has the result."""
        if self.keep or self._done:
            return
        self._done = True
        try:
            self.handle.delete(force=True)
        except SubmitTFJobError as error:
            run = self.handle.run
            say(f"{run} was not deleted: {error.message} (submit_tf_job delete {run})")


def _failed_task(ended: Status) -> str | None:
    """Return the task whose exception counts: that of the first cause, or, if no cause was found in
    time, the first that failed according to the job's report.
    """
    if ended.root_cause is not None:
        return ended.root_cause.task
    failure = ended.job.verdict.failure
    return failure.task if failure else None


def result_of(handle: JobHandle, task: str) -> Any:
    """Return what the function returned in a task, after the job has succeeded.

    Args:
        handle: The handle of the job.
        task: The name of the task; the deciding task is the one whose result counts.

    Raises:
        BaseException: The exception that the function raised in this task.
        JobFailed: The task left no result, or could not send it; or its exception cannot be rebuilt
            on this host.
        SubmitTFJobError: The task's logs are not available after a minute, or the result cannot be
            unpickled on this host.
    """
    return _unpickled_value(_result_in_logs(handle, task, needed=True), handle.name, task)


def _result_in_logs(handle: JobHandle, task: str, *, needed: bool) -> bytes | None:
    """Wait up to a minute until a task's logs can be read, and return the pickled result in them;
    None if they contain no result.

    Args:
        handle: The handle of the job.
        task: The name of the task.
        needed: Whether the task must have left a result. If False, stop waiting as soon as another
            file of the task can be read, and return None instead of raising an error.

    Raises:
        SubmitTFJobError: With `needed`: the task's logs cannot be read.
    """
    cluster, were_read = handle.client.cluster, False
    for _ in waiting.LOGS_ARE_COLLECTED.attempts(cluster.clock, cluster.sleep):
        try:
            lines = _result_lines(handle, task)
        except SubmitTFJobError:
            if needed:
                raise
            return None
        if lines:
            return base64.b64decode("".join(lines))
        were_read = were_read or lines is not None
        if were_read and not needed:
            break
    if needed and not were_read:
        raise SubmitTFJobError(
            f"{handle.name} succeeded, and what {task} returned cannot be read: "
            f"its logs are not available",
            hint=f"submit_tf_job logs {handle.name} --list",
        )
    return None


def _result_lines(handle: JobHandle, task: str) -> list[str] | None:
    """Return the lines of the file with a task's result; [] if the task has left no such file; None
    if its logs cannot be read.
    """
    from submit_tf_job.logs.entries import NoSuchLog

    try:
        return [line.text for line in handle.logs(task, files=[callee.RESULT_FILE])]
    except NoSuchLog:  # its other files are there
        return []
    except NoSuchJob:
        return None


def _exception_of_task(packed: bytes, task: str) -> BaseException:
    """Return the exception of a task, with a `RemoteTraceback` as its cause; if it cannot be
    rebuilt on this host, or if the task has left a message instead, a JobFailed with that text.
    """
    kind, what, text = pickle.loads(packed)
    if kind == callee.REFUSED:
        return JobFailed(text)
    cause = RemoteTraceback(task, text)
    try:
        error = pickle.loads(what)
        if isinstance(error, tuple):
            made_of, args, attributes = error
            error = made_of.__new__(made_of, *args)
            vars(error).update(attributes)
        # a frozen dataclass refuses a plain assignment, and this call what is no exception
        BaseException.__setattr__(error, "__cause__", cause)
    except Exception:  # noqa: BLE001 - a module that is not here, or the user's own class
        error = JobFailed(f"{task} raised {_last_line(text)}")
        error.__cause__ = cause
    assert isinstance(error, BaseException)
    return error


def _last_line(text: str) -> str:
    """Return the line of a traceback that tells which exception was raised; in the traceback of a
    group, the line begins with `|`.
    """
    lines = re.findall(r"^(?:  \| )?(\w[\w.<>]*(?:: .*)?)$", text, re.MULTILINE)
    return next(reversed(lines), "an exception")


def _with_notes(error: BaseException, ended: Status) -> BaseException:
    """Add a note to a task's exception, and return the exception. The note says why the job failed
    and which commands show more; before Python 3.11 it is added to the exception's cause.
    """
    cause, name, verdict = ended.root_cause, ended.name, ended.job.verdict
    why, hint = (cause.sentence, cause.hint) if cause else (verdict.reason, verdict.hint)
    hint = f"\nhint: {hint}" if hint else ""
    note = f"{name} failed: {why}{hint}\nsubmit_tf_job status {name}, logs {name}"
    if sys.version_info >= (3, 11):
        # as `add_note`, which a frozen dataclass refuses
        vars(error).setdefault("__notes__", []).append(note)
    elif error.__cause__ is not None:
        error.__cause__.args = (f"{error.__cause__}\n{note}",)
    return error


def say(line: str) -> None:
    """Print a line about a job to stderr, at once, so that lines of several threads do not mix."""
    if sys.stderr is not None:  # None where it is closed (`2>&-`)
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _unpickled_value(packed: bytes | None, name: str, task: str) -> Any:
    """Return the value that a task returned.

    Raises:
        BaseException: The exception that the function raised in the task.
        JobFailed: The task left no result, or could not send it; or its exception cannot be rebuilt
            on this host.
        SubmitTFJobError: The value cannot be unpickled on this host.
    """
    if packed is None:
        raise JobFailed(
            f"{name} succeeded, and {task} returned nothing: its process ended before the function",
            hint="The function must return: os._exit and exec end its process.",
        )
    kind, value, _text = pickle.loads(packed)
    if kind != callee.VALUE:
        raise _exception_of_task(packed, task)
    try:
        return pickle.loads(value)
    except Exception as error:
        raise SubmitTFJobError(
            f"what {task} of {name} returned cannot be read here: {type(error).__name__}: {error}",
            hint="Return plain data, such as numbers, text, lists and mappings; for others this "
            "host needs the modules of their classes, and a class of your own no `__slots__`.",
        ) from error


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
    """Submit a call of a function as a job, and return without waiting for its end; every task
    calls the function. If the job of the same call is alive, that job is returned.

    Args:
        function: The function; it and the objects that it uses are pickled by value, except those
            of installed packages.
        args: The function's positional arguments.
        kwargs: The function's named arguments.
        job: A job spec without `command`: `image`, `roles` and other keys. By default `name` is
            made from the script and the function, `strategy` is `single`, `roles` is one `worker`,
            and memory is `task_memory` of the settings.
        client: The client; default: one with the settings that the commands would use.
        keep: Keep the run on the cluster after its result was read.

    Raises:
        UsageError: The function cannot be pickled, or is a coroutine function; or `job` is not a
            mapping, has a command, or states no memory and the settings do not either.
        SettingsError: cloudpickle is not installed, or the settings are not valid.
        JobSpecError: The job spec is not valid.
        NameTaken: The job of another call with this name is alive.
        SubmitTFJobError: Another error of `Client.submit`.
    """
    return start_as(function, function, args, kwargs or {}, job, client, keep=keep)


def start_as(
    user_function: Callable[..., Any],
    function: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    job: Mapping[str, Any],
    client: Client | None,
    *,
    keep: bool = False,
) -> Call[R]:
    """Submit a call of `function` as `start` does; the job is named after `user_function`, which
    `function` calls.
    """
    client = client or Client()
    given = _completed_job(user_function, client, job, client.settings.task_memory)
    name = str(given["name"])
    try:
        with tempfile.TemporaryDirectory(prefix="submit_tf_job-call-") as directory:
            spec = call_spec(function, args, dict(kwargs), given, Path(directory))
            handle = _submit_call(client, spec, keep=keep)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{name} may have been submitted: submit_tf_job status {name}"
        ) from None
    address = f"{client.settings.resource_managers[0]}/cluster/app/{handle.application_id}"
    if handle.submission is not None:
        say(f"{submitted_line(handle.submission)}  {address}")
    return Call(handle, keep)


def _completed_job(
    function: Callable[..., Any], client: Client, job: Mapping[str, Any], memory: str | None
) -> dict[str, Any]:
    """Return the job spec for a call: the given keys, a name made from the function's name, a role,
    and the memory of tasks if the job spec states none.

    Raises:
        UsageError: The job spec is not a mapping, or no memory is known.
    """
    if not isinstance(job, Mapping):
        raise UsageError(
            f"job: expected a mapping with keys of a job spec, found {type(job).__name__}",
            hint='such as {"image": "tf:2.15", "roles": {"worker": {"memory": "2Gi"}}}',
        )
    roles = job.get("roles", {"worker": {}})
    silent = {
        name: role for name, role in _role_mappings(roles) if not {"memory", "shape"} & {*role}
    }
    if silent and memory is None:
        raise UsageError(
            f"the memory of {', '.join(silent)} is not known",
            hint=f'job={{"roles": {{"{next(iter(silent))}": {{"memory": "4Gi"}}}}}}; or once for '
            "all jobs task_memory: 4Gi in the settings",
        )
    if silent:
        more = {name: {"memory": memory, **role} for name, role in silent.items()}
        job = {**job, "roles": {**roles, **more}}
    return {"name": call_name(function, client.settings.user), **job}


def _role_mappings(roles: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the roles that are mappings; other values are refused later, with the whole job
    spec.
    """
    for name, role in roles.items() if isinstance(roles, Mapping) else ():
        if isinstance(role, Mapping):
            yield name, role


def _submit_call(client: Client, spec: Mapping[str, Any], *, keep: bool) -> JobHandle:
    """Submit a call; if the job of the same call still runs, return that job.

    Raises:
        NameTaken: The job of a different call with that name still runs.
    """
    if keep:
        return client.submit(spec)
    name = spec["name"]
    try:
        return client.submit(spec)
    except NameTaken as error:
        raise NameTaken(
            error.message,
            hint=f"An earlier start of this script may run: submit_tf_job watch {name}, or stop "
            f"{name}; to run another one beside it, give it a name: job={{'name': …}}",
        ) from None


# Positional arguments are checked, up to two; with named options beside them none can be by a
# ParamSpec (PEP 612). `remote` checks all.
@overload
def run(
    function: Callable[..., R],
    /,
    *,
    job: Mapping[str, Any],
    client: Client | None = None,
    local: bool = False,
    timeout_s: float | None = None,
    **kwargs: Any,
) -> R: ...


@overload
def run(
    function: Callable[Concatenate[A, ...], R],
    a: A,
    /,
    *,
    job: Mapping[str, Any],
    client: Client | None = None,
    local: bool = False,
    timeout_s: float | None = None,
    **kwargs: Any,
) -> R: ...


@overload
def run(
    function: Callable[Concatenate[A, B, ...], R],
    a: A,
    b: B,
    /,
    *,
    job: Mapping[str, Any],
    client: Client | None = None,
    local: bool = False,
    timeout_s: float | None = None,
    **kwargs: Any,
) -> R: ...


@overload
def run(
    function: Callable[..., R],
    a: Any,
    b: Any,
    c: Any,
    /,
    *args: Any,
    job: Mapping[str, Any],
    client: Client | None = None,
    local: bool = False,
    timeout_s: float | None = None,
    **kwargs: Any,
) -> R: ...


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
    """Run a function as a job, and return the result that it has in the deciding task. The run is
    deleted after that; a job that has failed is kept.

    Args:
        function: The function; every task calls it.
        args: The function's positional arguments.
        job: As for `start`.
        client: As for `start`; not used with `local`.
        local: Run the function on this machine, with one process for each task, without a cluster.
        timeout_s: Time limit in seconds; None for no limit. After it a job on the cluster keeps
            running; with `local` its processes are ended.
        kwargs: The function's named arguments. If one of them has the name of an option of `run`,
            use `start`.

    Raises:
        BaseException: The first exception of the function, with the task's traceback as its cause.
        JobFailed: As for `Call.result`.
        JobStopped: The job was stopped.
        DeadlinePassed: `timeout_s` passed.
        SubmitTFJobError: Another error of `start` or `Call.result`.
    """
    if local:
        return _run_here(function, args, kwargs, job, timeout_s)
    return start(function, args, kwargs, job=job, client=client).result(timeout_s)


@dataclass(frozen=True)
class Remote(Generic[P, R]):
    """A function that runs as a job when it is called, as `run` does; `local` runs it on this
    machine, and `start` returns without waiting for the end.

    Attributes:
        function: The function.
        job: The keys of the job spec, as for `start`.
    """

    function: Callable[P, R]
    job: Mapping[str, Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return start(self.function, args, kwargs, job=self.job).result()

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function on this machine, with one process for each task, and return the result
        that it has in the deciding task; errors are those of `run`.
        """
        return _run_here(self.function, args, kwargs, self.job, None)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Submit the function as a job and return without waiting for its end; errors are those of
        the function `start`.
        """
        return start(self.function, args, kwargs, job=self.job)


def remote(**job: Any) -> Callable[[Callable[P, R]], Remote[P, R]]:
    """Return a decorator that makes a function run as a job when it is called; the arguments are
    the keys of a job spec, as in `job` of `start`.

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
    from submit_tf_job.local import LocalRun, run_local
    from submit_tf_job.operations.submit_checks import DataCheck

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
        given = _completed_job(function, client, job, _HERE_MEMORY)
        spec = {"image": "local", **given, "python": sys.executable}
        loaded = client.load(call_spec(function, args, dict(kwargs), spec, Path(directory)))
        data = DataCheck(loaded, client.settings, on_this_machine=True)
        data.check()
        done = run_local(
            loaded,
            client.settings.user,
            environ,
            port_range=client.settings.ports.range,
            timeout_s=timeout_s,
            on_line=_show_line,
            then=keep,
            lists=data.lists,
        )
    error = Status(done.status, done.cause).error
    if error is None:
        task = loaded.deciding_task
        value: R = _unpickled_value(left.get(task), loaded.name, task)
        return value
    first = loaded.deciding_task
    if done.status.verdict.failure:
        first = done.status.verdict.failure.task
    if first in left:
        raise _exception_of_task(left[first], first)
    raise error


def _show_line(task: str, _file: str, text: str) -> None:
    from submit_tf_job.container.contract import OUTCOME_MARK

    if not text.startswith((OUTCOME_MARK, "[submit_tf_job]")):
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"  # it may not know every letter
        line = text.encode(encoding, "backslashreplace").decode(encoding)
        print(f"{task} | {line}\n", end="")  # noqa: T201 - one write; without stdout none
