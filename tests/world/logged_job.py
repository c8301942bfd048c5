"""A job with logs, on a fake cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from submit_tf_job.operations.logs import logs
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.records import dumps
from tests.builders.services import service_of
from tests.world.cluster import FakeCluster

ONE = "container_1700000000000_0001_01_000002"
AM = "container_1700000000000_0001_01_000001"


class Job:
    """One job on the fake cluster, whose containers write while the clock moves."""

    def __init__(self, cluster: FakeCluster, hadoop_conf: Path | None = None) -> None:
        self.cluster, self.clock, self.node = cluster, cluster.clock, cluster.node
        self.yarn = cluster.yarn
        given = {"resource_managers": ["http://rm1:8088"], "user": "alice"}
        arguments = {**given, "hadoop_conf": hadoop_conf and str(hadoop_conf)}
        settings = load_settings(arguments=arguments, environ={"HOME": "/nowhere"}, cwd=Path("/"))
        self.api = cluster.connect(settings, wall=lambda: self.clock.epoch_ms() / 1000)
        self.api.client.post_service(dumps(service_of("mnist", "s1", "true")))
        self.said: list[str] = []

    def start(self, *containers: tuple[str, str]) -> None:
        """Start the ApplicationMaster, with containers of these tasks."""
        self.clock.sleep(5)
        self.yarn.containers["worker"] = [
            {"id": id_, "component_instance_name": task, "bare_host": "node1", "state": "READY"}
            for task, id_ in containers
        ]

    def writes(
        self, container: str, data: bytes, *, file: str = "stdout.txt", after_s: float = 0.0
    ) -> None:
        def write() -> None:
            self.node.logs[container, file] = self.node.logs.get((container, file), b"") + data

        self.clock.after(after_s, write) if after_s else write()

    def ends(self, after_s: float, *, state: str = "FINISHED", keeps: bool = True) -> None:
        def end() -> None:
            self.node.ended |= {container for container, _file in self.node.logs}
            [app] = self.yarn.apps.values()
            self.yarn.end(app, state, "SUCCEEDED" if state == "FINISHED" else "KILLED")
            if not keeps:
                self.node.logs.clear()

        self.clock.after(after_s, end)

    def logs(self, task: str | None = None, **options: Any) -> list[str]:
        reading = logs(
            self.api,
            "mnist",
            task,
            say=self.said.append,
            **options,
        )
        return [f"{line.task} {line.text}" for line in reading]
