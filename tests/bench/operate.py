"""`status` against Hadoop's own ApplicationCLI; a thousand jobs watched by one process."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from submit_tf_job import Client
from submit_tf_job.operations import listing
from tests.bench.cluster import bench_sandbox
from tests.bench.measure import Row, Sample, interleave, run_process
from tests.bench.startup import resource_manager

__all__ = ["FleetTimes", "measure_fleet", "measure_fleet_rows", "measure_status"]

STATUS_GOAL = 0.33
# as a ResourceManager of Hadoop 3.4.2 answered
RECORDED = Path(__file__).with_name("application.json")
LOOKS = 40


def measure_status(rounds: int) -> list[Row]:
    """Ask for the state of a job that is over, in both ways, turn by turn."""
    with bench_sandbox() as bench:
        spec, _times = bench.spec("asked")
        app_id = json.loads(bench.tool("submit", spec, "-o", "json").stdout)["application_id"]
        main = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
        status = bench.argv("status", app_id)
        runs: dict[str, Callable[[], Sample]] = {
            "java": lambda: bench.java(main, "application", "-status", app_id),
            "status": lambda: run_process(status, bench.environ, bench.home),
        }
        samples = interleave(runs, rounds)
    ours, theirs = samples.wall("status"), samples.wall("java")
    details = (
        f"least of {rounds} rounds; medians {ours.median:.2f} s and {theirs.median:.2f} s; CPU "
        f"{samples.cpu_ratio('status', 'java'):.2f}"
    )
    what, ratio = "`status` of a job, with its report", ours.least / theirs.least
    return [Row(what, "Hadoop's ApplicationCLI -status", ratio, STATUS_GOAL, details)]


@dataclass(frozen=True)
class FleetTimes:
    """What watching a number of jobs took.

    Attributes:
        requests: To the ResourceManager, for `looks` looks.
        grown: Bytes that were allocated and kept between the fifth look and the last.
        seconds: For each look.
    """

    jobs: int
    looks: int
    requests: int
    grown: int
    seconds: float


def measure_fleet(jobs: int, looks: int = LOOKS) -> FleetTimes:
    """Watch jobs that run, on a server that replays the recorded answer under as many ids."""
    with _replaying(jobs) as (url, asked):
        client = Client(resource_managers=[url], user="alice")
        cluster = replace(client.cluster, sleep=lambda _seconds: None)
        rows = listing.Listing(cluster, listing.JobSelection(user="alice"))
        watched = rows.watch()
        tracemalloc.start()
        try:
            assert all(len(seen) == jobs for seen, _changed in islice(watched, 5))
            before, _peak = tracemalloc.get_traced_memory()
            start = time.perf_counter()
            for _seen in islice(watched, looks - 5):
                pass
            seconds = (time.perf_counter() - start) / (looks - 5)
            after, _peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            client.close()
        return FleetTimes(jobs, looks, len(asked), after - before, seconds)


def measure_fleet_rows() -> list[Row]:
    """Compare a thousand jobs with one."""
    one, many = measure_fleet(1), measure_fleet(1000)
    details = (
        f"{many.requests} requests for {many.looks} looks at {many.jobs} jobs; memory grew by "
        f"{many.grown / 1024:.0f} KiB meanwhile"
    )
    ratio = many.requests / one.requests
    return [Row("requests of `watch` for 1,000 jobs", "for one job", ratio, 1.0, details)]


@contextmanager
def _replaying(jobs: int) -> Iterator[tuple[str, list[str]]]:
    application: dict[str, Any] = json.loads(RECORDED.read_text())
    rows = [
        {**application, "id": f"application_1700000000000_{number:04}", "name": f"job-{number}"}
        for number in range(1, jobs + 1)
    ]
    answers = {
        "/ws/v1/cluster/info": b'{"clusterInfo": {"state": "STARTED", "haState": "ACTIVE", "hadoopVersion": "3.4.2"}}',
        "/ws/v1/cluster/apps": json.dumps({"apps": {"app": rows}}).encode(),
    }
    asked = list[str]()
    with resource_manager(answers, asked) as url:
        yield url, asked
