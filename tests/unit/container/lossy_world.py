"""A world that loses containers, for the state machine of a job with `retries`.

It knows what YARN and TCP do, and of the tasks only the protocol's messages.
"""

from __future__ import annotations

import random
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.info import Info
from submit_tf_job.container.meeting import members as states
from submit_tf_job.container.meeting.rendezvous import Rendezvous
from tests.unit.container.descriptions import description, role


class Task:
    """One container with a bootstrap, as the protocol shows it."""

    def __init__(self, name: str, serial: int) -> None:
        self.name, self.process = name, f"process{serial}"
        self.container = f"container_1_0001_01_{serial:06d}"
        self.command = ""  # "", running, or done
        self.status = self.generation = self.known = 0
        self.past: list[Any] = []
        self.seen: str | None = None
        self.seen_container = ""
        self.decider: Decider | None = None  # that it is connected to
        self.again_at = -1.0  # when its command will have ended
        self.told = False
        self.left: int | None = None

    @property
    def role(self) -> str:
        return self.name.rpartition("-")[0]

    def hello(self) -> dict[str, Any]:
        state = {"": "waiting", "running": "running", "done": "done"}[self.command]
        return {
            "run": "mnist-4abcdefg",
            "role": self.role,
            "index": int(self.name.rpartition("-")[2]),
            "process": self.process,
            "attempt": 0,
            "state": state,
            "seen": self.seen,
            "decider_attempt": None,
            "generation": self.known,
            "past": self.past,
            "seen_container": self.seen_container,
            "container": self.container,
            "address": "10.0.0.2",
        }


class Decider:
    """The deciding task's container: the state machine, and its own command."""

    def __init__(self, task: dict[str, Any], serial: int, now: float) -> None:
        env = {
            contract.ENV_INSTANCE: "chief-0",
            contract.ENV_HOSTNAME: "chief-0.mnist.alice.lan",
            "CONTAINER_ID": f"container_1_0001_01_{serial:06d}",
        }
        info = Info(task, env, "/nowhere")
        info.started = now
        self.job = Rendezvous(info, now, lambda _text: None)
        self.job.unresolved.clear()
        self.phase, self.generation = states.WAITING, 0
        self.own = Task("chief-0", serial)


