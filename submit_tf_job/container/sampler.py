"""Measure what a task's command uses of CPU, memory and GPUs.

Memory is counted in the same way as by the NodeManager, which kills a container that has too much:
the sum of the resident memory of the container's process tree (Hadoop's ProcfsBasedProcessTree), or
its control group's memory without the page cache, whichever is more. The peaks between two
measurements come from the kernel's high-water marks (`VmHWM`, `memory.peak`,
`memory.max_usage_in_bytes`, `ru_maxrss`).
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.control_groups import ControlGroup, own_group
from submit_tf_job.container.info import Info

MEASURE_S = 5.0
# On a node of thousands of processes a measurement takes milliseconds: the next ones are then as
# much later as this part of a core allows.
MOST_CORES = 0.003
LONGEST_S = 60.0
UNSURE = 0.05  # the part of a peak that may have been at other moments, for one that is known
KERNEL, BOUND, SAMPLE = "kernel", "bound", "sample"  # how a peak is known
_TICKS = float(os.sysconf("SC_CLK_TCK"))
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MeasuredProcess:
    """What one process has used until one measurement.

    Attributes:
        cpu_s: CPU seconds, including those of ended children for which the process has waited.
        bytes: The resident memory of the process.
        mark: The largest resident memory that the process ever had, according to the kernel; in
            bytes.
        began: When the process started, so that a process id which is used again is recognised.
    """

    __slots__ = ("began", "bytes", "cpu_s", "mark", "parent", "pid")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        """Parse the fields of `/proc/PID/stat` that follow the name."""
        self.pid, self.parent = pid, int(fields[1])
        self.cpu_s = sum(map(int, fields[11:15])) / _TICKS
        self.began = fields[19]
        self.bytes = self.mark = max(0, int(fields[21])) * _PAGE


class Tree:
    """Reads the processes below this one. A process that is not below this one is read only
    once.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self.proc, self.me = proc, os.getpid()
        self.strangers: set[int] = set()

    def read(self) -> dict[int, MeasuredProcess]:
        """Return this process and all its descendants, by process id."""
        present = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        self.strangers &= present
        found = {}
        # Parents before their children, whose ids are nearly always higher: what a child used that
        # ends meanwhile is missing in this measurement, and in the next one its parent has it. In
        # the other order, the child and the parent that has waited for it would both count it.
        for pid in sorted(present - self.strangers):
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[pid] = self._read_process(pid)
        below = {pid for pid in found if self._is_below(pid, found)}
        self.strangers |= set(found) - below
        return {pid: found[pid] for pid in below}

    def _read_process(self, pid: int) -> MeasuredProcess:
        with open(f"{self.proc}/{pid}/stat", "rb") as source:
            return MeasuredProcess(pid, source.read().rpartition(b")")[2].split())

    def _is_below(self, pid: int, found: Mapping[int, MeasuredProcess]) -> bool:
        for _ in range(len(found)):
            if pid == self.me:
                return True
            if pid not in found:
                return False
            pid = found[pid].parent
        return False

    def marks(self, processes: Mapping[int, MeasuredProcess]) -> None:
        """Read the kernel's high-water mark of each of the given processes, and store it in the
        process's object.
        """
        for pid, process in processes.items():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"{self.proc}/{pid}/status", "rb") as source:
                    after = source.read().partition(b"VmHWM:")[2]
                process.mark = max(process.bytes, int(after.split(None, 1)[0]) * 1024)


