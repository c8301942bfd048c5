"""Several clients at once over one fake cluster: virtual time passes when all of them wait, and the
one that waits for least goes on.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.fakes.clock import FakeClock

T = TypeVar("T")


class SharedClock(FakeClock):
    """A clock for several threads of which one runs at any time."""

    def __init__(self) -> None:
        super().__init__()
        self._turns: dict[int, threading.Event] = {}

    def sleep(self, seconds: float) -> None:
        """Let time pass for this thread, and whoever is due go on meanwhile."""
        turn = self._turns.get(threading.get_ident())
        if turn is None:
            super().sleep(seconds)
            return
        turn.clear()
        self.after(seconds, turn.set)
        self._go_on()
        assert turn.wait(60), "nobody went on"

    def _go_on(self) -> None:
        """Let happen what is due next, until that is a thread's turn."""
        while self._due and not any(turn.is_set() for turn in self._turns.values()):
            at, _, happen = heapq.heappop(self._due)
            self.now = max(self.now, at)
            happen()

    def together(
        self, *clients: Callable[[], T], starts: Sequence[float] = ()
    ) -> list[T | BaseException]:
        """Run clients side by side, each in a thread, and return what they returned or raised, in
        their order.
        """
        outcomes: dict[int, T | BaseException] = {}
        ready = threading.Barrier(len(clients) + 1)
        turns = [threading.Event() for _ in clients]

        def run(number: int, client: Callable[[], T]) -> None:
            self._turns[threading.get_ident()] = turns[number]
            ready.wait()
            turns[number].wait()
            try:
                outcomes[number] = client()
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                outcomes[number] = error
            finally:
                del self._turns[threading.get_ident()]
                self._go_on()

        threads = [
            threading.Thread(target=run, args=(number, client), daemon=True)
            for number, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        ready.wait()
        for number, turn in enumerate(turns):
            self.after(starts[number] if starts else 0.0, turn.set)
        self._go_on()
        for thread in threads:
            thread.join(120)
        assert len(outcomes) == len(clients), "a client did not come to an end"
        return [outcomes[number] for number in range(len(clients))]
