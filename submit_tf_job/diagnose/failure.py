"""Determine why a job failed: a single cause from all evidence, by pure functions.
`operations/why.py` reads the evidence.

A diagnosis explains a verdict and never changes it (`observation.verdict`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from submit_tf_job.container import contract
from submit_tf_job.container.output_lines import telling_lines
from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.diagnose.cause import Cause, Consequence
from submit_tf_job.diagnose.evidence import OF_PEERS, ProgramEnd, by_program
from submit_tf_job.diagnose.exceptions import blocks_of
from submit_tf_job.diagnose.last_words import last_words
from submit_tf_job.diagnose.output import read_lines, without_workdir
from submit_tf_job.diagnose.outside import (
    BOOTSTRAP_SAYS,
    by_bootstrap,
    by_container,
    by_docker,
    by_missing_task,
    by_status,
    by_yarn,
    words_of_yarn,
)
from submit_tf_job.diagnose.patterns import recognise, role_of
from submit_tf_job.diagnose.statuses import (
    CONTAINER,
    MASTER,
    NEVER_GRANTED,
    OTHER_REQUEST,
    REFUSED,
    meaning_of,
    of_executor,
)
from submit_tf_job.job_report import Failure, ReportedTask, outcome_line
from submit_tf_job.observation import Evidence, JobStatus
from submit_tf_job.yarn.amlog import ContainerEnd, container_ends, deciding_role, last_error
from submit_tf_job.yarn.observed import (
    AppReport,
    AppState,
    FinalStatus,
    items,
    object_of,
    whole_of,
)

KEPT = 20
_LINE = 500
_TENSORFLOW = ("chief", "master", "worker", "ps", "evaluator")
_AM_STATUS = re.compile(r"exited with +exitCode: (-?\d+)")  # RMAppAttemptImpl
# of schedulers' placement rules and limits
_REJECTED = re.compile(
    r"[Rr]eject(?:ed)? application|[Rr]ejected by placement rules|is not a leaf queue"
    r"|to (?:unknown|non-leaf) queue|cannot submit applications to queue|is STOPPED\. Cannot accept"
)
_AM_TIMES = re.compile(r"failed (\d+) times")
_OF_ATTEMPT = re.compile(r"failed \d+ times|AM Container|ApplicationMaster|appattempt_")
# by the status with which YARN ended the ApplicationMaster's container; "" for the same as a task's
_HINTS_OF_AM = {
    -100: "",
    -101: "",
    -102: "",
    -103: "the administrator sets yarn.nodemanager.vmem-check-enabled to false, or a larger "
    "vmem-pmem-ratio",
    -104: "yarn.service.am-resource.memory of the cluster is too small for this job",
}
_WHY_ATTEMPTS_FAILED = re.compile(
    r"due to (?!AM Container)([^\n]+?)(?:\. Failing the application|$)", re.MULTILINE
)
_JAVA = re.compile(r"\s+at [\w.$/]+\(")
_NONE = Failure()
_MOST_STOPPED = 3
_OF_A_STOP = re.compile(r"SignalException|KeyboardInterrupt|SystemExit|SIGTERM|signal: ?15")
_NOISE = ("setlocale: LC_ALL", contract.OUTCOME_MARK)
# Exit statuses of tasks that ended because another one had failed, or because the job had ended.
_CONSEQUENCE = frozenset({contract.EXIT_JOB_FAILED, contract.EXIT_DECIDING_LOST, -105, -106, -107})


@dataclass(frozen=True)
class FailureEvidence:
    """The evidence about a failed job.

    Attributes:
        seen: The job's last status.
        suspect: The task that failed first, as far as is known; without a name if none is known.
        ends: How containers ended, from the ApplicationMaster's log.
        stderr: The end of the suspect's stderr.
        stdout: The end of the suspect's stdout, if it was read.
        sandbox: Whether the cluster is a sandbox, in which tasks may run as plain processes on
            purpose.
        am_error: The last error in the ApplicationMaster's log.
        missing: A task that has a container and never reported, and the end of its stderr.
        stopped: By task, the end of the stderr of tasks that the job stopped.
    """

    seen: JobStatus
    suspect: Failure = _NONE
    ends: tuple[ContainerEnd, ...] = ()
    stderr: str = ""
    stdout: str = ""
    am_error: str = ""
    sandbox: bool = False
    missing: tuple[str, str] | None = None
    stopped: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs_am_log(self) -> bool:
        """Whether the ApplicationMaster's log may explain more: a task was ended from outside, or
        never reported.
        """
        from_outside = self.suspect.reason in ("lost", "killed", "peers-missing")
        return from_outside or self.suspect.status in (None, 137, 143)

    @property
    def others(self) -> tuple[Failure, ...]:
        """The tasks that failed later, from the deciding task's report, in order of time."""
        return failed_tasks(self.seen)[1:]

    @property
    def end(self) -> ContainerEnd:
        """How the suspect's container ended; without an id if that is not known."""
        mine = [end for end in self.ends if end.container_id == self.suspect.container_id]
        return mine[-1] if mine else ContainerEnd("", "", None)


