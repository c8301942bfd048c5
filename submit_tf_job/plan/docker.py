"""What Docker on the nodes is told of a role: YARN's runtime variables; and what the site, YARN or container-executor would refuse of it.

A privileged container is nowhere asked for.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from submit_tf_job.errors import Problem
from submit_tf_job.job import Job, Mount, Role
from submit_tf_job.plan import entrypoint, identity
from submit_tf_job.plan.site import Site

__all__ = ["ACCOUNTS", "IMAGE", "check_role", "image_problem", "is_trusted", "mounts", "variables"]

_PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"
# OCIContainerRuntime.DOCKER_IMAGE_PATTERN; digests since 3.3.5.
IMAGE = re.compile(r"(([a-zA-Z0-9.-]+)(:\d+)?/)?([a-z0-9_./-]+)(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")
# With them a uid of the node has a name in the container; Hadoop's own documentation mounts these two.
ACCOUNTS = (Mount("/etc/passwd", "/etc/passwd"), Mount("/etc/group", "/etc/group"))


def variables(job: Job, role: Role, site: Site) -> dict[str, str]:
    """Return YARN's runtime variables for a role, in a fixed order; only those that say something."""
    docker = role.docker
    said = {
        "CONTAINER_NETWORK": job.network,
        "MOUNTS": ",".join(map(str, mounts(job, role, site))),
        "TMPFS_MOUNTS": ",".join(docker.tmpfs),
        "PORTS_MAPPING": ",".join(docker.publish),
        "RUNTIME": docker.runtime or "",
        "RUN_OVERRIDE_DISABLE": "true" if docker.entrypoint else "",
    }
    return {_PREFIX + name: value for name, value in said.items() if value}


def mounts(job: Job, role: Role, site: Site) -> list[Mount]:
    """List all that is mounted into a role's containers, whoever asks for it."""
    found = list(role.mounts)
    if job.hadoop and job.hadoop.kind == "node":
        found.append(Mount(job.hadoop.location, job.hadoop.location))
    found += [Mount(path, path) for path in identity.node_files(job, site)]
    return found + (list(ACCOUNTS) if role.docker.accounts else [])


# --- what would be refused ------------------------------------------------------------------------------------------------


def check_role(job: Job, role: Role, site: Site) -> Iterator[Problem]:
    """Find what the site, YARN or container-executor would refuse of one role."""
    problem = image_problem(role.image)
    if problem:
        yield job.problem(f"roles.{role.name}.image", problem)
    elif site.trusted_registries is not None and not is_trusted(role.image, site.trusted_registries):
        listed = ", ".join(site.trusted_registries) or "none"
        message = f"{role.image!r} comes from no registry that this site trusts, and YARN would take its mounts away; trusted: {listed}"
        yield job.problem(f"roles.{role.name}.image", message)
    yield from _mount_syntax(job, role)
    yield from _mounts_allowed(job, role, site)
    yield from _options(job, role, site)
    if role.docker.entrypoint:
        yield from _entry_point(job, role)


def image_problem(image: str) -> str | None:
    """Say why YARN would not take an image's name, None where it does."""
    if IMAGE.fullmatch(image):
        return None
    _, at, digest = image.partition("@")
    if at and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        kind, _, digits = digest.partition(":")
        found = f"{len(digits)} characters" if re.fullmatch(r"[0-9a-f]*", digits) else "other characters"
        return f"the digest of {image!r} is none: sha256: and 64 of 0-9 and a-f make one, and here are {kind or 'nothing'}: and {found}"
    return f"{image!r} is no image name for YARN: [host[:port]/]lower-case/path[:tag]"


def is_trusted(image: str, registries: Sequence[str]) -> bool:
    """Say whether an image comes from one of docker.trusted.registries (container-executor: check_trusted_image)."""
    return any(image.startswith(f"{registry}/") or (registry == "library" and "/" not in image) for registry in registries)


def _mount_syntax(job: Job, role: Role) -> Iterator[Problem]:
    for index, mount in enumerate(role.mounts):
        for side in (mount.source, mount.target):
            # OCIContainerRuntime.USER_MOUNT_PATTERN: a comma or a colon in a path cannot be written.
            if re.search(r"[,:\0]", side):
                yield _mount_problem(job, role, index, f"{side!r} holds a comma or a colon, which YARN's mount list cannot carry")
        if not mount.target.startswith("/") or ".." in mount.target.split("/"):
            yield _mount_problem(job, role, index, f"{mount.target!r} is no absolute path in the container")
        if ".." in mount.source.split("/"):
            yield _mount_problem(job, role, index, f"{mount.source!r} goes up with '..'; write the path it means")


