"""List the runs of a job from their records, and complete records that have no end yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.job_report import JobReport, StoredOutput
from submit_tf_job.json_values import plain_value
from submit_tf_job.observation import JobState
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.read_status import read_status
from submit_tf_job.operations.runs import find
from submit_tf_job.operations.why import find_cause_and_record

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus


@dataclass(frozen=True)
class RecordedRun:
    """One run, as its record describes it.

    Attributes:
        name, run, application_id: The job, its run, YARN's application.
        state: How the run ended, or its current state if it is alive; UNKNOWN if neither is known.
        submitted_ms: When the run was submitted, in milliseconds since 1970.
        duration_s: Seconds from the run's submission to its end, or until now; None if its end is
            not known, or is before its submission by a clock that was set back.
        metrics: The last value of each metric that the program reported.
        outputs: Where the run's outputs are.
        record: The record (docs/json.md#runrecord).
    """

    name: str
    run: str
    application_id: str
    state: JobState
    submitted_ms: int
    duration_s: int | None
    metrics: Mapping[str, float]
    outputs: tuple[StoredOutput, ...]
    record: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the record, with the values of this class added, as `history -o json` prints
        it.
        """
        told = {name: getattr(self, name) for name in ("state", "duration_s", "metrics", "outputs")}
        return {**self.record, **{name: plain_value(value) for name, value in told.items()}}


def run_history(cluster: Cluster, job: str | None, limit: int) -> tuple[RecordedRun, ...]:
    """Return the runs of a job by their records, the newest first; or, given a run's own name, that
    run alone; or, without a name, the runs of all jobs. For a record without an end the run's
    status is read; if the run is over, its end is added to the record.

    Raises:
        NoSuchJob: Neither a record nor YARN knows the job.
        UsageError: `job` is not a valid name.
        SettingsError: There is no staging directory, and so no history.
        SubmitTFJobError: The records cannot be read.
    """
    records = run_records.recorded_runs(cluster, job, limit)
    if job and not records:
        find(cluster, job)
    return tuple(recorded_run(cluster, record) for record in records)


def recorded_run(cluster: Cluster, record: dict[str, Any]) -> RecordedRun:
    """Return the run of a record, with its end. If the record has no end yet, read the run's
    status, and add the end to the record if the run is over.
    """
    status: JobStatus | None = None
    if not record.get("end"):
        ref = JobRef(record["name"], record["application_id"], record["run"])
        with suppress(SubmitTFJobError):
            status = read_status(cluster, ref)
            find_cause_and_record(cluster, status)
            record = run_records.read(cluster, ref.run) or record
    return _run_of_record(cluster, record, status)


def _run_of_record(
    cluster: Cluster, record: dict[str, Any], status: JobStatus | None
) -> RecordedRun:
    end, at_s = record.get("end") or {}, int(record["submission"]["at"])
    written = end.get("report") or record.get("report")
    report = status.report if status else JobReport.parse(json.dumps(written).encode())
    told = report.progress.metrics if report and report.progress else {}
    return RecordedRun(
        name=record["name"],
        run=record["run"],
        application_id=record["application_id"],
        state=_state_of_run(end, status),
        submitted_ms=at_s * 1000,
        duration_s=_duration_s(cluster, end, status, at_s),
        metrics={name: value for name, value in told.items() if value is not None},
        outputs=report.outputs if report else (),
        record=record,
    )


def _state_of_run(end: Mapping[str, Any], status: JobStatus | None) -> JobState:
    if end.get("state") in list(JobState):
        return JobState(end["state"])
    return status.state if status else JobState.UNKNOWN


def _duration_s(
    cluster: Cluster, end: Mapping[str, Any], status: JobStatus | None, at_s: int
) -> int | None:
    began, ended = end.get("started_at") or at_s, end.get("finished_at")
    if status and status.app and status.app.finished_ms:
        ended = status.app.finished_ms // 1000
    elif status and not status.state.is_final:
        ended = cluster.now_ms() // 1000
    if not isinstance(began, int) or not isinstance(ended, int):
        return None
    return ended - began if ended >= began else None
