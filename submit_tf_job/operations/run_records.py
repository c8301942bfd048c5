"""The record of each run, which stays when YARN has forgotten the run and its logs are deleted.

It is one small JSON file in the staging directory, `records/JOB/RUN.json`: the submission, written
after the POST, and how the run ended, added by the first command that learns it. Until then the
deciding task's last report lies beside it, `RUN.report`. What its tasks used, and its curves, stay
in a file of their own, `RUN.usage`, which is read only to show them. The files of a job whose name
is shortened in its runs' names lie below the shortened one.
"""

from __future__ import annotations

import getpass
import json
import logging
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from submit_tf_job.container import contract
from submit_tf_job.errors import SettingsError, SubmitTFJobError
from submit_tf_job.job_report import JobReport
from submit_tf_job.json_values import plain_value
from submit_tf_job.observation import AWAITED, JobState, Verdict
from submit_tf_job.operations.cluster import Cluster, JobRef, staging_root, storage_of
from submit_tf_job.operations.run_values import values_of_job
from submit_tf_job.program_version import VERSION
from submit_tf_job.usage_report import UsageReport
from submit_tf_job.yarn.run_names import is_run, job_of, may_be_short, short_head
from submit_tf_job.yarn.submission_steps import StoredRun

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.submit import Submission
    from submit_tf_job.plan import Plan
    from submit_tf_job.storage import Stat, Storage

_LOG = logging.getLogger(__name__)
FORMAT = 1
_SPEC_MAX, _REPORT_MAX = 256 * 1024, 64 * 1024
_FORGOTTEN_AT_ONCE = 3
_CLOCKS_DIFFER_S = 300  # of the ResourceManager, in a record, and of the NameNode, at its file
_REPORT, _USAGE = contract.RECORD_REPORT, contract.RECORD_USAGE
LIFETIME = "lifetime_s"  # from the time of the file on; the deciding task reads it
_CAUSE = ("code", "task", "sentence", "hint", "retryable", "certain", "exception", "evidence")


def begin(cluster: Cluster, done: Submission) -> None:
    """Write the record of a run that was submitted; errors are only logged."""
    if staging_root(cluster.settings) is None:
        return  # no history is kept
    with _errors_logged(done.ref.run):
        storage = _open_storage(cluster)
        directory = f"{_records_directory(cluster)}/{job_of(done.ref.run)}"
        storage.mkdirs(storage.path(directory), 0o700)
        _write_record(storage, directory, _begun_record(cluster, done))
        stored = sorted(
            _list_entries(storage, storage.path(directory)), key=lambda s: s.modified_ms
        )
        beyond = stored[: max(0, len(stored) - cluster.settings.keep_records)]
        for old in beyond[:_FORGOTTEN_AT_ONCE]:
            for beside in (_REPORT, _USAGE):
                storage.remove(f"{old.path.removesuffix('.json')}{beside}")
            storage.remove(old.path)


def _begun_record(cluster: Cluster, done: Submission) -> dict[str, Any]:
    job = done.plan.job
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
            "at": (cluster.client.now_ms() or int(cluster.wall() * 1000)) // 1000,
            "by": getpass.getuser(),
            "host": socket.gethostname(),
            "version": VERSION,
            "spec": job.given.text[:_SPEC_MAX] if job.given else "",
            "overrides": list(job.given.overrides) if job.given else [],
            "values": values_of_job(job),
            "asked": _asked_by_role(done.plan),
        },
        "end": None,
        LIFETIME: done.plan.service.lifetime,
    }


def _asked_by_role(plan: Plan) -> dict[str, Any]:
    """Return what each role asks for, for one task."""
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


def extend(cluster: Cluster, run: str, seconds: int) -> None:
    """Write how long a run may continue from now, for its deciding task; nothing without a record.

    Raises:
        SubmitTFJobError: It cannot be written, and the tasks would end at the former time.
    """
    record = read(cluster, run)
    if record is not None:
        record.pop("report", None)
        directory = f"{_records_directory(cluster)}/{job_of(run)}"
        _write_record(_open_storage(cluster), directory, {**record, LIFETIME: seconds})


