"""Find the address of the deciding task: by its name, or from the meeting place on HDFS."""

from __future__ import annotations

from collections.abc import Callable

from submit_tf_job.container.dns_client import Resolver
from submit_tf_job.container.info import Info

MOVED = 2  # consecutive checks of the deciding task that must find another address


class PlaceWatch:
    """Checks at intervals whether YARN has started the deciding task in another place."""

    def __init__(self, resolver: Resolver, every_s: float, seen: bool) -> None:
        """Keep the arguments. A check is due every `every_s` seconds; `seen` tells whether
        `resolver` has found the right address at least once.

        Until then, a different address proves nothing: it may belong to a former container, or to
        another network.
        """
        self.resolver, self.every_s, self.seen = resolver, every_s, seen
        self.checked_at = 0.0
        self.moves = 0  # how often in turn it had another address

    def check(self, now: float, home: Callable[[], str], moved: Callable[[str], None]) -> None:
        """Look up the deciding task's address, if a check is due, its present address is known and
        no look-up is in progress.

        Args:
            home: Returns the present address of the deciding task, "" if it is not known.
            moved: Called in the event loop with the other address, once `MOVED` checks in a row
                have found another one.
        """

        def found(_host: str, address: str | None) -> None:
            self.seen = self.seen or address == home()
            self.moves = self.moves + 1 if address and address != home() else 0
            if address and self.seen and self.moves >= MOVED:
                self.moves = 0
                moved(address)

        if home() and now >= self.checked_at + self.every_s and not self.resolver.busy:
            self.checked_at = now
            self.resolver.start([self.resolver.sought()], found)


def finder(info: Info, post: Callable[[Callable[[], None]], None]) -> Resolver:
    """Return the object that finds the deciding task: by the meeting place if the job has one, else
    by DNS. `post(f)` runs f in the event loop.
    """
    if info.task.get("meeting"):
        from submit_tf_job.container.meeting_place import Finder

        return Finder(info, post)
    return Resolver(info, post)
