"""The events of a job that is followed; `follow` yields them, `watch_run` those of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.cluster import JobRef

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.errors import ClusterUnavailable
    from submit_tf_job.operations.submit import Submission


@dataclass(frozen=True)
class Trouble:
    """The cluster does not answer, and is asked again; the next status ends the trouble."""

    error: ClusterUnavailable


@dataclass(frozen=True)
class PrintedLine:
    """A line that the deciding task has written, such as `worker-0 | step 7`."""

    text: str


@dataclass(frozen=True)
class Waits:
    """Why the job waits.

    Attributes:
        causes: The most important one first.
        is_news: Whether the first cause is another one than before.
    """

    causes: tuple[Cause, ...]
    is_news: bool


@dataclass(frozen=True)
class Notice:
    """A sentence for people: all tasks start again, the job is submitted again."""

    text: str


@dataclass(frozen=True)
class NextRun:
    """The run that `retries.memory` starts after one that ran out of memory; it is followed now.

    Attributes:
        ref: The run.
        submission: Its submission, if this follower has submitted it.
    """

    ref: JobRef
    submission: Submission | None = None


@dataclass(frozen=True)
class Pause:
    """Nothing happens for a number of seconds: wait for them, then take the next event."""

    seconds: float


@dataclass(frozen=True)
class End:
    """The last event.

    Attributes:
        status: The last status.
        cause: Why the job failed, if it did.
    """

    status: JobStatus
    cause: Cause | None = None


Event = JobStatus | Trouble | PrintedLine | Waits | Notice | NextRun | Pause | End


def until_end(
    events: Iterable[Event],
    sleep: Callable[[float], None],
    show: Callable[[Event], None] = lambda _event: None,
) -> End:
    """Show the events of a job but pauses, for which this thread sleeps; return the last one."""
    for event in events:
        if isinstance(event, Pause):
            sleep(event.seconds)
        elif isinstance(event, End):
            return event
        else:
            show(event)
    raise AssertionError  # `follow` ends with an `End`, or an error
