"""The facts of one cluster that a plan depends on."""

from __future__ import annotations

from dataclasses import dataclass

from submit_tf_job.settings import Settings
from submit_tf_job.tfconfig import registry_user

__all__ = ["TOKEN_LIFE_S", "Site"]

TOKEN_LIFE_S = 7 * 24 * 3600  # dfs.namenode.delegation.token.max-lifetime where nobody says otherwise


@dataclass(frozen=True)
class Site:
    """The facts of one cluster, for one user.

    Attributes:
        user: User the job runs as, as YARN's clients write it.
        domain: Domain of Registry DNS, or None where it is not known.
        dns_server: Registry DNS as host:port, where the containers' own resolver does not know it.
        gpu_resource: YARN's name for a GPU.
        port_range: First and last port for tasks on the host network.
        staging: URI of the directory for files that do not fit into the service, or None where there is no file system to put them.
        secure: Whether the cluster makes users prove who they are, so that its containers get delegation tokens.
        trusted_registries: Registries whose images get mounts; this and the next four are None where the site is not known to care.
        networks: Docker networks that may be asked for.
        ro_mounts: Paths of the nodes that may be mounted to be read, with all below them.
        rw_mounts: … to be written to.
        runtimes: OCI runtimes that may be asked for.
        token_life_s: Seconds after which HDFS takes a delegation token no more, however often it was renewed.
    """

    user: str
    domain: str | None = None
    dns_server: str | None = None
    gpu_resource: str = "yarn.io/gpu"
    port_range: tuple[int, int] = (20000, 32767)
    staging: str | None = None
    secure: bool = False
    token_life_s: int = TOKEN_LIFE_S
    trusted_registries: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    ro_mounts: tuple[str, ...] | None = None
    rw_mounts: tuple[str, ...] | None = None
    runtimes: tuple[str, ...] | None = None

    @property
    def registry_user(self) -> str:
        """The user as it stands in host names."""
        return registry_user(self.user)

    @classmethod
    def from_settings(cls, settings: Settings, *, staging: str | None = None, token_life_s: int = TOKEN_LIFE_S) -> Site:
        """Take the facts from the settings."""
        return cls(
            user=settings.user,
            domain=settings["dns.domain"],
            dns_server=settings["dns.server"],
            gpu_resource=settings["gpu_resource"],
            port_range=settings["ports.range"],
            staging=staging,
            secure=settings.secure,
            token_life_s=token_life_s,
            trusted_registries=settings["docker.registries"],
            networks=settings["docker.networks"],
            ro_mounts=settings["docker.ro_mounts"],
            rw_mounts=settings["docker.rw_mounts"],
            runtimes=settings["docker.runtimes"],
        )
