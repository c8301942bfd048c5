"""The status of a job at one moment, and the verdict that follows from it.

Success needs two sources: the ResourceManager's final status, and the outcome that the bootstrap of
the deciding task writes to `job-report.json`; docs/verdict.md lists the exceptions. YARN reports
SUCCEEDED for commands that never ran (an image whose ENTRYPOINT ignores its arguments, an
environment too large to start a shell, `docker.inspect.max.retries=0`), and a program that succeeds
may belong to an application that YARN failed.

These names tell apart the states in which a job has nearly, or only partly, ended:

    state.is_final                    the verdict never changes again
    report.is_over                    the report has the outcome
    report.deciding_task_left         the outcome is there, and the report does not change any more
    report.stopped_gracefully         `stop` gave the tasks time to save
    report.all_have_saved             all of them have ended in that time
    report_outlived_container         the report is the last one of a container that left no outcome
    held                              the job has failed, and its first failure's container stays
    application_left_over             the job is over, and its YARN application still runs
    tasks_still_wanted                the tasks for which YARN still wants a container
    start_overdue                     the deciding task got no container within `start_timeout`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.observed import (
    AppReport,
    AppState,
    ContainerState,
    FinalStatus,
    ObservedComponent,
    ObservedContainer,
    ObservedService,
    ServiceState,
)

if TYPE_CHECKING:
    from submit_tf_job.job_report import Failure, HeldContainer, JobReport
    from submit_tf_job.yarn.observed_cluster import AppAttempt

# in the diagnostics of each application that a ResourceManager has recovered (RMAppAttemptImpl)
RECOVERED = "Attempt recovered after RM restart"
# in the diagnostics of an application that a client killed because it could never start
GIVEN_UP = "submit_tf_job gave it up: "
# before the job's state, in the diagnostics of an application that a follower ended after its job
OVER = "submit_tf_job ended what was left of it after the job had "
ENDED = frozenset({ContainerState.SUCCEEDED, ContainerState.FAILED, ContainerState.STOPPED})


class JobState(str, Enum):
    """The state of a job."""

    PENDING = "PENDING"  # accepted; YARN has not started its ApplicationMaster
    STARTING = "STARTING"  # containers start, tasks report to the deciding task
    RUNNING = "RUNNING"  # all tasks run
    FINISHING = "FINISHING"  # the deciding task has ended; the others have a grace period
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    UNKNOWN = "UNKNOWN"  # YARN has no record of the job's end

    @property
    def is_final(self) -> bool:
        """Whether the state never changes again."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED, JobState.UNKNOWN)


class Evidence(str, Enum):
    """Whether the deciding task's report was read, and if not, why."""

    READ = "read"
    MISSING = "missing"  # its logs can be read and contain no report
    UNREADABLE = "unreadable"  # the logs were not collected, are deleted, or cannot be read
    # the job has ended, and the cluster is still collecting its logs
    COLLECTED_SOON = "collected-soon"
    OUT_OF_REACH = "out-of-reach"  # the file system that contains the logs does not respond


# Logs are collected 2 to 35 s after the end of an application; after this time they count as lost,
# because the cluster waits for a node that is not in service any more.
COLLECTED_WITHIN_S = 180.0
FROZEN_S = (
    120.0  # the age of the report at the end of a job that shows that it could not be written
)
AWAITED = (Evidence.COLLECTED_SOON, Evidence.OUT_OF_REACH)  # the report may be readable later


def deciding_task_of(service: ObservedService) -> str | None:
    """Return the task whose end also ends the job; None if the service does not name it."""
    return service.properties.get(service_properties.DECIDING)


def deciding_role_of(service: ObservedService) -> str | None:
    """Return the role of the deciding task; None if the service does not name that task."""
    return (deciding_task_of(service) or "").rpartition("-")[0] or None


