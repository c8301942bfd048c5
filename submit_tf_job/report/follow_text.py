"""Format a submission, a change of a job, and the events of a followed job, each event as a
line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.json_values import document
from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.follow import Event, NextRun, Notice, PrintedLine, Waits
from submit_tf_job.operations.task_links import links_of
from submit_tf_job.operations.watch_run import Trouble
from submit_tf_job.report.job_text import (
    cause_lines,
    change_line,
    change_text,
    link_lines,
)
from submit_tf_job.status_changes import line_key

if TYPE_CHECKING:
    from submit_tf_job.operations.change import Change
    from submit_tf_job.operations.submit import Submission

PROGRESS_EVERY_S = 30.0  # where the output shows the progress, too
# A long training may report a step each second. Lines of progress become rarer with time, so that
# a log file gets some hundred of them in a day, and a short job shows each step.
_PROGRESS_SHARE, _PROGRESS_AT_MOST_S = 0.02, 300.0


class EventLines:
    """Returns the lines for the successive events of a job.

    Args:
        progress_every_s: Shortest time in seconds between two lines that differ only in progress.
        timed: Whether the line of a status begins with the time since the first status; a log has
            times of its own.
        clock: Returns monotonic seconds; None for `time.monotonic`.
    """

    def __init__(
        self,
        *,
        progress_every_s: float = 0.0,
        timed: bool = True,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._clock, self._timed = clock or time.monotonic, timed
        self._begun, self._printed_at = self._clock(), float("-inf")
        self._progress_every_s = progress_every_s
        self._text = ""
        self._key: tuple[object, ...] = ()
        self._links: dict[tuple[str, str], str] = {}
        self._last: JobStatus | None = None

    def lines_of(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event; none if nothing has changed, or if the last line about
        progress was too short a time ago.
        """
        if isinstance(event, JobStatus):
            self._last = event
            yield from self._lines_of_status(event)
        elif isinstance(event, PrintedLine):
            yield event.text
        elif isinstance(event, Notice):
            yield f"     {event.text}"
        elif isinstance(event, Trouble):
            yield f"the cluster does not answer; still trying: {event.error.message}"
        elif isinstance(event, NextRun):
            yield f"     submitted again as {event.ref.application_id}, run {event.ref.run}"
        elif isinstance(event, Waits) and event.is_news:
            yield from (f"     {line}" for line in cause_lines(event.causes[:1]))

    def interrupted_message(self, name: str) -> str:
        """Return the message after an interrupt of the command: the state of the job, and how to
        follow or stop it later.
        """
        if self._last is not None and self._last.state.is_final:
            return (
                f"{name} is over, and may have been submitted again. Run the same command again to "
                f"find out."
            )
        doing = self._last.state.value.lower() if self._last else "running"
        return (
            f"Job {name} is still {doing}. Reattach: submit_tf_job wait {name}    Stop: "
            f"submit_tf_job stop {name}"
        )

    def _lines_of_status(self, status: JobStatus) -> Iterator[str]:
        """Yield a line if its text has changed: at once if the state is another, else only when the
        next line is due.
        """
        now, key, text = self._clock(), line_key(status), change_text(status)
        rarer_s = min((now - self._begun) * _PROGRESS_SHARE, _PROGRESS_AT_MOST_S)
        is_due = now - self._printed_at >= max(self._progress_every_s, rarer_s)
        if text != self._text and (is_due or key != self._key):
            yield change_line(status, now - self._begun) if self._timed else text
            self._text, self._key, self._printed_at = text, key, now
        yield from self._new_links(status)

    def _new_links(self, status: JobStatus) -> Iterator[str]:
        """Yield each address that a task serves, once, when the task has reported it."""
        links = links_of(status)
        new = [link for link in links if self._links.get((link.task, link.name)) != link.url]
        self._links.update({(link.task, link.name): link.url for link in links})
        yield from (f"       {text}" for text in link_lines(new))


# --- after a submission or a change ---------------------------------------------------------------


def submitted_lines(
    done: Submission, resource_manager: str, *, detail: bool = False
) -> Iterator[str]:
    """Return the lines after a submission: the run, and the next commands.

    Args:
        done: The submission.
        resource_manager: URL of a ResourceManager, for the application's page.
        detail: Whether to show the submission's id.
    """
    name, app = done.ref.name, done.ref.application_id
    yield f"{submitted_line(done)}{clause(', submission {}', detail and done.plan.key)}"
    yield f"  submit_tf_job watch {name}    submit_tf_job logs {name} -f"
    yield f"  {resource_manager}/cluster/app/{app}"


def submitted_line(done: Submission) -> str:
    """Return which run a submission has started or found."""
    name = done.ref.name
    what = f"{name} was submitted already, as" if done.adopted else f"Submitted {name} as"
    if done.after and not done.adopted:
        what = f"{name} runs again ({done.after} has ended), as"
    return f"{what} {done.ref.run} ({done.ref.application_id})"


def change_object(change: Change) -> dict[str, Any]:
    """Return the object that `scale`, `restart`, `priority`, `move` and `extend` print."""
    return document(
        "Change",
        verb=change.verb,
        name=change.ref.name,
        run=change.ref.run,
        application_id=change.ref.application_id,
        changed=change.changed,
        value=change.value,
        message=change.message,
    )
