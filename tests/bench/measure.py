"""Run commands turn by turn, and compare what they took within one run.

Machines drift and neighbours disturb, so no time stands alone: each command is run once per round,
and a ratio is one of the same rounds. CPU time is compared beside the wall clock, because a busy
machine changes it little.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Row", "Sample", "Samples", "Times", "clean_environment", "interleave", "run_process"]


@dataclass(frozen=True)
class Sample:
    """What one run took, in seconds."""

    wall_s: float
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Times:
    """Smallest and median of several runs, in seconds."""

    least: float
    median: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Times:
        """Reduce a series."""
        return cls(min(values), statistics.median(values))


class Samples:
    """The runs of several commands, round by round."""

    def __init__(self, names: Sequence[str]) -> None:
        self._runs: dict[str, list[Sample]] = {name: [] for name in names}

    def add(self, name: str, sample: Sample) -> None:
        """Note one run."""
        self._runs[name].append(sample)

    def wall(self, name: str) -> Times:
        """Return a command's wall-clock times."""
        return Times.of([run.wall_s for run in self._runs[name]])

    def cpu(self, name: str) -> Times:
        """Return a command's CPU times."""
        return Times.of([run.cpu_s for run in self._runs[name]])

    def cpu_ratio(self, name: str, floor: str) -> float:
        """Compare the least CPU times of two commands: the one figure that neighbours on the
        machine can hardly spoil.
        """
        return self.cpu(name).least / self.cpu(floor).least


@dataclass(frozen=True)
class Row:
    """One line of the result: something against its floor, and the goal."""

    what: str
    floor: str
    ratio: float
    goal: float | None
    details: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is reached; without a goal there is nothing to miss."""
        return self.goal is None or self.ratio <= self.goal


def clean_environment(home: Path) -> dict[str, str]:
    """Make an environment without the user's settings, with a bytecode cache of its own that the
    first round fills for everybody alike.
    """
    prefixes = ("SUBMIT_TF_JOB_", "HADOOP_", "XDG_", "PYTHON")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path(os.environ["HOME"]) / ".cache")
    return environ | {
        "HOME": str(home),
        "XDG_CACHE_HOME": cache,
        "PYTHONPYCACHEPREFIX": str(home / "pycache"),
    }


def run_process(argv: Sequence[object], environ: Mapping[str, str], cwd: Path) -> Sample:
    """Run one process to its end; one that fails is no measurement."""
    words = [str(word) for word in argv]
    start = time.perf_counter()
    with subprocess.Popen(
        words, env=environ, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stderr is not None
        assert process.returncode == 0, (words, process.stderr.read().decode())
    return Sample(wall_s, usage.ru_utime + usage.ru_stime)


def interleave(
    runs: Mapping[str, Callable[[], Sample]], rounds: int, *, warm_up: int = 1
) -> Samples:
    """Run everything once per round, after rounds that do not count."""
    samples = Samples(list(runs))
    for number in range(-warm_up, rounds):
        for name, run in runs.items():
            sample = run()
            if number >= 0:
                samples.add(name, sample)
    return samples
