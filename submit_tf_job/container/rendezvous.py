"""The job as its deciding task sees it: who has arrived, what failed first, when it is over. No sockets, no clock of its own.

Every method gets `now`, seconds of a clock that only moves forward; the event loop acts on what `phase` and `verdict` become.
"""

from __future__ import annotations

from submit_tf_job import contract
from submit_tf_job.bootstrap import files
from submit_tf_job.bootstrap.info import exit_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from submit_tf_job.bootstrap.info import Info

WAITING, RUNNING, FINISHING, ENDING = "waiting", "running", "finishing", "ending"
LATE_S = 20.0  # a container that YARN started with the others is there by then
ABSENT, ARRIVED, ALIVE, RESTARTING, LOST = "absent", "arrived", "running", "restarting", "lost"
SUCCEEDED, FAILED, ENDED, STOPPED = "succeeded", "failed", "ended", "stopped"
OUT = (SUCCEEDED, FAILED, ENDED)  # states that nothing leaves
AWAY = (LOST, RESTARTING)
AWAITED = (ABSENT, LOST, RESTARTING)
MOST_SIDECARS = 1000  # of one role; they come from outside, and memory is not to
KEPT = 20  # entries in the lists of a report


def listed(names: list[str]) -> str:
    """Join names for a sentence: the first twenty and how many there are."""
    more = len(names) - KEPT
    return ", ".join(names[:KEPT]) + (" and %d more" % more if more > 0 else "")


class Member:
    """One task, as far as it is known."""

    def __init__(self, role: str, index: int, duty: str) -> None:
        """Start absent."""
        self.role, self.duty, self.name, self.state = role, duty, "%s-%d" % (role, index), ABSENT
        self.run = self.host = self.address = self.container = ""
        self.attempt = self.failures = 0
        self.status: int | None = None
        self.peer: Any = None
        self.since = 0.0  # of being lost or between two attempts
        self.stopping = False  # it said that YARN stops it


