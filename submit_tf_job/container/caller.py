"""A task's connection to the deciding task: find it, connect to it, and notice when it is gone."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from submit_tf_job.container import tfconfig, untrusted
from submit_tf_job.container.deciding_address import PlaceWatch, finder
from submit_tf_job.container.dns_client import family_of
from submit_tf_job.container.info import Info, log
from submit_tf_job.container.loop import SILENCE, TICK_S, Loop, silent_s
from submit_tf_job.container.wire import TABLE_LIMIT, Channel, ChannelClosed, pack

ANSWER_S = 10.0  # to connect, and again to receive the welcome
ALONE_S = 3.0  # the port that is tried first has so long to answer; then all others are tried, too


REFUSALS = {
    "wrong-job": "another job's deciding task answers there",
    "busy": "the deciding task does not take this task yet",
    "taken": "an earlier attempt of this task is still connected",
    "preparing": "the deciding task still prepares",
}
ANSWERS = {*REFUSALS, "welcome", "end", "finished"}  # to a hello


class PortCall:
    """A connection to one port at the deciding task's address."""

    def __init__(self, caller: Caller, index: int) -> None:
        """Begin to connect to the port with this index in `caller.ports`. A connection that is
        refused at once is reported by `error`.

        Raises:
            OSError, UnicodeError: The address is not valid.
        """
        self.index = index
        self.since = time.monotonic()  # start of the connection's present state
        self.connected = False
        sock = socket.socket(family_of(caller.address), socket.SOCK_STREAM)
        self.channel = Channel(
            sock,
            TABLE_LIMIT,
            caller.loop.selector,
            lambda mask: caller.ready(self, mask),
            connected=False,
        )
        try:
            error = sock.connect_ex((caller.address, caller.ports[index]))
        except (OSError, UnicodeError):
            self.channel.close()
            raise
        self.error = 0 if error == errno.EINPROGRESS else error

    def leave(self) -> None:
        """Tell the deciding task that this connection ends, and that this task continues with
        another connection.
        """
        with contextlib.suppress(ChannelClosed):
            if self.connected:
                self.channel.send(pack("away"))

    def is_late(self, now: float) -> bool:
        """Return whether no answer came within `ANSWER_S`, so that no answer is expected any
        more.
        """
        return now > self.since + ANSWER_S


