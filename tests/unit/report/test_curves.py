"""Curves in characters and as SVG."""

from __future__ import annotations

import json
import math
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from submit_tf_job.report import curves
from submit_tf_job.usage_report import UsageReport
from tests.examples import examples

HOSTILE = "<script>alert(1)</script>&\"'"
GIB = 1024**3


def usage(points: list[list[Any]], name: str = "loss", **more: Any) -> UsageReport:
    finite = [point for point in points if isinstance(point[2], (int, float))]
    metric: dict[str, Any] = {
        "name": name,
        "kind": "metric",
        "step_unit": "epoch",
        "points": points,
    }
    metric |= {
        "least": min(finite, key=lambda point: point[2]),
        "most": max(finite, key=lambda point: point[2]),
    }
    memory: dict[str, Any] = {"name": "memory", "kind": "usage", "unit": "bytes", "role": "worker"}
    memory |= {"points": [[0, None, GIB], [15, None, 3 * GIB]], "most": [15, None, 3 * GIB]}
    cpu: dict[str, Any] = {"name": "cpu", "kind": "usage", "unit": "cores", "role": "worker"}
    cpu |= {"points": [[0, None, 1.5], [15, None, 3.25]]}
    written: dict[str, Any] = {"version": 1, "run": "r-1", "roles": {"worker": {"tasks": 1}}}
    written |= {"series": [metric, cpu, memory], **more}
    made = UsageReport.parse(json.dumps(written).encode())
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("values", "width", "drawn", "plain"),
    [
        ([], 8, "", ""),
        ([1.0], 8, "▁", "_"),
        ([2.0, 2.0, 2.0], 8, "▁▁▁", "___"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█", "_.-~=*^#"),
        ([7, 0], 8, "█▁", "#_"),
        ([0, 0, 7, 7], 2, "▁█", "_#"),
        ([1.0, 2.0], 0, "", ""),
    ],
)
def test_sparkline_is_as_high_as_its_values(
    values: list[float], width: int, drawn: str, plain: str
) -> None:
    assert curves.sparkline(values, width) == drawn
    assert curves.sparkline(values, width, plain=True) == plain


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.floats(-1e300, 1e300), max_size=60), st.integers(0, 100))
def test_sparkline_takes_any_finite_values(values: list[float], width: int) -> None:
    drawn = curves.sparkline(values, width)
    assert len(drawn) == min(width, len(values))


def test_curve_lines_have_metric_and_use_in_80_columns() -> None:
    found = usage([[10.0 * n, n, 1 / n] for n in range(1, 100)])
    metric, cpu, memory = curves.curve_lines(found, 80)
    assert metric.startswith("  loss           █")
    assert metric.endswith("  0.0101  (0.0101 to 1)")
    assert cpu.split() == ["worker", "CPU", "▄█", "3.25", "cores"]
    assert memory.split() == ["worker", "memory", "▃█", "3.0", "GiB", "(most", "3.0", "GiB)"]
    for width in (80, 200):
        assert max(map(len, curves.curve_lines(found, width))) <= width
    assert all(line.isascii() for line in curves.curve_lines(found, 80, plain=True))


def test_curve_lines_say_that_a_metric_is_not_a_number() -> None:
    found = usage([[0, 1, 1.0], [10, 2, 0.5], [20, 3, "NaN"]])
    [metric, *_] = curves.curve_lines(found, 80)
    assert metric.endswith("█▁  NaN  (0.5 to 1)")


def test_curve_svg_has_gaps_and_no_markup_of_a_program() -> None:
    points: list[list[Any]] = [
        [0, 1, 1.0],
        [10, 2, 0.5],
        [20, 3, "NaN"],
        [30, 4, 0.4],
        [40, 5, "Infinity"],
    ]
    [series, *_] = usage(points, name=HOSTILE).series
    picture = ET.fromstring(curves.curve_svg(series))
    assert {one.tag for one in picture.iter()} == {"svg", "text", "polyline"}
    assert [len(str(line.get("points")).split()) for line in picture.iter("polyline")] == [2, 1]
    assert HOSTILE in str(picture.get("aria-label"))
    assert not math.isfinite(series.points[-1].value)


def test_curve_svg_of_one_value_is_nothing() -> None:
    [series, *_] = usage([[0, 1, 1.0]]).series
    assert curves.curve_svg(series) == ""
