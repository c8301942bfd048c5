"""A job whose tasks' arrivals and ends a test plays, in words; no sockets, no clock."""

from __future__ import annotations

import re
from typing import Any

from submit_tf_job.container import job_report
from submit_tf_job.container.info import Info
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.machine import StateMachine
from tests.unit.container.descriptions import description, environment

T0 = 1000.0


class Played:
    """A job, and short ways to make things happen to it."""

    def __init__(self, roles: dict[str, Any], **extra: Any) -> None:
        task = description(roles, **extra)
        env = environment(task["deciding"] + "-0", node="n0")
        self.told: list[str] = []
        self.now = T0
        self.job: Any = StateMachine(Info(task, env, "/nowhere"), T0, self.told.append)

    def hello(
        self,
        name: str,
        process: str = "r1",
        state: str = "waiting",
        peer: object = None,
        *,
        at: str = "",
        origin: str = "",
        **extra: Any,
    ) -> str:
        role, _, index = name.rpartition("-")
        message = {"run": "mnist-4abcdefg", "role": role, "index": int(index), "process": process}
        message |= {"attempt": 0, "state": state, "host": "n-" + name, "address": at, **extra}
        here = at if at.startswith("127.") else "10.0.0.1"
        ends = (origin or at, here if at else "")
        return str(self.job.hello(self.now, message, peer or object(), ends)[1])

    def member(self, name: str) -> Any:
        return self.job.members[name]

    def done(self, name: str, status: int | None = 0, **extra: Any) -> None:
        message = {"status": status, "reason": "exited"}
        message["message"] = f"{name} exited with status {status}"
        message["generation"] = getattr(self.job, "generation", 0)
        self.job.done(self.now, self.member(name), {**message, **extra})

    def gone(self, name: str, **how: Any) -> None:
        self.job.connection_lost(self.now, self.member(name), **how)

    def after(self, seconds: float) -> str:
        self.now += seconds
        self.job.tick(self.now)
        return str(self.job.phase)

    def start(self) -> None:
        for m in list(self.job.members.values()):
            if m is not self.job.me:
                assert self.hello(m.name) == "welcome"
        self.job.unresolved.clear()
        assert self.after(0) == states.RUNNING
        for m in self.job.members.values():
            self.job.running(m)

    def first(self) -> tuple[str, int | None, str]:
        assert self.job.first
        return self.job.first["task"], self.job.first["status"], self.job.first["reason"]

    def report(self, *, over: bool = False) -> dict[str, Any]:
        return job_report.snapshot(self.job, self.now, over=over)

    def present(self) -> list[int]:
        self.job.info.leave_out(self.job.left_out())
        return list(self.job.info.present("worker"))


LOOKS: dict[str, Any] = {
    "later": lambda p: ", ".join(str(later["task"]) for later in p.job.later),
    "warned": lambda p: " | ".join(p.job.warnings),
    "why": lambda p: p.job.why,
    "exit": lambda p: p.job.exit,
    "phase": lambda p: f"{p.job.phase} {p.job.verdict}",
    "awaits latecomers": lambda p: p.job.awaits_latecomers(p.now),
    "saving": lambda p: ", ".join(p.job.saving(p.now)),
    "missing": lambda p: ", ".join(p.report()["missing"]),
    "unnamed": lambda p: ", ".join(p.report()["unnamed"]),
    "hosts": lambda p: ", ".join(map(" ".join, p.job.hosts({}).items())),
    "cause": lambda p: p.job.first["message"],
    "present": lambda p: " ".join(map(str, p.present())),
    "generation": lambda p: p.job.generation,
    "used": lambda p: p.job.generations.used,
    "ended by": lambda p: ", ".join(f"{g['task']} {g['kind']}" for g in p.job.generations.past),
    "refused": lambda p: p.job.refusal,
    "nodes left out": lambda p: p.job.generations.left_out(),
}


