"""Why a job failed: one root cause out of everything that was said. Pure: `api/failure.py` gathers what this weighs.

The diagnosis explains a verdict and never changes it (`observation.verdict`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from submit_tf_job import contract
from submit_tf_job.diagnose.container_patterns import CONTAINER, MASTER, NEVER_GRANTED
from submit_tf_job.diagnose.model import Consequence, RootCause
from submit_tf_job.diagnose.patterns import recognise
from submit_tf_job.diagnose.statuses import meaning_of, of_executor
from submit_tf_job.diagnose.tracebacks import PythonError
from submit_tf_job.diagnose.witnesses import BOOTSTRAP_SAYS, Finding, by_bootstrap, by_container, by_program, by_status, by_yarn, role_of
from submit_tf_job.observation import Evidence, Observation
from submit_tf_job.yarn.amlog import ContainerEnd
from submit_tf_job.yarn.records import AppReport, AppState, FinalStatus

__all__ = ["Clues", "Suspect", "conclude", "first_of", "needs_am", "suspect_of", "suspects"]

KEPT = 20
_LINE = 500
_TENSORFLOW = ("chief", "master", "worker", "ps", "evaluator")
# A minimal image lacks en_US.UTF-8, which YARN's AM asks for (seen in every container of such images).
_AM_STATUS = re.compile(r"exited with +exitCode: (-?\d+)")  # RMAppAttemptImpl
_AM_TIMES = re.compile(r"failed (\d+) times")
_JAVA = re.compile(r"\s+at [\w.$/]+\(")
_NOISE = ("setlocale: LC_ALL", contract.OUTCOME_MARK)
# How a task ends because another one has failed, or the job is over.
_CONSEQUENCE = frozenset({contract.EXIT_JOB_FAILED, contract.EXIT_DECIDER_LOST, -105, -106, -107})


@dataclass(frozen=True)
class Suspect:
    """A task that failed.

    Attributes:
        task: Its name.
        container_id: Its container.
        host: Its node.
        status: Exit status of its command; of its container, where only YARN speaks of it.
        reason: The bootstrap's word for it; "" where only YARN speaks of it.
        message: The bootstrap's sentence.
        last_lines: The end of its stderr.
    """

    task: str
    container_id: str | None = None
    host: str | None = None
    status: int | None = None
    reason: str = ""
    message: str = ""
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clues:
    """What is known of a failed job.

    Attributes:
        seen: The last look.
        suspect: The task that is looked into.
        others: Tasks that failed after it, in order of time.
        ends: What the ApplicationMaster says of containers that ended.
        stderr: The end of the suspect's stderr.
        am_error: The last error that the ApplicationMaster wrote of itself.
    """

    seen: Observation
    suspect: Suspect | None = None
    others: tuple[Suspect, ...] = ()
    ends: tuple[ContainerEnd, ...] = ()
    stderr: str = ""
    am_error: str = ""

    def end_of(self, suspect: Suspect) -> ContainerEnd | None:
        """Return how the suspect's container ended."""
        mine = [end for end in self.ends if end.container_id == suspect.container_id]
        return mine[-1] if mine else None


# --- whom to look into ---


def suspects(seen: Observation) -> tuple[Suspect, ...]:
    """Return the tasks that the deciding task's report says failed, the first cause first; or the deciding task where it was stopped."""
    report = seen.report
    if report is None:
        return ()
    records = [report.raw.get("first_failure"), *_list(report.raw.get("later_failures"))]
    found = tuple(_suspect(record) for record in records if isinstance(record, dict) and record.get("task"))
    if found or not report.outcome_status or report.state == "succeeded":
        return found
    outcome = report.raw.get("outcome")
    reason = "killed" if isinstance(outcome, dict) and outcome.get("signal") else "exited"
    deciding, container = _text(report.raw.get("deciding")) or "?", _text(report.raw.get("container"))
    return (Suspect(deciding, container, _host_of(report.raw, deciding), report.outcome_status, reason),)


def _suspect(record: Mapping[str, Any]) -> Suspect:
    status = record.get("status")
    return Suspect(
        task=str(record["task"]),
        container_id=_text(record.get("container")),
        host=_text(record.get("host")),
        status=status if isinstance(status, int) else None,
        reason=_text(record.get("reason")) or "",
        message=_text(record.get("message")) or "",
        last_lines=tuple(str(line)[:_LINE] for line in _list(record.get("last_lines"))[-KEPT:]),
    )


def _host_of(report: Mapping[str, Any], task: str) -> str | None:
    tasks = [entry for entry in _list(report.get("tasks")) if isinstance(entry, dict) and entry.get("task") == task]
    return _text(tasks[0].get("host")) if tasks else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value[:_LINE] if isinstance(value, str) and value else None