@dataclass(frozen=True)
class JobStatus:
    """The status of a job at one moment, and the verdict that follows from it.

    Attributes:
        name: The job's name.
        application_id: The application of the run.
        app: The ResourceManager's record, or None if it has none (any more).
        service: The services API's response, or None if it was not requested or could not be read.
        report: The deciding task's report as last read; None if none was read.
        evidence: Whether the report could be read.
        trouble: Why something could not be read this time, as a sentence for the user.
        of_other_user: Whether the job belongs to another user; then its tasks cannot be read while
            it runs.
        attempts: The attempts of the ApplicationMaster, if they were requested.
        report_outlived_container: Whether the report was written by a container that has ended
            without an outcome.
        recorded_verdict: A verdict that replaces the one that follows from the other values: of a
            run that only its record knows, or that was just ended because it could never start;
            else None.
        run: The run's name, which is also the name of its YARN service.
        others: Names of the job's other live runs.
        lifetime_asked_s: The `lifetime` in seconds with which the job was submitted, 0 for none;
            None if it is not known, or was not read because the job was not ended by its lifetime.
        node_pages: The web address of each node, by its name; {} if they were not requested.
    """

    name: str
    application_id: str
    app: AppReport | None
    service: ObservedService | None = None
    report: JobReport | None = None
    evidence: Evidence = Evidence.UNREADABLE
    trouble: str = ""
    of_other_user: bool = False
    attempts: tuple[AppAttempt, ...] = ()
    report_outlived_container: bool = False
    recorded_verdict: Verdict | None = None
    run: str = ""
    others: tuple[str, ...] = ()
    lifetime_asked_s: int | None = None
    node_pages: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def verdict(self) -> Verdict:
        """The job's state and the reason for it."""
        return self.recorded_verdict or verdict(self)

    @property
    def state(self) -> JobState:
        """The verdict's state."""
        return self.verdict.state

    @property
    def components(self) -> tuple[ObservedComponent, ...]:
        """The components that the services API lists."""
        if self.service is None:
            return ()
        return self.service.components

    @property
    def containers(self) -> tuple[ObservedContainer, ...]:
        """All containers that the services API lists."""
        return tuple(c for component in self.components for c in component.containers)

    @property
    def deciding_task(self) -> str | None:
        """The task whose end also ends the job; None if the service could not be read, or does not
        name it.
        """
        return deciding_task_of(self.service) if self.service else None

    @cached_property
    def report_by_yarns_clock(self) -> JobReport | None:
        """The report with its start, end, generations and events by the ResourceManager's clock
        (`JobReport.moved`); unchanged unless the clocks evidently differ by more than a minute.
        None if there is no report.
        """
        report, app = self.report, self.app
        behind_s = report_behind_s(report, app) if report and app else 0.0
        return report.moved(behind_s) if report and behind_s else report

    @property
    def held(self) -> HeldContainer | None:
        """The container that is kept after the job has failed (`hold_on_failure`); for YARN the job
        is still running. None if no container is kept, or the application has ended.
        """
        live = self.app is not None and not self.app.ended
        return self.report.held if live and self.report else None

    @property
    def resubmission(self) -> service_properties.Resubmission | None:
        """How often the job was submitted again by `retries.memory`; None if it was not, or if its
        service cannot be read.
        """
        stated = self.service.properties if self.service else {}
        if service_properties.RESUBMISSION not in stated:
            return None
        found = service_properties.Resubmission.of(stated)
        return found if found.number else None

    @property
    def start_timeout_s(self) -> float:
        """The job's `start_timeout` in seconds, as its service states it; 0 if it is not known."""
        if self.service is None:
            return 0.0
        limit = self.service.properties.get(service_properties.START_TIMEOUT, "")
        return float(limit) if limit.isdecimal() else 0.0

    @property
    def start_overdue(self) -> str | None:
        """A sentence, if the deciding task has had no container for longer than `start_timeout`. A
        deciding task that runs enforces this deadline itself. The sentence does not change while
        the job waits.

        None if there is a container, or no `start_timeout` is known; and if it is uncertain: the
        ApplicationMaster was restarted or did not respond, or the job belongs to another user.
        """
        app, service = self.app, self.service
        if app is None or service is None or self.report or self.trouble or self.of_other_user:
            return None
        if app.state is not AppState.RUNNING or app.attempt != 1:
            return None
        if not service.components or not app.launch_ms:
            return None
        task, limit_s = self.deciding_task, self.start_timeout_s
        if task is None or not limit_s:
            return None
        # all times are from the cluster's clock
        launched_ms = app.launch_ms - (app.started_ms or app.launch_ms)
        waited_s = ((app.elapsed_ms or 0) - launched_ms) / 1000
        has_container = any(c.instance == task and c.id for c in self.containers)
        if has_container or waited_s <= limit_s:
            return None
        return f"{task} has had no container for longer than start_timeout ({limit_s:g} s)"

    @property
    def application_left_over(self) -> bool:
        """Whether the job is over, but its YARN application has not ended
        (docs/internals/endings.md). False for a job of another user.
        """
        app = self.app
        if app is None or app.ended or self.of_other_user:
            return False
        if self.report is not None and self.report.deciding_task_left:
            return True
        if self.trouble or not self.components:
            return False
        # the deciding task may have left no outcome, and with Hadoop 3.1 and 3.2 an application
        # continues after the end of that task and of the witness
        final = [c for c in self.components if c.restart_policy == "NEVER"]
        ended = {c.instance for one in final for c in one.containers if c.state in ENDED}
        if self.deciding_task in ended:
            return True
        lives = {c.instance for c in self.containers if c.state not in ENDED}
        return contract.WITNESS in ended and self.deciding_task not in lives

    @property
    def tasks_still_wanted(self) -> tuple[str, ...]:
        """The tasks for which YARN still wants a container. A task that had a container and will
        not be started again is not among them, even if the ApplicationMaster no longer lists it.
        """
        found = []
        tasks = self.report.tasks if self.report else ()
        came = {one.task for one in tasks if one.state not in ("absent", "left-out")}
        for component in self.components:
            counts = self.report and self.report.roles.get(component.name)
            never = component.restart_policy == "NEVER"
            if never and counts and counts.arrived >= (component.number_of_containers or 0):
                continue
            done = {
                c.instance
                for c in component.containers
                if c.state is not ContainerState.FAILED or never
            } | (came if never else set())
            names = (f"{component.name}-{i}" for i in range(component.number_of_containers or 0))
            found += [name for name in names if name not in done]
        return tuple(found)

    @property
    def all_containers_run(self) -> bool:
        """Whether YARN lists a running container for each task that has not ended."""
        if self.service is None:
            return False
        live = [c for c in self.containers if c.state not in ENDED]
        ready = bool(live) and all(c.state is ContainerState.READY for c in live)
        return self.service.state is ServiceState.STABLE or (ready and not self.tasks_still_wanted)

    @property
    def failed_before_bootstrap(self) -> tuple[str, ...]:
        """The tasks whose container failed before the bootstrap reported to the deciding task.

        Empty before the first report and once the start no longer waits for tasks; also for a job
        with `retries`, for which YARN starts another container.
        """
        report = self.report
        if report is None or report.state != "waiting" or report.retried:
            return ()
        missing = set(report.missing)
        return tuple(
            c.instance
            for c in self.containers
            if c.state is ContainerState.FAILED and c.instance and c.instance in missing
        )


