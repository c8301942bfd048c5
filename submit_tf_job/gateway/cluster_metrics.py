"""Gauges of the cluster's jobs for Prometheus: jobs by state and queue, GPUs that jobs ask for, and
the oldest waiting job; for live jobs also step, completed part, main metric and use, for as many
jobs as a setting allows.

/metrics needs no token, so it contains names of jobs only if the gateway's operator has set how
many (`gateway.job_series`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.sdk.client import JobState

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import Client, ListedJob, Status
    from submit_tf_job.usage_report import UsageReport

_LIVE = (JobState.PENDING, JobState.RUNNING)
_AGAIN_S = 15.0  # Prometheus scrapes as often
_ANSWER_S = 3.0
_OLD_S = 60.0
_GPU_QUERIES = 50  # jobs whose GPUs are asked for in one query of the cluster: each takes a request
_PREFIX = "submit_tf_job"
_OF_JOB = ("name", "run", "user", "queue")  # `job` is a label of Prometheus itself


@dataclass(frozen=True)
class LiveJob:
    """The values that one live job reports.

    Attributes:
        job: The job.
        values: For each value the name of its gauge (`_JOB_GAUGES`), the metric or role that it
            belongs to ("" if neither), and the value.
    """

    job: ListedJob
    values: tuple[tuple[str, str, float], ...]  # gauge, metric or role or "", value


@dataclass(frozen=True)
class ClusterSample:
    """What one query of the cluster has returned.

    Attributes:
        live: The jobs of all users that wait or run; None if no ResourceManager answered.
        gpus: GPUs by application id, as far as they are known.
        reported: The values that live jobs report.
    """

    live: tuple[ListedJob, ...] | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    reported: tuple[LiveJob, ...] = ()


class ClusterGauges(Collector):
    """The gauges, made from the last query of the cluster. A scrape queries the cluster again if
    the last query is more than 15 s ago.

    A cluster that does not answer does not delay the gateway's other metrics: a scrape waits for
    three seconds, and values older than a minute are left out.

    Args:
        own: Returns the gateway's own client, which lists jobs.
        client_of: Returns the client of a user; None for a user who is not a caller.
        most_series: The largest number of series that have names of jobs.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        own: Callable[[], Client],
        client_of: Callable[[str], Client | None],
        most_series: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own, self._client_of, self._most = own, client_of, most_series
        self._clock, self._lock = clock, threading.Lock()
        self._last, self._sampled_at = ClusterSample(), float("-inf")
        self._sampling: threading.Thread | None = None

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing, so that the registry does not query the cluster when it starts."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; scrapes at the same time share one query of the cluster."""
        with self._lock:
            is_due = self._clock() - self._sampled_at >= _AGAIN_S
            if is_due and (self._sampling is None or not self._sampling.is_alive()):
                self._sampling = threading.Thread(
                    target=self._sample_again, daemon=True, name="gateway metrics"
                )
                self._sampling.start()
            sampling = self._sampling
        if sampling is not None:
            sampling.join(_ANSWER_S)
        is_old = self._clock() - self._sampled_at >= _OLD_S
        sample = ClusterSample() if is_old else self._last
        yield from _gauges_of_cluster(sample)
        yield from self._gauges_of_jobs(sample.reported)

    def _sample_again(self) -> None:
        self._last, self._sampled_at = self._sample_of_cluster(), self._clock()

    def _sample_of_cluster(self) -> ClusterSample:
        try:
            live = tuple(self._own().jobs(user=None, states=_LIVE))
        except SubmitTFJobError:
            return ClusterSample()
        return ClusterSample(live, self._gpus_by_application(live), tuple(self._told_by(live)))

    def _gpus_by_application(self, live: Iterable[ListedJob]) -> dict[str, int]:
        """Return the GPUs of jobs by application id. Running jobs come first, because the number of
        queries is limited, and the GPUs of a waiting job may stay unknown.
        """
        known: dict[str, int] = {}
        queries = 0
        for job in sorted(live, key=lambda job: job.state is not JobState.RUNNING):
            found = self._last.gpus.get(job.application_id)
            client = (
                self._client_of_owner(job) if found is None and queries < _GPU_QUERIES else None
            )
            if client is not None:
                queries += 1
                with suppress(SubmitTFJobError):
                    found = client.gpus(job.run)
            if found is not None:
                known[job.application_id] = found
        return known

    def _client_of_owner(self, job: ListedJob) -> Client | None:
        """Return the client of the user who owns a job; None if this user is not a caller, or if
        the gateway cannot act for the user. To the client of another user, the services API would
        report that the job does not exist.
        """
        with suppress(SubmitTFJobError):
            return self._client_of(job.user) if job.user else None
        return None

    def _told_by(self, live: Iterable[ListedJob]) -> Iterator[LiveJob]:
        """Yield the values of the newest running jobs of callers, until the largest number of
        series is reached.
        """
        left = self._most
        for job in live:
            if left <= 0:
                return
            values = self._values_of(job)[:left]
            left -= len(values)
            yield LiveJob(job, values)

    def _values_of(self, job: ListedJob) -> tuple[tuple[str, str, float], ...]:
        client = self._client_of_owner(job) if job.state is JobState.RUNNING else None
        if client is None:
            return ()
        with suppress(SubmitTFJobError):
            handle = client.attach(job.application_id)
            used = handle.usage().used
            return (*_values_of_status(handle.status()), *(_values_of_use(used) if used else ()))
        return ()

    def _gauges_of_jobs(self, reported: Iterable[LiveJob]) -> Iterator[GaugeMetricFamily]:
        made: dict[str, GaugeMetricFamily] = {}
        for one in reported:
            for name, label, value in one.values:
                text, more = _JOB_GAUGES[name]
                if name not in made:
                    made[name] = GaugeMetricFamily(
                        f"{_PREFIX}_job_{name}", text, labels=_OF_JOB + more
                    )
                job = (one.job.name, one.job.run, one.job.user or "", one.job.queue or "")
                made[name].add_metric([*job, *([label] if more else ())], value)
        yield from made.values()


