"""Hold the container of the task that failed first, so that a person can look at it
(`hold_on_failure`).

The verdict is in the report already before the hold, and does not wait for its end. The deciding
task stays until the hold is over, because its end is the end of the application; of the other
tasks, only the failed task stays.
"""

from __future__ import annotations

import time
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.child import Signals
from submit_tf_job.container.info import log_hold
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.machine import StateMachine
from submit_tf_job.container.rendezvous.members import Member

_OF_OTHERS = ("peers-missing", "wrong-job")  # reasons that say nothing of the task itself
LEAVES_S = 2.0  # for the held task to end, once it is told


class Hold:
    """The hold of one container, with its state in the deciding task."""

    def __init__(self, job: StateMachine, signals: Signals) -> None:
        self.job, self.signals = job, signals
        self.limit_s = float(job.info.task.get("hold_s", 0.0))
        self.until = 0.0
        self.seen_at = 0.0  # when the held task was last connected
        self.member: Member | None = None  # the task whose container is held

    def may_be(self, member: Member) -> bool:
        """Return whether a task that has ended must stay until the first failure is known, because
        its container may be held.
        """
        failed = any(record["task"] == member.name for record in self.job.failures)
        return bool(self.limit_s) and failed and self.job.phase != states.ENDING

    def begin(self, now: float) -> None:
        """If the job has failed, hold the container of the first failure, provided that its task is
        connected. Do nothing without `hold_on_failure`, after a stop, or if the task has only
        missed others.
        """
        job, first = self.job, self.job.first
        if not self.limit_s or job.verdict != states.FAILED or not first or self.signals.stop():
            return
        member = job.members[first["task"]]
        is_here = member is job.me or member.peer is not None
        if not is_here or first["reason"] in _OF_OTHERS:
            return
        self.member, self.until, self.seen_at = member, now + self.limit_s, now
        job.kept = {
            "task": member.name,
            "host": member.host,
            "container": member.container,
            "directory": job.info.cwd if member is job.me else member.directory,
            "until": job.info.wall + self.until,
        }
        job.event(now, f"the container of {member.name} {contract.EVENT_HELD} {self.limit_s:g} s")
        if member is job.me:
            log_hold(job.info, self.limit_s)

    def left(self, member: Member) -> dict[str, Any]:
        """Return `hold_s`, the seconds for which a task must stay, as a field of the message that
        the job has ended; {} for a task that is not held.
        """
        left_s = self.until - time.monotonic()
        return {"hold_s": round(left_s, 3)} if member is self.member and left_s > 0 else {}

    def is_held(self, now: float) -> bool:
        """Return whether the container is still held. End the hold if its time is over, if the task
        has gone, or if a signal came (from `release`, or from a stop).
        """
        job, member = self.job, self.member
        if member is None:
            return False
        if member is job.me or member.peer is not None:
            self.seen_at = now
        is_gone = now >= self.seen_at + max(contract.CLOSED_S, job.info.task["grace_s"])
        if now < self.until and not is_gone and not self.signals.stop():
            return True
        self.member, self.until, job.kept = None, 0.0, None
        job.linger_until = now + LEAVES_S
        why = "it is gone" if is_gone else "its time is over"
        if self.signals.stop():
            why = "released"
        job.event(now, f"the container of {member.name} {contract.EVENT_NOT_HELD}: {why}")
        return False
