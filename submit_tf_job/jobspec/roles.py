"""Read one role of a job spec, and the keys that the settings, a job and a role may all set: image,
command, env, files, mounts, docker.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from submit_tf_job.host.located.diagnostics import BUILT_IN, Diagnostics, Where, closest
from submit_tf_job.host.located.nodes import Location, clip, from_python
from submit_tf_job.jobspec.files import Shipper
from submit_tf_job.jobspec.host_keys import read_python
from submit_tf_job.jobspec.job import (
    TRAINING_ROLES,
    Command,
    Mount,
    RemoteFile,
    Restart,
    ShippedFile,
)
from submit_tf_job.jobspec.keys import ROLE, SHAPE, SHARED
from submit_tf_job.jobspec.kinds import group
from submit_tf_job.jobspec.schema import partial_schema
from submit_tf_job.jobspec.validate import typed

T = TypeVar("T")
AnyFile: TypeAlias = ShippedFile | RemoteFile


@dataclass(frozen=True)
class Found(Generic[T]):
    """A value with its path and location."""

    value: T
    path: str
    place: Location


@dataclass
class Layer:
    """The shared keys of one level: the site, the job or one role."""

    image: str | None = None
    command: Command | None = None
    states: frozenset[str] = frozenset()  # the keys that the user wrote, valid or not
    env: Mapping[str, str] = field(default_factory=dict)
    files: list[Found[AnyFile]] = field(default_factory=list)
    mounts: list[Found[Mount]] = field(default_factory=list)
    docker: dict[str, Any] = field(default_factory=dict)
    workdir: str = ""


@dataclass
class RoleDraft:
    """A role while it is read; some values may be wrong or absent.

    Attributes:
        name: Its name in the job: chief if the user wrote master.
        at: Its path, with the user's name.
        values: Fields of `Role`; a wrong value is None, an absent one is omitted.
    """

    name: str
    at: Where
    layer: Layer
    values: dict[str, Any]

    @property
    def is_training(self) -> bool:
        """Whether the role is one of TensorFlow's."""
        return self.name in TRAINING_ROLES

    @property
    def path(self) -> str:
        """The path as the user wrote it: roles.master for chief."""
        return self.at.path

    @property
    def instances(self) -> int:
        """The number of tasks; 1 if it is absent or wrong."""
        return self.values.get("instances") or 1

    @property
    def restarts(self) -> bool:
        """Whether a failed task is started again."""
        return (self.values.get("restart") or (Restart.NEVER, 0))[0] is Restart.ON_FAILURE

    def fail(self, message: str, key: str = "") -> None:
        """Report a problem of the role, or of one of its keys."""
        self.at.fail(message, key)


@dataclass(frozen=True)
class Shapes:
    """The named resource shapes that the settings define."""

    shapes: Mapping[str, Mapping[str, object]]
    source: str

    def read(self, name: str, at: Where) -> tuple[dict[str, Any], Where] | None:
        """Return the shape that a role names, with its path."""
        if name not in self.shapes:
            return at.fail(self._unknown(name))
        place = Location(f"{self.source}, shape {name}")
        shape, inside = from_python(self.shapes[name], place), Where(f"shapes.{name}", at.notes)
        values = typed(shape, group(SHAPE), partial_schema(SHAPE), inside, place)
        return None if values is None else (values, inside)

    def _unknown(self, name: str) -> str:
        if not self.shapes:
            return (
                f"unknown shape {clip(name)}; the settings define none, so write cpus, memory "
                f"and gpus here"
            )
        near = closest(name, list(self.shapes))
        meant = (
            f"did you mean '{near}'?"
            if near
            else f"the settings define {', '.join(sorted(self.shapes))}"
        )
        return f"unknown shape {clip(name)}; {meant}"


