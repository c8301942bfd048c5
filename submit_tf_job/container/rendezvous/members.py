"""The state of a job in its deciding task: the job's tasks, and what is known and decided about
them.

The topics of the state machine are the other modules of this folder, functions over a `Rendezvous`:
`arrivals` (which tasks are connected), `start` (when do the commands start, and with how many
tasks), `failures` (which task failed first, and do all tasks start again), `ending` (when is the
job over, and what ends with it). `machine` has the events, `states` the words for phases and
states. These modules have no sockets and no clock: every function gets `now`, seconds of a
monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from submit_tf_job.container import contract, untrusted
from submit_tf_job.container.info import Info
from submit_tf_job.container.job_usage import JobUsage
from submit_tf_job.container.progress import STILL_S, TaskNews
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.generations import Generations

NEVER = {"max": 0, "on": ()}  # the `retries` of a job without
NEAR = 0.9  # the start waits for elastic tasks for this part of `start_timeout` at most
KEPT = 20  # entries in the lists of a report


def listed(names: list[str]) -> str:
    """Join names for a sentence: the first twenty names, and the number of the other names."""
    more = len(names) - KEPT
    return ", ".join(names[:KEPT]) + (f" and {more} more" if more > 0 else "")


def is_loopback(address: str) -> bool:
    """Return whether an IPv4 address is a loopback address (127.…), which other machines cannot
    reach.
    """
    return address.startswith("127.")


class Member:
    """One task in the state machine."""

    def __init__(self, role: str, index: int, role_kind: str) -> None:
        self.role, self.role_kind, self.state = role, role_kind, states.ABSENT
        self.is_sidecar = role_kind == contract.KIND_SIDECAR
        self.name = f"{role}-{index}"
        self.process = self.host = self.address = self.container = ""
        self.origin = ""  # the address that its connection came from
        self.port = 0  # the port that it reserved for its command; 0 if it said none
        self.ports: dict[str, int] = {}  # the ports that it serves, by name
        self.gpus: list[str] = []  # the models of those that it sees
        self.directory = ""  # where its command ran, where its container may be held
        self.attempt = self.failures = 0
        self.failed_process = ""  # the process that its latest restart replaces
        self.call = 0  # the number of its connection among those of the process
        self.status: int | None = None
        self.met: bool | None = None  # whether its command met another task; None: not known
        self.peer: Any = None
        self.since = 0.0  # when it was lost, or its last attempt ended
        self.stopping = False  # it reported that YARN stops it
        self.closed = False  # its kernel closed the connection that is lost
        self.returns = False  # it announced that it closes that connection to make another


class Rendezvous:
    """The state of the job, as its deciding task keeps it."""

    def __init__(self, info: Info, now: float, tell: Callable[[str], None]) -> None:
        """Create the state of a job of which no task has connected yet.

        Args:
            info: The description of the deciding task.
            now: When its bootstrap started, in monotonic seconds.
            tell: Called with the text of each event.
        """
        task = info.task
        self.info, self.tell, self.started = info, tell, now
        self.verdict, self.exit = "", 0
        self.why = ""  # the reason of its end
        self.graceful = False  # whoever stops the job waits until its tasks have saved
        self.closing = False  # the witness is told of the end, last of all
        self.warnings: list[str] = []
        self.warned: dict[str, str] = {}  # of these by what they are about
        self.events: list[dict[str, Any]] = []
        # tasks that run as plain processes because the NodeManager ignored the image
        self.image_ignored: list[str] = []
        self._create_members(info)
        self._begin_start_phase(info, now)
        self._begin_failure_phase(now)
        self.await_start(now)
        self.news = TaskNews(float(task.get("still_s", STILL_S)))
        self.progress: dict[str, Any] | None = None
        self.checkpoint: dict[str, Any] | None = None  # the newest one that was seen
        self.checkpoint_told = 0  # the restart of which was said whether it finds one
        self.usage = JobUsage()
        self.stored: dict[tuple[str, str], set[str]] = {}  # name and URI of an output → its tasks
        self.finish_deadline = self.linger_until = self.late_until = now

    def _create_members(self, info: Info) -> None:
        self.members = {
            f"{role}-{index}": Member(role, index, info.role_kind(role))
            for role in info.counts
            for index in range(info.counts[role])
        }
        self.me = self.members[info.name]
        # the task whose end is the application's for YARN
        self.witness = self.members.get(contract.WITNESS)
        self.counts = {role: {states.ABSENT: count} for role, count in info.counts.items()}
        self.restarts = dict.fromkeys(info.counts, 0)
        self.away: dict[str, Member] = {}
        # all but the sidecars, which alone may become more
        self.cluster = [member for member in self.members.values() if not member.is_sidecar]
        self.barrier = self.absent = len(self.cluster)  # tasks that the start (still) waits for
        # tasks whose names DNS has not returned
        self.unresolved = {member.name for member in self.cluster if self.barrier > 1}
        # elastic roles, and what they may be
        self.rules: Mapping[str, Any] = info.task.get("elastic") or {}
        # their tasks for which the start waits until `patient_until`
        self.expected = {member.name for member in self.members.values() if self.is_elastic(member)}
        # and those of a role that serves, which come back without a new generation
        self.rejoining: set[str] = set()

    def _begin_start_phase(self, info: Info, now: float) -> None:
        # whether programs are given names; else they get addresses
        self.by_name = not (info.task.get("dns_server") or info.by_place)
        self.start_times: dict[str, Any] | None = None
        self.named: set[str] = set()  # the tasks that programs know by name
        self.unprepared = bool(info.task.get("prepare"))
        self.patient_until = now + NEAR * info.task["start_timeout_s"]

    def _begin_failure_phase(self, now: float) -> None:
        self.generations = Generations(self.info.task.get("retries") or NEVER)
        self.refusal = ""  # why the failure of the job was not retried
        self.superseded = False  # a later container of the deciding task is known
        # the loss of the former deciding task, if this one replaces it
        self.predecessor: dict[str, Any] | None = None
        self.first: dict[str, Any] | None = None
        self.kept: dict[str, Any] | None = None  # the container that is held after the failure
        self.later: list[dict[str, Any]] = []
        self.settle_until = now
        self.still_s = 0.0  # how long the deciding task was suspended
        self.trusted_at = now  # from then on a closed connection means an ended process
        self.wary_until = now  # until then a lost connection is no cause of a failure

    def await_start(self, now: float) -> None:
        """Begin to wait, at `now`, for the start of a generation; forget the failures and times of
        the former one.
        """
        self.phase = states.WAITING
        self.generation_started = now
        self.start_deadline = now + self.info.task["start_timeout_s"]
        # when the last task connected, and what came before and after
        self.complete_at: float | None = None
        self.last_launch, self.longest_search_s = now, 0.0
        # roles whose commands wait for those of others, and since when only for tasks that serve
        self.held = {role for role in self.info.counts if self.info.roles[role].get("after")}
        self.held_since: dict[str, float] = {}
        # candidates for the first cause, until it is determined
        self.failures: list[dict[str, Any]] = []
        self.outcome: dict[str, Any] | None = None
        # task, time, completed part
        self.first_progress: tuple[str, float, float] | None = None

    # --- tasks ------------------------------------------------------------------------------------
    def set_state(self, member: Member, state: str, now: float = 0.0) -> None:
        """Change a task's state, and update all counts in constant time. `now` is needed for the
        states in `AWAY`: since when the task is away.
        """
        counts = self.counts[member.role]
        counts[member.state] -= 1
        counts[state] = counts.get(state, 0) + 1
        if not member.is_sidecar:
            self.absent += (state in states.AWAITED) - (member.state in states.AWAITED)
        member.state = state
        if state in states.AWAY:
            member.since = now
            self.away[member.name] = member
        else:
            self.away.pop(member.name, None)

    def count(self, role: str, *states: str) -> int:
        """Return how many tasks of a role are in any of the given states."""
        counts = self.counts[role]
        return sum(counts.get(state, 0) for state in states)

    def stays(self, member: Member) -> bool:
        """Return whether a task keeps its container for a later generation: in a job with
        `retries`, each task that is not a sidecar.
        """
        return self.retries > 0 and not member.is_sidecar

    def is_elastic(self, member: Member) -> bool:
        """Return whether a generation may run without this task."""
        return member.role in self.rules and member is not self.me

    def is_missed(self, member: Member) -> bool:
        """Return whether the present generation runs without this task."""
        return member.state == states.LEFT_OUT and member.name not in self.rejoining

    def left_out(self) -> dict[str, list[int]]:
        """Return, by role, the indexes of the tasks without which the present generation runs."""
        return {
            role: [
                index
                for index in range(self.info.counts[role])
                if self.is_missed(self.members[f"{role}-{index}"])
            ]
            for role in self.rules
            if self.count(role, states.LEFT_OUT)
        }

    def missing(self) -> list[str]:
        """Return the tasks that the start waits for and that have not connected."""
        return [
            member.name
            for member in self.members.values()
            if member.state in states.AWAITED and (not member.is_sidecar or member is self.witness)
        ]

    def keep_stored(self, member: Member, stored: Any) -> None:
        """Keep which outputs a task has stored: a list of name and URI of each."""
        for place in stored if isinstance(stored, list) else ():
            named = untrusted.texts(place, 2000)
            if len(named) == 2:
                self.stored.setdefault((named[0], named[1]), set()).add(member.name)

    # --- addresses --------------------------------------------------------------------------------
    def has_mixed_addresses(self) -> bool:
        """Return whether a task reported an address that is not a loopback address: loopback
        addresses are then not usable.
        """
        return any(
            member.address and not is_loopback(member.address) for member in self.members.values()
        )

    @staticmethod
    def is_addressed(member: Member, mixed: bool) -> bool:
        """Return whether the address that a task reported is usable: it is also the source address
        of the task's connection and, if `mixed` (`has_mixed_addresses`), not a loopback address.
        """
        return (
            bool(member.address)
            and member.address == member.origin
            and not (mixed and is_loopback(member.address))
        )

    # --- generations ------------------------------------------------------------------------------
    @property
    def retries(self) -> int:
        """How often all tasks may start again after a failure; 0 in a job without `retries`."""
        return self.generations.most

    @property
    def generation(self) -> int:
        """The number of the present generation: how often all tasks have started again."""
        return self.generations.count

    @property
    def step(self) -> float | None:
        """The last step that the job reported; None if it reported none."""
        return (self.progress or {}).get("step")

    # --- what is told -----------------------------------------------------------------------------
    def event(self, now: float, text: str) -> None:
        """Log an event, and keep it for the report; the first fifty events and the last fifty are
        kept.
        """
        self.tell(text)
        if len(self.events) >= 100:
            del self.events[50]
        self.events.append({"at": self.info.wall + now, "text": text[:500]})

    def warn(self, now: float, text: str, about: str = "") -> None:
        """Keep a warning that does not fail the job, and add it to the events. At most `KEPT`
        warnings are kept.

        With `about`, it replaces an earlier warning about the same subject; the text "" only
        removes that warning.
        """
        former = self.warned.pop(about, None)
        if former in self.warnings:
            self.warnings.remove(former)
        if text and len(self.warnings) < KEPT:
            self.warnings.append(text[:500])
            if about:
                self.warned[about] = text[:500]
        if text:
            self.event(now, text)

    def warn_once(self, now: float, text: str) -> None:
        """Keep a warning, unless a warning with the same text is kept already."""
        if text[:500] not in self.warnings:
            self.warn(now, text)

    def record(self, member: Member, at: float, reason: str, message: str) -> dict[str, Any]:
        """Return the record of a task's failure at the time `at`, without exit status, signal and
        output.
        """
        who = {
            "task": member.name,
            "host": member.host,
            "container": member.container,
            "at": self.info.wall + at,
        }
        return dict(who, status=None, signal=None, reason=reason, message=message, last_lines=[])
