"""Resources: what a job used compared with what it asked for, what the ResourceManager charges for
it, what to ask for next time, and the sum of the charges for a team.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.diagnose import amounts
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.host.hadoopconf import YARN, configuration
from submit_tf_job.host.units import memory_text
from submit_tf_job.observation import JobState
from submit_tf_job.operations import run_records
from submit_tf_job.operations.listing import JobSelection, listed_jobs
from submit_tf_job.operations.read_status import read_status
from submit_tf_job.operations.runs import find_with_app
from submit_tf_job.operations.series import usage_of_status
from submit_tf_job.operations.stored_services import service_of
from submit_tf_job.yarn.observed import Charge, ObservedService
from submit_tf_job.yarn.service_properties import SUBMISSION, Resubmission

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.cluster import Cluster, JobRef
    from submit_tf_job.usage_report import Advice, Asked, RoleUse, UsageReport

MARGIN = 1.2  # of what is advised, over the most that was used
WORTH = 0.8  # advice for less than this part of what is asked alone
TOLD_FROM = 0.2  # the part of a run after which its peak says something
WASTED, WASTED_S = 0.25, 600.0
OUT_OF_MEMORY = ("out-of-memory", "killed")
MIB = 1 << 20
_STEP_MIB = 1024  # yarn.scheduler.minimum-allocation-mb, whose multiples YARN gives


@dataclass(frozen=True)
class JobUse:
    """What a run uses, or used if it is over.

    Attributes:
        elapsed_s: Seconds from its submission to its end, or until now.
        asked: What each role asks for; empty if neither the service nor the run's record can be
            read.
        charge: What the ResourceManager has counted until now, including the ApplicationMaster;
            None if it has forgotten the run, or if the user may not view it.
        used: What the run's tasks reported; None if they have not reported (yet), or if another
            user owns the job.
        unknown: Why `used` is None; "" if it is not None.
        advice: What to ask for next time; empty if the run does not show that yet (`shows_need`).
    """

    name: str
    run: str
    application_id: str
    state: JobState
    elapsed_s: int | None
    asked: Mapping[str, Asked]
    charge: Charge | None
    used: UsageReport | None
    unknown: str = ""
    advice: tuple[Advice, ...] = field(default=())


def usage_of(cluster: Cluster, job: str | JobRef) -> JobUse:
    """Return what a run, or a job's newest run, uses and asked for, with advice if the run shows
    what the job needs (`shows_need`).

    Args:
        cluster: The cluster.
        job: The name of a job or of a run, an application id, or a run that was found.

    Raises:
        NoSuchJob: The job does not exist.
        ClusterUnavailable: No ResourceManager answered.
    """
    ref, app = find_with_app(cluster, job)
    status = read_status(cluster, ref, detail=True, app=app)
    use = use_of_status(cluster, status)
    if use.used is None or not shows_need(status):
        return use
    service = service_of(cluster, status)
    floor = Resubmission.of(service.properties if service else {}).memory
    return replace(use, advice=advice(use.asked, use.used.roles, step_mib(cluster), floor))


def use_of_status(cluster: Cluster, status: JobStatus) -> JobUse:
    """Return what a run uses and asked for, without advice, from its status; this takes two
    requests if the run has a record.
    """
    app, service, used = status.app, status.service, usage_of_status(cluster, status)
    return JobUse(
        name=status.name,
        run=status.run,
        application_id=status.application_id,
        state=status.state,
        elapsed_s=app.elapsed_ms // 1000 if app and app.elapsed_ms else None,
        asked=_asked_of(service)
        or run_records.asked_in_record(cluster, status.run)
        or _asked_of(service_of(cluster, status)),
        charge=app.charge if app else None,
        used=used,
        unknown="" if used else _why_unknown(status, service),
    )


def _why_unknown(status: JobStatus, service: ObservedService | None) -> str:
    if status.of_other_user:
        return "another user owns the job"
    if service is not None and SUBMISSION not in service.properties:
        return "submit_tf_job did not submit this service"
    if status.state.is_final:
        return "they left nothing that can be read; earlier versions measured nothing"
    return "they have reported nothing yet; earlier versions measure nothing"


def _asked_of(service: ObservedService | None) -> dict[str, Asked]:
    from submit_tf_job.usage_report import Asked

    return {
        one.name: Asked(one.number_of_containers or 0, one.memory_mib, one.vcores, one.gpus)
        for one in (service.components if service else ())
        if one.name != contract.WITNESS_ROLE
    }


def shows_need(status: JobStatus) -> bool:
    """Return whether a run shows what the job needs: it has succeeded, or a fifth of its training
    or of its lifetime has passed; False if a task ran out of memory, or if it is not known how much
    has passed.
    """
    report, app = status.report, status.app
    if status.state is JobState.SUCCEEDED:
        return True
    if report and report.first_failure and report.first_failure.reason == contract.REASON_OOM:
        return False
    progress = report and report.progress
    if progress and progress.part is not None:
        return progress.part >= TOLD_FROM
    if progress and progress.step is not None and progress.total:
        return progress.step / progress.total >= TOLD_FROM
    if app is None or not app.elapsed_ms or app.lifetime_left_s is None:
        return False
    return app.elapsed_ms / 1000 >= TOLD_FROM * (app.elapsed_ms / 1000 + app.lifetime_left_s)


def step_mib(cluster: Cluster) -> int:
    """Return the step of memory in MiB: the cluster gives only multiples of this amount
    (yarn.scheduler.minimum-allocation-mb, 1024 by default).
    """
    conf = cluster.settings.hadoop_conf
    with suppress(SubmitTFJobError, ValueError):
        if conf is not None:
            found = configuration(conf, YARN).get("yarn.scheduler.minimum-allocation-mb")
            return max(1, int(found or _STEP_MIB))
    return _STEP_MIB


# --- advice: pure functions ---


def advice(
    asked: Mapping[str, Asked],
    used: Mapping[str, RoleUse],
    step: int = _STEP_MIB,
    floor: Mapping[str, int] | None = None,
) -> tuple[Advice, ...]:
    """Return what to ask for next time.

    Args:
        asked: What each role asked for.
        used: What each role used.
        step: The step of memory in MiB: the cluster gives only multiples of this amount.
        floor: For each role the MiB that `retries.memory` had to ask for; the advice is not lower.
    """
    found = []
    for role in sorted(asked.keys() & used.keys()):
        its = (role, asked[role], used[role])
        found += [
            _of_memory(*its, step, (floor or {}).get(role, 0)),
            _of_cpus(*its),
            _of_gpus(*its),
        ]
    return tuple(one for one in found if one is not None)


def _of_memory(role: str, asked: Asked, used: RoleUse, step: int, floor: int) -> Advice | None:
    peak = used.memory_bytes and used.memory_bytes.peak
    if not peak or not asked.memory_mib or not 0 < peak.most < asked.memory_mib * MIB:
        return None
    wanted = max(math.ceil(peak.most * MARGIN / MIB / step) * step, floor)
    if wanted > WORTH * asked.memory_mib:
        return None
    size = amounts.memory_used(peak.most)
    sentence = f"{role} used {size} at its peak of {memory_text(asked.memory_mib)}"
    return _advice_for(role, "memory", sentence, memory_text(wanted))


def _of_cpus(role: str, asked: Asked, used: RoleUse) -> Advice | None:
    mean = used.cpu_cores and used.cpu_cores.mean
    if not mean or not asked.cpus or mean.most >= asked.cpus:
        return None
    wanted = max(1, math.ceil(mean.most * MARGIN))
    if wanted > WORTH * asked.cpus:
        return None
    sentence = f"{role} used {mean.most:.1f} of {amounts.plural(asked.cpus, 'core')} on average"
    return _advice_for(role, "cpus", sentence, wanted)


def _of_gpus(role: str, asked: Asked, used: RoleUse) -> Advice | None:
    peak = used.gpus_used and used.gpus_used.peak
    if not asked.gpus or not peak or used.gpus_unknown or peak.most >= asked.gpus:
        return None
    busy = int(peak.most)
    sentence = f"{role} used {busy or 'none'} of {amounts.plural(asked.gpus, 'GPU')}"
    return _advice_for(role, "gpus", sentence, busy)


def _advice_for(role: str, key: str, sentence: str, value: object) -> Advice:
    from submit_tf_job.usage_report import Advice

    return Advice(role, key, sentence, f"--set roles.{role}.{key}={value}")


def waste(use: JobUse) -> str:
    """Return a sentence about a role that ran for more than ten minutes and used less than a
    quarter of its memory at its peak; "" if there is no such role.
    """
    roles = use.used.roles if use.used else {}
    for role, asked in use.asked.items():
        its = roles.get(role)
        peak = its and its.memory_bytes and its.memory_bytes.peak
        if not its or not peak or not asked.memory_mib or (its.for_s or 0) <= WASTED_S:
            continue
        if peak.most < WASTED * asked.memory_mib * MIB:
            size, held = amounts.memory_used(peak.most), memory_text(asked.memory_mib)
            return (
                f"{role} used at most {size} of the {held} that it held; "
                f"submit_tf_job usage {use.name} says what to ask for"
            )
    return ""


def summary(use: JobUse) -> str:
    """Return one line with the largest use of memory and the mean use of CPU and GPUs of each role;
    "" if no use is known.
    """
    words = []
    for role, its in (use.used.roles if use.used else {}).items():
        asked = use.asked.get(role)
        peak = its.memory_bytes and its.memory_bytes.peak
        mean, gpu = (amount and amount.mean for amount in (its.cpu_cores, its.gpu_percent))
        of = f" of {memory_text(asked.memory_mib)}" if asked and asked.memory_mib else ""
        cores = f" of {asked.cpus}" if asked and asked.cpus else ""
        said = [f"at most {amounts.memory_used(peak.most)}{of}"] if peak else []
        said += [f"{mean.mean:.1f}{cores} cores"] if mean else []
        said += [f"GPU {gpu.mean:.0f} %"] if gpu else []
        words += [f"{role} {', '.join(said)}"] if said else []
    return "; ".join(words)


def note_of_end(cluster: Cluster, status: JobStatus, cause: Cause | None) -> str:
    """Return a sentence about the use of a run that is over: that it used less than a quarter of
    its memory; or, if a task ran out of memory, how much it had used. "" for any other end.
    """
    report, app = status.report, status.app
    out = cause is not None and cause.code in OUT_OF_MEMORY
    long = app is not None and (app.elapsed_ms or 0) > WASTED_S * 1000
    if report is None or not (out or (long and status.state is JobState.SUCCEEDED)):
        return ""
    with suppress(SubmitTFJobError):
        use = use_of_status(cluster, status)
        return _memory_at_end(use, str(cause.task or "")) if out and cause else waste(use)
    return ""


def _memory_at_end(use: JobUse, task: str) -> str:
    """Return how much of its memory a task had used when it last reported its use; "" if no report
    is known.
    """
    asked = use.asked.get(task.rpartition("-")[0])
    tasks = use.used.tasks if use.used else ()
    memory = next((one.memory_bytes for one in tasks if one.task == task), None)
    if not asked or not asked.memory_mib or not memory or not memory.peak:
        return ""
    held = memory_text(asked.memory_mib)
    return f"{task} had used {amounts.memory_used(memory.peak)} of {held} when it told its use last"


# --- the account of a team ---


@dataclass(frozen=True)
class Account:
    """The resources that YARN had allocated to all runs of a user, a queue or a job.

    Attributes:
        of: The name of the user, queue or job.
        runs: The number of runs.
        charge: Memory, vcores and GPUs, each multiplied by the time for which it was allocated;
            the sum over these runs.
    """

    of: str
    runs: int
    charge: Charge


def accounts(cluster: Cluster, by: str, selection: JobSelection) -> tuple[Account, ...]:
    """Return the accounts of the selected runs, by `user`, `queue` or `job`, sorted by memory, the
    largest first; one request lists all applications.

    The ResourceManager knows only the applications that it remembers, by default 10,000 that have
    ended.
    """
    found: dict[str, tuple[int, Charge]] = {}
    for job, app in listed_jobs(cluster, replace(selection, every_run=True)):
        name = {"user": job.user, "queue": job.queue, "job": job.name}[by] or "?"
        runs, charge = found.get(name, (0, Charge()))
        found[name] = (runs + 1, charge + (app.charge or Charge()))
    rows = (Account(name, *account) for name, account in found.items())
    return tuple(sorted(rows, key=lambda one: (-one.charge.memory_mib_s, one.of)))


def total(rows: Iterable[Account]) -> Charge:
    """Return the sum of the charges of some accounts."""
    return sum((one.charge for one in rows), Charge())
