"""The handle of one run of a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from submit_tf_job.errors import UsageError
from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.change import Change, scale
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.delete import delete
from submit_tf_job.operations.explain import Why, explain
from submit_tf_job.operations.follow import Event as Followed
from submit_tf_job.operations.follow import NextRun, Notice, follow
from submit_tf_job.operations.links import Links, all_links
from submit_tf_job.operations.logs import logs
from submit_tf_job.operations.read_status import describe, read_status
from submit_tf_job.operations.stacks import JobStacks, take_stacks
from submit_tf_job.operations.stop import release, stop
from submit_tf_job.operations.submit import Submission
from submit_tf_job.operations.usage import JobUse, usage_of
from submit_tf_job.operations.watch_run import End, Pause, until_end
from submit_tf_job.operations.why import find_cause_and_record, is_waiting, why_pending
from submit_tf_job.sdk.events import Event, Status
from submit_tf_job.status_changes import callback_key

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.logs.entries import LogLine
    from submit_tf_job.logs.read import Reading
    from submit_tf_job.plan import Plan
    from submit_tf_job.sdk.client import Client

_log = logging.getLogger(__name__)


@dataclass
class JobHandle:
    """A handle of one run of a job: reads its status and logs, waits for it, stops it.

    `Client.submit` and `Client.attach` make handles.

    Attributes:
        client: The client of the run's cluster.
        ref: The run; while the job is followed it may become the next run (`retries.memory`).
        submission: The result of the submission; None for a handle that is not from `submit`.
        planned: The plan of the job's first submission. With it, calls that follow the job submit
            the next run (`retries.memory`), and stop a run that can never start.
        by_name: Whether the job's name was given instead of a run. Then calls that follow the job
            also follow the next run that another process submits (`retries.memory`).
        own: Whether calls that follow the run stop it if it can never start.
    """

    client: Client
    ref: JobRef
    submission: Submission | None = field(default=None, repr=False)
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
        """The run's name, which is also the name of its YARN service."""
        return self.ref.run

    @property
    def application_id(self) -> str:
        """The id of the run's YARN application."""
        return self.ref.application_id

    @property
    def _connected_cluster(self) -> Cluster:
        return self.client.cluster

    @property
    def adopted(self) -> bool:
        """Whether `submit` found this run instead of starting a new one; False if the handle is not
        from `submit`.
        """
        return self.submission is not None and self.submission.adopted

    def status(self) -> Status:
        """Return the run's current status, without the cause of a failure (`why_failed`); the state
        is UNKNOWN if no source knows the run any more.

        Raises:
            ClusterUnavailable: No ResourceManager answered.
        """
        return Status(read_status(self._connected_cluster, self.ref))

    def describe(self) -> Status:
        """Return the run's current status with all its tasks, and with the attempts of its
        ApplicationMaster. Takes three to five requests, for any number of tasks.

        Raises:
            ClusterUnavailable: No ResourceManager answered.
        """
        return Status(describe(self._connected_cluster, self.ref))

    def wait(
        self,
        timeout_s: float | None = None,
        *,
        until: Callable[[Status], bool] | None = None,
        on_change: Callable[[Status], None] | None = None,
    ) -> Status:
        """Wait until the job is over or `until` returns True; raise no error for a failed job.

        A job with `retries.memory` that ran out of memory is submitted again by the handle that
        `submit` returned, which then is the handle of the new application. A handle of `attach`
        with the job's name waits up to a minute for that application, and follows it.

        A job that can never start, such as one whose deciding task gets no container within
        `start_timeout`, is stopped by a handle of `submit` or of `attach` with `own`.

        Args:
            timeout_s: Time limit in seconds; None for no limit.
            until: Called with each status before the end; returns whether to stop waiting.
            on_change: Called when state, reason or progress have changed, or all tasks start again.

        Returns:
            The last status, with the first cause if the job failed.

        Raises:
            DeadlinePassed: `timeout_s` passed; the job may still be running.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`;
                or, for a job with `retries.memory`, the next run may or may not have been
                submitted.
        """
        last: tuple[object, ...] = ()

        def report(event: Followed) -> None:
            nonlocal last
            if isinstance(event, Notice):
                _log.warning(event.text)
            if not isinstance(event, JobStatus) or on_change is None:
                return
            key = callback_key(event)
            if key != last:
                on_change(Status(event))
            last = key

        return self._end_of(self._follow_events(timeout_s, until, explain=False), report)

    def events(
        self,
        timeout_s: float | None = None,
        *,
        output_every_s: float | None = None,
        pauses: bool = False,
        explain: bool = True,
    ) -> Iterator[Event]:
        """Follow the job to its end as `wait` does, as a sequence of events.

        Args:
            timeout_s: Time limit in seconds; None for no limit.
            output_every_s: Seconds between two reads of the deciding task's output; None to read
                none.
            pauses: Yield a `Pause` where the calling thread would sleep, so that an event loop can
                wait instead.
            explain: Whether to find out why a waiting job waits, with some requests every 15 s.

        Yields:
            Each `Status` that was read, also if it is the same as before; lines of output, why the
            job waits, trouble with the cluster, the next run of a job with `retries.memory`, and
            notices (`submit_tf_job.sdk.events` has their classes). The last event is the final
            `Status`, with the first cause if the job failed.

        Raises:
            DeadlinePassed: `timeout_s` passed; the job may still be running.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
        """
        for event in self._follow_events(timeout_s, output_every_s=output_every_s, explain=explain):
            if isinstance(event, JobStatus):
                yield Status(event)
            elif isinstance(event, End):
                yield Status(event.status, event.cause)
            elif isinstance(event, Pause) and not pauses:
                self._connected_cluster.sleep(event.seconds)
            else:
                yield event

    def watch(self, timeout_s: float | None = None, *, lines: bool = False) -> Status:
        """Wait until the job is over, and meanwhile show its status: in a notebook as a live view
        below the cell, elsewhere as a line for each change.

        An interrupt ends the watch; the job keeps running.

        Args:
            timeout_s: Time limit in seconds; None for no limit.
            lines: Show the last log line of each task in the live view; no effect outside a
                notebook.

        Returns:
            The last status, with the first cause if the job failed.

        Raises:
            KeyboardInterrupt: The user interrupted.
            DeadlinePassed: `timeout_s` passed; the job may still be running.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
        """
        from submit_tf_job.sdk.notebook import in_notebook, notebook_view

        if not in_notebook():
            return self.show(timeout_s, print)
        view = notebook_view(self._connected_cluster, with_lines=lines)
        ended = self._end_of(self._follow_events(timeout_s), view.take)
        view.take(End(ended.job, ended.root_cause))
        return ended

    def show(
        self, timeout_s: float | None, say: Callable[[str], None], *, output: bool = False
    ) -> Status:
        """Wait until the job is over, and pass the lines that `submit_tf_job submit` prints to
        `say`.

        Args:
            timeout_s: Time limit in seconds; None for no limit.
            say: Called with each line, to print it.
            output: Whether to show what the deciding task prints.

        Returns:
            The last status, with the first cause if the job failed.

        Raises:
            KeyboardInterrupt: The user interrupted; the message says how to reach and stop the job,
                which keeps running.
            DeadlinePassed: `timeout_s` passed; the job may still be running.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
        """
        from submit_tf_job.operations.follow import OUTPUT_EVERY_S, TAIL
        from submit_tf_job.report.follow_text import PROGRESS_EVERY_S, EventLines
        from submit_tf_job.report.table import clean

        lines = EventLines(progress_every_s=PROGRESS_EVERY_S if output else 0.0)

        def show(event: Followed) -> None:
            for line in lines.lines_of(event):
                say(clean(line))

        events = self._follow_events(
            timeout_s,
            output_every_s=OUTPUT_EVERY_S if output else None,
            tail=TAIL if self.submission is None or self.adopted else None,
        )
        try:
            return self._end_of(events, show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(lines.interrupted_message(self.name)) from None

    def _follow_events(
        self,
        timeout_s: float | None,
        until: Callable[[Status], bool] | None = None,
        **reading: Any,
    ) -> Iterator[Followed]:
        """Yield the events of the job; `reading` are arguments of `operations.follow.follow`. When
        `retries.memory` has started the next run, this object becomes the handle of that run.
        """
        for event in follow(
            self._connected_cluster,
            self.ref,
            self.planned,
            own=self.own,
            next_runs=self.by_name,
            until=lambda job: until is not None and until(Status(job)),
            timeout_s=timeout_s,
            **reading,
        ):
            if isinstance(event, NextRun):
                self.ref, self.submission = event.ref, event.submission
            yield event

    def _end_of(self, events: Iterator[Followed], show: Callable[[Followed], None]) -> Status:
        end = until_end(events, self._connected_cluster.sleep, show)
        return Status(end.status, end.cause)

    def result(self, timeout_s: float | None = None) -> Status:
        """Wait until the job is over, as `wait` does, and return its status if the job succeeded;
        otherwise raise an error.

        Args:
            timeout_s: Time limit in seconds; None for no limit.

        Raises:
            JobFailed: The job failed; the message is the first cause.
            JobStopped: The job was stopped or killed.
            NoSuchJob: YARN has no record of the job's end.
            DeadlinePassed: `timeout_s` passed; the job may still be running.
            ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
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
        am: bool = False,
        say: Callable[[str], None] = lambda _sentence: None,
    ) -> Lines:
        """Read the output of the job's tasks, in order of time if the lines have timestamps. If the
        job has just ended, wait up to a minute until YARN has collected its logs.

        Args:
            task: A task (`worker-0`), a role (`worker`), or `am` for YARN's ApplicationMaster; None
                for all tasks.
            follow: Continue until the job is over.
            tail: The number of last lines to read of each file; None for all.
            since_s: Only lines written in the last `since_s` seconds; None for all.
            grep: A regular expression that lines must match; None for all lines.
            files: File names; default: stdout.txt and stderr.txt, of the ApplicationMaster its log
                and output.
            raw: Include lines for programs (`TFJOB_PROGRESS`, the outcome) and bash's warnings
                about a locale that the image lacks, which are left out by default.
            am: Read the logs of YARN's ApplicationMaster for the job instead.
            say: Called with a sentence about logs that cannot be read, or are awaited.

        Returns:
            The lines; they are read during the iteration, once.

        Raises:
            NoSuchJob: The job has no logs (yet); the message has the reason. With `follow`, logs
                are awaited instead.
            AuthError: The logs belong to another user.
            SettingsError: The job is over, and `hadoop_conf`, which tells where its logs are, is
                not set.
            UsageError: `files` is not a list, `task` does not exist, `tail` is negative, or `grep`
                is not a valid regular expression.
            ClusterUnavailable: No ResourceManager answered.
        """
        if isinstance(files, str):
            raise UsageError(f"files: expected a list, found {files!r}", hint=f"write [{files!r}]")
        reading = logs(
            self._connected_cluster,
            self.ref,
            task,
            follow=follow,
            tail=tail,
            since_s=since_s,
            grep=grep,
            files=files,
            raw=raw,
            am=am,
            say=say,
        )
        return Lines(reading)

    def usage(self) -> JobUse:
        """Return what the job uses, or used if it is over, compared with what it asked for, the
        curves of its use, and what to ask for next time.

        Raises:
            ClusterUnavailable: No ResourceManager answered.

        Example:
            >>> handle.usage().used.roles["worker"].memory_bytes.peak.most
        """
        return usage_of(self._connected_cluster, self.ref)

    def stacks(self, task: str | None = None) -> JobStacks:
        """Return the stacks (Python tracebacks of all threads) of the Python processes in the job's
        running tasks; a task whose stack differs from the others comes first. Takes up to a minute.

        Args:
            task: Return those of this task only, such as `worker-1`; None for all.

        Raises:
            UsageError: No such task runs.
            Refused: The job's commands do not run, the deciding task's container is not known, or
                Hadoop is older than 3.3.
            DeadlinePassed: The deciding task has not answered within a minute.
        """
        return take_stacks(self._connected_cluster, self.ref, task)

    @property
    def page(self) -> str:
        """The URL of the application's page at the first ResourceManager of the settings."""
        rm = self.client.settings.resource_managers[0]
        return f"{rm}/cluster/app/{self.application_id}"

    def links(self) -> Links:
        """Return the addresses of what a browser can show of the job while it runs: the deciding
        task's logs, and the pages that tasks serve (`ports` of the job spec).
        """
        return all_links(self._connected_cluster, self.ref)

    def why_pending(self, seen: Status | None = None) -> tuple[Cause, ...]:
        """Return why the job waits, the most important cause first; () if it does not wait, or has
        waited for less than 5 s.

        Args:
            seen: The run's status, if it was read just now; None to read it.

        Raises:
            ClusterUnavailable: Without `seen`: no ResourceManager answered.
        """
        job = (seen or self.status()).job
        return why_pending(self._connected_cluster, job) if is_waiting(job) else ()

    def why_failed(self, seen: Status | None = None) -> Cause | None:
        """Return the first cause of the job's failure; None if it did not fail, or if no log or
        other source explains more than the status. Takes up to 8 s, or 16 s if the deciding task
        wrote no final report, and raises no error for sources that cannot be read.

        Args:
            seen: The run's last status, if it was read already; None to read it.

        Raises:
            ClusterUnavailable: Without `seen`: no ResourceManager answered.
        """
        return find_cause_and_record(self._connected_cluster, (seen or self.status()).job)

    def why(self) -> Why:
        """Return why the job waits or failed, and what has changed since the last run of it that
        succeeded.

        Returns:
            `root_cause`, `pending`, and `since_success` with its `changes` (files, packages, keys,
            arguments, node) and the `lines` that no successful run had printed. `since_success` is
            None if the job did not fail, if no successful run or the run itself has a record, or if
            nothing could be compared within 2 s.

        Raises:
            ClusterUnavailable: No ResourceManager answered.

        Example:
            >>> handle.why().since_success.changes  # doctest: +SKIP
        """
        return explain(self._connected_cluster, read_status(self._connected_cluster, self.ref))

    def stop(self, *, wait: bool = True, grace_s: float | None = None) -> Status:
        """Stop the job, and by default wait until it is over; do nothing if it is over. Return its
        status after that.

        Args:
            wait: Return only when YARN reports that the job is over and its nodes report no live
                container of it.
            grace_s: Seconds for the tasks to save and end before YARN stops the job; the call waits
                for that time even without `wait`. 0 to stop at once; None for `stop_grace` of the
                job's spec, which applies only with `wait`.

        Raises:
            UsageError: `grace_s` is negative.
            AuthError: The user may not stop the job.
            Refused: With `grace_s`: the tasks cannot be asked to save, because the deciding task's
                container is not known, or Hadoop is older than 3.3.
            DeadlinePassed: The job has not ended within two minutes, or a container of it was still
                alive a minute after its end.
            ClusterUnavailable: No ResourceManager answered.
        """
        return Status(stop(self._connected_cluster, self.ref, wait=wait, grace_s=grace_s))

    def release(self) -> Status:
        """End the hold of the container in which the job has failed (`hold_on_failure`); return the
        job's status when YARN reports its end. Before Hadoop 3.3, or if the job does not end within
        a minute, YARN stops the job.

        Raises:
            Refused: No container of the job is held.
            DeadlinePassed: YARN was to stop the job, which has not ended within two minutes.
            ClusterUnavailable: No ResourceManager answered.
        """
        return Status(release(self._connected_cluster, self.ref))

    def scale(self, role: str, count: int, *, wait: bool = True) -> Change:
        """Change the number of tasks of a sidecar or an elastic role while the job runs.

        Args:
            role: The role.
            count: The role's new number of tasks.
            wait: Return only when this number of the role's containers run; False to return when
                YARN has accepted the number.

        Raises:
            UsageError: The role cannot be scaled, or not to that number.
            Refused: The job does not run, it would exceed one of the `caps` of the settings, or
                another command has scaled the role meanwhile.
            AuthError: The job belongs to another user.
            DeadlinePassed: The role does not have that number of running containers in time.
        """
        return scale(self._connected_cluster, self.application_id, role, count, wait=wait)

    def delete(self, *, force: bool = False) -> bool:
        """Delete the run and what was staged for it; return whether YARN still had it stored.

        Args:
            force: If the run is alive, stop it first, at once, without time to save.

        Raises:
            NameTaken: The run is alive, and `force` was not given.
            NoSuchJob: Neither YARN, nor HDFS, nor a record knows the run any more.
            AuthError: The run belongs to another user.
            ClusterUnavailable: The cluster failed; the run may or may not have been deleted.
            DeadlinePassed: With `force`: YARN has not ended the run within two minutes.
        """
        return bool(delete(self._connected_cluster, self.run, force=force))


class Lines(Iterator["LogLine"]):
    """The lines of a job's logs. They are read during the iteration, and only once: iterate over
    this object, or over `text()` or `json()`.
    """

    def __init__(self, reading: Reading) -> None:
        """Prepare the iteration; nothing is read before the first line is taken."""
        self._reading = reading
        self._lines: Iterator[LogLine] | None = None

    def __next__(self) -> LogLine:
        """Return the next line."""
        if self._lines is None:
            self._lines = iter(self._reading)
        return next(self._lines)

    def text(self) -> Iterator[str]:
        """Yield what `submit_tf_job logs` prints, as texts of one or more lines."""
        from submit_tf_job.report.log_text import log_text

        return log_text(self._reading, prefix=None, colours=False)

    def json(self) -> Iterator[str]:
        """Yield what `submit_tf_job logs -o json` prints: a JSON object on each line."""
        from submit_tf_job.report.log_text import log_json

        return log_json(self._reading)
