"""The state machine of a job with `retries`: after a failure all tasks start again.

All tasks but sidecars keep their containers between two generations, and YARN replaces those that
are lost, the deciding task's, too.
"""

from __future__ import annotations

import signal

from submit_tf_job.container import contract
from submit_tf_job.container.rendezvous import (
    ABSENT,
    ALIVE,
    ARRIVED,
    ENDED,
    ENDING,
    FAILED,
    LOST,
    OUT,
    RESTARTING,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    WAITING,
    Member,
    Rendezvous,
)
from submit_tf_job.container.retrying.generations import Generations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from submit_tf_job.container.info import Info

ANSWERING = (ARRIVED, ALIVE, LOST)  # a task in these states is believed to run its command
WITNESS_S = 60.0  # the start waits so long for the witness


def serial(container: Any) -> tuple[int, ...]:
    """Return what orders the containers of one application: `container_e1_17_0001_01_000005`."""
    numbers = str(container).split("_")[-2:]
    return tuple(int(number) for number in numbers if number.isdecimal())


class RetryingRendezvous(Rendezvous):
    """The state machine with generations."""

    def __init__(self, info: Info, now: float, tell: Callable[[str], None]) -> None:
        """Start to wait for the first generation, or for the one after a lost deciding task."""
        self.generations = Generations(info.task["retries"])
        self.refusal = ""  # why the failure of the job was not retried
        self.superseded = False  # a later container of the deciding task is known
        # the loss of the former deciding task, if this one replaces it
        self.predecessor: dict[str, Any] | None = None
        self.generation_started = now
        self.joining: list[str] = []  # tasks of the next generation whose names are to be looked up
        super().__init__(info, now, tell)

    @property
    def generation(self) -> int:
        """How often all tasks have started again."""
        return self.generations.count

    def stays(self, m: Member) -> bool:
        """Return whether a task keeps its container when its command ends, for a later generation.

        Sidecars do not start again with the others.
        """
        return m.role_kind != contract.KIND_SIDECAR

    def leave_status(self, m: Member) -> int:
        """Return the exit status for a task that must end: 0 for those that YARN starts again."""
        return 0 if self.stays(m) else super().leave_status(m)

    # --- arrivals ---------------------------------------------------------------------------------
    def _refusal(self, now: float, m: Member, peer: Any, message: Mapping[str, Any]) -> str:
        other = self._refusal_of_other_containers(now, m, peer, message)
        if other:
            return other
        if self.verdict == STOPPED and not self.graceful:
            return "busy"  # YARN ends this deciding task alone, or all tasks by itself
        if not self.stays(m):
            if (
                m.state == FAILED
                and m.process == message["process"]
                and message.get("state") != "done"
            ):
                self._set(m, ALIVE)  # it was cut off for longer than `grace`
                self.event(now, "%s is back" % m.name)
            return super()._refusal(now, m, peer, message)
        if self.phase == ENDING and not self.graceful:
            return self._refusal_at_the_end(m, message)
        if self.phase == WAITING:
            return ""
        return "busy" if self._awaits_its_generation(now, m, message) else ""

    def _refusal_of_other_containers(
        self, now: float, m: Member, peer: Any, message: Mapping[str, Any]
    ) -> str:
        process, container = message["process"], serial(message.get("container"))
        if m.process != process and container and container < serial(m.container):
            return "finished"  # it was cut off or suspended, and YARN has started a later one
        if m.peer not in (None, peer) and m.process != process:
            return "busy"
        if serial(message.get("seen_container")) > serial(self.info.container):
            self.superseded = True
            return "busy"
        if self.phase == WAITING and message.get("seen") not in (None, self.me.process):
            self.generations.learn(*map(message.get, ("generation", "past", "resized")))
            if message.get("prepared") is True:
                self.unprepared = False
            if message.get("trained") is True:
                self._end_training(now)
            else:
                self._succeed(now, message)
        return ""

    def _refusal_at_the_end(self, m: Member, message: Mapping[str, Any]) -> str:
        done = message.get("state") == "done"
        if m.state in OUT:
            return "" if m.process == message["process"] and done else "finished"
        if done:
            return ""
        self._set(m, ENDED)
        return "end"

    def _awaits_its_generation(self, now: float, m: Member, message: Mapping[str, Any]) -> bool:
        """Return whether a task is told to come again once the next generation is called."""
        gave_up = self._gave_up(message)
        if gave_up and m.state in ANSWERING and not self.failures:
            self._set(m, LOST, now)
            self._failed(now, m, self._given_up(m))
        if m.process == message["process"]:
            return gave_up and bool(self.failures)
        # a new container of a task that has just failed
        return bool(self.failures or m.state == FAILED or (m.process and self._replaced(now, m)))

    def _gave_up(self, message: Mapping[str, Any]) -> bool:
        """Return whether a task has ended its command of this generation while it was alone."""
        return message.get("gave_up") == self.generation

    def _given_up(self, m: Member) -> dict[str, Any]:
        # ended by SIGTERM: its node is not to blame
        return dict(self._record(m, m.since, "lost", self._ended_alone(m)), signal=signal.SIGTERM)

    def _state_of(self, m: Member, message: Mapping[str, Any]) -> str:
        state = super()._state_of(m, message)
        # the start waits for the end of a command of an earlier generation
        earlier = self.stays(m) and self.phase == WAITING and state != ARRIVED
        return ABSENT if earlier else state

    def _succeed(self, now: float, message: Mapping[str, Any]) -> None:
        """Start a generation after the loss of the former deciding task, once for this process.

        Other tasks may remember more losses than the one that told of it first.
        """
        if self.predecessor is None:
            text = "%s was lost (killed, or its node died), and YARN has started it again"
            record = self._record(self.me, now, "lost", text % self.me.name)
            record["container"] = str(message.get("seen_container", ""))[:255]
            record["host"] = str(message.get("seen_host", ""))[:255]
            self.predecessor = record
            if self._retried(now, record):
                return
        elif self.generations.used > self.generations.most:
            self.refusal = self.generations.used_up()
        if self.refusal:
            self.first, self.exit = self.predecessor, contract.EXIT_JOB_FAILED
            self._end(now, FAILED, self.predecessor["message"])

    def _end_training(self, now: float) -> None:
        """Continue where the former deciding task was lost after its command had succeeded."""
        if self.me.state in OUT:
            return
        self.event(now, "%s was lost after its command had ended with 0" % self.me.name)
        self._set(self.me, SUCCEEDED)
        self.me.status = 0
        self.outcome = {"status": 0, "signal": None, "duration_s": None}  # of the former one
        self.phase = RUNNING
        for m in self.members.values():
            if self.stays(m) and m.state == ABSENT:
                self._await_return(now, m)
        self._check_end(now)

    def _await_return(self, now: float, m: Member) -> None:
        """Give a task `grace` to connect to this deciding task; it may be lost as well."""
        self._set(m, LOST, now)

    def left_out(self) -> dict[str, list[int]]:
        """Return the tasks that the present generation does without, by role."""
        return {}

    def ready(self, m: Member, port: int, ports: Mapping[str, int] | None = None) -> None:
        """Record that a task has ended its command, and waits for the start of the next one."""
        m.port = port
        if ports is not None:
            m.ports = dict(ports)
        if m.state == RESTARTING or (self.phase == WAITING and m.state not in OUT):
            self._set(m, ARRIVED)

    def is_stale(self, name: str, address: str) -> bool:
        """Return whether DNS still has the address of a task's former container."""
        m = self.members[name]
        known = self._is_addressed(m, self._has_mixed_addresses())
        return m.attempt > 0 and known and address != m.address

    def _awaits_witness(self, now: float) -> bool:
        """Return whether the start waits for the witness.

        In a job of one task no other one remembers earlier generations. Hadoop 3.1 and 3.2 go on
        without one that was lost.
        """
        lost = self.generation or self.predecessor or (self.witness and self.witness.process)
        if lost and now >= min(self.started + WITNESS_S, self.start_deadline):
            return False
        return super()._awaits_witness(now)

    def _start(self, now: float) -> None:
        self.generation_started = now
        super()._start(now)

    # --- failures ---------------------------------------------------------------------------------
    def done(self, now: float, m: Member, message: Mapping[str, Any]) -> None:
        """Handle the end of a task's command, unless it is one of an earlier generation."""
        if not self.stays(m) or message.get("generation") == self.generation:
            super().done(now, m, message)

    def _name_cause(self, now: float) -> None:
        if not self._retried(now, self._earliest()):
            super()._name_cause(now)

    def _retried(self, now: float, cause: Mapping[str, Any]) -> bool:
        """Call the next generation, if `retries` covers the first failure."""
        step = (self.progress or {}).get("step")
        self.refusal = self.generations.refusal(cause, step)
        if self.me.state == SUCCEEDED:
            text = "not retried: %s had ended with 0, so the training is over"
            self.refusal = text % self.me.name
        if self.refusal:
            self.event(now, self.refusal)
            return False
        wall = self.info.wall
        # the start of a generation that a former deciding task led is not known
        began = None if cause is self.predecessor else wall + self.generation_started
        self.generations.end(cause, step, began, wall + now)
        text = "%s; all tasks start again (retry %d of %d)"
        most = self.generations.most
        self.event(now, text % (cause["message"], self.generations.used, most))
        left_out = self.generations.left_out()
        if left_out:
            self.warn(now, left_out)
        self._await_all(now)
        return True

    def _await_all(self, now: float) -> None:
        """Wait for all tasks to be ready for the next generation; sidecars go on."""
        self.phase, self.complete_at = WAITING, None
        self.generation_started = self.last_launch = now
        self.longest_search_s = 0.0
        self.start_deadline = now + self.info.task["start_timeout_s"]
        self.failures, self.outcome, self.first_progress = [], None, None
        self.held = {role for role in self.info.counts if self.info.roles[role].get("after")}
        self.held_since.clear()
        for m in self.members.values():
            if self.stays(m):
                m.failures, m.failed_process, m.status, m.stopping = 0, "", None, False
                self._set(m, ABSENT)

    def more(self) -> dict[str, Any]:
        """Return further fields of the report."""
        return {
            "generation": self.generation,
            "generations": self.generations.past,
            "retries": {
                "max": self.generations.most,
                "used": self.generations.used,
                "refusal": self.refusal,
            },
        }

    @property
    def stage(self) -> tuple[str, int]:
        """The phase, and the generation."""
        return self.phase, self.generation
