"""Check a job against the cluster's version of Hadoop, before the POST."""

from __future__ import annotations

import re

from submit_tf_job.errors import JobSpecError, Refused
from submit_tf_job.jobspec.job import Job
from submit_tf_job.plan.planner import Plan
from submit_tf_job.yarn.records import dumps

__all__ = ["check_endings", "check_size", "check_version"]


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
