"""Run the tasks of a local run in the way a NodeManager does, as processes, or as Docker containers
on a network of their own. Staged files and unpacked archives exist once and are read-only; each
task has its own directory, launch script and environment.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shlex
import signal
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from submit_tf_job import waiting
from submit_tf_job.container import contract
from submit_tf_job.errors import SubmitTFJobError, UsageError
from submit_tf_job.host.dockercli import Answer, Docker, refusal
from submit_tf_job.jobspec.job import Job
from submit_tf_job.plan import Site
from submit_tf_job.plan.delivery import Content
from submit_tf_job.storage.staging import stream
from submit_tf_job.yarn.records import Component, ConfigFile

LOG_FILES = ("stdout.txt", "stderr.txt")

# The variables of the caller that programs need here; the rest of a task's environment comes from
# the job spec, as on YARN.
_INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME"),
    # address and user of HDFS
    *("HADOOP_CONF_DIR", "HADOOP_USER_NAME", "HADOOP_TOKEN_FILE_LOCATION"),
    *("KRB5CCNAME", "KRB5_CONFIG"),
)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the caller's environment that a task inherits."""
    return {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith(("LC_", "CUDA_", "NVIDIA_"))
    }


class LocalCache:
    """The staged files of one run.

    Args:
        root: The directory for them; created if needed.
        contents: The contents of the files, by URI.
    """

    def __init__(self, root: Path, contents: Mapping[str, Content]) -> None:
        self._root, self._contents = root, contents

    def __contains__(self, uri: str) -> bool:
        return uri in self._contents

    def file(self, uri: str) -> Path:
        """Return the path of the file for a URI; the first call writes it.

        Raises:
            UsageError: A file of this host was removed or changed.
        """
        path = self._directory_of_uri(uri) / uri.rpartition("/")[2]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                out.writelines(stream(self._contents[uri]))
            path.chmod(0o500)  # FSDownload.changePermissions
        return path

    def tree(self, uri: str) -> Path:
        """Return the directory of the unpacked archive for a URI; the first call unpacks it.

        Raises:
            UsageError: The archive cannot be unpacked, or was removed or changed.
        """
        path = self._directory_of_uri(uri) / "unpacked"
        if not path.exists():
            archive = self.file(uri)
            try:
                if archive.name.endswith(".zip"):
                    with zipfile.ZipFile(archive) as packed:
                        packed.extractall(path)  # noqa: S202 - jobspec.file_contents has checked it
                else:
                    with tarfile.open(archive) as found:
                        found.extractall(path)  # noqa: S202 - jobspec.file_contents has checked it
            except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
                raise UsageError(
                    f"{archive.name} cannot be unpacked: {error}", hint="pack it anew"
                ) from None
        return path

    def _directory_of_uri(self, uri: str) -> Path:
        return self._root / hashlib.sha256(uri.encode()).hexdigest()[:16]


