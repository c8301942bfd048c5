"""Options and results of the sandbox's operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from submit_tf_job.errors import SandboxError, UsageError

if TYPE_CHECKING:
    from submit_tf_job.sandbox.saved_state import SandboxState

Resolver = Literal["system", "direct", "none"]
ResolverChoice = Literal["auto", "system", "direct", "none"]

Mode = Literal["kerberos", "ha", "tls", "docker"]

# The values of `up --profile` beside `simple`, in the order in which a combination is written.
MODES: tuple[Mode, ...] = ("kerberos", "ha", "tls", "docker")

DOMAIN = "sandbox.test"
REALM = "SANDBOX.TEST"

# The user that containers of a sandbox with Docker run as; it exists on every machine.
RUN_AS = "nobody"

# A NodeManager is a JVM of 200 to 400 MB.
MAX_NODES = 8
# The NodeManager of each node; the first one has no number.
NODEMANAGERS = ("nodemanager", *(f"nodemanager{number}" for number in range(2, MAX_NODES + 1)))

# In the order in which they are shown, each with its mode (None: every sandbox has it); also the
# names that `logs` accepts.
ALL_DAEMONS: Mapping[str, Mode | None] = {
    "dockerd": "docker",
    "kdc": "kerberos",
    "zookeeper": None,
    "namenode": None,
    "datanode": None,
    "resourcemanager": None,
    "resourcemanager2": "ha",
    **dict.fromkeys(NODEMANAGERS),
    "registrydns": None,
}


def parse_modes(words: Iterable[str]) -> tuple[Mode, ...]:
    """Parse the value of `--profile`, such as `kerberos+ha` or `kerberos,ha`, each mode once and in
    canonical order.

    Raises:
        UsageError: A word is not a mode, or `simple` is combined with one.
    """
    asked = [part for word in words for part in re.split("[+,]", word)]
    unknown = [part for part in asked if part not in ("simple", *MODES)]
    if unknown:
        raise UsageError(
            f"--profile takes simple, {', '.join(MODES)}, or several of the latter as "
            f"kerberos+ha+tls, not {unknown[0]!r}"
        )
    if "simple" in asked and set(asked) != {"simple"}:
        raise UsageError("--profile simple means without the others; leave it out")
    return tuple(mode for mode in MODES if mode in asked)


@dataclass(frozen=True)
class SandboxDirs:
    """The directories of sandboxes.

    Attributes:
        state_dir: Holds one directory for each sandbox: configuration, data, logs.
        cache_dir: Holds the jars, shared by all sandboxes.
        config_dir: Directory of the settings; the profile goes to `profiles.d` in it.
    """

    state_dir: Path
    cache_dir: Path
    config_dir: Path


@dataclass(frozen=True)
class SandboxOptions:
    """The options of `up`; None means the existing sandbox's value, or else the default.

    Attributes:
        hadoop_version: Hadoop version, default `versions.DEFAULT_VERSION`.
        hadoop_home: An unpacked Hadoop whose jars are used instead of Maven's.
        container_path: Directories put first on the PATH of containers, such as the `bin` of a
            virtual environment with TensorFlow.
        resolver: How containers resolve names: `system` (root only), `direct`, or `auto`; `none`
            for a sandbox without Registry DNS.
        modes: Additions to a simple cluster: Kerberos, two ResourceManagers, TLS, Docker. Default
            none.
        gpus: With Docker: GPUs that the NodeManager offers and the machine need not have. Default
            none.
        container_executor: With Docker: Hadoop's own container-executor, instead of the sandbox's.
        mounts: With Docker: directories that jobs may mount, `/dir` to read or `/dir:rw`.
        default_timeouts: Keep Hadoop's default intervals and time-outs for jobs. Default no.
        nodes: NodeManagers, each with the GPUs above. Default 1.
    """

    hadoop_version: str | None = None
    hadoop_home: Path | None = None
    container_path: tuple[Path, ...] | None = None
    resolver: ResolverChoice | None = None
    modes: tuple[Mode, ...] | None = None
    gpus: int | None = None
    container_executor: Path | None = None
    mounts: tuple[str, ...] | None = None
    default_timeouts: bool | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class StartedSandbox:
    """The result of `up`.

    Attributes:
        sandbox: The running sandbox.
        started: Daemons that this `up` started; empty if all were healthy.
        seconds: Duration of this `up`.
    """

    sandbox: SandboxState
    started: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class DaemonStatus:
    """The status of one daemon.

    Attributes:
        name: One of `ALL_DAEMONS`.
        pid: Its process, None if it never started.
        alive: Whether the process exists and belongs to this sandbox.
        healthy: Whether its health check passes.
        reason: Why it is not healthy, or "".
        ports: Ports it listens on.
        log: Its log file.
    """

    name: str
    pid: int | None
    alive: bool
    healthy: bool
    reason: str
    ports: tuple[int, ...]
    log: Path


@dataclass(frozen=True)
class SandboxStatus:
    """The status of a sandbox: `down` (does not exist), `up` (all healthy) or `degraded`."""

    name: str
    state: Literal["down", "up", "degraded"]
    daemons: tuple[DaemonStatus, ...] = ()
    sandbox: SandboxState | None = None


def check_name(name: str) -> None:
    """Refuse a sandbox name that is not valid as a directory and as a profile name.

    Raises:
        SandboxError: The name is not valid.
    """
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", name):
        raise SandboxError(
            f"{name!r} is not a valid sandbox name",
            hint="use up to 32 lower-case letters, digits and hyphens",
        )


def profile_name(name: str) -> str:
    """Return the settings profile of a sandbox."""
    return "sandbox" if name == "default" else f"sandbox-{name}"
