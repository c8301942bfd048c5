"""The verdict, from YARN's status and the job's report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job import job_report
from submit_tf_job.observation import (
    SWALLOWED_HINT,
    Evidence,
    JobState,
    JobStatus,
    Verdict,
    verdict,
)
from submit_tf_job.yarn.observed import (
    FINAL_STATES,
    AppReport,
    AppState,
    ContainerState,
    FinalStatus,
    ObservedComponent,
    ObservedContainer,
    ObservedService,
    ServiceState,
)
from tests.builders.statuses import FAILURE, FAILURE_JSON, app, observations, report


def judge(
    record: AppReport | None,
    said: job_report.JobReport | None = None,
    evidence: Any = Evidence.UNREADABLE,
) -> Verdict:
    return verdict(JobStatus("mnist", "application_1_0001", record, report=said, evidence=evidence))


# --- the table ------------------------------------------------------------------------------------

DONE, FAILED = JobState.SUCCEEDED, JobState.FAILED
STOPPED, UNKNOWN = JobState.STOPPED, JobState.UNKNOWN
GONE = (
    "the ResourceManager does not know the application any more (it was restarted without "
    "recovery, or keeps fewer finished ones)"
)
LOOK = "look at the ApplicationMaster's log, and at what the job wrote, before you use it"
NO_OUTCOME = "the deciding task's container ended without leaving an outcome"
DID_IT_START = "did it start at all? its image must have bash and Python 3.6 or later"
FAILED_REPORT = report("failed", first_failure=FAILURE_JSON, outcome={"status": 93})
STATUS_REPORT = report("failed", outcome={"status": 3})
# its tasks saved and ended long before the end of the lifetime; a follower ended the application
LEFT_OVER = (
    "Application application_1_0001 was killed by user alice with diagnostic message: "
    "submit_tf_job ended what was left of it after the job had stopped"
)
SAVES = [{"at": 1.0, "text": "the job's lifetime ends; its tasks save"}]
SAVED_IN_LIFETIME = report("stopped", saving=[], events=SAVES)
LIFETIME_SAVED = "its lifetime was over but for `stop_grace`, in which its tasks saved and ended"
LONGER = (
    "ask for a longer `lifetime`; where its queue limits that, choose another `queue`, or ask for "
    "a larger maximum-application-lifetime of this one"
)

ENDS: list[tuple[AppReport | None, job_report.JobReport | None, Evidence, Verdict]] = [
    # The ResourceManager has forgotten it.
    (None, None, Evidence.UNREADABLE, Verdict(UNKNOWN, GONE, False)),
    (None, report(), Evidence.READ, Verdict(UNKNOWN, GONE, False)),
    # It says SUCCEEDED.
    (app(), report(), Evidence.READ, Verdict(DONE, "", True)),
    (app(), None, Evidence.UNREADABLE, Verdict(DONE, "Not confirmed by the deciding task: its outcome cannot be read", False)),
    (app(), report(), Evidence.COLLECTED_SOON, Verdict(DONE, "", True)),
    (app(), None, Evidence.OUT_OF_REACH, Verdict(DONE, "Not confirmed by the deciding task: the file system that holds its outcome does not answer", False, hint="submit_tf_job status mnist reads it once the file system answers")),
    (app(), None, Evidence.MISSING, Verdict(FAILED, "YARN reports SUCCEEDED, but the deciding task left no outcome: its command never ran", False, hint=SWALLOWED_HINT)),
    (app(), FAILED_REPORT, Evidence.READ, Verdict(FAILED, f"YARN reports SUCCEEDED, but the task reports: {FAILURE.message}", False, FAILURE, SWALLOWED_HINT)),
    (app(), STATUS_REPORT, Evidence.READ, Verdict(FAILED, "YARN reports SUCCEEDED, but the deciding task ended with exit status 3", False, hint=SWALLOWED_HINT)),
    (app(), report("running"), Evidence.UNREADABLE, Verdict(DONE, "Not confirmed by the deciding task: its outcome cannot be read", False)),
    (app(), report(), Evidence.UNREADABLE, Verdict(DONE, "", True)),
    (app(), report('running'), Evidence.READ, Verdict(FAILED, "YARN reports SUCCEEDED, but the deciding task's last word was 'running'", False, hint=SWALLOWED_HINT)),
    (replace(app(), finished_ms=1700000121000), report('running', updated_at=1700000000.0), Evidence.READ, Verdict(DONE, "Not confirmed by the deciding task: its report was not written to the end (its last word is 'running')", False, hint='was the disk of its logs full? its warnings and its log say so')),
    # its node's clock is an hour behind
    (replace(app(), started_ms=1700000000000, finished_ms=1700000121000), report('running', started_at=1699996405.0, updated_at=1699996520.0), Evidence.READ, Verdict(FAILED, "YARN reports SUCCEEDED, but the deciding task's last word was 'running'", False, hint=SWALLOWED_HINT)),
    (app(), report("succeeded", outcome={"status": 3}), Evidence.READ, Verdict(FAILED, "YARN reports SUCCEEDED, but the deciding task ended with exit status 3", False, hint=SWALLOWED_HINT)),
    (app(), report("succeeded", first_failure=FAILURE_JSON), Evidence.READ, Verdict(FAILED, f"YARN reports SUCCEEDED, but the task reports: {FAILURE.message}", False, FAILURE, SWALLOWED_HINT)),
    # It says FAILED.
    (app(final="FAILED"), FAILED_REPORT, Evidence.READ, Verdict(FAILED, FAILURE.message, True, FAILURE)),
    (app("FAILED", "FAILED"), FAILED_REPORT, Evidence.READ, Verdict(FAILED, FAILURE.message, True, FAILURE)),
    (app(final="FAILED"), STATUS_REPORT, Evidence.READ, Verdict(FAILED, "the deciding task ended with exit status 3", True)),
    (app(final="FAILED", diagnostics="boom\n\tat java.lang.X\n"), report(), Evidence.READ, Verdict(FAILED, "the deciding task reports success, but YARN reports FAILED: boom", False, hint=LOOK)),
    (app(final="FAILED"), None, Evidence.MISSING, Verdict(FAILED, NO_OUTCOME, False, hint=DID_IT_START)),
    (app(final="FAILED", diagnostics="boom"), None, Evidence.COLLECTED_SOON, Verdict(FAILED, "YARN reports FAILED: boom; the cluster is still collecting the logs of its tasks", False, hint="submit_tf_job wait mnist returns the verdict once the logs are collected")),
    (app(final="FAILED"), report("running"), Evidence.READ, Verdict(FAILED, NO_OUTCOME, True)),
    (app(final="FAILED"), report("running"), Evidence.UNREADABLE, Verdict(FAILED, "YARN reports FAILED; the outcome that the deciding task left cannot be read any more", False, hint=DID_IT_START)),
    (app(final="FAILED"), None, Evidence.OUT_OF_REACH, Verdict(FAILED, "YARN reports FAILED; the file system that holds its outcome does not answer", False, hint="submit_tf_job status mnist reads it once the file system answers")),
    (app("FAILED", "FAILED", "AM Container exited with  exitCode: 1"), None, Evidence.UNREADABLE, Verdict(FAILED, "the application failed: AM Container exited with  exitCode: 1", False)),
    (app("FAILED", "FAILED", "Attempt recovered after RM restart"), None, Evidence.UNREADABLE, Verdict(FAILED, "the application failed", False)),
    (app("KILLED", "KILLED", "Attempt recovered after RM restartStopped by user root"), None, Evidence.UNREADABLE, Verdict(STOPPED, "it was stopped: Stopped by user root", True)),
    # It says that somebody ended it.
    (app(final="ENDED"), None, Evidence.UNREADABLE, Verdict(STOPPED, "it was stopped: YARN does not report by whom", True)),
    (app(final="ENDED"), None, Evidence.COLLECTED_SOON, Verdict(STOPPED, "it was stopped: YARN does not report by whom", False)),
    (app(final="ENDED"), report(), Evidence.READ, Verdict(DONE, confirmed=True)),
    (app(final="KILLED"), report("stopped"), Evidence.READ, Verdict(STOPPED, "it was stopped: YARN does not report by whom", True)),
    (app(final="ENDED"), FAILED_REPORT, Evidence.READ, Verdict(FAILED, FAILURE.message, True, FAILURE)),
    (app("KILLED", "KILLED", "\nApplication killed by user alice.\nmore"), report("running"), Evidence.READ, Verdict(STOPPED, "it was stopped: Application killed by user alice.", True)),
    (app("KILLED", "KILLED"), FAILED_REPORT, Evidence.READ, Verdict(FAILED, FAILURE.message, True, FAILURE)),
    (app("KILLED", "KILLED", "Application is killed by ResourceManager as it has exceeded the lifetime period."), report("running"), Evidence.READ, Verdict(STOPPED, "its lifetime was over, and YARN killed it", True, hint="ask for a longer `lifetime`; where its queue limits that, choose another `queue`, or ask for a larger maximum-application-lifetime of this one")),
    (app("KILLED", "KILLED", LEFT_OVER), SAVED_IN_LIFETIME, Evidence.READ, Verdict(STOPPED, LIFETIME_SAVED, True, hint=LONGER)),
    (app("KILLED", "KILLED", LEFT_OVER), report("stopped", saving=[]), Evidence.READ, Verdict(STOPPED, "it was stopped, with time to save; its tasks ended before YARN stopped it", True)),
    (app("KILLED", "KILLED", LEFT_OVER), None, Evidence.UNREADABLE, Verdict(STOPPED, "it was stopped: a follower read that, and then ended the application", False)),
    (app(final="FAILED"), SAVED_IN_LIFETIME, Evidence.READ, Verdict(STOPPED, LIFETIME_SAVED, True, hint=LONGER)),
    # It says something else.
    (app(final="UNDEFINED"), report(), Evidence.READ, Verdict(UNKNOWN, "the ResourceManager reports no final status (UNDEFINED)", False)),
    (app(final="NEW_IN_4_0"), report(), Evidence.READ, Verdict(UNKNOWN, "the ResourceManager reports no final status (UNKNOWN)", False)),
]  # fmt: skip


@pytest.mark.parametrize(("record", "said", "evidence", "expected"), ENDS)
def test_verdict_of_an_ended_job(
    record: AppReport | None,
    said: job_report.JobReport | None,
    evidence: Evidence,
    expected: Verdict,
) -> None:
    assert judge(record, said, evidence) == expected
    assert expected.state.is_final


@pytest.mark.parametrize("said", [None, report("running"), FAILED_REPORT, STATUS_REPORT])
def test_verdict_waits_for_the_report_of_a_success(said: job_report.JobReport | None) -> None:
    assert judge(app(), said, Evidence.COLLECTED_SOON) == Verdict(
        JobState.FINISHING,
        "YARN reports SUCCEEDED; the deciding task's outcome is not known until the cluster "
        "has collected its logs",
        hint="submit_tf_job wait mnist returns the verdict once the logs are collected",
    )


BEFORE = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "UNKNOWN")


@pytest.mark.parametrize(
    ("states", "said", "state"),
    [
        (BEFORE, None, "PENDING"),
        (("RUNNING",), None, "STARTING"),
        (("RUNNING", *BEFORE), "waiting", "STARTING"),
        (("RUNNING", *BEFORE), "running", "RUNNING"),
        (("RUNNING", *BEFORE), "finishing", "FINISHING"),
        (("RUNNING", *BEFORE), "succeeded", "FINISHING"),
        (("RUNNING", *BEFORE), "failed", "FINISHING"),
        (("RUNNING", *BEFORE), "stopped", "FINISHING"),
    ],
)
def test_verdict_of_a_running_job(states: tuple[str, ...], said: str | None, state: str) -> None:
    for record in states:
        found = judge(app(record, "UNDEFINED"), report(said) if said else None, Evidence.READ)
        assert found == Verdict(JobState(state))
        assert not found.state.is_final


def test_verdict_cuts_long_diagnostics() -> None:
    reason = judge(app("FAILED", "FAILED", "x" * 5000)).reason
    assert reason == "the application failed: " + "x" * 600


# --- no combination is a success that is none -----------------------------------------------------


ENDED_BY_A_STOP = (FinalStatus.ENDED, FinalStatus.KILLED)


@pytest.mark.slow
@given(observations)
def test_verdict_success_needs_yarn_and_report(seen: JobStatus) -> None:
    found = verdict(seen)
    if found.state is JobState.SUCCEEDED:
        assert seen.app
        by_yarn = (seen.app.state, seen.app.final_status)
        if by_yarn != (AppState.FINISHED, FinalStatus.SUCCEEDED):  # stopped after its success
            assert seen.app.state is AppState.KILLED or seen.app.final_status in ENDED_BY_A_STOP
            assert seen.report is not None
        counts = seen.report and (seen.report.is_over or seen.evidence is Evidence.READ)
        said = seen.report if counts else None
        if said is not None:
            assert (said.state, said.first_failure) == ("succeeded", None)
            assert said.outcome_status in (None, 0)
        assert said is not None or seen.evidence is not Evidence.MISSING
        assert found.confirmed is (said is not None)
        assert bool(found.reason) is not found.confirmed
    if found.state in (JobState.FAILED, JobState.STOPPED, JobState.UNKNOWN):
        assert found.reason
    assert (found.confirmed is None) is not found.state.is_final


@given(observations, st.sampled_from([s for s in AppState if s not in FINAL_STATES]))
def test_verdict_is_not_final_while_yarn_runs_the_job(seen: JobStatus, state: AppState) -> None:
    if seen.app:
        assert not verdict(replace(seen, app=replace(seen.app, state=state))).state.is_final


def test_job_report_is_over_by_state() -> None:
    assert all(report(state).is_over for state in ("succeeded", "failed", "stopped"))
    assert not any(report(state).is_over for state in ("waiting", "running", "finishing"))


# --- what an observation knows --------------------------------------------------------------------


def container(instance: str | None, state: str) -> ObservedContainer:
    return ObservedContainer(f"container_{instance}", instance, ContainerState(state))


def service(*containers: ObservedContainer) -> ObservedService:
    component = ObservedComponent("worker", 3, containers)
    return ObservedService("mnist", "", ServiceState.STABLE, components=(component,))


def test_failed_before_bootstrap() -> None:
    listed = service(
        container("worker-0", "FAILED"),
        container("worker-1", "READY"),
        container("worker-2", "FAILED"),
        container(None, "FAILED"),
    )
    waiting = report("waiting", missing=["worker-1", "worker-2"])
    seen = JobStatus("mnist", "", app("RUNNING", "UNDEFINED"), listed, waiting)
    assert seen.failed_before_bootstrap == ("worker-2",)
    retried: dict[str, Any] = {"retries": {"max": 1}, "generation": 0, "generations": []}
    again = report("waiting", missing=["worker-2"], **retried)
    assert replace(seen, report=again).failed_before_bootstrap == (), "YARN replaces it"
    assert [c.instance for c in seen.containers] == ["worker-0", "worker-1", "worker-2", None]
    runs: dict[str, Any] = {"report": report("running", missing=["worker-2"])}
    for change in (runs, {"report": None}, {"service": None}):
        assert replace(seen, **change).failed_before_bootstrap == ()
    assert replace(seen, service=None).containers == ()


def test_lost_witness_of_a_retried_job_does_not_make_its_success_a_failure() -> None:
    seen = report(roles={"witness": {"wanted": 1, "arrived": 1, "failed": 1}})
    found = JobStatus("mnist", "application_1_1", app(final="FAILED"), None, seen, Evidence.READ)
    assert (found.verdict.state, found.verdict.confirmed) == (JobState.SUCCEEDED, False)
    assert "witness was lost or missed the end" in found.verdict.reason
    assert replace(found, report=report()).verdict.state is JobState.FAILED


def test_reason_of_a_job_that_was_stopped_twice_is_said_once() -> None:
    twice = "Stopped by user ann (auth:SIMPLE)" * 2
    status = JobStatus("mnist", "application_1_0001", app("FINISHED", "ENDED", twice))
    assert status.verdict.reason == "it was stopped: Stopped by user ann (auth:SIMPLE)"


def test_reason_of_a_stop_takes_time_in_proportion_to_the_diagnostics() -> None:
    # a search that looks at each prefix again would take hours
    for line in ("a" * 2_000_000 + "b", "ab" * 1_000_000, "a" * 1_000_000 + "b" + "a" * 1_000_000):
        status = JobStatus("mnist", "application_1_0001", app("KILLED", "KILLED", line))
        assert status.verdict.reason in (f"it was stopped: {line}", "it was stopped: ab")
