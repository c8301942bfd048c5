"""Clusters that all processes of a test session share, and that a developer's next run may find.

    <cache>/submit_tf_job/test/<checkout>/
        lock          held while one process starts or ends a cluster
        home/         HOME of the tools that use them: the sandboxes' state, the settings profiles
        users/PID     locked by the kernel for as long as that process lives

The last user ends the clusters. A session that was killed cannot: the next one, or
`python -m tests.clusters down`, ends what it left. With SUBMIT_TF_JOB_TEST_KEEP=1 they stay.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
KEEP = "SUBMIT_TF_JOB_TEST_KEEP"
SANDBOX = "SUBMIT_TF_JOB_TEST_SANDBOX"  # further options of the cluster `simple`, for the matrix
# Seconds by which ResourceManagers and NodeManagers may delay an answer (tests/disturb.py).
DELAY = "SUBMIT_TF_JOB_TEST_DELAY"
UP_S = 1800
LEADS_S = 240  # until one of two ResourceManagers leads
BUILD_S = 3000  # for an image, where all of its packages are to be fetched beside other work
# What the tests of each need; "secure" is everything that a site may ask for at once. `make test`
# needs the first two, the full set all.
FAST = ("simple", "secure")
OPTIONS: Mapping[str, Sequence[str]] = {
    # Room for all jobs that tests have at once: on a full node the tasks of two jobs can wait for
    # each other's room (YARN gives containers one by one), until the jobs' `start_timeout`.
    "simple": ("--memory", "48Gi", "--cpus", "64", "--container-path", "{tensorflow}/bin"),
    "secure": ("--profile", "kerberos+ha+tls+docker", "--gpus", "2", "--mount", "{tensorflow}"),
    "docker": ("--profile", "docker", "--gpus", "2", "--mount", "{tensorflow}"),
    "ha": ("--profile", "ha", "--container-path", "{tensorflow}/bin"),
    "kerberos": ("--profile", "kerberos", "--container-path", "{tensorflow}/bin"),
}


def cache() -> Path:
    """Return this project's cache: Hadoop's jars, TensorFlow, images."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "submit_tf_job"


@functools.cache
def directory() -> Path:
    """Return where the clusters of this checkout have their state."""
    checkout = f"{ROOT}{os.environ.get(SANDBOX, '')}{os.environ.get(DELAY, '')}"
    checkout = hashlib.sha256(checkout.encode()).hexdigest()[:12]
    made = cache() / "test" / checkout
    (made / "home").mkdir(parents=True, exist_ok=True)
    (made / "users").mkdir(exist_ok=True)
    return made


def environment() -> dict[str, str]:
    """Return an environment in which nothing of the user's own settings is seen."""
    own = ("SUBMIT_TF_JOB_", "HADOOP_", "XDG_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return environ | {
        "HOME": str(directory() / "home"),
        "XDG_CACHE_HOME": str(cache().parent),
        "OF_THE_SHELL": "1",
    }


def tensorflow() -> Path:
    """Return the virtual environment with TensorFlow for the containers."""
    found = os.environ.get("SUBMIT_TF_JOB_TEST_TENSORFLOW")
    if not found:
        raise LookupError("SUBMIT_TF_JOB_TEST_TENSORFLOW names no environment; run `make test`")
    return Path(found)


