"""The record of each run, which stays when YARN has forgotten the run and its logs are deleted.

A record is a small JSON file in the staging directory, `records/JOB/RUN.json`. It has the
submission, which is written after the POST, and how the run ended, which the first command that
learns of the end adds. Until then the deciding task's last report is beside it, as `RUN.report`.
What the run's tasks used, and the run's curves, are in a third file, `RUN.usage`, which is read
only to show them. If the names of a job's runs have a short form of the job's name, that short form
is the directory's name.
"""

from __future__ import annotations

import getpass
import json
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from submit_tf_job.container import contract
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.json_values import plain_value
from submit_tf_job.observation import AWAITED, JobState, Verdict
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.record_files import (
    LIFETIME,
    REPORT,
    TEMPORARY,
    USAGE,
    RecordFiles,
    warn_of_unreadable,
)
from submit_tf_job.operations.run_values import values_of_job
from submit_tf_job.program_version import VERSION
from submit_tf_job.yarn.run_names import is_run, job_of, may_be_short

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.job_report import JobReport
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.submit import Submission
    from submit_tf_job.plan import Plan
    from submit_tf_job.usage_report import Asked, UsageReport
    from submit_tf_job.yarn.observed import AppReport
    from submit_tf_job.yarn.submission_steps import StoredRun

_LOG = logging.getLogger(__name__)
FORMAT = 1
_SPEC_MAX, _REPORT_MAX = 256 * 1024, 64 * 1024
_FORGOTTEN_AT_ONCE = 3
_WRITTEN_MS = 3_600_000  # a file is written within this time, or its writer was killed
_LOOK_S = 5.0  # a submission is not delayed longer by a ResourceManager that does not answer
_SUBMITTED_S = 180.0  # a run begins within this time of its submission's record
_CAUSE = ("code", "task", "sentence", "hint", "retryable", "certain", "exception", "evidence")


def begin(cluster: Cluster, done: Submission) -> None:
    """Write the record of a run that was submitted; errors are only logged. Also remove a few of
    the job's oldest records beyond `keep_records`, and files whose writer was killed. Do nothing
    without a staging directory.

    A run that was adopted mostly has a record. It has none where its client was killed after the
    POST, or the answer to that was lost; then it gets one, as long as it is alive.
    """
    with _errors_logged(done.ref.run):
        files = RecordFiles.if_any(cluster)
        if files is None:
            return  # no history is kept
        app = None
        if done.adopted:
            # one that `retries.memory` has begun has more memory than was submitted here
            if done.ref.run != done.plan.run or files.storage.exists(files.path_of(done.ref.run)):
                return
            deadline = cluster.client.deadline(_LOOK_S)
            app = cluster.client.app(done.ref.application_id, deadline=deadline)
            if app is None or app.ended:
                return
        head = job_of(done.ref.run)
        files.make_directory(head)
        files.write(_begun_record(cluster, done, app))
        stored = sorted(files.files_of_head(head), key=lambda item: item.modified_ms)
        records = [item for item in stored if item.name.endswith(".json")]
        beyond = records[: max(0, len(records) - cluster.settings.keep_records)]
        for old in beyond[:_FORGOTTEN_AT_ONCE]:
            files.remove(old)
        newest_ms = stored[-1].modified_ms  # the record that was just written
        for item in stored[:_FORGOTTEN_AT_ONCE]:
            if item.name.endswith(TEMPORARY) and newest_ms - item.modified_ms > _WRITTEN_MS:
                files.storage.remove(item.path)


def _begun_record(cluster: Cluster, done: Submission, adopted: AppReport | None) -> dict[str, Any]:
    """Return the record of a run that has begun; `adopted` is its application if it was there
    already.
    """
    job, begun_ms = done.plan.job, adopted and adopted.started_ms
    return {
        "kind": "RunRecord",
        "format": FORMAT,
        "name": job.name,
        "run": done.ref.run,
        "application_id": done.ref.application_id,
        "user": cluster.settings.user,
        "submission": {
            "key": done.plan.key,
            "content": done.plan.content,
            "number": done.plan.number,
            "at": (begun_ms or cluster.now_ms()) // 1000,
            "by": getpass.getuser(),
            "host": socket.gethostname(),
            "version": VERSION,
            "spec": job.given.text[:_SPEC_MAX] if job.given else "",
            "overrides": list(job.given.overrides) if job.given else [],
            "values": values_of_job(job),
            "asked": _asked_by_role(done.plan),
        },
        "end": None,
        LIFETIME: adopted.lifetime_left_s if adopted else done.plan.service.lifetime,
    }


