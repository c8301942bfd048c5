"""The deciding task: listens for all others, and acts on what the job's state machine says."""

from __future__ import annotations

import errno
import resource
import selectors
import socket
import time

from submit_tf_job import contract, tfconfig
from submit_tf_job.bootstrap import job as states
from submit_tf_job.bootstrap.agent import PING_S, SILENCE, Agent
from submit_tf_job.bootstrap.info import exit_status, say
from submit_tf_job.bootstrap.job import Job
from submit_tf_job.bootstrap.names import Resolver
from submit_tf_job.bootstrap.ports import listen
from submit_tf_job.bootstrap.report import Writer
from submit_tf_job.bootstrap.wire import LINE_LIMIT, Channel, Gone, pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from submit_tf_job.bootstrap.child import Signals
    from submit_tf_job.bootstrap.info import Info
    from submit_tf_job.bootstrap.job import Member

HELLO_S = 10.0  # a connection that has not said who it is by then is none of ours
STRANGERS = 256  # connections that have not said hello yet, beyond one per task
LOOKUP_S = 0.5  # between two rounds of questions to DNS


class Peer:
    """A connection to another task."""

    __slots__ = ("channel", "heard", "member", "origin", "writing")

    def __init__(self, channel: Channel, origin: str, now: float) -> None:
        """Begin as a stranger."""
        self.channel, self.origin, self.heard = channel, origin, now
        self.member: Member | None = None
        self.writing = False


