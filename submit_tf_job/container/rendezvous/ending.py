"""When the job is over, and which tasks end with it."""

from __future__ import annotations

from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.info import exit_status
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.members import KEPT, Member, Rendezvous, listed

HAVE_ENDED = (*states.OUT, states.LEFT_OUT)  # states in which no end of a command is awaited
LATE_S = 20.0  # a container that YARN started with the others has connected by then


def leave_status(job: Rendezvous, member: Member) -> int:
    """Return the exit status for a task that must end. It is 0 if YARN would start the task again
    otherwise.
    """
    if job.stays(member):
        return 0
    if member.state in (states.SUCCEEDED, states.FAILED) and member.status is not None:
        return exit_status(member.status)
    over = job.verdict == states.SUCCEEDED or job.info.roles[member.role]["max_restarts"] > 0
    return 0 if over else contract.EXIT_JOB_FAILED


# --- the end of the training ----------------------------------------------------------------------
def check(job: Rendezvous, now: float) -> None:
    """Enter the phase FINISHING, in which the other tasks have `finish_timeout` to end, if the
    tasks that decide the end have ended.
    """
    if job.phase in (states.WAITING, states.RUNNING) and not _count_awaited_tasks(job):
        job.phase = states.FINISHING
        job.finish_deadline = now + job.info.task["finish_timeout_s"]


def _count_awaited_tasks(job: Rendezvous) -> int:
    """Count the tasks whose end the job still waits for (`ends_with` of the job spec)."""
    ends_with = job.info.task["ends_with"]
    if ends_with == contract.ENDS_DECIDING_TASK:
        return int(job.me.state not in states.OUT)
    if ends_with == contract.ENDS_ALL_THAT_TRAIN:
        return _count_open(job, contract.KIND_TRAINS)
    return job.info.counts[job.me.role] - job.count(job.me.role, *HAVE_ENDED)


def _count_open(job: Rendezvous, *role_kinds: str) -> int:
    """Count the tasks of roles of these kinds that have not ended, by adding the counts of states,
    without a loop over all tasks.
    """
    roles = [r for r in job.info.counts if job.info.role_kind(r) in role_kinds]
    return sum(job.info.counts[r] - job.count(r, *HAVE_ENDED) for r in roles)


def _open_tasks(job: Rendezvous, role_kind: str) -> list[Member]:
    """Return the tasks of a kind that have not ended."""
    return [
        member
        for member in job.cluster
        if member.role_kind == role_kind and member.state not in HAVE_ENDED
    ]


def finish(job: Rendezvous, now: float, read: float) -> bool:
    """End the job once the other tasks have ended, or, by the time `read`, the time for them to end
    is over. Return whether a task that had to end has not ended, which is recorded as a failure.
    """
    waits = read < job.finish_deadline
    if waits and _count_open(job, contract.KIND_TRAINS, contract.KIND_EVALUATES):
        return False
    trains, evaluates = (
        _open_tasks(job, contract.KIND_TRAINS),
        _open_tasks(job, contract.KIND_EVALUATES),
    )
    wait = f"{int(job.info.task['finish_timeout_s'])} s after {_end_of_training(job)}"
    if evaluates:
        late = listed([member.name for member in evaluates])
        job.warn(now, f"not finished {wait}, and ended: {late}")
    if not trains:
        _warn_of_copies(job, now)
        end(job, now, states.SUCCEEDED, "the job is done")
        return False
    text = f"not finished {wait}: {listed([member.name for member in trains])}"
    known = [job.me.role] + list(job.info.task["cluster_roles"])
    if any(member.role not in known for member in trains):
        text += " (a role whose tasks do not end by themselves needs `kind: serves`)"
    job.failures.append(job.record(trains[0], now, "not-finished", text))
    return True


# how a program joins the others, by strategy
_MEANS = {
    "parameter-server": "tf.distribute.ParameterServerStrategy",
    "torch": "torch.distributed.init_process_group",
    "jax": "jax.distributed.initialize",
}