@dataclass(frozen=True)
class Verdict:
    """The state of a job, and the reason for it.

    Attributes:
        state: The state.
        reason: One sentence; "" if no problem was found.
        confirmed: Whether the state is certain. False if YARN's final status and the deciding
            task's report contradict each other, or if one of the two is missing that could change
            the state; None while the job is not over.
        failure: The first task that failed, or None.
        hint: The next step, or "".
    """

    state: JobState
    reason: str = ""
    confirmed: bool | None = None
    failure: Failure | None = None
    hint: str = ""


def verdict(seen: JobStatus) -> Verdict:
    """Return the verdict for a status; a pure function.

    While the application has not ended, the state follows from the report and YARN's lists of
    containers. After that, a job has succeeded if the ResourceManager's final status and the
    deciding task's report both say so; if they disagree, it has not succeeded. Exceptions: an
    application that was killed or stopped after the report had an outcome has that outcome; and a
    success that is not confirmed is returned if only the witness was lost, or if YARN reports
    success and the report cannot be read or was not written to the end. docs/verdict.md has all
    cases.
    """
    app = seen.app
    if app is None:
        return Verdict(
            JobState.UNKNOWN,
            "the ResourceManager does not know the application any more (it was restarted "
            "without recovery, or keeps fewer finished ones)",
            confirmed=False,
        )
    if app.state is AppState.KILLED:
        return _stopped_verdict(seen, app)
    if app.state is AppState.FAILED:
        return _failed_verdict(seen, app)
    if app.state is not AppState.FINISHED:
        return _not_over(seen, app)
    if app.final_status is FinalStatus.SUCCEEDED:
        return _succeeded_by_yarn(seen)
    if app.final_status is FinalStatus.FAILED:
        return _failed_verdict(seen, app)
    if app.final_status in (FinalStatus.ENDED, FinalStatus.KILLED):
        return _stopped_verdict(seen, app)
    return Verdict(
        JobState.UNKNOWN,
        f"the ResourceManager reports no final status ({app.final_status.value})",
        confirmed=False,
    )