def complete(cluster: Cluster, status: JobStatus, cause: Cause | None) -> bool:
    """Add the end of a run to its record, if the record exists and has no end, and return whether
    it was added; errors are only logged.
    """
    settled = status.state.is_final and status.evidence not in AWAITED
    if not settled or status.of_other_user or not status.run:
        return False
    added = False
    with _errors_logged(status.run):
        record = read(cluster, status.run)
        if record is None or record.get("end") or record["application_id"] != status.application_id:
            return False
        directory = f"{_records_directory(cluster)}/{job_of(status.run)}"
        storage, record = _open_storage(cluster), {**record, "end": _end_of_status(status, cause)}
        record.pop("report", None)
        _write_record(storage, directory, record)
        storage.remove(storage.path(f"{directory}/{status.run}{_REPORT}"))
        added = True
    return added  # noqa: RET504 - an error of the block is logged, and ends it


def _end_of_status(status: JobStatus, cause: Cause | None) -> dict[str, Any]:
    verdict, app, report = status.verdict, status.app, status.report
    return {
        "state": verdict.state.value,
        "reason": verdict.reason,
        "hint": verdict.hint,
        "confirmed": verdict.confirmed,
        "root_cause": cause and {name: plain_value(getattr(cause, name)) for name in _CAUSE},
        "progress": report and report.progress and plain_value(report.progress.to_json()),
        "started_at": app and app.started_ms and app.started_ms // 1000,
        "finished_at": _end_ms(status) // 1000 or None,
        "report": report and report.record(_REPORT_MAX),
    }


def _end_ms(status: JobStatus) -> int:
    """Return when a run ended; of one whose container is held, when its task failed."""
    failure = status.verdict.failure
    if status.held and failure and failure.at:
        return int(failure.at * 1000)
    return (status.app and status.app.finished_ms) or 0


def read(cluster: Cluster, run: str) -> dict[str, Any] | None:
    """Return the record of a run; None if there is none, or no staging directory.

    Raises:
        SubmitTFJobError: It cannot be read.
    """
    root = staging_root(cluster.settings)
    if root is None:
        return None
    from submit_tf_job.storage import NoSuchPath

    storage = storage_of(cluster.settings, root)
    path = storage.path(f"{_records_directory(cluster)}/{job_of(run)}/{run}")
    try:
        record = _parse_record(storage.read(f"{path}.json"))
    except NoSuchPath:
        return None
    if record is not None and not record.get("end"):
        with suppress(NoSuchPath):
            report = JobReport.parse(storage.read(f"{path}{_REPORT}"))
            record["report"] = report and report.record(_REPORT_MAX)
    return record


def usage_of(cluster: Cluster, run: str) -> UsageReport | None:
    """Return what the tasks of a run used, and its curves, from the file beside its record; None if
    there is none.
    """
    root = staging_root(cluster.settings)
    if root is None:
        return None
    with suppress(SubmitTFJobError):
        storage = storage_of(cluster.settings, root)
        path = storage.path(f"{_records_directory(cluster)}/{job_of(run)}/{run}{_USAGE}")
        return UsageReport.parse(storage.read(path))
    return None


def keep_usage(cluster: Cluster, run: str, content: bytes) -> None:
    """Write what a run's tasks used beside its record; errors are only logged."""
    with _errors_logged(run):
        storage, directory = _open_storage(cluster), f"{_records_directory(cluster)}/{job_of(run)}"
        storage.write(storage.path(f"{directory}/{run}{_USAGE}"), content, mode=0o600)


def stored_run(cluster: Cluster, run: str) -> StoredRun | None:
    """Return the key and the application of a run, by its record: YARN may have forgotten the run,
    and its stored service may be deleted.

    Raises:
        SubmitTFJobError: The record cannot be read.
    """
    record = read(cluster, run)
    if record is None:
        return None
    return StoredRun(record["submission"]["key"], record["application_id"])


def report_of(cluster: Cluster, run: str, application_id: str) -> bytes | None:
    """Return the deciding task's last report as a run's record has it."""
    with suppress(SubmitTFJobError):
        record = read(cluster, run)
        if record and record["application_id"] == application_id:
            report = (record.get("end") or record).get("report")
            return json.dumps(report).encode() if report else None
    return None


