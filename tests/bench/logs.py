"""On a real cluster: collected logs by `submit_tf_job logs`, against Hadoop's own LogsCLI."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from tests.bench.cluster import JOB_S, Bench, bench_sandbox
from tests.bench.measure import Row, Sample, interleave, run_process

__all__ = ["measure_logs"]

GOAL = 1.0
TASKS = 8
LARGE = (
    "for i in range(1100000): print('%010d step loss=%d the quick brown fox' % (i, (i * 7919) "
    "% 1000003))"
)
SMALL = "for i in range(2000): print('step', i, 'loss', 1 / (i + 1))"


def measure_logs(rounds: int) -> list[Row]:
    """Run the jobs, wait until their logs are collected, and read them in both ways."""
    with bench_sandbox() as bench:
        many = _collected(bench, "many", SMALL, TASKS)
        large = _collected(bench, "large", LARGE, 1)
        of_many, of_large = (["-applicationId", many], ["-applicationId", large])
        third = [*of_many, "-containerId", _container(bench, "many", 3)]
        only = [*of_large, "-containerId", _container(bench, "large", 0)]
        end = ["--tail", "40", "--file", "stdout.txt"]
        cases: list[tuple[str, list[str], list[str]]] = [
            (f"`logs` of all of {TASKS} tasks", ["many"], of_many),
            (f"`logs` of one of {TASKS} tasks", ["many", "worker-3"], third),
            ("`logs` of one task, 50 MB", ["large", "worker-0"], only),
            (
                "`logs --tail` of the same",
                ["large", "worker-0", *end],
                [*only, "-log_files", "stdout.txt", "-size", "-2000"],
            ),
        ]
        return [_compare(bench, rounds, *case) for case in cases]


def _collected(bench: Bench, name: str, program: str, tasks: int) -> str:
    several = {
        "strategy": "multi-worker",
        "roles": {"worker": {"memory": "128Mi", "instances": tasks}},
    }
    content = several if tasks > 1 else {}
    spec = bench.job(name, command=["python3", "-c", program], **content)
    app_id: str = json.loads(bench.tool("submit", spec, "-o", "json").stdout)["application_id"]
    deadline = time.monotonic() + JOB_S
    path = f"/ws/v1/cluster/apps/{app_id}?user.name={bench.cluster.user}"
    while bench.get(path)["app"]["logAggregationStatus"] != "SUCCEEDED":
        assert time.monotonic() < deadline, f"the logs of {name} were not collected"
        time.sleep(0.5)
    return app_id


def _container(bench: Bench, name: str, index: int) -> str:
    listed = json.loads(bench.tool("logs", name, f"worker-{index}", "--list", "-o", "json").stdout)
    return str(listed["containers"][0]["container"])


def _compare(bench: Bench, rounds: int, what: str, ours: list[str], theirs: list[str]) -> Row:
    tool, main = bench.argv("logs", *ours), "org.apache.hadoop.yarn.client.cli.LogsCLI"
    runs: dict[str, Callable[[], Sample]] = {
        "tool": lambda: run_process(tool, bench.environ, bench.home),
        "java": lambda: bench.java(main, *theirs, "-appOwner", bench.cluster.user),
    }
    samples = interleave(runs, rounds)
    mine, floor = samples.wall("tool").median, samples.wall("java").median
    return Row(what, "Hadoop's LogsCLI", mine / floor, GOAL, f"{mine:.2f} s and {floor:.2f} s")
