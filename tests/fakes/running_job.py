"""A running job on a fake cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from submit_tf_job import operations
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.records import Configuration, dumps
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.services import service_of


class Stage:
    """A job `mnist` of alice on a fake cluster."""

    def __init__(self, **properties: str) -> None:
        self.fake = FakeCluster()
        service = service_of("mnist", "s1", "sleep 60")
        self.alice, self.bob = self._cluster("alice"), self._cluster("bob")
        self.id = (
            self.alice.client.post_service(
                dumps(replace(service, configuration=Configuration(properties=properties)))
            )
            or ""
        )
        self.fake.clock.sleep(10)

    def _cluster(self, user: str) -> operations.Cluster:
        client = self.fake.client(user)
        settings = load_settings(
            arguments={"user": user, "resource_managers": ["http://rm1:8088"]},
            environ={"HOME": "/nonexistent"},
            cwd=Path("/"),
        )
        return operations.Cluster(
            settings=settings,
            client=client,
            nodes=None,  # type: ignore[arg-type]
            clock=self.fake.clock,
            sleep=self.fake.clock.sleep,
        )
