"""The parts of a run in order of time (waiting, containers, files, each training, saving, storing,
a hold, logs); a pure function of the run's status.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.diagnose.amounts import plural

if TYPE_CHECKING:
    from submit_tf_job.job_report import Generation, JobReport
    from submit_tf_job.observation import JobStatus

_SAVES = (contract.EVENT_LIFETIME_SAVES, contract.EVENT_STOP_SAVES)
_SHORT_MS = 500  # a part that took less time is left out


@dataclass(frozen=True)
class TimelinePart:
    """One part of a run.

    Attributes:
        part: What the time was spent on: `waited` for YARN; `containers` were started; `files` were
            fetched, until the tasks had found one another; `prepared` the job; `trained`, or `lost`
            if all tasks started again after that training failed; `saved`, before a stop; `stored`
            outputs, or waited for the other tasks to end; `held` a failed container; `ended`, until
            YARN had ended the application; `logs` are collected.
        sentence: The part in words, for people.
        from_ms: When the part began, in milliseconds since 1970.
        until_ms: When the part ended, in milliseconds since 1970; None while the part has not
            ended.
    """

    part: str
    sentence: str
    from_ms: int
    until_ms: int | None


def timeline_of(seen: JobStatus) -> tuple[TimelinePart, ...]:
    """Return the parts of a run that are known, in order of time; () before YARN has accepted it.
    Parts of less than half a second are left out.

    The times come from several clocks: for YARN's own events from YARN's clock, for all other
    events from the deciding task's clock, corrected by a difference of more than a minute. So that
    the parts stay in order, no part ends before it begins.
    """
    parts: list[TimelinePart] = []
    for part in sorted(_all_parts(seen), key=lambda one: one.from_ms):
        until_ms = None if part.until_ms is None else max(part.from_ms, part.until_ms)
        if until_ms is None or until_ms - part.from_ms >= _SHORT_MS:
            parts.append(replace(part, until_ms=until_ms))
    return tuple(parts)


def _all_parts(seen: JobStatus) -> Iterator[TimelinePart]:
    app, report = seen.app, seen.report_by_yarns_clock
    if app is None or not app.started_ms:
        return
    started = [one.started_ms for one in seen.attempts if one.started_ms]
    am_ms = min(started, default=app.launch_ms)
    if am_ms is None and report is None:
        if not app.finished_ms:  # of one that is over, it is not known how long it waited
            yield TimelinePart("waited", "waits for YARN", app.started_ms, None)
        return
    # YARN tells of the last ApplicationMaster, and its tasks may have run before that
    begun_ms = min([am_ms or app.started_ms, *(_own_moments(report) if report else ())])
    yield TimelinePart("waited", "waited for YARN", app.started_ms, begun_ms)
    if report is None:
        yield TimelinePart("containers", "YARN starts containers", begun_ms, app.finished_ms)
        return
    yield from _first_start(report, begun_ms)
    yield from _ended_trainings(report)
    yield from _last_training(report, app.finished_ms)
    if app.finished_ms:
        if report.ended_at:
            yield TimelinePart("ended", "YARN ended it", _in_ms(report.ended_at), app.finished_ms)
        if app.log_aggregation_status in ("NOT_START", "RUNNING"):
            yield TimelinePart("logs", "YARN collects the logs", app.finished_ms, None)


def _own_moments(report: JobReport) -> Iterator[int]:
    """Yield moments of the report, in milliseconds since 1970, at which containers of the job
    certainly ran.
    """
    if report.started_at:
        yield _in_ms(report.started_at)
    for one in report.generations:
        if one.at is not None and one.duration_s is not None:
            yield _in_ms(one.at - one.duration_s)


def _first_start(report: JobReport, begun_ms: int) -> Iterator[TimelinePart]:
    """Yield the parts of the first start. A later start of all tasks (generation) has no parts of
    its own: its time belongs to the training.
    """
    start = report.start
    if start is None or report.generation:
        here_ms = _in_ms(report.started_at) if report.started_at else begun_ms
        yield TimelinePart("containers", "YARN started containers", begun_ms, here_ms)
        if start is None and report.state == "waiting":
            words = f"{report.arrived} of {report.wanted} tasks are here"
            yield TimelinePart("files", words, here_ms, None)
        return
    launched_ms, arrived_ms = _in_ms(start.launched_at), _in_ms(start.arrived_at)
    yield TimelinePart("containers", "YARN started the containers", begun_ms, launched_ms)
    words = "tasks fetched their files and found one another"
    yield TimelinePart("files", words, launched_ms, arrived_ms)
    yield TimelinePart("prepared", "the job was prepared", arrived_ms, _in_ms(start.at))


def _ended_trainings(report: JobReport) -> Iterator[TimelinePart]:
    for one in report.generations:
        if one.at is not None and one.duration_s is not None:
            part, words = ("trained" if one.is_resized else "lost"), _ended_words(one)
            yield TimelinePart(part, words, _in_ms(one.at - one.duration_s), _in_ms(one.at))


def _ended_words(one: Generation) -> str:
    which = f"generation {one.number}"
    return f"{which} trained until: {one.message}" if one.message else f"{which} trained"


def _last_training(report: JobReport, finished_ms: int | None) -> Iterator[TimelinePart]:
    """Yield the current training, or the last one if the run is over, and the parts that came after
    it.
    """
    start_at = report.start.at if report.start else report.started_at
    if start_at is None or report.state in ("waiting", "preparing"):
        return
    ended = report.outcome.duration_s if report.outcome else None
    held_ms = _moment_of(report, contract.EVENT_HELD)
    ended_ms = (held_ms or finished_ms) if ended is None else _in_ms(start_at + ended)
    saves_at = next((one.at for one in report.events if one.text in _SAVES), None)
    verb = "trains" if ended_ms is None else "trained"
    words = f"generation {report.generation} {verb}" if report.generation else verb
    until_ms = _in_ms(saves_at) if saves_at else ended_ms
    yield TimelinePart("trained", words, _in_ms(start_at), until_ms)
    if saves_at:
        yield TimelinePart("saved", "tasks saved, to be stopped", _in_ms(saves_at), ended_ms)
    if ended_ms is not None and (ended is not None or held_ms is not None):
        yield from _parts_after_training(report, ended_ms, finished_ms)


def _parts_after_training(
    report: JobReport, ended_ms: int, finished_ms: int | None
) -> Iterator[TimelinePart]:
    """Yield the parts from the end of the training to the end of all tasks: they store outputs or
    wait for each other, and then a container may be held (`hold_on_failure`).
    """
    over_ms = _in_ms(report.ended_at) if report.ended_at else None
    held_ms = _moment_of(report, contract.EVENT_HELD)
    stored_ms = over_ms if held_ms is None else held_ms
    yield TimelinePart("stored", _stored_words(report, stored_ms is None), ended_ms, stored_ms)
    if held_ms is not None:
        released_ms = _moment_of(report, contract.EVENT_NOT_HELD) or over_ms or finished_ms
        verb = "was" if released_ms else "is"
        task = report.held.task if report.held else "the task that failed"
        words = f"the container of {task} {verb} held"
        yield TimelinePart("held", words, held_ms, released_ms)


def _stored_words(report: JobReport, now: bool) -> str:
    if report.outputs:
        return f"{'stores' if now else 'stored'} {plural(len(report.outputs), 'output')}"
    if report.wanted > 1:
        return f"the other tasks {'end' if now else 'ended'}"
    return f"the task {'ends' if now else 'ended'}"


def _moment_of(report: JobReport, words: str) -> int | None:
    """Return when an event whose text contains the given words happened, in milliseconds since
    1970; None if none did.
    """
    return next((_in_ms(one.at) for one in report.events if words in one.text), None)


def _in_ms(seconds: float) -> int:
    return int(seconds * 1000)