# What runs while there is no ApplicationMaster, by `AppReport.tasks_live`.
_GO_ON = {
    True: "its tasks go on",
    False: "no task has a container",
    None: "tasks that run, if any, go on",
}


def _not_over(seen: JobStatus, app: AppReport) -> Verdict:
    state = _running_state(seen, app)
    if seen.held and seen.report and seen.report.first_failure:
        # the deciding task has decided, and YARN's end can only be another failure
        failure = seen.report.first_failure
        return Verdict(JobState.FAILED, failure.message, confirmed=False, failure=failure)
    if seen.application_left_over and (
        seen.tasks_still_wanted or not seen.report_outlived_container
    ):
        return _left_over(seen)
    if seen.report_outlived_container and seen.report:
        return Verdict(
            JobState.STARTING if seen.report.retried else JobState.FINISHING,
            f"the container of {seen.deciding_task} has ended without a last word, and YARN has "
            "no other for it",
        )
    if app.state is AppState.ACCEPTED and (app.attempt or 1) > 1:
        return Verdict(
            JobState.STARTING if state is JobState.PENDING else state,
            f"its ApplicationMaster has ended, and YARN starts it again; {_GO_ON[app.tasks_live]}",
        )
    if app.lists_anew:
        known = seen.report or seen.containers or seen.of_other_user or app.tasks_live is False
        if not known:
            return Verdict(
                state,
                "after a restart its ApplicationMaster does not list its containers yet; "
                f"{_GO_ON[app.tasks_live]}",
            )
    overdue = seen.start_overdue
    if overdue is None:
        return Verdict(state, "")
    stop = f"stop it (submit_tf_job stop {seen.name}), or let it wait for room"
    return Verdict(state, overdue, hint=f"nothing has started yet: {stop}")


def _left_over(seen: JobStatus) -> Verdict:
    wanted = seen.tasks_still_wanted
    if not wanted:
        return Verdict(JobState.FINISHING, "")
    some = ", ".join(wanted[:3]) + (f" and {len(wanted) - 3} more" if wanted[3:] else "")
    return Verdict(
        JobState.FINISHING,
        f"it is over; YARN still wants a container for {some}",
        hint=f"submit_tf_job wait {seen.name} ends the application a minute later, and returns "
        "the verdict",
    )


def _running_state(seen: JobStatus, app: AppReport) -> JobState:
    running = app.state is AppState.RUNNING
    if running and seen.of_other_user:
        return JobState.RUNNING
    if seen.report:
        return _by_report(seen.report)
    if running and seen.trouble and seen.all_containers_run:
        return JobState.RUNNING  # their node does not answer
    return JobState.STARTING if running else JobState.PENDING


def _by_report(report: JobReport) -> JobState:
    begun = {
        "waiting": JobState.STARTING,
        "preparing": JobState.STARTING,
        "running": JobState.RUNNING,
    }
    return begun.get(report.state, JobState.FINISHING)


def _last_report(seen: JobStatus) -> JobReport | None:
    """Return the deciding task's report if it is the final one, that is, if it was written at the
    task's end or read after it; else None.
    """
    if seen.evidence is Evidence.READ or (seen.report and seen.report.is_over):
        return seen.report
    return None