class World:
    """YARN, the tasks, and chance; every constant is worse than on a real cluster."""

    def __init__(self, seed: int, *, elastic: bool = False) -> None:
        self.random = random.Random(seed)
        self.now = 1000.0
        roles = {
            "chief": role(1, "trains"),
            "worker": role(self.random.randint(1, 3) + elastic, "trains"),
            "witness": role(1, "sidecar"),
        }
        self.most = self.random.randint(1, 4)
        self.task = description(
            roles, retries={"max": self.most, "on": ["lost", 42]}, start_timeout_s=300
        )
        self.ending = 0.03  # how likely a command ends in a step
        self.rare = 0.0  # part of the containers that come late or never
        if elastic:
            least = self.random.randint(1, roles["worker"]["count"] - 1)
            grow_after_s = self.random.choice([10, 60, 600])
            self.task["elastic"] = {"worker": {"min": least, "grow_after_s": grow_after_s}}
            self.rare = 0.4
            self.ending = self.random.choice([0.03, 0.002])
        self.sizes: list[int] = []
        self.serial = 0
        self.tasks: dict[str, Task] = {}
        self.decider: Decider | None = None
        self.due: list[tuple[float, str]] = []
        self.losses = 0
        self.running: dict[str, int] = {}
        for name, own in roles.items():
            for index in range(own["count"]):
                self.due.append((self.now + self.delay_s(name, 0, 5), f"{name}-{index}"))

    def delay_s(self, name: str, least: float, most: float) -> float:
        """Return when YARN has a container for a task."""
        usual = self.random.uniform(least, most)
        if name.startswith("worker") and self.random.random() < self.rare:
            return usual + self.random.choice([100, 600, 100_000])
        return usual

    def place(self, name: str) -> None:
        self.serial += 1
        if name == "chief-0":
            self.decider = Decider(self.task, self.serial, self.now)
        else:
            self.tasks[name] = Task(name, self.serial)

    def lose(self, name: str) -> None:
        """End a container; YARN starts another one, but for the witness."""
        self.losses += 1
        if name == "chief-0":
            for task in self.tasks.values():
                task.decider = None
            self.decider = None
        else:
            self.cut(self.tasks.pop(name))
        if name != "witness-0":
            self.due.append((self.now + self.delay_s(name, 1, 40), name))

    def cut(self, task: Task) -> None:
        """Close the connection of a task."""
        decider, task.decider = task.decider, None
        if decider is not None and decider is self.decider:
            m = decider.job.members[task.name]
            if m.peer is task:
                decider.job.gone(self.now, m, closed=self.random.random() < 0.5)

    def connect(self, task: Task) -> None:
        decider = self.decider
        if decider is None or task.decider is not None or self.random.random() < 0.3:
            return
        job = decider.job
        m, reply = job.hello(self.now, task.hello(), task)
        if reply in ("end", "finished"):
            assert m is not None
            task.left = job.leave_status(m)
        if reply != "welcome" or m is None:
            return
        task.decider, task.seen = decider, job.me.process
        task.seen_container, task.told = decider.own.container, False
        self.remember(task, decider)
        runs = m.state == states.LEFT_OUT and task.command
        if job.stays(m) and (m.state == states.ABSENT or runs):
            self.again(task, decider)
        elif m.state not in (*states.OUT, states.LEFT_OUT) and not task.command:
            self.go_if_running(task, decider)

    def remember(self, task: Task, decider: Decider) -> None:
        task.known, task.past = decider.job.generation, decider.job.generations.past

    def again(self, task: Task, decider: Decider) -> None:
        self.remember(task, decider)
        if task.command:
            task.again_at = self.now + self.random.uniform(0, 7)
        else:
            task.generation = task.known
            decider.job.ready(decider.job.members[task.name], 0)

    def go_if_running(self, task: Task, decider: Decider) -> None:
        if decider.job.phase == states.RUNNING:
            self.go(task, decider)

    def go(self, task: Task, decider: Decider) -> None:
        if task.role == "witness":
            return
        assert task.again_at < 0, (task.name, "is not ready")
        assert task.command == "", (task.name, task.command)
        task.command, task.generation = "running", decider.job.generation
        decider.job.running(decider.job.members[task.name])

    def end_command(self, task: Task) -> None:
        task.command = "done"
        task.status = self.random.choices([0, 42, 3], [12, 2, 0.3])[0]

    def report(self, task: Task, decider: Decider) -> None:
        if task.command != "done" or task.told or task.again_at >= 0:
            return
        task.told = True
        record = {
            "status": task.status,
            "signal": None,
            "reason": "exited",
            "message": "exit",
            "generation": task.generation,
        }
        decider.job.done(self.now, decider.job.members[task.name], record)

    def renew(self, task: Task, decider: Decider) -> None:
        if 0 <= task.again_at <= self.now:
            task.again_at, task.command, task.told = -1.0, "", False
            task.generation = task.known
            connected = task.decider is decider or task is decider.own
            if connected and task.generation == decider.job.generation:
                decider.job.ready(decider.job.members[task.name], 0)

    def decide(self) -> None:
        decider = self.decider
        assert decider is not None
        job = decider.job
        job.unresolved.clear()  # DNS has the names of all containers
        job.tick(self.now)
        assert not job.superseded
        if (decider.phase, decider.generation) == (job.phase, job.generation):
            return
        followers = [t for t in self.tasks.values() if t.decider is decider]
        if decider.generation != job.generation:
            assert job.generation > decider.generation
            decider.generation = job.generation
            for task in followers:
                if task.role != "witness":
                    self.again(task, decider)
            self.again(decider.own, decider)
        decider.phase = job.phase
        if job.phase == states.RUNNING:
            self.check_nobody_runs()
            for task in [*followers, decider.own]:
                if job.members[task.name].state != states.LEFT_OUT:
                    self.go(task, decider)
            self.check_size()

    def check_nobody_runs(self) -> None:
        """No command of an earlier generation runs when the next one starts."""
        assert self.decider is not None
        for task in [*self.tasks.values(), self.decider.own]:
            if task.role != "witness":
                assert task.command == "", (task.name, task.command)

    def check_size(self) -> None:
        """The programs know those tasks that have started, and these are enough."""
        assert self.decider is not None
        job, own = self.decider.job, self.decider.own
        job.info.leave_out(job.left_out())
        known = {name for name in job.info.addressed_tasks() if name != own.name}
        started = {t.name for t in self.tasks.values() if t.command == "running"}
        assert started == known, (started, known)
        rule = self.task.get("elastic", {}).get("worker", {})
        assert len(known) >= rule.get("min", job.info.counts["worker"])
        self.sizes.append(len(known))

    def step(self) -> None:
        self.now += self.random.uniform(0.1, 1.5)
        for entry in [entry for entry in self.due if entry[0] <= self.now]:
            self.due.remove(entry)
            self.place(entry[1])
        for name in ["chief-0", *self.tasks]:
            there = name in self.tasks or (name == "chief-0" and self.decider)
            if there and self.losses < 12 and self.random.random() < 0.004:
                self.lose(name)
        for task in list(self.tasks.values()):
            if self.random.random() < 0.01:
                self.cut(task)
            self.connect(task)
        decider = self.decider
        if decider is None:
            return
        for task in [*self.tasks.values(), decider.own]:
            mine = task is decider.own or task.decider is decider
            if task.command == "running" and self.random.random() < self.ending:
                self.end_command(task)
            if mine:
                self.report(task, decider)
            self.renew(task, decider)
        self.decide()


def play(seed: int, *, elastic: bool = False) -> tuple[str, World]:
    """Play one history to its end; return the verdict."""
    world = World(seed, elastic=elastic)
    for _ in range(4000):
        world.step()
        if world.decider and world.decider.job.phase == states.ENDING:
            return world.decider.job.verdict, world
    decider = world.decider
    raise AssertionError((seed, decider and (decider.phase, decider.job.missing())))
