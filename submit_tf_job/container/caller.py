"""A task's connection to the deciding task: find it, connect to it, and notice when it is gone."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from submit_tf_job.container import foreign, tfconfig
from submit_tf_job.container.deciding_address import PlaceWatch, finder
from submit_tf_job.container.info import Info, log
from submit_tf_job.container.loop import SILENCE, Loop, silent_s
from submit_tf_job.container.names import family_of
from submit_tf_job.container.wire import TABLE_LIMIT, Channel, ChannelClosed, pack

ANSWER_S = 10.0  # to connect, and again to receive the welcome


REFUSALS = {
    "wrong-job": "another job's deciding task answers there",
    "busy": "the deciding task does not take this task yet",
    "taken": "an earlier attempt of this task is still connected",
}


class Caller:
    """The connection to the deciding task; while there is none, the search for it."""

    def __init__(
        self,
        info: Info,
        loop: Loop,
        hello: Callable[[str], dict[str, Any]],
        message: Callable[[float, Mapping[str, Any]], None],
    ) -> None:
        """Start without a connection; `message` handles each message that arrives.

        `hello` returns the message that this task sends first, given its own address in the
        connection.
        """
        self.info, self.loop, self.hello, self.message = info, loop, hello, message
        self.channel: Channel | None = None
        self.connected = self.welcomed = False
        self.leaving = False  # this task ends, and so may the connection
        self.since = info.started  # start of the connection's present state
        self.lost_at = info.started
        self.heard = 0.0
        self.accepted = 0.0  # when the deciding task's port last accepted a connection
        self.pong, self.pong_at = 0, 0.0  # the last one, and when it came
        # the search
        self.resolver = finder(info, loop.post)
        self.trouble = "it has not been asked for yet"
        self.wrong_job = False
        self.begun: float | None = None  # when this search began
        self.next_try = self.told = 0.0
        self.pause_s = 0.2
        self.address = ""
        self.same_place = False  # the next connection goes to the same address, without a look-up
        self.ports = tfconfig.rendezvous_ports(info.task["ports"], info.run)
        self.port_index = self.refusals = 0  # which port to try, and how many have failed in turn
        self.taken_at = 0.0  # when another container of this task was last said to be connected
        self.deaf = 0  # how many ports in turn were closed: no process listens there
        self.deaf_since: float | None = None  # since when all were, at the address that was found
        # of ten thousand tasks two hundred look in each second
        every_s = max(SILENCE * info.ping_s, info.total / 200.0)
        self.place = PlaceWatch(self.resolver, every_s, seen=True)

    # --- the search -------------------------------------------------------------------------------
    def _look_up(self, now: float) -> None:
        if self.resolver.busy or now < self.next_try:
            return
        self.next_try = now + self.pause_s
        if self.begun is None:
            self.begun = now
        self.pause_s = min(2 * self.pause_s, self.resolver.longest_pause_s)
        host = self.resolver.sought()
        if self.same_place:
            # its kernel answers at once, DNS perhaps not
            self.same_place = False
            self._address_found(host, self.address)
            return
        if now >= self.told + 30:
            log(f"looking up {self.info.deciding} at {host}")
            if self.told:
                log(f"so far: {self.trouble}")
            self.told = now
        self.resolver.start([host], self._address_found)

    def _address_found(self, host: str, address: str | None) -> None:
        if self.channel or self.loop.exit is not None:
            return
        if not address:
            self.deaf_since = None
            self.trouble = self.resolver.missing()
            return
        self.address, self.refusals = address, 0
        if not self.wrong_job:
            self.trouble = f"{host} ({address}) does not answer at port {self.ports[0]}"
        self._connect_to_address()

    def _connect_to_address(self) -> None:
        sock = socket.socket(family_of(self.address), socket.SOCK_STREAM)
        self.channel = Channel(
            sock, TABLE_LIMIT, self.loop.selector, self._socket_ready, connected=False
        )
        self.since = time.monotonic()
        self.connected = self.welcomed = False
        try:
            sock.connect_ex((self.address, self.ports[self.port_index]))
        except (OSError, UnicodeError) as err:  # what was found is no address
            self.trouble = f"{self.address} is no address: {err}"
            self.drop(busy=True)

    def _not_connected(self, error: int) -> None:
        """Count a refused connection; after any other error, look up the address again.

        YARN may have started the deciding task on another node meanwhile.
        """
        if error == errno.ECONNREFUSED:
            self.deaf += 1
            if self.is_deaf and self.deaf_since is None:
                self.deaf_since = time.monotonic()
        else:
            self.deaf, self.refusals, self.deaf_since = 0, len(self.ports), None

    def look_elsewhere(self, now: float) -> None:
        """While connected, check whether YARN has started the deciding task in another container.

        The connection to a node that YARN has given up may stay open.
        """
        if self.welcomed:
            self.place.look(now, lambda: self.address, self._deciding_task_moved)

    def _deciding_task_moved(self, address: str) -> None:
        if self.welcomed:
            log(f"{self.info.deciding} is now at {address}")
            self._give_up()

    # --- the connection ---------------------------------------------------------------------------
    def _socket_ready(self, mask: int) -> None:
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
                self.deaf_since = None
                self.send("hello", **self.hello(channel.sock.getsockname()[0]))
            elif mask & selectors.EVENT_WRITE:
                channel.send(b"")
            if mask & selectors.EVENT_READ and self.channel:
                for message in channel.receive():
                    self.heard = time.monotonic()
                    self._message(self.heard, message)
        except ChannelClosed as err:
            self.same_place = err.ended and self.welcomed
            self.drop()
        except Exception as err:  # noqa: BLE001  (one message costs its own connection alone)
            self.trouble = f"a message of what answers there led to {err!r}"[:300]
            log(f"the connection to {self.info.deciding} is given up: {self.trouble}")
            self.drop()

    def _message(self, now: float, message: Mapping[str, Any]) -> None:
        kind = message["t"]
        if kind in ("welcome", "pong"):
            self.pong, self.pong_at = foreign.whole(message.get("number")) or 0, now
        if kind == "welcome":
            self.welcomed, self.wrong_job, self.refusals = True, False, 0
        if kind in REFUSALS:
            self.wrong_job, self.trouble = kind == "wrong-job", REFUSALS[kind]
            if kind == "taken":
                self.taken_at = now
            self.drop(busy=not self.wrong_job)
        else:
            self.message(now, message)

    def send(self, kind: str, **fields: Any) -> None:
        try:
            if self.channel:
                self.channel.send(pack(kind, **fields))
        except ChannelClosed:
            self.drop()

    def drop(self, busy: bool = False, silent_s: float = 0.0) -> None:
        """Close the connection.

        If the deciding task never accepted the connection, the next port is tried, unless `busy`.

        Args:
            busy: Whether another process of this task is connected.
            silent_s: For how long the deciding task has not been reached; this time counts towards
                `grace`.
        """
        if not self.channel:
            return
        self.channel.close()
        self.channel = None
        if self.welcomed:
            self.welcomed, self.begun = False, None
            now = time.monotonic()
            self.lost_at = now - silent_s
            self.pause_s, self.next_try = 0.2, now + 0.1
            if not self.leaving:
                log(f"the connection to {self.info.deciding} went away")
        elif not busy:
            self.port_index = (self.port_index + 1) % len(self.ports)
            self.refusals += 1
            if self.refusals < len(self.ports) and self.loop.exit is None:
                self._connect_to_address()

    def _give_up(self, silent_s: float = 0.0) -> None:
        self.send("away")
        self.drop(silent_s=silent_s)

    def tick(self, now: float) -> None:
        """Search for the deciding task, or close a connection that is silent."""
        if not self.channel:
            self._look_up(now)
            return
        if self.connected:
            self.accepted = now
        deadline = self.since + ANSWER_S
        if self.welcomed:
            deadline = max(self.since, self.heard) + SILENCE * self.info.ping_s
        if now > deadline:
            if not self.connected:
                self._not_connected(errno.ETIMEDOUT)
            self._give_up(silent_s(self.info))

    def deaf_s(self, now: float) -> float:
        """Return for how long nothing has listened at the deciding task's address."""
        return 0.0 if self.deaf_since is None else now - self.deaf_since

    @property
    def is_deaf(self) -> bool:
        """Whether nothing listens at any port of the deciding task."""
        return self.deaf >= len(self.ports)
