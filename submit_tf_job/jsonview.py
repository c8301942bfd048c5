"""The JSON of a job, defined in one place: what `-o json` prints, what the gateway sends, and what
its OpenAPI document describes. docs/json.md tells what each field means.

Each class is one object; its fields have the names, the order and the types of the JSON.
Dataclasses of other modules that are printed as they are (`_OBSERVED`) have no class here.
`schemas` makes the schemas of both.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from submit_tf_job.diagnose.cause import Cause, CauseEvidence, Consequence
from submit_tf_job.diagnose.room import ClusterRoom, JobStart, LabelRoom, NodeRoom, QueueRoom
from submit_tf_job.diagnose.since_success import NewValue, SinceSuccess
from submit_tf_job.job_report import (
    Awaited,
    Checkpoint,
    Failure,
    Generation,
    HeldContainer,
    Retried,
    RoleCounts,
    Standstill,
    StoredOutput,
)
from submit_tf_job.jobspec.job import Remark
from submit_tf_job.json_values import FORMAT_VERSION, MOMENT, document, instant, plain, shown_fields
from submit_tf_job.observation import JobState
from submit_tf_job.operations import description, task_links, timeline
from submit_tf_job.usage_report import (
    Advice,
    Amounts,
    Asked,
    GpuUse,
    Point,
    RoleAmounts,
    RoleUse,
    Series,
    Spread,
    TaskUse,
    UsageReport,
)
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.observed import Charge

if TYPE_CHECKING:
    from typing_extensions import Self

    from submit_tf_job.job_report import JobReport
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.comparison import Comparison
    from submit_tf_job.operations.explain import Why
    from submit_tf_job.operations.history import RecordedRun
    from submit_tf_job.operations.listing import ListedJob
    from submit_tf_job.operations.submit import Submission
    from submit_tf_job.operations.usage import JobUse


Instant = Annotated[str, ("format", "date-time")]
Run = Annotated[str, ("description", "Name of the run, which is that of its YARN service.")]
Free = Mapping[str, Any]
Names = tuple[str, ...]

# what is shown of the cause of a wait: the other fields of a cause are about a task that failed
_OF_A_WAIT = ("code", "sentence", "hint", "facts")


# --- the objects ---


@dataclass(frozen=True, kw_only=True)
class Json:
    """Base class of the JSON objects that commands print and the gateway sends; a subclass is one
    kind of object.
    """

    @classmethod
    def of(cls, value: Any, /, **given: Any) -> Self:
        """Return the JSON object that shows a value, such as a dataclass.

        Each field without a default gets the keyword argument with its name, or else the attribute
        of `value` with its name. A field `x_at` gets the attribute `x_ms` as a date and time.
        """
        names = [item.name for item in fields(cls) if item.default is MISSING]
        own = {
            name: instant(getattr(value, name.removesuffix("_at") + MOMENT))
            if name.endswith("_at")
            else getattr(value, name)
            for name in names
            if name not in given
        }
        return cls(**own, **given)


@dataclass(frozen=True, kw_only=True)
class ProgressJson(Json):
    """The progress as a training program has written it; any field may be absent, and there may be
    others.
    """

    step: float | None = field(metadata={"optional": True})
    total: float | None = field(metadata={"optional": True})
    metrics: Free = field(metadata={"optional": True})


@dataclass(frozen=True, kw_only=True)
class TasksJson(Json):
    """How many tasks have reported to the deciding task; the first that are missing, and those
    whose names DNS does not know.
    """

    wanted: int
    arrived: int
    missing: Names
    unnamed: Names


@dataclass(frozen=True, kw_only=True)
class YarnStateJson(Json):
    """The state of the application at the ResourceManager."""

    state: str
    final_status: str
    diagnostics: str


@dataclass(frozen=True, kw_only=True)
class AttemptJson(Json):
    """One attempt of the ApplicationMaster."""

    id: str | None
    state: str | None
    node: str | None
    started_at: Instant | None
    finished_at: Instant | None


@dataclass(frozen=True, kw_only=True)
class PagesJson(Json):
    """The addresses of YARN's own web pages about the application."""

    application: str | None
    am_logs: str | None


