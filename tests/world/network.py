"""The way from clients to servers: what `requests` would send is answered here."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter

from tests.world.clock import Clock
from tests.world.node_manager import NodeManager
from tests.world.resource_manager import SERVICES, ResourceManagers
from tests.world.transport import (
    Answer,
    Asked,
    asked_by,
    check_options,
    connection_broke,
    proxy,
    refused,
    response_of,
    wrong_scheme,
)
from tests.world.weather import Fate, Fault, Weather
from tests.world.yarn import Server, Yarn

__all__ = ["Connection", "Network", "Waiter"]

_LATE = object()
WELL = Fate()


class Waits(Protocol):
    """Who waits for an answer."""

    def sleep(self, seconds: float) -> None: ...
    def wait(self, seconds: float, *, token: object = None, late: Any = None) -> Any: ...
    def waits_for(self, token: object) -> bool: ...
    def deliver(self, token: object, outcome: Any) -> None: ...


class Waiter:
    """Somebody whose waiting lets the time pass."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.sleep = clock, clock.sleep
        self._came: dict[object, Any] = {}

    def wait(self, seconds: float, *, token: object = None, late: Any = None) -> Any:
        """Wait until something is delivered; return `late` where it does not come in time."""
        end = self.clock() + seconds
        while token not in self._came and self.clock.step(end):
            pass
        return self._came.setdefault(token, late)

    def waits_for(self, token: object) -> bool:
        """Whether it has not come yet."""
        return token not in self._came

    def deliver(self, token: object, outcome: Any) -> None:
        """Continue what waits for this."""
        self._came.setdefault(token, outcome)


