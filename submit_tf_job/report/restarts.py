"""One line for each time that all tasks of a job with `retries` start again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus

__all__ = ["Restarts"]


class Restarts:
    """Returns the lines of successive statuses of a job, each once."""

    def __init__(self) -> None:
        """Begin with a job whose tasks have not started again."""
        self._application: str | None = None
        self._told = 0

    def lines(self, status: JobStatus) -> list[str]:
        """Return a line for each generation that has ended since the last call; `retries.memory`
        submits the job again, as another application.
        """
        if status.application_id != self._application:
            self._application, self._told = status.application_id, 0
        retried = status.report and status.report.retried
        if not retried or retried.count <= self._told:
            return []
        told, self._told = self._told, retried.count
        return [
            f"{entry.message}; all tasks start again ({retried.words(entry)})"
            for entry in retried.generations
            if entry.number >= told
        ]
