"""The next step of a submission, by everything that was read: one row for each case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job.errors import AuthError, ClusterUnavailable, SettingsError, UnknownHost
from submit_tf_job.yarn.observed import AppReport, FinalStatus
from submit_tf_job.yarn.run_names import run_name, short_head
from submit_tf_job.yarn.submission_steps import (
    IN_FLIGHT_S,
    SETTLE_S,
    StoredRun,
    View,
    decide,
)

KEY = "key"


def app(number: int, state: str = "RUNNING", *, at: int = 10, words: str = "") -> AppReport:
    final = {"RUNNING": "UNDEFINED", "ACCEPTED": "UNDEFINED"}.get(state, "FAILED")
    known = {"id": f"application_1_{number:04}", "state": state, "finalStatus": final}
    return AppReport.from_json({**known, "startedTime": at, "diagnostics": words})


RUNS, WAITS, OVER = app(1), app(1, "ACCEPTED"), app(1, "FINISHED")
WITHDRAWN = app(1, "KILLED", words="withdrawn: another run of this job was there before")
REJECTED = app(1, "FAILED", words="Application rejected: no rule fits")
OLDER, YOUNGER = app(9, at=5), app(9, at=20)
WITH_ID, NO_ID = StoredRun(KEY, RUNS.id), StoredRun(KEY)
TORN, OLD = StoredRun(torn=True), StoredRun(KEY, age_s=IN_FLIGHT_S)
AWAY = ClusterUnavailable("no NameNode answers")
LATE: dict[str, Any] = {"settled_s": SETTLE_S}
LONG: dict[str, Any] = {"settled_s": IN_FLIGHT_S}


@pytest.mark.parametrize(
    ("seen", "never", "always"),
    [
        # nothing is stored
        (View(), "Post", "Post"),
        (View(lost_s=1.0), "Wait", "Wait"),
        (View(lost_s=SETTLE_S), "Post", "Post"),
        (View(other_live_apps=(OLDER,)), "Taken", "Taken"),
        (View(other_live_apps=(OLDER,), lost_s=1.0), "Wait", "Wait"),
        (View(recovering=True), "Wait", "Wait"),
        (View(live=(RUNS,)), "Wait", "Wait"),
        (View(live=(RUNS,), **LATE), "Adopt", "Adopt"),
        (View(ended=(OVER,)), "Adopt", "Next"),
        (View(ended=(WITHDRAWN,)), "Next", "Next"),
        # stored, with its application
        (View(WITH_ID, stored_app=RUNS, live=(RUNS,)), "Adopt", "Adopt"),
        (
            View(WITH_ID, stored_app=WAITS, live=(WAITS,), other_live_apps=(OLDER,)),
            "Adopt",
            "Adopt",
        ),
        (
            View(WITH_ID, stored_app=WAITS, other_live_apps=(OLDER,), lost_s=1.0),
            "Withdraw",
            "Withdraw",
        ),
        (View(WITH_ID, stored_app=WAITS, other_live_apps=(YOUNGER,), lost_s=1.0), "Adopt", "Adopt"),
        (View(WITH_ID, stored_app=RUNS, other_live_apps=(OLDER,), lost_s=1.0), "Adopt", "Adopt"),
        (View(WITH_ID, stored_app=RUNS, live=(RUNS, app(2))), "Wait", "Wait"),
        (View(WITH_ID, stored_app=OVER), "Adopt", "Next"),
        (View(WITH_ID, stored_app=OVER, begun_during_call=True), "Adopt", "Adopt"),
        (View(WITH_ID, stored_app=WITHDRAWN, begun_during_call=True), "Next", "Next"),
        (View(WITH_ID, stored_app=RUNS, stored_app_not_listed=True), "Wait", "Wait"),
        (View(WITH_ID, stored_app=REJECTED), "Next", "Next"),
        (View(WITH_ID, stored_app=REJECTED, begun_during_call=True), "Rejected", "Rejected"),
        (View(ended=(REJECTED,), begun_during_call=True), "Rejected", "Rejected"),
        (View(WITH_ID, stored_app=OVER, stored_app_not_listed=True), "Adopt", "Next"),
        (View(WITH_ID), "Wait", "Wait"),
        (View(WITH_ID, **LATE), "Adopt", "Next"),
        (View(WITH_ID, recovering=True, **LATE), "Wait", "Wait"),
        (View(StoredRun("another", RUNS.id), stored_app=RUNS, live=(RUNS,)), "Next", "Next"),
        (View(StoredRun("another")), "Next", "Next"),
        # stored without its application
        (View(NO_ID, **LATE), "Wait", "Wait"),
        (View(TORN, live=(RUNS,), **LATE), "Wait", "Wait"),
        (View(TORN, live=(RUNS,), **LONG), "Adopt", "Adopt"),
        (View(TORN, **LONG), "Next", "Next"),
        (View(OLD), "Next", "Next"),
        (View(NO_ID, given_up=True), "Next", "Next"),
        # Hadoop 3.1 without HDFS
        (View(NO_ID, app_id_not_shown=True, live=(RUNS,)), "Wait", "Wait"),
        (View(NO_ID, app_id_not_shown=True, live=(RUNS,), **LATE), "Adopt", "Adopt"),
        (View(NO_ID, app_id_not_shown=True, ended=(OVER,), **LATE), "Adopt", "Next"),
        (View(NO_ID, app_id_not_shown=True, **LONG), "Next", "Next"),
        # not to be read
        (View(stored_error=AWAY, live=(WAITS,), **LONG), "Wait", "Wait"),
        (View(stored_error=AWAY, live=(RUNS,), **LATE), "Adopt", "Adopt"),
        (View(stored_error=AWAY, ended=(OVER,), **LATE), "Adopt", "Next"),
        (View(stored_error=AWAY, **LONG), "Wait", "Wait"),
        # ... and another attempt would not help
        (View(stored_error=UnknownHost("nn")), "Fail", "Fail"),
        (View(stored_error=AuthError("denied")), "Fail", "Fail"),
        (View(stored_error=SettingsError("${env.NN}")), "Fail", "Fail"),
        (View(stored_error=AuthError("denied"), live=(RUNS,), **LATE), "Adopt", "Adopt"),
        (View(stored_error=AuthError("denied"), live=(WAITS,)), "Wait", "Wait"),
    ],
)
def test_the_next_step_follows_from_what_was_read(seen: View, never: str, always: str) -> None:
    done = decide(seen, KEY, lambda _app: False), decide(seen, KEY, lambda _app: True)
    assert tuple(type(step).__name__ for step in done) == (never, always)


@pytest.mark.parametrize(
    "seen",
    [
        View(live=(WAITS,), other_live_apps=(OLDER, YOUNGER), **LATE),
        View(stored_error=AWAY, live=(RUNS,), other_live_apps=(OLDER, YOUNGER), **LATE),
        View(TORN, live=(RUNS,), other_live_apps=(OLDER, YOUNGER), **LONG),
        View(NO_ID, app_id_not_shown=True, live=(RUNS,), other_live_apps=(OLDER, YOUNGER), **LATE),
        View(WITH_ID, stored_app=RUNS, live=(RUNS,), other_live_apps=(OLDER, YOUNGER)),
        View(WITH_ID, stored_app=WAITS, live=(WAITS,), other_live_apps=(OLDER, YOUNGER)),
    ],
)
def test_every_adoption_names_the_runs_that_were_there_before(seen: View) -> None:
    assert decide(seen, KEY, lambda _app: False).older == (OLDER,)  # type: ignore[union-attr]


def test_what_can_never_run_is_killed_with_its_name_given_up() -> None:
    assert decide(View(OLD, live=(WAITS,)), KEY, lambda _app: False).kill == (WAITS.id,)  # type: ignore[union-attr]


TWIN, LASTS = app(2, at=20), replace(app(2, at=20), elapsed_ms=3_600_000)
KEPT = replace(RUNS, elapsed_ms=3_600_000)
ENDED = replace(OVER, finished_ms=30)
SUCCEEDED = replace(ENDED, final_status=FinalStatus.SUCCEEDED)
FAILED = replace(app(1, "FAILED", words="conf changed on src filesystem"), finished_ms=30)
KILLED = replace(WITHDRAWN, finished_ms=30)
STAYED = replace(app(2, "FINISHED", at=20), finished_ms=90)
AGAIN = app(2, at=40)  # by a person, after its end


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (View(WITH_ID, stored_app=RUNS, live=(RUNS, TWIN)), "wait"),
        (View(WITH_ID, stored_app=RUNS, live=(RUNS, TWIN), **LATE), (1, [2])),
        (View(WITH_ID, stored_app=ENDED, live=(TWIN,)), "wait"),
        (View(WITH_ID, stored_app=SUCCEEDED, live=(TWIN,), **LATE), (1, [2])),
        # the one whose id is stored is no more
        (View(WITH_ID, stored_app=ENDED, live=(TWIN,), **LATE), (2, [])),
        (View(WITH_ID, stored_app=KILLED, live=(TWIN,), **LATE), (2, [])),
        (View(WITH_ID, stored_app=FAILED, live=(TWIN,), **LATE), (2, [])),
        (View(WITH_ID, live=(TWIN,), **LATE), (2, [])),
        (View(WITH_ID, stored_app=ENDED, live=(app(3), TWIN), **LATE), (2, [3])),
        (View(WITH_ID, live=(TWIN,), recovering=True, **LATE), "wait"),
        # what has run for an hour is not killed, nor left for what has just begun
        (View(WITH_ID, stored_app=RUNS, live=(LASTS, RUNS), **LATE), (2, [1])),
        (View(WITH_ID, stored_app=KEPT, live=(LASTS, KEPT), **LATE), (1, [])),
        (View(WITH_ID, stored_app=KEPT, live=(KEPT, TWIN), **LATE), (1, [2])),
        (View(WITH_ID, stored_app=WAITS, live=(WAITS, TWIN), **LATE), (2, [1])),
        (View(WITH_ID, stored_app=SUCCEEDED, live=(LASTS,), **LATE), (1, [])),
        # all of them
        (View(WITH_ID, stored_app=KILLED, ended=(STAYED, KILLED)), (2, [])),
        (View(WITH_ID, stored_app=KILLED, ended=(KILLED, OVER)), "next"),
        (View(WITH_ID, stored_app=FAILED, ended=(FAILED, STAYED)), (2, [])),
        (View(WITH_ID, stored_app=FAILED, ended=(FAILED, replace(KILLED, id="x"))), "next"),
        # one that a person has started again
        (View(WITH_ID, stored_app=SUCCEEDED, live=(AGAIN,), **LATE), (1, [])),
        (View(WITH_ID, stored_app=FAILED, ended=(replace(STAYED, started_ms=40), FAILED)), (1, [])),
        # another submission's run was there before
        (
            View(
                WITH_ID,
                stored_app=WAITS,
                live=(WAITS, replace(WAITS, id=TWIN.id)),
                other_live_apps=(OLDER,),
                lost_s=1.0,
                **LATE,
            ),
            "withdraw",
        ),
        # Hadoop 3.1 without HDFS
        (View(NO_ID, app_id_not_shown=True, live=(RUNS, TWIN), **LATE), (2, [1])),
        # the second POST has ended half-way
        (View(OLD, live=(KEPT,)), (1, [])),
    ],
)
def test_one_application_stays_where_yarn_has_accepted_two_posts(
    seen: View, step: str | tuple[int, list[int]]
) -> None:
    done = decide(seen, KEY, lambda _app: False)
    kind = type(done).__name__.lower()
    if isinstance(step, str):
        assert kind == step
        return
    stays, killed = step
    assert (kind, done.app_id) == ("adopt", f"application_1_{stays:04}")  # type: ignore[union-attr]
    assert done.kill == tuple(f"application_1_{number:04}" for number in killed)  # type: ignore[union-attr]


def test_names_of_runs_are_the_same_in_every_version() -> None:
    """Another version would find no run that this one has submitted."""
    assert run_name("digits", "alice", "k", 1) == "digits-7voq6njr"
    assert run_name("mnist", "alice", "8eb6952dbe34aca0", 0) == "mnist-65nchnsv"
    assert run_name("digits", "alice", "k", 1, name_limit=14) == "digitzrv-7voq6njr"
    assert short_head("digits") == "digitzrv"
