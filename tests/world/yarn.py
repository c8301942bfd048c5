"""What stands behind the ResourceManagers of the fake: applications, stored services, AMs.

Modelled after what was seen on real clusters; every rule names its place in facts/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.world.clock import FakeClock

ENDED = ("FINISHED", "FAILED", "KILLED")
AM_START_S = 4.0  # ACCEPTED to RUNNING, quiet machine
AM_LINGER_S = 5.0  # verified-versions 2.2


@dataclass
class App:
    """An application at the ResourceManager."""

    id: str
    user: str
    name: str
    queue: str
    started_ms: int
    attempts_left: int = 2
    state: str = "ACCEPTED"
    final_status: str = "UNDEFINED"
    diagnostics: str = ""
    finished_ms: int = 0
    ran: bool = False
    priority: int = 0
    lifetime_s: int | None = None
    launched_ms: int = 0
    attempt: int = 1  # of its AM

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass
class Stored:
    """A service as it lies in HDFS; without an id it has never been submitted, or its submission
    was cut off.

    Attributes:
        torn: The file was opened and never written: its writer died in between.
    """

    spec: dict[str, Any]
    app_id: str | None = None
    torn: bool = False


@dataclass
class Yarn:
    """The cluster behind one or more ResourceManagers.

    Attributes:
        version: Hadoop's version; what differs between versions follows it.
        job_s: How long a service runs before it ends well, `None` for ever.
        hold_accepted: Applications stay ACCEPTED, as in a full queue.
        readable: Whether the services API can ask AMs.
        max_mb: Largest container.
        most_priority: yarn.cluster.max-application-priority.
        longest_s: Longest lifetime of an application.
        node_mb: Memory of its node, `free_mb` of which is free; `None`: the node does not say.
    """

    clock: FakeClock
    version: tuple[int, ...] = (3, 4, 2)
    job_s: float | None = None
    hold_accepted: bool = False
    readable: bool = True
    service_state: str = "STARTED"  # of a service whose AM runs
    max_mb: int = 8192
    max_gpus: int = 0
    most_priority: int = 0
    longest_s: int = 10**9
    node_mb: int | None = None
    free_mb: int = 0
    signals: list[tuple[str, str]] = field(default_factory=list)  # containers, what they got
    users: frozenset[str] = frozenset({"alice", "bob"})
    queues: frozenset[str] = frozenset({"default", "ml"})
    apps: dict[str, App] = field(default_factory=dict)
    services: dict[tuple[str, str], Stored] = field(default_factory=dict)
    # component: what GET lists of it while the AM runs
    containers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    serial: int = 0
    on_end: Callable[[App], None] = lambda _app: None  # its containers end with it

    @property
    def version_text(self) -> str:
        return ".".join(str(part) for part in self.version)

    def live(self, user: str, name: str) -> list[App]:
        return [
            app
            for app in self.apps.values()
            if (app.user, app.name) == (user, name) and not app.ended
        ]

    def new_app_id(self) -> str:
        self.serial += 1
        return f"application_1700000000000_{self.serial:04}"

    def submit_app(self, user: str, spec: dict[str, Any]) -> App:
        """Accept an application; its AM starts later."""
        app = App(
            self.new_app_id(),
            user,
            spec["name"],
            spec.get("queue", "default"),
            self.clock.epoch_ms(),
            lifetime_s=spec.get("lifetime"),
        )
        self.apps[app.id] = app
        if app.queue not in self.queues:
            self.end(
                app,
                "FAILED",
                "FAILED",
                f"Application {app.id} submitted by user {user} to unknown queue: {app.queue}",
            )
        elif not self.hold_accepted:
            self.clock.after(AM_START_S, lambda: self._start_am(app))
        return app

    def release(self) -> None:
        """Let waiting applications start."""
        self.hold_accepted = False
        for app in self.apps.values():
            if app.state == "ACCEPTED":
                self.clock.after(0.1, lambda app=app: self._start_am(app))  # type: ignore[misc]

    def _start_am(self, app: App) -> None:
        if app.state != "ACCEPTED":
            return
        stored = self.services.get((app.user, app.name))
        # appIdStr is null (verified-security-ha 9.1)
        if stored is None or stored.torn or stored.app_id is None:
            app.attempts_left -= 1
            if app.attempts_left:
                self.clock.after(AM_START_S + 2, lambda: self._start_am(app))
            else:
                self.end(
                    app,
                    "FAILED",
                    "FAILED",
                    f"Application {app.id} failed 2 times due to AM Container exited with "
                    f"exitCode: -1",
                )
            return
        app.state, app.ran, app.launched_ms = "RUNNING", True, self.clock.epoch_ms()
        if self.job_s is not None:
            self.clock.after(
                self.job_s + AM_LINGER_S, lambda: self.end(app, "FINISHED", "SUCCEEDED")
            )

    def stop(self, app: App) -> None:
        """Stop through the service: the AM ends two seconds later; before it runs, the RM kills."""
        if app.state == "RUNNING":
            words = f"Stopped by user {app.user} (auth:SIMPLE)"
            self.clock.after(2.0, lambda: self.end(app, "FINISHED", "ENDED", words))
        else:
            self.kill(app, "Forcefully kill the app")

    def kill(self, app: App, why: str = "") -> None:
        words = f"Application {app.id} was killed by user {app.user} at 127.0.0.1 {why}".rstrip()
        self.clock.after(0.3, lambda: self.end(app, "KILLED", "KILLED", words))

    def end(self, app: App, state: str, final: str, diagnostics: str = "") -> None:
        if not app.ended:
            app.state, app.final_status, app.diagnostics = state, final, diagnostics
            app.finished_ms = self.clock.epoch_ms()
        self.on_end(app)

    # --- creating a service, step by step: what a killed server leaves is what was done before ----

    def creating(self, user: str, spec: dict[str, Any]) -> Iterator[None]:
        """Create a service as ServiceClient.actionCreate does; each step is a moment at which a
        server may die.

        Raises:
            YarnSays: with the answer's status and text.
        """
        name = spec["name"]
        check_spec(spec, self)
        if user not in self.users:
            words = (
                f"Permission denied: user={user}, access=WRITE, "
                f'inode="/user":root:supergroup:drwxr-xr-x'
            )
            raise YarnSays(
                403,
                words + "\n\tat "
                "org.apache.hadoop.hdfs.server.namenode.FSPermissionChecker.check(FSPermissionChecker.java:661)",
            )
        yield
        if self.live(user, name) or (user, name) in self.services:
            raise YarnSays(500, f"Service name {name} is already taken.")
        stored = self.services[user, name] = Stored(spec)
        yield
        try:
            self._check_limits(spec)
        except YarnSays as refused:
            if self.version >= (3, 3, 1) and not refused.leaves:  # YARN-10437
                self.services.pop((user, name), None)
            raise
        app = self.submit_app(user, spec)
        if app.ended:
            if self.version >= (3, 3, 1):
                self.services.pop((user, name), None)
            raise YarnSays(500, f"Failed to submit {app.id} to YARN : {app.diagnostics}")
        yield
        # the file is written again; a service deleted meanwhile comes back
        stored.app_id = app.id
        self.services[user, name] = stored
        yield

    def _check_limits(self, spec: dict[str, Any]) -> None:
        for component in spec["components"]:
            memory = component["resource"]["memory"]
            if not memory.isdigit():
                raise YarnSays(400, f'For input string: "{memory}"', leaves=True)
            if int(memory) > self.max_mb:
                words = (
                    f"Component {component['name']}: specified memory size ({memory}) is "
                    f"larger than configured max container memory size"
                )
                raise YarnSays(500, f"{words} ({self.max_mb})")


class YarnSays(Exception):
    """An answer of the services API that is no success."""

    def __init__(
        self, status: int, words: str, *, java: str | None = None, leaves: bool = False
    ) -> None:
        super().__init__(words)
        self.status = status
        self.words = words
        self.java = java
        self.leaves = leaves

    def body(self) -> dict[str, object]:
        if self.java:
            return {
                "exception": self.java.rpartition(".")[2],
                "message": self.words,
                "javaClassName": self.java,
            }
        return {"diagnostics": self.words}


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


# The wire's own names (yarn-services 2), kept apart from the records under test.
_KNOWN: dict[str, frozenset[str]] = {
    "Service": _names(
        "name version description id artifact resource launch_time "
        "number_of_running_containers lifetime components configuration state"
        " quicklinks queue kerberos_principal docker_client_config uri dependencies"
    ),
    "Component": _names(
        "name dependencies readiness_check artifact launch_command resource "
        "number_of_containers decommissioned_instances"
        " run_privileged_container placement_policy configuration quicklinks containers "
        "restart_policy state"
    ),
    "Resource": _names("profile cpus memory additional uri"),
    "Configuration": _names("properties env files"),
    "ConfigFile": _names("type dest_file src_file properties"),
}
_RECORDS = "org.apache.hadoop.yarn.service.api.records"


def check_spec(spec: dict[str, Any], yarn: Yarn) -> None:
    """Validate as the server does before it stores anything."""
    _check_fields("Service", spec)
    _check_configuration(spec.get("configuration"))
    for component in spec.get("components", []):
        _check_fields("Component", component)
        _check_fields("Resource", component.get("resource", {}))
        _check_configuration(component.get("configuration"))
    if not spec.get("name"):
        raise YarnSays(400, "Service name is either empty or not provided")
    if not spec.get("version"):
        raise YarnSays(400, f"Version of service {spec['name']} is either empty or not provided")
    if not spec.get("components"):
        raise YarnSays(400, f"No component specified for {spec['name']}")


def _check_configuration(configuration: dict[str, Any] | None) -> None:
    if configuration is not None:
        _check_fields("Configuration", configuration)
        for file in configuration.get("files", []):
            _check_fields("ConfigFile", file)


def _check_fields(record: str, value: dict[str, Any]) -> None:
    for key in value:
        if key not in _KNOWN[record]:
            known = ", ".join(f'"{name}"' for name in sorted(_KNOWN[record]))
            raise YarnSays(
                404,
                f'Unrecognized field "{key}" (class {_RECORDS}.{record}), not marked as '
                f"ignorable ({len(_KNOWN[record])} known properties: "
                f"{known}])\n at [Source: (org.eclipse.jetty.server.HttpInputOverHTTP); "
                f"line: 1, column: 1]",
                java="com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException",
            )


def parse(body: bytes) -> dict[str, Any]:
    """Parse a request's body as the server does."""
    try:
        value: dict[str, Any] = json.loads(body)
    except ValueError:
        raise YarnSays(
            404,
            "Unexpected end-of-input: expected close marker for Object",
            java="com.fasterxml.jackson.core.io.JsonEOFException",
        ) from None
    return value