@dataclass
class LocalTask:
    """A task on this machine; each start is a new attempt, in a separate directory.

    Attributes:
        name: The task's name, such as `worker-0`.
        component: The task's component of the service.
        root: The parent of the task's directories.
        cache: The staged files.
        host: The task's host name.
        attempt: The number of the current attempt, from 0; -1 before the first start.
        process: The process of the current attempt; None before the first start.
    """

    name: str
    component: Component
    root: Path
    cache: LocalCache = field(repr=False)
    host: str = ""
    attempt: int = -1
    process: subprocess.Popen[bytes] | None = None

    @property
    def logs(self) -> Path:
        """Directory of the current attempt's logs."""
        return self.root / "logs" / f"{self.name}.{self.attempt}"

    @property
    def directory(self) -> Path:
        """Working directory of the current attempt."""
        return self.root / "work" / f"{self.name}.{self.attempt}"

    @property
    def env(self) -> Mapping[str, str]:
        """The variables of the component's configuration."""
        if self.component.configuration is None:
            return {}
        return self.component.configuration.env

    def start(self, container: str, environ: Mapping[str, str]) -> None:
        """Start the next attempt, in new directories; return without waiting for its end.

        Args:
            container: The attempt's container id.
            environ: The environment that the attempt inherits.

        Raises:
            UsageError: The task needs a file that is on the cluster; or a file of this host was
                removed or changed, or cannot be unpacked.
            SubmitTFJobError: Docker refuses to create the container.
        """
        self.attempt += 1
        self.directory.mkdir(parents=True)
        self.logs.mkdir(parents=True)
        if self.component.configuration:
            for file in self.component.configuration.files:
                self._deliver_file(file)
        script = self.directory / "launch_container.sh"
        script.write_text(self._launch_script(), encoding="utf-8")
        own = {
            "CONTAINER_ID": container,
            "LOG_DIRS": str(self.logs),
            "NM_HOST": "localhost",
            contract.ENV_HOSTNAME: self.host,
        }
        argv, env = self._command_and_environment(script, own, environ)
        with (
            (self.logs / LOG_FILES[0]).open("wb") as out,
            (self.logs / LOG_FILES[1]).open("wb") as err,
        ):
            # A separate session, so that Ctrl-C at the terminal does not signal the tasks; they are
            # ended in order afterwards.
            self.process = subprocess.Popen(
                argv,
                cwd=self.directory,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def _command_and_environment(
        self, script: Path, own: Mapping[str, str], environ: Mapping[str, str]
    ) -> tuple[list[str], Mapping[str, str]]:
        """Return the command and its environment: `own` are the variables that a NodeManager sets,
        `environ` are inherited variables.
        """
        return ["bash", str(script)], {**environ, **own}

    def _deliver_file(self, file: ConfigFile) -> None:
        """Write a TEMPLATE to conf/ (ProviderUtils); link STATIC and ARCHIVE in the working
        directory.

        Raises:
            UsageError: The file is on the cluster, and not among the staged files of this run.
        """
        if file.type == "TEMPLATE":
            target = self.directory / "conf" / file.dest_file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(str((file.properties or {})["content"]).encode())
        elif file.type in ("STATIC", "ARCHIVE") and str(file.src_file) in self.cache:
            find = {"STATIC": self.cache.file, "ARCHIVE": self.cache.tree}[file.type]
            (self.directory / file.dest_file).symlink_to(find(str(file.src_file)))
        else:
            raise UsageError(
                f"{file.src_file} lies on the cluster, and a local run has none",
                hint="leave it out with --set",
            )

    def _launch_script(self) -> str:
        """Return the launch script in the form that a NodeManager writes: exports in double quotes,
        then the command (ContainerLaunch).
        """
        lines = ["#!/bin/bash", "set -e"]
        for name, value in self.env.items():
            lines.append(f'export {name}="{self._with_tokens_replaced(value)}"')
        command = shlex.quote(self.component.launch_command or "true")
        return "\n".join([*lines, f"exec /bin/bash -c {command}", ""])

    def _with_tokens_replaced(self, value: str) -> str:
        """Return a text in which `${COMPONENT_INSTANCE_NAME}` and `${COMPONENT_ID}` are replaced,
        as the ApplicationMaster would do.
        """
        index = self.name.rpartition("-")[2]
        return value.replace("${COMPONENT_INSTANCE_NAME}", self.name).replace(
            "${COMPONENT_ID}", index
        )

    @property
    def start_error(self) -> SubmitTFJobError | None:
        """The error if a start failed after `start` had returned, else None."""
        return None

    @property
    def status(self) -> int | None:
        """Exit status of the current attempt, as YARN shows it (128 + N after signal N); None while
        the attempt runs, and before the first start.
        """
        if self.process is None:
            return None
        code = self.process.poll()
        if code is not None and code < 0:
            return 128 - code
        return code

    def terminate(self) -> None:
        """Send SIGTERM to all processes of the task."""
        if self.process is not None and self.process.poll() is None:
            self._send_signal(signal.SIGTERM)

    def end(self, deadline: float) -> None:
        """Wait until the task ends, at most until `deadline` (monotonic seconds); then kill what is
        left of its processes.
        """
        if self.process is None:
            return
        left_s = deadline - time.monotonic()
        for _ in waiting.LOCAL_PROCESS_HAS_ENDED.attempts(within_s=left_s):
            if self.process.poll() is not None:
                break
        self._kill_task()
        self.process.wait()

    def _kill_task(self) -> None:
        self._send_signal(signal.SIGKILL)

    def _send_signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


# --- as processes ---


class Processes:
    """Makes tasks that run as processes of this machine, without images."""

    network = "host"

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the site for which a job is planned."""
        return Site(
            user,
            # RFC 6761: names below it are this machine (`container.dns_client.look_up`)
            domain="localhost",
            # programs are given addresses, as no other program resolves these names
            dns_server="localhost",
            port_range=port_range,
            staging=staging,
            gpu_resource="",  # no GPU is looked for
        )

    def task(
        self, name: str, component: Component, root: Path, cache: LocalCache, host: str
    ) -> LocalTask:
        """Create a task without starting it."""
        return LocalTask(name, component, root, cache, host)


# --- as containers ---

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
    """Makes tasks that run as containers on a Docker network, which resolves the host names that
    Registry DNS would have. The network exists while the `with` block of this object runs; at its
    end all containers are removed, too.

    Args:
        docker: The engine.
        job: The job.
        domain: Domain of the host names; "" for `DOMAIN`.
        on_progress: Called with a line before each step that takes a long time.
    """

    docker: Docker
    job: Job
    domain: str = ""
    on_progress: Callable[[str], None] = lambda _line: None
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    _gpus: bool = False

    @property
    def network(self) -> str:
        """The name of the job's Docker network."""
        return f"submit_tf_job-{self.run_id}"

    def __enter__(self) -> Containers:
        """Pull missing images and create the network.

        Raises:
            UsageError: The Docker Engine is on another machine, or a role has no image.
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
        """Return the site for which a job is planned."""
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
    """A task that runs as a Docker container; each attempt is a new container."""

    containers: Containers = field(kw_only=True)
    gpus: bool = field(kw_only=True)

    @property
    def _container_owner(self) -> tuple[int, int]:
        """The user and group of the container: those of the caller, or `NOBODY` if the caller is
        root.
        """
        if os.geteuid() == 0:
            return NOBODY, NOBODY
        return os.geteuid(), os.getegid()

    @property
    def container(self) -> str:
        """Name of the current attempt's container."""
        return f"{self.containers.network}-{self.name}.{self.attempt}"

    def _command_and_environment(
        self,
        script: Path,
        own: Mapping[str, str],
        environ: Mapping[str, str],  # noqa: ARG002 - a container inherits nothing
    ) -> tuple[list[str], Mapping[str, str]]:
        """Create the container with the options of container-executor. Return the command that
        starts the container and attaches to it; the command has the container's output and exit
        status.
        """
        if os.geteuid() == 0:
            self._change_owner()
        env = {key: self._with_tokens_replaced(value) for key, value in self.env.items()}
        docker = self.containers.docker
        user, group = self._container_owner
        words = ["create", "--name", self.container, "--label", f"{LABEL}={self.containers.run_id}"]
        words += ["--user", f"{user}:{group}", "--network", self.containers.network]
        words += ["--network-alias", self.host, "--hostname", self.host]
        words += ["--volume", f"{self.root}:{self.root}", *_docker_options(env)]
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
        words += ["--workdir", str(self.directory), self._image_name, "bash", str(script)]
        answer = docker.call(*words)
        if answer.status:
            raise self._start_refused(answer)
        return docker.argv("start", "--attach", self.container), docker.variables

    @property
    def _image_name(self) -> str:
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
            os.chown(top, *self._container_owner)
            for entry in top.rglob("*"):
                os.chown(entry, *self._container_owner, follow_symlinks=False)

    @property
    def start_error(self) -> SubmitTFJobError | None:
        """The error if the container could not be started, else None."""
        if self.process is None or not self.process.poll():
            return None
        with (self.logs / LOG_FILES[1]).open(encoding="utf-8", errors="replace") as file:
            output = file.read(4096)
        if not output.startswith("Error response from daemon: ") or self._was_started():
            return None
        return self._start_refused(Answer(1, "", output.splitlines()[0]))

    def _was_started(self) -> bool:
        at = self.containers.docker.call(
            "inspect", "--format", "{{.State.StartedAt}}", self.container
        ).out
        return not at.startswith("0001-")  # Go's zero time

    def _start_refused(self, answer: Answer) -> SubmitTFJobError:
        error = refusal(answer, f"{self.name} could not be started from image {self._image_name}")
        error.hint = f"`submit_tf_job image check {self._image_name}` shows what the image lacks"
        return error

    def terminate(self) -> None:
        """Send SIGTERM to process 1, as YARN does."""
        if self.process is not None and self.process.poll() is None:
            self.containers.docker.call("kill", "--signal", "TERM", self.container)

    def _kill_task(self) -> None:
        """Kill the container if it still runs; `Containers` removes all containers at the end."""
        if self.process is not None and self.process.poll() is None:
            self.containers.docker.call("kill", self.container)


def _docker_options(env: Mapping[str, str]) -> Iterable[str]:
    """Return the options that container-executor derives from YARN's runtime variables."""
    options = {"MOUNTS": "--volume", "TMPFS_MOUNTS": "--tmpfs", "PORTS_MAPPING": "--publish"}
    for variable, option in options.items():
        for item in filter(None, env.get(f"{_RUNTIME}DOCKER_{variable}", "").split(",")):
            yield from (option, item.removeprefix(":"))
    if runtime := env.get(f"{_RUNTIME}DOCKER_RUNTIME"):
        yield from ("--runtime", runtime)