def _reports_success(report: JobReport | None) -> bool:
    return (
        report is not None
        and report.state == "succeeded"
        and report.first_failure is None
        and not report.outcome_status
    )


def _succeeded_by_yarn(seen: JobStatus) -> Verdict:
    report = _last_report(seen)
    if _reports_success(report):
        return Verdict(JobState.SUCCEEDED, confirmed=True)
    if seen.evidence is Evidence.COLLECTED_SOON:
        # The job has ended, but the verdict may still become FAILED; SUCCEEDED must never change.
        return Verdict(
            JobState.FINISHING,
            "YARN reports SUCCEEDED; the deciding task's outcome is not known until the "
            "cluster has collected its logs",
            hint=_wait_hint(seen),
        )
    if report is not None and _has_frozen(report, seen.app):
        return Verdict(
            JobState.SUCCEEDED,
            "Not confirmed by the deciding task: its report was not written to the end "
            f"(its last word is '{report.state}')",
            confirmed=False,
            hint="was the disk of its logs full? its warnings and its log say so",
        )
    if report is not None:
        said = _outcome_text(report)
        return Verdict(
            JobState.FAILED,
            f"YARN reports SUCCEEDED, but {said}",
            confirmed=False,
            failure=report.first_failure,
            hint=SWALLOWED_HINT,
        )
    if seen.evidence is Evidence.MISSING:
        return Verdict(
            JobState.FAILED,
            "YARN reports SUCCEEDED, but the deciding task left no outcome: its command never ran",
            confirmed=False,
            hint=SWALLOWED_HINT,
        )
    if seen.evidence is Evidence.OUT_OF_REACH:
        why = "the file system that holds its outcome does not answer"
        return Verdict(
            JobState.SUCCEEDED,
            f"Not confirmed by the deciding task: {why}",
            confirmed=False,
            hint=_later_hint(seen),
        )
    return Verdict(
        JobState.SUCCEEDED,
        "Not confirmed by the deciding task: its outcome cannot be read",
        confirmed=False,
    )


_CLOCKS_DIFFER_S = 60.0  # at least, if times of two clocks are to show it


def report_behind_s(report: JobReport, app: AppReport) -> float:
    """Return by how many seconds, at least, the clock of the deciding task's node is behind the
    ResourceManager's; negative if it is ahead. 0 unless the times show it: a bootstrap starts after
    the ApplicationMaster, and writes nothing after the application's end.
    """
    accepted_ms = app.started_ms or 0
    # of a later ApplicationMaster, earlier tasks may have gone on
    began_s = max(accepted_ms, (app.launch_ms or 0) if app.attempt in (None, 1) else 0) / 1000
    if not accepted_ms or report.started_at is None:
        return 0.0
    behind_s = began_s - report.started_at
    if behind_s > _CLOCKS_DIFFER_S:
        return behind_s
    last = report.ended_at or report.updated_at
    now_ms = app.finished_ms or (None if app.elapsed_ms is None else accepted_ms + app.elapsed_ms)
    ahead_s = last - now_ms / 1000 if last is not None and now_ms is not None else 0.0
    return -ahead_s if ahead_s > _CLOCKS_DIFFER_S else 0.0


def _has_frozen(report: JobReport, app: AppReport | None) -> bool:
    """Return whether the report was no longer being written when the job ended; a running task
    writes it at least every 30 s (container/job_report.py). The clocks of a node and of the
    ResourceManager may differ a little.
    """
    if report.is_over or report.first_failure or report.outcome_status or not app:
        return False
    if report.updated_at is None or not app.finished_ms:
        return False
    return app.finished_ms / 1000 - report.updated_at - report_behind_s(report, app) > FROZEN_S


def _wait_hint(seen: JobStatus) -> str:
    return f"submit_tf_job wait {seen.name} returns the verdict once the logs are collected"


def _later_hint(seen: JobStatus) -> str:
    return f"submit_tf_job status {seen.name} reads it once the file system answers"


SWALLOWED_HINT = (
    "known causes: an image whose ENTRYPOINT does not run its arguments, "
    "docker.inspect.max.retries=0 in container-executor.cfg, "
    "a NodeManager that could not start the shell"
)


