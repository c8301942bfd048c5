"""The shared clusters of tests/clusters.py, and the tool as its users call it.

A test holds the clusters that its fixtures name beside others; one that ends a daemon or changes
a configuration is marked `alone`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from submit_tf_job import Client
from tests import clusters
from tests.clusters import ROOT, Cluster, add_properties
from tests.hdfs import Hdfs
from tests.tool import Tool

SPECS = ROOT / "specs"
HADOOP = "3.4.2"
# the versions of Hadoop on which the tests of versions run: `make matrix` names all
HADOOP_VERSIONS = [
    version for version in os.environ.get("SUBMIT_TF_JOB_TEST_HADOOP", HADOOP).split(",") if version
]
NAMES = {
    "real_cluster": "simple",
    "secure_cluster": "secure",
    "docker_cluster": "docker",
    "ha_cluster": "ha",
    "kerberos_cluster": "kerberos",
}


@pytest.fixture(autouse=True)
def turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the clusters of this test, alone where it is marked so."""
    wanted = [name for fixture, name in NAMES.items() if fixture in request.fixturenames]
    by_one = request.node.get_closest_marker("alone") is not None
    with clusters.held(wanted, by_one=by_one):
        yield


@pytest.fixture(scope="session")
def tensorflow() -> Path:
    """Virtual environment with TensorFlow for the containers."""
    return clusters.tensorflow()


@pytest.fixture(scope="session")
def real_cluster(clusters_of_session: None) -> Cluster:
    """A cluster without security, whose containers are processes."""
    return clusters.started("simple")


@pytest.fixture(scope="session")
def secure_cluster(clusters_of_session: None) -> Cluster:
    """A cluster with Kerberos, TLS, two ResourceManagers and Docker, all at once."""
    return clusters.started("secure")


@pytest.fixture(scope="session")
def ha_cluster(clusters_of_session: None) -> Cluster:
    """A cluster with two ResourceManagers, whose containers are processes."""
    return clusters.started("ha")


@pytest.fixture(scope="session")
def kerberos_cluster(clusters_of_session: None) -> Cluster:
    """A cluster with Kerberos, whose containers are processes."""
    return clusters.started("kerberos")


@pytest.fixture(scope="session")
def hdfs(real_cluster: Cluster) -> Hdfs:
    """HDFS of the cluster without security."""
    return Hdfs(real_cluster)


@pytest.fixture(scope="session")
def hadoop_home(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a Hadoop home with libhdfs, as docs/data.md does."""
    home = tmp_path_factory.mktemp("hadoop") / "home"
    script = SPECS / "tensorflow-io/hadoop_home.py"
    subprocess.run([sys.executable, script, real_cluster.state()["jars"], home], check=True)
    return home


def with_hadoop(home: Path) -> list[str]:
    """Return the options by which specs/tensorflow-io.yaml finds libhdfs and Java here."""
    java = Path(os.path.realpath(shutil.which("javac") or "")).parents[1]
    return ["--set", f"env.HADOOP_HDFS_HOME={home}", "--set", f"env.JAVA_HOME={java}"]


@dataclass(frozen=True)
class DockerCluster(Cluster):
    """A sandbox with Docker that is up, its images loaded.

    Attributes:
        profiles: Network -> settings profile whose jobs are on it, with TensorFlow mounted into
            their containers.
    """

    profiles: Mapping[str, str] = field(default_factory=dict)

    def docker(self, *words: str, stdin: bytes = b"") -> str:
        """Call the docker CLI."""
        argv = ["docker", "-H", self.info["docker"]["host"], *words]
        return subprocess.run(
            argv, input=stdin, stdout=subprocess.PIPE, check=True, timeout=400
        ).stdout.decode()


def _load_images(cluster: DockerCluster, directory: Path) -> None:
    """Load the base image, also under the names that job specs use, and one that YARN can do
    nothing with.
    """
    build = [sys.executable, str(ROOT / "docker" / "build"), "--packages", "base", "no-exec"]
    environ = {**clusters.environment(), "DOCKER_HOST": cluster.info["docker"]["host"]}
    subprocess.run(build, env=environ, check=True, timeout=900)
    for name in ("python:3.11", "tensorflow/tensorflow:2.15.0"):
        cluster.docker("tag", "submit_tf_job/base:1", name)
    (directory / "nothing").touch()
    packed = subprocess.run(
        ["tar", "-c", "-C", directory, "nothing"], stdout=subprocess.PIPE, check=True
    )
    cluster.docker("import", "-", "local/bashless:1", stdin=packed.stdout)
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
        with suppress(OSError):
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


@pytest.fixture(scope="session")
def docker_cluster(
    clusters_of_session: None, tensorflow: Path, tmp_path_factory: pytest.TempPathFactory
) -> DockerCluster:
    """A cluster with Docker and two GPUs that are not there, and a profile for each network."""
    cluster = clusters.started("docker")
    profile = yaml.safe_load(cluster.profile_file.read_text())
    # Where an image has no /root, or whatever the path here begins with, that only root may enter.
    packages = next((tensorflow / "lib").glob("python3.*/site-packages"))
    names = {network: f"{cluster.profile}-{network}" for network in ("bridge", "host", "jobs")}
    for network, name in names.items():
        job = {
            "network": network,
            "mounts": [f"{packages}:/opt/tensorflow"],
            "env": {"PYTHONPATH": "/opt/tensorflow"},
        }
        path = cluster.profile_file.with_name(f"{name}.yaml")
        path.write_text(yaml.safe_dump({**profile, "job": job}))
    made = DockerCluster(cluster.name, cluster.info, names)
    _load_images(made, tmp_path_factory.mktemp("images"))
    return made


@pytest.fixture
def client(real_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The Python interface, with the settings profile of the cluster."""
    for name in [name for name in os.environ if name.startswith(("SUBMIT_TF_JOB_", "HADOOP_"))]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, clusters.environment()[name])
    monkeypatch.setenv("SUBMIT_TF_JOB_PROFILE", real_cluster.profile)
    with Client() as made:
        yield made


@pytest.fixture
def tool(real_cluster: Cluster, tmp_path: Path) -> Iterator[Tool]:
    """The tool, in a fresh directory."""
    made = Tool(clusters.environment(), real_cluster.profile, tmp_path)
    yield made
    made.tidy()


def bare_python(directory: Path) -> Path:
    """Make a Python without any library: that of an image that nobody has prepared."""
    made = directory / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True, timeout=240)
    return made / "bin" / "python"


@contextmanager
def another(directory: Path, *options: str) -> Iterator[tuple[Cluster, Tool]]:
    """Start a sandbox beside the shared ones, and take it down."""
    with clusters.own("other", *options) as cluster:
        tool = Tool(clusters.environment(), cluster.profile, directory)
        yield cluster, tool
        tool.tidy()


def administer(cluster: Cluster, *words: str) -> None:
    """Run `yarn rmadmin`."""
    admin = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
    cluster.java(cluster.home / "conf", admin, *words)


Refresh = Callable[[Mapping[str, str]], None]


@contextmanager
def scheduler_of(cluster: Cluster) -> Iterator[Refresh]:
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
