"""A client for Python programs, and a handle for each job, with the verbs and errors of the
commands.

Example:
    >>> import submit_tf_job
    >>> handle = submit_tf_job.submit("train.yaml")  # doctest: +SKIP
    >>> handle.wait().state  # doctest: +SKIP
    <JobState.SUCCEEDED: 'SUCCEEDED'>
"""

from __future__ import annotations

import json
import logging
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from submit_tf_job import operations
from submit_tf_job.errors import SubmitTFJobError, UsageError
from submit_tf_job.observation import JobState, JobStatus
from submit_tf_job.settings import Settings, keys, load_settings
from submit_tf_job.yarn.run_names import Again

if TYPE_CHECKING:
    from types import TracebackType

    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.doctor.findings import Check
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.logs.entries import LogLine
    from submit_tf_job.operations.description import TaskDetail
    from submit_tf_job.plan import Plan
    from submit_tf_job.sdk.events import Event
    from submit_tf_job.sdk.notebook import ListedJobs

    JobSpec = str | Path | Mapping[str, Any] | Job

__all__ = [
    "Client",
    "JobHandle",
    "JobState",
    "Status",
    "attach",
    "jobs",
    "load",
    "setting_names",
    "submit",
]

_log = logging.getLogger(__name__)
_LEVELS = {"warning": logging.WARNING, "note": logging.INFO}  # of remarks about a converted file


