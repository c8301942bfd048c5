"""The gateway's metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})
_STREAMS = frozenset({"/v1/jobs/{name}/logs", "/v1/jobs/{name}/events"})
_PREFIX = "submit_tf_job_gateway"
_GAUGES = {
    "requests_in_progress": "Requests that are being answered, without streams.",
    "streams": "Open streams of logs and events.",
    "watched_jobs": "Jobs that the gateway follows.",
    "draining": "1 while the gateway ends.",
}

# Without it each counter has a second series, the time of its creation.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The gateway's counters; labels are bounded: routes instead of paths, no callers and jobs."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            f"{_PREFIX}_requests",
            "Completed requests.",
            ("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            f"{_PREFIX}_request_seconds",
            "Seconds from a request to the end of its response, without streams.",
            ("route",),
            registry=registry,
            buckets=_BUCKETS_S,
        )
        self._submissions = Counter(
            f"{_PREFIX}_submissions",
            "Submissions by outcome: new, adopted, or the code of an error.",
            ("outcome",),
            registry=registry,
        )
        self._gauges = {
            name: Gauge(f"{_PREFIX}_{name}", help_text, registry=registry)
            for name, help_text in _GAUGES.items()
        }

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a completed request.

        A stream is counted at its end, without its duration.
        """
        word = method if method in _METHODS else "other"
        self._requests.labels(word, route, str(status)).inc()
        if route not in _STREAMS:
            self._seconds.labels(route).observe(seconds)

    def submission(self, outcome: str) -> None:
        """Count a submission: `new` or `adopted`, or the code of an error."""
        self._submissions.labels(outcome).inc()

    def text(self, gauges: Mapping[str, int]) -> bytes:
        """Return all counters and gauges in Prometheus' text format.

        Args:
            gauges: Current value by name, without the prefix.
        """
        for name, value in gauges.items():
            self._gauges[name].set(value)
        return generate_latest(self._registry)
