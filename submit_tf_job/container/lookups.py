"""The names of the tasks that have connected: the deciding task asks DNS whether it has them."""

from __future__ import annotations

from collections.abc import Callable

from submit_tf_job.container.info import Info
from submit_tf_job.container.meeting import members as states
from submit_tf_job.container.meeting.rendezvous import Rendezvous
from submit_tf_job.container.names import Resolver

LOOKUP_S = 0.5  # between two rounds of DNS queries


class LookUps:
    """Looks up the names that `job.unresolved` has, and takes those out of it that DNS knows."""

    def __init__(
        self, info: Info, job: Rendezvous, post: Callable[[Callable[[], None]], None]
    ) -> None:
        """Begin with the deciding task's own name; `post(f)` runs f in the event loop."""
        self.info, self.job = info, job
        self.resolver = Resolver(info.task.get("dns_server"), post)
        self.addresses: dict[str, str] = {}  # by task
        self.due = [info.name]  # tasks to look up now: DNS caches that a name does not exist
        self.again: list[str] = []  # tasks to look up again
        self.looked = 0.0

    def look(self, now: float, resolved: Callable[[], None]) -> None:
        """Look up what is due; `resolved` is called for each name that DNS has."""
        late = now >= self.looked + LOOKUP_S
        if self.info.by_place or self.resolver.busy or not (self.due or (self.again and late)):
            return
        names, self.due = self.due, []
        if late:
            names, self.again, self.looked = names + self.again, [], now
        tasks = {self.info.host(name): name for name in names if name in self.job.unresolved}

        def found(host: str, address: str | None) -> None:
            name = tasks[host]
            if not address or self.job.is_stale(name, address):
                self.again.append(name)
                return
            self.addresses[name] = address
            if self.job.phase == states.WAITING:  # else the programs have an address instead
                self.job.unresolved.discard(name)
                resolved()

        self.resolver.start(list(tasks), found)
