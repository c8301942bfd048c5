"""A job: its JSON object, its lines, and one line for what has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.observation import Failure, JobReport, JobState, RoleCounts
from submit_tf_job.report.causes import cause_lines, cause_object
from submit_tf_job.report.failure import root_cause_lines, root_cause_object
from submit_tf_job.report.model import FORMAT_VERSION, instant

if TYPE_CHECKING:
    from submit_tf_job.diagnose.model import Cause, RootCause
    from submit_tf_job.watch import Look

__all__ = ["change_line", "change_text", "job_lines", "job_object", "progress_words"]

_MAX_NAMED = 5


def job_object(look: Look, pending: Sequence[Cause] = (), cause: RootCause | None = None) -> dict[str, Any]:
    """Build the object that `-o json` prints for a job, and why it waits or failed where that was asked; documented in docs/json.md."""
    seen, verdict, app, report = look.seen, look.verdict, look.seen.app, look.seen.report
    return {
        "kind": "Job",
        "format": FORMAT_VERSION,
        "name": seen.name,
        "application_id": seen.application_id,
        "user": app.user if app else None,
        "queue": app.queue if app else None,
        "state": verdict.state.value,
        "reason": verdict.reason,
        "confirmed": verdict.confirmed,
        "hint": verdict.hint,
        "failure": _failure_object(verdict.failure),
        "root_cause": root_cause_object(cause),
        "pending": [cause_object(cause) for cause in pending],
        "submission": report.submission if report else (seen.service.version if seen.service else None),
        "tasks": {"wanted": report.wanted, "arrived": report.arrived, "missing": list(report.missing)} if report else None,
        "roles": {name: _counts_object(counts) for name, counts in report.roles.items()} if report else {},
        "progress": dict(report.progress) if report and report.progress else None,
        "warnings": list(report.warnings) if report else [],
        "evidence": seen.evidence.value,
        "yarn": {"state": app.state.value, "final_status": app.final_status.value, "diagnostics": app.diagnostics} if app else None,
        "started_at": instant(app.started_ms if app else None),
        "finished_at": instant(app.finished_ms if app else None),
    }


def _failure_object(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "task": failure.task,
        "status": failure.status,
        "reason": failure.reason,
        "message": failure.message,
        "host": failure.host,
        "last_lines": list(failure.last_lines),
    }


def _counts_object(counts: RoleCounts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in RoleCounts.__dataclass_fields__}


def change_line(look: Look, elapsed_s: float) -> str:
    """Describe a look in one line; two looks with nothing new between them give the same line but for the time."""
    return f"{int(elapsed_s) // 60:02d}:{int(elapsed_s) % 60:02d}  {change_text(look)}"


def change_text(look: Look) -> str:
    """Describe a look in one line, where times stand beside it anyway."""
    return f"{look.verdict.state.value:<9}  {_what_happens(look)}".rstrip()


def _what_happens(look: Look) -> str:
    report, state = look.seen.report, look.verdict.state
    if state is JobState.UNKNOWN:
        return "the ResourceManager does not know the application; one that has just been started may yet remember"
    if state is JobState.PENDING:
        return "accepted; waiting for YARN to start its ApplicationMaster"
    if report is None:
        return "waiting for the first containers" if not state.is_final else ""
    if report.state == "waiting":
        if report.missing and report.arrived >= report.wanted:
            return f"all {report.wanted} tasks are here; DNS does not know yet: {_named(report.missing)}"
        return f"{report.arrived} of {report.wanted} tasks are here{f'; missing {_named(report.missing)}' if report.missing else ''}"
    if state is JobState.FINISHING and report.first_failure:  # FINISHING beside "failed" would read as if all were well
        return f"{report.first_failure.message}{'; the other tasks are told to end' if report.wanted > 1 else ''}"
    progress = progress_words(report.progress or {})
    return progress or "  ".join(f"{name} {_role_words(counts)}" for name, counts in report.roles.items())


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _role_words(counts: RoleCounts) -> str:
    parts = [f"{counts.running}/{counts.wanted} running"] if counts.running else []
    parts += [f"{getattr(counts, word)} {word}" for word in ("succeeded", "failed", "lost", "ended") if getattr(counts, word)]
    return ", ".join(parts) or f"0/{counts.wanted}"


def progress_words(progress: Mapping[str, Any]) -> str:
    """Write what a program said of its progress in one line."""
    step, total = progress.get("step"), progress.get("total")
    parts = [f"step {step}/{total}" if total is not None else f"step {step}"] if step is not None else []
    metrics = progress.get("metrics")
    if isinstance(metrics, dict):
        parts += [f"{name} {_number(value)}" for name, value in list(metrics.items())[:6]]
    return "  ".join(parts)


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def job_lines(look: Look, pending: Sequence[Cause] = (), cause: RootCause | None = None) -> Iterator[str]:
    """Describe a job in a few lines, the most important first."""
    seen, verdict, app, report = look.seen, look.verdict, look.seen.app, look.seen.report
    yield f"{seen.name}  {verdict.state.value}{_duration(look)}"
    if verdict.reason and not (cause and cause.sentence == verdict.reason):
        yield f"  {verdict.reason}"
    yield from root_cause_lines(cause) if cause else _failure_lines(verdict.failure)
    if verdict.state is JobState.SUCCEEDED and verdict.confirmed:
        yield "  YARN and the deciding task both say so"
    if verdict.hint and not (cause and cause.hint):
        yield f"  hint: {verdict.hint}"
    yield from cause_lines(pending)
    if report is not None:
        yield from _report_lines(report)
    if app is not None:
        yield f"  application  {app.id}  queue {app.queue}  user {app.user}"
    if seen.trouble:
        yield f"  not known at this moment: {seen.trouble}"


def _failure_lines(failure: Failure | None) -> Iterator[str]:
    if failure is None:
        return
    where = f" on {failure.host}" if failure.host else ""
    status = f", exit status {failure.status}" if failure.status is not None else ""
    yield f"  first cause  {failure.task}{where}{status}"
    if failure.last_lines:
        yield f"  last lines of {failure.task}'s stderr:"
        yield from (f"    {line}" for line in failure.last_lines)


def _report_lines(report: JobReport) -> Iterator[str]:
    for name, counts in report.roles.items():
        yield f"  {name:<12} {_role_words(counts)}"
    if report.missing:
        yield f"  {'missing':<12} {', '.join(report.missing[:_MAX_NAMED])}{' …' if len(report.missing) > _MAX_NAMED else ''}"
    if report.progress:
        yield f"  {'progress':<12} {progress_words(report.progress)}"
    for warning in report.warnings:
        yield f"  {'warning':<12} {warning}"


def _duration(look: Look) -> str:
    app = look.seen.app
    if app is None or not app.started_ms or not app.finished_ms:
        return ""
    seconds = (app.finished_ms - app.started_ms) // 1000
    return f" after {seconds // 60} min {seconds % 60} s" if seconds >= 60 else f" after {seconds} s"
