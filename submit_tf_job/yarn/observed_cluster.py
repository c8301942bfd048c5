"""What a ResourceManager reports about itself, its nodes, its largest container and the attempts of
an application, parsed as `observed` parses applications. Most commands do not need these classes,
so this module is imported only with the first response of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from submit_tf_job.yarn.observed import Answer, items, object_of, text_of, time_ms_of, whole_of
from submit_tf_job.yarn.versions import version_tuple


@dataclass(frozen=True)
class AppAttempt:
    """One attempt of an application's AM."""

    id: str | None
    state: str | None
    container_id: str | None = None
    node_id: str | None = None
    node_http_address: str | None = None
    logs_link: str | None = None
    started_ms: int | None = None
    finished_ms: int | None = None

    @classmethod
    def from_json(cls, answer: Answer) -> AppAttempt:
        """Parse one `appAttempt` object; details that the user may not view are empty strings in
        the response and None here.
        """
        return cls(
            id=text_of(answer, "appAttemptId"),
            state=text_of(answer, "appAttemptState"),
            container_id=text_of(answer, "containerId") or None,
            node_id=text_of(answer, "nodeId") or None,
            node_http_address=text_of(answer, "nodeHttpAddress") or None,
            logs_link=text_of(answer, "logsLink") or None,
            started_ms=time_ms_of(answer, "startTime"),
            finished_ms=time_ms_of(answer, "finishedTime"),
        )


_RECOVERS = "INITIALIZING"  # haState without high availability (hadoop-facts.md#restart)


@dataclass(frozen=True)
class ClusterInfo:
    """The description that a ResourceManager, active or standby, returns about itself.

    Attributes:
        started_ms: When this ResourceManager became active.
        sent_s: When this ResourceManager sent the response, by its own clock (`Reply.sent_s`).
    """

    state: str | None
    ha_state: str | None
    hadoop_version: str | None
    started_ms: int | None = None
    sent_s: float | None = None

    @classmethod
    def from_json(cls, answer: Answer, sent_s: float | None = None) -> ClusterInfo:
        """Parse the `clusterInfo` object."""
        return cls(
            text_of(answer, "state"),
            text_of(answer, "haState"),
            text_of(answer, "hadoopVersion"),
            time_ms_of(answer, "startedOn"),
            sent_s,
        )

    @property
    def version(self) -> tuple[int, ...]:
        """Hadoop's version as numbers, () if unknown."""
        return version_tuple(self.hadoop_version or "")

    @property
    def recovers(self) -> bool:
        """Whether the ResourceManager is still recovering its state, and so lists no application;
        it reports that only without high availability.
        """
        return self.ha_state == _RECOVERS

    @property
    def leads_for_s(self) -> float | None:
        """Seconds since the ResourceManager became active, by its own clock. None if that is not
        known: it does not report the time, or a server in between has another clock.
        """
        if self.started_ms is None or self.sent_s is None:
            return None
        age_s = self.sent_s - self.started_ms / 1000
        return None if age_s < -1.0 else max(0.0, age_s)  # `Date` has whole seconds

    def is_recovering(self, within_s: float) -> bool | None:
        """Return whether the ResourceManager may not list all applications yet: it became active
        less than `within_s` seconds ago, or this description is of a standby. None if it is not
        known when it became active (`leads_for_s`).
        """
        if self.recovers or self.ha_state == "STANDBY":
            return True
        return None if self.leads_for_s is None else self.leads_for_s < within_s


@dataclass(frozen=True)
class Node:
    """One NodeManager; logs are read only from the addresses listed here.

    For a node that is not in service, Hadoop returns at most the total amounts.
    """

    id: str
    host: str | None
    http_address: str | None
    state: str | None
    rack: str | None = None
    health_report: str | None = None
    running_containers: int | None = None
    used_memory_mib: int | None = None
    available_memory_mib: int | None = None
    used_vcores: int | None = None
    available_vcores: int | None = None
    used_additional: Mapping[str, int] = field(default_factory=dict)
    available_additional: Mapping[str, int] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    total_memory_mib: int | None = None
    total_additional: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, answer: Answer) -> Node:
        """Parse one `node` object."""
        labels = answer.get("nodeLabels")
        if not isinstance(labels, list):
            labels = []
        return cls(
            id=text_of(answer, "id") or "",
            host=text_of(answer, "nodeHostName"),
            http_address=text_of(answer, "nodeHTTPAddress"),
            state=text_of(answer, "state"),
            rack=text_of(answer, "rack"),
            health_report=text_of(answer, "healthReport"),
            running_containers=whole_of(answer, "numContainers"),
            used_memory_mib=whole_of(answer, "usedMemoryMB"),
            available_memory_mib=whole_of(answer, "availMemoryMB"),
            used_vcores=whole_of(answer, "usedVirtualCores"),
            available_vcores=whole_of(answer, "availableVirtualCores"),
            used_additional=additional_of(object_of(answer, "usedResource")),
            available_additional=additional_of(object_of(answer, "availableResource")),
            labels=tuple(map(str, labels)),
            total_memory_mib=whole_of(object_of(answer, "totalResource"), "memory"),
            total_additional=additional_of(object_of(answer, "totalResource")),
        )


@dataclass(frozen=True)
class MaximumResources:
    """The largest container that the scheduler allocates."""

    memory_mib: int | None
    vcores: int | None
    additional: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, answer: Answer) -> MaximumResources:
        """Parse the `maximum-resource-capability` object."""
        return cls(whole_of(answer, "memory"), whole_of(answer, "vCores"), additional_of(answer))


def additional_of(resource: Answer) -> dict[str, int]:
    out: dict[str, int] = {}
    for item in items(resource.get("resourceInformations"), "resourceInformation"):
        name, value = text_of(item, "name"), whole_of(item, "value")
        if name and value is not None and name not in ("memory-mb", "vcores"):
            out[name] = value
    return out
