"""A client for Python programs, and a handle for each job, with the verbs and errors of the
commands.

Example:
    >>> import submit_tf_job
    >>> handle = submit_tf_job.submit("train.yaml")  # doctest: +SKIP
    >>> handle.wait().state  # doctest: +SKIP
    <JobState.SUCCEEDED: 'SUCCEEDED'>
"""

from __future__ import annotations

import copy
import json
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from submit_tf_job.errors import AuthError, UsageError
from submit_tf_job.operations.cluster import Cluster, check_identity, connect
from submit_tf_job.operations.delete import delete
from submit_tf_job.operations.history import run_history
from submit_tf_job.operations.key_runs import has_run_of_key, other_job_of_key
from submit_tf_job.operations.listing import gpus_of_run, list_jobs
from submit_tf_job.operations.resubmission import next_step_of_json, runs_of
from submit_tf_job.operations.runs import find, live_runs
from submit_tf_job.operations.submit import load_job, make_plan, submit
from submit_tf_job.sdk.events import JobState as JobState
from submit_tf_job.sdk.events import Status as Status
from submit_tf_job.sdk.handle import JobHandle as JobHandle
from submit_tf_job.settings import Settings, keys, load_settings
from submit_tf_job.yarn.run_names import Again

if TYPE_CHECKING:
    import threading
    from types import TracebackType

    # for annotations of programs that use a client, too
    from submit_tf_job.diagnose.cause import Cause as Cause
    from submit_tf_job.diagnose.room import ClusterRoom as ClusterRoom
    from submit_tf_job.doctor.findings import Check as Check
    from submit_tf_job.jobspec.job import Job as Job
    from submit_tf_job.operations.history import RecordedRun as RecordedRun
    from submit_tf_job.operations.listing import ListedJob as ListedJob
    from submit_tf_job.plan import Plan as Plan
    from submit_tf_job.sdk.notebook import ComparedRuns as ComparedRuns
    from submit_tf_job.sdk.notebook import ListedJobs

    JobSpec = str | Path | Mapping[str, Any] | Job

_log = logging.getLogger(__name__)
_LEVELS = {"warning": logging.WARNING, "note": logging.INFO}  # of remarks about a converted file


