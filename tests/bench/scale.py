"""Two hundred real tasks: from the submission to the start of the programs, by its parts."""

from __future__ import annotations

import json
import os
import time

from tests.bench.cluster import bench_sandbox
from tests.bench.measure import Row
from tests.clusters import add_properties

__all__ = ["measure_scale"]

TASKS = 200
MEMORY_MIB = 256
BARRIER_S = 1.0
JOB_S = 900


def measure_scale() -> list[Row]:
    """Run one job of two hundred containers on one node."""
    with bench_sandbox() as bench:
        size = {"memory-mb": str((TASKS + 10) * MEMORY_MIB), "cpu-vcores": str(TASKS + 10)}
        properties = {f"yarn.nodemanager.resource.{name}": text for name, text in size.items()}
        add_properties(bench.cluster.home / "conf/yarn-site.xml", properties)
        bench.cluster.kill("nodemanager")
        bench.cluster.heal()
        role = {"memory": f"{MEMORY_MIB}Mi", "command": ["sleep", "600"]}
        roles = {"chief": role, "worker": {**role, "instances": TASKS - 1}}
        spec = bench.job("crowd", strategy="custom", start_timeout=f"{JOB_S}s", roles=roles)
        bench.tool("submit", spec, "--detach")
        deadline = time.monotonic() + JOB_S
        start = None
        while start is None:
            assert time.monotonic() < deadline, bench.tool("status", "crowd").stdout
            time.sleep(2)
            start = json.loads(bench.tool("describe", "crowd", "-o", "json").stdout)["start"]
        bench.tool("delete", "crowd", "--force")
    yarn_s, names_s, barrier_s = (start[key] for key in ("yarn_s", "names_s", "barrier_s"))
    waited_s = names_s + barrier_s
    return [
        Row(
            f"the start of {TASKS} real tasks: from the last container's start to the programs'",
            "1 s",
            waited_s / BARRIER_S,
            None,
            f"{yarn_s:.1f} s until YARN had started all, {names_s:.1f} s until all had found the "
            f"deciding task, {barrier_s:.1f} s more; {start['by_address']} by address",
        ),
        Row(
            f"last hello of {TASKS} real tasks → start of the programs",
            "1 s",
            barrier_s / BARRIER_S,
            1.1,
            f"load {os.getloadavg()[0]:.0f} on {len(os.sched_getaffinity(0))} cores",
        ),
    ]
