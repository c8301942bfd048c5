"""`top`: the free capacity, and whether a job would start now; random clusters are compared with
every distribution of its containers over nodes.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import pytest

import submit_tf_job
from tests.json_page import check
from tests.scenarios.conftest import ME
from tests.world import RM, World

GIB, GPU = 1024, "yarn.io/gpu"
CLUSTERS = 60  # of each seed


class Container(NamedTuple):
    role: str
    gib: int
    gpus: int
    label: str
    apart: bool


class Room(NamedTuple):
    free_gib: int
    total_gib: int
    free_gpus: int
    gpus: int
    label: str


def node_row(number: int, room: Room) -> dict[str, Any]:
    def resource(gib: int, gpus: int) -> dict[str, Any]:
        kinds = {"resourceInformation": [{"name": GPU, "value": gpus}]}
        return {"memory": gib * GIB, "vCores": 64, "resourceInformations": kinds}

    return {
        "id": f"node{number}:8041",
        "nodeHostName": f"node{number}",
        "nodeHTTPAddress": f"node{number}:8042",
        "state": "RUNNING",
        "nodeLabels": [room.label] if room.label else [],
        "availMemoryMB": room.free_gib * GIB,
        "usedMemoryMB": (room.total_gib - room.free_gib) * GIB,
        "availableVirtualCores": 64,
        "usedVirtualCores": 0,
        "availableResource": resource(room.free_gib, room.free_gpus),
        "usedResource": resource(room.total_gib - room.free_gib, room.gpus - room.free_gpus),
        "totalResource": resource(room.total_gib, room.gpus),
    }


def set_nodes(world: World, *rooms: Room, exclusive: bool = True) -> None:
    shares = [{"partitionName": name, "absoluteMaxCapacity": 100} for name in ("", "a100")]
    capacities = {"queueCapacitiesByPartition": shares}
    world.yarn.queue_limits = {"nodeLabels": ["*"], "capacities": capacities}
    rows = tuple(node_row(number, room) for number, room in enumerate(rooms))
    world.yarn.site = replace(world.yarn.site, node_rows=rows, exclusive_labels=exclusive)


def role_of(instances: int, gib: int, gpus: int, label: str, *, apart: bool) -> dict[str, Any]:
    placement: dict[str, Any] = {"node_label": label} if label else {}
    placement |= {"spread": "node"} if apart else {}
    found: dict[str, Any] = {"instances": instances, "memory": f"{gib}Gi", "gpus": gpus}
    return found | ({"placement": placement} if placement else {})


def job_of(**roles: dict[str, Any]) -> dict[str, Any]:
    top = {"name": "train", "image": "tf", "strategy": "custom", "command": "train"}
    return {**top, "deciding_role": "main", "roles": roles}


def fits(containers: list[Container], rooms: list[Room], *, free: bool, exclusive: bool) -> bool:
    """Return whether any distribution fits: all are tried."""
    allowed = [
        [
            at
            for at, room in enumerate(rooms)
            if room.label == one.label or not (one.label or exclusive)
        ]
        for one in containers
    ]
    for places in product(*allowed):
        found = list(zip(places, containers, strict=True))
        apart = [(at, one.role) for at, one in found if one.apart]
        if len(apart) == len(set(apart)) and all(
            sum(one.gib for place, one in found if place == at)
            <= (room.free_gib if free else room.total_gib)
            and sum(one.gpus for place, one in found if place == at)
            <= (room.free_gpus if free else room.gpus)
            for at, room in enumerate(rooms)
        ):
            return True
    return False


@pytest.mark.parametrize("seed", range(5))
def test_top_agrees_with_every_distribution(world: World, seed: int) -> None:
    chance = random.Random(seed)
    client = submit_tf_job.Client(resource_managers=[RM], user="alice")
    seen = set()
    for _ in range(CLUSTERS):
        rooms = []
        for label in ["", *chance.choices(["", "", "a100"], k=chance.randint(0, 3))]:
            total, gpus = chance.randint(2, 8), chance.choice([0, 2, 4])
            rooms.append(
                Room(chance.randint(0, total), total, chance.randint(0, gpus), gpus, label)
            )
        roles, containers = {}, [Container("", 1, 0, "", False)]
        for name in ["main", *chance.choices([["second"], []], k=1)[0]]:
            count, gib = chance.randint(1, 3), chance.randint(1, 4)
            gpus, label = chance.choice([0, 0, 1, 2]), chance.choice(["", "", "a100"])
            apart = chance.random() < 0.3
            roles[name] = role_of(count, gib, gpus, label, apart=apart)
            containers += [Container(name, gib, gpus, label, apart)] * count
        exclusive = chance.random() < 0.7
        set_nodes(world, *rooms, exclusive=exclusive)
        start = client.top(job_of(**roles)).start
        assert start is not None
        seen.add(start.when)
        case = (rooms, containers, start)
        told = any(room.gpus for room in rooms) or not any(one.gpus for one in containers)
        if fits(containers, rooms, free=True, exclusive=exclusive):
            assert start.when == "now", case
        elif told:
            assert start.when in ("waits", "never"), case
        else:
            assert start.when != "now", case
        if start.when == "never":
            assert not fits(containers, rooms, free=False, exclusive=exclusive), case
    assert {"now", "waits"} <= seen


A100 = Room(60, 64, 1, 4, "a100")
PLAIN = Room(6, 8, 0, 0, "")
WAITS: list[tuple[str, list[Room], dict[str, Any], int | None, str, str]] = [
    (
        "now",
        [PLAIN, A100],
        role_of(1, 8, 1, "a100", apart=False),
        None,
        "now",
        "it would start now",
    ),
    (
        "gpus",
        [PLAIN, A100, A100],
        role_of(5, 8, 1, "a100", apart=False),
        2400,
        "waits",
        "it waits for 3 GPUs on label a100; the first to end does so in 40m00s (its lifetime)",
    ),
    (
        "memory",
        [PLAIN],
        role_of(1, 6, 0, "", apart=False),
        None,
        "waits",
        "it waits for 1 GiB of memory; the first to end does so in 29d23h (its lifetime)",
    ),
    (
        "never",
        [PLAIN],
        role_of(1, 9, 0, "", apart=False),
        None,
        "never",
        "the job needs 9 GiB at once (main 1 x 9 GiB) and its ApplicationMaster, and 1 node has "
        "8 GiB in all",
    ),
    (
        "label",
        [PLAIN],
        role_of(1, 1, 0, "h100", apart=False),
        None,
        "never",
        "no node is labelled h100; no node has a label",
    ),
]


@pytest.mark.parametrize(
    ("rooms", "role", "left_s", "when", "sentence"),
    [w[1:] for w in WAITS],
    ids=[w[0] for w in WAITS],
)
def test_top_says_what_a_job_waits_for(
    kept: World,
    rooms: list[Room],
    role: dict[str, Any],
    left_s: int | None,
    when: str,
    sentence: str,
) -> None:
    lifetime = "" if left_s is None else f"lifetime: {left_s + 10}s\n"
    spec = "name: other\nimage: tf\nstrategy: single\ncommand: x\nroles: {worker: {memory: 1Gi}}\n"
    (kept.home / "other.yaml").write_text(spec + lifetime)
    assert kept("submit", "other.yaml", "-d").status == 0
    kept.passes(10)
    set_nodes(kept, *rooms)
    start = submit_tf_job.Client(resource_managers=[RM], user=ME).top(job_of(main=role)).start
    assert start is not None
    assert (start.when, start.sentence) == (when, sentence)


def test_top_shows_queues_labels_and_nodes(world: World) -> None:
    set_nodes(world, PLAIN, A100, A100)
    found = world("top", "-o", "json").json
    check("ClusterRoom", {**found, "start": {"when": "", "sentence": "", "first_end_s": 0}})
    assert found["start"] is None
    labelled = next(one for one in found["labels"] if one["label"] == "a100")
    assert (labelled["nodes"], labelled["free"][GPU], labelled["total"][GPU]) == (2, 2, 8)
    assert labelled["largest"] == 60 * GIB
    shown = world("top").out
    assert all(word in shown for word in ("a100", "120.0Gi of 128.0Gi", "2 of 8", "node0", "ml"))
    (world.home / "train.yaml").write_text(
        "name: t\nimage: tf\nstrategy: single\ncommand: x\nroles: {worker: {memory: 1Gi}}\n"
    )
    assert world("top", "train.yaml").out.splitlines()[-1] == "NOW  it would start now"
    more = ("top", "train.yaml", "--set", "roles.worker.memory=7Gi")
    assert world(*more).out.splitlines()[-1].startswith("WAITS  it waits for 2 GiB of memory")
    assert world("top", "nothing.yaml").status == 2
