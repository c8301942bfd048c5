"""Check a job against the caps of the settings: the most that one job may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import Job, Role
from submit_tf_job.plan.site import Cap

__all__ = ["caps_problems", "shown"]

# Cap → the key of a role that counts, and the amount of one role.
_OF_ROLES: dict[str, tuple[str, Callable[[Role], int]]] = {
    "tasks": ("instances", lambda role: role.instances),
    "gpus": ("gpus", lambda role: role.instances * role.gpus),
    "memory": ("memory", lambda role: role.instances * role.memory_mib),
}


def caps_problems(job: Job, caps: tuple[Cap, ...]) -> Iterator[Problem]:
    """Yield each cap that a job exceeds, at the key of the role with the largest amount."""
    for cap in caps:
        if cap.name == "lifetime":
            yield from _lifetime(job, cap)
        else:
            yield from _total(job, cap)


def _total(job: Job, cap: Cap) -> Iterator[Problem]:
    key, amount = _OF_ROLES[cap.name]
    total = sum(map(amount, job.roles.values()))
    if total > cap.most:
        largest = max(job.roles.values(), key=amount)
        asked = f"all tasks of the job together ask for {shown(cap.name, total)}"
        yield job.problem(f"roles.{largest.name}.{key}", f"{asked}, and {_allowed(cap)}")


def _lifetime(job: Job, cap: Cap) -> Iterator[Problem]:
    if job.lifetime_s is None:
        way_out = f"say lifetime: {shown('lifetime', cap.most)}, or less"
        yield job.problem("lifetime", f"missing; {_allowed(cap)}; {way_out}")
    elif job.lifetime_s > cap.most:
        asked = shown("lifetime", job.lifetime_s)
        yield job.problem("lifetime", f"{asked} is more than a job may have: {_allowed(cap)}")


def _allowed(cap: Cap) -> str:
    return f"caps.{cap.name} allows {shown(cap.name, cap.most)} (set by {cap.origin})"


def shown(name: str, amount: int) -> str:
    """Return an amount as a job spec has it: `8 tasks`, `2 GPUs`, `64Gi`, `12h`."""
    if name == "tasks":
        return f"{amount} task{'s' * (amount != 1)}"
    if name == "gpus":
        return f"{amount} GPU{'s' * (amount != 1)}"
    if name == "memory":
        return _with_unit(amount, (("Ti", 1024**2), ("Gi", 1024), ("Mi", 1)))
    return _with_unit(amount, (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)))


def _with_unit(amount: int, units: tuple[tuple[str, int], ...]) -> str:
    return next(f"{amount // size}{unit}" for unit, size in units if amount % size == 0)