# --- the first task that failed ---


def failed_tasks(seen: JobStatus) -> tuple[Failure, ...]:
    """Return the failed tasks in the deciding task's report, the first failure first. If the report
    has none, return the deciding task itself, unless its exit status is 0 or not known, or the job
    succeeded. Return () without a report.
    """
    report = seen.report
    if report is None:
        return ()
    if report.first_failure:
        return (report.first_failure, *report.later_failures)
    if report.later_failures or not report.outcome_status or report.state == "succeeded":
        return report.later_failures
    number = report.outcome.signal if report.outcome else None
    reason = contract.reason_of_signal(number) if number else contract.REASON_EXITED
    deciding, container = report.deciding or "?", report.container_id
    host = next((task.host for task in report.tasks if task.task == deciding), None)
    return (Failure(deciding, report.outcome_status, reason, host=host, container_id=container),)


def evidence_of(seen: JobStatus, *, sandbox: bool = False) -> FailureEvidence:
    """Return the evidence in a job's last status; other sources add further fields later."""
    return FailureEvidence(seen, next(iter(failed_tasks(seen)), _NONE), sandbox=sandbox)


def with_am_log(evidence: FailureEvidence, log: str) -> FailureEvidence:
    """Return the evidence, completed with what the ApplicationMaster's log tells.

    If the report and the log name different tasks, the task in the report counts, unless that task
    never reported. The task in the log counts if the report names no task because the job was
    stopped.
    """
    evidence = replace(evidence, ends=container_ends(log), am_error=last_error(log))
    found = _failed_container(evidence, deciding_role(log)) or _silent_success(evidence)
    told, report = evidence.suspect, evidence.seen.report
    named = report is not None and report.first_failure is not None
    named = named and told.reason != "peers-missing"
    if found is None or (told.task and (named or told.container_id == found.container_id)):
        return evidence
    return replace(evidence, suspect=found)


def _failed_container(evidence: FailureEvidence, decides: str | None) -> Failure | None:
    """Return the task whose container failed first.

    Args:
        evidence: The evidence. If the report lists missing tasks, one of them is the cause.
        decides: The role whose end also ended the job.
    """
    failed, report = [end for end in evidence.ends if end.failed], evidence.seen.report
    if report is not None and report.missing:
        # The report's list is truncated; the start waits only for the missing tasks.
        failed = [end for end in failed if end.task in set(report.missing)]
    first = [end for end in failed if end.status not in _CONSEQUENCE and not end.again] or failed
    trains = [end for end in first if role_of(end.task) in (*_TENSORFLOW, decides)] or first
    return next((_of_end(end) for end in trains), None)


def _silent_success(evidence: FailureEvidence) -> Failure | None:
    """Return the deciding task as failed if YARN reports success for its container, and no outcome
    was reported.
    """
    app, seen = evidence.seen.app, evidence.seen
    if (
        app is None
        or app.final_status is not FinalStatus.SUCCEEDED
        or seen.evidence is not Evidence.MISSING
    ):
        return None
    mine = [end for end in evidence.ends if end.task == seen.deciding_task and end.status == 0]
    return _of_end(mine[-1]) if mine else None


def _of_end(end: ContainerEnd) -> Failure:
    return Failure(end.task, end.status, host=end.host, container_id=end.container_id)


# --- the choice of a cause ---


