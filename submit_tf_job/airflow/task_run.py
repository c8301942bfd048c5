"""The job of a task instance: the same in every try, another one after a clear; without Airflow.

A worker may die between the POST and its response, and the next try then has no record of it. So a
job's name and submission id are derived from what both tries share: the Airflow, the DAG, the task,
the run, the map index, and how often the task was cleared.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["TaskRun"]

_READABLE_MAX = 20  # `tensorboard-0.<name>.<user>.<domain>` may have 64 characters (plan/check.py)


@dataclass(frozen=True)
class TaskRun:
    """A task instance, from the first try until it is cleared.

    Attributes:
        airflow: Identifies this Airflow among others that use the same cluster: its base URL.
        cleared_at: The number of tries before it was last cleared, or 0. Clearing sets `max_tries`
            to the tries so far plus the task's retries (Airflow's clear_task_instances), so it is
            the difference of the two.
    """

    airflow: str
    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    cleared_at: int = 0

    def _digest(self, *more: object) -> bytes:
        parts = [self.airflow, self.dag_id, self.task_id, self.run_id, self.map_index, *more]
        return hashlib.sha256(json.dumps(parts).encode()).digest()

    def family(self, readable: str | None = None) -> str:
        """Return the common prefix of the names of its jobs.

        Args:
            readable: The readable part; default: the task.
        """
        words = _slug(readable) if readable else _slug(self.task_id)[:_READABLE_MAX].rstrip("-")
        return f"{words or 'job'}-{base64.b32encode(self._digest())[:10].decode().lower()}"

    def job_name(self, readable: str | None = None) -> str:
        """Return the name of its job."""
        name = self.family(readable)
        return f"{name}-{self.cleared_at}" if self.cleared_at else name

    @property
    def submission_id(self) -> str:
        """The submission's id, which the service contains."""
        return f"airflow-{self._digest(self.cleared_at).hex()[:40]}"

    def earlier(self, names: Iterable[str], readable: str | None = None) -> tuple[str, ...]:
        """Return the names that belong to this task instance's jobs from before it was cleared."""
        own = self.job_name(readable)
        pattern = re.compile(re.escape(self.family(readable)) + r"(-\d+)?")
        return tuple(name for name in names if name != own and pattern.fullmatch(name))


def _slug(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words if not words[:1].isdigit() else f"j{words}"
