"""One real cluster for the whole test session, beside any that already runs, and the tool as its
users call it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from submit_tf_job.sandbox import DEFAULT_VERSION, Mode, Sandbox, SandboxInfo, SandboxOptions
from submit_tf_job.sandbox.engine import Engine
from submit_tf_job.sandbox.saved_state import Layout, load_state
from submit_tf_job.settings import Settings, load_settings
from tests.fakes.sandbox import sandbox_dirs
from tests.tool import Tool

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
# the versions of Hadoop on which the tests of versions run: `make matrix` names all
HADOOP_VERSIONS = [
    version
    for version in os.environ.get("SUBMIT_TF_JOB_TEST_HADOOP", DEFAULT_VERSION).split(",")
    if version
]


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


@pytest.fixture(scope="session")
def hadoop_home(session_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a Hadoop home with libhdfs, as docs/data.md does."""
    home = tmp_path_factory.mktemp("hadoop") / "home"
    jars = Path(
        session_environ["XDG_CACHE_HOME"], "submit_tf_job", f"hadoop-{DEFAULT_VERSION}/jars"
    )
    script = SPECS / "tensorflow-io/hadoop_home.py"
    subprocess.run([sys.executable, script, jars, home], check=True)
    return home


def with_hadoop(home: Path) -> list[str]:
    """Return the options by which specs/tensorflow-io.yaml finds libhdfs and Java here."""
    java = Path(os.path.realpath(shutil.which("javac") or "")).parents[1]
    return ["--set", f"env.HADOOP_HDFS_HOME={home}", "--set", f"env.JAVA_HOME={java}"]


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


def administer(cluster: SandboxInfo, *words: str) -> None:
    """Run `yarn rmadmin`."""
    state = json.loads((cluster.home / "state.json").read_text())
    argv = [
        f"{state['java_home']}/bin/java",
        "-Xmx128m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{cluster.home}/conf:{state['jars']}/*",
    ]
    admin = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
    done = subprocess.run([*argv, admin, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def add_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Add properties to a file of Hadoop's configuration."""
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in properties.items()
    )
    text = path.read_text()
    path.write_text(text.replace("</configuration>", f"{rows}</configuration>"))


Refresh = Callable[[Mapping[str, str]], None]


@contextlib.contextmanager
def scheduler_of(cluster: SandboxInfo) -> Iterator[Refresh]:
    """Give a function that changes the capacity scheduler of a running ResourceManager, as an
    administrator does; it is as before at the end.
    """
    path = cluster.home / "conf/capacity-scheduler.xml"
    before = path.read_text()

    def refresh(changes: Mapping[str, str]) -> None:
        path.write_text(before)
        add_properties(path, changes)
        administer(cluster, "-refreshQueues")

    try:
        yield refresh
    finally:
        refresh({})
