"""What one caller, and all of them together, may have going on at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from submit_tf_job.gateway.problems import RequestRefused

__all__ = ["MAX_BODY", "Limits", "Slots"]

MAX_BODY = 1024 * 1024  # as a job spec file


@dataclass(frozen=True)
class Limits:
    """Bounds of a gateway.

    Attributes:
        requests: Requests of one caller that ask the cluster at the same time.
        streams: Logs that one caller follows at the same time; each has a thread.
        listeners: Streams of events that one caller follows at the same time; they cost next to nothing.
        all_requests: Requests of all callers.
        all_streams: Logs of all callers.
        all_listeners: Streams of events of all callers.
        watches: Jobs that are watched for events; any number of listeners shares one.
        body_s: Seconds in which a body must arrive.
    """

    requests: int = 16
    streams: int = 200
    listeners: int = 1000
    all_requests: int = 64
    all_streams: int = 1000
    all_listeners: int = 5000
    watches: int = 200
    body_s: float = 30.0


class Slots:
    """Counts what is going on, by caller and in all.

    Args:
        what: For the sentence: "requests".
        each: At most so many of one caller.
        everybody: At most so many of all.
    """

    def __init__(self, what: str, each: int, everybody: int) -> None:
        self._what, self._each, self._everybody = what, each, everybody
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """How many are going on."""
        return self._taken.total()

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Take a place while something goes on.

        Raises:
            RequestRefused: There is none.
        """
        with self._lock:
            if self._taken[caller] >= self._each or self._taken.total() >= self._everybody:
                whose = f"{caller} has" if self._taken[caller] >= self._each else "all callers together have"
                raise RequestRefused("too-many", f"{whose} too many {self._what} going on", hint="end some, or try again later")
            self._taken[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[caller] -= 1
                if not self._taken[caller]:
                    del self._taken[caller]
