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
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
KEEP = "SUBMIT_TF_JOB_TEST_KEEP"
UP_S = 600
# What the tests of each need; "secure" is everything that a site may ask for at once.
OPTIONS: Mapping[str, Sequence[str]] = {
    "simple": ("--container-path", "{tensorflow}/bin"),
    "secure": ("--profile", "kerberos+ha+tls+docker", "--gpus", "2", "--mount", "{tensorflow}"),
}


def cache() -> Path:
    """Return this project's cache: Hadoop's jars, TensorFlow, images."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "submit_tf_job"


@functools.cache
def directory() -> Path:
    """Return where the clusters of this checkout have their state."""
    checkout = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
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
        "PYTHONDONTWRITEBYTECODE": "1",
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
        return Path(self.info["client_conf"]).parent

    @property
    def profile_file(self) -> Path:
        """Where that profile is."""
        return directory() / f"home/.config/submit_tf_job/profiles.d/{self.profile}.yaml"

    def pid_of(self, daemon: str) -> int:
        """Return the process of a daemon."""
        state = json.loads((self.home / "state.json").read_text())
        return int(state["daemons"][daemon]["pid"])


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
    info = json.loads(_tool("up", "--name", name, *options, "-o", "json"))
    if info["docker"]:
        build = [sys.executable, str(ROOT / "docker/build"), "--packages", "base"]
        engine = {"DOCKER_HOST": info["docker"]["host"]}
        subprocess.run(
            build, env=environment() | engine, check=True, timeout=UP_S, stdout=sys.stderr
        )
    return Cluster(name, info)


def end(names: Sequence[str] = tuple(OPTIONS)) -> None:
    """End the clusters of these names that are there."""
    states = directory() / "home/.local/state/submit_tf_job/sandbox"
    for name in names:
        if (states / name).exists():
            _tool("down", "--name", name)


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


def main(words: Sequence[str]) -> int:
    """Start or end clusters by hand: python -m tests.clusters up simple, … down."""
    if words[:1] == ["up"]:
        for name in words[1:] or OPTIONS:
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
