"""Delete the service of a job that has ended, so that its name can be used again.

A DELETE stops and deletes the service that has the name when the server processes the request
(ApiServer.deleteService, ServiceClient.actionStop and actionDestroy). A DELETE that arrives late,
or while a POST is still creating the service, can therefore end another run. So:

- A DELETE is sent once. If its response is lost, it may still arrive within `IN_FLIGHT_S`; until
  then this client sends no other DELETE and no POST, and does not report success.
- Of all clients with access to HDFS, only one at a time may delete a service (`Claims`).
- A service without an application may belong to a POST that is still uploading files. It is deleted
  only when its stored copy is older than `IN_FLIGHT_S`, or was unchanged for that long.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from submit_tf_job.errors import DeadlinePassed, NoSuchJob, Refused, SubmitTFJobError
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.reconcile import IN_FLIGHT_S, SETTLE_S, StoredService
from submit_tf_job.yarn.resource_manager import (
    AnswerLost,
    Deadline,
    ResourceManager,
    ServiceUnreadable,
)

__all__ = [
    "FRESH_S",
    "Claims",
    "Deleted",
    "Deletion",
    "Held",
    "StoredCopy",
    "delete_ended",
    "held_by",
    "live",
]

FRESH_S = 5.0  # the result of a check that took longer may be out of date
USE_S = 30.0  # a client sends its DELETE within this time of its claim, or not at all
CLAIM_S = USE_S + IN_FLIGHT_S  # after this time, a DELETE of a dead client cannot arrive any more
_POLL_S, _POLL_MAX_S = 0.5, 3.0


class Deleted(IntEnum):
    """By whose DELETE a service is gone; false if there was none.

    Another client's DELETE may still be under way: it removes the name's DNS records last.
    """

    NOTHING = 0
    OURS = 1
    THEIRS = 2


class StoredCopy(Protocol):
    """The copy of a service that YARN stores in HDFS.

    Every method raises `SubmitTFJobError` if the copy is missing or cannot be read.
    """

    def read(self) -> StoredService:
        """Return the content of the copy."""

    def now_ms(self) -> int:
        """Return the file system's current time in milliseconds."""

    def claim(self, edition: int, turn: int) -> bool:
        """Claim the right to delete the service for one edition of its stored copy.

        Only one client can claim it. The claim is removed with the service.

        Args:
            edition: The copy's edition.
            turn: 0, plus one for each earlier claim that was not used in time.

        Returns:
            Whether this client has the claim and the copy is still of that edition.
        """

    def claimed_ms(self, edition: int, turn: int) -> int | None:
        """Return when that claim was made, by the file system's clock; None if it was not."""


class Claims:
    """Claims to delete a service, held by one client at a time.

    Args:
        copy: The stored copy; None without HDFS, in which case every client may delete.
        clock: Monotonic seconds.
    """

    def __init__(self, copy: StoredCopy | None, clock: Callable[[], float]) -> None:
        self._copy = copy
        self._clock = clock
        self._edition: int | None = None
        self._turn = 0
        self._since: float | None = None
        self._now: tuple[int, float] | None = None

    def age_s(self, written_ms: int) -> float:
        """Return the age of a file, by the file system's clock; 0 if it cannot be determined."""
        if self._now is None and self._copy is not None:
            with contextlib.suppress(SubmitTFJobError):
                # In this order, so that a process suspended between the two calls underestimates a
                # file's age.
                self._now = self._copy.now_ms(), self._clock()
        if self._now is None:
            return 0.0
        now_ms, at = self._now
        return (now_ms - written_ms) / 1000 + self._clock() - at

    def take(self, edition: int) -> bool:
        """Return whether this client may delete the service with that edition of the stored copy.

        Raises:
            SubmitTFJobError: It cannot be determined.
        """
        if self._copy is None:
            return True
        if edition != self._edition:
            self._edition, self._turn, self._since = edition, 0, None
        if self._since is not None and self._clock() - self._since < USE_S:
            return True
        self._since = None
        while (claimed_ms := self._copy.claimed_ms(edition, self._turn)) is not None:
            if self.age_s(claimed_ms) < CLAIM_S:
                return False
            self._turn += 1
        before = self._clock()
        if self._copy.claim(edition, self._turn):
            self._since = before
        return self._since is not None and self._clock() - self._since < USE_S


