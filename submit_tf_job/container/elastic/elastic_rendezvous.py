"""The state machine of a job with elastic roles: a generation does without tasks that do not come.

YARN is asked for the most tasks of a role. Those that come while a generation trains wait for the
next one, which is called for them after a while.
"""

from __future__ import annotations

from submit_tf_job.container import contract
from submit_tf_job.container.rendezvous import (
    ALIVE,
    ARRIVED,
    AWAITED,
    LEFT_OUT,
    NAMES_S,
    OUT,
    RUNNING,
    WAITING,
    Member,
)
from submit_tf_job.container.retrying.generations import kind_of
from submit_tf_job.container.retrying.retrying_rendezvous import RetryingRendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from submit_tf_job.container.info import Info

REPLACED_S = 60.0  # a generation after the first waits so long for the replacement of a lost task
NEAR = 0.9  # and each waits for this part of `start_timeout` at most


class ElasticRendezvous(RetryingRendezvous):
    """The state machine with generations of different sizes."""

    def __init__(self, info: Info, now: float, tell: Callable[[str], None]) -> None:
        """Start to wait for all tasks, of elastic roles for the most."""
        self.rules: Mapping[str, Any] = info.task["elastic"]
        self.grow_after_s: float = min(rule["grow_after_s"] for rule in self.rules.values())
        # tasks of a role that serves, which come back without a new generation
        self.rejoining: set[str] = set()
        super().__init__(info, now, tell)
        # the tasks for which the start waits until `patient_until`
        self.expected = {m.name for m in self.members.values() if self._is_elastic(m)}
        self.patient_until = now + NEAR * info.task["start_timeout_s"]

    def _is_elastic(self, m: Member) -> bool:
        return m.role in self.rules and m is not self.me

    def left_out(self) -> dict[str, list[int]]:
        """Return the tasks that the present generation does without, by role."""
        return {
            role: [
                index
                for index in range(self.info.counts[role])
                if self._is_missed(self.members["%s-%d" % (role, index)])
            ]
            for role in self.rules
            if self.counts[role].get(LEFT_OUT)
        }

    def _await_return(self, now: float, m: Member) -> None:
        """Do without a task that may never have come to the former deciding task."""
        if self._is_elastic(m):
            self._set(m, LEFT_OUT)
        else:
            super()._await_return(now, m)

    def _is_missed(self, m: Member) -> bool:
        return m.state == LEFT_OUT and m.name not in self.rejoining

    # --- the start --------------------------------------------------------------------------------
    def _may_start(self, now: float) -> bool:
        if self.absent:
            self._do_without(now)
        return super()._may_start(now)

    def _do_without(self, now: float) -> None:
        """Leave out the tasks that have not come, if the others are enough and have waited."""
        missing = [
            m
            for m in self.members.values()
            if m.role_kind != contract.KIND_SIDECAR and m.state in AWAITED
        ]
        if not all(self._is_elastic(m) and m.peer is None for m in missing):
            return
        if not self._is_the_only_one():
            return
        if now < self.patient_until and any(m.name in self.expected for m in missing):
            return
        if any(self._here(role) < rule["min"] for role, rule in self.rules.items()):
            return
        for m in missing:
            self._set(m, LEFT_OUT)
            self.unresolved.discard(m.name)

    def _is_the_only_one(self) -> bool:
        """Return whether no other deciding task can do without this one's tasks at the same time.

        The witness is connected to one of them: that of a task that was cut off and replaced has
        none, and waits.
        """
        witness = self.witness
        return witness is None or witness.peer is not None or witness.closed

    def _here(self, role: str) -> int:
        """Count the tasks of a role that are connected and in this generation."""
        counts = self.counts[role]
        return counts.get(ARRIVED, 0) + counts.get(ALIVE, 0)

    def _start(self, now: float) -> None:
        super()._start(now)
        for role in sorted(self.rules):
            size = self._here(role)
            if size < self.info.counts[role]:
                text = "%s trains with %d of %d tasks (at least %d)"
                self.event(now, text % (role, size, self.info.counts[role], self._least(role)))

    def _least(self, role: str) -> int:
        least: int = self.rules[role]["min"]
        return least

    def _peers_missing(self, now: float) -> None:
        for role in sorted(self.rules):
            if self._here(role) < self._least(role):
                text = "%s has %d tasks, and needs at least %d"
                self.event(now, text % (role, self._here(role), self._least(role)))
        super()._peers_missing(now)

    # --- tasks that come later --------------------------------------------------------------------
    def _introduce(self, now: float, m: Member, message: Mapping[str, Any]) -> None:
        super()._introduce(now, m, message)
        if m.state == LEFT_OUT:
            self._rename(m)  # if the start is yet to come
            if self._is_missed(m) and self.phase != WAITING:
                self.event(now, "%s came (%s), and joins the next generation" % (m.name, m.host))

    def _state_of(self, m: Member, message: Mapping[str, Any]) -> str:
        if self._is_missed(m) and self.phase != WAITING:
            return LEFT_OUT
        if (
            m.name in self.rejoining
            and self._gave_up(message)
            and message.get("state") != "waiting"
        ):
            return LEFT_OUT  # until its command has ended
        self.rejoining.discard(m.name)
        return super()._state_of(m, message)

    def ready(self, m: Member, port: int, ports: Mapping[str, int] | None = None) -> None:
        """Record that a task has ended its command, and waits for the start of the next one."""
        if m.name in self.rejoining:
            self.rejoining.discard(m.name)
            self._set(m, ARRIVED)
        super().ready(m, port, ports)

    def tick(self, now: float, read_until: float | None = None) -> None:
        """Handle the deadlines that have passed; take in the tasks that have come."""
        super().tick(now, read_until)
        due = now >= self.generation_started + self.grow_after_s
        if due and self.phase == RUNNING and not self.failures:
            came = [m for m in self.members.values() if self._is_missed(m) and m.peer is not None]
            if came and not self._any_has_ended():
                self._grow(now, came)

    def _any_has_ended(self) -> bool:
        return any(
            m.state in OUT for m in self.members.values() if m.role_kind != contract.KIND_SIDECAR
        )

    def _grow(self, now: float, came: list[Member]) -> None:
        names = ", ".join(m.name for m in came[:5]) + (" and more" if len(came) > 5 else "")
        cause = self._record(came[0], now, contract.REASON_GROWN, "%s came" % names)
        self._resize(now, cause, "%s came: all tasks start again, to take them in" % names)

    def _retried(self, now: float, cause: Mapping[str, Any]) -> bool:
        """Call the next generation, if `retries` covers the first failure.

        Where YARN has ended tasks, and enough are left, it is no retry.
        """
        m = self.members.get(str(cause["task"]))
        over = self.me.state in OUT
        if m is None or not self._is_elastic(m) or not m.stopping or over:
            return super()._retried(now, cause)
        left = [
            other
            for other in self.members.values()
            if other.role == m.role and other.peer is not None and not other.stopping
        ]
        if len(left) < self._least(m.role):
            return super()._retried(now, cause)
        text = "%s; all tasks start again, without it" % cause["message"]
        self._resize(now, dict(cause, reason=contract.REASON_SHRUNK), text)
        return True

    def _resize(self, now: float, cause: Mapping[str, Any], text: str) -> None:
        step, wall = (self.progress or {}).get("step"), self.info.wall
        self.generations.end(cause, step, wall + self.generation_started, wall + now)
        self.event(now, text)
        self._await_all(now)

    def _await_all(self, now: float) -> None:
        elastic = [m for m in self.members.values() if self._is_elastic(m)]
        missed = [m for m in elastic if self._is_missed(m)]
        # one that YARN stopped is preempted, drained or scaled down, and comes back late or never
        self.expected = {
            m.name for m in elastic if m.peer is not None or not (self._is_missed(m) or m.stopping)
        }
        self.rejoining.clear()
        super()._await_all(now)
        task = self.info.task
        # a lost task that is only cut off ends its command after `grace`
        patience_s = max(
            min(REPLACED_S, NEAR * task["start_timeout_s"]),
            task["grace_s"] + self.info.stop_grace_s,
        )
        self.patient_until = now + patience_s
        self.start_deadline = max(self.start_deadline, self.patient_until + NAMES_S)
        self.joining = [m.name for m in missed if m.peer is not None]
        if self.barrier > 1:
            self.unresolved.update(m.name for m in missed)

    # --- failures ---------------------------------------------------------------------------------
    def _failed(self, now: float, m: Member, record: dict[str, Any]) -> None:
        """Handle a failed or lost task; the others go on without a lost one that serves.

        ParameterServerStrategy gives a worker's steps to the others, and takes it back.
        """
        serves = self._is_elastic(m) and m.role_kind == contract.KIND_SERVES
        lost = record["status"] is None and kind_of(record) == contract.RETRY_LOST
        calm = self.phase == RUNNING and not self.failures
        if serves and lost and calm and self._here(m.role) >= self._least(m.role):
            self._set(m, LEFT_OUT)
            self.rejoining.add(m.name)
            text = "%s; %s goes on with %d tasks"
            self.event(now, text % (record["message"], m.role, self._here(m.role)))
        else:
            super()._failed(now, m, record)

    def more(self) -> dict[str, Any]:
        """Return further fields of the report."""
        left_out = self.left_out()
        sizes = {}
        for role, rule in self.rules.items():
            most = self.info.counts[role]
            size = most - len(left_out.get(role, ()))
            sizes[role] = {"min": rule["min"], "max": most, "now": size}
        return dict(super().more(), elastic=sizes)
