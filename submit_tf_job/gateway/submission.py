"""POST /v1/jobs: a body becomes a submission, once for each idempotency key, and the cluster itself is the memory of that.

The submission's id is made of the caller, the key and the body, and the service carries it. So whichever gateway is asked the same once
more finds the job, also after a crash; and the same key with another body is seen on the service that has the job's name. Only a body that
names another *job* leaves no trace there: of those each gateway remembers the last ones that it served.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submit_tf_job import api
from submit_tf_job.api.submitting import stored_submission
from submit_tf_job.errors import NameTaken, SubmitTFJobError, UsageError, error_class
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.plan import Plan
from submit_tf_job.report.change import submission_object

__all__ = ["Keys", "Posted", "check_key", "submission_id", "submit"]

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
    """The keys that were used last, and what for."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._used: OrderedDict[str, str] = OrderedDict()

    def check(self, mine: str) -> None:
        """Refuse a key that was used for something else.

        Raises:
            RequestRefused: It was.
        """
        with self._lock:
            _check_body(mine, self._used.get(_key_of(mine), ""))

    def remember(self, mine: str) -> None:
        """Note what a key was used for."""
        with self._lock:
            self._used[_key_of(mine)] = mine
            self._used.move_to_end(_key_of(mine))
            while len(self._used) > self._most:
                self._used.popitem(last=False)


def submit(cluster: api.Cluster, keys: Keys, body: bytes, source: str, *, key: str | None = None, replace: bool = False) -> Posted:
    """Submit the job of a body; the same again finds the job that it made.

    Args:
        cluster: The cluster, as the caller.
        keys: What is remembered of keys.
        body: A job spec, YAML or JSON; it may name no file of this host.
        source: What to call it in messages; ends in .json for JSON.
        key: The caller's idempotency key; without one the job's own content is what tells submissions apart.
        replace: Delete a finished job of that name first; with a key, unless it is this very submission's.

    Raises:
        RequestRefused: The key was used for another body.
        SubmitTFJobError: As `api.load_job`, `api.make_plan` and `api.submit`.
    """
    settings = cluster.settings
    job = api.load_job(Path(source), settings, text=body, host_files=False)
    mine = submission_id(settings.user, key, body) if key is not None else None
    planned = api.make_plan(job, settings, submission=mine)
    if mine is None:
        done = api.submit(planned, cluster, replace=replace)
    else:
        keys.check(mine)
        try:
            done = _once(cluster, planned, replace)
        except SubmitTFJobError as error:
            if error_class(error).retryable:  # it may have been submitted
                keys.remember(mine)
            raise
        keys.remember(mine)
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
