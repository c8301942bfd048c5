"""Run distributed training (TensorFlow, PyTorch, JAX) on Hadoop YARN.

The public names are those of `__all__`; each is imported when it is first used, so that a command
starts as fast as it can.

Example:
    >>> import submit_tf_job
    >>> handle = submit_tf_job.submit("train.yaml")  # doctest: +SKIP
    >>> handle.result().state  # doctest: +SKIP
    <JobState.SUCCEEDED: 'SUCCEEDED'>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from submit_tf_job.program_version import VERSION

if TYPE_CHECKING:
    from submit_tf_job.errors import (
        AuthError,
        BadAnswer,
        ClusterUnavailable,
        DeadlinePassed,
        InternalError,
        JobFailed,
        JobSpecError,
        JobStopped,
        KeyReused,
        NameTaken,
        NoSuchJob,
        Refused,
        SandboxError,
        SettingsError,
        SubmitTFJobError,
        UsageError,
    )
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.observation import JobState
    from submit_tf_job.sdk.client import Client, JobHandle, Status
    from submit_tf_job.sdk.default_client import attach, compare, history, jobs, load, submit
    from submit_tf_job.sdk.functions import remote, run, start

__version__ = VERSION

__all__ = [
    "AuthError",
    "BadAnswer",
    "Client",
    "ClusterUnavailable",
    "DeadlinePassed",
    "InternalError",
    "Job",
    "JobFailed",
    "JobHandle",
    "JobSpecError",
    "JobState",
    "JobStopped",
    "KeyReused",
    "NameTaken",
    "NoSuchJob",
    "Refused",
    "SandboxError",
    "SettingsError",
    "Status",
    "SubmitTFJobError",
    "UsageError",
    "__version__",
    "attach",
    "compare",
    "history",
    "jobs",
    "load",
    "remote",
    "run",
    "start",
    "submit",
]

_HOMES = {
    "Job": "jobspec.job",
    "JobState": "observation",
    **dict.fromkeys(("Client", "JobHandle", "Status"), "sdk.client"),
    **dict.fromkeys(
        ("attach", "compare", "history", "jobs", "load", "submit"), "sdk.default_client"
    ),
    **dict.fromkeys(("remote", "run", "start"), "sdk.functions"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
