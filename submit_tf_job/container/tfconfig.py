"""Cluster spec, ports and TF_CONFIG, computed in the same way on the submitting host and in every
container.

Standard library only, Python 3.6 and later. Every function is pure.

TensorFlow reads the keys `cluster` and `task`
(tensorflow/python/distribute/cluster_resolver/tfconfig_cluster_resolver.py, the same in 2.15 and
2.21) and ignores `environment` since TensorFlow 2. Two inputs that break it are left out: a role
without instances (`"ps": []` ends MultiWorkerMirroredStrategy with SIGSEGV), and an evaluator in
the cluster (ParameterServerStrategy's coordinator would wait for it forever).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Mapping
from math import gcd
from typing import Any

# Order of the roles in the cluster spec, and of the ports. TensorFlow 1 calls chief `master`.
CLUSTER_ROLES = ("chief", "worker", "ps")
EVALUATOR = "evaluator"
OWN_ADDRESS_PORT = 2222
RENDEZVOUS_OWN_ADDRESS_PORT = 2221
RENDEZVOUS_PORTS = 16  # on the host network, where other programs may have the first ones
TRIES = 100
STRIDE = 97  # between ports to try; those next to a task's own belong to its job


def split_instance(instance: str) -> tuple[str, int]:
    """Split `worker-3` into `("worker", 3)`; role names may contain hyphens.

    Raises:
        ValueError: The text does not end in a hyphen and a number.
    """
    role, _, index = instance.rpartition("-")
    if not role or not index.isdigit():
        raise ValueError(f"{instance!r} is not a component instance name such as worker-0")
    return role, int(index)


def ordinal(counts: Mapping[str, int], role: str, index: int) -> int:
    """Return a task's number in its job, from 0: chief, workers, ps, evaluator, other roles by
    name.

    Tasks that were added to a sidecar while the job ran come after all counted tasks.

    Raises:
        ValueError: The job has no such role.
    """
    if role not in counts:
        raise ValueError(f"no role {role!r} in {sorted(counts)}")
    order = role_order(counts)
    if index >= counts[role]:
        return sum(counts.values()) + (index - counts[role]) * len(order) + order.index(role)
    return sum(counts[name] for name in order[: order.index(role)]) + index


def role_order(counts: Collection[str]) -> list[str]:
    """Return the role names in the order in which tasks are numbered."""
    known = [name for name in CLUSTER_ROLES + (EVALUATOR,) if name in counts]
    return known + sorted(name for name in counts if name not in known)


def task_port(
    ports: Mapping[str, Any], counts: Mapping[str, int], run: str, role: str, index: int
) -> int:
    """Return the port of one task.

    Args:
        ports: `{"mode": "own-address"}` if every container has an address of its own, or `{"mode":
            "host", "first": 20000, "last": 32767}` if containers share their node's address.
        counts: Role to number of tasks, for every role of the job.
        run: The run's name: two runs on one host start at different offsets of the range.
        role: The task's role.
        index: The task's index, from 0.

    Raises:
        ValueError: On the host network: the job has no such role.
    """
    if ports["mode"] == "own-address":
        return OWN_ADDRESS_PORT
    number = ordinal(counts, role, index) % distinct_ports(ports) + 1
    first, span = _port_range(ports)
    return first + (_first_place(ports, run) + number) % span


def distinct_ports(ports: Mapping[str, Any]) -> int:
    """Return how many tasks of a job on the host network have ports of their own.

    Any further task has the same port as an earlier task. Two such tasks are seldom on one node; if
    they are, the second task takes another port.
    """
    _, span = _port_range(ports)
    # the ports of the rendezvous lie before the first task's
    between = span - 1 - (RENDEZVOUS_PORTS - 1) * STRIDE
    return between if between > span // 2 else span - 1


def rendezvous_ports(ports: Mapping[str, Any], run: str) -> list[int]:
    """Return the ports at which the deciding task's bootstrap may listen; it takes the first one
    that is free.
    """
    if ports["mode"] == "own-address":
        return [RENDEZVOUS_OWN_ADDRESS_PORT]
    first, _ = _port_range(ports)
    # before the first, because the job's tasks have the ports after it
    return ports_from(ports, first + _first_place(ports, run), -STRIDE, RENDEZVOUS_PORTS)


def other_ports(ports: Mapping[str, Any], run: str, port: int, tasks: int) -> list[int]:
    """Return the ports to try if a task's own port, `port`, is in use; [] if the task has an
    address of its own.

    The first port of the rendezvous is not included. Ports that belong to none of the job's `tasks`
    (their number) come first. `ports` and `run` are as for `task_port`.
    """
    if ports["mode"] == "own-address":
        return []
    _, span = _port_range(ports)
    step = max(STRIDE, tasks + 1) if tasks + 1 < span else STRIDE
    taken = (port, rendezvous_ports(ports, run)[0])
    return [other for other in ports_from(ports, port, step, TRIES) if other not in taken]


def ports_from(ports: Mapping[str, Any], port: int, step: int, most: int) -> list[int]:
    """Return at most `most` different ports of the range: first `port`, then others, each about
    `step` after the one before; the range is taken as a ring.
    """
    first, span = _port_range(ports)
    while gcd(step, span) > 1:  # it would come back to `port` before it has been everywhere
        step += 1
    return [first + (port - first + number * step) % span for number in range(min(most, span))]


def _port_range(ports: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first port of the range, and the number of its ports."""
    first, last = int(ports["first"]), int(ports["last"])
    return first, last - first + 1


def _first_place(ports: Mapping[str, Any], run: str) -> int:
    """Return the offset in the range at which the ports of a run begin."""
    return zlib.crc32(run.encode("utf-8")) % _port_range(ports)[1]


def cluster_counts(counts: Mapping[str, int], cluster_roles: Collection[str]) -> dict[str, int]:
    """Return the roles of the cluster spec that have tasks, with their counts."""
    return {
        role: counts[role]
        for role in CLUSTER_ROLES
        if role in cluster_roles and counts.get(role, 0) > 0
    }


def tf_config(
    counts: Mapping[str, int],
    cluster_roles: Collection[str],
    role: str,
    index: int,
    address: Callable[[str, int], str],
    legacy_master: bool = False,
) -> str:
    """Return the value of TF_CONFIG for one task as compact JSON, or "" if TensorFlow needs none.

    The result is "" for a sidecar, for a role that is outside the cluster and is not the evaluator,
    and for a cluster of one task without an evaluator, which TensorFlow runs as a single process.

    Args:
        counts: Role to number of tasks.
        cluster_roles: The roles that TensorFlow's cluster contains.
        role: The task's role.
        index: The task's index, from 0.
        address: `address(role, index)` returns `host:port`.
        legacy_master: Write chief as `master`, for programs of TensorFlow 1.
    """
    cluster = cluster_counts(counts, cluster_roles)
    if not (role in cluster or role == EVALUATOR) or (
        sum(cluster.values()) < 2 and EVALUATOR not in counts
    ):
        return ""
    written = {"chief": "master"} if legacy_master else {}
    spec = {
        written.get(name, name): [address(name, i) for i in range(count)]
        for name, count in cluster.items()
    }
    task = {"type": written.get(role, role), "index": index}
    return json.dumps({"cluster": spec, "task": task}, separators=(",", ":"))
