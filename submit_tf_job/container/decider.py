"""The deciding task: accepts connections of all other tasks, and drives the job's state machine."""

from __future__ import annotations

import collections
import errno
import resource
import selectors
import socket
import time
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract, tfconfig
from submit_tf_job.container.agent import SILENCE, TICK_S, Agent
from submit_tf_job.container.child import Signals
from submit_tf_job.container.info import BootstrapProblem, Info, exit_status, log
from submit_tf_job.container.job_report import Writer
from submit_tf_job.container.meeting import members as states
from submit_tf_job.container.meeting.ending import saves
from submit_tf_job.container.meeting.members import Member
from submit_tf_job.container.meeting.rendezvous import Rendezvous
from submit_tf_job.container.names import MOVED, Resolver, finder, plain
from submit_tf_job.container.ports import BACKLOG, Reservation, reserve
from submit_tf_job.container.wire import (
    EVENTS,
    LINE_LIMIT,
    Channel,
    ChannelClosed,
    pack,
    pack_addresses,
)

HELLO_S = 10.0  # time for a connection to send its hello
UNIDENTIFIED = 256  # connections without a hello, beyond one per task
ACCEPTED = 2 * BACKLOG  # connections in one turn: more than the kernel keeps
STILL_S = 2 * TICK_S  # a longer turn means that this task may have been suspended
LAST_REPORT_S = 10.0  # how long the last report is tried again
LAST_S = 3.0  # from the SIGKILL of a command to the end of its deciding task
FLUSH_S = 0.3  # from the last message to the end of this task
LOOKUP_S = 0.5  # between two rounds of DNS queries


class Peer:
    """A connection to another task."""

    __slots__ = (
        "alive",
        "answered",
        "away",
        "channel",
        "ends",
        "heard",
        "member",
        "origin",
        "pongs",
        "told",
        "writing",
    )

    def __init__(self, channel: Channel, ends: tuple[str, str], now: float) -> None:
        """Keep a connection whose task is not yet known; `ends` are its and our address."""
        self.channel, self.origin, self.ends, self.heard = channel, ends[0], ends, now
        self.member: Member | None = None
        self.writing = False
        self.away = False  # the other task closes this connection, and lives
        self.told: collections.deque[float] = collections.deque([now], 9)  # `pong` and `welcome`
        self.pongs = 0
        self.alive = False  # it was pinged after a failure, and that has arrived
        self.answered = False  # and it has no end of a command left to report


def _age(now: float, peer: Peer, message: Mapping[str, Any]) -> float:
    """Return how long ago a task's command ended.

    The message may have waited in a buffer, but the task tells how long after which `pong` of ours
    that was, too.
    """
    ago, after, number = (
        float(value) if isinstance(value, (int, float)) else 0.0
        for value in (message.get(key) for key in ("ago", "after", "number"))
    )
    place = int(number) - peer.pongs - 1
    if "after" in message and -len(peer.told) <= place < 0:
        ago = max(ago, now - peer.told[place] - after)
    return ago


