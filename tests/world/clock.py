"""Virtual time: it passes when somebody waits, and what is due then happens, in its order."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

EPOCH_MS = 1_700_000_000_000
STARTS_AT_S = 1000.0
Steps: TypeAlias = Generator[float, None, Any]


@dataclass(frozen=True)
class Line:
    """One line of a trace."""

    at: float
    who: str
    text: str

    def __str__(self) -> str:
        return f"{self.at - STARTS_AT_S:9.3f}  {self.who:<8} {self.text}"


class Clock:
    """A monotonic clock, the events that are due, and the trace."""

    def __init__(self) -> None:
        self.now = STARTS_AT_S
        self.jumped_s = 0.0  # by how much the wall clock of every host was set, forward or back
        self.trace: list[Line] = []
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()
        self._turn = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def log(self, who: str, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(Line(self.now, who, text))

    def after(self, delay_s: float, happen: Callable[[], object]) -> None:
        """Let something happen later."""
        heapq.heappush(self._due, (self.now + max(0.0, delay_s), next(self._order), happen))

    def epoch_ms(self) -> int:
        """Return the wall clock that every host of the cluster shows."""
        return EPOCH_MS + int((self.now - STARTS_AT_S + self.jumped_s) * 1000)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0, f"slept for {seconds} s"
        end = self() + seconds
        while self.step(end):
            pass

    def step(self, end: float) -> bool:
        """Let the next thing happen that is due until then; return whether there was one."""
        with self._turn:
            if not self._due or self._due[0][0] > end:
                self.now = max(self.now, end)
                return False
            at, _, happen = heapq.heappop(self._due)
            self.now = max(self.now, at)
        happen()
        return True

    def start(
        self,
        steps: Steps,
        *,
        alive: Callable[[], bool] = lambda: True,
        hold_s: Callable[[], float] = lambda: 0.0,
        done: Callable[[Any], None] = lambda _result: None,
    ) -> None:
        """Run a generator that yields the seconds until its next step.

        Args:
            steps: The generator.
            alive: Checked before each step; a dead process makes no further one.
            hold_s: Seconds for which the process stands still.
            done: Receives what the generator returns.
        """

        def step() -> None:
            if not alive():
                steps.close()
                return
            held = hold_s()
            if held > 0:
                self.after(held, step)
                return
            try:
                pause = next(steps)
            except StopIteration as end:
                done(end.value)
                return
            self.after(pause, step)

        self.after(0.0, step)