class Job:
    """What happens goes in through methods; `phase`, `verdict`, `exit` and the lists of the report come out."""

    def __init__(self, info: Info, now: float, tell: Callable[[str], None]) -> None:
        """Begin to wait; `now` is the start of the deciding bootstrap, `tell` gets each event."""
        task = info.task
        self.tell = tell
        self.info, self.phase, self.verdict, self.exit = info, WAITING, "", 0
        self.why = ""  # it ended
        self.again = False  # it ends for this attempt of the deciding task only
        self.members = {
            "%s-%d" % (role, index): Member(role, index, info.duty(role, index))
            for role in info.counts
            for index in range(info.counts[role])
        }
        self.me = self.members[info.name]
        self.barrier = sum(1 for m in self.members.values() if m.duty != contract.DUTY_SIDECAR)
        self.absent = self.barrier  # tasks the start waits for, still without those that came
        self.counts = {role: {ABSENT: count} for role, count in info.counts.items()}
        self.restarts = dict.fromkeys(info.counts, 0)
        self.unresolved: set[str] = set()
        cluster = info.cluster()
        if sum(cluster.values()) > 1:
            self.unresolved = {"%s-%d" % (role, index) for role, count in cluster.items() for index in range(count)}
        self.away: dict[str, Member] = {}
        self.failures: list[dict[str, Any]] = []  # candidates for the first cause, until it is named
        self.first: dict[str, Any] | None = None
        self.later: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.progress: dict[str, Any] | None = None
        self.outcome: dict[str, Any] | None = None
        self.started = now
        self.start_deadline = now + task["start_timeout_s"]
        self.settle_until = self.finish_deadline = self.linger_until = self.late_until = now
        self._set(self.me, ARRIVED)
        self.me.run, self.me.host, self.me.container, self.me.attempt = info.run, info.node, info.container, info.attempt
        if self.barrier > 1:
            self.event(now, "waiting for %d tasks" % self.barrier)

    # --- small things ------------------------------------------------------------------------------------------------
    def _set(self, m: Member, state: str, now: float = 0.0) -> None:
        """Move a task to another state and keep every count right in constant time."""
        counts = self.counts[m.role]
        counts[m.state] -= 1
        counts[state] = counts.get(state, 0) + 1
        if m.duty != contract.DUTY_SIDECAR:
            self.absent += (state in AWAITED) - (m.state in AWAITED)
        m.state = state
        if state in AWAY:
            m.since = now
            self.away[m.name] = m
        else:
            self.away.pop(m.name, None)

    def event(self, now: float, text: str) -> None:
        """Remember what happened: the first fifty things and the last fifty."""
        self.tell(text)
        if len(self.events) >= 100:
            del self.events[50]
        self.events.append({"at": self.info.wall + now, "text": text[:500]})

    def warn(self, now: float, text: str) -> None:
        """Remember what a person should know although it does not fail the job."""
        if len(self.warnings) < KEPT:
            self.warnings.append(text[:500])
        self.event(now, text)

    def missing(self) -> list[str]:
        """Name the tasks that the start waits for: those that are not here, else those that DNS does not know."""
        away = [m.name for m in self.members.values() if m.duty != contract.DUTY_SIDECAR and m.state in AWAITED]
        return away or sorted(self.unresolved)

    def leave_status(self, m: Member) -> int:
        """Decide the exit status of a task that is told to end; a task that YARN would start again leaves with 0."""
        if m.state in (SUCCEEDED, FAILED) and m.status is not None:
            return exit_status(m.status)
        over = self.verdict == SUCCEEDED or self.info.roles[m.role]["max_restarts"] > 0
        return 0 if over else contract.EXIT_JOB_FAILED

    # --- what happens ------------------------------------------------------------------------------------------------
    def hello(self, now: float, message: Mapping[str, Any], peer: Any) -> tuple[Member | None, str]:
        """Take in a task that says who it is.

        Returns:
            The task, and "welcome", "end" (the job is over), "finished" (this task had its end), "busy" (another one of the same
            name is connected: come again), "wrong-job", or None and "bad" for what makes no sense.
        """
        if message.get("submission") != self.info.submission:
            return None, "wrong-job"
        m = self._member(message.get("role"), message.get("index"))
        run, attempt = message.get("run"), message.get("attempt")
        if m is None or m is self.me or not isinstance(run, str) or not isinstance(attempt, int):
            return None, "bad"
        if m.peer not in (None, peer) and m.run != run:
            return None, "busy"
        if m.state in OUT and (m.run != run or message.get("state") != "done"):
            return m, "finished"
        if self.phase == ENDING and message.get("state") != "done":
            self._set(m, ENDED)
            return m, "end"
        if m.run != run and m.run:
            if self._replaced(now, m):
                return m, "end"
            m.attempt += 1
        m.attempt = max(m.attempt, attempt)
        m.run, m.peer, m.stopping = run, peer, False
        m.host, m.address, m.container = (str(message.get(key, ""))[:255] for key in ("host", "address", "container"))
        if m.state not in OUT:
            if m.state == ABSENT and self.barrier <= KEPT:
                self.event(now, "%s is here, on %s" % (m.name, m.host))
            over = message.get("state") == "done" and self.phase == WAITING  # how it ended comes next; nobody is to start before
            self._set(m, ABSENT if over else ALIVE if message.get("state") == "running" else ARRIVED)
        if self.me.run != message.get("seen") and isinstance(message.get("decider_attempt"), int):
            self.me.attempt = max(self.me.attempt, message["decider_attempt"] + 1)  # YARN started the deciding task again
        return m, "welcome"

    def _member(self, role: Any, index: Any) -> Member | None:
        """Return the task of a role and an index; a sidecar that was added while the job ran is taken in."""
        name = "%s-%s" % (role, index)
        if name not in self.members and isinstance(role, str) and isinstance(index, int) and self._may_join(role, index):
            self.members[name] = Member(role, index, contract.DUTY_SIDECAR)
            self.counts[role][ABSENT] = self.counts[role].get(ABSENT, 0) + 1
        return self.members.get(name)

    def _may_join(self, role: str, index: int) -> bool:
        return self.info.may_grow(role) and 0 <= index < 100000 and sum(self.counts[role].values()) < MOST_SIDECARS

    def _replaced(self, now: float, m: Member) -> bool:
        """Account for a task that YARN started again without a word of its former self; True when that ends the job."""
        if m.state != LOST:
            return False
        self._failed(now, m, self._lost_record(m))
        return m.state in OUT

    def gone(self, now: float, m: Member) -> None:
        """Note that a task's connection went away."""
        m.peer = None
        if m.state in OUT or m.state == RESTARTING:
            return
        if self.phase == WAITING:
            self._set(m, ABSENT)
        elif self.phase == ENDING:
            self._set(m, ENDED)
        else:
            self._set(m, LOST, now)
            self.event(now, "the connection to %s went away" % m.name)
            if self.failures:  # the one that vanished took the other one down: TensorFlow's peers notice within 0.2 s
                self._blame_lost(now)

    def running(self, m: Member) -> None:
        """Note that a task's command runs."""
        if m.state == ARRIVED:
            self._set(m, ALIVE)

    def told_progress(self, now: float, m: Member, value: Any) -> None:
        """Keep the deciding task's progress, or the freshest of the others."""
        clean = files.clean_progress(value)
        if clean and (m is self.me or not self.progress or self.progress["task"] != self.me.name):
            self.progress = dict(clean, task=m.name, at=self.info.wall + now)

    def done(self, now: float, m: Member, message: Mapping[str, Any]) -> None:
        """Take in the end of a task's command (`message` as `describe` and the other tasks make it)."""
        if m.state in OUT or m.state == RESTARTING:
            return
        status, signal, ago, lines = (message.get(key) for key in ("status", "signal", "ago", "last_lines"))
        m.status = status if isinstance(status, int) else None
        at = now - (max(0.0, min(ago, 600.0)) if isinstance(ago, (int, float)) else 0.0)
        record = self._record(m, at, str(message.get("reason"))[:50], str(message.get("message"))[:500])
        record.update(status=m.status, signal=signal if isinstance(signal, int) else None)
        record["last_lines"] = [str(line)[:500] for line in lines[:KEPT]] if isinstance(lines, list) else []
        if m is self.me:
            self.outcome = {"status": m.status, "signal": record["signal"], "duration_s": message.get("duration_s")}
        if record["reason"] == "ended" and self.phase == ENDING:
            self._set(m, ENDED)
        elif m.status == 0:
            self._set(m, SUCCEEDED)
            self.event(now, "%s is done" % m.name)
            if m is self.me and self.phase in (WAITING, RUNNING):
                self._finish(now)
        else:
            self._failed(now, m, record)

    def stop(self, now: float) -> None:
        """YARN stops the deciding task, which is how it stops a job."""
        if self.phase != ENDING:
            self._end(now, STOPPED, "stopped from outside")

    def tick(self, now: float) -> None:
        """Let time pass."""
        if self.phase == ENDING:
            return
        for m in list(self.away.values()):
            self._overdue(now, m)
        if self.failures:
            if now >= self.settle_until:
                self._name_cause(now)
        elif self.phase == WAITING:
            if not self.absent and not self.unresolved:
                self.phase = RUNNING
                if self.barrier > 1:
                    self.event(now, "all %d tasks are here" % self.barrier)
            elif now >= self.start_deadline:
                self._peers_missing(now)
        elif self.phase == FINISHING:
            self._finished(now)

    # --- failures ----------------------------------------------------------------------------------------------------
    def _record(self, m: Member, at: float, reason: str, message: str) -> dict[str, Any]:
        who = {"task": m.name, "host": m.host, "container": m.container, "at": self.info.wall + at}
        return dict(who, status=None, signal=None, reason=reason, message=message, last_lines=[])

    def _lost_record(self, m: Member) -> dict[str, Any]:
        text = "%s was lost: its connection from %s went away and did not come back (killed, or its node died)" % (m.name, m.host or "?")
        if m.stopping:
            text = "%s was stopped from outside by SIGTERM (preempted, its node drained, or killed by hand)" % m.name
        record = self._record(m, m.since, "killed" if m.stopping else "lost", text)
        return dict(record, signal=15) if m.stopping else record

    def _overdue(self, now: float, m: Member) -> None:
        task = self.info.task
        if m.state == LOST and now >= m.since + task["grace_s"]:
            self._failed(now, m, self._lost_record(m))
        elif m.state == RESTARTING and now >= m.since + task["start_timeout_s"]:
            m.failures = max(m.failures, self.info.roles[m.role]["max_restarts"])
            self._failed(now, m, dict(self._lost_record(m), message="%s failed, and YARN did not start it again in time" % m.name))

    def _failed(self, now: float, m: Member, record: dict[str, Any]) -> None:
        """Account for a task that failed or is lost: a warning, one of its restarts, or the end of the job."""
        role = self.info.roles[m.role]
        if self.phase == ENDING:
            self._set(m, FAILED)
            self._later([record])
        elif m is not self.me and m.failures < role["max_restarts"]:
            m.failures += 1
            self.restarts[m.role] += 1
            self._set(m, RESTARTING, now)
            self.event(now, "%s; restart %d of %d" % (record["message"], m.failures, role["max_restarts"]))
        elif m.duty == contract.DUTY_SIDECAR or (self.phase == FINISHING and m.duty == contract.DUTY_SERVES):
            self._set(m, FAILED)
            self.warn(now, record["message"])
        else:
            self._set(m, FAILED)
            if m is not self.me and self.counts[m.role][FAILED] <= role["tolerate"]:
                self.unresolved.discard(m.name)
                self.warn(now, "%s; tolerated (%d of %d)" % (record["message"], self.counts[m.role][FAILED], role["tolerate"]))
                return
            self.event(now, record["message"])
            if not self.failures:  # YARN stops a job's tasks within some seconds; the deciding one may be next
                self.settle_until = now + self.info.settle_s * (2.5 if m.stopping else 1)
            self.failures.append(record)
            if not m.stopping:
                self._blame_lost(now)

    def _blame_lost(self, now: float) -> None:
        """Count tasks that vanished as failed as soon as another failure is known: one of them is the cause."""
        for m in [m for m in self.away.values() if m.state == LOST and m.duty != contract.DUTY_SIDECAR]:
            self._set(m, FAILED)
            self.failures.append(self._lost_record(m))
            if not m.stopping:
                self.settle_until = now

    def _name_cause(self, now: float) -> None:
        lost = [record for record in self.failures if record["status"] is None]
        self.first = min(lost or self.failures, key=lambda record: float(record["at"]))
        self._later([record for record in self.failures if record is not self.first])
        if self.first["task"] == self.me.name:
            self.exit = self.first["status"]
            self.again = self.me.attempt < self.info.roles[self.me.role]["max_restarts"]
        else:
            self.exit = contract.EXIT_JOB_FAILED
        self._end(now, FAILED, self.first["message"])

    def _later(self, records: list[dict[str, Any]]) -> None:
        self.later = (self.later + sorted(records, key=lambda record: float(record["at"])))[:KEPT]

    def _peers_missing(self, now: float) -> None:
        missing = self.missing()
        unnamed = "" if self.absent else "names that DNS does not know yet: "
        text = "%d of %d tasks had not arrived after %d s: %s%s"
        text %= (len(missing), self.barrier, now - self.started, unnamed, listed(missing))
        self.first = self._record(self.members[missing[0]], now, "peers-missing", text)
        self.exit = contract.EXIT_PEERS_MISSING
        self._end(now, FAILED, text)

    # --- the end -----------------------------------------------------------------------------------------------------
    def _finish(self, now: float) -> None:
        self.phase = FINISHING
        self.finish_deadline = now + self.info.task["finish_timeout_s"]

    def _open(self, duty: str) -> int:
        """Count the tasks of a duty that have not ended; a role's second task tells the duty of all but the deciding one."""
        roles = [role for role in self.counts if self.info.duty(role, 1) == duty]
        return sum(self.info.counts[role] - sum(self.counts[role].get(state, 0) for state in OUT) for role in roles)

    def _open_names(self, duty: str) -> list[str]:
        return [m.name for m in self.members.values() if m.duty == duty and m.state not in OUT]

    def _finished(self, now: float) -> None:
        trains, evaluates = self._open(contract.DUTY_TRAINS), self._open(contract.DUTY_EVALUATES)
        if (trains or evaluates) and now < self.finish_deadline:
            return
        wait = "%d s after %s was done" % (self.info.task["finish_timeout_s"], self.me.name)
        if evaluates:
            self.warn(now, "not finished %s, and ended: %s" % (wait, listed(self._open_names(contract.DUTY_EVALUATES))))
        if trains:
            names = self._open_names(contract.DUTY_TRAINS)
            text = "not finished %s: %s" % (wait, listed(names))
            self.failures.append(self._record(self.members[names[0]], now, "not-finished", text))
            self._name_cause(now)
        else:
            self._end(now, SUCCEEDED, "the job is done")

    def awaits_latecomers(self, now: float) -> bool:
        """Whether a task that has not come yet is still to be told that the job is over.

        Hadoop 3.1 and 3.2 end the service only when every container has ended, and a latecomer would look for us until its deadline.
        """
        return now < self.late_until and any(m.state == ABSENT for m in self.members.values())

    def _end(self, now: float, verdict: str, why: str) -> None:
        self.phase, self.verdict, self.why = ENDING, verdict, why
        self.linger_until = now + self.info.stop_grace_s + 1.5
        if verdict == SUCCEEDED:
            self.late_until = now + LATE_S
        self.event(now, why if verdict != FAILED else "the job failed: " + why)