def forgotten(cluster: Cluster, ref: JobRef) -> tuple[JobReport | None, Verdict] | None:
    """Return report and verdict of a run that the ResourceManager has forgotten, by its record."""
    with suppress(SubmitTFJobError, KeyError, TypeError, ValueError):
        record = read(cluster, ref.run)
        if record and record["application_id"] == ref.application_id:
            end = record["end"] or _end_of(JobReport.parse(json.dumps(record["report"]).encode()))
            state, reason = JobState(end["state"]), str(end["reason"])
            verdict = Verdict(state, reason, hint=str(end["hint"]), confirmed=end["confirmed"])
            return JobReport.parse(json.dumps(end.get("report")).encode()), verdict
    return None


def _end_of(report: JobReport | None) -> dict[str, Any]:
    """Return the end of a run from its deciding task's last report, which no command has completed
    yet.

    Raises:
        KeyError: The report has no end.
    """
    ends = {"succeeded": JobState.SUCCEEDED, "failed": JobState.FAILED}
    state = ends[report.state if report else ""]
    reason = "by the deciding task's last report; YARN does not know the run any more"
    written = report and report.record(_REPORT_MAX)
    return {"state": state, "reason": reason, "hint": "", "confirmed": False, "report": written}


def recorded_jobs(cluster: Cluster) -> list[str]:
    """Return the names of the jobs that have records, as the names of their runs show them.

    Raises:
        SubmitTFJobError: They cannot be read.
    """
    storage = _open_storage(cluster)
    return [item.name for item in _list_entries(storage, storage.path(_records_directory(cluster)))]


def recorded_runs(cluster: Cluster, job: str | None, limit: int) -> list[dict[str, Any]]:
    """Return the records of a job's runs, or of all jobs, as they are stored, the newest first.

    Args:
        job: A job, or one run by its own name; None for all jobs.
        limit: The largest number of records.

    Raises:
        SettingsError: There is no staging directory, and so no history.
        SubmitTFJobError: They cannot be read.
    """
    found = _record_files(cluster, job and job_of(job))
    if job and is_run(job):
        found = [item for item in found if item.name == f"{job}.json"]
    return _newest_records(cluster, found, limit, lambda name, run: not job or job in (name, run))


def newest_runs(cluster: Cluster, pattern: str, limit: int) -> list[dict[str, Any]]:
    """Return the record of the newest run of each job whose name matches, the newest first.

    Args:
        pattern: A pattern of jobs' names with `*`, `?` and `[a-c]`.
        limit: The largest number of records.

    Raises:
        SettingsError: There is no staging directory, and so no history.
        SubmitTFJobError: They cannot be read.
    """
    newest: dict[str, dict[str, Any]] = {}
    for head in recorded_jobs(cluster):
        is_short = may_be_short(head)  # and may stand for several jobs
        if is_short or fnmatchcase(head, pattern):
            storage = _open_storage(cluster)
            path = storage.path(f"{_records_directory(cluster)}/{head}")
            found = list(_list_entries(storage, path))
            most = len(found) if is_short else 1
            for record in _newest_records(
                cluster, found, most, lambda name, _run: fnmatchcase(name, pattern)
            ):
                newest.setdefault(record["name"], record)
    return sorted(newest.values(), key=lambda one: -int(one["submission"]["at"]))[:limit]


def _newest_records(
    cluster: Cluster, found: list[Stat], limit: int, is_meant: Callable[[str, str], bool]
) -> list[dict[str, Any]]:
    """Return the records of files whose job and run are meant, the newest by submission first."""
    storage, chosen = _open_storage(cluster), list[dict[str, Any]]()
    for item in sorted(found, key=lambda item: item.modified_ms, reverse=True):
        # A file changes when the run ends: no run was submitted later than its file was written.
        written_s = item.modified_ms / 1000 + _CLOCKS_DIFFER_S
        if len(chosen) >= limit and chosen[limit - 1]["submission"]["at"] >= written_s:
            break
        record = _parse_record(storage.read(item.path))
        if record is None or not is_meant(record["name"], record["run"]):
            continue
        # a staging directory may be that of several users
        if not cluster.own_jobs_only or record.get("user") == cluster.settings.user:
            chosen.append(record)
            chosen.sort(key=lambda record: -int(record["submission"]["at"]))
    return chosen[:limit]


