"""Submit a job exactly once per idempotency key, even if processes are killed, and responses are
lost, late or cut off.

Each run has a name of its own, which follows from the job, the key and the run's number
(`yarn.run_names`), and YARN starts only one application for a name: it stores the service before it
starts an application, and if several POSTs arrive at the same moment, HDFS gives the lease to one
of them (hadoop-facts.md#two-posts-of-one-name). So a client reads what is stored under the name,
sends a POST if nothing is stored, and reads again if the response is lost. The states of a name
only go forward (`submission_steps`), and a late request is harmless: a POST starts nothing if its
name is stored, and a kill ends only the application whose id it has. A name whose POST died
half-way is left as it is, and the next number is taken. Where a ResourceManager has stood still in
a POST and YARN has accepted two of one name, one application stays, and the other one is killed.

Two submissions of one job with different keys have different names, so YARN accepts both. Each
client prevents that by a second check for other live runs after its POST, and ends its own run if
another was there before. If a client dies or is suspended between POST and second check, both runs
stay alive.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from typing import Protocol

from submit_tf_job.errors import (
    AuthError,
    BadAnswer,
    ClusterUnavailable,
    DeadlinePassed,
    InternalError,
    NameTaken,
    Refused,
    SubmitTFJobError,
)
from submit_tf_job.host.units import duration_text
from submit_tf_job.yarn.errors import ServiceTorn, ServiceUnreadable, rejection
from submit_tf_job.yarn.observed import GOING_ON, WITHDRAWN, AppReport, AppState
from submit_tf_job.yarn.resource_manager import AnswerLost, Deadline, ResourceManager
from submit_tf_job.yarn.run_names import is_run_of
from submit_tf_job.yarn.submission_steps import (
    ACCEPTED_TWICE,
    IN_FLIGHT_S,
    RECOVERS_S,
    SETTLE_S,
    THERE_BEFORE,
    Action,
    Adopt,
    Fail,
    Next,
    Rejected,
    StoredRun,
    Taken,
    View,
    Wait,
    Withdraw,
    decide,
    has_run,
    in_order,
    in_words,
)

_LOG = logging.getLogger(__name__)
SUBMIT_S = 300.0
SPOILED_MAX = 8
_WINDOW = 64  # numbers whose applications one request asks for
_NUMBERS_MAX = 10_000
_PAUSE_S, _PAUSE_MAX_S = 0.5, 10.0
_FORGOTTEN = r"Application with id '(application_\d+_\d+)' doesn't exist in RM"
_LEADERS_ASKED = 4  # in a row that have just begun
_NEW_LEADER_S = 5.0  # it does not list all applications for a moment (hadoop-facts.md#failover)
_PREPARED_S = 30.0  # after this time, prepared files may have been removed


class StoredRuns(Protocol):
    """YARN's copies of a user's services in HDFS."""

    def names(self) -> Collection[str]:
        """Return the names of all stored services.

        Raises:
            SubmitTFJobError: The names cannot be read.
        """

    def copy_of(self, run: str) -> StoredRun | None:
        """Return the copy of one service; None if there is no copy.

        Raises:
            SubmitTFJobError: The copy cannot be read.
        """


@dataclass(frozen=True)
class KeyedSubmission:
    """A submission: everything that `submit` needs.

    Attributes:
        job: The job's name.
        user: The user who submits.
        key: The idempotency key: two submissions with the same key are the same submission.
        name_of: Number of a run, from 0 → the run's name.
        body_of: Number of a run → the JSON of its service.
        has_several_runs: Whether a run may follow when a run of the key has ended; it has the next
            number.
        runs_again_after: Application that has ended → whether the key is run again after it.
        resubmissions_of: Run → the names of the runs that follow it without a new submission
            (`retries.memory`).
        prepare: Called with a run's number before its POST, to upload the run's files; not called
            again for the same number within 30 s.
        record_of: Run → what the run's record (`operations.run_records`) says about the stored
            service; None if there is no record. It is used for a run that YARN does not store.
        names_with_records: Returns the names of the job's runs that have a record.
        runs_again_after_forgotten: Run, application id → whether the key is run again after an
            application that the ResourceManager has forgotten; None if `has_several_runs` decides.
    """

    job: str
    user: str
    key: str
    name_of: Callable[[int], str]
    body_of: Callable[[int], str]
    has_several_runs: bool
    runs_again_after: Callable[[AppReport], bool]
    resubmissions_of: Callable[[str], Collection[str]] = lambda _run: ()
    prepare: Callable[[int], None] = lambda _number: None
    record_of: Callable[[str], StoredRun | None] = lambda _run: None
    names_with_records: Callable[[], Collection[str]] = tuple
    runs_again_after_forgotten: Callable[[str, str], bool] | None = None


@dataclass(frozen=True)
class Submitted:
    """The result of a submission.

    Attributes:
        run: The run's name.
        number: The run's number; of a run that `retries.memory` started, the number of the run that
            it follows.
        application_id: The application of the run.
        adopted: Whether the application was there already, so that no POST of this call started it.
        after: The earlier run of the same key, which has ended; "" if there was none.
        live: Names of the other runs of the job that are alive.
        alone: Whether a POST of this call started the run, and it is the job's only live run.
    """

    run: str
    number: int
    application_id: str
    adopted: bool = False
    after: str = ""
    live: tuple[str, ...] = ()
    alone: bool = False


def live_apps(
    client: ResourceManager, user: str, job: str, deadline: Deadline | None = None
) -> tuple[AppReport, ...]:
    """Return the live applications of a job's runs, the oldest first."""
    apps = client.apps(user=user, states=GOING_ON, deadline=deadline)
    return tuple(sorted((app for app in apps if is_run_of(app.name, job)), key=in_order))


