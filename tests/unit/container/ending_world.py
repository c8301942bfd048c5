"""YARN's rules of termination and a job's tasks, for histories that ask whether everything ends,
and for those in which containers are lost again and again.

The rules are those of Hadoop's services (`ServiceScheduler.terminateServiceIfNeeded`,
`NeverRestartPolicy`, `OnFailureRestartPolicy`, `ContainerFailureTracker`; docs/internals/endings.md).
The deciding task's state machine is the real one; of the other tasks the world knows the protocol.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.info import Info
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.machine import StateMachine
from tests.unit.container.descriptions import description, environment, role

START_S, GRACE_S, FINISH_S = 60.0, 10.0, 30.0
SILENT_S = 15.0  # three pings
CALM_S = 300.0  # from then on nothing is lost, suspended or late any more
NET_S = 60.0
UNSTARTED_S, ATTEMPTS = START_S + 180, 4  # when an ApplicationMaster gives up (plan/planner.py)
FOR_EVER = 1e9


class Task:
    """One container: its bootstrap, and the command in it."""

    def __init__(self, name: str, serial: int, node: int, now: float) -> None:
        self.name, self.node, self.started, self.serial = name, node, now, serial
        self.role = name.rpartition("-")[0]
        self.container = f"container_1_0001_01_{serial:06d}"
        self.command, self.status, self.ends_at = "", 0, FOR_EVER
        self.generation = 0
        self.remembered: dict[str, Any] = {"generation": 0}
        self.seen: str | None = None
        self.leader: Leader | None = None
        self.lost_at, self.heard = now, now
        self.told = False
        self.gave_up: int | None = None
        self.again_at: float | None = None  # its command has ended by then, for a new generation
        self.leaving: tuple[float, int] | None = None
        self.asleep_until = 0.0

    def hello(self) -> dict[str, Any]:
        task = {"role": self.role, "index": int(self.name.rpartition("-")[2]), "attempt": 0}
        place = {"process": self.container, "container": self.container, "address": "10.0.0.2"}
        known = {"seen": self.seen, "gave_up": self.gave_up}
        own = {"run": "mnist-4abcdefg", "state": self.command or "waiting"}
        return {**own, **task, **place, **known, "history": self.remembered}


class Leader(Task):
    """The deciding task's container."""

    def __init__(self, task: dict[str, Any], name: str, serial: int, node: int, now: float) -> None:
        super().__init__(name, serial, node, now)
        info = Info(task, environment(name, self.container), "/nowhere")
        info.started = now
        self.job = StateMachine(info, now, lambda _text: None)
        self.phase, self.job_generation = states.WAITING, 0
        self.told_others = False
        self.closing_until = 0.0
        self.looked = now


def consistent(job: StateMachine) -> None:
    """Look at what a job counts, which is carried on from change to change."""
    members = job.members.values()
    for name, counts in job.counts.items():
        assert sum(counts.values()) == job.info.counts[name]
        assert min(counts.values()) >= 0
    awaited = [m for m in members if m.role_kind != "sidecar" and m.state in states.AWAITED]
    assert job.absent == len(awaited)
    assert set(job.away) == {m.name for m in members if m.state in states.AWAY}
    assert (job.first is not None) == (job.verdict == states.FAILED)


class Component:
    """One component of the service, with YARN's view of its instances."""

    def __init__(self, name: str, count: int, *, on_failure: bool, marked: bool) -> None:
        self.name, self.on_failure, self.marked = name, on_failure, marked
        self.instances = {f"{name}-{index}": "pending" for index in range(count)}
        self.failures: Counter[int] = Counter()  # by node
        self.broken = False  # its interpreter is missing

    def count(self, state: str) -> int:
        return list(self.instances.values()).count(state)

    @property
    def finished(self) -> bool:
        failed = 0 if self.on_failure else self.count("failed")
        return self.count("succeeded") + failed == len(self.instances)


