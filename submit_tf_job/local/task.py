"""One task as a process: its directory, its launch script, its environment, its end; as a NodeManager would have it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from submit_tf_job import contract
from submit_tf_job.errors import SubmitTFJobError, UsageError
from submit_tf_job.local.shelf import Shelf
from submit_tf_job.yarn.records import Component, ConfigFile

__all__ = ["LOG_FILES", "Task", "inherited"]

LOG_FILES = ("stdout.txt", "stderr.txt")

# Of the caller's environment, what makes programs run here; the rest of a task's environment is the job spec's, as on YARN.
_INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME"),
    *(
        "HADOOP_CONF_DIR",
        "HADOOP_USER_NAME",
        "HADOOP_TOKEN_FILE_LOCATION",
        "KRB5CCNAME",
        "KRB5_CONFIG",
    ),  # who one is to HDFS, and where that is
)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a task gets of the caller's environment."""
    return {name: value for name, value in environ.items() if name in _INHERITED or name.startswith(("LC_", "CUDA_", "NVIDIA_"))}


@dataclass
class Task:
    """A task of a job that runs here; started again it is another attempt, in a directory of its own.

    Attributes:
        name: `worker-0`.
        component: What the service says of it.
        root: Where its directories are made.
        shelf: What the service has staged.
        host: Its host name.
    """

    name: str
    component: Component
    root: Path
    shelf: Shelf = field(repr=False)
    host: str = ""
    attempt: int = -1
    process: subprocess.Popen[bytes] | None = None

    @property
    def logs(self) -> Path:
        """Directory of the present attempt's logs."""
        return self.root / "logs" / f"{self.name}.{self.attempt}"

    @property
    def directory(self) -> Path:
        """Working directory of the present attempt."""
        return self.root / "work" / f"{self.name}.{self.attempt}"

    def start(self, container: str, environ: Mapping[str, str]) -> None:
        """Start its next attempt.

        Args:
            container: An id of its own for this attempt.
            environ: What it inherits.
        """
        self.attempt += 1
        self.directory.mkdir(parents=True)
        self.logs.mkdir(parents=True)
        configuration = self.component.configuration
        for file in configuration.files if configuration else ():
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
        with (self.logs / LOG_FILES[0]).open("wb") as out, (self.logs / LOG_FILES[1]).open("wb") as err:
            # A session of its own: Ctrl-C at the terminal is for us, who then end the tasks in order.
            self.process = subprocess.Popen(
                argv, cwd=self.directory, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )

    def _command(self, script: Path, own: Mapping[str, str], environ: Mapping[str, str]) -> tuple[list[str], Mapping[str, str]]:
        """Say what to start, and in which environment: `own` is what a NodeManager tells a container, `environ` is inherited."""
        return ["bash", str(script)], {**environ, **own}

    def _deliver(self, file: ConfigFile) -> None:
        """Put a file where YARN would: TEMPLATE below conf/ (ProviderUtils), a link to STATIC and ARCHIVE in the working directory."""
        if file.type == "TEMPLATE":
            target = self.directory / "conf" / file.dest_file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(str((file.properties or {})["content"]).encode())
        elif file.type in ("STATIC", "ARCHIVE") and str(file.src_file) in self.shelf:
            found = self.shelf.tree(str(file.src_file)) if file.type == "ARCHIVE" else self.shelf.file(str(file.src_file))
            (self.directory / file.dest_file).symlink_to(found)
        else:
            raise UsageError(f"{file.src_file} lies on the cluster, and a local run has none", hint="leave it out with --set")

    def _script(self) -> str:
        """Write the launch script as a NodeManager does: exports in double quotes, then the command (ContainerLaunch)."""
        configuration = self.component.configuration
        lines = ["#!/bin/bash", "set -e"]
        for name, value in (configuration.env if configuration else {}).items():
            lines.append(f'export {name}="{self._replaced(value)}"')
        return "\n".join([*lines, f"exec /bin/bash -c {_quoted(self.component.launch_command or 'true')}"]) + "\n"

    def _replaced(self, value: str) -> str:
        """Replace the tokens that the ApplicationMaster replaces."""
        index = self.name.rpartition("-")[2]
        return value.replace("${COMPONENT_INSTANCE_NAME}", self.name).replace("${COMPONENT_ID}", index)

    @property
    def trouble(self) -> SubmitTFJobError | None:
        """Why it could not be started at all, where that shows only later."""
        return None

    @property
    def status(self) -> int | None:
        """Exit status of the present attempt as YARN would show it, None while it runs."""
        code = self.process.poll() if self.process else None
        return code if code is None or code >= 0 else 128 - code

    def tell_to_end(self) -> None:
        """Tell it to end, with all its processes."""
        if self.process is not None and self.process.poll() is None:
            self._signal(signal.SIGTERM)

    def end(self, deadline: float) -> None:
        """Wait until it has ended, and kill what is left of its processes at `deadline` (monotonic seconds)."""
        if self.process is None:
            return
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        self._kill()
        self.process.wait()

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def _quoted(command: str) -> str:
    import shlex

    return shlex.quote(command)
