"""The facts of one cluster that a plan depends on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from submit_tf_job.yarn.run_names import registry_user

# The default of dfs.namenode.delegation.token.max-lifetime.
TOKEN_LIFE_S = 7 * 24 * 3600


class Names(Enum):
    """How tasks find the deciding task: by Registry DNS, by HDFS, or by whichever of the two
    answers.
    """

    DNS = "dns"
    RENDEZVOUS = "rendezvous"
    AUTO = "auto"


class WebStaging(NamedTuple):
    """The staging directory as it is reached over HTTP.

    Attributes:
        protocol: `http` or `https`.
        addresses: `host:port` of each NameNode.
        path: The path of the staging directory.
    """

    protocol: str
    addresses: tuple[str, ...]
    path: str

    def below(self, path: str, user: str) -> dict[str, object]:
        """Return the fields of the task description that a task needs in order to write to a path
        below the staging directory, as a user.
        """
        return {
            "protocol": self.protocol,
            "addresses": list(self.addresses),
            "path": self.path + path,
            "user": user,
        }


class Cap(NamedTuple):
    """The largest amount of one thing that a job may ask for.

    Attributes:
        name: `tasks`, `gpus`, `memory` or `lifetime`.
        most: The number of tasks or GPUs, MiB, seconds.
        origin: The place in the settings that states the cap.
    """

    name: str
    most: int
    origin: str


@dataclass(frozen=True)
class Site:
    """The facts of one cluster, for one user.

    Attributes:
        user: The user as whom the job runs, in the form that YARN's clients write.
        domain: Domain of Registry DNS; None if unknown.
        dns_server: Registry DNS as host:port, if the containers' resolver does not forward to it.
        gpu_resource: YARN's name for a GPU, if a role states no other name.
        port_range: First and last port for tasks on the host network.
        staging: URI of the directory for files that do not fit into the service; None if no file
            system for them is known.
        secure: Whether the cluster authenticates users, so that containers get delegation tokens.
        trusted_registries: Registries whose images get mounts. This attribute and the next four are
            None if the settings state no restriction.
        networks: Allowed Docker networks.
        ro_mounts: Paths of the nodes that may be mounted read-only, with all paths below them.
        rw_mounts: Paths of the nodes that may be mounted writable, with all paths below them.
        runtimes: Allowed OCI runtimes.
        caps: The limits of one job.
        token_life_s: Seconds after which HDFS refuses a delegation token although it was renewed.
        names: How tasks find the deciding task.
        web_hdfs: The staging directory as it is reached over HTTP: there tasks find one another
            without Registry DNS, and the run's record is there. None if it is not on HDFS.
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
    caps: tuple[Cap, ...] = ()
    names: Names = Names.DNS
    web_hdfs: WebStaging | None = None

    @cached_property
    def registry_user(self) -> str:
        """The user's name as it is written in host names (`run_names.registry_user`)."""
        return registry_user(self.user)