_NEVER_STARTED_HINT = "did it start at all? its image must have bash and Python 3.6 or later"


def _outcome_text(report: JobReport) -> str:
    if report.first_failure:
        return f"the task reports: {report.first_failure.message}"
    if report.outcome_status:
        return f"the deciding task ended with exit status {report.outcome_status}"
    return f"the deciding task's last word was '{report.state}'"


def _failed_verdict(seen: JobStatus, app: AppReport) -> Verdict:
    report = _last_report(seen)
    if report is not None and report.first_failure is not None:
        return Verdict(
            JobState.FAILED,
            report.first_failure.message,
            confirmed=True,
            failure=report.first_failure,
        )
    if report is not None and report.state == "stopped" and report.stopped_gracefully:
        return _saved_and_ended(report)
    if report is not None and report.state == "succeeded" and report.has_witness:
        return Verdict(
            JobState.SUCCEEDED,
            f"YARN reports FAILED because {contract.WITNESS_ROLE} was lost or missed the end; the "
            "deciding task reports success",
            confirmed=False,
        )
    if report is not None and report.state == "succeeded":
        return Verdict(
            JobState.FAILED,
            "the deciding task reports success, but YARN reports FAILED"
            + _failure_diagnostics(app),
            confirmed=False,
            hint="look at the ApplicationMaster's log, and at what the job wrote, before you "
            "use it",
        )
    if report is not None and report.outcome_status:
        return Verdict(
            JobState.FAILED,
            f"the deciding task ended with exit status {report.outcome_status}",
            confirmed=True,
        )
    later, hint = "", ""
    if seen.evidence is Evidence.COLLECTED_SOON:
        later = "; the cluster is still collecting the logs of its tasks"
        hint = _wait_hint(seen)
    elif app.state is not AppState.FINISHED:
        why = "the application failed" + _failure_diagnostics(app)
        return Verdict(JobState.FAILED, why, confirmed=report is not None)
    elif report is None and seen.evidence is Evidence.OUT_OF_REACH:
        later = "; the file system that holds its outcome does not answer"
        hint = _later_hint(seen)
    elif report is None and seen.evidence is Evidence.UNREADABLE:
        later = "; the outcome that the deciding task left cannot be read any more"
        hint = _NEVER_STARTED_HINT
    if later:
        why = f"YARN reports FAILED{_failure_diagnostics(app)}{later}"
        return Verdict(JobState.FAILED, why, confirmed=False, hint=hint)
    return Verdict(
        JobState.FAILED,
        "the deciding task's container ended without leaving an outcome"
        + _failure_diagnostics(app),
        confirmed=report is not None,
        hint="" if report else _NEVER_STARTED_HINT,
    )


def given_up(reason: str) -> Verdict:
    """Return the verdict for a job that a client ended because it could never start.

    Args:
        reason: What the client wrote into the application's diagnostics, after `GIVEN_UP`. An end
            of the form ` (next: …)` becomes the hint, unless the bootstrap of a task never began:
            that has a hint of its own.
    """
    hint = "ask for less, or wait longer (`start_timeout`)"
    if " (next: " in reason and reason.endswith(")"):
        reason, _, hint = reason[:-1].rpartition(" (next: ")
    if "before its bootstrap" in reason:
        hint = "does its image have bash and Python? is each of its mounts there on every node?"
    return Verdict(JobState.FAILED, reason, confirmed=True, hint=hint)