class World:
    """YARN, a job's tasks, and chance.

    Attributes:
        final: Whether YARN reports success; None while the application runs.
        netted: Whether a follower ended it.
        launched: The tasks that ever had a container.
    """

    step_s = 0.5, 2.0
    calm_at = 1000 + CALM_S

    def __init__(self, seed: int, *, ends_by_mark: bool, followed: bool) -> None:
        self.random, self.ends_by_mark = random.Random(seed), ends_by_mark
        self.followed = followed
        self.now, self.serial = 1000.0, 0
        self.final: bool | None = None
        self.netted = False
        self.started_after_end = False  # the deciding task, by YARN
        self.verdict = ""  # of the last deciding task that wrote its final report
        self.left_over_since: float | None = None
        self.unready_since, self.attempts = self.now, 1  # of the marked component; of YARN's master
        self.launched: set[str] = set()
        self.tasks: dict[str, Task] = {}
        self.task = self._describe()
        self.retries = "retries" in self.task
        self.components = {n: self._component(n, own) for n, own in self.task["roles"].items()}
        self.leading = self.task["deciding"] + "-0"
        self.ready_at = {
            name: self.now + self.delay_s(name)
            for c in self.components.values()
            for name in c.instances
        }
        self.nodes = dict.fromkeys(range(self.random.randint(1, 4)), True)
        self.room = self.random.choice([3, 4, 8])

    def _describe(self) -> dict[str, Any]:
        pick = self.random.random
        retries, one = pick() < 0.6, pick() < 0.6
        roles: dict[str, Any] = {}
        if retries or not one:
            roles["witness"] = role(1, "sidecar")
        if one:
            roles["chief"] = role(1, "trains")
        count = self.random.randint(1 if one else 2, 4)
        roles["worker"] = role(count, "serves" if one and pick() < 0.3 else "trains")
        if pick() < 0.3:
            roles["ps"] = role(1, "serves")
        if pick() < 0.4:
            roles["web"] = role(1, "sidecar", max_restarts=self.random.choice([0, 2]))
            if one and pick() < 0.5:
                roles["chief"]["after"] = ["web"]
        more: dict[str, Any] = {}
        if retries:
            losses = self.random.choice([0, 1, 2])
            more["retries"] = {"max": self.random.randint(1, 3), "on": ["lost", 42]}
            more["retries"]["node_losses"] = losses
            if one and count > 1 and pick() < 0.4:
                more["elastic"] = {"worker": {"min": 1, "grow_after_s": 20}}
        return description(
            roles,
            ends_with=self.random.choice(["deciding-task", "deciding-role", "all-that-train"]),
            start_timeout_s=START_S,
            finish_timeout_s=FINISH_S,
            grace_s=GRACE_S,
            **more,
        )

    def _component(self, name: str, own: dict[str, Any]) -> Component:
        stays = self.retries and own["kind"] != "sidecar"
        marked = name == ("witness" if "witness" in self.task["roles"] else self.task["deciding"])
        on_failure = stays or own["max_restarts"] > 0
        found = Component(name, own["count"], on_failure=on_failure, marked=marked)
        found.broken = self.random.random() < 0.04
        return found

    def delay_s(self, _name: str) -> float:
        """Return when YARN has a container for a task."""
        return self.random.uniform(0, 8) + self.random.choice([0] * 20 + [40, 100, 5000])

    @property
    def calm(self) -> bool:
        return self.now > self.calm_at

    @property
    def leader(self) -> Leader | None:
        found = self.tasks.get(self.leading)
        return found if isinstance(found, Leader) else None

    # --- YARN -------------------------------------------------------------------------------------
    def allocate(self) -> None:
        threshold = self.task.get("retries", {}).get("node_losses", 0)
        for component in self.components.values():
            for name, state in list(component.instances.items()):
                if state != "pending" or self.now < self.ready_at[name] or self.final is not None:
                    continue
                used = Counter(task.node for task in self.tasks.values())
                nodes = [
                    node
                    for node, alive in self.nodes.items()
                    if alive and used[node] < self.room
                    if not threshold or component.failures[node] < threshold
                ]
                if nodes:
                    self.launch(component, name, self.random.choice(nodes))

    def launch(self, component: Component, name: str, node: int) -> None:
        self.serial += 1
        component.instances[name] = "running"
        if name == self.leading:
            self.tasks[name] = Leader(self.task, name, self.serial, node, self.now)
            # a report is that of the latest container
            self.verdict, self.started_after_end = "", self.started_after_end or bool(self.verdict)
        else:
            self.tasks[name] = Task(name, self.serial, node, self.now)
        self.launched.add(name)
        if component.broken:
            self.end(name, 127)

    def end(self, name: str, status: int) -> None:
        """Let a container end; YARN starts another one, or looks whether the service is over."""
        task = self.tasks.pop(name)
        for other in self.tasks.values():
            if other.leader is task:
                other.leader, other.lost_at = None, self.now
        self.cut(task)
        component = self.components[task.role]
        if component.on_failure and status:
            component.instances[name] = "pending"
            component.failures[task.node] += 1
            self.ready_at[name] = self.now + (self.delay_s(name) if not self.calm else 5)
            return
        component.instances[name] = "failed" if status else "succeeded"
        everything = list(self.components.values())
        if self.ends_by_mark and component.marked and component.finished:
            self.final = not component.count("failed")
        elif all(one.finished for one in everything):
            self.final = not any(one.count("failed") for one in everything)

    def restart_application_master(self) -> None:
        """The next attempt has no record of finished instances, and starts them again."""
        for component in self.components.values():
            for name, state in component.instances.items():
                if state in ("succeeded", "failed"):
                    component.instances[name] = "pending"

    def give_up(self) -> None:
        """End an ApplicationMaster whose marked component has had no container for some time
        (`ComponentHealthThresholdMonitor`).
        """
        marked = next(one for one in self.components.values() if one.marked)
        if marked.count("running"):
            self.unready_since = self.now
        elif self.now - self.unready_since > UNSTARTED_S:
            self.unready_since, self.attempts = self.now, self.attempts + 1
            self.restart_application_master()
            if self.attempts > ATTEMPTS:
                self.final = False

    def follow(self) -> None:
        """A client has YARN kill what is left over, or has no container (`operations.watch_run`)."""
        if self.leading not in self.launched and self.now > 1000 + START_S + 30:
            self.final, self.netted = False, True
            return
        leading = self.components[self.task["deciding"]]
        ended = not leading.on_failure and leading.instances[self.leading] in (
            "succeeded",
            "failed",
        )
        if "witness" in self.components:
            ended = ended or (self.components["witness"].finished and self.leader is None)
        limit_s = NET_S if self.verdict else max(NET_S, START_S)
        if not (self.verdict or ended):
            self.left_over_since = None
        elif self.left_over_since is None:
            self.left_over_since = self.now
        elif self.now - self.left_over_since > limit_s:
            self.final, self.netted = self.verdict == states.SUCCEEDED, True

    # --- chance -----------------------------------------------------------------------------------
    def disturb(self) -> None:
        if self.calm:
            return
        for name in list(self.tasks):
            chance = self.random.random()
            if name not in self.tasks:
                continue
            if chance < 0.002:
                self.end(name, self.random.choice([137, -100]))
            elif chance < 0.004:
                task = self.tasks[name]
                task.asleep_until = self.now + self.random.choice([5, 20, 40, 120])
            elif chance < 0.008 and not isinstance(self.tasks[name], Leader):
                self.cut(self.tasks[name])
        if self.random.random() < 0.001:
            lost = self.random.choice(list(self.nodes))
            self.nodes[lost] = False
            for task in [task for task in self.tasks.values() if task.node == lost]:
                if task.name in self.tasks and self.final is None:
                    self.end(task.name, -100)
        if self.random.random() < 0.0005:
            self.restart_application_master()

    # --- connections ------------------------------------------------------------------------------
    def cut(self, task: Task, silent_s: float = 0.0) -> None:
        leader, task.leader = task.leader, None
        task.lost_at = self.now - silent_s
        if leader is not None and leader is self.leader and leader.asleep_until <= self.now:
            m = leader.job.members[task.name]
            if m.peer is task:
                closed = not silent_s and self.random.random() < 0.5
                leader.job.connection_lost(self.now, m, closed=closed, silent_s=silent_s)

    def connect(self, task: Task) -> None:
        leader = self.leader
        if leader is None or leader.asleep_until > self.now or self.random.random() < 0.3:
            return
        job = leader.job
        m, reply = job.hello(self.now, task.hello(), task)
        if reply in ("end", "finished") and m is not None:
            task.leaving = self.now + self.random.uniform(0, 3), job.leave_status(m)
        if reply != "welcome" or m is None:
            return
        task.leader, task.seen, task.told = leader, job.me.process, False
        self.remember(task, leader)
        runs = m.state == states.LEFT_OUT and task.command
        if job.stays(m) and (m.state == states.ABSENT or runs):
            self.again(task, leader)

    def remember(self, task: Task, leader: Leader) -> None:
        job = leader.job
        if job.retries:
            task.remembered = {
                "generation": job.generation,
                "past": job.generations.past,
                "resized": job.generations.resized,
                "prepared": True,
                "trained": job.me.state == states.SUCCEEDED,
                "container": leader.container,
            }

    def again(self, task: Task, leader: Leader) -> None:
        self.remember(task, leader)
        if task.command and task.again_at is None:
            task.again_at = self.now + self.random.uniform(0, 7)
        elif not task.command:
            self.ready(task, leader)

    def ready(self, task: Task, leader: Leader) -> None:
        job = leader.job
        assert job.retries
        task.generation = job.generation
        job.ready(job.members[task.name], 0)

    # --- tasks ------------------------------------------------------------------------------------
    def work(self, task: Task) -> None:
        """Let a command end, report that, and be ready for the next generation."""
        leader = task if isinstance(task, Leader) else task.leader
        if task.command == "running" and self.now >= task.ends_at:
            task.command = "done"
        if task.again_at is not None and self.now >= task.again_at:
            task.again_at, task.command, task.told = None, "", False
            if leader is not None and leader.job.retries:
                self.ready(task, leader)
        if leader is None or task.command != "done" or task.told or task.again_at is not None:
            return
        task.told = True
        m = leader.job.members[task.name]
        record = {"status": task.status, "signal": None, "reason": "exited", "message": "exit"}
        leader.job.done(self.now, m, dict(record, generation=task.generation))
        stays = self.retries and m.role_kind != contract.KIND_SIDECAR
        if leader is not task and not stays:
            task.leaving = self.now + 1, task.status
        if leader is task and leader.job.me.state == states.SUCCEEDED:
            for other in self.tasks.values():
                if other.leader is leader:
                    self.remember(other, leader)

    def go(self, task: Task, leader: Leader) -> None:
        job, m = leader.job, leader.job.members[task.name]
        sidecar = m.role_kind == contract.KIND_SIDECAR
        may = job.phase in (states.RUNNING, states.FINISHING) and task.role not in job.held
        if task.command or task.again_at is not None or m.state != states.ARRIVED:
            return
        if not (may or sidecar):
            return
        task.command, task.gave_up = "running", None
        task.generation = task.remembered["generation"] if task is not leader else task.generation
        task.ends_at, task.status = FOR_EVER, 0
        if m.role_kind in (contract.KIND_TRAINS, contract.KIND_EVALUATES):
            lasts_s, task.status = self.command()
            task.ends_at = self.now + lasts_s
        elif task.role == "web" and self.random.random() < 0.5:
            task.ends_at, task.status = self.now + 5, 3
        job.running(m)

    def command(self) -> tuple[float, int]:
        """Return how long a command that trains lasts, and its exit status."""
        return self.random.uniform(1, 60), self.random.choices([0, 42, 3], [30, 2, 1])[0]

    def alone(self, task: Task) -> None:
        """Keep the deadlines of a task that has no connection (`OtherTask`)."""
        start_s, grace_s = self.task["start_timeout_s"], self.task["grace_s"]
        search = task.started + 1.5 * start_s
        stays = self.retries and task.role not in ("witness", "web")
        if task.command == "done" and not stays:
            if self.now >= (task.lost_at + grace_s if task.seen else search):
                task.leaving = self.now, task.status
        elif self.retries:
            works = stays and task.command == "running" and task.again_at is None
            if works and self.now >= task.lost_at + grace_s:
                task.gave_up = task.generation
                task.again_at = self.now + self.random.uniform(0, 7)
            if self.now >= max(search, task.lost_at + start_s):
                task.leaving = self.now, 0 if stays else contract.EXIT_PEERS_MISSING
        elif task.command:
            if self.now >= task.lost_at + grace_s:
                task.leaving = self.now, contract.EXIT_DECIDING_LOST
        elif self.now >= search and (not task.seen or self.now >= task.lost_at + grace_s):
            task.leaving = self.now, contract.EXIT_PEERS_MISSING

    def step_task(self, task: Task) -> None:
        leader = self.leader
        if task.asleep_until > self.now:
            if task.leader is not None and self.now - task.heard > SILENT_S:
                self.cut(task, silent_s=SILENT_S - 5)
            return
        task.heard = self.now
        if task.leaving:
            if self.now >= task.leaving[0]:
                self.end(task.name, task.leaving[1])
            return
        if task.leader is not None and self.now - task.leader.heard > SILENT_S:
            task.leader, task.lost_at = None, self.now - SILENT_S + 5
        if task.leader is None:
            self.connect(task)
        if task.leader is None and not task.leaving:
            self.alone(task)
        elif leader is not None and task.leader is leader and leader.asleep_until <= self.now:
            self.go(task, leader)
            self.work(task)

    def step_leader(self, leader: Leader) -> None:
        if leader.asleep_until > self.now:
            return
        job = leader.job
        if self.now - leader.heard > 2.5:
            self.wake(leader, self.now - leader.heard)
        leader.heard = self.now
        job.unresolved.clear()
        job.tick(self.now)
        generation = job.stage[1]
        if job.me.state in states.OUT:
            leader.job_generation = generation
        if generation != leader.job_generation:
            leader.job_generation = generation
            for task in self.tasks.values():
                if task.leader is leader and task.role not in ("witness", "web"):
                    self.again(task, leader)
            self.again(leader, leader)
        job.released(self.now)
        consistent(job)
        self.look(leader)
        if job.phase != states.ENDING:
            self.go(leader, leader)
            self.work(leader)
        else:
            self.end_job(leader)

    def look(self, leader: Leader) -> None:
        """Look at the job before commands start."""

    def wake(self, leader: Leader, seconds: float) -> None:
        job = leader.job
        job.exclude_suspension(self.now, seconds)
        if seconds > SILENT_S:
            job.record_suspension(self.now, seconds)
        for m in job.members.values():
            if m.peer is not None and m.peer.leader is not leader:
                job.connection_lost(self.now, m, closed=True)

    def end_job(self, leader: Leader) -> None:
        """End the job as `DecidingTask` does: the others, latecomers, the report, the witness."""
        job, witness = leader.job, leader.job.witness
        others = [task for task in self.tasks.values() if task.leader is leader]
        if not leader.told_others:
            leader.told_others = True
            for task in others:
                if task.role != "witness":
                    status = job.leave_status(job.members[task.name])
                    task.leaving = self.now + self.random.uniform(0, 4), status
        if job.awaits_latecomers(self.now):
            return
        if any(task.role != "witness" for task in others) and self.now < job.linger_until:
            return
        if not job.closing:
            if witness is None or witness.status is not None:
                self.leave(leader)
                return
            job.closing, leader.closing_until = True, self.now + GRACE_S
            self.verdict = job.verdict
            if witness.peer is not None and witness.peer.leader is leader:
                status = job.leave_status(witness)
                witness.peer.leaving = self.now + self.random.uniform(0, 2), status
        if "witness-0" not in self.tasks or self.now >= leader.closing_until:
            self.leave(leader)

    def leave(self, leader: Leader) -> None:
        self.verdict = leader.job.verdict
        if self.final is None:
            self.end(leader.name, 0 if self.retries else leader.job.exit)

    def step(self) -> None:
        self.now += self.random.uniform(*self.step_s)
        self.allocate()
        self.disturb()
        for task in list(self.tasks.values()):
            if task.name in self.tasks and self.final is None:
                if isinstance(task, Leader):
                    self.step_leader(task)
                else:
                    self.step_task(task)
        if self.final is None and self.ends_by_mark:
            self.give_up()
        if self.final is None and self.followed:
            self.follow()