# --- acting ---


def submit(
    client: ResourceManager,
    submission: KeyedSubmission,
    *,
    stored: StoredRuns | None = None,
    deadline: Deadline | None = None,
    on_wait: Callable[[str], None] = lambda _line: None,
) -> Submitted:
    """Submit a job once per idempotency key, and return the key's run.

    Args:
        client: The cluster, as the user.
        submission: The submission.
        stored: YARN's copies of services; if they are not given, services are read from the
            services API.
        deadline: For the whole operation, default 300 s. It is extended by the duration of
            `prepare`.
        on_wait: Called with one line when this call has waited for a name for `SETTLE_S`.

    Returns:
        The run. This call never starts a second application for the same key and number.

    Raises:
        NameTaken: when a run of another submission of the job is alive, or YARN has refused the
            name as taken in more than `SPOILED_MAX` POSTs of this call.
        Refused, AuthError: when the cluster rejected it.
        AnswerLost: when a POST may have been accepted, and the outcome cannot be determined.
        DeadlinePassed: when the deadline passed before the outcome was known, or the
            ResourceManager failed in more than `SPOILED_MAX` POSTs.
        ClusterUnavailable: when no ResourceManager responded, or none accepted a POST.
        InternalError: when the services API could not parse the service.
        SubmitTFJobError: when the stored service cannot be read, so that it is not known whether
            the key was submitted before; its class is that of the error that prevented the reading.
    """
    deadline = deadline or client.deadline(SUBMIT_S)
    return _Submitting(client, submission, stored, deadline, on_wait).run()


@dataclass
class _TriedNumber:
    """The state of one call of `submit` for the number that it tries now. All of it is about one
    name, so it is forgotten when the call takes another number. State about the whole job is in
    `_Submitting`.

    Attributes:
        number: The number.
        name: The name of its run.
        unchanged_since: Since when everything that is read about the name has been the same.
        waits_since: Since when this call has tried the number.
        last_fingerprint: What `unchanged_since` compares, as it was read last.
        lost_post_at: When the response to a POST of the name was lost; None if no response was
            lost.
        begun_during_call: As `View.begun_during_call`.
        app_seen_at: Id of the application in the stored service → when this call first read that
            id.
        wait_was_told: Whether the caller was told that it waits for the name.
    """

    number: int
    name: str
    unchanged_since: float
    waits_since: float
    last_fingerprint: object = None
    lost_post_at: float | None = None
    begun_during_call: bool = False
    app_seen_at: dict[str, float] = field(default_factory=dict)
    wait_was_told: bool = False


