"""TF_CONFIG and ports: exact values, and properties that hold for every job."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import tfconfig

CLUSTER = ("chief", "worker", "ps")
C, W0, W1, P = (f"{name}.j.u.lan:2222" for name in ("chief-0", "worker-0", "worker-1", "ps-0"))


def address(role: str, index: int) -> str:
    return f"{role}-{index}.j.u.lan:2222"


@pytest.mark.parametrize(
    ("counts", "task", "cluster"),
    [
        ({"chief": 1, "worker": 2}, "worker 1", {"chief": [C], "worker": [W0, W1]}),
        ({"worker": 2}, "worker 0", {"worker": [W0, W1]}),
        # the order is fixed
        ({"ps": 1, "worker": 1, "chief": 1}, "ps 0", {"chief": [C], "worker": [W0], "ps": [P]}),
        # no empty ps: MultiWorkerMirroredStrategy dies of it
        ({"chief": 1, "worker": 1, "ps": 0}, "chief 0", {"chief": [C], "worker": [W0]}),
        # the evaluator stands outside of the cluster
        ({"chief": 1, "worker": 1, "evaluator": 1}, "evaluator 0", {"chief": [C], "worker": [W0]}),
        ({"chief": 1, "evaluator": 1}, "chief 0", {"chief": [C]}),
        ({"chief": 1, "worker": 1}, "master 0", {"master": [C], "worker": [W0]}),
        ({"chief": 1, "worker": 1}, "worker 0 of a master", {"master": [C], "worker": [W0]}),
    ],
)  # fmt: skip
def test_tf_config(counts: dict[str, int], task: str, cluster: dict[str, list[str]]) -> None:
    name, index = task.split()[:2]
    role, legacy = name.replace("master", "chief"), "master" in task
    found = tfconfig.tf_config(counts, CLUSTER, role, int(index), address, legacy)
    value = {"cluster": cluster, "task": {"type": name, "index": int(index)}}
    assert found == json.dumps(value, separators=(",", ":"))


def test_tf_config_without_a_cluster_is_empty_and_calls_no_address() -> None:
    def unknown(role: str, index: int) -> str:
        raise AssertionError((role, index))

    for counts, role in (
        ({"worker": 1}, "worker"),
        ({"chief": 1, "board": 2}, "chief"),
        ({"chief": 1, "worker": 3, "board": 1}, "board"),
    ):
        assert tfconfig.tf_config(counts, CLUSTER, role, 0, unknown) == ""


@pytest.mark.parametrize("instance", ["worker", "-1", "worker-", "worker-x", "", "${INSTANCE}"])
def test_split_instance_refuses_other_text(instance: str) -> None:
    with pytest.raises(ValueError, match="is not a component instance name such as worker-0"):
        tfconfig.split_instance(instance)


# --- ports ----------------------------------------------------------------------------------------
HOST = {"mode": "host", "first": 20000, "last": 32767}


def test_ports_of_own_addresses_are_fixed_and_those_of_hosts_follow_one_another() -> None:
    own = {"mode": "own-address"}
    assert tfconfig.task_port(own, {"worker": 3}, "abc", "worker", 2) == 2222
    assert tfconfig.rendezvous_ports(own, "abc") == [2221]
    counts = {"worker": 2, "chief": 1, "ps": 1, "board": 1, "evaluator": 1}
    start = tfconfig.rendezvous_ports(HOST, "abc")[0]
    order = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0), ("board", 0)]
    assert [tfconfig.task_port(HOST, counts, "abc", *task) for task in order] == [
        start + 1 + i for i in range(6)
    ]


def test_added_sidecars_have_ports_of_their_own() -> None:
    counts = {"chief": 1, "worker": 2, "board": 1, "monitor": 2}
    added = [(name, index) for name in ("board", "monitor") for index in range(5)]
    assert len({tfconfig.task_port(HOST, counts, "abc", *task) for task in added}) == 10
    with pytest.raises(ValueError, match="no role 'ps'"):
        tfconfig.task_port(HOST, counts, "abc", "ps", 0)


ROLES = st.dictionaries(
    st.one_of(
        st.sampled_from(["chief", "worker", "ps", "evaluator"]),
        st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True),
    ),
    st.integers(1, 9),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@given(ROLES, st.text(max_size=20), st.integers(1024, 40000), st.integers(200, 20000))
def test_distinct_ports_in_range(counts: dict[str, int], run: str, first: int, span: int) -> None:
    ports = {"mode": "host", "first": first, "last": first + span - 1}
    found = [
        tfconfig.task_port(ports, counts, run, role, i)
        for role in counts
        for i in range(counts[role])
    ]
    found.append(tfconfig.rendezvous_ports(ports, run)[0])
    assert len(set(found)) == sum(counts.values()) + 1
    assert all(first <= port < first + span for port in found)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [11_312, 20_000, 100_000])
def test_ports_of_more_tasks_than_the_range_has(tasks: int) -> None:
    """Each port is planned equally often, and none of the rendezvous: the tasks of one node, whose
    numbers are mostly near, have different ones.
    """
    counts = {"chief": 1, "worker": tasks - 1}
    found = [tfconfig.task_port(HOST, counts, "abc", "chief", 0)]
    found += [tfconfig.task_port(HOST, counts, "abc", "worker", i) for i in range(tasks - 1)]
    distinct = tfconfig.distinct_ports(HOST)
    assert distinct == len(set(found)) == 11_312
    assert all(20000 <= port <= 32767 for port in found)
    assert set(tfconfig.rendezvous_ports(HOST, "abc")).isdisjoint(found)
    assert found == [found[number % distinct] for number in range(tasks)]


RANGES = st.tuples(st.integers(1024, 60000), st.integers(2, 5000)).map(
    lambda pair: {"mode": "host", "first": pair[0], "last": pair[0] + pair[1] - 1}
)


@pytest.mark.slow
@given(RANGES, st.text(max_size=20), st.integers(1, 100_000), st.integers(0, 2**32))
def test_a_task_of_any_job_and_range_can_go_elsewhere(
    ports: dict[str, int], run: str, tasks: int, number: int
) -> None:
    counts, every = {"worker": tasks}, range(ports["first"], ports["last"] + 1)
    meeting = tfconfig.rendezvous_ports(ports, run)
    own = tfconfig.task_port(ports, counts, run, "worker", number % tasks)
    others = tfconfig.other_ports(ports, run, own, tasks)
    for found in (meeting, others):
        assert len(set(found)) == len(found)
        assert set(found) <= set(every)
    assert len(meeting) == min(tfconfig.RENDEZVOUS_PORTS, len(every))
    assert len(others) >= min(tfconfig.TRIES, len(every)) - 2
    assert meeting[0] != own
    assert own not in others
    assert meeting[0] not in others
    step = max(tfconfig.STRIDE, tasks + 1) + 100  # a little more, where it divides the range
    if tasks + step <= len(every) and others:
        near = tfconfig.task_port(ports, counts, run, "worker", 0)
        assert others[0] not in range(near, near + tasks)