class Decider(Agent):
    """Runs the deciding task: index 0 of the role that decides.

    A job of one task runs this class, too, without listening.
    """

    def __init__(self, info: Info, signals: Signals) -> None:
        """Create the state machine; `open` starts to listen."""
        super().__init__(info, signals)
        self.job = Rendezvous(info, info.started, log)
        self.writer = Writer(self.job)
        self.peers: dict[int, Peer] = {}
        self.unidentified: dict[int, Peer] = {}  # in order of arrival
        self.logged: set[str] = set()
        # one of them and `grace` pass until a node that died silently is noticed: with ten
        # thousand tasks less than a minute
        self.ping_s = max(info.ping_s, info.total / 1250.0)
        self.progress_s = max(1.0, info.total / 100.0)
        self.stage = self.job.stage
        self.changed = True
        self.probed = False  # whether all tasks were pinged after a failure
        self.probe, self.probed_at = 0, 0.0
        # what had arrived until then is read; also of connections that were still to be accepted
        self.read_until = self.accepted_until = info.started
        self.saved = False  # in a graceful stop: all tasks that save have ended
        self.checked = self.looked = 0.0
        self.ticked: float | None = None
        self.told = info.started
        self.listener: socket.socket | None = None
        self.resolver = Resolver(info.task.get("dns_server"), self.post)
        # finds this task as the others do
        self.finder = finder(info, self.post) if info.by_place else self.resolver
        self.placed = 0.0  # when this task was last looked up
        self.moves = 0  # how often in turn it had another address
        self.addresses: dict[str, str] = {}
        self.announced = ""  # where the others find this task without DNS
        self.unasked = [info.name]  # names of tasks to look up now
        self.unknown: list[str] = []  # names of tasks to look up again
        self.leave_by = 0.0  # until when the last report is tried again
        self.go = pack("go", hosts=pack_addresses([], {}), ports={})
        self.rendezvous: Reservation | None = None
        self.closing_until = 0.0  # the witness has so long to learn of the end
        self.witness_told_at: float | None = None

    def open(self) -> None:
        """Listen for the other tasks, if the job has any, and have them find this one.

        Raises:
            BootstrapProblem: The port is in use.
        """
        if self.info.total > 1:
            self._listen()
        if self.info.task.get("meeting"):
            self._announce()

    def _announce(self) -> None:
        """Write where this task is, for those that do not find it by DNS."""
        from submit_tf_job.container.meeting import place

        me = self.job.me
        self.announced = me.address = me.origin = place.own_address(self.info)
        if self.listener:
            place.Announcer(
                self.info, me.address, lambda *told: self.post(lambda: self._unannounced(*told))
            ).start()

    def _unannounced(self, text: str, given_up: bool) -> None:
        """Report that the address could not be written; end the job if no task can come."""
        if given_up and self.info.by_place and not self.child and not self.record:
            self.fail(BootstrapProblem(contract.EXIT_BOOTSTRAP_ERROR, "bootstrap-error", text))
        elif text not in self.job.warnings:
            self.warn(text)

    def _listen(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * self.info.total + UNIDENTIFIED + 64
        if soft != resource.RLIM_INFINITY and soft < wanted:  # the usual soft limit is 1024
            self.nofile = (soft, hard)
            if hard != resource.RLIM_INFINITY:
                wanted = min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        ports = tfconfig.rendezvous_ports(self.info.task["ports"], self.info.run)
        self.rendezvous = reserve(ports, "the rendezvous", self.info.node, self.signals)
        self.listener = self.rendezvous.socket
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)

    # --- connections ------------------------------------------------------------------------------
    def _accept(self, _mask: int) -> None:
        for _ in range(ACCEPTED):
            try:
                sock, origin = self.listener.accept()  # type: ignore[union-attr]
            except OSError as err:
                if err.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self._log("too many connections: %s" % err)
                    if self.unidentified:
                        self._close(next(iter(self.unidentified.values())))
                    else:
                        time.sleep(0.05)
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ends = (plain(origin[0]), plain(sock.getsockname()[0]))
            peer = Peer(Channel(sock, LINE_LIMIT), ends, time.monotonic())
            self.unidentified[sock.fileno()] = peer
            self.selector.register(
                sock, selectors.EVENT_READ, lambda mask, peer=peer: self._ready(peer, mask)
            )
            if len(self.unidentified) > UNIDENTIFIED + self.info.total:
                self._close(next(iter(self.unidentified.values())))

    def _log(self, text: str) -> None:
        if text not in self.logged and len(self.logged) < 20:
            self.logged.add(text)
            self.job.event(time.monotonic(), text)

    def _close(self, peer: Peer, ended: bool = False, silent_s: float = 0.0) -> None:
        """Close a connection.

        Args:
            peer: The connection.
            ended: Whether the other side's kernel has closed it.
            silent_s: How long pings have been missing.
        """
        sock = peer.channel.sock
        number = sock.fileno()
        if number < 0:
            return
        self.selector.unregister(sock)
        self.unidentified.pop(number, None)
        self.peers.pop(number, None)
        sock.close()
        if peer.member and peer.member.peer is peer:
            self.changed = True
            if ended and self.job.closing and peer.member is self.job.witness:
                self.witness_told_at = time.monotonic() - FLUSH_S
            closed = ended and not peer.away
            now = time.monotonic()
            self._look_for_stillness(now)
            self.job.gone(now, peer.member, closed, silent_s, peer.away)

    def _send(self, peer: Peer, data: bytes) -> None:
        try:
            writing = peer.channel.send(data)
        except ChannelClosed:
            return  # what it sent before is still to be read; then reading fails, too
        if writing != peer.writing:
            peer.writing = writing
            self.selector.modify(
                peer.channel.sock, EVENTS[writing], lambda mask: self._ready(peer, mask)
            )

    def _ready(self, peer: Peer, mask: int) -> None:
        if mask & selectors.EVENT_WRITE and peer.channel.sock.fileno() >= 0:
            self._send(peer, b"")
        if not mask & selectors.EVENT_READ or peer.channel.sock.fileno() < 0:
            return
        try:
            for message in peer.channel.receive():
                peer.heard = time.monotonic()
                self._look_for_stillness(peer.heard)
                self._message(peer, message)
        except ChannelClosed as err:
            if not err.ended and not peer.member:
                self._log("a connection from %s was dropped: %s" % (peer.origin, err))
            self._close(peer, err.ended)

    def _message(self, peer: Peer, message: Mapping[str, Any]) -> None:
        now, kind, m = peer.heard, message["t"], peer.member
        if m is None or kind == "hello":
            if m is not None or kind != "hello":
                raise ChannelClosed("not a hello")
            self._hello(now, peer, message)
        elif kind == "ping":
            self._pong(now, peer, m, message)
        elif kind == "pong":
            if message.get("probe") == self.probe:
                peer.alive = peer.answered = True
        elif kind == "stopping":
            m.stopping = True
        elif kind == "away":
            peer.away = True
        else:
            self._news(now, peer, m, message)

    def _news(self, now: float, peer: Peer, m: Member, message: Mapping[str, Any]) -> None:
        """Handle a message that changes the report."""
        kind, self.changed = message["t"], True
        if kind == "progress":
            self.job.record_progress(now, m, message.get("data"))
        elif kind == "warn":
            text = str(message.get("text"))
            self.job.warn(now, text if m.name in text else "%s: %s" % (m.name, text))
        elif kind == "running":
            self.job.running(m)
        elif kind == "ready":
            self._ready_again(m, message)
        elif kind == "done":
            self.job.done(now, m, dict(message, ago=_age(now, peer, message)))
            self._send(peer, pack("noted"))

    def _pong(self, now: float, peer: Peer, m: Member, message: Mapping[str, Any]) -> None:
        """Answer a ping."""
        peer.alive = peer.alive or message.get("probe") == self.probe
        peer.pongs += 1
        if "probe" not in message:
            self.job.news.heard(now - states.seconds(message.get("quiet")), m.name)
        self._send(peer, pack("pong", number=peer.pongs))
        peer.told.append(time.monotonic())

    def _hello(self, now: float, peer: Peer, message: Mapping[str, Any]) -> None:
        m, reply = self.job.hello(now, message, peer, peer.ends)
        self.changed = True
        if reply == "bad":
            raise ChannelClosed("a hello that makes no sense")
        if reply == "wrong-job":
            self._log("a task of another job called, from %s" % peer.origin)
        if m is None or reply != "welcome":
            status = self.job.leave_status(m) if m else 0
            self._send(peer, pack(reply, status=status, why=self.job.why))
            if m and m is self.job.witness and self.job.closing:
                self.witness_told_at = now
            return  # the peer closes; otherwise `_check_silence` drops it
        if m.name in self.job.unresolved:
            self.unasked.append(m.name)
        self.unidentified.pop(peer.channel.sock.fileno(), None)
        self.peers[peer.channel.sock.fileno()] = peer
        peer.member = m
        me = self.job.me
        welcome = {
            "attempt": m.attempt,
            "process": me.process,
            "decider_attempt": me.attempt,
            "ping_s": self.ping_s,
            "progress_s": self.progress_s,
            **self.history(),
        }
        self._send(peer, pack("welcome", **welcome))
        peer.told[0] = time.monotonic()
        if self.probed:
            job = self.job
            self._ping(peer)
            until = min(now + self.info.settle_s, self.probed_at + 3 * self.info.settle_s)
            job.settle_until = max(job.settle_until, until)
        if self.job.graceful:
            self._ask_to_save(peer, m)
        else:
            self._next_step(peer, m, message)

    def _ready_again(self, m: Member, message: Mapping[str, Any]) -> None:
        """Note that a task waits for the next generation."""
        if message.get("generation") == self.job.generation:
            self.job.ready(m, states.port_of(message), states.ports_of(message))
            if m.state == states.ARRIVED:
                self._may_go(m.peer, m, {"state": "waiting"})

    def _next_step(self, peer: Peer, m: Member, message: Mapping[str, Any]) -> None:
        """Tell a task that has just connected what to do."""
        runs = m.state == states.LEFT_OUT and message.get("state") != "waiting"
        if self.job.stays(m) and (m.state == states.ABSENT or runs):
            self._send(peer, pack("again", **self.history()))
        elif m.state not in (*states.OUT, states.LEFT_OUT):
            self._may_go(peer, m, message)

    def _may_go(self, peer: Peer, m: Member, message: Mapping[str, Any]) -> None:
        may_go = self.job.phase in (states.RUNNING, states.FINISHING)
        may_go = may_go or m.role_kind == contract.KIND_SIDECAR
        if may_go and m.role not in self.job.held and message.get("state") == "waiting":
            self._send(peer, self.go)

    # --- generations ------------------------------------------------------------------------------
    def history(self) -> dict[str, Any]:
        """Return what every task remembers of the generations, in case YARN replaces this one."""
        if not self.job.retries:
            return {}
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

    def _remind(self, all_tasks: bool = False) -> None:
        """Have the sidecars remember, too: the witness may be the only other task."""
        for peer in list(self.peers.values()) if self.job.retries else ():
            if peer.member and (all_tasks or not self.job.stays(peer.member)):
                self._send(peer, pack("past", **self.history()))

    def _call_generation(self, now: float) -> None:
        """Have all tasks end their commands for the next generation."""
        self.probed = False
        self.unasked += self.job.joining
        for peer in list(self.peers.values()):
            if peer.member and self.job.stays(peer.member):
                self._send(peer, pack("again", **self.history()))
        self._remind()
        self.renew(now, self.job.generation)

    def renewed(self) -> None:
        """Note that this task is ready for the next generation."""
        self.job.ready(self.job.me, self.reserved.port if self.reserved else 0)
        self.changed = True

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

    # --- silence ----------------------------------------------------------------------------------

    def _check_silence(self) -> None:
        for peer in list(self.peers.values()):
            if self.accepted_until > peer.heard + SILENCE * self.ping_s:
                self._close(peer, silent_s=self.silent_s())
        for peer in list(self.unidentified.values()):
            if self.accepted_until <= peer.heard + HELLO_S:
                break
            self._log("a connection from %s sent nothing" % peer.origin)
            self._close(peer)

    def _probe(self, now: float) -> None:
        """Ping all tasks after a failure, to find those that died first.

        A dead node closes no connection, but its TensorFlow peers fail after ten seconds. What was
        sent before this ping is no answer: it may have waited in a buffer.
        """
        if not self.probed:
            self.probed, self.probed_at, self.probe = True, now, self.probe + 1
            for peer in list(self.peers.values()):
                self._ping(peer)
        elif self.read_until >= self.job.settle_until:
            for peer in list(self.peers.values()):
                if not peer.alive:
                    self._close(peer)
        elif all(peer.answered for peer in self.peers.values()):
            self.job.settled()

    def _ping(self, peer: Peer) -> None:
        peer.alive = peer.answered = False
        self._send(peer, pack("ping", probe=self.probe))

    # --- names ------------------------------------------------------------------------------------
    def _look_up(self, now: float) -> None:
        """Look up the names of the tasks that have connected.

        An earlier query would have DNS servers cache that the name does not exist.
        """
        if self.info.by_place:
            return
        if self.resolver.busy or not (
            self.unasked or (self.unknown and now >= self.looked + LOOKUP_S)
        ):
            return
        due, self.unasked = self.unasked, []
        if now >= self.looked + LOOKUP_S:
            due, self.unknown, self.looked = due + self.unknown, [], now
        tasks = {self.info.host(name): name for name in due if name in self.job.unresolved}
        self.resolver.start(list(tasks), lambda host, address: self._found(tasks[host], address))

    def _found(self, name: str, address: str | None) -> None:
        if not address or self.job.is_stale(name, address):
            self.unknown.append(name)
            return
        self.addresses[name] = address
        if self.job.phase == states.WAITING:  # else the programs have an address instead
            self.job.unresolved.discard(name)
            self.changed = True

    # --- what the loop calls ----------------------------------------------------------------------
    def tick(self, now: float) -> bool:
        """Do what is due; leave if YARN has started a later container of this task."""
        job = self.job
        if job.phase == states.WAITING and job.generation:
            self._check_place(now)
        if job.superseded:
            log("YARN has started a later container of %s; this one leaves" % self.info.name)
            self.exit = contract.EXIT_DECIDER_LOST
            return False
        self._look_for_stillness(now)
        if now >= self.checked + 1.0:
            self.checked = now
            self._check_silence()
            self._own_progress(now)
            self.job.news.heard(self.stamps.grew_at, self.info.name)
        if job.phase == states.WAITING and not job.failures:
            self._look_up(now)
        if job.failures and job.phase != states.ENDING:
            self._probe(now)
        job.tick(now, self.read_until)
        if self.stage != job.stage:
            self.stage = job.stage
            self._enter(now, job.phase)
        if job.graceful:
            self._save(now)
        if job.phase == states.ENDING and self._may_leave(now):
            self._leave(now)
            return False
        if job.phase == states.WAITING and job.barrier > 1 and now >= self.told + 30:
            self.told = now
            log(
                "waiting for %d of %d tasks: %s"
                % (len(job.missing()), job.barrier, states.listed(job.missing()))
            )
        if job.held:
            self._go(job.released(now))
        self.changed = not self.writer.write(now, self.changed, self.saved) and self.changed
        late = self.unknown or not job.absent or now >= job.start_deadline
        soon = job.phase == states.ENDING or bool(job.failures or job.away)
        return soon or (job.phase == states.WAITING and bool(late))

    def _look_for_stillness(self, now: float) -> None:
        """Count no time in which this task was suspended as another task's silence."""
        since, self.ticked = self.ticked, now
        if since is None or now <= since + STILL_S or self.info.total == 1:
            return
        seconds = now - since
        for peer in self.peers.values():
            peer.heard = min(now, peer.heard + seconds)
        self.job.exclude_suspension(now, seconds)
        if seconds > SILENCE * self.ping_s:
            self.job.record_suspension(now, seconds)

    def wait(self, timeout_s: float) -> None:
        """Handle events; after a suspension, what has arrived is read before anything is judged."""
        begun = time.monotonic()
        super().wait(timeout_s)
        self.read_until, self.accepted_until = self.accepted_until, begun

    def _enter(self, now: float, phase: str) -> None:
        job = self.job
        if job.me.state in states.OUT:  # the training is over, perhaps under a former task
            self.next_generation = job.generation
        if job.generation != self.next_generation:
            self._call_generation(now)
        if phase == states.RUNNING:
            self._start()
        elif phase == states.PREPARING:
            self._prepare()
        elif phase == states.ENDING:
            self._end(now)

    def _end(self, now: float) -> None:
        """End this task's command, and tell the others of the end."""
        job = self.job
        self.end_requested = True
        if self.data and job.verdict == states.FAILED:
            # other tasks may still upload outputs
            job.linger_until = max(job.linger_until, now + self.data.patience_s)
        # the command has a signal from outside already
        self.stop_child(now, 0 if job.verdict == states.STOPPED else 15)
        for peer in list(self.peers.values()):
            if peer.member is job.witness and not self._stopped_by_yarn():
                continue  # `_close_job`
            if job.graceful:
                if peer.member:
                    self._ask_to_save(peer, peer.member)
            elif job.again or job.verdict == states.STOPPED:
                self._close(peer)  # YARN restarts this task, or stops the others itself
            elif peer.member:
                self._send(peer, pack("end", why=job.why, status=job.leave_status(peer.member)))

    def _may_leave(self, now: float) -> bool:
        """Return whether this task may end, because the job has ended."""
        job = self.job
        if job.graceful:  # YARN's stop comes first, unless whoever stops the job is gone
            return now >= job.linger_until and (self.idle or now >= job.linger_until + LAST_S)
        if not self.idle or job.awaits_latecomers(now):
            return False
        others = any(peer.member is not job.witness for peer in self.peers.values())
        if others and now < job.linger_until:
            return False
        return self._stopped_by_yarn() or self._close_job(now)

    def _stopped_by_yarn(self) -> bool:
        return self.job.again or self.job.verdict == states.STOPPED

    def _close_job(self, now: float) -> bool:
        """Tell the witness of the end, after everything else; return whether it has learned it.

        With its container the ApplicationMaster ends, and soon all that still runs.
        """
        job, witness = self.job, self.job.witness
        # one that only was away for longer than `grace` is FAILED, too, without a status
        if witness is None or (witness.status is not None and not job.closing):
            return True
        if not job.closing:
            job.closing = True
            self.closing_until = now + max(self.info.task["grace_s"], self.info.stop_grace_s + 1.5)
            self.writer.write(now, True, over=True)
            if witness.peer:
                status = job.leave_status(witness)
                self._send(witness.peer, pack("end", why=job.why, status=status))
        told_at = self.witness_told_at
        return now >= self.closing_until or (told_at is not None and now >= told_at + FLUSH_S)

    def _save(self, now: float) -> None:
        """Give the tasks time to save as long as whoever stops the job waits; report their end."""
        job, until = self.job, self.signals.patient_until
        if until > job.linger_until:
            job.linger_until = until
            if self.child:
                self.child.spare(until)
            for peer in list(self.peers.values()):
                if peer.member and saves(peer.member):
                    self._send(peer, pack("grace", grace_s=round(until - now, 3)))
        if not self.saved and self.idle and not job.saving(now):
            self.saved = self.changed = True
            job.event(now, "all tasks have ended; waiting for YARN to stop the job")

    def _ask_to_save(self, peer: Peer, m: Member) -> None:
        """Have a task end its command in a graceful stop."""
        if saves(m):
            left_s = max(1.0, self.job.linger_until - time.monotonic())
            status = self.job.leave_status(m)
            end = pack("end", why=self.job.why, status=status, grace_s=round(left_s, 3))
            self._send(peer, end)

    def _go(self, roles: list[str]) -> None:
        """Have the tasks of some roles start their commands."""
        for peer in list(self.peers.values()):
            m = peer.member
            if m and m.role in roles and m.state != states.LEFT_OUT:
                self._send(peer, self.go)
        mine = self.info.role in roles and self.job.me.state not in states.OUT
        if mine and not self.record and not self.child:
            self.start_child()
            if self.child:
                self.job.running(self.job.me)

    def _start(self) -> None:
        """Have every task start its command, and start this task's."""
        job = self.job
        self.info.leave_out(job.left_out())
        if self.reserved:
            job.me.port = self.reserved.port
        hosts, taken = job.hosts(self.addresses), job.ports()
        self.learn(hosts, taken)
        packed = pack_addresses(self.info.addressed_tasks(), hosts)
        self.go = pack("go", hosts=packed, ports=taken, **self.history())
        self.info.attempt = job.me.attempt
        roles = {m.role for m in job.members.values() if m.role_kind != contract.KIND_SIDECAR}
        self._go(sorted(roles - job.held))
        self._remind()

    def _prepare(self) -> None:
        """Run `prepare` of the job."""
        self.preparing = True
        self.env[contract.ENV_ATTEMPT] = str(self.info.attempt)
        try:
            self.run_command("preparing", self.info.task["prepare"])
        except BootstrapProblem as problem:
            self.fail(problem)

    def _prepared(self, now: float) -> None:
        """Start the commands if `prepare` succeeded, else fail the job."""
        self.preparing = False
        record = self.record or {}
        if record["status"] == 0 and self.child:
            self.child.close()
            self.child = self.record = self.signals.forward = None
            self.job.prepared(now)
            return
        if record["reason"] != "ended":  # not by the job
            text = "prepare of the job failed: %s" % record["message"]
            self.record = dict(record, reason=contract.REASON_PREPARE, message=text)
        self.job.done(now, self.job.me, self.done_message())

    def command_ended(self, now: float) -> None:
        """Report the end of the command to the state machine."""
        self._look_for_stillness(time.monotonic())
        if self.preparing:
            self._prepared(now)
            self.changed = True
            return
        self._own_progress(now)
        self.job.done(now, self.job.me, self.done_message())
        self.changed = True
        if self.job.me.state == states.SUCCEEDED:  # in case this container is lost
            self._remind(all_tasks=True)

    def _own_progress(self, now: float) -> None:
        fresh = self.child and self.progress.poll()
        if fresh:
            self.job.record_progress(now, self.job.me, fresh)
            self.changed = True

    def stopped(self, now: float) -> None:
        """End the job because YARN stops it, or `submit_tf_job stop --grace`."""
        job, until = self.job, self.signals.patient_until
        job.stop(now, graceful=now < until)
        job.linger_until = job.late_until = until if job.graceful else now
        if job.graceful:
            self.stop_grace_s = until - now

    def _leave(self, now: float) -> None:
        job = self.job
        self.leave_by = self.leave_by or now + LAST_REPORT_S
        if job.graceful:
            for peer in list(self.peers.values()):
                if peer.member:
                    status = job.leave_status(peer.member)
                    self._send(peer, pack("end", why=job.why, status=status))
        self.final = job.verdict != states.STOPPED and not job.again
        if not self.writer.write(now, True, over=True) and now < self.leave_by:
            return
        self.exit = exit_status(job.exit)
        if job.verdict == states.STOPPED:
            self.exit = 128 + self.signals.stop()
        if job.retries and (job.verdict != states.STOPPED or job.graceful):
            self.exit = 0  # YARN would start it again after any other; the witness tells YARN

    def outcome(self) -> dict[str, Any]:
        """Return the job's verdict and its first failed task for the outcome line."""
        return {
            "job": self.job.verdict,
            "first_failure": self.job.first["task"] if self.job.first else None,
        }

    def report(self) -> dict[str, Any] | None:
        """Return the report that was written last."""
        return self.writer.last

    def warn(self, text: str) -> None:
        """Add a warning to the report."""
        self.job.warn(time.monotonic(), text)
