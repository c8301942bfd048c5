"""Decide the next step of a submission; a pure function of what was read about its name.

A POST with a lost response may have had no effect, stored the service without an application,
started an application that can never run (its stored service lacks the application's id,
docs/hadoop-facts.md#post-without-an-answer), or succeeded. While the server that received it is
alive, it may still be in any of these states. Only `decide` interprets them, by these rules:

- The owner of a service has to be proved: the service reports it while its AM runs, and the stored
  copy in HDFS contains it at any time. Of any other service, GET returns name, id and state only
  (ServiceClient.getStatus). An application that appears after our own POST proves nothing: another
  client may have sent a POST at the same moment. Without proof, nothing is adopted, killed or
  deleted, and the outcome is unknown.
- A service is cleaned up only when no POST can still be creating it: the POST that created it has
  ended, or is so old that its server must have timed out. A service deleted during its POST would
  be created again, with an application (ServiceClient.actionCreate writes it twice).
- A second POST is sent only when no effect of the first is visible. If the first one arrives later,
  the server rejects it, because a service of that name is stored.
- The server checks for a stored service and stores its own in two steps, so that two POSTs at the
  same moment may both succeed. Of several applications of one name, the one submitted first
  continues; each client kills its own if it was submitted later (`submitted_first`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from submit_tf_job.container.contract import PROPERTY_RERUN_OF, PROPERTY_SUBMISSION
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.states import AppState, FinalStatus, ServiceState

__all__ = [
    "IN_FLIGHT_S",
    "POSTS_MAX",
    "SETTLE_S",
    "TELL_S",
    "Action",
    "Adopt",
    "Delete",
    "GiveUp",
    "Kill",
    "NotKnown",
    "Post",
    "StoredService",
    "SubmissionView",
    "Taken",
    "Wait",
    "Whose",
    "decide",
    "in_words",
    "said_whose",
    "submitted_first",
    "whose_is",
]

# state may be stale for 2 s after a failover (docs/hadoop-facts.md#failover); a service appears
# about 4 s after ACCEPTED
SETTLE_S = 10.0
# jars may be uploaded inside a POST (docs/hadoop-facts.md#jar-upload-inside-the-post); the longest
# measured upload took less than 60 s
IN_FLIGHT_S = 180.0
# a service that has not reported its owner within this time reports it when its application leaves
# the queue, which may take days
TELL_S = 60.0
POSTS_MAX = 2


class Whose(Enum):
    """Ownership of a service: by this submission, by another one, or unknown."""

    OURS = "ours"
    THEIRS = "theirs"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class StoredService:
    """The copy of a service that YARN stores in HDFS.

    Attributes:
        submission: Id of its submission; None if it was not submitted by this program.
        app_id: Its application; None before the ResourceManager has stored the id.
        edition: Identifies a version of the file: its modification time in ms.
        torn: Whether the file is truncated: it is being written, or its writer died.
    """

    submission: str | None
    app_id: str | None = None
    edition: int = 0
    torn: bool = False


@dataclass(frozen=True)
class SubmissionView:
    """Everything that was read about a name at one moment.

    Attributes:
        service: The service; None if it does not exist or cannot be read.
        readable: Whether the service could be read.
        torn: Whether its stored copy is truncated, so that it can never run.
        live: Applications of that name and user that have not ended, newest first.
        ended: The ended application of the service, or None.
        before: An application that was submitted before the service's own one and overlapped it.
        stored: The stored copy; None if it was not read.
        stored_unread: Whether the copy could not be read this time: a POST may be writing it
            (docs/hadoop-facts.md#partly-stored-service).
        reader: Whether stored copies can be read at all.
        lost: Number of our POSTs with an unknown outcome.
        cleared: Whether everything that the submission left behind has been deleted.
        followed: Whether another client may be about to submit this job's next run, and has deleted
            the service of the one before.
        stored_age_s: Age of a stored copy without an application id, by the file system's clock; 0
            if unknown.
        settled_s: Seconds without a change in anything that was read.
    """

    service: ObservedService | None = None
    readable: bool = True
    torn: bool = False
    live: tuple[AppReport, ...] = ()
    ended: AppReport | None = None
    before: AppReport | None = None
    stored: StoredService | None = None
    stored_unread: bool = False
    reader: bool = False
    lost: int = 0
    cleared: bool = False
    followed: bool = False
    stored_age_s: float = 0.0
    settled_s: float = 0.0


@dataclass(frozen=True)
class Post:
    """Send the service: the name is free, and no POST of ours is pending."""


@dataclass(frozen=True)
class Adopt:
    """Return this application: it runs our submission."""

    app_id: str
    finished: bool = False


@dataclass(frozen=True)
class Taken:
    """Fail: another submission uses the name."""

    app: AppReport | None
    whose: Whose


@dataclass(frozen=True)
class NotKnown:
    """Fail: the name is in use, and it cannot be determined whether by our submission."""

    app_id: str | None
    why: str


@dataclass(frozen=True)
class Wait:
    """Wait briefly, then read everything again."""

    why: str


@dataclass(frozen=True)
class Kill:
    """Kill an application of ours that cannot run, or that is a duplicate."""

    app_id: str


@dataclass(frozen=True)
class Delete:
    """Delete the service that our own POST stored without an application."""


@dataclass(frozen=True)
class GiveUp:
    """Fail: another POST is not allowed, and nothing has to be cleaned up."""


Action: TypeAlias = Post | Adopt | Taken | NotKnown | Wait | Kill | Delete | GiveUp


def in_words(action: Action) -> str:
    """Return an action for a log: `post`, `adopt application_1_0007`, `wait: a POST is pending`."""
    text = type(action).__name__.lower()
    if app_id := getattr(action, "app_id", None):
        text += f" {app_id}"
    why = getattr(action, "why", "")
    return f"{text}: {why}" if why else text


def whose_is(seen: SubmissionView, submission_id: str) -> Whose:
    """Return the ownership of the service, from its properties or its stored copy."""
    stored = seen.stored
    said = said_whose(seen.service, submission_id) if seen.service is not None else Whose.UNKNOWN
    if said is not Whose.UNKNOWN or stored is None or stored.torn:
        return said
    return Whose.OURS if stored.submission == submission_id else Whose.THEIRS


def said_whose(service: ObservedService, submission_id: str) -> Whose:
    """Return the ownership of a service, from its properties, which the services API returns only
    while its AM runs.
    """
    if service.properties.get(PROPERTY_RERUN_OF) == submission_id:
        return Whose.OURS
    said = service.properties.get(PROPERTY_SUBMISSION) or service.version
    if not said:
        return Whose.UNKNOWN
    return Whose.OURS if said == submission_id else Whose.THEIRS


def submitted_first(apps: Iterable[AppReport]) -> AppReport:
    """Return the application that was submitted to the ResourceManager first; application ids are
    assigned earlier, so they do not show the order.
    """
    return min(apps, key=lambda app: (app.started_ms or 0, app.id))


def decide(seen: SubmissionView, submission_id: str) -> Action:
    """Return the next step of a submission."""
    whose = whose_is(seen, submission_id)
    if seen.torn:
        return _torn(seen)
    if not seen.readable:
        return _unreadable(seen, whose)
    if seen.service is None:
        return _absent(seen)
    if seen.service.state in (ServiceState.STOPPED, ServiceState.FAILED):
        return _at_rest(seen, whose)
    return _alive(
        seen,
        seen.service.id or _stored_id(seen) or (seen.live[0].id if len(seen.live) == 1 else None),
        whose,
    )


def _absent(seen: SubmissionView) -> Action:
    """Decide the step if no service is stored: the name is free, a POST is in progress, or an
    application has not ended yet after the deletion of its service.
    """
    if seen.live:
        return _untold(
            seen, "an application of that name is still ending, or its service has been deleted"
        )
    if seen.lost and not seen.cleared and seen.settled_s < SETTLE_S:
        return Wait("the answer was lost and nothing of the submission is to be seen yet")
    if seen.followed:
        return Wait("a follower may be about to submit the job's next run")
    return Post() if seen.lost < POSTS_MAX else GiveUp()


def _alive(seen: SubmissionView, app_id: str | None, whose: Whose) -> Action:
    """Decide the step if an application runs the service or waits in its queue."""
    if whose is Whose.THEIRS:
        return Taken(_app(seen, app_id), whose)
    if whose is Whose.UNKNOWN:
        return _untold(seen, "its service says whose it is only when it runs")
    if app_id is None or (_stored_id(seen) or app_id) != app_id:
        return Wait("the submission has arrived and is about to show itself")
    if len(seen.live) < 2 or seen.settled_s < SETTLE_S / 2:
        return (
            Adopt(app_id)
            if len(seen.live) < 2
            else Wait("another application of that name lives, too")
        )
    return Adopt(app_id) if submitted_first(seen.live).id == app_id else Kill(app_id)


def _at_rest(seen: SubmissionView, whose: Whose) -> Action:
    """Decide the step if no application runs the stored service: it has ended, never started, or is
    about to start.
    """
    service = seen.service
    app_id = (
        (service.id if service else None)
        or _stored_id(seen)
        or (seen.ended.id if seen.ended else None)
    )
    if seen.live:
        return _starting(seen, app_id, seen.live[0], whose)
    if whose is Whose.THEIRS:
        return Taken(seen.ended, whose)
    if whose is Whose.UNKNOWN:
        return _untold_at_rest(seen, app_id)
    if app_id is None:
        return (
            Wait("the service is stored and has no application yet")
            if _may_still_start(seen)
            else Delete()
        )
    if (
        seen.before is not None
        and seen.ended is not None
        and seen.ended.final_status is FinalStatus.KILLED
    ):
        return NotKnown(
            seen.before.id,
            f"{app_id} was ended as one too many, because {seen.before.id} was there before it",
        )
    return Adopt(app_id, finished=True)


def _starting(seen: SubmissionView, app_id: str | None, app: AppReport, whose: Whose) -> Action:
    """Decide the step if the stored service does not contain the live application's id (yet)."""
    young = app.state in (AppState.NEW, AppState.NEW_SAVING, AppState.SUBMITTED)
    if seen.settled_s < (IN_FLIGHT_S if young else SETTLE_S):
        return Wait("the application has been accepted and the service does not name it yet")
    if whose is Whose.THEIRS:
        return Taken(app, whose)
    if whose is Whose.UNKNOWN or app_id is not None:
        return _untold(seen, "the stored service does not name it")
    return (
        Wait("the application has been accepted and the service does not name it yet")
        if _may_still_start(seen)
        else Kill(app.id)
    )


def _torn(seen: SubmissionView) -> Action:
    """Decide the step if the ResourceManager died while it wrote the service, before or after the
    start of the application: an application started from it fails
    (docs/hadoop-facts.md#partly-stored-service).
    """
    if seen.live:
        return _untold(seen, "only a part of its service is stored")
    if _may_still_start(seen):
        return Wait("only a part of the service is stored")
    if seen.reader:
        return Delete()
    # Without HDFS, two clients could both send a DELETE, and the later one could end the other's
    # run.
    return NotKnown(None, "only a part of it is stored")


def _unreadable(seen: SubmissionView, whose: Whose) -> Action:
    """Decide the step if the AM does not respond: it restarts, or cannot respond on this cluster (a
    secure one, and a service without a keytab).
    """
    if not seen.live or seen.settled_s < SETTLE_S:
        return Wait("the service cannot be read just now")
    if whose is Whose.THEIRS:
        return Taken(seen.live[0], whose)
    named = _stored_id(seen)
    if whose is Whose.OURS and any(app.id == named for app in seen.live):
        return Adopt(named or "")
    return _untold(seen, "its ApplicationMaster cannot be asked")


def _untold(seen: SubmissionView, why: str) -> Action:
    """Decide the step if a running service has not reported its owner yet.

    It may still be ours; after a lost response, the check continues until the deadline.
    """
    if seen.lost or seen.settled_s < TELL_S:
        return Wait(f"it is not yet to be seen whose submission holds the name: {why}")
    return NotKnown(seen.live[0].id if seen.live else None, why)


def _untold_at_rest(seen: SubmissionView, app_id: str | None) -> Action:
    """Decide the step if a stored service without an application does not report its owner.

    Only its stored copy can show the owner.
    """
    if seen.reader:
        why = "the stored service, which says whose it is, cannot be read just now"
        return Wait(why) if seen.settled_s < TELL_S else NotKnown(app_id, why)
    if not seen.lost:  # no POST of ours is pending, so the name belongs to another submission
        return (
            Wait("the service may be about to start")
            if seen.settled_s < SETTLE_S
            else Taken(seen.ended, Whose.UNKNOWN)
        )
    why = (
        "a service that runs no application says whose it is only in its stored copy in HDFS, "
        "for which hadoop_conf must be set"
    )
    return Wait(why) if app_id is None and _may_still_start(seen) else NotKnown(app_id, why)


def _may_still_start(seen: SubmissionView) -> bool:
    """Return whether the POST that stored the service, of any client, may still be in progress."""
    return max(seen.settled_s, seen.stored_age_s) < IN_FLIGHT_S


def _stored_id(seen: SubmissionView) -> str | None:
    return seen.stored.app_id if seen.stored is not None else None


def _app(seen: SubmissionView, app_id: str | None) -> AppReport | None:
    return next((app for app in seen.live if app.id == app_id), seen.live[0] if seen.live else None)
