"""The TF_CONFIG that a task without the bootstrap gets."""

from __future__ import annotations

from submit_tf_job.container.tfconfig import CLUSTER_ROLES, host_name, task_port, tf_config
from submit_tf_job.plan import Plan


def wanted(planned: Plan, role: str, index: int) -> str:
    job, site = planned.job, planned.site

    def address(name: str, number: int) -> str:
        ports: dict[str, object] = {"mode": "own-address"}
        if job.network == "host":
            ports = {"mode": "host", "first": site.port_range[0], "last": site.port_range[1]}
        port = task_port(ports, job.counts, planned.run, name, number)
        return f"{host_name(name, number, planned.run, site.registry_user, site.domain)}:{port}"

    return tf_config(
        job.counts,
        [role for role in CLUSTER_ROLES if role in job.roles],
        role,
        index,
        address,
        job.legacy_master,
    )
