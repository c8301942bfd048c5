"""Find and read the logs of one job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from submit_tf_job import waiting
from submit_tf_job.errors import (
    AuthError,
    NoSuchJob,
    SettingsError,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.collected_logs import collected_logs
from submit_tf_job.operations.runs import APPLICATION_ID, find

if TYPE_CHECKING:
    from submit_tf_job.logs.archive import Archive
    from submit_tf_job.logs.entries import LogInventory, LogSelection, LogSource, TaskContainer
    from submit_tf_job.logs.follow import LoggedContainers
    from submit_tf_job.logs.read import Reading
    from submit_tf_job.logs.sources import NodeLogs
    from submit_tf_job.yarn.observed import AppReport, ObservedService
    from submit_tf_job.yarn.observed_cluster import AppAttempt
    from submit_tf_job.yarn.rest import Deadline

_WORTH_WAITING_S = 180.0  # after that, the cluster waits for a lost node
_ROSTER_S = 5.0  # time limit of a poll, which delays the log lines


def find_logs(
    cluster: Cluster,
    job: str | JobRef,
    task: str | None,
    *,
    am: bool,
    say: Callable[[str], None],
    everything: bool = False,
) -> JobLogs:
    """Return the logs of a job, running or over, by name or application id; they are not read yet.
    The logs of an application id that the ResourceManager has forgotten are found, too, unless the
    connection is only for the caller's own jobs.

    Args:
        cluster: The cluster.
        job: Name or application id, or a run.
        task: A task, a role, `am`, or None for all tasks.
        am: Whether to read the ApplicationMaster's logs.
        say: Called with messages for the user.
        everything: Whether to include the ApplicationMaster's logs with those of all tasks.

    Raises:
        NoSuchJob: The job does not exist.
    """
    from submit_tf_job.yarn.observed import AppReport, AppState, FinalStatus

    try:
        ref = find(cluster, job)
    except NoSuchJob:
        # the ResourceManager may have forgotten an application whose logs still exist
        if (
            cluster.own_jobs_only
            or isinstance(job, JobRef)
            or not re.fullmatch(APPLICATION_ID, job)
        ):
            raise
        ref = JobRef(job, job, job)
    app = cluster.client.app(ref.application_id) or AppReport(
        ref.application_id,
        cluster.settings.user,
        ref.run,
        None,
        AppState.FINISHED,
        FinalStatus.UNKNOWN,
    )
    return JobLogs(cluster, ref.name, app, task, am, everything, say)


class JobLogs(NamedTuple):
    """The logs of one job; `find_logs` makes it, and describes the other attributes.

    Attributes:
        name: The job.
        app: The application of the job's run, as it was when the job was found.
    """

    cluster: Cluster
    name: str
    app: AppReport
    task: str | None
    am: bool
    everything: bool
    say: Callable[[str], None]

    def now(self) -> tuple[LogSource, list[TaskContainer], str]:
        """Return the source of the logs, the selected containers, and the source's name: `nodes`
        for a job that runs, else that of the archive.

        Raises:
            NoSuchJob: The job has no logs; the message has the reason.
            AuthError: The job belongs to another user, and runs or has logs that this user may not
                read.
            SettingsError: The job is over, and `hadoop_conf` is not set.
            UsageError: The selected task does not exist.
        """
        from submit_tf_job.diagnose.amounts import clause

        if self.app.ended:
            archive = self.archive()
            return archive.logs, list(archive.containers), archive.source
        containers = self._running_containers()
        if not containers and self.app.lists_anew:
            attempts = waiting.CONTAINERS_ARE_LISTED.attempts
            for _ in attempts(self.cluster.clock, self.cluster.sleep):
                containers = self._running_containers()
                if containers:
                    break
        if not containers:
            of = clause(" of {}", self.task)
            raise NoSuchJob(
                f"{self.name} has no logs yet: none of its containers{of} has started",
                hint=f"submit_tf_job logs {self.name} -f waits for them.",
            )
        return self._node_logs, containers, "nodes"

    @property
    def _node_logs(self) -> NodeLogs:
        """The logs that the NodeManagers serve."""
        from submit_tf_job.logs.sources import NodeLogs

        return NodeLogs(self.cluster.nodes)

    # --- while it runs ----------------------------------------------------------------------------

    def follow(self, selection: LogSelection) -> Reading:
        """Return a reader of the selected log lines that continues until the job is over."""
        from submit_tf_job.logs.follow import JobFollower
        from submit_tf_job.logs.read import Reading

        cluster, settings = self.cluster, self.cluster.settings
        follower = JobFollower(
            self._node_logs,
            selection,
            cluster.clock,
            cluster.wall,
            cluster.sleep,
            self.say,
            roster=self._containers_to_follow,
            archive=lambda: self._replace(
                app=cluster.client.app(self.app.id) or self.app
            ).archive(),
            poll_s=settings.poll.min_s,
            unreachable_s=settings.timeouts.unreachable_s,
        )
        return Reading(
            lambda _times: follower.runs(), tuple(self._expected_tasks()), following=True
        )

    def _expected_tasks(self) -> list[str]:
        """Return the tasks that will be followed; none if they are not known yet."""
        try:
            counts = _role_sizes(self._read_service())
        except SubmitTFJobError:
            counts = {}
        if self.am or self.task == "am":
            return ["am"]
        tasks = [f"{role}-{index}" for role, count in counts.items() for index in range(count)]
        if not tasks and self.task and re.search(r"-\d+$", self.task):
            return [self.task]
        return [task for task in tasks if self.task in (None, task, task.rpartition("-")[0])]

    def _containers_to_follow(self) -> LoggedContainers:
        from submit_tf_job.logs.follow import LoggedContainers

        client = self.cluster.client
        app = client.app(self.app.id, deadline=client.deadline(_ROSTER_S))
        if app is None:
            raise NoSuchJob(
                f"the ResourceManager does not list {self.app.id} any more",
                hint="It was restarted without recovery.",
            )
        if app.ended:
            return LoggedContainers((), over=True)
        try:
            return LoggedContainers(tuple(self._running_containers()), over=False)
        except (AuthError, UsageError):
            raise
        except SubmitTFJobError as error:
            # its ApplicationMaster restarts; the known containers are kept
            why = f"which containers it has is not known just now: {error.message}"
            return LoggedContainers((), over=False, trouble=why)

    def _running_containers(self) -> list[TaskContainer]:
        """Return the selected containers of a running job."""
        from submit_tf_job.logs.entries import TaskContainer
        from submit_tf_job.logs.read import chosen

        masters = list(self._application_masters())
        if self.am or self.task == "am":
            return masters[-1:]
        service = self._read_service()
        tasks = [
            TaskContainer(one.instance or one.id, one.id, one.bare_host)
            for component in service.components
            for one in component.containers
            if one.id and one.bare_host
        ]
        found = chosen(tasks, self.task, roles=_role_sizes(service))
        if self.everything and self.task is None:
            found += masters[-1:]
        return found

    def _application_masters(self) -> Iterator[TaskContainer]:
        from submit_tf_job.logs.entries import AM_TASK, TaskContainer

        if self.am or self.everything or self.task == AM_TASK:
            for attempt in self.cluster.client.app_attempts(
                self.app.id, deadline=self._poll_deadline()
            ):
                if attempt.container_id:
                    yield TaskContainer(
                        AM_TASK, attempt.container_id, address=attempt.node_http_address
                    )

    def _read_service(self) -> ObservedService:
        if self.app.user not in (None, self.cluster.settings.user):
            raise AuthError(
                f"{self.app.id} is {self.app.user}'s: only {self.app.user} can ask which "
                f"containers it has while it runs",
                hint="Its ApplicationMaster's logs may be readable: --am; all of them, "
                "perhaps, when it is over.",
            )
        run = self.app.name or self.name
        return self.cluster.client.get_service(run, deadline=self._poll_deadline())

    def _poll_deadline(self) -> Deadline:
        return self.cluster.client.deadline(_ROSTER_S)

    # --- when it is over --------------------------------------------------------------------------

    def archive(self) -> Archive:
        """Return the logs of a job that is over: collected on HDFS, or at the cluster's log server.
        If they are still being collected, wait for them, for up to a minute.

        Raises:
            SettingsError: `hadoop_conf` is not set.
            UsageError: The selected task does not exist.
            SubmitTFJobError: No source has logs; the error is that of the first source.
        """
        conf = self.cluster.settings.hadoop_conf
        if conf is None:
            raise SettingsError(
                f"where the cluster keeps the logs of {self.app.id} is not known, because "
                f"hadoop_conf is not set",
                hint="Set hadoop_conf to a directory with the cluster's yarn-site.xml and "
                "core-site.xml.",
            )
        first: SubmitTFJobError | None = None
        for place in (self._collected_archive, self._at_log_server):
            try:
                archive = place(conf)
            except SubmitTFJobError as error:  # noqa: PERF203 - two places
                first = first or error
            else:
                if archive is not None:
                    return self._selected_archive(archive)
        raise first or NoSuchJob(f"there are no logs of {self.app.id}")

    def _selected_archive(self, archive: Archive) -> Archive:
        from submit_tf_job.logs.read import chosen

        for warning in archive.warnings:
            self.say(warning)
        if self.everything and self.task is None and not self.am:
            return archive
        return replace(archive, containers=tuple(chosen(archive.containers, self.task, am=self.am)))

    def _collected_archive(self, conf: Path) -> Archive:
        from submit_tf_job.logs.archive import collected
        from submit_tf_job.logs.collected import Absence, NoLogs

        app, settings = self.app, self.cluster.settings
        found: Archive | NoLogs
        for number in waiting.LOGS_ARE_COLLECTED.attempts(self.cluster.clock, self.cluster.sleep):
            logs = collected_logs(app, conf, settings, self.cluster.client.now_ms())
            try:
                found = collected(logs, self.task)
                if not self._are_missing(app, found):
                    break
            except NoLogs as error:
                if error.reason is not Absence.NOT_YET:
                    raise
                found = error
            if not number:
                self.say(
                    f"{self.name} is over, and the cluster is collecting its logs; waiting for them"
                )
            app = self.cluster.client.app(app.id) or app
        if isinstance(found, NoLogs):
            raise found
        return found

    def _are_missing(self, app: AppReport, archive: Archive) -> bool:
        """Return whether selected logs of a node are not collected yet. Hadoop 3.5 may call the
        collection unfinished forever (seen on 3.5.0).
        """
        from submit_tf_job.logs.collected import UNDER_WAY

        if app.log_aggregation_status not in UNDER_WAY or archive.is_complete:
            return False
        if any(found.task == self.task for found in archive.containers):
            return False
        now_ms = self.cluster.client.now_ms()
        if not app.finished_ms or now_ms is None:
            return True
        return now_ms - app.finished_ms < _WORTH_WAITING_S * 1000

    def _at_log_server(self, conf: Path) -> Archive | None:
        from submit_tf_job.host.hadoopconf import YARN, configuration
        from submit_tf_job.logs.archive import served
        from submit_tf_job.logs.sources import LogServer, log_server_of

        client = self.cluster.client
        address = log_server_of(configuration(conf, YARN))
        if address is None:
            return None
        masters = [
            attempt.container_id
            for attempt in client.app_attempts(self.app.id)
            if attempt.container_id
        ]
        return served(
            LogServer(client),
            address,
            masters or [f"{self.app.id.replace('application', 'container')}_01_000001"],
        )


def _role_sizes(service: ObservedService) -> dict[str, int]:
    """Return the number of tasks of each role of a service."""
    return {
        component.name: max(component.number_of_containers or 0, len(component.containers))
        for component in service.components
    }


AM_LOG_BYTES = 1024 * 1024  # the end of one container takes up to 12 kB in it

Say = Callable[[str], None]


def logs(
    cluster: Cluster,
    job: str | JobRef,
    task: str | None = None,
    *,
    files: Sequence[str] = (),
    tail: int | None = None,
    since_s: float | None = None,
    grep: str | None = None,
    am: bool = False,
    follow: bool = False,
    raw: bool = False,
    say: Say = lambda _sentence: None,
) -> Reading:
    """Return the lines of a job's logs, in order of time if they have timestamps.

    Args:
        cluster: The cluster.
        job: Name of the job, an application id, or a run.
        task: A task (`worker-0`), a role (`worker`), or `am`; None for all tasks.
        files: File names; default: stdout.txt and stderr.txt, of the ApplicationMaster its log and
            output.
        tail: The number of last lines to read of each file.
        since_s: Only lines written in the last `since_s` seconds.
        grep: A regular expression that lines must match.
        am: Read the ApplicationMaster's own logs.
        follow: Continue until the job is over.
        raw: Include lines for programs (`TFJOB_PROGRESS`, the outcome) and bash's warnings about a
            locale that the image lacks.
        say: Called with messages about logs that cannot be read or are awaited.

    Returns:
        The lines; they are read during the iteration, once.

    Raises:
        NoSuchJob: The job does not exist, or has no logs; the message has the reason.
        AuthError: The logs belong to another user.
        SettingsError: The job is over, and `hadoop_conf` is not set.
        UsageError: The task does not exist, `tail` is negative, or `grep` is not a valid regular
            expression.
    """
    from submit_tf_job.logs import read as reader
    from submit_tf_job.logs.entries import MACHINE_LINES

    selection = _log_selection(files, tail, grep)
    if since_s is not None:
        now_s = cluster.now_ms() / 1000
        selection = replace(selection, since=now_s - since_s)
    if not raw:
        selection = replace(selection, hide=MACHINE_LINES)
    found = find_logs(cluster, job, task, am=am, say=say)
    if follow and not found.app.ended:
        return found.follow(selection)
    say = _say_once(say)
    source, containers, _kind = found.now()
    if not containers:
        whose = "its ApplicationMaster" if am else "its tasks"
        raise NoSuchJob(f"{found.name}: nothing is left of {whose} in its logs")
    ended = None
    if found.app.ended and found.app.finished_ms:
        ended = datetime.fromtimestamp(found.app.finished_ms / 1000, timezone.utc)
    wanted = reader.wanted_files(reader.listed(source, containers, say), selection, ended)
    return reader.read(source, wanted, selection, cluster.wall(), say)


def _say_once(say: Say) -> Say:
    """Return a function that passes each message on only once."""
    said: set[str] = set()

    def once(sentence: str) -> None:
        if sentence not in said:
            said.add(sentence)
            say(sentence)

    return once


def _log_selection(files: Sequence[str], tail: int | None, grep: str | None) -> LogSelection:
    from submit_tf_job.logs.entries import LogSelection
    from submit_tf_job.logs.read import pattern

    if tail is not None and tail < 0:
        raise UsageError(f"--tail: {tail} is not a valid number of lines")
    selection = LogSelection(files=tuple(dict.fromkeys(files)), tail=tail)
    if grep is not None:
        selection = replace(selection, grep=pattern(grep))
    return selection


def log_files(
    cluster: Cluster,
    job: str,
    task: str | None = None,
    *,
    am: bool = False,
    say: Say = lambda _sentence: None,
) -> LogInventory:
    """Return the log files of a job, including those of its ApplicationMaster; arguments and errors
    are those of `logs`.
    """
    from submit_tf_job.logs.entries import LogInventory
    from submit_tf_job.logs.read import listed

    found: JobLogs = find_logs(cluster, job, task, am=am, say=say, everything=True)
    logs, containers, source = found.now()
    return LogInventory(found.name, found.app.id, source, tuple(listed(logs, containers, say)))


def end_of_log(
    cluster: Cluster,
    app: AppReport,
    container_id: str,
    file: str = "stderr.txt",
    *,
    host: str | None,
    max_bytes: int = 64 * 1024,
) -> str:
    """Return the end of a container's log file, from its NodeManager or, once the application has
    ended, from the collected logs; "" if it is empty or cannot be read now.

    Args:
        app: The application that the container belongs to.
        container_id: The container.
        file: Name of the file.
        host: The container's node; None if the node is not known: then only the collected logs are
            read.
        max_bytes: Maximum number of bytes to read, from the end; a line that begins before them is
            cut.
    """
    for read in (_from_node, _from_collected):
        with suppress(SubmitTFJobError):
            data = read(cluster, app, container_id, file, host, max_bytes)
            if data is not None:
                return "\n".join(data.decode("utf-8", "backslashreplace").splitlines())
    return ""


def am_log(cluster: Cluster, app: AppReport) -> str:
    """Return the end of the log of an application's last ApplicationMaster; "" if it cannot be read
    now.
    """
    from submit_tf_job.yarn.amlog import AM_LOG

    attempts: tuple[AppAttempt, ...] = ()
    with suppress(SubmitTFJobError):
        attempts = cluster.client.app_attempts(app.id)
    last = next((attempt for attempt in reversed(attempts) if attempt.container_id), None)
    if last is None or last.container_id is None:
        return ""
    host = (last.node_http_address or "").rpartition(":")[0] or None
    return end_of_log(cluster, app, last.container_id, AM_LOG, host=host, max_bytes=AM_LOG_BYTES)


def _from_node(
    cluster: Cluster,
    _app: AppReport,
    container_id: str,
    file: str,
    host: str | None,
    max_bytes: int,
) -> bytes | None:
    from submit_tf_job.yarn.nodemanager import ContainerGone, NodeUnreachable

    if not host:
        return None
    for address in cluster.nodes.addresses_of(host):
        with suppress(ContainerGone, NodeUnreachable):
            return cluster.nodes.read_log(address, container_id, file, tail_bytes=max_bytes).data
    return None


def _from_collected(
    cluster: Cluster,
    app: AppReport,
    container_id: str,
    file: str,
    host: str | None,
    max_bytes: int,
) -> bytes | None:
    conf = cluster.settings.hadoop_conf
    if conf is None or not app.ended:
        return None
    logs = collected_logs(app, conf, cluster.settings)
    return logs.read_file(container_id, file, tail=max_bytes, host=host)