class Sampler:
    """Measures every few seconds what the command of a task uses of CPU, memory and GPUs."""

    def __init__(self, info: Info, tree: Tree | None = None) -> None:
        """Keep the arguments; `begin` starts the measurement."""
        self.info, self.tree = info, tree or Tree()
        self.group: ControlGroup | None = None
        self.gpus: Any = None  # their sampler
        self.runs, self.ours = False, {0}
        self.fresh: dict[str, Any] | None = None  # what was not told yet
        self.told_at = 0.0
        self.due = self.pause_s = 0.0
        self.began = self.measured_at = 0.0
        self.cpu_s = self.cores = 0.0  # since the beginning; in the last seconds
        self.byte_s = 0.0  # bytes times seconds
        self.bytes = self.peak = 0
        self.peak_by = SAMPLE
        self.former: dict[int, MeasuredProcess] = {}
        # CPU time that the kernel had counted at the last measurement, and at the beginning
        self.counted_s = self.base_s = 0.0
        self.children_mark = 0  # of the largest ended child

    # --- a command --------------------------------------------------------------------------------
    def begin(self, now: float, env: Mapping[str, str], ours: int) -> None:
        """Start to measure a command that has just started. The peak of memory of an earlier
        command is kept. The witness is not measured.

        Args:
            now: The time now.
            env: The environment of the command.
            ours: The id of the bootstrap's guard process, which is not counted.
        """
        if self.info.role == contract.WITNESS_ROLE:
            return
        self.runs, self.ours = True, {ours}
        self.began = self.measured_at = now
        self.due = now + 1.0  # the first measurement is early, for a command of a few seconds
        self.cpu_s = self.cores = self.byte_s = 0.0
        if self.info.task.get("gpus") and self.info.roles[self.info.role]["gpus"]:
            from submit_tf_job.container import gpu_use  # few jobs need it

            self.gpus = self.gpus or gpu_use.watch(env)
            self.gpus.begin(now)
        self.former, self.children_mark = self._own_processes(), _ended_mark()
        self.tree.marks(self.former)
        self.group = own_group(self.former, self.info.container)
        self.base_s = self.counted_s = self._counted_s(self.former)

    def measure(self, now: float) -> None:
        """Measure, if a measurement is due."""
        if self.runs and now >= self.due:
            before = _own_cpu_s()
            self._measure_use(now)
            cost_s = _own_cpu_s() - before
            self.pause_s = min(max(MEASURE_S, cost_s / MOST_CORES), LONGEST_S)
            self.due = now + self.pause_s

    def end(self, now: float) -> None:
        """Measure for the last time, because the command has ended."""
        if self.runs:
            self._measure_use(now)
            mark = _ended_mark()
            if mark > self.children_mark:
                # the largest of all processes that have ended, and this one beside it
                self._raise_peak(mark + self.tree_bytes(self.former), KERNEL)
            self.runs = False
            self.fresh = self.found(now)

    def close(self) -> None:
        """End the program that samples the GPUs, without waiting for its end."""
        if self.gpus:
            self.gpus.close()

    # --- one measurement --------------------------------------------------------------------------
    def _own_processes(self) -> dict[int, MeasuredProcess]:
        found = self.tree.read()
        ours = self.ours | ({self.gpus.pid} if self.gpus else set())
        return {pid: process for pid, process in found.items() if pid not in ours}

    def _measure_use(self, now: float) -> None:
        found, passed_s = self._own_processes(), max(now - self.measured_at, 1e-3)
        self.tree.marks(found)
        counted_s = self._counted_s(found)
        used_s = max(0.0, counted_s - self.counted_s)
        resident = self.tree_bytes(found)
        self._raise_peak(resident, SAMPLE)
        self._by_marks(found)
        if self.group:
            anonymous, mark = self.group.memory()
            resident = max(resident, anonymous)
            self._raise_peak(resident, SAMPLE)
            self._raise_peak(mark, KERNEL)
        # a child that ends during a measurement may be missing in it
        self.cpu_s = max(self.cpu_s, counted_s - self.base_s)
        if now >= self.measured_at + 0.5:  # a shorter time tells no cores
            self.cores = used_s / passed_s
        self.byte_s += resident * passed_s
        self.bytes, self.counted_s, self.former, self.measured_at = resident, counted_s, found, now
        if self.gpus:
            self.gpus.read_samples(now)
        self.fresh = self.found(now)

    @staticmethod
    def tree_bytes(processes: Mapping[int, MeasuredProcess]) -> int:
        """Return the resident memory of processes, summed as the NodeManager does."""
        return sum(process.bytes for process in processes.values())

    def _counted_s(self, processes: Mapping[int, MeasuredProcess]) -> float:
        """Return the CPU seconds of all processes up to now, including those of ended children,
        without those of this process itself.
        """
        counted = self.group.cpu_s() if self.group else None
        if counted is None:
            counted = sum(process.cpu_s for process in processes.values())
        own = os.times()
        return counted - own.user - own.system

    def _by_marks(self, found: Mapping[int, MeasuredProcess]) -> None:
        """Raise the peak to the sum of the largest memory of each process since the last
        measurement: its high-water mark, if that has risen, else the larger of its two samples.
        """
        total, above = 0, [0]
        for pid, process in found.items():
            former = self.former.get(pid)
            if former is None or former.began != process.began or process.mark > former.mark:
                total += process.mark
                above.append(process.mark - process.bytes)
            else:
                total += max(process.bytes, former.bytes)
        # what was there at the same moment is known but for the peaks of all processes but one
        unsure = sum(above) - max(above)
        self._raise_peak(total, BOUND if unsure > UNSURE * total else KERNEL)

    def _raise_peak(self, size: int, how: str) -> None:
        if size > self.peak:
            self.peak, self.peak_by = size, how

    # --- what is told -----------------------------------------------------------------------------
    def found(self, now: float) -> dict[str, Any]:
        """Return the resource usage of the task: the fields of the client's class `TaskUse`,
        without the task's name.
        """
        for_s = max(now - self.began, 1e-3)
        found: dict[str, Any] = {
            "for_s": round(for_s, 1),
            "cpu_cores": {"now": round(self.cores, 3), "mean": round(self.cpu_s / for_s, 3)},
            "memory_bytes": {
                "now": self.bytes,
                "mean": round(self.byte_s / max(self.measured_at - self.began, 1e-3)),
                "peak": self.peak,
            },
            "peak_by": self.peak_by,
        }
        if self.gpus:
            gpus, why = self.gpus.found(now, not self.runs)
            found.update({"gpus": gpus} if gpus else {}, **({"gpus_unknown": why} if why else {}))
        return found

    def take(self, now: float, every_s: float) -> dict[str, Any] | None:
        """Return the latest measurement if it is new, and if either `every_s` seconds have passed
        since this method returned one or the command has ended; else None.
        """
        if self.fresh is None or (self.runs and now < self.told_at + every_s):
            return None
        found, self.fresh, self.told_at = self.fresh, None, now
        return found


def _ended_mark() -> int:
    """Return the largest resident memory, in bytes, that any single ended descendant had."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def _own_cpu_s() -> float:
    used = resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
    return used.ru_utime + used.ru_stime
