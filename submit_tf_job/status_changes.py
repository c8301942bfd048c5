"""Detect whether a job has changed since its last status. Four questions are asked, and for each a
function returns a value (key) to compare: the answer is yes if it is not equal to that of the last
status.

1. `pace_key`: is the status read again soon? (operations/watch_run.py)
2. `line_key`: is a changed line printed at once, or only when it is due? (report/follow_text.py)
3. `callback_key`: is `on_change` of `JobHandle.wait` called? (sdk/handle.py)
4. `event_key`: is an event sent to those who listen to a job? (gateway/watchers.py)

Progress changes only the last two keys: otherwise a training that reports a step each second would
cause a request and a printed line each second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus

_IN_EVENTS = (
    "application_id",
    "state",
    "reason",
    "progress",
    "standstill",
    "awaited",
    "retries",
    "tasks",
    "roles",
    "confirmed",
    "links",
    "outputs",
)


def pace_key(status: JobStatus) -> tuple[object, ...]:
    """Return a value that changes while a job starts or ends. It consists of the states of the job,
    its application and its report, and the numbers of arrived tasks and of containers; progress
    does not change it.
    """
    report, app = status.report, status.app
    return (
        status.state,
        app and app.state,
        report and (report.state, report.arrived),
        len(status.containers),
    )


def line_key(status: JobStatus) -> tuple[object, ...]:
    """Return a value that changes with the job's state, with the state in the job's report, and
    when a training stops making progress, or makes progress again.
    """
    report = status.report
    return status.state, report and report.state, bool(report and report.standstill)


def callback_key(status: JobStatus) -> tuple[object, ...]:
    """Return a value that changes with state, reason and progress, and when all tasks start
    again.
    """
    report = status.report
    progress = report.progress.to_json() if report and report.progress else None
    retried = report and report.retried
    written = json.dumps(progress, sort_keys=True, default=str)
    return status.state, status.verdict.reason, written, retried and retried.count


def event_key(job: Mapping[str, Any]) -> str:
    """Return a value that changes with everything that a listener shows: application, state,
    reason, confirmation, progress, tasks, roles, standstill, awaited tasks, retries, links and
    outputs.

    Args:
        job: The job's object for `-o json`.
    """
    relevant = {name: job[name] for name in _IN_EVENTS}
    text = json.dumps(relevant, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
