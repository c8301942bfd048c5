"""Services that tests post."""

from __future__ import annotations

from submit_tf_job.yarn.records import Artifact, Component, Configuration, Resource, Service
from submit_tf_job.yarn.service_properties import SUBMISSION


def service_of(
    name: str, submission: str, command: str, *, memory: str = "128", queue: str | None = None
) -> Service:
    """Return a service of one container."""
    worker = Component(
        "worker",
        1,
        launch_command=command,
        artifact=Artifact("library/python:3.11"),
        resource=Resource(1, memory),
        restart_policy="NEVER",
    )
    properties = {SUBMISSION: submission, "yarn.service.container-failure.retry.max": "0"}
    return Service(
        name,
        submission,
        queue=queue,
        lifetime=7200,
        configuration=Configuration(properties),
        components=(worker,),
    )