def successes(
    cluster: Cluster, job: str, before_s: int, *, most: int, most_read: int
) -> Iterator[dict[str, Any]]:
    """Yield the records of a job's runs that succeeded, the last changed first.

    Args:
        cluster: The cluster.
        job: The job.
        before_s: Only runs that were submitted before, in seconds since 1970.
        most: The largest number of them.
        most_read: The largest number of records to read for it.

    Raises:
        SubmitTFJobError: They cannot be read.
    """
    storage, found = _open_storage(cluster), _record_files(cluster, job)
    found.sort(key=lambda item: item.modified_ms, reverse=True)
    for item in found[:most_read]:
        record = _parse_record(storage.read(item.path))
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
        SubmitTFJobError: They cannot be read.
    """
    if staging_root(cluster.settings) is None:
        return []
    return [item.name.removesuffix(".json") for item in _record_files(cluster, job)]


def _record_files(cluster: Cluster, job: str | None) -> list[Stat]:
    storage = _open_storage(cluster)
    heads = dict.fromkeys([job, short_head(job)]) if job else recorded_jobs(cluster)
    return [
        item
        for head in heads
        for item in _list_entries(storage, storage.path(f"{_records_directory(cluster)}/{head}"))
    ]


@contextmanager
def _errors_logged(run: str) -> Iterator[None]:
    """Log an error of the block instead of raising it: a record must not cost a submission, or the
    verdict of a run.
    """
    try:
        yield
    except (SubmitTFJobError, OSError) as error:
        _LOG.info("the record of %s: %s", run, error)
    except Exception:  # noqa: BLE001 - the reason is the docstring
        _LOG.warning("a defect in the record of %s", run, exc_info=True)


def _open_storage(cluster: Cluster) -> Storage:
    """Open the staging directory's storage.

    Raises:
        SettingsError: No staging directory is configured.
    """
    root = staging_root(cluster.settings)
    if root is None:
        raise SettingsError(
            "no staging directory is known, and so no history is kept",
            hint="set hadoop_conf, or staging: hdfs://… in the settings",
        )
    return storage_of(cluster.settings, root)


def _records_directory(cluster: Cluster) -> str:
    return f"{staging_root(cluster.settings)}/records"


def _list_entries(storage: Storage, path: str) -> Iterator[Stat]:
    """Yield the directories of jobs, or the records of one."""
    from submit_tf_job.storage import NoSuchPath

    with suppress(NoSuchPath):
        beside = (_REPORT, _USAGE)
        yield from (item for item in storage.list_dir(path) if not item.name.endswith(beside))


def _write_record(storage: Storage, directory: str, record: Mapping[str, Any]) -> None:
    text = json.dumps(record, sort_keys=True, ensure_ascii=False, indent=1)
    # half of a surrogate pair, which UTF-8 has not, is escaped; and its backslash, for JSON
    text = re.sub("[\ud800-\udfff]", lambda half: f"\\\\u{ord(half.group()):04x}", text)
    storage.write(storage.path(f"{directory}/{record['run']}.json"), text.encode(), mode=0o600)


def _parse_record(content: bytes) -> dict[str, Any] | None:
    """Parse a record; None if a file is not one. The containers of a job may have written it."""
    with suppress(ValueError, RecursionError):
        found = json.loads(content)
        if not isinstance(found, dict) or found.get("kind") != "RunRecord":
            return None
        found.pop(LIFETIME, None)  # what is left of it is YARN's to say
        named = all(isinstance(found.get(key), str) for key in ("name", "run", "application_id"))
        began, end = found.get("submission"), found.get("end")
        if named and isinstance(began, dict) and isinstance(end, (dict, type(None))):
            known = isinstance(began.get("key"), str) and type(began.get("at")) is int
            return found if known else None
    return None
