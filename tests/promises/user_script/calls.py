"""A user's script: every call of the Python interface, side by side; run as `python calls.py`.

It prints one JSON object: what each call that its arguments name has returned or raised.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import own_module  # type: ignore[import-not-found]
import tensorflow as tf

from submit_tf_job import remote, run, start
from submit_tf_job.compat.horovod_runner import HorovodRunner
from submit_tf_job.compat.tensorflowonspark import TFCluster, TFParallel
from submit_tf_job.compat.tf_yarn import Experiment, TaskSpec, run_on_yarn

__all__ = ["multiprocessing"]  # which gives this script a second name in sys.modules

SMALL = {"memory": "256Mi"}
ONE: dict[str, Any] = {"image": "library/python:3.11", "roles": {"worker": SMALL}}
TWO = {**ONE, "strategy": "multi-worker", "roles": {"worker": {**SMALL, "instances": 2}}}
TRAINING = {**ONE, "roles": {"worker": {"memory": "1Gi"}}}


def where(word: str, *, times: int = 1) -> dict[str, Any]:
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}")
    return {
        "said": own_module.multiply(word, times),
        "tensorflow": tf.add(1, 2).numpy().tolist(),
        "task": f"{os.environ['TFJOB_ROLE']}-{os.environ['TFJOB_INDEX']}",
        "peers": len(cluster.get("cluster", {}).get("worker", [])),
        "has_the_package": hasattr(sys.modules.get("submit_tf_job"), "__file__"),
    }


def unlucky(limit: int) -> int:
    if int(os.environ["TFJOB_INDEX"]) == limit:
        raise own_module.Unlucky(f"{limit} is too much")
    time.sleep(60)
    return limit


def leaves(status: int) -> None:
    sys.exit(status)


@remote(**ONE)
def double(number: int) -> int:
    return 2 * number


def map_fun(args: dict[str, Any], ctx: Any) -> None:
    if ctx.job_name == "ps":
        time.sleep(600)
    if json.loads(os.environ["TF_CONFIG"])["environment"] != "cloud":
        raise ValueError("TensorFlow 1 would start no server")
    from submit_tf_job.compat.tensorflowonspark import compat  # as its examples import it

    compat.disable_auto_shard  # noqa: B018 - TensorFlow does not fit into this task
    if len(ctx.cluster_spec["worker"]) != args["workers"]:
        raise ValueError(f"{ctx.cluster_spec} has not {args['workers']} workers")


def tfcluster(workers: int) -> None:
    job = {**ONE, "roles": {"worker": SMALL, "ps": SMALL}}
    TFCluster.run(None, map_fun, {"workers": workers}, 2, 1, job=job).shutdown()


def infer(args: dict[str, Any], ctx: Any) -> None:
    if (ctx.worker_num, ctx.num_workers) == (1, 2):
        raise own_module.Unlucky(args["word"])
    time.sleep(60)


def tf_parallel() -> None:
    TFParallel.run(None, infer, {"word": "shard 1"}, 2, job=ONE)


def keras_experiment() -> None:
    from submit_tf_job.compat.tf_yarn import KerasExperiment  # noqa: F401


def ranks(word: str) -> str:
    return f"{word} {os.environ['HOROVOD_RANK']} of {os.environ['HOROVOD_SIZE']}"


def experiment_fn() -> Experiment:
    def batches() -> Any:
        return tf.data.Dataset.from_tensors(({"x": [1.0, 2.0]}, [2.0, 4.0])).repeat()

    column = tf.feature_column.numeric_column("x")
    model = tf.estimator.LinearRegressor([column], model_dir="model")
    return Experiment(
        model, tf.estimator.TrainSpec(batches, max_steps=2), tf.estimator.EvalSpec(batches, steps=1)
    )


def told(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or what it raises as its user sees it."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever a user may see
        return {
            "raised": type(error).__name__,
            "words": "".join(traceback.format_exception(error)),
        }


def waits(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


def left_over() -> Any:
    return (number for number in range(3))


LOCK: Any = threading.Lock()


class Rejected(Exception):
    """An exception whose `args` are not the arguments of its class, as many are."""

    def __init__(self, row: int, word: str) -> None:
        super().__init__(f"row {row}: {word}")
        self.row = row


def rejects(*, with_a_lock: bool = False) -> None:
    error = Rejected(7, "bad")
    if with_a_lock:
        vars(error)["lock"] = threading.Lock()
    raise error


def caught() -> Any:
    try:
        run(rejects, job=ONE, local=True)
    except Rejected as error:
        return [str(error), error.row, str(error.__cause__).splitlines()[-1]]


def knows_a_module_that_is_not_here(*, raises: bool) -> Any:
    there = sys.modules["only_there"] = type(sys)("only_there")
    exec("class Odd(Exception): pass", vars(there))
    odd = there.Odd("is odd")
    if raises:
        raise odd
    return odd


def without_environment() -> str:
    os.environ.clear()
    return "done"


def square(number: int) -> int:
    return number * number


def in_processes() -> list[Any]:
    with multiprocessing.Pool(2) as forked:
        squares = forked.map(square, [2, 3])
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as spawned:
        return [*squares, *spawned.map(own_module.multiply, ["ha"], [2])]


async def coroutine() -> None: ...


def uses_a_lock() -> Any:
    return LOCK


CALLS: dict[str, Callable[[], Any]] = {
    "run": lambda: run(where, "ha", times=3, job=TRAINING),
    "raises": lambda: start(unlucky, (1,), job=TWO).result(900),
    "remote": lambda: double(21),
    "TFCluster": lambda: tfcluster(1),
    "TFCluster raises": lambda: tfcluster(2),
    "TFParallel": tf_parallel,
    "HorovodRunner": lambda: HorovodRunner(np=2, job=ONE).run(ranks, word="rank"),
    "run_on_yarn": lambda: run_on_yarn(
        experiment_fn,
        {"chief": TaskSpec(memory="1 GiB", vcores=1)},
        file_systems=["viewfs://root", "hdfs://root"],
        job={"image": ONE["image"]},
    ),
    "Rejected": caught,
    "KerasExperiment": keras_experiment,
    "waits": lambda: run(waits, float(os.environ["WAIT_S"]), job=ONE),
    # on this machine
    "local": lambda: run(where, "ho", times=2, job=TWO, local=True),
    "local remote": lambda: double.local(14),
    "local raises": lambda: run(unlucky, 1, job=TWO, local=True),
    "local leaves": lambda: run(leaves, 5, job=ONE, local=True),
    "local cannot be sent back": lambda: run(left_over, job=ONE, local=True),
    "local too large": lambda: run(bytes, 17 * 1024 * 1024, job=ONE, local=True),
    "lock": lambda: run(uses_a_lock, job=ONE, local=True),
    "argument": lambda: run(waits, LOCK, job=ONE, local=True),
    "local rejects with a lock": lambda: run(rejects, with_a_lock=True, job=ONE, local=True),
    "local raises of its own": lambda: run(
        knows_a_module_that_is_not_here, raises=True, job=ONE, local=True
    ),
    "local returns of its own": lambda: run(
        knows_a_module_that_is_not_here, raises=False, job=ONE, local=True
    ),
    "local leaves with 0": lambda: run(leaves, 0, job=ONE, local=True),
    "local ends its process": lambda: run(os._exit, 0, job=ONE, local=True),
    "local without environment": lambda: run(without_environment, job=ONE, local=True),
    "local processes": lambda: run(in_processes, job=ONE, local=True),
    "coroutine": lambda: run(coroutine, job=ONE, local=True),
    "no function": lambda: run(3, job=ONE, local=True),  # type: ignore[call-overload]
    "command": lambda: run(waits, 1, job={**ONE, "command": "true"}, local=True),
}


def main() -> None:
    chosen = sys.argv[1:]
    if len(chosen) == 1:
        ends = {chosen[0]: told(CALLS[chosen[0]])}
    else:
        with ThreadPoolExecutor(5) as side_by_side:  # more would wait for one another's room
            found = side_by_side.map(lambda name: told(CALLS[name]), chosen)
        ends = dict(zip(chosen, found, strict=True))
    print(json.dumps(ends))


if __name__ == "__main__":
    main()
