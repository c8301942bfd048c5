"""Which tasks are connected: first messages, lost connections, and what a new deciding task learns
from the others.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract, untrusted
from submit_tf_job.container.rendezvous import ending, failures, states
from submit_tf_job.container.rendezvous.members import KEPT, Member, Rendezvous, is_loopback

STATES = {"running": states.ALIVE, "done": states.ABSENT}  # by that of a hello; else ARRIVED
ANSWERING = (states.ARRIVED, states.ALIVE, states.LOST)  # these are believed to run the command
MOST_SIDECARS = 1000  # per role; their number comes from outside, and bounds memory


def container_numbers(container: Any) -> tuple[int, ...]:
    """Return the numbers by which the containers of one application are ordered: (1, 5) for
    `container_e1_17_0001_01_000005`, () for a text that is not a container id.
    """
    first, *parts = untrusted.text(container, 255).split("_")
    numbers = [part for part in parts[-2:] if part.isdecimal() and len(part) <= untrusted.DIGITS]
    return tuple(map(int, numbers)) if first == "container" else ()


def hello(
    job: Rendezvous,
    now: float,
    message: Mapping[str, Any],
    peer: Any,
    ends: tuple[str, str] = ("", ""),
) -> tuple[Member | None, str]:
    """Handle the hello message of a task; `ends` are the addresses of the connection: the task's,
    and ours.

    Returns:
        The task, and the reply: "welcome", "end" (the job is over), "finished" (this task has
        ended), "taken" (another process of this task is connected: retry), "busy" (not yet:
        retry), "wrong-job", or "bad" for an invalid message. The task is None for "wrong-job",
        "taken", "busy" and "bad".
    """
    if message.get("run") != job.info.run:
        return None, "wrong-job"
    member = _member_of(job, message.get("role"), message.get("index"))
    process = untrusted.text(message.get("process"), 255)
    attempt = untrusted.whole(message.get("attempt"))
    if member is None or member is job.me or not process or attempt is None:
        return None, "bad"
    call = untrusted.whole(message.get("call")) or 0
    if member.process == process and call < member.call:
        return None, "bad"  # the process has made another connection since, and gave this up
    refusal = _refusal_of_hello(job, now, member, peer, message)
    if refusal:
        return (None if refusal in ("busy", "taken") else member), refusal
    if member.process != process and member.process:
        member.attempt += 1
        _await_new_name(job, member)
    member.attempt = max(member.attempt, attempt)
    member.process, member.call, member.peer, member.stopping = process, call, peer, False
    _store_introduction(job, now, member, message)
    _store_place(job, now, member, message, ends)
    image = message.get("ignored_image")
    if image and isinstance(image, str):
        ignores_image(job, now, member, image)
    if member.state not in states.OUT:
        if member.state == states.ABSENT and job.barrier <= KEPT:
            job.event(now, f"{member.name} joined ({member.host})")
        job.set_state(member, _state_of(job, member, message))
    return member, "welcome"


def _member_of(job: Rendezvous, role: Any, index: Any) -> Member | None:
    """Return the task of a role and index; None if the job has no such task. Create the task if it
    is a sidecar that was added while the job ran; a role has at most `MOST_SIDECARS`.
    """
    if not isinstance(role, str) or untrusted.whole(index) is None:
        return None
    name = f"{role}-{index}"
    if name not in job.members and job.info.may_grow(role) and 0 <= index < 100000:
        counts = job.counts[role]
        if sum(counts.values()) < MOST_SIDECARS:
            job.members[name] = Member(role, index, contract.KIND_SIDECAR)
            counts[states.ABSENT] = counts.get(states.ABSENT, 0) + 1
    return job.members.get(name)


# --- who cannot connect ---------------------------------------------------------------------------
def _refusal_of_hello(
    job: Rendezvous, now: float, member: Member, peer: Any, message: Mapping[str, Any]
) -> str:
    """Return the reply to a task that may not connect; "" if it may."""
    other = member.process != message["process"]
    numbers = container_numbers(message.get("container"))
    if job.retries and other and numbers and numbers < container_numbers(member.container):
        return "finished"  # it was cut off or suspended, and YARN has started a later one
    if member.peer not in (None, peer) and other:
        return "taken"
    if job.retries:
        refusal = _refusal_of_predecessors(job, now, message)
        if refusal:
            return refusal
        if job.verdict == states.STOPPED and not job.graceful:
            return "busy"  # YARN ends this deciding task alone, or all tasks by itself
    if job.stays(member):
        return _refusal_between_generations(job, now, member, message)
    return _refusal_of_ended(job, now, member, message)


def _refusal_of_predecessors(job: Rendezvous, now: float, message: Mapping[str, Any]) -> str:
    """Learn from a hello about other containers of the deciding task. Return "busy" if a later
    container leads the job, else "".
    """
    told = message.get("history")
    history = told if isinstance(told, dict) else {}
    if container_numbers(history.get("container")) > container_numbers(job.info.container):
        job.superseded = True
        return "busy"
    if job.phase == states.WAITING and message.get("seen") not in (None, job.me.process):
        job.generations.learn(history)
        earlier = untrusted.whole(history.get("attempt")) or 0
        job.me.attempt = max(job.me.attempt, earlier + 1)
        if history.get("prepared") is True:
            job.unprepared = False
        if history.get("trained") is True:
            _end_training(job, now)
            job.keep_stored(job.me, history.get("stored"))
        else:
            failures.continue_after_loss(job, now, history)
    return ""


def _refusal_of_ended(
    job: Rendezvous, now: float, member: Member, message: Mapping[str, Any]
) -> str:
    """Return the reply that refuses the hello of a task that does not stay (`Rendezvous.stays`); ""
    if it may connect. A sidecar that was only cut off counts as alive again.
    """
    process, done = message["process"], message.get("state") == "done"
    if (
        member.is_sidecar
        and member.state == states.FAILED
        and member.process == process
        and not done
    ):
        job.set_state(member, states.ALIVE)  # it was cut off for longer than `grace`
        job.event(now, f"{member.name} is back")
    if member.state in states.OUT and (member.process != process or not done):
        return "finished"
    if job.phase == states.ENDING and not done and not job.graceful:
        if member is job.witness and not job.closing:
            return "busy"
        job.set_state(member, states.ENDED)
        return "end"
    return (
        "end"
        if member.process
        and member.process != process
        and _count_replaced_process(job, now, member)
        else ""
    )


def _refusal_between_generations(
    job: Rendezvous, now: float, member: Member, message: Mapping[str, Any]
) -> str:
    """Return the reply to a task that keeps its container for the next generation and may not
    connect now; "" if it may connect.
    """
    same, done = member.process == message["process"], message.get("state") == "done"
    if job.phase == states.ENDING and not job.graceful:
        if member.state in states.OUT:
            return "" if same and done else "finished"
        if done:
            return ""
        job.set_state(member, states.ENDED)
        return "end"
    if job.phase == states.WAITING:
        return ""
    return "busy" if _awaits_its_generation(job, now, member, message) else ""


def _awaits_its_generation(
    job: Rendezvous, now: float, member: Member, message: Mapping[str, Any]
) -> bool:
    """Return whether a task must connect again later, when the next generation is called. If its
    hello shows a failure, record it.
    """
    # while it was alone it has ended its command of this generation
    gave_up = message.get("gave_up") == job.generation
    if gave_up and member.state in ANSWERING and not job.failures:
        job.set_state(member, states.LOST, now)
        # ended by SIGTERM: its node is not to blame
        record = job.record(member, member.since, "lost", failures.ended_alone(job, member))
        failures.failed(job, now, member, dict(record, signal=signal.SIGTERM))
    if member.process == message["process"]:
        return gave_up and bool(job.failures)
    # a new container of a task that has just failed
    return bool(
        job.failures
        or member.state == states.FAILED
        or (member.process and _count_replaced_process(job, now, member))
    )


def _count_replaced_process(job: Rendezvous, now: float, member: Member) -> bool:
    """If a task is lost, and a new process of it connects, count the former process as failed,
    because it reported no end. Return whether the task has thereby ended for good.
    """
    if member.state != states.LOST:
        return False
    failures.failed(job, now, member, failures.lost_record(job, member))
    return member.state in states.OUT


def _end_training(job: Rendezvous, now: float) -> None:
    """Take over a job whose former deciding task was lost after its command had succeeded: its
    training is over.
    """
    if job.me.state in states.OUT:
        return
    job.event(now, f"{job.me.name} was lost after its command had ended with 0")
    job.set_state(job.me, states.SUCCEEDED)
    job.me.status = 0
    job.outcome = {"status": 0, "signal": None, "duration_s": None}  # of the former one
    job.phase = states.RUNNING
    for member in job.cluster:
        if member.state == states.ABSENT:
            # `grace` to connect to this deciding task; an elastic one may never have come
            job.set_state(
                member, *((states.LEFT_OUT,) if job.is_elastic(member) else (states.LOST, now))
            )
    ending.check(job, now)


# --- what a task tells ----------------------------------------------------------------------------
def _store_introduction(
    job: Rendezvous, now: float, member: Member, message: Mapping[str, Any]
) -> None:
    """Store the host, address, container, ports and GPUs of a hello message, and its warnings."""
    for key in ("host", "address", "container"):
        setattr(member, key, untrusted.text(message.get(key), 255))
    member.ports = untrusted.ports(message.get("ports"))
    member.gpus = untrusted.texts(message.get("gpus"))
    for text in untrusted.texts(message.get("warnings")):
        job.warn_once(now, text)  # a reconnect repeats its warnings
    if member.state == states.LEFT_OUT:
        _await_new_name(job, member)  # if the start is yet to come
        if job.is_missed(member) and job.phase != states.WAITING:
            job.event(now, f"{member.name} came ({member.host}), and joins the next generation")


def _await_new_name(job: Rendezvous, member: Member) -> None:
    """Before the start, wait until DNS has the new address of a task's host name: it had the
    address of the task's former container.
    """
    if job.phase == states.WAITING and job.barrier > 1 and not member.is_sidecar:
        job.unresolved.add(member.name)


def _store_place(
    job: Rendezvous, now: float, member: Member, message: Mapping[str, Any], ends: tuple[str, str]
) -> None:
    """Store the port of a task, and the addresses of its connection (`ends`). Before the start,
    also note when the task was launched, and how long it searched; later, warn if programs have a
    former address of the task.
    """
    member.origin, here = ends
    if here and (not job.me.address or is_loopback(job.me.address)):
        job.me.address = job.me.origin = here
    member.port = untrusted.port(message.get("port"))
    known = job.info.hosts.get(member.name, "")  # the address that programs have
    if job.phase == states.WAITING and not member.is_sidecar:
        job.last_launch = max(job.last_launch, now - untrusted.seconds(message.get("age_s")))
        job.longest_search_s = max(job.longest_search_s, untrusted.seconds(message.get("search_s")))
    elif member.name not in job.named and known not in ("", member.address):
        text = "%s came back at %s; the programs were given its former address %s"
        job.warn_once(now, text % (member.name, member.address, known))


def ignores_image(job: Rendezvous, now: float, member: Member, image: str) -> None:
    """Record a task that runs as a plain process of its node instead of in its image. A single
    warning names the first such task, unless the job spec has `image_policy: allow`.
    """
    if member.name in job.image_ignored or len(job.image_ignored) >= KEPT:
        return
    if not job.image_ignored and job.info.task.get("image_policy") != contract.IMAGE_ALLOWED:
        text = "%s on %s runs as a plain process of its node: the NodeManager there does not run "
        job.warn(now, text % (member.name, member.host) + "the image " + image[:255])
    job.image_ignored.append(member.name)


def _state_of(job: Rendezvous, member: Member, message: Mapping[str, Any]) -> str:
    """Return the state that a task has after its hello."""
    if job.is_missed(member) and job.phase != states.WAITING:
        return states.LEFT_OUT
    told, gave_up = message.get("state"), message.get("gave_up") == job.generation
    if member.name in job.rejoining and gave_up and told != "waiting":
        return states.LEFT_OUT  # until its command has ended
    job.rejoining.discard(member.name)
    state = STATES.get(str(told), states.ARRIVED)
    if job.phase != states.WAITING:
        return states.ARRIVED if state == states.ABSENT else state
    # its end comes next, and the start waits for that; also for a command of an earlier generation
    return states.ABSENT if job.stays(member) and state != states.ARRIVED else state


# --- later ----------------------------------------------------------------------------------------
def connection_lost(
    job: Rendezvous,
    now: float,
    member: Member,
    closed: bool = False,
    silent_s: float = 0.0,
    returns: bool = False,
) -> None:
    """Handle the loss of a task's connection.

    Args:
        closed: Whether the kernel on the task's side closed the connection, usually because the
            task's process has ended.
        silent_s: For how many seconds the task has been out of reach already; they count as part of
            `grace`.
        returns: Whether the task announced that it makes another connection.
    """
    member.peer, member.closed, member.returns = None, closed and now >= job.trusted_at, returns
    if member.state in (*states.OUT, states.RESTARTING, states.LEFT_OUT):
        return
    saves = (job.graceful and ending.saves(member)) or (member is job.witness and not job.closing)
    if job.phase == states.WAITING:
        job.set_state(member, states.ABSENT)
    elif job.phase == states.ENDING and not saves:
        job.set_state(member, states.ENDED)
    else:
        job.set_state(member, states.LOST, now - silent_s)
        job.event(now, f"the connection to {member.name} went away")
        # the vanished task caused the other failure: TensorFlow's peers fail within 0.2 s
        if job.failures:
            failures.fail_lost(job, now)


def ready(
    job: Rendezvous, member: Member, port: int, ports: Mapping[str, int] | None = None
) -> None:
    """Record that a task has ended its command, and waits for the start of the next one; `port` and
    `ports` are the ports that it has reserved now.
    """
    rejoins = member.name in job.rejoining
    job.rejoining.discard(member.name)
    member.port = port
    if ports is not None:
        member.ports = dict(ports)
    awaited = job.phase == states.WAITING and member.state not in states.OUT
    if rejoins or awaited or member.state == states.RESTARTING:
        job.set_state(member, states.ARRIVED)


def is_stale(job: Rendezvous, name: str, address: str) -> bool:
    """Return whether `address`, which DNS has returned for a task, belongs to a former container of
    the task.
    """
    member = job.members[name]
    known = job.is_addressed(member, job.has_mixed_addresses())
    return member.attempt > 0 and known and address != member.address
