"""Read `job-usage.json`: what the tasks of a job use, and the curves of its metrics. The deciding
task's bootstrap writes it beside the job's report (container/usage_file.py); the file is read only
in order to show its content.

As in `job_report`, nothing here trusts the file: a field that is missing, unknown or of a wrong
type has the value that an absent field has. Amounts are cores of CPU, bytes of memory, and percent
of a GPU's time; the times in a curve are seconds since `started_at`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from submit_tf_job.container import contract
from submit_tf_job.job_report import (
    as_count,
    as_list,
    as_moment,
    as_name,
    as_number,
    as_text,
    as_value,
    as_whole,
    by_name,
    fact,
    instance_of,
    instances_of,
)
from submit_tf_job.json_values import read_foreign_json

MOST_POINTS = contract.SERIES_POINTS  # of one curve
MOST_CURVES = 240  # 20 metrics, and four of each role: of 55 roles
KIND_METRIC, KIND_USAGE = "metric", "usage"


@dataclass(frozen=True)
class Amounts:
    """An amount that one task uses.

    Attributes:
        now: The value at the last measurement; None if it is not known.
        mean: The mean since the task's command started.
        peak: The largest value.
    """

    now: float | None = fact(as_number)
    mean: float | None = fact(as_number)
    peak: float | None = fact(as_number)


@dataclass(frozen=True)
class Spread:
    """One amount over all tasks of a role: the smallest value, the mean, the largest value, and
    which tasks have the smallest and the largest.
    """

    least: float = fact(as_number, needed=True)
    mean: float = fact(as_number, needed=True)
    most: float = fact(as_number, needed=True)
    least_task: str = fact(as_text)
    most_task: str = fact(as_text)


@dataclass(frozen=True)
class RoleAmounts:
    """An amount that the tasks of a role use; a field is None if no task reported it."""

    now: Spread | None = fact(instance_of(Spread))
    mean: Spread | None = fact(instance_of(Spread))
    peak: Spread | None = fact(instance_of(Spread))


@dataclass(frozen=True)
class GpuUse:
    """One GPU that a task sees.

    Attributes:
        percent: The percentage of the time in which a program ran on the GPU, from 0 to 100; None
            if the GPU does not report it (MIG).
        memory_bytes: The memory that is allocated on the GPU; TensorFlow allocates all of it by
            default.
        memory_total_bytes: The size of the GPU's memory.
    """

    percent: Amounts | None = fact(instance_of(Amounts))
    memory_bytes: Amounts | None = fact(instance_of(Amounts))
    memory_total_bytes: float | None = fact(as_number)


@dataclass(frozen=True)
class TaskUse:
    """What one task uses.

    Attributes:
        for_s: The seconds since the task's command started.
        cpu_cores: The CPU use of all processes of the command, including processes that have ended.
        memory_bytes: The sum over the task's processes, as the NodeManager counts it.
        peak_by: How the peak is known: `kernel` (the kernel's own mark), `bound` (the sum of the
            kernel's marks of several processes, an upper bound), or `sample` (the largest sample).
        gpus: The GPUs, in the order of `nvidia-smi` or AMD's driver.
        gpus_unknown: Why the use of the task's GPUs is not known; "" if it is known, or if the task
            asked for no GPU.
    """

    task: str = fact(as_name, needed=True)
    for_s: float | None = fact(as_moment)
    cpu_cores: Amounts | None = fact(instance_of(Amounts))
    memory_bytes: Amounts | None = fact(instance_of(Amounts))
    peak_by: str = fact(as_text)
    gpus: tuple[GpuUse, ...] = fact(instances_of(GpuUse))
    gpus_unknown: str = fact(as_text)


@dataclass(frozen=True)
class RoleUse:
    """What the tasks of a role use, for any number of tasks.

    Attributes:
        tasks: How many tasks have reported their use.
        for_s: The longest time, in seconds, for which the command of any task of the role has run.
        peak_by: How the largest peak of memory is known, as in `TaskUse`.
        gpu_percent: The mean over the GPUs of a task.
        gpus_used: The number of a task's GPUs that were used at all; only `peak` is set.
        gpu_memory_bytes: The memory in use on the fullest GPU of a task.
        gpus_unknown: Why the use of GPUs is not known for some task, or "".
    """

    tasks: int = fact(as_count)
    for_s: float | None = fact(as_moment)
    cpu_cores: RoleAmounts | None = fact(instance_of(RoleAmounts))
    memory_bytes: RoleAmounts | None = fact(instance_of(RoleAmounts))
    peak_by: str = fact(as_text)
    gpu_percent: RoleAmounts | None = fact(instance_of(RoleAmounts))
    gpus_used: RoleAmounts | None = fact(instance_of(RoleAmounts))
    gpu_memory_bytes: RoleAmounts | None = fact(instance_of(RoleAmounts))
    gpus_unknown: str = fact(as_text)


class Point(NamedTuple):
    """One value of a curve.

    Attributes:
        at: Seconds since `started_at` of the file.
        step: The step or epoch, or None.
        value: The value; it is NaN or infinite if the metric was.
    """

    at: float
    step: float | None
    value: float


def _as_point(value: Any) -> Point | None:
    at, step, told = (*as_list(value), None, None, None)[:3]
    moment, number = as_moment(at), as_value(told)
    return None if moment is None or number is None else Point(moment, as_number(step), number)


def _as_points(value: Any) -> tuple[Point, ...]:
    points = (_as_point(entry) for entry in as_list(value)[-MOST_POINTS:])
    return tuple(point for point in points if point is not None)


@dataclass(frozen=True)
class Series:
    """The course of a metric that the program reported, or of a role's resource usage, thinned out
    to at most 240 points; the last value is always kept.

    Attributes:
        name: The metric's name as the program reported it; for usage `cpu`, `memory`, `gpu` or
            `gpu_memory`.
        kind: `metric` or `usage`.
        unit: The unit of a value: "" for a metric, else `cores`, `bytes` or `percent`.
        step_unit: What one step is, such as `epoch`; "" for a step of the training, and for usage.
        task: The task that reported the metric; "" for usage.
        role: The role whose usage the curve shows; "" for a metric. `cpu` and `gpu` are means over
            the role's tasks; `memory` and `gpu_memory` are the values of the task that uses most.
        points: The points, by time; the step may be lower than before if all tasks have started
            again.
        least, most: The smallest and the largest of all finite values that were reported.
    """

    name: str = fact(as_name, needed=True)
    kind: str = fact(as_text)
    unit: str = fact(as_text)
    step_unit: str = fact(as_text)
    task: str = fact(as_text)
    role: str = fact(as_text)
    points: tuple[Point, ...] = fact(_as_points)
    least: Point | None = fact(_as_point)
    most: Point | None = fact(_as_point)

    @property
    def last(self) -> Point | None:
        """The newest value; None if there is none."""
        return self.points[-1] if self.points else None

    @property
    def is_metric(self) -> bool:
        """Whether the curve shows a metric of the program."""
        return self.kind == KIND_METRIC

    def values(self) -> list[float]:
        """Return the finite values of the curve, in order of time."""
        return [point.value for point in self.points if math.isfinite(point.value)]


@dataclass(frozen=True)
class UsageReport:
    """What the tasks of a run use, or used if it is over, and the run's curves.

    Attributes:
        version: The version of the file's format.
        run: The run's name.
        started_at: When the deciding task's bootstrap started, in seconds since 1970.
        updated_at: When the file was written, in seconds since 1970.
        roles: The use of each role, for roles in which at least one task has reported its use.
        tasks: The use of the first 200 tasks that have reported it; () in a run's record that
            would be too large with them.
        series: The curves: metrics in the order of their first report, then use. At most
            MOST_CURVES are read, because a program can write this file.
    """

    version: int = fact(as_count)
    run: str = fact(as_text)
    started_at: float | None = fact(as_moment)
    updated_at: float | None = fact(as_moment)
    roles: Mapping[str, RoleUse] = fact(by_name(instance_of(RoleUse)))
    tasks: tuple[TaskUse, ...] = fact(instances_of(TaskUse))
    series: tuple[Series, ...] = fact(instances_of(Series, MOST_CURVES))

    @classmethod
    def parse(cls, content: bytes) -> UsageReport | None:
        """Parse the file; return None if the bytes are not such a file, or one of another
        version.
        """
        try:
            found = instance_of(cls)(read_foreign_json(content))
        except ValueError:
            return None
        known = found is not None and found.version == contract.REPORT_VERSION and found.run
        return found if known else None

    @property
    def metrics(self) -> tuple[Series, ...]:
        """The curves of the program's metrics."""
        return tuple(series for series in self.series if series.is_metric)

    @property
    def main_metric(self) -> Series | None:
        """The first metric that the program reported; None if it reported none."""
        return next(iter(self.metrics), None)

    def use_of(self, role: str, name: str) -> Series | None:
        """Return the curve of a role's `cpu`, `memory`, `gpu` or `gpu_memory`; None if there is
        none.
        """
        found = (s for s in self.series if not s.is_metric and (s.role, s.name) == (role, name))
        return next(found, None)


# --- beside it ---


@dataclass(frozen=True)
class Asked:
    """What each task of a role asks for, and how many tasks the role has."""

    tasks: int = fact(as_count)
    memory_mib: int | None = fact(as_whole)
    cpus: int | None = fact(as_whole)
    gpus: int = fact(as_count)


asked_by_role = by_name(instance_of(Asked))  # of a run's record


@dataclass(frozen=True)
class Advice:
    """What to ask for next time.

    Attributes:
        role: The role.
        key: The key of the job spec: `memory`, `cpus` or `gpus`.
        sentence: How much was used, compared with how much was asked for.
        option: The option to give, such as `--set roles.worker.memory=4Gi`.
    """

    role: str
    key: str
    sentence: str
    option: str
