"""One real cluster for the whole test session, beside any that already runs, and the tool as its
users call it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from submit_tf_job.sandbox import DEFAULT_VERSION, Mode, Sandbox, SandboxInfo, SandboxOptions
from submit_tf_job.sandbox.engine import Engine
from submit_tf_job.sandbox.saved_state import Layout, load_state
from submit_tf_job.settings import Settings, load_settings
from tests.fakes.sandbox import sandbox_dirs

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
NO_SUCH_JOB = 5
# the versions of Hadoop on which the tests of versions run: `make matrix` names all
HADOOP_VERSIONS = [
    version
    for version in os.environ.get("SUBMIT_TF_JOB_TEST_HADOOP", DEFAULT_VERSION).split(",")
    if version
]
SUBMIT_S = 240  # no test job takes longer, on two busy cores


@pytest.fixture(scope="session")
def tensorflow() -> Path:
    """Virtual environment with TensorFlow for the containers."""
    found = os.environ.get("SUBMIT_TF_JOB_TEST_TENSORFLOW")
    if not found:
        pytest.fail(
            "SUBMIT_TF_JOB_TEST_TENSORFLOW names no virtual environment with TensorFlow; "
            "run `make test`"
        )
    return Path(found)


@pytest.fixture(scope="session")
def session_environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which nothing of the user's settings is seen."""
    home = tmp_path_factory.mktemp("home")
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SUBMIT_TF_JOB_", "HADOOP_"))
    }
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path(os.environ["HOME"]) / ".cache")
    environ |= {"HOME": str(home), "XDG_CACHE_HOME": cache, "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        environ.pop(name, None)
    return environ


@pytest.fixture(scope="session")
def sandbox(session_environ: dict[str, str]) -> Sandbox:
    """A sandbox of a name of its own; not started."""
    return Sandbox(f"test{os.getpid()}", sandbox_dirs(session_environ))


@pytest.fixture(scope="session")
def real_cluster(
    sandbox: Sandbox, session_environ: dict[str, str], tensorflow: Path
) -> Iterator[SandboxInfo]:
    """Start the sandbox, and take it down at the end."""
    try:
        yield sandbox.up(
            SandboxOptions(container_path=(tensorflow / "bin",)), session_environ, print
        )
    finally:
        sandbox.down()


@pytest.fixture(scope="session")
def patient_cluster(session_environ: dict[str, str], tensorflow: Path) -> Iterator[SandboxInfo]:
    """Start a sandbox with Hadoop's default time-outs beside the session's own, and take it down at
    the end.
    """
    made = Sandbox(f"test{os.getpid()}-patient", sandbox_dirs(session_environ))
    try:
        yield made.up(
            SandboxOptions(container_path=(tensorflow / "bin",), default_timeouts=True),
            session_environ,
            print,
        )
    finally:
        made.down()


@dataclass(frozen=True)
class Profiled:
    """A sandbox that is up."""

    sandbox: Sandbox
    info: SandboxInfo

    def hdfs_environ(self) -> dict[str, str]:
        """What lets a program reach HDFS: the configuration, and with Kerberos who it is."""
        environ = {"HADOOP_CONF_DIR": str(self.info.client_conf), "PATH": "/usr/bin:/bin"}
        if self.info.kerberos is None:
            return environ
        keytab = self.info.kerberos.keytabs / f"{self.info.user}.keytab"
        kerberos = {
            "KRB5_CONFIG": str(self.info.kerberos.krb5_conf),
            "KRB5_CLIENT_KTNAME": f"FILE:{keytab}",
            "KRB5CCNAME": "MEMORY:",
        }
        return {**environ, **kerberos}

    def pid_of(self, daemon: str) -> int:
        """The process of a daemon."""
        pid = next(row.pid for row in self.sandbox.status().daemons if row.name == daemon)
        assert pid
        return pid


@contextlib.contextmanager
def a_sandbox_of(
    modes: tuple[Mode, ...], environ: dict[str, str], tensorflow: Path
) -> Iterator[Profiled]:
    """Start a sandbox with Kerberos, two ResourceManagers or TLS beside the session's own, and take
    it down at the end.
    """
    made = Sandbox(f"test{os.getpid()}-{'-'.join(modes)}", sandbox_dirs(environ))
    try:
        yield Profiled(
            made,
            made.up(
                SandboxOptions(container_path=(tensorflow / "bin",), modes=modes), environ, print
            ),
        )
    finally:
        made.down()


@pytest.fixture(scope="session")
def kerberos_cluster(session_environ: dict[str, str], tensorflow: Path) -> Iterator[Profiled]:
    """Start a sandbox with Kerberos, and take it down at the end."""
    with a_sandbox_of(("kerberos",), session_environ, tensorflow) as found:
        yield found


@dataclass(frozen=True)
class DockerCluster(Profiled):
    """A sandbox with Docker that is up, its images loaded.

    Attributes:
        profiles: Network -> settings profile whose jobs are on it, with TensorFlow mounted into
            their containers.
    """

    profiles: Mapping[str, str] = field(default_factory=dict)

    @property
    def engine(self) -> Engine:
        """Its Docker Engine."""
        state = load_state(Layout(self.info.home))
        assert state
        return state.engine

    def docker(self, *words: str, stdin: bytes = b"") -> str:
        """Call the docker CLI."""
        assert self.info.docker
        argv = ["docker", "-H", self.info.docker.host, *words]
        return subprocess.run(
            argv, input=stdin, stdout=subprocess.PIPE, check=True, timeout=400
        ).stdout.decode()


def _image_without_bash() -> bytes:
    """Return a root directory that holds next to nothing."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("nothing"))
    return packed.getvalue()


def _load_images(cluster: DockerCluster, environ: Mapping[str, str]) -> None:
    """Load the base image, also under the names that job specs use, and one that YARN can do
    nothing with.
    """
    assert cluster.info.docker
    build = [sys.executable, str(ROOT / "docker" / "build"), "--packages", "base", "no-exec"]
    subprocess.run(
        build, env={**environ, "DOCKER_HOST": cluster.info.docker.host}, check=True, timeout=900
    )
    for name in ("python:3.11", "tensorflow/tensorflow:2.15.0", "untrusted/base:1"):
        cluster.docker("tag", "submit_tf_job/base:1", name)
    cluster.docker("import", "-", "local/bashless:1", stdin=_image_without_bash())
    for name, line in (("findless", "RUN rm /usr/bin/find"), ("immortal", "STOPSIGNAL SIGUSR1")):
        text = f"FROM submit_tf_job/base:1\n{line}\n".encode()
        cluster.docker(
            "build", "--quiet", "--network", "none", "--tag", f"local/{name}:1", "-", stdin=text
        )


def processes_below(home: Path) -> dict[int, str]:
    """Return the command of every process that names a directory: daemons and containers."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            text = (
                (entry / "cmdline").read_bytes()
                + (entry / "environ").read_bytes()
                + bytes((entry / "cwd").readlink())
            )
            if f"{home}/".encode() in text or text.endswith(str(home).encode()):
                found[int(entry.name)] = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return found