def _mounts_allowed(job: Job, role: Role, site: Site) -> Iterator[Problem]:
    """Compare with what container-executor allows: what may be written may be read, and what lies below may what is above."""
    for index, mount in enumerate(mounts(job, role, site)):
        lists = (site.ro_mounts, site.rw_mounts) if mount.read_only else (site.rw_mounts,)
        if any(allowed is None for allowed in lists):
            continue
        allowed = [entry for entries in lists for entry in entries or ()]
        if not any(_below(mount.source, entry) for entry in allowed):
            how = "read" if mount.read_only else "written to"
            message = f"this site does not let {mount.source!r} be mounted to be {how}; it lets {', '.join(allowed) or 'nothing'}"
            if index < len(role.mounts):
                yield _mount_problem(job, role, index, message)
            else:
                yield job.problem(_asked_by(job, mount, role), message)


def _below(path: str, directory: str) -> bool:
    whole, above = posixpath.normpath(path), posixpath.normpath(directory)
    return whole == above or whole.startswith(above.rstrip("/") + "/")


def _asked_by(job: Job, mount: Mount, role: Role) -> str:
    if mount in ACCOUNTS:
        return f"roles.{role.name}.docker.accounts"
    return "hadoop.conf" if job.hadoop and mount.source == job.hadoop.location else "kerberos"


def _options(job: Job, role: Role, site: Site) -> Iterator[Problem]:
    path, docker = f"roles.{role.name}.docker", role.docker
    if docker.publish and job.network in ("host", "none"):
        yield job.problem(f"{path}.publish", f"on network {job.network} no port can be published; on host they are the node's own already")
    fixed = [entry for entry in docker.publish if not entry.startswith(":")]
    apart = role.placement is not None and role.placement.spread is not None
    if fixed and role.instances > 1 and not apart:
        message = f"{fixed[0]!r} takes one port of a node, and two tasks may meet on one; write ':PORT', or placement: {{spread: node}}"
        yield job.problem(f"{path}.publish", message)
    targets = {posixpath.normpath(mount.target) for mount in role.mounts}
    for entry in docker.tmpfs:
        if posixpath.normpath(entry) in targets:
            yield job.problem(f"{path}.tmpfs", f"{entry!r} is the target of a mount, too; drop one")
    if docker.runtime and site.runtimes is not None and docker.runtime not in site.runtimes:
        listed = ", ".join(site.runtimes)
        yield job.problem(f"{path}.runtime", f"this site does not allow the runtime {docker.runtime!r}; it allows {listed}")


def _entry_point(job: Job, role: Role) -> Iterator[Problem]:
    path = f"roles.{role.name}"
    if job.bootstrap:
        yield job.problem(
            f"{path}.docker.entrypoint",
            "the image's own ENTRYPOINT leaves no room for the bootstrap; say bootstrap: false, and tf_config: literal or none",
        )
        return
    for argument in entrypoint.arguments(role.command):
        why = entrypoint.argument_problem(argument)
        if why:
            hint = "put the script into the image" if role.command.script else "put it into a file of the image"
            shown = argument if len(argument) <= 40 else argument[:39] + "…"
            yield job.problem(f"{path}.command", f"with docker.entrypoint {shown!r} does not arrive: it {why}; {hint}")
    for name, value in role.env.items():
        why = entrypoint.value_problem(value)
        if why:
            yield job.problem(f"{path}.env.{name}", f"with docker.entrypoint the value does not arrive: it {why}; put it into a file")


def _mount_problem(job: Job, role: Role, index: int, message: str) -> Problem:
    """Name a mount as the user wrote it: its number in the role's list, where the site's and the job's stand too, is another one."""
    merged = f"roles.{role.name}.mounts[{index}]"
    problem, place = job.problem(merged, message), job.places.get(merged)
    if place is None or not place.line:
        return problem
    shared = next((path for path, written in job.places.items() if written == place and path.startswith("mounts[")), None)
    return replace(problem, path=shared or f"roles.{role.name}.mounts")
