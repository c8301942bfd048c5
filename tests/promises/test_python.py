"""Python functions as jobs, as users call them: this package as a wheel in a fresh environment, a
script in a directory of its own, and containers without the package.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import clusters
from tests.clusters import Cluster
from tests.tool import SUBMIT_S, Tool, until

SCRIPT = Path(__file__).parent / "user_script"
ON_THE_CLUSTER = (
    "run",
    "raises",
    "remote",
    "TFCluster",
    "TFCluster raises",
    "TFParallel",
    "HorovodRunner",
    "run_on_yarn",
)


@dataclass
class User:
    """Somebody who has installed the wheel, and starts scripts in a directory.

    Attributes:
        python: The Python of the environment.
    """

    python: Path
    environ: dict[str, str]
    cwd: Path
    jobs: list[str] = field(default_factory=list)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        made = subprocess.Popen(
            [self.python, *words],
            env={**self.environ, **environ},
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(made)
        return made

    def result(self, process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
        """Return the JSON object that a script prints, and its stderr."""
        stdout, stderr = process.communicate(timeout=SUBMIT_S)
        self.jobs += re.findall(r"^Submitted (\S+)", stderr, re.MULTILINE)
        assert process.returncode == 0, stderr
        found: dict[str, Any] = json.loads(stdout.splitlines()[-1])
        return found, stderr

    def tool(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), "-m", "submit_tf_job", *words]
        return subprocess.run(
            command,
            env=self.environ,
            cwd=self.cwd,
            capture_output=True,
            text=True,
            timeout=SUBMIT_S,
        )


@pytest.fixture
def user(installed: Path, tmp_path: Path) -> Iterator[User]:
    """A user without a cluster."""
    environ = {**clusters.environment(), "TF_CPP_MIN_LOG_LEVEL": "3"}
    for path in SCRIPT.glob("*.py"):
        shutil.copy(path, tmp_path)
    made = User(installed, environ, tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
            process.communicate()
    profile = environ.get("SUBMIT_TF_JOB_PROFILE", "")
    Tool(environ, profile, tmp_path, made.jobs if profile else []).tidy()


@pytest.fixture
def cluster_user(user: User, simple: Cluster) -> User:
    """A user of the sandbox."""
    user.environ["SUBMIT_TF_JOB_PROFILE"] = simple.profile
    return user


def raised(end: Any, kind: str, *words: str) -> str:
    """Return the traceback of a call that raised."""
    assert isinstance(end, dict), end
    assert end.get("raised") == kind, end
    for word in words:
        assert word in end["words"], end["words"]
    return str(end["words"])


def interrupted(process: subprocess.Popen[str], after: str) -> str:
    """Interrupt a script once it has printed a line with a text; return its stderr."""
    lines = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if after in line:
            break
    process.send_signal(signal.SIGINT)
    _stdout, rest = process.communicate(timeout=SUBMIT_S)
    assert process.returncode == -signal.SIGINT
    return "".join(lines) + rest


@pytest.mark.cluster
def test_a_script_that_makes_every_call(cluster_user: User) -> None:
    ends, said = cluster_user.result(cluster_user.start("calls.py", *ON_THE_CLUSTER))
    assert ends["run"] == {
        "said": "hahaha",
        "tensorflow": 3,
        "task": "worker-0",
        "peers": 0,
        "has_the_package": False,
    }
    assert ends["remote"] == 42
    assert ends["HorovodRunner"] == "rank 0 of 2"
    assert (ends["TFCluster"], ends["run_on_yarn"]) == (None, None)
    unlucky = raised(ends["raises"], "Unlucky", "in task worker-1:", "raise own_module.Unlucky")
    raised(ends["TFCluster raises"], "ValueError", "has not 2 workers")
    raised(ends["TFParallel"], "Unlucky", "in task worker-1:", "shard 1")
    names = dict(
        re.findall(r"^Submitted (calls-[a-z-]+)-([0-9a-f]{4}(?:-\d)?) ", said, re.MULTILINE)
    )
    assert {"calls-where", "calls-unlucky", "calls-map-fun", "calls-experiment-fn"} <= set(names)
    assert re.search(
        r"^Submitted \S+ as \S+ \(application_\S+\)  http://\S+/app/application_",
        said,
        re.MULTILINE,
    )
    assert re.search(r"^\d\d:\d\d  RUNNING", said, re.MULTILINE)
    # what has failed can be asked for by the name that the exception has
    failed = f"calls-unlucky-{names['calls-unlucky']}"
    if sys.version_info >= (3, 11):
        assert f"{failed} failed: worker-1 " in unlucky
        assert f"submit_tf_job status {failed}" in unlucky
    until(
        lambda: "first cause" in cluster_user.tool("status", failed).stdout,
        "`status` tells the cause",
        within_s=SUBMIT_S,
        pause_s=1,
    )
    # what has succeeded has left nothing
    done = cluster_user.tool("delete", f"calls-where-{names['calls-where']}", "-o", "json")
    assert json.loads(done.stdout)["runs"] == []


@pytest.mark.cluster
def test_second_start_of_a_script_that_was_interrupted(cluster_user: User) -> None:
    said = interrupted(cluster_user.start("calls.py", "waits", WAIT_S="7200"), "RUNNING")
    found = re.search(r"^Submitted (\S+) as \S+ \((\S+)\)", said, re.MULTILINE)
    assert found is not None, said
    name, application = found.groups()
    cluster_user.jobs.append(name)
    last = said.splitlines()[-1]
    assert last.startswith(f"KeyboardInterrupt: Job {name} is still running. Reattach: ")
    assert f"submit_tf_job stop {name}" in last
    again = interrupted(cluster_user.start("calls.py", "waits", WAIT_S="7200"), application)
    assert f"{name} was submitted already, as {name}-" in again
    ends, _said = cluster_user.result(cluster_user.start("calls.py", "waits", WAIT_S="0"))
    taken = raised(ends["waits"], "NameTaken", name, "is running already")
    if sys.version_info >= (3, 11):  # since then an exception can have notes
        assert f"hint: An earlier start of this script may run: submit_tf_job watch {name}" in taken
    # with status 8 its containers have not ended within a minute, and the same command looks again
    until(
        lambda: cluster_user.tool("stop", name).returncode == 0,
        f"all containers of {name} have ended",
        within_s=SUBMIT_S,
        pause_s=1,
    )
    ends, said = cluster_user.result(cluster_user.start("calls.py", "waits", WAIT_S="0"))
    assert ends == {"waits": "done"}
    assert f"Submitted {name} as {name}-" in said


def test_a_script_that_calls_its_functions_on_this_machine(user: User) -> None:
    calls = ("local", "local remote", "local raises", "local leaves", "local cannot be sent back")
    refused = ("local too large", "lock", "argument", "command", "KerasExperiment")
    ends, _said = user.result(user.start("calls.py", *calls, *refused))
    assert ends["local"] == {
        "said": "hoho",
        "tensorflow": 3,
        "task": "worker-0",
        "peers": 2,
        "has_the_package": False,
    }
    assert ends["local remote"] == 28
    raised(ends["local raises"], "Unlucky", "1 is too much", "in task worker-1:")
    raised(ends["local leaves"], "JobFailed", "worker-0 ended with exit status 5")
    raised(ends["local cannot be sent back"], "JobFailed", "cannot be sent back")
    raised(ends["local too large"], "JobFailed", "at most 16777216 are sent back")
    raised(ends["lock"], "UsageError", "uses_a_lock cannot be sent", "variable 'LOCK' of type lock")
    raised(ends["argument"], "UsageError", "its argument 1 of type lock cannot be pickled")
    raised(ends["KerasExperiment"], "UsageError", "HorovodRunner(np=N).run(train)")
    raised(ends["command"], "UsageError", "no command of its own")


def test_results_and_exceptions_that_pickle_alone_does_not_bring_back(user: User) -> None:
    raising = ("Rejected", "local rejects with a lock", "local raises of its own")
    returning = ("local returns of its own", "local ends its process", "local leaves with 0")
    more = ("local without environment", "local processes", "coroutine", "no function")
    ends, _said = user.result(user.start("calls.py", *raising, *returning, *more))
    *of_the_class, last = ends["Rejected"]
    assert (of_the_class, last.endswith("Rejected: row 7: bad")) == (["row 7: bad", 7], True)
    raised(ends["local rejects with a lock"], "Rejected", "in task worker-0:", "row 7: bad")
    raised(
        ends["local raises of its own"],
        "JobFailed",
        "worker-0 raised only_there.Odd: is odd",
        "in task worker-0:",
    )
    raised(
        ends["local returns of its own"],
        "SubmitTFJobError",
        "returned cannot be read here: ModuleNotFoundError: No module named 'only_there'",
        *(["hint: Return plain data"] if sys.version_info >= (3, 11) else []),
    )
    raised(ends["local ends its process"], "JobFailed", "worker-0 returned nothing")
    assert ends["local leaves with 0"] is None
    assert ends["local without environment"] == "done"
    assert ends["local processes"] == [4, 9, "haha"]
    raised(ends["coroutine"], "UsageError", "coroutine is a coroutine function")
    raised(ends["no function"], "UsageError", "3 is not a function")


def test_requirements_resolve_in_an_environment_without_pip(user: User) -> None:
    with zipfile.ZipFile(user.cwd / "greeting-1.0-py3-none-any.whl", "w") as out:
        out.writestr("greeting.py", "WORD = 'hello'\n")
        out.writestr(
            "greeting-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        )
        out.writestr("greeting-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        out.writestr("greeting-1.0.dist-info/RECORD", "")
    (user.cwd / "requirements.txt").write_text(f"--no-index\n--find-links {user.cwd}\ngreeting\n")
    (user.cwd / "job.yaml").write_text(
        "{name: a, image: i, strategy: single, command: x, python: {requirements: requirements.txt},"
        " roles: {worker: {memory: 1Gi}}}"
    )
    user.environ["XDG_CACHE_HOME"] = str(user.cwd / "cache")
    user.environ["SUBMIT_TF_JOB_STAGING"] = "hdfs://nn:8020/staging"
    done = user.tool("validate", "job.yaml")
    assert done.returncode == 0, done.stdout
    assert [*(user.cwd / "cache").rglob("greeting-1.0-py3-none-any.whl")]
    (user.cwd / "requirements.txt").write_text("--no-index\nnothing-of-the-kind\n")
    done = user.tool("validate", "job.yaml")
    assert done.returncode == 2
    assert "pip says: " in done.stdout
    # a job spec that is refused anyway is refused at once
    done = user.tool("validate", "job.yaml", "--set", "roles.worker.memry=1Gi")
    assert "unknown key 'memry'" in done.stdout
    assert "pip says: " not in done.stdout
