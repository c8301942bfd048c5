"""The web server of a ResourceManager: RMWebAppFilter for a standby, RMWebServices, ApiServer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

from tests.world.clock import Steps
from tests.world.services import Services
from tests.world.transport import Answer, Asked, remote_exception
from tests.world.yarn import App, Server, Yarn

__all__ = ["SERVICES", "ResourceManagers"]

SERVICES, WS = "/app/v1/services", "/ws/v1/cluster"
Handle = Callable[..., Answer]


class ResourceManagers:
    """What every ResourceManager of a cluster answers.

    Attributes:
        date_off_s: How far a proxy's `Date` is ahead of theirs; None: it takes the field away.
    """

    date_off_s: float | None = 0.0

    def __init__(self, yarn: Yarn) -> None:
        self.yarn, self.clock = yarn, yarn.clock
        app, queue = "/apps/([^/]+)", "/queues/([^/]+)"
        self._routes: Iterable[tuple[str, re.Pattern[str], Handle]] = [
            (method, re.compile(pattern), handle)
            for method, pattern, handle in (
                ("GET", "/apps", self._apps),
                ("GET", app, self._app),
                ("PUT", f"{app}/state", self._kill),
                ("PUT", f"{app}/priority", self._priority),
                ("PUT", f"{app}/queue", self._move),
                ("GET", f"{app}/appattempts", self._attempts),
                ("GET", f"{app}/appattempts/[^/]+/containers", self._containers),
                ("POST", "/containers/([^/]+)/signal/([^/]+)", self._signal),
                ("POST", "/apps/new-application", self._new_application),
                ("GET", "/userinfo", self._user),
                ("GET", "/nodes", self._nodes),
                ("GET", "/scheduler", self._scheduler),
                ("GET", "/get-node-labels", self._labels),
                ("GET", "/scheduler/app-activities/([^/]+)", self._activities),
                ("GET", f"{queue}/access", self._access),
            )
        ]

    def serve(self, server: Server, asked: Asked) -> Steps:
        """Answer a request to one of them, with the time by its clock."""
        answer: Answer = yield from self._serve(server, asked)
        if self.date_off_s is not None:
            at_s = self.clock.epoch_ms() / 1000 + self.date_off_s
            answer.headers["Date"] = formatdate(at_s, usegmt=True)
        return answer

    def _serve(self, server: Server, asked: Asked) -> Steps:
        yield 0.002
        if asked.path == f"{WS}/info":
            return self._info(server)
        if server.leads_since is None:
            return self._standby(server, asked)
        if asked.path.startswith(SERVICES):
            status, value = yield from self._service(server, asked)
            return Answer.json(value, status)
        path = asked.path.removeprefix(WS)
        for method, pattern, handle in self._routes:
            if method == asked.method and (match := pattern.fullmatch(path)):
                return handle(asked, *map(unquote, match.groups()))
        raise AssertionError(f"unexpected request: {asked.method} {asked.path}")

    def _info(self, server: Server) -> Answer:
        state = "STANDBY" if server.leads_since is None else "ACTIVE"
        if self.yarn.initializes(server):
            state = "INITIALIZING"
        info = {"id": server.started_ms, "startedOn": server.started_ms, "haState": state}
        version = self.yarn.site.version_text
        return Answer.json({"clusterInfo": {**info, "state": "STARTED", "hadoopVersion": version}})

    def _standby(self, server: Server, asked: Asked) -> Answer:
        active, query = self.yarn.active, f"?user.name={asked.user}"
        if active is None or active is server:
            where = f"6;url=http://{server.address}{asked.path}{query}&next.refresh.interval=1"
            words = "Can not find any active RM. Will retry in next 6 seconds."
            return Answer.text(words, 307, Refresh=where)
        where = f"http://{active.address}{asked.path}{query}"
        words = f"This is standby RM. The redirect url is: {asked.path}{query}\n"
        return Answer.text(words, 307, Location=where)

    # --- ApiServer ---

    def _service(self, server: Server, asked: Asked) -> Steps:
        name, _, component = asked.path[len(SERVICES) + 1 :].partition("/components/")
        name = unquote(name)
        if name == "version":
            return 200, {"hadoop_version": self.yarn.site.version_text}
        spec = json.loads(asked.body) if asked.body else {}
        key = asked.user, name or spec["name"]
        sent = key, asked.by, asked.sent_at
        work = Services(self.yarn, server, *sent, lambda step: asked.slow.pop(step, 0.0))
        if asked.method == "POST":
            return (yield from work.create(spec))
        if asked.method == "GET":
            return (yield from work.get())
        if asked.method == "DELETE":
            return (yield from work.delete())
        assert asked.method == "PUT", asked.method
        if component:
            return (yield from work.flex(unquote(component), spec["number_of_containers"]))
        if "lifetime" in spec:
            return (yield from work.set_lifetime(spec["lifetime"]))
        assert spec.get("state") == "STOPPED", spec
        return (yield from work.stop())

    # --- RMWebServices: applications ---

    def _find(self, app_id: str) -> App | None:
        app = self.yarn.app(app_id)
        return app if app is not None and self.yarn.knows(app) else None

    def _apps(self, asked: Asked) -> Answer:
        for field in ("startedTimeBegin", "finishedTimeBegin"):  # ApplicationsRequestBuilder
            if asked.query.get(field, "").startswith("-"):
                words = f"java.lang.Exception: {field} must be greater than 0"
                return remote_exception("BadRequestException", words, 400)
        name = asked.query.get("name") if self.yarn.site.version >= (3, 3) else None
        states, tags = (
            set(filter(None, asked.query.get(filter_, "").lower().split(",")))
            for filter_ in ("states", "applicationTags")
        )
        found = [
            self._report(app)
            for app in self.yarn.apps.values()
            if self.yarn.knows(app)
            and asked.query.get("user") in (None, app.user)
            and name in (None, app.name)
            and (not states or self.yarn.seen(app).lower() in states)
            and (not tags or f"name: {app.name}" in tags)
        ]
        return Answer.json({"apps": {"app": found} if found else {}})

    def _app(self, asked: Asked, app_id: str) -> Answer:
        app = self._find(app_id)
        return Answer.json({"app": self._report(app)}) if app else _not_found(app_id)

    def _report(self, app: App) -> dict[str, Any]:
        gone = app.over and not app.lingers
        shown = {
            "id": app.id,
            "user": app.user,
            "name": app.name,
            "queue": f"root.{app.queue}" if self.yarn.site.version >= (3, 4) else app.queue,
            "priority": app.priority,
            "state": self.yarn.seen(app),
            "finalStatus": app.final,
            "progress": 100.0,
            "runningContainers": -1 if gone else app.counted,
            "diagnostics": app.words,
            "applicationType": app.type,
            "applicationTags": f"name: {app.name}",
            "startedTime": app.started_ms,
            "launchTime": app.launched_ms,
            "finishedTime": app.finished_ms,
            "elapsedTime": self._elapsed_ms(app),
            "timeouts": {"timeout": [self._limit(app)]},
        }
        if self.yarn.site.node_rows:
            shown["allocatedMB"] = -1 if gone else 1024
        if self.yarn.node and app.attempts:
            container = f"container_{app.id.partition('_')[2]}_{app.attempts:02}_000001"
            where = f"{self.yarn.node.link}/node/containerlogs/{container}/{app.user}"
            shown["amContainerLogs"] = where
        if self.yarn.aggregation:
            shown["logAggregationStatus"] = self.yarn.aggregation if gone else "RUNNING"
        return shown

    def _elapsed_ms(self, app: App) -> int:
        """Return what Times.elapsed does: -1 where the clock was set back."""
        ended_ms = app.finished_ms or self.clock.epoch_ms()
        return max(-1, ended_ms - app.started_ms) if app.started_ms else 0

    def _limit(self, app: App) -> dict[str, Any]:
        if app.lifetime_s is None:
            return {"type": "LIFETIME", "expiryTime": "UNLIMITED", "remainingTimeInSeconds": -1}
        ends_s = app.started_ms // 1000 + app.lifetime_s
        ends = datetime.fromtimestamp(ends_s, timezone.utc)
        return {
            "type": "LIFETIME",
            "expiryTime": f"{ends:%Y-%m-%dT%H:%M:%S.000+0000}",
            "remainingTimeInSeconds": ends_s - self.clock.epoch_ms() // 1000,
        }

    def _kill(self, asked: Asked, app_id: str) -> Answer:
        app, wanted = self._find(app_id), json.loads(asked.body)
        assert wanted["state"] == "KILLED"
        if app is None:
            return _not_found(app_id)
        self.yarn.ended_by(app, asked.by)
        reason = wanted.get("diagnostics", "")
        self.yarn.kill(app, asked.by, f"with diagnostic message: {reason}" if reason else "")
        return Answer.json({"state": self.yarn.seen(app)}, 200 if app.over else 202)

    def _priority(self, asked: Asked, app_id: str) -> Answer:
        app = self._find(app_id)
        if app is None:
            return _not_found(app_id)
        # CapacityScheduler.checkAndGetApplicationPriority: the cluster's maximum instead of more
        app.priority = min(json.loads(asked.body)["priority"], self.yarn.site.most_priority)
        return Answer.json({"priority": app.priority})

    def _move(self, asked: Asked, app_id: str) -> Answer:
        app, queue = self._find(app_id), json.loads(asked.body)["queue"]
        if app is None:
            return _not_found(app_id)
        if queue.rpartition(".")[2] not in self.yarn.site.queues:
            words = f"org.apache.hadoop.yarn.exceptions.YarnException: Failed to move: {queue}"
            return remote_exception("BadRequestException", words, 400)
        app.queue = queue.rpartition(".")[2]
        return Answer.json({"queue": app.queue})

    def _attempts(self, asked: Asked, app_id: str) -> Answer:
        app, node = self._find(app_id), self.yarn.node
        if app is None:
            return _not_found(app_id)
        if node is None:
            return Answer.json({})  # no node lists a container: what outlives a job is not here
        number = f"{app_id.partition('_')[2]}"
        attempt = {
            "id": app.attempts,
            "appAttemptId": f"appattempt_{number}_{app.attempts:06}",
            "appAttemptState": app.state,
            "containerId": f"container_{number}_{app.attempts:02}_000001",
            "nodeHttpAddress": node.address,
        }
        if self.yarn.site.version < (3, 4):
            # seen on 3.1.3; AppAttemptInfo of 3.3.5 has no such field
            del attempt["appAttemptState"]
        return Answer.json({"appAttempts": {"appAttempt": [attempt]}})

    def _containers(self, asked: Asked, app_id: str) -> Answer:
        """List the containers that the ResourceManager knows: none of what is over."""
        app, node = self.yarn.apps[app_id], self.yarn.node
        number = app_id.partition("_")[2]
        mine = [] if node is None or app.over else [c for c in node.containers if number in c]
        at = f"http://{node.address}" if node else ""
        rows = [{"containerId": container, "nodeHttpAddress": at} for container in mine]
        return Answer.json({"container": rows})

    def _signal(self, asked: Asked, container: str, command: str) -> Answer:
        self.yarn.signals.append((container, command))
        if self.yarn.site.version < (3, 3):  # YARN-8693
            return Answer.text("HTTP 404 Not Found", 404)
        if not self.yarn.node or self.yarn.node.containers.get(container) != "RUNNING":
            # text, although the header field says JSON
            return Answer(500, f"Trying to signal an absent container {container}".encode())
        return Answer.json({})

    def _new_application(self, asked: Asked) -> Answer:
        gpus = {"resourceInformation": [{"name": "yarn.io/gpu", "value": self.yarn.site.max_gpus}]}
        most = {"memory": self.yarn.site.max_mb, "vCores": 8, "resourceInformations": gpus}
        new = {"application-id": self.yarn.new_id(), "maximum-resource-capability": most}
        return Answer.json(new)

    # --- RMWebServices: the cluster ---

    def _user(self, asked: Asked) -> Answer:
        """Name the user as whom the request was authenticated: this one ignores `doAs`."""
        return Answer.json({"clusterUserInfo": {"requestedUser": asked.user}})

    def _nodes(self, asked: Asked) -> Answer:
        if self.yarn.site.node_rows:
            return Answer.json({"nodes": {"node": list(self.yarn.site.node_rows)}})
        if self.yarn.node is None:
            return Answer.json({"nodes": {}})
        site, node = self.yarn.site, {"id": "node1:8041", "nodeHostName": "node1"}
        row: dict[str, Any] = {
            **node,
            "nodeHTTPAddress": self.yarn.node.address,
            "state": "RUNNING",
        }
        if site.node_mb is not None:
            row |= {"usedMemoryMB": site.node_mb - site.free_mb, "availMemoryMB": site.free_mb}
            row |= {"usedVirtualCores": 0, "availableVirtualCores": 8}
        return Answer.json({"nodes": {"node": [row]}})

    def _labels(self, asked: Asked) -> Answer:
        site = self.yarn.site
        names = sorted({name for row in site.node_rows for name in row.get("nodeLabels") or ()})
        known = [{"name": name, "exclusivity": site.exclusive_labels} for name in names]
        return Answer.json({"nodeLabelInfo": known} if known else {})

    def _scheduler(self, asked: Asked) -> Answer:
        names = sorted(self.yarn.site.queues)
        more = {"state": "RUNNING", **self.yarn.queue_limits}
        queues = {"queue": [{"queueName": name, **more} for name in names]}
        if "maxContainerAllocation" in more:
            info = {"type": "fairScheduler", "rootQueue": {"childQueues": queues}}
            return Answer.json({"scheduler": {"schedulerInfo": info}})
        info = {"type": "capacityScheduler", "queues": queues}
        return Answer.json({"scheduler": {"schedulerInfo": info}})

    def _activities(self, _asked: Asked, app_id: str) -> Answer:
        """Answer as a scheduler that has recorded nothing yet (RMWebServices.getAppActivities)."""
        told = {"applicationId": app_id, "diagnostic": "waiting for next allocation"}
        return Answer.json({"appActivities": told})

    def _access(self, asked: Asked, queue: str) -> Answer:
        if queue.rpartition(".")[2] not in self.yarn.site.queues:
            words = (
                f"java.lang.Exception: User={asked.user} doesn't haven access to queue={queue} "
                "so it cannot check ACLs for other users."
            )
            return remote_exception("ForbiddenException", words, 403)
        return Answer.json({"allowed": "true", "user": asked.query["user"], "diagnostics": ""})


def _not_found(app_id: str) -> Answer:
    words = f"java.lang.Exception: app with id: {app_id} not found"
    return remote_exception("NotFoundException", words, 404)
