"""Compare runs by their records: what differs in what they were given, and their results."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

_LOG = logging.getLogger(__name__)
LAST_RUNS = 10  # of a job that is compared alone
_MOST_JOBS = 100  # of a pattern
_WHICH = "submit_tf_job history lists the runs that have one"
_PATTERN = re.compile(r"[*?\[]")
_WORDS = re.compile(r"[a-z]+")
_PARTS_OF_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # `valLoss`
_LESS_IS_BETTER = re.compile(
    "loss|losses|logloss|errors?|err|mae|mse|msle|rmse|rmsle|mape|smape|hinge|huber|brier"
    "|entropy|crossentropy|perplexity|ppl|wer|cer|eer|fid|nll|kl|kld|divergence|distance|regret"
    "|latency|time|duration|hours?|minutes?|seconds?|secs?|ms|millis|milliseconds|us"
)
_MORE_IS_BETTER = re.compile(
    "accuracy|acc|auc|auroc|auprc|roc|precision|recall|f|map|ap|iou|miou|dice|jaccard|bleu|rouge"
    "|meteor|ndcg|mrr|psnr|ssim|mcc|kappa|correlation|spearman|pearson|hits?|r|score|success"
    "|rewards?|returns?|throughput|similarity"
)
# `examples_per_sec`, `images/s`, `ms/step`
_RATE = re.compile(
    r"(?P<what>.+?)(_per_|/)((?P<time>(h|hour|min|minute|s|secs?|seconds?|ms))"
    r"|(iter|iteration|step|batch|epoch|sample|example|image|token|episode)s?)",
    re.IGNORECASE,
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
            newest run of each, for at most 100 jobs; a warning is logged if there are more); one
            job alone means its last ten runs.
        sort: A metric: the run with its best value is first. If the metric's name does not tell
            which value is better, the run with the largest value is first.

    Raises:
        NoSuchJob: A name is unknown, or its run has no record.
        UsageError: There is no name, or an empty one; or no run has the metric.
        SettingsError: There is no staging directory, and so no record.
        SubmitTFJobError: Records cannot be read.
    """
    if not names or not all(names):
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
            found = run_records.newest_runs(cluster, name)
            if not found:
                raise NoSuchJob(f"No run of a job like {name} has a record.", hint=_WHICH)
            if len(found) > _MOST_JOBS:
                words = "of %d jobs like %s, the %d that were submitted last are compared"
                _LOG.warning(words, len(found), name, _MOST_JOBS)
            yield from found[:_MOST_JOBS]
            continue
        run = find(cluster, name).run if re.fullmatch(APPLICATION_ID, name) else name
        found = run_records.recorded_runs(cluster, run, LAST_RUNS if len(names) == 1 else 1)
        if not found:
            ref = find(cluster, name)
            raise NoSuchJob(f"The run {ref.run} has no record.", hint=_WHICH)
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
    if the name does not tell. Examples of names: `val_loss`, `valLoss`,
    `sparse_categorical_accuracy`, `examples_per_sec`, `ms/step`.
    """
    rate = _RATE.fullmatch(metric)
    what = rate["what"] if rate else metric
    known = _better_end_of_words(_WORDS.findall(what.lower()))
    known = known or _better_end_of_words(part.lower() for part in _PARTS_OF_WORDS.findall(what))
    return "most" if not known and rate and rate["time"] else known


def _better_end_of_words(words: Iterable[str]) -> str:
    for word in reversed(list(words)):
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