def conclude(evidence: FailureEvidence) -> Cause | None:
    """Return the cause; None if the evidence does not explain more than the verdict."""
    evidence = replace(
        evidence, suspect=_with_outcome_of_bootstrap(evidence.suspect, evidence.stderr)
    )
    suspect = evidence.suspect
    if not suspect.task:
        return _of_application(evidence)
    if suspect.status == 0 and not suspect.reason:
        return _false_success(evidence) or _of_application(evidence)
    if suspect.reason == "peers-missing" and (never := _never_granted(evidence.seen.app)):
        return never
    cause = _cause_by_evidence(evidence)
    if suspect.reason == "peers-missing" and evidence.missing is not None:
        cause = by_missing_task(*evidence.missing) or cause
    if cause is None:
        return None
    if is_of_peers(cause) and (elsewhere := _failure_of_other_task(evidence)):
        return elsewhere
    if cause.code in OF_PEERS:
        cause = _after_success(evidence, cause) or cause
    return _with_details(evidence, _without_image(evidence, _with_alike_tasks(evidence, cause)))


def is_of_peers(cause: Cause) -> bool:
    """Return whether a cause only means that a task has lost, or waited for, another task."""
    return cause.code in OF_PEERS or cause.lost_peer


def _after_success(evidence: FailureEvidence, cause: Cause) -> Cause | None:
    """If a task failed because it lost its connection to a task that had already succeeded, return
    this as the cause: the other task trained fewer steps.
    """
    report, task = evidence.seen.report, evidence.suspect.task
    if report is None or cause.code == "rendezvous-failed":
        return None
    done = [one.task for one in report.tasks if one.state == "succeeded" and one.task != task]
    peer = cause.facts.get("peer")
    others = [one for one in report.tasks if one.task != task]
    if peer not in done and (peer or not done or len(done) < len(others)):
        return None
    who = str(peer or done[0])
    return replace(
        cause,
        code="steps-differ",
        sentence=f"{who} had finished with 0{_seconds_before(evidence, who)}, and {task} still "
        "exchanged values with it",
        hint="every worker must run the same steps: the same number of batches, and `evaluate`, "
        "`predict` and `model.save`, too",
    )


def _seconds_before(evidence: FailureEvidence, who: str) -> str:
    """Return, as ` N s before`, how long before the failure a task had finished; "" if the report's
    events do not show that.
    """
    report, failed_at = evidence.seen.report, evidence.suspect.at
    done = [event.at for event in report.events if event.text == f"{who} is done"] if report else []
    if not done or failed_at is None or done[-1] is None or failed_at < done[-1]:
        return ""
    return f" {failed_at - done[-1]:.0f} s before"


def _with_alike_tasks(evidence: FailureEvidence, cause: Cause) -> Cause:
    """Return a cause with the number of other tasks that failed with the same exception."""
    if not cause.exception:
        return cause
    same = [
        other.task
        for other in evidence.others
        if other.task != evidence.suspect.task
        and cause.exception in without_workdir("\n".join(other.last_lines))
    ]
    if not same:
        return cause
    count = f"{len(same)} other tasks" if len(same) > 1 else same[0]
    return replace(
        cause,
        sentence=f"{cause.sentence}; {count} failed alike",
        facts={**cause.facts, "alike": same},
    )


def _with_outcome_of_bootstrap(suspect: Failure, stderr: str) -> Failure:
    """Return a failed task, of which only YARN reports the end, with the status and the reason from
    the last line that its bootstrap wrote, if there is such a line: the container's exit status
    alone does not tell which program set it.
    """
    said = outcome_line(stderr.encode("utf-8", "replace"))
    if said is None or suspect.reason or not suspect.task or said.task != suspect.task:
        return suspect
    if not said.reason or not said.status:
        return suspect
    return replace(suspect, reason=said.reason, status=said.status, message=said.message)


# Failures because something is missing from an image.
_OF_IMAGE = frozenset(
    {
        "command-not-found",
        "cuda-mismatch",
        "file-missing",
        "hdfs-unsupported",
        "keras-3",
        "library-missing",
        "module-missing",
        "not-executable",
        "program-missing",
        "python-missing",
        "tensorflow-missing",
        "wrong-architecture",
    }
)
# of these, what is mostly the user's own file, which no image would have
_OF_USER = ("file-missing", "program-missing")
# container-executor's operations: 1 launches a plain process, 4 a Docker container (main.c).
_PLAIN_LAUNCH = re.compile(r"^main : command provided 1$", re.MULTILINE)