def needs_am(suspect: Suspect | None) -> bool:
    """Say whether the ApplicationMaster may know more: where a task was ended from outside, or never came."""
    if suspect is None or suspect.reason in ("lost", "killed", "peers-missing"):
        return True
    return suspect.status in (None, 137, 143)


def suspect_of(ends: Sequence[ContainerEnd], seen: Observation, deciding_role: str | None = None) -> Suspect | None:
    """Return the task whose container failed first, where only the ApplicationMaster's log speaks of it.

    Args:
        ends: What it says.
        seen: The last look; of tasks that are missing there, one is the cause.
        deciding_role: The role whose end was the job's end.
    """
    failed = [end for end in ends if end.failed]
    if seen.report is not None and seen.report.missing:
        # The list in the report is cut; the start waits for no task that is here.
        missing = set(seen.report.missing)
        failed = [end for end in failed if end.task in missing]
    first = [end for end in failed if end.status not in _CONSEQUENCE and not end.again] or failed
    trains = [end for end in first if role_of(end.task) in (*_TENSORFLOW, deciding_role)] or first
    if not trains:
        return None
    end = trains[0]
    return Suspect(end.task, end.container_id, end.host, end.status)


def first_of(told: Suspect | None, found: Suspect | None, seen: Observation) -> Suspect | None:
    """Choose between the task that the report names and the one whose container failed first.

    The report knows better, but for tasks that never arrived, and where it names none because the job was stopped.
    """
    named = seen.report is not None and seen.report.first_failure is not None
    if found is None or (told is not None and (told.container_id == found.container_id or (named and told.reason != "peers-missing"))):
        return told
    return found


# --- the weighing ---


def conclude(clues: Clues) -> RootCause | None:
    """Name the root cause; None where nothing that was read says more than the verdict."""
    suspect = clues.suspect
    if suspect is None:
        return _of_application(clues)
    never = _never_granted(clues.seen.app) if suspect.reason == "peers-missing" else None
    if never is not None:
        return never
    end = clues.end_of(suspect)
    asked = _asked_mib(clues.seen, suspect.task, end)
    finding, error = _weigh(clues, suspect, end, asked)
    if finding is not None and finding.code == "peer-failed":
        elsewhere = _elsewhere(clues, asked)
        if elsewhere is not None:
            return elsewhere
    if finding is None:
        return None
    return _root(clues, suspect, end, finding, error)


def _weigh(clues: Clues, suspect: Suspect, end: ContainerEnd | None, asked: int | None) -> tuple[Finding | None, PythonError | None]:
    """Ask the witnesses, those that know more first."""
    stderr = clues.stderr or "\n".join(suspect.last_lines)
    outside = by_yarn(end, asked)
    program, error = by_program(suspect.task, suspect.status, stderr, asked)
    if outside is not None:
        return outside, error
    ran = bool(suspect.reason) or BOOTSTRAP_SAYS in stderr or clues.seen.evidence is Evidence.NONE_EXPECTED
    if end is not None and not suspect.reason:
        container = by_container(end, stderr)
        finding = (program or by_status(suspect.task, suspect.status, asked)) if ran else (container or program)
        if ran and container is not None and container.code != "container-failed" and program is None:
            finding = container
        return finding or by_status(suspect.task, suspect.status, asked), error
    if suspect.reason == "lost" and end is not None and end.status == 137:
        return by_status(suspect.task, end.status, asked), error
    said = by_bootstrap(suspect.reason, suspect.message, suspect.status)
    return said or program or by_status(suspect.task, suspect.status, asked), error


def _elsewhere(clues: Clues, asked: int | None) -> RootCause | None:
    """Return another task's failure, where the first one to end had only lost its peers."""
    for other in clues.others:
        if other.reason not in ("exited", "killed", "lost"):
            continue
        alone = replace(clues, suspect=other, stderr="")
        finding, error = _weigh(alone, other, clues.end_of(other), asked)
        if finding is not None and finding.code != "peer-failed" and (other.status is None or other.status != 143):
            return _root(alone, other, clues.end_of(other), finding, error)
    return None


def _root(clues: Clues, suspect: Suspect, end: ContainerEnd | None, finding: Finding, error: PythonError | None) -> RootCause:
    status = suspect.status
    if end is not None and end.status is not None and (status is None or end.status < 0):
        status = end.status
    facts = dict(finding.facts)
    if error is not None and error.place:
        facts["place"] = error.place
    ran = bool(suspect.reason)
    return RootCause(
        code=finding.code,
        sentence=finding.sentence,
        hint=finding.hint,
        task=suspect.task,
        host=suspect.host or (end.host if end else None),
        container_id=suspect.container_id,
        status=status,
        meaning=meaning_of(status) if ran or (status or 0) < 0 or clues.seen.evidence is Evidence.NONE_EXPECTED else of_executor(status),
        exception=error.last_line if error else "",
        last_lines=_last_lines(suspect, clues.stderr),
        diagnostics=_diagnostics(end),
        consequences=_consequences(clues, suspect),
        facts=facts,
    )


