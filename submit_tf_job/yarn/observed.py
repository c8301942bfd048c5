"""What YARN answers, read leniently.

Unknown fields are ignored, an unknown or missing state is UNKNOWN, any other missing value is `None`; one element where a list is
meant is a list of one, and numbers may come as strings (facts: yarn-services 9). `raw` keeps the whole answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from submit_tf_job.yarn.states import AppState, ComponentState, ContainerState, FinalStatus, ServiceState

__all__ = [
    "Answer",
    "AppAttempt",
    "AppReport",
    "AppState",
    "AppTimeout",
    "ClusterInfo",
    "ComponentState",
    "ContainerState",
    "FinalStatus",
    "MaximumResources",
    "Node",
    "ObservedComponent",
    "ObservedContainer",
    "ObservedService",
    "ServiceState",
    "items",
    "version_tuple",
]

Answer: TypeAlias = Mapping[str, object]


@dataclass(frozen=True)
class ObservedContainer:
    """One container of a component; neither exit code nor diagnostics are ever given."""

    id: str | None
    instance: str | None
    state: ContainerState
    ip: str | None = None
    hostname: str | None = None
    bare_host: str | None = None
    launch_time_ms: int | None = None

    @classmethod
    def from_json(cls, answer: Answer) -> ObservedContainer:
        """Read one element of `containers`."""
        return cls(
            id=_text(answer, "id"),
            instance=_text(answer, "component_instance_name"),
            state=ContainerState(_text(answer, "state")),
            ip=_text(answer, "ip"),
            hostname=_text(answer, "hostname"),
            bare_host=_text(answer, "bare_host"),
            launch_time_ms=_whole(answer, "launch_time"),
        )


@dataclass(frozen=True)
class ObservedComponent:
    """One component; containers without an allocation yet are not listed."""

    name: str
    state: ComponentState
    number_of_containers: int | None
    containers: tuple[ObservedContainer, ...] = ()

    @classmethod
    def from_json(cls, answer: Answer) -> ObservedComponent:
        """Read one element of `components`."""
        return cls(
            name=_text(answer, "name") or "",
            state=ComponentState(_text(answer, "state")),
            number_of_containers=_whole(answer, "number_of_containers"),
            containers=tuple(ObservedContainer.from_json(item) for item in items(answer.get("containers"))),
        )


@dataclass(frozen=True)
class ObservedService:
    """A service as GET shows it; components and configuration are there only while it runs.

    Attributes:
        id: Application id; `None` before the AM is known, and on Hadoop 3.1.3 whenever the app is not RUNNING.
        properties: The service's own `configuration.properties`.
        lifetime: Seconds that remain, as the ResourceManager counts.
    """

    name: str
    id: str | None
    state: ServiceState
    version: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    components: tuple[ObservedComponent, ...] = ()
    lifetime: int | None = None
    queue: str | None = None
    raw: Answer = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, answer: Answer) -> ObservedService:
        """Read the answer of GET `/app/v1/services/{name}`."""
        return cls(
            name=_text(answer, "name") or "",
            id=_text(answer, "id"),
            state=ServiceState(_text(answer, "state")),
            version=_text(answer, "version"),
            properties=_texts(_object(_object(answer.get("configuration")).get("properties"))),
            components=tuple(ObservedComponent.from_json(item) for item in items(answer.get("components"))),
            lifetime=_whole(answer, "lifetime"),
            queue=_text(answer, "queue"),
            raw=answer,
        )


@dataclass(frozen=True)
class AppTimeout:
    """A time limit that the ResourceManager keeps; -1 seconds means none."""

    type: str | None
    expiry_time: str | None
    remaining_s: int | None

    @classmethod
    def from_json(cls, answer: Answer) -> AppTimeout:
        """Read one element of `timeouts.timeout`."""
        return cls(_text(answer, "type"), _text(answer, "expiryTime"), _whole(answer, "remainingTimeInSeconds"))


@dataclass(frozen=True)
class AppReport:
    """An application as the ResourceManager reports it; its final status is the verdict.

    Attributes:
        queue: Last element of the path: Hadoop 3.4 says `root.default` where older ones say `default`.
        progress: Meaningless for services; the AM reports its own number.
        diagnostics: Neither necessary nor sufficient for a failure.
        am_container_logs: Absent where the reader may not view the application.
    """

    id: str
    user: str | None
    name: str | None
    queue: str | None
    state: AppState
    final_status: FinalStatus
    progress: float | None = None
    diagnostics: str = ""
    tracking_url: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    started_ms: int | None = None
    launch_ms: int | None = None
    finished_ms: int | None = None
    elapsed_ms: int | None = None
    am_container_logs: str | None = None
    am_host_http_address: str | None = None
    allocated_mb: int | None = None
    allocated_vcores: int | None = None
    running_containers: int | None = None
    resource_requests: tuple[Answer, ...] = ()
    log_aggregation_status: str | None = None
    timeouts: tuple[AppTimeout, ...] = ()
    raw: Answer = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, answer: Answer) -> AppReport:
        """Read one `app` object."""
        queue = _text(answer, "queue")
        return cls(
            id=_text(answer, "id") or "",
            user=_text(answer, "user"),
            name=_text(answer, "name"),
            queue=queue.rpartition(".")[2] if queue else queue,
            state=AppState(_text(answer, "state")),
            final_status=FinalStatus(_text(answer, "finalStatus")),
            progress=_number(answer, "progress"),
            diagnostics=_text(answer, "diagnostics") or "",
            tracking_url=_text(answer, "trackingUrl"),
            type=_text(answer, "applicationType"),
            tags=tuple(tag.strip() for tag in (_text(answer, "applicationTags") or "").split(",") if tag.strip()),
            started_ms=_time_ms(answer, "startedTime"),
            launch_ms=_time_ms(answer, "launchTime"),
            finished_ms=_time_ms(answer, "finishedTime"),
            elapsed_ms=_whole(answer, "elapsedTime"),
            am_container_logs=_text(answer, "amContainerLogs"),
            am_host_http_address=_text(answer, "amHostHttpAddress"),
            allocated_mb=_whole(answer, "allocatedMB"),
            allocated_vcores=_whole(answer, "allocatedVCores"),
            running_containers=_whole(answer, "runningContainers"),
            resource_requests=items(answer.get("resourceRequests")),
            log_aggregation_status=_text(answer, "logAggregationStatus"),
            timeouts=tuple(AppTimeout.from_json(item) for item in items(answer.get("timeouts"), "timeout")),
            raw=answer,
        )

    @property
    def ended(self) -> bool:
        """Whether the application is over."""
        return self.state.is_final


@dataclass(frozen=True)
class AppAttempt:
    """One try of the AM."""

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
        """Read one `appAttempt` object; refused details come as empty strings and are `None` here."""
        return cls(
            id=_text(answer, "appAttemptId"),
            state=_text(answer, "appAttemptState"),
            container_id=_text(answer, "containerId") or None,
            node_id=_text(answer, "nodeId") or None,
            node_http_address=_text(answer, "nodeHttpAddress") or None,
            logs_link=_text(answer, "logsLink") or None,
            started_ms=_time_ms(answer, "startTime"),
            finished_ms=_time_ms(answer, "finishedTime"),
        )


@dataclass(frozen=True)
class ClusterInfo:
    """The ResourceManager about itself; a standby answers this too."""

    id: int | None
    state: str | None
    ha_state: str | None
    hadoop_version: str | None
    started_ms: int | None = None

    @classmethod
    def from_json(cls, answer: Answer) -> ClusterInfo:
        """Read the `clusterInfo` object."""
        return cls(
            _whole(answer, "id"),
            _text(answer, "state"),
            _text(answer, "haState"),
            _text(answer, "hadoopVersion"),
            _time_ms(answer, "startedOn"),
        )

    @property
    def version(self) -> tuple[int, ...]:
        """Hadoop's version as numbers, () where unknown."""
        return version_tuple(self.hadoop_version or "")


