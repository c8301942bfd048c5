"""Compute the environment that the program of one task will find, without a cluster.

In the container, the same functions (`container/`) compute the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from submit_tf_job.container import contract, environment, program_variables
from submit_tf_job.container.data.task_data import Data
from submit_tf_job.container.info import Info
from submit_tf_job.container.tfconfig import split_instance
from submit_tf_job.errors import UsageError
from submit_tf_job.jobspec.job import AUTO_PORT, Job, Variables
from submit_tf_job.plan.planner import Plan
from submit_tf_job.plan.site import Names

_DOMAIN = "<domain>"
_OF_A_RUN = ("APPID", "JOB_ID", "TB_PORT")
_HERE = "."  # stands for the task's working directory


@dataclass(frozen=True)
class TaskPreview:
    """The environment of one task's program, without the variables of the image and of YARN.

    Attributes:
        task: The task, such as worker-1.
        command: The command that the task runs.
        environment: The variables; paths are relative to the task's working directory.
        files: Content of the files that the variables name, by path.
        notes: Facts that are decided only in the container.
    """

    task: str
    command: list[str] | str
    environment: Mapping[str, str]
    files: Mapping[str, str]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON; the key `tf_config` has the value of TF_CONFIG in parsed
        form.
        """
        value = self.environment.get(contract.ENV_TF_CONFIG)
        return {
            "task": self.task,
            "command": self.command,
            "tf_config": json.loads(value) if value else None,
            "environment": dict(self.environment),
            "files": dict(self.files),
            "notes": list(self.notes),
        }


def preview(planned: Plan, task: str) -> TaskPreview:
    """Return the environment of one task's program.

    Args:
        planned: The plan of the job.
        task: The task, such as worker-1.

    Raises:
        UsageError: The job has no such task.

    Example:
        >>> preview(planned, "worker-1").environment["TFJOB_RANK"]  # doctest: +SKIP
        '2'
    """
    job = planned.job
    role = _role_of(job, task)
    found: dict[str, str] = dict(job.roles[role].env)
    info = _task_info(planned, task)
    found.update(_preview_variables(info))
    others, files = program_variables.all_variables(info)
    found.update((name, text) for name, text in others.items() if name not in _OF_A_RUN)
    found.update(_fixed_ports(job, role))
    return TaskPreview(
        task, job.roles[role].command.to_json(), found, files, tuple(_role_notes(planned, role))
    )


def _role_of(job: Job, task: str) -> str:
    try:
        role, index = split_instance(task)
    except ValueError:
        role, index = task, -1
    if role not in job.roles or not 0 <= index < job.roles[role].instances:
        tasks = ", ".join(
            f"{name}-0 to {name}-{count - 1}" if count > 1 else f"{name}-0"
            for name, count in job.counts.items()
        )
        raise UsageError(f"the job has no task {task!r}", hint=f"its tasks are {tasks}")
    return role


def _task_info(planned: Plan, task: str) -> Info:
    site = planned.site
    name = f"{task}.{planned.run}.{site.registry_user}.{site.domain or _DOMAIN}"
    env = {contract.ENV_INSTANCE: task, contract.ENV_HOSTNAME: name}
    return Info(planned.task, env, _HERE)


def _preview_variables(info: Info) -> dict[str, str]:
    found = environment.own_variables(info)
    found.setdefault("PYTHONUNBUFFERED", "1")
    found[contract.ENV_ATTEMPT] = "0"
    if info.task.get("data"):
        found.update(Data(info, {}, lambda: False, warn=lambda _text, _about: None).variables())
    return found


def _fixed_ports(job: Job, role: str) -> dict[str, str]:
    return {
        _port_variable(name): str(port)
        for name, port in job.roles[role].ports.items()
        if port != AUTO_PORT
    }


def _port_variable(name: str) -> str:
    return contract.ENV_PORT_OF + name.upper().replace("-", "_")


_ADDRESSES = {
    Names.RENDEZVOUS: "with `names: rendezvous` the program gets addresses instead of host names",
    Names.AUTO: "with `names: auto` it gets addresses in place of host names that do not resolve",
}


def _role_notes(planned: Plan, role: str) -> list[str]:
    job, site = planned.job, planned.site
    notes = []
    if not site.domain and site.names is not Names.RENDEZVOUS:
        notes.append(
            f"{_DOMAIN} stands for the registry's domain, which is not known here (dns.domain)"
        )
    if site.names is not Names.DNS:
        notes.append(_ADDRESSES[site.names])
    elif site.dns_server:
        notes.append("with dns.server the program gets addresses instead of host names")
    if Variables.TONY in job.variables:
        notes.append(f"{', '.join(_OF_A_RUN)} are set when the task runs")
    for name, port in job.roles[role].ports.items():
        if port == AUTO_PORT:
            notes.append(f"{_port_variable(name)} is a free port of the task's node")
    return notes
