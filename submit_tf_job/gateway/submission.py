"""POST /v1/jobs: turn a body into a submission, once per idempotency key.

The submission's id is a hash of caller, key and body, and the service contains it. So any gateway
that gets the same request finds the job, also after a crash, and a different body under the same
key is detected on the service with the job's name. Only a body that names another *job* leaves no
trace there: these are detected by the gateway's database or, without one, by the last keys that it
served.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submit_tf_job import operations
from submit_tf_job.errors import InternalError, NameTaken, SubmitTFJobError, UsageError, error_class
from submit_tf_job.gateway.database import DatabaseFailure
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.state import State, Webhook
from submit_tf_job.operations.submit import stored_submission
from submit_tf_job.plan import Plan
from submit_tf_job.report.change_text import submission_object
from submit_tf_job.settings import Settings

__all__ = [
    "Posted",
    "RequestedWebhook",
    "SentJob",
    "UsedKeys",
    "check_key",
    "plan",
    "submission_id",
    "submit",
]

_KEY = re.compile(r"[!-~]{1,255}")
_REMEMBERED = 10_000


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


class UsedKeys:
    """The last used keys and their submissions.

    They only detect a mistake of a scheduler. While the database is unavailable, this process's
    memory is used.

    Args:
        store: The gateway's database, None without one.
        log: Called with the database's errors.
        most: How many keys this process remembers.
    """

    def __init__(
        self,
        store: State | None = None,
        log: Callable[[dict[str, Any]], None] = lambda _entry: None,
        *,
        most: int = _REMEMBERED,
    ) -> None:
        self._store, self._log, self._most = store, log, most
        self._lock = threading.Lock()
        self._used: OrderedDict[str, str] = OrderedDict()

    def check(self, mine: str) -> None:
        """Refuse a key that was used for another body.

        Raises:
            RequestRefused: The key was used for another body.
        """
        with self._lock:
            known = self._used.get(_key_of(mine), "")
        if not known and self._store is not None:
            try:
                known = self._store.used(_key_of(mine))
            except DatabaseFailure as error:
                self._log({"event": "state", "why": str(error)})
        _check_body(mine, known)

    def remember(self, mine: str) -> None:
        """Store the submission that a key was used for."""
        with self._lock:
            self._used[_key_of(mine)] = mine
            self._used.move_to_end(_key_of(mine))
            while len(self._used) > self._most:
                self._used.popitem(last=False)
        if self._store is not None:
            try:
                self._store.remember(_key_of(mine), mine)
            except DatabaseFailure as error:
                self._log({"event": "state", "why": str(error)})


@dataclass(frozen=True)
class RequestedWebhook:
    """The webhook of a request."""

    store: State
    url: str

    def announce(self, cluster: operations.Cluster, planned: Plan) -> Webhook:
        """Store the webhook before the job is submitted.

        Raises:
            RequestRefused: The webhook cannot be stored; the job is not submitted.
        """
        try:
            return self.store.announce(
                cluster.settings.user, self.url, planned.job.name, planned.submission
            )
        except DatabaseFailure:
            raise RequestRefused(
                "state-unavailable",
                "the gateway cannot keep the webhook now; nothing was submitted",
                hint="try again later",
            ) from None

    def settle(self, made: Webhook, done: operations.Submission | None) -> None:
        """Store the result of the submission.

        If that fails, the leader determines it later (webhook_delivery.py).
        """
        with suppress(DatabaseFailure):
            if done is None:
                self.store.forget(made)
            elif done.ref.application_id is not None:
                self.store.bind(made, done.ref.application_id)


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
    keys: UsedKeys,
    planned: Plan,
    mine: str | None = None,
    *,
    replace: bool = False,
    webhook: RequestedWebhook | None = None,
) -> Posted:
    """Submit a planned job; the same request again finds its job.

    Args:
        cluster: The cluster, with the caller's identity.
        keys: The used keys.
        planned: The job.
        mine: The id that the caller's key gives to the submission; None without a key.
        replace: Delete a finished job of the same name first; with a key, unless it is this
            submission's.
        webhook: The webhook to send when the job is over.

    Raises:
        RequestRefused: The key was used for another body.
        SubmitTFJobError: As `operations.submit`.
    """
    settings, job = cluster.settings, planned.job
    planned = operations.detached(planned, settings)
    if mine is not None:
        keys.check(mine)
    made = webhook.announce(cluster, planned) if webhook else None
    try:
        if mine is None:
            done = operations.submit(planned, cluster, replace=replace)
        else:
            done = _once(cluster, planned, replace)
    except SubmitTFJobError as error:
        # the job may have been submitted
        perhaps = error_class(error).retryable or isinstance(error, InternalError)
        if mine is not None and perhaps:
            keys.remember(mine)
        if webhook is not None and made is not None and not perhaps:
            webhook.settle(made, None)
        raise
    if mine is not None:
        keys.remember(mine)
    if webhook is not None and made is not None:
        webhook.settle(made, done)
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