@dataclass(frozen=True, kw_only=True)
class JobJson(Json):
    """The status of a job at one moment, and why it waits or failed."""

    kind: str = "Job"
    format: Literal[1] = FORMAT_VERSION
    name: str
    run: Run
    application_id: str | None
    user: str | None
    queue: str | None
    state: JobState
    reason: str
    confirmed: bool | None
    hint: str
    failure: Failure | None
    root_cause: Cause | None
    pending: tuple[Annotated[Free, "PendingCause"], ...]
    tasks: TasksJson | None
    roles: Mapping[str, RoleCounts]
    progress: Annotated[Free | None, ProgressJson]
    standstill: Standstill | None
    awaited: Awaited | None
    checkpoint: Checkpoint | None
    held: HeldContainer | None
    retries: Retried | None
    warnings: Names
    resubmission: service_properties.Resubmission | None
    evidence: str
    yarn: YarnStateJson | None
    links: tuple[task_links.Link, ...]
    outputs: tuple[StoredOutput, ...]
    started_at: Instant | None
    finished_at: Instant | None


@dataclass(frozen=True, kw_only=True)
class JobDescriptionJson(description.Details, JobJson):
    """The status of a job, with its tasks, limits and timeline."""

    kind: str = "JobDescription"
    attempts: tuple[AttemptJson, ...]
    pages: PagesJson