def _without_image(evidence: FailureEvidence, cause: Cause) -> Cause:
    """If something was missing that the image has, and the node had ignored the image, return the
    ignored image as the cause. In a sandbox, add it to the hint instead.
    """
    report = evidence.seen.report
    is_named = report is not None and evidence.suspect.task in report.image_ignored
    plain = is_named or _PLAIN_LAUNCH.search(evidence.end.diagnostics)
    if cause.code not in _OF_IMAGE or not plain:
        return cause
    if evidence.sandbox and cause.code in _OF_USER:
        return cause
    facts = {**cause.facts, "code": cause.code}
    if evidence.sandbox:
        why = (
            "this sandbox has no Docker, and the image is not used: --container-path adds "
            "programs, --profile docker runs images"
        )
        return replace(cause, hint="; ".join(filter(None, [cause.hint, why])), facts=facts)
    return Cause(
        "image-ignored",
        f"{evidence.suspect.task} did not run in its image but as a plain process of its node, and "
        f"so: {cause.sentence}",
        "that NodeManager does not run Docker: its administrator adds docker to "
        "yarn.nodemanager.runtime.linux.allowed-runtimes, "
        "with LinuxContainerExecutor; `doctor` shows which nodes do",
        facts,
    )


def _cause_by_evidence(evidence: FailureEvidence) -> Cause | None:
    """Return the cause from the best evidence."""
    suspect, end = evidence.suspect, evidence.end
    asked = _asked_mib(evidence.seen, suspect.task, end)
    outside = by_yarn(end, asked)
    if outside is not None:
        return outside
    stderr = evidence.stderr
    ran = bool(suspect.reason) or BOOTSTRAP_SAYS in stderr
    if ran and suspect.reason in ("", "killed", "lost") and (gone := by_docker(end)):
        return gone
    gpus = _has_gpus(evidence.seen, suspect.task)
    ending = ProgramEnd(suspect.task, suspect.status, suspect.reason, asked, has_gpus=gpus)
    program = by_program(ending, _ends_of_outputs(evidence))
    if end.container_id and not suspect.reason:
        container = by_container(end, stderr)
        if ran and container is not None and container.code == "container-failed":
            container = None  # its command ran
        cause = (program or container) if ran else (container or program)
        return cause or by_status(suspect.task, suspect.status, asked)
    if suspect.reason == "lost" and end.status == 137:
        return by_status(suspect.task, end.status, asked)
    said = by_bootstrap(suspect.task, suspect.reason, suspect.message, stderr)
    cause = said or program or by_status(suspect.task, suspect.status, asked, suspect.reason)
    return cause and _from_outside(evidence, cause)


def _ends_of_outputs(evidence: FailureEvidence) -> dict[str, str]:
    """Return the ends of a task's outputs: as they were read now, and as they are in the report."""
    reported = "\n".join(evidence.suspect.last_lines)
    if not evidence.stderr and not evidence.stdout:
        return {"stderr": reported}
    return {"stderr": evidence.stderr, "stdout": evidence.stdout, "output": reported}


def _from_outside(evidence: FailureEvidence, cause: Cause) -> Cause:
    """Return the cause for a task that was ended from outside, completed with what may have ended
    the task, and with the other tasks on its node that ended in the same way.

    YARN sets a negative status for a container that it ends itself. A dockerd that stops or
    restarts sends SIGTERM to its containers, and does not log it (seen with Docker 20.10).
    """
    suspect = evidence.suspect
    if cause.code not in ("stopped-from-outside", "killed", "task-lost") or not suspect.host:
        return cause
    if cause.code == "stopped-from-outside" and evidence.end.status == 143:
        sentence = (
            f"{suspect.task} was ended by SIGTERM, and YARN did not ask for it: Docker or "
            f"the NodeManager on {suspect.host} was "
            "stopped or restarted, or a person ended the container"
        )
        cause = replace(
            cause,
            sentence=sentence,
            hint="submit again; the logs of dockerd and of the NodeManager there tell who it was",
        )
    ended = [
        other
        for other in evidence.others
        if other.reason in ("killed", "lost") and other.status in (None, 137, 143)
    ]
    same = sorted({other.task for other in ended if other.host == suspect.host} - {suspect.task})
    if not same:
        return cause
    hint = (
        f"{', '.join(same)} on {suspect.host} ended like it: was dockerd or the "
        f"NodeManager there restarted, or the node "
        "shut down? its administrator can say; submit again"
    )
    return replace(cause, hint=hint, facts={**cause.facts, "ended_with_it": same})


