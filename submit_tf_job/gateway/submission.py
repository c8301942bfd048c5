"""POST /v1/jobs: turn a body into a submission, once per idempotency key.

The submission's key is a hash of the caller and of the caller's key, and the run's name follows
from it. So any gateway that gets the same request finds the run, also after a crash; the service
has the hash of the job and its files, by which a different body under the same key is detected. The
gateway itself keeps nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submit_tf_job import operations
from submit_tf_job.errors import UsageError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.jsonview import submission_object
from submit_tf_job.operations.runs import full_name, is_of_content, known_runs
from submit_tf_job.plan import Plan
from submit_tf_job.settings import Settings
from submit_tf_job.yarn.run_names import Again, run_name

__all__ = [
    "Posted",
    "SentJob",
    "check_key",
    "plan",
    "submission_key",
    "submit",
]

_NUMBERS = 4  # numbers of a key whose runs are looked for: the first, and those after spoiled ones
_KEY = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True)
class Posted:
    """The result of a POST."""

    done: operations.Submission
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the response's object: that of `submit --detach -o json`, plus warnings."""
        return submission_object(self.done, self.warnings)


def check_key(key: str | None) -> str | None:
    """Return an idempotency key unchanged.

    Raises:
        UsageError: The key is invalid.
    """
    if key is not None and not _KEY.fullmatch(key):
        raise UsageError(
            "Idempotency-Key: 1 to 255 visible ASCII characters, without blanks",
            hint="a UUID, or the run's id",
        )
    return key


def submission_key(caller: str, key: str) -> str:
    """Return the key of a submission: a hash of the caller and of the caller's own key."""
    text = f"{caller}\n{key}"
    return f"k{hashlib.sha256(text.encode()).hexdigest()[:24]}"


@dataclass(frozen=True)
class SentJob:
    """The job of a request.

    Attributes:
        job: A job spec, YAML or JSON.
        source: Its name in messages; ends in .json for JSON.
        directory: The directory of the uploaded files; None without files.
        files: The names of those files, each with its SHA-256.
    """

    job: bytes
    source: str
    directory: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> bytes:
        """The bytes that identify this body; boundaries and the order of files are not part of
        them.
        """
        return (
            self.job
            + "".join(f"\0{name}\0{digest}" for name, digest in sorted(self.files.items())).encode()
        )


def plan(
    settings: Settings, sent: SentJob, *, key: str | None = None, dialect: str | None = None
) -> Plan:
    """Plan the job of a body.

    Args:
        settings: Those of the caller.
        sent: The job spec, which may use the uploaded files and no others of this host.
        key: The caller's idempotency key; without one the job's own content identifies the
            submission.
        dialect: The format of the body's job; None to recognise it.

    Raises:
        SubmitTFJobError: As `operations.load_job` and `make_plan`.
    """
    job = operations.load_job(
        Path(sent.source),
        settings,
        text=sent.job,
        host_files=False,
        uploads=sent.directory,
        dialect=dialect,
    )
    mine = None if key is None else submission_key(settings.user, key)
    return operations.make_plan(job, settings, key=mine, lifetime=True)


def submit(cluster: operations.Cluster, planned: Plan) -> Posted:
    """Submit a planned job; the same request again finds its run.

    Raises:
        RequestRefused: The key was used for another body.
        SubmitTFJobError: As `operations.submit`.
    """
    if planned.again is Again.NEVER:
        _check_key(cluster, planned)
    job = planned.job
    done = operations.submit(planned, cluster)
    if done.adopted and planned.again is Again.NEVER:
        _check_body(cluster, planned, done.ref.run)
    warnings = list(operations.warnings(job, cluster.settings))
    if job.retries and job.retries.memory:
        warnings.append(
            "retries.memory: the gateway does not submit a job again, it follows one that is; "
            "`submit_tf_job submit` of "
            "the same job spec, or the same call of the Python client, does"
        )
    return Posted(done, tuple(warnings))


def _check_key(cluster: operations.Cluster, planned: Plan) -> None:
    """Refuse a key that was used for a job of another name: a run's name is a hash of its key.

    Where it may show only the beginning of its job's name, its service has the whole one.
    """
    for name in known_runs(cluster):
        job = full_name(cluster, name)
        if job != planned.job.name and name.rpartition("-")[2] in (
            run_name(job, planned.site.user, planned.key, number).rpartition("-")[2]
            for number in range(_NUMBERS)
        ):
            raise _reused(f"job {job}")


def _check_body(cluster: operations.Cluster, planned: Plan, run: str) -> None:
    """Refuse a key that was used for another body of the same job.

    Where neither its ApplicationMaster nor HDFS tells what it was, the body counts as the same.
    """
    if not is_of_content(cluster, planned, run):
        raise _reused("a different body")


def _reused(what: str) -> RequestRefused:
    return RequestRefused(
        "key-reused",
        f"this Idempotency-Key was used before with {what}",
        hint="a key belongs to one submission; use another for this one",
    )
