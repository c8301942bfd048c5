"""The job's report: the content of `job-report.json`, which the deciding task's bootstrap writes
while a job runs (container/job_report.py), and the only code that reads it.

Programs, other tasks and full disks may cause any content, so nothing here trusts the file: texts
are cleaned, and a field that is missing, unknown or of a wrong type has the value that an absent
field has. Such a field does not affect the other fields or the verdict; only an object that lacks a
field marked `needed` is left out as a whole. Callers get typed attributes, never the JSON.

`fact` declares each field of the report in one line here: an attribute with its type, and the
function that reads its value. docs/internals/architecture.md#a-fact-of-the-report tells where the
container writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from submit_tf_job.container import contract
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.json_values import read_foreign_json

T = TypeVar("T")
# Fields have their names in JSON, a moment in `x_ms` is `x_at` there; these are other ones.
NOT_IN_JSON = {"json": None}
OUTCOME_MAX = 8 * 1024  # bytes at the end of stderr that have the outcome line
_LARGEST = 1e300  # of a number; the container drops larger ones
_LATEST = 2.5e11  # of a moment in seconds since 1970, and of a duration: the year 9892
_UNREADABLE = "a task failed, and what the report says of it cannot be read"


# --- what reads a value: each returns the value of an absent one for anything that it is not ---


def as_text(value: Any) -> str:
    """Return a text, or a number as text; "" for any other value."""
    return str(value) if isinstance(value, (str, int, float)) and type(value) is not bool else ""


def as_name(value: Any) -> str | None:
    """Return a text, or a number as text; None for an empty text and for a value of any other
    type.
    """
    return as_text(value) or None


def as_flag(value: Any) -> bool:
    """Return whether a value is JSON's true."""
    return value is True


def as_number(value: Any) -> float | None:
    """Return a number whose absolute value is less than 1e300; None for any other value."""
    good = isinstance(value, (int, float)) and type(value) is not bool and abs(value) < _LARGEST
    return value if good else None


def as_value(value: Any) -> float | None:
    """Return a number; the texts "NaN", "Infinity" and "-Infinity" are converted, because JSON has
    no such numbers. None for any other value.
    """
    return float(value) if value in contract.NOT_FINITE else as_number(value)


def as_moment(value: Any) -> float | None:
    """Return seconds (since 1970, or a duration); None if the value is negative, not a number, or
    after the year 9892.
    """
    given = as_number(value)
    return given if given is not None and 0 <= given < _LATEST else None


def as_whole(value: Any) -> int | None:
    """Return an integer that fits into 64 bits; None for any other value, such as 3.0."""
    return value if type(value) is int and abs(value) < 2**63 else None


def as_count(value: Any) -> int:
    """Return an integer; 0 if it is negative, and for any other value."""
    return max(0, as_whole(value) or 0)


def as_list(value: Any) -> tuple[Any, ...]:
    """Return the entries of a list; () for any other value."""
    return tuple(value) if isinstance(value, list) else ()


