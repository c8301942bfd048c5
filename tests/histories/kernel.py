"""Virtual time for one history: events in order of time, servers as generators, clients as threads.

One thread runs at any moment. A client gives the baton back whenever it sleeps or waits for an
answer, so the order of everything follows from the seed alone.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.world.clock import Clock

__all__ = ["Actor", "Kernel", "Killed"]

EVENTS_MAX = 400_000


class Killed(BaseException):
    """The client process is dead; the code under test catches no such exception."""


class Kernel(Clock):
    """A clock for clients that run beside one another.

    Whichever thread has the baton lets the events happen, so that a client that waits for its own
    answer goes on without a change of threads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.actors: list[Actor] = []
        self.ready: deque[Actor] = deque()
        self._over = threading.Semaphore(0)
        self._until: Callable[[], bool] = lambda: True
        self._error: BaseException | None = None
        self._happened = 0

    def run(self, until: Callable[[], bool]) -> None:
        """Let events happen until a condition holds or none is left."""
        self._until, self._happened = until, 0
        self.spin(None)
        if self._error is not None:
            raise self._error

    def spin(self, me: Actor | None) -> None:
        """Let events happen until this client is to continue, or for None until the run is over."""
        turn: Actor | None = None
        try:
            while True:
                if self.ready:
                    turn = self.ready.popleft()
                    break
                if self._error is not None or not self._due or self._until():
                    break
                self._happened += 1
                assert self._happened < EVENTS_MAX, f"more than {EVENTS_MAX} events"
                at, _, happen = heapq.heappop(self._due)
                self.now = max(self.now, at)
                happen()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that runs all
            self._error, turn = error, None
        if turn is me:
            return
        (self._over if turn is None else turn.turn).release()
        if me is None:
            self._over.acquire()
        elif not me.over:
            me.turn.acquire()

    def fail(self, error: BaseException) -> None:
        """End the run with an error."""
        self._error = self._error or error

    def run_for(self, seconds: float) -> None:
        """Let some time pass."""
        end = self.now + seconds
        self.after(seconds, lambda: None)
        self.run(lambda: self.now >= end)

    def close(self) -> None:
        """End the threads of all clients."""
        self._until = lambda: True
        self.ready.clear()
        for actor in self.actors:
            if actor.end():
                self._over.acquire()


class Actor:
    """A client process: a thread that runs only while it holds the baton."""

    def __init__(self, kernel: Kernel, name: str, body: Callable[[Actor], None]) -> None:
        self.kernel = kernel
        self.name = name
        self.dead = False
        self.over = False
        self.frozen_until = 0.0
        self.unseen_s = 0.0  # time that the client's clock did not count
        self._waits_for: object = None
        self._outcome: Any = None
        self.turn = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._live, args=(body,), daemon=True)
        self._started = False
        kernel.actors.append(self)

    # --- called by the client's own thread ---

    def clock(self) -> float:
        """Return the client's monotonic clock."""
        return self.kernel.now - self.unseen_s

    def sleep(self, seconds: float) -> None:
        """Wait."""
        assert seconds >= 0, f"slept for {seconds} s"
        self.wait(seconds)

    def wait(self, seconds: float, *, token: object = None, late: Any = None) -> Any:
        """Wait for `deliver` with this token; return `late` where it does not come in time."""
        if self.dead:
            raise Killed
        token = token or object()
        self._waits_for = token
        self.kernel.after(seconds, lambda: self.deliver(token, late))
        self.kernel.spin(self)
        if self.dead:
            raise Killed
        return self._outcome

    # --- called by the kernel ---

    def waits_for(self, token: object) -> bool:
        """Whether the client still waits for this token."""
        return not self.over and self._waits_for is token

    def begin(self) -> None:
        """Start the process."""
        self.kernel.ready.append(self)
        self._started = True
        self.thread.start()

    def deliver(self, token: object, outcome: Any) -> None:
        """Continue the client where it waits for this token."""
        if self.over or self._waits_for is not token:
            return
        frozen_s = self.frozen_until - self.kernel.now
        if frozen_s > 0 and not self.dead:
            self.kernel.after(frozen_s, lambda: self.deliver(token, outcome))
            return
        self._waits_for = None
        self._outcome = outcome
        self.kernel.ready.append(self)

    def freeze(self, seconds: float, *, counted: bool) -> None:
        """Stop the process for a while; a suspended machine does not count the time."""
        if self.over or self.dead:
            return
        self.frozen_until = self.kernel.now + seconds
        if not counted:
            self.unseen_s += seconds
        self.kernel.log(self.name, f"is stopped for {seconds:.0f} s ({counted=})")

    def kill(self) -> None:
        """End the process at once; what it sent stays sent."""
        if not self.over and not self.dead:
            self.kernel.log(self.name, "is killed")
            self._die()

    def end(self) -> bool:
        """End the thread after the history, and say whether it was alive."""
        if self.over or not self._started:
            return False
        self.dead = True
        self.turn.release()
        return True

    def _die(self) -> None:
        self.dead = True
        self._waits_for = None
        if self._started:
            self.kernel.ready.append(self)

    def _live(self, body: Callable[[Actor], None]) -> None:
        self.turn.acquire()
        try:
            if not self.dead:
                body(self)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that runs all
            self.kernel.fail(error)
        finally:
            self.over = True
            self.kernel.spin(self)
