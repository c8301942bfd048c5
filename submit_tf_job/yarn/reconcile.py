"""What to do next about a submission, as a pure function of what can be seen of it.

A POST whose answer was lost may have done nothing, may have stored the service without an application, may have started an application
that can never run (its stored service lacks the application's id: the AM dies of it, facts: verified-security-ha 9.1), or may have
succeeded; and while the server that took it lives, it may still be at any of these. Only `decide` judges that. Its rules:

- A second POST is sent only when nothing of the first is left. Where nothing was ever to be seen, the server's own rule protects: whoever
  stores the service first has the name. Where the stored service waits for its application, the first POST must be known to be over, or
  have had so long that its server must have given up: deleting it under a living POST would let both start an application.
- A service shows whose it is only while it runs (seen on 3.4.2: ACCEPTED and STOPPED show name, id and state). Without that the stored
  copy is asked, where a reader was given. Failing both, what appeared after our own POST on a name that was free is ours: YARN lets
  nobody else have the name meanwhile. What was there before is never touched unless it says that it is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from submit_tf_job.contract import PROPERTY_RERUN_OF, PROPERTY_SUBMISSION
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.states import AppState, ServiceState

__all__ = ["IN_FLIGHT_S", "POSTS_MAX", "SETTLE_S", "Action", "Adopt", "Delete", "GiveUp", "Kill", "Observation", "Post", "Taken", "Wait"]
__all__ += ["Whose", "decide", "whose_is"]

SETTLE_S = 10.0  # a failover shows a stale state for 2 s (facts: verified-security-ha 9); a service shows itself some 4 s after ACCEPTED
IN_FLIGHT_S = 180.0  # jars may be uploaded inside a POST (facts: yarn-services P20); the longest seen was below 60 s
POSTS_MAX = 2


class Whose(Enum):
    """Whose submission a service is."""

    OURS = "ours"
    THEIRS = "theirs"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Observation:
    """Everything known of a name at one moment.

    Attributes:
        service: The service, `None` where there is none, or it cannot be read.
        readable: Whether the service could be read.
        torn: Whether its stored copy is cut off, so that it never can be.
        live: Applications of that name and user that have not ended, the newest first.
        ended: The ended application that belongs to the service, where one does.
        stored: The submission's id in the stored service, `None` where that is not known.
        stored_unread: Whether that is so because the stored service could not be read just now: a POST may be writing it (seen).
        ids_hidden: Whether this Hadoop shows a service's application id only while it runs (3.1, facts: verified-versions 1.3).
        lost: POSTs of ours whose answer was lost.
        over: Whether the last of them is certainly over: it was answered, its server process is gone, or its application was seen.
        cleared: Whether what it left behind has been deleted.
        since_post_s: Seconds since the last of them was sent.
        settled_s: Seconds for which the picture has been this one.
    """

    service: ObservedService | None = None
    readable: bool = True
    torn: bool = False
    live: tuple[AppReport, ...] = ()
    ended: AppReport | None = None
    stored: str | None = None
    stored_unread: bool = False
    ids_hidden: bool = False
    lost: int = 0
    over: bool = False
    cleared: bool = False
    since_post_s: float = 0.0
    settled_s: float = 0.0


@dataclass(frozen=True)
class Post:
    """Send the service: the name is free and nothing of ours is under way."""


@dataclass(frozen=True)
class Adopt:
    """Our submission is there: this application."""

    app_id: str
    finished: bool = False


@dataclass(frozen=True)
class Taken:
    """Something else holds the name."""

    app: AppReport | None
    whose: Whose


@dataclass(frozen=True)
class Wait:
    """Look again in a moment."""

    why: str


@dataclass(frozen=True)
class Kill:
    """Kill an application of ours that cannot run, or that is one too many."""

    app_id: str


@dataclass(frozen=True)
class Delete:
    """Delete what a POST of ours left behind without an application."""


@dataclass(frozen=True)
class GiveUp:
    """Nothing is left behind, and another POST would be one too many."""


Action: TypeAlias = Post | Adopt | Taken | Wait | Kill | Delete | GiveUp


def whose_is(seen: Observation, submission_id: str) -> Whose:
    """Return whose the service is, by what it says, by its stored copy, or by our having made it."""
    said = None
    if seen.service is not None:
        if seen.service.properties.get(PROPERTY_RERUN_OF) == submission_id:
            return Whose.OURS
        said = seen.service.properties.get(PROPERTY_SUBMISSION) or seen.service.version
    said = said or seen.stored
    if said:
        return Whose.OURS if said == submission_id else Whose.THEIRS
    return Whose.OURS if seen.lost else Whose.UNKNOWN


def decide(seen: Observation, submission_id: str) -> Action:
    """Return the next step of a submission."""
    whose = whose_is(seen, submission_id)
    if seen.torn:
        return _torn(seen, whose)
    if not seen.readable:
        return _unreadable(seen, whose)
    if seen.service is None:
        return _absent(seen)
    if seen.service.state in (ServiceState.STOPPED, ServiceState.FAILED):
        return _at_rest(seen, seen.service, whose)
    return _alive(seen, seen.service.id or (seen.live[0].id if seen.live else None), whose, submission_id)


def _absent(seen: Observation) -> Action:
    """No service: free, or not there yet, or an application outlives its service's deletion for a moment."""
    if seen.live:
        return Wait("an application of that name is still ending") if seen.settled_s < SETTLE_S else Taken(seen.live[0], Whose.UNKNOWN)
    if seen.lost and not seen.cleared and seen.settled_s < SETTLE_S:
        return Wait("the answer was lost and nothing of the submission is to be seen yet")
    return Post() if seen.lost < POSTS_MAX else GiveUp()


