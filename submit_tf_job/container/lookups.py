"""The names that programs need: the deciding task asks DNS whether it has them."""

from __future__ import annotations

from collections.abc import Callable

from submit_tf_job.container.info import Info
from submit_tf_job.container.names import Resolver
from submit_tf_job.container.rendezvous import members as states
from submit_tf_job.container.rendezvous.machine import StateMachine

LOOKUP_S = 0.5  # between two rounds of DNS queries


class LookUps:
    """Looks up the names that the start waits for, and takes them out of `job.unresolved`."""

    def __init__(
        self, info: Info, job: StateMachine, post: Callable[[Callable[[], None]], None]
    ) -> None:
        """Know no address; `post(f)` runs f in the event loop."""
        self.info, self.job = info, job
        self.resolver = Resolver(info, post)
        self.addresses: dict[str, str] = {}  # by task
        self.looked = 0.0

    def look(self, now: float, resolved: Callable[[], None]) -> None:
        """Look up what is due; `resolved` is called for each name that DNS has."""
        if self.info.by_place or self.resolver.busy or now < self.looked + LOOKUP_S:
            return
        self.looked = now
        tasks = {self.info.host(name): name for name in self.job.unnamed(now)}

        def found(host: str, address: str | None) -> None:
            name = tasks[host]
            if not address or self.job.is_stale(name, address):
                return
            self.addresses[name] = address
            if self.job.phase == states.WAITING:  # else the programs have an address instead
                self.job.unresolved.discard(name)
                resolved()

        self.resolver.start(list(tasks), found)
