"""The control group (cgroup) of a container, if the container has one of its own.

A container without a group of its own sees the files of its node's group at the same paths, with
the values of the whole node. So a group is taken as the container's only if all processes in it
belong to the container.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator

ROOT, PROC = "/sys/fs/cgroup", "/proc"
_NONE = 1 << 60  # a number that stands for no limit


class ControlGroup:
    """The counters of one control group. Version 1 has one directory for memory and another for CPU
    time; version 2 has one directory for both.
    """

    def __init__(self, memory: str, cpu: str, version: int) -> None:
        self.memory_dir, self.cpu_dir, self.version = memory, cpu, version
        self.mark, self.cached = self._high_water_mark(), self._memory_and_cache()[1]

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of all processes that the group ever had; None if the group does
        not count them.
        """
        if self.version == 1:
            nanoseconds = read_number(self.cpu_dir, "cpuacct.usage")
            return None if nanoseconds is None else nanoseconds / 1e9
        microseconds = _read_table(self.cpu_dir, "cpu.stat").get("usage_usec")
        return None if microseconds is None else microseconds / 1e6

    def memory(self) -> tuple[int, int]:
        """Return the bytes that programs hold now, and the largest number of bytes since the last
        call; the second number is 0 if the kernel's high-water mark has not risen since.

        The mark includes the page cache, which the kernel frees before it kills a process. So the
        size of the page cache is subtracted: the larger of its sizes at this call and at the last
        one.
        """
        used, cached = self._memory_and_cache()
        mark, former = self._high_water_mark(), self.mark
        risen = max(0, mark - max(cached, self.cached)) if mark > former else 0
        self.mark, self.cached = mark, cached
        return used, risen

    def _memory_and_cache(self) -> tuple[int, int]:
        """Return the bytes that programs hold, and the bytes of the page cache."""
        table = _read_table(self.memory_dir, "memory.stat")
        if self.version == 1:
            shared = table.get("total_shmem", 0)
            return table.get("total_rss", 0) + shared, table.get("total_cache", 0) - shared
        shared = table.get("shmem", 0)
        return table.get("anon", 0) + shared, table.get("file", 0) - shared

    def _high_water_mark(self) -> int:
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        found = read_number(self.memory_dir, name) or 0
        return found if found < _NONE else 0


def own_group(
    processes: Collection[int], container: str, root: str = ROOT, proc: str = PROC
) -> ControlGroup | None:
    """Return the control group that has only processes of this container; None if there is none.

    Args:
        processes: The ids of this process and of its descendants.
        container: The container's id, which is the name of its group where YARN makes one.
        root: Where the control groups are mounted.
        proc: Where proc(5) is mounted.
    """
    known = set(processes) | _ancestors_in_session(proc)
    paths = _paths_by_controller(proc)
    for folder in _possible_folders(root, paths.get("", "")):
        if os.path.exists(f"{folder}/memory.stat") and _is_own(folder, known, container):
            return ControlGroup(folder, folder, 2)
    memory = _first_own(f"{root}/memory", paths.get("memory"), known, container)
    names = (f"{root}/cpuacct", f"{root}/cpu,cpuacct")
    found = (_first_own(name, paths.get("cpuacct"), known, container) for name in names)
    return ControlGroup(memory, next(filter(None, found), ""), 1) if memory else None


def _first_own(top: str, path: str | None, known: set[int], container: str) -> str:
    folders = [] if path is None else _possible_folders(top, path)
    return next((one for one in folders if _is_own(one, known, container)), "")


def _possible_folders(top: str, path: str) -> Iterator[str]:
    """Yield the directories where a group may be: its path, or the top, where Docker mounts it."""
    if path.strip("/") and ".." not in path.split("/"):
        yield f"{top}{path}"
    yield top


def _is_own(folder: str, known: set[int], container: str) -> bool:
    """Return whether a group has processes, and either has the container's name, or only processes
    of this container.
    """
    with contextlib.suppress(OSError, ValueError), open(f"{folder}/cgroup.procs") as source:
        present = {int(line) for line in source}
        named = bool(container) and os.path.basename(folder) == container
        return bool(present) and (named or present <= known)
    return False


def _paths_by_controller(proc: str) -> dict[str, str]:
    """Return controller → path of this process's group; the key of version 2 is ""."""
    found = {}
    path = f"{proc}/self/cgroup"
    with contextlib.suppress(OSError, ValueError), open(path, errors="replace") as source:
        for line in source:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _ancestors_in_session(proc: str) -> set[int]:
    """Return the ids of this process's ancestors in its session; YARN starts a session for each
    container.
    """
    found, pid = set(), os.getppid()
    with contextlib.suppress(OSError, ValueError, IndexError):
        session = os.getsid(0)
        while pid > 0 and os.getsid(pid) == session:
            found.add(pid)
            with open(f"{proc}/{pid}/stat", "rb") as source:
                pid = int(source.read().rpartition(b")")[2].split()[1])
    return found


def read_number(folder: str, name: str) -> int | None:
    """Return the number that is in a file of the kernel; None if the file is missing or has no
    number.
    """
    with contextlib.suppress(OSError, ValueError), open(f"{folder}/{name}") as source:
        return int(source.read())
    return None


def _read_table(folder: str, name: str) -> dict[str, int]:
    found = {}
    with contextlib.suppress(OSError, ValueError), open(f"{folder}/{name}") as source:
        for line in source:
            key, _, value = line.partition(" ")
            found[key] = int(value)
    return found