@dataclass(frozen=True)
class Node:
    """One NodeManager; its addresses are the only ones logs are read from."""

    id: str
    host: str | None
    http_address: str | None
    state: str | None
    rack: str | None = None
    version: str | None = None
    health_report: str | None = None
    running_containers: int | None = None
    used_memory_mib: int | None = None
    available_memory_mib: int | None = None
    used_vcores: int | None = None
    available_vcores: int | None = None
    used_additional: Mapping[str, int] = field(default_factory=dict)
    available_additional: Mapping[str, int] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, answer: Answer) -> Node:
        """Read one `node` object."""
        labels = answer.get("nodeLabels")
        return cls(
            id=_text(answer, "id") or "",
            host=_text(answer, "nodeHostName"),
            http_address=_text(answer, "nodeHTTPAddress"),
            state=_text(answer, "state"),
            rack=_text(answer, "rack"),
            version=_text(answer, "version"),
            health_report=_text(answer, "healthReport"),
            running_containers=_whole(answer, "numContainers"),
            used_memory_mib=_whole(answer, "usedMemoryMB"),
            available_memory_mib=_whole(answer, "availMemoryMB"),
            used_vcores=_whole(answer, "usedVirtualCores"),
            available_vcores=_whole(answer, "availableVirtualCores"),
            used_additional=_additional(_object(answer.get("usedResource"))),
            available_additional=_additional(_object(answer.get("availableResource"))),
            labels=tuple(str(label) for label in labels) if isinstance(labels, list) else (),
        )