def as_texts(value: Any) -> tuple[str, ...]:
    """Return the texts and numbers of a list as texts; () for any other value."""
    entries = (entry for entry in as_list(value) if type(entry) is not bool)
    return tuple(as_text(entry) for entry in entries if isinstance(entry, (str, int, float)))


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object as it is; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def as_mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the JSON objects of a list as they are, without its other entries; () for a value that
    is not a list.
    """
    return tuple(entry for entry in as_list(value) if isinstance(entry, dict))


def by_name(read: Callable[[Any], Any]) -> Callable[[Any], Mapping[str, Any]]:
    """Return a function that reads a JSON object: it applies `read` to the value of each key, and
    leaves out the keys for which `read` returns None. The result is empty for any other value.
    """

    def values(value: Any) -> Mapping[str, Any]:
        read_values = {name: read(inner) for name, inner in as_mapping(value).items()}
        return {name: inner for name, inner in read_values.items() if inner is not None}

    return values


def _value_of(written: Mapping[str, Any], item: Field[Any]) -> Any:
    key = item.metadata["key"]
    return written if key == _ALL else written.get(key or item.name)


def instance_of(kind: type[T]) -> Callable[[Any], T | None]:
    """Return a function that reads a JSON object into an instance of a dataclass. The function
    returns None if the value is not an object, or if a field marked `needed` cannot be read.

    Args:
        kind: The dataclass; its fields are declared with `fact`.
    """

    def made(value: Any) -> T | None:
        if not isinstance(value, dict):
            return None
        facts = [item for item in fields(kind) if "read" in item.metadata]  # type: ignore[arg-type]
        read = {item.name: item.metadata["read"](_value_of(value, item)) for item in facts}
        lacking = any(read[item.name] is None for item in facts if item.metadata["needed"])
        return None if lacking else kind(**read)

    return made


def instances_of(kind: type[T], most: int | None = None) -> Callable[[Any], tuple[T, ...]]:
    """Return a function that reads a list of JSON objects into instances of a dataclass, as
    `instance_of` does; entries that cannot be read are left out. The result is () for a value that
    is not a list.

    Args:
        kind: The dataclass; its fields are declared with `fact`.
        most: Only this number of entries is read, from the first; None for all.
    """

    def made(value: Any) -> tuple[T, ...]:
        entries = map(instance_of(kind), as_list(value)[:most])
        return tuple(entry for entry in entries if entry is not None)

    return made


_ALL = "*"  # the key of a fact that is the whole object


def fact(
    read: Callable[[Any], Any], *, key: str = "", needed: bool = False, json: str | None = ""
) -> Any:
    """Declare a field of the report: an attribute of a dataclass that is read from JSON.

    Args:
        read: The function that reads the field's value; `read(None)` is the default of the
            attribute.
        key: The field's key in the report, if it differs from the attribute's name; `_ALL` for the
            whole object.
        needed: Whether an object without this field is left out as a whole.
        json: The field's name in the output of `-o json`, if it differs from the attribute's name;
            None if the field is not printed.
    """
    metadata = {"read": read, "key": key, "needed": needed}
    if json != "":
        metadata["json"] = json
    return field(default_factory=partial(read, None), metadata=metadata)


# --- the objects in a report ---


@dataclass(frozen=True)
class RoleCounts:
    """The number of a role's tasks in each state.

    Attributes:
        wanted: How many tasks there should be; for an elastic role, since the last start of all
            tasks.
        arrived: How many of these have reported to the deciding task.
        ended: How many were ended by the job, not by their own program.
        lost: How many are no longer connected to the deciding task, although they have not ended.
        restarts: How often tasks of the role were restarted, in total.
        most: The largest number of tasks of an elastic role; None for any other role.
        max_restarts: How often each task of the role may start again.
    """

    wanted: int = fact(as_count)
    arrived: int = fact(as_count)
    running: int = fact(as_count)
    succeeded: int = fact(as_count)
    failed: int = fact(as_count)
    ended: int = fact(as_count)
    lost: int = fact(as_count)
    restarts: int = fact(as_count)
    most: int | None = None
    max_restarts: int | None = fact(as_whole, json=None)


@dataclass(frozen=True)
class ElasticSize:
    """The size of an elastic role: its smallest, largest and current number of tasks."""

    least: int = fact(as_count, key="min")
    most: int = fact(as_count, key="max")
    now: int = fact(as_count)


@dataclass(frozen=True)
class Failure:
    """A task that failed.

    Attributes:
        task: The name of the task; "" if no task is known to have failed.
        status: Exit status of the task's command; if only YARN reports the failure, of its
            container.
        reason: The bootstrap's code for the kind of failure (`contract.REASON_…`); "" if only YARN
            reports the failure.
        message: The bootstrap's message.
        host: The task's node.
        last_lines: The end of the task's stderr.
        container_id: The task's container.
        at: When the task failed, in seconds since 1970.
        signal: The signal that ended the task's command.
    """

    task: str = fact(as_text)
    status: int | None = fact(as_whole)
    reason: str = fact(as_text)
    message: str = fact(as_text)
    host: str | None = fact(as_name)
    last_lines: tuple[str, ...] = fact(as_texts)
    container_id: str | None = fact(as_name, key="container", json=None)
    at: float | None = fact(as_moment, json=None)
    signal: int | None = fact(as_whole, json=None)


def _first_failure(value: Any) -> Failure | None:
    """Return the first failure; None if the report has none. A failure whose fields are all invalid
    is returned, too: a report that has a failure is not a success.
    """
    if not value:
        return None
    found = instance_of(Failure)(value) or Failure()
    return found if found.message else replace(found, message=_UNREADABLE)


def _later_failures(value: Any) -> tuple[Failure, ...]:
    return tuple(failure for failure in instances_of(Failure)(value) if failure.task)


@dataclass(frozen=True)
class ReportedOutcome:
    """How the deciding task's command ended."""

    status: int | None = fact(as_whole)
    signal: int | None = fact(as_whole)
    duration_s: float | None = fact(as_moment)


