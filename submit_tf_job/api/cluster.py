"""The connection to a cluster, and which job of it is meant."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from submit_tf_job.errors import NoSuchJob
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.yarn.client import Client
    from submit_tf_job.yarn.nodemanager import NodeManagers

__all__ = ["Cluster", "JobRef", "connect", "find"]

_APPLICATION = re.compile(r"application_\d+_\d+")


@dataclass(frozen=True)
class JobRef:
    """Which job is meant: the service's name, and one application of it where that matters."""

    name: str
    application_id: str | None = None


@dataclass(frozen=True)
class Cluster:
    """A connection to one cluster, as one user."""

    settings: Settings
    client: Client
    nodes: NodeManagers
    clock: Callable[[], float]
    sleep: Callable[[float], None]


def connect(settings: Settings, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> Cluster:
    """Prepare to talk to the cluster of the settings; nothing is sent yet.

    Raises:
        SettingsError: No ResourceManager is known.
    """
    from submit_tf_job.yarn.auth import SimpleAuth
    from submit_tf_job.yarn.client import Client, Timeouts
    from submit_tf_job.yarn.nodemanager import NodeManagers

    client = Client(
        settings.resource_managers,
        SimpleAuth(settings.user),
        timeouts=Timeouts(connect_s=settings["timeouts.connect"], read_s=settings["timeouts.read"], total_s=settings["timeouts.failover"]),
        ca_file=settings["ca_file"],
        clock=clock,
        sleep=sleep,
    )
    return Cluster(settings, client, NodeManagers(client), clock, sleep)


def find(cluster: Cluster, job: str) -> JobRef:
    """Find out which job a user means: a name, or an application id.

    Raises:
        NoSuchJob: There is no such application.
    """
    if not _APPLICATION.fullmatch(job):
        return JobRef(job)
    app = cluster.client.app(job)
    if app is None:
        raise NoSuchJob(f"the ResourceManager knows no {job}", hint="it keeps only so many finished applications; try the job's name")
    return JobRef(app.name or job, job)
