"""The door for Python programs: a client, and a handle for each job. Thin over `api`; the same verbs, words and errors as the commands.

Example:
    >>> import submit_tf_job
    >>> handle = submit_tf_job.submit("train.yaml")  # doctest: +SKIP
    >>> handle.wait().state  # doctest: +SKIP
    <JobState.SUCCEEDED: 'SUCCEEDED'>
"""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submit_tf_job import api
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.settings import Settings, load_settings

if TYPE_CHECKING:
    from types import TracebackType

    from submit_tf_job.diagnose.model import Cause, RootCause
    from submit_tf_job.fleet import ListedJob
    from submit_tf_job.job import Job
    from submit_tf_job.observation import JobState
    from submit_tf_job.plan import Plan
    from submit_tf_job.tasklogs.model import LogLine
    from submit_tf_job.watch import Look

    JobSpec = str | Path | Mapping[str, Any] | Job

__all__ = ["Client", "JobHandle", "Status", "attach", "jobs", "load", "submit"]


@dataclass(frozen=True)
class Status:
    """A job as it was at one moment.

    Attributes:
        name: Its name.
        application_id: Its application, None while YARN has not accepted it.
        state: Where it is.
        reason: Why it ended as it did, "" while it has not, or where there is nothing to say.
        confirmed: Whether both witnesses, YARN and the deciding task, say so; None while nobody can know.
        progress: What the program said of its progress, None where it said nothing.
        root_cause: Why it failed, None where it did not, or where that was not asked (`wait`, `result` and `why_failed` ask).
    """

    name: str
    application_id: str | None
    state: JobState
    reason: str
    confirmed: bool | None
    progress: Mapping[str, Any] | None
    root_cause: RootCause | None = None
    look: Look | None = field(default=None, repr=False, compare=False)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state.is_final

    @property
    def error(self) -> SubmitTFJobError | None:
        """The error that its end is: `JobFailed` with the first cause, `JobStopped`, `NoSuchJob` where nobody knows any more; else None."""
        assert self.look is not None
        error = api.error_of(self.look)
        if error is None or self.root_cause is None:
            return error
        return type(error)(f"{self.name} failed: {self.root_cause.sentence}", hint=self.root_cause.hint or error.hint)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `submit_tf_job status -o json` prints (docs/json.md)."""
        from submit_tf_job.report.job import job_object

        assert self.look is not None
        return job_object(self.look, cause=self.root_cause)

    def __str__(self) -> str:
        from submit_tf_job.report.job import job_lines

        assert self.look is not None
        return "\n".join(job_lines(self.look, cause=self.root_cause))


def _status(look: Look, cause: RootCause | None = None) -> Status:
    report, found = look.seen.report, look.verdict
    progress = report.progress if report else None
    return Status(look.seen.name, look.seen.application_id, found.state, found.reason, found.confirmed, progress, cause, look)


class Client:
    """One user's jobs on one cluster.

    It may be used by several threads at once; its handles by one each. Nothing is sent before the first call that needs the cluster.

    Args:
        profile: Settings profile; None for the one that the commands would use.
        settings: Settings that were read already, in place of `profile` and `overrides`.
        overrides: Settings that beat all others, such as `resource_managers=["http://rm:8088"]` or `user="alice"`; dots are written as
            double underscores: `kerberos__keytab="/home/alice/alice.keytab"`.
        secret: What the file of `credentials.file` would hold, for programs that have it from elsewhere.

    Raises:
        SettingsError: The settings are not valid.

    Example:
        >>> with Client(user="alice") as client:  # doctest: +SKIP
        ...     handle = client.submit("train.yaml", overrides=["roles.worker.instances=8"])
        ...     print(handle.result())
    """

    def __init__(
        self, profile: str | None = None, *, settings: Settings | None = None, secret: str | None = None, **overrides: Any
    ) -> None:
        named = {name.replace("__", "."): value for name, value in overrides.items()}
        self.settings = settings or load_settings(arguments=named, profile=profile)
        self._secret = secret

    @cached_property
    def cluster(self) -> api.Cluster:
        """The connection; it ends with the client at the latest."""
        made = api.connect(self.settings, secret=self._secret)
        weakref.finalize(self, made.client.close)
        return made

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        if "cluster" in self.__dict__:
            self.cluster.client.close()

    def load(self, spec: JobSpec, *, overrides: Sequence[str] = (), name: str | None = None) -> Job:
        """Read a job spec: a file, or its content as a mapping.

        Args:
            spec: Path of a file, a mapping with the same keys, or a job that was loaded already.
            overrides: `path=value` texts, as `--set` takes them.
            name: Another name for the job.

        Raises:
            JobSpecError: Every problem at once, each with its line.
            UsageError: `overrides` or `name` came with a job that was loaded already.
        """
        if isinstance(spec, (str, Path)):
            return api.load_job(Path(spec), self.settings, overrides=overrides, name=name)
        if isinstance(spec, Mapping):
            text = json.dumps(dict(spec), default=str).encode()
            return api.load_job(Path("<mapping>"), self.settings, overrides=overrides, name=name, text=text)
        if overrides or name:
            from submit_tf_job.errors import UsageError

            raise UsageError("a job that is loaded already takes no overrides and no other name", hint="give them to load")
        return spec

    def plan(self, spec: JobSpec, *, overrides: Sequence[str] = (), name: str | None = None, submission_id: str | None = None) -> Plan:
        """Build what `submit` would post; `plan(…).body` is it, byte for byte. Asks no cluster.

        Raises:
            JobSpecError: The job cannot be planned.
        """
        return api.make_plan(self.load(spec, overrides=overrides, name=name), self.settings, submission=submission_id)

    def submit(
        self,
        spec: JobSpec,
        *,
        overrides: Sequence[str] = (),
        name: str | None = None,
        submission_id: str | None = None,
        replace: bool = False,
    ) -> JobHandle:
        """Submit a job, once: the same call again finds the job that it made.

        Args:
            spec: As `load` takes it.
            overrides: As `load` takes them.
            name: Another name for the job.
            submission_id: A scheduler's own id of this submission; by default a hash of the job and the site.
            replace: Delete a finished job of that name first.

        Raises:
            JobSpecError: The job spec is not valid.
            NameTaken: Another submission holds the name.
            Refused: The cluster refuses the job.
            AuthError: Not authenticated, or not allowed.
            ClusterUnavailable: It is not certain whether the job was submitted; the same call again finds out.
        """
        planned = self.plan(spec, overrides=overrides, name=name, submission_id=submission_id)
        done = api.submit(planned, self.cluster, replace=replace)
        return JobHandle(self, done.ref.name, done.ref.application_id, submission=done)

    def attach(self, name: str) -> JobHandle:
        """Return the handle of a job by its name or application id.

        Raises:
            NoSuchJob: There is no such application, or no service of that name.
        """
        ref = api.find(self.cluster, name)
        if ref.application_id is None:
            api.status(self.cluster, ref.name)
        return JobHandle(self, ref.name, ref.application_id)

    def jobs(self, **selection: Any) -> tuple[ListedJob, ...]:
        """List jobs, the newest first, with one request; yours unless `user` says whose (None for everybody's).

        Args:
            selection: Fields of `submit_tf_job.fleet.Selection`: `user`, `queue`, `states`, `within_s`, `limit`, `names`.
        """
        from submit_tf_job.fleet import Selection

        return api.list_jobs(self.cluster, Selection(**{"user": self.settings.user, **selection}))


@dataclass
class JobHandle:
    """One job: look at it, wait for it, read it, end it.

    Attributes:
        client: The client that reaches it.
        name: Its name.
        application_id: Its application; another run of the same name has another one.
    """

    client: Client
    name: str
    application_id: str | None = None
    submission: api.Submission | None = field(default=None, repr=False)

    @property
    def _cluster(self) -> api.Cluster:
        return self.client.cluster

    @property
    def _job(self) -> str:
        return self.application_id or self.name

    @property
    def adopted(self) -> bool:
        """Whether `submit` found the job instead of making it."""
        return self.submission is not None and self.submission.adopted

    def status(self) -> Status:
        """Look at it once.

        Raises:
            NoSuchJob: It is gone.
        """
        return _status(api.status(self._cluster, self._job))

    def wait(
        self,
        timeout_s: float | None = None,
        *,
        until: Callable[[Status], bool] | None = None,
        on_change: Callable[[Status], None] | None = None,
    ) -> Status:
        """Wait until it is over, or until something else is true of it; how it ended is no error here.

        Args:
            timeout_s: Seconds after which to give up; None for no limit.
            until: What is waited for.
            on_change: Told whenever state, reason or progress are others than before.

        Raises:
            DeadlinePassed: `timeout_s` passed; the job may go on.
            ClusterUnavailable: The cluster was out of reach for longer than `timeouts.unreachable`.
        """
        told: list[tuple[object, ...]] = []

        def tell(look: Look) -> None:
            seen = _status(look)
            key = (seen.state, seen.reason, json.dumps(seen.progress, sort_keys=True, default=str))
            if on_change is not None and told[-1:] != [key]:
                on_change(seen)
            told[:] = [key]

        if until is not None:
            return self.judged(self._follow(lambda look: look.verdict.state.is_final or until(_status(look)), timeout_s, on_look=tell))
        return self.judged(self._follow_to_end(timeout_s, on_look=tell))

    def watch(self, timeout_s: float | None = None, *, lines: bool = False) -> Status:
        """Wait until it is over, and show it meanwhile; in a notebook as a live view below the cell, elsewhere as a line for each change.

        Interrupting it leaves; the job goes on.

        Args:
            timeout_s: Seconds after which to give up; None for no limit.
            lines: Show the last log line of each task in the live view, too.

        Raises:
            DeadlinePassed: `timeout_s` passed; the job may go on.
            ClusterUnavailable: The cluster was out of reach for longer than `timeouts.unreachable`.
        """
        from submit_tf_job.notebook import in_notebook, notebook_picture

        if not in_notebook():
            clock, began = self._cluster.clock, self._cluster.clock()
            return self.wait(timeout_s, on_change=lambda seen: _print_change(seen, clock() - began))
        picture = notebook_picture(self._cluster, with_lines=lines)
        return self.judged(self._follow_to_end(timeout_s, on_look=picture.look, on_trouble=picture.trouble))

    def judged(self, look: Look) -> Status:
        """Say what a look means; of a job that has failed with the first cause."""
        return _status(look, api.why_failed(self._cluster, look) if look.verdict.state.is_final else None)

    def _follow_to_end(self, timeout_s: float | None, **listeners: Any) -> Look:
        if self.submission is not None:  # a submitter also ends a job that can only wait in vain
            return api.follow_own(self._cluster, self.submission, timeout_s=timeout_s, **listeners)
        return self._follow(lambda look: look.verdict.state.is_final, timeout_s, **listeners)

    def _follow(self, until: Callable[[Look], bool], timeout_s: float | None, **listeners: Any) -> Look:
        ref = api.JobRef(self.name, self.application_id)
        return api.follow(self._cluster, ref, until=until, timeout_s=timeout_s, **listeners)

    def result(self, timeout_s: float | None = None, *, watch: bool = False) -> Status:
        """Wait until it is over and return how it stands, if it succeeded.

        Args:
            timeout_s: Seconds after which to give up; None for no limit.
            watch: Show it meanwhile, as `watch` does.

        Raises:
            JobFailed: It failed; the message is the first cause.
            JobStopped: It was stopped or killed.
            NoSuchJob: YARN does not know any more how it ended.
            DeadlinePassed: `timeout_s` passed; the job may go on.
        """
        found = self.watch(timeout_s) if watch else self.wait(timeout_s)
        if found.error is not None:
            raise found.error
        return found

    def logs(self, task: str | None = None, *, follow: bool = False, **options: Any) -> Iterator[LogLine]:
        """Read what its tasks wrote, in order of time where lines carry times.

        Args:
            task: A task (`worker-0`) or a role (`worker`); None for all.
            follow: Go on until the job is over.
            options: `tail`, `since_s`, `grep`, `files`, as `submit_tf_job.api.logs` takes them.

        Raises:
            NoSuchJob: There are no logs; the message says why.
        """
        return iter(api.logs(self._cluster, self._job, task, follow=follow, **options))

    def why_pending(self) -> tuple[Cause, ...]:
        """Return what it waits for, the most telling first; nothing where it does not wait."""
        look = api.status(self._cluster, self._job)
        return api.why_pending(self._cluster, look) if api.is_waiting(look) else ()

    def why_failed(self) -> RootCause | None:
        """Return the first cause of its failure, None where it did not fail."""
        return api.why_failed(self._cluster, api.status(self._cluster, self._job))

    def stop(self, *, wait: bool = True) -> Status:
        """End it, and wait until it is over unless told not to; what is over stays as it is."""
        return _status(api.stop(self._cluster, self._job, wait=wait))

    def delete(self, *, force: bool = False) -> bool:
        """Remove it and free its name; with `force` also while it runs. Return whether there was anything to remove."""
        return api.delete(self._cluster, self._job, force=force)


def _print_change(seen: Status, elapsed_s: float) -> None:
    from submit_tf_job.report.job import change_line
    from submit_tf_job.report.untrusted import clean

    assert seen.look is not None
    sys.stdout.write(f"{clean(change_line(seen.look, elapsed_s))}\n")


# --- for a program that has one cluster ---
# There is no `plan` among them: the package `submit_tf_job.plan` has that name.


def load(spec: JobSpec, **options: Any) -> Job:
    """Read a job spec under the settings that the commands would use; see `Client.load`."""
    return Client().load(spec, **options)


def submit(spec: JobSpec, **options: Any) -> JobHandle:
    """Submit a job; see `Client.submit`."""
    return Client().submit(spec, **options)


def attach(name: str) -> JobHandle:
    """Return the handle of a job that is there; see `Client.attach`."""
    return Client().attach(name)


def jobs(**selection: Any) -> tuple[ListedJob, ...]:
    """List jobs; see `Client.jobs`."""
    return Client().jobs(**selection)