def _last_lines(suspect: Suspect, stderr: str) -> tuple[str, ...]:
    """Return the end of its stderr: the program's words, and the bootstrap's where it is the bootstrap that failed."""
    own = (BOOTSTRAP_SAYS,) if suspect.reason not in ("", "bootstrap-error", "login-failed") else ()
    lines = [line.rstrip()[:_LINE] for line in stderr.splitlines() or suspect.last_lines]
    return tuple(line for line in lines if line and not any(noise in line for noise in (*_NOISE, *own)) and not _JAVA.match(line))[-KEPT:]


def _diagnostics(end: ContainerEnd | None) -> str:
    """Quote the NodeManager, without the files that it quotes itself and its list of processes."""
    if end is None:
        return ""
    kept: list[str] = []
    for line in end.diagnostics.splitlines():
        if line.startswith("Last 4096 bytes of stderr"):
            break
        if not line.lstrip().startswith(("|-", "Dump of the process-tree", "at ", "Container id:", "Last 4096 bytes of")):
            kept.append(line.strip())
    return "\n".join(kept)[:2000]


def _consequences(clues: Clues, root: Suspect) -> tuple[Consequence, ...]:
    """Name what ended after the root cause."""
    if clues.seen.report is None:
        later = [end for end in clues.ends if end.failed and end.container_id != root.container_id]
        return tuple(Consequence(end.task, end.status, meaning_of(end.status)) for end in later[:KEPT])
    failed = [other for other in (clues.suspect, *clues.others) if other is not None]
    first = suspects(clues.seen)[:1]
    all_failed = list(dict.fromkeys([*first, *failed, *suspects(clues.seen)]))
    return tuple(_consequence(other) for other in all_failed if other.task != root.task)[:KEPT]


def _consequence(other: Suspect) -> Consequence:
    finding, _ = by_program(other.task, other.status, "\n".join(other.last_lines))
    said = finding.sentence if finding else other.message or meaning_of(other.status)
    return Consequence(other.task, other.status, said.removeprefix(f"{other.task} "))


def _asked_mib(seen: Observation, task: str, end: ContainerEnd | None) -> int | None:
    """Return how much memory the task's container was given."""
    if end is not None and end.memory_mib:
        return end.memory_mib
    for component in _list((seen.service.raw if seen.service else {}).get("components")):
        if isinstance(component, dict) and component.get("name") == role_of(task):
            resource = component.get("resource")
            memory = resource.get("memory") if isinstance(resource, dict) else None
            return int(str(memory)) if str(memory).isdigit() else None
    return None


# --- no task is to blame ---


def _of_application(clues: Clues) -> RootCause | None:
    app = clues.seen.app
    if app is None:
        return None
    never = _never_granted(app)
    if never is not None:
        return never
    if app.state is AppState.FAILED:
        return _am_failed(clues, app)
    if app.final_status is FinalStatus.SUCCEEDED and clues.seen.evidence is Evidence.MISSING:
        return RootCause(
            "command-never-ran",
            "YARN says SUCCEEDED, but the deciding task's command never ran",
            "known causes: an image whose ENTRYPOINT does not run its arguments, docker.inspect.max.retries=0 in "
            "container-executor.cfg, a NodeManager that could not start the shell",
        )
    return None


def _never_granted(app: AppReport | None) -> RootCause | None:
    found = recognise(app.diagnostics, NEVER_GRANTED, task="the job") if app else None
    if app is None or found is None:
        return None
    return RootCause(found.code, found.sentence, found.hint, diagnostics=app.diagnostics[:2000], facts=found.facts)


def _am_failed(clues: Clues, app: AppReport) -> RootCause:
    words = f"{app.diagnostics}\n{clues.am_error}"
    known = recognise(words, [*MASTER, *CONTAINER], task="the ApplicationMaster")
    if known is not None:
        return RootCause(known.code, known.sentence, known.hint, diagnostics=app.diagnostics[:2000], facts=known.facts)
    ended, often = _AM_STATUS.search(app.diagnostics), _AM_TIMES.search(app.diagnostics)
    status = int(ended[1]) if ended else None
    times = f" {often[1]} times, the last time with" if often and often[1] != "1" else " with"
    how = f"{times} exit status {status}{f' ({meaning_of(status)})' if meaning_of(status) else ''}" if ended else ""
    return RootCause(
        "application-master-failed",
        f"YARN's ApplicationMaster of the job failed{how}{f': {clues.am_error}' if clues.am_error else ''}",
        f"submit_tf_job logs {clues.seen.name} --am shows its log",
        status=status,
        meaning=meaning_of(status),
        diagnostics=app.diagnostics[:2000],
    )
