"""Decide the next step of a submission: a pure function of what was read about the name of one run.

`exactly_once` reads the facts, and carries out what is decided here. The state of a name only goes
forward:

    absent → stored without an id → (cut off) → stored with an id → application alive → ended
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from submit_tf_job.errors import ClusterUnavailable, SubmitTFJobError, UnknownHost
from submit_tf_job.yarn.observed import WITHDRAWN, AppReport, AppState, FinalStatus

# state may be stale for 2 s after a failover (hadoop-facts.md#failover)
SETTLE_S = 10.0
# jars may be uploaded inside a POST (hadoop-facts.md#jar-upload-inside-the-post); the longest
# measured upload took less than 60 s
IN_FLIGHT_S = 180.0
# a ResourceManager that has just started may not list all applications yet
RECOVERS_S = 60.0
THERE_BEFORE = f"{WITHDRAWN}another run of this job was there before"
ACCEPTED_TWICE = f"{WITHDRAWN}YARN has accepted this run twice"


@dataclass(frozen=True)
class StoredRun:
    """The stored service of a run, as read from HDFS, from the services API, or, if YARN does not
    store it any more, from the run's record.

    Attributes:
        key: The idempotency key of the run's submission; "" for a service of another tool, or if
            unknown.
        app_id: The id of the run's application; None before the ResourceManager has stored the id.
        age_s: Seconds since the copy was written, by the file system's clock.
        torn: Whether the copy is cut off, because it is being written, or its writer died.
        properties: The properties of the service.
    """

    key: str = ""
    app_id: str | None = None
    age_s: float = 0.0
    torn: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """Everything that was read about the name of one run.

    Attributes:
        stored: YARN's copy of the run's service; None if there is no copy, or it cannot be read.
        stored_error: Why the copy could not be read; None if it was read.
        app_id_not_shown: Whether this Hadoop version shows a service's application id only while it
            runs.
        live: Applications of the name that have not ended, the oldest first.
        ended: Applications of the name that have ended, the newest first.
        stored_app: The application whose id is in the copy, if the ResourceManager knows it.
        other_live_apps: The live applications of the job's other runs, the oldest first.
        settled_s: Seconds without a change of the stored key and id, of the name's applications,
            and of the state of `stored_app`.
        lost_s: Seconds since the response to a POST of ours for this name was lost; None if none
            was lost.
        begun_during_call: Whether the run began during this call, or lived while it lasted: this
            call has posted it, or another client that YARN preferred; or its service was stored
            without an application, or its application had not ended. Such a run is not run again.
        recovering: Whether the ResourceManager may not list all applications yet.
        given_up: Whether this number was given up by this call, or by another call that took the
            next number.
        stored_app_not_listed: Whether the list of live runs lacks `stored_app`, and may lack older
            runs, too.
    """

    stored: StoredRun | None = None
    stored_error: SubmitTFJobError | None = None
    app_id_not_shown: bool = False
    live: tuple[AppReport, ...] = ()
    ended: tuple[AppReport, ...] = ()
    stored_app: AppReport | None = None
    other_live_apps: tuple[AppReport, ...] = ()
    settled_s: float = 0.0
    lost_s: float | None = None
    begun_during_call: bool = False
    recovering: bool = False
    given_up: bool = False
    stored_app_not_listed: bool = False


@dataclass(frozen=True)
class Post:
    """Send the POST: nothing with that name exists."""


@dataclass(frozen=True)
class Adopt:
    """Return this application to the caller: it runs, or has run, our submission.

    Attributes:
        finished: Whether the application has ended.
        app: The application's report, if it is alive.
        kill: Other live applications of the name, which are killed: YARN has accepted several POSTs
            of it (hadoop-facts.md#two-posts-of-one-name), and this one stays.
        older: The job's other live runs that existed before this one. The client that posted this
            run ends it because of them, unless they belong to the same submission.
    """

    app_id: str
    finished: bool = False
    app: AppReport | None = None
    kill: tuple[str, ...] = ()
    older: tuple[AppReport, ...] = ()


@dataclass(frozen=True)
class Taken:
    """Fail, because another run of the job is alive; unless it belongs to the same submission."""

    app: AppReport


@dataclass(frozen=True)
class Withdraw:
    """End our own application, because another run of the job existed before it.

    Attributes:
        kill: Other applications of the name, which are killed, too.
    """

    app_id: str
    other: AppReport
    kill: tuple[str, ...] = ()


@dataclass(frozen=True)
class Next:
    """Give the name up, or leave its ended run, and take the next number.

    Attributes:
        kill: Applications with the name that can never run, or that run beside the one whose id is
            stored; they are killed.
        spoiled: Whether a failed POST made the name unusable; False if the name's run has ended.
        foreign: Whether a run of another submission has the name.
    """

    why: str
    kill: tuple[str, ...] = ()
    spoiled: bool = False
    foreign: bool = False


@dataclass(frozen=True)
class Fail:
    """Fail: the facts that are needed to decide cannot be read, and another attempt would not
    help.
    """

    error: SubmitTFJobError


@dataclass(frozen=True)
class Rejected:
    """Fail: the scheduler has rejected the application that this call has posted."""

    app: AppReport


@dataclass(frozen=True)
class Wait:
    """Wait briefly, then read everything again.

    Attributes:
        error: The error that prevented reading a fact, if that is the reason for waiting.
    """

    why: str
    error: SubmitTFJobError | None = None


Action: TypeAlias = Post | Adopt | Taken | Withdraw | Next | Fail | Rejected | Wait


def in_words(action: Action) -> str:
    """Return an action as text for a log: `post`, `adopt application_1_0007`, `wait: …`."""
    app_id, why = getattr(action, "app_id", ""), getattr(action, "why", "")
    return " ".join(filter(None, [type(action).__name__.lower(), app_id, why and f"({why})"]))


def decide(seen: View, key: str, runs_again: Callable[[AppReport | None], bool]) -> Action:
    """Return the next step for one name; a pure function of what was read.

    Args:
        seen: What was read.
        key: The submission's idempotency key.
        runs_again: Returns whether the key is run again after the end of an application; its
            argument is None for an application that the ResourceManager has forgotten.
    """
    if seen.stored_error is not None:
        return _stored_unreadable(seen, seen.stored_error, runs_again)
    if seen.stored is None:
        return _nothing_stored(seen, runs_again)
    if seen.stored.key not in ("", key):
        return Next("the run of another submission has that name", foreign=True)
    if seen.stored.torn or (seen.stored.app_id is None and not seen.app_id_not_shown):
        return _without_id(seen)
    if seen.stored.app_id is None:
        return _without_shown_id(seen, runs_again)
    return _with_id(seen, seen.stored.app_id, runs_again)


def _nothing_stored(seen: View, runs_again: Callable[[AppReport | None], bool]) -> Action:
    if seen.live:
        # its stored service was deleted, or is about to be seen
        if seen.settled_s < SETTLE_S:
            return Wait("an application of that name is there, and its service is not seen yet")
        return _adopt_live(seen, seen.live[0])
    if seen.ended:
        return _after_end(seen, seen.ended[0], runs_again)
    if seen.lost_s is not None and seen.lost_s < SETTLE_S:
        return Wait("the answer was lost, and nothing of the submission is to be seen yet")
    if seen.other_live_apps:
        return Taken(seen.other_live_apps[0])
    if seen.recovering:
        return Wait("the ResourceManager has just started, and may not list all applications yet")
    return Post()


def _stored_unreadable(
    seen: View, error: SubmitTFJobError, runs_again: Callable[[AppReport | None], bool]
) -> Action:
    running = [app for app in seen.live if app.state is AppState.RUNNING]
    if running and seen.settled_s >= SETTLE_S:
        return _adopt_live(seen, running[0])
    if seen.ended and not seen.live and seen.settled_s >= SETTLE_S:
        return _after_end(seen, seen.ended[0], runs_again)
    if not seen.live and not seen.ended and not _may_pass(error):
        return Fail(error)
    return Wait(f"the stored service cannot be read: {error.message}", error)


def _may_pass(error: SubmitTFJobError) -> bool:
    """Return whether another attempt may succeed after an error, although nothing was changed."""
    return isinstance(error, ClusterUnavailable) and not isinstance(error, UnknownHost)


def _without_id(seen: View) -> Action:
    stored = seen.stored or StoredRun()
    left_s = IN_FLIGHT_S - max(stored.age_s, seen.settled_s)
    if left_s > 0 and not seen.given_up:
        return Wait(f"its service is stored and names no application (for {left_s:.0f} s at most)")
    running = [
        app for app in seen.live if app.state is AppState.RUNNING and (stored.torn or has_run(app))
    ]
    if running:
        return _adopt_live(seen, running[0])
    # an application that was started from it can never run
    return Next("its POST has failed half-way", tuple(app.id for app in seen.live), spoiled=True)


def _without_shown_id(seen: View, runs_again: Callable[[AppReport | None], bool]) -> Action:
    """Return the next step when no application id is known, because Hadoop 3.1 does not show it and
    HDFS cannot be read.
    """
    if seen.settled_s < SETTLE_S:
        return Wait("its service is stored and shows no application yet")
    if seen.live:  # the newest has stored its id last, most likely
        return _adopt_one(seen, seen.live, seen.live[-1])
    if seen.ended:
        return _after_end(seen, seen.ended[0], runs_again)
    return _without_id(seen)


def _with_id(seen: View, app_id: str, runs_again: Callable[[AppReport | None], bool]) -> Action:
    app = seen.stored_app
    if app is None and (seen.settled_s < SETTLE_S or seen.recovering):
        return Wait(f"the ResourceManager does not know {app_id}, and may be starting")
    twins = [
        one for one in seen.live if one.id != app_id and (app is None or lived_together(one, app))
    ]
    if twins and seen.settled_s < SETTLE_S / 2:
        return Wait("another application of that name is there, too")
    if app is not None and not app.ended:
        if seen.stored_app_not_listed:
            return Wait(f"the list of live runs is older than {app.id}")
        return _adopt_one(seen, [*twins, app], app)
    if twins and (app is None or app.final_status is not FinalStatus.SUCCEEDED):
        return _adopt_one(seen, twins, twins[-1])
    action = _after_stored_end(seen, app_id, runs_again)
    if isinstance(action, Adopt | Next):
        action = replace(action, kill=tuple(one.id for one in twins if not has_run(one)))
    return action


def _after_stored_end(
    seen: View, app_id: str, runs_again: Callable[[AppReport | None], bool]
) -> Action:
    if seen.stored_app is not None:
        return _after_end(seen, seen.stored_app, runs_again)
    if seen.begun_during_call or not runs_again(None):
        return Adopt(app_id, finished=True)
    return Next(f"the ResourceManager has forgotten {app_id}")


def _adopt_one(seen: View, live: Sequence[AppReport], preferred: AppReport) -> Adopt | Withdraw:
    """Adopt one of the live applications of the name, and kill those that YARN has accepted beside
    it. What has run for some minutes is neither killed nor left for one that has not, and what runs
    is not left for one that may not be able to start.
    """
    ran = [app for app in live if has_run(app)]
    best = ran or [app for app in live if app.state is AppState.RUNNING] or [preferred]
    app = preferred if preferred in best else best[-1]
    kill = tuple(one.id for one in live if one is not app and one not in ran)
    adopted = _adopt_live(seen, app)
    if adopted.older and seen.lost_s is not None:
        return Withdraw(app.id, adopted.older[0], kill)
    return replace(adopted, kill=kill)


def has_run(app: AppReport) -> bool:
    """Return whether an application runs, and was submitted so long ago (`IN_FLIGHT_S`) that it is
    not given up for one that has just begun.
    """
    return app.state is AppState.RUNNING and (app.elapsed_ms or 0) >= IN_FLIGHT_S * 1000


def _adopt_live(seen: View, app: AppReport) -> Adopt:
    """Return the adoption of a live application. If this call may have posted it and it runs
    already, it is not withdrawn any more, so `older` is empty.
    """
    if seen.lost_s is not None and app.state is AppState.RUNNING:
        return Adopt(app.id, app=app)
    older = tuple(other for other in seen.other_live_apps if in_order(other) < in_order(app))
    return Adopt(app.id, app=app, older=older)


def _after_end(
    seen: View, app: AppReport, runs_again: Callable[[AppReport | None], bool]
) -> Action:
    app = that_stays(app, seen.ended)
    if app.withdrawn:
        return Next(f"{app.id} was withdrawn")
    if app.overwritten and any(one.withdrawn and lived_together(one, app) for one in seen.ended):
        return Next(f"{app.id} could not start after the POST of one that was withdrawn")
    # a key is not used by a run that the scheduler has rejected
    if app.rejected and seen.begun_during_call:
        return Rejected(app)
    if seen.begun_during_call or not (app.rejected or runs_again(app)):
        return Adopt(app.id, finished=True)
    return Next(f"{app.id} has ended")


def that_stays(app: AppReport, named: Iterable[AppReport]) -> AppReport:
    """Return the application that stays where YARN has accepted several POSTs of one name
    (hadoop-facts.md#two-posts-of-one-name): `app` itself, unless it was withdrawn or could not
    start, and another one of the name that lived at the same time was not.
    """
    if not (app.withdrawn or app.overwritten):
        return app
    others = [
        one
        for one in named
        if one.id != app.id and lived_together(one, app) and not (one.withdrawn or one.overwritten)
    ]

    def preference(one: AppReport) -> tuple[bool, bool, tuple[int, str]]:
        return not one.ended, one.final_status is FinalStatus.SUCCEEDED, in_order(one)

    return max(others, key=preference, default=app)


def lived_together(one: AppReport, other: AppReport) -> bool:
    """Return whether two applications lived at the same time. An application that a person has
    started again has the name of one that had ended before.
    """

    def begins_in_time(first: AppReport, second: AppReport) -> bool:
        return not first.ended or (second.started_ms or 0) < (first.finished_ms or 0)

    return begins_in_time(one, other) and begins_in_time(other, one)


def in_order(app: AppReport) -> tuple[int, str]:
    """Return a sort key for the order in which applications were submitted: the start time. Ids
    only decide between equal times, because they are assigned before the submission.
    """
    return app.started_ms or 0, app.id
