"""What a job and each of its roles may both state: image, command, env, files, mounts, docker; and how one adds to the other."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from submit_tf_job.job import Command, Mount, Place, ShippedFile
from submit_tf_job.specfile.docker import read_docker
from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.notes import Notes
from submit_tf_job.specfile.shipping import Shipper
from submit_tf_job.specfile.values import Section, Value

__all__ = ["ENV_NAME", "Found", "Layer", "merge_files", "merge_mounts", "read_layer"]

T = TypeVar("T")

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BLANK = re.compile(r"\s")
_MOUNT = "a mount such as /data:/data:ro"


@dataclass(frozen=True)
class Found(Generic[T]):
    """A value, and where the user wrote it."""

    value: T
    path: str
    place: Place


@dataclass
class Layer:
    """What one level (the site, the job, one role) says."""

    image: str | None = None
    command: Command | None = None
    states: frozenset[str] = frozenset()  # the keys that are there, right or wrong
    env: dict[str, str] = field(default_factory=dict)
    files: list[Found[ShippedFile]] = field(default_factory=list)
    mounts: list[Found[Mount]] = field(default_factory=list)
    docker: dict[str, Any] = field(default_factory=dict)


def read_layer(section: Section, shipper: Shipper) -> Layer:
    """Read the keys that a job and its roles share."""
    layer = Layer(states=section.keys)
    layer.image = section.optional("image", _image)
    layer.command = section.optional("command", read_command)
    env = section.get("env")
    for name, value in env.members('a mapping of names to text, as in {BATCH: "32"}') if env else ():
        text = _env_value(name, value)
        if text is not None:
            layer.env[name] = text
    files = section.get("files")
    for item in files.items("a list of paths") if files else ():
        shipped = shipper.ship(item)
        layer.files += [Found(file, item.path, item.place) for file in shipped or ()]
    mounts = section.get("mounts")
    for item in mounts.items(f"a list, each item {_MOUNT}") if mounts else ():
        mount = _mount(item)
        if mount is not None:
            layer.mounts.append(Found(mount, item.path, item.place))
    docker = section.get("docker")
    layer.docker = read_docker(docker) if docker else {}
    merge_files([layer.files], section.notes)
    _refuse_same_target(layer.mounts, section.notes)
    return layer


def _image(value: Value) -> str | None:
    text = value.text(expected="a Docker image")
    if text is not None and _BLANK.search(text):
        return value.fail(f"{clip(text)} holds a blank; write the image's name alone")
    return text


def read_command(value: Value) -> Command | None:
    """Read a command: a list is argv, text is for bash."""
    if not value.is_list:
        script = value.text(expected="text for bash, or a list of arguments")
        return None if script is None else Command(script=script)
    items = value.items("a list of arguments")
    if not items:
        return value.fail("the list is empty; its first item is the program, as in [python, train.py]")
    argv = [item.exact_text() for item in items]
    if any(argument is None for argument in argv):
        return None
    if not argv[0]:
        return items[0].fail("expected the program's name, found an empty one")
    return Command(argv=tuple(argument or "" for argument in argv))


def _env_value(name: str, value: Value) -> str | None:
    if not ENV_NAME.fullmatch(name):
        return value.fail(f"{clip(name)} is no name of an environment variable; use letters, digits and _, not first a digit")
    return value.exact_text()


def _mount(value: Value) -> Mount | None:
    text = value.text(expected=_MOUNT)
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        return value.fail(f"{clip(text)} is no mount; write /path/on/the/node:/path/in/the/container, and :rw behind it to write there")
    source, target, mode = parts[0], parts[1], parts[2] if len(parts) == 3 else "ro"
    if mode not in ("ro", "rw"):
        return value.fail(f"unknown mode {clip(mode)}; it is ro (to read, the default) or rw (to write, too)")
    for side in (source, target):
        if not side.startswith("/") or ".." in side.split("/"):
            return value.fail(f"{clip(side)} is not an absolute path without '..'; write it out from /")
    if posixpath.normpath(target) == "/":
        return value.fail("the container's root '/' cannot be a mount's target; name a directory below it")
    return Mount(source, target, read_only=mode == "ro")


def _refuse_same_target(mounts: list[Found[Mount]], notes: Notes) -> None:
    first: dict[str, Found[Mount]] = {}
    for found in mounts:
        earlier = first.setdefault(posixpath.normpath(found.value.target), found)
        if earlier is not found:
            notes.problem(
                found.place, found.path, f"{clip(found.value.target)} is already the target of {earlier.path}; drop one, or choose another"
            )


def merge_mounts(layers: Iterable[list[Found[Mount]]]) -> list[Found[Mount]]:
    """Add mounts up; at the same target the later layer, which is the more particular one, replaces the earlier."""
    merged: dict[str, Found[Mount]] = {}
    for layer in layers:
        for found in layer:
            merged[posixpath.normpath(found.value.target)] = found
    return list(merged.values())


def merge_files(layers: Iterable[list[Found[ShippedFile]]], notes: Notes) -> list[Found[ShippedFile]]:
    """Add files up; two of one name, or one where another needs a directory, are a problem."""
    merged: dict[str, Found[ShippedFile]] = {}
    directories: dict[str, Found[ShippedFile]] = {}
    told: set[str] = set()
    for found in (found for layer in layers for found in layer):
        name = found.value.name
        above = name.split("/")[:-1]
        parents = ["/".join(above[: depth + 1]) for depth in range(len(above))]
        clash = merged.get(name) or directories.get(name) or next((merged[parent] for parent in parents if parent in merged), None)
        if clash and found.path in told:
            continue
        if clash:
            told.add(found.path)
            message = f"{clip(name)} is already shipped by {clash.path}" + (
                "" if clash.value.name == name else f" as {clip(clash.value.name)}"
            )
            notes.problem(found.place, found.path, f"{message}; drop one, or give it another dst")
            continue
        merged[name] = found
        for parent in parents:
            directories.setdefault(parent, found)
    return list(merged.values())
