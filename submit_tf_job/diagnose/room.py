"""The free resources of nodes, labels and queues: pure functions of the nodes, the scheduler and
the applications.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from submit_tf_job.diagnose.situation import free_of, total_of
from submit_tf_job.yarn.inspection import NO_RESOURCE, Queue, Scheduler
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.observed_cluster import Node


@dataclass(frozen=True)
class NodeRoom:
    """One node in service; the amounts have YARN's names of the resources."""

    host: str
    labels: tuple[str, ...]
    free: Mapping[str, int]
    total: Mapping[str, int]


@dataclass(frozen=True)
class LabelRoom:
    """The nodes in service with one label; "" stands for nodes without a label.

    Attributes:
        largest: The largest amount of memory that is free on a single node, in MiB.
    """

    label: str
    nodes: int
    free: Mapping[str, int]
    total: Mapping[str, int]
    largest: int


@dataclass(frozen=True)
class QueueRoom:
    """A queue to which jobs can be submitted.

    Attributes:
        share_percent: The largest share of the cluster that the queue may have, in percent; None if
            the scheduler does not report it.
        limit: The amounts of resources that this share stands for; None if there is no limit, or
            the scheduler does not report it.
        running, waiting: The numbers of the queue's applications that have an ApplicationMaster,
            and that wait for one.
    """

    path: str
    state: str | None
    share_percent: float | None
    limit: Mapping[str, int] | None
    used: Mapping[str, int]
    running: int
    waiting: int


@dataclass(frozen=True)
class JobStart:
    """When a job would start.

    Attributes:
        when: `now`, `waits`, `never` (as the cluster is), or `unknown`.
        sentence: What the job would wait for, or why that is not known.
        first_end_s: Of the jobs that hold what this job waits for: seconds until the first of them
            reaches the end of its lifetime; None if none of them has a lifetime.
    """

    when: Literal["now", "waits", "never", "unknown"]
    sentence: str
    first_end_s: int | None = None


@dataclass(frozen=True)
class ClusterRoom:
    """The free resources of nodes, labels and queues; with `start` if a job was given."""

    queues: tuple[QueueRoom, ...]
    labels: tuple[LabelRoom, ...]
    nodes: tuple[NodeRoom, ...]
    start: JobStart | None = None


@dataclass(frozen=True)
class ClusterState:
    """What the ResourceManager reports at one moment.

    Attributes:
        nodes: The NodeManagers in every state.
        apps: The applications of all users that have not ended.
        exclusive: Each node label, and whether the nodes with the label run only containers that
            ask for it.
    """

    nodes: tuple[Node, ...]
    scheduler: Scheduler
    apps: tuple[AppReport, ...]
    exclusive: Mapping[str, bool]

    @property
    def serving(self) -> tuple[Node, ...]:
        """The nodes in service."""
        return tuple(node for node in self.nodes if node.state == "RUNNING")


# --- what is free ---


def room_of(state: ClusterState, start: JobStart | None = None) -> ClusterRoom:
    """Return the free resources of the cluster's nodes, labels and queues."""
    nodes = tuple(
        NodeRoom(
            node.host or node.id,
            node.labels,
            (free_of(node) or NO_RESOURCE).to_json(),
            total_of(node).to_json(),
        )
        for node in state.serving
    )
    return ClusterRoom(tuple(_queue_rooms(state)), tuple(_label_rooms(state)), nodes, start)


def _label_rooms(state: ClusterState) -> Iterator[LabelRoom]:
    labels = sorted({label for node in state.serving for label in node.labels or ("",)})
    for label in labels:
        nodes = [node for node in state.serving if label in (node.labels or ("",))]
        free = [free_of(node) or NO_RESOURCE for node in nodes]
        total = sum(map(total_of, nodes), NO_RESOURCE)
        largest = max(amount.memory_mib for amount in free)
        whole = sum(free, NO_RESOURCE)
        yield LabelRoom(label, len(nodes), whole.to_json(), total.to_json(), largest)


def _queue_rooms(state: ClusterState) -> Iterator[QueueRoom]:
    for queue in state.scheduler.queues:
        if queue.is_leaf:
            share = queue.partition()
            own = [app for app in state.apps if is_in_queue(app, queue)]
            running = sum(app.state.value == "RUNNING" for app in own)
            limit = share.limit.to_json() if share.limit else None
            used = (share.used or NO_RESOURCE).to_json()
            percent = share.max_percent
            yield QueueRoom(
                queue.path, queue.state, percent, limit, used, running, len(own) - running
            )


def is_in_queue(app: AppReport, queue: Queue) -> bool:
    """Return whether an application is in a queue, by the queue's path or (as YARN reports it
    before Hadoop 3.4) the last part of it.
    """
    path = str(app.raw.get("queue") or app.queue or "")
    return path in (queue.path, queue.name)
