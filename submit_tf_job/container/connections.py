"""The connections of the deciding task to all others."""

from __future__ import annotations

import collections
import contextlib
import errno
import resource
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from submit_tf_job.container import tfconfig, untrusted
from submit_tf_job.container.dns_client import plain
from submit_tf_job.container.greeter import Greeter
from submit_tf_job.container.info import Info
from submit_tf_job.container.loop import SILENCE, Loop, silent_s
from submit_tf_job.container.ports import BACKLOG, Reservation, reserve
from submit_tf_job.container.rendezvous.members import Member
from submit_tf_job.container.wire import LINE_LIMIT, Channel, ChannelClosed, pack

HELLO_S = 10.0  # time for a connection to send its hello
UNIDENTIFIED = 256  # connections without a hello, beyond one per task
ACCEPTED = 2 * BACKLOG  # connections in one turn: more than the kernel keeps


class Peer:
    """A connection to another task."""

    def __init__(self, channel: Channel, ends: tuple[str, str], now: float) -> None:
        """Keep a connection whose task is not known yet; `ends` are the other task's address and
        ours.
        """
        self.channel, self.origin, self.ends, self.heard = channel, ends[0], ends, now
        self.number = channel.sock.fileno()
        self.member: Member | None = None
        self.away = False  # the other task closes this connection, and lives
        self.told: collections.deque[float] = collections.deque([now], 9)  # `pong` and `welcome`
        self.pongs = 0
        self.alive = False  # it was pinged after a failure, and that has arrived

    def send(self, kind: str, **fields: Any) -> None:
        self.send_packed(pack(kind, **fields))

    def send_packed(self, data: bytes) -> None:
        """Send a message that is packed already. A broken connection raises nothing here: the next
        read from it fails.
        """
        # what it sent before is still to be read; then reading fails, too
        with contextlib.suppress(ChannelClosed):
            self.channel.send(data)

    def age(self, now: float, message: Mapping[str, Any]) -> float:
        """Return how many seconds ago the task's command ended, according to the message that
        reports the end.

        The message may have waited in a buffer. So it also contains the number of the last `pong`
        that the task got from the deciding task, and how many seconds after this `pong` the command
        ended.
        """
        ago, after = (untrusted.seconds(message.get(key)) for key in ("ago", "after"))
        place = (untrusted.whole(message.get("number")) or 0) - self.pongs - 1
        if "after" in message and -len(self.told) <= place < 0:
            ago = max(ago, now - self.told[place] - after)
        return ago


