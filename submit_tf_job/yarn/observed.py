"""Dataclasses for YARN's responses, parsed leniently, and the states that the responses contain.

Unknown fields are ignored, an unknown or missing state becomes UNKNOWN, and any other missing value
None or empty. A single element is accepted instead of a list, and numbers may be strings
(hadoop-facts.md#irregular-json). `raw` is the whole JSON object that was parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

Answer: TypeAlias = Mapping[str, object]


# --- states ---------------------------------------------------------------------------------------


class _State(str, Enum):
    @classmethod
    def _missing_(cls, _value: object) -> _State:
        return cls("UNKNOWN")


class ServiceState(_State):
    """State of a service; STOPPED does not mean success or failure
    (hadoop-facts.md#service-states).
    """

    ACCEPTED = "ACCEPTED"
    STARTED = "STARTED"
    STABLE = "STABLE"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    SUCCEEDED = "SUCCEEDED"
    FLEX = "FLEX"
    UPGRADING = "UPGRADING"
    UPGRADING_AUTO_FINALIZE = "UPGRADING_AUTO_FINALIZE"
    EXPRESS_UPGRADING = "EXPRESS_UPGRADING"
    CANCEL_UPGRADING = "CANCEL_UPGRADING"
    UNKNOWN = "UNKNOWN"


class ContainerState(_State):
    """State of one container of a component."""

    RUNNING_BUT_UNREADY = "RUNNING_BUT_UNREADY"
    READY = "READY"
    STOPPED = "STOPPED"
    NEEDS_UPGRADE = "NEEDS_UPGRADE"
    UPGRADING = "UPGRADING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    FAILED_UPGRADE = "FAILED_UPGRADE"
    UNKNOWN = "UNKNOWN"


class AppState(_State):
    """State of an application at the ResourceManager."""

    NEW = "NEW"
    NEW_SAVING = "NEW_SAVING"
    SUBMITTED = "SUBMITTED"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    UNKNOWN = "UNKNOWN"


# an application never leaves one of these
FINAL_STATES = frozenset({AppState.FINISHED, AppState.FAILED, AppState.KILLED})
GOING_ON = frozenset(AppState) - FINAL_STATES - {AppState.UNKNOWN}


class FinalStatus(_State):
    """How an application ended; UNDEFINED means that it has not ended, and ENDED that it was
    stopped through the services API.
    """

    UNDEFINED = "UNDEFINED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    ENDED = "ENDED"
    UNKNOWN = "UNKNOWN"


# --- responses ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObservedContainer:
    """One container of a component; YARN returns neither its exit code nor its diagnostics."""

    id: str | None
    instance: str | None
    state: ContainerState
    ip: str | None = None
    hostname: str | None = None
    bare_host: str | None = None
    launch_time_ms: int | None = None

    @classmethod
    def from_json(cls, answer: Answer) -> ObservedContainer:
        """Parse one element of `containers`."""
        return cls(
            id=text_of(answer, "id"),
            instance=text_of(answer, "component_instance_name"),
            state=ContainerState(text_of(answer, "state")),
            ip=text_of(answer, "ip"),
            hostname=text_of(answer, "hostname"),
            bare_host=text_of(answer, "bare_host"),
            launch_time_ms=whole_of(answer, "launch_time"),
        )


@dataclass(frozen=True)
class ObservedComponent:
    """One component; containers without an allocation are not listed."""

    name: str
    number_of_containers: int | None
    containers: tuple[ObservedContainer, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    restart_policy: str | None = None
    memory_mib: int | None = None
    vcores: int | None = None
    gpus: int = 0

    @classmethod
    def from_json(cls, answer: Answer) -> ObservedComponent:
        """Parse one element of `components`."""
        additional = object_of(answer, "resource", "additional")
        return cls(
            name=text_of(answer, "name") or "",
            number_of_containers=whole_of(answer, "number_of_containers"),
            containers=tuple(map(ObservedContainer.from_json, items(answer.get("containers")))),
            properties=_text_values(object_of(answer, "configuration", "properties")),
            env=_text_values(object_of(answer, "configuration", "env")),
            restart_policy=text_of(answer, "restart_policy"),
            memory_mib=whole_of(object_of(answer, "resource"), "memory"),
            vcores=whole_of(object_of(answer, "resource"), "cpus"),
            # our services have no other resources in it
            gpus=sum(whole_of(object_of(amount), "value") or 0 for amount in additional.values()),
        )


@dataclass(frozen=True)
class ObservedService:
    """A service as returned by GET; components and configuration are included only while the
    service runs.

    Attributes:
        id: Application id; None before the AM has started, and on Hadoop 3.1.3 whenever the
            application is not RUNNING.
        properties: The service's own `configuration.properties`.
    """

    name: str
    id: str | None
    state: ServiceState
    version: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    components: tuple[ObservedComponent, ...] = ()
    raw: Answer = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, answer: Answer) -> ObservedService:
        """Parse the response of GET `/app/v1/services/{name}`."""
        return cls(
            name=text_of(answer, "name") or "",
            id=text_of(answer, "id"),
            state=ServiceState(text_of(answer, "state")),
            version=text_of(answer, "version"),
            properties=_text_values(object_of(answer, "configuration", "properties")),
            components=tuple(map(ObservedComponent.from_json, items(answer.get("components")))),
            raw=answer,
        )


class AppTimeout(NamedTuple):
    """A timeout enforced by the ResourceManager; -1 seconds means no limit."""

    type: str | None
    expiry_time: str | None
    remaining_s: int | None

    @classmethod
    def from_json(cls, answer: Answer) -> AppTimeout:
        """Parse one element of `timeouts.timeout`."""
        return cls(
            text_of(answer, "type"),
            text_of(answer, "expiryTime"),
            whole_of(answer, "remainingTimeInSeconds"),
        )


WITHDRAWN = "withdrawn: "  # how the reason begins with which a client withdraws an application


@dataclass(frozen=True)
class AppReport:
    """An application as the ResourceManager reports it; its final status decides the verdict.

    Attributes:
        queue: Last element of the path; Hadoop 3.4 returns `root.default` where earlier versions
            return `default`.
        diagnostics: Failed applications may have none, and successful ones may have some.
        am_container_logs: Missing if the user may not view the application.
    """

    id: str
    user: str | None
    name: str | None
    queue: str | None
    state: AppState
    final_status: FinalStatus
    diagnostics: str = ""
    tracking_url: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    started_ms: int | None = None
    launch_ms: int | None = None
    finished_ms: int | None = None
    elapsed_ms: int | None = None
    am_container_logs: str | None = None
    allocated_mb: int | None = None
    running_containers: int | None = None
    resource_requests: tuple[Answer, ...] = ()
    log_aggregation_status: str | None = None
    timeouts: tuple[AppTimeout, ...] = ()
    priority: int | None = None
    raw: Answer = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, answer: Answer) -> AppReport:
        """Parse one `app` object."""
        queue, tags = text_of(answer, "queue"), text_of(answer, "applicationTags") or ""
        return cls(
            id=text_of(answer, "id") or "",
            user=text_of(answer, "user"),
            name=text_of(answer, "name"),
            queue=queue and queue.rpartition(".")[2],
            state=AppState(text_of(answer, "state")),
            final_status=FinalStatus(text_of(answer, "finalStatus")),
            diagnostics=text_of(answer, "diagnostics") or "",
            tracking_url=text_of(answer, "trackingUrl"),
            type=text_of(answer, "applicationType"),
            tags=tuple(filter(None, map(str.strip, tags.split(",")))),
            started_ms=time_ms_of(answer, "startedTime"),
            launch_ms=time_ms_of(answer, "launchTime"),
            finished_ms=time_ms_of(answer, "finishedTime"),
            elapsed_ms=_elapsed_ms_of(answer),
            am_container_logs=text_of(answer, "amContainerLogs"),
            allocated_mb=whole_of(answer, "allocatedMB"),
            running_containers=whole_of(answer, "runningContainers"),
            resource_requests=items(answer.get("resourceRequests")),
            log_aggregation_status=text_of(answer, "logAggregationStatus"),
            timeouts=tuple(map(AppTimeout.from_json, items(answer.get("timeouts"), "timeout"))),
            priority=whole_of(answer, "priority"),
            raw=answer,
        )

    @property
    def lifetime_left_s(self) -> int | None:
        """The seconds after which YARN ends the application; None if it has no limit."""
        kept = (limit.remaining_s for limit in self.timeouts if limit.type == "LIFETIME")
        left_s = next((each for each in kept if each is not None), -1)
        return None if left_s < 0 else left_s

    @property
    def lists_anew(self) -> bool:
        """Whether tasks may be running although the ApplicationMaster lists no container yet,
        because the ApplicationMaster or its ResourceManager was started again.
        """
        return (self.attempt or 1) > 1 or "recovered after RM restart" in (self.diagnostics or "")

    @property
    def tasks_live(self) -> bool | None:
        """Whether any task has a container; None if the ResourceManager's count does not tell.

        That count includes the ApplicationMaster's container; and after a restart of the
        ResourceManager it includes only containers whose nodes have registered again.
        """
        count = self.running_containers
        if count is None or count < 0 or "recovered after RM restart" in (self.diagnostics or ""):
            return None
        own = 1 if self.state is AppState.RUNNING else 0
        return True if count > 1 else None if count > own else False

    @property
    def charge(self) -> Charge | None:
        """The resources that the application has used until now; None if the user may not view the
        application: then all times and counts in the response are 0 (AppInfo).
        """
        return Charge.of(self.raw) if self.started_ms else None

    @property
    def ended(self) -> bool:
        """Whether the application has ended; False for an unknown state."""
        return self.state in FINAL_STATES

    @property
    def outlived_lifetime(self) -> bool:
        """Whether YARN killed the application because its lifetime was over
        (RMAppLifetimeMonitor).
        """
        killed = self.state is AppState.KILLED
        return killed and bool(re.search("exceeded the lifetime|lifetime period", self.diagnostics))

    @property
    def withdrawn(self) -> bool:
        """Whether a client that submits has ended the application, because there was another one of
        the job.
        """
        return self.state is AppState.KILLED and WITHDRAWN in self.diagnostics

    @property
    def overwritten(self) -> bool:
        """Whether the ApplicationMaster could not be started, because what it needs was written
        again: by another POST of the service's name (hadoop-facts.md#two-posts-of-one-name).
        """
        changed = "changed on src filesystem" in self.diagnostics  # FSDownload.verifyAndCopy
        return self.state is AppState.FAILED and changed

    @property
    def rejected(self) -> bool:
        """Whether the scheduler rejected the application: it never had a container (RMAppImpl,
        AppInfo), and its diagnostics are about queues or about the rules that choose a queue.
        """
        refused = self.state is AppState.FAILED and self.attempt is None
        return refused and re.search("queue|reject", self.diagnostics.lower()) is not None

    @property
    def attempt(self) -> int | None:
        """Number of the current AM attempt, from 1; None if the ResourceManager does not report the
        AM's container.
        """
        logs = self.am_container_logs or ""
        found = re.findall(r"container_(?:e\d+_)?\d+_\d+_(\d+)_\d+", logs)
        return next(map(int, found), None)


@dataclass(frozen=True)
class Charge:
    """The resources that an application has used, including its ApplicationMaster, each multiplied
    by the time for which it was allocated (YARN's `resourceSecondsMap`).

    Attributes:
        memory_mib_s: MiB times seconds.
        vcore_s: Virtual cores times seconds.
        gpu_s: GPUs times seconds.
    """

    memory_mib_s: int = 0
    vcore_s: int = 0
    gpu_s: int = 0

    @classmethod
    def of(cls, answer: Answer) -> Charge:
        """Parse an `app` object. Only its `resourceSecondsMap` contains the GPUs. The map's `entry`
        is an object if the map has one entry, else a list; other versions of Hadoop write a plain
        object of numbers.
        """
        table = object_of(answer, "resourceSecondsMap")
        counted: dict[str, int] = {}
        for entry in items(table.get("entry")) if "entry" in table else ():
            counted[text_of(entry, "key") or ""] = whole_of(entry, "value") or 0
        counted.update((name, whole_of(table, name) or 0) for name in table if name != "entry")
        return cls(
            max(0, whole_of(answer, "memorySeconds") or counted.get("memory-mb", 0)),
            max(0, whole_of(answer, "vcoreSeconds") or counted.get("vcores", 0)),
            max(0, sum(value for name, value in counted.items() if "gpu" in name.lower())),
        )

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            self.memory_mib_s + other.memory_mib_s,
            self.vcore_s + other.vcore_s,
            self.gpu_s + other.gpu_s,
        )


def object_of(value: object, *keys: str) -> Answer:
    """Return the object at a path of keys; {} if there is no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def items(value: object, key: str | None = None) -> tuple[Answer, ...]:
    """Return the objects of a list, or a single object, as a tuple; () for any other value. With
    `key`, `value` is an envelope, such as `{"app": …}`, and the list or object is at that key.
    """
    if key is not None:
        value = object_of(value).get(key)
    if isinstance(value, Mapping):
        return (value,)
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, Mapping))


def text_of(answer: Answer, key: str) -> str | None:
    """Return a field as text, or None if it is missing or not a scalar."""
    value = answer.get(key)
    if value is None or isinstance(value, (Mapping, list)):
        return None
    return str(value)


def _text_values(values: Answer) -> dict[str, str]:
    return {key: str(value) for key, value in values.items() if value is not None}


def number_of(answer: Answer, key: str) -> float | None:
    """Return a field as a number, or None if it is missing or not a number."""
    value = answer.get(key)
    if not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def whole_of(answer: Answer, key: str) -> int | None:
    """Return a field as a whole number, or None if it is missing or not a number."""
    value = answer.get(key)
    if not isinstance(value, (int, float, str)):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def _elapsed_ms_of(answer: Answer) -> int | None:
    found = whole_of(answer, "elapsedTime")
    # -1 where the ResourceManager's clock was set back (Times.elapsed)
    return found if found is not None and found >= 0 else None


def time_ms_of(answer: Answer, key: str) -> int | None:
    return whole_of(answer, key) or None  # the RM writes 0 for "not yet"
