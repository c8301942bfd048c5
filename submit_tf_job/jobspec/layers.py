"""Read and merge the keys that the settings, a job and a role may all set: image, command, env,
files, mounts, docker.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from submit_tf_job.host.located.diagnostics import Diagnostics, Where
from submit_tf_job.host.located.nodes import Location, clip
from submit_tf_job.jobspec.files import Shipper
from submit_tf_job.jobspec.job import (
    Command,
    Mount,
    RemoteFile,
    ShippedFile,
)

__all__ = ["Found", "Layer", "merge_files", "merge_mounts", "read_layer"]

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