def _false_success(evidence: FailureEvidence) -> Cause | None:
    """Return the cause if a container could not start and YARN counts it as a success.

    container-executor with docker.inspect.max.retries=0 reports 0 for every container
    (hadoop-facts.md#retries-of-docker-inspect).
    """
    if not evidence.end.container_id or BOOTSTRAP_SAYS in evidence.stderr:
        return None
    cause = by_container(evidence.end, evidence.stderr)
    if cause is None:
        return None
    why = Cause(
        "exit-status-false",
        f"{cause.sentence}; its node reported exit status 0 all the same, and YARN SUCCEEDED",
        f"{cause.hint}; and ask the administrator of the cluster to set "
        f"docker.inspect.max.retries in container-executor.cfg "
        "to 1 or more: with 0 every failure counts as a success",
        {**cause.facts, "code": cause.code},
    )
    return _with_details(evidence, why)


def _failure_of_other_task(evidence: FailureEvidence) -> Cause | None:
    """Return the failure of another task as the cause, for a first task that had only lost its
    peers; None if no other task shows more.
    """
    for other in evidence.others:
        if other.reason not in ("exited", "crashed", "killed", "lost"):
            continue
        alone = replace(evidence, suspect=other, stderr="", stdout="")
        cause = _cause_by_evidence(alone)
        if cause is not None and not is_of_peers(cause) and other.status != 143:
            return _with_details(alone, cause)
    return _of_stopped(evidence)


def tasks_stopped(evidence: FailureEvidence, cause: Cause | None) -> tuple[ReportedTask, ...]:
    """Return the tasks whose stderr may show the real cause, if the first task to end has failed
    only because it lost a peer: those that the job stopped afterwards. The peer that `cause` names
    comes first. Return () for any other cause, and if another task has ended by itself.
    """
    report = evidence.seen.report
    if report is None or cause is None or not is_of_peers(cause):
        return ()
    if cause.task != evidence.suspect.task or any(
        other.reason == "exited" for other in evidence.others
    ):
        return ()
    peer = cause.facts.get("peer")
    stopped = [
        one
        for one in report.tasks
        if one.container_id and one.task != cause.task and one.state in ("ended", "failed")
    ]
    return tuple(sorted(stopped, key=lambda one: one.task != peer)[:_MOST_STOPPED])


def _of_stopped(evidence: FailureEvidence) -> Cause | None:
    """Return the exception at the end of a stopped task's stderr. It is only a guess, because the
    task was stopped before it had ended.
    """
    suspect = evidence.suspect
    for task, stderr in evidence.stopped.items():
        gpus = _has_gpus(evidence.seen, task)
        cause = by_program(ProgramEnd(task, 1, "exited", has_gpus=gpus), {"stderr": stderr})
        if cause is None or not cause.certain or is_of_peers(cause) or not cause.exception:
            continue
        if _OF_A_STOP.search(cause.exception):
            continue
        said = cause.sentence.removeprefix(f"{task} ").replace("ended by", "failed with")
        report = evidence.seen.report
        own = [one for one in report.tasks if one.task == task] if report else []
        return replace(
            cause,
            sentence=f"{suspect.task} lost the connection to {task}, which probably {said}",
            certain=False,
            task=task,
            host=own[0].host if own else None,
            container_id=own[0].container_id if own else None,
            last_lines=tuple(telling_lines(stderr)[-KEPT:]),
            consequences=(
                _later_failure(evidence.suspect, Failure(task)),
                *_later_failures(evidence),
            ),
        )
    return None


def _with_details(evidence: FailureEvidence, cause: Cause) -> Cause:
    suspect, end, status = evidence.suspect, evidence.end, evidence.suspect.status
    if end.status is not None and (status is None or end.status < 0):
        status = end.status
    by_itself = bool(suspect.reason) or (status or 0) < 0
    if cause.code == "exit-status-lost":
        by_itself = False  # the status means "lost" for YARN, and a signal for a program
    return replace(
        cause,
        task=suspect.task,
        host=suspect.host or end.host,
        container_id=suspect.container_id,
        status=status,
        meaning=meaning_of(status, suspect.reason)
        if by_itself
        else of_executor(status, end.diagnostics),
        last_lines=_last_lines(evidence, cause),
        diagnostics=_shown_diagnostics(end.diagnostics),
        consequences=_later_failures(evidence),
    )


