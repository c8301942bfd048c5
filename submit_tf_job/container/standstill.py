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
        """Begin with the start of its command."""
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
        return max(
            (self.tasks[name].news_at for name in names if name in self.tasks), default=self.began
        )

    def found(self, now: float, names: list[str], wall: float) -> dict[str, Any] | None:
        """Return what the report says of the tasks that stand still; None if all move.

        Args:
            now: The present time.
            names: The tasks whose news counts: those that train, and run.
            wall: What turns a time into seconds since 1970.
        """
        known = {name: self.tasks.get(name) or Task(self.began) for name in names}
        still = [name for name in names if self._is_still(now, known[name])]
        moving = [name for name in names if now < known[name].news_at + self.still_s]
        if moving:
            still = [name for name in still if known[name].speaks]
        elif len(still) < len(names):
            return None
        if not still:
            return None
        others = [known[name].step for name in moving if known[name].step is not None]
        return {
            "all": not moving,
            "count": len(still),
            "since": wall + max(known[name].news_at for name in still),
            "tasks": [
                {
                    "task": name,
                    "since": wall + known[name].news_at,
                    "step": known[name].step,
                }
                for name in still[:LISTED]
            ],
            "others_step": max(others) if others else None,  # type: ignore[type-var]
        }

    def _is_still(self, now: float, task: Task) -> bool:
        limit = max(self.still_s, 2 * task.longest_s) if task.speaks else SILENT * self.still_s
        return now >= task.news_at + limit