@dataclass(frozen=True)
class Cluster:
    """A sandbox that is up: what `sandbox up -o json` printed."""

    name: str
    info: Mapping[str, Any]

    @property
    def profile(self) -> str:
        """The settings profile of its users."""
        return str(self.info["profile"])

    @property
    def home(self) -> Path:
        """Where its daemons have their configuration, logs and data."""
        return self.client_conf.parent

    @property
    def client_conf(self) -> Path:
        """Hadoop's configuration, as its clients have it."""
        return Path(self.info["client_conf"])

    @property
    def rm_url(self) -> str:
        """A ResourceManager."""
        return str(self.info["rm_url"])

    @property
    def nm_url(self) -> str:
        """Its NodeManager."""
        return str(self.info["nm_url"])

    @property
    def hdfs_uri(self) -> str:
        """Its HDFS."""
        return str(self.info["hdfs_uri"])

    @property
    def namenode_url(self) -> str:
        """Its NameNode, for WebHDFS."""
        return str(self.info["namenode_url"])

    @property
    def user(self) -> str:
        """Whose jobs its profile submits."""
        return next(
            line.partition(": ")[2].strip()
            for line in self.profile_file.read_text().splitlines()
            if line.startswith("user: ")
        )

    @property
    def profile_file(self) -> Path:
        """Where that profile is."""
        return directory() / f"home/.config/submit_tf_job/profiles.d/{self.profile}.yaml"

    def pid_of(self, daemon: str) -> int:
        """Return the process of a daemon."""
        return int(self.state()["daemons"][daemon]["pid"])

    def kill(self, daemon: str, how: int = signal.SIGKILL) -> None:
        """End a daemon; it is gone when this returns."""
        pid = self.pid_of(daemon)
        os.kill(pid, how)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.02)

    def active_by_ticket(self, cache: Path) -> str:
        """Return the ResourceManager that leads, as a user of curl finds it with Kerberos."""
        kerberos = self.info["kerberos"]
        own = {"KRB5_CONFIG": kerberos["krb5_conf"], "KRB5CCNAME": f"FILE:{cache}"}
        environ = {**os.environ, **own}
        principal = kerberos["principal"]
        keytab = f"{kerberos['keytabs']}/{principal.partition('@')[0]}.keytab"
        kinit = ["kinit", "-k", "-t", keytab, principal]
        subprocess.run(kinit, env=environ, check=True, timeout=LEADS_S)
        curl = ["curl", "-s", "--max-time", "30", "--cacert", str(self.info["ca_file"])]
        deadline = time.monotonic() + LEADS_S
        while time.monotonic() < deadline:
            for number, url in enumerate(self.info["rm_urls"]):
                info = [*curl, "--negotiate", "-u", ":", f"{url}/ws/v1/cluster/info"]
                said = subprocess.run(info, env=environ, capture_output=True, text=True)
                if '"haState":"ACTIVE"' in said.stdout:
                    return "resourcemanager2" if number else "resourcemanager"
            time.sleep(1)
        raise AssertionError(f"no ResourceManager leads within {LEADS_S} s")

    def state(self) -> dict[str, Any]:
        """Return what the sandbox has written down of itself."""
        found: dict[str, Any] = json.loads((self.home / "state.json").read_text())
        return found

    def java(self, conf: Path, main: str, *words: str, **environ: str) -> bytes:
        """Run a client of Hadoop's own; return what it prints."""
        state = self.state()
        java = [f"{state['java_home']}/bin/java", "-Xmx256m", "-XX:TieredStopAtLevel=1"]
        argv = [
            *java,
            "-Dfile.encoding=UTF-8",
            "-Dsun.jnu.encoding=UTF-8",
            "-cp",
            f"{conf}:{state['jars']}/*",
            main,
            *words,
        ]
        done = subprocess.run(argv, env={**os.environ, **environ}, capture_output=True, timeout=240)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def status(self) -> dict[str, Any]:
        """Ask how it is."""
        argv = [sys.executable, "-m", "submit_tf_job", "sandbox", "status", "--name", self.name]
        done = subprocess.run(
            [*argv, "-o", "json"], env=environment(), stdout=subprocess.PIPE, timeout=240, cwd="/"
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def heal(self) -> list[str]:
        """Start what is dead; return what that was."""
        return list(json.loads(_tool("up", "--name", self.name, "-o", "json"))["started"])

    def down(self) -> None:
        """End it."""
        _tool("down", "--name", self.name)


def _tool(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "submit_tf_job", "sandbox", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=UP_S,
        cwd="/",
    )
    if done.returncode:
        raise RuntimeError(f"sandbox {' '.join(words)} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def start(name: str) -> Cluster:
    """Start a cluster, or repair it: what is well stays as it is."""
    options = [word.format(tensorflow=tensorflow()) for word in OPTIONS[name]]
    options += os.environ.get(SANDBOX, "").split() if name == "simple" else []
    cluster = _up(name, *options)
    if cluster.info["docker"]:
        build = [sys.executable, str(ROOT / "docker/build"), "--packages", "base"]
        engine = {"DOCKER_HOST": cluster.info["docker"]["host"]}
        subprocess.run(
            build, env=environment() | engine, check=True, timeout=BUILD_S, stdout=sys.stderr
        )
    return cluster


def _up(name: str, *options: str) -> Cluster:
    cluster = Cluster(name, json.loads(_tool("up", "--name", name, *options, "-o", "json")))
    if delay := os.environ.get(DELAY):
        _answer_late(cluster, float(delay))
    return cluster


def _answer_late(cluster: Cluster, most_s: float) -> None:
    """Let its ResourceManagers and NodeManagers, started anew, delay each answer."""
    if (_class_path(cluster) / "LateAnswers.class").exists():
        return
    delay = {"submit_tf_job.test.delay-ms": str(int(most_s * 1000))}
    _add_filter(cluster, "LateAnswers", delay)


def overtake_posts(cluster: Cluster) -> None:
    """Let its ResourceManager, started anew, accept two POSTs of one name (`OvertakenPosts`)."""
    (_class_path(cluster) / "overtaken-site.xml").write_text("<configuration></configuration>")
    implementation = {"fs.hdfs.impl": "OvertakenPosts$Hdfs"}
    add_properties(_class_path(cluster) / "overtaken-site.xml", implementation)
    _add_filter(cluster, "OvertakenPosts", {})


def _class_path(cluster: Cluster) -> Path:
    return cluster.home / "webroot"  # of the daemons, and of no container


def _add_filter(cluster: Cluster, name: str, properties: Mapping[str, str]) -> None:
    """Start its ResourceManagers and NodeManagers anew with a filter of `tests/NAME.java` in their
    web servers.
    """
    made = str(_class_path(cluster))
    java = [f"{cluster.state()['java_home']}/bin/javac", "-nowarn", "-d", made]
    jars = f"{cluster.state()['jars']}/*"
    subprocess.run([*java, "-cp", jars, ROOT / f"tests/{name}.java"], check=True, timeout=120)
    # what a ResourceManager has where core-site.xml names nothing (RMWebAppUtil)
    usual = (
        "org.apache.hadoop.yarn.server.security.http.RMAuthenticationFilterInitializer,"
        "org.apache.hadoop.http.lib.StaticUserWebFilter"
    )
    filters = "hadoop.http.filter.initializers"
    for conf in cluster.home.glob("conf*"):
        named = rf"<name>{filters}</name>\s*<value>(.*?)</value>"
        found = re.search(named, (conf / "core-site.xml").read_text())
        wanted = {filters: f"{found[1] if found else usual},{name}"}
        add_properties(conf / "yarn-site.xml", {**wanted, **properties})
    for daemon in cluster.state()["daemons"]:
        if daemon.startswith(("resourcemanager", "nodemanager")):
            cluster.kill(daemon)
    cluster.heal()


def add_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Add properties to a file of Hadoop's configuration; of one name the last one counts."""
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in properties.items()
    )
    text = path.read_text()
    assert "</configuration>" in text, path
    path.write_text(text.replace("</configuration>", f"{rows}</configuration>"))


def end() -> None:
    """End the clusters that are there, and those that a killed test has left."""
    states = directory() / "home/.local/state/submit_tf_job/sandbox"
    for state in states.glob("*/state.json"):
        _tool("down", "--name", state.parent.name)


@contextmanager
def own(name: str, *options: str) -> Iterator[Cluster]:
    """Have a sandbox of a test's own, which has other options or is broken by it; end it."""
    named = f"{name}-{os.getpid()}"
    try:
        yield _up(named, *options)
    finally:
        _tool("down", "--name", named)


@contextmanager
def _locked(path: Path, how: int) -> Iterator[IO[str]]:
    with path.open("a+") as file:
        fcntl.flock(file, how)
        yield file


def _others() -> bool:
    """Return whether another process uses the clusters; forget those that have died."""
    alive = False
    for path in (directory() / "users").iterdir():
        if path.name == str(os.getpid()):
            continue
        with path.open() as file, suppress(FileNotFoundError):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alive = True
            else:
                path.unlink()
    return alive


@contextmanager
def used() -> Iterator[None]:
    """Use the clusters of this checkout; what a killed session left is ended first."""
    keep = os.environ.get(KEEP) == "1"
    lock, mine = directory() / "lock", directory() / "users" / str(os.getpid())
    with _locked(lock, fcntl.LOCK_EX):
        if not keep and not _others():
            end()
        file = mine.open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with _locked(lock, fcntl.LOCK_EX):
            mine.unlink()
            file.close()
            if not keep and not _others():
                end()


def started(name: str) -> Cluster:
    """Return a cluster that runs; the first process that asks starts it."""
    with _locked(directory() / f"{name}.start", fcntl.LOCK_EX):
        return start(name)


@contextmanager
def shared(name: str) -> Iterator[None]:
    """Use a cluster beside others, not while somebody has it alone."""
    with _locked(directory() / f"{name}.turn", fcntl.LOCK_EX):
        file = (directory() / f"{name}.use").open("a+")
        fcntl.flock(file, fcntl.LOCK_SH)
    with file:
        yield


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Have a cluster alone, to end one of its daemons or to change its scheduler."""
    with (
        _locked(directory() / f"{name}.turn", fcntl.LOCK_EX),
        _locked(directory() / f"{name}.use", fcntl.LOCK_EX),
    ):
        yield


@contextmanager
def held(names: Sequence[str], *, by_one: bool) -> Iterator[None]:
    """Hold clusters for a test, in one order for all; what it has broken is healed."""
    with ExitStack() as stack:
        for name in [known for known in OPTIONS if known in names]:
            stack.enter_context((alone if by_one else shared)(name))
            if by_one:
                stack.callback(started, name)
        yield


def main(words: Sequence[str]) -> int:
    """Start or end clusters by hand: python -m tests.clusters up simple, … down."""
    if words[:1] == ["up"]:
        for name in words[1:] or FAST:
            print(json.dumps(started(name).info, indent=2))
        return 0
    if words == ["down"]:
        with _locked(directory() / "lock", fcntl.LOCK_EX):
            if _others():
                print("a test session uses them", file=sys.stderr)
                return 1
            end()
        return 0
    print("usage: python -m tests.clusters up [NAME…] | down", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
