"""Read `docker` of a job or a role: what Docker is told beyond image, network and mounts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.values import Value
from submit_tf_job.specfile.vocabulary import DOCKER

__all__ = ["read_docker"]

_RUNTIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# DockerLinuxContainerRuntime.TMPFS_MOUNT_PATTERN, without what cannot stand in a list.
_TMPFS = re.compile(r"/(?!(.*/)?\.\.(/|$))[^:,\s\0]+")
# … and its PORTS_MAPPING_PATTERN.
_PORTS = re.compile(r"((\d{1,3}(\.\d{1,3}){3}:)?(\d{1,5}))?:(\d{1,5})")


def read_docker(value: Value) -> dict[str, Any]:
    """Read the keys that are there, each None where it is wrong, which is noted."""
    if value.is_text:
        value.fail("expected a mapping such as {tmpfs: [/scratch]}; the image is said by `image`")
        return {}
    section = value.section(DOCKER, "a mapping such as {tmpfs: [/scratch]}")
    if section is None:
        return {}
    readers: dict[str, Callable[[Value], Any]] = {
        "entrypoint": Value.flag,
        "accounts": Value.flag,
        "tmpfs": lambda item: _list(item, "a list of directories", _directory),
        "publish": lambda item: _list(item, "a list of ports such as ':8080'", _ports),
        "runtime": lambda item: item.matching(_RUNTIME, "is no name of a runtime; write it alone, as in nvidia"),
    }
    return {key: section.optional(key, reader) for key, reader in readers.items() if section.has(key)}


def _list(value: Value, expected: str, reader: Callable[[Value], str | None]) -> tuple[str, ...]:
    return tuple(text for text in map(reader, value.items(expected)) if text is not None)


def _directory(value: Value) -> str | None:
    return value.matching(_TMPFS, "is no directory for a tmpfs; write an absolute path without '..', blanks, colons and commas")


def _ports(value: Value) -> str | None:
    text = value.exact_text()
    match = _PORTS.fullmatch(text or "")
    if text is not None and (not match or any(not 0 < int(port) < 65536 for port in (match[4] or "1", match[5]))):
        return value.fail(f"{clip(text)} is no mapping of ports; write ':8080' (any port of the node), or '18080:8080'")
    return text