class Peers:
    """All connections of the deciding task: those of tasks that have said hello, and others."""

    def __init__(
        self,
        info: Info,
        loop: Loop,
        message: Callable[[Peer, Mapping[str, Any]], None],
        closed: Callable[[Peer, bool, float], None],
        log: Callable[[str], None],
    ) -> None:
        """Keep the arguments; `listen` begins the work.

        Args:
            message: Handles a message; `ChannelClosed` closes the connection.
            closed: Called when a task's connection has ended, with whether the kernel of the other
                side has closed it, and for how many seconds pings have been missing.
            log: Logs connections that come from elsewhere than a task of this job.
        """
        self.info, self.loop, self.message, self.closed, self.log = info, loop, message, closed, log
        self.known: dict[int, Peer] = {}
        self.unidentified: dict[int, Peer] = {}  # in order of arrival
        # what had arrived until then is read; also of connections that were still to be accepted
        self.read_until = self.accepted_until = info.started
        self.probed = False  # whether all tasks were pinged after a failure
        self.probe, self.probed_at = 0, 0.0
        self.port: Reservation | None = None
        self.listener: socket.socket | None = None
        self.greeter: Greeter | None = None  # while this task prepares
        self.nofile: tuple[int, int] | None = None  # the former limit of open files

    def listen(self) -> None:
        """Listen at the first of the job's ports that is free, and answer tasks that call with a
        greeting until `take_over`. Raise the limit of open files as far as the number of tasks
        needs it.

        Raises:
            BootstrapProblem: All ports are in use.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * self.info.total + UNIDENTIFIED + 64
        if soft != resource.RLIM_INFINITY and soft < wanted:  # the usual soft limit is 1024
            self.nofile = (soft, hard)
            if hard != resource.RLIM_INFINITY:
                wanted = min(wanted, hard)
            with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        ports = tfconfig.rendezvous_ports(self.info.task["ports"], self.info.run)
        self.port = reserve(ports, "the rendezvous", self.info.node, self.loop.signals)
        self.listener = self.port.socket
        self.listener.setblocking(False)
        try:
            self.greeter = Greeter(self.listener, UNIDENTIFIED + self.info.total)
        except (OSError, RuntimeError) as err:  # no descriptor or thread: they wait for a welcome
            self.log(f"tasks that call are not greeted while this one prepares: {err}")

    def take_over(self) -> None:
        """Accept connections in the event loop, and handle those that the greeter has accepted."""
        if self.greeter:
            for sock, origin in self.greeter.finish():
                self._add_peer(sock, origin)
            self.greeter = None
        if self.listener:
            self.loop.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    def accept(self, _mask: int) -> None:
        for _ in range(ACCEPTED):
            try:
                sock, origin = self.listener.accept()  # type: ignore[union-attr]
            except OSError as err:
                if err.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self.log(f"too many connections: {err}")
                    if self.unidentified:
                        self.close(next(iter(self.unidentified.values())))
                    else:
                        time.sleep(0.05)
                return
            self._add_peer(sock, origin[0])

    def _add_peer(self, sock: socket.socket, origin: str) -> None:
        try:
            ends = (plain(origin), plain(sock.getsockname()[0]))
            channel = Channel(
                sock, LINE_LIMIT, self.loop.selector, lambda mask: self._handle_ready(peer, mask)
            )
        except OSError as err:  # the other side is gone, or the kernel watches no more sockets
            self.log(f"a connection was dropped: {err}")
            sock.close()
            return
        peer = Peer(channel, ends, time.monotonic())
        self.unidentified[peer.number] = peer
        if len(self.unidentified) > UNIDENTIFIED + self.info.total:
            self.close(next(iter(self.unidentified.values())))

    def _handle_ready(self, peer: Peer, mask: int) -> None:
        if peer.channel.closed:  # by what was handled before, in the same turn
            return
        if mask & selectors.EVENT_WRITE:
            peer.send_packed(b"")
        if not mask & selectors.EVENT_READ:
            return
        try:
            for message in peer.channel.receive():
                peer.heard = time.monotonic()
                self.message(peer, message)
        except ChannelClosed as err:
            if not err.ended and not peer.member:
                self.log(f"a connection from {peer.origin} was dropped: {err}")
            self.close(peer, err.ended)
        except Exception as err:  # noqa: BLE001  (one message costs its own connection alone)
            self.log(f"a connection from {peer.origin} was dropped: a message led to {err!r}"[:300])
            self.close(peer)

    def identify(self, peer: Peer, member: Member) -> None:
        self.unidentified.pop(peer.number, None)
        self.known[peer.number] = peer
        peer.member = member

    def tasks(self) -> list[tuple[Peer, Member]]:
        """Return the connections with their tasks."""
        return [(peer, peer.member) for peer in self.known.values() if peer.member]

    def close(self, peer: Peer, ended: bool = False, silent_s: float = 0.0) -> None:
        """Close a connection. If it is the present one of a task, call `closed` with `ended` and
        `silent_s`.
        """
        if peer.channel.closed:
            return
        peer.channel.close()
        self.unidentified.pop(peer.number, None)
        known = self.known.pop(peer.number, None)
        if known and peer.member and peer.member.peer is peer:
            self.closed(peer, ended, silent_s)

    # --- silence ----------------------------------------------------------------------------------
    def waited(self) -> None:
        """Note that a wait for events has ended: messages that arrived during it are read before a
        connection is judged to be silent.
        """
        self.read_until, self.accepted_until = self.accepted_until, self.loop.waited_at

    def check_silence(self) -> None:
        """Close the connections of tasks that have missed `SILENCE` pings, and those that have sent
        no hello within `HELLO_S`.
        """
        for peer in list(self.known.values()):
            if self.accepted_until > peer.heard + SILENCE * self.info.ping_s:
                self.close(peer, silent_s=silent_s(self.info))
        for peer in list(self.unidentified.values()):
            if self.accepted_until <= peer.heard + HELLO_S:
                break
            self.log(f"a connection from {peer.origin} sent nothing")
            self.close(peer)

    def heard_late(self, now: float, seconds: float) -> None:
        """Do not count the time in which this task was suspended as silence of another task."""
        for peer in self.known.values():
            peer.heard = min(now, peer.heard + seconds)

    def ping_all(self, now: float, settle_until: float) -> None:
        """Ping all tasks after a failure, to find those that died first. From `settle_until` on,
        close the connections of tasks that have not answered.

        A dead node closes no connection, but its TensorFlow peers fail after ten seconds. A message
        that was sent before this ping does not count as an answer, because it may have waited in a
        buffer.
        """
        if not self.probed:
            self.probed, self.probed_at, self.probe = True, now, self.probe + 1
            for peer in self.known.values():
                self.ping(peer)
        elif self.read_until >= settle_until:
            for peer in list(self.known.values()):
                if not peer.alive:
                    self.close(peer)

    def ping(self, peer: Peer) -> None:
        peer.alive = False
        peer.send("ping", probe=self.probe)

    def pong(self, peer: Peer, message: Mapping[str, Any]) -> None:
        peer.alive = peer.alive or message.get("probe") == self.probe
        peer.pongs += 1
        peer.send("pong", number=peer.pongs)
        peer.told.append(time.monotonic())