def read_role(
    stated: Mapping[str, Any], name: str, at: Where, shapes: Shapes, shipper: Shipper
) -> RoleDraft:
    """Return one role.

    Args:
        stated: The values that the job spec states, None for a wrong one.
        name: The role's name in the job: chief if the user wrote master.
        at: The role's path.
        shapes: The shapes of the settings.
        shipper: Reads files of this host.
    """
    values = {key: value for key, value in stated.items() if key not in {*SHARED, "shape"}}
    shape = shapes.read(stated["shape"], at.member("shape")) if stated.get("shape") else None
    if shape is not None:
        values = _from_shape(*shape, at) | values
        if "memory_mib" not in values:
            hint = ROLE.rows["memory"].missing
            at.fail(f"missing; its shape has none either; {hint}", "memory")
    if values.get("python") is not None:
        values["python"] = read_python(values["python"], at.member("python"), shipper, "")
    if values.get("instances") is not None:
        values["instances"], values["elastic"] = values["instances"]
    return RoleDraft(name, at, read_layer(stated, at, shipper), values)


def _from_shape(values: dict[str, Any], inside: Where, at: Where) -> dict[str, Any]:
    """Return the resources of a shape, and record where they are stated."""
    places = at.notes.places
    for name in SHAPE.rows:
        found, own = places.get(inside.member(name).path), at.member(name).path
        if found is not None and places.get(own, BUILT_IN) == BUILT_IN:
            places[own] = found
    return values


# --- the keys that a job and its roles share ---


def read_layer(values: Mapping[str, Any], at: Where, shipper: Shipper) -> Layer:
    """Return the keys that a job and its roles share.

    Args:
        values: The mapping that states them, None for a wrong value.
        at: Its path.
        shipper: Reads files of this host.
    """
    layer = Layer(states=frozenset(values))
    layer.image = values.get("image")
    layer.command = values.get("command")
    layer.env = values.get("env") or {}
    layer.workdir = values.get("workdir") or ""
    layer.docker = values.get("docker") or {}
    layer.files = [
        Found(file, inside.path, inside.place)
        for item, inside in _located(values, "files", at)
        for file in shipper.ship(item, inside) or ()
    ]
    layer.mounts = [
        Found(mount, inside.path, inside.place) for mount, inside in _located(values, "mounts", at)
    ]
    merge_files([layer.files], at.notes)
    _refuse_same_target(layer.mounts, at.notes)
    return layer


def _located(values: Mapping[str, Any], name: str, at: Where) -> Iterator[tuple[Any, Where]]:
    """Yield the good items of a list with their paths."""
    for index, item in enumerate(values.get(name) or ()):
        if item is not None:
            yield item, at.member(name).item(index)


def _refuse_same_target(mounts: list[Found[Mount]], notes: Diagnostics) -> None:
    first: dict[str, Found[Mount]] = {}
    for found in mounts:
        earlier = first.setdefault(posixpath.normpath(found.value.target), found)
        if earlier is not found:
            notes.problem(
                found.place,
                found.path,
                f"{clip(found.value.target)} is already the target of {earlier.path}; drop "
                f"one, or choose another",
            )


def merge_mounts(layers: Iterable[list[Found[Mount]]]) -> list[Found[Mount]]:
    """Return the mounts of all layers; at the same target a later layer replaces an earlier one."""
    merged: dict[str, Found[Mount]] = {}
    for layer in layers:
        for found in layer:
            merged[posixpath.normpath(found.value.target)] = found
    return list(merged.values())


def merge_files(layers: Iterable[list[Found[AnyFile]]], notes: Diagnostics) -> list[Found[AnyFile]]:
    """Return the files of all layers; report two files with the same name, and a file with the name
    of another file's directory.
    """
    merged: dict[str, Found[AnyFile]] = {}
    directories: dict[str, Found[AnyFile]] = {}
    reported: set[str] = set()
    for found in (found for layer in layers for found in layer):
        name = found.value.name
        above = name.split("/")[:-1]
        parents = ["/".join(above[: depth + 1]) for depth in range(len(above))]
        clash = (
            merged.get(name)
            or directories.get(name)
            or next((merged[parent] for parent in parents if parent in merged), None)
        )
        if clash and found.path in reported:
            continue
        if clash:
            reported.add(found.path)
            message = f"{clip(name)} is already shipped by {clash.path}" + (
                "" if clash.value.name == name else f" as {clip(clash.value.name)}"
            )
            notes.problem(found.place, found.path, f"{message}; drop one, or give it another dst")
            continue
        merged[name] = found
        for parent in parents:
            directories.setdefault(parent, found)
    return list(merged.values())