class Client:
    """A client for the jobs of one user on one cluster.

    Several threads may use a client at once; a handle is for one thread. Nothing is sent before the
    first call that needs the cluster.

    Args:
        profile: Settings profile; None for the one that the commands would use.
        settings: Settings that were read already; `profile` and `overrides` are then ignored.
        overrides: Settings that override all others, such as `resource_managers=["http://rm:8088"]`
            or `user="alice"`; dots are written as double
            underscores: `kerberos__keytab="/home/alice/alice.keytab"`.
        secret: The token or password that the file of the setting `credentials.file` would contain,
            for programs that get it from another source; None to read it as the settings say.
        own_jobs_only: Treat application ids of other users as unknown: for programs that act for
            several users, with one client for each user (`as_user`).

    Raises:
        SettingsError: The settings are not valid, or a name in `overrides` is not a setting.
        UsageError: `profile` is not a text.

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
        own_jobs_only: bool = False,
        **overrides: Any,
    ) -> None:
        _check_texts(profile=profile)
        named = {name.replace("__", "."): value for name, value in overrides.items()}
        self.settings = settings or load_settings(arguments=named, profile=profile)
        self._secret, self._own_jobs_only = secret, own_jobs_only
        self._origin: Client | None = None

    @cached_property
    def cluster(self) -> Cluster:
        """The connection to the cluster, made at the first use; `close` closes it.

        Raises:
            SettingsError: No ResourceManager is configured, or the settings for authentication are
                incomplete.
            AuthError: No Kerberos ticket can be obtained with the keytab.
        """
        made = connect(self.settings, secret=self._secret)
        weakref.finalize(self, made.client.close)
        return replace(made, own_jobs_only=self._own_jobs_only)

    def ended_by(self, over: threading.Event) -> Client:
        """Return a client that uses the same connection, and whose waiting calls another thread can
        end.

        Args:
            over: The event that ends them: within a second after it is set, calls of the new client
                and of its handles that wait between two requests raise
                `concurrent.futures.CancelledError`.
        """
        sleep, made = self.cluster.sleep, copy.copy(self)

        def wait(seconds: float) -> None:
            left = seconds
            while not over.is_set() and left > 0:
                sleep(min(1.0, left))
                left -= 1.0
            if over.is_set():
                raise CancelledError

        made.cluster = replace(self.cluster, sleep=wait)
        made._origin = self  # the connection is closed once this one is gone
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
        """Read a job spec: a file, or its content as a mapping. Sends no request.

        Args:
            spec: Path of a file, a mapping with the same keys, or a job that was loaded already,
                which is returned as it is.
            overrides: Values that replace those of the job spec, as `path=value` texts, such as
                `roles.worker.instances=8` (as for `--set`).
            name: The job's name, instead of the name in the job spec; None to keep it.
            dialect: The format of a file of another system; None to recognise it. The job's
                `remarks` say what did not carry over.
            base: The directory that relative `files` of a mapping start from; default: the working
                directory. For a file it is always the file's directory.
            render: Called with the text of a file; returns the text that is read instead, such as a
                filled template. Ignored for a mapping.

        Raises:
            JobSpecError: Every problem at once, each with its line.
            UsageError: `spec` is none of these types; an argument is of a wrong kind; `overrides`,
                `name` or `dialect` was given with a loaded job; or the mapping is not one of JSON.
        """
        from submit_tf_job.jobspec import read_file
        from submit_tf_job.jobspec.job import Job

        _check_list("overrides", overrides)
        overrides = list(overrides)
        for one in overrides:
            _check_texts(overrides=one)
        _check_texts(name=name, dialect=dialect)
        text = None
        if isinstance(spec, (str, Path)):
            path = Path(spec)
            if render is not None:
                # bytes that are not UTF-8 pass through: reading the job spec reports them
                words = read_file(path).decode("utf-8", "surrogateescape")
                text, base = render(words).encode("utf-8", "surrogateescape"), path.parent
        elif isinstance(spec, Mapping):
            try:
                path, text = Path("<mapping>"), json.dumps(dict(spec), default=str).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise UsageError(f"spec: the mapping is not one of JSON: {error}") from None
        elif not isinstance(spec, Job):
            raise UsageError(
                "spec: expected the path of a job spec, a mapping or a loaded job, found "
                f"{type(spec).__name__}"
            )
        elif overrides or name or dialect:
            raise UsageError(
                "a job that is loaded already takes no overrides, no other name and no format",
                hint="give them to load",
            )
        else:
            return spec
        return load_job(
            path,
            self.settings,
            overrides=overrides,
            name=name,
            text=text,
            base=base,
            dialect=dialect,
        )

    def load_sent(
        self,
        content: bytes,
        source: str,
        *,
        files: Path | None = None,
        has_ended: Callable[[], bool] = lambda: False,
        dialect: str | None = None,
    ) -> Job:
        """Read a job spec that another user has sent. It may use no files of this host except those
        that were sent with it, and the time and memory for reading it are limited.

        Args:
            content: The job spec, YAML or JSON, or a file of another system.
            source: The name of the job spec in messages; it ends in `.json` for JSON.
            files: The directory that contains only the files that were sent with the job spec; None
                if no files were sent.
            has_ended: Called again and again while the job spec is read; returns whether the sender
                has left, so that reading can stop.
            dialect: As for `load`.

        Raises:
            JobSpecError: Every problem at once, each with its line.
            UsageError: To read the job spec takes more than 20 s of CPU, or `has_ended` returned
                True.
        """
        return load_job(
            Path(source),
            self.settings,
            text=content,
            host_files=False,
            uploads=files,
            has_ended=has_ended,
            dialect=dialect,
        )

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

        A job without `lifetime` gets the lifetime `detached_lifetime` of the settings, because a
        program that submits a job need not follow it.

        Args:
            spec: As for `load`.
            overrides: As for `load`.
            name: As for `load`.
            submission_id: As for `submit`.
            once: As for `submit`; the same as `again="never"`, and overrides `again`.
            again: Whether the same call runs the job again once its run has ended: "always";
                "after-failure", unless that run has succeeded, for the retries of a scheduler's
                task; or "never". Default: "never" with a `submission_id`, else "always".
            detached: Whether a job without `lifetime` gets `detached_lifetime`; False for a program
                that certainly follows the job to its end.
            dialect: As for `load`.

        Raises:
            JobSpecError: The job spec is not valid; or YARN would refuse the job; or, for Hadoop
                3.1 and 3.2, the job has `retries` and no `lifetime`.
            Refused: Hadoop 3.1 or 3.2 (`hadoop_version` of the settings) could not read the service
                again; `submit` checks more.
            UsageError: As for `load`, or `submission_id` is not 1 to 64 letters, digits, `.`, `_`
                and `-`, of which the first is a letter or digit; or `again` is none of these
                values.
        """
        _check_texts(submission_id=submission_id)
        values = [value.value for value in Again]
        if again is not None and again not in values:
            raise UsageError(f"again: expected {', '.join(values)} or None, found {again!r}")
        return make_plan(
            self.load(spec, overrides=overrides, name=name, dialect=dialect),
            self.settings,
            key=submission_id,
            again=Again.NEVER if once else again and Again(again),
            detached=detached,
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
        """Submit a job, and return once YARN has accepted it. While the job's run is alive, the
        same call finds it; after its end, the same call runs the job again.

        Args:
            spec: As for `load`, or what `plan` has returned; then all other arguments are ignored.
            overrides: As for `load`.
            name: As for `load`.
            submission_id: An id that a scheduler has for this submission. If its run has ended, the
                ended run is returned, and the submission is never run again. By default the id is a
                hash of the job and its files.
            once: Do not run the job again if exactly this job has ended already; return the ended
                run, whether it succeeded or not.
            dialect: As for `load`.

        Returns:
            The handle of the new run, or of the run that was found (`adopted`).

        Raises:
            JobSpecError: The job spec is not valid; an input or file does not exist, or cannot be
                read; or an output cannot be written, or is there already without `overwrite`.
            UsageError: As for `plan`; or a file was changed or deleted since.
            NameTaken: Another run of the job, with other settings or files, is alive.
            KeyReused: The submission's id was used before, for other settings or files.
            Refused: The cluster refuses the job, or its version of Hadoop cannot run the job.
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
        done = submit(planned, self.cluster, on_wait=_log.warning)
        for remark in planned.job.remarks:
            _log.log(_LEVELS[remark.level], "%s", remark)
        for warning in done.warnings:
            _log.warning(warning)
        return JobHandle(self, done.ref, submission=done, planned=planned)

    def live(self, job: str) -> tuple[JobHandle, ...]:
        """Return the handles of the live runs of a job of this user, the oldest first."""
        found = live_runs(self.cluster, job)
        return tuple(JobHandle(self, ref) for ref in found)

    def starting(self, job: str, within_s: float = 20.0) -> JobHandle | None:
        """Wait until a job of this user has a live run, and return the oldest; return None if there
        is none within `within_s` seconds. YARN shows an application only some seconds after it has
        stored the service.
        """
        end = self.cluster.clock() + within_s
        while not (found := self.live(job)) and self.cluster.clock() <= end:
            self.cluster.sleep(1.0)
        return found[0] if found else None

    def runs_of(self, planned: Plan) -> frozenset[str]:
        """Return the names of all runs that a plan's submission may have, including the runs that
        `retries.memory` may start.
        """
        return runs_of(planned)

    def warnings(self, planned: Plan) -> tuple[str, ...]:
        """Return the warnings of `submit_tf_job render`: problems that YARN does not refuse."""
        return planned.warnings

    def has_run(self, planned: Plan) -> bool:
        """Return whether the first run of a plan exists on the cluster, alive or over; False if it
        does not, if it was deleted, or if the cluster cannot tell. Without HDFS, a deleted run
        counts as long as the ResourceManager lists it.
        """
        return has_run_of_key(self.cluster, planned)

    def other_job(self, planned: Plan) -> str | None:
        """Return the name of another job for which a plan's `submission_id` was used before; None
        if there is none whose runs the cluster still has.

        Raises:
            SubmitTFJobError: The runs cannot be listed.
        """
        return other_job_of_key(self.cluster, planned)

    def gpus(self, run: str) -> int | None:
        """Return the number of GPUs that a run asks for in all, given the run's name; 0 if YARN has
        no service of that name any more; None if the number is not known: the run waits or is over,
        and neither the copy of its service on HDFS nor its record can be read.

        Raises:
            ClusterUnavailable: No ResourceManager answered.
        """
        return gpus_of_run(self.cluster, run)

    def check_identity(self) -> None:
        """Check that the cluster takes the client for the user of its settings. With simple
        authentication and without `as_user` nothing is checked, because the cluster then accepts
        any name.

        Raises:
            AuthError: The cluster names another user, or with `as_user` names no user.
            ClusterUnavailable: No ResourceManager answered.
        """
        check_identity(self.cluster)
        # Hadoop before 3.1.1 does not return it
        if self.settings.as_user is not None and self.cluster.client.who_am_i() is None:
            raise AuthError(
                f"the ResourceManager does not return the user that it takes {self.settings.login} "
                f"for, so nothing is done for {self.settings.user}",
                hint="it needs Hadoop 3.1.1 or later",
            )

    def hadoop_version(self, within_s: float | None = None) -> str:
        """Return the Hadoop version of the cluster; "" if the cluster does not tell.

        Args:
            within_s: How many seconds a ResourceManager may take to answer; default:
                `timeouts.failover`.

        Raises:
            ClusterUnavailable: No ResourceManager answered in time.
        """
        client = self.cluster.client
        deadline = None if within_s is None else client.deadline(within_s)
        return client.cluster_info(deadline=deadline).hadoop_version or ""

    def check(self, *only: str) -> tuple[Check, ...]:
        """Return the findings of `submit_tf_job doctor`: of all checks, or of the checks with the
        given ids.

        Raises:
            AuthError: The cluster takes the client for another user than the settings name.
            ClusterUnavailable: No ResourceManager returned the user; with simple authentication
                and without `as_user` it is not asked.
            UsageError: No check has this id.
        """
        from submit_tf_job.doctor.checks import doctor

        check_identity(self.cluster)
        return doctor(self.settings, only=only or None, client=self.cluster.client).findings

    @property
    def default_fs(self) -> str:
        """The file system of the Hadoop configuration, such as `hdfs://nn:8020`; "" without
        `hadoop_conf`.

        Raises:
            SettingsError: The Hadoop configuration names no file system, or cannot be read.
        """
        from submit_tf_job.storage import default_fs

        return default_fs(self.settings.hadoop_conf) if self.settings.hadoop_conf else ""

    def submit_again(self, planned: Plan, ended: Mapping[str, Any]) -> JobHandle | None:
        """Submit the next run of a job that ran out of memory, if its `retries.memory` says so.

        For a program that has only the JSON of the end of a run that another process followed;
        `wait` and `events` of a handle that `submit` returned do it by themselves.

        Args:
            planned: The plan of the job's first submission.
            ended: What `Status.to_json` returned for the run's last status.

        Returns:
            The handle of the next run; None if the job is not submitted again.

        Raises:
            SubmitTFJobError: As `submit`.
        """
        step = next_step_of_json(planned, ended)
        if step is None:
            return None
        _log.warning(step.said)
        if step.plan is None:
            return None
        done = submit(step.plan, self.cluster, on_wait=_log.warning)
        return JobHandle(self, done.ref, submission=done, planned=planned)

    def attach(self, name: str, *, own: bool = False) -> JobHandle:
        """Return the handle of a job's newest run, or of one run by its own name or application id.

        Args:
            name: The name or id.
            own: Whether this program, or another process of it, has submitted the run. Then `wait`
                and the other calls that follow the run stop it if it can never start.

        Raises:
            NoSuchJob: No source knows the name; or the ResourceManager does not know the id, or the
                id is not that of a YARN service, or (`own_jobs_only`) of another user.
            UsageError: `name` is not a valid name.
        """
        _check_texts(name=name)
        ref = find(self.cluster, name)
        return JobHandle(self, ref, by_name=name == ref.name, own=own)

    def delete(self, job: str, *, force: bool = False) -> tuple[str, ...]:
        """Delete every ended run of a job, or one run by its own name or application id, with what
        was staged for it; return the names of the deleted runs. Logs, outputs and the records of
        runs are kept.

        Args:
            job: The name or id.
            force: Stop live runs first, at once, without time to save.

        Raises:
            NameTaken: A run is alive, and `force` was not given; or another client may be
                submitting a run.
            NoSuchJob: There is no such job, and YARN has nothing stored under that name.
            AuthError: The job belongs to another user.
            UsageError: `job` is not a valid name.
            ClusterUnavailable: The cluster failed; runs may or may not have been deleted.
            DeadlinePassed: With `force`: YARN has not ended a live run within two minutes.
        """
        return delete(self.cluster, job, force=force)

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
        """List jobs, newest first; a notebook shows them as a table. Takes one request for any
        number of jobs, one more with `within_s`, and some for names that YARN has only in a short
        form. The state is YARN's only, which `JobHandle.status` refines.

        Args:
            user: The owner; "" for the client's user, None for all users.
            queue: The queue; None for all queues.
            states: The states, as `JobState` or by name; empty for all.
            within_s: Maximum age in seconds since submission; None for any age.
            limit: Maximum number of jobs; None for all.
            names: Names of jobs or runs, application ids, or patterns such as `hpo-*`; empty for
                all.

        Raises:
            UsageError: A state does not exist, an argument is of a wrong kind, or `limit` is below
                1.
            ClusterUnavailable: No ResourceManager answered.
        """
        from submit_tf_job.operations.listing import JobSelection
        from submit_tf_job.sdk.notebook import ListedJobs

        _check_list("states", states)
        _check_list("names", names)
        _check_texts(user=user, queue=queue)
        _check_limit(limit)
        whose = self.settings.user if user == "" else user
        try:
            chosen_states = frozenset(map(JobState, states))
        except ValueError as error:
            raise UsageError(f"{error}; states are {', '.join(JobState)}") from None
        chosen = JobSelection(whose, queue, chosen_states, within_s, limit, frozenset(names))
        return ListedJobs(list_jobs(self.cluster, chosen))

    def history(self, job: str | None = None, *, limit: int = 50) -> tuple[RecordedRun, ...]:
        """Return runs by their records in the staging directory, the newest first: state, duration,
        metrics, outputs. The end of a run that has no end in its record is read from the cluster,
        and is added to the record.

        Args:
            job: A job, or one run by its own name; None for all jobs.
            limit: Maximum number of runs.

        Raises:
            NoSuchJob: Neither a record nor YARN knows the job.
            SettingsError: There is no staging directory, and so no history.
            UsageError: `job` is not a valid name, an argument is of a wrong kind, or `limit` is
                below 1.
            SubmitTFJobError: The records cannot be read.

        Example:
            >>> [run.metrics.get("loss") for run in client.history("mnist")]  # doctest: +SKIP
        """
        _check_texts(job=job)
        _check_limit(limit, is_needed=True)
        return run_history(self.cluster, job, limit)

    def compare(self, *names: str, sort: str | None = None) -> ComparedRuns:
        """Compare runs by their records: what differs in what they were given, and their results;
        a notebook shows them as a table.

        Args:
            names: Runs, jobs (each by its newest run; one alone by its last ten), application ids,
                or patterns of jobs' names (the newest run of each).
            sort: A metric, to have the best run first, and runs without it last; None for the order
                of the names.

        Raises:
            NoSuchJob: A name is unknown, or its run has no record.
            SettingsError: There is no staging directory, and so no record.
            UsageError: No name is given, an argument is of a wrong kind, or no run has the metric.
            SubmitTFJobError: Records cannot be read.

        Example:
            >>> best = client.compare("hpo-*", sort="val_loss").runs[0]  # doctest: +SKIP
            >>> best.values["--lr"], best.metrics["val_loss"].best  # doctest: +SKIP
        """
        from submit_tf_job.operations.comparison import compare_runs
        from submit_tf_job.sdk.notebook import ComparedRuns

        for name in names:
            _check_texts(names=name)
        _check_texts(sort=sort)
        found = compare_runs(self.cluster, names, sort=sort)
        return ComparedRuns(found.differences, found.runs)

    def top(
        self,
        spec: JobSpec | None = None,
        *,
        overrides: Sequence[str] = (),
        name: str | None = None,
        dialect: str | None = None,
    ) -> ClusterRoom:
        """Return the free capacity of queues, labels and nodes; and whether a job would start now.

        Args:
            spec: A job, as for `load`; `start` of the result says whether it would start now. None
                for the capacity alone.
            overrides: As for `load`.
            name: As for `load`.
            dialect: As for `load`.

        Raises:
            JobSpecError: The job spec is not valid.
            UsageError: As for `load`.
            ClusterUnavailable: No ResourceManager answered.

        Example:
            >>> client.top("train.yaml").start.when  # doctest: +SKIP
            'now'
        """
        from submit_tf_job.operations.cluster_room import read_room

        if spec is None:
            return read_room(self.cluster)
        job = self.load(spec, overrides=overrides, name=name, dialect=dialect)
        return read_room(self.cluster, job)


def _check_limit(limit: int | None, *, is_needed: bool = False) -> None:
    """Refuse a value that is not a whole number of at least 1; None is accepted unless
    `is_needed`.
    """
    if limit is None and not is_needed:
        return
    if not (isinstance(limit, int) and limit >= 1):
        raise UsageError(f"limit: expected a whole number of at least 1, found {limit!r}")


def _check_list(name: str, value: Iterable[str]) -> None:
    """Refuse a text, which would be treated as a list of its letters, and a value that is not
    iterable.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        hint = f"write [{value!r}]" if isinstance(value, str) else ""
        raise UsageError(f"{name}: expected a list, found {value!r}", hint=hint)


def _check_texts(**arguments: str | None) -> None:
    """Refuse a value that is neither a text nor None."""
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{name}: expected a text, found {value!r}")


def setting_names() -> tuple[str, ...]:
    """Return the names of all settings, such as `kerberos.keytab`; `Client` takes each as an
    argument, with dots written as double underscores.
    """
    return tuple(keys())


def job_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft-07) of the job spec."""
    from submit_tf_job.jobspec import schema

    return schema()