def play(seed: int, *, ends_by_mark: bool, followed: bool) -> World:
    """Play one history until the application ends, or for an hour.

    Args:
        seed: The history.
        ends_by_mark: Whether a marked component ends the service, as from Hadoop 3.3 on.
        followed: Whether a client follows the job.
    """
    world = World(seed, ends_by_mark=ends_by_mark, followed=followed)
    while world.final is None and world.now < 1000 + 3600:
        world.step()
    return world


class LossyWorld(World):
    """Hadoop 3.1, which loses containers and connections again and again; every constant is worse
    than on a real cluster.

    Attributes:
        sizes: With how many tasks each generation began.
        ended: The state machine of the deciding task that ended the job.
    """

    step_s = 0.1, 1.5
    calm_at = FOR_EVER

    def __init__(self, seed: int, *, elastic: bool = False) -> None:
        self.elastic, self.losses, self.lasts_s = elastic, 0, 27.0
        self.sizes: list[int] = []
        self.ended: Any = None
        super().__init__(seed, ends_by_mark=False, followed=False)
        self.nodes, self.room = {0: True}, 100

    def _describe(self) -> dict[str, Any]:
        count = self.random.randint(1, 3) + self.elastic
        roles = {"chief": role(1, "trains"), "worker": role(count, "trains")}
        more: dict[str, Any] = {"retries": {"max": self.random.randint(1, 4), "on": ["lost", 42]}}
        if self.elastic:
            least, grow_after_s = (
                self.random.randint(1, count - 1),
                self.random.choice([10, 60, 600]),
            )
            more["elastic"] = {"worker": {"min": least, "grow_after_s": grow_after_s}}
            self.lasts_s = self.random.choice([27.0, 400.0])
        roles["witness"] = role(1, "sidecar")
        return description(roles, start_timeout_s=300, **more)

    def _component(self, name: str, own: dict[str, Any]) -> Component:
        return Component(name, own["count"], on_failure=name != "witness", marked=False)

    def delay_s(self, name: str) -> float:
        """Return when YARN has a container; some elastic tasks get theirs late or never."""
        usual = self.random.uniform(1, 40) if self.serial else self.random.uniform(0, 5)
        rare = self.elastic and name.startswith("worker") and self.random.random() < 0.4
        return usual + (self.random.choice([100, 600, 100_000]) if rare else 0)

    def command(self) -> tuple[float, int]:
        status = self.random.choices([0, 42, 3], [12, 2, 0.3])[0]
        return self.random.expovariate(1 / self.lasts_s), status

    def disturb(self) -> None:
        for name in [self.leading, *self.tasks]:
            if name in self.tasks and self.losses < 12 and self.random.random() < 0.004:
                self.losses += 1
                self.end(name, 137)
            elif name in self.tasks and name != self.leading and self.random.random() < 0.01:
                self.cut(self.tasks[name])

    def look(self, leader: Leader) -> None:
        """When the commands start, none of an earlier generation runs, the programs know those
        tasks that start, and these are enough.
        """
        job = leader.job
        assert not job.superseded
        before, leader.phase = leader.phase, job.phase
        if (before, job.phase) != (states.WAITING, states.RUNNING):
            return
        tasks = [task for task in self.tasks.values() if task.role != "witness"]
        for task in tasks:
            assert (task.command, task.again_at) == ("", None), task.name
            if leader in (task, task.leader):
                self.go(task, leader)
        job.info.leave_out(job.left_out())
        known = set(job.info.addressed_tasks()) | {leader.name}
        assert {task.name for task in tasks if task.command == "running"} == known
        rule = self.task.get("elastic", {}).get("worker", {})
        assert len(known) > rule.get("min", job.info.counts["worker"])
        self.sizes.append(len(known))

    def end_job(self, leader: Leader) -> None:
        self.ended = leader.job


def play_losses(seed: int, *, elastic: bool = False) -> LossyWorld:
    """Play one history until the deciding task ends the job."""
    world = LossyWorld(seed, elastic=elastic)
    for _ in range(4000):
        try:
            world.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        if world.ended is not None:
            return world
    raise AssertionError((seed, world.leader and (world.leader.phase, world.leader.job.missing())))
