"""The way from a client to the ResourceManagers: what `requests` would send is answered here.

RMWebAppFilter answers for a standby; everything else is RMWebServices and ApiServer.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import requests
from requests.adapters import BaseAdapter

from tests.histories.hadoop import App, Cluster, Server
from tests.histories.kernel import Actor, Steps
from tests.histories.services import Services
from tests.histories.weather import Fate, Weather
from tests.world.transport import Answer, FakeNetwork, connection_broke, refused

__all__ = ["Connection", "Network"]

_SERVICES, _WS = "/app/v1/services", "/ws/v1/cluster"
_LATE = object()


class Network:
    """All addresses of the cluster, and the weather."""

    def __init__(self, cluster: Cluster, rng: random.Random, weather: Weather) -> None:
        self.cluster, self.rng, self.weather = cluster, rng, weather
        self.kernel = cluster.kernel
        self.servers = {server.address: server for server in cluster.servers}
        self.sent: dict[str, int] = {}  # requests by command
        self.forbidden: list[tuple[float, str]] = []  # when a proxy did not let which command look
        self.posted = False

    def fate(self, method: str, path: str) -> Fate:
        """Draw what becomes of a request; in a calm world, nothing does."""
        fate = self.weather.fate(self.rng, method)
        self.posted = self.posted or (method == "POST" and path.startswith(_SERVICES))
        calm = self.cluster.calm or (self.weather.after_post and not self.posted)
        return Fate() if calm else fate

    def deliver(self, server: Server, asked: Asked, done: Callable[[Answer], None]) -> None:
        """Let a server work on a request; the answer comes when it comes, or never."""
        if not server.up:
            return
        born = server.born
        self.kernel.start(
            self.serve(server, asked),
            alive=lambda: server.up and server.born == born,
            hold_s=lambda: self.cluster.still_s(server),
            done=done,
        )
        writes = asked.method in ("POST", "DELETE") and asked.path.startswith(_SERVICES)
        if writes and not self.cluster.calm and self.rng.random() < self.weather.dies:
            back = partial(self.cluster.crash, server, self.rng.uniform(6.0, 20.0))
            self.kernel.at(self.rng.choice((0.05, 0.2, 0.6, 2.0, 20.0)) * self.rng.random(), back)

    def serve(self, server: Server, asked: Asked) -> Steps:
        """Answer as the web server of a ResourceManager does."""
        yield 0.002
        if asked.path == f"{_WS}/info":
            return self._info(server)
        if server.leads_since is None:
            return self._standby(server, asked)
        if asked.path.startswith(_SERVICES):
            status, value = yield from self._service(server, asked)
            return Answer.json(value, status)
        return self._cluster(asked)

    def _info(self, server: Server) -> Answer:
        version = ".".join(str(part) for part in self.cluster.site.version)
        state = "STANDBY" if server.leads_since is None else "ACTIVE"
        info = {"id": server.started_ms, "startedOn": server.started_ms, "haState": state}
        return Answer.json({"clusterInfo": {**info, "state": "STARTED", "hadoopVersion": version}})

    def _standby(self, server: Server, asked: Asked) -> Answer:
        active, query = self.cluster.active, f"?user.name={asked.user}"
        if active is None or active is server:
            where = f"6;url=http://{server.address}{asked.path}{query}&next.refresh.interval=1"
            words = "Can not find any active RM. Will retry in next 6 seconds."
            return Answer.text(words, 307, Refresh=where)
        where = f"http://{active.address}{asked.path}{query}"
        words = f"This is standby RM. The redirect url is: {asked.path}{query}\n"
        return Answer.text(words, 307, Location=where)

    # --- ApiServer ---

    def _service(self, server: Server, asked: Asked) -> Steps:
        name = unquote(asked.path[len(_SERVICES) + 1 :])
        if name == "version":
            version = ".".join(str(part) for part in self.cluster.site.version)
            return 200, {"hadoop_version": version}
        slow = dict(asked.fate.slow)
        spec = _parsed(asked.body) if asked.body else {}
        key = asked.user, name or spec["name"]
        work = Services(
            self.cluster, server, key, asked.by, asked.sent_at, lambda step: slow.pop(step, 0.0)
        )
        if asked.method == "POST":
            return (yield from work.create(spec))
        if asked.method == "GET":
            return (yield from work.get())
        if asked.method == "DELETE":
            return (yield from work.delete())
        assert (asked.method, spec.get("state")) == ("PUT", "STOPPED"), (asked.method, spec)
        return (yield from work.stop())

    # --- RMWebServices ---

    def _cluster(self, asked: Asked) -> Answer:
        path = asked.path[len(_WS) :]
        if path == "/apps":
            return self._apps(asked)
        if path == "/apps/new-application":
            most = {"memory": 8192, "vCores": 8}
            new = {"application-id": self.cluster.new_id(), "maximum-resource-capability": most}
            return Answer.json(new)
        if path == "/userinfo":
            return Answer.json({"clusterUserInfo": {"requestedUser": asked.user}})
        if path == "/nodes":
            return Answer.json({"nodes": {}})
        match = re.fullmatch(r"/apps/(application_\d+_\d+)(/state|/appattempts(?:/.*)?)?", path)
        assert match, f"unexpected request: {asked.method} {asked.path}"
        app = self.cluster.app(match[1])
        if app is None or not self.cluster.knows(app):
            words = f"java.lang.Exception: app with id: {match[1]} not found"
            thrown = {"exception": "NotFoundException", "message": words}
            thrown["javaClassName"] = "org.apache.hadoop.yarn.webapp.NotFoundException"
            return Answer.json({"RemoteException": thrown}, 404)
        if (match[2] or "").startswith("/appattempts"):
            return Answer.json({})  # no node lists a container: what outlives a job is not here
        if match[2] == "/state":
            assert asked.method == "PUT"
            self.cluster.ended_by(app, asked.by)
            reason = _parsed(asked.body).get("diagnostics", "")
            self.cluster.kill(app, asked.by, f"with diagnostic message: {reason}" if reason else "")
            return Answer.json({"state": self.cluster.seen(app)}, 200 if app.over else 202)
        return Answer.json({"app": self._report(app)})

    def _apps(self, asked: Asked) -> Answer:
        """RMWebServices.getApps."""
        name = asked.query.get("name") if self.cluster.site.version >= (3, 3) else None
        states, tags = (
            set(filter(None, asked.query.get(filter_, "").lower().split(",")))
            for filter_ in ("states", "applicationTags")
        )
        found = [
            self._report(app)
            for app in self.cluster.apps.values()
            if self.cluster.knows(app)
            and asked.query.get("user") in (None, app.user)
            and name in (None, app.name)
            and (not states or self.cluster.seen(app).lower() in states)
            and (not tags or f"name: {app.name}" in tags)
        ]
        return Answer.json({"apps": {"app": found} if found else {}})

    def _report(self, app: App) -> dict[str, Any]:
        return {
            "id": app.id,
            "user": app.user,
            "name": app.name,
            "queue": "default",
            "state": self.cluster.seen(app),
            "finalStatus": app.final,
            "progress": 0.0,
            "runningContainers": -1 if app.over and not app.lingers else 1,
            "diagnostics": app.words,
            "applicationType": "yarn-service",
            "applicationTags": f"name: {app.name}",
            "startedTime": app.started_ms,
            "finishedTime": app.finished_ms,
            "elapsedTime": (app.finished_ms or self.kernel.epoch_ms()) - app.started_ms,
            "logAggregationStatus": "SUCCEEDED" if app.over and not app.lingers else "RUNNING",
        }


@lru_cache(maxsize=256)
def _parsed(body: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(body)
    return value


class Asked:
    """A request as a server sees it."""

    def __init__(
        self, request: requests.PreparedRequest, by: str, fate: Fate, sent_at: float
    ) -> None:
        parts = urlsplit(str(request.url))
        query = parse_qs(parts.query, keep_blank_values=True)
        self.method, self.path, self.by, self.fate = str(request.method), parts.path, by, fate
        self.sent_at = sent_at
        self.query = {name: values[0] for name, values in query.items() if name != "user.name"}
        self.user = query["user.name"][0]
        body = request.body or b""
        self.body = body.encode() if isinstance(body, str) else bytes(body)

    def __str__(self) -> str:
        return f"{self.method} {self.path.removeprefix(_SERVICES).removeprefix(_WS) or '/'}"


class Connection(BaseAdapter):
    """The network as one client process has it."""

    def __init__(self, network: Network, actor: Actor) -> None:
        super().__init__()
        self.network, self.actor = network, actor
        self.by = actor.name  # the command that the process executes

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Send a request, and wait for what becomes of it."""
        assert stream
        connect_s, read_s = timeout
        assert 0 < connect_s <= 10, timeout
        assert 0 < read_s <= 400, timeout
        server = self.network.servers[urlsplit(str(request.url)).netloc]
        fate = self.network.fate(str(request.method), urlsplit(str(request.url)).path)
        asked = Asked(request, self.by, fate, self.network.kernel.now)
        counts = self.network.sent
        counts[self.by] = counts.get(self.by, 0) + 1
        answer = self._ask(server, asked, fate, connect_s, read_s)
        return FakeNetwork._response(request, answer)

    def close(self) -> None:
        """Forget nothing: connections are not modelled."""

    def _ask(
        self, server: Server, asked: Asked, fate: Fate, connect_s: float, read_s: float
    ) -> Answer:
        log = partial(self.network.kernel.log, self.by)
        where = f"{asked} to {server.address}"
        self.actor.sleep(self.network.rng.uniform(0.001, 0.01))
        if not server.up or fate.kind == "refused":
            log(f"{where}: connection refused{' by something on the way' if server.up else ''}")
            raise refused()
        if fate.kind == "no-connection":
            self.actor.sleep(connect_s)
            log(f"{where}: no connection")
            raise requests.exceptions.ConnectTimeout("timed out")
        answer = self._exchange(server, asked, fate, read_s)
        if isinstance(answer, Exception):
            log(f"{where}: {fate.kind}: {type(answer).__name__}")
            raise answer
        if answer.status in (401, 403):
            self.network.forbidden.append((self.network.kernel.now, self.by))
        log(f"{where}: {answer.status} {answer.body[:110].decode()} {_fate_words(fate)}".rstrip())
        return answer

    def _exchange(
        self, server: Server, asked: Asked, fate: Fate, read_s: float
    ) -> Answer | Exception:
        token = object()
        born = server.born
        self.network.kernel.at(0.0, lambda: self._watch(server, born, token))
        self._hand_in(server, asked, fate, token)
        if fate.kind in ("lost", "late"):
            self._answered(token, connection_broke(), 0.02)
        elif fate.kind == "cut":
            self._answered(token, connection_broke(), fate.after_s)
        elif fate.kind in ("instead", "over"):
            self._answered(token, _proxy(fate.status), max(fate.after_s, 0.05))
        outcome = self.actor.wait(read_s, token=token, late=_LATE)
        if outcome is _LATE:
            return requests.exceptions.ReadTimeout("Read timed out.")
        assert isinstance(outcome, (Answer, Exception))
        return outcome

    def _answered(self, token: object, outcome: Answer | Exception, after_s: float) -> None:
        self.network.kernel.at(after_s, lambda: self.actor.deliver(token, outcome))

    def _watch(self, server: Server, born: int, token: object) -> None:
        """Break the connection when the process that holds it dies."""
        if server.born != born or not server.up:
            self.actor.deliver(token, connection_broke())
        elif self.actor.waits_for(token):
            self.network.kernel.at(0.25, lambda: self._watch(server, born, token))

    def _hand_in(self, server: Server, asked: Asked, fate: Fate, token: object) -> None:
        """Bring the request to its server, where it arrives at all."""
        network, kernel, born = self.network, self.network.kernel, server.born
        if fate.kind == "late":

            def arrive() -> None:
                if server.up and server.born == born:
                    kernel.log(server.address, f"reads {asked} of {asked.by} late")
                    network.deliver(server, asked, lambda _answer: None)

            kernel.at(fate.after_s, arrive)
        elif fate.kind not in ("lost", "instead"):
            network.deliver(server, asked, partial(self._came, fate, token))

    def _came(self, fate: Fate, token: object, answer: Answer) -> None:
        """Bring the server's own answer to the client, where nothing replaces it."""
        if fate.kind in ("silent", "cut", "over"):
            return
        if fate.kind == "truncated":
            answer.headers["Content-Length"] = str(len(answer.body))
            answer.body = answer.body[: len(answer.body) // 2]
        self.actor.deliver(token, answer)


def _proxy(status: int) -> Answer:
    if status == 401:
        headers = {"WWW-Authenticate": 'Basic realm="gateway"'}
        return Answer(401, b"<html><title>401 Unauthorized</title></html>", "text/html", headers)
    title = {403: "403 Forbidden", 200: "Sign in"}.get(status, f"{status} Gateway")
    return Answer(status, f"<html><title>{title}</title></html>".encode(), "text/html")


def _fate_words(fate: Fate) -> str:
    return "" if fate.kind == "well" else f"({fate.kind})"
