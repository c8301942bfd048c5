"""What a job must do on every Hadoop version, asserted through the command line on a sandbox of
that version.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.cluster.conftest import (
    SPECS,
)
from tests.cluster.elastic import shrinks_and_grows, starts_with_fewer
from tests.cluster.retries import is_tried_once, survives_worker_and_chief
from tests.cluster.saving import saves_where_hadoop_signals
from tests.matrix.page import Cell
from tests.tool import (
    Tool,
    gone,
)

__all__ = ["CHECKS", "CLUSTERS", "Cluster", "run_cluster"]

UP_S, DOWN_S = 900, 120
JOB_S = 180
SMALL = {"memory": "256Mi"}
DATA = "hdfs:///data/digits.npz"


@dataclass(frozen=True)
class Cluster:
    """One column: a Hadoop version, how its containers find names, whether TensorFlow is trained
    there, and whether it runs only where `--only` names it.
    """

    hadoop: str
    resolver: str
    trains: bool
    on_request: bool = False

    @property
    def title(self) -> str:
        """What the column is called."""
        return f"{self.hadoop} {self.resolver}"


# The oldest and the newest line train; both ways to find names are tried on the newest.
CLUSTERS = (
    Cluster("3.4.2", "system", trains=True),
    Cluster("3.4.2", "direct", trains=True),
    # with the services API of 3.4.2, as its own was not published (docs/sandbox.md)
    Cluster("3.5.0", "auto", trains=False, on_request=True),
    Cluster("3.3.5", "auto", trains=False),
    Cluster("3.2.1", "auto", trains=False),
    Cluster("3.1.3", "auto", trains=True),
)


@dataclass(frozen=True)
class Site:
    """A cluster that is up."""

    tool: Tool
    hadoop: str
    client_conf: Path
    rm_url: str
    tensorflow: Path


def custom(site: Site) -> None:
    """`specs/custom.yaml`: roles of one's own, one decides, a sidecar is stopped"""
    succeeds(site.tool, SPECS / "custom.yaml", "m-custom")


def multi_worker(site: Site) -> None:
    """chief, 2 workers and a sidecar `sleep 600`: SUCCEEDED, everything is gone"""
    spec = site.tool.spec(
        "m-plain",
        strategy="multi-worker",
        command="sleep 1; echo $TF_CONFIG",
        roles={
            "chief": SMALL,
            "worker": {**SMALL, "instances": 2},
            "helper": {**SMALL, "command": "sleep 600"},
        },
    )
    succeeds(site.tool, spec, "m-plain")


def worker_fails(site: Site) -> None:
    """a worker exits with 3: exit status 1, and the worker, its status and its last words are
    named
    """
    worker = "if [ $TFJOB_INDEX = 1 ]; then echo cannot go on >&2; exit 3; fi; sleep 600"
    spec = site.tool.spec(
        "m-exits",
        strategy="multi-worker",
        roles={
            "chief": {**SMALL, "command": "sleep 600"},
            "worker": {**SMALL, "instances": 2, "command": worker},
        },
    )
    done = site.tool("submit", spec, "-o", "json", timeout=JOB_S)
    assert done.status == 1, (done.status, done.stderr)
    failure = done.json["failure"]
    assert (done.json["state"], failure["task"], failure["status"]) == ("FAILED", "worker-1", 3), (
        done.json
    )
    assert "cannot go on" in failure["last_lines"], failure
    gone("m-exits")


def parameter_server(site: Site) -> None:
    """ps and workers never end by themselves: SUCCEEDED when the chief is done"""
    forever = {**SMALL, "command": "sleep 600"}
    spec = site.tool.spec(
        "m-ps",
        strategy="parameter-server",
        roles={
            "chief": {**SMALL, "command": "sleep 2"},
            "worker": {**forever, "instances": 2},
            "ps": forever,
        },
    )
    succeeds(site.tool, spec, "m-ps")


def stopped(site: Site) -> None:
    """`stop`: STOPPED, `wait` returns 3, everything is gone"""
    spec = site.tool.spec(
        "m-stop",
        strategy="multi-worker",
        command="sleep 600",
        roles={"chief": SMALL, "worker": SMALL},
    )
    submitted = site.tool("submit", spec, "--detach", timeout=JOB_S)
    assert submitted.status == 0, submitted.stderr
    ready = site.tool("wait", "m-stop", "--for", "ready", "--timeout", "2m", timeout=JOB_S)
    assert ready.status == 0, ready.stderr
    stop = site.tool("stop", "m-stop", "-o", "json", timeout=JOB_S)
    assert stop.json["state"] == "STOPPED", stop.json
    assert site.tool("wait", "m-stop", timeout=JOB_S).status == 3
    gone("m-stop")


