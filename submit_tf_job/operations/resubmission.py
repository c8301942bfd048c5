"""Submit a job again with more memory after a task ran out of it (`retries.memory`).

Each follower of a job computes the same next submission, because the idempotency key of that
submission is made from the name of the run that failed. So there is one next application, however
many followers submit it, as with any other submission (see `yarn.exactly_once`); and the command
that submitted the first run, given again, finds the next one.

A follower without the job spec submits nothing: it waits for the run of a follower that has it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from submit_tf_job.errors import (
    AuthError,
    JobSpecError,
    NameTaken,
    Refused,
    SubmitTFJobError,
)
from submit_tf_job.operations import runs
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.run_names import run_name
from submit_tf_job.yarn.service_properties import Resubmission

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.plan import Plan

# the errors of `submit` that say for sure that the job was not submitted
NOT_SUBMITTED = (AuthError, JobSpecError, NameTaken, Refused)

FIRST_RUNS = 64  # of a key, of which each submission may make one
_NUMBERS, _WIDEST = 3, 9  # of runs that follow one, and of the names at one place after it
_OVER_PHYSICAL = -104  # ContainerExitStatus.KILLED_EXCEEDED_PMEM


class Step(NamedTuple):
    """The next step after a job ran out of memory.

    Attributes:
        said: One sentence: the job is submitted again, or the reason why not.
        plan: The next submission; None if there is none.
    """

    said: str
    plan: Plan | None = None


def possible_later_runs(planned: Plan, run: str) -> tuple[str, ...]:
    """Return the names of all runs that `retries.memory` may start after a run of a plan. There are
    several names for each step, because a POST that failed half-way uses up a number of the key;
    only a few numbers are considered.
    """
    rule, found, level = _memory_rule(planned), [], [run]
    for _ in range(rule[0] if rule else 0):
        level = [
            run_after(planned.job.name, planned.site.user, former, number)
            for number in range(_NUMBERS)
            for former in level
        ][:_WIDEST]
        found += level
    return tuple(found)


def _memory_rule(planned: Plan) -> tuple[int, float] | None:
    """Return how often a job is submitted again, and the factor by which its memory grows
    (`retries`); None if the job spec does not have `retries.memory`.
    """
    rule = planned.job.retries
    return (rule.max, rule.memory) if rule and rule.memory is not None else None


def run_after(job: str, user: str, run: str, number: int = 0) -> str:
    """Return the name of the run that `retries.memory` starts after a run that ran out of memory.

    Args:
        job: The job's name.
        user: The job's user.
        run: The run that ran out of memory.
        number: How often a run with the key of this next submission was started before.
    """
    return run_name(job, user, _key_after(run), number, name_limit=len(run))


def _key_after(run: str) -> str:
    return hashlib.sha256(f"{run}\nmemory".encode()).hexdigest()[:16]


def next_step(
    cluster: Cluster, planned: Plan, status: JobStatus, cause: Cause | None
) -> Step | None:
    """Return the next step after the end of a job, by its `retries.memory`; None if there is none.

    Args:
        cluster: The job's cluster.
        planned: The plan of the first submission, not the plan of a later one.
        status: The job's last status.
        cause: Why the job failed.
    """
    if cause is None or not _memory_rule(planned) or not ran_out_of_memory(status, cause):
        return None
    try:
        properties = properties_of(cluster, status)
    except SubmitTFJobError as error:
        return Step(f"not submitted again: how often it was is not known: {error.message}")
    known = service_properties.SUBMISSION in properties
    earlier = Resubmission.of(properties) if known else _of_first(planned, status.run)
    return step_after(planned, earlier, status.run, cause)


def next_step_of_json(planned: Plan, ended: Mapping[str, Any]) -> Step | None:
    """Return the result of `next_step`, given the JSON of the job's last status."""
    from submit_tf_job.diagnose.cause import Cause

    found, again = ended.get("root_cause") or {}, ended.get("resubmission")
    if ended.get("state") != "FAILED" or not found:
        return None
    earlier = _of_first(planned, str(ended["run"]))
    if again:
        earlier = Resubmission(again["number"], again["former"], again["memory_mib"])
    cause = Cause(
        str(found["code"]),
        str(found["sentence"]),
        facts=found.get("facts") or {},
        task=found.get("task"),
        status=found.get("status"),
    )
    return step_after(planned, earlier, str(ended["run"]), cause)


