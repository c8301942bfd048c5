"""The job's state machine in the deciding task: its events, and what other modules read from it.

This module has no sockets and no clock: each method gets `now`, seconds of a monotonic clock. The
event loop acts on changes of `phase` and `verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from submit_tf_job.container import contract, untrusted
from submit_tf_job.container.info import Info
from submit_tf_job.container.progress import clean_progress
from submit_tf_job.container.rendezvous import arrivals, ending, failures, start, states
from submit_tf_job.container.rendezvous.members import Member, Rendezvous

PACE_S = 10.0  # no estimate before this


class StateMachine(Rendezvous):
    """The state machine: its methods take events; the results are `phase`, `verdict`, `exit` and
    the lists for the report.
    """

    def __init__(self, info: Info, now: float, tell: Callable[[str], None]) -> None:
        super().__init__(info, now, tell)
        self.set_state(self.me, states.ARRIVED)
        self.me.process, self.me.host, self.me.container = info.process, info.node, info.container
        self.me.attempt = info.attempt
        if info.ignored_image:
            arrivals.ignores_image(self, now, self.me, info.ignored_image)
        if self.barrier > 1:
            self.event(now, f"waiting for {self.barrier} tasks")

    @property
    def stage(self) -> tuple[str, int]:
        """The phase and the generation; the event loop acts when one of them changes."""
        return self.phase, self.generation

    # --- events, and questions, of one topic ------------------------------------------------------
    hello, connection_lost, ready, is_stale = (
        arrivals.hello,
        arrivals.connection_lost,
        arrivals.ready,
        arrivals.is_stale,
    )
    without_dns_name, hosts, ports = start.without_dns_name, start.hosts, start.ports
    prepared, released = start.prepared, start.released
    stop, saving, leave_status = ending.stop, ending.saving, ending.leave_status
    awaited, awaits_latecomers = ending.awaited, ending.awaits_latecomers

    # --- tasks ------------------------------------------------------------------------------------
    def running(self, member: Member) -> None:
        """Record that a task's command runs, if the task was waiting for its start."""
        if member.state == states.ARRIVED:
            self.set_state(member, states.ALIVE)

    def done(self, now: float, member: Member, message: Mapping[str, Any]) -> None:
        """Handle the end of a task's command; `message` is a record as `info.describe` returns it,
        with further fields. Ignored for a command of an earlier generation, and for a task that has
        ended or restarts.
        """
        if self.stays(member) and message.get("generation") != self.generation:
            return  # of an earlier generation
        if member.state in states.OUT or member.state == states.RESTARTING:
            return
        member.status = untrusted.whole(message.get("status"))
        member.directory = untrusted.text(message.get("directory"), 1000)
        member.met = message["met"] if isinstance(message.get("met"), bool) else None
        at = now - min(untrusted.seconds(message.get("ago")), 600.0)
        reason = untrusted.text(message.get("reason"), 50)
        text = untrusted.text(message.get("message"), 500)
        record = self.record(member, at, reason, text)
        record.update(status=member.status, signal=untrusted.whole(message.get("signal")))
        record["last_lines"] = untrusted.texts(message.get("last_lines"))
        self.keep_stored(member, message.get("stored"))
        if member is self.me:
            self.outcome = {key: record[key] for key in ("status", "signal")}
            self.outcome["duration_s"] = message.get("duration_s")
        if reason == "ended" and self.phase == states.ENDING:
            self.set_state(member, states.ENDED)
        elif reason == "ended":
            # its program may end with 0 at the SIGTERM
            member.status = contract.EXIT_DECIDING_LOST
            alone = failures.ended_alone(self, member)
            failures.failed(self, now, member, dict(record, status=member.status, message=alone))
        elif member.status == 0:
            self.set_state(member, states.SUCCEEDED)
            self.event(now, f"{member.name} is done")
            ending.check(self, now)
        else:
            failures.failed(self, now, member, record)

    # --- progress ---------------------------------------------------------------------------------
    def record_progress(self, now: float, member: Member, value: Any) -> None:
        """Keep the progress of the deciding task; as long as it reports none, the latest progress
        of any task.
        """
        clean = clean_progress(value)
        if clean:
            self.news.heard(now, member.name, clean["step"])
        if clean and (
            member is self.me or not self.progress or self.progress["task"] != self.me.name
        ):
            self.progress = dict(clean, task=member.name, at=self.info.wall + now)
            left_s = self._left_s(now, member.name, clean)
            if left_s is not None:
                self.progress["left_s"] = left_s
            self.usage.metrics(now - self.started, member.name, clean, decides=member is self.me)
            self._warn_of_metrics(now, member, clean)

    def _warn_of_metrics(self, now: float, member: Member, progress: Mapping[str, Any]) -> None:
        """Warn of metrics that are not finite, with the time since when; remove the warning when
        they are finite again.
        """
        step, unit = progress.get("metrics_step", progress["step"]), progress.get("unit", "step")
        for name, value in progress["metrics"].items():
            about = f"{member.name} metric {name}"
            if value not in contract.NOT_FINITE:
                if about in self.warned:
                    self.warn(now, "", about)
            elif about not in self.warned:
                since = "" if step is None else f" since {unit} {step:g}"
                what = "NaN" if value == "NaN" else "infinite"
                self.warn(now, f"{name} is {what}{since}", about)

    def _left_s(self, now: float, name: str, progress: Mapping[str, Any]) -> float | None:
        """Return an estimate of the remaining seconds, from the speed since the first progress in
        this generation; None if it is too early for one, or the total is not known.
        """
        step, total, part = progress["step"], progress["total"], progress.get("part")
        if part is None and step is not None and total:
            part = step / total
        if part is None or not 0 <= part <= 1:
            return None
        first = self.first_progress
        if first is None or first[0] != name or part < first[2]:
            self.first_progress = (name, now, part)
            return None
        gone, took = part - first[2], now - first[1]
        return round((1 - part) * took / gone, 1) if gone > 0 and took >= PACE_S else None

    def training(self) -> list[str]:
        """Return the tasks that train and whose commands run. Roles with `ports` are left out,
        because a server may wait for its users.
        """
        return [
            member.name
            for member in self.cluster
            if member.role_kind == contract.KIND_TRAINS and member.state == states.ALIVE
            if not self.info.roles[member.role].get("ports")  # what serves waits for its users
        ]

    # --- time -------------------------------------------------------------------------------------
    def tick(self, now: float, read_until: float | None = None) -> None:
        """Handle the deadlines that have passed, and include elastic tasks that have arrived. Do
        nothing once the job ends.

        Args:
            read_until: All messages that had arrived by this time have been read; so a deadline for
                another task that is later than this time counts as not passed yet. None means now.
        """
        if self.phase == states.ENDING:
            return
        read = now if read_until is None else read_until
        for member in list(self.away.values()):
            failures.overdue(self, now, read, member)
        if self.failures:
            if read >= self.settle_until:
                failures.fail_lost(self, now, late=True)
                failures.name_cause(self, now)
        elif self.phase == states.WAITING:
            start.begin(self, now, read)
        elif self.phase == states.FINISHING and ending.finish(self, now, read):
            failures.name_cause(self, now)
        if self.phase in (states.RUNNING, states.FINISHING) and not self.failures:
            start.check_held(self, now, read)
        failures.grow(self, now)

    def record_suspension(self, now: float, seconds: float) -> None:
        """Record that the deciding task was suspended.

        The other tasks may have given the deciding task up in the meantime, and closed their
        connections.
        """
        self.still_s += seconds
        self.trusted_at = now + self.info.task["grace_s"]
        for member in self.away.values():
            member.closed = False
        text = "%s stood still for %d s: it was suspended (SIGSTOP, a paused container or machine)"
        self.warn(now, text % (self.me.name, seconds))

    def exclude_suspension(self, now: float, seconds: float) -> None:
        """Exclude the time in which the deciding task was suspended from the waiting times for
        other tasks.
        """
        for member in self.away.values():
            member.since = min(now, member.since + seconds)
        self.wary_until = now + 2 * self.info.settle_s
        if self.failures:
            self.settle_until = max(self.settle_until, now + self.info.settle_s)
