"""People and schedulers who give commands; each command is a process that runs the real client."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

from submit_tf_job import storage, waiting
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.errors import ClusterUnavailable, NoSuchJob, SubmitTFJobError, error_class
from submit_tf_job.observation import Evidence
from submit_tf_job.operations import (
    delete,
    last_report,
    resubmission,
    runs,
    staging,
    stop,
    submit,
    watch_run,
)
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.plan import Plan, planner
from submit_tf_job.settings import Settings, load_settings
from submit_tf_job.yarn.auth import SimpleAuth
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.resource_manager import ResourceManager
from submit_tf_job.yarn.run_names import Again, run_name
from tests.builders.keytabs import keytab
from tests.histories.kernel import Actor, Kernel, Killed
from tests.world.network import Connection, Network
from tests.world.storage import Hdfs
from tests.world.yarn import Yarn

__all__ = [
    "GROWS",
    "KEEP_RUNS",
    "MOST_RUNS",
    "NAME",
    "USER",
    "Order",
    "People",
    "Person",
    "Report",
    "world_storage",
]

NAME, USER, KEEP_RUNS = "mnist", "alice", 2
_HADOOP_CONF = Path(__file__).parents[1] / "golden" / "hadoop-conf"
_SPEC = """
name: mnist
image: tensorflow/tensorflow:2.15.0
strategy: single
command: python {program}.py
roles:
  worker: {{memory: 2Gi}}
