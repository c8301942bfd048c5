"""TF_CONFIG and ports: exact strings, and properties that hold for every job."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import tfconfig

CLUSTER = ("chief", "worker", "ps")


def address(role: str, index: int) -> str:
    return f"{role}-{index}.j.u.lan:2222"


@pytest.mark.parametrize(
    ("counts", "role", "index", "legacy", "expected"),
    [
        pytest.param(
            {"chief": 1, "worker": 2},
            "worker",
            1,
            False,
            '{"cluster":{"chief":["chief-0.j.u.lan:2222"],"worker":["worker-0.j.u.lan:2222","worker-1.j.u.lan:2222"]},'
            '"task":{"type":"worker","index":1}}',
            id="chief and workers",
        ),
        pytest.param(
            {"worker": 2},
            "worker",
            0,
            False,
            '{"cluster":{"worker":["worker-0.j.u.lan:2222","worker-1.j.u.lan:2222"]},"task":{"type":"worker","index":0}}',
            id="workers only",
        ),
        pytest.param(
            {"ps": 1, "worker": 1, "chief": 1},
            "ps",
            0,
            False,
            '{"cluster":{"chief":["chief-0.j.u.lan:2222"],"worker":["worker-0.j.u.lan:2222"],"ps":["ps-0.j.u.lan:2222"]},'
            '"task":{"type":"ps","index":0}}',
            id="the order is fixed",
        ),
        pytest.param(
            {"chief": 1, "worker": 1, "ps": 0},
            "chief",
            0,
            False,
            '{"cluster":{"chief":["chief-0.j.u.lan:2222"],"worker":["worker-0.j.u.lan:2222"]},"task":{"type":"chief","index":0}}',
            id="no empty ps: MultiWorkerMirroredStrategy dies of it",
        ),
        pytest.param(
            {"chief": 1, "worker": 1, "evaluator": 1},
            "evaluator",
            0,
            False,
            '{"cluster":{"chief":["chief-0.j.u.lan:2222"],"worker":["worker-0.j.u.lan:2222"]},"task":{"type":"evaluator","index":0}}',
            id="the evaluator stands outside of the cluster",
        ),
        pytest.param(
            {"chief": 1, "evaluator": 1},
            "chief",
            0,
            False,
            '{"cluster":{"chief":["chief-0.j.u.lan:2222"]},"task":{"type":"chief","index":0}}',
            id="chief and evaluator",
        ),
        pytest.param(
            {"chief": 1, "worker": 1},
            "chief",
            0,
            True,
            '{"cluster":{"master":["chief-0.j.u.lan:2222"],"worker":["worker-0.j.u.lan:2222"]},"task":{"type":"master","index":0}}',
            id="legacy master, the task",
        ),
        pytest.param(
            {"chief": 1, "worker": 1},
            "worker",
            0,
            True,
            '{"cluster":{"master":["chief-0.j.u.lan:2222"],"worker":["worker-0.j.u.lan:2222"]},"task":{"type":"worker","index":0}}',
            id="legacy master, another task",
        ),
        pytest.param({"worker": 1}, "worker", 0, False, "", id="a single task is no cluster"),
        pytest.param({"chief": 1, "board": 1}, "chief", 0, False, "", id="nor with a sidecar"),
        pytest.param(
            {"chief": 1, "worker": 3, "board": 1}, "board", 0, False, "", id="a sidecar gets none"
        ),
    ],
)
def test_tf_config(
    counts: dict[str, int], role: str, index: int, legacy: bool, expected: str
) -> None:
    assert tfconfig.tf_config(counts, CLUSTER, role, index, address, legacy) == expected


def test_tf_config_without_a_cluster_calls_no_address() -> None:
    def unknown(role: str, index: int) -> str:
        raise AssertionError((role, index))

    assert tfconfig.tf_config({"chief": 1, "board": 2}, CLUSTER, "chief", 0, unknown) == ""
    assert (
        tfconfig.tf_config({"chief": 1, "worker": 2, "board": 2}, CLUSTER, "board", 0, unknown)
        == ""
    )


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        ("worker-3", ("worker", 3)),
        ("my-side-car-12", ("my-side-car", 12)),
        ("a-0", ("a", 0)),
        ("x-1-2", ("x-1", 2)),
    ],
)
def test_split_instance(instance: str, expected: tuple[str, int]) -> None:
    assert tfconfig.split_instance(instance) == expected


@pytest.mark.parametrize(
    "instance", ["worker", "-1", "worker-", "worker-x", "", "${COMPONENT_INSTANCE_NAME}"]
)
def test_split_instance_refuses_other_text(instance: str) -> None:
    with pytest.raises(ValueError, match="is not a component instance name such as worker-0"):
        tfconfig.split_instance(instance)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("alice", "alice"),
        ("Alice_B", "alice-b"),
        ("svc/host.example.com@EXAMPLE.COM", "svc"),
        ("bob@EXAMPLE.COM", "bob"),
    ],
)
def test_registry_user(user: str, expected: str) -> None:
    assert tfconfig.registry_user(user) == expected


def test_host_name() -> None:
    assert tfconfig.host_name("worker", 2, "Mnist", "alice", "Lan") == "worker-2.mnist.alice.lan"
    assert tfconfig.host_name("ps", 0, "mnist", "alice", None) == "ps-0.mnist.alice"


def test_task_port_with_own_addresses() -> None:
    ports = {"mode": "own-address"}
    assert tfconfig.task_port(ports, {"worker": 3}, "abc", "worker", 2) == 2222
    assert tfconfig.rendezvous_ports(ports, "abc") == [2221]


def test_task_port_on_the_host_network() -> None:
    ports = {"mode": "host", "first": 20000, "last": 32767}
    counts = {"worker": 2, "chief": 1, "ps": 1, "board": 1, "evaluator": 1}
    start = tfconfig.rendezvous_ports(ports, "abc")[0]
    order = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0), ("board", 0)]
    assert [tfconfig.task_port(ports, counts, "abc", *task) for task in order] == [
        start + 1 + i for i in range(6)
    ]


def test_ordinal_of_an_unknown_role() -> None:
    with pytest.raises(ValueError, match="no role 'x' in"):
        tfconfig.ordinal({"worker": 1}, "x", 0)


ROLES = st.dictionaries(
    st.one_of(
        st.sampled_from(["chief", "worker", "ps", "evaluator"]),
        st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True),
    ),
    st.integers(1, 30),
    min_size=1,
    max_size=6,
)


@given(ROLES, st.text(max_size=20), st.integers(1024, 40000), st.integers(200, 20000))
def test_ports_are_distinct_and_in_range(
    counts: dict[str, int], submission: str, first: int, span: int
) -> None:
    ports = {"mode": "host", "first": first, "last": first + span - 1}
    found = [
        tfconfig.task_port(ports, counts, submission, role, i)
        for role in counts
        for i in range(counts[role])
    ]
    found.append(tfconfig.rendezvous_ports(ports, submission)[0])
    assert len(set(found)) == sum(counts.values()) + 1
    assert all(first <= port < first + span for port in found)


HOST = {"mode": "host", "first": 20000, "last": 32767}


@pytest.mark.parametrize("tasks", [12_476, 20_000, 100_000])
def test_ports_of_more_tasks_than_the_range_has(tasks: int) -> None:
    """Each port is planned equally often, and none of the rendezvous: the tasks of one node, whose
    numbers are mostly near, have different ones.
    """
    counts = {"chief": 1, "worker": tasks - 1}
    found = [tfconfig.task_port(HOST, counts, "abc", "chief", 0)]
    found += [tfconfig.task_port(HOST, counts, "abc", "worker", i) for i in range(tasks - 1)]
    distinct = tfconfig.distinct_ports(HOST)
    assert distinct == len(set(found)) == 12_476
    assert all(20000 <= port <= 32767 for port in found)
    assert set(tfconfig.rendezvous_ports(HOST, "abc")).isdisjoint(found)
    assert found == [found[number % distinct] for number in range(tasks)]


RANGES = st.tuples(st.integers(1024, 60000), st.integers(2, 5000)).map(
    lambda pair: {"mode": "host", "first": pair[0], "last": pair[0] + pair[1] - 1}
)


@given(RANGES, st.text(max_size=20), st.integers(1, 100_000), st.integers(0, 2**32))
def test_a_task_of_any_job_and_range_can_go_elsewhere(
    ports: dict[str, int], submission: str, tasks: int, number: int
) -> None:
    counts, every = {"worker": tasks}, range(ports["first"], ports["last"] + 1)
    meeting = tfconfig.rendezvous_ports(ports, submission)
    own = tfconfig.task_port(ports, counts, submission, "worker", number % tasks)
    others = tfconfig.other_ports(ports, submission, own, tasks)
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
        near = tfconfig.task_port(ports, counts, submission, "worker", 0)
        planned = range(near, near + tasks)
        assert others[0] not in planned


@given(ROLES, st.booleans())
def test_tf_config_of_all_tasks_is_one_cluster(counts: dict[str, int], legacy: bool) -> None:
    clusters = set()
    for role, count in counts.items():
        for index in (0, count - 1):
            text = tfconfig.tf_config(counts, CLUSTER, role, index, address, legacy)
            if not text:
                continue
            value = json.loads(text)
            clusters.add(json.dumps(value["cluster"]))
            assert set(value) == {"cluster", "task"}
            assert all(value["cluster"].values())
            assert "evaluator" not in value["cluster"]
            assert value["task"]["index"] == index
            if role != "evaluator":
                assert value["cluster"][value["task"]["type"]][index] == address(role, index)
    assert len(clusters) <= 1


@given(ROLES)
def test_split_instance_inverts_the_name(counts: dict[str, int]) -> None:
    for role, count in counts.items():
        assert tfconfig.split_instance(f"{role}-{count}") == (role, count)


def test_added_sidecars_have_ports_of_their_own() -> None:
    counts = {"chief": 1, "worker": 2, "board": 1, "monitor": 2}
    found = [
        tfconfig.ordinal(counts, role, index)
        for role, index in [*[("board", i) for i in range(5)], *[("monitor", i) for i in range(5)]]
    ]
    assert len(set(found)) == 10
    assert sorted(found)[:3] == [3, 4, 5]
    with pytest.raises(ValueError, match="no role 'ps'"):
        tfconfig.ordinal(counts, "ps", 0)