def _alive(seen: Observation, app_id: str | None, whose: Whose, submission_id: str) -> Action:
    """An application runs the service, or waits for its turn to."""
    settled = seen.settled_s >= SETTLE_S
    if whose is Whose.THEIRS:
        return Taken(_app(seen, app_id), whose)
    if whose is Whose.UNKNOWN:
        return Taken(_app(seen, app_id), whose) if settled else Wait("it is not yet to be seen whose submission holds the name")
    surplus = [app for app in seen.live if app.id != app_id]
    if app_id is not None and surplus and seen.lost > 1:
        return Kill(surplus[0].id)
    if app_id is None or not (settled or _proven(seen, submission_id)):
        return Wait("the submission has arrived and is about to show itself")
    return Adopt(app_id)


def _at_rest(seen: Observation, service: ObservedService, whose: Whose) -> Action:
    """A stored service that no application runs: over, never started, or being started."""
    if seen.live:
        return _starting(seen, service, seen.live[0], whose)
    app_id = service.id or (seen.ended.id if seen.ended else None)
    if whose is Whose.UNKNOWN and seen.stored_unread and seen.settled_s < SETTLE_S:
        return Wait("the stored service, which says whose it is, cannot be read just now")
    if whose is not Whose.OURS or (seen.ids_hidden and not seen.lost):
        return Taken(seen.ended, whose)
    if app_id is not None:
        return Adopt(app_id, finished=True)
    if _may_still_start(seen):
        return Wait("the service is stored and has no application yet")
    return Delete()


def _starting(seen: Observation, service: ObservedService, app: AppReport, whose: Whose) -> Action:
    """The stored service knows nothing of a live application: in a moment it will, or never."""
    young = app.state in (AppState.NEW, AppState.NEW_SAVING, AppState.SUBMITTED)
    if seen.settled_s < (IN_FLIGHT_S if young else SETTLE_S):
        return Wait("the application has been accepted and the service does not know it yet")
    if whose is not Whose.OURS:
        return Taken(app, whose)
    return Kill(app.id) if service.id is None else Adopt(app.id)


def _torn(seen: Observation, whose: Whose) -> Action:
    """The ResourceManager died while it wrote the service, before it made the application or after: what starts from it fails (seen)."""
    if seen.settled_s < SETTLE_S or (seen.lost and _may_still_start(seen)):
        return Wait("only a part of the service is stored")
    if seen.live:
        return Kill(seen.live[0].id) if whose is Whose.OURS else Taken(seen.live[0], whose)
    return Delete()


def _unreadable(seen: Observation, whose: Whose) -> Action:
    """The AM cannot be asked: it restarts, or never can on this cluster (a secure one, a service without a keytab)."""
    if not seen.live or seen.settled_s < SETTLE_S:
        return Wait("the service cannot be read just now")
    return Adopt(seen.live[0].id) if whose is Whose.OURS else Taken(seen.live[0], whose)


def _may_still_start(seen: Observation) -> bool:
    """Whether the POST that stored the service may still be at work on it: ours, or one of an earlier call that nobody remembers."""
    if not seen.lost:
        return seen.settled_s < IN_FLIGHT_S
    return seen.settled_s < SETTLE_S or (not seen.over and seen.since_post_s < IN_FLIGHT_S)


def _proven(seen: Observation, submission_id: str) -> bool:
    return whose_is(Observation(seen.service, stored=seen.stored), submission_id) is Whose.OURS


def _app(seen: Observation, app_id: str | None) -> AppReport | None:
    return next((app for app in seen.live if app.id == app_id), seen.live[0] if seen.live else None)
