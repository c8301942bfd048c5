"""The job of a task instance, and the key of its submission; without Airflow.

A worker may die between the POST and its response, and the next try then has no record of it. So
the job's name and the submission's key are derived from what both tries share: the Airflow, the
DAG, the task, the run, the map index, and for the key how often the task was cleared.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass

from submit_tf_job.sdk.call_spec import as_label

_READABLE_MAX = 20


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

    def _hash_of_run(self, *more: object) -> bytes:
        parts = [self.airflow, self.dag_id, self.task_id, self.run_id, self.map_index, *more]
        return hashlib.sha256(json.dumps(parts).encode()).digest()

    def job_name(self, readable: str | None = None) -> str:
        """Return the name of its job, whose runs are those before and after a clear.

        Args:
            readable: The readable part; default: the task.
        """
        words = (
            _name_part(readable) if readable else _name_part(self.task_id)[:_READABLE_MAX]
        ).rstrip("-")
        return f"{words or 'job'}-{base64.b32encode(self._hash_of_run())[:5].decode().lower()}"

    @property
    def key(self) -> str:
        """The key of its submission: another one after each clear."""
        return f"airflow-{self._hash_of_run(self.cleared_at).hex()[:40]}"


def _name_part(text: str) -> str:
    words = as_label(text)
    return words if not words[:1].isdigit() else f"j{words}"
