"""Submit a service once, whatever happens to the answer.

The name is looked at before the POST and after a lost answer; `reconcile.decide` says what follows from what was seen.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    DeadlinePassed,
    InternalError,
    NameTaken,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
)
from submit_tf_job.yarn.client import AnswerLost, Client, Deadline, ServiceUnreadable
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.reconcile import Action, Adopt, Delete, GiveUp, Kill, Observation, Post, Taken, Wait, Whose, decide, whose_is
from submit_tf_job.yarn.states import AppState, ServiceState

__all__ = ["Submitted", "submit"]

SUBMIT_S = 300.0
_CLEAN_UP_S = 30.0
_PAUSE_S, _PAUSE_MAX_S = 0.5, 3.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submitted:
    """A submission that the cluster has.

    Attributes:
        application_id: The application that runs it, or ran it.
        adopted: Whether it was found rather than answered to our POST.
        finished: Whether it had ended already when it was found.
        posts: POSTs that this call sent.
    """

    application_id: str
    adopted: bool = False
    finished: bool = False
    posts: int = 0


def submit(
    client: Client,
    body: str,
    *,
    name: str,
    user: str,
    submission_id: str,
    deadline: Deadline | None = None,
    stored: Callable[[], str | None] | None = None,
    before: Callable[[], None] = lambda: None,
) -> Submitted:
    """Submit a service, or find that it has been.

    Args:
        client: The cluster, as the user.
        body: The service as `records.dumps` wrote it.
        name: Its name.
        user: Whose applications to look at.
        submission_id: Stands in the service as its version and in its properties.
        deadline: For everything together, default 300 s.
        stored: Reads the submission's id out of the copy of the service that YARN keeps in HDFS, `None` where there is none, and raises
            where it cannot be read; needed to recognise a submission of an earlier call that is waiting in its queue, or has ended.
        before: Called once, before the first POST; a submission that is found needs nothing prepared. What it raises ends the call.

    Returns:
        The application; never a second one for the same submission.

    Raises:
        NameTaken: when another submission holds the name, or one that cannot be told from another.
        Refused, AuthError: when the cluster said no; then the name is free again.
        AnswerLost: when the answer was lost and the cluster cannot be asked what became of it.
        DeadlinePassed: when the deadline passed and the outcome is not known.
        ClusterUnavailable: when nothing was sent.

    Example:
        >>> submit(client, dumps(service), name="mnist", user="alice", submission_id="5f3a").application_id
        'application_1700000000000_0001'
    """
    return _Submission(client, body, name, user, submission_id, deadline or client.deadline(SUBMIT_S), stored, before).run()


class _Submission:
    """One call of `submit`: what it has sent and what it has seen."""

    def __init__(
        self,
        client: Client,
        body: str,
        name: str,
        user: str,
        submission_id: str,
        deadline: Deadline,
        stored: Callable[[], str | None] | None,
        before: Callable[[], None],
    ) -> None:
        self._client = client
        self._body = body
        self._name = name
        self._user = user
        self._id = submission_id
        self._deadline = deadline
        self._read_stored = stored
        self._prepare: Callable[[], None] | None = before
        self._posts = 0
        self._refused_as_taken = 0
        self._last: AnswerLost | None = None
        self._lost = 0
        self._over = False
        self._cleared = False
        self._post_at = 0.0
        self._processes: dict[str, int | None] = {}
        self._seen_apps: frozenset[str] = frozenset()
        self._before: frozenset[str] = frozenset()  # ids of all applications of that name before our first POST
        self._before_last: frozenset[str] = frozenset()  # … before our last one
        self._killed: set[str] = set()
        self._picture: object = None
        self._picture_at = 0.0
        self._hidden: bool | None = None

    def run(self) -> Submitted:
        """Look and act until the submission is there, or cannot be."""
        pause_s, last = _PAUSE_S, None
        while True:
            seen = self._look_again()
            action = decide(seen, self._id)
            if action != last:
                _log.info("submission of %s: %s", self._name, action)
            last = action
            if isinstance(action, Wait):
                self._wait(action, pause_s)
                pause_s = min(_PAUSE_MAX_S, pause_s * 1.5)
                continue
            pause_s = _PAUSE_S
            done = self._act(action, seen)
            if done is not None:
                return done

    def _act(self, action: Action, seen: Observation) -> Submitted | None:
        if isinstance(action, Adopt):
            return Submitted(action.app_id, adopted=True, finished=action.finished, posts=self._posts)
        if isinstance(action, Taken):
            raise self._taken(action, seen.service)
        if isinstance(action, GiveUp) and self._last is not None:
            raise self._last
        with self._outcome_unknown():
            if isinstance(action, Kill):
                self._killed.add(action.app_id)
                self._client.kill_app(action.app_id, deadline=self._deadline)
            elif isinstance(action, Delete):
                with contextlib.suppress(Refused):  # still running: the next look says what
                    self._client.delete_service(self._name, deadline=self._deadline)
                    self._cleared = True
        return self._post() if isinstance(action, Post) else None

    # --- looking ---------------------------------------------------------------------------------------------------------

    def _look_again(self) -> Observation:
        with self._outcome_unknown():
            return self._look()

    def _look(self) -> Observation:
        service, unread = self._service()
        readable = unread is None
        apps = self._client.apps(user=self._user, name=self._name, deadline=self._deadline)
        self._seen_apps = frozenset(app.id for app in apps)
        fresh = tuple(app for app in apps if app.id not in self._before) if self._lost else apps
        newest = any(app.id not in self._before_last for app in apps)  # not what an earlier one of our POSTs has left
        if self._lost and (newest or (service is not None and service.id is not None)):
            self._over = True  # its application was seen: it makes no other
        if self._lost and not self._over:
            self._over = self._server_gone()
        live = tuple(app for app in apps if not app.ended)
        service, live = self._agree(service, live)
        stored, stored_unread = (None, False) if readable and service is None else self._stored(service)
        hidden = service is not None and service.id is None and not live and self._ids_hidden()
        picture = (unread and unread.torn, service and (service.state, service.id), tuple(app.id for app in live))
        now = self._client.clock()
        if picture != self._picture:
            self._picture, self._picture_at = picture, now
        return Observation(
            service=service,
            readable=readable,
            torn=unread is not None and unread.torn,
            live=live,
            ended=self._ended(service, fresh, hidden),
            stored=stored,
            stored_unread=stored_unread,
            ids_hidden=hidden,
            lost=self._lost,
            over=self._over,
            cleared=self._cleared,
            since_post_s=now - self._post_at,
            settled_s=now - self._picture_at,
        )

    def _service(self) -> tuple[ObservedService | None, ServiceUnreadable | None]:
        try:
            return self._client.get_service(self._name, deadline=self._deadline), None
        except NoSuchJob:
            return None, None
        except ServiceUnreadable as error:
            return None, error

    def _agree(self, service: ObservedService | None, live: tuple[AppReport, ...]) -> tuple[ObservedService | None, tuple[AppReport, ...]]:
        """Ask for the service's own application where the list lacks it; lists may come from a cache (YARN-6495 and later)."""
        if service is None or service.id is None or any(app.id == service.id for app in live):
            return service, live
        app = self._client.app(service.id, deadline=self._deadline)
        return service, (live if app is None or app.ended else (app, *live))

    def _ended(self, service: ObservedService | None, fresh: tuple[AppReport, ...], hidden: bool) -> AppReport | None:
        if service is None:
            return None
        if service.id is not None:
            own = next((app for app in fresh if app.id == service.id), None)
            return own if own is not None and own.ended else None
        newest = next((app for app in fresh if app.ended and app.id not in self._killed), None) if hidden else None
        belongs = newest is not None and (newest.state is AppState.FAILED) == (service.state is ServiceState.FAILED)
        return newest if belongs else None

    def _stored(self, service: ObservedService | None) -> tuple[str | None, bool]:
        """Ask the stored copy where the service itself does not say whose it is, and say whether it could not be read."""
        if self._read_stored is None or (service is not None and service.version):
            return None, False
        try:
            return self._read_stored(), False
        except SubmitTFJobError as error:
            _log.info("the stored service %s: %s", self._name, error.message)
            return None, True

    def _ids_hidden(self) -> bool:
        if self._hidden is None:
            version = self._client.cluster_info(deadline=self._deadline).version
            self._hidden = bool(version) and version < (3, 2)
        return self._hidden

    def _server_gone(self) -> bool:
        """Whether the server process that took the lost POST is known to be no more."""
        asked = str(self._last.details.get("resource_manager", "")) if self._last else ""
        if not asked:
            return False
        before, now = self._processes.get(asked), self._client.process_of(asked, deadline=self._deadline)
        return now == 0 or (before is not None and now is not None and now != before)

    # --- acting ----------------------------------------------------------------------------------------------------------

    def _post(self) -> Submitted | None:
        if self._prepare is not None:
            begun = self._deadline.clock()
            self._prepare()
            self._prepare = None
            # That may have been the upload of gigabytes, and the deadline is for YARN.
            self._deadline = replace(self._deadline, at=self._deadline.at + self._deadline.clock() - begun)
        first = self._client.funnel.rms.urls[0]  # the one that answered the look: the POST goes there, or is refused there
        self._processes[first] = self._client.process_of(first, deadline=self._deadline)
        if not self._lost:
            self._before = self._seen_apps
        self._before_last = self._seen_apps
        self._post_at = self._client.clock()
        self._picture = None
        self._posts += 1
        try:
            app_id = self._client.post_service(self._body, deadline=self._deadline)
        except AnswerLost as error:
            self._remember(error, over=error.answered)
            return None
        except NameTaken:
            self._refused_as_taken += 1
            if self._refused_as_taken >= 3:  # taken, they say, and yet there is nothing to be seen
                raise
            return None
        except (Refused, AuthError, InternalError):
            self._free_name()
            raise
        except ClusterUnavailable as error:  # nobody took it; the next look waits for somebody who does, and raises where nobody can
            self._posts -= 1
            if not self._deadline.left_s:
                raise self._unknown(error) if self._lost else error from None
            self._client.sleep(min(_PAUSE_S, self._deadline.left_s))
            return None
        if app_id is None:
            self._remember(AnswerLost(f"The cluster accepted {self._name} without naming an application."), over=True)
            return None
        if self._lost:
            self._kill_surplus(app_id)
        return Submitted(app_id, posts=self._posts)

    def _remember(self, error: AnswerLost, *, over: bool) -> None:
        self._lost += 1
        self._last = error
        self._over = over
        self._cleared = False

    def _kill_surplus(self, app_id: str) -> None:
        """End what an earlier POST may have started after all."""
        for app in self._client.apps(user=self._user, name=self._name, deadline=self._deadline):
            if not app.ended and app.id != app_id and app.id not in self._before:
                self._client.kill_app(app.id, deadline=self._deadline)

    def _free_name(self) -> None:
        """Delete what a refused POST left behind: a stored service that no application runs (Hadoop before 3.3.1, YARN-10437).

        The name was free before that POST; what does not look exactly so is left alone.
        """
        deadline = self._client.deadline(_CLEAN_UP_S)
        with contextlib.suppress(SubmitTFJobError):
            service = self._client.get_service(self._name, deadline=deadline)
            live = [app for app in self._client.apps(user=self._user, name=self._name, deadline=deadline) if not app.ended]
            theirs = whose_is(Observation(service, stored=self._stored(service)[0]), self._id) is Whose.THEIRS
            if service.state is ServiceState.STOPPED and service.id is None and not live and not theirs:
                self._client.delete_service(self._name, deadline=deadline)

    def _wait(self, action: Wait, pause_s: float) -> None:
        left = self._deadline.left_s
        if left <= 0:
            raise self._too_late(action.why)
        self._client.sleep(min(pause_s, left))
        if not self._deadline.left_s:
            raise self._too_late(action.why)

    # --- saying ----------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _outcome_unknown(self) -> Iterator[None]:
        """Turn an unreachable cluster into a lost answer where a POST has been sent."""
        try:
            yield
        except AnswerLost:
            raise
        except ClusterUnavailable as error:
            if not self._lost:
                raise
            raise self._unknown(error) from error

    def _unknown(self, error: SubmitTFJobError) -> AnswerLost:
        return AnswerLost(
            f"Whether {self._name} was submitted is not known: its answer was lost, and then: {error.message}",
            hint="Give the same command again: it finds its own submission.",
            details={**error.details, "submission_id": self._id},
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
            details = {"application_id": app.id, "state": app.state.value, "final_status": app.final_status.value}
        elif service is not None and service.id:
            details = {"application_id": service.id, "state": service.state.value}
        if service is not None and service.version:
            details["submission_id"] = service.version
        if app is not None and not app.ended:
            return NameTaken(
                f"The name {name} is taken by {app.id} ({app.state.value}{_age(app)}), {_whose_words(action.whose)}.",
                hint=f"Choose another with --name, or stop it first: submit_tf_job stop {name}",
                details=details,
            )
        what = details.get("application_id")
        holder = f"{what}, which has ended" if what else "a service that runs no application"
        return NameTaken(
            f"The name {name} is still held by {holder}, {_whose_words(action.whose)}.",
            hint=f"Replace it with --replace, choose another with --name, or free it: submit_tf_job delete {name}",
            details=details,
        )


def _whose_words(whose: Whose) -> str:
    return {
        Whose.THEIRS: "another submission",
        Whose.UNKNOWN: "and whose submission that is cannot be seen",
        Whose.OURS: "by all appearances this very submission",
    }[whose]


def _age(app: AppReport) -> str:
    if not app.elapsed_ms:
        return ""
    seconds = app.elapsed_ms // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f", for {seconds // size} {unit}"
    return f", for {seconds} s"
