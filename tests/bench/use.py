"""What it costs to measure the use of many real tasks: one job of real bootstraps, whose sampler
looks at their commands, against the same job without a sampler.

Half of the tasks measure and half do not, in one job at the same time, so that neighbours on the
machine disturb both alike.
"""

from __future__ import annotations

import io
import os
import select
import statistics
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from submit_tf_job.container import contract
from tests.bench.measure import Row
from tests.bootstrap.harness import UNTIL_GO, Cluster, cluster, role

__all__ = ["UseCost", "measure_use", "measure_use_of"]

TASKS, WINDOW_S = 100, 60.0
CORE_GOAL, MEMORY_GOAL = 0.005, 2 << 20  # of a core and bytes, for each task
END_GOAL_S = 0.1  # by which the sampler may delay a task's end
WAIT_S = 600.0
# waits without a process that looks again and again, and notes its own end
COMMAND = "read line < ../fifo-$TFJOB_INDEX; date +%s.%N > ../ended-$TFJOB_INDEX"
WHERE = "if self.info.role == contract.WITNESS_ROLE:"  # in `Sampler.begin`
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class UseCost:
    """What tasks took that measure their use, or that do not: medians of the tasks.

    Attributes:
        cores: CPU time of a task's bootstrap, as a share of one core.
        memory: Resident bytes of a task's bootstrap.
        end_s: From the last moment of a task's command to the end of the task.
    """

    cores: float
    memory: float
    end_s: float


def _without_sampler(job: Cluster) -> Path:
    """Write a bootstrap that never begins to measure."""
    made = job.root / "without" / contract.BOOTSTRAP_FILE
    made.parent.mkdir()
    whole = io.BytesIO(job.zip.read_bytes())
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(made, "w") as sink:
        for item in source.infolist():
            text = source.read(item)
            if item.filename.endswith("container/sampler.py"):
                assert WHERE.encode() in text
                text = text.replace(WHERE.encode(), b"if True:")
            sink.writestr(item, text)
    return made


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a bootstrap itself; its command and its guard are other processes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) * 1024


def _end_task(job: Cluster, index: int) -> float:
    """Let one command end; return the seconds from then to the end of its task."""
    run = job.runs[f"worker-{index}"]
    with os.fdopen(os.pidfd_open(run.pid)) as process:
        (job.root / "app" / f"fifo-{index}").write_text("\n")
        ended, _, _ = select.select([process], [], [], WAIT_S)
        ended_at = time.time()
    assert ended, f"worker-{index} still runs"
    assert run.wait() == 0, job.stderr(f"worker-{index}")[-2000:]
    return ended_at - float((job.root / "app" / f"ended-{index}").read_text())


def measure_use_of(tasks: int, window_s: float) -> tuple[UseCost, UseCost]:
    """Run so many tasks; return what those took that measure, and those that do not."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, cluster(Path(directory)) as job:
        chief = role(1, contract.KIND_TRAINS, ["sh", "-c", UNTIL_GO])
        worker = role(tasks, contract.KIND_TRAINS, ["sh", "-c", COMMAND])
        job.job({"chief": chief, "worker": worker}, start_timeout_s=WAIT_S)
        (job.root / "app").mkdir()
        for index in range(tasks):
            os.mkfifo(job.root / "app" / f"fifo-{index}")
        measuring, without = job.zip, _without_sampler(job)
        for index in range(tasks):
            job.zip = without if index % 2 else measuring
            job.start(f"worker-{index}")
        job.zip = measuring
        job.start("chief-0")
        job.started(*(f"worker-{index}" for index in range(tasks)))
        time.sleep(10)  # the early look, and what a start still does
        pids = [job.runs[f"worker-{index}"].pid for index in range(tasks)]
        begun, before = time.monotonic(), [_cpu_s(pid) for pid in pids]
        time.sleep(window_s)
        passed_s = time.monotonic() - begun
        cores = [(_cpu_s(pid) - was) / passed_s for pid, was in zip(pids, before, strict=True)]
        memory = [_resident(pid) for pid in pids]
        ends = [_end_task(job, index) for index in range(tasks)]
        job.go()
        assert job.wait("chief-0") == 0, job.stderr("chief-0")[-2000:]
    found = [
        UseCost(
            statistics.mean(cores[first::2]),
            statistics.median(memory[first::2]),
            statistics.median(ends[first::2]),
        )
        for first in (0, 1)
    ]
    return found[0], found[1]


def measure_use() -> list[Row]:
    """Compare tasks that measure their use with tasks that do not."""
    measured, bare = measure_use_of(TASKS, WINDOW_S)
    more = measured.cores - bare.cores
    grown = measured.memory - bare.memory
    later_s = measured.end_s - bare.end_s
    of_all = f"of each of {TASKS} real tasks on one machine"
    return [
        Row(
            f"CPU time of the sampler, {of_all}",
            f"{CORE_GOAL:.1%} of a core",
            more / CORE_GOAL,
            1.0,
            f"{more:.3%} of a core; the bootstrap's own is {bare.cores:.3%}",
        ),
        Row(
            f"memory of the sampler, {of_all}",
            f"{MEMORY_GOAL >> 20} MiB",
            grown / MEMORY_GOAL,
            1.0,
            f"{grown / 2**20:.2f} MiB; the bootstrap's own are {bare.memory / 2**20:.1f} MiB",
        ),
        Row(
            "end of a command → end of its task, with a sampler",
            f"without one, and {END_GOAL_S:g} s",
            measured.end_s / (bare.end_s + END_GOAL_S),
            1.0,
            f"medians: {measured.end_s:.2f} s and {bare.end_s:.2f} s; {later_s * 1000:.0f} ms later",
        ),
    ]