@dataclass(frozen=True)
class Generation:
    """One run of all commands of a job with `retries`, which has ended.

    Attributes:
        number: The number of the generation, from 0.
        task: The task that failed first.
        kind: The word of `retries.on` that covers the failure; "" for a failure of the program
            itself; "grown" or "shrunk" if the generation ended without a failure, because tasks of
            an elastic role had joined, or YARN had ended some.
        message: The failure in one sentence.
        step: The last step that was reported, or None.
        duration_s: Seconds from the start of the generation until all tasks were told to start the
            next one.
        container_id, status, signal, reason, last_line: These values of the task that failed first.
        at: When that task failed, in seconds since 1970.
    """

    number: int = fact(as_whole, key="generation", needed=True)
    task: str = fact(as_text)
    host: str | None = fact(as_name)
    kind: str = fact(as_text)
    message: str = fact(as_text)
    step: float | None = fact(as_number)
    duration_s: float | None = fact(as_moment)
    container_id: str | None = fact(as_name, key="container", json=None)
    at: float | None = fact(as_moment, json=None)
    status: int | None = fact(as_whole, json=None)
    signal: int | None = fact(as_whole, json=None)
    reason: str = fact(as_text, json=None)
    last_line: str = fact(as_text, json=None)

    @property
    def is_resized(self) -> bool:
        """Whether the generation ended because the number of tasks of an elastic role changed."""
        return self.kind in contract.RESIZED


@dataclass(frozen=True)
class Retried:
    """How often all tasks of a job with `retries` have started again.

    Attributes:
        most: How often they may start again after failures.
        used: How often they have started again after failures.
        count: How often they have started again in total, including starts with more or fewer tasks
            of an elastic role.
        refusal: Why a failure was not retried, or "".
        generations: The last generations that have ended, at most 20.
    """

    most: int = fact(as_count, key="max", json="max")
    used: int = fact(as_count)
    count: int = field(default=0, metadata=NOT_IN_JSON)
    refusal: str = fact(as_text)
    generations: tuple[Generation, ...] = ()

    def words(self, generation: Generation) -> str:
        """Return in words why all tasks start again after a generation: as which retry, such as
        `retry 1 of 3`; or because the number of tasks of an elastic role has changed, which does
        not count as a retry.
        """
        if generation.kind == contract.REASON_GROWN:
            return "to take in tasks that have come"
        if generation.is_resized:
            return "without the tasks that YARN has ended"
        later = [
            other
            for other in self.generations
            if other.number > generation.number and not other.is_resized
        ]
        return f"retry {self.used - len(later)} of {self.most}"


def _metric_values(value: Any) -> Mapping[str, float | None]:
    return {name: as_value(inner) for name, inner in as_mapping(value).items()}


