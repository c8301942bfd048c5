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
        )
