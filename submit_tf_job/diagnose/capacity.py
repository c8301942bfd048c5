"""Find why no node can run the job's containers: labels, placement, GPUs, size, health, or
images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from submit_tf_job.diagnose.amounts import clause, listed, plural, resource
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.situation import (
    PendingRequest,
    PlacementRequest,
    Situation,
    free_of,
    total_of,
)
from submit_tf_job.yarn.inspection import NO_RESOURCE, QueueResources
from submit_tf_job.yarn.observed import whole_of
from submit_tf_job.yarn.observed_cluster import Node

_GONE = ("LOST", "UNHEALTHY", "DECOMMISSIONED", "DECOMMISSIONING", "SHUTDOWN", "REBOOTED", "NEW")


def capacity_causes(situation: Situation) -> Iterator[Cause]:
    """Yield the causes, in nodes and placement, for which the job's pending containers run on no
    node.
    """
    yield from _placement_troubles(situation)
    if situation.nodes is None:
        return
    if not situation.serving():
        yield _no_nodes(situation.nodes)
        return
    for ask in situation.asks:
        yield from _ask_causes(ask, situation)
    yield from _reserved_containers(situation)


def key_of(ask: PendingRequest, kind: str) -> str:
    """Return the job spec keys, one for each role, that set how much of a resource the pending
    containers get; `kind` is the name of the resource in YARN.
    """
    word = {"memory-mb": "memory", "vcores": "cpus"}.get(kind, "gpus")
    return listed([f"roles.{role}.{word}" for role in ask.roles])


def _no_nodes(nodes: tuple[Node, ...]) -> Cause:
    counts = Counter(node.state or "UNKNOWN" for node in nodes)
    seen = (
        listed([f"{counts[state]} {state}" for state in _GONE if counts[state]], limit=len(_GONE))
        or "the ResourceManager lists none"
    )
    facts = {"nodes": dict(counts)}
    sick = next((node for node in nodes if node.state == "UNHEALTHY"), None)
    if sick is not None:
        report = " ".join((sick.health_report or "").split())[:300]
        hint = (
            "an administrator has to mend the nodes; most often a disk is over 90 % full "
            "(yarn.nodemanager.disk-health-checker)"
        )
        if "unrecoverable exception" in report:  # LinuxContainerExecutor
            hint = (
                "an administrator has to restart the NodeManager there: "
                "container-executor failed, or a program ended with "
                "22 or 24, which YARN takes for that"
            )
        return Cause(
            "nodes-unhealthy",
            f"no node is fit for service ({seen}); {sick.host} says: {report or 'nothing'}",
            hint,
            {**facts, "health_report": report},
        )
    return Cause(
        "no-nodes",
        f"no NodeManager is in service: {seen}",
        "an administrator has to start NodeManagers",
        facts,
    )


def _ask_causes(ask: PendingRequest, situation: Situation) -> Iterator[Cause]:
    label = ask.label or situation.queue.default_label
    nodes = situation.serving(label)
    if not nodes:
        yield _no_labelled(ask, label, situation)
    elif label and _may_not_use(label, situation):
        yield _not_allowed(ask.who, label, situation)
    else:
        yield from _size_causes(ask, nodes, situation)


def _may_not_use(label: str, situation: Situation) -> bool:
    """Return whether the queue may not use a label, or has no share of it; YARN then reports the
    queue as full. False for any scheduler but the CapacityScheduler.
    """
    queue = situation.queue
    if not queue.path or not situation.scheduler.is_capacity:
        return False
    return not queue.may_use(label) or not queue.has_share(label)


def _not_allowed(who: str, label: str, situation: Situation) -> Cause:
    queue, path = situation.queue, situation.queue.path
    labels = [name for name in queue.partitions if name and queue.has_share(name)]
    return Cause(
        "label-not-allowed",
        f"{who} must have nodes labelled {label}, of which queue {path} has no share"
        f"{clause('; it has one of those labelled {}', listed(labels))}",
        f"choose another `queue`, or leave placement.node_label out; an administrator sets "
        f"yarn.scheduler.capacity.{path}."
        f"accessible-node-labels and .accessible-node-labels.{label}.capacity",
        {"label": label, "queue": path, "labels": labels},
    )


def _no_labelled(ask: PendingRequest, label: str, situation: Situation) -> Cause:
    known, have = _known_labels(situation)
    if not label:
        return Cause(
            "label-unknown",
            f"{ask.who} must have a node without a label, and there is none in service ({have})",
            "choose a queue that may use a label, and set placement.node_label",
            {"labels": known},
        )
    queue = situation.queue
    hint = "correct placement.node_label of the role, or have an administrator label nodes"
    if label == queue.default_label and not ask.label:
        hint = (
            f"choose another `queue`; the label is "
            f"yarn.scheduler.capacity.{queue.path}.default-node-label-expression"
        )
    return Cause(
        "label-unknown",
        f"{ask.who} must have a node labelled {label}, and none in service is; {have}",
        hint,
        {"label": label, "labels": known},
    )


def _known_labels(situation: Situation) -> tuple[list[str], str]:
    known = sorted({item for node in situation.serving() for item in node.labels})
    if not known:
        return known, "no node in service has a label"
    return known, f"the nodes in service have {listed(known)}"


def _size_causes(
    ask: PendingRequest, nodes: tuple[Node, ...], situation: Situation
) -> Iterator[Cause]:
    totals = [total_of(node) for node in nodes]
    offers = [free_of(node) or NO_RESOURCE for node in nodes]
    devices = [name for name, count in ask.each.additional.items() if count]
    lacking = [name for name in devices if not any(total.amount(name) for total in totals)]
    if lacking:
        yield _no_devices(ask, lacking[0], nodes)
    elif not any(ask.each.fits(total) for total in totals):
        yield _too_large(ask, totals)
    elif not any(ask.each.fits(offer) for offer in offers):
        short = [
            name
            for name in devices
            if not any(ask.each.amount(name) <= offer.amount(name) for offer in offers)
        ]
        if short:
            yield _devices_busy(ask, short[0], totals, offers)
        else:
            yield _no_room(ask, offers, situation)


def _no_devices(ask: PendingRequest, name: str, nodes: tuple[Node, ...]) -> Cause:
    where = f"the only node, {nodes[0].host}, has none"
    if len(nodes) > 1:
        where = f"none of the {len(nodes)} nodes has any"
    return Cause(
        "gpu-none",
        f"{ask.who} {ask.verb} for {ask.each.amount(name)} {name}, and {where}",
        f"leave {key_of(ask, name)} out, or set gpu_resource to the cluster's name for "
        f"them; an administrator adds them "
        "by yarn.nodemanager.resource-plugins",
        {"resource": name, "asked": ask.each.amount(name), "nodes": len(nodes)},
    )


def _devices_busy(
    ask: PendingRequest, name: str, totals: list[QueueResources], offers: list[QueueResources]
) -> Cause:
    free = [offer.amount(name) for offer in offers]
    there = sum(total.amount(name) for total in totals)
    return Cause(
        "gpu-busy",
        f"{ask.who} {ask.verb} for {ask.each.amount(name)} {name} on one node; "
        f"{sum(free)} of {there} are free, at most {max(free)} on one node",
        f"wait until others are done, or lower {key_of(ask, name)}",
        {
            "resource": name,
            "asked": ask.each.amount(name),
            "free": sum(free),
            "total": there,
            "largest_free": max(free),
        },
    )


def _too_large(ask: PendingRequest, totals: list[QueueResources]) -> Cause:
    largest = _largest_amount(totals)
    kinds = ask.each.lacking(largest) or ("memory-mb",)
    advice = "an administrator has to lower yarn.service.am-resource.memory"
    if ask.roles:
        advice = f"lower {key_of(ask, kinds[0])}"
    return Cause(
        "container-too-large",
        f"{ask.who} {ask.verb} for {resource(ask.each, kinds)} in one container, and the "
        f"largest node has "
        f"{resource(largest, kinds)} in all: it can never start",
        advice,
        {"asked": ask.each.to_json(), "largest_node": largest.to_json()},
    )


def _no_room(ask: PendingRequest, offers: list[QueueResources], situation: Situation) -> Cause:
    largest = _largest_amount(offers)
    free = sum(offers, NO_RESOURCE)
    kinds = ask.each.lacking(largest) or ("memory-mb",)
    spread, advice = "", "wait until others are done"
    if ask.roles:
        advice += f", or lower {key_of(ask, kinds[0])}"
    if len(offers) > 1 and ask.each.fits(free):
        spread = f", {resource(free, kinds)} on all {len(offers)} nodes together"
    return Cause(
        "no-room",
        f"{ask.who} {ask.verb} for {resource(ask.each, kinds)} in one container, and the "
        f"node with most free has {resource(largest, kinds)}"
        f"{spread}{_queues_that_hold(situation, kinds)}",
        advice,
        {
            "asked": ask.each.to_json(),
            "largest_free": largest.to_json(),
            "free": free.to_json(),
            "nodes": len(offers),
        },
    )


def _queues_that_hold(situation: Situation, kinds: tuple[str, ...]) -> str:
    """Return the end of a sentence: the queues whose jobs use most of the first of the resources
    that are missing; "" if none uses any.
    """
    queues = situation.scheduler.queues
    used = [(q.path, q.partition().used or NO_RESOURCE) for q in queues if q.is_leaf]
    most = sorted(
        (item for item in used if item[1].amount(kinds[0])),
        key=lambda item: -item[1].amount(kinds[0]),
    )
    words = [f"{path} has {resource(amount, kinds[:1])}" for path, amount in most]
    return clause("; queue {}", listed(words))


def _largest_amount(amounts: list[QueueResources]) -> QueueResources:
    return max(amounts, key=lambda amount: (amount.memory_mib, amount.vcores))


def _reserved_containers(situation: Situation) -> Iterator[Cause]:
    raw = situation.app.raw
    amount = QueueResources(whole_of(raw, "reservedMB") or 0, whole_of(raw, "reservedVCores") or 0)
    if amount.memory_mib > 0:
        yield Cause(
            "reserved",
            f"YARN keeps {resource(amount)} of a node for it, and waits until that much is "
            f"free there",
            "the containers that run there have to end first; smaller containers find room sooner",
            {"reserved": amount.to_json()},
        )


def _placement_troubles(situation: Situation) -> Iterator[Cause]:
    if situation.app.state.value != "RUNNING":
        return
    if situation.placements and situation.placement_handler == "disabled":
        roles = listed([placement.role for placement in situation.placements])
        # DisabledPlacementProcessor throws at every heartbeat of the AM, and no component of the
        # service gets a container.
        yield Cause(
            "placement-disabled",
            f"the job asks for placement of {roles}, and this cluster refuses all such "
            f"requests: none of its containers will ever start",
            f"leave placement out of {roles}; or "
            f"yarn.resourcemanager.placement-constraints.handler: scheduler, in "
            f"yarn-site.xml",
            {"handler": situation.placement_handler},
        )
    if situation.nodes is not None:
        for placement in situation.placements:
            yield from _placement_causes(placement, situation)


def _placement_causes(request: PlacementRequest, situation: Situation) -> Iterator[Cause]:
    nodes = situation.serving()
    for label in request.partitions:
        known, have = _known_labels(situation)
        if label not in known:
            yield Cause(
                "label-unknown",
                f"{request.role} must have nodes labelled {label}, and none in service is; {have}",
                f"correct roles.{request.role}.placement.node_label, or have an administrator "
                f"label nodes",
                {"label": label, "labels": known},
            )
        elif _may_not_use(label, situation):
            yield _not_allowed(request.role, label, situation)
    noun = "node"
    places: set[str | None] = {node.id for node in nodes}
    if request.scope == "RACK":
        noun, places = "rack", {node.rack for node in nodes}
    if request.type == "ANTI_AFFINITY" and request.count > len(places):
        verb = {1: "is"}.get(len(places), "are")
        yield Cause(
            "placement-impossible",
            f"{request.role} wants each of its {request.count} tasks on a {noun} of its own, and "
            f"there {verb} {plural(len(places), noun)}",
            f"lower roles.{request.role}.instances to {len(places)}, or leave "
            f"roles.{request.role}.placement out",
            {"tasks": request.count, f"{noun}s": len(places)},
        )


# --- images, by the configuration of a NodeManager ---

_EXECUTOR = "yarn.nodemanager.container-executor.class"
_RUNTIMES = "yarn.nodemanager.runtime.linux.allowed-runtimes"

_PLAIN = "containers are plain processes (DefaultContainerExecutor)"


def ways_out(why: str = _PLAIN) -> str:
    """Return the possible solutions of the problem that `why_no_images` has found."""
    own = "`image: none` runs the command as a plain process on purpose"
    # LinuxContainerExecutor refuses a container whose runtime is not allowed (seen on 3.4.2)
    spite = (
        "`image_policy: warn`, in the job spec or in the settings' `job`, runs it without the image"
    )
    admin = f"the cluster's administrator adds docker to {_RUNTIMES}, with LinuxContainerExecutor"
    return "; or ".join([own, *([spite] if why == _PLAIN else []), admin])


def why_no_images(read: Callable[[str], str | None]) -> str:
    """Return why a NodeManager runs no images; "" if it does run them, or if that is not known.

    Args:
        read: Returns a property of the NodeManager's configuration, with Hadoop's defaults; None
            for a property that is not known.
    """
    executor = read(_EXECUTOR) or ""
    if executor.endswith(".DefaultContainerExecutor"):
        return _PLAIN
    if not executor.endswith(".LinuxContainerExecutor"):
        return ""
    runtimes = read(_RUNTIMES)
    if runtimes is not None and "docker" not in runtimes:
        return "the Docker runtime is not allowed"
    return ""
