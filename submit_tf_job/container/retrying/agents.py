"""Both kinds of task of a job with `retries`: they end their command and start it again."""

from __future__ import annotations

import signal

from submit_tf_job.container import contract, ports
from submit_tf_job.container import rendezvous as states
from submit_tf_job.container.agent import SILENCE, Agent
from submit_tf_job.container.decider import Decider, Peer
from submit_tf_job.container.follower import Follower
from submit_tf_job.container.info import BootstrapProblem, exit_status, log
from submit_tf_job.container.retrying.generations import oom_kills
from submit_tf_job.container.retrying.retrying_rendezvous import RetryingRendezvous
from submit_tf_job.container.wire import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from submit_tf_job.container.child import Signals
    from submit_tf_job.container.info import Info
    from submit_tf_job.container.names import Resolver
    from submit_tf_job.container.rendezvous import Member, Rendezvous

MOVED = 2  # so many looks at the deciding task's name in turn must find another address


def agent(info: Info, signals: Signals) -> Agent:
    """Return what runs this task."""
    return RetryingDecider(info, signals) if info.decides else RetryingFollower(info, signals)


class Renewing(Agent):
    """A task whose command is ended and started again in the same container."""

    def __init__(self, info: Info, signals: Signals) -> None:
        """Begin with generation 0."""
        super().__init__(info, signals)
        self.prepared: dict[str, str] = {}  # `env` before the first start of the command
        self.problem: BootstrapProblem | None = None  # why the command cannot start
        self.generation = self.next_generation = 0  # of the command, and of the next one
        self.oom_kills = 0

    def renewed(self) -> None:
        """Report that the next command may start."""
        raise NotImplementedError

    def run(self, env: dict[str, str], problem: BootstrapProblem | None) -> int:
        """Run the task to its end."""
        self.prepared, self.problem = dict(env), problem
        return super().run(env, problem)

    def turn(self, now: float) -> None:
        """Watch the command; once it has ended for the next generation, be ready for that."""
        super().turn(now)
        if self.renewing and self.idle:
            self._renew()

    def done_message(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return how the command ended, with its generation."""
        return dict(record, generation=self.generation)

    def described(self, code: int) -> dict[str, Any]:
        """Return a record of the command's return code; it says whether the kernel ended it for
        its memory.
        """
        record = super().described(code)
        if code == -signal.SIGKILL and oom_kills() > self.oom_kills:
            text = "%s was killed by the kernel for want of memory"
            record.update(reason=contract.REASON_OOM, message=text % self.info.name)
        return record

    def start_child(self) -> None:
        """Start the command."""
        self.env[contract.ENV_GENERATION] = str(self.generation)
        self.env[contract.ENV_INDEX] = str(self.info.position)
        self.env[contract.ENV_COUNT] = str(self.info.sizes[self.info.role])
        self.oom_kills = oom_kills()
        super().start_child()

    def renew(self, now: float, generation: int) -> None:
        """End the command, and be ready to start it again; `renewed` is called then.

        A task without a command is ready at once: the start may be the next message.
        """
        self.next_generation = generation
        if not self.renewing:
            log("all tasks start again" + ("; ending the command" if self.child else ""))
            self.renewing = True
            self.stop_child(now)
        if self.idle:
            self._renew()

    def _renew(self) -> None:
        """Forget the ended command, and reserve the task's ports again."""
        self.renewing = self.preparing = False
        self.generation = self.next_generation
        if self.problem:  # another container prepares the task anew
            self.exit = exit_status(self.problem.status)
            return
        if self.child:
            self._free()
            self.env = dict(self.prepared)
            if self.data:
                self.data.renew()
        self.child = self.record = self.close_servers = self.signals.forward = None
        try:
            if not self.reserved:
                self.reserved = ports.reserve_own(self.info, self.env, self.signals)
            if not self.held and self.info.roles[self.info.role].get("ports"):
                self.serve(self.env)
        except BootstrapProblem as problem:
            self.problem = problem
            self.fail(problem)
            return
        self.renewed()

    def _free(self) -> None:
        """Give up what the ended command had: what remains of its processes, and its ports."""
        if self.child:
            self.child.close()
        if self.close_servers:
            self.close_servers()
        for reservation in [self.reserved, *self.held]:
            if reservation:
                reservation.drop()
        self.reserved, self.held = None, []
        self.info.ports.clear()


class RetryingDecider(Renewing, Decider):
    """The deciding task of a job with `retries`."""

    def __init__(self, info: Info, signals: Signals) -> None:
        """Create the state machine; `open` starts to listen."""
        self.job: RetryingRendezvous
        super().__init__(info, signals)
        self.finder = self._finder()
        self.placed = 0.0  # when this task was last looked up
        self.moves = 0  # how often in turn it had another address

    def _finder(self) -> Resolver:
        """Return what finds this task as the others do."""
        if not self.info.by_place:
            return self.resolver
        from submit_tf_job.container.meeting.place import Finder

        return Finder(self.info, self.post)

    def rendezvous_of(self, info: Info) -> Rendezvous:
        """Create the state machine with generations."""
        if not info.task.get("elastic"):
            return RetryingRendezvous(info, info.started, log)
        from submit_tf_job.container.elastic.elastic_rendezvous import ElasticRendezvous

        return ElasticRendezvous(info, info.started, log)

    def history(self) -> dict[str, Any]:
        """Return what every task remembers of the generations, in case YARN replaces this one."""
        return {
            "container": self.info.container,
            "host": self.info.node,
            "generation": self.job.generation,
            "past": self.job.generations.past,
            "resized": self.job.generations.resized,
            "left_out": self.job.left_out(),
            "prepared": not self.job.unprepared,
            "trained": self.job.me.state == states.SUCCEEDED,
        }

    def command_ended(self, now: float) -> None:
        """Have all others remember that the training is over, in case this container is lost."""
        super().command_ended(now)
        if self.job.me.state == states.SUCCEEDED:
            self._remind(all_tasks=True)

    def renewed(self) -> None:
        """Note that this task is ready for the next generation."""
        self.job.ready(self.job.me, self.reserved.port if self.reserved else 0)
        self.changed = True

    def tick(self, now: float) -> bool:
        """Do what is due; leave if YARN has started a later container of this task."""
        if self.job.phase == states.WAITING and self.job.generation:
            self._check_place(now)
        if not self.job.superseded:
            return super().tick(now)
        log("YARN has started a later container of %s; this one leaves" % self.info.name)
        self.exit = contract.EXIT_DECIDER_LOST
        return False

    def _check_place(self, now: float) -> None:
        """Look whether YARN has started this task elsewhere, while it waits for the others.

        After a partition no other task may come back to this one, and so tell it.
        """
        due = now >= self.placed + SILENCE * self.ping_s
        if due and self._home() and not self.finder.busy:
            self.placed = now
            self.finder.start([self.finder.sought(self.info)], self._place_found)

    def _home(self) -> str:
        """Return the address at which the others found this task, "" if that is not known.

        DNS may have had the former container, or have an address of another network.
        """
        me = self.job.me
        if self.info.by_place:
            return self.announced
        return me.address if self.addresses.get(me.name) == me.address else ""

    def _place_found(self, _host: str, address: str | None) -> None:
        moved = bool(address) and address != self._home()
        self.moves = self.moves + 1 if moved else 0
        if self.moves >= MOVED:
            self.job.superseded = True

    def _message(self, peer: Peer, message: Mapping[str, Any]) -> None:
        if peer.member and message["t"] == "ready":
            self._ready_again(peer.member, message)
        else:
            super()._message(peer, message)

    def _ready_again(self, m: Member, message: Mapping[str, Any]) -> None:
        """Note that a task waits for the next generation."""
        if message.get("generation") == self.job.generation:
            self.job.ready(m, states.port_of(message), states.ports_of(message))
            self.changed = True
            if m.state == states.ARRIVED:
                super()._next_step(m.peer, m, {"state": "waiting"})

    def _next_step(self, peer: Peer, m: Member, message: Mapping[str, Any]) -> None:
        runs = m.state == states.LEFT_OUT and message.get("state") != "waiting"
        if self.job.stays(m) and (m.state == states.ABSENT or runs):
            self._send(peer, pack("again", **self.history()))
        elif m.state not in (*states.OUT, states.LEFT_OUT):
            super()._next_step(peer, m, message)

    def _found(self, name: str, address: str | None) -> None:
        if address and self.job.is_stale(name, address):
            address = None
        super()._found(name, address)

    def _enter(self, now: float, phase: str) -> None:
        if self.job.me.state in states.OUT:  # the training is over, perhaps under a former task
            self.next_generation = self.job.generation
        if self.job.generation != self.next_generation:
            self.probed = False
            self.unasked += self.job.joining
            for peer in list(self.peers.values()):
                if peer.member and self.job.stays(peer.member):
                    self._send(peer, pack("again", **self.history()))
            self._remind()
            self.renew(now, self.job.generation)
        super()._enter(now, phase)

    def _start(self) -> None:
        self.info.leave_out(self.job.left_out())
        super()._start()
        self._remind()

    def _remind(self, all_tasks: bool = False) -> None:
        """Have the sidecars remember, too: the witness may be the only other task."""
        for peer in list(self.peers.values()):
            if peer.member and (all_tasks or not self.job.stays(peer.member)):
                self._send(peer, pack("past", **self.history()))

    def _leave(self, now: float) -> None:
        super()._leave(now)
        ends = self.job.verdict != states.STOPPED or self.job.graceful
        if self.exit is not None and ends:
            # YARN would start it again after any other status; the witness tells YARN
            self.exit = 0


class RetryingFollower(Renewing, Follower):
    """Every other task of a job with `retries`; sidecars do not start again, but remember, too."""

    def __init__(self, info: Info, signals: Signals) -> None:
        """Start without a connection, and without a memory."""
        super().__init__(info, signals)
        self.stays = not info.may_grow(info.role)
        # the ended generations, and where the deciding task was, as it told last
        self.remembered: dict[str, Any] = {"generation": 0, "past": [], "resized": 0}
        self.placed = 0.0  # when the name of the deciding task was last looked up while connected
        # of ten thousand tasks two hundred look in each second
        self.place_s = max(SILENCE * info.ping_s, info.total / 200.0)
        self.moves = 0  # how often in turn it had another address
        self.gave_up: int | None = None  # the generation whose command was ended without being told

    def memory(self) -> dict[str, Any]:
        """Return what the deciding task cannot know, in another container or suspended."""
        return dict(self.remembered, gave_up=self.gave_up)

    def start_child(self) -> None:
        """Start the command."""
        self.gave_up = None
        super().start_child()

    def _has_ended(self, _now: float) -> bool:
        """YARN always starts the deciding task again."""
        return False

    def renewed(self) -> None:
        """Tell the deciding task, now or by the next hello."""
        self.told_done = self.noted = False
        if self.welcomed:
            port = self.reserved.port if self.reserved else 0
            self._send(pack("ready", generation=self.generation, port=port, ports=self.info.served))

    def _message(self, now: float, message: Mapping[str, Any]) -> None:
        if "past" in message:
            self.remembered = {
                "generation": message["generation"],
                "past": message["past"],
                "resized": message["resized"],
                "prepared": message["prepared"],
                "trained": message["trained"],
                "seen_container": message["container"],
                "seen_host": message["host"],
            }
        if message["t"] == "again":
            if self.leave is None:
                self.renew(now, message["generation"])
            return
        if message["t"] == "go" and not self.child:
            self.generation = self.remembered["generation"]
            # a sidecar may start before the tasks are counted
            self.info.leave_out(message.get("left_out", {}))
        super()._message(now, message)

    def tick(self, now: float) -> bool:
        """Do what is due."""
        busy = super().tick(now)
        if self.exit is not None:
            return busy
        if self.welcomed:
            self._check_place(now)
        if not self.stays:
            return busy
        return self.renewing or self.leave is not None or not self.channel

    def _check_place(self, now: float) -> None:
        """Look whether YARN has started the deciding task elsewhere, while this task is connected.

        The connection to a node that YARN gave up may last.
        """
        if not self.resolver.busy and now >= self.placed + self.place_s:
            self.placed = now
            self.resolver.start([self.resolver.sought(self.info)], self._place_found)

    def _place_found(self, _host: str, address: str | None) -> None:
        moved = bool(address) and address != self.address
        self.moves = self.moves + 1 if moved else 0
        if self.moves >= MOVED and self.welcomed:
            self.moves = 0
            log("%s is now at %s" % (self.info.deciding, address))
            self._send(pack("away"))
            self._drop()

    def _check_end(self, now: float) -> None:
        if self.leave is not None or (self.record and not self.stays):
            super()._check_end(now)
        elif not self.welcomed:
            self._await_decider(now)

    def _await_decider(self, now: float) -> None:
        """Wait for a deciding task that YARN may start again in another container.

        Without it the command of a task that stays is ended after `grace`, because the next
        generation starts it again; a deciding task that was suspended calls it when it learns that.
        """
        task = self.info.task
        alone = now >= self.lost_at + task["grace_s"]
        ended = self.record or self.ending  # the deciding task may only be suspended
        if self.stays and self.child and not (self.renewing or ended) and alone:
            self.gave_up = self.generation
            self._drop(busy=True)  # a hello that is under way does not say it
            self.renew(now, self.generation)
        if now < max(self.start_deadline, self.lost_at + task["start_timeout_s"]):
            return
        log("%s was not found in time: %s" % (self.info.deciding, self.trouble))
        # YARN would start a task that stays again after any other status; the witness tells YARN
        self._leave_with(now, 0 if self.stays else contract.EXIT_PEERS_MISSING)