@dataclass(frozen=True)
class ReportedProgress:
    """The progress that a training program has reported.

    Attributes:
        metrics: The metrics of the last whole epoch or step; a metric may be NaN or infinite.
        metrics_step: The step to which the metrics belong, if it is not `step`.
        unit: What is counted as a step, such as "epoch"; "" for a step.
        part: The completed part of the training, from 0 to 1.
        task: The task that reported the progress.
        at: When the task reported it, in seconds since 1970.
        left_s: The deciding task's estimate of the remaining seconds.
        written: Everything that the program has written, including fields that this version does
            not know.
    """

    step: float | None = fact(as_number)
    total: float | None = fact(as_number)
    metrics: Mapping[str, float | None] = fact(_metric_values)
    metrics_step: float | None = fact(as_number)
    unit: str = fact(as_text)
    part: float | None = fact(as_number)
    task: str = fact(as_text)
    at: float | None = fact(as_moment)
    left_s: float | None = fact(as_moment)
    written: Mapping[str, Any] = fact(as_mapping, key=_ALL)

    def to_json(self) -> dict[str, Any]:
        """Return the object for `-o json`: everything that the program has written; fields that
        this class declares have the values as they were parsed.
        """
        known = {item.name for item in fields(self)}
        return {
            key: getattr(self, key) if key in known else value
            for key, value in self.written.items()
        }


@dataclass(frozen=True)
class StillTask:
    """A task that makes no progress: since when, in seconds since 1970, and at which step."""

    task: str = fact(as_text)
    since: float | None = fact(as_moment)
    step: float | None = fact(as_number)


@dataclass(frozen=True)
class ReportedStandstill:
    """The tasks that make no progress, as the report has them; `JobReport.standstill` makes a
    `Standstill` of it.

    Attributes:
        everything: Whether no task makes progress.
        count: The number of the tasks; `tasks` has the first of them.
        since: When one of them last printed something or reported a step, in seconds since 1970.
        others_step: The step that the other tasks have reached, if they report steps.
    """

    everything: bool = fact(as_flag, key="all")
    count: int = fact(as_count)
    since: float = fact(as_moment, needed=True)
    tasks: tuple[StillTask, ...] = fact(instances_of(StillTask))
    others_step: float | None = fact(as_number)


@dataclass(frozen=True)
class Standstill:
    """Tasks that have printed nothing, and reported no step, for longer than they usually do.

    Attributes:
        tasks: The first of these tasks.
        count: The number of these tasks.
        since: When one of these tasks last printed something or reported a step, in seconds since
            1970.
        for_s: For how many seconds they had stood still when the report was written.
        everything: Whether no task makes progress.
        step: The step that the task reported last, if there is only one such task.
        others_step: The step that the other tasks have reached, if they report steps.
    """

    tasks: tuple[str, ...]
    count: int
    since: float
    for_s: float = field(metadata=NOT_IN_JSON)
    everything: bool
    step: float | None = None
    others_step: float | None = None


@dataclass(frozen=True)
class Awaited:
    """The tasks that must still end before the job can end.

    Attributes:
        tasks: The first of these tasks.
        count: The number of these tasks.
        until: Until when the job waits for them, in seconds since 1970 (`finish_timeout`).
    """

    tasks: tuple[str, ...] = fact(as_texts)
    count: int = fact(as_count)
    until: float = fact(as_moment, needed=True)


@dataclass(frozen=True)
class HeldContainer:
    """The container of the task that failed first, which is kept for a while (`hold_on_failure`).

    Attributes:
        task: The task of the container.
        host: The node of the container.
        container: The id of the container.
        directory: The directory on the node that contains the files of the container.
        until: Until when the container is kept, in seconds since 1970.
    """

    task: str = fact(as_text)
    host: str = fact(as_text)
    container: str = fact(as_text)
    directory: str = fact(as_text)
    until: float = fact(as_moment, needed=True)


@dataclass(frozen=True)
class Checkpoint:
    """The newest checkpoint of a job.

    Attributes:
        uri: The directory.
        name: The checkpoint's name in the directory.
        step: The number in the checkpoint's name.
        at: When the checkpoint was written, in seconds since 1970; None if the file system does not
            tell.
    """

    uri: str = fact(as_text)
    name: str = fact(as_text)
    step: int | None = fact(as_whole)
    at: float | None = fact(as_moment)