def _stopped_verdict(seen: JobStatus, app: AppReport) -> Verdict:
    report = seen.report
    if report is not None and report.state == "failed" and report.first_failure is not None:
        return Verdict(
            JobState.FAILED,
            report.first_failure.message,
            confirmed=True,
            failure=report.first_failure,
        )
    if _reports_success(report):
        return Verdict(JobState.SUCCEEDED, confirmed=True)
    for word, state in (("succeeded", JobState.SUCCEEDED), ("failed", JobState.FAILED)):
        if OVER + word in app.diagnostics:
            why = "a follower read that, and then ended the application; its report is gone"
            return Verdict(state, f"The job had {word}: {why}", confirmed=False)
    if OVER + "stopped" in app.diagnostics:
        if report is not None and report.stopped_gracefully:
            return _saved_and_ended(report)
        why = "a follower read that, and then ended the application"
        return Verdict(JobState.STOPPED, f"it was stopped: {why}", confirmed=report is not None)
    if GIVEN_UP in app.diagnostics:
        return given_up(app.diagnostics.partition(GIVEN_UP)[2].strip())
    if app.outlived_lifetime:
        saved = report is not None and report.stopped_gracefully
        saving = "; its tasks had `stop_grace` to save before" if saved else ""
        return Verdict(
            JobState.STOPPED,
            f"its lifetime was over, and YARN killed it{saving}{_limit_of_queue(seen, app)}",
            confirmed=True,
            hint=_lifetime_hint(seen, app),
        )
    # the ResourceManager joins diagnostics without a blank
    said = app.diagnostics.replace(RECOVERED, "").strip()
    first_line = next(iter(said.splitlines()), "YARN does not report by whom")
    # of two stops the ResourceManager writes the same sentence twice, without a blank
    first_line = first_line[: (first_line * 2).find(first_line, 1)]
    # A task may have failed before; once its logs can be read, the verdict may become FAILED.
    unheard = report is None and seen.evidence in (Evidence.COLLECTED_SOON, Evidence.OUT_OF_REACH)
    return Verdict(JobState.STOPPED, f"it was stopped: {first_line}", confirmed=not unheard)


def _saved_and_ended(report: JobReport) -> Verdict:
    """Return the verdict of a job whose tasks saved and ended before YARN stopped it."""
    if report.lifetime_ended:
        reason = "its lifetime was over but for `stop_grace`, in which its tasks saved and ended"
        return Verdict(JobState.STOPPED, reason, confirmed=True, hint=_LONGER_LIFETIME)
    reason = "it was stopped, with time to save; its tasks ended before YARN stopped it"
    return Verdict(JobState.STOPPED, reason, confirmed=True)


_OTHER_QUEUE = (
    "choose another `queue`, or ask for a larger maximum-application-lifetime of this one"
)
_LONGER_LIFETIME = f"ask for a longer `lifetime`; where its queue limits that, {_OTHER_QUEUE}"
_LIFETIME_LATE_S = 15  # YARN looks every 3 s whether a lifetime is over


def _is_cut_by_queue(seen: JobStatus, app: AppReport) -> bool | None:
    """Return whether a job's queue limited its lifetime and so ended it, because the job asked for
    a longer lifetime or for none; None if that is not known.
    """
    if seen.lifetime_asked_s is None or app.elapsed_ms is None:
        return None
    asked_s = seen.lifetime_asked_s
    return not asked_s or app.elapsed_ms / 1000 < asked_s - _LIFETIME_LATE_S


def _limit_of_queue(seen: JobStatus, app: AppReport) -> str:
    if not _is_cut_by_queue(seen, app):
        return ""
    asked = f"{seen.lifetime_asked_s} s" if seen.lifetime_asked_s else "none"
    lived = round((app.elapsed_ms or 0) / 1000)
    return f": queue {app.queue} ended it after {lived} s, and it asked for {asked}"


def _lifetime_hint(seen: JobStatus, app: AppReport) -> str:
    cut = _is_cut_by_queue(seen, app)
    if cut is None:
        return _LONGER_LIFETIME
    if cut and not seen.lifetime_asked_s:
        return f"ask for a `lifetime`; where its queue allows no longer one, {_OTHER_QUEUE}"
    return _OTHER_QUEUE if cut else "ask for a longer `lifetime`"


def _failure_diagnostics(app: AppReport) -> str:
    """Return the ResourceManager's diagnostics as the end of a sentence (": …"), without Java's
    stack trace; "" if there are none (hadoop-facts.md#diagnostics-of-an-application).
    """
    lines = [
        line.strip()
        for line in app.diagnostics.splitlines()
        if line.strip() and not line.lstrip().startswith("at ")
    ]
    text = " ".join(lines).replace(RECOVERED, "").strip()
    return text and f": {text[:600]}"
