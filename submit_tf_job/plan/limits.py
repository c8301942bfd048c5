"""Check a job against the cluster's version and limits, before the POST."""

from __future__ import annotations

import re
from collections.abc import Iterator

from submit_tf_job.errors import JobSpecError, Refused
from submit_tf_job.host.units import memory_text
from submit_tf_job.jobspec.job import Job
from submit_tf_job.plan.planner import Plan
from submit_tf_job.plan.site import Site
from submit_tf_job.yarn.observed import MaximumResources
from submit_tf_job.yarn.records import dumps

__all__ = ["check_endings", "check_limits", "check_size", "check_version"]


# Before, more than 64 KiB is accepted with a 202, and cannot be read back
# (hadoop-facts.md#sizes).
_FIRST_WITH_LARGE_SERVICES = (3, 3)
_MOST_BEFORE = 60_000
_FIRST_WITH_DECIDING_COMPONENT = (3, 3)  # YARN-8489
_FIRST_WITH_RESTART_POLICY = (3, 1, 1)
# Runtime variables → the first version that supports them.
_FIRST_WITH_VARIABLE = {
    "RUNTIME": ((3, 3), "docker.runtime"),
    "TMPFS_MOUNTS": ((3, 1, 2), "docker.tmpfs"),
    "PORTS_MAPPING": ((3, 1, 2), "docker.publish"),
}
_DIGEST = re.compile(r'"id": "[^"]+@sha256:[0-9a-f]{64}"')


def check_version(body: str, hadoop_version: str) -> None:
    """Raise `Refused` if a version of Hadoop cannot run a service.

    Raises:
        Refused: The version lacks restart policies, a runtime variable or images by digest.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", hadoop_version)[:3])
    if numbers and numbers < _FIRST_WITH_RESTART_POLICY:
        raise Refused(
            f"Hadoop {hadoop_version} does not support restart_policy (YARN-8080), and would "
            f"start finished tasks again without end"
        )
    for variable, (first, key) in _FIRST_WITH_VARIABLE.items():
        if numbers and numbers < first and f'"YARN_CONTAINER_RUNTIME_DOCKER_{variable}"' in body:
            known = ".".join(map(str, first))
            raise Refused(
                f"Hadoop {hadoop_version} does not support {key}; {known} is the first",
                hint="leave it out",
            )
    if (
        numbers
        and not (numbers >= (3, 3, 5) or (3, 2, 5) <= numbers < (3, 3))
        and _DIGEST.search(body)
    ):
        raise Refused(
            f"Hadoop {hadoop_version} does not support images by digest (3.2.5 and 3.3.5 are "
            f"the first), and every container would fail",
            hint="name the image by a tag",
        )


def check_size(planned: Plan, hadoop_version: str) -> None:
    """Refuse a service that Hadoop 3.1 and 3.2 would accept and could not read again.

    Raises:
        Refused: It is too large; without a staging directory it always is.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", hadoop_version)[:2])
    size = len(dumps(planned.service.with_files()))
    if not numbers or numbers >= _FIRST_WITH_LARGE_SERVICES or size <= _MOST_BEFORE:
        return
    if planned.site.staging is None:
        raise Refused(
            f"Hadoop {hadoop_version} cannot read back a service of more than {_MOST_BEFORE} "
            "bytes, and without a staging directory the bootstrap is inside it",
            hint="set hadoop_conf, or staging: hdfs://…, in the settings",
        )
    raise Refused(
        f"the service has {size} bytes, and Hadoop {hadoop_version} cannot read back "
        f"more than {_MOST_BEFORE}",
        hint="put long commands into scripts, and long values into files",
    )


def check_endings(job: Job, hadoop_version: str) -> None:
    """Refuse a job that could hold its place for ever on Hadoop 3.1 and 3.2.

    They do not end an application with its witness (docs/internals/endings.md).

    Raises:
        JobSpecError: It has `retries` and no `lifetime`.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", hadoop_version)[:2])
    if numbers and numbers < _FIRST_WITH_DECIDING_COMPONENT and job.retries and not job.lifetime_s:
        message = (
            f"a job with `retries` needs a `lifetime` on Hadoop {hadoop_version}, which does not "
            "end an application while a lost task gets no other container; say lifetime: 12h"
        )
        raise JobSpecError([job.problem("retries", message)])


def check_limits(job: Job, site: Site, maximum: MaximumResources) -> None:
    """Raise `Refused` if a container would be larger than the cluster allows.

    YARN checks memory and cores. With too many GPUs it accepts the job, which then never gets
    containers, or its ApplicationMaster fails without naming the resource
    (hadoop-facts.md#requests-that-are-never-granted).

    Raises:
        Refused: One or more roles request too much; the message has all of them.
    """
    problems = list(_limits(job, site, maximum))
    if problems:
        raise Refused("\n".join(str(job.problem(path, message)) for path, message in problems))


def _limits(job: Job, site: Site, maximum: MaximumResources) -> Iterator[tuple[str, str]]:
    for role in job.roles.values():
        path = f"roles.{role.name}"
        if maximum.memory_mib is not None and role.memory_mib > maximum.memory_mib:
            yield (
                f"{path}.memory",
                f"{memory_text(role.memory_mib)} is more than the "
                f"{memory_text(maximum.memory_mib)} one container may have here",
            )
        if maximum.vcores is not None and role.cpus > maximum.vcores:
            yield (
                f"{path}.cpus",
                f"{role.cpus} is more than the {maximum.vcores} cores one container may have here",
            )
        name = role.gpu_resource or site.gpu_resource
        gpus = maximum.additional.get(name)
        if role.gpus and not gpus:
            yield (
                f"{path}.{'gpu_resource' if role.gpu_resource else 'gpus'}",
                _not_offered(name, maximum),
            )
        elif gpus is not None and role.gpus > gpus:
            yield (
                f"{path}.gpus",
                f"{role.gpus} is more than the {gpus} {name} one container may have here",
            )


def _not_offered(name: str, maximum: MaximumResources) -> str:
    others = sorted(other for other, amount in maximum.additional.items() if amount)
    if others:
        return f"this cluster offers no {name}, but {', '.join(others)}; set gpu_resource"
    return f"this cluster offers no {name}; leave gpus out, or set gpu_resource"
