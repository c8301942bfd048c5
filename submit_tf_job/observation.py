"""What is known of a job at one moment, and the verdict that follows from it.

Success needs two witnesses: the ResourceManager's final status, and the outcome that the deciding task's bootstrap left in
`job-report.json`. One alone is not enough, because YARN has been seen to report SUCCEEDED for commands that never ran (an image whose
ENTRYPOINT swallows them, an environment too large to start a shell, `docker.inspect.max.retries=0`), and because a program's own
success says nothing where YARN failed the application.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from submit_tf_job import contract
from submit_tf_job.yarn.records import AppReport, AppState, ContainerState, FinalStatus, ObservedContainer, ObservedService, ServiceState

__all__ = ["Evidence", "Failure", "JobReport", "JobState", "Observation", "RoleCounts", "Verdict", "verdict"]


class JobState(str, Enum):
    """One word for where a job is."""

    PENDING = "PENDING"  # accepted; YARN has not started its ApplicationMaster
    STARTING = "STARTING"  # containers are being started, tasks are arriving
    RUNNING = "RUNNING"  # every task is there
    FINISHING = "FINISHING"  # the deciding task is done; others are given time to end
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    UNKNOWN = "UNKNOWN"  # YARN does not know any more

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED, JobState.UNKNOWN)


class Evidence(str, Enum):
    """Whether the deciding task's own report could be read."""

    READ = "read"
    MISSING = "missing"  # its logs can be read, and hold none
    UNREADABLE = "unreadable"  # the logs cannot be read, or not any more
    COLLECTED_SOON = "collected-soon"  # the job is over, and the cluster is still collecting its logs
    NONE_EXPECTED = "none-expected"  # the job runs without bootstrap, or is not ours


@dataclass(frozen=True)
class RoleCounts:
    """How many tasks of a role are where."""

    wanted: int
    arrived: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    ended: int = 0
    lost: int = 0
    restarts: int = 0