def detached(site: Site) -> None:
    """without a follower: other processes get the verdict later, by name and by application id"""
    spec = site.tool.spec(
        "m-detached",
        strategy="multi-worker",
        command="sleep 1",
        roles={"chief": SMALL, "worker": SMALL},
    )
    submitted = site.tool("submit", spec, "--detach", "-o", "json", timeout=JOB_S)
    assert submitted.status == 0, submitted.stderr
    seen = site.tool.until(
        "m-detached",
        lambda seen: seen["state"] in ("SUCCEEDED", "FAILED", "STOPPED"),
        timeout=JOB_S,
    )
    assert seen["state"] == "SUCCEEDED", seen
    waited = site.tool("wait", "m-detached", "-o", "json", timeout=JOB_S)
    assert (waited.status, waited.json["confirmed"]) == (0, True), waited.json
    assert site.tool.status(submitted.json["application_id"])["state"] == "SUCCEEDED"


def survives(site: Site) -> None:
    """`retries: 3`: the containers of a worker and of the chief are killed: SUCCEEDED from the
    checkpoint, with two restarts
    """
    survives_worker_and_chief(site.tool)


def own_fault(site: Site) -> None:
    """`retries: 3`: an error of the program's own is tried once"""
    is_tried_once(site.tool)


def elastic(site: Site) -> None:
    """`instances: {min: 1, max: 3}`: loses workers, gets others, is scaled; ranks leave no gap"""
    shrinks_and_grows(site.tool)


def fewer(site: Site) -> None:
    """`instances: {min: 1, max: 3}`: starts with one worker where there is no room for more"""
    starts_with_fewer(site.tool, site.rm_url)


def saves(site: Site) -> None:
    """`stop --grace 2m`: all tasks save first (3.1 and 3.2 have no signals, and say so)"""
    saves_where_hadoop_signals(site.tool, site.hadoop)


def too_large(site: Site) -> None:
    """more memory than a container may have: exit status 9, and the name stays free"""
    spec = site.tool.spec(
        "m-large", strategy="single", command="true", roles={"worker": {"memory": "999Gi"}}
    )
    refused = site.tool("submit", spec, timeout=JOB_S)
    assert refused.status == 9, (refused.status, refused.stderr)
    assert "roles.worker.memory: 999Gi is more than" in refused.stderr, refused.stderr
    assert site.tool("status", "m-large").status == 5


