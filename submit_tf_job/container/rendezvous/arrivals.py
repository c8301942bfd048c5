"""Which tasks are connected: first messages, lost connections, and what a new deciding task learns
from the others.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract, foreign
from submit_tf_job.container.rendezvous import ending, failures, states
from submit_tf_job.container.rendezvous.members import KEPT, Member, Rendezvous, is_loopback

STATES = {"running": states.ALIVE, "done": states.ABSENT}  # by that of a hello; else ARRIVED
ANSWERING = (states.ARRIVED, states.ALIVE, states.LOST)  # these are believed to run the command
MOST_SIDECARS = 1000  # per role; their number comes from outside, and bounds memory


def serial(container: Any) -> tuple[int, ...]:
    """Return the numbers by which the containers of one application are ordered, taken from an id
    such as `container_e1_17_0001_01_000005`.
    """
    first, *parts = foreign.text(container, 255).split("_")
    numbers = [part for part in parts[-2:] if part.isdecimal() and len(part) <= foreign.DIGITS]
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
    m = _member_of(job, message.get("role"), message.get("index"))
    process = foreign.text(message.get("process"), 255)
    attempt = foreign.whole(message.get("attempt"))
    if m is None or m is job.me or not process or attempt is None:
        return None, "bad"
    call = foreign.whole(message.get("call")) or 0
    if m.process == process and call < m.call:
        return None, "bad"  # the process has made another connection since, and gave this up
    refusal = _refusal_of_hello(job, now, m, peer, message)
    if refusal:
        return (None if refusal in ("busy", "taken") else m), refusal
    if m.process != process and m.process:
        m.attempt += 1
        _await_new_name(job, m)
    m.attempt = max(m.attempt, attempt)
    m.process, m.call, m.peer, m.stopping = process, call, peer, False
    _store_introduction(job, now, m, message)
    _store_place(job, now, m, message, ends)
    image = message.get("ignored_image")
    if image and isinstance(image, str):
        ignores_image(job, now, m, image)
    if m.state not in states.OUT:
        if m.state == states.ABSENT and job.barrier <= KEPT:
            job.event(now, f"{m.name} joined ({m.host})")
        job.set_state(m, _state_of(job, m, message))
    return m, "welcome"


def _member_of(job: Rendezvous, role: Any, index: Any) -> Member | None:
    """Return a task; None for an unknown task. Create the task if it is a sidecar that was added
    while the job ran.
    """
    if not isinstance(role, str) or foreign.whole(index) is None:
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
    job: Rendezvous, now: float, m: Member, peer: Any, message: Mapping[str, Any]
) -> str:
    """Return the reply to a task that may not connect; "" if it may."""
    other, container = m.process != message["process"], serial(message.get("container"))
    if job.retries and other and container and container < serial(m.container):
        return "finished"  # it was cut off or suspended, and YARN has started a later one
    if m.peer not in (None, peer) and other:
        return "taken"
    if job.retries:
        refusal = _refusal_of_predecessors(job, now, message)
        if refusal:
            return refusal
        if job.verdict == states.STOPPED and not job.graceful:
            return "busy"  # YARN ends this deciding task alone, or all tasks by itself
    if job.stays(m):
        return _refusal_between_generations(job, now, m, message)
    return _refusal_of_ended(job, now, m, message)


def _refusal_of_predecessors(job: Rendezvous, now: float, message: Mapping[str, Any]) -> str:
    """Learn from a hello about other containers of the deciding task. Return "busy" if a later
    container leads the job, else "".
    """
    told = message.get("history")
    history = told if isinstance(told, dict) else {}
    if serial(history.get("container")) > serial(job.info.container):
        job.superseded = True
        return "busy"
    if job.phase == states.WAITING and message.get("seen") not in (None, job.me.process):
        job.generations.learn(history)
        earlier = foreign.whole(history.get("attempt")) or 0
        job.me.attempt = max(job.me.attempt, earlier + 1)
        if history.get("prepared") is True:
            job.unprepared = False
        if history.get("trained") is True:
            _end_training(job, now)
        else:
            failures.succeed(job, now, history)
    return ""


def _refusal_of_ended(job: Rendezvous, now: float, m: Member, message: Mapping[str, Any]) -> str:
    """Return the reply to a task that does not keep its container after its end and may not
    connect; "" if it may connect.
    """
    process, done = message["process"], message.get("state") == "done"
    if m.is_sidecar and m.state == states.FAILED and m.process == process and not done:
        job.set_state(m, states.ALIVE)  # it was cut off for longer than `grace`
        job.event(now, f"{m.name} is back")
    if m.state in states.OUT and (m.process != process or not done):
        return "finished"
    if job.phase == states.ENDING and not done and not job.graceful:
        if m is job.witness and not job.closing:
            return "busy"
        job.set_state(m, states.ENDED)
        return "end"
    return (
        "end" if m.process and m.process != process and _count_replaced_process(job, now, m) else ""
    )


def _refusal_between_generations(
    job: Rendezvous, now: float, m: Member, message: Mapping[str, Any]
) -> str:
    """Return the reply to a task that keeps its container for the next generation and may not
    connect now; "" if it may connect.
    """
    same, done = m.process == message["process"], message.get("state") == "done"
    if job.phase == states.ENDING and not job.graceful:
        if m.state in states.OUT:
            return "" if same and done else "finished"
        if done:
            return ""
        job.set_state(m, states.ENDED)
        return "end"
    if job.phase == states.WAITING:
        return ""
    return "busy" if _awaits_its_generation(job, now, m, message) else ""


def _awaits_its_generation(
    job: Rendezvous, now: float, m: Member, message: Mapping[str, Any]
) -> bool:
    """Return whether a task must connect again later, when the next generation is called. If its
    hello shows a failure, record it.
    """
    # while it was alone it has ended its command of this generation
    gave_up = message.get("gave_up") == job.generation
    if gave_up and m.state in ANSWERING and not job.failures:
        job.set_state(m, states.LOST, now)
        # ended by SIGTERM: its node is not to blame
        record = job.record(m, m.since, "lost", failures.ended_alone(job, m))
        failures.failed(job, now, m, dict(record, signal=signal.SIGTERM))
    if m.process == message["process"]:
        return gave_up and bool(job.failures)
    # a new container of a task that has just failed
    return bool(
        job.failures
        or m.state == states.FAILED
        or (m.process and _count_replaced_process(job, now, m))
    )


def _count_replaced_process(job: Rendezvous, now: float, m: Member) -> bool:
    """If a task's process was replaced and the former process reported no end, count that process
    as lost. Return whether the job ends.
    """
    if m.state != states.LOST:
        return False
    failures.failed(job, now, m, failures.lost_record(job, m))
    return m.state in states.OUT


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
    for m in job.cluster:
        if m.state == states.ABSENT:
            # `grace` to connect to this deciding task; an elastic one may never have come
            job.set_state(m, *((states.LEFT_OUT,) if job.is_elastic(m) else (states.LOST, now)))
    ending.check(job, now)


# --- what a task tells ----------------------------------------------------------------------------
def _store_introduction(job: Rendezvous, now: float, m: Member, message: Mapping[str, Any]) -> None:
    """Store the host, ports and warnings of a hello message."""
    for key in ("host", "address", "container"):
        setattr(m, key, foreign.text(message.get(key), 255))
    m.ports = foreign.ports(message.get("ports"))
    m.gpus = foreign.texts(message.get("gpus"))
    for text in foreign.texts(message.get("warnings")):
        job.warn_once(now, text)  # a reconnect repeats its warnings
    if m.state == states.LEFT_OUT:
        _await_new_name(job, m)  # if the start is yet to come
        if job.is_missed(m) and job.phase != states.WAITING:
            job.event(now, f"{m.name} came ({m.host}), and joins the next generation")


def _await_new_name(job: Rendezvous, m: Member) -> None:
    """Before the start, wait until DNS has the new address of a task's host name: it had the
    address of the task's former container.
    """
    if job.phase == states.WAITING and job.barrier > 1 and not m.is_sidecar:
        job.unresolved.add(m.name)


def _store_place(
    job: Rendezvous, now: float, m: Member, message: Mapping[str, Any], ends: tuple[str, str]
) -> None:
    """Store on which host a task is, and how long it took to connect."""
    m.origin, here = ends
    if here and (not job.me.address or is_loopback(job.me.address)):
        job.me.address = job.me.origin = here
    m.port = foreign.port(message.get("port"))
    known = job.info.hosts.get(m.name, "")  # the address that programs have
    if job.phase == states.WAITING and not m.is_sidecar:
        job.last_launch = max(job.last_launch, now - foreign.seconds(message.get("age_s")))
        job.longest_search_s = max(job.longest_search_s, foreign.seconds(message.get("search_s")))
    elif m.name not in job.named and known not in ("", m.address):
        text = "%s came back at %s; the programs were given its former address %s"
        job.warn_once(now, text % (m.name, m.address, known))


def ignores_image(job: Rendezvous, now: float, m: Member, image: str) -> None:
    """Record a task that runs as a plain process of its node instead of in its image. A single
    warning names the first such task, unless the job spec has `image_policy: allow`.
    """
    if m.name in job.image_ignored or len(job.image_ignored) >= KEPT:
        return
    if not job.image_ignored and job.info.task.get("image_policy") != contract.IMAGE_ALLOWED:
        text = "%s on %s runs as a plain process of its node: the NodeManager there does not run "
        job.warn(now, text % (m.name, m.host) + "the image " + image[:255])
    job.image_ignored.append(m.name)


def _state_of(job: Rendezvous, m: Member, message: Mapping[str, Any]) -> str:
    """Return the state that a task has after its hello."""
    if job.is_missed(m) and job.phase != states.WAITING:
        return states.LEFT_OUT
    told, gave_up = message.get("state"), message.get("gave_up") == job.generation
    if m.name in job.rejoining and gave_up and told != "waiting":
        return states.LEFT_OUT  # until its command has ended
    job.rejoining.discard(m.name)
    state = STATES.get(str(told), states.ARRIVED)
    if job.phase != states.WAITING:
        return states.ARRIVED if state == states.ABSENT else state
    # its end comes next, and the start waits for that; also for a command of an earlier generation
    return states.ABSENT if job.stays(m) and state != states.ARRIVED else state


# --- later ----------------------------------------------------------------------------------------
def gone(
    job: Rendezvous,
    now: float,
    m: Member,
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
    m.peer, m.closed, m.returns = None, closed and now >= job.trusted_at, returns
    if m.state in (*states.OUT, states.RESTARTING, states.LEFT_OUT):
        return
    saves = (job.graceful and ending.saves(m)) or (m is job.witness and not job.closing)
    if job.phase == states.WAITING:
        job.set_state(m, states.ABSENT)
    elif job.phase == states.ENDING and not saves:
        job.set_state(m, states.ENDED)
    else:
        job.set_state(m, states.LOST, now - silent_s)
        job.event(now, f"the connection to {m.name} went away")
        # the vanished task caused the other failure: TensorFlow's peers fail within 0.2 s
        if job.failures:
            failures.fail_lost(job, now)


def ready(job: Rendezvous, m: Member, port: int, ports: Mapping[str, int] | None = None) -> None:
    """Record that a task has ended its command, and waits for the start of the next one."""
    rejoins = m.name in job.rejoining
    job.rejoining.discard(m.name)
    m.port = port
    if ports is not None:
        m.ports = dict(ports)
    awaited = job.phase == states.WAITING and m.state not in states.OUT
    if rejoins or awaited or m.state == states.RESTARTING:
        job.set_state(m, states.ARRIVED)


def is_stale(job: Rendezvous, name: str, address: str) -> bool:
    """Return whether DNS still has the address of a task's former container."""
    m = job.members[name]
    known = job.is_addressed(m, job.has_mixed_addresses())
    return m.attempt > 0 and known and address != m.address
