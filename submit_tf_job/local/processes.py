"""Run tasks as processes, as a NodeManager does: staged files and unpacked archives, each once and
read-only; a task with its directory, launch script and environment.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import signal
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from submit_tf_job import waiting
from submit_tf_job.container import contract
from submit_tf_job.errors import SubmitTFJobError, UsageError
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
        contents: Contents by URI.
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
        path = self._directory(uri) / uri.rpartition("/")[2]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                out.writelines(stream(self._contents[uri]))
            path.chmod(0o500)  # FSDownload.changePermissions
        return path

    def tree(self, uri: str) -> Path:
        """Return the directory of an unpacked archive; the first call unpacks it."""
        path = self._directory(uri) / "unpacked"
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

    def _directory(self, uri: str) -> Path:
        return self._root / hashlib.sha256(uri.encode()).hexdigest()[:16]


@dataclass
class LocalTask:
    """A task on this machine; each start is a new attempt, in a separate directory.

    Attributes:
        name: Its name, such as `worker-0`.
        component: Its component of the service.
        root: Parent of its directories.
        cache: The staged files.
        host: Its host name.
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
        """Start the next attempt.

        Args:
            container: The attempt's container id.
            environ: The environment that it inherits.
        """
        self.attempt += 1
        self.directory.mkdir(parents=True)
        self.logs.mkdir(parents=True)
        if self.component.configuration:
            for file in self.component.configuration.files:
                self._deliver(file)
        script = self.directory / "launch_container.sh"
        script.write_text(self._script(), encoding="utf-8")
        own = {
            "CONTAINER_ID": container,
            "LOG_DIRS": str(self.logs),
            "NM_HOST": "localhost",
            contract.ENV_HOSTNAME: self.host,
        }
        argv, env = self._command(script, own, environ)
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

    def _command(
        self, script: Path, own: Mapping[str, str], environ: Mapping[str, str]
    ) -> tuple[list[str], Mapping[str, str]]:
        """Return the command and its environment: `own` are the variables that a NodeManager sets,
        `environ` the inherited ones.
        """
        return ["bash", str(script)], {**environ, **own}

    def _deliver(self, file: ConfigFile) -> None:
        """Write a TEMPLATE to conf/ (ProviderUtils); link STATIC and ARCHIVE in the working
        directory.
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

    def _script(self) -> str:
        """Return the launch script as a NodeManager writes it: exports in double quotes, then the
        command (ContainerLaunch).
        """
        lines = ["#!/bin/bash", "set -e"]
        for name, value in self.env.items():
            lines.append(f'export {name}="{self._replaced(value)}"')
        command = shlex.quote(self.component.launch_command or "true")
        return "\n".join([*lines, f"exec /bin/bash -c {command}", ""])

    def _replaced(self, value: str) -> str:
        """Replace the tokens that the ApplicationMaster replaces."""
        index = self.name.rpartition("-")[2]
        return value.replace("${COMPONENT_INSTANCE_NAME}", self.name).replace(
            "${COMPONENT_ID}", index
        )

    @property
    def start_error(self) -> SubmitTFJobError | None:
        """The error of a start that failed after `start` returned, else None."""
        return None

    @property
    def status(self) -> int | None:
        """Exit status of the current attempt as YARN shows it; None while it runs."""
        if self.process is None:
            return None
        code = self.process.poll()
        if code is not None and code < 0:
            return 128 - code
        return code

    def terminate(self) -> None:
        """Send SIGTERM to all processes of the task."""
        if self.process is not None and self.process.poll() is None:
            self._signal(signal.SIGTERM)

    def end(self, deadline: float) -> None:
        """Wait until the task ends; kill its processes at `deadline` (monotonic seconds)."""
        if self.process is None:
            return
        left_s = deadline - time.monotonic()
        for _ in waiting.LOCAL_PROCESS_HAS_ENDED.attempts(within_s=left_s):
            if self.process.poll() is not None:
                break
        self._kill()
        self.process.wait()

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


# --- all tasks of a run ---------------------------------------------------------------------------

DOMAIN = "localhost"  # RFC 6761: names below it are this machine (`container.names.look_up`)


class Processes:
    """Runs tasks as processes."""

    network = "host"

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the site that a job is planned for."""
        return Site(
            user,
            domain=DOMAIN,
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