def looked(played: Played, what: str, wanted: str) -> None:
    """Compare the job with what an event that is none says of it."""
    job = played.job
    if what in ("succeeded", "failed"):
        assert job.verdict == what
        assert " ".join(map(str, played.first() if job.first else ())) == wanted
        assert (job.exit == 0) == (what == "succeeded")
    elif what == "told":
        assert wanted in played.told
    else:
        found = str(LOOKS[what](played))
        assert found == wanted, what


COMES = re.compile(
    r"comes(?: as (\w+))?(?: (waiting|running|done))?(?: at ([0-9.]+))?(?: from ([0-9.]+))?"
    r"(?: having given up (\d+))? -> (\w+)"
)


def of_task(played: Played, name: str, what: str) -> None:
    """Let something happen to a task, or look at it."""
    if match := COMES.fullmatch(what):
        run, state, at, origin, gave_up, answer = match.groups()
        extra: dict[str, Any] = {"gave_up": int(gave_up)} if gave_up else {}
        ends = {"at": at or "", "origin": origin or "", **extra}
        found = played.hello(name, run or "r1", state or "waiting", **ends)
        assert found == answer
        return
    m = played.member(name)
    if match := re.fullmatch(r"(exited|ended) (\d+)(?: ([0-9.]+) s ago)?", what):
        ago = {"ago": float(match[3])} if match[3] else {}
        played.done(name, int(match[2]), reason=match[1], **ago)
    elif match := re.fullmatch(r"(killed|crashed|out of memory)(?: by (\d+))?", what):
        number, reason = int(match[2] or 9), match[1].replace(" ", "-")
        played.done(name, 128 + number, signal=number, reason=reason)
    elif what in ("gone", "closed"):
        played.gone(name, closed=what == "closed")
    elif match := re.fullmatch(r"silent for (\d+) s", what):
        played.gone(name, silent_s=float(match[1]))
    elif what == "stopping":
        m.stopping = True
    elif match := re.fullmatch(r"ready(?: at (\d+))?", what):
        played.job.ready(m, int(match[1] or 0))
    elif match := re.fullmatch(r"leaves with (\d+)", what):
        assert played.job.leave_status(m) == int(match[1])
    else:
        attempt, port = f" attempt {m.attempt}" * bool(m.attempt), f" at {m.port}" * bool(m.port)
        assert f"is {m.state}{attempt}{port}" == what


def of_all(played: Played, event: str) -> bool:
    """Let something happen to all tasks or the deciding one; return whether it is such an event."""
    job = played.job
    if event == "start":
        played.start()
    elif event.startswith("come: "):
        for name in event[6:].split():
            assert played.hello(*name.split("/")) == "welcome"
        job.unresolved.clear()
    elif event == "named":  # DNS has the names of all tasks
        job.unresolved.clear()
    elif event == "ready":  # every connected task has ended its command
        for m in job.members.values():
            if m.peer is not None or m is job.me:
                job.ready(m, 0)
        job.unresolved.clear()
    elif event.startswith("YARN stops"):
        job.stop(played.now, graceful=event.endswith("gracefully"))
    elif match := re.fullmatch(r"suspended for (\d+) s", event):
        job.record_suspension(played.now, float(match[1]))
    elif match := re.fullmatch(r"\+([0-9.]+)(?: (\w+))?", event):
        phase = played.after(float(match[1]))
        assert match[2] in (None, phase), event
    else:
        return False
    return True


def happen(played: Played, events: str) -> None:
    """Let things happen one after the other; see `of_all`, `of_task` and `LOOKS` for the words."""
    for event in events.split("; "):
        what, colon, wanted = event.partition(": ")
        if of_all(played, event):
            continue
        if colon and (what in LOOKS or what in ("succeeded", "failed", "told")):
            looked(played, what, wanted)
        else:
            name, _, rest = event.partition(" ")
            of_task(played, name, rest)
