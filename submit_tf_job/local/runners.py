"""Interface that runs the tasks of a local run, and its implementation with processes."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from submit_tf_job.local.cache import LocalCache
from submit_tf_job.local.nameserver import NameServer
from submit_tf_job.local.task import LocalTask
from submit_tf_job.plan import Site
from submit_tf_job.yarn.records import Component

__all__ = ["DOMAIN", "Processes", "Runner"]

DOMAIN = "localhost"  # RFC 6761: names below it resolve to this machine


class Runner(Protocol):
    """Creates the tasks of one run; a context manager around the run."""

    @property
    def network(self) -> str:
        """The job's network."""

    def __enter__(self) -> Runner: ...

    def __exit__(self, *failure: object) -> None: ...

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the site that a job is planned for."""

    def task(
        self, name: str, component: Component, root: Path, cache: LocalCache, host: str
    ) -> LocalTask:
        """Create a task without starting it."""


class Processes:
    """Runs tasks as processes; a name server resolves their names to this machine."""

    network = "host"

    def __init__(self) -> None:
        self._names = NameServer(DOMAIN)

    def __enter__(self) -> Processes:
        self._names.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._names.__exit__(*failure)

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the site that a job is planned for."""
        address = self._names.address
        return Site(
            user,
            domain=DOMAIN,
            dns_server=address,
            port_range=port_range,
            staging=staging,
            gpu_resource="",  # no GPU is looked for
        )

    def task(
        self, name: str, component: Component, root: Path, cache: LocalCache, host: str
    ) -> LocalTask:
        """Create a task without starting it."""
        return LocalTask(name, component, root, cache, host)
