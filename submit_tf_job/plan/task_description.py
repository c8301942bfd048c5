"""Write the task description: the facts about a job's tasks, in the form that the bootstrap in each
container reads.

The task description is readable JSON, the same for all tasks, in a TEMPLATE file of YARN
(docs/tf-config.md#the-task-description).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.tfconfig import CLUSTER_ROLES
from submit_tf_job.jobspec.job import (
    DEFAULT_STOP_GRACE_S,
    ImagePolicy,
    Job,
    OnStall,
    Role,
    Strategy,
)
from submit_tf_job.plan.delivery import Contribution
from submit_tf_job.plan.site import Site

# names of outputs that hold checkpoints
_CHECKPOINTS = ("checkpoint", "checkpoints", "ckpt", "ckpts")
# the framework whose environment or versions the bootstrap has to know
_FRAMEWORKS = {
    Strategy.MULTI_WORKER: "tensorflow",
    Strategy.PARAMETER_SERVER: "tensorflow",
    Strategy.ESTIMATOR: "tensorflow",
    Strategy.TORCH: "torch",
    Strategy.JAX: "jax",
}


def task_text(description: Mapping[str, object]) -> str:
    """Return the task description as text in which no pattern is left that the AM would replace:
    `${TOKEN}` and `{{content}}` (ProviderUtils, ConfigUtils.replaceProps).
    """
    text = json.dumps(description, indent=1, ensure_ascii=True)
    return text.replace("${", "\\u0024{").replace("{{", "{\\u007b")


def task_description(
    job: Job,
    site: Site,
    run: str,
    *,
    of_roles: Mapping[str, Mapping[str, object]],
    parts: Sequence[Contribution],
) -> dict[str, object]:
    """Return the task description of a run; docs/tf-config.md documents it.

    Args:
        job: The job.
        site: The cluster.
        run: The run's name.
        of_roles: Role → what the bootstrap has to do with the role's files.
        parts: The contributions to the plan.
    """
    domain = f"{run}.{site.registry_user}.{site.domain}" if site.domain else None
    added: dict[str, Any] = {key: value for part in parts for key, value in part.task.items()}
    files: dict[str, object] = {}
    work_of = {role: dict(work) for role, work in of_roles.items()}
    for role, packages in added.pop("role_packages", {}).items():
        work_of.setdefault(role, {})["packages"] = packages
    if work_of:
        files["roles"] = work_of
    if "packages" in added:
        files["packages"] = added.pop("packages")
    if job.image_policy is not ImagePolicy.REQUIRE:
        added["image_policy"] = job.image_policy.value
    framework = _FRAMEWORKS.get(job.strategy)
    return {
        "version": contract.TASK_VERSION,
        "job": job.name,
        "run": run,
        "strategy": job.strategy.value,
        "host_suffix": domain,
        "dns_server": site.dns_server,
        "ports": _ports_object(job, site),
        "deciding": job.deciding_role,
        "ends_with": job.ends_with.value,
        "cluster_roles": [role for role in CLUSTER_ROLES if role in job.roles],
        "legacy_master": job.legacy_master,
        "tf_config": job.tf_config.value,
        "start_timeout_s": job.start_timeout_s,
        "finish_timeout_s": job.finish_timeout_s,
        "grace_s": job.grace_s,
        **_of_some_jobs(job, site),
        **added,
        **({"files": files} if files else {}),
        **({"framework": framework} if framework else {}),
        "roles": {name: _task_of(role) for name, role in job.roles.items()},
    }


def _ports_object(job: Job, site: Site) -> dict[str, object]:
    """Return how the tasks' ports are chosen."""
    if job.network != "host":
        return {"mode": "own-address"}
    # The containers share the address of their node.
    first, last = site.port_range
    return {"mode": "host", "first": first, "last": last}


def _of_some_jobs(job: Job, site: Site) -> dict[str, object]:
    """Return the keys that are written only for jobs that need them."""
    found: dict[str, object] = {}
    if job.variables:
        found["variables"] = [item.value for item in job.variables]
    if rule := job.retries:
        found["retries"] = {"max": rule.max, "on": list(rule.on), "node_losses": rule.node_losses}
    elastic = {
        role.name: {"min": role.elastic.min, "grow_after_s": role.elastic.grow_after_s}
        for role in job.roles.values()
        if role.elastic
    }
    if elastic:
        found["elastic"] = elastic
    if job.stop_grace_s != DEFAULT_STOP_GRACE_S:
        found["stop_grace_s"] = job.stop_grace_s
    if job.hold_s:
        found["hold_s"] = job.hold_s
    if uri := job.checkpoints or _checkpoints_of_outputs(job):
        found["checkpoints"] = uri
    if job.prepare:
        found["prepare"] = job.prepare.to_json()
    if stall := job.stall_timeout:
        found["stall"] = {"after_s": stall.after_s, "fail": stall.then is OnStall.FAIL}
    if any(role.gpus for role in job.roles.values()):  # tasks look for it, if their role has none
        found["gpus"] = site.gpu_resource
    return found


def _checkpoints_of_outputs(job: Job) -> str | None:
    """Return the URI of the first output with a name such as `checkpoints` or `ckpt`
    (`_CHECKPOINTS`) to which the program itself writes; None if there is none.
    """
    named = (output for output in job.outputs if output.name in _CHECKPOINTS and not output.upload)
    return next((output.uri for output in named), None)


def _task_of(role: Role) -> dict[str, object]:
    return {
        "count": role.instances,
        "kind": role.kind.value,
        "command": role.command.to_json(),
        "env": dict(role.env),
        "max_restarts": role.max_restarts,
        "tolerate": role.tolerate,
        "gpus": role.gpus,
        **({"gpu_resource": role.gpu_resource} if role.gpu_resource else {}),
        **({"ports": dict(role.ports)} if role.ports else {}),
        **({"workdir": role.workdir} if role.workdir else {}),
        **({"after": list(role.after)} if role.after else {}),
    }
