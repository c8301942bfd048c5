"""When the commands start, with how many tasks, and in which order. Before a start, all tasks must
have connected, and be reachable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.rendezvous import ending, states
from submit_tf_job.container.rendezvous.members import NEAR, Member, Rendezvous, listed

# the start waits so long for the name of a task that YARN may start again on another node
NAMES_S = 30.0
# a generation after the first waits so long for the replacement of a lost task
REPLACED_S = 60.0
WITNESS_S = 60.0  # the start waits so long for a witness that was lost


def await_all(job: Rendezvous, now: float) -> None:
    """Begin to wait until all tasks are ready for the next generation; sidecars keep running."""
    job.await_start(now)
    _await_elastic(job, now)
    for member in job.cluster:
        member.failures, member.failed_process, member.status, member.stopping = 0, "", None, False
        job.set_state(member, states.ABSENT)


def begin(job: Rendezvous, now: float, read: float) -> None:
    """Start `prepare` or the commands if every task has connected; end the job if the start
    deadline has passed.

    All messages that had arrived by the time `read` have been handled.
    """
    if not _may_start(job, now):
        if read >= job.start_deadline:
            _peers_missing(job, now)
    elif job.unprepared:
        job.phase = states.PREPARING
        job.event(now, "all tasks are here; preparing the job")
    else:
        start(job, now)


def _may_start(job: Rendezvous, now: float) -> bool:
    """Leave out the elastic tasks that the start need not wait for; then return whether every other
    task has connected, and can be reached by name or address.
    """
    if job.absent and job.rules:
        _do_without(job, now)
    if job.absent or _awaits_witness(job, now):
        job.complete_at = None
        return False
    if job.complete_at is None:
        job.complete_at = now
    return not without_dns_name(job, now)


def _awaits_witness(job: Rendezvous, now: float) -> bool:
    """Return whether the start has to wait for the witness.

    Without the witness, YARN never ends the job, and in a job of one task no other task remembers
    earlier generations. A witness that was lost is awaited only for `WITNESS_S`: with Hadoop 3.1
    and 3.2, the job continues without it.
    """
    witness = job.witness
    if witness is None or witness.state not in states.AWAITED:
        return False
    lost = job.generation or job.predecessor or witness.process
    return not lost or now < min(job.started + WITNESS_S, job.start_deadline)


def without_dns_name(job: Rendezvous, now: float) -> list[str]:
    """Return the connected tasks for which the start waits until DNS has their names.

    Programs get addresses, which are known from the connections. But the name of a task is needed
    if its connection came from an address that is not the task's own. The start also waits for the
    name of a task that YARN may start again on another node; after `NAMES_S` the address of that
    task is used instead.
    """
    if job.phase != states.WAITING or job.absent:
        return []
    until = min((job.complete_at or now) + NAMES_S, job.start_deadline)
    patient, mixed = job.by_name and now < until, job.has_mixed_addresses()
    return sorted(
        name
        for name in job.unresolved
        if not job.is_addressed(job.members[name], mixed)
        or (patient and _may_move(job, job.members[name]))
    )


def _may_move(job: Rendezvous, member: Member) -> bool:
    """Return whether a task may be started again on another node while the programs of the other
    tasks run.
    """
    serves = member.role_kind == contract.KIND_SERVES and job.is_elastic(member)
    return serves or job.info.roles[member.role]["max_restarts"] > 0


def hosts(job: Rendezvous, found: Mapping[str, str]) -> dict[str, str]:
    """Return task → address for the tasks that programs get by address and not by name; it is the
    same for all tasks. `found` are the addresses that DNS returned.
    """
    mixed = job.has_mixed_addresses()
    told = {
        member.name: member.address for member in job.cluster if job.is_addressed(member, mixed)
    }
    names = [member.name for member in job.cluster if member.name not in job.named]
    return {name: told.get(name) or found[name] for name in names if name in told or name in found}


def ports(job: Rendezvous) -> dict[str, int]:
    """Return task → port for the tasks that reserved another port, because their own was in use."""
    return {
        member.name: member.port
        for member in job.members.values()
        if member.port
        and member.port != job.info.port_of(member.name)
        and member.state != states.LEFT_OUT
    }


def start(job: Rendezvous, now: float) -> None:
    """Enter the phase RUNNING of a generation, in which the event loop starts the commands."""
    job.phase, job.generation_started = states.RUNNING, now
    job.news.begin(now)
    cluster = {member.name for member in job.cluster if member.state != states.LEFT_OUT}
    if job.by_name:
        job.named = cluster - job.unresolved
    if job.barrier > 1:
        _tell_of_start(job, now, len(cluster))
    _tell_of_sizes(job, now)


def _tell_of_start(job: Rendezvous, now: float, count: int) -> None:
    job.event(now, f"all {count} tasks started")
    wall = job.info.wall
    job.start_times = {
        "launched_at": wall + job.last_launch,
        "search_s": round(job.longest_search_s, 3),
        "arrived_at": wall + (job.complete_at or now),
        "at": wall + now,
        "by_address": count - len(job.named),
    }
    late = [
        member.name
        for member in job.members.values()
        if member.name in job.unresolved and _may_move(job, member)
    ]
    if late and job.by_name:
        text = "DNS has not registered %s within %d s: the programs get addresses, and a task that "
        text += "YARN starts again on another node will not be found"
        job.warn(now, text % (listed(late), NAMES_S))


def _peers_missing(job: Rendezvous, now: float) -> None:
    _tell_of_missing(job, now)
    missing = job.missing()
    text = "%d of %d tasks had not arrived after %d s: "
    if not missing:
        missing = without_dns_name(job, now)
        text = "%d of %d tasks cannot be reached after %d s, because "
        if job.info.by_place:
            text += "their connections come from addresses that are not theirs (`network: host` "
            text += "has no such addresses): "
        else:
            text += "DNS has not registered them and their connections come from addresses that "
            text += "are not theirs: "
    wanted = job.barrier + (contract.WITNESS in missing)
    text = text % (len(missing), wanted, now - job.started) + listed(missing)
    ending.end_of_missing(job, now, job.members[missing[0]], text)


def prepared(job: Rendezvous, now: float) -> None:
    """Record that the job's `prepare` command has succeeded. If the job is still preparing, let the
    commands start, those of roles with `after` later.
    """
    job.unprepared = False
    if job.phase == states.PREPARING:
        start(job, now)


# --- the order of roles ---------------------------------------------------------------------------
def released(job: Rendezvous, now: float) -> list[str]:
    """Return the roles whose commands may start now, because the roles that must come before them
    (`after`) have run; these roles are held no longer.
    """
    if not job.held or job.failures or job.phase not in (states.RUNNING, states.FINISHING):
        return []
    after = {role: job.info.roles[role]["after"] for role in sorted(job.held)}
    found = [role for role in after if all(_has_run(job, other) for other in after[role])]
    for role in found:
        job.held.discard(role)
        job.event(now, f"{role} starts after {', '.join(after[role])}")
    return found


def check_held(job: Rendezvous, now: float, read: float) -> None:
    """End the job if, by the time `read`, a role has waited for `start_timeout` for tasks that do
    not run their own commands.

    A sidecar may never connect, and there is no other deadline for a server whose command has not
    started.
    """
    timeout_s = job.info.task["start_timeout_s"]
    for role in sorted(job.held):
        awaited = [r for r in job.info.roles[role]["after"] if not _has_run(job, r)]
        if any(r in job.held or _ends_by_itself(job, r) for r in awaited):
            job.held_since.pop(role, None)
        elif read >= job.held_since.setdefault(role, now) + timeout_s:
            members = job.members.values()
            late = [
                member
                for member in members
                if member.role in awaited and member.state != states.ALIVE
            ]
            text = "%s waits for %s (`after`), which did not run within %d s"
            text %= (role, listed([member.name for member in late]), timeout_s)
            ending.end_of_missing(job, now, late[0], text)
            return


def _ends_by_itself(job: Rendezvous, role: str) -> bool:
    return job.info.role_kind(role) in (contract.KIND_TRAINS, contract.KIND_EVALUATES)


def _has_run(job: Rendezvous, role: str) -> bool:
    """Return whether all tasks of a role have succeeded, but for tolerated failures; for a role
    that need not end, whether the commands of all its tasks run or have run.
    """
    wanted = sum(job.counts[role].values()) - job.count(role, states.LEFT_OUT)
    if _ends_by_itself(job, role):
        tolerated = min(job.count(role, states.FAILED), job.info.roles[role]["tolerate"])
        return bool(job.count(role, states.SUCCEEDED) + tolerated == wanted)
    return job.count(role, states.ALIVE, *states.OUT) == wanted


# --- elastic roles (`instances: {min, max}`) ------------------------------------------------------
# YARN is asked for the most tasks of a role. A generation does without those that do not come;
# those that come while it trains wait for the next one, which is called for them after a while. A
# job without elastic roles has no `rules`, and nothing here changes it.
def present_count(job: Rendezvous, role: str) -> int:
    """Count the tasks of a role that are connected and take part in this generation."""
    return job.count(role, states.ARRIVED, states.ALIVE)


def _do_without(job: Rendezvous, now: float) -> None:
    """Leave out the elastic tasks that have not connected, if the other tasks are enough and have
    waited long enough.
    """
    missing = [member for member in job.cluster if member.state in states.AWAITED]
    if not all(job.is_elastic(member) and member.peer is None for member in missing):
        return
    # Another deciding task must not do the same with other tasks. The witness is connected to one
    # of them: that of a task that was cut off and replaced has none, and waits.
    if job.witness and job.witness.peer is None and not job.witness.closed:
        return
    if now < job.patient_until and any(member.name in job.expected for member in missing):
        return
    if any(present_count(job, role) < rule["min"] for role, rule in job.rules.items()):
        return
    for member in missing:
        job.set_state(member, states.LEFT_OUT)
        job.unresolved.discard(member.name)


def _tell_of_sizes(job: Rendezvous, now: float) -> None:
    """Log with how many tasks a generation trains."""
    for role in sorted(job.rules):
        size = present_count(job, role)
        if size < job.info.counts[role]:
            text = "%s trains with %d of %d tasks (at least %d)"
            job.event(now, text % (role, size, job.info.counts[role], job.rules[role]["min"]))


def _tell_of_missing(job: Rendezvous, now: float) -> None:
    """Log which roles have too few tasks to start."""
    for role in sorted(job.rules):
        size, least = present_count(job, role), job.rules[role]["min"]
        if size < least:
            job.event(now, f"{role} has {size} tasks, and needs at least {least}")


def _await_elastic(job: Rendezvous, now: float) -> None:
    """Decide for which elastic tasks the next generation waits, and how long."""
    if not job.rules:
        return
    elastic = [member for member in job.cluster if job.is_elastic(member)]
    missed = {member.name for member in elastic if job.is_missed(member)}
    # one that YARN stopped is preempted, drained or scaled down, and comes back late or never
    job.expected = {
        member.name
        for member in elastic
        if member.peer or not (member.name in missed or member.stopping)
    }
    job.rejoining.clear()
    task = job.info.task
    # a lost task that is only cut off ends its command after `grace`
    patience_s = max(
        min(REPLACED_S, NEAR * task["start_timeout_s"]),
        task["grace_s"] + job.info.stop_grace_s,
    )
    job.patient_until = now + patience_s
    job.start_deadline = max(job.start_deadline, job.patient_until)
    if job.barrier > 1:
        job.unresolved.update(missed)


def awaiting_growth(job: Rendezvous, now: float) -> list[Member]:
    """Return the elastic tasks that have connected since the last start; none before `grow_after`
    has passed, and none after a task has ended.
    """
    if not job.rules or job.phase != states.RUNNING or job.failures:
        return []
    if now < job.generation_started + min(rule["grow_after_s"] for rule in job.rules.values()):
        return []
    if any(member.state in states.OUT for member in job.cluster):
        return []
    return [member for member in job.cluster if job.is_missed(member) and member.peer is not None]


def shrinks(job: Rendezvous, task: str) -> bool:
    """Return whether all tasks start again without a task of an elastic role that YARN has ended.
    This does not count as a retry.
    """
    member = job.members.get(task)
    if member is None or not job.is_elastic(member) or not member.stopping:
        return False
    # its command may have failed already, of the task that it lost
    if job.me.state in (states.SUCCEEDED, states.ENDED):
        return False
    left = [
        other
        for other in job.cluster
        if other.role == member.role and other.peer is not None and not other.stopping
    ]
    return len(left) >= int(job.rules[member.role]["min"])


def goes_on_without(job: Rendezvous, member: Member, lost: bool) -> bool:
    """Return whether the other tasks continue without a task, because its container was lost
    (`lost`), its role serves, and enough of its tasks are left.

    ParameterServerStrategy gives the steps of a lost worker to the other workers, and uses the
    worker again when it is back.
    """
    serves = job.is_elastic(member) and member.role_kind == contract.KIND_SERVES
    calm = job.phase == states.RUNNING and not job.failures
    return (
        serves
        and lost
        and calm
        and present_count(job, member.role) >= int(job.rules[member.role]["min"])
    )


def elastic_sizes(job: Rendezvous) -> Mapping[str, Any]:
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
