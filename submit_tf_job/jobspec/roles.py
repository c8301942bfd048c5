"""Read one role of a job spec, and the keys that the settings, a job and a role may all set: image,
command, env, files, mounts, docker.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from submit_tf_job.host.located.tree import (
    BUILT_IN,
    Items,
    Location,
    Node,
    Pair,
    Table,
    Where,
    closest,
    from_python,
)
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.files import Shipper
from submit_tf_job.jobspec.host_keys import read_python
from submit_tf_job.jobspec.job import TRAINING_ROLES, Mount, RemoteFile, Restart, ShippedFile
from submit_tf_job.jobspec.keys import ROLE, SHAPE, SHARED
from submit_tf_job.jobspec.validate import typed

Files: TypeAlias = list[tuple[ShippedFile | RemoteFile, Where]]
Mounts: TypeAlias = list[tuple[Mount, Location]]


@dataclass(frozen=True)
class Defaults:
    """The site's settings for keys that a job spec does not state.

    Attributes:
        job: A partial job spec: image, queue, network, env, mounts, hadoop, lifetime, …
        shapes: Named resource shapes: {"big": {"cpus": 8, "memory": "32Gi", "gpus": 1}}.
        origins: The position of each key in the settings by its path (`job.env.LR`), for messages;
            where a path has none, that of the mapping around it.
        task_memory: The memory of a task, such as "4Gi", if a file of another system states none;
            None to demand that the user states it.
    """

    job: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    shapes: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    task_memory: str | None = None

    def origin_of(self, path: str, around: str = "settings") -> str:
        """Return the position of a key; `around` if it has none."""
        return self.origins.get(path, around)

    def located(self, path: str, value: object, around: str = "settings") -> Node:
        """Return a value of the settings as nodes, each at its position; a value without one is at
        `around`.
        """
        origin = self.origin_of(path, around)
        place = Location(origin)
        if isinstance(value, Mapping):
            inner = (
                (key, self.located(f"{path}.{key}", item, origin)) for key, item in value.items()
            )
            return Table(tuple(Pair(key, node.place, node) for key, node in inner), place)
        if isinstance(value, (list, tuple)):
            items = (self.located(f"{path}[{at}]", item, origin) for at, item in enumerate(value))
            return Items(tuple(items), place)
        return from_python(value, place)


@dataclass(frozen=True)
class Layer:
    """The keys that may be set at several levels, as one level (the site, the job or one role)
    states them.

    Attributes:
        values: The values that this level states; None for a wrong value.
        files: The files that this level's `files` names, each with its path.
        mounts: The valid mounts of this level, each with its location.
    """

    values: Mapping[str, Any]
    files: Files
    mounts: Mounts

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return the mapping of a key; an empty one if the key is absent, or its value is wrong."""
        return self.values.get(key) or {}


@dataclass
class RoleDraft:
    """A role while it is read; some values may still be wrong or absent.

    Attributes:
        name: The role's name in the job: chief if the user wrote master.
        at: The role's path as the user wrote it: it may be roles.master for chief.
        values: Fields of `Role`; a wrong value is None, an absent one is omitted.
    """

    name: str
    at: Where
    layer: Layer
    values: dict[str, Any]

    @property
    def is_training(self) -> bool:
        """Whether the role has the name of one of TensorFlow's: chief, worker, ps or evaluator."""
        return self.name in TRAINING_ROLES

    @property
    def instances(self) -> int:
        """The number of tasks; 1 if the value is absent or wrong."""
        return self.values.get("instances") or 1

    @property
    def restarts(self) -> bool:
        """Whether a failed task is started again."""
        return (self.values.get("restart") or (Restart.NEVER, 0))[0] is Restart.ON_FAILURE


def read_role(
    stated: Mapping[str, Any], name: str, at: Where, defaults: Defaults, shipper: Shipper
) -> RoleDraft:
    """Return one role.

    Args:
        stated: The values that the job spec states; a wrong value is None.
        name: The role's name in the job: chief if the user wrote master.
        at: The role's path.
        defaults: Has the shapes of the settings.
        shipper: Reads files of this host.
    """
    values = {key: value for key, value in stated.items() if key not in {*SHARED, "shape"}}
    shape = _read_shape(stated["shape"], at, defaults) if stated.get("shape") else None
    if shape is not None:
        values = shape | values
        if "memory_mib" not in values:
            hint = ROLE.rows["memory"].missing
            at.fail(f"missing; its shape has none either; {hint}", "memory")
    if values.get("python") is not None:
        values["python"] = read_python(values["python"], at.member("python"), shipper, "")
    if values.get("instances") is not None:
        values["instances"], values["elastic"] = values["instances"]
    return RoleDraft(name, at, read_layer(stated, at, shipper), values)


