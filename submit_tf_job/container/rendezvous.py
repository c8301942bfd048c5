"""The job's state machine in the deciding task: arrivals, the first failure, the end of the job.

No sockets and no clock: each method gets `now`, seconds of a monotonic clock. The event loop acts
on changes of `phase` and `verdict`.
"""

from __future__ import annotations

from submit_tf_job.container import contract, task_files
from submit_tf_job.container.info import exit_status
from submit_tf_job.container.standstill import STILL_S, TaskNews

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from submit_tf_job.container.info import Info

WAITING, RUNNING, FINISHING, ENDING = "waiting", "running", "finishing", "ending"
PREPARING = "preparing"  # all tasks wait for `prepare`, which runs in the deciding one
LATE_S = 20.0  # a container that YARN started with the others has connected by then
NAMES_S = 1.0  # the start waits so long for names once every task has connected
# and so long for the name of a task that YARN may start again on another node
RESTARTED_NAMES_S = 30.0
ABSENT, ARRIVED, ALIVE, RESTARTING, LOST = "absent", "arrived", "running", "restarting", "lost"
LEFT_OUT = "left-out"  # an elastic role's task that this generation does without
SUCCEEDED, FAILED, ENDED, STOPPED = "succeeded", "failed", "ended", "stopped"
STATES = {"running": ALIVE, "done": ABSENT}  # by the state in a hello; any other is ARRIVED
OUT = (SUCCEEDED, FAILED, ENDED)  # final states
AWAY = (LOST, RESTARTING)
AWAITED = (ABSENT, LOST, RESTARTING)
MOST_SIDECARS = 1000  # per role; their number comes from outside, and bounds memory
PACE_S = 10.0  # no estimate before this
# after a closed connection: the deciding task needs time to accept thousands that come back
PER_SECOND = 500.0
KEPT = 20  # entries in the lists of a report
SIGKILL = 9


def listed(names: list[str]) -> str:
    """Join names for a sentence: the first twenty, and the number of the others."""
    more = len(names) - KEPT
    return ", ".join(names[:KEPT]) + (" and %d more" % more if more > 0 else "")


def _is_loopback(address: str) -> bool:
    return address.startswith("127.")


def seconds(value: Any) -> float:
    """Return a duration in a message, at least 0; 0 for anything else."""
    return max(0.0, float(value)) if isinstance(value, (int, float)) else 0.0


def port_of(message: Mapping[str, Any]) -> int:
    """Return the port that a task reserved for its command; 0 if it names no valid one."""
    port = _integer(message.get("port")) or 0
    return port if 0 < port < 65536 else 0


def ports_of(message: Mapping[str, Any]) -> dict[str, int]:
    """Return the valid ports that a task serves, by name."""
    value = message.get("ports")
    pairs = list(value.items())[:KEPT] if isinstance(value, dict) else []
    return {
        str(name)[:63]: port for name, port in pairs if isinstance(port, int) and 0 < port < 65536
    }


def _texts(value: Any) -> list[str]:
    return [str(text)[:500] for text in value[:KEPT]] if isinstance(value, list) else []


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) else None


class Member:
    """One task in the state machine."""

    def __init__(self, role: str, index: int, role_kind: str) -> None:
        """Create a task that is absent."""
        self.role, self.role_kind, self.name, self.state = (
            role,
            role_kind,
            "%s-%d" % (role, index),
            ABSENT,
        )
        self.process = self.host = self.address = self.container = ""
        self.origin = ""  # the address that its connection came from
        self.port = 0  # the port that it reserved for its command; 0 if it said none
        self.ports: dict[str, int] = {}  # the ports that it serves, by name
        self.gpus: list[str] = []  # the models of those that it sees
        self.attempt = self.failures = 0
        self.failed_process = ""  # the process that its latest restart replaces
        self.call = 0  # the number of its connection among those of the process
        self.status: int | None = None
        self.peer: Any = None
        self.since = 0.0  # when it was lost, or its last attempt ended
        self.stopping = False  # it reported that YARN stops it
        self.closed = False  # its kernel closed the connection that is lost
        self.returns = False  # it announced that it closes that connection to make another


