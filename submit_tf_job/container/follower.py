"""Every task but the deciding one: finds that one, waits for its word, and tells it how the command ended."""

from __future__ import annotations

import os
import selectors
import socket
import time

from submit_tf_job import contract, tfconfig
from submit_tf_job.bootstrap.agent import PING_S, SILENCE, Agent
from submit_tf_job.bootstrap.info import Problem, exit_status, say, signal_name
from submit_tf_job.bootstrap.names import Resolver
from submit_tf_job.bootstrap.wire import TABLE_LIMIT, Channel, Gone, pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from submit_tf_job.bootstrap.child import Signals
    from submit_tf_job.bootstrap.info import Info

ANSWER_S = 10.0  # to connect, and again to be welcomed
REPORT_S = 1.0  # to tell how the command ended, when the job is over anyway


class Follower(Agent):
    """A task that does what the deciding task says."""

    def __init__(self, info: Info, signals: Signals) -> None:
        """Begin unconnected."""
        super().__init__(info, signals)
        self.channel: Channel | None = None
        self.connected = self.welcomed = self.writing = False
        self.resolver = Resolver(info.task.get("dns_server"), self.post)
        self.seen: str | None = None  # the run of the deciding task that welcomed this one last
        self.decider_attempt: int | None = None
        self.trouble = "it has not been asked for yet"
        self.wrong_job = False
        self.ping_s, self.progress_s = PING_S, 1.0
        self.since = info.started  # of the connection's present state
        self.lost_at = info.started
        self.next_try = self.heard = self.pinged = self.sent = self.told = 0.0
        self.pause = 0.2
        start = float(info.task["start_timeout_s"])
        self.start_deadline = info.started + start + min(30.0, start / 2)
        self.leave: int | None = None  # the status to end with, once somebody or something has said so
        self.leave_by: float | None = None
        self.told_done = self.noted = False
        self.news: dict[str, Any] | None = None

    # --- the connection ----------------------------------------------------------------------------------------------
    def _look_up(self, now: float) -> None:
        if self.resolver.busy or now < self.next_try:
            return
        self.next_try = now + self.pause
        # Many tasks may wait for a deciding task that has not got its container: spare the DNS server.
        self.pause = min(2 * self.pause, 0.5 + min(4.5, self.info.total / 400.0))
        host = self.info.host(self.info.deciding)
        if now >= self.told + 30:
            say("%s for %s at %s" % ("looking again" if self.told else "looking", self.info.deciding, host))
            if self.told:
                say("so far: %s" % self.trouble)
            self.told = now
        self.resolver.start([host], self._connect)

    def _connect(self, host: str, address: str | None) -> None:
        if self.channel or self.exit is not None:
            return
        if not address:
            self.trouble = "the name %s does not resolve" % host
            return
        port = tfconfig.rendezvous_port(self.info.task["ports"], self.info.submission)
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.channel = Channel(sock, TABLE_LIMIT)
        self.trouble = "%s (%s) does not answer at port %d" % (host, address, port)
        self.since = time.monotonic()
        self.connected = self.welcomed = self.writing = self.told_done = False
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect_ex((address, port))
        self.selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, self._ready)

    def _ready(self, mask: int) -> None:
        channel = self.channel
        if not channel:
            return
        try:
            if not self.connected:
                error = channel.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise Gone("refused")
                self.connected, self.since = True, time.monotonic()
                self._say_hello(channel)
            elif mask & selectors.EVENT_WRITE:
                self._send(b"")
            if mask & selectors.EVENT_READ and self.channel:
                for message in channel.receive():
                    self.heard = time.monotonic()
                    self._message(self.heard, message)
        except (Gone, KeyError):
            self._drop()

    def _say_hello(self, channel: Channel) -> None:
        info = self.info
        who = {"role": info.role, "index": info.index, "attempt": info.attempt, "run": info.run}
        state = "done" if self.record else "running" if self.child else "waiting"
        where = {"host": info.node, "address": channel.sock.getsockname()[0], "pid": os.getpid(), "container": info.container}
        decider = {"seen": self.seen, "decider_attempt": self.decider_attempt}
        self.writing = True  # until the selector is told otherwise
        self._send(pack("hello", submission=info.submission, state=state, **who, **where, **decider))

    def _send(self, data: bytes) -> None:
        if not self.channel:
            return
        try:
            writing = self.channel.send(data)
        except Gone:
            self._drop()
            return
        if writing != self.writing:
            self.writing = writing
            self.selector.modify(self.channel.sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0), self._ready)

    def _drop(self) -> None:
        if not self.channel:
            return
        self.selector.unregister(self.channel.sock)
        self.channel.sock.close()
        self.channel = None
        if self.welcomed:
            self.lost_at = time.monotonic()
            self.pause, self.next_try = 0.2, self.lost_at + 0.1
            if self.leave is None:
                say("the connection to %s went away" % self.info.deciding)
        self.welcomed = False

    def _message(self, now: float, message: Mapping[str, Any]) -> None:
        kind, status = message["t"], message.get("status")
        if kind == "welcome":
            self.welcomed, self.wrong_job = True, False
            self.info.attempt = message["attempt"]
            self.seen, self.decider_attempt = message["run"], message["decider_attempt"]
            self.ping_s, self.progress_s = message["ping_s"], message["progress_s"]
            if not self.child and not self.record:
                say("%s knows this task; waiting for its word to start" % self.info.deciding)
        elif kind == "go" and not self.child and not self.record and self.leave is None:
            self.start_child(message.get("table"))
            if self.child:
                self._send(pack("running"))
        elif kind == "ping":
            self._send(pack("pong"))
        elif kind == "noted":
            self.noted = True
        elif kind in ("end", "finished") and isinstance(status, int):
            if self.leave is None and not self.record:
                say("told to end: %s" % (message.get("why") or "this task has had its end"))
            self.final = True
            self._leave_with(now, status)
        elif kind in ("wrong-job", "busy"):
            self.wrong_job = kind == "wrong-job"
            self.trouble = (
                "another job's deciding task answers there" if self.wrong_job else "an earlier attempt of this task is still connected"
            )
            self._drop()

    # --- what the loop calls -----------------------------------------------------------------------------------------
    def tick(self, now: float) -> bool:
        """Do what is due."""
        if self.child:
            self.news = self.progress.poll() or self.news
        self._report(now)
        if self.leave is not None or self.record:
            self._try_to_leave(now)
        else:
            self._check_deadlines(now)
        if self.exit is not None:
            return False
        if self.channel:
            limit = SILENCE * self.ping_s if self.welcomed else ANSWER_S
            if now > max(self.since, self.heard if self.welcomed else 0.0) + limit:
                self._drop()
        else:
            self._look_up(now)
        return self.leave is not None or bool(self.record) or not self.channel

    def _report(self, now: float) -> None:
        if not self.welcomed:
            return
        if self.record and not self.told_done:
            self.told_done = True
            if self.news:
                self._send(pack("progress", data=self.news))
            self._send(pack("done", ago=now - self.child_ended, **self.record))
        elif now >= self.pinged + self.ping_s:
            self.pinged = now
            self._send(pack("ping"))
        if self.news and now >= self.sent + self.progress_s:
            self.sent, news, self.news = now, self.news, None
            self._send(pack("progress", data=news))

    def _leave_with(self, now: float, status: int) -> None:
        """End the command, and then this task with `status`."""
        if self.leave is None:
            self.leave = status
            self.told_to_end = True
            self.stop_child(now)

    def _try_to_leave(self, now: float) -> None:
        if not self.idle:
            return
        if self.leave_by is None:
            wait = REPORT_S
            if self.leave is None:  # the deciding task must hear of this end: it may be about to come (back)
                wait = float(self.info.task["grace_s"])
                if self.seen is None:
                    wait = max(wait, self.start_deadline - now)
            self.leave_by = now + wait
        unheard = bool(self.record) and not self.noted and (self.welcomed or self.leave is None)
        if unheard and now < self.leave_by:
            return
        self.exit = self.leave
        if self.exit is None and self.record:
            self.exit = exit_status(self.record["status"])
            self.final = not self.record["status"] or self.info.attempt >= self.info.roles[self.info.role]["max_restarts"]

    def _check_deadlines(self, now: float) -> None:
        if self.welcomed:
            return
        if self.child:
            if now >= self.lost_at + self.info.task["grace_s"]:
                say("%s did not come back within %d s" % (self.info.deciding, self.info.task["grace_s"]))
                self._leave_with(now, contract.EXIT_DECIDER_LOST)
        elif now >= max(self.start_deadline, self.lost_at + self.info.task["grace_s"] if self.seen else 0.0):
            self.exit = contract.EXIT_WRONG_JOB if self.wrong_job else contract.EXIT_PEERS_MISSING
            text = "%s was not found in time: %s" % (self.info.deciding, self.trouble)
            self.fail(Problem(self.exit, "wrong-job" if self.wrong_job else "peers-missing", text))

    def command_ended(self, now: float) -> None:
        """Tell the deciding task, now or when there is a connection again."""
        self.news = self.progress.poll() or self.news
        self._report(now)

    def stopped(self, now: float) -> None:
        """YARN stops this task: the deciding one should know why it vanishes, if 250 ms suffice to say so."""
        number = self.signals.stop()
        say("stopped by %s" % signal_name(number))
        if self.welcomed:
            self._send(pack("stopping"))
        if self.leave is None:
            self.leave = exit_status(self.record["status"]) if self.record else 128 + number
        self.stop_child(now, 0)
        if not self.child and not self.record:
            self.child_ended = self.child_started = now
            self.was_stopped(number)