class Deletion:
    """The DELETE requests of one client for one service name.

    Args:
        client: The cluster, as the user.
        name: The service's name.
        copy: Its stored copy.
    """

    def __init__(self, client: ResourceManager, name: str, copy: StoredCopy | None) -> None:
        self._client = client
        self._name = name
        self.claims = Claims(copy, client.clock)
        self._pending_until = float("-inf")

    @property
    def pending_s(self) -> float:
        """Seconds until a DELETE with a lost response cannot take effect any more."""
        return max(0.0, self._pending_until - self._client.clock())

    def send(self, deadline: Deadline) -> bool:
        """Send one DELETE and return whether it was successful; otherwise the next check of the
        name shows its effect.
        """
        try:
            self._client.delete_service(self._name, deadline=deadline, once=True)
        except AnswerLost:
            # The directory may be deleted before its registry entries (actionDestroy), so a missing
            # service does not show that the DELETE is complete.
            self._pending_until = self._client.clock() + IN_FLIGHT_S
            return False
        except Refused:
            return False
        return True


@dataclass(frozen=True)
class Held:
    """The service and the application that use a name.

    Attributes:
        service: The service; None if it cannot be read.
        app: The application of that name that has not ended.
        edition: The edition of the stored copy; None if it cannot be read.
    """

    service: ObservedService | None
    app: AppReport | None
    edition: int | None = None


def delete_ended(
    client: ResourceManager,
    name: str,
    held: Held,
    *,
    user: str,
    copy: StoredCopy | None,
    deadline: Deadline,
) -> Deleted:
    """Delete a service that no application runs.

    If several clients delete it at once, one sends the DELETE, and the others return when the
    service is deleted.

    Args:
        client: The cluster, as the user.
        name: The service's name.
        held: The service as last read.
        user: Owner of the applications.
        copy: Its stored copy; without one, only the last check before the DELETE protects another
            client's run.
        deadline: For the whole operation.

    Returns:
        Who deleted it: the name is free or belongs to another service now. `NOTHING` if a DELETE
        had no effect, and without a stored copy it cannot be determined whether the service is
        still the same one.

    Raises:
        DeadlinePassed: when it was not deleted in time.
    """
    deletion = Deletion(client, name, copy)
    sent = False
    while True:
        begun = client.clock()
        over = not _is_still(client, name, held.service, user=user, deadline=deadline)
        edition = None
        if held.edition is not None:
            edition = _edition(copy)
            over = over or edition not in (None, held.edition)
        if not deletion.pending_s and (over or (sent and edition is None)):
            by = Deleted.OURS if sent else Deleted.THEIRS
            return by if over else Deleted.NOTHING
        if (
            not (over or deletion.pending_s)
            and edition == held.edition
            and _may_delete(deletion, edition)
            and client.clock() - begun <= FRESH_S
        ):
            sent = True
            if deletion.send(deadline):
                return Deleted.OURS
        if not deadline.left_s:
            raise DeadlinePassed(
                f"{name} was not deleted in time: a DELETE may be under way, of this client or "
                f"another.",
                hint="Nothing was submitted. Give the same command again.",
            )
        client.sleep(min(_POLL_S, deadline.left_s))


def _is_still(
    client: ResourceManager,
    name: str,
    service: ObservedService | None,
    *,
    user: str,
    deadline: Deadline,
) -> bool:
    """Return whether the name still has the same service, without an application."""
    try:
        now = client.get_service(name, deadline=deadline)
    except NoSuchJob:
        return False
    except ServiceUnreadable as error:
        if service is not None or not error.torn:
            return False
    else:
        if service is None or (now.id, now.state) != (service.id, service.state):
            return False
    return not live(client, user, name, deadline)


