"""Which tasks stand still: that have printed nothing, and told no step, for longer than usual.

No clock: each method gets `now`. Only what a task has done before counts as usual: one that is
silent by nature (a worker whose chief prints for all) is never named, and one that prints once an
epoch has twice that long.
"""

from __future__ import annotations

from typing import Any

STILL_S = 120.0  # the least time without news
SILENT = 5  # times that, of tasks that have printed nothing but at their start
STARTING = 0.5  # times that, in which what a program prints is no rhythm
LISTED = 20


class Task:
    """What is known of one task."""

    def __init__(self, now: float) -> None:
        self.news_at, self.longest_s = now, 0.0
        self.step: float | None = None
        self.speaks = False


class TaskNews:
    """The news of all tasks since their commands started."""

    def __init__(self, still_s: float) -> None:
        """Know no task; `still_s` is the least time without news."""
        self.still_s = still_s
        self.tasks: dict[str, Task] = {}
        self.began = 0.0

    def begin(self, now: float) -> None:
        """Forget all, because the commands start (again)."""
        self.tasks, self.began = {}, now

    def heard(self, at: float, name: str, step: float | None = None) -> None:
        """Record that a task printed something, or told a step, at a time."""
        task = self.tasks.setdefault(name, Task(self.began))
        if at > task.news_at:
            early = self.began + STARTING * self.still_s
            if task.news_at > early:
                task.longest_s = max(task.longest_s, at - task.news_at)
            task.news_at, task.speaks = at, task.speaks or at > early
        if step is not None:
            task.step, task.speaks = step, True

    def last(self, names: list[str]) -> float:
        """Return when the last of some tasks printed something, or told a step."""
        known = [self.tasks[name].news_at for name in names if name in self.tasks]
        return max(known, default=self.began)

    def found(self, now: float, names: list[str], wall: float) -> dict[str, Any] | None:
        """Return what the report says of the tasks that stand still; None if all move.

        Args:
            names: The tasks whose news counts: those that train, and run.
            wall: What turns a time into seconds since 1970.
        """
        known = {name: self.tasks.get(name) or Task(self.began) for name in names}
        still = {name: task for name, task in known.items() if self._is_still(now, task)}
        moving = [task for task in known.values() if now < task.news_at + self.still_s]
        if moving:
            still = {name: task for name, task in still.items() if task.speaks}
        if not still or (not moving and len(still) < len(known)):
            return None
        return {
            "all": not moving,
            "count": len(still),
            "since": wall + max(task.news_at for task in still.values()),
            "tasks": [
                {"task": name, "since": wall + task.news_at, "step": task.step}
                for name, task in list(still.items())[:LISTED]
            ],
            "others_step": max((t.step for t in moving if t.step is not None), default=None),
        }

    def _is_still(self, now: float, task: Task) -> bool:
        limit = max(self.still_s, 2 * task.longest_s) if task.speaks else SILENT * self.still_s
        return now >= task.news_at + limit
