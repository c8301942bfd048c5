"""Where the tasks of a local run live; here, as processes of this machine."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Protocol

from submit_tf_job.local.names import NameServer
from submit_tf_job.local.shelf import Shelf
from submit_tf_job.local.task import Task
from submit_tf_job.plan import Site
from submit_tf_job.yarn.records import Component

__all__ = ["DOMAIN", "Place", "Processes"]

DOMAIN = "localhost"  # RFC 6761: names below it never leave the machine


class Place(Protocol):
    """Where the tasks of a run live, while it is entered."""

    @property
    def network(self) -> str:
        """The job's network there."""

    def __enter__(self) -> Place: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the facts of this cluster of one machine."""

    def task(self, name: str, component: Component, root: Path, shelf: Shelf, host: str) -> Task:
        """Make one task."""


class Processes:
    """Tasks as processes: all of them are this machine, and a name server says so."""

    network = "host"

    def __init__(self) -> None:
        self._names = NameServer(DOMAIN)

    def __enter__(self) -> Processes:
        self._names.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._names.__exit__(kind, error, trace)

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the facts of this cluster of one machine."""
        return Site(user, domain=DOMAIN, dns_server=self._names.address, port_range=port_range, staging=staging)

    def task(self, name: str, component: Component, root: Path, shelf: Shelf, host: str) -> Task:
        """Make one task."""
        return Task(name, component, root, shelf, host)