lifetime: 1h
"""
_STAGED = """
files: [model.bin]
kerberos: {principal: alice/_HOST@EXAMPLE.COM, keytab: alice.keytab}
"""
GROWS = "grows"  # the program whose every failure is a lack of memory
MOST_RUNS = 3
_GROWS = f"retries: {{max: {MOST_RUNS - 1}, memory: 1.5}}\n"
_OOM = Cause("out-of-memory", "worker-0 used too much", task="worker-0")
_here = threading.local()
_run_name = lru_cache(maxsize=100_000)(run_name)  # every command searches the same names


@lru_cache(maxsize=8)
def settings_of(*, servers: int, hdfs: bool) -> Settings:
    """Return the settings that every client of a site has."""
    masters = [f"http://rm{number + 1}:8088" for number in range(servers)]
    given: dict[str, Any] = {"resource_managers": masters, "user": USER, "keep_runs": KEEP_RUNS}
    if hdfs:
        given |= {"hadoop_conf": str(_HADOOP_CONF), "auth": "kerberos"}
    nowhere = Path("/nonexistent")
    return load_settings(
        arguments=given, environ={"HOME": "/nonexistent"}, cwd=Path("/"), system_file=nowhere
    )


@lru_cache(maxsize=64)
def plan_of(
    program: str, key: str | None, again: Again | None, servers: int, hdfs: bool, _collides: bool
) -> Plan:
    """Return the plan of a job; with HDFS it has a staged file and a keytab."""
    settings = settings_of(servers=servers, hdfs=hdfs)
    spec = _SPEC.format(program=program) + (_GROWS if program == GROWS else "")
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        (base / "model.bin").write_bytes(random.Random(program).randbytes(60_000))
        (base / "alice.keytab").touch(0o600)
        (base / "alice.keytab").write_bytes(keytab("alice/node1.example.com@EXAMPLE.COM"))
        text = (spec + _STAGED if hdfs else spec).encode()
        job = submit.load_job(Path("train.yaml"), settings, text=text, base=base)
    return submit.make_plan(job, settings, key=key, again=again)


@dataclass(frozen=True)
class Order:
    """What a person wants done.

    Attributes:
        verb: `submit`, `delete`, `force-delete`, `delete-run`, `stop` or `gc`.
        watch: Whether a submitted job is followed to its end.
    """

    verb: str
    watch: bool = True


@dataclass
class Report:
    """What a command told.

    Attributes:
        by: The command.
        key: What it submits.
        app_id: "submitted as", where it said so.
        run: The run's name.
        error: What it failed with; None with `app_id` None too where it was killed.
        verdict: How the job ended, where it was followed.
    """

    by: str
    person: str
    order: Order
    key: str
    began: float
    ended: float = 0.0
    app_id: str | None = None
    run: str = ""
    said_at: float = 0.0
    adopted: bool = False
    finished: bool = False
    error: SubmitTFJobError | None = None
    verdict: str = ""
    killed: bool = False

    @property
    def retryable(self) -> bool:
        """Whether a scheduler gives the same command again."""
        if self.app_id is not None:
            return False  # it is submitted; what failed was watching it
        return self.killed or (self.error is not None and error_class(self.error).retryable)

    def __str__(self) -> str:
        if self.killed:
            return "was killed"
        if self.app_id is not None:
            how = "adopted" if self.adopted else "submitted"
            end = f", then {self.verdict or self.error}" if self.verdict or self.error else ""
            return f"{how} as {self.run} {self.app_id}{end}"
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error.message[:200]}"
        return "done"


@dataclass
class Person:
    """Somebody, or a scheduler.

    Attributes:
        key: A scheduler's id of its submission; None for the content's.
        again: Whether it is run again after its end; None for what the client does by itself.
        orders: What is done, one after the other.
        gap_s: Pause before an order, and before a retry.
        tries: How often a command is given that says "try again" or was killed.
        dies: How likely a process is killed on its way.
        freezes: How likely a process is stopped for a while.
        clock_off_s: How far the clock of its machine is ahead.
    """

    name: str
    program: str
    orders: list[Order]
    key: str | None = None
    again: Again | None = None
    starts_s: float = 0.0
    gap_s: tuple[float, float] = (0.5, 30.0)
    tries: int = 6
    dies: float = 0.0
    freezes: float = 0.0
    clock_off_s: float = 0.0
    number: int = 0
    reports: list[Report] = field(default_factory=list)


class People:
    """Gives the commands of all people at their times."""

    def __init__(
        self, kernel: Kernel, cluster: Yarn, network: Network, rng: random.Random, collides: bool
    ) -> None:
        self.cluster, self.network, self.rng = cluster, network, rng
        self.collides = collides
        self.kernel = kernel
        self.busy = 0
        self.reports: list[Report] = []
        self.frozen: set[str] = set()  # commands that are stopped for a while
        self.again: dict[str, Again] = {}  # by key
        self.said: dict[tuple[str, str], float] = {}  # when a command said a run's name

    def plan(self, person: Person) -> Plan:
        """Return the plan of a person's job."""
        site = self.cluster.site
        kind = site.servers, site.hdfs, self.collides
        planned = plan_of(person.program, person.key, person.again, *kind)
        self.again[planned.key] = planned.again
        return planned

    def begin(self, person: Person) -> None:
        """Let a person give the first order."""
        self.busy += 1
        self.kernel.after(person.starts_s, lambda: self._next(person, list(person.orders), 0))

    def _next(self, person: Person, orders: list[Order], tried: int) -> None:
        if not orders:
            self.busy -= 1
            return

        def ended(report: Report) -> None:
            again = report.retryable and tried + 1 < person.tries
            left = orders if again else orders[1:]
            if not again and report.error is not None and report.app_id is None:
                left = []  # refused: nothing follows
            pause = self.rng.uniform(*person.gap_s)
            self.kernel.after(pause, lambda: self._next(person, left, tried + 1 if again else 0))

        self.give(person, orders[0], ended)

    def give(self, person: Person, order: Order, ended: Callable[[Report], None]) -> None:
        """Start a command."""
        person.number += 1
        by = f"{person.name}.{person.number}"
        planned = self.plan(person)
        report = Report(by, person.name, order, planned.key, self.kernel.now)
        if order.verb == "submit":
            self.cluster.keys[by] = planned.key
        if order.verb in ("delete", "force-delete", "delete-run"):
            self.cluster.may_delete.add(by)
        if order.verb in ("force-delete", "stop"):
            self.cluster.may_end.add(by)
        person.reports.append(report)
        self.reports.append(report)
        self.kernel.log(by, f"begins: {order.verb} {planned.key}")

        def body(actor: Actor) -> None:
            _here.hdfs = Hdfs(self.cluster, lambda what: self._touch(actor, what))
            report.killed = True
            try:
                self._execute(self._connect(actor, person), planned, order, report)
            except SubmitTFJobError as error:
                report.error = error
            report.killed = False

        actor = Actor(self.kernel, by, body)

        def watch_end() -> None:
            if not actor.over and not actor.dead:
                self.kernel.after(0.5, watch_end)
                return
            report.ended = self.kernel.now
            self.kernel.log(by, f"ends: {report}")
            ended(report)

        self._fate(person, actor)
        actor.begin()
        watch_end()

    def _fate(self, person: Person, actor: Actor) -> None:
        if self.cluster.calm:
            return
        if self.rng.random() < person.dies:
            when = self.rng.choice((0.2, 1.0, 5.0, 30.0, 150.0)) * self.rng.random()
            self.kernel.after(when, actor.kill)
        if self.rng.random() < person.freezes:
            when = self.rng.choice((0.2, 1.0, 5.0, 30.0)) * self.rng.random()
            long, counted = self.rng.choice((5.0, 60.0, 400.0)), self.rng.random() < 0.6
            self.frozen.add(actor.name)
            self.kernel.after(when, lambda: actor.freeze(long, counted=counted))

    def _touch(self, actor: Actor, what: str) -> None:
        """Let an operation on HDFS take its time, or fail."""
        if actor.dead:
            raise Killed
        if threading.current_thread() is not actor.thread:
            return  # a thread of an upload; the client's own waits for it
        actor.sleep(self.rng.uniform(0.003, 0.03))
        unread = self.network.weather.unread
        if what.startswith("read ") and not self.cluster.calm and self.rng.random() < unread:
            raise ClusterUnavailable("hdfs: the NameNode does not answer")

    def _execute(self, cluster: Cluster, planned: Plan, order: Order, report: Report) -> None:
        if order.verb in ("delete", "force-delete"):
            with suppress(NoSuchJob):
                delete.delete(cluster, NAME, force=order.verb == "force-delete")
        elif order.verb == "delete-run":
            delete.delete(cluster, runs.find(cluster, NAME).run)
        elif order.verb == "stop":
            stop.stop(cluster, NAME)
        elif order.verb == "gc":
            staging.sweep_staging(cluster, older_than=timedelta(seconds=600))
        else:
            self._submit(cluster, planned, order, report)

    def _submit(self, cluster: Cluster, planned: Plan, order: Order, report: Report) -> None:
        done = submit.submit(planned, cluster)
        self._says(report, done)
        report.said_at = self.kernel.now
        while order.watch:
            status = watch_run.wait_for_end(cluster, done.ref, own=True, timeout_s=4000.0)
            report.verdict = status.state.value
            app = self.cluster.apps.get(status.application_id or "")
            ran = app is not None and app.ran_from is not None
            step = resubmission.next_step(cluster, planned, status, _OOM if ran else None)
            if step is None or step.plan is None:
                return
            self.kernel.log(report.by, f"follows {done.ref.run} by {step.plan.run}")
            try:
                done = submit.submit(step.plan, cluster)
            except resubmission.NOT_SUBMITTED as error:
                self.kernel.log(report.by, f"does not submit it again: {error.message[:200]}")
                return
            self._says(report, done)

    def _says(self, report: Report, done: submit.Submission) -> None:
        report.app_id, report.run = done.ref.application_id, done.ref.run
        report.adopted, report.verdict = done.adopted, ""
        how = "adopted" if report.adopted else "submitted"
        self.said[report.by, report.run] = self.kernel.now
        self.kernel.log(report.by, f"says: {how} as {report.run} {report.app_id}")

    def _connect(self, actor: Actor, person: Person) -> Cluster:
        site = self.cluster.site
        settings = settings_of(servers=site.servers, hdfs=site.hdfs)
        shortest_s, longest_s = site.poll_s
        poll = replace(settings.poll, min_s=shortest_s, max_s=longest_s)
        settings = replace(settings, poll=poll)
        client = ResourceManager(
            settings.resource_managers,
            SimpleAuth(USER),
            clock=actor.clock,
            sleep=actor.sleep,
            jitter=self.rng.random,
            resolve=lambda host: frozenset({host}),
            adapter=Connection(self.network, lambda: actor, actor.name),
        )
        return Cluster(
            settings,
            client,
            actor.clock,
            actor.sleep,
            wall=lambda: self.kernel.epoch_ms() / 1000 + person.clock_off_s,
        )


