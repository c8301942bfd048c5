"""ResourceManagers, applications, the registry and HDFS, as Hadoop's sources describe them.

The rules, each with the class it comes from (3.3.5 unless another version is named):

- ResourceManager.startActiveServices sets the cluster timestamp, which `/ws/v1/cluster/info` shows
  as `startedOn`, at every transition to active: a process that loses and regains its leadership
  shows another start time although it lives.
- The web server of a ResourceManager outlives transitionToStandby (startWepApp belongs to
  serviceStart where HA is enabled): a POST in progress continues in a standby and talks to the new
  active one by RPC.
- RMAppImpl: NEW_SAVING until the state store has the application; what is not saved is lost with
  the process. FINISHING follows the AM's unregistering and lasts until the AM's process ends;
  RMServerUtils.createApplicationState shows it as FINISHED.
- RMAppImpl.FinalTransition calls ServiceClient.actionCleanUp(name, user): the registry path of
  the *name* is removed, whichever application has it by then. RMAppRecoveredTransition runs the
  same for every application that had ended when a ResourceManager becomes active.
- RMAppManager.checkAppNumCompletedLimit: what has ended is forgotten, the oldest first, and is in
  no list, and not recovered any more.
- YarnClientImpl.submitApplication polls until the application is ACCEPTED, and submits it again
  under the same id where a ResourceManager has lost it.
- ServiceMaster.loadApplicationJson reads the stored service when the AM starts, whatever is in it
  by then; ServiceScheduler.recoverComponents ends the AM where it holds no application id.
- CoreFileSystem and ContainerLocalizer: what an AM or a container localises must exist then, with
  the time that was seen when the application was submitted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from submit_tf_job.yarn.service_properties import SUBMISSION
from tests.world.clock import Clock, Steps
from tests.world.node_manager import NodeManager

__all__ = ["FOREVER", "App", "Broken", "Directory", "Key", "Server", "Site", "Yarn", "key_of"]

LIVE = ("NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")  # ServiceClient.liveStates
OVER = ("FINISHED", "FAILED", "KILLED")
FOREVER = (1e9, 1e9)  # how long a job runs
ATTEMPTS = 2  # yarn.resourcemanager.am.max-attempts
Key = tuple[str, str]


@dataclass
class Site:
    """What differs from site to site.

    Attributes:
        linger_s: From the AM's unregistering to the end of its process.
        jars_in_service: Whether the AM's jars lie in the service's directory (no fast launch).
        jars_s: Seconds that a POST takes to upload the AM's jars.
        hdfs: Whether the clients have a Hadoop configuration.
        am_answers: Whether the services API can ask AMs (not on a secure cluster without keytab).
        fails: How likely a job fails.
        remembers: How many ended applications a ResourceManager remembers.
        recovers_s: Until a new leader knows every application.
        lists_nothing: Whether it knows none of them before that; a single ResourceManager then
            shows that it recovers its state (hadoop-facts.md#restart).
        poll_s: Shortest and longest pause of the clients between two looks at a job.
        max_mb: Largest container.
        most_priority: yarn.cluster.max-application-priority.
        longest_s: Longest lifetime of an application.
        node_mb: Memory of its node, `free_mb` of which is free; None: the node does not say.
        node_rows: The nodes as they are listed, instead of that node.
        exclusive_labels: Whether only containers that ask for a label run on its nodes.
        users: Who has a home directory.
    """

    version: tuple[int, ...] = (3, 4, 2)
    servers: int = 2
    linger_s: float = 25.0
    jars_in_service: bool = True
    jars_s: tuple[float, float] = (0.1, 2.0)
    accept_s: tuple[float, float] = (0.05, 0.4)
    queue_s: tuple[float, float] = (0.5, 5.0)
    job_s: tuple[float, float] = (10.0, 200.0)
    hdfs: bool = True
    am_answers: bool = True
    fails: float = 0.0
    remembers: int = 1000
    recovers_s: float = 0.5
    lists_nothing: bool = False
    poll_s: tuple[float, float] = (1.0, 15.0)
    max_mb: int = 8192
    max_gpus: int = 0
    most_priority: int = 0
    longest_s: int = 10**9
    node_mb: int | None = None
    node_rows: tuple[Mapping[str, Any], ...] = ()
    exclusive_labels: bool = True
    free_mb: int = 0
    users: frozenset[str] = frozenset({"alice", "bob"})
    queues: frozenset[str] = frozenset({"default", "ml"})

    @property
    def version_text(self) -> str:
        return ".".join(str(part) for part in self.version)


@dataclass
class Server:
    """A ResourceManager's process.

    Attributes:
        born: Number of the process at this address.
        leads_since: When it last became active, None for a standby.
        started_ms: What it shows as `startedOn`.
        stands_still_until: A collection of garbage, a full disk.
    """

    address: str
    up: bool = True
    born: int = 1
    leads_since: float | None = None
    started_ms: int = 0
    stands_still_until: float = 0.0


@dataclass
class Directory:
    """A service's directory in HDFS: `~/.yarn/services/NAME`.

    Attributes:
        spec: What NAME.json holds; None where there is no such file.
        writer: Who has the lease of NAME.json, which is empty then; it keeps it when it dies.
        by: The command whose request wrote it last.
        written_ms: When NAME.json was opened or closed last, as the NameNode shows it.
        changed_ms: When something in the directory was made or removed last.
        text: The content of NAME.json, once it was read.
        jars: Whether the libraries of the ApplicationMaster are there.
        conf_of: The application whose submission uploaded `conf` last.
    """

    made_at: float
    spec: dict[str, Any] | None = None
    writer: object = None
    by: str = ""
    written_ms: int = 0
    changed_ms: int = 0
    text: bytes | None = None
    jars: bool = False
    conf_of: str = ""

    @property
    def torn(self) -> bool:
        """Whether the file was opened for writing and nothing is in it."""
        return self.writer is not None

    @property
    def has_file(self) -> bool:
        """Whether there is a NAME.json."""
        return self.torn or self.spec is not None


@dataclass
class App:
    """An application.

    Attributes:
        spec: What was posted.
        by: The command that posted it.
        sent_at: When that command sent its POST.
        runs: The service that its AM read; None before.
        came_up: When its AM did.
        ran_from: When its containers ran, until `ran_until`.
        over_at: When clients first saw it over.
        why: Why it died, where something it needed was missing.
        forgotten: Whether the ResourceManager knows nothing of it any more.
    """

    id: str
    user: str
    name: str
    spec: dict[str, Any]
    by: str
    sent_at: float
    accepted_at: float
    started_ms: int
    needs_made_at: float
    state: str = "NEW_SAVING"
    final: str = "UNDEFINED"
    words: str = ""
    finished_ms: int = 0
    attempts: int = 1
    counted: int = 1  # containers that the ResourceManager counts, the ApplicationMaster's included
    runs: dict[str, Any] | None = None
    came_up: float | None = None
    ran_from: float | None = None
    ran_until: float | None = None
    over_at: float | None = None
    lingers: bool = False
    killing: bool = False
    stopping: bool = False
    forgotten: bool = False
    why: str = ""
    will: str = "SUCCEEDED"
    killed_by: str = ""
    queue: str = "default"
    priority: int = 0
    lifetime_s: int | None = None
    launched_ms: int = 0
    type: str = "yarn-service"

    @property
    def live(self) -> bool:
        """Whether ServiceClient.verifyNoLiveAppInRM finds it."""
        return self.state in LIVE

    @property
    def over(self) -> bool:
        """Whether clients see a final state."""
        return self.state in OVER

    @property
    def key(self) -> str:
        """Whose it is: by what its AM read, or by what was posted."""
        return key_of(self.runs if self.runs is not None else self.spec)


def key_of(spec: dict[str, Any]) -> str:
    """Return the key of the submission that a service carries."""
    properties = spec.get("configuration", {}).get("properties", {})
    return str(properties.get(SUBMISSION, "?"))


def staged_in(value: Any) -> Iterator[str]:
    """Return the staged files that a service names."""
    if isinstance(value, dict):
        for one in value.values():
            yield from staged_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from staged_in(one)
    elif isinstance(value, str) and value.startswith("hdfs://") and "/.submit_tf_job/" in value:
        yield "/" + value.split("/", 3)[3]


@dataclass(frozen=True)
class Broken:
    """Something that the world saw and no promise allows."""

    promise: str
    words: str


class Yarn:
    """Everything behind the ResourceManagers' addresses.

    Attributes:
        node: Its NodeManager; None where no container is looked at.
        full: Whether its queues are: applications stay ACCEPTED.
        containers: What an ApplicationMaster lists of a component.
        service_state: What it says of itself; None: as its containers are.
        signals: Containers, and what they were sent.
        aggregation: logAggregationStatus of what is over; None: Hadoop does not say.
        on_end: Called with what ends; its containers end with it.
    """

    def __init__(self, clock: Clock, rng: random.Random, site: Site) -> None:
        self.clock, self.rng, self.site = clock, rng, site
        self.node: NodeManager | None = None
        self.full = False
        self.containers: dict[str, list[dict[str, Any]]] = {}
        self.service_state: str | None = None
        self.signals: list[tuple[str, str]] = []
        self.aggregation: str | None = "SUCCEEDED"
        self.on_end: Callable[[App], object] = lambda _app: None
        self.servers = [Server(f"rm{n + 1}:8088") for n in range(site.servers)]
        self.apps: dict[str, App] = {}
        self.unsaved: dict[str, App] = {}  # which a ResourceManager had accepted as it died
        self.directories: dict[Key, Directory] = {}
        self.files: dict[str, bytes] = {}  # everything else in HDFS
        self.written_ms: dict[str, int] = {}  # when each of them was written
        self.registry: dict[Key, set[str]] = {}  # name: applications whose records are there
        self.broken: list[Broken] = []
        self.refused: set[str] = set()  # keys that the scheduler rejects
        self.queue_limits: dict[str, Any] = {}  # of each queue, as the scheduler tells them
        self.rejection = ""  # with what words it rejects every application
        self.keys: dict[str, str] = {}  # of the submissions, by command
        self.may_end: set[str] = set()  # commands that may end a run of the job
        self.may_delete: set[str] = set()  # commands that may delete one that is over
        self.deleted: list[tuple[float, str, str]] = []  # when, name, command
        self.slow: set[str] = set()  # applications of POSTs that took longer than FORGIVEN_S
        self.raced: set[str] = set()  # names whose POSTs passed Hadoop's checks together
        self.led_since: list[float] = []  # when a ResourceManager became active
        self.serial = 0
        self.calm = False
        self._lead(self.servers[0])
        self.clock.now += 100.0  # they have led for a while

    # --- who leads ---

    @property
    def active(self) -> Server | None:
        """The ResourceManager that leads and answers."""
        return next((s for s in self.servers if s.up and s.leads_since is not None), None)

    @property
    def recovering_s(self) -> float:
        """Seconds since the leader took over."""
        return self.clock.now - (self.active.leads_since or 0.0) if self.active else 0.0

    def _lead(self, server: Server) -> None:
        if server.up and self.active is None:
            server.leads_since = self.clock.now
            self.led_since.append(self.clock.now)
            server.started_ms = self.clock.epoch_ms()
            self.clock.log(server.address, "leads")
            self._recover_ended()

    def _recover_ended(self) -> None:
        """RMAppRecoveredTransition: a final state was saved before FINISHING."""
        for app in self.apps.values():
            if app.over and not app.forgotten:
                app.lingers = False
                self.wipe((app.user, app.name), f"the recovery of {app.id}", app.id)

    def _elect(self, delay_s: float) -> None:
        def elect() -> None:
            ready = [s for s in self.servers if s.up and self.still_s(s) <= 0]
            if self.active is None and ready:
                self._lead(self.rng.choice(ready))
            elif self.active is None:
                self._elect(2.0)

        self.clock.after(delay_s, elect)

    def crash(self, server: Server, back_s: float) -> None:
        """Kill a ResourceManager's process; it is started again."""
        if not server.up:
            return
        self.clock.log(server.address, f"dies, back in {back_s:.0f} s")
        led = server.leads_since is not None
        server.up, server.leads_since, server.born = False, None, server.born + 1
        if led:
            self._forget_unsaved()
            self._elect(self.rng.uniform(3.0, 14.0))

        def back() -> None:
            server.up, server.started_ms = True, self.clock.epoch_ms()
            server.stands_still_until = 0.0
            self.clock.log(server.address, "is back")
            if self.active is None:
                self._elect(self.rng.uniform(0.5, 3.0))

        self.clock.after(back_s, back)

    def depose(self, server: Server, to: Server | None = None) -> None:
        """Take the leadership from a process that lives on (its ZooKeeper session expired)."""
        if server.leads_since is None or len(self.servers) < 2:
            return
        self.clock.log(server.address, "loses its leadership and lives on")
        server.leads_since = None
        self._forget_unsaved()
        other = to or self.rng.choice(self.servers)
        self.clock.after(self.rng.uniform(1.0, 5.0), lambda: self._lead(other))
        self._elect(15.0)

    def stall(self, server: Server, seconds: float) -> None:
        """Let a process stand still; it loses its leadership where that takes too long."""
        self.clock.log(server.address, f"stands still for {seconds:.0f} s")
        server.stands_still_until = max(server.stands_still_until, self.clock.now + seconds)
        if seconds > 10 and len(self.servers) > 1:
            self.clock.after(10.0, lambda: self.depose(server))

    def still_s(self, server: Server) -> float:
        """Return for how long a process goes on standing still."""
        return server.stands_still_until - self.clock.now

    def _forget_unsaved(self) -> None:
        for app in list(self.apps.values()):
            if app.state == "NEW_SAVING":
                self.clock.log("yarn", f"{app.id} was not saved and is lost")
                app.over_at = self.clock.now
                self.unsaved[app.id] = self.apps.pop(app.id)

    def leader(self) -> Iterator[float]:
        """Wait for a ResourceManager that answers RPCs, as Hadoop's own clients do."""
        while self.active is None or self.still_s(self.active) > 0 or self.initializes(self.active):
            yield 0.5
        yield self.rng.uniform(0.002, 0.02)

    # --- applications ---

    def new_id(self) -> str:
        """Return the next application id."""
        self.serial += 1
        return f"application_1700000000000_{self.serial:04}"

    def live(self, key: Key) -> list[App]:
        """Return the applications that hold a name at the ResourceManager."""
        return [app for app in self.apps.values() if (app.user, app.name) == key and app.live]

    def app(self, app_id: str) -> App | None:
        """Return an application that the ResourceManager has not forgotten."""
        found = self.apps.get(app_id)
        return None if found is None or found.forgotten else found

    def accept(self, app_id: str, key: Key, spec: dict[str, Any], by: str, sent_at: float) -> None:
        """Take an application as ClientRMService.submitApplication does; it is saved later."""
        if app_id in self.apps:
            return
        made = self.directories[key].made_at if key in self.directories else -1.0
        now, now_ms = self.clock.now, self.clock.epoch_ms()
        app = App(app_id, *key, spec, by, sent_at, now, now_ms, made)
        app.queue, app.lifetime_s = spec.get("queue", "default"), spec.get("lifetime")
        app.will = "FAILED" if self.rng.random() < self.site.fails else "SUCCEEDED"
        self.apps[app_id] = app
        self.clock.log("yarn", f"{app_id} NEW_SAVING, {key[1]} posted by {by}")
        saved_s = self.rng.uniform(*self.site.accept_s)
        self.clock.start(self._lives(app, saved_s), alive=lambda: self.apps.get(app_id) is app)

    def reject(
        self, app_id: str, key: Key, spec: dict[str, Any], by: str, sent_at: float, words: str
    ) -> None:
        """Keep what the scheduler does not take: RMAppImpl.AppRejectedTransition."""
        app = App(app_id, *key, spec, by, sent_at, self.clock.now, self.clock.epoch_ms(), -1.0)
        app.queue, self.apps[app_id] = spec.get("queue", "default"), app
        app.attempts = 0
        self._set(app, "FAILED", "FAILED", words)

    def submit_app(self, user: str, spec: dict[str, Any]) -> App:
        """Accept an application that no service was posted for."""
        app_id = self.new_id()
        self.accept(app_id, (user, spec["name"]), spec, user, self.clock.now)
        return self.apps[app_id]

    def end(self, app: App, state: str, final: str, words: str = "") -> None:
        """End an application from outside."""
        app.killing = True
        if not app.over:
            self._set(app, state, final, words)
        self._clean_up(app)

    def _set(self, app: App, state: str, final: str = "", words: str = "") -> None:
        app.state = state
        app.final, app.words = final or app.final, words or app.words
        self.clock.log("yarn", f"{app.id} {state} {final} {words[:60]}".rstrip())
        if state in OVER and not app.finished_ms:
            app.finished_ms, app.over_at = self.clock.epoch_ms(), self.clock.now
            self.on_end(app)
        if app.ran_from is not None and app.ran_until is None and state != "RUNNING":
            app.ran_until = self.clock.now

    def _lives(self, app: App, saved_s: float) -> Steps:
        rng, site = self.rng, self.site
        for pause_s, state in ((saved_s, "SUBMITTED"), (0.02, "ACCEPTED")):
            yield pause_s
            if app.over:
                return
            self._set(app, state)
        yield rng.uniform(*site.queue_s)
        while self.full:
            yield 0.5
        while not (yield from self._attempt(app)):
            if app.killing:
                return
            if app.attempts == ATTEMPTS:
                words = f"Application {app.id} failed {ATTEMPTS} times due to AM Container for "
                words += f"appattempt exited with  exitCode: 1\nDiagnostics: {app.why}"
                yield from self._final(app, "FAILED", "FAILED", words)
                return
            app.attempts += 1
            yield rng.uniform(1.0, 6.0)
        yield from self._runs(app)

    def _attempt(self, app: App) -> Steps:
        """Start the AM; return whether it came up."""
        yield self.rng.uniform(0.3, 1.0)  # localisation
        where = self.directories.get((app.user, app.name))
        here = where is not None and where.made_at == app.needs_made_at and where.jars
        if self.site.jars_in_service and not here:
            return self._dies(app, "its libraries in its service's directory are gone")
        if where is not None and where.conf_of not in ("", app.id):
            name = f"{app.user}/.yarn/services/{app.name}/conf/yarnservice-log4j.properties"
            return self._dies(app, f"hdfs:/user/{name} changed on src filesystem")
        missing = self._missing(app.spec, keytab=True)
        if missing:
            return self._dies(app, f"{missing} is gone")
        yield self.rng.uniform(1.0, 3.0)
        where = self.directories.get((app.user, app.name))
        if where is not None and where.torn:
            return self._dies(app, "its stored service is cut off")
        if where is None or where.spec is None:
            return self._dies(app, "its stored service is gone")
        if not where.spec.get("id"):
            return self._dies(app, "appIdStr is null")
        yield from self.leader()
        if app.killing:
            return False
        app.runs, app.came_up, app.why = where.spec, self.clock.now, ""
        app.launched_ms = self.clock.epoch_ms()
        self._set(app, "RUNNING")
        self.registry.setdefault((app.user, app.name), set()).add(app.id)
        return True

    def _dies(self, app: App, why: str) -> bool:
        if app.killing:
            return False
        app.why = why
        self.clock.log("yarn", f"{app.id} attempt {app.attempts} dies: {why}")
        return False

    def _missing(self, spec: dict[str, Any], *, keytab: bool) -> str:
        needed = (path for path in staged_in(spec) if ("keytab" in path) is keytab)
        return next((path for path in needed if path not in self.files), "")

    def _runs(self, app: App) -> Steps:
        yield self.rng.uniform(0.5, 4.0)  # containers are allocated and localise
        assert app.runs is not None
        missing = self._missing(app.runs, keytab=False)
        if missing and not app.killing:
            self._dies(app, f"{missing} is gone")
            yield from self._unregisters(app, "FAILED")
            return
        if app.killing or app.stopping:
            return
        app.ran_from = self.clock.now
        self.clock.log("yarn", f"{app.id} runs {app.name}")
        self.check_one_at_a_time(app)
        yield self.rng.uniform(*self.site.job_s)
        if not (app.killing or app.stopping):
            yield from self._unregisters(app, app.will)

    def check_one_at_a_time(self, app: App) -> None:
        """Promise 1: runs of one key are never alive at the same time."""
        for other in self.apps.values():
            same = other is not app and other.key == app.key
            same = same and not (self.came_late(app) or self.came_late(other))
            if same and other.ran_from is not None and other.ran_until is None:
                words = f"{other.id} and {app.id} run {app.key} at the same time"
                self.break_promise("1 one application", words)

    def break_promise(self, promise: str, words: str) -> None:
        """Note that a promise is broken."""
        self.clock.log("BROKEN", f"{promise}: {words}")
        self.broken.append(Broken(promise, words))

    def _unregisters(self, app: App, final: str, words: str = "") -> Steps:
        yield from self.leader()
        if app.over or app.killing:
            return
        app.lingers = True
        self._set(app, "FINISHED", final, words)
        yield self.site.linger_s * self.rng.uniform(0.9, 1.1)
        yield from self.leader()
        if app.lingers:
            app.lingers = False
            self._clean_up(app)

    def _final(self, app: App, state: str, final: str, words: str) -> Steps:
        yield from self.leader()
        if not app.over:
            self._set(app, state, final, words)
            self._clean_up(app)

    def _clean_up(self, app: App) -> None:
        """RMAppImpl.appAdminClientCleanUp, by name; then RMAppManager.finishApplication."""
        self.wipe((app.user, app.name), f"the cleanup of {app.id}", app.id)
        known = [one for one in self.apps.values() if one.over and not one.forgotten]
        known.sort(key=lambda one: one.finished_ms)
        self.forget(known[: max(0, len(known) - self.site.remembers)])

    def forget(self, apps: Iterable[App]) -> None:
        """Let the ResourceManager know nothing of these any more."""
        for app in apps:
            app.forgotten = True
            self.clock.log("yarn", f"{app.id} is forgotten")

    def wipe(self, key: Key, why: str, app_id: str = "") -> None:
        """Remove the registry's records of a name."""
        for lost in self.registry.pop(key, set()):
            app = self.apps.get(lost)
            if lost == app_id or app is None or app.stopping or self.came_late(app):
                continue
            if app.name in self.raced:
                continue  # of another application of its name, for which Hadoop removes them
            if app.state == "RUNNING":
                self.break_promise("7 DNS records", f"{lost} loses its records by {why}")

    def ended_by(self, app: App, by: str) -> None:
        """Promise 2: a submit ends what is of its own submission (`_check_submitted` looks at what
        was said of that), or what can never run; a DELETE that is late, a POST that was later.
        """
        doomed = app.came_up is None and self.stored_id((app.user, app.name)) != app.id
        own = by in self.may_end or app.by == by or self.keys.get(by) == app.key
        late = by in self.may_delete and self.came_late(app)
        if not (own or late or doomed or app.over or app.killing):
            self.break_promise("2 other people's", f"{by} ends {app.id}, {app.name}")

    def came_late(self, app: App) -> bool:
        """Whether its POST was on its way when a person deleted what it had begun before, so that
        nothing tells of that run any more, or for longer than a POST takes (best effort,
        docs/verdict.md).
        """
        return app.id in self.slow or any(
            name == app.name and by in self.may_delete and app.sent_at <= at <= app.accepted_at
            for at, name, by in self.deleted
        )

    def stored_id(self, key: Key) -> str | None:
        """Return the application that a stored service names."""
        where = self.directories.get(key)
        return where.spec.get("id") if where is not None and where.spec is not None else None

    def destroyed(self, key: Key, by: str) -> None:
        """Remove all of a service's directory."""
        below = f"/user/{key[0]}/.yarn/services/{key[1]}/"
        files = list(self.files.items())
        self.files = {path: held for path, held in files if not path.startswith(below)}
        self.deleted.append((self.clock.now, key[1], by))
        self.clock.log("hdfs", f"{by} deletes the service {key[1]}")

    def kill(self, app: App, by: str, words: str = "") -> None:
        """RMAppKillByClientEvent: saved first, killed a moment later."""
        if app.over or app.killing:
            return
        app.killing, app.killed_by = True, by
        self.clock.log("yarn", f"{app.id} is being killed by {by}")

        def steps() -> Steps:
            yield self.rng.uniform(0.2, 1.5)
            if not app.over:
                said = f"Application {app.id} was killed by user {app.user} {words}"
                yield from self._final(app, "KILLED", "KILLED", said)

        self.clock.start(steps(), alive=lambda: self.apps.get(app.id) is app)

    def stop(self, app: App, by: str) -> None:
        """ClientAMService.stop: the AM ends by itself."""
        if app.over or app.killing or app.stopping:
            return
        app.stopping, app.killed_by = True, by

        def steps() -> Steps:
            yield self.rng.uniform(1.5, 2.5)
            yield from self._unregisters(app, "ENDED", f"Stopped by user {app.user}")

        self.clock.start(steps(), alive=lambda: self.apps.get(app.id) is app)

    def seen(self, app: App) -> str:
        """Return the state that the leader shows, which recovers after a failover."""
        if app.state == "RUNNING" and self.recovering_s < 2.0:
            return "ACCEPTED"
        return app.state

    def knows(self, app: App) -> bool:
        """Whether the leader has recovered an application's record."""
        if app.forgotten:
            return False
        since = self.active.leads_since if self.active else None
        if since is not None and app.accepted_at >= since:
            return True
        if self.recovering_s >= self.site.recovers_s:
            return True
        return not self.site.lists_nothing and crc32(app.id.encode()) % 2 == 0

    def initializes(self, server: Server) -> bool:
        """Whether the only ResourceManager recovers its state: it answers, and knows nothing."""
        alone = len(self.servers) == 1 and server.leads_since is not None
        return alone and self.site.lists_nothing and self.recovering_s < self.site.recovers_s
