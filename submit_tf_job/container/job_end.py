"""How the deciding task ends the job: first all other tasks, then the witness, then itself."""

from __future__ import annotations

import time
from typing import Any

from submit_tf_job.container.command import TaskCommand
from submit_tf_job.container.connections import Peer, Peers
from submit_tf_job.container.hold import Hold
from submit_tf_job.container.info import BootstrapProblem, exit_status
from submit_tf_job.container.job_report import Writer
from submit_tf_job.container.loop import FLUSH_S, Loop
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.ending import end, saves
from submit_tf_job.container.rendezvous.machine import StateMachine
from submit_tf_job.container.rendezvous.members import Member

LAST_REPORT_S = 10.0  # how long the last report is tried again
LAST_S = 3.0  # from the SIGKILL of a command to the end of its deciding task


class JobEnd:
    """The end of the job: which task is told about it when, and how long that task may take to
    end.
    """

    def __init__(
        self, loop: Loop, command: TaskCommand, job: StateMachine, peers: Peers, writer: Writer
    ) -> None:
        self.loop, self.command, self.job = loop, command, job
        self.peers, self.writer = peers, writer
        self.hold = Hold(job, loop.signals)
        self.saved = False  # in a graceful stop: all tasks that save have ended
        self.closing_until = 0.0  # the witness has so long to learn of the end
        self.witness_told_at: float | None = None
        self.leave_by = 0.0  # until when the last report is tried again

    def stopped(self, now: float) -> None:
        """End the job because this task got SIGTERM, from YARN or from `submit_tf_job stop
        --grace`.
        """
        job, until = self.job, self.loop.signals.patient_until
        job.stop(now, graceful=now < until)
        job.linger_until = job.late_until = until if job.graceful else now
        self.command.warn_unstored()
        if job.graceful:
            self.command.stop_grace_s, self.command.saves = until - now, True

    def begin(self, now: float) -> None:
        """End this task's command, and tell the other tasks that the job ends; the witness is told
        last (`_close_application`). In a graceful stop, tell only the tasks that save; when YARN
        stops the job at once, close the connections instead, because it also stops the other tasks.
        """
        job, command = self.job, self.command
        command.end_requested = True
        self.hold.begin(now)
        if command.data and job.verdict == states.FAILED:
            # other tasks may still upload outputs
            job.linger_until = max(job.linger_until, now + command.data.patience_s)
        # the command has a signal from outside already
        command.stop(now, 0 if job.verdict == states.STOPPED else 15)
        for peer, member in self.peers.tasks():
            if job.graceful:
                self.ask_to_save(peer, member)
            elif job.verdict == states.STOPPED:  # YARN stops the others itself
                self.peers.close(peer)
            elif member is not job.witness:  # which is the last: `_close_application`
                self._tell_end(peer, member, **self.hold.left(member))

    def _tell_end(self, peer: Peer, member: Member, **more: Any) -> None:
        peer.send("end", why=self.job.why, status=self.job.leave_status(member), **more)

    def ask_to_save(self, peer: Peer, member: Member) -> None:
        """Tell a task to end its command in a graceful stop, if it is one of those that save
        (`saves`).
        """
        if saves(member):
            left_s = max(1.0, self.job.linger_until - time.monotonic())
            self._tell_end(peer, member, grace_s=round(left_s, 3))

    def save(self, now: float) -> bool:
        """Give the tasks time to save, for as long as the client that stops the job waits. Return
        True only once: in the first call after all of them have ended.
        """
        job, command, until = self.job, self.command, self.loop.signals.patient_until
        if until > job.linger_until:
            job.linger_until = until
            if command.child:
                command.child.spare(until)
            for peer, member in self.peers.tasks():
                if saves(member):
                    peer.send("grace", grace_s=round(until - now, 3))
        if self.saved or not command.idle or job.saving(now):
            return False
        self.saved = True
        job.event(now, "all tasks have ended; waiting for YARN to stop the job")
        return True

    def may_leave(self, now: float) -> bool:
        """Return whether this task may end, because the job has ended."""
        job, idle = self.job, self.command.idle
        if job.graceful:  # YARN's stop comes first, unless whoever stops the job is gone
            return now >= job.linger_until and (idle or now >= job.linger_until + LAST_S)
        if not idle or self._holds_container(now):
            return False
        if (
            not self.peers.listener
        ):  # no task can come; some have to find out that this one was here
            return not job.info.task.get("meeting") or now >= job.late_until
        if job.awaits_latecomers(now):
            return False
        others = any(member is not job.witness for _, member in self.peers.tasks())
        if others and now < job.linger_until:
            return False
        return job.verdict == states.STOPPED or self._close_application(now)

    def _holds_container(self, now: float) -> bool:
        """Return whether a container is held; if the hold has just ended, tell its task."""
        member = self.hold.member
        is_held = self.hold.is_held(now)
        if member is not None and member.peer and not is_held:
            self._tell_end(member.peer, member)
        return is_held

    def told(self, at: float, member: Member) -> None:
        """Note at which time the witness has learned of the job's end; ignore any other task."""
        if member is self.job.witness and self.job.closing:
            self.witness_told_at = at

    def _close_application(self, now: float) -> bool:
        """Tell the witness, after all other tasks, that the job has ended. Return whether the
        witness has learned of the end, or its time for that is over; True without a witness that
        can be told.

        When the container of the witness ends, the ApplicationMaster ends, and soon after it all
        containers that still run.
        """
        job, witness, info = self.job, self.job.witness, self.job.info
        # one that only was away for longer than `grace` is FAILED, too, without a status
        if witness is None or (witness.status is not None and not job.closing):
            return True
        if not job.closing:
            job.closing = True
            self.closing_until = now + max(info.task["grace_s"], info.stop_grace_s + 1.5)
            self.writer.write(now, True, over=True)
            if witness.peer:
                self._tell_end(witness.peer, witness)
        told_at = self.witness_told_at
        return now >= self.closing_until or (told_at is not None and now >= told_at + FLUSH_S)

    def broken(self, now: float, problem: BootstrapProblem) -> None:
        """End the job because of `problem` in this task; tell all other tasks at once, and write
        the last report. A job that is ending already keeps its verdict.
        """
        job, me = self.job, self.job.me
        if job.phase != states.ENDING:
            text = f"{me.name} on {job.info.node}: {problem.message}"
            job.first = job.record(me, now, problem.reason, text)
            job.first["status"] = job.exit = problem.status
            end(job, now, states.FAILED, text)
        for peer, member in self.peers.tasks():
            self._tell_end(peer, member)
        self.leave_by = now  # nothing tries the report again
        self.leave(now)

    def leave(self, now: float) -> None:
        """Write the last report, and end this task. If the report cannot be written, do not end
        yet: the next call tries again, for `LAST_REPORT_S` in all.
        """
        job = self.job
        self.leave_by = self.leave_by or now + LAST_REPORT_S
        if job.graceful:
            for peer, member in self.peers.tasks():
                self._tell_end(peer, member)
        self.loop.final = job.verdict != states.STOPPED
        if not self.writer.write(now, True, over=True) and now < self.leave_by:
            return
        status = exit_status(job.exit)
        if job.verdict == states.STOPPED:
            status = 128 + self.loop.signals.stop()
        told = self.peers.listener or job.info.total == 1
        if not told:
            self.loop.final = False  # another container of this task may be able to listen
        elif job.retries and (job.verdict != states.STOPPED or job.graceful):
            status = 0  # YARN would start it again after any other; the witness tells YARN
        self.loop.exit = status
