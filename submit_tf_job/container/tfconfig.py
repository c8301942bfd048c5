"""Cluster spec, ports and TF_CONFIG: the same file decides them on the submitting host and inside every container.

Standard library only, Python 3.7 and later. Everything is a pure function of its arguments.

What TensorFlow reads (tensorflow/python/distribute/cluster_resolver/tfconfig_cluster_resolver.py, the same in 2.15 and 2.21): the keys
`cluster` and `task`; `environment` is ignored since TensorFlow 2. What kills it is left out here once and for all: a role without
instances (`"ps": []` ends MultiWorkerMirroredStrategy with SIGSEGV) and an evaluator in the cluster (ParameterServerStrategy's
coordinator would wait for it for ever).
"""

from __future__ import annotations

import hashlib
import json

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs a container start some milliseconds, and names nothing at run time
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

# Order of the roles in the cluster spec, and of the ports. `master` is how TensorFlow 1 spelt chief.
CLUSTER_ROLES = ("chief", "worker", "ps")
EVALUATOR = "evaluator"
OWN_ADDRESS_PORT = 2222
RENDEZVOUS_OWN_ADDRESS_PORT = 2221


def host_name(role: str, index: int, service: str, user: str, domain: str | None) -> str:
    """Compose the name that Registry DNS gives a component instance (BaseServiceRecordProcessor: lower case)."""
    name = "%s-%d.%s.%s" % (role, index, service, user)
    return ("%s.%s" % (name, domain) if domain else name).lower()


def registry_user(user: str) -> str:
    """Map a user name as Hadoop's registry does (RegistryUtils.registryUser): no realm, no host, lower case, `_` becomes `-`."""
    return user.split("@")[0].split("/")[0].lower().replace("_", "-")


def split_instance(instance: str) -> tuple[str, int]:
    """Split `worker-3` into `("worker", 3)`; role names may themselves hold hyphens.

    Raises:
        ValueError: The text does not end in a hyphen and a number.
    """
    role, _, index = instance.rpartition("-")
    if not role or not index.isdigit():
        raise ValueError("%r is no component instance name such as worker-0" % (instance,))
    return role, int(index)


def ordinal(counts: Mapping[str, int], role: str, index: int) -> int:
    """Number the tasks of a job from 0: chief, workers, ps, evaluator, then the other roles by name.

    Tasks that were added to a sidecar while the job ran come after all that are counted.
    """
    if role not in counts:
        raise ValueError("no role %r in %s" % (role, sorted(counts)))
    order = role_order(counts)
    if index >= counts[role]:
        return sum(counts.values()) + (index - counts[role]) * len(order) + order.index(role)
    return sum(counts[name] for name in order[: order.index(role)]) + index


def role_order(counts: Collection[str]) -> list[str]:
    """Return the role names in the order in which tasks are numbered."""
    known = [name for name in CLUSTER_ROLES + (EVALUATOR,) if name in counts]
    return known + sorted(name for name in counts if name not in known)


def task_port(ports: Mapping[str, Any], counts: Mapping[str, int], submission: str, role: str, index: int) -> int:
    """Decide the port of one task.

    Args:
        ports: `{"mode": "own-address"}` where every container has an address of its own, or
            `{"mode": "host", "first": 20000, "last": 32767}` where containers share their node's address.
        counts: Role to number of tasks, for every role of the job.
        submission: The submission's id: two submissions on one host start at different places of the range.
        role: The task's role.
        index: The task's index, from 0.
    """
    if ports["mode"] == "own-address":
        return OWN_ADDRESS_PORT
    return _host_port(ports, submission, ordinal(counts, role, index) + 1)


def rendezvous_port(ports: Mapping[str, Any], submission: str) -> int:
    """Decide the port at which the deciding task's bootstrap listens."""
    if ports["mode"] == "own-address":
        return RENDEZVOUS_OWN_ADDRESS_PORT
    return _host_port(ports, submission, 0)


def _host_port(ports: Mapping[str, Any], submission: str, number: int) -> int:
    first, last = int(ports["first"]), int(ports["last"])
    span = last - first + 1
    base = int(hashlib.sha256(submission.encode("utf-8")).hexdigest()[:8], 16)
    return first + (base + number) % span


def cluster_counts(counts: Mapping[str, int], cluster_roles: Collection[str]) -> dict[str, int]:
    """Return the roles that stand in the cluster spec, with their counts: only those with at least one task."""
    return {role: counts[role] for role in CLUSTER_ROLES if role in cluster_roles and counts.get(role, 0) > 0}


def cluster_spec(
    counts: Mapping[str, int], cluster_roles: Collection[str], address: Callable[[str, int], str], legacy_master: bool = False
) -> dict[str, list[str]]:
    """Build the cluster spec.

    Args:
        counts: Role to number of tasks.
        cluster_roles: Which of the roles TensorFlow is to know of.
        address: `address(role, index)` gives `host:port`.
        legacy_master: Spell chief as `master`, for Estimators of TensorFlow 1.
    """
    spec: dict[str, list[str]] = {}
    for role, count in cluster_counts(counts, cluster_roles).items():
        name = "master" if legacy_master and role == "chief" else role
        spec[name] = [address(role, index) for index in range(count)]
    return spec


def tf_config(
    counts: Mapping[str, int],
    cluster_roles: Collection[str],
    role: str,
    index: int,
    address: Callable[[str, int], str],
    legacy_master: bool = False,
) -> str:
    """Build the value of TF_CONFIG for one task as compact JSON, or "" where TensorFlow needs none.

    A sidecar gets none, nor does a role outside the cluster other than the evaluator; a cluster of one task gets none either:
    TensorFlow then runs as a single process.
    """
    cluster = cluster_counts(counts, cluster_roles)
    if not (role in cluster or role == EVALUATOR) or (sum(cluster.values()) < 2 and EVALUATOR not in counts):
        return ""
    spec = cluster_spec(counts, cluster_roles, address, legacy_master)
    task = "master" if legacy_master and role == "chief" else role
    return json.dumps({"cluster": spec, "task": {"type": task, "index": index}}, separators=(",", ":"))
