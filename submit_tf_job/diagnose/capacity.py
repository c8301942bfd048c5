"""Why no node takes a container: labels, placement, GPUs, size, health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from submit_tf_job.diagnose.model import Cause
from submit_tf_job.diagnose.situation import Ask, Situation, Wish, offer_of, total_of
from submit_tf_job.diagnose.words import listed, plural, resource
from submit_tf_job.yarn.observed import Node
from submit_tf_job.yarn.queues import NO_RESOURCE, Resource

__all__ = ["key_of", "room_causes"]

_GONE = ("LOST", "UNHEALTHY", "DECOMMISSIONED", "DECOMMISSIONING", "SHUTDOWN", "REBOOTED", "NEW")


def room_causes(situation: Situation) -> Iterator[Cause]:
    """Say why no node can take what the job asks for."""
    yield from _placement(situation)
    if situation.nodes is None:
        return
    if not situation.serving():
        yield _no_nodes(situation.nodes)
        return
    for ask in situation.asks:
        yield from _ask_causes(ask, situation)
    yield from _reserved(situation)


def key_of(ask: Ask, kind: str) -> str:
    """Name the key of the job spec that decides the size of an ask."""
    word = {"memory-mb": "memory", "vcores": "cpus"}.get(kind, "gpus" if "gpu" in kind else kind)
    return listed([f"roles.{role}.{word}" for role in ask.roles])


def _no_nodes(nodes: tuple[Node, ...]) -> Cause:
    counts = Counter(node.state or "UNKNOWN" for node in nodes)
    seen = listed([f"{counts[state]} {state}" for state in _GONE if counts[state]], limit=len(_GONE)) or "the ResourceManager knows none"
    facts = {"nodes": dict(counts)}
    sick = next((node for node in nodes if node.state == "UNHEALTHY"), None)
    if sick is not None:
        report = " ".join((sick.health_report or "").split())[:300]
        return Cause(
            "nodes-unhealthy",
            f"no node is fit for service ({seen}); {sick.host} says: {report or 'nothing'}",
            "an administrator has to mend the nodes; most often a disk is over 90 % full (yarn.nodemanager.disk-health-checker)",
            {**facts, "health_report": report},
        )
    return Cause("no-nodes", f"no NodeManager is in service: {seen}", "an administrator has to start NodeManagers", facts)


def _ask_causes(ask: Ask, situation: Situation) -> Iterator[Cause]:
    queue = situation.queue
    label = ask.label or (queue.default_label if queue else "")
    nodes = situation.serving(label)
    if not nodes:
        yield _no_labelled(ask, label, situation)
    elif label and _may_not_use(label, situation):
        yield _not_allowed(ask.who, label, situation)
    else:
        yield from _size(ask, nodes, situation)


def _may_not_use(label: str, situation: Situation) -> bool:
    """Whether the queue has no right to a label, or a right and no share: YARN then calls the queue full."""
    queue = situation.queue
    if queue is None or situation.scheduler is None or not situation.scheduler.is_capacity:
        return False
    return not queue.may_use(label) or not queue.has_share(label)


def _not_allowed(who: str, label: str, situation: Situation) -> Cause:
    queue = situation.queue
    path, labels = (queue.path, [item for item in queue.partitions if item and queue.has_share(item)]) if queue else ("", [])
    return Cause(
        "label-not-allowed",
        f"{who} must have nodes labelled {label}, of which queue {path} has no share"
        + (f"; it has one of those labelled {listed(labels)}" if labels else ""),
        f"choose another `queue`, or leave placement.node_label out; an administrator sets yarn.scheduler.capacity.{path}."
        f"accessible-node-labels and .accessible-node-labels.{label}.capacity",
        {"label": label, "queue": path, "labels": labels},
    )


def _no_labelled(ask: Ask, label: str, situation: Situation) -> Cause:
    known, have = _known_labels(situation)
    if not label:
        sentence = f"{ask.who} must have a node without a label, and there is none in service ({have})"
        return Cause("label-unknown", sentence, "choose a queue that may use a label, and set placement.node_label", {"labels": known})
    queue = situation.queue
    hint = "correct placement.node_label of the role, or have an administrator label nodes"
    if queue is not None and label == queue.default_label and not ask.label:
        hint = f"choose another `queue`; the label is yarn.scheduler.capacity.{queue.path}.default-node-label-expression"
    return Cause(
        "label-unknown",
        f"{ask.who} must have a node labelled {label}, and none in service is; {have}",
        hint,
        {"label": label, "labels": known},
    )


def _known_labels(situation: Situation) -> tuple[list[str], str]:
    known = sorted({item for node in situation.serving() for item in node.labels})
    return known, f"the nodes in service have {listed(known)}" if known else "no node in service has a label"


def _size(ask: Ask, nodes: tuple[Node, ...], situation: Situation) -> Iterator[Cause]:
    totals, offers = [total_of(node) for node in nodes], [offer_of(node) for node in nodes]
    devices = [name for name, count in ask.each.additional.items() if count]
    lacking = [name for name in devices if not any(total.amount(name) for total in totals)]
    if lacking:
        yield _no_devices(ask, lacking[0], nodes)
    elif not any(ask.each.fits(total) for total in totals):
        yield _too_large(ask, totals)
    elif not any(ask.each.fits(offer) for offer in offers):
        short = [name for name in devices if not any(ask.each.amount(name) <= offer.amount(name) for offer in offers)]
        yield _devices_busy(ask, short[0], totals, offers) if short else _no_room(ask, offers, situation)


def _no_devices(ask: Ask, name: str, nodes: tuple[Node, ...]) -> Cause:
    where = f"none of the {len(nodes)} nodes" if len(nodes) > 1 else f"the only node, {nodes[0].host},"
    return Cause(
        "gpu-none",
        f"{ask.who} {ask.verb} for {ask.each.amount(name)} {name}, and {where} has {'any' if len(nodes) > 1 else 'none'}",
        f"leave {key_of(ask, name)} out, or set gpu_resource to the cluster's name for them; an administrator adds them "
        "by yarn.nodemanager.resource-plugins",
        {"resource": name, "asked": ask.each.amount(name), "nodes": len(nodes)},
    )


def _devices_busy(ask: Ask, name: str, totals: list[Resource], offers: list[Resource]) -> Cause:
    free, there = [offer.amount(name) for offer in offers], sum(total.amount(name) for total in totals)
    return Cause(
        "gpu-busy",
        f"{ask.who} {ask.verb} for {ask.each.amount(name)} {name} on one node; "
        f"{sum(free)} of {there} are free, at most {max(free)} on one node",
        f"wait until others are done, or lower {key_of(ask, name)}",
        {"resource": name, "asked": ask.each.amount(name), "free": sum(free), "total": there, "largest_free": max(free)},
    )


def _too_large(ask: Ask, totals: list[Resource]) -> Cause:
    largest = _largest(totals)
    kinds = ask.each.lacking(largest) or ("memory-mb",)
    return Cause(
        "container-too-large",
        f"{ask.who} {ask.verb} for {resource(ask.each, kinds)} in one container, and the largest node has "
        f"{resource(largest, kinds)} in all: it can never start",
        f"lower {key_of(ask, kinds[0])}" if ask.roles else "an administrator has to lower yarn.service.am-resource.memory",
        {"asked": ask.each.to_json(), "largest_node": largest.to_json()},
    )


def _no_room(ask: Ask, offers: list[Resource], situation: Situation) -> Cause:
    largest = _largest(offers)
    free = sum(offers, NO_RESOURCE)
    kinds = ask.each.lacking(largest) or ("memory-mb",)
    spread = f", {resource(free, kinds)} on all {len(offers)} nodes together" if len(offers) > 1 and ask.each.fits(free) else ""
    return Cause(
        "no-room",
        f"{ask.who} {ask.verb} for {resource(ask.each, kinds)} in one container, and the node with most free has {resource(largest, kinds)}"
        f"{spread}{_holders(situation, kinds)}",
        f"wait until others are done, or lower {key_of(ask, kinds[0])}" if ask.roles else "wait until others are done",
        {"asked": ask.each.to_json(), "largest_free": largest.to_json(), "free": free.to_json(), "nodes": len(offers)},
    )


def _holders(situation: Situation, kinds: tuple[str, ...]) -> str:
    """Name the queues that hold the most of what is lacking."""
    used = (
        {queue.path: queue.partition().used or NO_RESOURCE for queue in situation.scheduler.queues if queue.is_leaf}
        if situation.scheduler
        else {}
    )
    most = sorted((item for item in used.items() if item[1].amount(kinds[0])), key=lambda item: -item[1].amount(kinds[0]))
    return f"; queue {listed([f'{path} has {resource(amount, kinds[:1])}' for path, amount in most])}" if most else ""


def _largest(amounts: list[Resource]) -> Resource:
    return max(amounts, key=lambda amount: (amount.memory_mib, amount.vcores))


def _reserved(situation: Situation) -> Iterator[Cause]:
    raw = situation.app.raw
    mib = raw.get("reservedMB")
    if isinstance(mib, int) and mib > 0:
        amount = Resource(mib, cores if isinstance(cores := raw.get("reservedVCores"), int) else 0)
        yield Cause(
            "reserved",
            f"YARN keeps {resource(amount)} of a node for it, and waits until that much is free there",
            "the containers that run there have to end first; smaller containers find room sooner",
            {"reserved": amount.to_json()},
        )


def _placement(situation: Situation) -> Iterator[Cause]:
    if situation.app.state.value != "RUNNING":
        return
    if situation.wishes and situation.placement_handler == "disabled":
        roles = listed([wish.role for wish in situation.wishes])
        # DisabledPlacementProcessor throws at every heartbeat of the AM, and no component of the service gets a container.
        yield Cause(
            "placement-disabled",
            f"the job asks for placement of {roles}, and this cluster refuses all such requests: none of its containers will ever start",
            f"leave placement out of {roles}; or yarn.resourcemanager.placement-constraints.handler: scheduler, in yarn-site.xml",
            {"handler": situation.placement_handler},
        )
    if situation.nodes is not None:
        yield from (cause for wish in situation.wishes for cause in _wish_causes(wish, situation))


def _wish_causes(wish: Wish, situation: Situation) -> Iterator[Cause]:
    nodes = situation.serving()
    for label in wish.partitions:
        known, have = _known_labels(situation)
        if label not in known:
            yield Cause(
                "label-unknown",
                f"{wish.role} must have nodes labelled {label}, and none in service is; {have}",
                f"correct roles.{wish.role}.placement.node_label, or have an administrator label nodes",
                {"label": label, "labels": known},
            )
        elif _may_not_use(label, situation):
            yield _not_allowed(wish.role, label, situation)
    places = {node.rack if wish.scope == "RACK" else node.id for node in nodes}
    if wish.type == "ANTI_AFFINITY" and wish.count > len(places):
        noun = "rack" if wish.scope == "RACK" else "node"
        yield Cause(
            "placement-impossible",
            f"{wish.role} wants each of its {wish.count} tasks on a {noun} of its own, and there {'is' if len(places) == 1 else 'are'} "
            f"{plural(len(places), noun)}",
            f"lower roles.{wish.role}.instances to {len(places)}, or leave roles.{wish.role}.placement out",
            {"tasks": wish.count, f"{noun}s": len(places)},
        )
