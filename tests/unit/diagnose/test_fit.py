"""Whether all containers of a job fit into a cluster at once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.diagnose import fit
from submit_tf_job.jobspec.job import Elastic, Job, Placement, RoleKind
from submit_tf_job.yarn.inspection import Scheduler
from submit_tf_job.yarn.observed_cluster import Node
from tests.golden.fixed import make_job, make_role

GPU = "yarn.io/gpu"
GIB = 1024


def node(free: int, used: int = 0, gpus: int = 0, *labels: str, **changes: Any) -> Node:
    made = Node(f"n{free}:1", "n", "n:2", "RUNNING", used_memory_mib=used, labels=labels)
    known = {"available_memory_mib": free, "available_additional": {GPU: gpus} if gpus else {}}
    return replace(made, **{**known, **changes})


def job(*sizes: tuple[int, int], gpus: int = 0, label: str = "", **changes: Any) -> Job:
    """A job with a role for each number of tasks and their memory."""
    all_have = {"gpus": gpus, "placement": Placement(partition=label) if label else None}
    roles = (
        make_role(f"r{number}", instances=count, memory_mib=mib, **all_have)
        for number, (count, mib) in enumerate(sizes)
    )
    return make_job(*roles, **{"strategy": "custom", **changes})


def never(of: Job, *nodes: Node, scheduler: Scheduler | None = None) -> list[str]:
    return [found.sentence for found in fit.fits_never(of, GPU, nodes, scheduler)]


# --- nodes


def test_fits_never_memory_of_all_nodes() -> None:
    asked = job((1, 2 * GIB), (3, 4 * GIB))
    needs = "the job needs 14 GiB at once (r0 1 x 2 GiB and r1 3 x 4 GiB) and its "
    needs += "ApplicationMaster, and 2 nodes have 13 GiB in all"
    found = fit.fits_never(asked, GPU, [node(6 * GIB), node(6 * GIB, GIB)], None)
    assert found == (("roles.r1.memory", needs, "ask for less"),)
    assert not never(asked, node(8 * GIB), node(8 * GIB))


def test_fits_never_counts_the_least_number_of_an_elastic_role() -> None:
    role = make_role("r0", instances=8, memory_mib=GIB, elastic=Elastic(2))
    elastic = make_job(role, strategy="custom")
    assert not never(elastic, node(3 * GIB))
    assert "(r0 2 x 1 GiB)" in never(elastic, node(2 * GIB))[0]


def test_fits_never_labels() -> None:
    nodes = [node(8 * GIB), node(8 * GIB, 0, 0, "fast")]
    assert never(job((3, 3 * GIB), label="fast"), *nodes) == [
        "the job needs 9 GiB at once (r0 3 x 3 GiB), and 1 node labelled fast has 8 GiB in all"
    ]
    assert not never(job((3, 3 * GIB)), *nodes), "the label may be shared"
    slow = job((1, GIB), label="slow")
    assert never(slow, *nodes) == ["no node is labelled slow; the labels of nodes are fast"]
    assert never(slow, node(8 * GIB)) == ["no node is labelled slow; no node has a label"]
    assert not never(slow), "the nodes are not known"


def test_fits_never_spread() -> None:
    role = make_role("w", instances=3, memory_mib=1, placement=Placement(spread="node"))
    spread = make_job(role, strategy="custom")
    assert never(spread, node(GIB), node(GIB)) == [
        "each of 3 tasks of w needs a node of its own, and there are 2 nodes"
    ]
    assert not never(spread, node(GIB), node(GIB), node(GIB))


def test_fits_never_counts_nodes_that_may_come_back() -> None:
    lost = node(0, 0, state="LOST", total_memory_mib=9 * GIB)
    assert not never(job((9, GIB)), node(GIB), lost)
    assert never(job((9, GIB)), node(GIB), replace(lost, state="DECOMMISSIONED"))
    assert not never(job((9, GIB)))


def test_fits_never_ignores_what_is_not_waited_for() -> None:
    board = make_role("board", instances=9, memory_mib=GIB, kind=RoleKind.SIDECAR)
    assert not never(make_job(make_role("chief"), board), node(2 * GIB))


# memory, GPUs
SIZES = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=4)


@pytest.mark.slow
@given(tasks=SIZES, nodes=SIZES, master=st.integers(1, 2))
def test_fits_never_only_if_no_assignment_exists(
    tasks: list[tuple[int, int]], nodes: list[tuple[int, int]], master: int
) -> None:
    roles = [make_role(f"r{i}", memory_mib=mib, gpus=g) for i, (mib, g) in enumerate(tasks)]
    asked = make_job(*roles, strategy="custom")
    there = [node(mib, 0, gpus) for mib, gpus in nodes]
    if fit.fits_never(asked, GPU, there, None):
        assert not _assignment(tasks, nodes, master)


@given(
    count=st.integers(1, 5), mib=st.integers(2, 5), nodes=st.lists(st.integers(1, 9), min_size=1)
)
def test_fits_never_finds_what_equal_tasks_cannot(count: int, mib: int, nodes: list[int]) -> None:
    expected = sum(room // mib for room in nodes) < count or sum(nodes) <= count * mib
    assert bool(never(job((count, mib)), *map(node, nodes))) is expected


def _assignment(tasks: list[tuple[int, int]], nodes: list[tuple[int, int]], master: int) -> bool:
    """Try every way to put the tasks and the ApplicationMaster on nodes."""
    every = [*tasks, (master, 0)]
    for places in itertools.product(range(len(nodes)), repeat=len(every)):
        taken = [
            [
                sum(size[kind] for size, at in zip(every, places, strict=True) if at == number)
                for kind in (0, 1)
            ]
            for number in range(len(nodes))
        ]
        if all(
            used <= there
            for pair, room in zip(taken, nodes, strict=True)
            for used, there in zip(pair, room, strict=True)
        ):
            return True
    return False


# --- queues


def capacity(maximum: tuple[int, int], used: int = 0, **more: Any) -> Scheduler:
    amount = {"memory": maximum[0], "vCores": maximum[1], **more}
    ml = {
        "queueName": "ml",
        "capacities": {"queueCapacitiesByPartition": [{"effectiveMaxResource": amount}]},
        "resources": {"resourceUsagesByPartition": [{"used": {"memory": used, "vCores": 0}}]},
    }
    root = {"queueName": "root", "queues": {"queue": [ml]}}
    return Scheduler.from_json({"type": "capacityScheduler", **root})


def fair(maximum: tuple[int, int]) -> Scheduler:
    most = {"memory": maximum[0], "vCores": maximum[1]}
    ml = {"queueName": "root.ml", "maxResources": most, "usedResources": {"memory": 0, "vCores": 0}}
    root = {"queueName": "root", "childQueues": {"queue": [ml]}}
    return Scheduler.from_json({"type": "fairScheduler", "rootQueue": root})


FULL = "the job needs 4 GiB and 4 cores at once, and queue root.ml may have at most 2 GiB and "
FULL += "2 cores"


@pytest.mark.parametrize(
    ("scheduler", "sentence"),
    [
        (capacity((2 * GIB, 2)), FULL),
        (capacity((2 * GIB, 8)), ""),  # YARN compares the larger share: the cores have room
        (capacity((8 * GIB, 2)), ""),
        (capacity((0, 0)), ""),
        (fair((2 * GIB, 2)), FULL),
        (fair((2 * GIB, 8)), FULL.replace("2 cores", "8 cores")),
        (fair((8 * GIB, 4)), ""),
        (Scheduler.from_json({}), ""),
        (None, ""),
    ],
)
def test_fits_never_maximum_of_the_queue(scheduler: Scheduler | None, sentence: str) -> None:
    asked = job((4, GIB), queue="ml")
    room = node(64 * GIB)
    assert never(asked, room, scheduler=scheduler) == [sentence] * bool(sentence)
    assert not never(replace(asked, queue=None), room, scheduler=scheduler)
    assert not never(asked, room, node(GIB, 0, 0, "fast"), scheduler=scheduler)
    assert not never(asked, room, node(0, 0, state="LOST"), scheduler=scheduler)


# --- now


def test_fits_not_now() -> None:
    asked = job((2, 2 * GIB), queue="ml")
    assert fit.fits_not_now(asked, GPU, [node(3 * GIB, 5 * GIB)], None) == (
        "the job needs 4 GiB at once (r0 2 x 2 GiB) and its ApplicationMaster, and 1 node has "
        "3 GiB free now"
    )
    roomy = [node(9 * GIB)]
    assert fit.fits_not_now(asked, GPU, roomy, None) == ""
    assert fit.fits_not_now(asked, GPU, roomy, capacity((6 * GIB, 9), used=3 * GIB)) == (
        "the job needs 4 GiB at once (r0 2 x 2 GiB) and its ApplicationMaster, and queue root.ml "
        "may have 3 GiB more now"
    )
    assert fit.fits_not_now(asked, GPU, roomy, capacity((6 * GIB, 9))) == ""
