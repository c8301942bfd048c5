"""Explain a job: why it waits or failed, and what has changed since the last run of the job that
succeeded.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from submit_tf_job import waiting
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.job_report import JobReport
from submit_tf_job.logs.entries import TaskContainer
from submit_tf_job.observation import JobState, JobStatus
from submit_tf_job.operations import run_records, why
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.collected_logs import collected_logs
from submit_tf_job.operations.logs import end_of_log
from submit_tf_job.operations.run_differences import differences
from submit_tf_job.yarn.observed import AppReport, AppState, FinalStatus

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.diagnose.since_success import NewValue, SinceSuccess

_LOG = logging.getLogger(__name__)
COMPARED_WITHIN_S = 2.0
_RUNS, _RECORDS = 3, 20  # that succeeded; that are read to find them
_FILES = ("stderr.txt", "stdout.txt")
_OF_A_SUCCESS = 700 * 1024  # bytes of a file; with the failed task's two ends less than 5 MB in all
_FEW_LINES = 240
_CODE = ("file", "package", "image")
_MOST, _SHOWN = 100, 80  # differences; characters of a value


@dataclass(frozen=True)
class Why:
    """Why a job waits or failed.

    Attributes:
        status: The job's status.
        pending: Why the job waits, the most important cause first; () if it does not wait, or has
            waited for less than 5 s.
        root_cause: Why the job failed; None if it did not fail, or if the reason is not known.
        since_success: What has changed since the last run of the job that succeeded; None if the
            job did not fail, if no successful run or this run itself has a record, or if nothing
            could be compared within 2 s.
    """

    status: JobStatus
    pending: tuple[Cause, ...] = ()
    root_cause: Cause | None = None
    since_success: SinceSuccess | None = None


def explain(cluster: Cluster, status: JobStatus) -> Why:
    """Return why a job waits or failed. If a request fails, only its part of the result is left
    out. For a job that is over the run's record is completed, too.

    Args:
        cluster: The cluster.
        status: The job's last status.
    """
    found = why.diagnose_and_record(cluster, status)
    since = None
    if status.state is JobState.FAILED:
        since = _within_limit(cluster, status, found.failure)
    return Why(status, found.pending, found.failure, since)


def _within_limit(cluster: Cluster, status: JobStatus, cause: Cause | None) -> SinceSuccess | None:
    """Return what is known after at most 2 s of the difference from the last successful run."""
    compare = partial(_compare_runs, cluster, status, cause)
    found = waiting.results_within(COMPARED_WITHIN_S, compare, cluster.clock)
    return found[-1] if found else None


def _compare_runs(
    cluster: Cluster, status: JobStatus, cause: Cause | None
) -> Iterator[SinceSuccess]:
    """Yield what has changed since the last run that succeeded: first from the records alone, then
    also with the lines that only the failed task printed. Errors are only logged.
    """
    try:
        yield from _known_differences(cluster, status, cause)
    except SubmitTFJobError as error:
        _LOG.info("earlier runs could not be read: %s", error.message)
    except Exception:  # noqa: BLE001 - an explanation must not cost the cause
        _LOG.info("a defect in comparing a job with its earlier runs", exc_info=True)


def _known_differences(
    cluster: Cluster, status: JobStatus, cause: Cause | None
) -> Iterator[SinceSuccess]:
    from submit_tf_job.diagnose.since_success import SinceSuccess, is_unknown, new_lines

    own = run_records.read(cluster, status.run)
    if own is None:
        return
    before_s = int(own["submission"]["at"])
    asked = run_records.successes(cluster, own["name"], before_s, most=_RUNS, most_read=_RECORDS)
    last = next(asked, None)
    if last is None:
        return
    hosts = {task.task: task.host for task in _report_of(last).tasks if task.host}
    new = [*_new_values(last, own), *_new_node(hosts, cause)]
    since = SinceSuccess(last["run"], int(last["submission"]["at"]) * 1000, tuple(new[:_MOST]))
    yield since
    if cause is None or not cause.task or not is_unknown(cause):
        return
    before = _outputs_of([last, *asked], cluster, cause.task)
    if before is None:
        return
    for file in _FILES:
        end = _end_of_failed(cluster, status, cause, file)
        is_cut = any(len(text) >= _OF_A_SUCCESS for text in before)
        if is_cut and end.count("\n") < _FEW_LINES:
            continue  # it may have these lines at its start, which was not read
        if lines := new_lines(end, before):
            yield replace(since, lines=lines)
            return


def _outputs_of(runs: Sequence[Mapping[str, Any]], cluster: Cluster, task: str) -> list[str] | None:
    """Return what a task printed in runs that succeeded; None if no collected logs have it."""
    conf, found = cluster.settings.hadoop_conf, list[str]()
    for run in runs:
        if conf is None:
            return None
        container, host = _container_of(_report_of(run), task)
        app = AppReport(
            id=run["application_id"],
            user=str(run.get("user") or ""),
            name=None,
            queue=None,
            state=AppState.FINISHED,
            final_status=FinalStatus.SUCCEEDED,
        )
        with suppress(SubmitTFJobError):
            logs = collected_logs(app, conf, cluster.settings)
            names = [one.name for one in logs.files(TaskContainer(task, container, host))]
            found.extend(
                logs.read_file(container, name, tail=_OF_A_SUCCESS, host=host).decode(
                    "utf-8", "backslashreplace"
                )
                for name in _FILES
                if name in names
            )
            found.append("")  # its logs are there, if they are empty
    return found or None


def _container_of(report: JobReport, task: str) -> tuple[str, str | None]:
    """Return the container and the node of a task. If they are not known, return those of another
    task of the same role, or else the deciding task's container without its node; the container is
    "" if no container is known.
    """
    role = task.rpartition("-")[0]
    known = [one for one in report.tasks if one.container_id]
    same = [one for one in known if one.task == task]
    of_role = [one for one in known if one.task.rpartition("-")[0] == role]
    for one in (*same, *of_role):
        return one.container_id or "", one.host
    return report.container_id or "", None


def _new_values(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[NewValue]:
    """Yield the differences between what two runs were given, the content of files first."""
    from submit_tf_job.diagnose.since_success import NewValue

    found = sorted(differences([before, now]), key=lambda one: one.kind not in _CODE)
    for one in found:
        was, given = (value and _short_value(value) for value in one.values)
        yield NewValue(one.kind, one.label, was, given)
    versions = [str(record["submission"].get("version") or "") for record in (before, now)]
    if versions[0] != versions[1]:
        yield NewValue("version", "submit_tf_job", *versions)


def _new_node(hosts: Mapping[str, str], cause: Cause | None) -> Iterator[NewValue]:
    """Yield the node of the task that failed first, if the successful run had no task on that
    node.
    """
    from submit_tf_job.diagnose.since_success import NewValue

    if cause and cause.task and cause.host and hosts and cause.host not in hosts.values():
        was = hosts.get(cause.task) or ", ".join(sorted(set(hosts.values()))[:3])
        yield NewValue("node", cause.task, was, cause.host)


def _short_value(value: str) -> str:
    line = " ".join(value.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _report_of(record: Mapping[str, Any]) -> JobReport:
    report = (record.get("end") or {}).get("report")
    return JobReport.parse(json.dumps(report).encode()) or JobReport()


def _end_of_failed(cluster: Cluster, status: JobStatus, cause: Cause, file: str) -> str:
    if status.app is None or not cause.container_id:
        return ""
    return end_of_log(
        cluster, status.app, cause.container_id, file, host=cause.host, max_bytes=why.END_BYTES
    )
