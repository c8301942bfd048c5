"""POST /v1/jobs: turn a body into a submission, once per idempotency key.

The submission's id is a hash of caller, key and body, and the service contains it. So any gateway
that gets the same request finds the job, also after a crash, and a different body under the same
key is detected on the service with the job's name. The gateway itself keeps nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submit_tf_job import operations
from submit_tf_job.errors import NameTaken, SubmitTFJobError, UsageError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.operations.submit import stored_submission
from submit_tf_job.plan import Plan
from submit_tf_job.report.change_text import submission_object
from submit_tf_job.settings import Settings

__all__ = [
    "Posted",
    "SentJob",
    "check_key",
    "plan",
    "submission_id",
    "submit",
]

_KEY = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True)
class Posted:
    """The result of a POST."""

    done: operations.Submission
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the response's object: that of `submit --detach -o json`, plus warnings."""
        return {**submission_object(self.done), "warnings": [*self.warnings, *self.done.warnings]}


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


def submission_id(caller: str, key: str, body: bytes) -> str:
    """Return the id of a submission.

    The part before the hyphen is a hash of caller and key, the part after it one of the body.
    """
    of_key = hashlib.sha256(f"{caller}\n{key}".encode()).hexdigest()[:24]
    return f"k{of_key}-{hashlib.sha256(body).hexdigest()[:24]}"


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
) -> tuple[Plan, str | None]:
    """Plan the job of a body.

    Args:
        settings: Those of the caller.
        sent: The job spec, which may use the uploaded files and no others of this host.
        key: The caller's idempotency key; without one the job's own content identifies the
            submission.
        dialect: The format of the body's job; None to recognise it.

    Returns:
        The plan, and the id that a key gives to the submission.

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
    identity = sent.identity + (dialect or "").encode()
    mine = submission_id(settings.user, key, identity) if key is not None else None
    return operations.make_plan(job, settings, submission=mine), mine


def submit(
    cluster: operations.Cluster,
    planned: Plan,
    mine: str | None = None,
    *,
    replace: bool = False,
) -> Posted:
    """Submit a planned job; the same request again finds its job.

    Args:
        cluster: The cluster, with the caller's identity.
        planned: The job.
        mine: The id that the caller's key gives to the submission; None without a key.
        replace: Delete a finished job of the same name first; with a key, unless it is this
            submission's.

    Raises:
        RequestRefused: The key was used for another body.
        SubmitTFJobError: As `operations.submit`.
    """
    settings, job = cluster.settings, planned.job
    planned = operations.detached(planned, settings)
    if mine is None:
        done = operations.submit(planned, cluster, replace=replace)
    else:
        done = _once(cluster, planned, replace)
    warnings = list(operations.warnings(job, settings))
    if job.retries and job.retries.memory:
        warnings.append(
            "retries.memory: the gateway does not submit a job again, it follows one that is; "
            "`submit_tf_job submit` of "
            "the same job spec, or the same call of the Python client, does"
        )
    return Posted(done, tuple(warnings))


def _once(cluster: operations.Cluster, planned: Plan, replace: bool) -> operations.Submission:
    """Submit under a key: find this submission's own job, and never replace it."""
    if replace and cluster.settings.hadoop_conf is None:
        raise UsageError(
            "replace does not work with an Idempotency-Key here: the gateway has no HDFS "
            "configuration, and cannot determine the owner of a finished job",
            hint="delete the job first, or leave the key out",
        )
    try:
        return operations.submit(planned, cluster)
    except NameTaken as error:
        stored = None
        # if it cannot be read, it does not count as the same key's
        with suppress(SubmitTFJobError):
            stored = stored_submission(cluster.settings, planned.job.name, planned.submission)
        _check_body(planned.submission, str(error.details.get("submission_id", "")) or stored or "")
        if not replace:
            raise
    return operations.submit(planned, cluster, replace=True)


def _key_of(submission: str) -> str:
    return submission.partition("-")[0]


def _check_body(mine: str, other: str) -> None:
    if other != mine and _key_of(other) == _key_of(mine):
        raise RequestRefused(
            "key-reused",
            "this Idempotency-Key was used before, with another body",
            hint="use a new key for another submission",
        )