def _check_that_down_leaves_nothing(cluster: DockerCluster) -> None:
    """Take the sandbox down while a container runs; at the end of the session, because the order of
    the test files is xdist's.
    """
    home, engine = cluster.info.home, cluster.engine
    assert engine.run.exists()
    cluster.docker("run", "--detach", "--network", "jobs", "submit_tf_job/base:1", "sleep", "600")
    assert cluster.sandbox.down()
    assert processes_below(home) == {}
    assert not home.exists()
    assert not engine.run.exists()
    addresses = subprocess.run(["ip", "-json", "address"], stdout=subprocess.PIPE, check=True)
    prefix = str(engine.block.network_address).rpartition(".")[0]
    links = json.loads(addresses.stdout)
    ours = [link for link in links if engine.identity in link["ifname"] or prefix in str(link)]
    assert ours == []
    mounts = Path("/proc/mounts").read_text().splitlines()
    assert [line for line in mounts if engine.identity in line or str(home) in line] == []
    assert list(Path("/sys/fs/cgroup").glob(f"**/{engine.identity}*")) == []


@pytest.fixture(scope="session")
def docker_cluster(session_environ: dict[str, str], tensorflow: Path) -> Iterator[DockerCluster]:
    """Start a sandbox with Docker and two GPUs that are not there, and take it down at the end."""
    made = Sandbox(f"test{os.getpid()}-docker", sandbox_dirs(session_environ))
    try:
        # `make matrix` has PyTorch and JAX, too
        frameworks = os.environ.get("SUBMIT_TF_JOB_TEST_FRAMEWORKS")
        mounts = tuple(str(path) for path in (tensorflow, frameworks) if path)
        options = SandboxOptions(modes=("docker",), gpus=2, mounts=mounts)
        info = made.up(options, session_environ, print)
        profile = yaml.safe_load(info.profile_path.read_text())
        # Where an image has no /root, or whatever the path here begins with, that only root may
        # enter.
        packages = next((tensorflow / "lib").glob("python3.*/site-packages"))
        names = {network: f"{info.profile}-{network}" for network in ("bridge", "host", "jobs")}
        for network, name in names.items():
            job = {
                "network": network,
                "mounts": [f"{packages}:/opt/tensorflow"],
                "env": {"PYTHONPATH": "/opt/tensorflow"},
            }
            (info.profile_path.parent / f"{name}.yaml").write_text(
                yaml.safe_dump({**profile, "job": job})
            )
        cluster = DockerCluster(made, info, names)
        _load_images(cluster, session_environ)
        yield cluster
        _check_that_down_leaves_nothing(cluster)
    finally:
        made.down()


