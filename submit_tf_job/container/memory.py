"""Whether the kernel has ended processes of this container for want of memory."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

_OOM_COUNTS = (
    "/sys/fs/cgroup/memory.events",  # version 2
    "/sys/fs/cgroup/memory/memory.oom_control",  # version 1
)


def oom_kills(paths: Sequence[str] = _OOM_COUNTS) -> int:
    """Return how many processes of this container the kernel has killed for want of memory.

    0 where the container does not see its control group.
    """
    for path in paths:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as source:
            for line in source:
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0
