"""POST /v1/jobs: a body becomes a submission, once for each idempotency key, and the cluster itself is the memory of that.

The submission's id is made of the caller, the key and the body, and the service carries it. So whichever gateway is asked the same once
more finds the job, also after a crash; and the same key with another body is seen on the service that has the job's name. Only a body that
names another *job* leaves no trace there: for those there is the gateway's database and, without one, the last keys that it served.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submit_tf_job import api
from submit_tf_job.api.submitting import stored_submission
from submit_tf_job.errors import InternalError, NameTaken, SubmitTFJobError, UsageError, error_class
from submit_tf_job.gateway.database import DatabaseTrouble
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.store import Store, Webhook
from submit_tf_job.plan import Plan
from submit_tf_job.report.change import submission_object

__all__ = ["Keys", "Posted", "Wanted", "check_key", "submission_id", "submit"]

_KEY = re.compile(r"[!-~]{1,255}")
_REMEMBERED = 10_000


@dataclass(frozen=True)
class Posted:
    """What became of a POST."""

    done: api.Submission
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the object of the answer: that of `submit --detach -o json`, and the warnings."""
        return {**submission_object(self.done), "warnings": list(self.warnings)}


def check_key(key: str | None) -> str | None:
    """Return an idempotency key as it is.

    Raises:
        UsageError: It is none.
    """
    if key is not None and not _KEY.fullmatch(key):
        raise UsageError("Idempotency-Key: 1 to 255 visible ASCII characters, without blanks", hint="a UUID, or the run's id")
    return key


def submission_id(caller: str, key: str, body: bytes) -> str:
    """Make the id of a submission: what is before the hyphen is the caller's key, what is behind it the body."""
    of_key = hashlib.sha256(f"{caller}\n{key}".encode()).hexdigest()[:24]
    return f"k{of_key}-{hashlib.sha256(body).hexdigest()[:24]}"


class Keys:
    """The keys that were used last, and what for.

    They catch a scheduler's mistake, no more: while the database cannot be used, this process's own memory has to do.

    Args:
        store: The gateway's database, None without one.
        log: Told of the database's troubles.
        most: How many this process remembers.
    """

    def __init__(
        self, store: Store | None = None, log: Callable[[dict[str, Any]], None] = lambda _entry: None, *, most: int = _REMEMBERED
    ) -> None:
        self._store, self._log, self._most = store, log, most
        self._lock = threading.Lock()
        self._used: OrderedDict[str, str] = OrderedDict()

    def check(self, mine: str) -> None:
        """Refuse a key that was used for something else.

        Raises:
            RequestRefused: It was.
        """
        with self._lock:
            known = self._used.get(_key_of(mine), "")
        if not known and self._store is not None:
            try:
                known = self._store.used(_key_of(mine))
            except DatabaseTrouble as error:
                self._log({"event": "state", "why": str(error)})
        _check_body(mine, known)

    def remember(self, mine: str) -> None:
        """Note what a key was used for."""
        with self._lock:
            self._used[_key_of(mine)] = mine
            self._used.move_to_end(_key_of(mine))
            while len(self._used) > self._most:
                self._used.popitem(last=False)
        if self._store is not None:
            try:
                self._store.remember(_key_of(mine), mine)
            except DatabaseTrouble as error:
                self._log({"event": "state", "why": str(error)})


@dataclass(frozen=True)
class Wanted:
    """A webhook that a request asks for."""

    store: Store
    url: str

    def announce(self, cluster: api.Cluster, planned: Plan) -> Webhook:
        """Keep it, before the job is submitted.

        Raises:
            RequestRefused: It cannot be kept; the job is not submitted then.
        """
        try:
            return self.store.announce(cluster.settings.user, self.url, planned.job.name, planned.submission)
        except DatabaseTrouble:
            raise RequestRefused(
                "state-unavailable", "the gateway cannot keep the webhook now; nothing was submitted", hint="try again later"
            ) from None

    def settle(self, made: Webhook, done: api.Submission | None) -> None:
        """Note what became of its submission; what cannot be noted now is found out later (delivery.py)."""
        with suppress(DatabaseTrouble):
            if done is None:
                self.store.forget(made)
            elif done.ref.application_id is not None:
                self.store.bind(made, done.ref.application_id)


def submit(
    cluster: api.Cluster,
    keys: Keys,
    body: bytes,
    source: str,
    *,
    key: str | None = None,
    replace: bool = False,
    webhook: Wanted | None = None,
) -> Posted:
    """Submit the job of a body; the same again finds the job that it made.

    Args:
        cluster: The cluster, as the caller.
        keys: What is remembered of keys.
        body: A job spec, YAML or JSON; it may name no file of this host.
        source: What to call it in messages; ends in .json for JSON.
        key: The caller's idempotency key; without one the job's own content is what tells submissions apart.
        replace: Delete a finished job of that name first; with a key, unless it is this very submission's.
        webhook: Whom to tell when the job is over.

    Raises:
        RequestRefused: The key was used for another body.
        SubmitTFJobError: As `api.load_job`, `api.make_plan` and `api.submit`.
    """
    settings = cluster.settings
    job = api.load_job(Path(source), settings, text=body, host_files=False)
    mine = submission_id(settings.user, key, body) if key is not None else None
    planned = api.make_plan(job, settings, submission=mine)
    if mine is not None:
        keys.check(mine)
    made = webhook.announce(cluster, planned) if webhook else None
    try:
        done = api.submit(planned, cluster, replace=replace) if mine is None else _once(cluster, planned, replace)
    except SubmitTFJobError as error:
        perhaps = error_class(error).retryable or isinstance(error, InternalError)  # it may have been submitted
        if mine is not None and perhaps:
            keys.remember(mine)
        if webhook is not None and made is not None and not perhaps:
            webhook.settle(made, None)
        raise
    if mine is not None:
        keys.remember(mine)
    if webhook is not None and made is not None:
        webhook.settle(made, done)
    return Posted(done, tuple(api.warnings(job, settings)))


def _once(cluster: api.Cluster, planned: Plan, replace: bool) -> api.Submission:
    """Submit under a key: what this very submission has made is found and never replaced."""
    if replace and cluster.settings["hadoop_conf"] is None:
        raise UsageError(
            "replace does not go with an Idempotency-Key here: the gateway knows no HDFS, and cannot tell whose a finished job is",
            hint="delete the job first, or leave the key out",
        )
    try:
        return api.submit(planned, cluster)
    except NameTaken as error:
        stored = None
        with suppress(SubmitTFJobError):  # it cannot be read: then it is not known to be the same key's
            stored = stored_submission(cluster.settings, planned.job.name, planned.submission)
        _check_body(planned.submission, str(error.details.get("submission_id", "")) or stored or "")
        if not replace:
            raise
    return api.submit(planned, cluster, replace=True)


def _key_of(submission: str) -> str:
    return submission.partition("-")[0]


def _check_body(mine: str, other: str) -> None:
    if other != mine and _key_of(other) == _key_of(mine):
        raise RequestRefused(
            "key-reused", "this Idempotency-Key was used before, with another body", hint="use a new key for another submission"
        )