@dataclass(frozen=True, kw_only=True)
class ListedJobJson(Json):
    """One job of a list: what the ResourceManager knows of it."""

    kind: str = "ListedJob"
    format: Literal[1] = FORMAT_VERSION
    name: str
    run: Run
    application_id: str
    state: JobState
    user: str | None
    queue: str | None
    submitted_at: Instant | None
    finished_at: Instant | None
    elapsed_s: int | None
    containers: int | None
    memory_mib: int | None
    runs: Annotated[
        int,
        (
            "description",
            "How many runs of the job the ResourceManager lists; this is the newest live one, or "
            "if none lives the newest.",
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class WholeListJson(Json):
    """All selected jobs, as `list -o json` prints them."""

    kind: str = "JobList"
    format: Literal[1] = FORMAT_VERSION
    jobs: tuple[ListedJobJson, ...]


@dataclass(frozen=True, kw_only=True)
class JobListJson(WholeListJson):
    """One page of the selected jobs, as the gateway sends it."""

    next_cursor: Annotated[
        str | None, ("description", "`cursor` of the next page; null on the last.")
    ]
    caller: Annotated[str, ("description", "The caller: only jobs of this user are accessible.")]


@dataclass(frozen=True, kw_only=True)
class RunRecordJson(Json):
    """The record of one run, with its state, duration, metrics and outputs."""

    kind: str = "RunRecord"
    format: Literal[1] = FORMAT_VERSION
    name: str
    run: Run
    application_id: str
    user: str
    state: JobState
    duration_s: int | None
    metrics: Free
    outputs: tuple[StoredOutput, ...]
    submission: Free
    end: Free | None


@dataclass(frozen=True, kw_only=True)
class RunHistoryJson(Json):
    """The records of several runs."""

    kind: str = "RunHistory"
    format: Literal[1] = FORMAT_VERSION
    runs: tuple[RunRecordJson, ...]


@dataclass(frozen=True, kw_only=True)
class DifferenceJson(Json):
    """A key of the job spec, argument, variable, file, package or image that is not the same in all
    compared runs.
    """

    kind: Literal["key", "argument", "variable", "file", "package", "image"]
    name: str
    role: str
    label: str


@dataclass(frozen=True, kw_only=True)
class ComparedRunJson(Json):
    """One of the compared runs: its values of all that differs, and its results."""

    name: str
    run: Run
    application_id: str
    state: JobState
    submitted_at: Instant | None
    duration_s: int | None
    values: Free
    lines: Free
    metrics: Free
    peak_memory_bytes: Mapping[str, int]
    outputs: tuple[StoredOutput, ...]


@dataclass(frozen=True, kw_only=True)
class ComparisonJson(Json):
    """The comparison of several runs."""

    kind: str = "Comparison"
    format: Literal[1] = FORMAT_VERSION
    differences: tuple[DifferenceJson, ...]
    runs: tuple[ComparedRunJson, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterRoomJson(Json):
    """The free capacity of a cluster."""

    kind: str = "ClusterRoom"
    format: Literal[1] = FORMAT_VERSION
    queues: tuple[QueueRoom, ...]
    labels: tuple[LabelRoom, ...]
    nodes: tuple[NodeRoom, ...]
    start: JobStart | None


@dataclass(frozen=True, kw_only=True)
class SubmissionJson(Json):
    """The result of a submission."""

    kind: str = "Submission"
    format: Literal[1] = FORMAT_VERSION
    name: str
    run: Run
    application_id: str
    submission: Annotated[str, ("description", "The idempotency key.")]
    adopted: Annotated[bool, ("description", "Whether the run existed already.")]
    warnings: Names
    remarks: Annotated[
        tuple[Remark, ...],
        ("description", "What did not carry over from a file of another system."),
    ]


@dataclass(frozen=True, kw_only=True)
class WhyJson(Json):
    """Why a job waits or failed, and what is new since a run of it succeeded."""

    kind: str = "Why"
    format: Literal[1] = FORMAT_VERSION
    name: str
    run: Run
    application_id: str | None
    state: JobState
    reason: str
    root_cause: Cause | None
    pending: tuple[Annotated[Free, "PendingCause"], ...]
    since_success: SinceSuccess | None


@dataclass(frozen=True, kw_only=True)
class DeletionJson(Json):
    """The result of a deletion."""

    kind: str = "Deletion"
    format: Literal[1] = FORMAT_VERSION
    job: str
    deleted: bool
    runs: Names


@dataclass(frozen=True, kw_only=True)
class UsageJson(Json):
    """What a run uses, or used, beside what it asked for."""

    kind: str = "Usage"
    format: Literal[1] = FORMAT_VERSION
    name: str
    run: Run
    application_id: str
    state: JobState
    elapsed_s: int | None
    asked: Mapping[str, Asked]
    roles: Mapping[str, RoleUse]
    tasks: tuple[TaskUse, ...]
    series: tuple[Series, ...]
    started_at: Annotated[Instant | None, ("description", "When the seconds of the curves begin.")]
    updated_at: Instant | None
    unknown: str
    charged: Charge | None
    advice: tuple[Advice, ...]


# --- made of what was observed ---


def job_object(
    status: JobStatus, pending: Sequence[Cause] = (), cause: Cause | None = None
) -> dict[str, Any]:
    """Return the object that `-o json` prints for a job. `pending` are the causes for which it
    waits, and `cause` is why it failed; both may be left out.
    """
    return plain(JobJson(**_job_fields(status, pending, cause)))


def description_object(
    status: JobStatus, pending: Sequence[Cause] = (), cause: Cause | None = None
) -> dict[str, Any]:
    """Return the object that `describe -o json` prints: that of `job_object` with more fields."""
    app = status.app
    application, am_logs = (app.tracking_url, app.am_container_logs) if app else (None, None)
    return plain(
        JobDescriptionJson(
            **_job_fields(status, pending, cause),
            **vars(description.details_of(status)),
            attempts=tuple(AttemptJson.of(one, node=one.node_id) for one in status.attempts),
            pages=PagesJson(application=application, am_logs=am_logs),
        )
    )


def _job_fields(status: JobStatus, pending: Sequence[Cause], cause: Cause | None) -> dict[str, Any]:
    verdict, app = status.verdict, status.app
    return {
        "name": status.name,
        "run": status.run,
        "application_id": status.application_id or None,
        "user": app and app.user,
        "queue": app and app.queue,
        "state": verdict.state,
        "reason": verdict.reason or status.trouble,
        "confirmed": verdict.confirmed,
        # by the cause, because without one the verdict's hint is a guess
        "hint": cause.hint if cause else verdict.hint,
        "failure": verdict.failure,
        "root_cause": cause,
        "pending": tuple(map(_pending_cause, pending)),
        **_report_fields(status.report, live=not status.report_outlived_container),
        "held": status.held,
        "resubmission": status.resubmission,
        "evidence": status.evidence.value,
        "yarn": app and YarnStateJson.of(app),
        "links": task_links.links_of(status),
        "outputs": status.report.outputs if status.report else (),
        "started_at": instant(app.started_ms if app else None),
        "finished_at": instant(app.finished_ms if app else None),
    }


def _pending_cause(cause: Cause) -> dict[str, Any]:
    shown = plain(cause)
    return {name: shown[name] for name in _OF_A_WAIT}


def _report_fields(report: JobReport | None, *, live: bool) -> dict[str, Any]:
    """Return the fields that a report gives. If `live` is False, the deciding task's container has
    ended, and fields about running tasks are left out, because they are no longer true.
    """
    if report is None:
        names = ("tasks", "progress", "standstill", "awaited", "retries", "checkpoint")
        return {**dict.fromkeys(names), "roles": {}, "warnings": ()}
    return {
        "tasks": TasksJson.of(report),
        "roles": report.roles if live else {},
        "progress": (report.progress and report.progress.to_json()) or None,
        "standstill": report.standstill if live else None,
        "awaited": report.awaited if live else None,
        "checkpoint": report.checkpoint,
        "retries": report.retried,
        "warnings": report.warnings,
    }


def why_object(found: Why) -> dict[str, Any]:
    """Return the object that `why -o json` prints, and the gateway sends."""
    status = found.status
    return plain(
        WhyJson(
            name=status.name,
            run=status.run,
            application_id=status.application_id or None,
            state=status.verdict.state,
            reason=status.verdict.reason or status.trouble,
            root_cause=found.root_cause,
            pending=tuple(map(_pending_cause, found.pending)),
            since_success=found.since_success,
        )
    )


def usage_object(use: JobUse) -> dict[str, Any]:
    """Return the object that `usage -o json` prints and the gateway sends."""
    used = use.used or UsageReport()
    moments = (used.started_at, used.updated_at)
    started, updated = (instant(int(at * 1000)) if at else None for at in moments)
    return plain(
        UsageJson.of(
            use,
            roles=used.roles,
            tasks=used.tasks,
            series=used.series,
            started_at=started,
            updated_at=updated,
            charged=use.charge,
        )
    )


def listing_object(jobs: Sequence[ListedJob]) -> dict[str, Any]:
    """Return the object that `list -o json` prints."""
    return plain(WholeListJson(jobs=tuple(map(ListedJobJson.of, jobs))))


def page_object(jobs: Sequence[ListedJob], next_cursor: str | None, caller: str) -> dict[str, Any]:
    """Return one page of a list of jobs, as the gateway sends it."""
    rows = tuple(map(ListedJobJson.of, jobs))
    return plain(JobListJson(jobs=rows, next_cursor=next_cursor, caller=caller))


def listed_job_object(job: ListedJob) -> dict[str, Any]:
    """Return one job of a list, as `watch` prints it when the job has changed."""
    return plain(ListedJobJson.of(job))


def history_object(runs: Sequence[RecordedRun]) -> dict[str, Any]:
    """Return the object that `history -o json` prints and the gateway sends."""
    return document("RunHistory", runs=[run.to_json() for run in runs])


def comparison_object(found: Comparison) -> dict[str, Any]:
    """Return the object that `compare -o json` prints and the gateway sends."""
    own = ("values", "lines", "metrics", "peak_memory_bytes")
    return plain(
        ComparisonJson(
            differences=tuple(map(DifferenceJson.of, found.differences)),
            runs=tuple(
                ComparedRunJson.of(one.ended, **{name: getattr(one, name) for name in own})
                for one in found.runs
            ),
        )
    )


def room_object(room: ClusterRoom) -> dict[str, Any]:
    """Return the object that `top -o json` prints and the gateway sends."""
    return plain(ClusterRoomJson.of(room))


def submission_object(done: Submission, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the object that `submit --detach` prints and the gateway sends; the gateway adds
    warnings of its own.
    """
    return plain(
        SubmissionJson.of(
            done.ref,
            submission=done.plan.key,
            adopted=done.adopted,
            warnings=(*warnings, *done.warnings),
            remarks=done.plan.job.remarks,
        )
    )


def deletion_object(job: str, runs: Sequence[str]) -> dict[str, Any]:
    """Return the object that `delete` prints and the gateway sends."""
    return plain(DeletionJson(job=job, deleted=bool(runs), runs=tuple(runs)))


# --- their JSON Schemas ---

# what was observed and is printed as it is, with other names in `_NAMES`; a `Generation` stands
# inside of the retries
_OBSERVED = (
    *(Failure, Awaited, Cause, CauseEvidence, Consequence, Remark, SinceSuccess, NewValue),
    *(Checkpoint, HeldContainer, RoleCounts, StoredOutput, Standstill, Retried),
    *(QueueRoom, LabelRoom, NodeRoom, JobStart),
    service_properties.Resubmission,
    *(Amounts, Spread, RoleAmounts, GpuUse, TaskUse, RoleUse, Series, Charge),
    *(Asked, Advice),
    *(description.StartTimes, task_links.Link, description.TaskDetail, description.Limit),
    timeline.TimelinePart,
)
_NAMES = {"StoredOutput": "Output", "Retried": "Retries", "Cause": "RootCause"}
_NAMES |= {"StartTimes": "Start", "TaskDetail": "Task"}
_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number"}


def schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the JSON Schema of each object. `Generation`, whose schema is part of that
    of `Retries`, and the list without pages (`list -o json`) are left out.
    """
    for kind in (*_OBSERVED, *_all_subclasses(Json)):
        if kind is not WholeListJson:
            yield _schema_name(kind), _object_schema(kind)
    cause = _object_schema(Cause)["properties"]
    properties = {name: cause[name] for name in _OF_A_WAIT}
    yield "PendingCause", {"type": "object", "required": [*_OF_A_WAIT], "properties": properties}


def _all_subclasses(kind: type[Json]) -> Iterator[type[Json]]:
    for one in kind.__subclasses__():
        yield one
        yield from _all_subclasses(one)


def _schema_name(kind: type) -> str:
    name = kind.__name__.removesuffix("Json")
    return _NAMES.get(name, name)


def _object_schema(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    shown = dict(shown_fields(kind))
    properties = {
        name: _schema_of(Instant | None if item.name.endswith(MOMENT) else hints[item.name])
        for name, item in shown.items()
    }
    if "format" in properties:  # one that is printed alone
        properties["kind"] = {"const": kind.kind}
    needed = [name for name, item in shown.items() if not item.metadata.get("optional")]
    return {"type": "object", "required": needed, "properties": properties}


def _schema_of(hint: Any) -> dict[str, Any]:
    if hint in _KINDS:
        return {"type": _KINDS[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        inner, (more,) = arguments[0], hint.__metadata__
        if isinstance(more, str):
            return {"$ref": f"#/components/schemas/{more}"}
        return (
            {**_schema_of(inner), more[0]: more[1]}
            if isinstance(more, tuple)
            else _schema_or_null(_schema_of(more))
        )
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return _schema_or_null(_schema_of(arguments[0]))
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0])}
    if hint is Point:
        said = "Seconds since the start, step or null, value."
        return {
            "type": "array",
            "items": {"type": ["number", "string", "null"]},
            "description": said,
        }
    if hint is Generation:
        return _object_schema(hint)
    if origin is not None:
        values = True if arguments[1] in (Any, object) else _schema_of(arguments[1])
        return {"type": "object", "additionalProperties": values}
    return {"$ref": f"#/components/schemas/{_schema_name(hint)}"}


def _schema_or_null(shape: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in shape:
        return {"oneOf": [shape, {"type": "null"}]}
    return {**shape, "type": [shape["type"], "null"]}
