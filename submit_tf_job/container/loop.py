"""The event loop of a task: sockets, threads, signals and time."""

from __future__ import annotations

import collections
import selectors
import time
from collections.abc import Callable

from submit_tf_job.container.child import Signals
from submit_tf_job.container.command import TaskCommand
from submit_tf_job.container.info import BootstrapProblem, Info, problem_of

TICK_S = 1.0  # the pause of an idle loop
BUSY_S = 0.1
FLUSH_S = 0.3  # from the last message to the end of this task
SILENCE = 3  # unanswered pings after which a connection counts as broken


def silent_s(info: Info) -> float:
    """Return for how many seconds a connection has been silent when `SILENCE` pings are unanswered;
    they count as part of `grace`.

    The time counts from the first unanswered ping, which the loop may have sent one turn late. The
    result leaves at least half of `grace` for a new connection.
    """
    return max(0.0, min((SILENCE - 1) * info.ping_s - TICK_S, float(info.task["grace_s"]) / 2))


class Loop:
    """Runs until `exit`, the exit status of the task, is known."""

    def __init__(self, signals: Signals, now: float) -> None:
        """Start without sockets and threads: at first only signals wake the loop."""
        self.signals = signals
        self.exit: int | None = None
        self.problem: BootstrapProblem | None = None  # the exception that ended the loop
        self.was_stopped = False  # the first signal that ends this task is handled
        self.final = False  # a later start of this task on this node exits at once
        self.waited_at = now  # when the latest wait for events began
        self.selector = selectors.DefaultSelector()
        self.selector.register(signals.reader, selectors.EVENT_READ, lambda _mask: signals.drain())
        self.posted: collections.deque[Callable[[], None]] = collections.deque()

    def run(
        self,
        command: TaskCommand,
        tick: Callable[[float], bool],
        stopped: Callable[[float], None],
        broken: Callable[[float, BootstrapProblem], int],
    ) -> int:
        """Run until the end; return the exit status.

        Args:
            command: The command, which is watched in each turn.
            tick: Does the periodic work that is due; returns whether the next call is due in less
                than a second.
            stopped: Handles the first signal that ends this task.
            broken: Called if any other call raises an exception, which ends this task: tells the
                other tasks why, and returns the exit status.
        """
        try:
            while self.exit is None:
                try:
                    self._run_turn(command, tick, stopped)
                except Exception as err:  # noqa: BLE001  (whatever it is, the others are told)
                    self.problem = problem_of(err)
                    self.exit = broken(time.monotonic(), self.problem)
                    time.sleep(FLUSH_S)
            return self.exit
        finally:
            command.close()

    def _run_turn(
        self, command: TaskCommand, tick: Callable[[float], bool], stopped: Callable[[float], None]
    ) -> None:
        now = time.monotonic()
        # first, as a command may end at once by the signal
        if not self.was_stopped and self.signals.stop():
            self.was_stopped = True
            stopped(now)
        command.watch(now)
        busy = tick(now) or command.is_ending
        if self.exit is None:
            self._wait_for_events(BUSY_S if busy else TICK_S)

    def _wait_for_events(self, timeout_s: float) -> None:
        """Handle events of sockets, threads and signals for at most `timeout_s`."""
        self.waited_at = time.monotonic()
        for key, mask in self.selector.select(timeout_s):
            key.data(mask)
        while self.posted:
            self.posted.popleft()()

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` in the event loop; any thread may call this."""
        self.posted.append(call)  # atomic
        self.signals.wake()