def _read_shape(name: str, at: Where, defaults: Defaults) -> dict[str, Any] | None:
    """Return the resources of the shape that a role names, and record where they are stated; None
    if the settings have no such shape, which is reported.
    """
    if name not in defaults.shapes:
        return at.fail(_unknown_shape(name, list(defaults.shapes)), "shape")
    path = f"shapes.{name}"
    place, inside = Location(f"{defaults.origin_of(path)}, shape {name}"), Where(path, at.notes)
    values: dict[str, Any] | None = typed(
        from_python(defaults.shapes[name], place), SHAPE, inside, place
    )
    places = at.notes.places
    for key in SHAPE.rows if values is not None else ():
        found, own = places.get(inside.member(key).path), at.member(key).path
        if found is not None and places.get(own, BUILT_IN) == BUILT_IN:
            places[own] = found
    return values


def _unknown_shape(name: str, known: list[str]) -> str:
    meant = f"the settings define {', '.join(sorted(known))}"
    if near := closest(name, known):
        meant = f"did you mean '{near}'?"
    if not known:
        meant = "the settings define none, so write cpus, memory and gpus here"
    return f"unknown shape {clip(name)}; {meant}"


# --- the keys that a job and its roles share ---


def read_layer(values: Mapping[str, Any], at: Where, shipper: Shipper) -> Layer:
    """Return the keys that a job and its roles share, and read the files that they name; report two
    files or mounts with the same place in the task.

    Args:
        values: The mapping that states the keys; a wrong value is None.
        at: The mapping's path.
        shipper: Reads files of this host.
    """
    files: Files = [
        (file, inside)
        for item, inside in _located_items(values, "files", at)
        for file in shipper.ship(item, inside) or ()
    ]
    mounts = list(_located_items(values, "mounts", at))
    merge_files([files])
    _refuse_same_target(mounts)
    return Layer(values, files, [(mount, inside.place) for mount, inside in mounts])


def _located_items(values: Mapping[str, Any], name: str, at: Where) -> Iterator[tuple[Any, Where]]:
    """Yield the valid items of a list with their paths."""
    for index, item in enumerate(values.get(name) or ()):
        if item is not None:
            yield item, at.member(name).item(index)


def _refuse_same_target(mounts: list[tuple[Mount, Where]]) -> None:
    first: dict[str, Where] = {}
    for mount, at in mounts:
        earlier = first.setdefault(posixpath.normpath(mount.target), at)
        if earlier is not at:
            at.fail(
                f"{clip(mount.target)} is already the target of {earlier.path}; drop one, or "
                f"choose another"
            )


def merge_mounts(layers: Iterable[Mounts]) -> Mounts:
    """Return the mounts of all layers; at the same target a later layer replaces an earlier one."""
    every = (found for layer in layers for found in layer)
    return list({posixpath.normpath(found[0].target): found for found in every}.values())


def merge_files(layers: Iterable[Files]) -> Files:
    """Return the files of all layers; report two files with the same name, and a file with the name
    of another file's directory.
    """
    merged: dict[str, tuple[ShippedFile | RemoteFile, Where]] = {}
    directories: dict[str, tuple[ShippedFile | RemoteFile, Where]] = {}
    reported: set[str] = set()
    for file, at in (found for layer in layers for found in layer):
        name = file.name
        above = name.split("/")[:-1]
        parents = ["/".join(above[: depth + 1]) for depth in range(len(above))]
        others = (merged.get(name), directories.get(name), *map(merged.get, parents))
        clash = next(filter(None, others), None)
        if clash is None:
            merged[name] = file, at
            for parent in parents:
                directories.setdefault(parent, (file, at))
        elif at.path not in reported:
            reported.add(at.path)
            other, where = clash
            as_name = "" if other.name == name else f" as {clip(other.name)}"
            at.fail(
                f"{clip(name)} is already shipped by {where.path}{as_name}; drop one, or give it "
                f"another dst"
            )
    return list(merged.values())
