"""Runs side by side: as tables that fit a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import memory_used
from submit_tf_job.host.units import duration_text
from submit_tf_job.json_values import instant
from submit_tf_job.report.table import columns, cut, number, value_text, width_of

if TYPE_CHECKING:
    from submit_tf_job.operations.comparison import ComparedRun, Comparison

_WIDEST = 28  # cells on a terminal
_GAP = 2
_Column = list[str]


def comparison_lines(found: Comparison, *, width: int | None = None) -> Iterator[str]:
    """Return a row for each run. If the terminal is too narrow, the columns are split into several
    tables below one another; each has the names of the runs.
    """
    runs, *others = (_cut_cells(column, width) for column in _columns_of(found))
    for number_of, group in enumerate(_groups_of_columns(runs, others, width)):
        if number_of:
            yield ""
        yield from columns([list(row) for row in zip(runs, *group, strict=True)], width)
    if len(found.runs) > 1 and not found.differences:
        yield "these runs were given the same"


def comparison_rows(found: Comparison) -> list[list[str]]:
    """Return the cells of the table, the heading first."""
    return [list(row) for row in zip(*_columns_of(found), strict=True)]


def _columns_of(found: Comparison) -> Iterator[_Column]:
    runs = found.runs
    yield ["RUN", *(one.ended.run for one in runs)]
    yield ["STATE", *(one.ended.state.value for one in runs)]
    yield ["FOR", *(duration_text(one.ended.duration_s) for one in runs)]
    for one in found.differences:
        yield [one.label.removeprefix("roles."), *(_value_text(run, one.label) for run in runs)]
    for name in found.metric_names:
        texts = [_metric_text(run, name) for run in runs]
        yield [f"{name} (best)" if any("(" in text for text in texts) else name, *texts]
    if any(run.peak_memory_bytes for run in runs):
        yield ["PEAK MEMORY", *map(_peak_text, runs)]
    outputs = [" ".join(output.uri for output in run.ended.outputs) or "-" for run in runs]
    if set(outputs) != {"-"}:
        yield ["OUTPUTS", *outputs]


def _value_text(run: ComparedRun, label: str) -> str:
    lines = run.lines.get(label)
    value = run.values[label]
    return ("; ".join(lines) or "-") if lines is not None else number(value or None)


def _metric_text(run: ComparedRun, name: str) -> str:
    metric = run.metrics.get(name)
    if metric is None or metric.last is None:
        return "-"
    last = value_text(metric.last)
    best = last if metric.best is None else value_text(metric.best)
    return last if best == last else f"{last} ({best})"


def _peak_text(run: ComparedRun) -> str:
    peaks = run.peak_memory_bytes
    if len(peaks) == 1:
        return memory_used(*peaks.values())
    return " ".join(f"{role} {memory_used(count)}" for role, count in peaks.items()) or "-"


def _cut_cells(column: _Column, width: int | None) -> _Column:
    if width is None:
        return column
    return column if column[0] == "RUN" else [cut(text, _WIDEST) for text in column]


def _groups_of_columns(
    runs: _Column, others: Sequence[_Column], width: int | None
) -> Iterator[Sequence[_Column]]:
    """Yield groups of columns that fit on a line beside the names of the runs."""
    used = least = max(map(width_of, runs))
    group: list[_Column] = []
    for column in others:
        size_of = _GAP + max(map(width_of, column))
        if width is not None and group and used + size_of > width:
            yield group
            group, used = [], least
        group.append(column)
        used += size_of
    yield group


def comparison_csv(found: Comparison) -> Iterator[str]:
    """Return the lines of CSV, the heading first; a metric has one column for its last value and
    one for its best value.
    """
    heading: list[object] = [
        "run",
        "state",
        "submitted_at",
        "duration_s",
        *(d.label for d in found.differences),
    ]
    for name in found.metric_names:
        heading += [name, f"best {name}"]
    heading += ["peak_memory_bytes", "outputs"]
    for row in [heading, *(_csv_row(found, run) for run in found.runs)]:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        yield from line.getvalue().split("\n")


def _csv_row(found: Comparison, run: ComparedRun) -> list[object]:
    ended = run.ended
    row: list[object] = [ended.run, ended.state.value, instant(ended.submitted_ms)]
    row += [ended.duration_s, *(run.values[one.label] for one in found.differences)]
    for name in found.metric_names:
        metric = run.metrics.get(name)
        row += [metric.last, metric.best] if metric else [None, None]
    peaks = run.peak_memory_bytes.values()
    return [*row, max(peaks, default=None), " ".join(output.uri for output in ended.outputs)]