@dataclass(frozen=True)
class StoredOutput:
    """An output of the job that is stored, and its place.

    Attributes:
        tasks: How many tasks have stored this output at the place; 0 if the program itself writes
            it there.
    """

    name: str = fact(as_text)
    uri: str = fact(as_text)
    tasks: int = fact(as_count)


@dataclass(frozen=True)
class ReportedStart:
    """The moments of the last start of all tasks, in seconds since 1970.

    Attributes:
        launched_at: When YARN had started the last task that the start waited for.
        search_s: The longest time in seconds that a task searched for the deciding task.
        arrived_at: When the last task had connected to the deciding task.
        at: When the commands started.
        by_address: How many tasks the programs know by IP address instead of host name.
    """

    launched_at: float = fact(as_moment, needed=True)
    search_s: float | None = fact(as_moment)
    arrived_at: float = fact(as_moment, needed=True)
    at: float = fact(as_moment, needed=True)
    by_address: int = fact(as_count)


@dataclass(frozen=True)
class ReportedTask:
    """One task: `attempt` counts its restarts, `status` is the exit status of its command (None
    while it runs), and `gpus` has the models of the GPUs that it sees.
    """

    task: str = fact(as_name, needed=True)
    state: str = fact(as_text)
    host: str | None = fact(as_name)
    address: str | None = fact(as_name)
    container_id: str | None = fact(as_name, key="container")
    attempt: int = fact(as_count)
    status: int | None = fact(as_whole)
    gpus: tuple[str, ...] = fact(as_texts)


@dataclass(frozen=True)
class ServedPorts:
    """The ports that a task serves, by name; `host` is its address."""

    task: str = fact(as_name, needed=True)
    host: str = fact(as_text)
    ports: Mapping[str, int] = fact(by_name(as_whole))


@dataclass(frozen=True)
class ReportedEvent:
    """What happened in the job, and when, in seconds since 1970."""

    at: float = fact(as_moment, needed=True)
    text: str = fact(as_text)


# --- the report ---


