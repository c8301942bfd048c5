"""Wait until the ApplicationMaster of the previous application of a service has exited.

YARN reports an application as FINISHED when its ApplicationMaster has unregistered. That process
may run for another 30 s in its shutdown hook (`hadoop.service.shutdown.timeout`), and the
ResourceManager's internal state of the application is FINISHING until it exits. Only then does the
ResourceManager run its "type-specific cleanup" (RMAppImpl.appAdminClientCleanUp), which deletes the
registry entries of the service *by its name*, even if they belong to a newer application: the DNS
names of a job that was submitted in the meantime disappear and are not written again (seen on 3.1
to 3.4).

The application's state in the REST API does not show this, but the state of its last attempt does.
Once the attempt has left FINISHING, the cleanup is in the ResourceManager's event queue ahead of
every event of a new submission, so no further wait is necessary.
"""

from __future__ import annotations

from collections.abc import Callable

from submit_tf_job.errors import DeadlinePassed
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.resource_manager import ResourceManager
from submit_tf_job.yarn.states import AppState

__all__ = ["finishing", "is_finishing", "wait_until_left"]

_ENDING = "FINISHING"
_POLL_S, _POLL_MAX_S = 1.0, 5.0


def wait_until_left(
    client: ResourceManager,
    name: str,
    *,
    user: str,
    within_s: float,
    on_wait: Callable[[str], None] = lambda _line: None,
) -> None:
    """Wait until no FINISHED application of that name has a running ApplicationMaster.

    Args:
        client: The cluster, as the user.
        name: The service's name.
        user: Owner of the applications.
        within_s: Maximum wait in seconds.
        on_wait: Called with one line before a wait.

    Raises:
        DeadlinePassed: An ApplicationMaster had not exited in time; nothing was submitted.
    """
    pause_s, said, begun = _POLL_S, False, client.clock()
    while True:
        found = finishing(client, name, user=user)
        if not found:
            return
        if not said:
            on_wait(
                f"waiting for the ApplicationMaster of {found[0].id} to exit: it held the "
                f"name {name}, and when it exits YARN removes "
                "the DNS names of that job, or of one that has the name by then (mostly 30 s)"
            )
            said = True
        left = begun + within_s - client.clock()
        if left <= 0:
            raise DeadlinePassed(
                f"the name {name} is not free yet: {found[0].id} is over, but its "
                f"ApplicationMaster has not exited "
                f"within {client.clock() - begun:.0f} s",
                hint="nothing was submitted: a new job of this name would lose its DNS names. "
                "Try again later, or use another name",
                details={"application_id": found[0].id},
            )
        client.sleep(min(pause_s, left))
        pause_s = min(pause_s * 1.5, _POLL_MAX_S)


def finishing(client: ResourceManager, name: str, *, user: str) -> tuple[AppReport, ...]:
    """Return a name's FINISHED applications with a running ApplicationMaster, newest first."""
    ended = [app for app in client.apps(user=user, name=name) if app.state is AppState.FINISHED]
    return tuple(app for app in ended if is_finishing(client, app))


def is_finishing(client: ResourceManager, app: AppReport) -> bool:
    """Return whether the ApplicationMaster of a FINISHED application still runs."""
    if app.running_containers is not None and app.running_containers < 0:
        # -1: the scheduler has removed it, which happens when its last attempt ends (seen on 3.1 to
        # 3.4)
        return False
    attempts = client.app_attempts(app.id)
    if not attempts:
        return False
    last = attempts[-1]
    return (last.state or client.attempt_state(app.id, last.id or "")) == _ENDING