@contextmanager
def world_storage(cluster: Yarn, collides: bool) -> Iterator[None]:
    """Put the world's HDFS in the place of every storage that a client opens; and where names of
    runs are to collide, names without a hash in the place of theirs.
    """

    def opened(*_arguments: Any, **_named: Any) -> Hdfs:
        found: Hdfs = _here.hdfs
        return found

    def read_report(
        _cluster: Cluster, app: AppReport, *_arguments: Any
    ) -> tuple[Evidence, bytes | None]:
        known = cluster.apps.get(app.id)
        if known is None or known.lingers:
            return Evidence.COLLECTED_SOON, None
        if known.ran_from is None:
            return Evidence.MISSING, None
        return Evidence.UNREADABLE, None

    def colliding(job: str, _user: str, _key: str, number: int, **_room: int) -> str:
        return f"{job}-{number}aaaaaaa"

    named = colliding if collides else _run_name
    state = random.getstate()  # the pauses of a watch come from the module's own generator
    random.seed(cluster.rng.random())
    try:
        with (
            mock.patch.object(storage, "open_storage", opened),
            mock.patch.object(last_report, "read_report_from_logs", read_report),
            mock.patch.object(planner, "run_name", named),
            # a thread of its own would not be one of the world's people
            mock.patch.object(waiting, "results_within", lambda _s, ask, _clock: list(ask())),
        ):
            yield
    finally:
        random.setstate(state)
