"""The ResourceManager's REST API as Python calls: applications and nodes below `/ws/v1/cluster`, services below `/app/v1`."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from submit_tf_job.errors import NoSuchJob, Refused, SubmitTFJobError, UsageError
from submit_tf_job.yarn.answers import Reply
from submit_tf_job.yarn.auth import Auth
from submit_tf_job.yarn.funnel import AnswerLost, Deadline, Funnel, Timeouts
from submit_tf_job.yarn.ha import ResourceManagers, addresses_of
from submit_tf_job.yarn.observed import (
    Answer,
    AppAttempt,
    AppReport,
    ClusterInfo,
    MaximumResources,
    Node,
    ObservedService,
    items,
    text_of,
    whole_of,
)
from submit_tf_job.yarn.refusals import ServiceUnreadable, no_such_service, refusal, services_disabled, unexpected
from submit_tf_job.yarn.states import AppState, ServiceState
from submit_tf_job.yarn.trouble import Trouble

if TYPE_CHECKING:
    from requests.adapters import BaseAdapter

__all__ = ["SERVICE_TYPE", "AnswerLost", "Client", "Deadline", "QueueAccess", "ServiceUnreadable", "Timeouts"]

_TORN = re.compile(r"No content to map due to end-of-input|Unexpected end-of-input")  # Jackson's words for a file that ends too soon (seen)

SERVICE_TYPE = "yarn-service"
_WS = "/ws/v1/cluster"
_SERVICES = "/app/v1/services"


@dataclass(frozen=True)
class QueueAccess:
    """Whether a user may submit to a queue, and what the scheduler says about it."""

    allowed: bool
    diagnostics: str = ""


class Client:
    """One user's view of one cluster.

    Args:
        resource_managers: Addresses as `http://host:port`; all of them where there are several.
        auth: Who we are.
        timeouts: How long to wait.
        ca_file: CA certificates to check https against.
        clock: Monotonic seconds.
        sleep: Waits for seconds.
        jitter: A number in [0, 1), for the pauses between retries.
        resolve: Host name to addresses.
        adapter: Transport in place of the network's, for tests.

    Example:
        >>> client = Client(["http://rm.example.com:8088"], SimpleAuth("alice"))
        >>> client.app("application_1700000000000_0001").final_status
    """

    def __init__(
        self,
        resource_managers: Iterable[str],
        auth: Auth,
        *,
        timeouts: Timeouts | None = None,
        ca_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        resolve: Callable[[str], frozenset[str]] = addresses_of,
        adapter: BaseAdapter | None = None,
    ) -> None:
        rms = ResourceManagers(resource_managers, resolve=resolve)
        self.funnel = Funnel(rms, auth, timeouts=timeouts, ca_file=ca_file, clock=clock, sleep=sleep, jitter=jitter, adapter=adapter)
        self.auth = auth
        self.timeouts = self.funnel.timeouts
        self.clock = clock
        self.sleep = sleep

    def deadline(self, seconds: float | None = None) -> Deadline:
        """Return the moment `seconds` from now, by default the total for one operation."""
        return self.funnel.deadline(seconds)

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self.funnel.close()

    # --- the cluster -----------------------------------------------------------------------------------------------------

    def cluster_info(self, *, deadline: Deadline | None = None) -> ClusterInfo:
        """Return what the ResourceManager in front says of itself; a standby answers this too.

        Raises:
            ClusterUnavailable: when none could be reached.
        """
        return ClusterInfo.from_json(_described(self._get(f"{_WS}/info", "describe itself", deadline=deadline), "clusterInfo"))

    def who_am_i(self, *, deadline: Deadline | None = None) -> str | None:
        """Return who we are to the ResourceManager, `None` where it does not say (before Hadoop 3.1.1, YARN-8319; behind some gateways)."""
        reply = self.funnel.request("GET", f"{_WS}/userinfo", deadline=deadline)
        if reply.status != 200 or "json" not in reply.content_type:
            return None
        return text_of(_object(reply.json_object(), "clusterUserInfo") or reply.json_object(), "requestedUser")

    def process_of(self, resource_manager: str, *, deadline: Deadline | None = None) -> int | None:
        """Return when the process behind one configured address started, in its own milliseconds.

        Returns:
            The time, 0 where nothing listens there any more, `None` where that cannot be told.
        """
        outcome = self.funnel.fetch(resource_manager, f"{_WS}/info", deadline=deadline)
        if isinstance(outcome, Trouble):
            return 0 if outcome.refused else None
        try:
            return ClusterInfo.from_json(_object(outcome.json_object(), "clusterInfo")).started_ms
        except SubmitTFJobError:
            return None

    def nodes(self, *, deadline: Deadline | None = None) -> tuple[Node, ...]:
        """Return the NodeManagers in service."""
        reply = self._get(f"{_WS}/nodes", "list its nodes", deadline=deadline)
        return tuple(Node.from_json(item) for item in items(reply.json_object().get("nodes"), "node"))

    def maximum_resources(self, *, deadline: Deadline | None = None) -> MaximumResources:
        """Return the largest container that the scheduler gives.

        The one call that tells is `new-application`, which also uses up an application id and does nothing else.
        """
        reply = self.funnel.request("POST", f"{_WS}/apps/new-application", deadline=deadline)
        answer = self._ok(reply, "ask for the largest container").json_object()
        return MaximumResources.from_json(_object(answer, "maximum-resource-capability"))

    def scheduler(self, *, deadline: Deadline | None = None) -> Mapping[str, object]:
        """Return the scheduler's own account of its queues, as it is."""
        return _object(
            _object(self._get(f"{_WS}/scheduler", "describe its queues", deadline=deadline).json_object(), "scheduler"), "schedulerInfo"
        )

    def queue_access(self, queue: str, user: str, *, deadline: Deadline | None = None) -> QueueAccess | None:
        """Return whether a user may submit to a queue, `None` where the scheduler does not say (unknown queue, old Hadoop)."""
        params = {"user": user, "queue-acl-type": "SUBMIT_APPLICATIONS"}
        reply = self.funnel.request("GET", f"{_WS}/queues/{quote(queue, safe='')}/access", params=params, deadline=deadline)
        if reply.status in (400, 403, 404):
            return None
        answer = self._ok(reply, f"ask for access to queue {queue}").json_object()
        return QueueAccess(str(answer.get("allowed")).lower() == "true", str(answer.get("diagnostics") or ""))

    # --- applications ----------------------------------------------------------------------------------------------------

    def app(self, app_id: str, *, deadline: Deadline | None = None) -> AppReport | None:
        """Return an application, `None` where the ResourceManager does not know it (any more)."""
        reply = self.funnel.request("GET", f"{_WS}/apps/{_app_id(app_id)}", deadline=deadline)
        if _unknown_app(reply):
            return None
        report = AppReport.from_json(_described(self._ok(reply, f"read {app_id}"), "app"))
        if report.id != app_id:
            raise reply.bad(f"{reply.url} answered with JSON that does not describe {app_id}.")
        return report

    def apps(
        self,
        *,
        user: str | None = None,
        name: str | None = None,
        states: Iterable[AppState] = (),
        types: str | None = SERVICE_TYPE,
        tags: Iterable[str] = (),
        queue: str | None = None,
        started_after_ms: int | None = None,
        limit: int | None = None,
        deadline: Deadline | None = None,
    ) -> tuple[AppReport, ...]:
        """Return applications, the newest first, without their resource requests.

        Every filter is applied again here, because older ResourceManagers ignore some and return everything (facts: verified-versions 1.3).
        """
        wanted, tagged = {state.value for state in states}, {tag.lower() for tag in tags}
        params = {
            "user": user,
            "name": name,
            "applicationTypes": types,
            "states": ",".join(sorted(wanted)),
            "applicationTags": ",".join(tagged),
            "queue": queue,
            "startedTimeBegin": str(started_after_ms) if started_after_ms else None,
            "deSelects": "resourceRequests",  # most of each answer, and of no use in a list (YARN-7717)
        }
        reply = self._get(f"{_WS}/apps", "list applications", {key: value for key, value in params.items() if value}, deadline=deadline)
        listed = items(reply.json_object().get("apps"), "app")
        same = {key: value for key, value in (("user", user), ("name", name), ("applicationType", types)) if value is not None}
        found = [AppReport.from_json(item) for item in listed if all(item.get(key) == value for key, value in same.items())]
        fits = [
            app
            for app in found
            if app.id
            and (queue is None or queue.rpartition(".")[2] == app.queue)
            and (started_after_ms is None or (app.started_ms or 0) >= started_after_ms)
            and (not wanted or app.state.value in wanted)
            and (not tagged or tagged & {tag.lower() for tag in app.tags})
        ]
        fits.sort(key=lambda app: (app.started_ms or 0, app.id), reverse=True)
        return tuple(fits[:limit])

    def app_attempts(self, app_id: str, *, deadline: Deadline | None = None) -> tuple[AppAttempt, ...]:
        """Return the tries of an application's AM, the first one first; none where the application is unknown."""
        reply = self.funnel.request("GET", f"{_WS}/apps/{_app_id(app_id)}/appattempts", deadline=deadline)
        if _unknown_app(reply):
            return ()
        answer = self._ok(reply, f"read the attempts of {app_id}").json_object()
        found = [AppAttempt.from_json(item) for item in items(answer.get("appAttempts"), "appAttempt")]
        return tuple(sorted(found, key=lambda attempt: attempt.id or ""))

    def kill_app(self, app_id: str, *, deadline: Deadline | None = None) -> bool:
        """Ask the ResourceManager to kill an application; poll `app` for the end.

        Returns:
            Whether there was such an application.
        """
        reply = self.funnel.request(
            "PUT", f"{_WS}/apps/{_app_id(app_id)}/state", body='{"state": "KILLED"}', read_s=self.timeouts.change_s, deadline=deadline
        )
        if _unknown_app(reply):
            return False
        self._ok(reply, f"kill {app_id}")
        return True

    def set_priority(self, app_id: str, priority: int, *, deadline: Deadline | None = None) -> int | None:
        """Change an application's priority within its queue.

        Returns:
            What the ResourceManager made of it: it keeps priorities within `yarn.cluster.max-application-priority` (0 by default).

        Raises:
            NoSuchJob: when the application is unknown or over.
        """
        answer = self._change_app(app_id, "priority", {"priority": priority}, f"change the priority of {app_id}", deadline)
        return whole_of(answer, "priority")

    def move_app(self, app_id: str, queue: str, *, deadline: Deadline | None = None) -> str | None:
        """Move an application to another queue.

        Returns:
            The queue that it is in now, as the ResourceManager spells it.

        Raises:
            NoSuchJob: when the application is unknown or over.
            Refused: when the queue will not have it.
        """
        return text_of(self._change_app(app_id, "queue", {"queue": queue}, f"move {app_id} to queue {queue}", deadline), "queue")

    def _change_app(self, app_id: str, what: str, value: Mapping[str, object], doing: str, deadline: Deadline | None) -> Answer:
        path = f"{_WS}/apps/{_app_id(app_id)}/{what}"
        reply = self.funnel.request("PUT", path, body=json.dumps(value), read_s=self.timeouts.change_s, deadline=deadline)
        if _unknown_app(reply):
            raise NoSuchJob(f"The cluster does not know {app_id}.")
        if reply.status == 503 and reply.java_class:  # an UndeclaredThrowableException without a word (seen for an unknown queue)
            why = "it gives no reason" if reply.words.endswith("Exception") else reply.words or "it gives no reason"
            raise Refused(
                f"The ResourceManager refuses to {doing}: {why}",
                hint="Is there such a queue, may you submit to it, and does it still run?" if what == "queue" else "",
                details=reply.details(),
            )
        return self._ok(reply, doing).json_object()

    def signal_container(self, container_id: str, command: str, *, deadline: Deadline | None = None) -> None:
        """Have a NodeManager signal a container.

        Args:
            container_id: The container.
            command: `GRACEFUL_SHUTDOWN` (SIGTERM), `FORCEFUL_SHUTDOWN` (SIGKILL) or `OUTPUT_THREAD_DUMP` (SIGQUIT).
            deadline: For the whole operation.

        Raises:
            NoSuchJob: when there is no such container any more.
        """
        reply = self.funnel.request("POST", f"{_WS}/containers/{quote(container_id, safe='')}/signal/{command}", deadline=deadline)
        if reply.status >= 400 and "absent container" in reply.text:
            raise NoSuchJob(f"There is no container {container_id} any more.")
        self._ok(reply, f"signal {container_id}")

    # --- services --------------------------------------------------------------------------------------------------------

    def services_version(self, *, deadline: Deadline | None = None) -> str:
        """Return the Hadoop version behind the services API, such as `3.4.2`.

        Raises:
            Refused: when the ResourceManager has no services API.
        """
        reply = self.funnel.request("GET", f"{_SERVICES}/version", deadline=deadline)
        if reply.status == 403:
            raise refusal(reply, "ask the services API") or unexpected(reply, "ask the services API")
        if reply.status != 200 or "json" not in reply.content_type:
            raise services_disabled(reply)
        return str(reply.json_object().get("hadoop_version") or "").partition(" ")[0]

    def get_service(self, name: str, *, deadline: Deadline | None = None) -> ObservedService:
        """Return a service as its AM describes it.

        Raises:
            NoSuchJob: when this user has no service of that name.
            ServiceUnreadable: when the ResourceManager cannot ask the AM just now, or the stored service is cut off.
        """
        reply = self.funnel.request("GET", _path(name), deadline=deadline)
        if reply.status == 200:
            service = ObservedService.from_json(reply.json_object())
            if service.name != name:
                raise reply.bad(f"{reply.url} answered with JSON that does not describe {name}.")
            return service
        if reply.status == 404 and reply.speaks_json:
            raise no_such_service(reply, name)
        known = refusal(reply, f"read {name}")
        if known is not None:
            raise known
        self._require_services(reply, deadline)
        if _TORN.match(reply.words):
            torn = ServiceUnreadable(
                f"The stored service {name} is cut off: a ResourceManager is writing it, or died while it did, and then it can never run.",
                hint=f"Look again in some seconds; if it is still so, delete it: submit_tf_job delete {name}",
                details=reply.details(),
            )
            torn.torn = True
            raise torn
        raise ServiceUnreadable(
            f"The service {name} cannot be read just now: {reply.words or f'HTTP {reply.status}'}",
            hint="Its AM may be restarting; the application itself can still be read.",
            details=reply.details(),
        )

    def post_service(self, body: str, *, deadline: Deadline | None = None) -> str | None:
        """Post a service, once: to each ResourceManager in turn until one takes it, without waiting for one to come up.

        Args:
            body: The JSON as `records.dumps` wrote it.
            deadline: For the whole operation; short of `timeouts.post_s` it cuts the wait for the answer.

        Returns:
            The application's id, `None` where the answer does not say it.

        Raises:
            AnswerLost: when the service may or may not have been created.
            ClusterUnavailable: when no ResourceManager took it.
            NameTaken, Refused, AuthError: when the cluster said no.
        """
        self.funnel.close()  # a kept connection that the server is closing would lose the answer for nothing
        within = deadline or self.deadline(self.timeouts.post_s + self.timeouts.total_s)
        reply = self.funnel.request("POST", _SERVICES, body=body, read_s=self.timeouts.post_s, deadline=within, repeatable=False, rounds=1)
        if 200 <= reply.status < 300 and "json" in reply.content_type:
            match = re.search(r"application_\d+_\d+", reply.text)
            return match.group() if match else None
        known = refusal(reply, "submit") if reply.status >= 400 else None
        if known is not None:
            raise known
        self._require_services(reply, deadline)
        lost = AnswerLost(
            f"The services API failed while it created the service: {reply.words or f'HTTP {reply.status} {reply.reason}'.rstrip()}",
            details={**reply.details(), "resource_manager": reply.url.partition("/app/v1")[0]},
        )
        lost.answered = reply.speaks_json or bool(reply.java_class)
        raise lost

    def stop_service(self, name: str, *, deadline: Deadline | None = None) -> bool:
        """Ask a service to stop; poll the application for the end, which comes later (facts: verified-security-ha 3).

        Returns:
            Whether there was anything to stop.

        Raises:
            NoSuchJob: when this user has no service of that name.
        """
        body = json.dumps({"name": name, "state": ServiceState.STOPPED.value})
        reply = self.funnel.request("PUT", _path(name), body=body, read_s=self.timeouts.change_s, deadline=deadline)
        if reply.status == 400 and ("already stopped" in reply.words or "doesn't exist in RM" in reply.words):
            return False
        self._service_ok(reply, name, "stop")
        return True

    def start_service(self, name: str, *, deadline: Deadline | None = None) -> str | None:
        """Start a stopped service again from what YARN has stored, as a new application.

        Returns:
            The new application's id, `None` where the answer does not say it.

        Raises:
            AnswerLost: when it may or may not have been started.
            NoSuchJob: when this user has no service of that name.
        """
        body = json.dumps({"name": name, "state": ServiceState.STARTED.value})
        within = deadline or self.deadline(self.timeouts.post_s + self.timeouts.total_s)
        reply = self.funnel.request("PUT", _path(name), body=body, read_s=self.timeouts.post_s, deadline=within, repeatable=False)
        self._service_ok(reply, name, "start")
        match = re.search(r"application_\d+_\d+", reply.text)
        return match.group() if match else None

    def delete_service(self, name: str, *, deadline: Deadline | None = None) -> bool:
        """Stop a service where it runs, and free its name.

        Returns:
            Whether there was one.

        Raises:
            Refused: when an application of that name is still alive and the services API cannot stop it.
        """
        reply = self.funnel.request("DELETE", _path(name), read_s=self.timeouts.change_s, deadline=deadline)
        if (reply.status == 404 and reply.speaks_json) or (reply.status == 400 and "doesn't exist" in reply.words):
            return False
        if reply.status == 404:
            self._require_services(reply, deadline)
        self._service_ok(reply, name, "delete")
        return True

    def flex(self, name: str, component: str, count: int, *, deadline: Deadline | None = None) -> None:
        """Change the number of a component's containers while the service runs.

        Raises:
            NoSuchJob: when this user has no service of that name.
            Refused: when there is no such component, or the service does not run.
        """
        body = json.dumps({"name": component, "number_of_containers": count})
        path = f"{_path(name)}/components/{quote(component, safe='')}"
        reply = self.funnel.request("PUT", path, body=body, read_s=self.timeouts.change_s, deadline=deadline)
        self._service_ok(reply, name, "scale")

    def set_lifetime(self, name: str, seconds: int, *, deadline: Deadline | None = None) -> None:
        """Let a running service live for so many seconds from now; a queue may have a maximum of its own.

        Raises:
            NoSuchJob: when this user has no service of that name.
            Refused: when the service does not run.
        """
        body = json.dumps({"name": name, "lifetime": seconds})
        reply = self.funnel.request("PUT", _path(name), body=body, read_s=self.timeouts.change_s, deadline=deadline)
        self._service_ok(reply, name, "extend")

    # --- answers ---------------------------------------------------------------------------------------------------------

    def _get(self, path: str, doing: str, params: Mapping[str, str] | None = None, *, deadline: Deadline | None) -> Reply:
        return self._ok(self.funnel.request("GET", path, params=params, deadline=deadline), doing)

    def _ok(self, reply: Reply, doing: str) -> Reply:
        if not 200 <= reply.status < 300:
            raise refusal(reply, doing) or unexpected(reply, doing)
        return reply

    def _service_ok(self, reply: Reply, name: str, verb: str) -> None:
        if 200 <= reply.status < 300 and ("json" in reply.content_type or reply.status == 204):
            return
        if 200 <= reply.status < 300:
            reply.json_object()
        if "File does not exist" in reply.words or (reply.status == 404 and reply.speaks_json):
            raise no_such_service(reply, name)
        raise refusal(reply, f"{verb} {name}") or unexpected(reply, f"{verb} {name}")

    def _require_services(self, reply: Reply, deadline: Deadline | None) -> None:
        """Raise where the odd answer comes from a services API that is not there (503 alone does not prove it: YARN-9827)."""
        if not reply.speaks_json:
            self.services_version(deadline=deadline)


def _described(reply: Reply, key: str) -> Answer:
    """Return what an answer describes: an object without which it is no answer of a ResourceManager."""
    described = reply.json_object().get(key)
    if not isinstance(described, Mapping):
        raise reply.bad(f"{reply.url} answered with JSON of another shape: no {key} in it.")
    return described


def _object(answer: Answer, key: str) -> Answer:
    value = answer.get(key)
    return value if isinstance(value, Mapping) else {}


def _path(name: str) -> str:
    if not name or name in (".", ".."):
        raise UsageError(f"{name!r} is no name of a job.")
    return f"{_SERVICES}/{quote(name, safe='')}"


def _app_id(app_id: str) -> str:
    if not re.fullmatch(r"application_\d+_\d+", app_id):
        raise UsageError(f"{app_id!r} is no application id.", hint="One looks like application_1700000000000_0001.")
    return app_id


def _unknown_app(reply: Reply) -> bool:
    return reply.status == 404 and "not found" in reply.words
