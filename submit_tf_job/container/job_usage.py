"""The resource usage of a job's tasks, and the curves of its metrics, kept in the deciding task."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from submit_tf_job.container import contract, untrusted

NEWEST, MEAN, MOST = "newest", "mean", "most"  # what stands for several values of a curve


class Curve:
    """A series of values over time, thinned out evenly to at most `contract.SERIES_POINTS` points.

    Each point stands for the same number of values. Its value is the newest of these values (for
    metrics), their mean (CPU, GPU), or the largest (memory, for which peaks matter).
    """

    def __init__(self, keeps: str, task: str = "") -> None:
        """Start without values; `keeps` is the rule by which several values become one point,
        `task` is the task that reports a metric.
        """
        self.keeps, self.task, self.step_unit = keeps, task, ""
        self.points: list[list[Any]] = []  # seconds, step, value
        self.each = 1  # values of a point
        self.in_last = 0
        self.least: list[Any] | None = None
        self.most: list[Any] | None = None

    def add(self, at: float, step: float | None, value: float) -> None:
        """Add a value; it replaces the last point if that has the same step."""
        point = [round(at, 1), step, value]
        self._note_extremes(point)
        if step is not None and self.points and self.points[-1][1] == step:
            self.points[-1] = self.points[-1] if repr(self.points[-1][2]) == repr(value) else point
        elif self.in_last < self.each and self.points:
            self.points[-1] = self._joined_points(self.points[-1], point, self.in_last)
            self.in_last += 1
        else:
            self.points.append(point)
            self.in_last = 1
        if len(self.points) > contract.SERIES_POINTS:
            self.halve()

    def _note_extremes(self, point: list[Any]) -> None:
        if math.isfinite(point[2]):
            self.least = point if self.least is None or point[2] < self.least[2] else self.least
            self.most = point if self.most is None or point[2] > self.most[2] else self.most

    def _joined_points(self, former: list[Any], new: list[Any], count: int) -> list[Any]:
        """Join two points to one: `former` stands for `count` values, and `new` stands for one
        value, or, if `count` is 1, for as many values as `former`.
        """
        if self.keeps == MOST:
            return [new[0], new[1], max(former[2], new[2])]
        if self.keeps == MEAN:
            return [new[0], new[1], (former[2] * count + new[2]) / (count + 1)]
        return new

    def halve(self) -> None:
        """Halve the number of points, so that each point stands for twice as many values. The
        newest point stays as it is if it has no partner.
        """
        pairs = zip(self.points[0::2], self.points[1::2])
        odd = self.points[len(self.points) // 2 * 2 :]
        self.points = [self._joined_points(former, new, 1) for former, new in pairs] + odd
        self.in_last += 0 if odd else self.each
        self.each *= 2


# --- what tasks tell ------------------------------------------------------------------------------
MOST_METRICS = 20
_WHATS = ("now", "mean", "peak")
_AMOUNTS = ("cpu_cores", "memory_bytes")
_CURVES = (
    ("cpu", "cpu_cores", "mean", "cores", MEAN),
    ("memory", "memory_bytes", "most", "bytes", MOST),
    ("gpu", "gpu_percent", "mean", "percent", MEAN),
    ("gpu_memory", "gpu_memory_bytes", "most", "bytes", MOST),
)


def _clean_amounts(value: Any) -> dict[str, float]:
    found = value if isinstance(value, dict) else {}
    numbers = ((what, untrusted.number(found.get(what))) for what in _WHATS)
    return {what: number for what, number in numbers if number is not None and number >= 0}


def clean_use(value: Any) -> dict[str, Any] | None:
    """Return the valid parts of the resource usage that a task has reported; None if that is not an
    object.
    """
    if not isinstance(value, dict):
        return None
    found: dict[str, Any] = {"for_s": untrusted.seconds(value.get("for_s"))}
    found.update((key, _clean_amounts(value.get(key))) for key in _AMOUNTS)
    found["peak_by"] = untrusted.text(value.get("peak_by"), 20)
    gpus = value.get("gpus")
    cleaned = [_clean_gpu(gpu) for gpu in (gpus[:64] if isinstance(gpus, list) else ())]
    why = untrusted.text(value.get("gpus_unknown"), 300)
    return dict(
        found, **({"gpus": cleaned} if cleaned else {}), **({"gpus_unknown": why} if why else {})
    )


def _clean_gpu(value: Any) -> dict[str, Any]:
    gpu = value if isinstance(value, dict) else {}
    found: dict[str, Any] = {}
    for key in ("percent", "memory_bytes"):
        amounts = _clean_amounts(gpu.get(key))
        found.update({key: amounts} if amounts else {})
    total = untrusted.number(gpu.get("memory_total_bytes"))
    return dict(found, **({"memory_total_bytes": total} if total else {}))


# --- what a role uses -----------------------------------------------------------------------------
def _spread_over_tasks(values: list[tuple[float, str]]) -> dict[str, Any]:
    least, most = min(values), max(values)
    return {
        "least": least[0],
        "mean": round(sum(value for value, _ in values) / len(values), 3),
        "most": most[0],
        "least_task": least[1],
        "most_task": most[1],
    }


def _of_gpus(use: Mapping[str, Any], key: str, what: str) -> list[float]:
    gpus = use.get("gpus", ())
    return [gpu[key][what] for gpu in gpus if key in gpu and what in gpu[key]]


def _amount_of_task(use: Mapping[str, Any], key: str, what: str) -> float | None:
    """Return one amount of a task's resource usage; None if the task has not reported it."""
    if key in _AMOUNTS:
        amount: float | None = use[key].get(what)
        return amount
    if key == "gpu_percent":
        found = _of_gpus(use, "percent", what)
        return round(sum(found) / len(found), 1) if found else None
    if key == "gpu_memory_bytes":
        return max(_of_gpus(use, "memory_bytes", what), default=None)
    found = _of_gpus(use, "percent", "peak")
    return sum(peak > 0 for peak in found) if found and what == "peak" else None


