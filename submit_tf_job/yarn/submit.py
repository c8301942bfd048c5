"""Submit a service exactly once, even if a response is lost.

The name is queried before the POST and after a lost response, and `reconcile.decide` returns the
next step. After the first POST that may have taken effect, a failed query leaves the outcome of the
submission unknown (`AnswerLost`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from submit_tf_job.errors import (
    AuthError,
    BadAnswer,
    ClusterUnavailable,
    DeadlinePassed,
    InternalError,
    NameTaken,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
)
from submit_tf_job.yarn.deletion import FRESH_S, Deletion, StoredCopy
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.reconcile import (
    SETTLE_S,
    Action,
    Adopt,
    Delete,
    GiveUp,
    Kill,
    NotKnown,
    Post,
    StoredService,
    SubmissionView,
    Taken,
    Wait,
    Whose,
    decide,
    in_words,
    submitted_first,
    whose_is,
)
from submit_tf_job.yarn.resource_manager import (
    AnswerLost,
    Deadline,
    ResourceManager,
    ServiceUnreadable,
)
from submit_tf_job.yarn.states import AppState, ServiceState

__all__ = ["Submitted", "submit"]

_LOG = logging.getLogger(__name__)
SUBMIT_S = 300.0
_CLEAN_UP_S = 30.0
_PREPARED_S = 30.0  # after this time, prepared files may have been removed, for example by `delete`
_PAUSE_S, _PAUSE_MAX_S = 0.5, 3.0


@dataclass(frozen=True)
class Submitted:
    """The result of a submission.

    Attributes:
        application_id: The application that runs it, or ran it.
        adopted: Whether the application was found by its name, and not returned by our POST.
        finished: Whether it had already ended when it was found.
        posts: Number of POSTs that this call sent.
    """

    application_id: str
    adopted: bool = False
    finished: bool = False
    posts: int = 0


def submit(
    client: ResourceManager,
    body: str,
    *,
    name: str,
    user: str,
    submission_id: str,
    deadline: Deadline | None = None,
    stored: StoredCopy | None = None,
    before: Callable[[], None] = lambda: None,
    followed: Callable[[AppReport | None], bool] = lambda _app: False,
) -> Submitted:
    """Submit a service exactly once; return the existing application if it has been submitted.

    Args:
        client: The cluster, as the user.
        body: The JSON of `records.dumps`.
        name: The service's name.
        user: Owner of the applications.
        submission_id: Set in the service as its version and in its properties.
        deadline: For the whole operation, default 300 s. It is extended by the duration of
            `before`, and after a DELETE with a lost response by the time until that cannot arrive
            any more.
        stored: The copy of the service that YARN stores in HDFS; needed to identify a submission
            that is not running (it waits in its queue, has ended, or has no application), and to
            clean up after one.
        before: Called before a POST, except shortly after the last call; not called if the
            submission exists. An exception from it ends the call.
        followed: Returns whether another client may be about to submit the next run after the
            newest application of the name (None if there is none), which has ended and whose
            service is deleted.

    Returns:
        The application; never a second one for the same submission.

    Raises:
        NameTaken: when another submission uses the name; also if nothing was sent, and without
            `stored` the owner of a service without an application cannot be determined.
        Refused, AuthError: when the cluster rejected it; in that case the name is free again.
        AnswerLost: when a POST may have been accepted, and the outcome cannot be determined.
        DeadlinePassed: when the deadline passed and the outcome is unknown.
        ClusterUnavailable: when nothing was sent.

    Example:
        >>> submit(client, dumps(service), name="mnist", user="alice", submission_id="5f3a").application_id
        'application_1700000000000_0001'
    """  # noqa: E501
    return _Submission(
        client,
        body,
        name,
        user,
        submission_id,
        deadline or client.deadline(SUBMIT_S),
        stored,
        before,
        followed,
    ).run()


class _Submission:
    """The state of one call of `submit`: what was sent, and what was read."""

    def __init__(
        self,
        client: ResourceManager,
        body: str,
        name: str,
        user: str,
        submission_id: str,
        deadline: Deadline,
        stored: StoredCopy | None,
        before: Callable[[], None],
        followed: Callable[[AppReport | None], bool],
    ) -> None:
        self._client = client
        self._body = body
        self._name = name
        self._user = user
        self._id = submission_id
        self._deadline = deadline
        self._copy = stored
        self._deletion = Deletion(client, name, stored)
        self._prepare = before
        self._followed = followed
        self._prepared_at: float | None = None
        self._posts = 0
        self._refused_as_taken = 0
        self._last: AnswerLost | None = None
        self._lost = 0
        self._cleared = False
        self._seen_apps: frozenset[str] = frozenset()
        # ids of all applications of that name before our first POST
        self._before: frozenset[str] = frozenset()
        self._killed: set[str] = set()
        self._view: object = None
        self._view_since = 0.0
        self._hidden: bool | None = None

    def run(self) -> Submitted:
        """Read and act until the submission exists, or cannot succeed."""
        pause_s, last = _PAUSE_S, None
        while True:
            seen = self._look_again()
            action = decide(seen, self._id)
            if action != last:
                _LOG.info("submission of %s: %s", self._name, in_words(action))
            last = action
            if isinstance(action, Wait) or not self._may(action, seen):
                self._wait(
                    action.why
                    if isinstance(action, Wait)
                    else "a DELETE may be under way, of this client or another",
                    pause_s,
                )
                pause_s = min(_PAUSE_MAX_S, pause_s * 1.5)
                continue
            pause_s = _PAUSE_S
            done = self._act(action, seen)
            if done is not None:
                return done

    def _may(self, action: Action, seen: SubmissionView) -> bool:
        """Return whether to perform an action.

        A Kill or Delete requires a second read with the same result within `FRESH_S`; a Delete also
        requires the claim. Neither a POST nor a DELETE is sent while a DELETE of ours may still
        arrive.
        """
        if isinstance(action, (Post, Delete)) and self._deletion.pending_s:
            return False
        if not isinstance(action, (Kill, Delete)):
            return True
        if isinstance(action, Delete) and not self._claim(seen):
            return False
        begun = self._client.clock()
        again = self._look_again()
        fresh = self._client.clock() - begun <= FRESH_S
        return fresh and decide(again, self._id) == action and again.stored == seen.stored

    def _claim(self, seen: SubmissionView) -> bool:
        """Claim the right to delete, if stored copies can be read; return whether we have it."""
        if self._copy is None:
            return True
        try:
            return seen.stored is not None and self._deletion.claims.take(seen.stored.edition)
        except SubmitTFJobError as error:
            _LOG.info("the right to delete %s: %s", self._name, error.message)
            return False

    def _act(self, action: Action, seen: SubmissionView) -> Submitted | None:
        if isinstance(action, Adopt):
            return Submitted(
                action.app_id, adopted=True, finished=action.finished, posts=self._posts
            )
        if isinstance(action, Taken):
            raise self._taken(action, seen.service)
        if isinstance(action, NotKnown):
            raise self._not_known(action)
        if isinstance(action, GiveUp) and self._last is not None:
            raise self._last
        if isinstance(action, Kill):
            self._kill(action.app_id)
        elif isinstance(action, Delete):
            self._delete()
        return self._post() if isinstance(action, Post) else None

    def _kill(self, app_id: str) -> None:
        with self._outcome_unknown():
            self._killed.add(app_id)
            self._client.kill_app(app_id, deadline=self._deadline)

    def _delete(self) -> None:
        """Delete the service; a lost response extends the deadline until the outcome of the DELETE
        can be read.
        """
        with self._outcome_unknown():
            if self._deletion.send(self._deadline):
                self._cleared = True
            until = self._client.clock() + self._deletion.pending_s + SETTLE_S
            if self._deletion.pending_s and until > self._deadline.at:
                self._deadline = replace(self._deadline, at=until)

    # --- reading ----------------------------------------------------------------------------------

    def _look_again(self) -> SubmissionView:
        with self._outcome_unknown():
            return self._look()

    def _look(self) -> SubmissionView:
        begun = self._client.clock()
        service, unread = self._service()
        readable = unread is None
        apps = self._client.apps(user=self._user, name=self._name, deadline=self._deadline)
        self._seen_apps = frozenset(app.id for app in apps)
        live = tuple(app for app in apps if not app.ended)
        service, live = self._agree(service, live)
        stored, stored_unread = (
            (None, False) if readable and service is None else self._stored(service)
        )
        hidden = (
            service is not None
            and service.id is None
            and not live
            and stored is None
            and self._ids_hidden()
        )
        torn = unread is not None and unread.torn
        view = (
            torn,
            service and (service.state, service.id),
            stored,
            tuple(app.id for app in live),
        )
        if view != self._view:
            self._view, self._view_since = view, self._client.clock()
        named = (service.id if service else None) or (stored.app_id if stored else None)
        ended = self._ended(service, named, apps, hidden)
        return SubmissionView(
            service=service,
            readable=readable,
            torn=torn,
            live=live,
            ended=ended,
            before=_before(ended, apps),
            stored=stored,
            stored_unread=stored_unread,
            reader=self._copy is not None,
            lost=self._lost,
            cleared=self._cleared,
            followed=not self._posts and self._followed(next(iter(apps), None)),
            stored_age_s=self._age_s(stored),
            # from the end of the first read to the start of this one
            settled_s=max(0.0, begun - self._view_since),
        )

    def _service(self) -> tuple[ObservedService | None, ServiceUnreadable | None]:
        try:
            return self._client.get_service(self._name, deadline=self._deadline), None
        except NoSuchJob:
            return None, None
        except ServiceUnreadable as error:
            return None, error

    def _agree(
        self, service: ObservedService | None, live: tuple[AppReport, ...]
    ) -> tuple[ObservedService | None, tuple[AppReport, ...]]:
        """Read the service's own application if the list lacks it; lists may come from a cache
        (YARN-6495 and later).
        """
        if service is None or service.id is None or any(app.id == service.id for app in live):
            return service, live
        app = self._client.app(service.id, deadline=self._deadline)
        return service, (live if app is None or app.ended else (app, *live))

    def _ended(
        self,
        service: ObservedService | None,
        named: str | None,
        apps: tuple[AppReport, ...],
        hidden: bool,
    ) -> AppReport | None:
        if service is None:
            return None
        if named is not None:
            own = next((app for app in apps if app.id == named), None)
            return own if own is not None and own.ended else None
        fresh = (
            app
            for app in apps
            if app.ended
            and app.id not in self._killed
            and (not self._lost or app.id not in self._before)
        )
        newest = next(fresh, None) if hidden else None
        belongs = newest is not None and (newest.state is AppState.FAILED) == (
            service.state is ServiceState.FAILED
        )
        return newest if belongs else None

    def _stored(self, service: ObservedService | None) -> tuple[StoredService | None, bool]:
        """Return the stored copy if the service does not report its owner, and whether reading it
        failed.
        """
        if self._copy is None or (service is not None and service.version):
            return None, False
        try:
            found = self._copy.read()
        except SubmitTFJobError as error:
            _LOG.info("the stored service %s: %s", self._name, error.message)
            return None, True
        return found, found.torn

    def _age_s(self, stored: StoredService | None) -> float:
        """Return the age of a stored copy without an application id; 0 for any other."""
        if stored is None or (stored.app_id is not None and not stored.torn):
            return 0.0
        return self._deletion.claims.age_s(stored.edition)

    def _ids_hidden(self) -> bool:
        """Return whether this Hadoop version returns a service's application id only while it runs
        (3.1, docs/hadoop-facts.md#application-id-of-a-service).
        """
        if self._hidden is None:
            version = self._client.recent_info(deadline=self._deadline).version
            self._hidden = bool(version) and version < (3, 2)
        return self._hidden

    # --- acting -----------------------------------------------------------------------------------

    def _prepared(self) -> bool:
        """Prepare a POST, except shortly after the last preparation; return False if that took so
        long that the name has to be read again.
        """
        begun = self._client.clock()
        if self._prepared_at is not None and begun - self._prepared_at <= _PREPARED_S:
            return True
        with self._outcome_unknown():
            self._prepare()
        self._prepared_at = self._client.clock()
        took_s = self._prepared_at - begun
        # an upload may take long, and the deadline is meant for YARN
        self._deadline = replace(self._deadline, at=self._deadline.at + took_s)
        return took_s <= FRESH_S

    def _post(self) -> Submitted | None:
        if not self._prepared():
            return None
        if not self._posts:
            self._before = self._seen_apps
        self._view = None
        self._posts += 1
        try:
            app_id = self._client.post_service(self._body, deadline=self._deadline)
        except (AnswerLost, BadAnswer) as error:
            self._remember(error)
            return None
        except NameTaken as error:
            self._refused_as_taken += 1
            if self._refused_as_taken >= 3:  # reported as taken, but nothing was found
                raise (self._unknown(error) if self._lost else error) from None
            return None
        except (Refused, AuthError, InternalError) as error:
            if self._lost:  # the outcome of the earlier POST is still unknown
                raise self._unknown(error) from error
            self._free_name(error)
            raise
        except ClusterUnavailable as error:
            # not accepted; the next read waits for an active ResourceManager, or raises
            self._posts -= 1
            if not self._deadline.left_s:
                raise self._unknown(error) if self._lost else error from None
            self._client.sleep(min(_PAUSE_S, self._deadline.left_s))
            return None
        if app_id is None:
            lost = AnswerLost(f"The cluster accepted {self._name} without naming an application.")
            self._remember(lost)
            return None
        return self._came_first(app_id)

    def _remember(self, error: ClusterUnavailable) -> None:
        self._lost += 1
        self._last = error if isinstance(error, AnswerLost) else self._unknown(error)
        self._cleared = False

    def _came_first(self, app_id: str) -> Submitted | None:
        """Return the application of our POST; if another of the name was submitted earlier, kill
        ours and return None.

        Two POSTs at the same moment may both be accepted, and a DELETE may remove the service that
        another client has just stored. Every client reads the applications after its own has
        started, so that the later one finds both and exactly one continues. Each client kills only
        its own application.
        """
        # an earlier POST of ours may still arrive
        until = self._client.clock() + (SETTLE_S if self._lost else 0.0)
        while True:
            try:
                apps = self._client.apps(user=self._user, name=self._name, deadline=self._deadline)
            except SubmitTFJobError as error:
                _LOG.info("whether %s is alone: %s", app_id, error.message)
                return Submitted(app_id, posts=self._posts)
            others = [
                app
                for app in apps
                if not app.ended and app.id != app_id and app.id not in self._before
            ]
            mine = next((app for app in apps if app.id == app_id), None)
            if mine is not None and others and submitted_first([mine, *others]).id != app_id:
                lost = AnswerLost(
                    f"{app_id} was ended as one too many, because "
                    f"{submitted_first(others).id} was there before it."
                )
                self._kill(app_id)
                self._remember(lost)
                return None
            if (mine is not None and not others) or self._client.clock() >= until:
                return Submitted(app_id, posts=self._posts)
            self._client.sleep(_PAUSE_S)

    def _free_name(self, error: SubmitTFJobError) -> None:
        """Delete the service that a rejected POST has stored and that no application runs.

        Any other service is left unchanged.
        """
        deadline = self._client.deadline(_CLEAN_UP_S)
        with contextlib.suppress(SubmitTFJobError):
            if not self._leaves_something(error, deadline):
                return
            service = self._client.get_service(self._name, deadline=deadline)
            live = [
                app
                for app in self._client.apps(user=self._user, name=self._name, deadline=deadline)
                if not app.ended
            ]
            seen = SubmissionView(service, stored=self._stored(service)[0])
            ours = self._copy is None or whose_is(seen, self._id) is Whose.OURS
            never_started = (
                service.state is ServiceState.STOPPED and service.id is None and not live
            )
            if (
                ours
                and never_started
                and (seen.stored is None or seen.stored.app_id is None)
                and self._claim(seen)
            ):
                self._deletion.send(deadline)
                self._client.sleep(self._deletion.pending_s)

    def _leaves_something(self, error: SubmitTFJobError, deadline: Deadline) -> bool:
        """Return whether the server stores the service before it rejects a POST with this error.

        Hadoop 3.3.1 and later remove it (YARN-10437), except if an amount of memory is not a
        number.
        """
        if "For input string" in str(error.details.get("said", "")):
            return True
        return error.details.get("status") == 500 and self._client.cluster_info(
            deadline=deadline
        ).version < (3, 3, 1)

    def _wait(self, why: str, pause_s: float) -> None:
        left = self._deadline.left_s
        if left <= 0:
            raise self._too_late(why)
        self._client.sleep(min(pause_s, left))
        if not self._deadline.left_s:
            raise self._too_late(why)

    # --- errors -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _outcome_unknown(self) -> Iterator[None]:
        """Raise `AnswerLost` for any error of a later request if a POST may have been accepted,
        because the outcome of the submission is then unknown.
        """
        try:
            yield
        except AnswerLost:
            raise
        except SubmitTFJobError as error:
            if not self._lost:
                raise
            raise self._unknown(error) from error

    def _unknown(self, error: SubmitTFJobError) -> AnswerLost:
        return AnswerLost(
            f"Whether {self._name} was submitted is not known: its answer was lost, and "
            f"then: {error.message}",
            hint="Give the same command again: it finds its own submission.",
            details={**error.details, "submission_id": self._id},
        )

    def _not_known(self, action: NotKnown) -> ClusterUnavailable:
        what = (
            f"{action.app_id} holds the name"
            if action.app_id
            else "a stored service holds the name"
        )
        details: dict[str, object] = {"submission_id": self._id, "posts": self._posts}
        if action.app_id:
            details["application_id"] = action.app_id
        advice = (
            ""
            if self._copy is not None
            else " With hadoop_conf set, its stored copy in HDFS says whose it is."
        )
        kind, unknown = (
            (AnswerLost, "was submitted")
            if self._lost
            else (ClusterUnavailable, "is this submission")
        )
        return kind(
            f"Whether {self._name} {unknown} is not known: {what}, and {action.why}.",
            hint=f"Give the same command again later, or end what is there: submit_tf_job "
            f"delete {self._name}.{advice}",
            details=details,
        )

    def _too_late(self, why: str) -> DeadlinePassed:
        return DeadlinePassed(
            f"The deadline for submitting {self._name} passed: {why}.",
            hint="Give the same command again: it finds its own submission.",
            details={"submission_id": self._id, "posts": self._posts},
        )

    def _taken(self, action: Taken, service: ObservedService | None) -> NameTaken:
        name, app = self._name, action.app
        details: dict[str, object] = {}
        if app is not None:
            details = {
                "application_id": app.id,
                "state": app.state.value,
                "final_status": app.final_status.value,
            }
        elif service is not None and service.id:
            details = {"application_id": service.id, "state": service.state.value}
        if service is not None and service.version:
            details["submission_id"] = service.version
        if app is not None and not app.ended:
            return NameTaken(
                f"{_whose_words(action.whose, name)} is already {_state_words(app)} "
                f"({_age(app)}{app.id}).",
                hint=f"Choose another with --name, or stop it first: submit_tf_job stop {name}",
                details=details,
            )
        what = details.get("application_id")
        holder = f"{what}, which has ended" if what else "a service that runs no application"
        return NameTaken(
            f"{_whose_words(action.whose, name)} still holds the name: {holder}.",
            hint=f"Replace it with --replace, choose another with --name, or free it: "
            f"submit_tf_job delete {name}",
            details=details,
        )


def _before(own: AppReport | None, apps: tuple[AppReport, ...]) -> AppReport | None:
    """Return an application of the name that was submitted before `own` and overlapped it."""
    if own is None:
        return None
    start = own.started_ms or 0
    beside = [
        app
        for app in apps
        if app.id != own.id and (not app.ended or (app.finished_ms or 0) > start)
    ]
    first = submitted_first([own, *beside])
    return None if first is own else first


def _whose_words(whose: Whose, name: str) -> str:
    if whose is Whose.THEIRS:
        return f"A different job named {name}"
    return f"A job named {name}, which may be another submission,"


def _state_words(app: AppReport) -> str:
    return "running" if app.state is AppState.RUNNING else f"there, {app.state.value}"


def _age(app: AppReport) -> str:
    """Format the age of an application: 42s, 1m52s, 3h05m."""
    if not app.elapsed_ms:
        return ""
    whole = app.elapsed_ms // 1000
    if whole < 60:
        return f"{whole}s, "
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s, "
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m, "
