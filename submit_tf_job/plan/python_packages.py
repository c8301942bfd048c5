"""Plan the Python packages that are sent with a job: an archive of the job, or of a role, which
each node unpacks once.
"""

from __future__ import annotations

from collections.abc import Iterator

from submit_tf_job.container import contract
from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import Job, Packages
from submit_tf_job.plan.delivery import Contribution, File, Stage
from submit_tf_job.plan.site import Site


def contribution(job: Job, site: Site, stage: Stage) -> Contribution:
    """Return the archives of the packages, and the bootstrap's work on them."""
    own = {role.name: role.python.packages for role in job.roles.values() if role.python}
    shared = tuple(role for role in job.roles if role not in own)
    groups: dict[Packages, tuple[str, ...]] = {}
    for role, packages in [*((role, job.packages) for role in shared), *own.items()]:
        if packages is not None:
            groups[packages] = (*groups.get(packages, ()), role)
    task: dict[str, object] = {}
    if job.packages is not None and shared:
        task["packages"] = _described(job.packages)
    if own:
        task["role_packages"] = {
            role: None if packages is None else _described(packages)
            for role, packages in own.items()
        }
    return Contribution(
        files=tuple(
            _archive(packages, stage, None if len(roles) == len(job.roles) else roles)
            for packages, roles in groups.items()
        ),
        task=task,
        problems=tuple(_problems(job, site)),
    )


def _described(packages: Packages) -> dict[str, str]:
    return {"kind": packages.kind.value, "version": packages.version}


def _archive(packages: Packages, stage: Stage, roles: tuple[str, ...] | None) -> File:
    # A NodeManager chooses how to unpack by the name's suffix (FSDownload.unpack).
    ends = (".tar.gz", ".tgz", ".tar", ".zip")
    end = next(end for end in ends if packages.archive.path.name.endswith(end))
    uri = f"{stage.files}/{packages.archive.sha256}/packages{end}"
    return File(contract.PACKAGES_LINK, (uri,), packages.archive, "ARCHIVE", roles=roles)


def _problems(job: Job, site: Site) -> Iterator[Problem]:
    paths = ["python"] if job.packages else []
    paths += [
        f"roles.{role.name}.python"
        for role in job.roles.values()
        if role.python and role.python.packages
    ]
    for path in paths:
        if not site.staging:
            yield job.problem(
                path,
                "packages go to HDFS, and none is configured; set hadoop_conf in the settings, or "
                "staging: hdfs://…",
            )