def role_use(uses: Mapping[str, Mapping[str, Any]], running: Collection[str]) -> dict[str, Any]:
    """Summarise the resource usage of a role's tasks: for each quantity (`memory_bytes`, …) and
    each of its values `now`, `mean` and `peak`, the least, the mean and the greatest over the
    tasks, and which tasks have the least and the greatest.

    Args:
        uses: Task → its usage.
        running: The tasks that run; the values of `now` are of these alone.
    """
    found: dict[str, Any] = {"tasks": len(uses), "for_s": max(u["for_s"] for u in uses.values())}
    for key in (*_AMOUNTS, "gpu_percent", "gpus_used", "gpu_memory_bytes"):
        for what in _WHATS:
            told = [
                (amount, name)
                for name, use in uses.items()
                if what != "now" or name in running
                for amount in [_amount_of_task(use, key, what)]
                if amount is not None
            ]
            if told:
                found.setdefault(key, {})[what] = _spread_over_tasks(told)
    largest = max(uses.values(), key=lambda use: use["memory_bytes"].get("peak", 0))
    found["peak_by"] = largest["peak_by"]
    whys = [(name, use["gpus_unknown"]) for name, use in uses.items() if "gpus_unknown" in use]
    if whys:
        name, why = whys[0]
        found["gpus_unknown"] = why if len(whys) == len(uses) else f"{name}: {why}"
    return found


# --- the job --------------------------------------------------------------------------------------
class JobUsage:
    """The resource usage that all tasks have reported, and the curves made from it. This class has
    no clock and writes no file.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, dict[str, Any]] = {}
        self.curves: dict[tuple[str, str], Curve] = {}  # by role ("" for a metric) and name

    def heard(self, name: str, value: Any) -> None:
        """Store the resource usage that a task has reported; its peak of memory is the largest
        value of all the task's containers.
        """
        use = clean_use(value)
        if use is None:
            return
        former = self.tasks.get(name)
        if former:
            before, memory = former["memory_bytes"].get("peak", 0), use["memory_bytes"]
            if before > memory.get("peak", 0):
                memory["peak"], use["peak_by"] = before, former["peak_by"]
        self.tasks[name] = use

    def metrics(self, at: float, task: str, progress: Mapping[str, Any], decides: bool) -> None:
        """Add the metrics that a task has reported, `at` seconds after the start, to curves; a job
        has at most `MOST_METRICS` of these.

        A curve has the values of the task that reported the metric first; if the deciding task
        reports the metric later, the curve starts anew with that task's values.
        """
        step = progress.get("metrics_step", progress["step"])
        known = sum(not role for role, _ in self.curves)
        for name, value in progress["metrics"].items():
            curve = self.curves.get(("", name))
            if value is None or (curve is None and known >= MOST_METRICS):
                continue
            if curve is None or (decides and curve.task != task):
                known += curve is None
                curve = self.curves["", name] = Curve(NEWEST, task)
            if curve.task == task:
                curve.step_unit = progress.get("unit", "")
                curve.add(at, step, float(value))

    def roles(self, running: Collection[str]) -> dict[str, Any]:
        """Return the resource usage of each role in which at least one task has reported it."""
        told: dict[str, dict[str, Any]] = {}
        for name, use in self.tasks.items():
            told.setdefault(name.rpartition("-")[0], {})[name] = use
        return {role: role_use(uses, running) for role, uses in sorted(told.items())}

    def add_points(self, at: float, roles: Mapping[str, Any]) -> None:
        """Add a point, `at` seconds after the start, to each curve of resource usage."""
        for role, use in roles.items():
            for name, key, which, _, keeps in _CURVES:
                now = use.get(key, {}).get("now")
                if now:
                    self.curves.setdefault((role, name), Curve(keeps)).add(at, None, now[which])

    def series(self) -> list[dict[str, Any]]:
        """Return all curves in the form of the file `job-usage.json`, metrics first."""
        units = {name: unit for name, _, _, unit, _ in _CURVES}
        found = []
        for (role, name), curve in sorted(self.curves.items(), key=lambda item: bool(item[0][0])):
            of = {"role": role, "unit": units[name]} if role else {"task": curve.task}
            of.update({} if role else {"step_unit": curve.step_unit})
            made: dict[str, Any] = {"name": name, "kind": "usage" if role else "metric", **of}
            made.update(points=[_point_for_file(point) for point in curve.points])
            if curve.least and curve.most:
                made.update(least=_point_for_file(curve.least), most=_point_for_file(curve.most))
            found.append(made)
        return found


def _point_for_file(point: list[Any]) -> list[Any]:
    at, step, value = point
    return [at, step, untrusted.metric(value if abs(value) >= 1e6 else float(f"{value:.6g}"))]