class Decider(Agent):
    """Index 0 of the role that decides; a job of one task is this one without anybody to listen for."""

    def __init__(self, info: Info, signals: Signals) -> None:
        """Begin; `open` starts to listen."""
        super().__init__(info, signals)
        self.job = Job(info, info.started, say)
        self.writer = Writer(self.job)
        self.peers: dict[int, Peer] = {}
        self.strangers: dict[int, Peer] = {}  # in order of arrival
        self.logged: set[str] = set()
        self.ping_s = max(PING_S, info.total / 200.0)
        self.progress_s = max(1.0, info.total / 100.0)
        self.phase = states.WAITING
        self.changed = True
        self.probed = False  # everybody was asked for a sign of life, after a failure
        self.failed_at = 0.0
        self.checked = self.looked = 0.0
        self.told = info.started
        self.listener: socket.socket | None = None
        self.resolver = Resolver(info.task.get("dns_server"), self.post)
        self.table: dict[str, list[str]] | None = None
        self.addresses: dict[str, str] = {}
        self.unasked = [info.name]  # names to look up now
        self.unknown: list[str] = []  # names to ask for again
        self.go = pack("go", table=None)

    def open(self) -> None:
        """Listen, if there is anybody to listen for.

        Raises:
            Problem: The port is taken.
        """
        if self.info.total == 1:
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * self.info.total + STRANGERS + 64
        if soft != resource.RLIM_INFINITY and soft < wanted:  # the usual soft limit is 1024
            self.nofile = (soft, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
        port = tfconfig.rendezvous_port(self.info.task["ports"], self.info.submission)
        self.listener = listen(port, "the rendezvous", self.info.node, self.signals)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)

    # --- connections -------------------------------------------------------------------------------------------------
    def _accept(self, _mask: int) -> None:
        for _ in range(64):
            try:
                sock, origin = self.listener.accept()  # type: ignore[union-attr]
            except OSError as err:
                if err.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self._log("too many connections: %s" % err)
                    if self.strangers:
                        self._close(next(iter(self.strangers.values())))
                    else:
                        time.sleep(0.05)
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(Channel(sock, LINE_LIMIT), origin[0], time.monotonic())
            self.strangers[sock.fileno()] = peer
            self.selector.register(sock, selectors.EVENT_READ, lambda mask, peer=peer: self._ready(peer, mask))
            if len(self.strangers) > STRANGERS + self.info.total:
                self._close(next(iter(self.strangers.values())))

    def _log(self, text: str) -> None:
        if text not in self.logged and len(self.logged) < 20:
            self.logged.add(text)
            self.job.event(time.monotonic(), text)

    def _close(self, peer: Peer) -> None:
        sock = peer.channel.sock
        number = sock.fileno()
        if number < 0:
            return
        self.selector.unregister(sock)
        self.strangers.pop(number, None)
        self.peers.pop(number, None)
        sock.close()
        if peer.member and peer.member.peer is peer:
            self.changed = True
            self.job.gone(time.monotonic(), peer.member)

    def _send(self, peer: Peer, data: bytes) -> None:
        try:
            writing = peer.channel.send(data)
        except Gone:
            self._close(peer)
            return
        if writing != peer.writing:
            peer.writing = writing
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
            self.selector.modify(peer.channel.sock, events, lambda mask: self._ready(peer, mask))

    def _ready(self, peer: Peer, mask: int) -> None:
        if mask & selectors.EVENT_WRITE and peer.channel.sock.fileno() >= 0:
            self._send(peer, b"")
        if not mask & selectors.EVENT_READ or peer.channel.sock.fileno() < 0:
            return
        try:
            for message in peer.channel.receive():
                peer.heard = time.monotonic()
                self._message(peer, message)
        except Gone as err:
            if str(err) != "closed" and not peer.member:
                self._log("a connection from %s was dropped: %s" % (peer.origin, err))
            self._close(peer)

    def _message(self, peer: Peer, message: Mapping[str, Any]) -> None:
        now, kind, m = peer.heard, message["t"], peer.member
        if m is None or kind == "hello":
            if m is not None or kind != "hello":
                raise Gone("not a hello")
            self._hello(now, peer, message)
        elif kind == "ping":
            self._send(peer, pack("pong"))
        elif kind == "progress":
            self.job.told_progress(now, m, message.get("data"))
            self.changed = True
        elif kind == "running":
            self.job.running(m)
            self.changed = True
        elif kind == "stopping":
            m.stopping = True
        elif kind == "done":
            self.job.done(now, m, message)
            self.changed = True
            self._send(peer, pack("noted"))

    def _hello(self, now: float, peer: Peer, message: Mapping[str, Any]) -> None:
        m, answer = self.job.hello(now, message, peer)
        self.changed = True
        if answer == "bad":
            raise Gone("a hello that makes no sense")
        if answer == "wrong-job":
            self._log("a task of another job called, from %s" % peer.origin)
        if m is None or answer != "welcome":
            self._send(peer, pack(answer, status=self.job.leave_status(m) if m else 0, why=self.job.why))
            return  # it closes; if not, it is a stranger that has said nothing in time
        if m.name in self.job.unresolved:
            self.unasked.append(m.name)
        self.strangers.pop(peer.channel.sock.fileno(), None)
        self.peers[peer.channel.sock.fileno()] = peer
        peer.member = m
        me = self.job.me
        welcome = {"attempt": m.attempt, "run": me.run, "decider_attempt": me.attempt, "ping_s": self.ping_s, "progress_s": self.progress_s}
        self._send(peer, pack("welcome", **welcome))
        if self.job.phase in (states.RUNNING, states.FINISHING) or m.duty == contract.DUTY_SIDECAR:
            self._send(peer, self.go)

    def _check_silence(self, now: float) -> None:
        for peer in list(self.peers.values()):
            if now > peer.heard + SILENCE * self.ping_s:
                self._close(peer)
        for peer in list(self.strangers.values()):
            if now <= peer.heard + HELLO_S:
                break
            self._log("a connection from %s said nothing" % peer.origin)
            self._close(peer)

    def _probe(self, now: float) -> None:
        """Find out who is gone: a dead node closes no connection, but TensorFlow's peers of it fail after ten seconds."""
        if not self.probed:
            self.probed, self.failed_at = True, now
            for peer in list(self.peers.values()):
                self._send(peer, pack("ping"))
        elif now >= self.job.settle_until:
            for peer in list(self.peers.values()):
                if peer.heard < self.failed_at:
                    self._close(peer)

    # --- names -------------------------------------------------------------------------------------------------------
    def _look_up(self, now: float) -> None:
        """Ask for the names of the tasks that are here: asked for too early, a name's absence would be cached."""
        if self.resolver.busy or not (self.unasked or (self.unknown and now >= self.looked + LOOKUP_S)):
            return
        due, self.unasked = self.unasked, []
        if now >= self.looked + LOOKUP_S:
            due, self.unknown, self.looked = due + self.unknown, [], now
        tasks = {self.info.host(name): name for name in due if name in self.job.unresolved}
        self.resolver.start(list(tasks), lambda host, address: self._found(tasks[host], address))

    def _found(self, name: str, address: str | None) -> None:
        if not address:
            self.unknown.append(name)
            return
        self.addresses[name] = address
        self.job.unresolved.discard(name)
        self.changed = True

    # --- what the loop calls -----------------------------------------------------------------------------------------
    def tick(self, now: float) -> bool:
        """Do what is due."""
        job = self.job
        if now >= self.checked + 1.0:
            self.checked = now
            self._check_silence(now)
            self._own_progress(now)
        if job.phase == states.WAITING and not job.failures:
            self._look_up(now)
        if job.failures and job.phase != states.ENDING:
            self._probe(now)
        job.tick(now)
        if self.phase != job.phase:
            self._enter(now, job.phase)
        if job.phase == states.ENDING and self.idle and (not self.peers or now >= job.linger_until) and not job.awaits_latecomers(now):
            self._leave(now)
            return False
        if job.phase == states.WAITING and job.barrier > 1 and now >= self.told + 30:
            self.told = now
            say("waiting for %d of %d tasks: %s" % (len(job.missing()), job.barrier, states.listed(job.missing())))
        self.changed = not self.writer.write(now, self.changed) and self.changed
        return job.phase == states.ENDING or bool(job.failures or self.unknown)

    def _enter(self, now: float, phase: str) -> None:
        self.phase = phase
        job = self.job
        if phase == states.RUNNING:
            if self.info.task.get("dns_server") and self.addresses:
                cluster = self.info.cluster()
                self.table = {role: [self.addresses.get("%s-%d" % (role, i), "") for i in range(cluster[role])] for role in cluster}
                self.go = pack("go", table=self.table)
            for peer in list(self.peers.values()):
                if peer.member and peer.member.duty != contract.DUTY_SIDECAR:
                    self._send(peer, self.go)
            self.info.attempt = job.me.attempt
            self.start_child(self.table)
            if self.child:
                job.running(job.me)
        elif phase == states.ENDING:
            self.told_to_end = True
            if self.data and job.verdict == states.FAILED:
                job.linger_until = max(job.linger_until, now + self.data.patience_s)  # others may have something to store
            self.stop_child(now, 0 if job.verdict == states.STOPPED else 15)  # a signal from outside was forwarded when it came
            for peer in list(self.peers.values()):
                if job.again or job.verdict == states.STOPPED:
                    self._close(peer)  # YARN starts this task again, or stops the others itself
                elif peer.member:
                    self._send(peer, pack("end", why=job.why, status=job.leave_status(peer.member)))

    def command_ended(self, now: float) -> None:
        """Tell the state machine."""
        self._own_progress(now)
        self.job.done(now, self.job.me, self.record or {})
        self.changed = True

    def _own_progress(self, now: float) -> None:
        news = self.progress.poll() if self.child else None
        if news:
            self.job.told_progress(now, self.job.me, news)
            self.changed = True

    def stopped(self, now: float) -> None:
        """YARN stops the job."""
        self.job.linger_until = self.job.late_until = now
        self.job.stop(now)

    def _leave(self, now: float) -> None:
        job = self.job
        self.final = job.verdict != states.STOPPED and not job.again
        status = 128 + self.signals.stop() if job.verdict == states.STOPPED else exit_status(job.exit)
        self.writer.write(now, True, over=True)
        self.exit = status

    def outcome(self) -> dict[str, Any]:
        """Return what the outcome line says of the job."""
        return {"job": self.job.verdict, "first_failure": self.job.first["task"] if self.job.first else None}

    def report(self) -> dict[str, Any] | None:
        """Return the last report."""
        return self.writer.last

    def warn(self, text: str) -> None:
        """Put a warning into the report, too."""
        self.job.warn(time.monotonic(), text)
