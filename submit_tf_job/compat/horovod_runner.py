"""`HorovodRunner` of Databricks' sparkdl: `from submit_tf_job.compat.horovod_runner import
HorovodRunner`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from submit_tf_job.compat import with_roles
from submit_tf_job.errors import UsageError
from submit_tf_job.sdk.functions import run, start

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import Client

__all__ = ["HorovodRunner"]

R = TypeVar("R")
_VERBOSITIES = ("log_callback_only", "all")


class HorovodRunner:
    """Runs a function with Horovod, in `np` tasks of one job.

    Args:
        np: Number of tasks; if negative, that many processes on this machine.
        driver_log_verbosity: `all` prints the tasks' output as it comes; `log_callback_only` does
            not.
        job: Keys of a job spec, such as `{"image": …, "roles": {"worker": {"memory": "8Gi"}}}`.
            The image must have Horovod with Gloo.
        client: The client; default: one with the settings.

    Raises:
        UsageError: An argument is not valid.
    """

    def __init__(
        self,
        *,
        np: int,
        driver_log_verbosity: str = "log_callback_only",
        job: Mapping[str, Any] | None = None,
        client: Client | None = None,
    ) -> None:
        if np == 0:
            raise UsageError(
                "HorovodRunner(np=0) means all slots of a Spark cluster, and there are none here",
                hint="say how many tasks run: HorovodRunner(np=4)",
            )
        if driver_log_verbosity not in _VERBOSITIES:
            raise UsageError(
                f"driver_log_verbosity is one of {' and '.join(_VERBOSITIES)}",
                hint="leave it out",
            )
        self.num_processor = np
        self._shows = driver_log_verbosity == "all"
        self._client = client
        self._job = with_roles(
            job, {"worker": {"instances": abs(np)}}, strategy="custom", variables=["horovod"]
        )

    def run(self, main: Callable[..., R], **kwargs: Any) -> R:
        """Call `main(**kwargs)` in every task, wait until the job is over, and return what rank 0
        returned. With a negative `np` nothing is submitted: processes on this machine call it.

        Raises:
            BaseException: The first exception of the function.
            JobFailed: The job failed without a Python exception.
            SubmitTFJobError: Another error of `submit_tf_job.run`.
        """
        if self.num_processor < 0:
            return run(main, job=self._job, client=self._client, local=True, **kwargs)
        call = start(main, (), kwargs, job=self._job, client=self._client)
        if self._shows:
            for line in call.handle.logs(follow=True):
                sys.stdout.write(f"{line.task} | {line.text}\n")
        return call.result()