@dataclass(frozen=True)
class JobReport:
    """The report of the deciding task's bootstrap about the whole job.

    Attributes:
        run, job: The run's name, and the job's.
        state: `waiting` for tasks, `preparing`, `running`, `finishing`; at the end `succeeded`,
            `failed` or `stopped`.
        version: The version of the report's format.
        deciding: The deciding task. Its container `container_id` wrote the report; `attempt` is how
            often the task was restarted.
        started_at, updated_at, ended_at: When the deciding task's bootstrap started, when it wrote
            the report, and when it had nothing more to do, in seconds since 1970.
        wanted, arrived: How many tasks the job has, and how many have reported to the deciding
            task.
        missing: The first of the tasks for which the start waits; `unnamed` are tasks whose names
            DNS does not know.
        retried: What `retries` has done; None in a job without `retries`.
        generation: How often all tasks have started again.
        outcome: How the deciding task's command ended; None while it runs.
        image_ignored: Tasks that run as plain processes, because the NodeManager ignored the image.
        credentials: Descriptions of credentials, without secrets.
        saving: The tasks that may still save in a graceful stop; None if there is no graceful stop.
        tasks: All tasks, unless they are very many.
    """

    run: str = fact(as_text)
    state: str = fact(as_text)
    version: int = fact(as_count)
    job: str = fact(as_text)
    deciding: str = fact(as_text)
    container_id: str | None = fact(as_name, key="container")
    attempt: int | None = fact(as_whole)
    started_at: float | None = fact(as_moment)
    updated_at: float | None = fact(as_moment)
    ended_at: float | None = fact(as_moment)
    wanted: int = fact(as_count)
    arrived: int = fact(as_count)
    missing: tuple[str, ...] = fact(as_texts)
    unnamed: tuple[str, ...] = fact(as_texts)
    start: ReportedStart | None = fact(instance_of(ReportedStart))
    roles: Mapping[str, RoleCounts] = fact(by_name(instance_of(RoleCounts)))
    elastic: Mapping[str, ElasticSize] = fact(by_name(instance_of(ElasticSize)))
    outcome: ReportedOutcome | None = fact(instance_of(ReportedOutcome))
    first_failure: Failure | None = fact(_first_failure)
    later_failures: tuple[Failure, ...] = fact(_later_failures)
    warnings: tuple[str, ...] = fact(as_texts)
    progress: ReportedProgress | None = fact(instance_of(ReportedProgress))
    events: tuple[ReportedEvent, ...] = fact(instances_of(ReportedEvent))
    generation: int = fact(as_count)
    generations: tuple[Generation, ...] = fact(instances_of(Generation))
    retried: Retried | None = fact(instance_of(Retried), key="retries")
    stands_still: ReportedStandstill | None = fact(
        instance_of(ReportedStandstill), key="standstill"
    )
    awaited: Awaited | None = fact(instance_of(Awaited))
    checkpoint: Checkpoint | None = fact(instance_of(Checkpoint))
    held: HeldContainer | None = fact(instance_of(HeldContainer))
    served: tuple[ServedPorts, ...] = fact(instances_of(ServedPorts))
    outputs: tuple[StoredOutput, ...] = fact(instances_of(StoredOutput))
    image_ignored: tuple[str, ...] = fact(as_texts)
    credentials: tuple[Mapping[str, Any], ...] = fact(as_mappings)
    saving: tuple[str, ...] | None = fact(lambda value: None if value is None else as_texts(value))
    tasks: tuple[ReportedTask, ...] = fact(instances_of(ReportedTask))
    _written: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, content: bytes) -> JobReport | None:
        """Parse a report. Return None if the bytes are not a report (but, for example, a copy that
        was read while it was written, or a file of another program), or a report of another
        version.
        """
        try:
            return cls._of_json(read_foreign_json(content))
        except ValueError:
            return None

    @classmethod
    def _of_json(cls, written: Any) -> JobReport | None:
        known = isinstance(written, dict) and written.get("version") == contract.REPORT_VERSION
        if not known or "run" not in written or not isinstance(written.get("state"), str):
            return None
        report = instance_of(cls)(written)
        if report is None:
            return None
        roles = {
            role: replace(counts, most=size.most)
            if (size := report.elastic.get(role)) is not None
            else counts
            for role, counts in report.roles.items()
        }
        used = as_mapping(written.get("retries")).get("used")
        retried = report.retried and replace(
            report.retried,
            used=report.generation if as_whole(used) is None else as_count(used),
            count=report.generation,
            generations=report.generations,
        )
        return replace(report, roles=roles, retried=retried, _written=written)

    def record(self, most_bytes: int) -> dict[str, Any]:
        """Return the report as it was written, for a run's record. If it would be larger than
        `most_bytes`, its list of tasks is left out; the rest is returned whatever its size.
        """
        written = dict(self._written)
        if len(json.dumps(written)) > most_bytes:
            written.pop("tasks", None)
        return written

    @property
    def outcome_status(self) -> int | None:
        """The exit status of the deciding task's command; None while it runs, or if the status is
        not known.
        """
        return self.outcome.status if self.outcome else None

    def moved(self, by_s: float) -> JobReport:
        """Return the report with `by_s` seconds added to `started_at`, `ended_at`, and the times of
        its start, generations and events; all other times, such as `updated_at`, are left as they
        are.
        """

        def later(moment: float | None) -> float | None:
            return None if moment is None else moment + by_s

        start = self.start
        return replace(
            self,
            started_at=later(self.started_at),
            ended_at=later(self.ended_at),
            start=start
            and replace(
                start,
                launched_at=start.launched_at + by_s,
                arrived_at=start.arrived_at + by_s,
                at=start.at + by_s,
            ),
            generations=tuple(replace(one, at=later(one.at)) for one in self.generations),
            events=tuple(replace(one, at=one.at + by_s) for one in self.events),
        )

    @property
    def is_over(self) -> bool:
        """Whether the report has the job's outcome: its state is succeeded, failed or stopped."""
        return self.state in ("succeeded", "failed", "stopped")

    @property
    def deciding_task_left(self) -> bool:
        """Whether the report has the outcome, and the deciding task has left or only waits for
        YARN. Then the report changes only if YARN starts that task again.
        """
        return self.is_over and bool(self.ended_at)

    @property
    def stopped_gracefully(self) -> bool:
        """Whether the job was stopped with time to save (`submit_tf_job stop --grace`)."""
        return self.saving is not None

    @property
    def lifetime_ended(self) -> bool:
        """Whether the tasks had to save because the job's lifetime was nearly over."""
        return any(event.text == contract.EVENT_LIFETIME_SAVES for event in self.events)

    @property
    def all_have_saved(self) -> bool:
        """Whether all tasks that save have ended in a graceful stop; False without a graceful
        stop.
        """
        return self.stopped_gracefully and bool(self.ended_at)

    @cached_property
    def standstill(self) -> Standstill | None:
        """The tasks that train and make no progress; None if there are none, or if the job is not
        in state `running`.
        """
        still = self.stands_still
        if self.state != "running" or not still or not still.tasks or self.updated_at is None:
            return None
        return Standstill(
            tuple(task.task for task in still.tasks),
            max(len(still.tasks), still.count),
            still.since,
            max(0.0, self.updated_at - still.since),
            still.everything,
            still.tasks[0].step if len(still.tasks) == 1 else None,
            still.others_step,
        )

    @property
    def has_witness(self) -> bool:
        """Whether the job has a witness: another task than the deciding task, whose exit status
        gives YARN's final status.
        """
        return contract.WITNESS_ROLE in self.roles

    @property
    def shown_roles(self) -> Mapping[str, RoleCounts]:
        """The counts of the roles of the job spec; those of the witness only if it failed or was
        lost.
        """
        return {
            name: counts
            for name, counts in self.roles.items()
            if name != contract.WITNESS_ROLE or counts.failed + counts.lost
        }


