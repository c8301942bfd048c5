"""The variables by which the processes of PyTorch and JAX find one another. Pure functions.

Rank 0 is the deciding task: the others connect to its address.
"""

from __future__ import annotations

import socket

from submit_tf_job.container import facts
from submit_tf_job.container.info import Info, host_port
from submit_tf_job.container.names import listening_socket


def variables(info: Info) -> dict[str, str]:
    """Return the variables of this task, {} if its role does not train."""
    starts = facts.ranks(info)
    if info.role not in starts:
        return {}
    compute = _jax if info.task["framework"] == "jax" else _torch
    rank, size = starts[info.role] + info.position, sum(info.sizes[role] for role in starts)
    return compute(info, rank, size, *info.place(info.task["deciding"], 0))


def _torch(info: Info, rank: int, size: int, host: str, port: int) -> dict[str, str]:
    """Return what torchrun reads (PET_...), and what a program without torchrun reads.

    torchrun takes an option from `PET_` and its name where the command line does not say it
    (torch/distributed/argparse_util.py), and sets the second group for its processes itself. Static
    and c10d rendezvous get the same variables. `is_host` is said because torchrun compares host
    names, which are aliases here (c10d_rendezvous_backend.py). An IPv6 address is in brackets in
    the endpoint alone (rendezvous/utils.py); TCPStore looks up the other hosts as they are.
    torchrun starts a process for each GPU, or one without GPUs.
    """
    return {
        "PET_NNODES": str(size),
        "PET_NPROC_PER_NODE": str(max(int(info.roles[info.role]["gpus"]), 1)),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": str(port),
        "PET_RDZV_ENDPOINT": host_port(host, port),
        "PET_RDZV_ID": info.run,
        "PET_RDZV_CONF": "is_host=%d" % (rank == 0),
        "PET_LOCAL_ADDR": info.place(info.role, info.position)[0],
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
    }


def _jax(_info: Info, rank: int, size: int, host: str, port: int) -> dict[str, str]:
    """Return what JAX and Keras 3 read, with the names of Kubeflow's Trainer for the rest.

    `jax.distributed.initialize()` reads the address (jax/_src/distributed.py of 0.10); the number
    of processes and its own are its arguments. It would bind `[::]`, which a system without IPv6
    refuses. `keras.distribution.initialize()` reads all three.
    """
    address = host_port(host, port)
    with listening_socket() as sock:
        every = "::" if sock.family == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 - peers are other hosts
    return {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_COORDINATOR_BIND_ADDRESS": host_port(every, port),
        "JAX_NUM_PROCESSES": str(size),
        "JAX_PROCESS_ID": str(rank),
        "KERAS_BACKEND": "jax",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": address,
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(size),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(rank),
    }
