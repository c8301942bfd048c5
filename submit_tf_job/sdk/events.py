"""The events of `JobHandle.events`: statuses, and what happens between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.json_values import plain
from submit_tf_job.observation import JobState, JobStatus
from submit_tf_job.operations.follow import NextRun, Notice, PrintedLine, Waits
from submit_tf_job.operations.read_status import error_of
from submit_tf_job.operations.watch_run import Pause, Trouble

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.operations.description import TaskDetail

__all__ = [
    "Event",
    "EventLog",
    "JobState",
    "NextRun",
    "Notice",
    "Pause",
    "PrintedLine",
    "Status",
    "Trouble",
    "Waits",
]


@dataclass(frozen=True, repr=False)
class Status:
    """The status of a job at one moment.

    Attributes:
        job: The observed status of the job, and the verdict.
        root_cause: Why the job failed; None if it did not fail, if no cause was found, or if the
            call that returned this status does not determine the cause (`wait`, `watch`, `show` and
            the end of `events` do).
    """

    job: JobStatus
    root_cause: Cause | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name

    @property
    def run(self) -> str:
        """The run's name, which is also the name of its YARN service."""
        return self.job.run

    @property
    def application_id(self) -> str:
        """The id of the run's YARN application."""
        return self.job.application_id

    @property
    def state(self) -> JobState:
        """The job's state."""
        return self.job.state

    @property
    def reason(self) -> str:
        """Why the job is in this state, as one sentence, such as why it failed or was stopped, or
        what keeps it from starting or ending; "" if there is nothing to say.
        """
        return self.job.verdict.reason

    @property
    def confirmed(self) -> bool | None:
        """Whether YARN and the deciding task both report the end; None before the end."""
        return self.job.verdict.confirmed

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """The progress that the program reported (docs/json.md); None if it has reported none."""
        progress = self.job.report.progress if self.job.report else None
        return progress.to_json() if progress else None

    @property
    def tasks(self) -> tuple[TaskDetail, ...]:
        """The job's tasks with their nodes and containers, as far as this status contains them; a
        status of `JobHandle.describe` contains all of them.
        """
        from submit_tf_job.operations.description import tasks_of

        return tuple(tasks_of(self.job))

    @property
    def is_over(self) -> bool:
        """Whether the state is final: SUCCEEDED, FAILED, STOPPED or UNKNOWN."""
        return self.state.is_final

    @property
    def error(self) -> SubmitTFJobError | None:
        """The error for the job's end: `JobFailed` with the first cause, `JobStopped`, or
        `NoSuchJob` if YARN no longer has a record; else None.
        """
        error = error_of(self.job)
        if error is None or self.root_cause is None:
            return error
        return type(error)(
            f"{self.name} failed: {self.root_cause.sentence}",
            hint=self.root_cause.hint or error.hint,
            details={"root_cause": plain(self.root_cause)},
            retryable=self.root_cause.retryable,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object that `submit_tf_job status -o json` prints (docs/json.md)."""
        from submit_tf_job.jsonview import job_object

        return job_object(self.job, cause=self.root_cause)

    def __repr__(self) -> str:
        from submit_tf_job.report.job_text import progress_words

        progress = self.job.report.progress if self.job.report else None
        words = [self.name, self.state.value, self.reason, progress_words(progress)]
        return f"<{'  '.join(word for word in words if word)}>"

    def __str__(self) -> str:
        from submit_tf_job.report.job_text import job_lines
        from submit_tf_job.report.table import clean

        return "\n".join(map(clean, job_lines(self.job, cause=self.root_cause)))


Event = Status | Trouble | PrintedLine | Waits | Notice | NextRun | Pause


class EventLog:
    """Turns the events of one job into lines for a log: each new state at once, progress at most
    every 30 s, the program's output, and why the job waits.
    """

    def __init__(self) -> None:
        """Start with a job about which nothing was logged yet."""
        from submit_tf_job.report.follow_text import PROGRESS_EVERY_S, EventLines

        self._lines = EventLines(progress_every_s=PROGRESS_EVERY_S, timed=False)

    def lines(self, *events: Event) -> list[str]:
        """Return the lines for the next events, with control characters escaped; none for an event
        that brings nothing new.
        """
        return [line for event in events for line in self._lines_of(event)]

    def _lines_of(self, event: Event) -> Iterable[str]:
        from submit_tf_job.report.table import clean

        shown = event.job if isinstance(event, Status) else event
        return (clean(line).lstrip() for line in self._lines.lines_of(shown))
