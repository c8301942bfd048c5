"""ResourceManagers and a NodeManager that answer as real ones do (hadoop-facts.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

import requests

from submit_tf_job.yarn.auth import SimpleAuth
from submit_tf_job.yarn.resource_manager import ResourceManager, Timeouts
from tests.world.clock import EPOCH_MS, FakeClock
from tests.world.node_manager import FakeNM
from tests.world.transport import (
    Answer,
    Asked,
    FakeNetwork,
    connection_broke,
    refused,
    remote_exception,
)
from tests.world.yarn import ENDED, App, Yarn, YarnSays, parse

STEP_S = 0.2
TORN = (
    "No content to map due to end-of-input\n at [Source: "
    "(org.apache.hadoop.hdfs.client.HdfsDataInputStream); line: 1, column: 0]"
)


class FakeCluster:
    """A cluster of fakes and the clients that talk to it.

    Args:
        rms: Addresses of its ResourceManagers; the first one is active.
        version: Hadoop's version.
        clock: Its time.
    """

    def __init__(
        self, *rms: str, version: tuple[int, ...] = (3, 4, 2), clock: FakeClock | None = None
    ) -> None:
        self.clock = clock or FakeClock()
        self.yarn = Yarn(self.clock, version)
        self.network = FakeNetwork(self.clock)
        self.rms = [
            FakeRM(self, address, index == 0) for index, address in enumerate(rms or ("rm1:8088",))
        ]
        self.node = FakeNM("node1:8042")
        for server in self.rms:
            self.network.servers[server.address] = server
        self.network.servers[self.node.address] = self.node
        self.same_host: dict[str, frozenset[str]] = {}

    def client(
        self, user: str = "alice", as_user: str | None = None, *, timeouts: Timeouts | None = None
    ) -> ResourceManager:
        """Return a client of all ResourceManagers."""
        return ResourceManager(
            [f"http://{rm.address}" for rm in self.rms],
            SimpleAuth(user, as_user),
            timeouts=timeouts,
            clock=self.clock,
            sleep=self.clock.sleep,
            jitter=lambda: 0.5,
            resolve=lambda host: self.same_host.get(host, frozenset({host})),
            adapter=self.network,
        )

    @property
    def active(self) -> FakeRM | None:
        return next((rm for rm in self.rms if rm.role == "active"), None)

    def kill_active(self, *, failover_s: float = 4.2, back_s: float = 9.0) -> None:
        """Kill the active ResourceManager; another takes over, or it comes back itself."""
        dying = self.active
        if dying is None:
            return
        dying.die()
        standby = next((rm for rm in self.rms if rm.role == "standby"), None)
        if standby is not None:
            self.clock.after(failover_s, standby.take_over)
        self.clock.after(back_s, lambda: dying.come_back(alone=standby is None))


class FakeRM:
    """One ResourceManager: `active`, `standby`, `becoming` active, `down`, or `hanging`."""

    def __init__(self, cluster: FakeCluster, address: str, active: bool) -> None:
        self.cluster = cluster
        self.yarn = cluster.yarn
        self.clock = cluster.clock
        self.address = address
        self.role = "active" if active else "standby"
        self.started_ms = EPOCH_MS
        self.services_enabled = True
        self.aggregation: str | None = None  # logAggregationStatus of what is over

    def die(self) -> None:
        self.role = "down"

    def come_back(self, *, alone: bool) -> None:
        self.started_ms = self.clock.epoch_ms()
        self.role = "active" if alone else "standby"

    def take_over(self) -> None:
        if self.role == "standby":
            self.role = "active"

    @property
    def process(self) -> object:
        return None if self.role == "down" else self.started_ms

    # --- answering --------------------------------------------------------------------------------

    def serve(self, asked: Asked) -> Answer:
        """Answer a request as this ResourceManager would now."""
        self.clock.sleep(0.01)
        if self.role == "down":
            raise refused()
        if self.role == "hanging":
            self.clock.sleep(asked.read_s)
            raise requests.exceptions.ReadTimeout("Read timed out.")
        if asked.path == "/ws/v1/cluster/info":
            return self._info()
        if self.role != "active":
            return self._standby(asked)
        for method, pattern, handle in self._routes():
            match = re.fullmatch(pattern, asked.path)
            if match and method == asked.method:
                return handle(asked, *(unquote(part) for part in match.groups()))
        raise AssertionError(f"unexpected request: {asked.method} {asked.path}")

    def _routes(self) -> Iterable[tuple[str, str, Callable[..., Answer]]]:
        ws, services = "/ws/v1/cluster", "/app/v1/services"
        yield "GET", f"{ws}/apps", self._apps
        yield "GET", f"{ws}/apps/([^/]+)", self._app
        yield "PUT", f"{ws}/apps/([^/]+)/state", self._kill
        yield "PUT", f"{ws}/apps/([^/]+)/priority", self._priority
        yield "GET", f"{ws}/apps/([^/]+)/appattempts", self._attempts
        yield "GET", f"{ws}/apps/([^/]+)/appattempts/([^/]+)/containers", self._containers
        yield "PUT", f"{ws}/apps/([^/]+)/queue", self._move
        yield "POST", f"{ws}/containers/([^/]+)/signal/([^/]+)", self._signal
        yield "GET", f"{ws}/userinfo", self._user
        yield "POST", f"{ws}/apps/new-application", self._new_application
        yield "GET", f"{ws}/nodes", self._nodes
        yield "GET", f"{ws}/scheduler", self._scheduler
        yield "GET", f"{ws}/queues/([^/]+)/access", self._access
        if not self.services_enabled:
            yield "GET", f"{services}.*", _no_services
            yield "POST", f"{services}.*", _no_services
            yield "PUT", f"{services}.*", _no_services
            yield "DELETE", f"{services}.*", _no_services
        yield "GET", f"{services}/version", self._version
        yield "POST", services, self._post
        yield "GET", f"{services}/([^/]+)", self._get
        yield "PUT", f"{services}/([^/]+)", self._put
        yield "DELETE", f"{services}/([^/]+)", self._delete
        yield "PUT", f"{services}/([^/]+)/components/([^/]+)", self._flex

    def _standby(self, asked: Asked) -> Answer:
        active = self.cluster.active
        query = f"?user.name={asked.user}"
        if self.role == "becoming":
            return Answer.text(
                "This is standby RM.", 307, Location=f"http://{self.address}{asked.path}{query}"
            )
        if active is None:
            words = (
                "Can not find any active RM. Will retry in next 6 seconds.\nHA Zookeeper "
                "Connection State: CONNECTED"
            )
            return Answer.text(
                words,
                307,
                Refresh=f"6;url=http://{self.address}{asked.path}{query}&next.refresh.interval=1",
            )
        where = f"http://{active.address}{asked.path}{query}"
        return Answer.text(
            f"This is standby RM. The redirect url is: {asked.path}{query}\n", 307, Location=where
        )

    def _info(self) -> Answer:
        ha = {"active": "ACTIVE", "becoming": "STANDBY"}.get(self.role, "STANDBY")
        info = {
            "id": self.started_ms,
            "startedOn": self.started_ms,
            "state": "STARTED",
            "haState": ha,
            "hadoopVersion": self.yarn.version_text,
        }
        return Answer.json({"clusterInfo": info})

    # --- applications -----------------------------------------------------------------------------

    def _apps(self, asked: Asked) -> Answer:
        query, found = asked.query, list(self.yarn.apps.values())
        if query.get("name") and self.yarn.version >= (3, 3):
            found = [app for app in found if app.name == query["name"]]
        if query.get("user"):
            found = [app for app in found if app.user == query["user"]]
        if query.get("states"):
            found = [app for app in found if app.state in query["states"].split(",")]
        if query.get("applicationTags"):
            found = [app for app in found if f"name: {app.name}" in query["applicationTags"]]
        return Answer.json({"apps": {"app": [self._report(app) for app in found]} if found else {}})

    def _app(self, asked: Asked, app_id: str) -> Answer:
        app = self.yarn.apps.get(app_id)
        return Answer.json({"app": self._report(app)}) if app else _app_not_found(app_id)

    def _report(self, app: App) -> dict[str, Any]:
        queue = f"root.{app.queue}" if self.yarn.version >= (3, 4) else app.queue
        return {
            "id": app.id,
            "user": app.user,
            "name": app.name,
            "queue": queue,
            "priority": app.priority,
            "state": app.state,
            "finalStatus": app.final_status,
            "progress": 100.0,
            "diagnostics": app.diagnostics,
            "applicationType": "yarn-service",
            "applicationTags": f"name: {app.name}",
            "startedTime": app.started_ms,
            "launchTime": app.launched_ms,
            "finishedTime": app.finished_ms,
            "elapsedTime": (app.finished_ms or self.clock.epoch_ms()) - app.started_ms,
            "runningContainers": -1 if app.ended else 1,
            "timeouts": {"timeout": [self._limit(app)]},
            **({"amContainerLogs": _logs_of(app)} if app.queue in self.yarn.queues else {}),
            **(
                {"logAggregationStatus": self.aggregation} if self.aggregation and app.ended else {}
            ),
        }

    def _limit(self, app: App) -> dict[str, Any]:
        now_ms = self.clock.epoch_ms()
        if app.lifetime_s is None:
            return {"type": "LIFETIME", "expiryTime": "UNLIMITED", "remainingTimeInSeconds": -1}
        left_s = app.lifetime_s - (now_ms - app.started_ms) // 1000
        ends = datetime.fromtimestamp(now_ms / 1000 + left_s, timezone.utc)
        return {
            "type": "LIFETIME",
            "expiryTime": f"{ends:%Y-%m-%dT%H:%M:%S.000+0000}",
            "remainingTimeInSeconds": left_s,
        }

    def _kill(self, asked: Asked, app_id: str) -> Answer:
        app = self.yarn.apps.get(app_id)
        wanted = json.loads(asked.body)
        assert wanted["state"] == "KILLED"
        if app is None:
            return _app_not_found(app_id)
        if not app.ended:
            reason = wanted.get("diagnostics")
            self.yarn.kill(app, f"with diagnostic message: {reason}" if reason else "")
        return Answer.json({"state": app.state}, 200 if app.ended else 202)

    def _priority(self, asked: Asked, app_id: str) -> Answer:
        app = self.yarn.apps.get(app_id)
        if app is None:
            return _app_not_found(app_id)
        # CapacityScheduler.checkAndGetApplicationPriority: the cluster's maximum instead of more
        app.priority = min(json.loads(asked.body)["priority"], self.yarn.most_priority)
        return Answer.json({"priority": app.priority})

    def _move(self, asked: Asked, app_id: str) -> Answer:
        app, queue = self.yarn.apps.get(app_id), json.loads(asked.body)["queue"]
        if app is None:
            return _app_not_found(app_id)
        if queue.rpartition(".")[2] not in self.yarn.queues:
            words = f"org.apache.hadoop.yarn.exceptions.YarnException: Failed to move: {queue}"
            return remote_exception("BadRequestException", words, 400)
        app.queue = queue.rpartition(".")[2]
        return Answer.json({"queue": app.queue})

    def _signal(self, asked: Asked, container: str, command: str) -> Answer:
        self.yarn.signals.append((container, command))
        if self.yarn.version < (3, 3):  # YARN-8693
            return Answer.text("HTTP 404 Not Found", 404)
        if self.cluster.node.containers.get(container) != "RUNNING":
            # text, although the header field says JSON
            return Answer(500, f"Trying to signal an absent container {container}".encode())
        return Answer.json({})

    def _user(self, asked: Asked) -> Answer:
        """Name the user as whom the request was authenticated: this one ignores `doAs`."""
        return Answer.json({"clusterUserInfo": {"requestedUser": asked.user}})

    def _attempts(self, asked: Asked, app_id: str) -> Answer:
        if app_id not in self.yarn.apps:
            return _app_not_found(app_id)
        number = app_id.partition("_")[2]
        attempt = {
            "id": 1,
            "appAttemptId": f"appattempt_{number}_000001",
            "appAttemptState": self.yarn.apps[app_id].state,
            "containerId": f"container_{number}_01_000001",
            "nodeHttpAddress": "node1:8042",
        }
        if self.yarn.version < (3, 4):
            # seen on 3.1.3; AppAttemptInfo of 3.3.5 has no such field
            del attempt["appAttemptState"]
        return Answer.json({"appAttempts": {"appAttempt": [attempt]}})

    def _containers(self, asked: Asked, app_id: str, _attempt: str) -> Answer:
        """List the containers that the ResourceManager knows: none of an application that is
        over.
        """
        app, node = self.yarn.apps[app_id], self.cluster.node
        mine = (
            []
            if app.ended
            else [name for name in node.containers if app_id.partition("_")[2] in name]
        )
        return Answer.json(
            {
                "container": [
                    {"containerId": name, "nodeHttpAddress": f"http://{node.address}"}
                    for name in mine
                ]
            }
        )

    def _new_application(self, asked: Asked) -> Answer:
        gpus = {"resourceInformation": [{"name": "yarn.io/gpu", "value": self.yarn.max_gpus}]}
        most = {"memory": self.yarn.max_mb, "vCores": 8, "resourceInformations": gpus}
        return Answer.json(
            {"application-id": self.yarn.new_app_id(), "maximum-resource-capability": most}
        )

    def _nodes(self, asked: Asked) -> Answer:
        node: dict[str, Any] = {
            "id": "node1:8041",
            "nodeHostName": "node1",
            "nodeHTTPAddress": self.cluster.node.address,
            "state": "RUNNING",
        }
        if self.yarn.node_mb is not None:
            free_mb = self.yarn.free_mb
            node |= {"usedMemoryMB": self.yarn.node_mb - free_mb, "availMemoryMB": free_mb}
        return Answer.json({"nodes": {"node": [node]}})

    def _scheduler(self, asked: Asked) -> Answer:
        queues = [{"queueName": name, "state": "RUNNING"} for name in sorted(self.yarn.queues)]
        return Answer.json(
            {
                "scheduler": {
                    "schedulerInfo": {"type": "capacityScheduler", "queues": {"queue": queues}}
                }
            }
        )

    def _access(self, asked: Asked, queue: str) -> Answer:
        if queue.rpartition(".")[2] not in self.yarn.queues:
            words = (
                f"java.lang.Exception: User={asked.user} doesn't haven access to queue={queue} "
                f"so it cannot check ACLs for other users."
            )
            return remote_exception("ForbiddenException", words, 403)
        return Answer.json({"allowed": "true", "user": asked.query["user"], "diagnostics": ""})

    # --- services ---------------------------------------------------------------------------------

    def _version(self, asked: Asked) -> Answer:
        return Answer.json(
            {
                "hadoop_version": f"{self.yarn.version_text} from 84e8b8 by somebody source checksum f0b2d3"
            }
        )

    def _post(self, asked: Asked) -> Answer:
        """Create a service while the client waits; when it stops waiting, the creation goes on."""
        try:
            spec = parse(asked.body)
        except YarnSays as refusal:
            return Answer.json(refusal.body(), refusal.status)
        steps, born, outcome = (
            self.yarn.creating(asked.user, spec),
            self.started_ms,
            list[Answer | None](),
        )

        def step(number: int) -> None:
            if self.started_ms != born or self.role == "down":
                return  # the process that worked on it is gone
            try:
                next(steps)
            except YarnSays as refusal:
                outcome.append(Answer.json(refusal.body(), refusal.status))
                return
            if number == 3:
                app_id = self.yarn.services[asked.user, spec["name"]].app_id
                said = {
                    "uri": f"/v1/services/{spec['name']}",
                    "diagnostics": f"Application ID: {app_id}",
                    "state": "ACCEPTED",
                }
                outcome.append(Answer.json(said, 202))
            else:
                self.clock.after(STEP_S, lambda: step(number + 1))

        self.clock.after(STEP_S, lambda: step(0))
        until = self.clock.now + asked.read_s
        while not outcome and self.clock.now < until:
            self.clock.sleep(min(0.1, max(0.0, until - self.clock.now)))
            if self.role == "down" and not outcome:
                raise connection_broke()
        if not outcome:
            raise requests.exceptions.ReadTimeout("Read timed out.")
        if outcome[0] is None:
            raise connection_broke()
        return outcome[0]

    def _get(self, asked: Asked, name: str) -> Answer:
        stored = self.yarn.services.get((asked.user, name))
        if stored is None:
            return Answer.json({"diagnostics": f"Service {name} not found", "code": 404004}, 404)
        if stored.torn:
            return Answer.json({"diagnostics": TORN}, 500)
        app = self.yarn.apps.get(stored.app_id or "")
        shown: dict[str, Any] = {
            "name": name,
            "components": [],
            "configuration": {"properties": {}, "env": {}, "files": []},
        }
        shown |= {"state": _service_state(app), "quicklinks": {}, "kerberos_principal": {}}
        running = app is not None and app.state == "RUNNING"
        if running and not self.yarn.readable:
            return Answer.json(
                {
                    "diagnostics": "Call From vm/127.0.0.1 to localhost:37007 failed on socket "
                    "exception: Connection reset"
                },
                500,
            )
        if stored.app_id and (running or self.yarn.version >= (3, 2)):
            shown["id"] = stored.app_id
        if running:
            shown |= {
                **stored.spec,
                "state": self.yarn.service_state,
                "components": [self._component(item) for item in stored.spec["components"]],
            }
        return Answer.json(shown)

    def _component(self, component: dict[str, Any]) -> dict[str, Any]:
        return {
            **component,
            "state": "FLEXING",
            "containers": self.yarn.containers.get(component["name"], []),
        }

    def _put(self, asked: Asked, name: str) -> Answer:
        stored, wanted = self.yarn.services.get((asked.user, name)), parse(asked.body)
        if stored is None:
            words = (
                f"File does not exist: "
                f"/user/{asked.user}/.yarn/services/{name}/{name}.json\n\tat "
                f"org.apache.hadoop.hdfs.server.namenode.X"
            )
            return Answer.json({"diagnostics": words}, 404)
        if stored.torn:
            return Answer.json({"diagnostics": TORN}, 500)
        app = self.yarn.apps.get(stored.app_id or "")
        if "lifetime" in wanted and app is not None:
            past_s = (self.clock.epoch_ms() - app.started_ms) // 1000
            app.lifetime_s = past_s + min(wanted["lifetime"], self.yarn.longest_s)
            return Answer.json({"diagnostics": f"Service ({name})'s lifeTime is updated"})
        assert wanted["state"] == "STOPPED", wanted
        if app is None or app.ended:
            return Answer.json({"diagnostics": f"Service {name} is already stopped"}, 400)
        self.yarn.stop(app)
        return Answer.json({"diagnostics": f"Successfully stopped service {name}"})

    def _delete(self, asked: Asked, name: str) -> Answer:
        key = asked.user, name
        stored = self.yarn.services.get(key)
        if stored is None:
            return Answer.json({"diagnostics": f"Service {name} doesn't exist"}, 400)
        app = self.yarn.apps.get(stored.app_id or "")
        if app is not None and not app.ended:
            self.yarn.stop(app)
            self.clock.sleep(4.1)
        if self.yarn.live(*key):
            return Answer.json(
                {"diagnostics": f"Failed to destroy service {name}, because it is still running."},
                400,
            )
        self.yarn.services.pop(key, None)
        return Answer.json({"diagnostics": f"Successfully destroyed service {name}"})

    def _flex(self, asked: Asked, name: str, component: str) -> Answer:
        stored, wanted = self.yarn.services.get((asked.user, name)), parse(asked.body)
        if stored is None:
            return Answer.json(
                {
                    "diagnostics": f"File does not exist: "
                    f"/user/{asked.user}/.yarn/services/{name}/{name}.json"
                },
                500,
            )
        app = self.yarn.apps.get(stored.app_id or "")
        if app is None or app.state != "RUNNING":
            state = app.state if app else "FINISHED"
            return Answer.json(
                {
                    "diagnostics": f"{name} is at {state} state, flex can only be invoked when service is "
                    f""
                    f""
                    f"running"
                },
                500,
            )
        found = next(
            (item for item in stored.spec["components"] if item["name"] == component), None
        )
        if found is None:
            return Answer.json(
                {"diagnostics": f"Components [{component}] do not exist in app definition."}, 500
            )
        before, found["number_of_containers"] = (
            found["number_of_containers"],
            wanted["number_of_containers"],
        )
        words = (
            f"Updating component ({component}) size from {before} to "
            f"{wanted['number_of_containers']}"
        )
        return Answer.json({"diagnostics": words})


def _service_state(app: App | None) -> str:
    if app is None or app.state in ENDED:
        return "FAILED" if app is not None and app.state == "FAILED" else "STOPPED"
    return "ACCEPTED"


def _app_not_found(app_id: str) -> Answer:
    return remote_exception(
        "NotFoundException", f"java.lang.Exception: app with id: {app_id} not found", 404
    )


def _no_services(asked: Asked, *parts: str) -> Answer:
    return Answer(404, b"", "text/plain;charset=utf-8")


def _logs_of(app: App) -> str:
    container = f"container_{app.id.partition('_')[2]}_{app.attempt:02}_000001"
    return f"http://node1:8042/node/containerlogs/{container}/{app.user}"
