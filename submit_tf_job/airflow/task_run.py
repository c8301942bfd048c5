"""The name of a task instance's job, and the idempotency key of its submission. This module does
not import Airflow.

A worker may die between the POST and its response, and the next try then has no record of it. So
the job's name and the submission's key are made from what both tries share: the Airflow, the DAG,
the task, the run, and the map index; the key also depends on how often the task was cleared.
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
    """A task instance in the time from its first try until it is cleared.

    Attributes:
        airflow: The base URL of this Airflow, which identifies it among others that use the same
            cluster.
        cleared_at: The number of tries before the task was last cleared, or 0. Clearing sets
            `max_tries` to the number of tries so far plus the task's retries (Airflow's
            clear_task_instances), so this number is `max_tries` minus the task's retries.
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
        """Return the name of the task instance's job. The runs before and after a clear are runs of
        this one job.

        Args:
            readable: The readable part of the name; default: the task's id.
        """
        words = (
            _name_part(readable) if readable else _name_part(self.task_id)[:_READABLE_MAX]
        ).rstrip("-")
        return f"{words or 'job'}-{base64.b32encode(self._hash_of_run())[:5].decode().lower()}"

    @property
    def key(self) -> str:
        """The idempotency key of the task instance's submission (`submission_id`): all tries have
        the same key, and after each clear of the task it is a different one.
        """
        return f"airflow-{self._hash_of_run(self.cleared_at).hex()[:40]}"


def _name_part(text: str) -> str:
    words = as_label(text)
    return words if not words[:1].isdigit() else f"j{words}"
