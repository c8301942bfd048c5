"""Compare runs by their records: what differs in what they were given, and their results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from submit_tf_job.errors import NoSuchJob, SubmitTFJobError, UsageError
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.history import RecordedRun, recorded_run
from submit_tf_job.operations.read_status import read_status
from submit_tf_job.operations.run_differences import Difference, differences, differing_lines
from submit_tf_job.operations.runs import APPLICATION_ID, find
from submit_tf_job.operations.series import usage_of_status
from submit_tf_job.usage_report import Series, UsageReport

LAST_RUNS = 10  # of a job that is compared alone
_MOST_JOBS = 100  # of a pattern
_PATTERN = re.compile(r"[*?\[]")
_WORDS = re.compile(r"[a-z]+")
_LESS_IS_BETTER = re.compile(
    "loss|losses|errors?|err|mae|mse|msle|rmse|mape|entropy|crossentropy|perplexity|ppl|wer|cer"
    "|nll|divergence|distance|regret|latency|time"
)
_MORE_IS_BETTER = re.compile(
    "accuracy|acc|auc|precision|recall|f|map|iou|miou|dice|bleu|rouge|r|score|rewards?|returns?"
    "|throughput|similarity|second|sec"
)


@dataclass(frozen=True)
class ComparedMetric:
    """A metric of one run.

    Attributes:
        last: The last value of the metric.
        best: The best of all reported values; None if the metric's name does not tell whether a
            larger value is better, or if only the last value is known.
        least, most: The smallest and the largest finite value; None if only the last value is
            known.
    """

    last: float | None
    best: float | None = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class ComparedRun:
    """One of the compared runs.

    Attributes:
        ended: The run, by its record.
        values: The run's values, by the label of the difference (`Difference.label`): None if the
            run has no such value, "?" if the run's record does not show the value.
        lines: For a difference in a text of several lines, such as a program: this run's lines that
            are not in all runs; by the same labels as `values`.
        metrics: The run's metrics.
        peak_memory_bytes: The largest memory that a task of each role used; empty if that is not
            known.
    """

    ended: RecordedRun
    values: Mapping[str, str | None]
    lines: Mapping[str, tuple[str, ...]]
    metrics: Mapping[str, ComparedMetric]
    peak_memory_bytes: Mapping[str, int]


@dataclass(frozen=True)
class Comparison:
    """The comparison of several runs.

    Attributes:
        differences: The values that are not the same in all runs.
        runs: The runs, in order.
    """

    differences: tuple[Difference, ...]
    runs: tuple[ComparedRun, ...]

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics of all runs, in the order in which they were reported."""
        return tuple(dict.fromkeys(name for one in self.runs for name in one.metrics))


def compare_runs(cluster: Cluster, names: Sequence[str], *, sort: str | None = None) -> Comparison:
    """Return the comparison of several runs.

    Args:
        cluster: The cluster.
        names: Runs, jobs (each by its newest run), application ids, patterns of jobs' names (the
            newest run of each); one job alone means its last ten runs.
        sort: A metric: the run with its best value is first. If the metric's name does not tell
            which value is better, the run with the largest value is first.

    Raises:
        NoSuchJob: A name is unknown, or its run has no record.
        UsageError: There is no name; no run has the metric.
        SettingsError: There is no staging directory, and so no record.
        SubmitTFJobError: Records cannot be read.
    """
    if not names:
        raise UsageError("no run is named", hint="name runs, a job, or a pattern such as 'hpo-*'")
    records = {record["run"]: record for record in _chosen_records(cluster, names)}
    ended = [recorded_run(cluster, record) for record in records.values()]
    found = differences([one.record for one in ended])
    labels = [one.label for one in found]
    lines = [differing_lines(one, [run.record for run in ended]) for one in found]
    runs = []
    for at, run in enumerate(ended):
        usage = _usage_of_run(cluster, run)
        runs.append(
            ComparedRun(
                run,
                {label: one.values[at] for label, one in zip(labels, found, strict=True)},
                {label: own[at] for label, own in zip(labels, lines, strict=True) if own},
                dict(_metrics_of_run(run, usage)),
                dict(_peaks_of_roles(usage)),
            )
        )
    return Comparison(found, tuple(_sorted_runs(runs, sort) if sort else runs))


def _chosen_records(cluster: Cluster, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name in names:
        if _PATTERN.search(name):
            found = run_records.newest_runs(cluster, name, _MOST_JOBS)
            if not found:
                raise NoSuchJob(f"No run of a job like {name} has a record.")
            yield from found
            continue
        run = find(cluster, name).run if re.fullmatch(APPLICATION_ID, name) else name
        found = run_records.recorded_runs(cluster, run, LAST_RUNS if len(names) == 1 else 1)
        if not found:
            ref = find(cluster, name)
            raise NoSuchJob(
                f"The run {ref.run} has no record.",
                hint="submit_tf_job history lists the runs that have one",
            )
        yield from found


def _usage_of_run(cluster: Cluster, run: RecordedRun) -> UsageReport | None:
    with suppress(SubmitTFJobError):
        if run.state.is_final:
            return run_records.usage_of(cluster, run.run)
        ref = JobRef(run.name, run.application_id, run.run)
        return usage_of_status(cluster, read_status(cluster, ref))
    return None


def _metrics_of_run(
    run: RecordedRun, usage: UsageReport | None
) -> Iterator[tuple[str, ComparedMetric]]:
    curves = {series.name: series for series in usage.metrics} if usage else {}
    for name in dict.fromkeys([*curves, *run.metrics]):
        yield name, _compared_metric(name, run.metrics.get(name), curves.get(name))


def _compared_metric(name: str, last: float | None, curve: Series | None) -> ComparedMetric:
    if curve is None:
        return ComparedMetric(last)
    if curve.last is not None:
        last = curve.last.value
    least = curve.least.value if curve.least else None
    most = curve.most.value if curve.most else None
    best = {"least": least, "most": most}.get(better_end(name))
    return ComparedMetric(last, best, least, most)


def _peaks_of_roles(usage: UsageReport | None) -> Iterator[tuple[str, int]]:
    for role, use in usage.roles.items() if usage else ():
        if use.memory_bytes and use.memory_bytes.peak:
            yield role, int(use.memory_bytes.peak.most)


def better_end(metric: str) -> str:
    """Return which value of a metric is better, judged by the metric's name: "least", "most", or ""
    if the name does not tell. Examples of names: `val_loss`, `sparse_categorical_accuracy`,
    `examples_per_sec`.
    """
    for word in reversed(_WORDS.findall(metric.lower())):
        if _LESS_IS_BETTER.fullmatch(word):
            return "least"
        if _MORE_IS_BETTER.fullmatch(word):
            return "most"
    return ""


def _sorted_runs(runs: Sequence[ComparedRun], metric: str) -> list[ComparedRun]:
    """Return the runs sorted by a metric: the best value first, and runs without the metric last.

    Raises:
        UsageError: No run has the metric.
    """
    known = sorted({name for one in runs for name in one.metrics})
    if metric not in known:
        hint = f"they have {', '.join(known)}" if known else "they have told none"
        raise UsageError(f"no run has the metric {metric!r}", hint=hint)
    sign = 1 if better_end(metric) == "least" else -1

    def rank(one: ComparedRun) -> tuple[bool, float]:
        told = one.metrics.get(metric)
        values = (told.best, told.last) if told else ()
        value = next((value for value in values if value is not None), math.nan)
        return (math.isnan(value), 0.0 if math.isnan(value) else sign * value)

    return sorted(runs, key=rank)
