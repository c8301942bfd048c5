"""Stop a job and free its name; YARN completes both after its response, so both are polled."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from submit_tf_job import waiting
from submit_tf_job.errors import (
    BadAnswer,
    ClusterUnavailable,
    DeadlinePassed,
    NoSuchJob,
    Refused,
    UsageError,
)
from submit_tf_job.yarn.deletion import Deleted, StoredCopy, delete_ended, held_by, live
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.reconcile import IN_FLIGHT_S
from submit_tf_job.yarn.resource_manager import (
    SERVICE_TYPE,
    Deadline,
    ResourceManager,
    ServiceUnreadable,
)
from submit_tf_job.yarn.states import ServiceState

__all__ = ["delete", "stop", "wait_until_ended"]

DELETE_S = 600.0  # a lost DELETE, or a POST in progress, may take effect for minutes
KILL_AFTER_S = 30.0


def stop(
    client: ResourceManager,
    *,
    user: str,
    name: str | None = None,
    app_id: str | None = None,
    wait: bool = True,
    deadline: Deadline | None = None,
    kill_after_s: float = KILL_AFTER_S,
    reason: str = "",
    before: Callable[[AppReport], None] = lambda _app: None,
) -> AppReport | None:
    """Stop a job; for a stopped job, do nothing.

    Args:
        client: The cluster, as the user.
        user: Owner of the applications.
        name: The service's name; either this or the application's id is required.
        app_id: The application's id.
        wait: Whether to wait for the application's end.
        deadline: For the whole operation; by default `timeouts.failover` to find the application,
            and then 120 s to end it.
        kill_after_s: Time for the AM to end the application before the ResourceManager is requested
            to kill it.
        reason: Kill the application at once, with this text in its diagnostics.
        before: Called with the application before any request to stop it, also if it has ended
            already.

    Returns:
        The application as last read; None if the ResourceManager has no record of it any more.

    Raises:
        NoSuchJob: when no application of that name or id exists.
        DeadlinePassed: when it had not ended in time.

    Example:
        >>> stop(client, user="alice", name="mnist").final_status
        <FinalStatus.ENDED: 'ENDED'>
    """
    if (name is None) == (app_id is None):
        raise UsageError("Stop a job by its name or by its application id.")
    # no response from the cluster is a different error from a job that takes long to end
    looking = deadline or client.deadline()
    if app_id is not None:
        app: AppReport | None = _by_id(client, app_id, looking)
    else:
        app = _by_name(client, user, name or "", looking)
    if app is None:
        return None
    before(app)
    if app.ended:
        return app
    deadline = deadline or client.deadline(waiting.APPLICATION_HAS_ENDED.within_s)
    own_service = app.type == SERVICE_TYPE and app.user == user and not reason
    if not (own_service and _ask_service(client, app, deadline)):
        client.kill_app(app.id, reason=reason, deadline=deadline)
    if not wait:
        return app
    return wait_until_ended(client, app.id, deadline=deadline, kill_after_s=kill_after_s)


def wait_until_ended(
    client: ResourceManager, app_id: str, *, deadline: Deadline, kill_after_s: float | None = None
) -> AppReport | None:
    """Poll an application until it has ended, and kill it if that takes too long.

    Returns:
        The ended application; None if the ResourceManager has no record of it any more.

    Raises:
        DeadlinePassed: when it had not ended in time.
    """
    kill_at, state = client.clock() + (math.inf if kill_after_s is None else kill_after_s), ""
    for _ in waiting.APPLICATION_HAS_ENDED.attempts(
        client.clock, client.sleep, within_s=deadline.left_s
    ):
        app = client.app(app_id, deadline=deadline)
        if app is None or app.ended:
            return app
        state = app.state.value
        if client.clock() >= kill_at:
            client.kill_app(app_id, deadline=deadline)
            kill_at = math.inf
    raise DeadlinePassed(
        f"{app_id} has not ended in time; it is {state}.", details={"application_id": app_id}
    )


def delete(
    client: ResourceManager,
    name: str,
    *,
    user: str,
    copy: StoredCopy | None = None,
    deadline: Deadline | None = None,
    check: Callable[[ObservedService | None, AppReport | None], None] = lambda _s, _a: None,
    on_wait: Callable[[str], None] = lambda _line: None,
) -> Deleted:
    """End a job if it runs, and delete its service, which frees its name.

    Args:
        client: The cluster, as the user.
        name: The service's name.
        user: Owner of the applications.
        copy: The service's stored copy in HDFS.
        deadline: For the whole operation, default 600 s.
        check: Called before anything is ended or deleted, with the service (None if it cannot be
            read) and the application of that name that has not ended; an exception from it ends the
            call.
        on_wait: Called with one line before a wait.

    Returns:
        By whom the service was deleted; `NOTHING` if there was none.

    Raises:
        DeadlinePassed: when its application had not ended, or it was not deleted, in time.

    Example:
        >>> delete(client, "mnist", user="alice")
        <Deleted.OURS: 1>
    """
    deadline = deadline or client.deadline(DELETE_S)
    found = Deleted.NOTHING
    while True:
        try:
            held = held_by(
                client, name, user=user, settle_s=IN_FLIGHT_S, copy=copy, on_wait=on_wait
            )
        except NoSuchJob:
            return found
        found = Deleted.THEIRS
        check(held.service, held.app)
        if held.app is not None:
            stop(client, user=user, app_id=held.app.id, deadline=deadline)
        elif by := delete_ended(client, name, held, user=user, copy=copy, deadline=deadline):
            return by


def _ask_service(client: ResourceManager, app: AppReport, deadline: Deadline) -> bool:
    """Request the stop of the service if this application runs it, and return whether that was
    done; otherwise only a kill ends the application.
    """
    name = app.name or ""
    with contextlib.suppress(NoSuchJob, Refused, BadAnswer):
        try:
            service = client.get_service(name, deadline=deadline)
            foreign = service.id not in (None, app.id)
            never_to_run = service.id is None and service.state is ServiceState.STOPPED
            if foreign or never_to_run:
                return False
        except ServiceUnreadable as error:
            if error.torn:
                return False
        return client.stop_service(name, deadline=deadline)
    return False


def _by_id(client: ResourceManager, app_id: str, deadline: Deadline) -> AppReport:
    app = client.app(app_id, deadline=deadline)
    if app is None:
        raise NoSuchJob(
            f"The cluster does not know {app_id}.",
            hint="It forgets ended applications after a while.",
        )
    return app


def _by_name(client: ResourceManager, user: str, name: str, deadline: Deadline) -> AppReport | None:
    """Return the application of a name: the live one, else the one in the service's JSON."""
    for running in live(client, user, name, deadline):
        return running
    with contextlib.suppress(ClusterUnavailable):
        service = client.get_service(name, deadline=deadline)  # raises NoSuchJob
        if service.id is not None:
            return client.app(service.id, deadline=deadline)
    return next(iter(client.apps(user=user, name=name, limit=1, deadline=deadline)), None)
