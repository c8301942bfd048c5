"""Compute the variables of other systems from the same addresses as TF_CONFIG.

Sources: TonY (Constants.java, TFRuntime.java), Submarine (its launch commands of YARN services),
Hbox (HboxContainer.java), Horovod (of 0.28.1).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

from submit_tf_job.container import contract, facts, tfconfig
from submit_tf_job.container.environment import ONE_VARIABLE
from submit_tf_job.container.info import BootstrapProblem, Info

# TonY counts the tasks that it waits for: no ps and no sidecars.
TRACKED = (contract.KIND_TRAINS, contract.KIND_EVALUATES)
BOARD = "tensorboard"
# Gloo waits 30 s for the others by default, too short for the start of a large program (TonY takes
# this value, too).
GLOO_S = 2000


def other_variables(info: Info) -> dict[str, str]:
    """Return what the job spec's `variables` asks for.

    Raises:
        BootstrapProblem: A value is longer than the kernel accepts for one variable.
    """
    found: dict[str, str] = {}
    for name, compute in SYSTEMS.items():
        if name in info.task["variables"]:
            found.update(compute(info))
    for name, value in found.items():
        if len(value) > ONE_VARIABLE:
            text = "%s has %d bytes, and a variable at most %d; this job has too many tasks for "
            text += "`variables`, so let the program read TF_CONFIG"
            raise BootstrapProblem(text % (name, len(value), ONE_VARIABLE))
    return found


def with_environment(info: Info, tf_config: str) -> str:
    """Add `"environment": "cloud"` to TF_CONFIG if the job spec asks for it.

    tf.contrib.learn of TensorFlow 1 starts its server only with it.
    """
    if not tf_config or not {"cloud", "submarine"} & set(info.task["variables"]):
        return tf_config
    return json.dumps(dict(json.loads(tf_config), environment="cloud"), separators=(",", ":"))


def _addresses(info: Info) -> dict[str, list[str]]:
    """Return the addresses of all tasks, in the order of the ports."""
    return {
        role: [info.address(role, index) for index in range(count)]
        for role, count in info.sizes.items()
    }


def _tony(info: Info) -> dict[str, str]:
    application = "application_%s" % info.application()
    values = {
        "JOB_NAME": info.role,
        "TASK_INDEX": str(info.position),
        "TASK_NUM": str(
            sum(count for role, count in info.sizes.items() if info.role_kind(role) in TRACKED)
        ),
        "CLUSTER_SPEC": json.dumps(_addresses(info), separators=(",", ":")),
        "DISTRIBUTED_MODE": "GANG",
        "JOB_ID": application,
        "APPID": application,
        "SESSION_ID": "0",
        "ATTEMPT_NUMBER": str(info.attempt),
        "NUM_AM_RETRIES": "0",
    }
    if info.decides:
        values["IS_CHIEF"] = "true"
    shows = info.role == BOARD if BOARD in info.counts else info.decides
    if shows:
        with socket.socket() as probe:
            probe.bind(("", 0))  # a free port; the kernel's range lies above that of the tasks
            values["TB_PORT"] = str(next(iter(info.served.values()), probe.getsockname()[1]))
    return values


def _submarine(info: Info) -> dict[str, str]:
    kind = "master" if info.role == "chief" else info.role
    return {"_TASK_TYPE": kind, "_TASK_INDEX": str(info.position)}


def _hbox(info: Info) -> dict[str, str]:
    index = str(info.position)
    values = {"TF_ROLE": info.role, "TF_INDEX": index, "INDEX": index}
    cluster = tfconfig.cluster_counts(info.sizes, info.task["cluster_roles"])
    if sum(cluster.values()) > 1:
        found = _addresses(info)
        spec = {role: found[role] for role in cluster}
        values["TF_CLUSTER_DEF"] = json.dumps(spec, separators=(",", ":"))
        values["LOCAL_ADDRESS"] = info.place(info.role, info.position)[0]
    return values


def _horovod(info: Info) -> dict[str, str]:
    """Return what Horovod reads in this task, {} if its role does not train: gloo_context.cc.

    Each task is one process with a host name of its own, because tasks on one node do not share
    GPUs.
    """
    found = facts.variables(info)
    rank, size = found.get("TFJOB_RANK"), found["TFJOB_WORLD_SIZE"]
    if rank is None or int(size) == 1:
        return {}
    host, port = info.place(info.task["deciding"], 0)
    return {
        "HOROVOD_RANK": rank,
        "HOROVOD_SIZE": size,
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": rank,
        "HOROVOD_CROSS_SIZE": size,
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_HOSTNAME": info.name,
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_S),
    }


SYSTEMS: dict[str, Callable[[Info], dict[str, str]]] = {
    "tony": _tony,
    "submarine": _submarine,
    "hbox": _hbox,
    "horovod": _horovod,
}
