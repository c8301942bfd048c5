"""Plan a job's Docker options: the variables of YARN's runtime, and the problems for which the
site, YARN or container-executor would refuse the job.

Privileged containers are never requested.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from submit_tf_job.container import contract
from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import DockerOptions, Job, Mount, Role
from submit_tf_job.plan.delivery import Contribution
from submit_tf_job.plan.site import Site

_PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"
# OCIContainerRuntime.DOCKER_IMAGE_PATTERN; digests since 3.3.5.
IMAGE = re.compile(r"(([a-zA-Z0-9.-]+)(:\d+)?/)?([a-z0-9_./-]+)(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")
# With these files the node's user ids have names in the container; Hadoop's documentation mounts
# both.
ACCOUNTS = (Mount("/etc/passwd", "/etc/passwd"), Mount("/etc/group", "/etc/group"))


def contribution(job: Job, site: Site, mounts: Sequence[Mount]) -> Contribution:
    """Return the variables of YARN's runtime, and the problems for which a job would be refused.

    Args:
        job: The job.
        site: The cluster.
        mounts: Mounts of every container, in addition to the mounts of the roles.
    """
    env: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for role in job.roles.values():
        if not role.in_container:
            env[role.name] = _plain_variables(site)
            problems += _plain_problems(job, role)
            continue
        mounted = [*role.mounts, *mounts, *(ACCOUNTS if role.docker.accounts else ())]
        env[role.name] = _docker_variables(job, role, mounted)
        problems += _docker_problems(job, role, site, mounted)
    return Contribution(env=env, problems=tuple(problems))


def _docker_variables(job: Job, role: Role, mounts: Sequence[Mount]) -> dict[str, str]:
    docker = role.docker
    values = {
        "CONTAINER_NETWORK": job.network,
        "MOUNTS": ",".join(map(str, mounts)),
        "TMPFS_MOUNTS": ",".join(docker.tmpfs),
        "PORTS_MAPPING": ",".join(docker.publish),
        "RUNTIME": docker.runtime,
    }
    return {_PREFIX + name: value for name, value in values.items() if value}


def _plain_variables(site: Site) -> dict[str, str]:
    """Return the variables of YARN's runtime for a role without an image.

    A NodeManager may have Docker as its default runtime. The ApplicationMaster sets the host name,
    from which the bootstrap reads the domain, only for DOCKER artifacts.
    """
    values = {contract.ENV_RUNTIME: "default"}
    if not site.domain:
        values[contract.ENV_HOSTNAME] = (
            "${COMPONENT_INSTANCE_NAME}.${SERVICE_NAME}.${USER}.${DOMAIN}"
        )
    return values


def _plain_problems(job: Job, role: Role) -> Iterator[Problem]:
    path, plain = f"roles.{role.name}", "image: none runs a plain process of the node"
    if role.mounts:
        message = f"{plain}, which sees the node's directories; leave mounts out"
        yield job.problem(f"{path}.mounts", message)
    if role.docker != DockerOptions():
        yield job.problem(f"{path}.docker", f"{plain}, without Docker; leave docker out")
    if job.network != "host":
        message = f"{plain}, on the node's own network; say network: host"
        yield job.problem("network", message)


def _docker_problems(
    job: Job, role: Role, site: Site, mounts: Sequence[Mount]
) -> Iterator[Problem]:
    problem = image_problem(role.image)
    if problem:
        yield job.problem(f"roles.{role.name}.image", problem)
    elif site.trusted_registries is not None and not is_trusted(
        role.image, site.trusted_registries
    ):
        listed = ", ".join(site.trusted_registries) or "none"
        message = (
            f"{role.image!r} is not from a registry that this site trusts, and YARN would "
            f"remove its mounts; trusted: {listed}"
        )
        yield job.problem(f"roles.{role.name}.image", message)
    yield from _mounts_allowed(job, role, site, mounts)
    yield from _option_problems(job, role, site)


def image_problem(image: str) -> str | None:
    """Return why YARN would refuse an image's name; None for a valid one."""
    if IMAGE.fullmatch(image):
        return None
    _, at, digest = image.partition("@")
    if at and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        kind, _, digits = digest.partition(":")
        found = "other characters"
        if re.fullmatch(r"[0-9a-f]*", digits):
            found = f"{len(digits)} characters"
        return (
            f"the digest of {image!r} is not valid: expected sha256: and 64 of 0-9 and a-f, "
            f"found {kind or 'nothing'}: and {found}"
        )
    return f"{image!r} is not an image name that YARN accepts: [host[:port]/]lower-case/path[:tag]"