@pytest.fixture(scope="session")
def cluster_settings(real_cluster: SandboxInfo, session_environ: dict[str, str]) -> Settings:
    """The settings of the sandbox's profile."""
    return load_settings(profile=real_cluster.profile, environ=session_environ, cwd=Path("/"))


@dataclass
class Result:
    """What one call of the tool printed and returned."""

    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        """stdout as the one JSON object it must be."""
        value: dict[str, Any] = json.loads(self.stdout)
        return value


def warned_of_room(tool: Tool) -> Tool:
    """The tool with `capacity_check: warn`: it posts what the cluster has no room for."""
    return replace(tool, environ={**tool.environ, "SUBMIT_TF_JOB_CAPACITY_CHECK": "warn"})


@dataclass
class Tool:
    """submit_tf_job, called as a process with the sandbox's profile."""

    environ: Mapping[str, str]
    profile: str
    cwd: Path
    jobs: list[str] = field(default_factory=list)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(
        self, *arguments: object, timeout: float = SUBMIT_S, stdin: str | None = None
    ) -> Result:
        """Run one command to its end."""
        start = time.monotonic()
        done = subprocess.run(
            self.argv(*arguments),
            env=self.environ,
            cwd=self.cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
            input=stdin,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - start)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start one command and return its process."""
        process = subprocess.Popen(
            self.argv(*arguments),
            env=self.environ,
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def tidy(self) -> None:
        """End what a failed test has left running, and delete its jobs."""
        for process in self.started:
            if process.returncode is None:
                process.kill()
                process.communicate()
        for job in self.jobs:
            self("delete", job, "--force")

    def argv(self, *arguments: object) -> list[str]:
        """Compose the command line."""
        words = [str(argument) for argument in arguments]
        if words[0] in ("sandbox", "version", "schema", "init"):
            return [sys.executable, "-m", "submit_tf_job", *words]
        group = 2 if words[0] in ("config", "staging") else 1
        return [
            sys.executable,
            "-m",
            "submit_tf_job",
            *words[:group],
            "--profile",
            self.profile,
            *words[group:],
        ]

    def spec(self, name: str, **content: Any) -> Path:
        """Write a job spec of a name of its own; the job is deleted at the end of the test."""
        self.jobs.append(name)
        path = self.cwd / f"{name}.yaml"
        path.write_text(
            yaml.safe_dump(
                {"name": name, "image": "library/python:3.11", **content}, sort_keys=False
            )
        )
        return path

    def status(self, job: str) -> dict[str, Any]:
        """Ask for a job's state."""
        return self("status", job, "-o", "json").json

    def until(
        self, job: str, holds: Callable[[dict[str, Any]], bool], timeout: float = 120
    ) -> dict[str, Any]:
        """Ask until something holds of a job; it may be that it is submitted only now."""
        deadline = time.monotonic() + timeout
        while True:
            asked = self("status", job, "-o", "json")
            if asked.status != NO_SUCH_JOB and holds(asked.json):
                return asked.json
            assert time.monotonic() < deadline, asked
            time.sleep(0.5)

    def output(self, job: str, task: str) -> str:
        """Return what a task's containers wrote to stdout."""
        return self("logs", job, task, "--raw").stdout

    def printed(self, job: str, task: str, text: str, timeout: float = 120) -> None:
        """Wait until a task has written a text."""
        self.until(job, lambda _seen: text in self.output(job, task), timeout)