def _asked_by_role(plan: Plan) -> dict[str, Any]:
    """Return for each role the resources that it asks for, for one task."""
    return {
        one.name: {
            "tasks": one.number_of_containers,
            "memory_mib": int(one.resource.memory),
            "cpus": one.resource.cpus,
            "gpus": sum(amount.value for amount in one.resource.additional.values()),
        }
        for one in plan.service.components
        if one.resource and one.name != contract.WITNESS_ROLE
    }


def asked_in_record(cluster: Cluster, run: str) -> Mapping[str, Asked]:
    """Return what one task of each role of a run asks for; {} without a record, or if it cannot be
    read.
    """
    from submit_tf_job.usage_report import asked_by_role

    with suppress(SubmitTFJobError):
        record = read(cluster, run)
        if record is not None:
            return asked_by_role(record["submission"].get("asked"))
    return {}


def extend(cluster: Cluster, run: str, seconds: int | None) -> None:
    """Write into a run's record how many seconds from now the run may continue, None for no limit;
    its deciding task reads that. Do nothing if the run has no record.

    Raises:
        SubmitTFJobError: The record cannot be written; the tasks would end at the former time.
    """
    record = read(cluster, run)
    if record is not None:
        record.pop("report", None)
        RecordFiles.of(cluster).write({**record, LIFETIME: seconds})


def complete(cluster: Cluster, status: JobStatus, cause: Cause | None) -> bool:
    """Add the end of a run to its record, if the record exists and has no end yet. Return whether
    the end was added; errors are only logged. If the record has the end of a failure without a
    cause, because none was found in time, only add the cause. Do nothing for a run that is not
    over, whose logs may still change the verdict, or that belongs to another user.
    """
    settled = status.state.is_final and status.evidence not in AWAITED
    if not settled or status.of_other_user or not status.run:
        return False
    added = False
    with _errors_logged(status.run):
        record = read(cluster, status.run)
        if record is None or not _is_of_record(record, status):
            return False
        record["application_id"] = status.application_id
        files = RecordFiles.of(cluster)
        if end := record.get("end"):
            if cause and not end.get("root_cause") and end.get("state") == status.state:
                files.write({**record, "end": {**end, "root_cause": _cause_json(cause)}})
            return False
        record.pop("report", None)
        files.write({**record, "end": _end_of_status(status, cause)})
        files.storage.remove(files.path_of(status.run, REPORT))
        added = True
    return added  # noqa: RET504 - an error of the block is logged, and ends it


def _end_of_status(status: JobStatus, cause: Cause | None) -> dict[str, Any]:
    verdict, app, report = status.verdict, status.app, status.report
    return {
        "state": verdict.state.value,
        "reason": verdict.reason,
        "hint": verdict.hint,
        "confirmed": verdict.confirmed,
        "root_cause": cause and _cause_json(cause),
        "progress": report and report.progress and plain_value(report.progress.to_json()),
        "started_at": app and app.started_ms and app.started_ms // 1000,
        "finished_at": _finished_ms(status) // 1000 or None,
        "report": report and report.record(_REPORT_MAX),
    }


def _is_of_record(record: Mapping[str, Any], status: JobStatus) -> bool:
    """Return whether a status is of the run that a record is about: of the same application, or of
    the one that stays where YARN accepted two POSTs at the time of that submission
    (docs/verdict.md#lost-answers). A later run may have the name of a deleted one.
    """
    if record["application_id"] == status.application_id:
        return True
    started_ms = status.app.started_ms if status.app else None
    if record.get("end") or not started_ms:
        return False
    submitted_at: int = record["submission"]["at"]
    return abs(started_ms / 1000 - submitted_at) <= _SUBMITTED_S


