"""Determine why a job waits or failed, from the cluster: why_pending, and for a run that is over
find_cause_and_record, which also completes its record; diagnose_and_record takes either.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from submit_tf_job import waiting
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, none_on_error
from submit_tf_job.operations.logs import am_log, end_of_log
from submit_tf_job.operations.series import keep_usage, lost_its_use
from submit_tf_job.operations.stored_services import service_of

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.diagnose.situation import LateTask, Situation
    from submit_tf_job.job_report import Failure, ReportedTask
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.yarn.observed import AppReport, ObservedContainer
    from submit_tf_job.yarn.observed_cluster import Node
    from submit_tf_job.yarn.resource_manager import Deadline

_LOG = logging.getLogger(__name__)

SOON_S = 5.0  # requests cost the cluster; a shorter wait is normal
LATE_S = 10.0  # a task arrives 1 to 3 s after its container was started
PENDING_REQUESTS_S = 10.0
_ASKED_NODES = 3


def is_waiting(status: JobStatus) -> bool:
    """Return whether a job has waited for at least five seconds, so that it is worth the requests
    to determine why.
    """
    from submit_tf_job.observation import JobState

    waits = status.state in (JobState.PENDING, JobState.STARTING)
    return bool(waits and status.app and (status.app.elapsed_ms or 0) >= SOON_S * 1000)


def why_pending(cluster: Cluster, status: JobStatus) -> tuple[Cause, ...]:
    """Return why a job waits for its ApplicationMaster, its containers or its tasks; the most
    important cause first.

    If a request fails, only the causes that depend on it are left out; the function never raises an
    error.

    Args:
        cluster: The cluster.
        status: The job's current status.

    Returns:
        The causes; none for a job that does not wait.
    """
    from submit_tf_job.diagnose.pending import NORMAL_S, diagnose
    from submit_tf_job.observation import JobState

    if status.app is None or status.state not in (JobState.PENDING, JobState.STARTING):
        return ()
    situation = _read_situation(cluster, status, status.app)
    wants = situation.asks or situation.late or situation.placements
    if situation.app.state.value == "RUNNING" and not wants:
        return ()
    causes = diagnose(situation)
    vague = any(cause.code in ("containers-coming", "unexplained") for cause in causes)
    if vague and situation.waiting_s >= NORMAL_S:
        return diagnose(_with_activities(cluster, situation))
    return causes


def _read_situation(cluster: Cluster, status: JobStatus, app: AppReport) -> Situation:
    from submit_tf_job.diagnose.queueing import have_only_masters
    from submit_tf_job.diagnose.situation import (
        NO_SCHEDULER,
        Situation,
        asks_of,
        placements_of,
    )
    from submit_tf_job.yarn import inspection

    client, deadline = cluster.client, cluster.client.deadline(PENDING_REQUESTS_S)
    service = status.service
    nodes = none_on_error(lambda: inspection.all_nodes(client, deadline=deadline))
    attempts = none_on_error(lambda: client.app_attempts(app.id, deadline=deadline)) or ()
    placements = placements_of(service)
    asks = asks_of(app, service)
    queue = str(app.raw.get("queue") or app.queue)
    in_queue = none_on_error(lambda: inspection.queue_apps(client, queue, deadline=deadline)) or ()
    everywhere: tuple[AppReport, ...] | None = None
    if have_only_masters(in_queue):
        everywhere = none_on_error(lambda: inspection.live_apps(client, {}, deadline=deadline))
    conf: Mapping[str, str] | None = None
    if placements:
        conf = none_on_error(lambda: inspection.configuration(client, deadline=deadline))
    exclusive: Mapping[str, bool] | None = None
    if any(node.labels for node in nodes or ()) or any(ask.label for ask in asks):
        exclusive = none_on_error(lambda: inspection.label_exclusivity(client, deadline=deadline))
    return Situation(
        app=app,
        asks=asks,
        scheduler=none_on_error(lambda: inspection.scheduler(client, deadline=deadline))
        or NO_SCHEDULER,
        nodes=nodes,
        neighbours=tuple(other for other in in_queue if other.id != app.id),
        cluster_apps=everywhere or (),
        exclusive=exclusive or {},
        attempt=next(reversed(attempts), None),
        tries=len(attempts),
        placements=placements,
        placement_handler=(conf or {}).get("yarn.resourcemanager.placement-constraints.handler"),
        has_image=service is None or '"artifact"' in json.dumps(service.raw.get("components")),
        late=tuple(_late_tasks(cluster, status, app, nodes or (), deadline)),
    )


def _with_activities(cluster: Cluster, situation: Situation) -> Situation:
    """Return the situation with the scheduler's activities added: the first request switches their
    recording on, and the next heartbeats of the nodes add activities.
    """
    from submit_tf_job.yarn.inspection import app_activities

    client, app_id = cluster.client, situation.app.id
    for _ in waiting.ACTIVITIES_ARE_RECORDED.attempts(cluster.clock, cluster.sleep):
        notes = none_on_error(
            lambda: app_activities(client, app_id, deadline=client.deadline(PENDING_REQUESTS_S))
        )
        if notes:
            return replace(situation, activities=notes)
    return situation


def _late_tasks(
    cluster: Cluster, status: JobStatus, app: AppReport, nodes: tuple[Node, ...], deadline: Deadline
) -> Iterator[LateTask]:
    """Find the tasks that have a container and have not reported from it, or whose container was
    lost; request the state of the first few of these containers from their nodes.
    """
    from submit_tf_job.diagnose.situation import LateTask
    from submit_tf_job.yarn.inspection import node_container

    # by the ResourceManager's clock, as launch times are
    now_ms = (app.started_ms or 0) + (app.elapsed_ms or 0)
    scheme = cluster.client.node_scheme
    lost = _containers_awaited_after_retry(status)
    for index, container in enumerate(_not_arrived(status)):
        waiting_s, since_ms = None, lost.get(container.id, container.launch_time_ms)
        if since_ms:
            waiting_s = max(0, now_ms - since_ms) / 1000
        if waiting_s is not None and waiting_s < LATE_S:
            continue
        task = container.instance or container.id or "a task"
        late = LateTask(task, container.bare_host, waiting_s, lost=container.id in lost)
        if late.lost:
            yield late
            continue
        found = (
            node_container(
                cluster.client,
                f"{scheme}://{node.http_address}",
                container.id,
                deadline=deadline,
            )
            for node in nodes
            if container.id and index < _ASKED_NODES
            if node.host == container.bare_host and node.http_address
        )
        if seen := next(filter(None, found), None):
            late = replace(late, node_state=seen.state)
            if seen.log_files is not None:
                # launch_container.sh writes it first, inside the image.
                late = replace(late, started="prelaunch.out" in seen.log_files)
        yield late


def _containers_awaited_after_retry(status: JobStatus) -> dict[str | None, int | None]:
    """Map the container of each task that must report again after a retry to the time when the
    previous run of all commands (generation) failed, in milliseconds since 1970.
    """
    if status.report is None or not status.report.generations:
        return {}
    at = status.report.generations[-1].at
    at_ms = None if at is None else int(at * 1000)
    return {
        task.container_id: at_ms
        for task in status.report.tasks
        if task.state == "absent" and task.container_id
    }


def _not_arrived(status: JobStatus) -> tuple[ObservedContainer, ...]:
    from submit_tf_job.yarn.observed import ContainerState

    if status.deciding_task is None:
        return ()  # another tool's service
    states = (ContainerState.RUNNING_BUT_UNREADY, ContainerState.READY)
    alive = tuple(container for container in status.containers if container.state in states)
    if status.report is None:
        return () if status.trouble else alive  # unknown, where their node does not answer
    # after a retry, tasks that still end their old command are expected to be missing
    ending = {task.container_id for task in status.report.tasks if task.state == "restarting"}
    missing = set(status.report.missing)
    return tuple(one for one in alive if one.instance in missing and one.id not in ending)


CAUSE_WITHIN_S = 8.0
RECORD_S = 0.2  # a verdict is not kept back for its record
END_BYTES = 256 * 1024


def find_cause_and_record(cluster: Cluster, status: JobStatus) -> Cause | None:
    """Return why a job failed. Also, whether it failed or not, complete the run's record if the job
    is over and the record has no end yet. A completion that takes longer than `RECORD_S` continues
    in a thread; for a run that was stopped or killed, whose use must be saved, the limit is
    `CAUSE_WITHIN_S`.

    Args:
        cluster: The job's cluster.
        status: The job's last status.

    Returns:
        The cause; None if the job has not failed, or no readable source explains more than the
        verdict within `CAUSE_WITHIN_S`, and neither does the deciding task's report alone. The
        function never raises an error and never changes the verdict.
    """
    from submit_tf_job.observation import JobState

    cause = None
    if status.state is JobState.FAILED:
        cause = _first_cause(cluster, status)
    limit_s = CAUSE_WITHIN_S if lost_its_use(status) else RECORD_S
    waiting.results_within(limit_s, partial(_record_end, cluster, status, cause), cluster.clock)
    return cause


def _record_end(cluster: Cluster, status: JobStatus, cause: Cause | None) -> Iterator[bool]:
    """Complete the record of a run that is over, and write its resource usage beside the record if
    the deciding task could not; yield whether the end was added. Errors are only logged.

    Whoever learns of the end first completes it: `status`, `why`, `describe`, `history`, `stop`, or
    who follows the job.
    """
    try:
        was_completed = run_records.complete(cluster, status, cause)
        if was_completed:
            keep_usage(cluster, status)
        yield was_completed
    except SubmitTFJobError as error:
        _LOG.info("the use of %s: %s", status.run, error.message)


def _first_cause(cluster: Cluster, status: JobStatus) -> Cause | None:
    read = partial(_find_quietly, _cause_of_all_sources, cluster, status)
    in_time = waiting.results_within(CAUSE_WITHIN_S, lambda: [read()], cluster.clock)
    return in_time[0] if in_time else _find_quietly(_cause_in_report, cluster, status)


def _find_quietly(
    find: Callable[[Cluster, JobStatus], Cause | None], cluster: Cluster, seen: JobStatus
) -> Cause | None:
    try:
        return find(cluster, seen)
    except SubmitTFJobError as error:
        _LOG.info("why it failed could not be found out: %s", error.message)
    except Exception:  # noqa: BLE001 - an explanation must not cost the verdict
        _LOG.info("a defect in finding out why a job failed", exc_info=True)
    return None


def _cause_of_all_sources(cluster: Cluster, seen: JobStatus) -> Cause | None:
    return _with_fitting_hint(cluster, seen, _cause_from_evidence(cluster, seen))


def _cause_in_report(cluster: Cluster, seen: JobStatus) -> Cause | None:
    """Return the cause that the deciding task's report alone tells for certain, such as a command
    that does not exist; no request is sent.
    """
    from submit_tf_job.diagnose.failure import conclude, evidence_of

    evidence = evidence_of(seen, sandbox=bool(cluster.settings.sandbox))
    cause = None if evidence.needs_am_log else conclude(evidence)
    return cause if cause is not None and cause.certain else None


def _with_fitting_hint(cluster: Cluster, seen: JobStatus, cause: Cause | None) -> Cause | None:
    """Return the cause without advice to do what the job already does, according to its posted
    service, or what its queue does not allow.
    """
    from submit_tf_job.diagnose.advice import JobKeys, advises, fitting

    cause = cause and _within_queue(cluster, seen, cause)
    if cause is None or cause.task is None or not advises(cause.hint):
        return cause
    service = service_of(cluster, seen)
    if service is None:
        return cause
    keys = JobKeys.of(service.raw, cause.task.rpartition("-")[0])
    return replace(cause, hint=fitting(cause.hint, keys, cause.facts))


def _within_queue(cluster: Cluster, seen: JobStatus, cause: Cause) -> Cause:
    """Return the cause with a hint that advises no more memory than a container in the job's queue
    can get.
    """
    from submit_tf_job.diagnose.advice import within_queue
    from submit_tf_job.yarn import inspection

    asked = cause.facts.get("asked_mib")
    if not isinstance(asked, int) or seen.app is None:
        return cause
    client = cluster.client
    scheduler = none_on_error(lambda: inspection.scheduler(client))
    queue = scheduler and scheduler.find(seen.app.queue)
    if not queue or queue.largest is None or not queue.largest.memory_mib:
        return cause
    most, name = queue.largest.memory_mib, queue.name
    return replace(cause, hint=within_queue(cause.hint, asked, most, name))


def _cause_from_evidence(cluster: Cluster, seen: JobStatus) -> Cause | None:
    from submit_tf_job.diagnose.failure import conclude, evidence_of, tasks_stopped, with_am_log
    from submit_tf_job.diagnose.outside import OF_MEMORY
    from submit_tf_job.yarn.amlog import container_ends

    if seen.app is None:
        return None
    evidence = evidence_of(seen, sandbox=bool(cluster.settings.sandbox))
    asked_am = evidence.needs_am_log
    if asked_am:
        log = am_log(cluster, seen.app)
        evidence = with_am_log(evidence, log)
        if evidence.suspect.reason == "peers-missing":
            evidence = replace(evidence, missing=_output_of_missing_task(cluster, seen, log))
    evidence = replace(evidence, stderr=_last_output(cluster, seen.app, evidence.suspect))
    cause = conclude(evidence)
    if evidence.suspect.reason and (cause is None or not cause.certain):
        stdout = _end_of_output(cluster, seen.app, evidence.suspect, "stdout.txt")
        evidence = replace(evidence, stdout=stdout)
        cause = conclude(evidence)
    if stopped := tasks_stopped(evidence, cause):
        found = {one.task: _output_of_task(cluster, seen.app, one) for one in stopped}
        evidence = replace(evidence, stopped={task: text for task, text in found.items() if text})
        cause = conclude(evidence)
    of_memory = cause is not None and cause.code in OF_MEMORY
    if cause is None or asked_am or not of_memory or cause.facts.get("asked_mib"):
        return cause
    # the ends contain the memory of the container
    return conclude(replace(evidence, ends=container_ends(am_log(cluster, seen.app))))


def _last_output(cluster: Cluster, app: AppReport, suspect: Failure) -> str:
    read = partial(_end_of_output, cluster, app, suspect)
    if suspect.status != 0:
        return read("stderr.txt")
    # The launch script writes its own failures to a separate file; of a failed container the
    # NodeManager quotes it.
    return "\n".join(filter(None, (read("stderr.txt"), read("prelaunch.err"))))


def _end_of_output(cluster: Cluster, app: AppReport, suspect: Failure, file: str) -> str:
    """Return the end of a log file of the failed task; "" if it cannot be read. The carriage
    returns that progress bars print are kept.
    """
    if not suspect.container_id:
        return ""
    container, host = suspect.container_id, suspect.host
    return end_of_log(cluster, app, container, file, host=host, max_bytes=END_BYTES)


def _output_of_task(cluster: Cluster, app: AppReport, task: ReportedTask) -> str:
    return end_of_log(cluster, app, task.container_id or "", host=task.host)


def _output_of_missing_task(cluster: Cluster, seen: JobStatus, log: str) -> tuple[str, str] | None:
    """Return the name and the output of a task with a container that never reported to the deciding
    task; None if there is none.
    """
    from submit_tf_job.yarn.amlog import container_of

    if seen.report is None or seen.app is None:
        return None
    for task in seen.report.missing:
        if place := container_of(log, task):
            container, host = place
            return task, end_of_log(cluster, seen.app, container, host=host)
    return None


class Diagnosis(NamedTuple):
    """Why a job waits or failed; empty for a job that does not wait and has not failed.

    Attributes:
        pending: Why the job waits; the most important cause comes first.
        failure: Why the job failed.
    """

    pending: tuple[Cause, ...] = ()
    failure: Cause | None = None


def diagnose_and_record(cluster: Cluster, status: JobStatus) -> Diagnosis:
    """Return why a job waits or failed. For a job that is over the run's record is completed, too
    (`find_cause_and_record`); for a job that runs no request is sent.

    Failed requests are ignored: a diagnosis never changes a verdict and never raises an error.
    """
    if status.state.is_final:
        return Diagnosis(failure=find_cause_and_record(cluster, status))
    if is_waiting(status):
        return Diagnosis(pending=why_pending(cluster, status))
    return Diagnosis()
