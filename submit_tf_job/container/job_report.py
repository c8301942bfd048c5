"""The job's report: one file that says everything, in the deciding container's log directory."""

from __future__ import annotations

import os

from submit_tf_job import contract
from submit_tf_job.bootstrap import files
from submit_tf_job.bootstrap import job as states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from submit_tf_job.bootstrap.job import Job

TASKS_LISTED = 200
HEARTBEAT_S = 30.0  # an unchanged report is written again, so that its age tells whether the deciding task lives


def snapshot(job: Job, now: float, over: bool) -> dict[str, Any]:
    """Build the report; `over` says that nothing can change any more."""
    info, wall = job.info, job.info.wall
    state = job.phase
    if state == states.ENDING:
        state = job.verdict if over or job.verdict != states.SUCCEEDED else states.FINISHING
    waiting = job.phase == states.WAITING or (job.first or {}).get("reason") == "peers-missing"
    report: dict[str, Any] = {
        "version": contract.REPORT_VERSION,
        "job": info.task["job"],
        "submission": info.submission,
        "deciding": info.deciding,
        "container": info.container,
        "attempt": job.me.attempt,
        "state": state,
        "started_at": wall + job.started,
        "updated_at": wall + now,
        "ended_at": wall + now if over else None,
        "wanted": job.barrier,
        "arrived": job.barrier - job.absent,
        "missing": job.missing()[: states.KEPT] if waiting else [],
        "roles": {role: _role(job, role) for role in info.counts},
        "outcome": job.outcome,
        "first_failure": job.first,
        "later_failures": job.later,
        "warnings": job.warnings,
        "progress": job.progress,
        "events": job.events,
    }
    if info.credentials:
        report["credentials"] = info.credentials
    if len(job.members) <= TASKS_LISTED:
        report["tasks"] = [
            dict({key: getattr(m, key) for key in ("host", "address", "container", "state", "attempt", "status")}, task=m.name)
            for m in job.members.values()
        ]
    return report


def _role(job: Job, role: str) -> dict[str, int]:
    counts = job.counts[role]
    wanted = sum(counts.values())
    shown = (states.ALIVE, states.SUCCEEDED, states.FAILED, states.ENDED, states.LOST)
    found = {"wanted": wanted, "arrived": wanted - counts.get(states.ABSENT, 0), "restarts": job.restarts[role]}
    found["max_restarts"] = job.info.roles[role]["max_restarts"]
    found.update({state: counts.get(state, 0) for state in shown})
    return found


class Writer:
    """Writes the report at most once a second, and at once where the job's state changes."""

    def __init__(self, job: Job) -> None:
        """Write into the log directory, if there is one that can be written."""
        folder = job.info.log_dir
        self.job, self.path = job, os.path.join(folder, contract.REPORT_FILE) if folder else ""
        self._written, self._state = -HEARTBEAT_S, ""
        self.last: dict[str, Any] | None = None

    def write(self, now: float, changed: bool, over: bool = False) -> bool:
        """Write if it is time; True when what changed is in the file."""
        state = self.job.phase + self.job.verdict
        if not self.path or not (over or state != self._state or now >= self._written + (1.0 if changed else HEARTBEAT_S)):
            return not self.path
        self._written, self._state = now, state
        try:
            self.last = snapshot(self.job, now, over)
            files.write_json(self.path, self.last)
        except OSError as err:
            self.job.warn(now, "the report cannot be written: %s" % err)
            self.path = ""
        return True
