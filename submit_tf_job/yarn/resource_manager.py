"""Client for the ResourceManager's REST API: applications and nodes below `/ws/v1/cluster`,
services below `/app/v1`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from submit_tf_job import waiting
from submit_tf_job.errors import (
    ClusterUnavailable,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.yarn.errors import (
    ServiceTorn,
    ServiceUnreadable,
    no_such_service,
    refusal,
    services_disabled,
    unexpected,
)
from submit_tf_job.yarn.observed import (
    Answer,
    AppReport,
    AppState,
    ObservedService,
    ServiceState,
    items,
    object_of,
    text_of,
    whole_of,
)
from submit_tf_job.yarn.response import Reply, xml_fields
from submit_tf_job.yarn.rest import AnswerLost, Deadline, HttpClient, Timeouts

if TYPE_CHECKING:
    from submit_tf_job.yarn.observed_cluster import (
        AppAttempt,
        ClusterInfo,
        MaximumResources,
        Node,
    )

__all__ = [
    "SERVICE_TYPE",
    "AnswerLost",
    "Deadline",
    "QueueAccess",
    "ResourceManager",
    "Timeouts",
]

_INFO_S = 60.0
# the HDFS client of a ResourceManager whose file another client has created anew
_OVERWRITTEN = r"File does not exist: .* does not have any open files"
# Jackson's message for a truncated file (hadoop-facts.md#partly-stored-service)
_TORN = r"No content to map due to end-of-input|Unexpected end-of-input"

SERVICE_TYPE = "yarn-service"
_WS = "/ws/v1/cluster"
_SERVICES = "/app/v1/services"


class QueueAccess(NamedTuple):
    """Whether a user may submit to a queue, and how the scheduler explains that."""

    allowed: bool
    diagnostics: str = ""


class ResourceManager(HttpClient):
    """Client for one cluster, as one user; its constructor has the arguments of `HttpClient`.

    Example:
        >>> client = ResourceManager(["http://rm.example.com:8088"], SimpleAuth("alice"))
        >>> client.app("application_1700000000000_0001").final_status
    """

    _info: ClusterInfo | None = None
    _info_at = 0.0

    # --- the cluster ------------------------------------------------------------------------------

    def cluster_info(self, *, deadline: Deadline | None = None) -> ClusterInfo:
        """Return what a ResourceManager, active or standby, reports about itself; the one that
        responded last is asked first.

        Raises:
            ClusterUnavailable: when no ResourceManager responded.
        """
        reply = self.request("GET", f"{_WS}/info", deadline=deadline)
        self._expect_success(reply, "describe itself")
        from submit_tf_job.yarn.observed_cluster import ClusterInfo

        return ClusterInfo.from_json(reply.object_at("clusterInfo"), reply.sent_s)

    def recent_info(self, *, deadline: Deadline | None = None) -> ClusterInfo:
        """Return a description of the ResourceManager that was read at most a minute ago; it is
        recent enough to learn the version of Hadoop.

        Raises:
            ClusterUnavailable: when no ResourceManager responded.
        """
        if self._info is None or self.clock() >= self._info_at + _INFO_S:
            self._info, self._info_at = self.cluster_info(deadline=deadline), self.clock()
        return self._info

    def now_ms(self) -> int | None:
        """Return the time by the clock of the ResourceManager that responded last, in milliseconds
        since 1970; None if that is not known.

        Decisions compare times of YARN and HDFS with this time, never with the clock of this
        machine.
        """
        if self._dated is None:
            with suppress(SubmitTFJobError):
                self.recent_info()
        if self._dated is None:
            return None
        reply, read_at = self._dated
        sent_s = reply.sent_s
        return None if sent_s is None else int((sent_s + self.clock() - read_at) * 1000)

    def who_am_i(self) -> str | None:
        """Return the user as whom the ResourceManager has authenticated this client; None if the
        ResourceManager does not report it (before Hadoop 3.1.1, YARN-8319; behind some gateways).
        """
        reply = self.request("GET", f"{_WS}/userinfo")
        if reply.status != 200 or "json" not in reply.content_type:
            return None
        return text_of(
            object_of(reply.json_object(), "clusterUserInfo") or reply.json_object(),
            "requestedUser",
        )

    def nodes(self, *, deadline: Deadline | None = None) -> tuple[Node, ...]:
        """Return the NodeManagers in service."""
        reply = self.request("GET", f"{_WS}/nodes", deadline=deadline)
        self._expect_success(reply, "list its nodes")
        from submit_tf_job.yarn.observed_cluster import Node

        return tuple(
            Node.from_json(item) for item in items(reply.json_object().get("nodes"), "node")
        )

    def maximum_resources(self) -> MaximumResources:
        """Return the largest container that the scheduler allocates.

        Only the response to `new-application` contains it; that request uses up an application id
        and has no other effect.
        """
        reply = self.request("POST", f"{_WS}/apps/new-application")
        from submit_tf_job.yarn.observed_cluster import MaximumResources

        answer = self._expect_success(reply, "ask for the largest container").json_object()
        return MaximumResources.from_json(object_of(answer, "maximum-resource-capability"))

    def scheduler(self, *, deadline: Deadline | None = None) -> Mapping[str, object]:
        """Return the scheduler's description of its queues as unparsed JSON."""
        reply = self.request("GET", f"{_WS}/scheduler", deadline=deadline)
        self._expect_success(reply, "describe its queues")
        return object_of(reply.json_object(), "scheduler", "schedulerInfo")

    def queue_access(self, queue: str, user: str) -> QueueAccess | None:
        """Return whether a user may submit to a queue; None if the ResourceManager does not report
        that (unknown queue, old Hadoop, or this client may not ask about that user).
        """
        params = {"user": user, "queue-acl-type": "SUBMIT_APPLICATIONS"}
        reply = self.request("GET", f"{_WS}/queues/{quote(queue, safe='')}/access", params=params)
        if reply.status in (400, 403, 404):
            return None
        reply = self._expect_success(reply, f"ask for access to queue {queue}")
        answer: Mapping[str, object]
        if "xml" in reply.content_type:  # hadoop-facts.md#answers-as-xml
            answer = xml_fields(reply.text, ("allowed", "diagnostics"))
        else:
            answer = reply.json_object()
        return QueueAccess(
            str(answer.get("allowed")).lower() == "true", str(answer.get("diagnostics") or "")
        )

    # --- applications -----------------------------------------------------------------------------

    def app(self, app_id: str, *, deadline: Deadline | None = None) -> AppReport | None:
        """Return an application, or None if the ResourceManager has no record of it (any more).

        A ResourceManager that has just started knows no application until it has recovered all of
        them; it is asked again until the deadline (hadoop-facts.md#restart).

        Raises:
            UsageError: `app_id` is not an application id (likewise in the other methods).
            ClusterUnavailable: No ResourceManager responded, or the ResourceManager was still
                recovering its state at the deadline.
        """
        deadline, path = deadline or self.deadline(), f"{_WS}/apps/{_app_id(app_id)}"
        reply = self.request("GET", path, deadline=deadline)
        if _unknown_app(reply, app_id):
            reply = self._ask_until_recovered(reply, path, app_id, deadline)
            if _unknown_app(reply, app_id):
                return None
        self._expect_success(reply, f"read {app_id}")
        answer = reply.object_at("app")
        if answer.get("id") != app_id:
            raise reply.bad(f"{reply.url} answered with JSON that does not describe {app_id}.")
        report = AppReport.from_json(answer)
        self._node_link = report.am_container_logs or self._node_link
        return report

    def _ask_until_recovered(
        self, reply: Reply, path: str, app_id: str, deadline: Deadline
    ) -> Reply:
        """Request an unknown application again while the ResourceManager recovers its state.

        Raises:
            ClusterUnavailable: The ResourceManager was still recovering at the deadline.
        """
        recovers = waiting.APPLICATIONS_ARE_RECOVERED
        left_s = max(0.0, deadline.left_s - recovers.every_s)
        for attempt in recovers.attempts(self.clock, self.sleep, within_s=left_s):
            if attempt:
                reply = self.request("GET", path, deadline=deadline)
                if not _unknown_app(reply, app_id):
                    return reply
            if not self.cluster_info(deadline=deadline).recovers:
                # it may have recovered between the two requests
                return self.request("GET", path, deadline=deadline)
        raise ClusterUnavailable(
            f"The ResourceManager at {reply.url.partition(_WS)[0]} has just started, and "
            f"still recovers its applications.",
            hint="Try again in a few seconds.",
        )

    def apps(
        self,
        *,
        user: str | None = None,
        states: Iterable[AppState] = (),
        tags: Iterable[str] = (),
        queue: str | None = None,
        started_after_ms: int | None = None,
        finished_after_ms: int | None = None,
        deadline: Deadline | None = None,
    ) -> tuple[AppReport, ...]:
        """Return applications of services, newest first, without their resource requests. With
        several states or tags, an application needs only one of them; without any, it is not
        filtered by them.

        Every filter is applied again to the response, because older ResourceManagers ignore some of
        them and return everything (hadoop-facts.md#filters-of-the-application-list).
        """
        wanted, tagged = {state.value for state in states}, {tag.lower() for tag in tags}
        params = {
            "user": user,
            "applicationTypes": SERVICE_TYPE,
            "states": ",".join(sorted(wanted)),
            "applicationTags": ",".join(tagged),
            "queue": queue,
            # a negative one is refused (ApplicationsRequestBuilder)
            "startedTimeBegin": str(max(started_after_ms or 0, 0) or ""),
            "finishedTimeBegin": str(finished_after_ms or ""),
            # the largest part of each response, and not needed in a list (YARN-7717)
            "deSelects": "resourceRequests",
        }
        stated = {key: value for key, value in params.items() if value}
        reply = self.request("GET", f"{_WS}/apps", params=stated, deadline=deadline)
        self._expect_success(reply, "list applications")
        told = reply.json_object().get("apps", ())
        if told == () or (told and not isinstance(told, dict)):  # where there is none: null or {}
            raise reply.bad(f"{reply.url} answered with JSON that does not describe applications.")
        fits = [
            app
            for app in map(AppReport.from_json, items(told, "app"))
            if app.id
            and app.type == SERVICE_TYPE
            and user in (None, app.user)
            and (queue is None or queue.rpartition(".")[2] == app.queue)
            and (started_after_ms is None or (app.started_ms or 0) >= started_after_ms)
            and (finished_after_ms is None or (app.finished_ms or 0) >= finished_after_ms)
            and (not wanted or app.state.value in wanted)
            and (not tagged or tagged & {tag.lower() for tag in app.tags})
        ]
        return tuple(sorted(fits, key=lambda app: (app.started_ms or 0, app.id), reverse=True))

    def app_attempts(
        self, app_id: str, *, deadline: Deadline | None = None
    ) -> tuple[AppAttempt, ...]:
        """Return the attempts of an application's AM, from the first to the last; none if the
        application is unknown.
        """
        reply = self.request("GET", f"{_WS}/apps/{_app_id(app_id)}/appattempts", deadline=deadline)
        from submit_tf_job.yarn.observed_cluster import AppAttempt

        if _unknown_app(reply, app_id):
            return ()
        answer = self._expect_success(reply, f"read the attempts of {app_id}").json_object()
        found = [
            AppAttempt.from_json(item) for item in items(answer.get("appAttempts"), "appAttempt")
        ]
        return tuple(sorted(found, key=lambda attempt: attempt.id or ""))

    def attempt_containers(self, app_id: str, attempt_id: str) -> tuple[str, ...]:
        """Return the web address of each live container's node, as `host:port`; none if the attempt
        has ended, is unknown, or cannot be read.
        """
        path = f"{_WS}/apps/{_app_id(app_id)}/appattempts/{quote(attempt_id, safe='')}/containers"
        reply = self.request("GET", path)
        if reply.status != 200:
            return ()
        addresses = [
            text_of(item, "nodeHttpAddress") or ""
            for item in items(reply.json_object().get("container"))
        ]
        return tuple(address.rpartition("://")[2] for address in addresses if address)

    def kill_app(self, app_id: str, *, reason: str = "", deadline: Deadline | None = None) -> bool:
        """Send a request to kill an application; poll `app` for the end.

        Args:
            app_id: The application.
            reason: Appended to its diagnostics (ClientRMService.forceKillApplication).
            deadline: For the whole operation.

        Returns:
            Whether the application exists.
        """
        reply = self.request(
            "PUT",
            f"{_WS}/apps/{_app_id(app_id)}/state",
            body=json.dumps({"state": "KILLED", **({"diagnostics": reason} if reason else {})}),
            read_s=self.timeouts.change_s,
            deadline=deadline,
        )
        if _unknown_app(reply, app_id):
            return False
        self._expect_success(reply, f"kill {app_id}")
        return True

    def set_priority(self, app_id: str, priority: int) -> int | None:
        """Change an application's priority within its queue.

        Returns:
            The priority that the ResourceManager has set; its maximum is
            `yarn.cluster.max-application-priority` (0 by default). An application that has ended
            keeps its priority (ClientRMService.updateApplicationPriority). None if the response
            lacks it.

        Raises:
            NoSuchJob: when the application is unknown.
            Refused: when the ResourceManager rejects it.
        """
        answer = self._change_app(
            app_id, "priority", {"priority": priority}, f"change the priority of {app_id}"
        )
        return whole_of(answer, "priority")

    def move_app(self, app_id: str, queue: str) -> str | None:
        """Move an application to another queue.

        Returns:
            The new queue, as the ResourceManager spells it; None if the response lacks it.

        Raises:
            NoSuchJob: The ResourceManager does not know the application.
            Refused: The application has ended, or the queue does not exist or rejects it.
        """
        return text_of(
            self._change_app(app_id, "queue", {"queue": queue}, f"move {app_id} to queue {queue}"),
            "queue",
        )

    def _change_app(
        self, app_id: str, what: str, value: Mapping[str, object], doing: str
    ) -> Answer:
        path = f"{_WS}/apps/{_app_id(app_id)}/{what}"
        reply = self.request("PUT", path, body=json.dumps(value), read_s=self.timeouts.change_s)
        if _unknown_app(reply, app_id):
            raise NoSuchJob(f"The cluster does not know {app_id}.")
        # an unknown queue: hadoop-facts.md#rejected-changes-of-an-application
        if reply.status == 503 and reply.java_class:
            why = reply.words
            if not why or why.endswith("Exception"):
                why = "it gives no reason"
            hints = {"queue": "Is there such a queue, may you submit to it, and does it still run?"}
            raise Refused(
                f"The ResourceManager refuses to {doing}: {why}",
                hint=hints.get(what, ""),
                details=reply.details(),
            )
        return self._expect_success(reply, doing).json_object()

    def signal_container(self, container_id: str, command: str) -> None:
        """Request that a NodeManager send a signal to a container.

        Args:
            container_id: The container.
            command: `GRACEFUL_SHUTDOWN` (SIGTERM), `FORCEFUL_SHUTDOWN` (SIGKILL) or
                `OUTPUT_THREAD_DUMP` (SIGQUIT).

        Raises:
            NoSuchJob: when the container does not exist (any more).
            Refused: when Hadoop is older than 3.3 (YARN-8693).
        """
        reply = self.request(
            "POST",
            f"{_WS}/containers/{quote(container_id, safe='')}/signal/{command}",
        )
        if reply.status >= 400 and "absent container" in reply.text:
            raise NoSuchJob(f"There is no container {container_id} any more.")
        if reply.status in (404, 405):
            raise Refused(
                "This Hadoop cannot signal a container through its REST API (3.3 and later can: "
                "YARN-8693).",
                hint=f"where Hadoop's command line is installed: yarn container -signal "
                f"{container_id} {command}",
            )
        self._expect_success(reply, f"signal {container_id}")

    # --- services ---------------------------------------------------------------------------------

    def services_version(self, *, deadline: Deadline | None = None) -> str:
        """Return the Hadoop version behind the services API, such as `3.4.2`.

        Raises:
            Refused: when the ResourceManager has no services API.
        """
        reply = self.request("GET", f"{_SERVICES}/version", deadline=deadline)
        if known := refusal(reply, "ask the services API"):
            raise known
        # Jetty's own 404 has another content type or no body
        if reply.status == 404 and reply.content_type == "text/plain" and reply.body:
            raise unexpected(reply, "ask the services API")
        if reply.status != 200 or "json" not in reply.content_type:
            raise services_disabled(reply)
        return str(reply.json_object().get("hadoop_version") or "").partition(" ")[0]

    def get_service(self, name: str, *, deadline: Deadline | None = None) -> ObservedService:
        """Return a service as its AM describes it; while the service does not run, the response has
        no components and no configuration.

        Raises:
            NoSuchJob: when this user has no service of that name.
            Refused: when the ResourceManager has no services API.
            ServiceUnreadable: when the AM does not respond to the ResourceManager, or the stored
                service is truncated.
        """
        reply = self.request("GET", _service_path(name), deadline=deadline)
        if reply.status == 404 and reply.speaks_json:
            raise no_such_service(reply, name)
        return self._service_in_reply(reply, name, deadline)

    def find_service(
        self, name: str, *, deadline: Deadline | None = None
    ) -> ObservedService | None:
        """Return a service, or None if this user has no service of that name; raises the other
        errors of `get_service`.
        """
        reply = self.request("GET", _service_path(name), deadline=deadline)
        if reply.status == 404 and reply.speaks_json:
            return None
        return self._service_in_reply(reply, name, deadline)

    def _service_in_reply(
        self, reply: Reply, name: str, deadline: Deadline | None
    ) -> ObservedService:
        if reply.status == 200:
            service = ObservedService.from_json(reply.json_object())
            if service.name != name:
                raise reply.bad(f"{reply.url} answered with JSON that does not describe {name}.")
            return service
        known = refusal(reply, f"read {name}")
        if known is not None:
            raise known
        self._require_services(reply, deadline)
        if re.match(_TORN, reply.words):
            raise ServiceTorn(
                f"The stored service {name} is cut off: a ResourceManager is writing it, "
                f"or died while it did, and then it can never run.",
                hint=f"Look again in some seconds; if it is still so, delete it: submit_tf_job "
                f"delete {name}",
                details=reply.details(),
            )
        raise ServiceUnreadable(
            f"The service {name} cannot be read just now: {reply.words or f'HTTP {reply.status}'}",
            hint="Its AM may be restarting; the application itself can still be read.",
            details=reply.details(),
        )

    def get_written_service(self, name: str) -> ObservedService:
        """Return a service; while a ResourceManager is still writing the stored service, read it
        again for up to 3 s.

        A POST writes the stored service twice, and for short moments it is empty (seen on 3.4.2).

        Raises:
            NoSuchJob: As `get_service`.
            ServiceUnreadable: As `get_service`; also if the stored service is still truncated after
                3 s.
        """
        for _ in waiting.SERVICE_IS_WRITTEN.attempts(self.clock, self.sleep):
            with suppress(ServiceTorn):
                return self.get_service(name)
        return self.get_service(name)

    def post_service(self, body: str, *, deadline: Deadline | None = None) -> str | None:
        """Send the POST for a service to each ResourceManager in turn until one accepts it. Each
        gets the POST once; this does not wait until a ResourceManager becomes active.

        Args:
            body: The JSON of `records.dumps`.
            deadline: For the whole operation; if it is earlier than `timeouts.post_s`, the wait for
                the response is shorter.

        Returns:
            The application's id; None if the response does not contain it.

        Raises:
            AnswerLost: when the service may or may not have been created.
            ClusterUnavailable: when no ResourceManager accepted it.
            NameTaken, Refused, AuthError: when the cluster rejected it.
            InternalError: when the services API could not parse it.
        """
        # a response would be lost on a kept connection that the server is closing
        self.close()
        within = deadline or self.deadline(self.timeouts.post_s + self.timeouts.total_s)
        reply = self.request(
            "POST",
            _SERVICES,
            body=body,
            read_s=self.timeouts.post_s,
            deadline=within,
            repeatable=False,
            rounds=1,
        )
        if 200 <= reply.status < 300 and "json" in reply.content_type:
            return next(iter(re.findall(r"application_\d+_\d+", reply.text)), None)
        if reply.status >= 400 and reply.is_hadoops and (known := refusal(reply, "submit")):
            raise known
        raise AnswerLost(
            f"The services API failed while it created the service: "
            f"{reply.words or f'HTTP {reply.status} {reply.reason}'.rstrip()}",
            details={**reply.details(), "resource_manager": reply.url.partition("/app/v1")[0]},
        )

    def stop_service(self, name: str, *, deadline: Deadline | None = None) -> bool:
        """Request the stop of a service; the application ends later, so poll it
        (hadoop-facts.md#stopping).

        Returns:
            Whether the service is being stopped; False if it had stopped before, or the
            ResourceManager does not know its application any more.

        Raises:
            NoSuchJob: when this user has no service of that name.
        """
        body = json.dumps({"name": name, "state": ServiceState.STOPPED.value})
        reply = self.request(
            "PUT", _service_path(name), body=body, read_s=self.timeouts.change_s, deadline=deadline
        )
        if reply.status == 400 and (
            "already stopped" in reply.words or "doesn't exist in RM" in reply.words
        ):
            return False
        self._service_ok(reply, name, "stop")
        return True

    def delete_service(self, name: str) -> bool:
        """Stop a service if it runs, and delete it, which frees its name.

        The request is not repeated: a second request could delete a service that another client has
        posted in the meantime.

        Returns:
            Whether the service existed.

        Raises:
            Refused: when an application of that name has not ended and the services API cannot stop
                it.
            AnswerLost: when the request may or may not have taken effect.
        """
        reply = self.request(
            "DELETE", _service_path(name), read_s=self.timeouts.change_s, repeatable=False
        )
        if (reply.status == 404 and reply.speaks_json) or (
            reply.status == 400 and "doesn't exist" in reply.words
        ):
            return False
        if reply.status == 404:
            self._require_services(reply)
        self._service_ok(reply, name, "delete")
        return True

    def flex(self, name: str, component: str, count: int) -> None:
        """Change the number of a component's containers while the service is running.

        Raises:
            NoSuchJob: when this user has no service of that name.
            Refused: when the component does not exist, or the service is not running.
            ServiceUnreadable: when changes by other clients overwrote this one for 3 s.
        """
        body = json.dumps({"name": component, "number_of_containers": count})
        path = f"{_service_path(name)}/components/{quote(component, safe='')}"
        self._service_ok(self._put_change(path, body), name, "scale")

    def set_lifetime(self, name: str, seconds: int) -> None:
        """Set a running service's lifetime to `seconds` from now; a queue may have its own maximum.

        Raises:
            NoSuchJob: when this user has no service of that name.
            Refused: when the service is not running.
            ServiceUnreadable: when changes by other clients overwrote this one for 3 s.
        """
        body = json.dumps({"name": name, "lifetime": seconds})
        self._service_ok(self._put_change(_service_path(name), body), name, "extend")

    def _put_change(self, path: str, body: str) -> Reply:
        """Send a change that a ResourceManager writes into the stored service. Send it again, for
        up to 3 s, as long as a change by another client overwrites it.

        If two changes are sent at the same moment, one of them fails and has no effect
        (hadoop-facts.md#two-changes-of-a-service-at-the-same-moment).
        """
        for _ in waiting.SERVICE_IS_WRITTEN.attempts(self.clock, self.sleep):
            reply = self.request("PUT", path, body=body, read_s=self.timeouts.change_s)
            if not re.search(_OVERWRITTEN, reply.words):
                break
        return reply

    # --- responses --------------------------------------------------------------------------------

    def _expect_success(self, reply: Reply, doing: str) -> Reply:
        if not 200 <= reply.status < 300:
            raise refusal(reply, doing) or unexpected(reply, doing)
        return reply

    def _service_ok(self, reply: Reply, name: str, verb: str) -> None:
        if 200 <= reply.status < 300 and ("json" in reply.content_type or reply.status == 204):
            return
        if 200 <= reply.status < 300:
            reply.json_object()
        if re.search(_OVERWRITTEN, reply.words):
            raise ServiceUnreadable(
                f"Other commands are changing {name} at this moment.",
                hint="Give the same command again.",
                details=reply.details(),
            )
        if "File does not exist" in reply.words or (reply.status == 404 and reply.speaks_json):
            raise no_such_service(reply, name)
        raise refusal(reply, f"{verb} {name}") or unexpected(reply, f"{verb} {name}")

    def _require_services(self, reply: Reply, deadline: Deadline | None = None) -> None:
        """If the response is not JSON, request the version of the services API, which raises an
        error if the cluster has no services API; 503 alone does not prove that (YARN-9827).
        """
        if not reply.speaks_json:
            self.services_version(deadline=deadline)


def _service_path(name: str) -> str:
    if not name or name in (".", ".."):
        raise UsageError(f"{name!r} is not a valid job name.")
    return f"{_SERVICES}/{quote(name, safe='')}"


def _app_id(app_id: str) -> str:
    if not re.fullmatch(r"application_\d+_\d+", app_id):
        raise UsageError(
            f"{app_id!r} is not an application id.",
            hint="One looks like application_1700000000000_0001.",
        )
    return app_id


def _unknown_app(reply: Reply, app_id: str) -> bool:
    """Return whether the ResourceManager itself reported that an application is unknown.

    A proxy's own 404 does not count.
    """
    return (
        reply.status == 404
        and bool(reply.java_class)
        and app_id in reply.words
        and "not found" in reply.words
    )
