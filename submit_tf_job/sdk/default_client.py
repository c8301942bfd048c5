"""Calls for a program with one cluster: a client with the settings that the commands would use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.sdk.client import Client

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.plan import Plan
    from submit_tf_job.sdk.client import JobSpec
    from submit_tf_job.sdk.handle import JobHandle
    from submit_tf_job.sdk.notebook import ListedJobs
    from submit_tf_job.sdk.status import JobState

# Without `plan`: the package `submit_tf_job.plan` has that name.


def load(
    spec: JobSpec,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    dialect: str | None = None,
    base: Path | None = None,
    render: Callable[[str], str] | None = None,
) -> Job:
    """Read a job spec under the settings that the commands would use; see `Client.load`."""
    return Client().load(
        spec, overrides=overrides, name=name, dialect=dialect, base=base, render=render
    )


def submit(
    spec: JobSpec | Plan,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    submission_id: str | None = None,
    once: bool = False,
    dialect: str | None = None,
) -> JobHandle:
    """Submit a job; see `Client.submit`."""
    return Client().submit(
        spec,
        overrides=overrides,
        name=name,
        submission_id=submission_id,
        once=once,
        dialect=dialect,
    )


def attach(name: str, *, own: bool = False) -> JobHandle:
    """Return the handle of an existing job; see `Client.attach`."""
    return Client().attach(name, own=own)


def jobs(
    *,
    user: str | None = "",
    queue: str | None = None,
    states: Iterable[JobState | str] = (),
    within_s: float | None = None,
    limit: int | None = None,
    names: Iterable[str] = (),
) -> ListedJobs:
    """List jobs; see `Client.jobs`."""
    return Client().jobs(
        user=user, queue=queue, states=states, within_s=within_s, limit=limit, names=names
    )
