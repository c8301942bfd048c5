"""A job whose tasks' arrivals and ends a test plays; no sockets, no clock."""

from __future__ import annotations

import re
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.info import Info
from submit_tf_job.container.meeting import members as states
from submit_tf_job.container.meeting.rendezvous import Rendezvous
from tests.unit.container.descriptions import description

T0 = 1000.0


class Played:
    """A job, and short ways to make things happen to it."""

    def __init__(self, roles: dict[str, Any], **extra: Any) -> None:
        task = description(roles, **extra)
        env = {
            contract.ENV_INSTANCE: task["deciding"] + "-0",
            contract.ENV_HOSTNAME: f"{task['deciding']}-0.mnist.alice.lan",
            "NM_HOST": "n0",
        }
        self.told: list[str] = []
        self.now = T0
        self.job: Any = Rendezvous(Info(task, env, "/nowhere"), T0, self.told.append)

    def hello(
        self,
        name: str,
        process: str = "r1",
        state: str = "waiting",
        peer: object = None,
        *,
        at: str = "",
        origin: str = "",
        here: str = "10.0.0.1",
        **extra: Any,
    ) -> str:
        role, _, index = name.rpartition("-")
        message = {
            "run": "mnist-4abcdefg",
            "role": role,
            "index": int(index),
            "process": process,
            "attempt": 0,
            "state": state,
            "host": "n-" + name,
            "address": at,
            **extra,
        }
        ends = (origin or at, here if at else "")
        return str(self.job.hello(self.now, message, peer or name + process, ends)[1])

    def member(self, name: str) -> Any:
        return self.job.members[name]

    def done(self, name: str, status: int | None = 0, **extra: Any) -> None:
        message = {
            "status": status,
            "reason": "exited",
            "message": f"{name} exited with status {status}",
            "generation": getattr(self.job, "generation", 0),
            **extra,
        }
        self.job.done(self.now, self.member(name), message)

    def gone(self, name: str) -> None:
        self.job.gone(self.now, self.member(name))

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


def looked(played: Played, what: str, wanted: str) -> None:
    """Compare the job with what an event that is none says of it."""
    job = played.job
    if what in ("succeeded", "failed"):
        assert job.verdict == what
        assert " ".join(map(str, played.first() if job.first else ())) == wanted
        assert (job.exit == 0) == (what == "succeeded")
        return
    found: dict[str, object] = {
        "later": ", ".join(str(later["task"]) for later in job.later),
        "warned": " | ".join(job.warnings),
        "why": job.why,
        "exit": job.exit,
        "phase": f"{job.phase} {job.verdict}",
        "again": job.again,
    }
    assert str(found[what]) == wanted


def of_task(played: Played, name: str, what: str) -> None:
    """Let something happen to a task, or look at it."""
    m = played.member(name) if name in played.job.members else None
    if match := re.fullmatch(r"comes(?: as (\w+))?(?: (\w+))? -> (\w+)", what):
        run, state, answer = match.groups()
        assert played.hello(name, run or "r1", state or "waiting", peer=object()) == answer
        return
    assert m
    if match := re.fullmatch(r"(exited|ended) (\d+)(?: ([0-9.]+) s ago)?", what):
        ago = {"ago": float(match[3])} if match[3] else {}
        played.done(name, int(match[2]), reason=match[1], **ago)
    elif what in ("killed", "terminated"):
        number = 9 if what == "killed" else 15
        played.done(name, 128 + number, signal=number, reason="killed")
    elif what in ("gone", "closed"):
        played.job.gone(played.now, m, closed=what == "closed")
    elif what == "stopping":
        m.stopping = True
    elif match := re.fullmatch(r"leaves with (\d+)", what):
        assert played.job.leave_status(m) == int(match[1])
    else:
        assert f"is {m.state}" + f" attempt {m.attempt}" * bool(m.attempt) == what


def happen(played: Played, events: str) -> None:
    """Let things happen one after the other; see `of_task` for the words."""
    for event in events.split("; "):
        first, _, rest = event.partition(" ")
        if event == "start":
            played.start()
        elif event == "all answered":
            played.job.settled()
        elif event == "YARN stops":
            played.job.stop(played.now)
        elif event.startswith("+"):
            phase = played.after(float(first[1:]))
            assert rest in ("", phase), event
        elif first.endswith(":"):
            looked(played, first[:-1], rest)
        else:
            of_task(played, first, rest)