# name → its help, and its label beside those of every job
_JOB_GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "step": ("The step or epoch that the training has reached.", ()),
    "part": ("The part of the training that is done, from 0 to 1.", ()),
    "metric": ("The last value of the first metric that the program told.", ("metric",)),
    "cpu_cores": ("Cores that a task of a role uses, the mean of its tasks.", ("role",)),
    "memory_bytes": ("Memory of the task of a role that uses most.", ("role",)),
    "gpu_percent": ("How busy the GPUs of a task of a role are, the mean of its tasks.", ("role",)),
}


def _values_of_status(status: Status) -> Iterator[tuple[str, str, float]]:
    progress = status.job.report and status.job.report.progress
    if not progress:
        return
    if progress.step is not None:
        yield "step", "", progress.step
    if progress.part is not None:
        yield "part", "", progress.part
    for metric, value in list(progress.metrics.items())[:1]:
        if value is not None:
            yield "metric", metric, value


def _values_of_use(used: UsageReport) -> Iterator[tuple[str, str, float]]:
    for role, use in used.roles.items():
        if use.cpu_cores and use.cpu_cores.now:
            yield "cpu_cores", role, use.cpu_cores.now.mean
        if use.memory_bytes and use.memory_bytes.now:
            yield "memory_bytes", role, use.memory_bytes.now.most
        if use.gpu_percent and use.gpu_percent.now:
            yield "gpu_percent", role, use.gpu_percent.now.mean


def _gauges_of_cluster(sample: ClusterSample) -> Iterator[GaugeMetricFamily]:
    def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)

    up = gauge("cluster_up", "Whether a ResourceManager listed the jobs.")
    up.add_metric((), float(sample.live is not None))
    yield up
    if sample.live is None:  # unknown is no zero
        return
    jobs = gauge("jobs", "Jobs that wait or run.", "state", "queue")
    gpus = gauge("gpus_asked", "GPUs that waiting and running jobs ask for.", "queue")
    unknown = gauge("gpus_unknown_jobs", "Live jobs whose GPUs are not known.", "queue")
    oldest = gauge("oldest_waiting_seconds", "How long the oldest waiting job has waited.", "queue")
    counts = Counter((job.queue or "", job.state.value) for job in sample.live)
    for queue in sorted({job.queue or "" for job in sample.live}):
        own = [job for job in sample.live if (job.queue or "") == queue]
        for state in _LIVE:
            jobs.add_metric([state.value, queue], counts[queue, state.value])
        gpus.add_metric([queue], sum(sample.gpus.get(job.application_id, 0) for job in own))
        unknown.add_metric([queue], sum(job.application_id not in sample.gpus for job in own))
        waiting = [job.elapsed_s for job in own if job.state is JobState.PENDING]
        known = [elapsed_s for elapsed_s in waiting if elapsed_s is not None]
        if known or not waiting:
            oldest.add_metric([queue], max(known, default=0))
    yield from (jobs, gpus, unknown, oldest)
