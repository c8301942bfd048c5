"""Starting and ending daemons: the order, what is waited for, what is ended when one fails. No
daemon runs here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import daemons, shutdown, startup
from submit_tf_job.sandbox.options import ALL_DAEMONS, DAEMONS, NODEMANAGERS
from submit_tf_job.sandbox.processes import Process
from submit_tf_job.sandbox.saved_state import Layout, SandboxState, load_state
from submit_tf_job.sandbox.shutdown import end_everything
from submit_tf_job.sandbox.startup import START_TIMEOUT_S, start_daemons
from submit_tf_job.sandbox.web import NotWell
from tests.fakes.sandbox import state_of


class World:
    """Daemons that start, are well after some questions, or die; and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.layout = Layout(root)
        self.layout.make()
        self.did: list[str] = []
        self.sick: dict[str, int] = {}
        self.dies: set[str] = set()
        self.pids: dict[int, str] = {}
        self.now = 0.0
        patches: list[tuple[object, str, object]] = [
            (daemons, "start", self._start),
            (daemons, "format_namenode", lambda state, layout, environ: self.did.append("format")),
            (daemons, "check", self._check),
            (daemons, "check_registered", lambda _, state: self._check("registration", state)),
            (startup, "prepare_hdfs", lambda state, layout: self.did.append("directories")),
            (startup, "is_alive", lambda process: self.pids[process.pid] not in self.dies),
            (startup, "end", self._end),
            (startup, "end_everything", lambda layout: self.did.append("end everything")),
            (startup, "containers", lambda layout, node: [Process(76 + node, 1)]),
            (startup, "monotonic", lambda: self.now),
            (startup, "sleep", self._sleep),
        ]
        for target, name, value in patches:
            monkeypatch.setattr(target, name, value)

    def _start(
        self, name: str, state: SandboxState, layout: Layout, environ: Mapping[str, str]
    ) -> Process:
        self.did.append(name)
        pid = 100 + len(self.pids)
        self.pids[pid] = name
        layout.log(name).write_text(f"last words of {name}\n")
        return Process(pid, 1)

    def _check(self, name: str, state: SandboxState) -> None:
        if name in self.dies:
            raise NotWell("connection refused")
        if self.sick.get(name, 0):
            self.sick[name] -= 1
            raise NotWell("not yet")

    def _end(self, processes: Iterable[Process], grace_s: float) -> None:
        self.did.append(
            "end " + ",".join(self.pids.get(process.pid, str(process.pid)) for process in processes)
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def state(self, **changes: object) -> SandboxState:
        return state_of(**{"dns_port": 10074, "memory_mib": 1, **changes})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_a_first_start_formats_while_others_come_up(world: World) -> None:
    world.sick = {"namenode": 3, "resourcemanager": 5, "registration": 2}
    said: list[str] = []
    state = start_daemons(DAEMONS, world.state(), world.layout, {}, said.append)
    others = ["zookeeper", "resourcemanager", "nodemanager", "registrydns"]
    assert world.did == [*others, "format", "namenode", "datanode", "directories"]
    assert sum(world.sick.values()) == 0, "everything was waited for"
    assert set(state.daemons) == set(DAEMONS)
    assert load_state(world.layout) == state
    assert said == [f"starting {', '.join(DAEMONS)}", "HDFS is up"]


def test_the_kdc_is_well_before_anybody_logs_in(world: World) -> None:
    world.sick = {"kdc": 3}
    state = world.state(modes=("kerberos", "ha"))
    start_daemons(state.daemon_names, state, world.layout, {}, lambda _: None)
    others = ["zookeeper", "resourcemanager", "resourcemanager2", "nodemanager", "registrydns"]
    assert world.did == ["kdc", *others, "format", "namenode", "datanode", "directories"]
    assert world.sick["kdc"] == 0


def test_what_was_ended_with_the_kdc_is_not_missed_before_its_turn(world: World) -> None:
    world.sick = {"kdc": 3}
    state = world.state(modes=("kerberos",), ready=True)
    for number, name in enumerate(state.daemon_names):
        world.pids[number] = "ended before"
        state = state.with_daemon(name, Process(number, 1))
    world.dies = {"ended before"}
    start_daemons(state.daemon_names, state, world.layout, {}, lambda _: None)
    assert world.did[0] == "kdc"
    assert set(world.did) >= set(state.daemon_names)


def test_a_kdc_that_ends_is_named(world: World) -> None:
    world.dies = {"kdc"}
    state = world.state(modes=("kerberos",))
    with pytest.raises(
        SandboxError, match=r"^kdc ended while it started; the end of its log:\nlast words of kdc$"
    ):
        start_daemons(state.daemon_names, state, world.layout, {}, lambda _: None)
    assert world.did == ["kdc", "end kdc", "end everything"]


def test_a_restart_starts_only_what_it_is_told(world: World) -> None:
    start_daemons(("datanode",), world.state(ready=True), world.layout, {}, lambda _: None)
    assert world.did == ["datanode"]


def test_a_node_that_does_not_register_is_named(world: World) -> None:
    world.dies = {"nodemanager3"}
    state = world.state(nodes=3)
    with pytest.raises(SandboxError, match="nodemanager3 ended while it started"):
        start_daemons(state.daemon_names, state, world.layout, {}, lambda _: None)


def test_a_failed_first_start_ends_everything_and_names_the_one_that_died(world: World) -> None:
    world.dies = {"zookeeper"}
    world.sick = {"namenode": 10**6}
    with pytest.raises(
        SandboxError,
        match=r"^zookeeper ended while it started; the end of its log:\nlast words of zookeeper$",
    ) as caught:
        start_daemons(DAEMONS, world.state(), world.layout, {}, lambda _: None)
    assert caught.value.hint == f"the whole log is {world.layout.log('zookeeper')}"
    assert world.did[-2:] == [
        "end zookeeper,resourcemanager,nodemanager,registrydns,namenode,datanode",
        "end everything",
    ]


def test_a_failed_restart_leaves_the_others_running(world: World) -> None:
    world.dies = {"datanode"}
    with pytest.raises(SandboxError, match="datanode ended while it started"):
        start_daemons(("datanode",), world.state(ready=True), world.layout, {}, lambda _: None)
    assert world.did == ["datanode", "end datanode"]


def test_a_daemon_that_never_gets_well_is_named(world: World) -> None:
    world.sick = {"resourcemanager": 10**6}
    with pytest.raises(
        SandboxError,
        match=r"resourcemanager is not healthy after 180 s: not yet; the end of its log:\nlast words",
    ):
        start_daemons(DAEMONS, world.state(), world.layout, {}, lambda _: None)
    assert world.now == pytest.approx(START_TIMEOUT_S, abs=1)


def test_an_interrupt_ends_what_was_started(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(daemons, "format_namenode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start_daemons(DAEMONS, world.state(), world.layout, {}, lambda _: None)
    assert world.did[-2:] == [
        "end zookeeper,resourcemanager,nodemanager,registrydns",
        "end everything",
    ]


def test_a_nodemanager_that_cannot_recover_finds_no_old_containers(world: World) -> None:
    start_daemons(
        ("nodemanager",), world.state(ready=True, recovery=False), world.layout, {}, lambda _: None
    )
    assert world.did == ["end 77", "nodemanager"]


def test_the_second_nodemanager_ends_its_own_old_containers_only(world: World) -> None:
    state = world.state(ready=True, recovery=False, nodes=2)
    start_daemons(("nodemanager2",), state, world.layout, {}, lambda _: None)
    assert world.did == ["end 78", "nodemanager2"]


def test_the_order_in_which_everything_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Layout(tmp_path).make()
    running = {Process(number, 1): name for number, name in enumerate(ALL_DAEMONS)}
    containers = [[Process(50, 1)], [Process(51, 1)], []]
    ended: list[tuple[list[str], float]] = []

    def end(processes: Iterable[Process], grace_s: float) -> None:
        ended.append(([running.get(process, str(process.pid)) for process in processes], grace_s))

    monkeypatch.setattr(shutdown, "marked_processes", lambda home, mains: running)
    monkeypatch.setattr(
        shutdown,
        "container_processes",
        lambda local: containers.pop(0) if local.is_relative_to(tmp_path) else [],
    )
    monkeypatch.setattr(shutdown, "end", end)
    assert end_everything(Layout(tmp_path))
    assert ended == [
        (list(NODEMANAGERS), 5.0),
        (["registrydns"], 0.5),
        (["kdc", "zookeeper", "namenode", "datanode", "resourcemanager", "resourcemanager2"], 3.0),
        (["50"], 1.0),
        (["51"], 1.0),
    ]


def test_there_may_be_nothing_to_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutdown, "marked_processes", lambda home, mains: {})
    monkeypatch.setattr(shutdown, "container_processes", lambda local: [])
    assert not end_everything(Layout(tmp_path))