def _warn_of_copies(job: Rendezvous, now: float) -> None:
    """Warn if no task that trains ever met another task: each may have trained a copy of the
    model.
    """
    trained = [member for member in job.cluster if member.role_kind == contract.KIND_TRAINS]
    if len(job.cluster) > 1 and all(member.met is False for member in trained):
        means = _MEANS.get(job.info.task["strategy"], "tf.distribute.MultiWorkerMirroredStrategy")
        job.warn(
            now,
            "no task that trains listened at its port or connected to another's: each may have "
            f"trained a copy by itself; does the program use {means}?",
        )


def _end_of_training(job: Rendezvous) -> str:
    ends_with = job.info.task["ends_with"]
    if ends_with == contract.ENDS_ALL_THAT_TRAIN:
        return "all tasks that train were done"
    if ends_with == contract.ENDS_DECIDING_ROLE:
        return f"all tasks of {job.me.role} were done"
    return f"{job.me.name} was done"


def awaited(job: Rendezvous) -> dict[str, Any] | None:
    """Return, for the report, the tasks that must end before the job can end, and until when the
    job waits for them; None before the phase FINISHING and after it.
    """
    if job.phase != states.FINISHING:
        return None
    found = _open_tasks(job, contract.KIND_TRAINS) + _open_tasks(job, contract.KIND_EVALUATES)
    names = [member.name for member in found[:KEPT]]
    until = job.info.wall + job.finish_deadline
    return {"tasks": names, "count": len(found), "until": until}


# --- the end of the job ---------------------------------------------------------------------------
def end(job: Rendezvous, now: float, verdict: str, why: str) -> None:
    """Enter the phase ENDING with a verdict, and with the reason `why` for the log."""
    job.phase, job.verdict, job.why = states.ENDING, verdict, why
    job.linger_until = now + job.info.stop_grace_s + 1.5
    if verdict == states.SUCCEEDED:
        job.late_until = now + LATE_S
        for member in job.away.values():
            if member.state != states.RESTARTING:
                continue
            status = "" if member.status is None else f" (exit status {member.status})"
            text = "%s had failed%s, and did not run again before the job's end"
            job.warn(now, text % (member.name, status))
    elif now < job.start_deadline:
        # where the deciding task fails at once, the others may still start
        job.late_until = job.started + LATE_S
    if verdict == states.FAILED:
        why = "the job failed: " + why
    job.event(now, why)


def stop(job: Rendezvous, now: float, graceful: bool = False) -> None:
    """End the job because the deciding task got SIGTERM, as when YARN stops a job. In a `graceful`
    stop the tasks first have time to save. Do nothing if the job ends already.
    """
    if job.phase != states.ENDING:
        job.graceful = graceful
        text = contract.EVENT_STOP_SAVES if graceful else "stopped from outside"
        end(job, now, states.STOPPED, text)


def end_of_missing(job: Rendezvous, now: float, member: Member, text: str) -> None:
    """End the job as failed because tasks have not arrived in time; `member` is the first of these
    tasks.
    """
    job.first = job.record(member, now, "peers-missing", text)
    job.exit = contract.EXIT_PEERS_MISSING
    end(job, now, states.FAILED, text)


def awaits_latecomers(job: Rendezvous, now: float) -> bool:
    """Return whether a task that has not connected yet must still be informed of the job's end.

    A late task would wait for the deciding task until its deadline. Hadoop 3.1 and 3.2 end the
    service only when every container has ended; every version ends it only when the witness has
    ended.
    """
    if now < job.late_until and any(
        member.state == states.ABSENT for member in job.members.values()
    ):
        return True
    absent = job.witness is not None and job.witness.state == states.ABSENT
    return absent and job.verdict != states.STOPPED and now < job.start_deadline


def saves(member: Member) -> bool:
    """Return whether a task is asked to save and end in a graceful stop.

    Parameter servers and other servers run until YARN stops them, because the other tasks need them
    in order to save.
    """
    return member.role_kind in (contract.KIND_TRAINS, contract.KIND_EVALUATES)


def saving(job: Rendezvous, now: float) -> list[str]:
    """Return the other tasks that may still save in a graceful stop.

    A task whose connection was lost may come back within `grace`.
    """
    lost_before = now - job.info.task["grace_s"]
    return [
        member.name
        for member in job.members.values()
        if member is not job.me and saves(member)
        if member.state in (states.ARRIVED, states.ALIVE)
        or (member.state == states.LOST and member.since > lost_before)
    ]
