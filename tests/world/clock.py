"""Time that passes only when somebody waits, and what happens meanwhile."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

EPOCH_MS = 1_700_000_000_000


class FakeClock:
    """A monotonic clock; waiting runs, in order of time, whatever is due."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0, f"slept for {seconds} s"
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            at, _, happen = heapq.heappop(self._due)
            self.now = max(self.now, at)
            happen()
        self.now = end

    def after(self, seconds: float, happen: Callable[[], object]) -> None:
        """Let something happen later."""
        heapq.heappush(self._due, (self.now + seconds, next(self._order), happen))

    def epoch_ms(self) -> int:
        """Return the wall clock of the cluster."""
        return EPOCH_MS + int(self.now * 1000)
