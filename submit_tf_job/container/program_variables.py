"""The variables from which a program learns the tasks of its job: ranks, addresses, TF_CONFIG, and
the variables of other frameworks and systems.

All values are computed in the container from the number of tasks of each role. Sources: TonY
(Constants.java, TFRuntime.java), Submarine (its launch commands of YARN services), Hbox
(HboxContainer.java), Horovod (of 0.28.1).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable

from submit_tf_job.container import contract, tfconfig
from submit_tf_job.container.dns_client import listening_socket
from submit_tf_job.container.environment import ONE_VARIABLE
from submit_tf_job.container.info import BootstrapProblem, Info, host_port

# Bytes of all lists of hosts in variables; longer ones are in files. The kernel accepts 128 KiB for
# one variable, and a quarter of the stack's limit (usually 2 MiB) for all.
MOST_IN_VARIABLES = 100000
DIRECTORY = ".tfjob-hosts"  # in the working directory
# TonY counts the tasks that it waits for: no ps and no sidecars.
TRACKED = (contract.KIND_TRAINS, contract.KIND_EVALUATES)
BOARD = "tensorboard"
# Gloo waits 30 s for the others by default, too short for the start of a large program (TonY takes
# this value, too).
GLOO_S = 2000


def ranks(info: Info) -> dict[str, int]:
    """Return the first rank of each role that trains; the deciding role begins with rank 0."""
    order = tfconfig.role_order(info.counts)
    order.sort(key=lambda role: role != info.task["deciding"])  # stable
    found, first = {}, 0
    for role in order:
        if info.role_kind(role) == contract.KIND_TRAINS:
            found[role] = first
            first += info.sizes[role]
    return found


def variables(info: Info) -> dict[str, str]:
    """Return the variables that need no file: the number of ranks, this task's ranks if it trains,
    and the deciding task's address if it is known.

    Each task is one process in a container of its own, which sees only its own GPUs; so the local
    rank of a task is always 0.
    """
    first = ranks(info)
    found = {contract.ENV_WORLD_SIZE: str(sum(info.sizes[role] for role in first))}
    if info.role in first:
        found[contract.ENV_RANK] = str(first[info.role] + info.position)
        found[contract.ENV_LOCAL_RANK] = "0"
    if info.hosts or info.suffix:
        found[contract.ENV_ADDRESS] = info.address(info.task["deciding"], 0)
    return found


def host_variables(info: Info) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that contain lists of hosts, and the contents of the files that these
    variables name.

    Sidecars are left out: the job does not wait for them, and their number may change. Empty if the
    names of the tasks are unknown, as in a job of one task without Registry DNS.

    Returns:
        The variables; and the files by path, with one host:port in each line. A role's list is in
        `TFJOB_HOSTS_<ROLE>`; a list with which all lists in variables would be longer than
        `MOST_IN_VARIABLES` is in the file that `TFJOB_HOSTFILE_<ROLE>` names.
    """
    found, files, room = {}, {}, MOST_IN_VARIABLES
    for role in tfconfig.role_order(info.addressed()) if info.hosts or info.suffix else ():
        addresses = info.addresses(role)
        text = ",".join(addresses)
        name = role.upper().replace("-", "_")
        if len(text) <= room:
            room -= len(text)
            found[contract.ENV_HOSTS + name] = text
        else:
            path = os.path.join(info.cwd, DIRECTORY, role)
            found[contract.ENV_HOSTFILE + name] = path
            files[path] = "\n".join(addresses) + "\n"
    return found, files


