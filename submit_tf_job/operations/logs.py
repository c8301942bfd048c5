"""Where the logs of one job are at this moment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import Cluster
from submit_tf_job.errors import AuthError, ClusterUnavailable, NoSuchJob, SettingsError, SubmitTFJobError, UsageError

if TYPE_CHECKING:
    from submit_tf_job.tasklogs.archive import Archive
    from submit_tf_job.tasklogs.follow import Roster
    from submit_tf_job.tasklogs.model import Selection, Shelf, TaskContainer
    from submit_tf_job.tasklogs.reader import Reading
    from submit_tf_job.tasklogs.shelves import NodeShelf
    from submit_tf_job.yarn.funnel import Deadline
    from submit_tf_job.yarn.records import AppReport, ObservedService

__all__ = ["JobLogs", "find_logs"]

_APPLICATION = re.compile(r"application_\d+_\d+")
_UNDER_WAY = frozenset({"NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"})  # LogAggregationStatus; the others are final
_COLLECTED_WITHIN_S = 60.0  # 2 to 35 s after the end were seen
_WORTH_WAITING_S = 180.0  # a cluster that is still collecting then waits for a node that is gone
_ROSTER_S = 5.0  # following goes on without an answer; it must not stand still for one
_PAUSES_S = (0.5, 1.0, 2.0)


def find_logs(
    cluster: Cluster,
    job: str,
    task: str | None,
    *,
    am: bool,
    say: Callable[[str], None],
    wall: Callable[[], float],
    everything: bool = False,
) -> JobLogs:
    """Find a job, running or over, by name or application id.

    Args:
        cluster: The cluster.
        job: Name or application id.
        task: A task, a role, `am`, or None for all tasks.
        am: The ApplicationMaster's logs are wanted.
        say: Told what happens.
        wall: Seconds since the epoch.
        everything: With all tasks, the ApplicationMaster's are wanted, too.

    Raises:
        NoSuchJob: There is none.
        AuthError: It is somebody else's.
    """
    app = _app_by_id(cluster, job) if _APPLICATION.fullmatch(job) else _app_by_name(cluster, job)
    return JobLogs(cluster, app.name or job, app, task, am, everything, say, wall)


def _app_by_id(cluster: Cluster, app_id: str) -> AppReport:
    app = cluster.client.app(app_id)
    if app is not None:
        return app
    from submit_tf_job.yarn.records import AppReport, AppState, FinalStatus

    # The ResourceManager has forgotten it; its logs may still be there.
    return AppReport(app_id, cluster.settings.user, None, None, AppState.FINISHED, FinalStatus.UNKNOWN)


def _app_by_name(cluster: Cluster, name: str) -> AppReport:
    client, user = cluster.client, cluster.settings.user
    refused: NoSuchJob | None = None
    try:
        service_id = client.get_service(name).id
    except NoSuchJob as error:
        service_id, refused = None, error  # a job that was deleted left its logs
    except ClusterUnavailable:
        service_id = None
    app = client.app(service_id) if service_id else None
    if app is not None:
        return app
    apps = client.apps(name=name)
    own = [found for found in apps if found.user == user]
    if own:
        return next((found for found in own if not found.ended), own[0])
    if apps:
        raise AuthError(f"{name} is {apps[0].user}'s, not {user}'s", hint=f"If you may read it: submit_tf_job logs {apps[0].id}")
    raise refused or NoSuchJob(f"{name}: YARN does not know yet as which application it runs", hint="Try again in a few seconds.")


@dataclass(frozen=True)
class JobLogs:
    """The logs of one job.

    Attributes:
        name: The job.
        app: Its application, as it was when the job was looked for.
    """

    cluster: Cluster
    name: str
    app: AppReport
    task: str | None
    am: bool
    everything: bool
    say: Callable[[str], None]
    wall: Callable[[], float]

    def now(self) -> tuple[Shelf, list[TaskContainer], str]:
        """Return where the logs are, whose are wanted, and a word for the place.

        Raises:
            NoSuchJob: There are none; the message says why.
        """
        from submit_tf_job.tasklogs.reader import nothing_yet

        if self.app.ended:
            archive = self.archive()
            return archive.shelf, list(archive.containers), archive.source
        containers = self._running()
        if not containers:
            raise nothing_yet(self.name, f"none of its containers{f' of {self.task}' if self.task else ''} has started")
        return self._node_shelf(), containers, "nodes"

    # --- while it runs ------------------------------------------------------------------------------------------------------

    def follow(self, selection: Selection) -> Reading:
        """Follow them until the job is over."""
        from submit_tf_job.tasklogs.follow import Follower, Pulse
        from submit_tf_job.tasklogs.reader import Reading

        cluster, settings = self.cluster, self.cluster.settings
        follower = Follower(
            self._roster,
            self._node_shelf(),
            lambda: replace(self, app=cluster.client.app(self.app.id) or self.app).archive(),
            selection,
            pulse=Pulse(settings["poll.min"], settings["timeouts.unreachable"]),
            clock=cluster.clock,
            wall=self.wall,
            sleep=cluster.sleep,
            say=self.say,
        )
        return Reading(lambda _times: follower.runs(), self._expected(), following=True)

    def _expected(self) -> list[str]:
        """Name the tasks that are going to be followed; none where that cannot be told yet."""
        try:
            components = self._service().components
        except SubmitTFJobError:
            components = ()
        if self.am or self.task == "am":
            return ["am"]
        counts = {component.name: component.number_of_containers or len(component.containers) for component in components}
        tasks = [f"{role}-{index}" for role, count in counts.items() for index in range(count)]
        if not tasks and self.task and re.search(r"-\d+$", self.task):
            return [self.task]
        return [task for task in tasks if self.task in (None, task, task.rpartition("-")[0])]

    def _roster(self) -> Roster:
        from submit_tf_job.tasklogs.follow import Roster

        client = self.cluster.client
        app = client.app(self.app.id, deadline=client.deadline(_ROSTER_S))
        if app is None:
            raise NoSuchJob(f"the ResourceManager knows no {self.app.id} any more", hint="It was restarted without recovery.")
        if app.ended:
            return Roster((), over=True)
        try:
            return Roster(tuple(self._running()), over=False)
        except (AuthError, UsageError):
            raise
        except SubmitTFJobError as error:  # its ApplicationMaster is being started again; what is known goes on
            return Roster((), over=False, trouble=f"which containers it has is not known just now: {error.message}")

    def _running(self) -> list[TaskContainer]:
        """List the containers that are wanted of a job that runs."""
        from submit_tf_job.tasklogs.model import TaskContainer
        from submit_tf_job.tasklogs.reader import chosen

        masters = list(self._masters())
        if self.am or self.task == "am":
            return masters[-1:]
        service = self._service()
        observed = [container for component in service.components for container in component.containers]
        tasks = [TaskContainer(one.instance or one.id, one.id, one.bare_host) for one in observed if one.id and one.bare_host]
        found = chosen(tasks, self.task, roles=[component.name for component in service.components])
        return [*found, *masters[-1:]] if self.everything and self.task is None else found

    def _masters(self) -> Iterator[TaskContainer]:
        from submit_tf_job.tasklogs.model import AM_TASK, TaskContainer

        if self.am or self.everything or self.task == AM_TASK:
            for attempt in self.cluster.client.app_attempts(self.app.id, deadline=self._soon()):
                if attempt.container_id:
                    yield TaskContainer(AM_TASK, attempt.container_id, address=attempt.node_http_address)

    def _service(self) -> ObservedService:
        if self.app.user not in (None, self.cluster.settings.user):
            raise AuthError(
                f"{self.app.id} is {self.app.user}'s: only {self.app.user} can ask which containers it has while it runs",
                hint="Its ApplicationMaster's logs may be readable: --am; all of them, perhaps, when it is over.",
            )
        service = self.cluster.client.get_service(self.name, deadline=self._soon())
        if service.id not in (None, self.app.id):
            return replace(service, components=())  # the name is another application's by now, and this one ends
        return service

    def _soon(self) -> Deadline:
        return self.cluster.client.deadline(_ROSTER_S)

    def _node_shelf(self) -> NodeShelf:
        from submit_tf_job.tasklogs.shelves import NodeShelf

        return NodeShelf(self.cluster.client, self.cluster.nodes)

    # --- when it is over ----------------------------------------------------------------------------------------------------

    def archive(self) -> Archive:
        """Find what is left: collected on HDFS, on this machine's disk, or at the cluster's log server.

        Raises:
            SubmitTFJobError: Nothing is; the error is that of the first place.
        """
        conf: Path | None = self.cluster.settings["hadoop_conf"]
        if conf is None:
            raise SettingsError(
                f"where the cluster keeps the logs of {self.app.id} is not known, because hadoop_conf is not set",
                hint="Set hadoop_conf to a directory with the cluster's yarn-site.xml and core-site.xml.",
            )
        first: SubmitTFJobError | None = None
        for place in (self._collected, self._on_disk, self._at_log_server):
            try:
                archive = place(conf)
            except SubmitTFJobError as error:  # noqa: PERF203 - three places
                first = first or error
            else:
                if archive is not None:
                    return self._told(archive)
        raise first or NoSuchJob(f"there are no logs of {self.app.id}")

    def _told(self, archive: Archive) -> Archive:
        from submit_tf_job.tasklogs.reader import chosen

        for warning in archive.warnings:
            self.say(warning)
        if self.everything and self.task is None and not self.am:
            return archive
        return replace(archive, containers=tuple(chosen(archive.containers, self.task, am=self.am)))

    def _collected(self, conf: Path) -> Archive:
        from submit_tf_job.leftovers import collected_logs
        from submit_tf_job.tasklogs.archive import collected
        from submit_tf_job.yarn.logs import Absence, NoLogs

        app, stop_at, waits = self.app, self.cluster.clock() + _COLLECTED_WITHIN_S, 0
        while True:
            settings = self.cluster.settings
            logs = collected_logs(app, conf, settings.user, as_proxy=settings.as_proxy, now_ms=int(self.wall() * 1000))
            try:
                archive = collected(logs, self.task)
            except NoLogs as error:
                if error.reason is not Absence.NOT_YET or self.cluster.clock() >= stop_at:
                    raise
            else:
                if not self._are_missing(app, archive) or self.cluster.clock() >= stop_at:
                    return archive
            if not waits:
                self.say(f"{self.name} is over, and the cluster is collecting its logs; waiting for them")
            self.cluster.sleep(_PAUSES_S[min(waits, len(_PAUSES_S) - 1)])
            waits += 1
            app = self.cluster.client.app(app.id) or app

    def _are_missing(self, app: AppReport, archive: Archive) -> bool:
        """Whether some node's logs are still on their way, and are wanted."""
        if app.log_aggregation_status not in _UNDER_WAY or any(found.task == self.task for found in archive.containers):
            return False
        return not app.finished_ms or self.wall() - app.finished_ms / 1000 < _WORTH_WAITING_S

    def _on_disk(self, conf: Path) -> Archive | None:
        from submit_tf_job.hadoopconf import read_xml
        from submit_tf_job.tasklogs.archive import left_on_disk

        named = read_xml(conf / "yarn-site.xml").get("yarn.nodemanager.log-dirs", "")
        directories = [Path(name.strip().removeprefix("file://")) for name in named.split(",") if name.strip() and "${" not in name]
        return left_on_disk(directories, self.app.id)

    def _at_log_server(self, conf: Path) -> Archive | None:
        from submit_tf_job.hadoopconf import read_xml
        from submit_tf_job.tasklogs.archive import served
        from submit_tf_job.yarn.logserver import LogServer, log_server_of

        client = self.cluster.client
        address = log_server_of(read_xml(conf / "yarn-site.xml"))
        if address is None:
            return None
        masters = [attempt.container_id for attempt in client.app_attempts(self.app.id) if attempt.container_id]
        return served(LogServer(client), address, masters or [f"{self.app.id.replace('application', 'container')}_01_000001"])
