"""What ten thousand workers cost more than ten: bytes of the posted service, and time to plan
it.
"""

from __future__ import annotations

import time
from pathlib import Path

from submit_tf_job import operations
from submit_tf_job.jobspec.job import Job
from submit_tf_job.settings import Settings, load_settings
from tests.bench.measure import Row, Sample, Samples, interleave

__all__ = ["SIZE_GOAL", "measure_size", "posted_bytes"]

SPEC = Path(__file__).parents[2] / "specs/parameter-server.yaml"
SIZE_GOAL = 1.05
FEW, MANY = 10, 10_000


def _settings() -> Settings:
    environ = {
        "HOME": "/nonexistent",
        "SUBMIT_TF_JOB_RESOURCE_MANAGERS": "http://rm.example.com:8088",
        "SUBMIT_TF_JOB_USER": "alice",
    }
    return load_settings(environ=environ, cwd=Path("/"), system_file=Path("/nonexistent"))


def _job(workers: int, settings: Settings) -> Job:
    return operations.load_job(SPEC, settings, overrides=[f"roles.worker.instances={workers}"])


def posted_bytes(workers: int) -> int:
    """Return the size of the request's body for so many workers."""
    settings = _settings()
    return len(operations.make_plan(_job(workers, settings), settings).body.encode())


def measure_size(rounds: int = 30) -> list[Row]:
    """Plan the same job with few and with many workers."""
    settings = _settings()
    jobs = {"few": _job(FEW, settings), "many": _job(MANY, settings)}

    def plan(job: Job) -> Sample:
        wall, cpu = time.perf_counter(), time.process_time()
        assert operations.make_plan(job, settings).body
        return Sample(time.perf_counter() - wall, time.process_time() - cpu)

    samples: Samples = interleave(
        {name: lambda job=job: plan(job) for name, job in jobs.items()},  # type: ignore[misc]
        rounds,
    )
    few, many = posted_bytes(FEW), posted_bytes(MANY)
    ratios = [
        getattr(samples.wall("many"), kind) / getattr(samples.wall("few"), kind)
        for kind in ("least", "median")
    ]
    times = f"min {ratios[0]:.2f}, median {ratios[1]:.2f}"
    return [
        Row(
            f"bytes posted for {MANY:,} workers",
            f"{FEW} workers",
            many / few,
            SIZE_GOAL,
            f"{many:,} and {few:,} bytes",
        ),
        Row(
            f"time to plan {MANY:,} workers, CPU",
            f"{FEW} workers",
            samples.cpu_ratio("many", "few"),
            None,
            f"wall: {times}",
        ),
    ]
