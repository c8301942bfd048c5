"""With how many tasks a generation of an elastic role trains (`instances: {min, max}`).

YARN is asked for the most tasks of a role. A generation does without those that do not come; those
that come while it trains wait for the next one, which is called for them after a while. A job
without elastic roles has no `rules`, and nothing here changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.rendezvous import members as states
from submit_tf_job.container.rendezvous.members import Member, Rendezvous

REPLACED_S = 60.0  # a generation after the first waits so long for the replacement of a lost task


def here(job: Rendezvous, role: str) -> int:
    """Count the tasks of a role that are connected and in this generation."""
    return job.count(role, states.ARRIVED, states.ALIVE)


# --- the start ------------------------------------------------------------------------------------
def do_without(job: Rendezvous, now: float) -> None:
    """Leave out the tasks that have not come, if the others are enough and have waited."""
    missing = [m for m in job.cluster if m.state in states.AWAITED]
    if not all(job.is_elastic(m) and m.peer is None for m in missing):
        return
    # Another deciding task must not do the same with other tasks. The witness is connected to one
    # of them: that of a task that was cut off and replaced has none, and waits.
    if job.witness and job.witness.peer is None and not job.witness.closed:
        return
    if now < job.patient_until and any(m.name in job.expected for m in missing):
        return
    if any(here(job, role) < rule["min"] for role, rule in job.rules.items()):
        return
    for m in missing:
        job.set_state(m, states.LEFT_OUT)
        job.unresolved.discard(m.name)


def tell_of_start(job: Rendezvous, now: float) -> None:
    """Tell with how many tasks a generation trains."""
    for role in sorted(job.rules):
        size = here(job, role)
        if size < job.info.counts[role]:
            text = "%s trains with %d of %d tasks (at least %d)"
            job.event(now, text % (role, size, job.info.counts[role], job.rules[role]["min"]))


def tell_of_missing(job: Rendezvous, now: float) -> None:
    """Tell which roles have too few tasks to start."""
    for role in sorted(job.rules):
        size, least = here(job, role), job.rules[role]["min"]
        if size < least:
            job.event(now, "%s has %d tasks, and needs at least %d" % (role, size, least))


def await_all(job: Rendezvous, now: float) -> None:
    """Decide for which tasks the next generation waits, and how long."""
    if not job.rules:
        return
    elastic = [m for m in job.cluster if job.is_elastic(m)]
    missed = {m.name for m in elastic if job.is_missed(m)}
    # one that YARN stopped is preempted, drained or scaled down, and comes back late or never
    job.expected = {m.name for m in elastic if m.peer or not (m.name in missed or m.stopping)}
    job.rejoining.clear()
    task = job.info.task
    # a lost task that is only cut off ends its command after `grace`
    patience_s = max(
        min(REPLACED_S, states.NEAR * task["start_timeout_s"]),
        task["grace_s"] + job.info.stop_grace_s,
    )
    job.patient_until = now + patience_s
    job.start_deadline = max(job.start_deadline, job.patient_until)
    if job.barrier > 1:
        job.unresolved.update(missed)


# --- while a generation trains --------------------------------------------------------------------
def awaiting_growth(job: Rendezvous, now: float) -> list[Member]:
    """Return the tasks that have come for the next generation, if that is due."""
    if not job.rules or job.phase != states.RUNNING or job.failures:
        return []
    if now < job.generation_started + min(rule["grow_after_s"] for rule in job.rules.values()):
        return []
    if any(m.state in states.OUT for m in job.cluster):
        return []
    return [m for m in job.cluster if job.is_missed(m) and m.peer is not None]


def shrinks(job: Rendezvous, task: str) -> bool:
    """Return whether all tasks start again without one that YARN has ended, which is no retry."""
    m = job.members.get(task)
    if m is None or not job.is_elastic(m) or not m.stopping or job.me.state in states.OUT:
        return False
    left = [o for o in job.cluster if o.role == m.role and o.peer is not None and not o.stopping]
    return len(left) >= int(job.rules[m.role]["min"])


def goes_on_without(job: Rendezvous, m: Member, lost: bool) -> bool:
    """Return whether the others go on without a lost task that serves.

    ParameterServerStrategy gives a worker's steps to the others, and takes it back.
    """
    serves = job.is_elastic(m) and m.role_kind == contract.KIND_SERVES
    calm = job.phase == states.RUNNING and not job.failures
    return serves and lost and calm and here(job, m.role) >= int(job.rules[m.role]["min"])


def shown(job: Rendezvous) -> Mapping[str, Any]:
    """Return the sizes of the elastic roles, for the report."""
    left_out, counts = job.left_out(), job.info.counts
    return {
        role: {
            "min": rule["min"],
            "max": counts[role],
            "now": counts[role] - len(left_out.get(role, ())),
        }
        for role, rule in job.rules.items()
    }
