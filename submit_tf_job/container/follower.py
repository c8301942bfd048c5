"""Every task but the deciding one: connects to it, waits for the start, and reports its end."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract, tfconfig
from submit_tf_job.container.agent import SILENCE, Agent
from submit_tf_job.container.child import Signals
from submit_tf_job.container.info import BootstrapProblem, Info, exit_status, log, signal_name
from submit_tf_job.container.names import MOVED, family_of, finder
from submit_tf_job.container.wire import (
    EVENTS,
    TABLE_LIMIT,
    Channel,
    ChannelClosed,
    pack,
    unpack_addresses,
)

ANSWER_S = 10.0  # to connect, and again to receive the welcome
REPORT_S = 1.0  # to report the end of the command when the job is over


class Follower(Agent):
    """Runs a task that follows the deciding task's messages."""

    def __init__(self, info: Info, signals: Signals) -> None:
        """Start without a connection."""
        super().__init__(info, signals)
        self.channel: Channel | None = None
        self.connected = self.welcomed = self.writing = False
        self.resolver = finder(info, self.post)
        self.seen: str | None = None  # the process of the deciding task that last welcomed this one
        self.decider_attempt: int | None = None
        self.trouble = "it has not been asked for yet"
        self.wrong_job = False
        self.progress_s = 1.0
        self.since = info.started  # start of the connection's present state
        self.lost_at = info.started
        self.next_try = self.heard = self.pinged = self.sent = self.told = 0.0
        self.accepted = 0.0  # when the deciding task's port last accepted a connection
        self.patient = False
        self.pause = 0.2
        self.ports = tfconfig.rendezvous_ports(info.task["ports"], info.run)
        self.port_index = self.refusals = 0  # which port to try, and how many have failed in turn
        self.deaf = 0  # how many ports in turn were closed: no process listens there
        self.address = ""
        self.same_place = False  # the next connection goes to the same address, without a look-up
        self.search_at: float | None = None  # when this search began
        start = float(info.task["start_timeout_s"])
        self.start_deadline = info.started + start + min(30.0, start / 2)
        # the exit status, once it is decided
        self.leave: int | None = None
        self.leave_by: float | None = None
        self.told_done = self.noted = False
        self.asked, self.probe = False, 0  # the deciding task waits for an answer to this ping
        self.pong, self.told_at = 0, 0.0  # the last one, and when it came
        self.calls = 0  # how many connections this process has made
        self.news: dict[str, Any] | None = None
        # whether this task starts again with the others: sidecars do not, but remember, too
        self.retried = bool(info.task.get("retries"))
        self.stays = self.retried and not info.may_grow(info.role)
        # the ended generations, and where the deciding task was, as it told last
        self.remembered: dict[str, Any] = {"generation": 0, "past": [], "resized": 0}
        self.placed = 0.0  # when the name of the deciding task was last looked up while connected
        # of ten thousand tasks two hundred look in each second
        self.place_s = max(SILENCE * info.ping_s, info.total / 200.0)
        self.moves = 0  # how often in turn it had another address
        self.gave_up: int | None = None  # the generation whose command was ended without being told

    # --- the connection ---------------------------------------------------------------------------
    def _look_up(self, now: float) -> None:
        if self.resolver.busy or now < self.next_try:
            return
        self.next_try = now + self.pause
        if self.search_at is None:
            self.search_at = now
        self.pause = min(2 * self.pause, self.resolver.longest_pause_s(self.info.total))
        host = self.resolver.sought(self.info)
        if self.same_place:
            # its kernel answers at once, DNS perhaps not
            self.same_place = False
            self._connect(host, self.address)
            return
        if now >= self.told + 30:
            log("looking up %s at %s" % (self.info.deciding, host))
            if self.told:
                log("so far: %s" % self.trouble)
            self.told = now
        self.resolver.start([host], self._connect)

    def _connect(self, host: str, address: str | None) -> None:
        if self.channel or self.exit is not None:
            return
        if not address:
            self.trouble = self.resolver.missing(host)
            return
        self.address, self.refusals = address, 0
        if not self.wrong_job:
            self.trouble = "%s (%s) does not answer at port %d" % (host, address, self.ports[0])
        self._open()

    def _open(self) -> None:
        """Connect to the deciding task's address at the port whose turn it is."""
        address, port = self.address, self.ports[self.port_index]
        sock = socket.socket(family_of(address), socket.SOCK_STREAM)
        self.channel = Channel(sock, TABLE_LIMIT)
        self.since = time.monotonic()
        self.connected = self.welcomed = self.writing = self.told_done = self.asked = False
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
                    self._not_connected(error)
                    raise ChannelClosed("refused")
                self.connected, self.since, self.deaf = True, time.monotonic(), 0
                self._say_hello(channel)
            elif mask & selectors.EVENT_WRITE:
                self._send(b"")
            if mask & selectors.EVENT_READ and self.channel:
                for message in channel.receive():
                    self.heard = time.monotonic()
                    if message["t"] in ("welcome", "pong"):
                        self.pong, self.told_at = message.get("number", 0), self.heard
                    self._message(self.heard, message)
        except ChannelClosed as err:
            self.same_place = err.ended and self.welcomed
            self._drop()
        except KeyError:
            self._drop()

    def _not_connected(self, error: int) -> None:
        """Count a closed port; look an address up again that does not even refuse.

        YARN may have started the deciding task on another node meanwhile.
        """
        if error == errno.ECONNREFUSED:
            self.deaf += 1
        else:
            self.deaf, self.refusals = 0, len(self.ports)

    def warn(self, text: str) -> None:
        """Log a warning, and have the deciding task put it into the report, if it is there."""
        log(text)
        if self.welcomed:
            self._send(pack("warn", text=text[:1000]))

    def _say_hello(self, channel: Channel) -> None:
        info = self.info
        who = {
            "role": info.role,
            "index": info.index,
            "attempt": info.attempt,
            "process": info.process,
        }
        state = "waiting"
        if self.record:
            state = "done"
        elif self.child:
            state = "running"
        where = {
            "host": info.node,
            "address": channel.sock.getsockname()[0],
            "pid": os.getpid(),
            "container": info.container,
        }
        if info.ignored_image:
            where["ignored_image"] = info.ignored_image
        if info.gpus:
            where["gpus"] = info.gpus
        decider = {"seen": self.seen, "decider_attempt": self.decider_attempt}
        served = {"ports": info.served, "warnings": info.warnings} if info.served else {}
        now = time.monotonic()
        times = {"age_s": round(now - info.started, 3)}
        if self.search_at is not None:
            times["search_s"] = round(now - self.search_at, 3)
        if self.reserved:
            where["port"] = self.reserved.port
        # what the deciding task cannot know, in another container or suspended
        memory = dict(self.remembered, gave_up=self.gave_up) if self.retried else {}
        self.calls += 1
        self.writing = True  # until the selector is updated
        self._send(
            pack(
                "hello",
                run=info.run,
                state=state,
                call=self.calls,
                **who,
                **where,
                **decider,
                **served,
                **times,
                **memory,
            )
        )

    def _send(self, data: bytes) -> None:
        if not self.channel:
            return
        try:
            writing = self.channel.send(data)
        except ChannelClosed:
            self._drop()
            return
        if writing != self.writing:
            self.writing = writing
            self.selector.modify(self.channel.sock, EVENTS[writing], self._ready)

    def _drop(self, busy: bool = False, silent_s: float = 0.0) -> None:
        """Close the connection.

        Without a welcome the next port is tried, unless it is `busy`.

        Args:
            busy: Whether another process of this task is connected.
            silent_s: How long the deciding task has been out of reach already; part of `grace`.
        """
        if not self.channel:
            return
        self.selector.unregister(self.channel.sock)
        self.channel.sock.close()
        self.channel = None
        if not self.welcomed and not busy:
            self.port_index = (self.port_index + 1) % len(self.ports)
            self.refusals += 1
            if self.refusals < len(self.ports) and self.exit is None:
                self._open()
                return
        if self.welcomed:
            self.search_at = None
            now = time.monotonic()
            self.lost_at = now - silent_s
            self.pause, self.next_try = 0.2, now + 0.1
            if self.leave is None:
                log("the connection to %s went away" % self.info.deciding)
        self.welcomed = False

    def _message(self, now: float, message: Mapping[str, Any]) -> None:
        kind, status = message["t"], message.get("status")
        if "past" in message:
            self._remember(message)
        if kind == "welcome":
            self.welcomed, self.wrong_job, self.refusals = True, False, 0
            self.info.attempt = message["attempt"]
            self.seen, self.decider_attempt = message["process"], message["decider_attempt"]
            self.ping_s, self.progress_s = message["ping_s"], message["progress_s"]
            if not self.child and not self.record:
                log("registered with %s; waiting for the start signal" % self.info.deciding)
        elif kind == "again" and self.leave is None:
            self.renew(now, message["generation"])
        elif kind == "go" and not self.child:
            self._go(message)
        elif kind == "ping":
            self._pinged(message["probe"])
        elif kind == "noted":
            self.noted = True
        elif kind in ("end", "finished") and isinstance(status, int):
            self._asked_to_end(now, message, status)
        elif kind == "grace" and self.child:
            self.child.spare(now + message["grace_s"])
        elif kind in ("wrong-job", "busy"):
            self.wrong_job = kind == "wrong-job"
            self.trouble = "an earlier attempt of this task is still connected"
            if self.wrong_job:
                self.trouble = "another job's deciding task answers there"
            self._drop(busy=not self.wrong_job)

    def _go(self, message: Mapping[str, Any]) -> None:
        """Start the command."""
        self.generation = self.remembered["generation"]
        # a sidecar may start before the tasks are counted
        self.info.leave_out(message.get("left_out", {}))
        if self.record or self.leave is not None:
            return
        self.gave_up = None
        hosts = unpack_addresses(self.info.addressed_tasks(), message["hosts"])
        self.learn(hosts, message["ports"])
        if not self.record:
            self.start_child()
        if self.child:
            self._send(pack("running"))

    def _remember(self, message: Mapping[str, Any]) -> None:
        """Keep what a later container of the deciding task has to learn."""
        kept = ("generation", "past", "resized", "prepared", "trained")
        self.remembered = {key: message[key] for key in kept}
        self.remembered["seen_container"] = message["container"]
        self.remembered["seen_host"] = message["host"]

    def _pinged(self, probe: int) -> None:
        self.asked, self.probe = True, probe
        self._send(pack("ping", probe=probe))  # a `pong` may have to wait

    def _asked_to_end(self, now: float, message: Mapping[str, Any], status: int) -> None:
        if self.leave is None and not self.record:
            log("stopping: %s" % (message.get("why") or "this task has ended before"))
        self.final = True
        self.stop_grace_s = message.get("grace_s", self.stop_grace_s)
        self._leave_with(now, status)

    # --- what the loop calls ----------------------------------------------------------------------
    def tick(self, now: float) -> bool:
        """Do what is due."""
        if self.child:
            self.news = self.progress.poll() or self.news
        if self.channel and self.connected:
            self.accepted = now
        self._report(now)
        self._check_end(now)
        if self.exit is not None:
            return False
        if self.retried and self.welcomed:
            self._check_place(now)
        if self.channel:
            deadline = self.since + ANSWER_S
            if self.welcomed:
                deadline = max(self.since, self.heard) + SILENCE * self.ping_s
            if now > deadline:
                if not self.connected:
                    self._not_connected(errno.ETIMEDOUT)
                self._send(pack("away"))
                self._drop(silent_s=self.silent_s())
        else:
            self._look_up(now)
        ends = self.renewing if self.stays else bool(self.record)
        return ends or self.leave is not None or not self.channel

    def _check_end(self, now: float) -> None:
        if self.leave is not None or (self.record and not self.stays):
            self._try_to_leave(now)
        elif self.retried and not self.welcomed:
            self._await_decider(now)
        elif not self.retried:
            self._check_deadlines(now)

    def _report(self, now: float) -> None:
        if not self.welcomed:
            return
        if self.record and not self.told_done and not self.renewing:
            self.told_done = True
            if self.news:
                self._send(pack("progress", data=self.news))
            ended = self.child_ended
            message = self.done_message()
            self._send(
                pack(
                    "done", ago=now - ended, after=ended - self.told_at, number=self.pong, **message
                )
            )
        elif now >= self.pinged + self.ping_s:
            self.pinged = now
            quiet = int(now - self.stamps.grew_at)
            self._send(pack("ping", quiet=quiet) if quiet > self.ping_s else pack("ping"))
        if self.news and now >= self.sent + self.progress_s:
            self.sent, news, self.news = now, self.news, None
            self._send(pack("progress", data=news))
        unreported = self.ending and not self.record
        if self.asked and not unreported:  # after the end of the command, if that has come
            self.asked = False
            self._send(pack("pong", probe=self.probe))

    def _leave_with(self, now: float, status: int) -> None:
        """Stop the command, and then end this task with `status`."""
        if self.leave is None:
            self.leave = status
            self.end_requested = True
            self.stop_child(now)

    def _try_to_leave(self, now: float) -> None:
        if not self.idle:
            return
        if self.leave_by is None:
            wait = REPORT_S
            # the deciding task must receive this end: it may be about to start (again)
            if self.leave is None:
                wait = float(self.info.task["grace_s"])
                if self.seen is None:
                    wait = max(wait, self.start_deadline - now)
            self.leave_by = now + wait
        reachable = self.welcomed or (self.leave is None and not self._has_ended(now))
        unheard = bool(self.record) and not self.noted and reachable
        if unheard and (now < self.leave_by or self._is_suspended(now)):
            return
        self.exit = self.leave
        if self.exit is None and self.record:
            self.exit = exit_status(self.record["status"])
            self.final = (
                not self.record["status"]
                or self.info.attempt >= self.info.roles[self.info.role]["max_restarts"]
            )

    def _is_suspended(self, now: float) -> bool:
        """Return whether the deciding task accepts connections without responding.

        A suspended deciding task should still receive the end of this command.
        """
        limit = float(self.info.task["finish_timeout_s"])
        if (
            self.leave is not None
            or self.seen is None
            or now >= self.child_ended + limit
            or now >= self.accepted + 2 * ANSWER_S
        ):
            return False
        if not self.patient:
            self.patient = True
            log(
                "%s takes connections and does not answer; waiting up to %d s to report the end"
                % (self.info.deciding, limit)
            )
        return True

    def _check_deadlines(self, now: float) -> None:
        if self.welcomed:
            return
        given_up = self.lost_at + self.info.task["grace_s"]
        if self.child:
            if self._has_ended(now):
                text = "%s has ended, and YARN does not start it again; this task ends, too"
                log(text % self.info.deciding)
                self._leave_with(now, contract.EXIT_DECIDER_LOST)
            elif now >= given_up:
                text = (
                    "%s did not come back within %d s (`grace`); this task cannot determine "
                    "whether it is suspended or dead"
                )
                log(text % (self.info.deciding, self.info.task["grace_s"]))
                self._leave_with(now, contract.EXIT_DECIDER_LOST)
        elif now >= self.start_deadline and (not self.seen or now >= given_up):
            self.exit, reason = contract.EXIT_PEERS_MISSING, "peers-missing"
            if self.wrong_job:
                self.exit, reason = contract.EXIT_WRONG_JOB, "wrong-job"
            text = "%s was not found in time: %s" % (self.info.deciding, self.trouble)
            self.fail(BootstrapProblem(self.exit, reason, text))

    def _has_ended(self, now: float) -> bool:
        """Return whether the deciding task was here, and has ended for good: nothing listens at any
        of its ports.
        """
        if self.retried:
            return False  # YARN always starts it again
        role = self.info.roles[self.info.deciding.rpartition("-")[0]]
        gone = self.seen is not None and self.deaf >= len(self.ports)
        return gone and now >= self.lost_at + contract.CLOSED_S and not role["max_restarts"]

    # --- generations ------------------------------------------------------------------------------
    def renewed(self) -> None:
        """Tell the deciding task that the next command may start, now or by the next hello."""
        self.told_done = self.noted = False
        if self.welcomed:
            port = self.reserved.port if self.reserved else 0
            self._send(pack("ready", generation=self.generation, port=port, ports=self.info.served))

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

    # --- the end ----------------------------------------------------------------------------------
    def command_ended(self, now: float) -> None:
        """Report the end to the deciding task, now or after the next connect."""
        self.news = self.progress.poll() or self.news
        self._report(now)

    def stopped(self, now: float) -> None:
        """Report to the deciding task that YARN stops this task.

        YARN sends SIGKILL 250 ms later, so the report may not arrive.
        """
        number = self.signals.stop()
        log("stopped by %s" % signal_name(number))
        if self.welcomed:
            self._send(pack("stopping"))
        if self.leave is None:
            self.leave = 128 + number
            if self.record:
                self.leave = exit_status(self.record["status"])
        self.stop_child(now, 0)
        if not self.child and not self.record:
            self.child_ended = self.child_started = now
            self.was_stopped(number)
