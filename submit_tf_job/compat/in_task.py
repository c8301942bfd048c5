"""Code that runs in tasks, for the calls of other systems.

This file is sent with each call (`sdk.callee`). It imports only the standard library; each function
imports the packages of the image that it needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Experiment(NamedTuple):
    """The result of `experiment_fn` of tf-yarn: an estimator, its TrainSpec and its EvalSpec."""

    estimator: Any
    train_spec: Any
    eval_spec: Any


class InputMode:
    """Who reads the data, in TensorFlowOnSpark."""

    TENSORFLOW = 0
    SPARK = 1


def run_experiment(experiment_fn: Callable[[], Any]) -> None:
    """Train and evaluate the estimator of a tf-yarn experiment.

    Raises:
        TypeError: The result of `experiment_fn` is not an `Experiment`.
    """
    import tensorflow as tf

    experiment = experiment_fn()
    parts = [getattr(experiment, name, None) for name in ("estimator", "train_spec", "eval_spec")]
    if None in parts:
        raise TypeError(
            f"experiment_fn returned {type(experiment).__name__}; only an Experiment of an "
            f"estimator, a TrainSpec and an EvalSpec is run here"
        )
    tf.estimator.train_and_evaluate(*parts)


class compat:  # noqa: N801 - a module there
    """`tensorflowonspark.compat`, for TensorFlow 2.1 and later."""

    @staticmethod
    def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
        """Save a Keras model; tasks other than the chief save their models on their local disks."""
        model.save(export_dir if is_chief else "worker_model", save_format="tf")

    @staticmethod
    def disable_auto_shard(options: Any) -> None:
        """Give every task the whole of a `tf.data.Dataset`."""
        import tensorflow as tf

        policy = tf.data.experimental.AutoShardPolicy.OFF
        options.experimental_distribute.auto_shard_policy = policy

    @staticmethod
    def is_gpu_available() -> bool:
        """Return whether TensorFlow sees a GPU."""
        import tensorflow as tf

        return len(tf.config.list_physical_devices("GPU")) > 0


@dataclass
class TFNodeContext:
    """The `ctx` of TensorFlowOnSpark's `main_fun(args, ctx)`.

    Attributes:
        executor_id: Number of the task among all tasks; `worker_num` is the same.
        job_name: The role.
        task_index: Number of the task in its role.
        cluster_spec: Addresses of the tasks by role.
        num_workers: Number of tasks with the role chief, master or worker.
        defaultFS: The cluster's file system; "" without Hadoop's configuration.
        working_dir: The working directory.
        mgr: Always None: the manager through which Spark feeds data does not exist here.
    """

    executor_id: int
    job_name: str
    task_index: int
    cluster_spec: dict[str, list[str]]
    num_workers: int
    defaultFS: str  # noqa: N815 - its users read it by this name
    working_dir: str = field(default_factory=os.getcwd)
    mgr: Any = field(default=None, repr=False)

    @property
    def worker_num(self) -> int:
        """The number of the task among all tasks."""
        return self.executor_id

    def absolute_path(self, path: str) -> str:
        """Return a path below `defaultFS`; a path that has a scheme is returned as it is. A
        relative path is in the user's home, as in TensorFlowOnSpark.
        """
        import getpass

        if "://" in path or path.startswith("file:"):
            return path
        if not path.startswith("/"):
            path = f"/user/{getpass.getuser()}/{path}"
        return f"{self.defaultFS.rstrip('/')}{path}" if self.defaultFS else path

    def release_port(self) -> None:
        """Do nothing: the task's port is free when the function is called."""

    def get_data_feed(self, *_args: Any, **_options: Any) -> None:
        """Refuse: Spark feeds no data here.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "InputMode.SPARK has no equal without Spark: read the data in main_fun, with tf.data"
        )

    def start_cluster_server(self, *_args: Any, **_options: Any) -> None:
        """Refuse: this method starts a server of TensorFlow 1.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "ctx.start_cluster_server is TensorFlow 1's: use tf.distribute.Server(ctx.cluster_spec)"
        )


def call_with_context(
    main_fun: Callable[[Any, TFNodeContext], Any],
    tf_args: Any,
    roles: list[tuple[str, int]],
    default_fs: str,
) -> Any:
    """Call a function of TensorFlowOnSpark in its task, and return its result.

    Args:
        main_fun: The function.
        tf_args: The first argument of the function.
        roles: The roles with the number of their tasks, in the order of the executors' numbers.
        default_fs: The cluster's file system; "" if unknown.
    """
    role, index = os.environ["TFJOB_ROLE"], int(os.environ["TFJOB_INDEX"])
    names = [name for name, _count in roles]
    number = sum(count for _name, count in roles[: names.index(role)]) + index
    cluster = {
        name: os.environ[variable].split(",")
        for name, _count in roles
        if (variable := f"TFJOB_HOSTS_{name.upper()}") in os.environ
    }
    context = TFNodeContext(
        executor_id=number,
        job_name=role,
        task_index=index,
        cluster_spec=cluster,
        num_workers=sum(count for name, count in roles if name in ("chief", "worker")),
        defaultFS=default_fs,
    )
    return main_fun(tf_args, context)


def call_in_parallel(
    map_fn: Callable[[Any, TFNodeContext], Any], tf_args: Any, tasks: int, default_fs: str
) -> None:
    """Call a function of `TFParallel.run` in its task, which knows nothing about the other
    tasks.
    """
    context = TFNodeContext(
        executor_id=int(os.environ["TFJOB_INDEX"]),
        job_name="",
        task_index=0,
        cluster_spec={},
        num_workers=tasks,
        defaultFS=default_fs,
    )
    map_fn(tf_args, context)
