"""Stop a job and free its name; YARN completes both after its response, so both are polled."""

from __future__ import annotations

import contextlib
import math

from submit_tf_job import waiting
from submit_tf_job.errors import (
    BadAnswer,
    DeadlinePassed,
    NoSuchJob,
    Refused,
)
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.resource_manager import (
    SERVICE_TYPE,
    Deadline,
    ResourceManager,
    ServiceUnreadable,
)
from submit_tf_job.yarn.states import ServiceState

__all__ = ["stop", "wait_until_ended"]

# a healthy application has ended 2 s after PUT STOPPED: hadoop-facts.md#stopping
KILL_AFTER_S = 30.0


def stop(
    client: ResourceManager,
    app: AppReport,
    *,
    user: str,
    wait: bool = True,
    deadline: Deadline | None = None,
    kill_after_s: float = KILL_AFTER_S,
    reason: str = "",
) -> AppReport | None:
    """Stop a run; for one that has ended, do nothing.

    Args:
        client: The cluster, as the user.
        app: Its application.
        user: The user.
        wait: Whether to wait for the application's end.
        deadline: For the whole operation, by default 120 s.
        kill_after_s: Time for the AM to end the application before the ResourceManager is requested
            to kill it.
        reason: Kill the application at once, with this text in its diagnostics.

    Returns:
        The application as last read; None if the ResourceManager has no record of it any more.

    Raises:
        DeadlinePassed: when it had not ended in time.
    """
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
