"""What the tasks of a job use, and the curves of its metrics: `job-usage.json` in the log directory
of the deciding task, beside the job's report. A look at the job does not read it.
"""

from __future__ import annotations

import math
from typing import Any

from submit_tf_job.container import contract

NEWEST, MEAN, MOST = "newest", "mean", "most"  # what stands for several values of a curve


class Curve:
    """Some values over time; at most `contract.SERIES_POINTS` of them are kept, evenly.

    Each point stands for equally many values: for their newest one (of a metric), their mean (of
    CPU), or the largest (of memory, whose peaks count).
    """

    def __init__(self, keeps: str) -> None:
        """Know no value; `keeps` says what stands for several."""
        self.keeps = keeps
        self.points: list[list[Any]] = []  # seconds, step, value
        self.each = 1  # values of a point
        self.in_last = 0
        self.least: list[Any] | None = None
        self.most: list[Any] | None = None

    def add(self, at: float, step: float | None, value: float) -> None:
        """Add a value; one of the same step takes the place of the last."""
        point = [round(at, 1), step, value]
        self._compare(point)
        if step is not None and self.points and self.points[-1][1] == step:
            self.points[-1] = point
        elif self.in_last < self.each and self.points:
            self.points[-1] = self._joined(self.points[-1], point, self.in_last)
            self.in_last += 1
        else:
            self.points.append(point)
            self.in_last = 1
        if len(self.points) > contract.SERIES_POINTS:
            self.halve()

    def _compare(self, point: list[Any]) -> None:
        if math.isfinite(point[2]):
            self.least = point if self.least is None or point[2] < self.least[2] else self.least
            self.most = point if self.most is None or point[2] > self.most[2] else self.most

    def _joined(self, former: list[Any], new: list[Any], count: int) -> list[Any]:
        """Return the point of `count` values and of one more, or of as many more."""
        if self.keeps == MOST:
            return [new[0], new[1], max(former[2], new[2])]
        if self.keeps == MEAN:
            return [new[0], new[1], (former[2] * count + new[2]) / (count + 1)]
        return new

    def halve(self) -> None:
        """Have each point stand for twice as many values; the newest stays."""
        pairs = zip(self.points[0::2], self.points[1::2])
        odd = self.points[len(self.points) // 2 * 2 :]
        self.points = [self._joined(former, new, 1) for former, new in pairs] + odd
        self.in_last += 0 if odd else self.each
        self.each *= 2