class _Submitting:
    """The state of one call of `submit`: what was sent, and what was read."""

    def __init__(
        self,
        client: ResourceManager,
        submission: KeyedSubmission,
        stored: StoredRuns | None,
        deadline: Deadline,
        on_wait: Callable[[str], None],
    ) -> None:
        self._client = client
        self._submission = submission
        self._stored = stored
        self._deadline = deadline
        self._on_wait = on_wait
        # of the first POST whose outcome is unknown
        self._first_lost_post: SubmitTFJobError | None = None
        self._known_names: set[str] = set()  # the job's stored services, and its live applications
        self._listed_at = float("-inf")
        self._tagged_apps: dict[str, tuple[AppReport, ...]] = {}  # for the first look alone
        # lower known ones, if the first has another submission's run
        self._lower_numbers: list[int] = []
        self._prepared_at: tuple[int, float] | None = None
        self._ended_before = ""
        self._refused_posts = 0
        self._ended_by_this_call: set[str] = set()  # applications that this call has ended
        self._foreign_names: set[str] = set()  # names of runs that are another submission's
        self._given_up_numbers: set[int] = set()  # numbers that cannot be used
        # when each was first seen, by its start
        self._leaders_seen_at: dict[int | None, float] = {}
        self._try_number(0)

    def _try_number(self, number: int) -> None:
        now = self._client.clock()
        self._tried = _TriedNumber(number, self._submission.name_of(number), now, now)

    def run(self) -> Submitted:
        """Read and act until the submission exists, or it is clear that it cannot succeed."""
        first = self._live_apps()
        self._try_number(self._first_number(first))
        live: tuple[AppReport, ...] | None = first  # for the first look alone
        spoiled, last, pause_s = 0, None, _PAUSE_S
        while True:
            with self._outcome_known():
                seen, live = self._read_everything(live), None
            action = decide(seen, self._submission.key, partial(self._is_run_again, seen))
            if action != last:
                _LOG.info("submission of %s: %s", self._tried.name, in_words(action))
            last = action
            if isinstance(action, Wait):
                self._wait_for_change(action.why, pause_s, action.error)
                pause_s = min(_PAUSE_MAX_S, pause_s * 1.5)
                continue
            pause_s = _PAUSE_S
            if isinstance(action, Next):
                self._kill_apps(action.kill, "" if action.spoiled else ACCEPTED_TWICE)
                spoiled += action.spoiled
                if spoiled > SPOILED_MAX:
                    raise self._too_late("the ResourceManager has failed in each POST")
                with self._outcome_known():
                    self._try_number(self._next_number(action))
                continue
            done = self._carry_out(action, seen)
            if done is not None:
                return done

    def _is_run_again(self, seen: View, app: AppReport | None) -> bool:
        app_id = seen.stored.app_id if seen.stored else None
        forgotten = self._submission.runs_again_after_forgotten
        if app is not None:
            return self._submission.runs_again_after(app)
        if app_id is None or forgotten is None:
            return self._submission.has_several_runs
        return forgotten(self._tried.name, app_id)

    def _carry_out(self, action: Action, seen: View) -> Submitted | None:
        if isinstance(action, Adopt):
            return self._adopt_found(action, seen)
        if isinstance(action, Taken):
            return self._other_run(action.app)
        if isinstance(action, Withdraw):
            self._kill_apps(action.kill, ACCEPTED_TWICE)
            return self._withdraw_for(action.app_id, action.other)
        if isinstance(action, Rejected):
            told = {"run": self._tried.name, "application_id": action.app.id}
            raise rejection(action.app.diagnostics, told)
        if isinstance(action, Fail):
            with self._outcome_known():
                raise self._stored_unreadable(action.error, action.error.message)
        return self._send_post()

    def _adopt_found(self, action: Adopt, seen: View) -> Submitted | None:
        """Return an application of this submission that was found, and kill other live ones of its
        name; None to read everything again.

        Raises:
            NameTaken: An older run of another submission is alive, because of which the client that
                posted this application may still end it.
        """
        app = action.app
        if app is not None and _may_be_withdrawn(app):
            rival = next((other for other in action.older if self._number_of(other) is None), None)
            if rival is not None:
                raise self._name_taken(rival)
            if self._waits_for_leader(app):
                return None
        if action.kill and not action.finished:
            with self._outcome_known():
                app = self._client.app(action.app_id, deadline=self._deadline)
            if app is None or app.ended:  # since it was listed
                return None
        self._kill_apps(action.kill, ACCEPTED_TWICE)
        return self._submitted_as(action.app_id, adopted=True, others=seen.other_live_apps)

    def _waits_for_leader(self, app: AppReport) -> bool:
        """Wait if the active ResourceManager is new and may not list the older applications yet;
        return whether this call waited.
        """
        with self._outcome_known():
            leader = self._client.cluster_info(deadline=self._deadline)
        if leader.is_recovering(_NEW_LEADER_S) is not True:
            return False
        self._wait_for_change(
            f"a new ResourceManager may not list what was there before {app.id}", _PAUSE_S
        )
        return True

    def _other_run(self, app: AppReport) -> Submitted | None:
        """Return another live run of the job if it was started by `retries.memory` for the same
        key. Return None, to read everything again, if that run may end at once (`_can_run`), or if
        the other run has another number of this same submission: its POST arrived late, after the
        run had been deleted or its number given up, or another client has taken a later number.

        Raises:
            NameTaken: The other run belongs to another submission.
        """
        number = self._number_of(app)
        if number is None:
            raise self._name_taken(app)
        run = app.name or ""
        if run == self._submission.name_of(number):
            self._wait_for_change(
                f"{run} is of the same submission, and was not expected", _PAUSE_S
            )
            self._try_number(number)
            return None
        if not self._can_run(app) or (_may_be_withdrawn(app) and self._waits_for_leader(app)):
            self._wait_for_change(f"{run} follows an earlier run, and may not run", _PAUSE_S)
            return None
        return Submitted(run, number, app.id, adopted=True)

    def _number_of(self, app: AppReport) -> int | None:
        """Return the number of a run of this submission. For a run that `retries.memory` started,
        return the number of the run that it follows. Return None for a run of another submission.
        """
        run = app.name or ""
        for number in range(self._tried.number + _WINDOW):
            name = self._submission.name_of(number)
            is_own = run == name and run not in self._foreign_names
            if is_own or run in self._submission.resubmissions_of(name):
                return number
        return None

    def _can_run(self, app: AppReport) -> bool:
        """Return whether an application runs already, or is the one whose id is in its stored
        service: the ApplicationMaster of any other application probably cannot start. Without a
        stored service the result is True; if the stored service cannot be read, it is False.
        """
        if app.state is AppState.RUNNING:
            return True
        stored, unread_for = self._read_stored(app.name or "")
        if stored is None:
            return unread_for is None
        return stored.app_id == app.id or (stored.app_id is None and self._hides_ids())

    def _submitted_as(
        self,
        app_id: str,
        *,
        adopted: bool = False,
        others: Iterable[AppReport] = (),
    ) -> Submitted:
        live = tuple(app.name or "" for app in others)
        tried, after = self._tried, self._ended_before
        return Submitted(tried.name, tried.number, app_id, adopted, after, live)

    # --- numbers ---

    def _first_number(self, live: Iterable[AppReport]) -> int:
        """Return the number to begin with: the highest number of a known run; 0 if there is none.
        Lower numbers may have been used, too: their stored services may have been deleted, or the
        numbers given up.
        """
        self._learn_names(live)
        left = set(self._known_names)
        if not left:
            self._tagged_apps = self._apps_of(range(_WINDOW))
            left.update(name for name, apps in self._tagged_apps.items() if apps)
        if not left:
            left.update(self._submission.names_with_records())
        # what is never run again has more than one number only where some were spoiled
        most = _NUMBERS_MAX if self._submission.has_several_runs else _WINDOW
        for number in range(most if left else 0):
            name = self._submission.name_of(number)
            if number == 0 or name in left:
                self._lower_numbers.append(number)
            left.discard(name)
            if not left:
                break
        return self._lower_numbers.pop() if self._lower_numbers else 0

    def _learn_names(self, live: Iterable[AppReport]) -> None:
        """Remember the names of the job's live and stored runs; the list of stored runs is read
        again after `SETTLE_S`.
        """
        names = {app.name or "" for app in live}
        now = self._client.clock()
        if self._stored is not None and now - self._listed_at > SETTLE_S:
            with contextlib.suppress(SubmitTFJobError):  # each is read by itself, too
                names.update(self._stored.names())
            self._listed_at = now
        self._known_names.update(name for name in names if is_run_of(name, self._submission.job))

    def _next_number(self, done: Next) -> int:
        """Return the next number that was not used yet, or whose run is to be returned to the
        caller. If the tried number cannot be used, that may be a lower number of a known run.
        """
        if done.foreign:
            self._foreign_names.add(self._tried.name)
        if done.foreign or done.spoiled:
            self._given_up_numbers.add(self._tried.number)
            if self._lower_numbers:
                return self._lower_numbers.pop()
        self._lower_numbers = []
        self._ended_before = "" if done.spoiled or done.foreign else self._tried.name
        numbers = (n for n in count(self._tried.number + 1) if n not in self._given_up_numbers)
        if not self._submission.has_several_runs:
            return next(numbers)
        while True:
            window = list(islice(numbers, _WINDOW))
            apps = self._apps_of(window)
            for one in window:
                name = self._submission.name_of(one)
                ended = [app for app in apps[name] if app.ended]
                if len(ended) < len(apps[name]) or not ended:
                    return one
                if not self._submission.runs_again_after(ended[0]):
                    return one
                self._ended_before = name

    def _apps_of(self, numbers: Iterable[int]) -> dict[str, tuple[AppReport, ...]]:
        names = [self._submission.name_of(number) for number in numbers]
        found: dict[str, tuple[AppReport, ...]] = dict.fromkeys(names, ())
        for app in self._client.apps(
            user=self._submission.user,
            tags=[f"name: {name}" for name in names],
            deadline=self._deadline,
        ):
            if app.name in found:
                found[app.name] = (*found[app.name], app)
        return found

    # --- reading ---

    def _live_apps(self) -> tuple[AppReport, ...]:
        return live_apps(self._client, self._submission.user, self._submission.job, self._deadline)

    def _read_everything(self, live_now: tuple[AppReport, ...] | None) -> View:
        begun, tried = self._client.clock(), self._tried
        if live_now is None:
            live_now = self._live_apps()
        # before the stored service, which is there before its application is
        tagged, self._tagged_apps = self._tagged_apps, {}
        if tried.name not in tagged:
            tagged = self._apps_of([tried.number])
        stored, unread_for = self._read_stored(tried.name)
        if stored is None and self._client.clock() - begun > SETTLE_S:
            # a run may have come, ended and been deleted while the service was read
            tagged = self._apps_of([tried.number])
        apps = {app.id: app for app in tagged[tried.name]}
        self._learn_names(live_now)
        apps.update((app.id, app) for app in live_now if app.name == tried.name)
        own, app_id = None, stored.app_id if stored else None
        if app_id is not None:
            # lists may come from a cache (YARN-6495 and later)
            own = apps.get(app_id) or self._client.app(app_id, deadline=self._deadline)
        live = tuple(sorted((app for app in apps.values() if not app.ended), key=in_order))
        known = stored and (stored.key, stored.app_id, stored.torn)
        fingerprint = (known, unread_for is None, sorted(apps), own and (own.id, own.state))
        if fingerprint != tried.last_fingerprint:
            tried.last_fingerprint, tried.unchanged_since = fingerprint, self._client.clock()
        ours = tried.begun_during_call or tried.lost_post_at is not None
        unborn = stored is not None and stored.app_id is None
        tried.begun_during_call = (
            ours or unborn or bool(live) or (own is not None and not own.ended)
        )
        # what this call has ended may be listed for a moment
        others = [
            a for a in live_now if a.name != tried.name and a.id not in self._ended_by_this_call
        ]
        lost_s = None
        if tried.lost_post_at is not None:
            lost_s = self._client.clock() - tried.lost_post_at
        return View(
            stored=stored,
            stored_error=unread_for,
            app_id_not_shown=self._stored is None and stored is not None and self._hides_ids(),
            live=live,
            ended=tuple(app for app in apps.values() if app.ended),
            stored_app=own,
            other_live_apps=tuple(app for app in others if WITHDRAWN not in app.diagnostics),
            # from the end of the first read to the start of this one
            settled_s=max(0.0, begun - tried.unchanged_since),
            lost_s=lost_s,
            begun_during_call=ours,
            recovering=self._is_recovering(apps or live_now),
            given_up=unborn and self._is_given_up(),
            stored_app_not_listed=own is not None and self._is_not_listed_yet(own, live_now),
        )

    def _is_not_listed_yet(self, app: AppReport, listed: Iterable[AppReport]) -> bool:
        """Return whether a list is older than an application that has just begun. If lists lack the
        application for a longer time, they come from a cache, and the result is False.
        """
        now = self._client.clock()
        since = self._tried.app_seen_at.setdefault(app.id, now)
        return now - since < SETTLE_S and all(other.id != app.id for other in listed)

    def _read_stored(self, run: str) -> tuple[StoredRun | None, SubmitTFJobError | None]:
        """Return the stored service of a run, or the error that prevented reading it; both are None
        if no service is stored.
        """
        if self._stored is not None:
            return self._stored_or_recorded(run, self._stored.copy_of)
        try:
            service = self._client.find_service(run, deadline=self._deadline)
        except ServiceTorn:
            return StoredRun(torn=True), None
        except ServiceUnreadable as error:
            forgotten = re.search(_FORGOTTEN, error.message)  # Hadoop 3.1
            return (StoredRun(app_id=forgotten[1]), None) if forgotten else (None, error)
        if service is None:
            return self._stored_or_recorded(run, lambda _run: None)
        return StoredRun(service.version or "", service.id), None

    def _stored_or_recorded(
        self, run: str, read: Callable[[str], StoredRun | None]
    ) -> tuple[StoredRun | None, SubmitTFJobError | None]:
        """Return the stored service of a run, or else what the run's record says about it, and the
        error that prevented the reading; both are None if neither exists.
        """
        try:
            return read(run) or self._submission.record_of(run), None
        except SubmitTFJobError as error:
            _LOG.info("the stored service %s: %s", run, error.message)
            return None, error

    def _is_given_up(self) -> bool:
        """Return whether this call or another one has given the number up. Another call has done so
        if a service with the next number is stored; that is checked only if services are read from
        the services API.
        """
        if self._tried.number in self._given_up_numbers or self._stored is not None:
            return self._tried.number in self._given_up_numbers
        following = self._submission.name_of(self._tried.number + 1)
        try:
            return self._client.find_service(following, deadline=self._deadline) is not None
        except ServiceUnreadable:
            return True

    def _hides_ids(self) -> bool:
        """Return whether this Hadoop version returns a service's application id only while it runs
        (3.1, hadoop-facts.md#application-id-of-a-service).
        """
        version = self._client.recent_info(deadline=self._deadline).version
        return bool(version) and version < (3, 2)

    def _is_recovering(self, listed: object) -> bool:
        """Return whether the ResourceManager has just started and knows nothing of the job,
        although services of the job are stored.
        """
        if listed or not self._known_names:
            return False
        # not an older answer: another one may have taken over since
        info = self._client.cluster_info(deadline=self._deadline)
        recovering = info.is_recovering(RECOVERS_S)
        if recovering is None:  # it leads at least since it was first seen
            now = self._client.clock()
            return now - self._leaders_seen_at.setdefault(info.started_ms, now) < RECOVERS_S
        return recovering

    # --- acting ---

    def _kill_apps(self, app_ids: Iterable[str], reason: str = "") -> None:
        """End applications of this submission.

        Raises:
            AnswerLost: One of these applications may still run, so that the outcome of the
                submission is unknown.
        """
        for app_id in app_ids:
            self._ended_by_this_call.add(app_id)
            try:
                if not self._client.kill_app(app_id, reason=reason, deadline=self._deadline):
                    raise ClusterUnavailable(f"the ResourceManager does not list {app_id} yet.")
            except SubmitTFJobError as error:
                raise self._not_known(error) from error

    def _prepare_post(self) -> bool:
        """Call `prepare` for the tried number, unless it was called for it less than `_PREPARED_S`
        ago. Return False if that took so long that the name has to be read again.
        """
        begun = self._client.clock()
        number, at = self._prepared_at or (-1, 0.0)
        if number == self._tried.number and begun - at <= _PREPARED_S:
            return True
        with self._outcome_known():
            self._submission.prepare(self._tried.number)
        now = self._client.clock()
        self._prepared_at = self._tried.number, now
        # an upload may take long, and the deadline is meant for YARN
        self._deadline = self._deadline._replace(at=self._deadline.at + now - begun)
        return now - begun <= SETTLE_S

    def _send_post(self) -> Submitted | None:
        if not self._prepare_post():
            return None
        body = self._submission.body_of(self._tried.number)
        self._tried.last_fingerprint = None
        try:
            app_id = self._client.post_service(body, deadline=self._deadline)
        except (AnswerLost, BadAnswer) as error:
            self._remember_lost_post(error)
            return None
        except NameTaken as error:  # by this very submission, from another client: look again
            self._refused_posts += 1
            if self._refused_posts > SPOILED_MAX:
                raise (self._not_known(error) if self._first_lost_post else error) from None
            self._tried.begun_during_call = True
            self._wait_for_change("another client submits the same", _PAUSE_S)
            return None
        except (Refused, AuthError, InternalError) as error:
            if self._first_lost_post is None:
                raise
            raise self._not_known(error) from error
        except ClusterUnavailable as error:
            # not accepted; the next read waits for an active ResourceManager, or raises
            if not self._deadline.left_s:
                raise (self._not_known(error) if self._first_lost_post else error) from None
            self._client.sleep(min(_PAUSE_S, self._deadline.left_s))
            return None
        if app_id is None:
            self._remember_lost_post(
                AnswerLost(
                    f"The cluster accepted {self._tried.name} without naming an application."
                )
            )
            return None
        return self._end_unless_first(app_id)

    def _remember_lost_post(self, error: SubmitTFJobError) -> None:
        self._first_lost_post = self._first_lost_post or error
        self._tried.lost_post_at = self._client.clock()

    def _end_unless_first(self, app_id: str) -> Submitted | None:
        """Return the application of our POST, unless another run of the job existed before it. In
        that case end our application, which no other client has seen running, and return the older
        run if it belongs to the same submission. If the other runs cannot be listed, return our
        application without this check. Return None to read everything again.

        Raises:
            NameTaken: The older run belongs to another submission.
        """
        try:
            apps, mine = self._listed_by_leader(app_id)
            withdrawn = False
            if not apps:  # it has ended, perhaps by another client that submits the same
                own = self._client.app(app_id, deadline=self._deadline)
                withdrawn = own is not None and own.withdrawn
        except SubmitTFJobError as error:
            _LOG.info("whether %s is alone: %s", app_id, error.message)
            return self._submitted_as(app_id)
        if mine is None and (apps or withdrawn):  # a new leader may not list ours yet
            self._remember_lost_post(AnswerLost(f"{app_id} is not listed."))
            return None
        older = [app for app in apps if mine is not None and in_order(app) < in_order(mine)]
        twins = [a for a in apps if a.name == self._tried.name and a.id != app_id]
        if mine is not None and twins:
            first = min(map(in_order, (mine, *twins)))
            older = [app for app in older if app not in twins and in_order(app) < first]
            if not older:
                return self._end_unless_stored(mine, twins)
        if older:
            return self._withdraw_for(app_id, older[0])
        return replace(self._submitted_as(app_id), alone=mine is not None and len(apps) == 1)

    def _end_unless_stored(self, mine: AppReport, twins: Collection[AppReport]) -> Submitted | None:
        """Leave one application alive where YARN has accepted two POSTs of the name: the one whose
        id is in the stored service, because YARN's status, stop and delete of a name mean that one
        (hadoop-facts.md#two-posts-of-one-name). Return our application if its id is stored, and no
        POST is known that may replace it; None to read everything again.
        """
        # what follows decides about an application that exists
        self._remember_lost_post(AnswerLost(f"YARN has accepted two POSTs of {mine.name}."))
        begun = self._client.clock()
        try:
            stored, _unread_for = self._read_stored(self._tried.name)
            stored_id = stored.app_id if stored else None
            if stored is not None and stored_id is None and self._hides_ids():
                stored_id = mine.id  # taken as stored if it is the newest
        except SubmitTFJobError as error:
            _LOG.info("the stored service %s: %s", self._tried.name, error.message)
            return None
        if self._client.clock() - begun > SETTLE_S / 2:
            return None
        is_newest = all(in_order(twin) < in_order(mine) for twin in twins)
        ran = any(map(has_run, twins))
        if stored_id == mine.id and is_newest and not ran:
            # best before its ApplicationMaster registers: the end of an application removes the
            # registry's records of its name
            self._kill_apps((twin.id for twin in twins), ACCEPTED_TWICE)
            self._first_lost_post = None
            return self._submitted_as(mine.id)
        if ran or any(stored_id == twin.id for twin in twins):
            self._kill_apps([mine.id], ACCEPTED_TWICE)
        return None

    def _listed_by_leader(self, app_id: str) -> tuple[tuple[AppReport, ...], AppReport | None]:
        """Return the job's live applications, and the application of our POST if it is listed, from
        an active ResourceManager that lists all applications. A ResourceManager that has just
        become active is asked again after some seconds, a few times; one whose start time is not
        known is asked again once.
        """
        for look in count(1):
            begun = self._client.clock()
            live = self._live_apps()
            apps = tuple(app for app in live if app.id not in self._ended_by_this_call)
            mine = next((app for app in apps if app.id == app_id), None)
            # asked after the list: another one may lead since the POST
            leader = self._client.cluster_info(deadline=self._deadline)
            is_new = leader.is_recovering(_NEW_LEADER_S + self._client.clock() - begun)
            if is_new is False or look >= (_LEADERS_ASKED if is_new else 2):
                break
            if (apps and mine is None) or self._deadline.left_s <= 0:
                break
            self._client.sleep(min(_NEW_LEADER_S, self._deadline.left_s))
        return apps, mine

    def _withdraw_for(self, app_id: str, other: AppReport) -> Submitted | None:
        self._kill_apps([app_id], THERE_BEFORE)
        self._first_lost_post = None
        return self._other_run(other)

    def _wait_for_change(
        self, why: str, pause_s: float, error: SubmitTFJobError | None = None
    ) -> None:
        now = self._client.clock()
        if not self._tried.wait_was_told and now - self._tried.waits_since >= SETTLE_S:
            self._on_wait(f"waiting for {self._tried.name}: {why}")
            self._tried.wait_was_told = True
        left = self._deadline.left_s
        if left > 0:
            self._client.sleep(min(pause_s, left))
        if self._deadline.left_s <= 0:
            raise self._too_late(why, error)

    # --- errors ---

    @contextlib.contextmanager
    def _outcome_known(self) -> Iterator[None]:
        """If a POST may have been accepted, raise `AnswerLost` instead of any other error of the
        block, because the outcome of the submission is then unknown.
        """
        try:
            yield
        except AnswerLost:
            raise
        except SubmitTFJobError as error:
            if self._first_lost_post is None:
                raise
            raise self._not_known(error) from error

    def _not_known(self, error: SubmitTFJobError) -> AnswerLost:
        """Return the error for a submission whose application may exist or still run."""
        then = "the response was lost, and then: " if self._first_lost_post else ""
        return AnswerLost(
            f"It is not known whether {self._submission.job} was submitted: {then}{error.message}",
            hint="Give the same command again: it finds its own submission.",
            details={**error.details, "run": self._tried.name},
        )

    def _name_taken(self, app: AppReport) -> SubmitTFJobError:
        job = self._submission.job
        state = "running" if app.state is AppState.RUNNING else "waiting"
        age = f"{duration_text(app.elapsed_ms // 1000)}, " if app.elapsed_ms else ""
        error = NameTaken(
            f"A run of {job} with other settings or files is {state} already: {app.name} "
            f"({age}{app.id}).",
            hint=f"Follow it: submit_tf_job wait {job}. Stop it first: submit_tf_job stop {job}. "
            f"Or choose another name.",
            details={
                "run": app.name,
                "application_id": app.id,
                "state": app.state.value,
                "final_status": app.final_status.value,
            },
        )
        return error if self._first_lost_post is None else self._not_known(error)

    def _stored_unreadable(self, error: SubmitTFJobError, message: str) -> SubmitTFJobError:
        """Return the error for a submission that ends because the stored service cannot be read, so
        that it is not known whether the key was submitted before.
        """
        hint = error.hint
        if self._stored is not None:
            hint += " Without hadoop_conf, the ResourceManager is asked, and HDFS is not read."
        return type(error)(message, hint=hint.strip(), details=error.details)

    def _too_late(self, why: str, error: SubmitTFJobError | None = None) -> SubmitTFJobError:
        said = f"The deadline for submitting {self._submission.job} passed: {why}"
        if error is not None and self._first_lost_post is None:
            return self._stored_unreadable(error, said)
        return DeadlinePassed(
            f"{said}.",
            hint="Give the same command again: it finds its own submission.",
            details={"run": self._tried.name},
        )


def _may_be_withdrawn(app: AppReport) -> bool:
    """Return whether the client that posted an application may still make its second check, and
    then end the application.
    """
    return app.elapsed_ms is None or app.elapsed_ms < IN_FLIGHT_S * 1000