def with_outcome(content: bytes, read_end: Callable[[str, int], bytes]) -> bytes:
    """Return a report, completed with the outcome on the bootstrap's last line on stderr if the
    report itself has none, because a full log disk froze it.

    The report is returned unchanged if it has an outcome or cannot be parsed, if the log cannot be
    read, or if the last line belongs to another run or an earlier start of the task.

    Args:
        content: The bytes of the report of a job that is over.
        read_end: Returns a number of bytes from the end of a log file of the container that wrote
            the report.
    """
    report = JobReport.parse(content)
    if report is None or report.is_over:
        return content
    try:
        said = outcome_line(read_end("stderr.txt", OUTCOME_MAX))
    except SubmitTFJobError:
        return content
    of_this_start = (report.run, report.deciding, report.attempt)
    if said is None or not said.job or (said.run, said.task, said.attempt) != of_this_start:
        return content
    failed = report._written.get("first_failure")
    if not failed and said.first_failure == said.task:
        failed = {key: getattr(said, key) for key in ("task", "status", "reason", "message")}
    own = {key: getattr(said, key) for key in ("status", "signal", "duration_s")}
    ended = {"state": said.job, "outcome": own, "first_failure": failed}
    return json.dumps({**report._written, **ended}).encode()


@dataclass(frozen=True)
class OutcomeLine:
    """The last line that a bootstrap writes to stderr: how its task ended.

    Attributes:
        job, first_failure: Only in the line of the deciding task: the state of the job, and the
            first task that failed.
    """

    task: str = fact(as_text)
    run: str = fact(as_text)
    attempt: int | None = fact(as_whole)
    status: int | None = fact(as_whole)
    signal: int | None = fact(as_whole)
    reason: str = fact(as_text)
    message: str = fact(as_text)
    duration_s: float | None = fact(as_moment)
    job: str = fact(as_text)
    first_failure: str | None = fact(as_name)


def outcome_line(stderr: bytes) -> OutcomeLine | None:
    """Return the outcome that the bootstrap's last line reports, from the end of its stderr; None
    if the text has no such line.
    """
    _before, mark, line = stderr.rpartition(contract.OUTCOME_MARK.encode())
    try:
        return (
            instance_of(OutcomeLine)(read_foreign_json(line.partition(b"\n")[0])) if mark else None
        )
    except ValueError:
        return None