@dataclass(frozen=True)
class MaximumResources:
    """The largest container that the scheduler gives."""

    memory_mib: int | None
    vcores: int | None
    additional: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, answer: Answer) -> MaximumResources:
        """Read the `maximum-resource-capability` object."""
        return cls(_whole(answer, "memory"), _whole(answer, "vCores"), _additional(answer))


def version_tuple(text: str) -> tuple[int, ...]:
    """Read the leading numbers of a version: `3.1.1.7.1.9.0-387` is (3, 1, 1, 7, 1, 9, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def _object(value: object) -> Answer:
    return value if isinstance(value, Mapping) else {}


def items(value: object, key: str | None = None) -> tuple[Answer, ...]:
    """Normalise a list, a single element, or the `{"app": …}` envelope around either."""
    if key is not None:
        value = _object(value).get(key)
    if isinstance(value, Mapping):
        return (value,)
    return tuple(item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()


def _text(answer: Answer, key: str) -> str | None:
    value = answer.get(key)
    if value is None or isinstance(value, (Mapping, list)):
        return None
    return str(value)


def _texts(values: Answer) -> dict[str, str]:
    return {key: str(value) for key, value in values.items() if value is not None}


def _number(answer: Answer, key: str) -> float | None:
    value = answer.get(key)
    try:
        return float(value) if isinstance(value, (int, float, str)) else None
    except ValueError:
        return None


def _whole(answer: Answer, key: str) -> int | None:
    value = answer.get(key)
    try:
        return int(value) if isinstance(value, (int, float, str)) else None
    except (ValueError, OverflowError):
        return None


def _time_ms(answer: Answer, key: str) -> int | None:
    return _whole(answer, key) or None  # the RM writes 0 for "not yet"


def _additional(resource: Answer) -> dict[str, int]:
    out: dict[str, int] = {}
    for item in items(resource.get("resourceInformations"), "resourceInformation"):
        name, value = _text(item, "name"), _whole(item, "value")
        if name and value is not None and name not in ("memory-mb", "vcores"):
            out[name] = value
    return out