def runs_of(planned: Plan) -> frozenset[str]:
    """Return the names of all runs that a plan's submission may have: the names with the first 64
    numbers of its idempotency key, and the names of the runs that `retries.memory` may start after
    these.
    """
    first = [planned.run_of(number) for number in range(FIRST_RUNS)]
    return frozenset(
        [*first, *(later for run in first for later in possible_later_runs(planned, run))]
    )


def _of_first(planned: Plan, run: str) -> Resubmission | None:
    """Return a `Resubmission` with number 0 if a run's name shows that it is not one that
    `retries.memory` submitted again; None if it may be one.
    """
    is_first = any(run == planned.run_of(number) for number in range(FIRST_RUNS))
    return Resubmission() if is_first else None


def step_after(
    planned: Plan, earlier: Resubmission | None, former: str, cause: Cause
) -> Step | None:
    """Return the next step after a job has failed, by its `retries.memory`; None if there is none,
    because the job does not ask for it or did not run out of memory.

    Args:
        planned: The plan of the first submission, not the plan of a later one.
        earlier: How often the job was submitted again before this failure; None if the number is
            not known.
        former: The name of the run that failed.
        cause: Why the run failed.
    """
    from submit_tf_job.diagnose.outside import mib
    from submit_tf_job.diagnose.patterns import role_of
    from submit_tf_job.plan import plan

    rule = _memory_rule(planned)
    if rule is None or cause.code != "out-of-memory" or not cause.task:
        return None
    if earlier is None:
        return Step("not submitted again: how often it was is not known")
    most, factor = rule
    if earlier.number >= most:
        times = f"{earlier.number} time{'s' * (earlier.number != 1)}"
        return Step(f"not submitted again: it was, {times} (`retries.max`)")
    job, role = planned.job, role_of(cause.task)
    if role not in job.roles:
        return Step(f"not submitted again: the job spec has no role {role}")
    asked = earlier.memory.get(role, job.roles[role].memory_mib)
    used = 0.0
    if cause.status == _OVER_PHYSICAL:
        used = mib(str(cause.facts.get("used", ""))) or 0.0
    wanted = math.ceil(max(asked, used) * factor)
    next_one = Resubmission(earlier.number + 1, former, {**earlier.memory, role: wanted})
    roles = {
        name: replace(one, memory_mib=next_one.memory.get(name, one.memory_mib))
        for name, one in job.roles.items()
    }
    try:
        following = plan(
            replace(job, roles=roles),
            planned.site,
            key=_key_after(former),
            properties={service_properties.RESUBMISSION: next_one.text},
        )
    except SubmitTFJobError as error:
        return Step(f"not submitted again with {wanted}Mi for {role}: {error.message}")
    said = f"{cause.sentence}; submitting it again with {wanted}Mi for {role}"
    count = f"{next_one.number} of {most}"
    return Step(f"{said} (`retries.memory`, {count})", following)


def ran_out_of_memory(status: JobStatus, cause: Cause | None) -> bool:
    """Return whether a job failed because a task ran out of memory."""
    from submit_tf_job.observation import JobState

    found = cause is not None and cause.code == "out-of-memory"
    return found and status.state is JobState.FAILED


def properties_of(cluster: Cluster, status: JobStatus) -> Mapping[str, str]:
    """Return the properties of a run's service: from the status if it has them, else from YARN's
    copy on HDFS, because the services API returns them only while the job runs; {} without HDFS
    (`hadoop_conf`), if the services API does not return them either.

    Raises:
        SubmitTFJobError: With HDFS: they can be read neither from the copy nor from the services
            API.
    """
    seen = status.service
    if seen is not None and service_properties.SUBMISSION in seen.properties:
        return seen.properties
    return runs.properties_of_run(cluster, status.run)