def _may_delete(deletion: Deletion, edition: int | None) -> bool:
    with contextlib.suppress(SubmitTFJobError):
        return edition is None or deletion.claims.take(edition)
    return False


def _edition(copy: StoredCopy | None) -> int | None:
    """Return the edition of a stored copy, or None if it cannot be read."""
    with contextlib.suppress(SubmitTFJobError):
        return copy.read().edition if copy is not None else None
    return None


def live(
    client: ResourceManager, user: str, name: str, deadline: Deadline
) -> tuple[AppReport, ...]:
    """Return the applications of a name that have not ended, newest first."""
    return tuple(
        app for app in client.apps(user=user, name=name, deadline=deadline) if not app.ended
    )


def held_by(
    client: ResourceManager,
    name: str,
    *,
    user: str,
    settle_s: float = 0.0,
    copy: StoredCopy | None = None,
    on_wait: Callable[[str], None] = lambda _line: None,
) -> Held:
    """Return the service of a name, and the application of that name that has not ended.

    The service alone does not show the application: after a POST has stored a service, its
    application starts 60 to 700 ms later (seen on 3.4.2), or after the upload of the
    ApplicationMaster's jars, and Hadoop 3.1 shows the application's id only while it runs. A
    service that is deleted while its POST is in progress is created again, with an application.

    An application that the ResourceManager does not return may still run: without high
    availability the REST API answers before the applications are recovered
    (ResourceManager.serviceStart). So it counts as ended only after `SETTLE_S` without it.

    Args:
        client: The cluster, as the user.
        name: The service's name.
        user: Owner of the applications.
        settle_s: Minimum age of a service without an application, or of a truncated one: by the
            file system's clock, or by polling it for that long.
        copy: Its stored copy, which contains the application's id on every Hadoop version.
        on_wait: Called with one line before a wait.

    Raises:
        NoSuchJob: when no service of that name exists.
        ServiceUnreadable: when it cannot be read, and neither an application of the name nor a
            truncated stored copy explains that.
    """
    claims, pause_s, said = Claims(copy, client.clock), _POLL_S, False
    started, last = client.clock(), None
    begun, unknown_since = started, None
    while True:
        stored = edition = stored_id = None
        if copy is not None:
            with contextlib.suppress(SubmitTFJobError):
                stored = copy.read()
                edition, stored_id = stored.edition, stored.app_id
        if stored != last:
            begun, last = client.clock(), stored
        old, torn = client.clock() - begun >= settle_s, False
        service, app_id = None, None
        try:
            service = client.get_service(name)
            app_id = service.id or stored_id
        except ServiceUnreadable as error:
            torn = error.torn
            if not (torn or live(client, user, name, client.deadline())):
                raise
        own = app = None
        if app_id is not None:
            own = app = client.app(app_id)
        if own is None or own.ended:
            app = next(iter(live(client, user, name, client.deadline())), None)
        done = own is not None or (app is not None and not torn)
        if done or app_id is None:
            unknown_since = None
            done = done or old or _is_old(stored, claims, settle_s)
        else:
            unknown_since = unknown_since or client.clock()
            done = client.clock() - unknown_since >= SETTLE_S
        # without its edition, other clients that delete it are not seen
        unread = copy is not None and stored is None
        if done and not (unread and client.clock() - started < min(settle_s, SETTLE_S)):
            return Held(service, app, edition)
        if not said and settle_s > SETTLE_S and client.clock() - begun >= SETTLE_S:
            on_wait(
                f"waiting until no submission of {name} can be under way: "
                f"its service names no application (at most {settle_s:.0f} s)"
            )
            said = True
        client.sleep(pause_s)
        pause_s = min(_POLL_MAX_S, pause_s * 1.2)


def _is_old(stored: StoredService | None, claims: Claims, settle_s: float) -> bool:
    return stored is not None and claims.age_s(stored.edition) >= settle_s