def files(site: Site) -> None:
    """`files:` and `python:`: 600 files and a wheel are staged and reach the task; `delete` takes
    them away
    """
    site.tool.jobs.append("m-files")
    tree = site.tool.cwd / "tree"
    tree.mkdir()
    for number in range(600):
        (tree / f"part {number}.txt").write_text(f"{number} {'x' * 500}\n")
    with zipfile.ZipFile(site.tool.cwd / "greeting-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("greeting.py", "WORD = 'hello'\n")
    program = "import glob, greeting; print(greeting.WORD, len(glob.glob('data/part *.txt')))"
    spec = site.tool.spec(
        "m-files",
        strategy="single",
        command=["python3", "-c", program],
        files=[{"src": "tree", "dst": "data"}],
        python={"wheels": ["*.whl"]},
        roles={"worker": SMALL},
    )
    succeeds(site.tool, spec, "m-files")
    logs = site.tool("logs", "m-files")
    assert "hello 600" in logs.stdout, logs


def trains(site: Site) -> None:
    """`specs/multi-worker.yaml`: MultiWorkerMirroredStrategy, data and model on HDFS, accuracy
    above 0.8
    """
    environ = {
        "HADOOP_CONF_DIR": str(site.client_conf),
        "PATH": f"{site.tensorflow / 'bin'}:/usr/bin:/bin",
    }
    python = site.tensorflow / "bin/python"
    subprocess.run(
        [python, SPECS / "digits/put_digits.py", DATA],
        env=environ,
        check=True,
        timeout=120,
        capture_output=True,
    )
    command = json.dumps(
        [
            "python",
            "train.py",
            "--data",
            DATA,
            "--output",
            "hdfs:///models/m-digits",
            "--epochs",
            "6",
        ]
    )
    succeeds(
        site.tool,
        SPECS / "multi-worker.yaml",
        "m-digits",
        "--set",
        f"command={command}",
        timeout_s=2 * JOB_S,
    )
    read = (
        "import fsspec; "
        "print(fsspec.open('hdfs:///models/m-digits/metrics.json').open().read().decode())"
    )
    metrics = subprocess.run(
        [python, "-c", read], env=environ, check=True, timeout=120, capture_output=True, text=True
    )
    assert json.loads(metrics.stdout)["val_accuracy"] > 0.8, metrics.stdout


CHECKS: tuple[Callable[[Site], None], ...] = (
    custom,
    multi_worker,
    worker_fails,
    parameter_server,
    stopped,
    detached,
    survives,
    own_fault,
    elastic,
    fewer,
    saves,
    too_large,
    files,
    trains,
)


def succeeds(tool: Tool, spec: Path, name: str, *more: str, timeout_s: float = JOB_S) -> None:
    """Submit a job and assert that YARN and its report say that it succeeded, and that nothing of it is
    left.
    """
    if name not in tool.jobs:
        tool.jobs.append(name)
    done = tool("submit", spec, "--name", name, "-o", "json", *more, timeout=timeout_s)
    assert done.status == 0, (done.status, done.stderr, done.stdout)
    result = done.json
    assert (result["state"], result["confirmed"], result["reason"]) == ("SUCCEEDED", True, ""), (
        result
    )
    assert result["tasks"]["missing"] == [], result
    gone(name)


def run_cluster(
    cluster: Cluster, environ: Mapping[str, str], tensorflow: Path, say: Callable[[str], None]
) -> dict[str, Cell]:
    """Run every check on one cluster; a check that fails does not keep the next ones from being
    run.
    """
    cells: dict[str, Cell] = {}
    checks = [check for check in CHECKS if cluster.trains or check is not trains]
    start = time.monotonic()
    try:
        with up(cluster, environ, tensorflow) as site:
            say(f"{cluster.title}: up after {time.monotonic() - start:.0f} s")
            for check in checks:
                cells[check.__name__] = cell = run_check(check, site)
                say(
                    f"{cluster.title}: {check.__name__}: "
                    f"{'ok' if cell.ok else 'FAILED: ' + cell.note} ({cell.seconds:.0f} s)"
                )
    except Exception as error:  # noqa: BLE001 - the next cluster is still to be run
        say(f"{cluster.title}: {error}")
        for check in checks:
            cells.setdefault(check.__name__, Cell(False, f"the sandbox: {error}"))
    return cells


def run_check(check: Callable[[Site], None], site: Site) -> Cell:
    """Run one check in a directory of its own, and delete its jobs."""
    start = time.monotonic()
    directory = site.tool.cwd / check.__name__
    directory.mkdir()
    site = replace(site, tool=replace(site.tool, cwd=directory))
    try:
        check(site)
    except Exception as error:  # noqa: BLE001 - every kind of failure is a result here
        note = f"{type(error).__name__}: {error}"
        return Cell(
            False,
            note if len(note) < 800 else f"{note[:400]} ... {note[-400:]}",
            time.monotonic() - start,
        )
    finally:
        while site.tool.jobs:
            site.tool("delete", site.tool.jobs.pop(), "--force", timeout=JOB_S)
    return Cell(True, seconds=time.monotonic() - start)


@contextmanager
def up(cluster: Cluster, environ: Mapping[str, str], tensorflow: Path) -> Iterator[Site]:
    """Start a sandbox as users do, and take it down whatever happens."""
    name = f"matrix-{cluster.title.replace('.', '').replace(' ', '-')}"
    words = [
        "up",
        "--name",
        name,
        "--hadoop",
        cluster.hadoop,
        "--resolver",
        cluster.resolver,
        "--container-path",
        str(tensorflow / "bin"),
    ]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "submit_tf_job", "sandbox", *words, "-o", "json"],
            env=environ,
            timeout=UP_S,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-1500:])
        with tempfile.TemporaryDirectory() as directory:
            info = json.loads(done.stdout)
            yield Site(
                Tool(environ, info["profile"], Path(directory)),
                cluster.hadoop,
                Path(info["client_conf"]),
                info["rm_url"],
                tensorflow,
            )
    finally:
        down = [sys.executable, "-m", "submit_tf_job", "sandbox", "down", "--name", name]
        subprocess.run(down, env=environ, timeout=DOWN_S, check=False)