def _cause_json(cause: Cause) -> dict[str, Any]:
    return {name: plain_value(getattr(cause, name)) for name in _CAUSE}


def _finished_ms(status: JobStatus) -> int:
    """Return when a run ended, in milliseconds since 1970, or 0 if that is not known; for a run
    with a held container (`hold_on_failure`), when its task failed.
    """
    failure = status.verdict.failure
    if status.held and failure and failure.at:
        return int(failure.at * 1000)
    return (status.app and status.app.finished_ms) or 0


def read(cluster: Cluster, run: str) -> dict[str, Any] | None:
    """Return the record of a run; None if the run has none, if it is damaged (which is logged), or
    if there is no staging directory. A record without an end gets the deciding task's last report
    as `report`, if that was stored.

    Raises:
        SubmitTFJobError: The record cannot be read.
    """
    files = RecordFiles.if_any(cluster)
    if files is None:
        return None
    from submit_tf_job.storage import NoSuchPath

    try:
        record = files.read(files.path_of(run))
    except NoSuchPath:
        return None
    if record is not None and not record.get("end"):
        with suppress(NoSuchPath):
            report = parse_report(files.storage.read(files.path_of(run, REPORT)))
            record["report"] = report and report.record(_REPORT_MAX)
    return record


def usage_of(cluster: Cluster, run: str) -> UsageReport | None:
    """Return what the tasks of a run used and the run's curves, from the file beside its record;
    None if there is no such file or it cannot be read.
    """
    with suppress(SubmitTFJobError):
        files = RecordFiles.if_any(cluster)
        if files is not None:
            from submit_tf_job.usage_report import UsageReport

            path = files.path_of(run, USAGE)
            return UsageReport.parse(files.storage.read(path)) or warn_of_unreadable(path)
    return None


def write_usage(cluster: Cluster, run: str, content: bytes) -> None:
    """Write what a run's tasks used to the file beside the run's record; errors are only logged."""
    with _errors_logged(run):
        files = RecordFiles.of(cluster)
        files.storage.write(files.path_of(run, USAGE), content, mode=0o600)


def stored_run(cluster: Cluster, run: str) -> StoredRun | None:
    """Return the idempotency key and the application of a run, by its record, or None if it has
    none: YARN may have forgotten the run, and its stored service may be deleted.

    Raises:
        SubmitTFJobError: The record cannot be read.
    """
    from submit_tf_job.yarn.submission_steps import StoredRun

    record = read(cluster, run)
    if record is None:
        return None
    return StoredRun(record["submission"]["key"], record["application_id"])


def report_of(cluster: Cluster, run: str, application_id: str) -> bytes | None:
    """Return the deciding task's last report that is in, or beside, a run's record, as JSON. None
    if there is none, if the record belongs to another application, or if it cannot be read.
    """
    with suppress(SubmitTFJobError):
        record = read(cluster, run)
        if record and record["application_id"] == application_id:
            report = (record.get("end") or record).get("report")
            return json.dumps(report).encode() if report else None
    return None


def recorded_end(cluster: Cluster, ref: JobRef) -> tuple[JobReport | None, Verdict] | None:
    """Return the report and the verdict of a run that the ResourceManager has forgotten, from the
    run's record. None if there is no record of this application, or if neither its end nor the last
    report tells how the run ended.

    Raises:
        SubmitTFJobError: The record cannot be read.
    """
    record = read(cluster, ref.run)
    with suppress(KeyError, TypeError, ValueError):
        if record and record["application_id"] == ref.application_id:
            end = record["end"] or _end_of_report(
                parse_report(json.dumps(record["report"]).encode())
            )
            state, reason = JobState(end["state"]), str(end["reason"])
            verdict = Verdict(state, reason, hint=str(end["hint"]), confirmed=end["confirmed"])
            return parse_report(json.dumps(end.get("report")).encode()), verdict
    return None


def parse_report(content: bytes) -> JobReport | None:
    """Return a parsed report; None if the bytes are none (`JobReport.parse`)."""
    from submit_tf_job.job_report import JobReport  # imported with the first report

    return JobReport.parse(content)


