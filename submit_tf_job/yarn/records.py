"""The service that is posted to YARN; its fields have the same names as in the JSON.

Every class has its own `to_json`: None and empty collections are omitted, 0 and false are kept,
maps are sorted by key. Only fields of Hadoop 3.1.1 and later versions are included, because the
services API responds to unknown fields with a 404 (hadoop-facts.md#unknown-fields). `dumps` is
the only serialisation: `render` prints exactly the bytes that `submit` posts.

The classes for YARN's responses are in `observed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

JSONObject: TypeAlias = dict[str, object]
RestartPolicy: TypeAlias = Literal["ALWAYS", "ON_FAILURE", "NEVER"]
ConfigFileType: TypeAlias = Literal["ARCHIVE", "STATIC", "TEMPLATE"]
PlacementType: TypeAlias = Literal["AFFINITY", "ANTI_AFFINITY", "AFFINITY_WITH_CARDINALITY"]
# upper case in REST, lower case on HDFS: hadoop-facts.md#scope-of-a-placement
PlacementScope: TypeAlias = Literal["NODE", "RACK"]
_ABSENT: tuple[object, ...] = (None, (), {})


@dataclass(frozen=True)
class Artifact:
    """The Docker image of a container's files."""

    id: str

    def to_json(self) -> JSONObject:
        return _stated(id=self.id, type="DOCKER")


@dataclass(frozen=True)
class Resource:
    """The resources of one container.

    Attributes:
        cpus: Virtual cores, at least 1.
        memory: MiB as digits only; "2G" would be rejected *and* leave the name taken
            (hadoop-facts.md#names-that-stay-taken).
        additional: Amounts of further resources by name, such as `yarn.io/gpu`. The server accepts
            no plain numbers in place of the objects.
    """

    cpus: int
    memory: str
    additional: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> JSONObject:
        stated = _stated(cpus=self.cpus, memory=self.memory)
        more = {name: {"value": self.additional[name], "unit": ""} for name in self.additional}
        return {**stated, "additional": more} if more else stated


@dataclass(frozen=True)
class ConfigFile:
    """A file that the AM writes or localises for every container.

    Attributes:
        type: Format of the file; TEMPLATE takes `properties["content"]`.
        dest_file: Name in the container; a relative one is a single path element.
        src_file: Source of the content, on a Hadoop file system.
        properties: Content or substitutions.
    """

    type: ConfigFileType
    dest_file: str
    src_file: str | None = None
    properties: Mapping[str, str] | None = None

    def to_json(self) -> JSONObject:
        return _stated(
            type=self.type,
            dest_file=self.dest_file,
            src_file=self.src_file,
            properties=self.properties,
        )


@dataclass(frozen=True)
class Configuration:
    """YARN properties, and the environment and files of the containers."""

    properties: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[ConfigFile, ...] = ()

    def to_json(self) -> JSONObject:
        return _stated(properties=self.properties, env=self.env, files=self.files)


@dataclass(frozen=True)
class KerberosPrincipal:
    """The principal and keytab of the AM on a secure cluster; the name must contain a `/`."""

    principal_name: str
    keytab: str

    def to_json(self) -> JSONObject:
        return _stated(principal_name=self.principal_name, keytab=self.keytab)


@dataclass(frozen=True)
class PlacementConstraint:
    """Where a component's containers may be allocated, relative to other containers and by node."""

    type: PlacementType
    scope: PlacementScope
    target_tags: tuple[str, ...] = ()
    node_attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    node_partitions: tuple[str, ...] = ()
    min_cardinality: int | None = None
    max_cardinality: int | None = None

    def to_json(self) -> JSONObject:
        return _stated(
            type=self.type,
            scope=self.scope,
            target_tags=self.target_tags,
            node_attributes=self.node_attributes,
            node_partitions=self.node_partitions,
            min_cardinality=self.min_cardinality,
            max_cardinality=self.max_cardinality,
        )


@dataclass(frozen=True)
class PlacementPolicy:
    """All placement constraints of a component."""

    constraints: tuple[PlacementConstraint, ...]

    def to_json(self) -> JSONObject:
        return _stated(constraints=self.constraints)


@dataclass(frozen=True)
class Component:
    """One kind of container, and the number of its instances.

    Attributes:
        launch_command: The shell's command line; None for the image's own entry point.
        restart_policy: YARN's default is ALWAYS, which restarts a finished worker again and again.
        quicklinks: Keys of the service's quicklinks that belong to this component.
    """

    name: str
    number_of_containers: int
    launch_command: str | None = None
    artifact: Artifact | None = None
    resource: Resource | None = None
    restart_policy: RestartPolicy | None = None
    configuration: Configuration | None = None
    placement_policy: PlacementPolicy | None = None
    quicklinks: tuple[str, ...] = ()

    def to_json(self) -> JSONObject:
        return _stated(
            name=self.name,
            number_of_containers=self.number_of_containers,
            artifact=self.artifact,
            launch_command=self.launch_command,
            resource=self.resource,
            restart_policy=self.restart_policy,
            placement_policy=self.placement_policy,
            quicklinks=self.quicklinks,
            configuration=self.configuration,
        )


@dataclass(frozen=True)
class Service:
    """The service in the form that is posted.

    Attributes:
        name: Unique per user.
        version: Free text, required; names the directory of the AM's generated files.
        configuration: The server merges it into every component; the component's own values take
            precedence.
        lifetime: Seconds from submission, None for no limit.
        quicklinks: Label to URL.
    """

    name: str
    version: str
    components: tuple[Component, ...]
    configuration: Configuration | None = None
    queue: str | None = None
    lifetime: int | None = None
    description: str | None = None
    quicklinks: Mapping[str, str] = field(default_factory=dict)
    kerberos_principal: KerberosPrincipal | None = None
    docker_client_config: str | None = None

    def with_files(self) -> Service:
        """Return it with its own files in every component, as the server stores it
        (`Configuration.mergeFrom`).
        """
        common = self.configuration.files if self.configuration else ()
        return replace(self, components=tuple(_with(common, each) for each in self.components))

    def to_json(self) -> JSONObject:
        stated = _stated(
            name=self.name,
            version=self.version,
            description=self.description,
            queue=self.queue,
            lifetime=self.lifetime,
            docker_client_config=self.docker_client_config,
            kerberos_principal=self.kerberos_principal,
            quicklinks=self.quicklinks,
            configuration=self.configuration,
        )
        return {**stated, "components": [component.to_json() for component in self.components]}


def _with(common: tuple[ConfigFile, ...], component: Component) -> Component:
    own = component.configuration or Configuration()
    names = {file.dest_file for file in own.files}
    more = tuple(file for file in common if file.dest_file not in names)
    return replace(component, configuration=replace(own, files=(*own.files, *more)))


def dumps(service: Service) -> str:
    """Serialise a service to the JSON that `render` prints and `submit` posts.

    Example:
        >>> print(dumps(Service("a", "1", ())), end="")
        {
          "name": "a",
          "version": "1",
          "components": []
        }
    """
    return json.dumps(service.to_json(), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _stated(**fields: object) -> JSONObject:
    """Return the fields that have a value, in this order."""
    return {name: _json(value) for name, value in fields.items() if value not in _ABSENT}


def _json(value: Any) -> object:
    if isinstance(value, Mapping):
        return {name: _json(value[name]) for name in sorted(value)}
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return value if isinstance(value, (str, int)) else value.to_json()
