"""A job on the simulated YARN that has failed, and whose container is held (`hold_on_failure`)."""

from __future__ import annotations

import json
from typing import Any

from tests.world.cluster import FakeCluster
from tests.world.yarn import App

FAILURE = {
    "task": "worker-1",
    "status": 7,
    "reason": "exited",
    "message": "worker-1 exited with status 7",
    "host": "node7",
    "at": 1700000000.0,
}
HELD = {
    "task": "worker-1",
    "host": "node7",
    "container": "container_1_3",
    "directory": "/yarn/container_1_3",
    "until": 1700001800.0,
}


def hold(fakes: FakeCluster, app: App, **report: Any) -> str:
    """Let the job of a running application fail at worker-1, whose container stays; return the
    container of the deciding task, worker-0.
    """
    container = f"{app.id.replace('application', 'container')}_01_000002"
    row = {"id": container, "component_instance_name": "worker-0", "bare_host": "node1"}
    fakes.yarn.containers["worker"] = [{**row, "state": "READY"}]
    told = {"version": 1, "run": app.name, "state": "failed", "container": container}
    told |= {"wanted": 2, "arrived": 2, "roles": {"worker": {"wanted": 2, "failed": 1}}}
    told |= {"first_failure": FAILURE, "held": HELD, **report}
    fakes.node.logs[container, "job-report.json"] = json.dumps(told).encode()
    fakes.node.logs[container, "stderr.txt"] = b""
    fakes.node.containers[container] = "RUNNING"
    fakes.yarn.on_end = lambda _app: fakes.node.containers.update({container: "COMPLETE"})
    return container
