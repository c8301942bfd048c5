"""Wait for something: the pauses between two attempts of one command, and the duration of each such
wait.

Waits with rules of their own are where these rules are: following a job
(`operations/watch_run.py`) or its logs (`logs/follow.py`), sending a request again
(`yarn/rest.py`), and looking again around a POST (`yarn/exactly_once.py`).
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")
_LOOK_S = 0.5  # how often another clock than the machine's is read


class WaitTime(NamedTuple):
    """How long to wait, and how often to try again.

    Attributes:
        within_s: The wait is given up after this many seconds.
        every_s: The first pause between two attempts, in seconds.
        most_s: The longest pause in seconds, if the pauses grow; 0 if they do not.
    """

    within_s: float
    every_s: float
    most_s: float = 0.0

    def attempts(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        *,
        within_s: float | None = None,
    ) -> Iterator[int]:
        """Yield 0 at once, and the next number after each pause. The last number is yielded when
        the time `self.within_s` (or `within_s`, if given) has passed.

        Example:
            >>> for _ in CHANGE_HAS_EFFECT.attempts(cluster.clock, cluster.sleep):
            ...     if is_stopped():
            ...         break
            ... else:
            ...     raise DeadlinePassed("it has not stopped")
        """
        end, pause_s = clock() + (self.within_s if within_s is None else within_s), self.every_s
        for number in itertools.count():
            yield number
            left_s = end - clock()
            if left_s <= 0:
                return
            sleep(min(pause_s, left_s))
            pause_s = max(self.every_s, min(pause_s * 1.5, self.most_s))


def results_within(
    limit_s: float, produce: Callable[[], Iterable[_T]], clock: Callable[[], float]
) -> list[_T]:
    """Return the results that a generator yields within a time limit; these may be only the first
    ones, or none.

    The generator runs in a daemon thread, because calls to HDFS have no deadline; if it is late,
    the thread is left to end with the process.

    Args:
        limit_s: The limit in seconds; later results are left out.
        produce: Returns the generator; it must raise no error.
        clock: Returns the time in monotonic seconds.
    """
    found: list[_T] = []
    end = clock() + limit_s

    def collect() -> None:
        for result in produce():
            if clock() >= end:
                return
            found.append(result)

    work = threading.Thread(target=collect, daemon=True)
    work.start()
    while work.is_alive() and (left_s := end - clock()) > 0:
        work.join(min(left_s, _LOOK_S))
    return list(found)


# a POST and a change write YARN's stored service twice, and it is empty for moments
SERVICE_IS_WRITTEN = WaitTime(3.0, every_s=0.2)
# of a ResourceManager that has just started: hadoop-facts.md#restart
APPLICATIONS_ARE_RECOVERED = WaitTime(30.0, every_s=1.0)
ADDRESS_IS_REPORTED = WaitTime(60.0, every_s=1.0)  # after the start of a command that serves
PAGE_ANSWERS = WaitTime(60.0, every_s=1.0)  # a server that imports a framework first
# by an ApplicationMaster that was started again
CONTAINERS_ARE_LISTED = WaitTime(30.0, every_s=1.0)
# a healthy one has ended 2 s after PUT STOPPED: hadoop-facts.md#stopping
APPLICATION_HAS_ENDED = WaitTime(120.0, every_s=0.5)
# with Hadoop's defaults an ApplicationMaster exits up to 35 s later, and Docker waits for 10 s
CONTAINERS_ARE_GONE = WaitTime(60.0, every_s=0.5, most_s=3.0)
CHANGE_HAS_EFFECT = WaitTime(120.0, every_s=0.5)
# two heartbeats of a NodeManager, 2 s of `container.stacks.CALM_S`, and its 15 s for all tasks
STACKS_ARE_TAKEN = WaitTime(60.0, every_s=0.5, most_s=1.0)
# two heartbeats of a NodeManager, the end of the tasks, and that of the ApplicationMaster
CONTAINER_IS_RELEASED = WaitTime(60.0, every_s=0.5, most_s=2.0)
TASKS_HAVE_SAVED = WaitTime(math.inf, every_s=1.0)
# the first request switches the recording on, and the nodes' next heartbeats add to it
ACTIVITIES_ARE_RECORDED = WaitTime(1.5, every_s=1.5)
LOGS_ARE_COLLECTED = WaitTime(60.0, every_s=0.5, most_s=2.0)  # takes 2 to 35 s
HDFS_CALLS_HAVE_ENDED = WaitTime(10.0, every_s=0.01)
LAST_LINES_ARE_WRITTEN = WaitTime(10.0, every_s=1.0)
LOCAL_JOB_IS_OVER = WaitTime(math.inf, every_s=0.1)
# after the deciding task's; their bootstraps end within that time
LOCAL_TASKS_HAVE_ENDED = WaitTime(15.0, every_s=0.1)
LOCAL_PROCESS_HAS_ENDED = WaitTime(6.0, every_s=0.05)  # its bootstrap waits less for its command
SANDBOX_IS_WELL = WaitTime(600.0, every_s=0.1)  # a busy machine; a daemon that ends is seen
SANDBOX_PORT_IS_FREE = WaitTime(5.0, every_s=0.1)  # sockets close with a process's last thread
SANDBOX_PROCESSES_HAVE_ENDED = WaitTime(10.0, every_s=0.05)  # after SIGKILL
SANDBOX_IS_UNLOCKED = WaitTime(5.0, every_s=0.1)

WATCH_ANSWERS_S = 10.0  # a watch reports a cluster that has not responded for this time
# for a ResourceManager without a record of the application: one that recovers its state has none
# for a moment (hadoop-facts.md#failover)
JOB_IS_FORGOTTEN_S = 30.0