class Network:
    """All addresses of the cluster, and the weather.

    Attributes:
        faults: What becomes of the next requests that fit, whatever the weather is.
        sent: Requests by command.
        log: Address, method and path of each.
        forbidden: When a proxy did not let which command look.
    """

    def __init__(self, yarn: Yarn, rng: random.Random, weather: Weather) -> None:
        self.yarn, self.rng, self.weather = yarn, rng, weather
        self.clock, self.masters = yarn.clock, ResourceManagers(yarn)
        self.servers: dict[str, Server | NodeManager] = {one.address: one for one in yarn.servers}
        self.faults: list[Fault] = []
        self.sent: dict[str, int] = {}
        self.log: list[tuple[str, str, str]] = []
        self.forbidden: list[tuple[float, str]] = []
        self.posted = False

    def fate(self, asked: Asked) -> Fate:
        """Draw what becomes of a request; in a calm world, nothing does."""
        for fault in self.faults:
            if fault.fits(asked):
                self.faults.remove(fault)
                return fault.fate
        fate = self.weather.fate(self.rng, asked.method)
        self.posted = self.posted or (asked.method == "POST" and asked.path.startswith(SERVICES))
        calm = self.yarn.calm or (self.weather.after_post and not self.posted)
        return WELL if calm else fate

    def deliver(
        self, server: Server | NodeManager, asked: Asked, done: Callable[[Answer], None]
    ) -> None:
        """Let a server work on a request; the answer comes when it comes, or never."""
        if isinstance(server, NodeManager):
            self.clock.after(0.002, lambda: done(server.serve(asked)))
            return
        if not server.up:
            return
        born = server.born
        self.clock.start(
            self.masters.serve(server, asked),
            alive=lambda: server.up and server.born == born,
            hold_s=lambda: self.yarn.still_s(server),
            done=done,
        )
        writes = asked.method in ("POST", "DELETE") and asked.path.startswith(SERVICES)
        if writes and not self.yarn.calm and self.rng.random() < self.weather.dies:
            back = partial(self.yarn.crash, server, self.rng.uniform(6.0, 20.0))
            self.clock.after(self.rng.choice((0.05, 0.2, 0.6, 2.0, 20.0)) * self.rng.random(), back)

    def ask(
        self, waits: Waits, address: str, asked: Asked, connect_s: float, read_s: float
    ) -> Answer:
        """Send a request, and wait for what becomes of it."""
        server, fate = self.servers[address], self.fate(asked)
        asked.slow = dict(fate.slow)
        self.sent[asked.by] = self.sent.get(asked.by, 0) + 1
        self.log.append((address, asked.method, asked.path))
        log = partial(self.clock.log, asked.by)
        where = f"{asked} to {address}"
        waits.sleep(self.rng.uniform(0.001, 0.01))
        if not server.up or fate.kind == "refused":
            log(f"{where}: connection refused{' by something on the way' if server.up else ''}")
            raise refused()
        if fate.kind == "no-connection":
            waits.sleep(connect_s)
            log(f"{where}: no connection")
            raise requests.exceptions.ConnectTimeout("timed out")
        answer = self.exchange(waits, server, asked, read_s, fate)
        if isinstance(answer, Exception):
            log(f"{where}: {fate.kind}: {type(answer).__name__}")
            raise answer
        if answer.status in (401, 403):
            self.forbidden.append((self.clock.now, asked.by))
        body, happened = answer.body[:110].decode(errors="replace"), f"({fate.kind})"
        log(f"{where}: {answer.status} {body} {'' if fate.kind == 'well' else happened}".rstrip())
        return answer

    def exchange(
        self,
        waits: Waits,
        server: Server | NodeManager,
        asked: Asked,
        read_s: float,
        fate: Fate = WELL,
    ) -> Answer | Exception:
        """Bring a request to its server, and return what comes back."""
        token = object()
        born = server.born
        self.clock.after(0.0, lambda: self._watch(waits, server, born, token))
        self._hand_in(waits, server, asked, fate, token)

        def answered(outcome: Answer | Exception, after_s: float) -> None:
            self.clock.after(after_s, lambda: waits.deliver(token, outcome))

        if fate.kind in ("lost", "late"):
            answered(connection_broke(), 0.02)
        elif fate.kind == "cut" and fate.after_s is not None:
            answered(connection_broke(), fate.after_s)
        elif fate.kind == "instead" or (fate.kind == "over" and fate.after_s is not None):
            answered(fate.answer or proxy(fate.status), max(fate.after_s or 0.0, 0.05))
        outcome = waits.wait(read_s, token=token, late=_LATE)
        if outcome is _LATE:
            return requests.exceptions.ReadTimeout("Read timed out.")
        assert isinstance(outcome, (Answer, Exception))
        return outcome

    def _watch(self, waits: Waits, server: Server | NodeManager, born: int, token: object) -> None:
        """Break the connection when the process that holds it dies."""
        if server.born != born or not server.up:
            waits.deliver(token, connection_broke())
        elif waits.waits_for(token):
            self.clock.after(0.25, lambda: self._watch(waits, server, born, token))

    def _hand_in(
        self, waits: Waits, server: Server | NodeManager, asked: Asked, fate: Fate, token: object
    ) -> None:
        """Bring the request to its server, where it arrives at all."""
        born = server.born
        if fate.kind == "late":

            def arrive() -> None:
                if server.up and server.born == born:
                    self.clock.log(server.address, f"reads {asked} of {asked.by} late")
                    self.deliver(server, asked, lambda _answer: None)

            self.clock.after(fate.after_s or 0.0, arrive)
        elif fate.kind not in ("lost", "instead"):
            self.deliver(server, asked, partial(self._came, waits, fate, token))

    @staticmethod
    def _came(waits: Waits, fate: Fate, token: object, answer: Answer) -> None:
        """Bring the server's own answer to the client, where nothing replaces it."""
        if fate.kind == "silent" or (fate.kind in ("cut", "over") and fate.after_s is not None):
            return
        if fate.kind == "cut":
            waits.deliver(token, connection_broke())
            return
        if fate.kind == "over":
            answer = fate.answer or proxy(fate.status)
        if fate.kind == "truncated":
            answer.headers["Content-Length"] = str(len(answer.body))
            answer.body = answer.body[: len(answer.body) // 2]
        waits.deliver(token, answer)


class Connection(BaseAdapter):
    """The network as one client process has it.

    Args:
        network: The network.
        waits: Returns who waits for a request's answer.
        by: The command that the process executes.
    """

    def __init__(self, network: Network, waits: Callable[[], Waits], by: str = "") -> None:
        super().__init__()
        self.network, self.waits, self.by = network, waits, by

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Send a request, and wait for what becomes of it."""
        check_options(stream, timeout, verify, proxies)
        asked = asked_by(request, self.by, self.network.clock.now)
        scheme, address = urlsplit(str(request.url))[:2]
        server = self.network.servers[address]
        if isinstance(server, NodeManager) and server.scheme != scheme:
            raise wrong_scheme(server.scheme)
        return response_of(request, self.network.ask(self.waits(), address, asked, *timeout))

    def close(self) -> None:
        """Forget nothing: connections are not modelled."""