def _last_lines(evidence: FailureEvidence, cause: Cause) -> tuple[str, ...]:
    """Return the last lines of the output that shows the cause, up to the lines of the cause. If
    the bootstrap failed, its own lines are included.
    """
    outputs = _ends_of_outputs(evidence)
    of_bootstrap = evidence.suspect.reason in ("", "bootstrap-error", "login-failed")
    if of_bootstrap and BOOTSTRAP_SAYS in evidence.stderr:
        lines = [line.rstrip() for line in evidence.stderr.splitlines()]
        lines = [line for line in lines if not any(noise in line for noise in _NOISE)]
    elif cause.evidence is not None:
        lines = telling_lines(outputs[cause.evidence.stream])
        lines = lines[: _end_of_evidence(lines, cause.evidence.lines)]
    else:
        lines = next(filter(None, map(telling_lines, outputs.values())), [])
    kept = [without_workdir(line[:_LINE]) for line in lines if line and not _JAVA.match(line)]
    return tuple(kept[-KEPT:])


def _end_of_evidence(lines: Sequence[str], told: Sequence[str]) -> int:
    """Return the number of lines up to the end of the text that shows the cause; if that text is
    near the end, the number of all lines.
    """
    last = told[-1] if told else ""
    found = [at for at, line in enumerate(lines) if last and without_workdir(line).endswith(last)]
    return len(lines) if not found or found[-1] >= len(lines) - KEPT // 2 else found[-1] + 1


def _shown_diagnostics(text: str) -> str:
    """Return the NodeManager's diagnostics without the quoted files and the list of processes that
    they contain.
    """
    kept: list[str] = []
    for line in text.splitlines():
        if line.startswith("Last 4096 bytes of stderr"):
            break
        if not line.lstrip().startswith(
            ("|-", "Dump of the process-tree", "at ", "Container id:", "Last 4096 bytes of")
        ):
            kept.append(line.strip())
    return "\n".join(kept)[:2000]


def _later_failures(evidence: FailureEvidence) -> tuple[Consequence, ...]:
    """Return the tasks that ended after the task that failed first."""
    root = evidence.suspect
    if evidence.seen.report is None:
        later = [
            end for end in evidence.ends if end.failed and end.container_id != root.container_id
        ]
        return tuple(
            Consequence(end.task, end.status, meaning_of(end.status)) for end in later[:KEPT]
        )
    told = failed_tasks(evidence.seen)
    others = [other for other in dict.fromkeys(told) if other.task != root.task]
    return tuple(_later_failure(other, root) for other in others)[:KEPT]


def _later_failure(other: Failure, root: Failure) -> Consequence:
    if other.status == contract.EXIT_JOB_FAILED and other.reason != contract.REASON_EXITED:
        return Consequence(other.task, other.status, f"stopped after {root.task} failed")
    ending = ProgramEnd(other.task, other.status, other.reason)
    cause = by_program(ending, {"stderr": "\n".join(other.last_lines)})
    said = cause.sentence if cause else other.message or meaning_of(other.status, other.reason)
    return Consequence(other.task, other.status, said.removeprefix(f"{other.task} "))


def _asked_mib(seen: JobStatus, task: str, end: ContainerEnd) -> int | None:
    """Return the memory of the task's container in MiB: as the ApplicationMaster's log has it, else
    as the service requests it; None if neither is known.
    """
    if end.memory_mib:
        return end.memory_mib
    for component in items(seen.service.raw if seen.service else None, "components"):
        if component.get("name") == role_of(task):
            return whole_of(object_of(component, "resource"), "memory")
    return None


def _has_gpus(seen: JobStatus, task: str) -> bool:
    """Return whether the task has GPUs, according to its report, or because its role asks for
    them.
    """
    if any(one.gpus for one in seen.report.tasks if one.task == task) if seen.report else False:
        return True
    for component in items(seen.service.raw if seen.service else None, "components"):
        if component.get("name") == role_of(task):
            return "gpu" in str(object_of(component, "resource").get("additional")).lower()
    return False


