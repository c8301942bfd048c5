"""The links to the pages that tasks serve on their `ports`; pure functions of a job's status."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from submit_tf_job.yarn import service_properties

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.yarn.observed import ObservedComponent, ObservedContainer

NETWORK_ENV = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK"
PUBLISH_ENV = "YARN_CONTAINER_RUNTIME_DOCKER_PORTS_MAPPING"
_HOST = r"[A-Za-z0-9.:_-]{1,255}"  # containers write reports


@dataclass(frozen=True)
class Link:
    """The address of a web page that a task serves.

    Attributes:
        task: The task that serves it; "" for YARN's own pages.
        name: Its name in the job spec's `ports`.
        host, port: The address of the task's server.
        url: The address for a browser.
        via: The node from which the address can be reached, if the address is in a Docker network
            of that node; None for an address of the node itself.
    """

    task: str
    name: str
    host: str
    port: int
    url: str
    via: str | None = None


class _Endpoint(NamedTuple):
    """The address of a task, and the ports of its node that Docker forwards to it
    (`docker.publish`).
    """

    host: str
    via: str = ""
    published: Mapping[int, int] = MappingProxyType({})

    def link(self, task: str, name: str, port: int) -> Link:
        """Return the link to one port of the task."""
        host, via = self.host, self.via or None
        if via and port in self.published:
            host, port, via = via, self.published[port], None
        scheme = "https" if port in (443, 8443) else "http"
        return Link(task, name, host, port, f"{scheme}://{host}:{port}", via)


def links_of(seen: JobStatus) -> tuple[Link, ...]:
    """Return the links to the tasks' `ports` that are known already; () for a job that is over.

    The bootstrap of each task reports its ports. For a task whose bootstrap has not reported yet,
    the record of the container is used.
    """
    if seen.app is not None and seen.app.ended:
        return ()
    places: dict[str, _Endpoint] = {}
    found: dict[tuple[str, str], Link] = {}
    for task, place, ports in _yarn_endpoints(seen.components):
        places[task] = place
        found |= {(task, name): place.link(task, name, port) for name, port in ports.items()}
    for served in seen.report.served if seen.report else ():
        place = places.get(served.task, _Endpoint(served.host))
        for name, port in served.ports.items():
            if re.fullmatch(_HOST, place.host) and 0 < port < 65536:
                found[(served.task, name)] = place.link(served.task, name, port)
    return tuple(link for link in found.values() if link.port)


def _yarn_endpoints(
    components: Iterable[ObservedComponent],
) -> Iterator[tuple[str, _Endpoint, dict[str, int]]]:
    """Yield each task with its address and its ports by name; a port is 0 if only the bootstrap
    reports its number.
    """
    for component in components:
        ports = dict(_parse_ports(component.properties.get(service_properties.PORTS, "")))
        for container in sorted(component.containers, key=lambda one: one.launch_time_ms or 0):
            place = _endpoint_of(component, container)
            if place.host and container.instance and ports:
                yield container.instance, place, ports


def _endpoint_of(component: ObservedComponent, container: ObservedContainer) -> _Endpoint:
    """Return a task's address; its host is "" if no address is known. On the host network the host
    is the name of the task's node, which users recognise, instead of the container's IP address.
    """
    if component.env.get(NETWORK_ENV, "host") == "host":
        return _Endpoint(container.bare_host or container.ip or "")
    # For `:6006` Docker chooses the node's port, and the services API never returns it
    # (ComponentInstance).
    fixed = (entry.split(":") for entry in component.env.get(PUBLISH_ENV, "").split(","))
    published = {
        int(parts[1]): int(parts[0])
        for parts in fixed
        if len(parts) == 2 and all(map(str.isdigit, parts))
    }
    host = container.ip or container.hostname or ""
    return _Endpoint(host, container.bare_host or "its node", published)


def _parse_ports(text: str) -> Iterator[tuple[str, int]]:
    for item in text.split(","):
        name, _, port = item.partition("=")
        if name and (port.isdigit() or port == "auto"):
            yield name, int(port.replace("auto", "0"))