class Caller:
    """The connection to the deciding task; while there is no connection, the search for it.

    The search goes in rounds. Each round looks up the address, and sends a hello to the port where
    the deciding task was last. If no answer comes soon, it sends a hello to all possible ports of
    the deciding task at once; other programs may use some of these ports. A deciding task answers
    within a second, even while it prepares. So a server that accepts connections and never answers
    is another program.
    """

    def __init__(
        self,
        info: Info,
        loop: Loop,
        hello: Callable[[str], dict[str, Any]],
        message: Callable[[float, Mapping[str, Any]], None],
    ) -> None:
        """Start without a connection; `message` handles each message that arrives, with the time.

        `hello` gets this task's own address in the connection, and returns the fields of the
        message that the task sends first.
        """
        self.info, self.loop, self.hello, self.message = info, loop, hello, message
        self.call: PortCall | None = None  # the connection at which the deciding task has answered
        self.welcomed = False
        self.leaving = False  # this task ends, and so may the connection
        self.lost_at = info.started
        self.heard = 0.0
        self.accepted = 0.0  # when a port of the deciding task last accepted a connection
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
        self.port_index = 0  # where the deciding task was last, and is looked for first
        self.taken_at = 0.0  # when another container of this task was last said to be connected
        # a round: the connections on which nothing has answered yet
        self.asked: list[PortCall] = []
        self.round_at, self.asked_all = 0.0, False
        self.silent = self.closed = 0  # its ports that took a connection in vain, or refused one
        self.is_deaf = False  # whether the port where the deciding task was last is closed
        self.unheard_since: float | None = None  # the first of the rounds that were all in vain
        self.ticked = info.started
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
        if self.is_calling or self.loop.exit is not None:
            return
        if not address:
            self.unheard_since = None
            self.trouble = self.resolver.missing()
            return
        if address != self.address:
            self.address, self.unheard_since = address, None
        if not self.wrong_job:
            self.trouble = f"{host} ({address}) does not answer at port {self.ports[0]}"
        self.round_at, self.asked_all = time.monotonic(), False
        self.silent = self.closed = 0
        self._ask_ports(self.port_index)

    def _ask_ports(self, *indexes: int) -> None:
        try:
            for index in indexes:
                self.asked.append(PortCall(self, index))
        except (OSError, UnicodeError) as err:  # not an address; or too many open files
            self.trouble = f"{self.address} cannot be called: {err}"
            self._hang_up()

    def _ask_all(self) -> None:
        self.asked_all = True
        self._ask_ports(*(index for index in range(len(self.ports)) if index != self.port_index))

    def _in_vain(self, call: PortCall, error: int = 0, *, other_job: bool = False) -> None:
        """Close a connection of this round that has not found the deciding task; then try the other
        ports, or, after the last connection, end the round.

        Args:
            error: The errno with which connecting failed; 0 if it did not fail.
            other_job: Whether the deciding task of another job has answered there.
        """
        self.asked.remove(call)
        call.channel.close()
        self.closed += error == errno.ECONNREFUSED
        self.silent += call.connected and not other_job
        if call.index == self.port_index:
            self.is_deaf = error == errno.ECONNREFUSED
        if self.loop.exit is not None:
            return
        if not self.asked_all:
            self._ask_all()
        if not self.asked:
            self._end_round()

    def _end_round(self) -> None:
        """Note that this round has found the deciding task at no port.

        A round in which no port accepted or refused a connection proves nothing, so `unheard_s`
        begins anew: YARN may have started the deciding task on another node meanwhile.
        """
        if self.silent or self.closed:
            if self.unheard_since is None:
                self.unheard_since = self.round_at
        else:
            self.unheard_since = None
        if self.silent and not self.wrong_job:
            self.trouble += (
                f"; what listens at {self.silent} of its {len(self.ports)} ports does not answer "
                "as a task of this job"
            )

    def _hang_up(self) -> None:
        """Close all connections on which no answer has come yet."""
        for call in self.asked:
            call.channel.close()
        self.asked = []

    def unheard_s(self, now: float) -> float:
        """Return for how many seconds the deciding task has not answered at any port of its
        address; 0.0 after an answer, and while no host answers at the address.
        """
        return 0.0 if self.unheard_since is None else now - self.unheard_since

    def look_elsewhere(self, now: float) -> None:
        """While there is a connection, check whether YARN has started the deciding task in another
        container; if so, close the connection, and search again.

        A connection may stay open although YARN has given up the node at its other end.
        """
        if self.welcomed:
            self.place.check(now, lambda: self.address, self._deciding_task_moved)

    def _deciding_task_moved(self, address: str) -> None:
        if self.welcomed:
            log(f"{self.info.deciding} is now at {address}")
            self._give_up()

    # --- the connection ---------------------------------------------------------------------------
    def calls(self) -> list[PortCall]:
        """Return the connection to the deciding task; if there is none, the connections on which it
        may still answer.
        """
        return [self.call] if self.call else self.asked

    @property
    def is_calling(self) -> bool:
        """Whether there is a connection, or a search that may soon give one."""
        return bool(self.calls())

    def ready(self, call: PortCall, mask: int) -> None:
        """Handle the events of a connection (`mask` of `selectors`). An invalid message closes only
        this connection.
        """
        if call.channel.closed:  # by what was handled before, in the same turn
            return
        error = 0
        try:
            if not call.connected:
                state = call.channel.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                error = call.error or state
                if error:
                    raise ChannelClosed("refused")
                call.connected, call.since = True, time.monotonic()
                address = call.channel.sock.getsockname()[0]
                call.channel.send(pack("hello", **self.hello(address)))
            elif mask & selectors.EVENT_WRITE:
                call.channel.send(b"")
            if mask & selectors.EVENT_READ and not call.channel.closed:
                for message in call.channel.receive():
                    self._message_arrived(time.monotonic(), call, message)
        except ChannelClosed as err:
            self.same_place = err.ended and self.welcomed and call is self.call
            self._close_call(call, error)
        except Exception as err:  # noqa: BLE001  (one message costs its own connection alone)
            self.trouble = f"a message of what answers there led to {err!r}"[:300]
            log(f"the connection to {self.info.deciding} is given up: {self.trouble}")
            self._close_call(call)

    def _close_call(self, call: PortCall, error: int = 0) -> None:
        if call is self.call:
            self.drop()
        elif call in self.asked:
            self._in_vain(call, error)

    def _message_arrived(self, now: float, call: PortCall, message: Mapping[str, Any]) -> None:
        kind = message["t"]
        if call in self.asked and not self._is_answer(call, kind):
            return
        if call is not self.call:
            return
        self.heard = now
        if kind in ("welcome", "pong"):
            self.pong, self.pong_at = untrusted.whole(message.get("number")) or 0, now
        if kind == "welcome":
            self.welcomed, self.wrong_job = True, False
        if kind == "preparing":
            call.since, self.trouble = now, REFUSALS[kind]
        elif kind in REFUSALS:
            self.trouble = REFUSALS[kind]
            if kind == "taken":
                self.taken_at = now
            self.drop()
        else:
            self.message(now, message)

    def _is_answer(self, call: PortCall, kind: str) -> bool:
        """Return whether the first message on a connection of the search comes from this job's
        deciding task. If so, keep this connection and close all others; if another job answers,
        give up this one.

        Raises:
            ChannelClosed: The message is not an answer to a hello.
        """
        if kind not in ANSWERS:
            raise ChannelClosed("something that is not ours")
        if kind == "wrong-job":
            self.wrong_job, self.trouble = True, REFUSALS[kind]
            self._in_vain(call, other_job=True)
            return False
        self.asked.remove(call)
        self._hang_up()
        self.call, self.port_index = call, call.index
        self.wrong_job = self.is_deaf = False
        self.unheard_since = None
        return True

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message of a kind with these fields, if there is a connection; a broken connection
        is closed.
        """
        try:
            if self.call:
                self.call.channel.send(pack(kind, **fields))
        except ChannelClosed:
            self.drop()

    def drop(self, silent_s: float = 0.0) -> None:
        """Close the connection, and all connections of the search. A later `tick` begins the search
        anew.

        Args:
            silent_s: For how long the deciding task has not been reached; this time counts towards
                `grace`.
        """
        self._hang_up()
        if not self.call:
            return
        self.call.channel.close()
        self.call = None
        if self.welcomed:
            self.welcomed, self.begun = False, None
            now = time.monotonic()
            self.lost_at = now - silent_s
            self.pause_s, self.next_try = 0.2, now + 0.1
            if not self.leaving:
                log(f"the connection to {self.info.deciding} went away")

    def _give_up(self, silent_s: float = 0.0) -> None:
        self.send("away")
        self.drop(silent_s=silent_s)

    def tick(self, now: float) -> None:
        """Search for the deciding task, or close a connection that is silent."""
        self._forget_a_suspension(now)
        if self.call or any(call.connected for call in self.asked):
            self.accepted = now
        if self.call:
            deadline = self.call.since + ANSWER_S
            if self.welcomed:
                deadline = max(self.call.since, self.heard) + SILENCE * self.info.ping_s
            if now > deadline:
                self._give_up(silent_s(self.info))
        elif self.asked:
            for call in [call for call in self.asked if call.is_late(now)]:
                call.leave()
                self._in_vain(call)
            if self.asked and not self.asked_all and now > self.round_at + ALONE_S:
                self._ask_all()
        else:
            self._look_up(now)

    def _forget_a_suspension(self, now: float) -> None:
        """Do not count the time in which this task was suspended; the deciding task may have been
        suspended, too.
        """
        gap_s = now - self.ticked - SILENCE * TICK_S
        if gap_s > 0 and self.unheard_since is not None:
            self.unheard_since += gap_s
        self.ticked = now
