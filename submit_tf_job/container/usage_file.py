"""Write `job-usage.json`: the resource usage of the tasks, and the curves. The file is beside the
job's report, in the log directory of the deciding task; only commands that show its content read
it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract, task_files
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.machine import StateMachine

TASKS_LISTED = 200
EVERY_S = 10.0  # between two points of the use
RECORD_BYTES = 65536
FEWEST = 30  # points of a curve that a record keeps before it leaves tasks out


class UsageWriter:
    """Writes `job-usage.json` every 10 s (less often for more than 2,000 tasks), and at the end."""

    def __init__(self, job: StateMachine, path: str) -> None:
        """Prepare to write to `path`; "" if there is no log directory."""
        self.job, self.path, self.due = job, path, 0.0
        self.last: dict[str, Any] | None = None

    def write(self, now: float, over: bool) -> None:
        """Add a point to the curves and write the file, if it is due or the job is `over`, and
        there is something to write; ignore errors of the disk.
        """
        job = self.job
        if not (job.usage.tasks or job.usage.curves) or not (over or now >= self.due):
            return
        self.due = now + max(EVERY_S, len(job.usage.tasks) / 200)
        alive = {member.name for member in job.members.values() if member.state == states.ALIVE}
        roles = job.usage.roles(alive)
        job.usage.add_points(now - job.started, roles)
        heard = [name for name in job.members if name in job.usage.tasks]
        self.last = {
            "version": contract.REPORT_VERSION,
            "run": job.info.run,
            "started_at": job.info.wall + job.started,
            "updated_at": job.info.wall + now,
            "roles": roles,
            "tasks": [dict(job.usage.tasks[name], task=name) for name in heard[:TASKS_LISTED]],
            "series": job.usage.series(),
        }
        if self.path:
            with contextlib.suppress(OSError):
                task_files.write_json(self.path, self.last)

    def record(self) -> bytes:
        """Return the content for the run's record; b"" if nothing was written, or if it is too
        large even when shortened.
        """
        return shortened(self.last) if self.last else b""


def shortened(usage: Mapping[str, Any], most_bytes: int = RECORD_BYTES) -> bytes:
    """Return the content for a run's record: the resource usage that was written last. If it is
    larger than `most_bytes`, first reduce the points of its curves, then leave out the tasks; b""
    if that is not enough.
    """
    kept = dict(usage, series=[dict(curve) for curve in usage["series"]])
    while True:
        text = json.dumps(kept, separators=(",", ":"), sort_keys=True).encode("utf-8")
        points = max((len(curve["points"]) for curve in kept["series"]), default=0)
        if len(text) <= most_bytes or (points <= 1 and not kept["tasks"]):
            return text if len(text) <= most_bytes else b""
        if points <= FEWEST and kept["tasks"]:
            kept["tasks"] = []
        else:
            for curve in kept["series"]:
                curve["points"] = curve["points"][len(curve["points"]) % 2 ^ 1 :: 2]
