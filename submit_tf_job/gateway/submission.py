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

from submit_tf_job.errors import UsageError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.jsonview import submission_object
from submit_tf_job.sdk.client import Client, JobHandle
from submit_tf_job.sdk.types import Plan

__all__ = [
    "SentJob",
    "check_key",
    "plan",
    "submission_key",
    "submit",
    "submitted_object",
]

_KEY = re.compile(r"[!-~]{1,255}")


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
    client: Client, sent: SentJob, *, key: str | None = None, dialect: str | None = None
) -> Plan:
    """Plan the job of a body.

    Args:
        client: That of the caller.
        sent: The job spec, which may use the uploaded files and no others of this host.
        key: The caller's idempotency key; without one the job's own content identifies the
            submission.
        dialect: The format of the body's job; None to recognise it.

    Raises:
        SubmitTFJobError: As `Client.load` and `Client.plan`.
    """
    job = client.load_sent(sent.job, sent.source, files=sent.directory, dialect=dialect)
    mine = None if key is None else submission_key(client.settings.user, key)
    return client.plan(job, submission_id=mine)


def submit(client: Client, planned: Plan) -> JobHandle:
    """Submit a planned job; the same request again finds its run.

    Raises:
        RequestRefused: The key was used for another body.
        SubmitTFJobError: As `Client.submit`.
    """
    if planned.given_key is not None and (other := client.other_job(planned)):
        raise _reused(f"job {other}")
    handle = client.submit(planned)
    if handle.is_other:
        raise _reused("a different body")
    return handle


def submitted_object(client: Client, planned: Plan, handle: JobHandle) -> dict[str, Any]:
    """Return the response's object: that of `submit --detach -o json`, plus warnings."""
    warnings = [*client.warnings(planned)]
    if planned.job.retries and planned.job.retries.memory:
        warnings.append(
            "retries.memory: the gateway does not submit a job again, it follows one that is; "
            "`submit_tf_job submit` of "
            "the same job spec, or the same call of the Python client, does"
        )
    assert handle.submission is not None
    return submission_object(handle.submission, warnings)


def _reused(what: str) -> RequestRefused:
    return RequestRefused(
        "key-reused",
        f"this Idempotency-Key was used before with {what}",
        hint="a key belongs to one submission; use another for this one",
    )
