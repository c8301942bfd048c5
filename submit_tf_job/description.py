"""A job in detail: its tasks, its limits, its links and what happened when; pure functions of what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from submit_tf_job import contract
from submit_tf_job.observation import Observation
from submit_tf_job.yarn.observed import AppAttempt, AppReport, ObservedComponent, ObservedContainer

__all__ = ["Event", "Limit", "Link", "Task", "events_of", "limits_of", "links_of", "tasks_of"]

NETWORK_ENV = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK"
MOST_TASKS = 100_000


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: Such as `worker-3`.
        state: What the deciding task says (`running`, `succeeded`, …), else YARN's word for its container in lower case, else `waiting`.
        host: The node it runs on.
        address: Its own address, where it has one.
        container_id: Its container, the last one of several.
        launched_ms: When that container was launched.
        restarts: How often it was started again.
        status: Exit status of its command; None while it runs.
    """

    name: str
    state: str = "waiting"
    host: str | None = None
    address: str | None = None
    container_id: str | None = None
    launched_ms: int | None = None
    restarts: int = 0
    status: int | None = None

    @property
    def role(self) -> str:
        """The task's role."""
        return self.name.rpartition("-")[0]


@dataclass(frozen=True)
class Limit:
    """A time limit: `lifetime` ends the job.

    Attributes:
        remaining_s: Seconds that are left; None where YARN does not say.
        ends_at: YARN's own words for the moment.
    """

    name: str
    remaining_s: int | None
    ends_at: str | None = None


@dataclass(frozen=True)
class Link:
    """A web face of the job.

    Attributes:
        task: The task that serves it; "" for YARN's own pages.
        name: What it is, as the job spec's `ports` names it.
        host, port: Where the task listens.
        url: To be opened.
    """

    task: str
    name: str
    host: str
    port: int
    url: str


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        at_ms: When, in milliseconds since 1970.
        source: `yarn` or `job`.
    """

    at_ms: int
    source: str
    text: str


def tasks_of(seen: Observation) -> tuple[Task, ...]:
    """List the tasks: all that are wanted, whether or not they have a container."""
    wanted = {name: Task(name) for name in _wanted(seen)}
    for container in seen.containers:
        if container.instance:
            wanted[container.instance] = _by_yarn(container, wanted.get(container.instance))
    for entry in _reported(seen):
        name = str(entry.get("task"))
        wanted[name] = _by_report(entry, wanted.get(name, Task(name)))
    return tuple(wanted.values())


def _wanted(seen: Observation) -> Iterator[str]:
    if seen.report is not None:
        counts: Iterable[tuple[str, int]] = [(name, role.wanted) for name, role in seen.report.roles.items()]
    else:
        counts = [(c.name, c.number_of_containers or 0) for c in (seen.service.components if seen.service else ())]
    for role, count in counts:
        yield from (f"{role}-{index}" for index in range(min(count, MOST_TASKS)))


def _by_yarn(container: ObservedContainer, before: Task | None) -> Task:
    if before is not None and (before.launched_ms or 0) > (container.launch_time_ms or 0):
        return before  # the services API lists an instance's earlier containers, too
    return Task(
        name=container.instance or "",
        state=container.state.value.lower(),
        host=container.bare_host,
        address=container.ip,
        container_id=container.id,
        launched_ms=container.launch_time_ms,
    )


def _reported(seen: Observation) -> list[Mapping[str, Any]]:
    found = seen.report.raw.get("tasks") if seen.report else None
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def _by_report(entry: Mapping[str, Any], yarn: Task) -> Task:
    """Join what the deciding task knows with what YARN says; of a task that is absent YARN knows more."""
    state, attempt, status = str(entry.get("state") or ""), entry.get("attempt"), entry.get("status")
    here = state not in ("", "absent")
    return replace(
        yarn,
        state=state if here else yarn.state,
        host=str(entry.get("host") or "") or yarn.host,
        address=str(entry.get("address") or "") or yarn.address,
        container_id=str(entry.get("container") or "") or yarn.container_id,
        restarts=attempt if isinstance(attempt, int) else 0,
        status=status if isinstance(status, int) else None,
    )


def limits_of(seen: Observation) -> tuple[Limit, ...]:
    """List the time limits that YARN keeps for the job; none for a job that is over."""
    if seen.app is None or seen.app.ended:
        return ()
    kept = [t for t in seen.app.timeouts if t.type and t.remaining_s is not None and t.remaining_s >= 0]
    return tuple(Limit(t.type.lower(), t.remaining_s, t.expiry_time) for t in kept if t.type)


def links_of(seen: Observation) -> tuple[Link, ...]:
    """List what the roles serve by their `ports`, as far as it can be reached now."""
    if seen.service is None or (seen.app is not None and seen.app.ended):
        return ()
    return tuple(link for component in seen.service.components for link in _component_links(component))


def _component_links(component: ObservedComponent) -> Iterator[Link]:
    ports = dict(_ports(component.properties.get(contract.PROPERTY_PORTS, "")))
    for container in component.containers:
        host = _host(component, container)
        for name, port in ports.items():
            if host and container.instance:
                yield Link(container.instance, name, host, port, f"{'https' if port in (443, 8443) else 'http'}://{host}:{port}")


def _host(component: ObservedComponent, container: ObservedContainer) -> str | None:
    """On the host network a container's address is its node's, and the node's name is what people know."""
    if component.env.get(NETWORK_ENV, "host") == "host":
        return container.bare_host or container.ip
    return container.ip or container.hostname


def _ports(text: str) -> Iterator[tuple[str, int]]:
    for item in text.split(","):
        name, _, port = item.partition("=")
        if name and port.isdigit():
            yield name, int(port)


def events_of(seen: Observation, attempts: Iterable[AppAttempt] = ()) -> tuple[Event, ...]:
    """List what is known to have happened, in order of time."""
    found = [*(_yarn_events(seen.app) if seen.app else ()), *_attempt_events(attempts), *_container_events(seen), *_job_events(seen)]
    return tuple(sorted(found, key=lambda event: event.at_ms))


def _yarn_events(app: AppReport) -> Iterator[Event]:
    if app.started_ms:
        yield Event(app.started_ms, "yarn", f"{app.id} is submitted to queue {app.queue} by {app.user}")
    if app.finished_ms:
        yield Event(app.finished_ms, "yarn", f"the application is {app.state.value}, its final status {app.final_status.value}")


def _attempt_events(attempts: Iterable[AppAttempt]) -> Iterator[Event]:
    for number, attempt in enumerate(attempts, 1):
        where = f" on {attempt.node_id.partition(':')[0]}" if attempt.node_id else ""
        if attempt.started_ms:
            yield Event(attempt.started_ms, "yarn", f"attempt {number} of the ApplicationMaster starts{where}")
        if attempt.finished_ms:
            yield Event(attempt.finished_ms, "yarn", f"attempt {number} of the ApplicationMaster ends ({attempt.state})")


def _container_events(seen: Observation) -> Iterator[Event]:
    for container in seen.containers:
        if container.launch_time_ms:
            yield Event(container.launch_time_ms, "yarn", f"{container.instance} is launched on {container.bare_host}")


def _job_events(seen: Observation) -> Iterator[Event]:
    found = seen.report.raw.get("events") if seen.report else None
    for entry in found if isinstance(found, list) else ():
        at = entry.get("at") if isinstance(entry, Mapping) else None
        if isinstance(at, (int, float)):
            yield Event(int(at * 1000), "job", str(entry.get("text", "")))
