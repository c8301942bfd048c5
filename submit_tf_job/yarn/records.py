"""The service that is posted to YARN; its fields have the names and the order of the JSON.

None and empty collections are omitted, 0 and false are kept, maps are sorted by key. Only fields of
Hadoop 3.1.1 and later versions are included, because the services API responds to unknown fields
with a 404 (hadoop-facts.md#unknown-fields). `dumps` is the only serialisation: `render` prints
exactly the bytes that `submit` posts.

The classes for YARN's responses are in `observed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Literal, TypeAlias

RestartPolicy: TypeAlias = Literal["ALWAYS", "ON_FAILURE", "NEVER"]
ConfigFileType: TypeAlias = Literal["ARCHIVE", "STATIC", "TEMPLATE"]
PlacementType: TypeAlias = Literal["AFFINITY", "ANTI_AFFINITY", "AFFINITY_WITH_CARDINALITY"]
# upper case in REST, lower case on HDFS: hadoop-facts.md#scope-of-a-placement
PlacementScope: TypeAlias = Literal["NODE", "RACK"]
_ABSENT: tuple[object, ...] = (None, (), {})


@dataclass(frozen=True)
class Artifact:
    """The Docker image of a component's containers."""

    id: str
    type: str = "DOCKER"


@dataclass(frozen=True)
class ResourceInformation:
    """An amount of a resource; the server accepts no plain number in its place."""

    value: int
    unit: str = ""


@dataclass(frozen=True)
class Resource:
    """The resources of one container.

    Attributes:
        cpus: Virtual cores, at least 1.
        memory: MiB as digits only; "2G" would be rejected *and* leave the name taken
            (hadoop-facts.md#names-that-stay-taken).
        additional: Further resources by name, such as `yarn.io/gpu`.
    """

    cpus: int
    memory: str
    additional: Mapping[str, ResourceInformation] = field(default_factory=dict)


@dataclass(frozen=True)
class ConfigFile:
    """A file that the AM writes or localises for every container.

    Attributes:
        type: ARCHIVE is unpacked, STATIC is copied, and TEMPLATE is written by the AM, which
            replaces its tokens, such as `${USER}`.
        dest_file: Name in the container; a relative one is a single path element.
        src_file: Source of the content, on a Hadoop file system.
        properties: For a TEMPLATE, its text as `content`.
    """

    type: ConfigFileType
    dest_file: str
    src_file: str | None = None
    properties: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Configuration:
    """YARN properties, and the environment and files of the containers."""

    properties: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[ConfigFile, ...] = ()


@dataclass(frozen=True)
class KerberosPrincipal:
    """The AM's principal and keytab on a secure cluster; the name of the principal must contain a
    `/`.
    """

    principal_name: str
    keytab: str


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


@dataclass(frozen=True)
class PlacementPolicy:
    """All placement constraints of a component."""

    constraints: tuple[PlacementConstraint, ...]


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
    artifact: Artifact | None = None
    launch_command: str | None = None
    resource: Resource | None = None
    restart_policy: RestartPolicy | None = None
    placement_policy: PlacementPolicy | None = None
    quicklinks: tuple[str, ...] = ()
    configuration: Configuration | None = None


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
    description: str | None = None
    queue: str | None = None
    lifetime: int | None = None
    docker_client_config: str | None = None
    kerberos_principal: KerberosPrincipal | None = None
    quicklinks: Mapping[str, str] = field(default_factory=dict)
    configuration: Configuration | None = None
    components: tuple[Component, ...] = ()

    def with_files(self) -> Service:
        """Return the service with its own files added to every component, as the server stores it
        (`Configuration.mergeFrom`).
        """
        common = self.configuration.files if self.configuration else ()
        return replace(
            self, components=tuple(_with_files(common, each) for each in self.components)
        )


def _with_files(common: tuple[ConfigFile, ...], component: Component) -> Component:
    own = component.configuration or Configuration()
    names = {file.dest_file for file in own.files}
    more = tuple(file for file in common if file.dest_file not in names)
    return replace(component, configuration=replace(own, files=(*own.files, *more)))


def dumps(service: Service) -> str:
    """Serialise a service to the JSON that `render` prints and `submit` posts.

    Example:
        >>> print(dumps(Service("a", "1", lifetime=60)), end="")
        {
          "name": "a",
          "version": "1",
          "lifetime": 60
        }
    """
    return json.dumps(_json_value(service), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _json_value(value: object) -> object:
    if is_dataclass(value):
        stated = ((one.name, getattr(value, one.name)) for one in fields(value))
        return {name: _json_value(found) for name, found in stated if found not in _ABSENT}
    if isinstance(value, Mapping):
        return {name: _json_value(value[name]) for name in sorted(value)}
    return [_json_value(item) for item in value] if isinstance(value, tuple) else value