@pytest.fixture
def tool(
    real_cluster: SandboxInfo, session_environ: dict[str, str], tmp_path: Path
) -> Iterator[Tool]:
    """The tool, in a fresh directory."""
    made = Tool(session_environ, real_cluster.profile, tmp_path)
    yield made
    made.tidy()


@pytest.fixture
def patient_tool(
    patient_cluster: SandboxInfo, session_environ: dict[str, str], tmp_path: Path
) -> Iterator[Tool]:
    """The tool on a sandbox with Hadoop's default time-outs, in a fresh directory."""
    made = Tool(session_environ, patient_cluster.profile, tmp_path)
    yield made
    made.tidy()


def processes_of(job: str) -> dict[int, str]:
    """Find the processes of this machine that belong to tasks of a job, by their environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        names = {
            item.partition(b"=")[2].decode()
            for item in environ
            if item.startswith(b"YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME=")
        }
        if any(f".{job}." in name for name in names):
            found[int(entry.name)] = command
    return found


def bootstrap_of(job: str, task: str) -> int:
    """Find the process of a task's bootstrap."""
    for pid, command in processes_of(job).items():
        environ = (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
        if (
            f"TFJOB_INSTANCE={task}".encode() in environ
            and "bootstrap.py" in command
            and "bash" not in command.split()[0]
        ):
            return pid
    raise AssertionError(f"no bootstrap of {task} in {processes_of(job)}")


def kill(job: str, task: str) -> None:
    """Kill a task's container, with everything in it."""
    os.kill(bootstrap_of(job, task), signal.SIGKILL)


def gone(job: str, within_s: float = 20) -> None:
    """Assert that no process of a job is left."""
    deadline = time.monotonic() + within_s
    while left := processes_of(job):
        assert time.monotonic() < deadline, left
        time.sleep(0.3)


def bare_python(directory: Path) -> Path:
    """Make a Python without any library: that of an image that nobody has prepared."""
    made = directory / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True, timeout=60)
    return made / "bin" / "python"


@contextlib.contextmanager
def another(
    environ: dict[str, str], directory: Path, options: SandboxOptions
) -> Iterator[tuple[Sandbox, Tool]]:
    """Start a sandbox beside the session's own, and take it down."""
    made = Sandbox(f"test{os.getpid()}-other", sandbox_dirs(environ))
    try:
        tool = Tool(environ, made.up(options, environ, print).profile, directory)
        yield made, tool
        tool.tidy()
    finally:
        made.down()


Refresh = Callable[[Mapping[str, str]], None]


@contextlib.contextmanager
def scheduler_of(cluster: SandboxInfo) -> Iterator[Refresh]:
    """Give a function that changes the capacity scheduler of a running ResourceManager, as an
    administrator does; it is as before at the end.
    """
    state = json.loads((cluster.home / "state.json").read_text())
    conf = cluster.home / "conf"
    path = conf / "capacity-scheduler.xml"
    before = path.read_text()

    def refresh(changes: Mapping[str, str]) -> None:
        rows = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>\n"
            for name, value in changes.items()
        )
        path.write_text(before.replace("</configuration>", f"{rows}</configuration>"))
        argv = [
            f"{state['java_home']}/bin/java",
            "-Xmx128m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{conf}:{state['jars']}/*",
        ]
        admin = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
        done = subprocess.run(
            [*argv, admin, "-refreshQueues"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr

    try:
        yield refresh
    finally:
        refresh({})
