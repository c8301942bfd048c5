"""Which task failed first, and what follows from that: a warning, a restart, a new generation, or
the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract, untrusted
from submit_tf_job.container.rendezvous import ending, start, states
from submit_tf_job.container.rendezvous.generations import kind_of
from submit_tf_job.container.rendezvous.members import KEPT, Member, Rendezvous

# after a closed connection: the deciding task needs time to accept thousands that come back
PER_SECOND = 500.0


# --- records --------------------------------------------------------------------------------------
def lost_record(job: Rendezvous, member: Member) -> dict[str, Any]:
    """Return the record of a task whose connection was lost; its reason is "killed" if the task had
    reported a SIGTERM.
    """
    if member.stopping:
        text = "%s was stopped from outside by SIGTERM (preempted, its node drained, or killed by "
        text = text % member.name + "hand)"
        return dict(job.record(member, member.since, contract.REASON_KILLED, text), signal=15)
    text = "%s was lost: its connection from %s went away and did not come back (killed, or its "
    text = text % (member.name, member.host or "?") + "node died)" + _stall_message(job)
    return job.record(member, member.since, "lost", text)


def ended_alone(job: Rendezvous, member: Member) -> str:
    """Return the message about a task that lost the connection, and has then ended its command."""
    text = "%s ended its program: it had lost the connection to %s for longer than `grace`"
    return text % (member.name, job.me.name) + _stall_message(job)


def _stall_message(job: Rendezvous) -> str:
    text = "; %s had stood still for %d s, and a longer `grace` outlasts that"
    return text % (job.me.name, job.still_s) if job.still_s else ""


# --- one failure ----------------------------------------------------------------------------------
def overdue(job: Rendezvous, now: float, read: float, member: Member) -> None:
    """Count a task as failed if it has not come back in time, after a lost connection or for a
    restart. All messages that had arrived by the time `read` have been handled.
    """
    task = job.info.task
    if member.state == states.LOST and read >= member.since + _patience_s(job, member):
        failed(job, now, member, lost_record(job, member))
    elif member.state == states.RESTARTING and read >= member.since + task["start_timeout_s"]:
        member.failures = max(member.failures, job.info.roles[member.role]["max_restarts"])
        member.failed_process = ""
        text = f"{member.name} failed, and YARN did not start it again in time"
        failed(job, now, member, dict(lost_record(job, member), message=text))


def _patience_s(job: Rendezvous, member: Member) -> float:
    """Return for how many seconds the deciding task waits for a task whose connection was lost:
    `grace`; or some seconds if the kernel on the task's side closed the connection.

    A task that YARN stops has `grace`: when YARN stops a job, its tasks do not end at the same
    moment, and the first ends must not count as failures.
    """
    grace_s: float = job.info.task["grace_s"]
    if member.stopping or not member.closed:
        return grace_s
    return min(grace_s, contract.CLOSED_S + job.barrier / PER_SECOND)


def failed(job: Rendezvous, now: float, member: Member, record: dict[str, Any]) -> None:
    """Decide what follows from the failure or loss of a task: the others continue without it, YARN
    restarts it, there is only a warning, or the failure is a candidate for the job's first one.
    """
    most: int = job.info.roles[member.role]["max_restarts"]
    lost = record["status"] is None and kind_of(record) == contract.RETRY_LOST
    if start.goes_on_without(job, member, lost):
        job.set_state(member, states.LEFT_OUT)
        job.rejoining.add(member.name)
        text = "%s; %s goes on with %d tasks"
        job.event(
            now, text % (record["message"], member.role, start.present_count(job, member.role))
        )
    elif job.phase == states.ENDING:
        if job.verdict == states.STOPPED and record["reason"] == contract.REASON_KILLED:
            job.set_state(member, states.ENDED)
        else:
            job.set_state(member, states.FAILED)
            _keep_later(job, [record])
    elif member.failed_process and member.failed_process == member.process:
        # the same failure once more, or the end of a process that had counted as lost
        job.set_state(member, states.RESTARTING, now)
    elif member.failures < most:
        member.failures, member.failed_process = member.failures + 1, member.process
        job.restarts[member.role] += 1
        job.set_state(member, states.RESTARTING, now)
        job.event(now, f"{record['message']}; restart {member.failures} of {most}")
    elif not _can_end_job(job, member):
        job.set_state(member, states.FAILED)
        job.warn(now, record["message"])
    else:
        _failed_for_good(job, now, member, record)


def _failed_for_good(job: Rendezvous, now: float, member: Member, record: dict[str, Any]) -> None:
    job.set_state(member, states.FAILED)
    count, tolerate = job.count(member.role, states.FAILED), job.info.roles[member.role]["tolerate"]
    if count <= tolerate:
        job.unresolved.discard(member.name)
        job.warn(now, f"{record['message']}; tolerated ({count} of {tolerate})")
        ending.check(job, now)
        return
    job.event(now, record["message"])
    # YARN stops a job's tasks within some seconds; the deciding one may be next
    if not job.failures:
        factor = 2.5 if member.stopping else 1
        job.settle_until = now + job.info.settle_s * factor
    job.failures.append(record)
    if not member.stopping:
        fail_lost(job, now)


def _can_end_job(job: Rendezvous, member: Member) -> bool:
    """Return whether a failure of this task can end the job now."""
    over = job.phase == states.FINISHING and member.role_kind == contract.KIND_SERVES
    return not member.is_sidecar and not over


def stalled(job: Rendezvous, now: float, name: str, text: str) -> None:
    """Record that all tasks that train stand still, as a failure of the task `name`. The next
    `tick` calls the next generation, or fails the job.
    """
    job.failures.append(job.record(job.members[name], now, contract.REASON_STALLED, text))
    job.settle_until = now


def fail_lost(job: Rendezvous, now: float, late: bool = False) -> None:
    """Count lost tasks as failed after another failure was recorded, because a lost task may be the
    cause.

    A lost task that may still connect again gets time for that: it is counted only in a call with
    `late`.
    """
    for member in list(job.away.values()):
        if member.state != states.LOST or not _can_end_job(job, member):
            continue
        if not late and (member.returns or now < job.wary_until):
            continue
        job.set_state(member, states.FAILED)
        job.failures.append(lost_record(job, member))
        if not member.stopping:
            job.settle_until = now


# --- the first failure ----------------------------------------------------------------------------
def name_cause(job: Rendezvous, now: float) -> None:
    """Determine the first failure; then start all tasks again, or end the job."""
    # a vanished task is the cause of other failures
    lost = [record for record in job.failures if record["status"] is None]
    first = min(lost or job.failures, key=lambda record: float(record["at"]))
    if retried(job, now, first):
        return
    job.first = first
    _keep_later(job, [record for record in job.failures if record is not first])
    if first["task"] == job.me.name and first["reason"] != contract.REASON_STALLED:
        job.exit = first["status"]
    else:
        job.exit = contract.EXIT_JOB_FAILED
    ending.end(job, now, states.FAILED, first["message"])


def _keep_later(job: Rendezvous, records: list[dict[str, Any]]) -> None:
    job.later = (job.later + sorted(records, key=lambda record: float(record["at"])))[:KEPT]


# --- the next generation --------------------------------------------------------------------------
def retried(job: Rendezvous, now: float, cause: Mapping[str, Any]) -> bool:
    """Call the next generation if `retries` covers the first failure (`cause`); return whether it
    was called.

    If the failure is that YARN has ended tasks of an elastic role, and enough tasks are left, the
    new generation does not count as a retry.
    """
    if not job.retries:
        return False
    if start.shrinks(job, str(cause["task"])):
        text = f"{cause['message']}; all tasks start again, without it"
        _call_next(job, now, dict(cause, reason=contract.REASON_SHRUNK), text)
        return True
    job.refusal = job.generations.refusal(cause, job.step)
    if job.me.state == states.SUCCEEDED:
        text = "not retried: %s had ended with 0, so the training is over"
        job.refusal = text % job.me.name
    if job.refusal:
        job.event(now, job.refusal)
        return False
    # the start of a generation that a former deciding task led is not known
    known = cause is not job.predecessor
    text = "%s; all tasks start again (retry %d of %d)"
    text %= (cause["message"], job.generations.used + 1, job.retries)
    _call_next(job, now, cause, text, known)
    left_out = job.generations.left_out()
    if left_out:
        job.warn(now, left_out)
    return True


def _call_next(
    job: Rendezvous, now: float, cause: Mapping[str, Any], text: str, known: bool = True
) -> None:
    """Call the next generation, and log `text`; `known` tells whether it is known when the present
    generation started.
    """
    wall = job.info.wall
    began = wall + job.generation_started if known else None
    job.generations.end(cause, job.step, began, wall + now)
    job.event(now, text)
    start.await_all(job, now)


def grow(job: Rendezvous, now: float) -> None:
    """Call the next generation, if elastic tasks have connected that this generation runs without,
    and it has run for `grow_after`.
    """
    came = start.awaiting_growth(job, now)
    if came:
        names = ", ".join(member.name for member in came[:5]) + (
            " and more" if len(came) > 5 else ""
        )
        cause = job.record(came[0], now, contract.REASON_GROWN, f"{names} came")
        _call_next(job, now, cause, f"{names} came: all tasks start again, to take them in")


def continue_after_loss(job: Rendezvous, now: float, history: Mapping[str, Any]) -> None:
    """Count the loss of the former deciding task, once in this process, and call the next
    generation; end the job if `retries` does not cover the loss, or no retries are left.

    `history` is what another task remembers. Other tasks may remember more generations than the
    task that reported the loss first.
    """
    if job.predecessor is None:
        text = "%s was lost (killed, or its node died), and YARN has started it again"
        record = job.record(job.me, now, "lost", text % job.me.name)
        for key in ("container", "host"):
            record[key] = untrusted.text(history.get(key), 255)
        job.predecessor = record
        if retried(job, now, record):
            return
    elif job.generations.used > job.retries:
        job.refusal = job.generations.used_up()
    if job.refusal:
        job.first, job.exit = job.predecessor, contract.EXIT_JOB_FAILED
        ending.end(job, now, states.FAILED, job.predecessor["message"])