def all_variables(info: Info) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables from which a program learns the tasks of its job, and, by path, the
    contents of the files that these variables name: facts, TF_CONFIG, and the variables of other
    frameworks and systems.

    Raises:
        BootstrapProblem: A variable for other systems is longer than the kernel accepts, or the
            address of a task is not known.
    """
    value = ""
    if info.task.get("tf_config", "counts") == "counts":
        value = with_environment(info, info.tf_config())
    lists, files = host_variables(info)
    found = {**variables(info), **lists, **({contract.ENV_TF_CONFIG: value} if value else {})}
    stated = info.roles[info.role].get("env", {})
    others = other_variables(info)
    found.update((name, text) for name, text in others.items() if name not in stated)
    return found, files


# --- other frameworks and systems -----------------------------------------------------------------
def other_variables(info: Info) -> dict[str, str]:
    """Return the variables of the systems in `variables` of the job spec, and the variables that
    the job's framework reads.

    Raises:
        BootstrapProblem: A value is longer than the kernel accepts for one variable, or the address
            of a task is not known.
    """
    found: dict[str, str] = {}
    asked = (*info.task.get("variables", ()), info.task.get("framework"))
    for name in [name for name in SYSTEMS if name in asked]:
        found.update(SYSTEMS[name](info))
    starts = ranks(info)
    for name in [name for name in PROCESSES if name in asked and info.role in starts]:
        rank, size = starts[info.role] + info.position, sum(info.sizes[role] for role in starts)
        found.update(PROCESSES[name](info, rank, size))
    for name, value in found.items():
        if len(value) > ONE_VARIABLE:
            text = "%s has %d bytes, and a variable at most %d; this job has too many tasks for "
            text += "`variables`, so let the program read TF_CONFIG"
            raise BootstrapProblem(text % (name, len(value), ONE_VARIABLE))
    return found


def with_environment(info: Info, tf_config: str) -> str:
    """Return TF_CONFIG, with `"environment": "cloud"` added if the job spec asks for it.

    tf.contrib.learn of TensorFlow 1 starts its server only if TF_CONFIG has this entry.
    """
    if not tf_config or not {"cloud", "submarine"} & set(info.task.get("variables", ())):
        return tf_config
    return json.dumps(dict(json.loads(tf_config), environment="cloud"), separators=(",", ":"))


def _tony_variables(info: Info) -> dict[str, str]:
    cluster = {role: info.addresses(role) for role in info.counts}
    application = f"application_{info.application()}"
    values = {
        "JOB_NAME": info.role,
        "TASK_INDEX": str(info.position),
        "TASK_NUM": str(
            sum(count for role, count in info.sizes.items() if info.role_kind(role) in TRACKED)
        ),
        "CLUSTER_SPEC": json.dumps(cluster, separators=(",", ":")),
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


def _submarine_variables(info: Info) -> dict[str, str]:
    kind = "master" if info.role == "chief" else info.role
    return {"_TASK_TYPE": kind, "_TASK_INDEX": str(info.position)}


def _hbox_variables(info: Info) -> dict[str, str]:
    index = str(info.position)
    values = {"TF_ROLE": info.role, "TF_INDEX": index, "INDEX": index}
    cluster = tfconfig.cluster_counts(info.sizes, info.task["cluster_roles"])
    if sum(cluster.values()) > 1:
        spec = {role: info.addresses(role) for role in cluster}
        values["TF_CLUSTER_DEF"] = json.dumps(spec, separators=(",", ":"))
        values["LOCAL_ADDRESS"] = info.place(info.role, info.position)[0]
    return values


# --- how processes find one another: by the address of rank 0, the deciding task ------------------
def _horovod_variables(info: Info, rank: int, size: int) -> dict[str, str]:
    """Return the variables that Horovod reads (gloo_context.cc); {} for a job of one process.

    Each task is one process with a host name of its own, because tasks on one node do not share
    GPUs.
    """
    if size == 1:
        return {}
    host, port = info.place(info.task["deciding"], 0)
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": str(rank),
        "HOROVOD_CROSS_SIZE": str(size),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_HOSTNAME": info.name,
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_S),
    }


def _torch_variables(info: Info, rank: int, size: int) -> dict[str, str]:
    """Return the variables that torchrun reads (PET_...), and the variables that a program without
    torchrun reads.

    torchrun takes an option from the variable `PET_` + option name if the command line does not
    have the option (torch/distributed/argparse_util.py), and sets the second group for its
    processes itself. Static and c10d rendezvous get the same variables. `is_host` is set because
    torchrun compares host names, which are aliases here (c10d_rendezvous_backend.py). Only in the
    endpoint is an IPv6 address in brackets (rendezvous/utils.py); TCPStore looks up the other hosts
    as they are written. torchrun starts one process for each GPU, or a single process if there are
    no GPUs.
    """
    host, port = info.place(info.task["deciding"], 0)
    return {
        "PET_NNODES": str(size),
        "PET_NPROC_PER_NODE": str(max(int(info.roles[info.role]["gpus"]), 1)),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": str(port),
        "PET_RDZV_ENDPOINT": host_port(host, port),
        "PET_RDZV_ID": info.run,
        "PET_RDZV_CONF": f"is_host={int(rank == 0)}",
        "PET_LOCAL_ADDR": info.place(info.role, info.position)[0],
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
    }


def _jax_variables(info: Info, rank: int, size: int) -> dict[str, str]:
    """Return the variables that JAX and Keras 3 read, and for other facts the variables of
    Kubeflow's Trainer.

    `jax.distributed.initialize()` reads the address from a variable (jax/_src/distributed.py of
    0.10); the number of processes and the process's own number are arguments of that call. By
    default it would bind `[::]`, which a system without IPv6 refuses.
    `keras.distribution.initialize()` reads all three.
    """
    host, port = info.place(info.task["deciding"], 0)
    with listening_socket() as sock:
        every = "::" if sock.family == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 - peers are other hosts
    return {
        "JAX_COORDINATOR_ADDRESS": host_port(host, port),
        "JAX_COORDINATOR_BIND_ADDRESS": host_port(every, port),
        "JAX_NUM_PROCESSES": str(size),
        "JAX_PROCESS_ID": str(rank),
        "KERAS_BACKEND": "jax",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": host_port(host, port),
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(size),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(rank),
    }


# by a word of `variables`, or of the task description's `framework`
SYSTEMS: dict[str, Callable[[Info], dict[str, str]]] = {
    "tony": _tony_variables,
    "submarine": _submarine_variables,
    "hbox": _hbox_variables,
}
# the same for tasks that train, with their rank and the number of ranks
PROCESSES: dict[str, Callable[[Info, int, int], dict[str, str]]] = {
    "horovod": _horovod_variables,
    "torch": _torch_variables,
    "jax": _jax_variables,
}
