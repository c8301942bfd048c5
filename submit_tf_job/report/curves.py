"""Draw the curves of a run: in characters for a terminal, as SVG for a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import memory_used
from submit_tf_job.report.table import cut, value_text, width_of

if TYPE_CHECKING:
    from submit_tf_job.usage_report import Series, UsageReport

_HEIGHTS, _PLAIN_HEIGHTS = "▁▂▃▄▅▆▇█", "_.-~=*^#"
_MOST_ROLES = 4
_NAMES = {"cpu": "CPU", "gpu": "GPU", "gpu_memory": "GPU memory"}
_SVG_WIDTH, _SVG_HEIGHT, _SVG_MARGIN = 480, 150, 24


def sparkline(
    values: Sequence[float], width: int, *, plain: bool = False, floor: float | None = None
) -> str:
    """Return a line of characters; the height of each shows the mean of one part of the values.

    Args:
        values: Finite numbers, by time.
        width: The largest number of characters.
        plain: Whether to use only ASCII characters.
        floor: The value of the lowest character; None for the smallest mean.

    Returns:
        The characters; "" without values, or if `width` is less than 1.
    """
    heights = _PLAIN_HEIGHTS if plain else _HEIGHTS
    if not values or width < 1:
        return ""
    count = min(width, len(values))
    edges = [len(values) * number // count for number in range(count + 1)]
    means = [math.fsum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges)]
    least, most = min(means) if floor is None else floor, max(means)
    step = (most - least) / (len(heights) - 1)
    if step <= 0:
        return heights[0] * count
    return "".join(heights[round((mean - least) / step)] for mean in means)


def amount_words(value: float, unit: str) -> str:
    """Return a value with its unit: `2.8 GiB`, `3.5 cores`, `0.0213`."""
    if unit == "bytes" and math.isfinite(value):
        return memory_used(value)
    return f"{value:.0f} %" if unit == "percent" else f"{value_text(value)} {unit}".rstrip()


def curve_lines(usage: UsageReport, width: int, *, plain: bool = False) -> Iterator[str]:
    """Yield a line (name, curve, last value) for the main metric, and one each for CPU, memory and
    GPUs of the first four roles, as far as these are known.
    """
    rows = [series for series in (usage.main_metric,) if series is not None]
    for role in list(usage.roles)[:_MOST_ROLES]:
        found = (usage.use_of(role, name) for name in ("cpu", "memory", "gpu"))
        rows += [series for series in found if series is not None]
    rows = [series for series in rows if series.points]
    names = [cut(_curve_name(series), max(8, width // 3)) for series in rows]
    column = max(map(width_of, names), default=0)
    for name, series in zip(names, rows, strict=True):
        told = _last_words(series)
        room = width - column - len(told) - 6
        floor = None if series.is_metric else 0.0  # what hardly changes is no mountain
        drawn = sparkline(series.values(), room, plain=plain, floor=floor)
        yield f"  {name}{' ' * (column - width_of(name))}  {drawn}  {told}"


def _curve_name(series: Series) -> str:
    if series.is_metric:
        return series.name
    return f"{series.role} {_NAMES.get(series.name, series.name)}"


def _last_words(series: Series) -> str:
    last, most, least = series.last, series.most, series.least
    words = amount_words(last.value, series.unit) if last else "-"
    if series.is_metric and least and most:
        span = f"{amount_words(least.value, '')} to {amount_words(most.value, '')}"
        return f"{words}  ({span})"
    return f"{words}  (most {amount_words(most.value, series.unit)})" if most else words


def curve_svg(series: Series) -> str:
    """Return a metric's curve as an SVG picture; "" for fewer than two finite values.

    The colours are the page's own (`currentColor`). Texts of programs are escaped.
    """
    finite = [point for point in series.points if math.isfinite(point.value)]
    if len(finite) < 2:
        return ""
    steps = [point.step if point.step is not None else point.at for point in series.points]
    left, span = min(steps), (max(steps) - min(steps)) or 1.0
    least = min(point.value for point in finite)
    height = (max(point.value for point in finite) - least) or 1.0
    parts, part = [], list[str]()
    for step, point in zip(steps, series.points, strict=True):
        if not math.isfinite(point.value):
            parts.append(part)
            part = []
            continue
        x = _SVG_MARGIN + (step - left) / span * (_SVG_WIDTH - 2 * _SVG_MARGIN)
        y = (
            _SVG_HEIGHT
            - _SVG_MARGIN
            - (point.value - least) / height * (_SVG_HEIGHT - 2 * _SVG_MARGIN)
        )
        part.append(f"{x:.1f},{y:.1f}")
    lines = "".join(
        f'<polyline points="{" ".join(one)}" fill="none" stroke="#2a78d6" stroke-width="2"/>'
        for one in (*parts, part)
        if one
    )
    begin, end = (value_text(step) for step in (left, left + span))
    title = html.escape(f"{_curve_name(series)}  {_last_words(series)}")
    what = html.escape(series.step_unit or ("step" if series.points[0].step is not None else "s"))
    text = 'font-family="sans-serif" font-size="12" fill="currentColor"'
    return (
        f'<svg role="img" aria-label="{title}" width="{_SVG_WIDTH}" height="{_SVG_HEIGHT}" '
        f'viewBox="0 0 {_SVG_WIDTH} {_SVG_HEIGHT}"><text x="{_SVG_MARGIN}" y="14" {text}>{title}'
        f'</text>{lines}<text x="{_SVG_MARGIN}" y="{_SVG_HEIGHT - 6}" {text}>{what} {begin}</text>'
        f'<text x="{_SVG_WIDTH - _SVG_MARGIN}" y="{_SVG_HEIGHT - 6}" text-anchor="end" {text}>'
        f"{what} {end}</text></svg>"
    )
