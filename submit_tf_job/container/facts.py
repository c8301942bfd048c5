"""Facts about the job for programs of any framework: ranks, and the addresses of all tasks.

Computed in the container from the number of tasks of each role, as TF_CONFIG is.
"""

from __future__ import annotations

import os

from submit_tf_job.container import contract, tfconfig
from submit_tf_job.container.info import Info

# Bytes of all lists of hosts in variables; longer ones are in files. The kernel accepts 128 KiB for
# one variable, and a quarter of the stack's limit (usually 2 MiB) for all.
MOST_IN_VARIABLES = 100000
DIRECTORY = ".tfjob-hosts"  # in the working directory


def ranks(info: Info) -> dict[str, int]:
    """Return the first rank of each role that trains: the deciding role's is 0."""
    order = tfconfig.role_order(info.counts)
    order.sort(key=lambda role: role != info.task["deciding"])  # stable
    found, first = {}, 0
    for role in order:
        if info.role_kind(role) == contract.KIND_TRAINS:
            found[role] = first
            first += info.sizes[role]
    return found


def variables(info: Info) -> dict[str, str]:
    """Return the variables that need no file: ranks, and the deciding task's address.

    Each task is one process in a container of its own, which sees no GPUs but its own: so the local
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
    """Return the variables with lists of hosts, and the content of the files that they name.

    Sidecars are left out: the job does not wait for them, and their number may change. Empty if
    the names of the tasks are unknown, as in a job of one task without Registry DNS.

    Returns:
        Variables; and by path the files, with one host:port in each line. A role's list is in
        `TFJOB_HOSTS_<ROLE>`, or in the file that `TFJOB_HOSTFILE_<ROLE>` names where the lists
        together are longer than `MOST_IN_VARIABLES`.
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


def program_variables(info: Info) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables by which a program finds the tasks of its job, and the content of the
    files that they name, by path: facts, TF_CONFIG, and what other frameworks and systems read.

    Raises:
        BootstrapProblem: One for other systems is longer than the kernel accepts.
    """
    task, others, value = info.task, {}, ""
    if task.get("tf_config", "counts") == "counts":
        value = info.tf_config()
    if task.get("variables") or task.get("framework") in ("torch", "jax"):
        from submit_tf_job.container.systems import variables as systems

        value = systems.with_environment(info, value)
        others = systems.other_variables(info)
    lists, files = host_variables(info)
    found = {**variables(info), **lists, **({contract.ENV_TF_CONFIG: value} if value else {})}
    stated = info.roles[info.role].get("env", {})
    found.update((name, text) for name, text in others.items() if name not in stated)
    return found, files
