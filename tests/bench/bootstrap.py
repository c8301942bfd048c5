"""What the bootstrap takes beyond the Python that runs it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from submit_tf_job.container import contract
from tests.bench.measure import Row, Sample, interleave, run_process
from tests.bootstrap.harness import cluster, role

__all__ = ["measure_bootstrap"]

GOAL = 55 / 33


def measure_bootstrap(rounds: int) -> list[Row]:
    """Run a job of one task whose command is `true`, and bare Python, turn by turn."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, cluster(Path(directory)) as job:
        job.job({"worker": role(1, contract.KIND_TRAINS, ["true"])})

        def bootstrap() -> Sample:
            cwd, _logs, environ = job.place("worker-0")
            sample = run_process([sys.executable, "bootstrap.zip"], environ, cwd)
            for marker in cwd.parent.glob(
                "tfjob-done-*"
            ):  # else the next start repeats this outcome
                marker.unlink()
            return sample

        def python() -> Sample:
            cwd, _logs, environ = job.place("worker-0")
            return run_process([sys.executable, "-c", "pass"], environ, cwd)

        samples = interleave({"bootstrap": bootstrap, "python": python}, rounds)
    ours, bare = samples.wall("bootstrap"), samples.wall("python")
    return [
        Row(
            "a task that runs `true` under the bootstrap, CPU time",
            "`python -c pass`",
            samples.cpu_ratio("bootstrap", "python"),
            GOAL,
            f"least of {rounds} rounds: {ours.least * 1000:.0f} ms and {bare.least * 1000:.0f} ms",
        )
    ]