# --- no task failed ---


def _of_application(evidence: FailureEvidence) -> Cause | None:
    app = evidence.seen.app
    if app is None:
        return None
    never = _never_granted(app)
    if never is not None:
        return never
    if app.state is AppState.FAILED:
        return _am_failed(evidence, app)
    if app.final_status is FinalStatus.SUCCEEDED and evidence.seen.evidence is Evidence.MISSING:
        return Cause(
            "command-never-ran",
            "YARN reports SUCCEEDED, but the deciding task's command never ran",
            "known causes: an image whose ENTRYPOINT does not run its arguments, "
            "docker.inspect.max.retries=0 in "
            "container-executor.cfg, a NodeManager that could not start the shell",
        )
    return None


def _never_granted(app: AppReport | None) -> Cause | None:
    if app is None:
        return None
    found = recognise(app.diagnostics, NEVER_GRANTED, task="the job")
    return found and replace(found, diagnostics=app.diagnostics[:2000])


def _am_failed(evidence: FailureEvidence, app: AppReport) -> Cause:
    ended, often = _AM_STATUS.search(app.diagnostics), _AM_TIMES.search(app.diagnostics)
    status = int(ended[1]) if ended else None
    known = _known_failure_of_am(evidence, app, status)
    if known is not None:
        return replace(known, diagnostics=app.diagnostics[:2000])
    said = app.diagnostics.strip()[:400]
    if app.rejected or _REJECTED.search(app.diagnostics):
        return Cause(
            "rejected",
            f"YARN rejected the job, and started nothing of it: {said}",
            "does the `queue` of the job spec exist, and may the job's user submit to it?",
            diagnostics=app.diagnostics[:2000],
        )
    if app.attempt is None and said and not _OF_ATTEMPT.search(said):
        return Cause(
            "not-started",
            f"YARN started nothing of the job: {said}",
            "the ResourceManager's log may say more",
            diagnostics=app.diagnostics[:2000],
        )
    how, times = "", " with"
    if often and often[1] != "1":
        times = f" {often[1]} times, the last time with"
    if status is not None:
        how = f"{times} exit status {status}{clause(' ({})', meaning_of(status))}"
    why = evidence.am_error or _words_about_am(app.diagnostics)
    return Cause(
        "application-master-failed",
        f"YARN's ApplicationMaster of the job failed{how}{clause(': {}', why)}",
        f"submit_tf_job logs {evidence.seen.name} --am shows its log",
        status=status,
        meaning=meaning_of(status),
        diagnostics=app.diagnostics[:2000],
    )


def _known_failure_of_am(
    evidence: FailureEvidence, app: AppReport, status: int | None
) -> Cause | None:
    """Return the cause that an application's diagnostics, or its ApplicationMaster's last error,
    show; None if they show none.
    """
    words, who = f"{app.diagnostics}\n{evidence.am_error}", "the ApplicationMaster"
    ended = by_yarn(ContainerEnd(who, "", status, words), None)
    if ended is not None and status in _HINTS_OF_AM:
        hint = _HINTS_OF_AM[status] or ended.hint
        return replace(ended, hint=hint, status=status, meaning=meaning_of(status))
    refused = recognise(words, [*REFUSED, *NEVER_GRANTED, OTHER_REQUEST], task="the job")
    if refused is not None:
        return refused
    # a status that the ApplicationMaster itself chose is none of a container that never ran
    never_ran = status if status in (-1000, -1) else None
    return recognise(words, [*MASTER, *CONTAINER], task=who, status=never_ran)


def _words_about_am(diagnostics: str) -> str:
    """Return the line of an application's diagnostics that tells why the ApplicationMaster failed;
    "" if none does.
    """
    _, is_of_container, said = diagnostics.partition("Diagnostics:")
    if not is_of_container:
        told = _WHY_ATTEMPTS_FAILED.search(diagnostics)
        return told[1][:_LINE] if told else ""
    if reason := words_of_yarn(said):
        return reason
    quoted = said.partition("Last 4096 bytes of")[2]
    lines = read_lines(quoted.partition("Failing this attempt")[0])
    if (words := last_words(lines)).is_reason:
        return words.words
    raised = blocks_of(lines)
    return raised[-1].root.words if raised else ""
