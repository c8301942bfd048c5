"""Read the status of a run: which sources are asked, and which of them takes precedence.

docs/internals/architecture.md#the-sources-of-a-status has the same as a table.

1. The ResourceManager's record of the application (`AppReport`), by one request each time that the
    status is read: its state, its end. If the ResourceManager has no record any more, only the
    run's record in the staging directory decides (`run_records.recorded_end`).
2. The deciding task's report (`JobReport`): all tasks, progress, outcome. While the container lives
   it is read from its NodeManager; at the end from the run's record, then the aggregated logs, then
   the node that the ApplicationMaster's log names (`last_report`). A report that was read is kept
   until a later report is read, even if its container has ended since.
3. The services API (`ObservedService`): which container the deciding task has, and of which kind
    the job is. Every response repeats the whole service, so this API is asked each time only until
    the container is known; after that it is asked every few seconds, and when details are
    requested.

`observation.verdict` joins them: the ResourceManager's final status comes first, the report's
outcome confirms or contradicts it (docs/verdict.md).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    JobFailed,
    JobStopped,
    NoSuchJob,
    SubmitTFJobError,
)
from submit_tf_job.observation import (
    AWAITED,
    ENDED,
    Evidence,
    JobStatus,
    deciding_task_of,
)
from submit_tf_job.operations.cluster import Cluster, JobRef, none_on_error
from submit_tf_job.operations.last_report import read_last_report, read_report_from_node
from submit_tf_job.operations.run_records import parse_report, recorded_end
from submit_tf_job.operations.runs import application_that_stays, find_with_app
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.nodemanager import ContainerGone, NodeUnreachable, NoSuchLogFile
from submit_tf_job.yarn.observed import (
    AppReport,
    AppState,
    FinalStatus,
    ObservedContainer,
    ObservedService,
    whole_of,
)

if TYPE_CHECKING:
    from submit_tf_job.job_report import JobReport

_SERVICE_EVERY_S = 5.0
SERVICE_S = 15.0  # the ResourceManager asks the ApplicationMaster, which may hang
OUTDATED_S = 75.0  # the report is written every 30 s at least


def read_status(
    cluster: Cluster, ref: JobRef, *, detail: bool = False, app: AppReport | None = None
) -> JobStatus:
    """Return the status of a run now; `detail`, `app` and the errors are those of
    `StatusReader.read`.
    """
    return StatusReader(cluster, ref).read(detail=detail, app=app)


class StatusReader:
    """Reads the status of one run, as often as `read` is called, and keeps between the calls what
    need not be read again.

    Args:
        cluster: The cluster.
        ref: The run.
        answer_s: Time limit of one call to reach a ResourceManager; None for the client's own
            limit. A watch retries for a longer time, and reports each failure.
        details_every_s: Seconds between requests to the services API for the node, start and ports
            of each task; None to send no such requests.
    """

    def __init__(
        self,
        cluster: Cluster,
        ref: JobRef,
        *,
        answer_s: float | None = None,
        details_every_s: float | None = None,
    ) -> None:
        self._cluster, self._ref = cluster, ref
        self._client, self._clock = cluster.client, cluster.clock
        self._answer_s = answer_s
        self._details_every_s, self._details_at = details_every_s, float("-inf")
        self._service: ObservedService | None = None
        self._service_at = float("-inf")
        self._deciding: ObservedContainer | None = None
        self._deciding_task: str | None = None
        self._report: JobReport | None = None
        self._evidence = Evidence.UNREADABLE
        self._node_addresses: dict[str, list[str]] = {}
        self._report_trouble = ""  # why the report could not be read this time
        self._container_gone = False  # YARN lists no living container of the deciding task
        # the last report's own time, and when it was first seen
        self._report_time: float | None = None
        self._report_time_seen_at = self._clock()

    def read(self, *, detail: bool = False, app: AppReport | None = None) -> JobStatus:
        """Return the run's status now.

        Args:
            detail: Request the services API, for the node, start and ports of each task, even if
                the report is enough for a verdict.
            app: The ResourceManager's record, if it was requested just now.

        Raises:
            ClusterUnavailable: No ResourceManager answered.
        """
        self._report_trouble = trouble = ""
        detail = self._details_are_due() or detail
        app = app or self._client.app(
            self._ref.application_id, deadline=self._client.deadline(self._answer_s)
        )
        if app is not None and (app.withdrawn or app.overwritten):
            app = application_that_stays(self._cluster, app)
            self._ref = replace(self._ref, application_id=app.id)
        user = self._cluster.settings.user
        of_other_user = app is not None and app.user not in (None, user)
        if app is not None:
            if of_other_user:
                trouble = (
                    f"how its tasks stand: it is a job of {app.user}, and only {app.user} can ask "
                    f"its ApplicationMaster"
                )
            elif not app.ended and (detail or self._service_is_old()):
                try:
                    self._ask_service()
                except (ClusterUnavailable, NoSuchJob) as error:
                    # its ApplicationMaster restarts; the ResourceManager has the rest
                    trouble = _why_master_silent(app, error)
            if not of_other_user and self._deciding is None and (trouble or app.lists_anew):
                self._find_former_report(app)
            self._read_report(app)
        recorded = None
        if app is None:
            recorded = none_on_error(lambda: recorded_end(self._cluster, self._ref))
        if recorded is not None:
            self._report, self._evidence = recorded[0], Evidence.READ
        # the run's name may show only the beginning of the job's
        properties = self._service.properties if self._service else {}
        return JobStatus(
            name=properties.get(service_properties.JOB, self._ref.name),
            application_id=self._ref.application_id,
            run=self._ref.run,
            others=self._ref.others,
            recorded_verdict=recorded and recorded[1],
            app=app,
            service=self._service,
            report=self._report,
            evidence=self._evidence,
            trouble=trouble or self._report_trouble,
            of_other_user=of_other_user,
            lifetime_asked_s=(
                self._read_lifetime()
                if app and app.outlived_lifetime and not of_other_user
                else None
            ),
            report_outlived_container=app is not None and self._is_outdated(app),
        )

    def _read_lifetime(self) -> int | None:
        """Return the lifetime in seconds that the job asked for; 0 if it asked for none; None if it
        cannot be read.
        """
        stored = stored_services(self._cluster)
        if stored is None:
            return None
        with suppress(SubmitTFJobError):
            # YARN stores -1 for none (ServiceApiUtil.validateAndResolveService)
            return max(whole_of(stored.content(self._ref.run), "lifetime") or 0, 0)
        return None

    def _is_outdated(self, app: AppReport) -> bool:
        """Return whether the container that wrote the report has ended without an outcome: the
        report is older than the interval at which it is written, and YARN does not list the
        container.
        """
        report = self._report
        if (
            not report
            or report.is_over
            or app.state is not AppState.RUNNING
            or not self._container_gone
        ):
            return False
        now = ((app.started_ms or 0) + (app.elapsed_ms or 0)) / 1000
        return report.updated_at is not None and now > report.updated_at + OUTDATED_S

    def _find_former_report(self, app: AppReport) -> None:
        """Read the deciding task's report from the node that the ApplicationMaster's log names,
        while the services API does not list the task's container. Do nothing for an application
        that has ended.
        """
        if app.ended:
            return
        found = read_report_from_node(self._cluster, app)
        if found is not None and found[1] is not None:
            self._use_report(found[1], Evidence.READ)

    def _details_are_due(self) -> bool:
        now = self._clock()
        if self._details_every_s is None or now - self._details_at < self._details_every_s:
            return False
        self._details_at = now
        return True

    def _service_is_old(self) -> bool:
        age, report = self._clock() - self._service_at, self._report
        if report is not None and report.updated_at != self._report_time:
            self._report_time, self._report_time_seen_at = report.updated_at, self._clock()
        unread = self._deciding is None or self._evidence is not Evidence.READ
        if unread or report is None or report.is_over:
            # a failed deciding task may be started again, in another container
            return age >= 1.0
        frozen = (
            self._report_time is not None
            and self._clock() - self._report_time_seen_at >= OUTDATED_S
        )
        return age >= _SERVICE_EVERY_S and (report.state == "waiting" or frozen)

    def _ask_service(self) -> None:
        limit_s = min(SERVICE_S, self._answer_s or self._client.timeouts.total_s)
        service = self._client.get_service(self._ref.run, deadline=self._client.deadline(limit_s))
        self._service_at = self._clock()
        if not service.components and self._service is not None and self._service.components:
            # a restarted ApplicationMaster lists nothing at first
            self._service = replace(self._service, state=service.state)
            return
        self._service = service
        self._deciding_task = deciding_task_of(service) or self._deciding_task
        self._container_gone = bool(service.components)
        for component in service.components:
            for container in component.containers:
                if container.instance == self._deciding_task:
                    self._deciding = container if container.id else self._deciding
                    self._container_gone = self._container_gone and container.state in ENDED

    def _read_report(self, app: AppReport) -> None:
        if self._is_last_report(app):
            return
        live = self._deciding is not None and self._read_live(over=app.ended)
        if not app.ended or self._is_settled(app):
            return
        evidence, content = read_last_report(self._cluster, app)
        if content is not None and parse_report(content) is None:
            evidence, content = Evidence.UNREADABLE, None
        if content is not None or self._report is None:
            self._use_report(content, evidence)
        # a report that is over may be that of an earlier start
        elif evidence in AWAITED and (self._report.is_over or not live):
            self._evidence = evidence
        elif not live:  # the report was read before the end
            self._evidence = Evidence.UNREADABLE

    def _is_last_report(self, app: AppReport) -> bool:
        """Return whether the deciding task will write no later report than the one that was read
        last. YARN may start a deciding task again that has not succeeded, and it then writes
        another report.
        """
        report = self._report
        if report is None or not report.deciding_task_left:
            return False
        return self._is_settled(app) if app.ended else report.state == "succeeded"

    def _is_settled(self, app: AppReport) -> bool:
        """Return whether the collected logs of an application that has ended could add nothing: the
        report that was read last has an outcome that agrees with YARN's final status, or it is
        certain that no report was written.
        """
        if self._report is None:
            return self._evidence is Evidence.MISSING
        return self._report.is_over and (self._report.state == "succeeded") is (
            app.final_status is FinalStatus.SUCCEEDED
        )

    def _read_live(self, *, over: bool) -> bool:
        """Read the report from the NodeManager of the deciding task's container; return whether a
        report is known now, or it is certain that none was written.

        Args:
            over: Whether the application is over, so that the NodeManager may be deleting the logs.
        """
        deciding = self._deciding
        if deciding is None or not deciding.id or not deciding.bare_host:
            return False
        try:
            content = self._read_log(deciding.bare_host, deciding.id)
            if over:
                from submit_tf_job.job_report import with_outcome

                read = partial(self._read_log, deciding.bare_host, deciding.id)
                content = with_outcome(content, read)
        except NoSuchLogFile:
            # A running container may write the report later; an ended one cannot, as its state was
            # requested before the log was read. Of an application that is over, the NodeManager may
            # have deleted the file by now.
            if self._report is None and deciding.state in ENDED and not over:
                self._evidence = Evidence.MISSING
            return self._evidence is Evidence.MISSING
        except NodeUnreachable as error:
            self._report_trouble = f"how its tasks stand: its node does not answer. {error.message}"
            return False
        except (ContainerGone, AuthError):
            return False
        self._use_report(content, Evidence.READ)
        return self._report is not None

    def read_from_deciding_task(self, file: str) -> bytes | None:
        """Return a file from the log directory of the deciding task; None if the file does not
        exist (yet), if the task has no known container, or if its node does not answer.

        Raises:
            AuthError: The user may not read these logs.
        """
        deciding = self._deciding
        if deciding is None or not deciding.id or not deciding.bare_host:
            return None
        try:
            return self._read_log(deciding.bare_host, deciding.id, file)
        except (NoSuchLogFile, ContainerGone, NodeUnreachable):
            return None

    def _read_log(
        self,
        host: str,
        container_id: str,
        file: str = contract.REPORT_FILE,
        tail_bytes: int | None = None,
    ) -> bytes:
        """Return the report, or another file of the container, from the NodeManager of the
        container's host.

        Raises:
            NoSuchLogFile: The container has no such file.
            ContainerGone: No NodeManager of the host has a record of the container's application.
            NodeUnreachable: No NodeManager of the host answers.
            AuthError: The user may not read these logs.
        """
        if host not in self._node_addresses:
            found = self._cluster.nodes.addresses_of(
                host, deadline=self._client.deadline(self._answer_s)
            )
            self._node_addresses[host] = found
        gone: ContainerGone | NodeUnreachable = NodeUnreachable(
            f"no NodeManager of {host} is in service"
        )
        for address in self._node_addresses[host]:
            try:
                return self._cluster.nodes.read_log(
                    address, container_id, file, tail_bytes=tail_bytes
                ).data
            except (ContainerGone, NodeUnreachable) as error:  # noqa: PERF203 - mostly there is one
                gone = error
        self._node_addresses.pop(host)  # a restarted NodeManager may have another address
        raise gone

    def _use_report(self, content: bytes | None, evidence: Evidence) -> None:
        if content is None:
            if self._evidence is not Evidence.MISSING:
                self._evidence = evidence
            return
        report = parse_report(content)
        if report is not None:
            self._report, self._evidence = report, Evidence.READ


def _why_master_silent(app: AppReport, error: SubmitTFJobError) -> str:
    """Return why the tasks cannot be read: the ApplicationMaster does not answer; or the message of
    another server that answered.
    """
    if "tried" not in error.details or app.state is not AppState.RUNNING:
        return error.message  # somebody answered
    node = (str(app.raw.get("amHostHttpAddress") or "")).partition(":")[0]
    return (
        f"how its tasks stand: the ResourceManager answers, and the ApplicationMaster"
        f"{f' on {node}' if node else ''} does not; it hangs, or its node does"
    )


def status_of_name(cluster: Cluster, job: str) -> JobStatus:
    """Return the status of a job, given its name, its application id or a run's name.

    Raises:
        NoSuchJob: The job does not exist.
        ClusterUnavailable: No ResourceManager answered.
    """
    ref, app = find_with_app(cluster, job)
    return read_status(cluster, ref, app=app)


def describe(cluster: Cluster, job: str | JobRef) -> JobStatus:
    """Return the status of a job in detail, with the attempts of its ApplicationMaster and the
    nodes' web pages.

    This takes three to five requests, for any number of tasks.

    Raises:
        NoSuchJob: The job does not exist.
        ClusterUnavailable: No ResourceManager answered.
    """
    ref, app = find_with_app(cluster, job)
    found = read_status(cluster, ref, detail=True, app=app)
    attempts = cluster.client.app_attempts(found.application_id)
    return replace(found, attempts=attempts, node_pages=cluster.nodes.pages())


def error_of(status: JobStatus) -> SubmitTFJobError | None:
    """Return the error for a job that failed, was stopped or is in an unknown state; None for a job
    in any other state.
    """
    from submit_tf_job.observation import JobState

    found, name = status.verdict, status.name
    if found.state is JobState.FAILED:
        return JobFailed(f"{name} failed: {found.reason}", hint=found.hint)
    if found.state is JobState.STOPPED:
        return JobStopped(f"{name}: {found.reason}", hint=found.hint)
    if found.state is JobState.UNKNOWN:
        return NoSuchJob(f"{name}: {found.reason}", hint=found.hint)
    return None
