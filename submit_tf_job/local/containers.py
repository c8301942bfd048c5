"""Tasks as containers of this machine's Docker, as a NodeManager with the Docker runtime would start them, on a network of their own."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from submit_tf_job.dockercli import Answer, Docker, refusal
from submit_tf_job.errors import SubmitTFJobError, UsageError
from submit_tf_job.job import Job
from submit_tf_job.local.shelf import Shelf
from submit_tf_job.local.task import LOG_FILES, Task
from submit_tf_job.plan import Site
from submit_tf_job.yarn.records import Component

__all__ = ["Containers", "arguments_received"]

# Where the settings do not know the cluster's; not `localhost`, which programs take for this machine whatever DNS says.
DOMAIN = "cluster.test"
LABEL = "submit_tf_job.local"
NOBODY = 65534  # whom YARN takes on a cluster without Kerberos (nonsecure-mode.limit-users), and what root's containers run as here
_RUNTIME = "YARN_CONTAINER_RUNTIME_"
# As Java reads it: its `.` takes no line break of Unicode, its \S knows the blanks of ASCII alone.
_ARGUMENT = re.compile(r'([^"]\S*|"[^\n\r\x85\u2028\u2029]+?")\s*', re.ASCII)


def arguments_received(command: str) -> list[str]:
    """Return what an ENTRYPOINT gets of a launch command: ProviderUtils.replaceSpacesWithDelimiter, then container-executor's commas."""
    if " " in command:
        parts = (found[1] for found in _ARGUMENT.finditer(command))
        command = ",".join(re.sub(r'^"|"$', "", part) if part[0] == part[-1] == '"' else part for part in parts)
    return [word for word in command.split(",") if word]


