"""Counters in Prometheus' text format.

See https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})
_PREFIX = "submit_tf_job_gateway"


class Metrics:
    """The gateway's counters; labels are bounded: routes instead of paths, no callers and jobs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._within: Counter[tuple[str, float]] = Counter()
        self._submissions: Counter[str] = Counter()
        self._webhooks: Counter[str] = Counter()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a completed request.

        A stream is counted at its end, without its duration.
        """
        with self._lock:
            self._requests[method if method in _METHODS else "other", route, status] += 1
            if route not in ("/v1/jobs/{name}/logs", "/v1/jobs/{name}/events"):
                self._seconds[route] += seconds
                for bound in (*_BUCKETS_S, float("inf")):
                    self._within[route, bound] += seconds <= bound

    def submission(self, outcome: str) -> None:
        """Count a submission: `new` or `adopted`, or the code of an error."""
        with self._lock:
            self._submissions[outcome] += 1

    def webhook(self, outcome: str) -> None:
        """Count an attempt: `delivered`, `failed`, `given-up`."""
        with self._lock:
            self._webhooks[outcome] += 1

    def text(self, gauges: Mapping[str, int]) -> str:
        """Return all counters and gauges as text.

        Args:
            gauges: Value by name.
        """
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines(gauges))

    def _lines(self, gauges: Mapping[str, int]) -> Iterator[str]:
        yield f"# TYPE {_PREFIX}_requests_total counter"
        for (method, route, status), count in sorted(self._requests.items()):
            yield (
                f'{_PREFIX}_requests_total{{method="{method}",route="{route}",status="{status}"}} '
                f"{count}"
            )
        yield f"# TYPE {_PREFIX}_request_seconds histogram"
        for route in sorted(self._seconds):
            for bound in (*_BUCKETS_S, float("inf")):
                word = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield (
                    f'{_PREFIX}_request_seconds_bucket{{route="{route}",le="{word}"}} '
                    f"{self._within[route, bound]}"
                )
            yield f'{_PREFIX}_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield (
                f'{_PREFIX}_request_seconds_count{{route="{route}"}} '
                f"{self._within[route, float('inf')]}"
            )
        yield f"# TYPE {_PREFIX}_submissions_total counter"
        for outcome, count in sorted(self._submissions.items()):
            yield f'{_PREFIX}_submissions_total{{outcome="{outcome}"}} {count}'
        yield f"# TYPE {_PREFIX}_webhooks_total counter"
        for outcome, count in sorted(self._webhooks.items()):
            yield f'{_PREFIX}_webhooks_total{{outcome="{outcome}"}} {count}'
        for name, value in sorted(gauges.items()):
            yield f"# TYPE {_PREFIX}_{name} gauge"
            yield f"{_PREFIX}_{name} {value}"