@dataclass(frozen=True, repr=False)
class Status:
    """The status of a job at one moment.

    Attributes:
        job: The observed status of the job, and the verdict.
        root_cause: Why it failed; None if it did not, or if the call does not determine it (`wait`,
            `result` and `why_failed` do).
    """

    job: JobStatus
    root_cause: Cause | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name

    @property
    def run(self) -> str:
        """The run's name, which is that of its YARN service."""
        return self.job.run

    @property
    def application_id(self) -> str:
        """The run's application."""
        return self.job.application_id

    @property
    def state(self) -> JobState:
        """The job's state."""
        return self.job.state

    @property
    def reason(self) -> str:
        """Why the job ended; "" before the end, or without a reason."""
        return self.job.verdict.reason

    @property
    def confirmed(self) -> bool | None:
        """Whether YARN and the deciding task both report the end; None before the end."""
        return self.job.verdict.confirmed

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """The progress that the program reported, or None."""
        return self.job.report.progress if self.job.report else None

    @property
    def tasks(self) -> tuple[TaskDetail, ...]:
        """Its tasks with their nodes and containers, as far as this status has them; of
        `JobHandle.describe`, all.
        """
        from submit_tf_job.operations.description import tasks_of

        return tuple(tasks_of(self.job))

    @property
    def is_over(self) -> bool:
        """Whether the state is final."""
        return self.state.is_final

    @property
    def error(self) -> SubmitTFJobError | None:
        """The error for the job's end: `JobFailed` with the first cause, `JobStopped`, or
        `NoSuchJob` if YARN no longer has a record; else None.
        """
        error = operations.error_of(self.job)
        if error is None or self.root_cause is None:
            return error
        return type(error)(
            f"{self.name} failed: {self.root_cause.sentence}",
            hint=self.root_cause.hint or error.hint,
            retryable=self.root_cause.retryable,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object that `submit_tf_job status -o json` prints (docs/json.md)."""
        from submit_tf_job.jsonview import job_object

        return job_object(self.job, cause=self.root_cause)

    def __repr__(self) -> str:
        from submit_tf_job.report.job_text import progress_words

        words = [self.name, self.state.value, self.reason, progress_words(self.progress or {})]
        return f"<{'  '.join(word for word in words if word)}>"

    def __str__(self) -> str:
        from submit_tf_job.report.job_text import job_lines
        from submit_tf_job.report.untrusted import clean

        return "\n".join(map(clean, job_lines(self.job, cause=self.root_cause)))


class Client:
    """A client for the jobs of one user on one cluster.

    Several threads may use a client at once; a handle is for one thread. Nothing is sent before the
    first call that needs the cluster.

    Args:
        profile: Settings profile; None for the one that the commands would use.
        settings: Settings that were read already, instead of `profile` and `overrides`.
        overrides: Settings that override all others, such as `resource_managers=["http://rm:8088"]`
            or `user="alice"`; dots are written as double
            underscores: `kerberos__keytab="/home/alice/alice.keytab"`.
        secret: The content of the file of `credentials.file`, for programs that get it from another
            source.

    Raises:
        SettingsError: The settings are not valid.

    Example:
        >>> with Client(user="alice") as client:  # doctest: +SKIP
        ...     handle = client.submit("train.yaml", overrides=["roles.worker.instances=8"])
        ...     print(handle.result())
    """

    def __init__(
        self,
        profile: str | None = None,
        *,
        settings: Settings | None = None,
        secret: str | None = None,
        **overrides: Any,
    ) -> None:
        _check_texts(profile=profile)
        named = {name.replace("__", "."): value for name, value in overrides.items()}
        self.settings = settings or load_settings(arguments=named, profile=profile)
        self._secret = secret

    @cached_property
    def cluster(self) -> operations.Cluster:
        """The connection, which `close` closes."""
        made = operations.connect(self.settings, secret=self._secret)
        weakref.finalize(self, made.client.close)
        return made

    def __repr__(self) -> str:
        return f"<client of {self.settings.profile or 'no profile'}, user {self.settings.user}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        if "cluster" in self.__dict__:
            self.cluster.client.close()

    def load(
        self,
        spec: JobSpec,
        *,
        overrides: Sequence[str] = (),
        name: str | None = None,
        dialect: str | None = None,
        base: Path | None = None,
        render: Callable[[str], str] | None = None,
    ) -> Job:
        """Read a job spec: a file, or its content as a mapping.

        Args:
            spec: Path of a file, a mapping with the same keys, or a job that was loaded already.
            overrides: `path=value` texts, as for `--set`.
            name: Another name for the job.
            dialect: The format of a file of another system; None to recognise it. The job's
                `remarks` say what did not carry over.
            base: The directory of `files` of a mapping; default: the working directory.
            render: Called with the text of a file; returns what is read instead, such as a filled
                template.

        Raises:
            JobSpecError: Every problem at once, each with its line.
            UsageError: `spec` is nothing of these; an argument is of a wrong kind; `overrides`,
                `name` or `dialect` was given with a loaded job.
        """
        from submit_tf_job.jobspec.job import Job

        _check_list("overrides", overrides)
        _check_texts(name=name, dialect=dialect)
        if isinstance(spec, (str, Path)):
            path, text = Path(spec), None
            if render is not None:
                text, base = render(operations.read_text(path)).encode(), path.parent
            return operations.load_job(
                path,
                self.settings,
                overrides=overrides,
                name=name,
                text=text,
                base=base,
                dialect=dialect,
            )
        if isinstance(spec, Mapping):
            text = json.dumps(dict(spec), default=str).encode()
            return operations.load_job(
                Path("<mapping>"),
                self.settings,
                overrides=overrides,
                name=name,
                text=text,
                base=base,
                dialect=dialect,
            )
        if not isinstance(spec, Job):
            raise UsageError(
                "spec: expected the path of a job spec, a mapping or a loaded job, found "
                f"{type(spec).__name__}"
            )
        if overrides or name or dialect:
            raise UsageError(
                "a job that is loaded already takes no overrides, no other name and no format",
                hint="give them to load",
            )
        return spec

    def plan(
        self,
        spec: JobSpec,
        *,
        overrides: Sequence[str] = (),
        name: str | None = None,
        submission_id: str | None = None,
        once: bool = False,
        again: Literal["always", "after-failure", "never"] | None = None,
        detached: bool = True,
        dialect: str | None = None,
    ) -> Plan:
        """Return what `submit` would post; `plan(…).body` has the exact bytes. Sends no request.

        A job without `lifetime` has that of `detached_lifetime` of the settings, because a program
        that submits a job need not follow it.

        Args:
            spec: As for `load`.
            overrides: As for `load`.
            name: Another name for the job.
            submission_id: As for `submit`.
            once: As for `submit`.
            again: Whether the same call runs the job again once its run has ended: "always",
                "after-failure" for tries of one task, which report a run that has succeeded, or
                "never"; default: "never" with a `submission_id`, else "always".
            detached: Whether the job has `detached_lifetime`; False if it is followed for sure.
            dialect: As for `load`.

        Raises:
            JobSpecError: The job cannot be planned.
        """
        _check_texts(submission_id=submission_id)
        return operations.make_plan(
            self.load(spec, overrides=overrides, name=name, dialect=dialect),
            self.settings,
            key=submission_id,
            again=Again.NEVER if once else again and Again(again),
            lifetime=detached,
        )

    def submit(
        self,
        spec: JobSpec | Plan,
        *,
        overrides: Sequence[str] = (),
        name: str | None = None,
        submission_id: str | None = None,
        once: bool = False,
        dialect: str | None = None,
    ) -> JobHandle:
        """Submit a job: the same call again finds its run while that lives, and else runs it again.

        Args:
            spec: As for `load`, or what `plan` has returned.
            overrides: As for `load`.
            name: Another name for the job.
            submission_id: A scheduler's own id of this submission: a run of it that has ended is
                reported, and it is never run again. By default a hash of the job and its files.
            once: Do not run it again if this very job has ended already.
            dialect: As for `load`.

        Raises:
            JobSpecError: The job spec is not valid.
            NameTaken: Another run of the job, with other settings or files, is alive.
            Refused: The cluster refuses the job.
            AuthError: Not authenticated, or not allowed.
            ClusterUnavailable: The job may or may not have been submitted; the same call again
                determines it.
            DeadlinePassed: `timeouts.submit` passed.
        """
        from submit_tf_job.plan import Plan

        planned = spec
        if not isinstance(planned, Plan):
            planned = self.plan(
                planned,
                overrides=overrides,
                name=name,
                submission_id=submission_id,
                once=once,
                dialect=dialect,
            )
        done = operations.submit(planned, self.cluster, on_wait=_log.warning)
        for remark in planned.job.remarks:
            _log.log(_LEVELS[remark.level], "%s", remark)
        for warning in done.warnings:
            _log.warning(warning)
        return JobHandle(self, done.ref, submission=done, planned=planned)

    def live(self, job: str) -> tuple[JobHandle, ...]:
        """Return the handles of the live runs of one's own job, the oldest first."""
        found = operations.live_runs(self.cluster, job)
        return tuple(JobHandle(self, ref) for ref in found)

    def starting(self, job: str, within_s: float = 20.0) -> JobHandle | None:
        """Wait for the first live run of one's own job; return None if none appears: a POST's
        application is seen some seconds after the service was stored.
        """
        end = self.cluster.clock() + within_s
        while not (found := self.live(job)) and self.cluster.clock() <= end:
            self.cluster.sleep(1.0)
        return found[0] if found else None

    def runs_of(self, planned: Plan) -> frozenset[str]:
        """Return the names of the runs that a plan's submission may have had, with those by
        `retries.memory`.
        """
        return operations.runs_of(planned)

    def hadoop_version(self, within_s: float | None = None) -> str:
        """Return the Hadoop version of the cluster, "" if it does not tell.

        Args:
            within_s: How long a ResourceManager may take; default: `timeouts.failover`.
        """
        client = self.cluster.client
        deadline = None if within_s is None else client.deadline(within_s)
        return client.cluster_info(deadline=deadline).hadoop_version or ""

    def check(self, *only: str) -> tuple[Check, ...]:
        """Return the findings of `submit_tf_job doctor`, of all checks or of some by their ids.

        Raises:
            AuthError: The cluster takes the client for another user than the settings name.
        """
        from submit_tf_job.doctor.checks import doctor

        operations.check_identity(self.cluster)
        return doctor(self.settings, only=only or None, client=self.cluster.client).findings

    @property
    def default_fs(self) -> str:
        """The file system of the Hadoop configuration, such as `hdfs://nn:8020`; "" without one."""
        from submit_tf_job.storage import default_fs

        return default_fs(self.settings.hadoop_conf) if self.settings.hadoop_conf else ""

    def submit_again(self, planned: Plan, ended: Mapping[str, Any]) -> JobHandle | None:
        """Submit the next run of a job that ran out of memory, if its `retries.memory` says so.

        For a program that has only the JSON of the end of a run that another process followed;
        `wait` and `events` do it by themselves.

        Args:
            planned: The plan of the job's first submission.
            ended: What `to_json` of its last status returned.

        Returns:
            The handle of the next run; None if the job is not submitted again.

        Raises:
            SubmitTFJobError: As `submit`.
        """
        step = operations.next_step_of_json(planned, ended)
        if step is None:
            return None
        _log.warning(step.said)
        if step.plan is None:
            return None
        done = operations.submit(step.plan, self.cluster, on_wait=_log.warning)
        return JobHandle(self, done.ref, submission=done, planned=planned)

    def attach(self, name: str, *, own: bool = False) -> JobHandle:
        """Return the handle of a job's newest run, or of one run by its own name or application id.

        Args:
            name: The name or id.
            own: Whether this program, or another process of it, has submitted the run: whoever
                follows it then stops it if it can never start.

        Raises:
            NoSuchJob: There is no such job.
        """
        _check_texts(name=name)
        ref = operations.find(self.cluster, name)
        return JobHandle(self, ref, by_name=name == ref.name, own=own)

    def jobs(
        self,
        *,
        user: str | None = "",
        queue: str | None = None,
        states: Iterable[JobState | str] = (),
        within_s: float | None = None,
        limit: int | None = None,
        names: Iterable[str] = (),
    ) -> ListedJobs:
        """List jobs, newest first, with one request; a notebook shows them as a table.

        Args:
            user: The owner; "" for the client's user, None for all users.
            queue: The queue; None for all queues.
            states: The states, also by name; empty for all.
            within_s: Maximum age in seconds since submission; None for any age.
            limit: Maximum number of jobs.
            names: Names or application ids; empty for all.

        Raises:
            UsageError: A state does not exist, an argument is of a wrong kind, or `limit` is below
                1.
        """
        from submit_tf_job.operations.listing import JobSelection
        from submit_tf_job.sdk.notebook import ListedJobs

        _check_list("states", states)
        _check_list("names", names)
        _check_texts(user=user, queue=queue)
        if limit is not None and not (isinstance(limit, int) and limit >= 1):
            raise UsageError(f"limit: expected a whole number of at least 1, found {limit!r}")
        whose = self.settings.user if user == "" else user
        try:
            chosen_states = frozenset(map(JobState, states))
        except ValueError as error:
            raise UsageError(f"{error}; states are {', '.join(JobState)}") from None
        chosen = JobSelection(whose, queue, chosen_states, within_s, limit, frozenset(names))
        return ListedJobs(operations.list_jobs(self.cluster, chosen))


def _check_list(name: str, value: Iterable[str]) -> None:
    """Refuse what is no list, and a text, which would be read letter by letter."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        hint = f"write [{value!r}]" if isinstance(value, str) else ""
        raise UsageError(f"{name}: expected a list, found {value!r}", hint=hint)


def _check_texts(**arguments: str | None) -> None:
    """Refuse what is neither a text nor None."""
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{name}: expected a text, found {value!r}")


@dataclass
class JobHandle:
    """A handle of one run of a job: reads its status and logs, waits for it, stops it.

    Attributes:
        client: The client of its cluster.
        ref: The run.
    """

    client: Client
    ref: operations.JobRef
    submission: operations.Submission | None = field(default=None, repr=False)
    planned: Plan | None = field(default=None, repr=False)
    by_name: bool = field(default=False, repr=False)
    own: bool = field(default=False, repr=False)

    def __repr__(self) -> str:
        return f"<job {self.name} {self.run} {self.application_id}>"

    @property
    def name(self) -> str:
        """The job's name."""
        return self.ref.name

    @property
    def run(self) -> str:
        """The run's name, which is that of its YARN service."""
        return self.ref.run

    @property
    def application_id(self) -> str:
        """The run's application."""
        return self.ref.application_id

    @property
    def _cluster(self) -> operations.Cluster:
        return self.client.cluster

    @property
    def _job(self) -> str:
        return self.application_id

    @property
    def adopted(self) -> bool:
        """Whether `submit` found an existing run."""
        return self.submission is not None and self.submission.adopted

    def status(self) -> Status:
        """Return its current status.

        Raises:
            NoSuchJob: The job no longer exists.
        """
        return Status(operations.status(self._cluster, self._job))

    def describe(self) -> Status:
        """Return its current status with its tasks and the attempts of its ApplicationMaster.

        Raises:
            NoSuchJob: The job no longer exists.
        """
        return Status(operations.describe(self._cluster, self._job))

    def wait(
        self,
        timeout_s: float | None = None,
        *,
        until: Callable[[Status], bool] | None = None,
        on_change: Callable[[Status], None] | None = None,
    ) -> Status:
        """Wait until the job is over or `until` holds; raise no error for a failed job.

        A job with `retries.memory` that ran out of memory is submitted again by the handle that
        `submit` returned, which then is the handle of the new application. A handle of `attach`
        with the job's name waits up to a minute for that application, and follows it.

        Args:
            timeout_s: Time limit in seconds; None for no limit.
            until: Returns whether to end before the job is over.
            on_change: Called when state, reason or progress have changed, or all tasks start again.

        Raises:
            DeadlinePassed: `timeout_s` passed; the job may still be running.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
        """
        last: tuple[object, ...] = ()

        def report(event: operations.Event) -> None:
            nonlocal last
            if isinstance(event, operations.Notice):
                _log.warning(event.text)
            if not isinstance(event, JobStatus) or on_change is None:
                return
            seen = Status(event)
            told = event.report and event.report.retried
            progress = json.dumps(seen.progress, sort_keys=True, default=str)
            key = (seen.state, seen.reason, progress, told and told.count)
            if key != last:
                on_change(seen)
            last = key

        return self._end_of(self._follow(timeout_s, until, explain=False), report)

    def events(
        self,
        timeout_s: float | None = None,
        *,
        output_every_s: float | None = None,
        pauses: bool = False,
    ) -> Iterator[Event]:
        """Follow the job to its end as `wait` does, as a sequence of events.

        Args:
            timeout_s: Time limit in seconds; None for no limit.
            output_every_s: Seconds between two reads of the deciding task's output; None to read
                none.
            pauses: Yield a `Pause` where the calling thread would sleep, so that an event loop can
                wait instead.

        Yields:
            Each status; lines of output, why the job waits, and notices (`submit_tf_job.sdk.events`
            has their classes). The last event is the final status, with the first cause.

        Raises:
            DeadlinePassed: `timeout_s` passed; the job may still be running.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
        """
        for event in self._follow(timeout_s, output_every_s=output_every_s):
            if isinstance(event, JobStatus):
                yield Status(event)
            elif isinstance(event, operations.End):
                yield Status(event.status, event.cause)
            elif isinstance(event, operations.Pause) and not pauses:
                self._cluster.sleep(event.seconds)
            else:
                yield event

    def watch(self, timeout_s: float | None = None, *, lines: bool = False) -> Status:
        """Wait until it is over, and show its status meanwhile: in a notebook as a live view below
        the cell, elsewhere as a line for each change.

        An interrupt ends the watch; the job keeps running.

        Args:
            timeout_s: Time limit in seconds; None for no limit.
            lines: Show the last log line of each task in the live view.

        Raises:
            DeadlinePassed: `timeout_s` passed; the job may still be running.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
        """
        from submit_tf_job.sdk.notebook import in_notebook, notebook_view

        if not in_notebook():
            return self.show(timeout_s, print)
        view = notebook_view(self._cluster, with_lines=lines)
        return self._end_of(self._follow(timeout_s), view.take)

    def show(
        self, timeout_s: float | None, say: Callable[[str], None], *, output: bool = False
    ) -> Status:
        """Wait until it is over, and print what `submit_tf_job submit` prints.

        Args:
            timeout_s: Time limit in seconds; None for no limit.
            say: Prints one line.
            output: Whether to show what the deciding task prints.

        Raises:
            KeyboardInterrupt: The user interrupted; the message says how to reach and stop the job.
            DeadlinePassed: `timeout_s` passed; the job may still be running.
        """
        from submit_tf_job.operations.follow import OUTPUT_EVERY_S, TAIL
        from submit_tf_job.report.follow_text import PROGRESS_EVERY_S, EventLines
        from submit_tf_job.report.untrusted import clean

        lines = EventLines(progress_every_s=PROGRESS_EVERY_S if output else 0.0)

        def show(event: operations.Event) -> None:
            for line in lines.lines(event):
                say(clean(line))

        events = self._follow(
            timeout_s,
            output_every_s=OUTPUT_EVERY_S if output else None,
            tail=TAIL if self.submission is None or self.adopted else None,
        )
        try:
            return self._end_of(events, show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(lines.still(self.name)) from None

    def _follow(
        self,
        timeout_s: float | None,
        until: Callable[[Status], bool] | None = None,
        **reading: Any,
    ) -> Iterator[operations.Event]:
        """Yield the events of the job; this is the handle of the next run once that has come."""
        for event in operations.follow(
            self._cluster,
            self.ref,
            self.planned,
            own=self.own,
            next_runs=self.by_name,
            until=lambda job: until is not None and until(Status(job)),
            timeout_s=timeout_s,
            **reading,
        ):
            if isinstance(event, operations.NextRun):
                self.ref, self.submission = event.ref, event.submission
            yield event

    def _end_of(
        self, events: Iterator[operations.Event], show: Callable[[operations.Event], None]
    ) -> Status:
        end = operations.until_end(events, self._cluster.sleep, show)
        return Status(end.status, end.cause)

    def result(self, timeout_s: float | None = None) -> Status:
        """Wait until it is over and return its status, if it succeeded.

        Args:
            timeout_s: Time limit in seconds; None for no limit.

        Raises:
            JobFailed: The job failed; the message is the first cause.
            JobStopped: The job was stopped or killed.
            NoSuchJob: YARN has no record of its end.
            DeadlinePassed: `timeout_s` passed; the job may still be running.
        """
        found = self.wait(timeout_s)
        if found.error is not None:
            raise found.error
        return found

    def logs(
        self,
        task: str | None = None,
        *,
        follow: bool = False,
        tail: int | None = None,
        since_s: float | None = None,
        grep: str | None = None,
        files: Sequence[str] = (),
        raw: bool = False,
    ) -> Iterator[LogLine]:
        """Read the output of its tasks, in order of time if lines have times.

        Args:
            task: A task (`worker-0`) or a role (`worker`); None for all.
            follow: Continue until the job is over.
            tail: The number of last lines to read of each file.
            since_s: Only lines written in the last `since_s` seconds.
            grep: A regular expression that lines must match.
            files: File names; default: stdout.txt and stderr.txt.
            raw: Include lines for programs.

        Raises:
            NoSuchJob: The job has no logs; the message has the reason.
        """
        reading = operations.logs(
            self._cluster,
            self._job,
            task,
            follow=follow,
            tail=tail,
            since_s=since_s,
            grep=grep,
            files=files,
            raw=raw,
        )
        return iter(reading)

    @property
    def page(self) -> str:
        """The application's page at the first ResourceManager of the settings."""
        rm = self.client.settings.resource_managers[0]
        return f"{rm}/cluster/app/{self.application_id}"

    def links(self) -> operations.Links:
        """Return what a browser can show of the job while it runs: its logs, and what tasks serve
        (`ports` of the job spec).
        """
        return operations.all_links(self._cluster, self.ref)

    def why_pending(self) -> tuple[Cause, ...]:
        """Return why the job waits, the most important cause first; () if it does not wait."""
        job = operations.status(self._cluster, self._job)
        return operations.why_pending(self._cluster, job) if operations.is_waiting(job) else ()

    def why_failed(self) -> Cause | None:
        """Return the first cause of the job's failure; None if it did not fail."""
        return operations.why_failed(self._cluster, operations.status(self._cluster, self._job))

    def stop(self, *, wait: bool = True, grace_s: float | None = None) -> Status:
        """Stop the job, and by default wait until it is over; do nothing if it is over.

        Args:
            wait: Return only when YARN reports that it is over.
            grace_s: Seconds for the tasks to save and end before YARN stops the job; None for
                `stop_grace` of its spec, which applies only with `wait`.
        """
        return Status(operations.stop(self._cluster, self._job, wait=wait, grace_s=grace_s))

    def scale(self, role: str, count: int, *, wait: bool = True) -> operations.Change:
        """Change the number of tasks of a sidecar or an elastic role while the job runs.

        Args:
            role: The role.
            count: Its new number of tasks.
            wait: Return only when so many containers of it run.

        Raises:
            UsageError: The role cannot be scaled, or not to that number.
            Refused: The job does not run, or another command has scaled the role meanwhile.
        """
        return operations.scale(self._cluster, self._job, role, count, wait=wait)

    def delete(self, *, force: bool = False) -> bool:
        """Delete the run, with `force` also while it lives; return whether it existed."""
        return bool(operations.delete(self._cluster, self.run, force=force))


def setting_names() -> tuple[str, ...]:
    """Return the names of all settings, which `Client` takes as arguments."""
    return tuple(keys())


# --- for a program with one cluster ---
# Without `plan`: the package `submit_tf_job.plan` has that name.


def load(
    spec: JobSpec,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    dialect: str | None = None,
    base: Path | None = None,
    render: Callable[[str], str] | None = None,
) -> Job:
    """Read a job spec under the settings that the commands would use; see `Client.load`."""
    return Client().load(
        spec, overrides=overrides, name=name, dialect=dialect, base=base, render=render
    )


def submit(
    spec: JobSpec | Plan,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    submission_id: str | None = None,
    once: bool = False,
    dialect: str | None = None,
) -> JobHandle:
    """Submit a job; see `Client.submit`."""
    return Client().submit(
        spec,
        overrides=overrides,
        name=name,
        submission_id=submission_id,
        once=once,
        dialect=dialect,
    )


def attach(name: str, *, own: bool = False) -> JobHandle:
    """Return the handle of an existing job; see `Client.attach`."""
    return Client().attach(name, own=own)


def jobs(
    *,
    user: str | None = "",
    queue: str | None = None,
    states: Iterable[JobState | str] = (),
    within_s: float | None = None,
    limit: int | None = None,
    names: Iterable[str] = (),
) -> ListedJobs:
    """List jobs; see `Client.jobs`."""
    return Client().jobs(
        user=user, queue=queue, states=states, within_s=within_s, limit=limit, names=names
    )