class Rendezvous:
    """The state machine: methods take events, attributes hold the result.

    Results are `phase`, `verdict`, `exit` and the lists of the report.
    """

    def __init__(self, info: Info, now: float, tell: Callable[[str], None]) -> None:
        """Start to wait at `now`, the start of the deciding bootstrap; `tell` gets each event."""
        task = info.task
        self.tell = tell
        self.info, self.phase, self.verdict, self.exit = info, WAITING, "", 0
        self.why = ""  # the reason of its end
        self.still_s = 0.0  # how long the deciding task was suspended
        self.trusted_at = now  # from then on a closed connection means an ended process
        self.wary_until = now  # until then a lost connection is no cause of a failure
        self.again = False  # only this attempt of the deciding task ends
        self.graceful = False  # whoever stops the job waits until its tasks have saved
        self.members = {
            "%s-%d" % (role, index): Member(role, index, info.role_kind(role))
            for role in info.counts
            for index in range(info.counts[role])
        }
        self.me = self.members[info.name]
        # the task whose end is the application's for YARN; it is told last, once this is set
        self.witness = self.members.get(contract.WITNESS)
        self.closing = False
        self.barrier = sum(1 for m in self.members.values() if m.role_kind != contract.KIND_SIDECAR)
        self.absent = self.barrier  # tasks that the start still waits for
        self.counts = {role: {ABSENT: count} for role, count in info.counts.items()}
        self.restarts = dict.fromkeys(info.counts, 0)
        # whether programs are given names; else they get addresses
        self.by_name = not (task.get("dns_server") or info.by_place)
        # tasks whose names DNS has not returned
        self.unresolved: set[str] = set()
        if self.barrier > 1:
            self.unresolved = {
                m.name for m in self.members.values() if m.role_kind != contract.KIND_SIDECAR
            }
        # when the last task connected, and what came before and after
        self.complete_at: float | None = None
        self.last_launch, self.longest_search_s = now, 0.0
        self.start_times: dict[str, Any] | None = None
        self.named: set[str] = set()  # the tasks that programs know by name
        self.away: dict[str, Member] = {}
        # candidates for the first cause, until it is determined
        self.failures: list[dict[str, Any]] = []
        self.first: dict[str, Any] | None = None
        self.later: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        # tasks that run as plain processes because the NodeManager ignored the image
        self.image_ignored: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.progress: dict[str, Any] | None = None
        self.news = TaskNews(float(task.get("still_s", STILL_S)))
        # task, time, completed part
        self.first_progress: tuple[str, float, float] | None = None
        self.outcome: dict[str, Any] | None = None
        # roles whose commands wait for those of others
        self.held = {role for role in info.counts if info.roles[role].get("after")}
        self.held_since: dict[str, float] = {}  # since when only tasks that serve are awaited
        self.unprepared = bool(task.get("prepare"))
        self.started = now
        self.start_deadline = now + task["start_timeout_s"]
        self.settle_until = self.finish_deadline = self.linger_until = self.late_until = now
        self.settles_early = False  # once every task has answered after the first failure
        self._set(self.me, ARRIVED)
        self.me.process, self.me.host, self.me.container, self.me.attempt = (
            info.process,
            info.node,
            info.container,
            info.attempt,
        )
        if info.ignored_image:
            self._ignores_image(now, self.me, info.ignored_image)
        if self.barrier > 1:
            self.event(now, "waiting for %d tasks" % self.barrier)

    @property
    def stage(self) -> tuple[str, int]:
        """What the event loop acts on when it changes: the phase, and the generation."""
        return self.phase, 0

    def more(self) -> dict[str, Any]:
        """Return further fields of the report."""
        return {}

    # --- state and events -------------------------------------------------------------------------
    def _set(self, m: Member, state: str, now: float = 0.0) -> None:
        """Change a task's state, and update every count in constant time."""
        counts = self.counts[m.role]
        counts[m.state] -= 1
        counts[state] = counts.get(state, 0) + 1
        if m.role_kind != contract.KIND_SIDECAR:
            self.absent += (state in AWAITED) - (m.state in AWAITED)
        m.state = state
        if state in AWAY:
            m.since = now
            self.away[m.name] = m
        else:
            self.away.pop(m.name, None)

    def event(self, now: float, text: str) -> None:
        """Keep an event: the first fifty and the last fifty."""
        self.tell(text)
        if len(self.events) >= 100:
            del self.events[50]
        self.events.append({"at": self.info.wall + now, "text": text[:500]})

    def warn(self, now: float, text: str) -> None:
        """Keep a warning that does not fail the job."""
        if len(self.warnings) < KEPT:
            self.warnings.append(text[:500])
        self.event(now, text)

    def _ignores_image(self, now: float, m: Member, image: str) -> None:
        """Record a task that runs as a plain process of its node.

        One warning names the first of them.
        """
        if m.name in self.image_ignored or len(self.image_ignored) >= KEPT:
            return
        if not self.image_ignored:
            text = (
                "%s on %s runs as a plain process of its node: the NodeManager there does not "
                "run the image %s"
            )
            self.warn(now, text % (m.name, m.host, image[:255]))
        self.image_ignored.append(m.name)

    def record_suspension(self, now: float, seconds: float) -> None:
        """Record that the deciding task was suspended.

        The other tasks may have given it up in the meantime, and closed their connections.
        """
        self.still_s += seconds
        self.trusted_at = now + self.info.task["grace_s"]
        for m in self.away.values():
            m.closed = False
        text = "%s stood still for %d s: it was suspended (SIGSTOP, a paused container or machine)"
        self.warn(now, text % (self.me.name, seconds))

    def stood_still(self, now: float, seconds: float) -> None:
        """Count no time in which the deciding task was suspended as one of waiting for others."""
        for m in self.away.values():
            m.since = min(now, m.since + seconds)
        self.wary_until = now + 2 * self.info.settle_s
        if self.failures:
            self.settle_until = max(self.settle_until, now + self.info.settle_s)

    def missing(self) -> list[str]:
        """Return the tasks that the start waits for and that have not connected."""
        return [
            m.name
            for m in self.members.values()
            if (m.role_kind != contract.KIND_SIDECAR or m is self.witness) and m.state in AWAITED
        ]

    def unnamed(self, now: float) -> list[str]:
        """Return the connected tasks that cannot start until DNS has their names.

        The name of a task is needed where its address is not known, because its connection came
        from another one than its own. The name of a task that YARN may start again on another node
        is waited for; after `RESTARTED_NAMES_S` its address is used.
        """
        if self.phase != WAITING or self.absent:
            return []
        patient = self.by_name and now < min(
            self._complete(now) + RESTARTED_NAMES_S, self.start_deadline
        )
        mixed = self._has_mixed_addresses()
        return sorted(
            name
            for name in self.unresolved
            if not self._is_addressed(self.members[name], mixed)
            or (patient and self.info.roles[self.members[name].role]["max_restarts"] > 0)
        )

    def _complete(self, now: float) -> float:
        return now if self.complete_at is None else self.complete_at

    def _has_mixed_addresses(self) -> bool:
        """Return whether some tasks called from other machines: loopback is then no address."""
        return any(m.address and not _is_loopback(m.address) for m in self.members.values())

    @staticmethod
    def _is_addressed(m: Member, mixed: bool) -> bool:
        """Return whether the address that a task gave is the one that its connection came from."""
        return bool(m.address) and m.address == m.origin and not (mixed and _is_loopback(m.address))

    def _may_start(self, now: float) -> bool:
        """Return whether every task has connected, and can be reached by name or address."""
        if self.absent or self._awaits_witness(now):
            self.complete_at = None
            return False
        if self.complete_at is None:
            self.complete_at = now
        if not self.unresolved:
            return True
        if self.by_name and now < min(self.complete_at + NAMES_S, self.start_deadline):
            return False
        return not self.unnamed(now)

    def _awaits_witness(self, _now: float) -> bool:
        """Return whether the start waits for the witness: without it YARN never ends the job."""
        return self.witness is not None and self.witness.state in AWAITED

    def hosts(self, found: Mapping[str, str]) -> dict[str, str]:
        """Return the addresses that programs get instead of names; the same for all tasks.

        Args:
            found: The addresses that DNS returned, by task.
        """
        mixed = self._has_mixed_addresses()
        hosts = {}
        for m in self.members.values():
            if m.role_kind == contract.KIND_SIDECAR or m.name in self.named:
                continue
            if self._is_addressed(m, mixed):
                hosts[m.name] = m.address
            elif m.name in found:
                hosts[m.name] = found[m.name]
        return hosts

    def ports(self) -> dict[str, int]:
        """Return the ports that tasks reserved because their own was in use."""
        return {
            m.name: m.port
            for m in self.members.values()
            if m.port and m.port != self.info.port_of(m.name) and m.state != LEFT_OUT
        }

    def leave_status(self, m: Member) -> int:
        """Return the exit status for a task that must end.

        It is 0 for a task that YARN would otherwise start again.
        """
        if m.state in (SUCCEEDED, FAILED) and m.status is not None:
            return exit_status(m.status)
        over = self.verdict == SUCCEEDED or self.info.roles[m.role]["max_restarts"] > 0
        return 0 if over else contract.EXIT_JOB_FAILED

    # --- events -----------------------------------------------------------------------------------
    def hello(
        self,
        now: float,
        message: Mapping[str, Any],
        peer: Any,
        ends: tuple[str, str] = ("", ""),
    ) -> tuple[Member | None, str]:
        """Handle the hello message of a task.

        Args:
            now: The present time.
            message: The message.
            peer: The connection.
            ends: The addresses of the connection: the task's, and the deciding task's.

        Returns:
            The task, and the reply: "welcome", "end" (the job is over), "finished" (this task has
            ended), "busy" (another process of this task is connected: retry), "wrong-job", or "bad"
            for an invalid message. The task is None for "wrong-job", "busy" and "bad".
        """
        if message.get("run") != self.info.run:
            return None, "wrong-job"
        m = self._member(message.get("role"), message.get("index"))
        process, attempt = message.get("process"), message.get("attempt")
        if (
            m is None
            or m is self.me
            or not isinstance(process, str)
            or not isinstance(attempt, int)
        ):
            return None, "bad"
        call = _integer(message.get("call")) or 0
        if m.process == process and call < m.call:
            return None, "bad"  # the process has made another connection since, and gave this up
        refusal = self._refusal(now, m, peer, message)
        if refusal:
            return (None if refusal == "busy" else m), refusal
        if m.process != process and m.process:
            m.attempt += 1
            self._rename(m)
        m.attempt = max(m.attempt, attempt)
        m.process, m.call, m.peer, m.stopping = process, call, peer, False
        self._introduce(now, m, message)
        self._locate(now, m, message, ends)
        if isinstance(message.get("ignored_image"), str):
            self._ignores_image(now, m, message["ignored_image"])
        if m.state not in OUT:
            if m.state == ABSENT and self.barrier <= KEPT:
                self.event(now, "%s joined (%s)" % (m.name, m.host))
            self._set(m, self._state_of(m, message))
        if self.me.process != message.get("seen") and isinstance(
            message.get("decider_attempt"), int
        ):
            # YARN restarted the deciding task
            self.me.attempt = max(self.me.attempt, message["decider_attempt"] + 1)
        return m, "welcome"

    def _refusal(self, now: float, m: Member, peer: Any, message: Mapping[str, Any]) -> str:
        """Return the reply to a task that cannot connect, "" if it can."""
        process, done = message["process"], message.get("state") == "done"
        if m.peer not in (None, peer) and m.process != process:
            return "busy"
        if m.state in OUT and (m.process != process or not done):
            return "finished"
        if self.phase == ENDING and not done and not self.graceful:
            if m is self.witness and not self.closing:
                return "busy"
            self._set(m, ENDED)
            return "end"
        return "end" if m.process and m.process != process and self._replaced(now, m) else ""

    def _state_of(self, _m: Member, message: Mapping[str, Any]) -> str:
        """Return the state of a task after its hello."""
        state = STATES.get(str(message.get("state")), ARRIVED)
        # its end comes next; the start waits for that
        return state if state != ABSENT or self.phase == WAITING else ARRIVED

    def _introduce(self, now: float, m: Member, message: Mapping[str, Any]) -> None:
        """Store the host, ports and warnings of a hello message."""
        m.host, m.address, m.container = (
            str(message.get(key, ""))[:255] for key in ("host", "address", "container")
        )
        m.ports = ports_of(message)
        m.gpus = _texts(message.get("gpus"))
        for text in _texts(message.get("warnings")):
            if text not in self.warnings:  # a reconnect repeats its warnings
                self.warn(now, text)

    def _locate(
        self, now: float, m: Member, message: Mapping[str, Any], ends: tuple[str, str]
    ) -> None:
        """Store where a task is, and how long it took to come."""
        m.origin, here = ends
        if here and (not self.me.address or _is_loopback(self.me.address)):
            self.me.address = self.me.origin = here
        m.port = port_of(message)
        if self.phase == WAITING and m.role_kind != contract.KIND_SIDECAR:
            self.last_launch = max(self.last_launch, now - seconds(message.get("age_s")))
            self.longest_search_s = max(self.longest_search_s, seconds(message.get("search_s")))
        elif m.name not in self.named and self.moved_from(m):
            text = "%s came back at %s; the programs were given its former address %s"
            text %= (m.name, m.address, self.moved_from(m))
            if text not in self.warnings:
                self.warn(now, text)

    def moved_from(self, m: Member) -> str:
        """Return the address that programs have of a task that is now at another one, or ""."""
        known = self.info.hosts.get(m.name, "")
        return known if known != m.address else ""

    def _member(self, role: Any, index: Any) -> Member | None:
        """Return the task with this role and index, or None.

        A sidecar that was added while the job ran is created.
        """
        name = "%s-%s" % (role, index)
        if (
            name not in self.members
            and isinstance(role, str)
            and isinstance(index, int)
            and self._may_join(role, index)
        ):
            self.members[name] = Member(role, index, contract.KIND_SIDECAR)
            self.counts[role][ABSENT] = self.counts[role].get(ABSENT, 0) + 1
        return self.members.get(name)

    def _may_join(self, role: str, index: int) -> bool:
        return (
            self.info.may_grow(role)
            and 0 <= index < 100000
            and sum(self.counts[role].values()) < MOST_SIDECARS
        )

    def _replaced(self, now: float, m: Member) -> bool:
        """Handle a restarted task whose former process did not report its end.

        Returns:
            True if that ends the job.
        """
        if m.state != LOST:
            return False
        self._failed(now, m, self._lost_record(m))
        return m.state in OUT

    def _rename(self, m: Member) -> None:
        """Await the name of a task's new container before the start; DNS had the former one's."""
        if self.phase == WAITING and self.barrier > 1 and m.role_kind != contract.KIND_SIDECAR:
            self.unresolved.add(m.name)

    def gone(
        self,
        now: float,
        m: Member,
        closed: bool = False,
        silent_s: float = 0.0,
        returns: bool = False,
    ) -> None:
        """Handle the loss of a task's connection.

        Args:
            now: The present time.
            m: The task.
            closed: Whether its kernel closed the connection: mostly because its process has ended.
            silent_s: How long it has been out of reach already; part of `grace`.
            returns: Whether it announced that it makes another connection.
        """
        m.peer, m.closed, m.returns = None, closed and now >= self.trusted_at, returns
        if m.state in (*OUT, RESTARTING, LEFT_OUT):
            return
        if self.phase == WAITING:
            self._set(m, ABSENT)
        elif self.phase == ENDING and not (
            (self.graceful and self.saves(m)) or (m is self.witness and not self.closing)
        ):
            self._set(m, ENDED)
        else:
            self._set(m, LOST, now - silent_s)
            self.event(now, "the connection to %s went away" % m.name)
            # the vanished task caused the other failure: TensorFlow's peers fail within 0.2 s
            if self.failures:
                self._fail_lost(now)

    def running(self, m: Member) -> None:
        """Record that a task's command runs."""
        if m.state == ARRIVED:
            self._set(m, ALIVE)

    def record_progress(self, now: float, m: Member, value: Any) -> None:
        """Keep the progress of the deciding task, or else the latest of any task."""
        clean = task_files.clean_progress(value)
        if clean:
            self.news.heard(now, m.name, clean["step"])
        if clean and (m is self.me or not self.progress or self.progress["task"] != self.me.name):
            self.progress = dict(clean, task=m.name, at=self.info.wall + now)
            left_s = self._left_s(now, m.name, clean)
            if left_s is not None:
                self.progress["left_s"] = left_s

    def _left_s(self, now: float, name: str, progress: Mapping[str, Any]) -> float | None:
        """Estimate the remaining seconds from the pace since the first progress of this run."""
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
        if gone <= 0 or took < PACE_S:
            return None
        left_s: float = round((1 - part) * took / gone, 1)
        return left_s

    def done(self, now: float, m: Member, message: Mapping[str, Any]) -> None:
        """Handle the end of a task's command; `message` has the fields of `describe`."""
        if m.state in OUT or m.state == RESTARTING:
            return
        status, signal, ago, lines = (
            message.get(key) for key in ("status", "signal", "ago", "last_lines")
        )
        m.status = _integer(status)
        at = now - (max(0.0, min(ago, 600.0)) if isinstance(ago, (int, float)) else 0.0)
        record = self._record(
            m, at, str(message.get("reason"))[:50], str(message.get("message"))[:500]
        )
        record.update(status=m.status, signal=_integer(signal), last_lines=_texts(lines))
        if m is self.me:
            self.outcome = {
                "status": m.status,
                "signal": record["signal"],
                "duration_s": message.get("duration_s"),
            }
        if record["reason"] == "ended" and self.phase == ENDING:
            self._set(m, ENDED)
        elif record["reason"] == "ended":
            # its program may end with 0 at the SIGTERM
            m.status = contract.EXIT_DECIDER_LOST
            self._failed(now, m, dict(record, status=m.status, message=self._ended_alone(m)))
        elif m.status == 0:
            self._set(m, SUCCEEDED)
            self.event(now, "%s is done" % m.name)
            self._check_end(now)
        else:
            self._failed(now, m, record)

    def stop(self, now: float, graceful: bool = False) -> None:
        """End the job because the deciding task got SIGTERM, as YARN stops a job.

        Args:
            now: The present time.
            graceful: Whether the job has time to save before YARN stops it.
        """
        if self.phase != ENDING:
            self.graceful = graceful
            text = "stopped, with time to save" if graceful else "stopped from outside"
            self._end(now, STOPPED, text)

    def saving(self, now: float) -> list[str]:
        """Return the other tasks that may still save in a graceful stop.

        One whose connection went away may come back within `grace`.
        """
        lost_before = now - self.info.task["grace_s"]
        return [
            m.name
            for m in self.members.values()
            if m is not self.me and self.saves(m)
            if m.state in (ARRIVED, ALIVE) or (m.state == LOST and m.since > lost_before)
        ]

    def saves(self, m: Member) -> bool:
        """Return whether a task is asked to save in a graceful stop.

        Parameter servers and other servers run until YARN's stop: the others need them to save.
        """
        return m.role_kind in (contract.KIND_TRAINS, contract.KIND_EVALUATES)

    def tick(self, now: float, read_until: float | None = None) -> None:
        """Handle the deadlines that have passed.

        Args:
            now: The present time.
            read_until: The time until which all that arrived is read: no later deadline of another
                task has passed. None means now.
        """
        if self.phase == ENDING:
            return
        read = now if read_until is None else read_until
        for m in list(self.away.values()):
            self._overdue(now, read, m)
        if self.failures:
            if read >= self.settle_until:
                self._fail_lost(now, late=True)
                self._name_cause(now)
        elif self.phase == WAITING:
            if self._may_start(now):
                self._prepare_or_start(now)
            elif read >= self.start_deadline:
                self._peers_missing(now)
        elif self.phase == FINISHING:
            self._finished(now, read)
        if self.phase in (RUNNING, FINISHING) and not self.failures:
            self._check_held(now, read)

    def _prepare_or_start(self, now: float) -> None:
        if self.unprepared:
            self.phase = PREPARING
            self.event(now, "all tasks are here; preparing the job")
        else:
            self._start(now)

    def prepared(self, now: float) -> None:
        """Start all commands, because `prepare` has succeeded."""
        self.unprepared = False
        if self.phase == PREPARING:
            self._start(now)

    def released(self, now: float) -> list[str]:
        """Return the roles whose commands may start now, because those before them have run."""
        if not self.held or self.failures or self.phase not in (RUNNING, FINISHING):
            return []
        found = [
            role
            for role in sorted(self.held)
            if all(map(self._has_run, self.info.roles[role]["after"]))
        ]
        for role in found:
            self.held.discard(role)
            self.event(
                now, "%s starts after %s" % (role, ", ".join(self.info.roles[role]["after"]))
            )
        return found

    def _check_held(self, now: float, read: float) -> None:
        """End the job if a role's commands wait for tasks that never run theirs.

        A sidecar need not come, and no other deadline is that of a server that has not begun.
        """
        for role in sorted(self.held):
            awaited = [r for r in self.info.roles[role]["after"] if not self._has_run(r)]
            if any(r in self.held or self._ends_by_itself(r) for r in awaited):
                self.held_since.pop(role, None)
            elif read >= self.held_since.setdefault(role, now) + self.info.task["start_timeout_s"]:
                late = [m for m in self.members.values() if m.role in awaited and m.state != ALIVE]
                text = "%s waits for %s (`after`), which did not run within %d s"
                text %= (role, listed([m.name for m in late]), self.info.task["start_timeout_s"])
                self.first = self._record(late[0], now, "peers-missing", text)
                self.exit = contract.EXIT_PEERS_MISSING
                self._end(now, FAILED, text)
                return

    def _ends_by_itself(self, role: str) -> bool:
        return self.info.role_kind(role) in (contract.KIND_TRAINS, contract.KIND_EVALUATES)

    def _has_run(self, role: str) -> bool:
        """Return whether all tasks of a role have succeeded; of one that need not end, run."""
        counts = self.counts[role]
        wanted = sum(counts.values()) - counts.get(LEFT_OUT, 0)
        if self._ends_by_itself(role):
            tolerate: int = self.info.roles[role]["tolerate"]
            return counts.get(SUCCEEDED, 0) + min(counts.get(FAILED, 0), tolerate) == wanted
        return counts.get(ALIVE, 0) + sum(counts.get(state, 0) for state in OUT) == wanted

    def standing_still(self, now: float) -> dict[str, Any] | None:
        """Return the tasks that train and stand still, for the report."""
        if self.phase != RUNNING:
            return None
        names = [
            m.name
            for m in self.members.values()
            if m.role_kind == contract.KIND_TRAINS and m.state == ALIVE
            if not self.info.roles[m.role].get("ports")  # what serves waits for its users
        ]
        return self.news.found(now, names, self.info.wall)

    def _start(self, now: float) -> None:
        self.phase = RUNNING
        self.news.begin(now)
        cluster = {
            m.name
            for m in self.members.values()
            if m.role_kind != contract.KIND_SIDECAR and m.state != LEFT_OUT
        }
        if self.by_name:
            self.named = cluster - self.unresolved
        if self.barrier == 1:
            return
        if self.by_name and not self.named and self.info.task.get("meeting"):
            text = (
                "Registry DNS has no task of this job: the programs get addresses (`names: auto`)"
            )
            if text not in self.warnings:
                self.warn(now, text)
        self.event(now, "all %d tasks started" % len(cluster))
        wall = self.info.wall
        self.start_times = {
            "launched_at": wall + self.last_launch,
            "search_s": round(self.longest_search_s, 3),
            "arrived_at": wall + self._complete(now),
            "at": wall + now,
            "by_address": len(cluster) - len(self.named),
        }
        late = [
            m.name
            for m in self.members.values()
            if m.name in self.unresolved and self.info.roles[m.role]["max_restarts"] > 0
        ]
        if late and self.by_name:
            text = (
                "DNS has not registered %s within %d s: the programs get addresses, and a task "
                "that YARN starts again on another node will not be found"
            )
            self.warn(now, text % (listed(late), RESTARTED_NAMES_S))

    # --- failures ---------------------------------------------------------------------------------
    def _record(self, m: Member, at: float, reason: str, message: str) -> dict[str, Any]:
        who = {"task": m.name, "host": m.host, "container": m.container, "at": self.info.wall + at}
        return dict(who, status=None, signal=None, reason=reason, message=message, last_lines=[])

    def _lost_record(self, m: Member) -> dict[str, Any]:
        if m.stopping:
            text = (
                "%s was stopped from outside by SIGTERM (preempted, its node drained, or "
                "killed by hand)" % m.name
            )
            return dict(self._record(m, m.since, "killed", text), signal=15)
        text = (
            "%s was lost: its connection from %s went away and did not come back (killed, "
            "or its node died)" % (m.name, m.host or "?")
        )
        return self._record(m, m.since, "lost", text + self._stillness())

    def _ended_alone(self, m: Member) -> str:
        text = "%s ended its program: it had lost the connection to %s for longer than `grace`"
        return text % (m.name, self.me.name) + self._stillness()

    def _stillness(self) -> str:
        if not self.still_s:
            return ""
        text = "; %s had stood still for %d s, and a longer `grace` outlasts that"
        return text % (self.me.name, self.still_s)

    def _overdue(self, now: float, read: float, m: Member) -> None:
        task = self.info.task
        if m.state == LOST and read >= m.since + self._patience_s(m):
            self._failed(now, m, self._lost_record(m))
        elif m.state == RESTARTING and read >= m.since + task["start_timeout_s"]:
            m.failures = max(m.failures, self.info.roles[m.role]["max_restarts"])
            m.failed_process = ""
            text = "%s failed, and YARN did not start it again in time" % m.name
            self._failed(now, m, dict(self._lost_record(m), message=text))

    def _patience_s(self, m: Member) -> float:
        """Return how long a lost connection of a task may stay away.

        The tasks of a job that YARN stops do not end at the same time, which is no failure.
        """
        grace_s: float = self.info.task["grace_s"]
        if m.stopping or not m.closed:
            return grace_s
        return min(grace_s, contract.CLOSED_S + self.barrier / PER_SECOND)

    def _failed(self, now: float, m: Member, record: dict[str, Any]) -> None:
        """Handle a failed or lost task.

        The result is a warning, one of its restarts, or the end of the job.
        """
        role = self.info.roles[m.role]
        if self.phase == ENDING and self.verdict == STOPPED and record["reason"] == "killed":
            self._set(m, ENDED)
        elif self.phase == ENDING:
            self._set(m, FAILED)
            self._later([record])
        elif m.failed_process and m.failed_process == m.process:
            # the same failure once more, or the end of a process that had counted as lost
            self._set(m, RESTARTING, now)
        elif m is not self.me and m.failures < role["max_restarts"]:
            m.failures, m.failed_process = m.failures + 1, m.process
            self.restarts[m.role] += 1
            self._set(m, RESTARTING, now)
            self.event(
                now, "%s; restart %d of %d" % (record["message"], m.failures, role["max_restarts"])
            )
        elif not self._matters(m):
            self._set(m, FAILED)
            self.warn(now, record["message"])
        else:
            self._set(m, FAILED)
            if m is not self.me and self.counts[m.role][FAILED] <= role["tolerate"]:
                self.unresolved.discard(m.name)
                self.warn(
                    now,
                    "%s; tolerated (%d of %d)"
                    % (record["message"], self.counts[m.role][FAILED], role["tolerate"]),
                )
                self._check_end(now)
                return
            self.event(now, record["message"])
            # YARN stops a job's tasks within some seconds; the deciding one may be next
            if not self.failures:
                factor = 2.5 if m.stopping else 1
                self.settle_until = now + self.info.settle_s * factor
                self.settles_early = record["signal"] == SIGKILL and not m.stopping
            self.failures.append(record)
            if not m.stopping:
                self._fail_lost(now)

    def settled(self) -> None:
        """Wait for no earlier failure after a SIGKILL: every task that is here has answered since.

        No other task's failure makes a program end by SIGKILL, and a task answers after it has
        reported the end of its command. Any other failure may come from a program that still ends:
        its connections close, and its peers fail, seconds before its process is gone.
        """
        here = all(m.state not in AWAITED or not self._matters(m) for m in self.members.values())
        if self.settles_early and here:
            self.settle_until = min(self.settle_until, self.started)  # whatever comes next

    def _matters(self, m: Member) -> bool:
        """Return whether a failure of this task can end the job now."""
        over = self.phase == FINISHING and m.role_kind == contract.KIND_SERVES
        return m.role_kind != contract.KIND_SIDECAR and not over

    def _fail_lost(self, now: float, late: bool = False) -> None:
        """Count vanished tasks as failed once another failure is recorded.

        One of the vanished tasks is then the cause. One that may well come back has time for that:
        only if it is `late`, it has vanished.
        """
        for m in list(self.away.values()):
            if m.state != LOST or not self._matters(m):
                continue
            if not late and (m.returns or now < self.wary_until):
                continue
            self._set(m, FAILED)
            self.failures.append(self._lost_record(m))
            if not m.stopping:
                self.settle_until = now

    def _earliest(self) -> dict[str, Any]:
        """Return the failure that came first; a vanished task is the cause of other failures."""
        lost = [record for record in self.failures if record["status"] is None]
        return min(lost or self.failures, key=lambda record: float(record["at"]))

    def _name_cause(self, now: float) -> None:
        self.first = self._earliest()
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
        text = "%d of %d tasks had not arrived after %d s: "
        if not missing:
            missing = self.unnamed(now)
            text = (
                "%d of %d tasks cannot be reached after %d s, because DNS has not registered "
                "them and their connections come from addresses that are not theirs: "
            )
            if self.info.by_place:
                text = (
                    "%d of %d tasks cannot be reached after %d s, because their connections come "
                    "from addresses that are not theirs (`network: host` has no such addresses): "
                )
        wanted = self.barrier + (contract.WITNESS in missing)
        text = text % (len(missing), wanted, now - self.started) + listed(missing)
        self.first = self._record(self.members[missing[0]], now, "peers-missing", text)
        self.exit = contract.EXIT_PEERS_MISSING
        self._end(now, FAILED, text)

    # --- the end ----------------------------------------------------------------------------------
    def _check_end(self, now: float) -> None:
        """Start to finish the job once the tasks that end it have ended."""
        if self.phase in (WAITING, RUNNING) and not self._awaited():
            self.phase = FINISHING
            self.finish_deadline = now + self.info.task["finish_timeout_s"]

    def _awaited(self) -> int:
        """Count the tasks whose end the job still waits for (`ends_with` of the job spec)."""
        ends_with = self.info.task["ends_with"]
        if ends_with == contract.ENDS_ALL_THAT_TRAIN:
            return self._open(contract.KIND_TRAINS)
        if ends_with == contract.ENDS_DECIDING_ROLE:
            return self._open_in([self.me.role])
        return int(self.me.state not in OUT)

    def _open(self, role_kind: str) -> int:
        """Count the tasks of a kind that have not ended."""
        return self._open_in([r for r in self.counts if self.info.role_kind(r) == role_kind])

    def _open_in(self, roles: list[str]) -> int:
        return sum(
            self.info.counts[role]
            - sum(self.counts[role].get(state, 0) for state in (*OUT, LEFT_OUT))
            for role in roles
        )

    def _open_names(self, role_kind: str) -> list[str]:
        return [
            m.name
            for m in self.members.values()
            if m.role_kind == role_kind and m.state not in (*OUT, LEFT_OUT)
        ]

    def _finished(self, now: float, read: float) -> None:
        trains, evaluates = self._open(contract.KIND_TRAINS), self._open(contract.KIND_EVALUATES)
        if (trains or evaluates) and read < self.finish_deadline:
            return
        wait = "%d s after %s" % (self.info.task["finish_timeout_s"], self._end_of_training())
        if evaluates:
            late = listed(self._open_names(contract.KIND_EVALUATES))
            self.warn(now, "not finished %s, and ended: %s" % (wait, late))
        if trains:
            names = self._open_names(contract.KIND_TRAINS)
            text = "not finished %s: %s" % (wait, listed(names))
            known = [self.me.role] + list(self.info.task["cluster_roles"])
            if any(self.members[name].role not in known for name in names):
                text += " (a role whose tasks do not end by themselves needs `kind: serves`)"
            self.failures.append(self._record(self.members[names[0]], now, "not-finished", text))
            self._name_cause(now)
        else:
            self._end(now, SUCCEEDED, "the job is done")

    def awaited(self) -> dict[str, Any] | None:
        """Return for whom the end of the job waits, and until when, for the report."""
        if self.phase != FINISHING:
            return None
        names = self._open_names(contract.KIND_TRAINS) + self._open_names(contract.KIND_EVALUATES)
        until = self.info.wall + self.finish_deadline
        return {"tasks": names[:KEPT], "count": len(names), "until": until}

    def _end_of_training(self) -> str:
        ends_with = self.info.task["ends_with"]
        if ends_with == contract.ENDS_ALL_THAT_TRAIN:
            return "all tasks that train were done"
        if ends_with == contract.ENDS_DECIDING_ROLE:
            return "all tasks of %s were done" % self.me.role
        return "%s was done" % self.me.name

    def awaits_latecomers(self, now: float) -> bool:
        """Return whether a task that has not connected yet must still be informed of the job's end.

        A late task would wait for the deciding task until its deadline. Hadoop 3.1 and 3.2 end the
        service only when every container has ended, and each version only when the witness has.
        """
        if now < self.late_until and any(m.state == ABSENT for m in self.members.values()):
            return True
        return (
            self.witness is not None
            and self.witness.state == ABSENT
            and self.verdict != STOPPED
            and now < self.start_deadline
        )

    def _end(self, now: float, verdict: str, why: str) -> None:
        self.phase, self.verdict, self.why = ENDING, verdict, why
        self.linger_until = now + self.info.stop_grace_s + 1.5
        if verdict == SUCCEEDED:
            self.late_until = now + LATE_S
            for m in [m for m in self.away.values() if m.state == RESTARTING]:
                status = "" if m.status is None else " (exit status %d)" % m.status
                text = "%s had failed%s, and did not run again before the job's end"
                self.warn(now, text % (m.name, status))
        elif now < self.start_deadline:
            # where the deciding task fails at once, the others may still start
            self.late_until = self.started + LATE_S
        if verdict == FAILED:
            why = "the job failed: " + why
        self.event(now, why)
