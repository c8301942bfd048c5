"""Format a job as several lines, a change of it as one line, and the causes for which it waits or
has failed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause, seconds
from submit_tf_job.host.units import duration_text, local_time
from submit_tf_job.json_values import instant
from submit_tf_job.observation import JobState
from submit_tf_job.operations.task_links import Link, links_of
from submit_tf_job.report.table import number, value_text

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause, Consequence
    from submit_tf_job.diagnose.since_success import NewValue, SinceSuccess
    from submit_tf_job.job_report import (
        Checkpoint,
        Failure,
        HeldContainer,
        JobReport,
        ReportedProgress,
        Retried,
        RoleCounts,
        StoredOutput,
    )
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.explain import Why

_MAX_NAMED = 5
_MAX_GENERATIONS = 5  # the last ones, in text
_MAX_LINKS = 10
_LABELS = ("waits because", "also", "also", "also")
# Lines that a NodeManager writes for every container that fails.
_SAYS_NOTHING = (
    r"Exception from container-launch|Exit code: |Container exited with a non-zero|Container killed on request|Killed by external signal"  # noqa: E501
    r"|Exception message: *$|Shell (?:error )?output: *(?:<unknown>)?$|ExitCodeException exitCode=\d+: *$"  # noqa: E501
)
_QUOTED = 6


def link_lines(links: Sequence[Link]) -> Iterator[str]:
    """Return one line for each of the first ten links, and one line about the others."""
    for link in links[:_MAX_LINKS]:
        text = f"{link.task} {link.name}  {link.url}"
        if link.via:
            tunnel = f"submit_tf_job tunnel JOB {link.task}"
            text += f"  (reached from {link.via}; elsewhere: {tunnel})"
        yield text
    if len(links) > _MAX_LINKS:
        yield f"and {len(links) - _MAX_LINKS} more links: submit_tf_job describe JOB -o json"


def change_line(status: JobStatus, elapsed_s: float) -> str:
    """Return one line for a status; the lines for equal statuses differ only in the time."""
    return f"{int(elapsed_s) // 60:02d}:{int(elapsed_s) % 60:02d}  {change_text(status)}"


def change_text(status: JobStatus) -> str:
    """Return one line for a status, without the time."""
    return f"{status.state.value:<9}  {_what_happens(status)}".rstrip()


def _what_happens(status: JobStatus) -> str:
    report, state = status.report, status.state
    if state is JobState.UNKNOWN:
        return (
            "the ResourceManager does not list the application; one that has just started may "
            "still recover it"
        )
    # the job is over, and its logs are not collected yet
    if status.verdict.reason and (state is JobState.FINISHING or status.report_outlived_container):
        return status.verdict.reason
    if state is JobState.PENDING:
        return "accepted; waiting for YARN to start its ApplicationMaster"
    if report is None and state.is_final:
        return ""
    if report is None:
        return status.verdict.reason or status.trouble or "waiting for the first containers"
    if report.state == "waiting":
        if report.unnamed:
            every = {2: "Both tasks"}.get(report.wanted, f"All {report.wanted} tasks")
            return f"{every} started; waiting for DNS to register {_first_names(report.unnamed)}"
        waiting = clause("; waiting for {}", _first_names(report.missing))
        return f"{report.arrived} of {report.wanted} tasks started{waiting}"
    if report.state == "preparing":
        return "every task started; prepare of the job runs in " + _name_of_deciding_task(status)
    # FINISHING alone would not show the failure
    if state is JobState.FINISHING and report.first_failure:
        others = clause("; stopping the other tasks", report.wanted > 1)
        return f"{report.first_failure.message}{others}"
    roles = "  ".join(
        f"{name} {_role_words(counts)}" for name, counts in report.shown_roles.items()
    )
    words = (
        awaited_words(report),
        progress_words(report.progress) or roles,
        standstill_words(report),
    )
    return "  ".join(filter(None, words))


def _first_names(names: tuple[str, ...], count: int = 0) -> str:
    more = clause(" and {} more", max(len(names), count) - len(names[:_MAX_NAMED]))
    return ", ".join(names[:_MAX_NAMED]) + more


def _role_words(counts: RoleCounts) -> str:
    parts = (
        clause(f"{{}}/{counts.wanted} running", counts.running),
        clause("{} succeeded", counts.succeeded),
        clause("{} failed", counts.failed),
        clause("{} lost", counts.lost),
        clause("{} stopped", counts.ended),
    )
    said = ", ".join(filter(None, parts)) or f"0/{counts.wanted}"
    return said + clause(" (elastic, at most {})", counts.most)


def progress_words(progress: ReportedProgress | None) -> str:
    """Return the progress that a program reported, in one line; "" if it reported none."""
    if progress is None:
        return ""
    parts = []
    if progress.step is not None:
        of = "" if progress.total is None else f"/{progress.total}"
        parts.append(f"{progress.unit or 'step'} {progress.step}{of}")
    parts += [f"{name} {_number_text(value)}" for name, value in list(progress.metrics.items())[:6]]
    return "  ".join(parts)


def left_words(report: JobReport) -> str:
    """Return "about … left" with the deciding task's estimate; "" if there is no estimate, if its
    time has passed, or if the job's commands do not run.
    """
    progress, now = report.progress, report.updated_at
    if progress is None or progress.left_s is None or report.state != "running":
        return ""
    age_s = 0.0 if now is None or progress.at is None else now - progress.at  # by the same clock
    left_s = progress.left_s - age_s
    if left_s <= 0:
        return ""
    return f"about {duration_text(left_s)} left"


def standstill_words(report: JobReport) -> str:
    """Return which tasks have printed nothing, and for how long; "" if all tasks make progress.

    The time grows in steps, so that a follower does not print a line for each minute.
    """
    still = report.standstill
    if still is None:
        return ""
    minutes = int(still.for_s // 60)
    grain = next(grain for most, grain in ((5, 1), (60, 5), (10**9, 30)) if minutes < most)
    time = seconds(60 * (minutes // grain * grain)) if minutes else seconds(still.for_s)
    if still.everything and still.count > 1:
        return f"no task has printed anything for {time}"
    verb = "has" if still.count == 1 else "have"
    own = "" if still.step is None else f", since step {number(still.step)}"
    others = "; the others go on"
    if still.others_step is not None:
        others = f"; the others are at step {number(still.others_step)}"
    if still.everything:
        others = ""
    return (
        f"{_first_names(still.tasks, still.count)} {verb} printed nothing for {time}{own}{others}"
    )


def checkpoint_words(checkpoint: Checkpoint, now: float) -> str:
    """Return the name of a checkpoint, its age and its place. `now` is in seconds since 1970."""
    ago = ""
    if checkpoint.at is not None:
        ago = f", {seconds(max(0.0, now - checkpoint.at))} ago"
    return f"{checkpoint.name}{ago}, at {checkpoint.uri}"


def awaited_words(report: JobReport) -> str:
    """Return which tasks the job waits for before it ends, and until when; "" if it waits for no
    task.
    """
    awaited = report.awaited
    if awaited is None or not awaited.tasks:
        return ""
    tasks = _first_names(awaited.tasks, awaited.count)
    return f"waiting for {tasks} until {local_time(awaited.until, time.time())}"


def _number_text(value: Any) -> str:
    return value_text(value) if isinstance(value, float) else number(value)


def job_lines(
    status: JobStatus, pending: Sequence[Cause] = (), cause: Cause | None = None
) -> Iterator[str]:
    """Return a few lines about a job, the most important first."""
    verdict, app, report = status.verdict, status.app, status.report
    yield f"{status.name}  {verdict.state.value}{_duration_words(status)}"
    if verdict.reason and not (cause and cause.sentence == verdict.reason):
        yield f"  {verdict.reason}"
    if cause:
        yield from root_cause_lines(cause)
    elif verdict.failure:
        yield from _failure_lines(verdict.failure)
    if verdict.state is JobState.SUCCEEDED and verdict.confirmed:
        yarn = "" if app is None else "YARN and by "  # `local` has no YARN
        yield f"  Confirmed by {yarn}{_name_of_deciding_task(status)}"
    if verdict.hint and not cause:
        yield f"  hint: {verdict.hint}"
    yield from cause_lines(pending)
    if report is not None:
        yield from _report_lines(report, live=not status.report_outlived_container)
    if status.held:
        yield from _held_lines(status.name, status.held)
    again = status.resubmission
    if again is not None:
        sizes = ", ".join(f"{mib}Mi for {role}" for role, mib in again.memory.items())
        yield f"  {'submitted':<12} again ({again.number}) after {again.former}, with {sizes}"
    yield from (f"  {line}" for line in link_lines(links_of(status)))
    yield from _output_lines(report.outputs if report else ())
    if app is not None:
        run = f"  run {status.run}" if status.run not in ("", status.name) else ""
        yield f"  application  {app.id}{run}  queue {app.queue}  user {app.user}"
    if status.others:
        runs = ", ".join([status.run, *status.others])
        yield f"  {1 + len(status.others)} runs of {status.name} are live: {runs}; stop one of them"
    if status.trouble:
        yield f"  not known at this moment: {status.trouble}"


def _held_lines(job: str, held: HeldContainer) -> Iterator[str]:
    until = local_time(held.until, time.time())
    yield (
        f"  {'held':<12} the container of {held.task} on {held.host} until {until}: "
        f"{held.directory or held.container}"
    )
    yield f"  {'':<12} yarn container -shell {held.container} (Hadoop 3.3 and later, where allowed)"
    yield f"  {'':<12} submit_tf_job release {job} ends it"


def _output_lines(outputs: Sequence[StoredOutput]) -> Iterator[str]:
    for output in outputs[:_MAX_LINKS]:
        whose = clause("  (of {} tasks)", output.tasks if output.tasks > 1 else 0)
        whose = whose or ("" if output.tasks else "  (written by the program itself)")
        yield f"  {'output':<12} {output.name}  {output.uri}{whose}"
    if len(outputs) > _MAX_LINKS:
        yield f"  and {len(outputs) - _MAX_LINKS} more outputs; -o json shows all"


def _name_of_deciding_task(status: JobStatus) -> str:
    return (status.report and status.report.deciding) or "the deciding task"


def _failure_lines(failure: Failure) -> Iterator[str]:
    what = f"{failure.task}{clause(' on {}', failure.host)}"
    if failure.status is not None:
        what += f", exit status {failure.status}"
    yield f"  first cause  {what}"
    if failure.last_lines:
        yield f"  last lines of {failure.task}'s stderr:"
        yield from (f"    {line}" for line in failure.last_lines)


def _report_lines(report: JobReport, *, live: bool) -> Iterator[str]:
    """Yield the lines for a report. If `live` is False, the deciding task's container has ended,
    and lines about running tasks are left out, because they are no longer true.
    """
    for name, counts in report.shown_roles.items() if live else ():
        yield f"  {name:<12} {_role_words(counts)}"
    if report.missing and live:
        named = ", ".join(report.missing[:_MAX_NAMED])
        yield f"  {'waiting for':<12} {named}{clause(' …', report.missing[_MAX_NAMED:])}"
    if report.progress:
        parts = (progress_words(report.progress), left_words(report))
        yield f"  {'progress':<12} {'  '.join(filter(None, parts))}"
    if report.checkpoint and report.checkpoint.name:
        yield f"  {'checkpoint':<12} {checkpoint_words(report.checkpoint, time.time())}"
    still, awaited = standstill_words(report), awaited_words(report)
    if still and live:
        yield f"  {'standstill':<12} {still}"
        yield f"  {'':<12} `stacks JOB` shows where its processes stand; only `lifetime` ends it"
    if awaited and live:
        yield f"  {'finishing':<12} {awaited}"
    if report.retried:
        yield from _retry_lines(report.retried)
    for warning in report.warnings:
        yield f"  {'warning':<12} {warning}"


def _retry_lines(retried: Retried) -> Iterator[str]:
    yield f"  {'retries':<12} {retried.used} of {retried.most}{clause('; {}', retried.refusal)}"
    for entry in retried.generations[-_MAX_GENERATIONS:]:
        at = f" at step {number(entry.step)}" if entry.step is not None else ""
        after = f" after {duration_text(entry.duration_s)}" if entry.duration_s else ""
        yield f"  {'':<12} {entry.number + 1}{after}{at}: {entry.message}"


def _duration_words(status: JobStatus) -> str:
    app = status.app
    if app is None or not app.started_ms:
        return ""
    if app.finished_ms and app.finished_ms >= app.started_ms:
        minutes, seconds = divmod((app.finished_ms - app.started_ms) // 1000, 60)
        return f" after{clause(' {} min', minutes)} {seconds} s"
    if app.elapsed_ms and not status.state.is_final:
        return f" for {duration_text(app.elapsed_ms / 1000)}"
    return ""


# --- causes ---


def cause_lines(causes: Sequence[Cause]) -> Iterator[str]:
    """Return the lines for the causes of a waiting job, the most important first; at most four are
    shown.
    """
    for label, cause in zip(_LABELS, causes, strict=False):
        yield f"  {label}: {cause.sentence}"
        if cause.hint:
            yield f"    next: {cause.hint}"
    if len(causes) > len(_LABELS):
        yield f"  and {len(causes) - len(_LABELS)} more; -o json shows all"


def root_cause_lines(cause: Cause, *, short: bool = False) -> Iterator[str]:
    """Return the lines for the cause of a failed job: what happened, the next step, and where;
    unless `short`, also the end of its log or YARN's diagnostics, and the tasks that ended because
    of it.
    """
    yield f"  first cause  {cause.sentence}"
    if cause.hint:
        yield f"  hint: {cause.hint}"
    if cause.task and (cause.host or cause.status is not None):
        where = f"{cause.task}{clause(' on {}', cause.host)}"
        yield f"  {'failed task':<12} {where}{_cause_status(cause)}"
    if cause.exception:
        place = clause("  ({})", cause.facts.get("place"))
        yield f"  {'exception':<12} {cause.exception}{place}"
    if short:
        return
    if cause.last_lines:
        stream = cause.evidence.stream if cause.evidence else "stderr"
        yield f"  last lines of {cause.task}'s {stream}:"
        yield from (f"    {line}" for line in cause.last_lines)
    elif said := [
        line for line in cause.diagnostics.splitlines() if not re.match(_SAYS_NOTHING, line)
    ]:
        yield "  YARN reports:"
        yield from (f"    {line}" for line in said[:_QUOTED])
    yield from _consequence_lines(cause.consequences)


_OF_WHY = 10  # lines


def why_lines(found: Why) -> list[str]:
    """Return at most ten lines: why a job waits or failed, and what has changed since it last
    succeeded.
    """
    verdict, cause = found.status.verdict, found.root_cause
    lines = [f"{found.status.name}  {verdict.state.value}{_duration_words(found.status)}"]
    if cause is not None:
        lines += root_cause_lines(cause, short=True)
    elif verdict.reason:
        lines.append(f"  {verdict.reason}")
    lines += cause_lines(found.pending)
    if found.since_success is not None:
        lines += _since_lines(found.since_success, _OF_WHY - len(lines))
    return lines[:_OF_WHY]


def _since_lines(since: SinceSuccess, room: int) -> Iterator[str]:
    when = (instant(since.submitted_ms) or "").replace("T", " ")
    same = "" if since.changes else ": no file, package, image, key, argument, variable or node"
    yield f"  new since {since.run} of {when}, which succeeded{same}"
    printed = [f"    printed  {line}" for line in since.lines or ()][-2:]
    shown = [f"    {new_value_words(one)}" for one in since.changes]
    room -= 1 + len(printed)
    if len(shown) > room:
        shown = [*shown[: room - 1], f"    and {len(shown) - room + 1} more; -o json shows all"]
    yield from (*shown, *printed)


def new_value_words(change: NewValue) -> str:
    """Return one difference between two runs in words."""
    before, now = change.before, change.now
    named = f"{change.kind:<8} {change.name}"
    if change.kind == "file":
        how = "is new" if before is None else "is gone" if now is None else "has changed"
        return f"{named} {how}"
    return f"{named}  {'none' if before is None else before} → {'none' if now is None else now}"


def _cause_status(cause: Cause) -> str:
    if cause.status is None:
        return ""
    if not cause.meaning or cause.meaning in cause.sentence:
        return f", exit status {cause.status}"
    return f", exit status {cause.status} ({cause.meaning})"


def _consequence_lines(ends: tuple[Consequence, ...]) -> Iterator[str]:
    if ends:
        yield "  Also ended:"
    for end in ends[:_MAX_NAMED]:
        why = [end.message] if end.message else []
        if end.status is not None:
            why.append(f"exit status {end.status}")
        yield f"    {end.task}{clause(' ({})', ', '.join(why))}"
    if len(ends) > _MAX_NAMED:
        yield f"    and {len(ends) - _MAX_NAMED} more"
