"""TensorFlowOnSpark, for programs that read their data themselves: `from
submit_tf_job.compat.tensorflowonspark import TFCluster, TFParallel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from submit_tf_job.compat import refuse, with_roles
from submit_tf_job.compat.in_task import (
    InputMode,
    call_in_parallel,
    call_with_context,
    compat,
)
from submit_tf_job.errors import UsageError
from submit_tf_job.sdk.client import Client
from submit_tf_job.sdk.functions import Call, start_as

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import JobHandle

__all__ = ["InputMode", "TFCluster", "TFParallel", "compat"]

_THREE_DAYS_S = 259200


class TFCluster:
    """A job that `run` started.

    Attributes:
        handle: The job.
    """

    InputMode = InputMode

    @staticmethod
    def run(
        sc: object,
        map_fun: Callable[..., Any],
        tf_args: Any,
        num_executors: int,
        num_ps: int,
        tensorboard: bool = False,
        input_mode: int = InputMode.TENSORFLOW,
        log_dir: str | None = None,
        driver_ps_nodes: bool = False,
        master_node: str | None = None,
        reservation_timeout: float = 600,
        queues: object = None,
        eval_node: bool = False,
        release_port: bool = True,
        *,
        job: Mapping[str, Any] | None = None,
        client: Client | None = None,
    ) -> TFCluster:
        """Start a job whose tasks call `map_fun(tf_args, ctx)`, and return at once. Arguments of
        TensorFlowOnSpark that are not described here are refused.

        Args:
            sc: Any value; there is no Spark context.
            map_fun: The function.
            tf_args: The first argument of the function.
            num_executors: Number of tasks, of all roles.
            num_ps: How many of the tasks are parameter servers.
            input_mode: `InputMode.TENSORFLOW`.
            log_dir: Not used: only TensorBoard needs it.
            master_node: `chief` or `master`, if the first task has that role; both become chief.
            reservation_timeout: Seconds that the tasks wait for one another (`start_timeout`).
            eval_node: Whether one of the tasks is the evaluator.
            job: Keys of a job spec, such as `{"image": …, "roles": {"worker": {"memory": "8Gi"}}}`.
            client: The client; default: one with the settings.

        Raises:
            UsageError: An argument is not valid, or has no meaning here.
            SubmitTFJobError: Another error of `submit_tf_job.start`.
        """
        if input_mode != InputMode.TENSORFLOW:
            raise _no_spark("InputMode.SPARK")
        refuse(
            "TFCluster.run",
            "add a sidecar: job={'roles': {'tensorboard': …}} of a job spec",
            tensorboard=tensorboard,
        )
        refuse("TFCluster.run", driver_ps_nodes=driver_ps_nodes, queues=queues)
        refuse("TFCluster.run", release_port=not release_port)
        client = client or Client()
        counts = _tasks_by_role(num_executors, num_ps, master_node, eval_node)
        spec = with_roles(
            job,
            {role: {"instances": count} for role, count in counts.items()},
            strategy="custom",
            tf_config="counts",
            variables=["cloud"],
            start_timeout=f"{max(int(reservation_timeout), 1)}s",
        )
        arguments = (map_fun, tf_args, list(counts.items()), client.default_fs)
        return TFCluster(start_as(map_fun, call_with_context, arguments, {}, spec, client))

    def __init__(self, call: Call[Any]) -> None:
        self._call = call

    @property
    def handle(self) -> JobHandle:
        """The job."""
        return self._call.handle

    def train(self, *_args: Any, **_options: Any) -> None:
        """Refuse: Spark feeds no data here.

        Raises:
            UsageError: Always.
        """
        raise _no_spark("TFCluster.train")

    def inference(self, *_args: Any, **_options: Any) -> None:
        """Refuse: Spark feeds no data here.

        Raises:
            UsageError: Always.
        """
        raise _no_spark("TFCluster.inference")

    def shutdown(
        self, ssc: object = None, grace_secs: int = 0, timeout: float = _THREE_DAYS_S
    ) -> None:
        """Wait until the tasks have ended.

        Args:
            ssc: Not allowed: there is no Spark stream.
            grace_secs: Not allowed; the job spec has `finish_timeout`.
            timeout: Seconds to wait; at most zero for no limit.

        Raises:
            UsageError: An argument that is not allowed was given.
            BaseException: The first exception of the function.
            JobFailed: The job failed without a Python exception.
            DeadlinePassed: `timeout` passed; the job keeps running.
            SubmitTFJobError: Another error of `Call.result`.
        """
        refuse("TFCluster.shutdown", ssc=ssc)
        refuse("TFCluster.shutdown", "use job={'finish_timeout': '5m'}", grace_secs=grace_secs)
        self._call.result(timeout if timeout > 0 else None)

    def tensorboard_url(self) -> str | None:
        """Return None: `submit_tf_job open` shows the address of a sidecar of the job spec."""
        return None


class TFParallel:
    """Calls a function in tasks that know nothing about one another."""

    @staticmethod
    def run(
        sc: object,
        map_fn: Callable[..., Any],
        tf_args: Any,
        num_executors: int,
        use_barrier: bool = True,
        *,
        job: Mapping[str, Any] | None = None,
        client: Client | None = None,
    ) -> None:
        """Call `map_fn(tf_args, ctx)` in every task, and wait until all tasks have ended.

        Args:
            sc: Any value; there is no Spark context.
            map_fn: The function; `ctx.worker_num` is the number of its task, and `ctx.num_workers`
                the number of tasks.
            tf_args: The first argument of the function.
            num_executors: Number of tasks.
            use_barrier: Not used: the tasks begin together.
            job: Keys of a job spec, such as `{"image": …, "roles": {"worker": {"memory": "8Gi"}}}`.
            client: The client; default: one with the settings.

        Raises:
            UsageError: `job` has another role than `worker`, or the role needs a key that it lacks.
            BaseException: The first exception of the function.
            JobFailed: The job failed without a Python exception.
            SubmitTFJobError: Another error of `submit_tf_job.run`.
        """
        client = client or Client()
        spec = with_roles(
            job,
            {"worker": {"instances": num_executors}},
            strategy="custom",
            ends_with="all-that-train",
        )
        arguments = (map_fn, tf_args, num_executors, client.default_fs)
        start_as(map_fn, call_in_parallel, arguments, {}, spec, client).result()


def _tasks_by_role(tasks: int, ps: int, master_node: str | None, evaluates: bool) -> dict[str, int]:
    """Return the number of tasks by role, in the order of TensorFlowOnSpark's executors.

    Raises:
        UsageError: `master_node` is not valid, or there are too few tasks.
    """
    if master_node not in (None, "chief", "master"):
        raise UsageError(f"master_node is {master_node!r}", hint="write chief or master")
    counts = {"ps": ps, "evaluator": int(evaluates), "chief": int(master_node is not None)}
    counts["worker"] = tasks - sum(counts.values())
    if counts["worker"] < 0 or counts["chief"] + counts["worker"] < 1:
        raise UsageError(
            f"num_executors is {tasks}, too few for {ps} parameter servers and a task that trains",
            hint="num_executors counts the tasks of all roles",
        )
    return {role: count for role, count in counts.items() if count}


def _no_spark(what: str) -> UsageError:
    return UsageError(
        f"{what} feeds data from Spark, and there is no Spark here",
        hint="read the data in map_fun, with tf.data, and use InputMode.TENSORFLOW",
    )
