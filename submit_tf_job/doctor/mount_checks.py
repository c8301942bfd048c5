"""doctor --deep --file: what the host paths of a job's `mounts` are on the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import listed
from submit_tf_job.doctor.findings import Check, Subject

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Job, Mount
    from submit_tf_job.yarn.observed import Node

__all__ = ["check_mounts", "mounts_of", "nodes_for", "probed"]

_MOST_NODES = 20  # a container on each; larger clusters are sampled


def mounts_of(job: Job) -> tuple[Mount, ...]:
    """Return the mounts of all roles, each path of the node once; to write to, if any role does."""
    found: dict[str, Mount] = {}
    for mount in (mount for role in job.roles.values() for mount in role.mounts):
        if not mount.read_only or mount.source not in found:
            found[mount.source] = mount
    return tuple(found.values())


def probed(mounts: Sequence[Mount]) -> list[tuple[str, str, str]]:
    """Return path of the node, path in the probe's container and mode of each mount.

    Roles may mount different paths at the same place, so each has a place of its own here.
    """
    modes = ("ro" if mount.read_only else "rw" for mount in mounts)
    return [
        (mount.source, f"/doctor-mounts/{number}", mode)
        for number, (mount, mode) in enumerate(zip(mounts, modes, strict=True))
    ]


def nodes_for(nodes: Iterable[Node], partition: str | None, memory_mib: int) -> tuple[Node, ...]:
    """Return the nodes on which a container can start now, of the job's partition."""
    return tuple(
        node
        for node in nodes
        if node.state == "RUNNING"
        and (partition or "") in (node.labels or ("",))
        and (node.available_memory_mib or 0) >= memory_mib
    )[:_MOST_NODES]


def check_mounts(
    mounts: Sequence[Mount], answers: Sequence[Mapping[str, Any]], nodes: Sequence[Node]
) -> Iterator[Check]:
    """Judge what the tasks of the probe found at each path.

    Args:
        mounts: The mounts of the job.
        answers: What each task printed.
        nodes: All nodes that run.
    """
    names = _names(nodes)
    seen: dict[str, Mapping[str, Any]] = {}
    for answer in answers:
        found = answer.get("mounts") or {}
        if "paths" in found:
            seen[names.get(found["node"], found["node"])] = found["paths"]
    if not seen:
        return
    unseen = sorted(set(names.values()) - set(seen))
    for mount in mounts:
        yield _judge(
            mount.source, {node: seen[node][mount.source] for node in sorted(seen)}, unseen
        )


def _names(nodes: Sequence[Node]) -> dict[str, str]:
    """Return the name of each node by its id: the host, where there is one NodeManager on each."""
    hosts = [node.host for node in nodes]
    return {
        node.id: node.host if node.host and hosts.count(node.host) == 1 else node.id
        for node in nodes
    }


def _judge(path: str, found: Mapping[str, Mapping[str, str]], unseen: Sequence[str]) -> Check:
    groups: dict[tuple[str, str], list[str]] = {}
    for node, there in found.items():
        groups.setdefault((there["kind"], there["said"]), []).append(node)
    said = "; ".join(f"{what} on {listed(on)}" for (_kind, what), on in groups.items())
    said = f"{path}: {said}"
    if unseen:
        said += f"; not seen on {listed(unseen)}"
    about = Subject(
        "inside-mount", path=path, nodes={node: dict(is_) for node, is_ in found.items()}
    )
    by_kind: dict[str, list[str]] = {}
    for (kind, _what), on in groups.items():
        by_kind.setdefault(kind, []).extend(on)
    if "error" in by_kind:
        where = listed(by_kind["error"])
        return about.failure(
            said,
            f"tasks on {where}",
            f"correct the path, or mount it and let the job's user read it on {where}",
        )
    if {"mount", "directory"} <= set(by_kind):
        where = listed(by_kind["directory"])
        return about.failure(
            said,
            f"tasks on {where}: they read and write another directory than the others",
            f"mount it on {where}, or keep tasks away from there by `placement`",
        )
    if "directory" in by_kind:
        return about.warning(
            said,
            "sharing files between nodes: each has a directory of its own there",
            "nothing, if a local directory is meant; else mount the file system on the nodes",
        )
    return about.ok(said)