@dataclass
class Containers:
    """Where the tasks of one run live: a network whose names are those of Registry DNS, and the containers on it.

    Args:
        docker: The engine.
        job: The job.
        domain: Domain of the names, "" for one of our own.
        on_say: Told what takes its time.
    """

    docker: Docker
    job: Job
    domain: str = ""
    on_say: Callable[[str], None] = lambda _line: None
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    _gpus: bool = False

    @property
    def network(self) -> str:
        """The network's name."""
        return f"submit_tf_job-{self.run_id}"

    def __enter__(self) -> Containers:
        """Have every image here, and a network.

        Raises:
            SubmitTFJobError: Docker does not answer, or an image is not to be had.
        """
        address = self.docker.host or self.docker.variables.get("DOCKER_HOST", "")
        if address.startswith(("tcp:", "ssh:", "http")):
            raise UsageError(
                f"{address} is another machine's Docker, and containers mount the job's files from this one",
                hint="leave DOCKER_HOST out, or use a unix:// address",
            )
        for image in dict.fromkeys(role.image for role in self.job.roles.values()):
            if self.docker.image(image) is None:
                self.on_say(f"pulling image {image}")
                self.docker.pull(image)
        self._gpus = self._has_gpus()
        self.docker.ask("network", "create", "--label", f"{LABEL}={self.run_id}", self.network)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        found = self.docker.call("ps", "--all", "--quiet", "--filter", f"label={LABEL}={self.run_id}").out.split()
        if found:
            self.docker.call("rm", "--force", "--volumes", *found)
        self.docker.call("network", "rm", self.network)

    def _has_gpus(self) -> bool:
        if not any(role.gpus for role in self.job.roles.values()):
            return False
        if "nvidia" in self.docker.ask("info", "--format", "{{json .Runtimes}}"):
            return True
        self.on_say("this Docker has no runtime `nvidia`: roles with gpus see none")
        return False

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the facts of this cluster of one machine."""
        return Site(user, domain=self.domain or DOMAIN, port_range=port_range, staging=staging)

    def task(self, name: str, component: Component, root: Path, shelf: Shelf, host: str) -> Task:
        """Make one task."""
        gpus = self._gpus and self.job.roles[component.name].gpus > 0
        made = _ContainerTask(name, component, root, shelf, host)
        made.containers, made.gpus = self, gpus
        return made


@dataclass
class _ContainerTask(Task):
    """A task of a job that runs in a container."""

    containers: Containers | None = None
    gpus: bool = False

    @property
    def _owner(self) -> tuple[int, int]:
        """Who it runs as: the caller; for root nobody, as YARN starts nothing as root."""
        return (NOBODY, NOBODY) if os.geteuid() == 0 else (os.geteuid(), os.getegid())

    @property
    def _home(self) -> Containers:
        assert self.containers is not None
        return self.containers

    @property
    def container(self) -> str:
        """Name of the present attempt's container."""
        return f"{self._home.network}-{self.name}.{self.attempt}"

    def _command(
        self,
        script: Path,
        own: Mapping[str, str],
        environ: Mapping[str, str],  # noqa: ARG002 - a container inherits nothing
    ) -> tuple[list[str], Mapping[str, str]]:
        """Say what container-executor would say to Docker, but attached: status and output are the container's."""
        if os.geteuid() == 0:
            self._give_away()
        env = self._tokens_replaced()
        image = str(self.component.artifact.id if self.component.artifact else "")
        name, (user, group) = self.container, self._owner
        words = ["create", "--name", name, "--label", f"{LABEL}={self._home.run_id}", "--user", f"{user}:{group}"]
        words += ["--network", self._home.network, "--network-alias", self.host, "--hostname", self.host]
        words += ["--volume", f"{self.root}:{self.root}", *_options(env), *(("--gpus", "all") if self.gpus else ())]
        if env.get(f"{_RUNTIME}DOCKER_RUN_OVERRIDE_DISABLE") == "true":
            file = self.directory / "environment"
            file.write_text("".join(f"{key}={value}\n" for key, value in env.items()), encoding="utf-8")
            command = arguments_received(self.component.launch_command or "")
            return self._created(*words, "--env-file", str(file), image, *command)
        yarns = {"HOME": "/tmp", "USER": "nobody", "LOGNAME": "nobody", "LANG": "en_US.UTF-8", "LC_ALL": "en_US.UTF-8"}  # noqa: S108
        words += [word for key, value in {**yarns, **own}.items() for word in ("--env", f"{key}={value}")]
        return self._created(*words, "--workdir", str(self.directory), image, "bash", str(script))

    def _created(self, *words: str) -> tuple[list[str], Mapping[str, str]]:
        """Create the container; return what starts it, and has its output and its exit status."""
        answer = self._home.docker.call(*words)
        if answer.status:
            raise self._refused(answer)
        return self._home.docker.argv("start", "--attach", self.container), self._home.docker.variables

    def _tokens_replaced(self) -> dict[str, str]:
        configuration = self.component.configuration
        return {key: self._replaced(value) for key, value in (configuration.env if configuration else {}).items()}

    def _give_away(self) -> None:
        """Let the container's user have its directories, which root has made."""
        for directory in (self.root, self.directory.parent, self.logs.parent):
            directory.chmod(0o755)
        for top in (self.directory, self.logs, self.root / "staged"):
            if not top.exists():
                continue
            os.chown(top, *self._owner)
            for entry in top.rglob("*"):
                os.chown(entry, *self._owner, follow_symlinks=False)

    @property
    def trouble(self) -> SubmitTFJobError | None:
        """Why its container could not be started."""
        if self.process is None or not self.process.poll():
            return None
        with (self.logs / LOG_FILES[1]).open(encoding="utf-8", errors="replace") as file:
            said = file.read(4096)
        if not said.startswith("Error response from daemon: ") or self._was_started():
            return None
        return self._refused(Answer(1, "", said.splitlines()[0]))

    def _was_started(self) -> bool:
        at = self._home.docker.call("inspect", "--format", "{{.State.StartedAt}}", self.container).out
        return not at.startswith("0001-")  # Go's zero

    def _refused(self, answer: Answer) -> SubmitTFJobError:
        image = self.component.artifact.id if self.component.artifact else ""
        error = refusal(answer, f"{self.name} could not be started from image {image}")
        error.hint = f"`submit_tf_job image check {image}` tells what the image lacks"
        return error

    def tell_to_end(self) -> None:
        """Tell it to end, as YARN does: SIGTERM to process 1."""
        if self.process is not None and self.process.poll() is None:
            self._home.docker.call("kill", "--signal", "TERM", self.container)

    def _kill(self) -> None:
        """Kill it, if it still runs; all containers are removed at once, at the end."""
        if self.process is not None and self.process.poll() is None:
            self._home.docker.call("kill", self.container)


def _options(env: Mapping[str, str]) -> Iterable[str]:
    """Turn YARN's runtime variables into what container-executor makes of them."""
    asked = {"MOUNTS": "--volume", "TMPFS_MOUNTS": "--tmpfs", "PORTS_MAPPING": "--publish"}
    for variable, option in asked.items():
        for item in filter(None, env.get(f"{_RUNTIME}DOCKER_{variable}", "").split(",")):
            yield from (option, item.removeprefix(":"))
    if runtime := env.get(f"{_RUNTIME}DOCKER_RUNTIME"):
        yield from ("--runtime", runtime)