def is_trusted(image: str, registries: Sequence[str]) -> bool:
    """Return whether an image comes from one of docker.trusted.registries; the rule is that of
    container-executor's check_trusted_image.
    """
    return any(
        image.startswith(f"{registry}/") or (registry == "library" and "/" not in image)
        for registry in registries
    )


def _mounts_allowed(job: Job, role: Role, site: Site, mounts: Sequence[Mount]) -> Iterator[Problem]:
    """Yield a problem for each mount that container-executor would refuse; none if the settings do
    not state which mounts it allows.

    A path in the list of writable mounts may also be mounted read-only. A directory in a list
    allows all paths below it.
    """
    for index, mount in enumerate(mounts):
        lists = (site.ro_mounts, site.rw_mounts) if mount.read_only else (site.rw_mounts,)
        if any(allowed is None for allowed in lists):
            continue
        allowed = [entry for entries in lists for entry in entries or ()]
        if not any(_is_below(mount.source, entry) for entry in allowed):
            how = "read-only" if mount.read_only else "writable"
            message = (
                f"this site does not allow mounting {mount.source!r} {how}; it allows "
                f"{', '.join(dict.fromkeys(allowed)) or 'nothing'}"
            )
            if index < len(role.mounts):
                yield _mount_problem(job, role, index, message)
            else:
                yield job.problem(_asked_by(job, mount, role), message)


def _is_below(path: str, directory: str) -> bool:
    whole, above = posixpath.normpath(path), posixpath.normpath(directory)
    return whole == above or whole.startswith(above.rstrip("/") + "/")


def _asked_by(job: Job, mount: Mount, role: Role) -> str:
    if mount in ACCOUNTS:
        return f"roles.{role.name}.docker.accounts"
    return "hadoop.conf" if job.hadoop and mount.source == job.hadoop.location else "kerberos"


def _option_problems(job: Job, role: Role, site: Site) -> Iterator[Problem]:
    path, docker = f"roles.{role.name}.docker", role.docker
    if docker.publish and job.network in ("host", "none"):
        yield job.problem(
            f"{path}.publish",
            f"on network {job.network} no port can be published; on host they are the "
            f"node's own already",
        )
    fixed = [entry for entry in docker.publish if not entry.startswith(":")]
    apart = role.placement is not None and role.placement.spread is not None
    if fixed and role.instances > 1 and not apart:
        message = (
            f"{fixed[0]!r} takes one port of a node, and two tasks may share a node; use "
            f"':PORT', or placement: {{spread: node}}"
        )
        yield job.problem(f"{path}.publish", message)
    targets = {posixpath.normpath(mount.target) for mount in role.mounts}
    for entry in docker.tmpfs:
        if posixpath.normpath(entry) in targets:
            yield job.problem(f"{path}.tmpfs", f"{entry!r} is the target of a mount, too; drop one")
    if docker.runtime and site.runtimes is not None and docker.runtime not in site.runtimes:
        listed = ", ".join(site.runtimes)
        yield job.problem(
            f"{path}.runtime",
            f"this site does not allow the runtime {docker.runtime!r}; it allows {listed}",
        )
    if docker.runtime and role.gpus and (role.gpu_resource or site.gpu_resource) == "yarn.io/gpu":
        # DockerRunCommand.addRuntime joins them by a comma; seen on 3.4.2
        yield job.problem(
            f"{path}.runtime",
            f"for tasks with GPUs YARN names the runtime nvidia itself, and Docker would get "
            f"'{docker.runtime},nvidia', which it does not know; leave runtime out",
        )


def _mount_problem(job: Job, role: Role, index: int, message: str) -> Problem:
    """Return a problem at the path that the user wrote.

    The role's list also contains the mounts of the settings and the job, so the index in the user's
    list may be another one.
    """
    merged = f"roles.{role.name}.mounts[{index}]"
    problem, place = job.problem(merged, message), job.places.get(merged)
    if place is None or not place.line:
        return problem
    shared = next(
        (
            path
            for path, written in job.places.items()
            if written == place and path.startswith("mounts[")
        ),
        None,
    )
    return replace(problem, path=shared or f"roles.{role.name}.mounts")
