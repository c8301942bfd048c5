"""Limits on concurrent work, per caller and in total."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from submit_tf_job.gateway.problems import RequestRefused

__all__ = ["MAX_BODY", "Limits", "Slots"]

MAX_BODY = 1024 * 1024  # the limit of a job spec file


@dataclass(frozen=True)
class Limits:
    """Bounds of a gateway.

    Attributes:
        requests: Requests of one caller that use the cluster at the same time.
        streams: Logs that one caller follows at the same time; each has a thread.
        listeners: Streams of events that one caller follows at the same time; each needs only a
            queue.
        all_requests: Requests of all callers.
        all_streams: Logs of all callers.
        all_listeners: Streams of events of all callers.
        watches: Jobs that are watched for events; any number of listeners shares one.
        body_s: Seconds in which a body must arrive.
        upload_bytes: Size of all files of one request.
        upload_files: Number of files of one request.
        upload_s: Seconds in which a body with files must arrive.
        uploads: Requests with files of one caller at the same time.
        all_uploads: Requests with files of all callers; with `upload_bytes` this bounds the disk.
    """

    requests: int = 16
    streams: int = 200
    listeners: int = 1000
    all_requests: int = 64
    all_streams: int = 1000
    all_listeners: int = 5000
    watches: int = 200
    body_s: float = 30.0
    upload_bytes: int = 256 * 1024**2
    upload_files: int = 1000
    upload_s: float = 600.0
    uploads: int = 2
    all_uploads: int = 8


class Slots:
    """Counts concurrent work, per caller and in total.

    Args:
        what: What is counted, for messages: "requests".
        each: Limit per caller.
        everybody: Limit of all callers.
    """

    def __init__(self, what: str, each: int, total: int) -> None:
        self._what, self._each, self._everybody = what, each, total
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """The number of slots in use."""
        return self._taken.total()

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Take a slot while the block runs.

        Raises:
            RequestRefused: No slot is free.
        """
        with self._lock:
            if self._taken[caller] >= self._each or self._taken.total() >= self._everybody:
                who = "all callers together have"
                if self._taken[caller] >= self._each:
                    who = f"{caller} has"
                raise RequestRefused(
                    "too-many",
                    f"{who} too many {self._what} at once",
                    hint="end some, or try again later",
                )
            self._taken[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[caller] -= 1
                if not self._taken[caller]:
                    del self._taken[caller]