@dataclass(frozen=True)
class Failure:
    """The first task that failed."""

    task: str
    status: int | None
    reason: str
    message: str
    host: str | None = None
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobReport:
    """What the deciding task's bootstrap wrote about the whole job."""

    submission: str
    state: str
    wanted: int
    arrived: int
    missing: tuple[str, ...]
    roles: Mapping[str, RoleCounts]
    outcome_status: int | None
    first_failure: Failure | None
    warnings: tuple[str, ...]
    progress: Mapping[str, Any] | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def is_over(self) -> bool:
        """Whether it was written at the deciding task's end."""
        return self.state in ("succeeded", "failed", "stopped")

    @classmethod
    def parse(cls, content: bytes) -> JobReport | None:
        """Read a report; None where the bytes are not one (a copy taken while it was written, another program's file)."""
        try:
            data = json.loads(content, parse_float=_finite, parse_constant=_finite)
            if data["version"] != contract.REPORT_VERSION:
                return None
            outcome = data.get("outcome")
            return cls(
                submission=str(data["submission"]),
                state=str(data["state"]),
                wanted=int(data.get("wanted", 0)),
                arrived=int(data.get("arrived", 0)),
                missing=_texts(data.get("missing")),
                roles={str(name): _counts(value) for name, value in data.get("roles", {}).items()},
                outcome_status=_status(outcome["status"]) if isinstance(outcome, dict) else None,
                first_failure=_failure(data.get("first_failure")),
                warnings=_texts(data.get("warnings")),
                progress=data.get("progress") if isinstance(data.get("progress"), dict) else None,
                raw=data,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def _counts(value: Mapping[str, Any]) -> RoleCounts:
    names = ("wanted", "arrived", "running", "succeeded", "failed", "ended", "lost", "restarts")
    return RoleCounts(**{name: int(value.get(name, 0)) for name in names})


def _failure(value: Mapping[str, Any] | None) -> Failure | None:
    if not value:
        return None
    return Failure(
        task=str(value["task"]),
        status=_status(value.get("status")),
        reason=str(value.get("reason", "")),
        message=str(value.get("message", "")),
        host=str(value["host"]) if value.get("host") else None,
        last_lines=_texts(value.get("last_lines")),
    )


def _texts(items: Any) -> tuple[str, ...]:
    if items is not None and not isinstance(items, list):
        raise TypeError("no list")
    return tuple(str(item.get("text", item)) if isinstance(item, dict) else str(item) for item in items or ())


def _status(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError("no exit status")
    return value


def _finite(text: str) -> float:
    """Read a number that JSON can hold again: the report is passed on, and NaN is no JSON."""
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


@dataclass(frozen=True)
class Observation:
    """All that is known of a job at one moment.

    Attributes:
        name: The service's name.
        application_id: Its application.
        app: The ResourceManager's record, or None where it has none (any more).
        service: The services API's answer, or None where it could not be had.
        report: The deciding task's report as last read.
        evidence: Whether the report could be read.
        trouble: Why something could not be read at this moment, for the talk.
        foreign: Whether it is somebody else's, of whose tasks nothing can be learnt while it runs.
    """

    name: str
    application_id: str | None
    app: AppReport | None
    service: ObservedService | None = None
    report: JobReport | None = None
    evidence: Evidence = Evidence.UNREADABLE
    trouble: str = ""
    foreign: bool = False

    @property
    def containers(self) -> tuple[ObservedContainer, ...]:
        """All containers that the services API lists."""
        return tuple(c for component in (self.service.components if self.service else ()) for c in component.containers)

    @property
    def failed_before_bootstrap(self) -> tuple[str, ...]:
        """Tasks whose container failed although the deciding task never heard of them."""
        if self.report is None or self.report.state != "waiting":
            return ()
        missing = set(self.report.missing)
        return tuple(c.instance for c in self.containers if c.state is ContainerState.FAILED and c.instance and c.instance in missing)


@dataclass(frozen=True)
class Verdict:
    """Where a job is, and why.

    Attributes:
        state: One word.
        reason: One sentence; "" while all is well.
        confirmed: Whether both witnesses were heard; None while the job is not over.
        failure: The first cause, where a task failed.
        hint: What to do next, or "".
    """

    state: JobState
    reason: str = ""
    confirmed: bool | None = None
    failure: Failure | None = None
    hint: str = ""


def verdict(seen: Observation) -> Verdict:
    """Judge an observation; a pure function.

    The order of weight: the ResourceManager's final status, then the report; a disagreement is never success.
    """
    app = seen.app
    if app is None and seen.application_id is None and seen.service is not None and seen.service.state is not ServiceState.STOPPED:
        return Verdict(JobState.PENDING)  # it is accepted, and YARN has not said yet as which application
    if app is None:
        return Verdict(
            JobState.UNKNOWN,
            "the ResourceManager does not know the application any more (it was restarted without recovery, or keeps fewer finished ones)",
            confirmed=False,
        )
    if app.state is AppState.KILLED:
        return _stopped(seen, app)
    if app.state is AppState.FAILED:
        return _failed(seen, app)
    if app.state is not AppState.FINISHED:
        return Verdict(_running_state(seen, app))
    if app.final_status is FinalStatus.SUCCEEDED:
        return _yarn_says_succeeded(seen)
    if app.final_status is FinalStatus.FAILED:
        return _failed(seen, app)
    if app.final_status in (FinalStatus.ENDED, FinalStatus.KILLED):
        return _stopped(seen, app)
    return Verdict(JobState.UNKNOWN, f"the ResourceManager gives no final status (it says {app.final_status.value})", confirmed=False)


def _running_state(seen: Observation, app: AppReport) -> JobState:
    if app.state is not AppState.RUNNING:
        return JobState.PENDING if seen.report is None else _by_report(seen.report)
    if seen.foreign:
        return JobState.RUNNING
    return _by_report(seen.report) if seen.report else JobState.STARTING


def _by_report(report: JobReport) -> JobState:
    return {"waiting": JobState.STARTING, "running": JobState.RUNNING}.get(report.state, JobState.FINISHING)


def _last_word(seen: Observation) -> JobReport | None:
    """Return the report where it is the deciding task's last word: written at its end, or read after it."""
    report = seen.report
    return report if report is not None and (report.is_over or seen.evidence is Evidence.READ) else None


def _yarn_says_succeeded(seen: Observation) -> Verdict:
    report = _last_word(seen)
    if report is not None:
        if report.state == "succeeded" and report.first_failure is None and not report.outcome_status:
            return Verdict(JobState.SUCCEEDED, confirmed=True)
        said = _what_the_task_said(report)
        return Verdict(
            JobState.FAILED, f"YARN says SUCCEEDED, but {said}", confirmed=False, failure=report.first_failure, hint=SWALLOWED_HINT
        )
    if seen.evidence is Evidence.MISSING:
        return Verdict(
            JobState.FAILED,
            "YARN says SUCCEEDED, but the deciding task left no outcome: its command never ran",
            confirmed=False,
            hint=SWALLOWED_HINT,
        )
    if seen.evidence is Evidence.NONE_EXPECTED:
        return Verdict(JobState.SUCCEEDED, "YARN alone says so: without the bootstrap no task leaves an outcome", confirmed=False)
    return Verdict(
        JobState.SUCCEEDED, "YARN alone says so: the outcome that the deciding task left cannot be read any more", confirmed=False
    )


SWALLOWED_HINT = (
    "known causes: an image whose ENTRYPOINT does not run its arguments, docker.inspect.max.retries=0 in container-executor.cfg, "
    "a NodeManager that could not start the shell"
)


def _what_the_task_said(report: JobReport) -> str:
    if report.first_failure:
        return f"the task says: {report.first_failure.message}"
    if report.outcome_status:
        return f"the deciding task ended with exit status {report.outcome_status}"
    return f"the deciding task's last word was '{report.state}'"


def _failed(seen: Observation, app: AppReport) -> Verdict:
    report = _last_word(seen)
    if report is not None and report.first_failure is not None:
        return Verdict(JobState.FAILED, report.first_failure.message, confirmed=True, failure=report.first_failure)
    if report is not None and report.state == "succeeded":
        return Verdict(
            JobState.FAILED,
            "the deciding task says that it succeeded, but YARN says FAILED" + _diagnostics(app),
            confirmed=False,
            hint="look at the ApplicationMaster's log, and at what the job wrote, before you use it",
        )
    if report is not None and report.outcome_status:
        return Verdict(JobState.FAILED, f"the deciding task ended with exit status {report.outcome_status}", confirmed=True)
    if seen.evidence is Evidence.COLLECTED_SOON:
        why = "why is not known yet: the cluster is still collecting its logs"
        return Verdict(
            JobState.FAILED, f"it failed; {why}", confirmed=False, hint=f"submit_tf_job wait {seen.name} tells when they are there"
        )
    if app.state is not AppState.FINISHED:
        return Verdict(JobState.FAILED, "the application failed" + _diagnostics(app), confirmed=report is not None)
    return Verdict(
        JobState.FAILED,
        "the deciding task's container ended without leaving an outcome" + _diagnostics(app),
        confirmed=report is not None,
        hint=""
        if report or seen.evidence is Evidence.NONE_EXPECTED
        else "did it start at all? its image must have bash and Python 3.7 or later",
    )


def _stopped(seen: Observation, app: AppReport) -> Verdict:
    report = seen.report
    if report is not None and report.state == "failed" and report.first_failure is not None:
        return Verdict(JobState.FAILED, report.first_failure.message, confirmed=True, failure=report.first_failure)
    if "exceeded the lifetime" in app.diagnostics or "lifetime period" in app.diagnostics:
        return Verdict(JobState.STOPPED, "its lifetime was over, and YARN killed it", confirmed=True, hint="ask for a longer `lifetime`")
    first_line = app.diagnostics.strip().splitlines()[0] if app.diagnostics.strip() else "YARN does not say by whom"
    return Verdict(JobState.STOPPED, f"it was stopped: {first_line}", confirmed=True)


def _diagnostics(app: AppReport) -> str:
    """Quote the ResourceManager, where it says something that is about a failure (facts: verified-security-ha 9)."""
    lines = [line.strip() for line in app.diagnostics.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    lines = [line for line in lines if "Attempt recovered after RM restart" not in line]
    return f": {' '.join(lines)[:600]}" if lines else ""
