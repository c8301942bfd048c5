"""Run the tasks of a local run as Docker containers, as a NodeManager with the Docker runtime
starts them, on a separate network.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from submit_tf_job.errors import SubmitTFJobError, UsageError
from submit_tf_job.host.dockercli import Answer, Docker, refusal
from submit_tf_job.jobspec.job import Job
from submit_tf_job.local.processes import LOG_FILES, LocalCache, LocalTask
from submit_tf_job.plan import Site
from submit_tf_job.yarn.records import Component

# Used where the settings have no domain. Not `localhost`: programs resolve names below it to their
# own host, without DNS.
DOMAIN = "cluster.test"
LABEL = "submit_tf_job.local"
# Root's containers run as this user, as on a cluster without Kerberos
# (yarn.nodemanager.linux-container-executor.nonsecure-mode.local-user).
NOBODY = 65534
_RUNTIME = "YARN_CONTAINER_RUNTIME_"


@dataclass
class Containers:
    """Runs tasks as containers on a Docker network that resolves the names of Registry DNS.

    Args:
        docker: The engine.
        job: The job.
        domain: Domain of the names; "" for `DOMAIN`.
        on_progress: Called with a line before each step that takes long.
    """

    docker: Docker
    job: Job
    domain: str = ""
    on_progress: Callable[[str], None] = lambda _line: None
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    _gpus: bool = False

    @property
    def network(self) -> str:
        """The network's name."""
        return f"submit_tf_job-{self.run_id}"

    def __enter__(self) -> Containers:
        """Pull missing images and create the network.

        Raises:
            SubmitTFJobError: Docker does not respond, or an image is not available.
        """
        address = self.docker.host or self.docker.variables.get("DOCKER_HOST", "")
        if address.startswith(("tcp:", "ssh:", "http")):
            raise UsageError(
                f"{address} is another machine's Docker, and containers mount the job's "
                f"files from this one",
                hint="leave DOCKER_HOST out, or use a unix:// address",
            )
        plain = [role.name for role in self.job.roles.values() if not role.in_container]
        if plain:
            raise UsageError(
                f"--docker runs every task in its image, and {', '.join(plain)} says image: none",
                hint="leave --docker out: all tasks are then processes of this machine",
            )
        for image in dict.fromkeys(role.image for role in self.job.roles.values()):
            if self.docker.image(image) is None:
                self.on_progress(f"pulling image {image}")
                self.docker.pull(image)
        self._gpus = self._has_gpus()
        self.docker.ask("network", "create", "--label", f"{LABEL}={self.run_id}", self.network)
        return self

    def __exit__(self, *failure: object) -> None:
        label = f"label={LABEL}={self.run_id}"
        found = self.docker.call("ps", "--all", "--quiet", "--filter", label).out.split()
        if found:
            self.docker.call("rm", "--force", "--volumes", *found)
        self.docker.call("network", "rm", self.network)

    def _has_gpus(self) -> bool:
        if not any(role.gpus for role in self.job.roles.values()):
            return False
        if "nvidia" in self.docker.ask("info", "--format", "{{json .Runtimes}}"):
            return True
        self.on_progress("this Docker has no runtime `nvidia`: roles with gpus see none")
        return False

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the site that a job is planned for."""
        # without a resource of GPUs, which tasks then do not look for
        return Site(
            user,
            domain=self.domain or DOMAIN,
            port_range=port_range,
            staging=staging,
            gpu_resource="",
        )

    def task(
        self, name: str, component: Component, root: Path, cache: LocalCache, host: str
    ) -> LocalTask:
        """Create a task without starting it."""
        gpus = self._gpus and self.job.roles[component.name].gpus > 0
        return _ContainerTask(name, component, root, cache, host, containers=self, gpus=gpus)


@dataclass
class _ContainerTask(LocalTask):
    """A task of a job that runs in a container."""

    containers: Containers = field(kw_only=True)
    gpus: bool = field(kw_only=True)

    @property
    def _owner(self) -> tuple[int, int]:
        """The user and group of the container: the caller's, for root `NOBODY`."""
        if os.geteuid() == 0:
            return NOBODY, NOBODY
        return os.geteuid(), os.getegid()

    @property
    def container(self) -> str:
        """Name of the current attempt's container."""
        return f"{self.containers.network}-{self.name}.{self.attempt}"

    def _command(
        self,
        script: Path,
        own: Mapping[str, str],
        environ: Mapping[str, str],  # noqa: ARG002 - a container inherits nothing
    ) -> tuple[list[str], Mapping[str, str]]:
        """Create the container with the options of container-executor; return the command that
        starts and attaches it, which has the container's output and status.
        """
        if os.geteuid() == 0:
            self._change_owner()
        env = {key: self._replaced(value) for key, value in self.env.items()}
        docker = self.containers.docker
        user, group = self._owner
        words = ["create", "--name", self.container, "--label", f"{LABEL}={self.containers.run_id}"]
        words += ["--user", f"{user}:{group}", "--network", self.containers.network]
        words += ["--network-alias", self.host, "--hostname", self.host]
        words += ["--volume", f"{self.root}:{self.root}", *_options(env)]
        if self.gpus:
            words += ["--gpus", "all"]
        yarn_env = {
            "HOME": "/tmp",  # noqa: S108
            "USER": "nobody",
            "LOGNAME": "nobody",
            "LANG": "en_US.UTF-8",
            "LC_ALL": "en_US.UTF-8",
        }
        for key, value in {**yarn_env, **own}.items():
            words += ["--env", f"{key}={value}"]
        words += ["--workdir", str(self.directory), self._image, "bash", str(script)]
        answer = docker.call(*words)
        if answer.status:
            raise self._refused(answer)
        return docker.argv("start", "--attach", self.container), docker.variables

    @property
    def _image(self) -> str:
        if self.component.artifact is None:
            return ""
        return str(self.component.artifact.id)

    def _change_owner(self) -> None:
        """Change the owner of the directories, which root created, to the container's user."""
        for directory in (self.root, self.directory.parent, self.logs.parent):
            directory.chmod(0o755)
        for top in (self.directory, self.logs, self.root / "staged"):
            if not top.exists():
                continue
            os.chown(top, *self._owner)
            for entry in top.rglob("*"):
                os.chown(entry, *self._owner, follow_symlinks=False)

    @property
    def start_error(self) -> SubmitTFJobError | None:
        """The error if the container could not be started, else None."""
        if self.process is None or not self.process.poll():
            return None
        with (self.logs / LOG_FILES[1]).open(encoding="utf-8", errors="replace") as file:
            output = file.read(4096)
        if not output.startswith("Error response from daemon: ") or self._was_started():
            return None
        return self._refused(Answer(1, "", output.splitlines()[0]))

    def _was_started(self) -> bool:
        at = self.containers.docker.call(
            "inspect", "--format", "{{.State.StartedAt}}", self.container
        ).out
        return not at.startswith("0001-")  # Go's zero time

    def _refused(self, answer: Answer) -> SubmitTFJobError:
        error = refusal(answer, f"{self.name} could not be started from image {self._image}")
        error.hint = f"`submit_tf_job image check {self._image}` shows what the image lacks"
        return error

    def terminate(self) -> None:
        """Send SIGTERM to process 1, as YARN does."""
        if self.process is not None and self.process.poll() is None:
            self.containers.docker.call("kill", "--signal", "TERM", self.container)

    def _kill(self) -> None:
        """Kill the container if it still runs; `Containers` removes all at the end."""
        if self.process is not None and self.process.poll() is None:
            self.containers.docker.call("kill", self.container)


def _options(env: Mapping[str, str]) -> Iterable[str]:
    """Return the options that container-executor derives from YARN's runtime variables."""
    options = {"MOUNTS": "--volume", "TMPFS_MOUNTS": "--tmpfs", "PORTS_MAPPING": "--publish"}
    for variable, option in options.items():
        for item in filter(None, env.get(f"{_RUNTIME}DOCKER_{variable}", "").split(",")):
            yield from (option, item.removeprefix(":"))
    if runtime := env.get(f"{_RUNTIME}DOCKER_RUNTIME"):
        yield from ("--runtime", runtime)