def _end_of_report(report: JobReport | None) -> dict[str, Any]:
    """Return the end of a run whose record has no end, made from the deciding task's last report.

    Raises:
        KeyError: There is no report, or its state is neither `succeeded` nor `failed`.
    """
    ends = {"succeeded": JobState.SUCCEEDED, "failed": JobState.FAILED}
    state = ends[report.state if report else ""]
    reason = "by the deciding task's last report; YARN does not know the run any more"
    written = report and report.record(_REPORT_MAX)
    return {"state": state, "reason": reason, "hint": "", "confirmed": False, "report": written}


def recorded_runs(cluster: Cluster, job: str | None, limit: int) -> list[dict[str, Any]]:
    """Return the records of a job's runs, or of all jobs, as they are stored, the newest first;
    only the user's own, if the connection is only for these (`Cluster.own_jobs_only`).

    Args:
        job: A job, or one run by its own name; None for all jobs.
        limit: The largest number of records.

    Raises:
        SettingsError: There is no staging directory, and so no history.
        SubmitTFJobError: The records cannot be read.
    """
    files = RecordFiles.of(cluster)
    found = files.of_job(job and job_of(job))
    if job and is_run(job):
        found = [item for item in found if item.name == f"{job}.json"]
    return files.newest(
        found,
        limit,
        lambda one: _is_shown(cluster, one) and (not job or job in (one["name"], one["run"])),
    )


def newest_runs(cluster: Cluster, pattern: str) -> list[dict[str, Any]]:
    """Return the record of the newest run of each job whose name matches, the newest first.

    Args:
        pattern: A pattern of jobs' names with `*`, `?` and `[a-c]`.

    Raises:
        SettingsError: There is no staging directory, and so no history.
        SubmitTFJobError: The records cannot be read.
    """
    files, newest = RecordFiles.of(cluster), dict[str, dict[str, Any]]()
    for head in files.jobs():
        is_short = may_be_short(head)  # and may stand for several jobs
        if is_short or fnmatchcase(head, pattern):
            found = files.of_run_heads(head)
            most = len(found) if is_short else 1
            for record in files.newest(
                found,
                most,
                lambda one: _is_shown(cluster, one) and fnmatchcase(one["name"], pattern),
            ):
                newest.setdefault(record["name"], record)
    return sorted(newest.values(), key=lambda one: -int(one["submission"]["at"]))


def _is_shown(cluster: Cluster, record: Mapping[str, Any]) -> bool:
    """Return whether the user may see a record: a staging directory may be that of several
    users.
    """
    return not cluster.own_jobs_only or record.get("user") == cluster.settings.user


def successes(
    cluster: Cluster, job: str, before_s: int, *, most: int, most_read: int
) -> Iterator[dict[str, Any]]:
    """Yield the records of a job's successful runs, the last changed first.

    Args:
        cluster: The cluster.
        job: The job.
        before_s: Only runs that were submitted before this time, in seconds since 1970.
        most: The largest number of records to yield.
        most_read: The largest number of records to read in order to find them.

    Raises:
        SubmitTFJobError: The records cannot be read.
    """
    files = RecordFiles.of(cluster)
    found = sorted(files.of_job(job), key=lambda item: item.modified_ms, reverse=True)
    for item in found[:most_read]:
        record = files.read(item.path)
        if record is None or record["name"] != job or record["submission"]["at"] >= before_s:
            continue
        if (record["end"] or {}).get("state") == JobState.SUCCEEDED:
            yield record
            most -= 1
        if most <= 0:
            return


def names(cluster: Cluster, job: str) -> list[str]:
    """Return the names of a job's runs that have records; none without a staging directory.

    Raises:
        SubmitTFJobError: The names cannot be read.
    """
    files = RecordFiles.if_any(cluster)
    return [item.name.removesuffix(".json") for item in files.of_job(job)] if files else []


@contextmanager
def _errors_logged(run: str) -> Iterator[None]:
    """Log an error of the block instead of raising it: a failure to write a record must not make a
    submission fail, or change the verdict of a run.
    """
    try:
        yield
    except (SubmitTFJobError, OSError) as error:
        _LOG.info("the record of %s: %s", run, error)
    except Exception:  # noqa: BLE001 - the reason is the docstring
        _LOG.warning("a defect in the record of %s", run, exc_info=True)
