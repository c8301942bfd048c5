"""Why a job failed: causes whose words are those of YARN, HDFS or TensorFlow themselves; recorded
texts of all others are in tests/scenarios/test_why_failed.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests import clusters
from tests.clusters import Cluster
from tests.tool import Result, Tool

pytestmark = pytest.mark.cluster

SMALL = {"memory": "256Mi"}
LARGE = {"memory": "1Gi"}  # TensorFlow needs half of it
OF_TENSORFLOW, TWO_OF_IT = (
    {"roles": {"worker": LARGE}},
    {"roles": {"chief": LARGE, "worker": LARGE}},
)
AT_ONCE = 6  # jobs: the machine has two cores, and each ApplicationMaster is a Java of its own
PAIR = {"strategy": "multi-worker", "roles": {"chief": SMALL, "worker": SMALL}}


def python(code: str) -> list[str]:
    return ["python3", "-c", code]


def by_role(chief: str, worker: str) -> str:
    return f"if [ $TFJOB_ROLE = worker ]; then {worker}; else {chief}; fi"


ALL_REDUCE = """
import os, time
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def step():
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([4]))


for number in range(300):
    strategy.run(step)
    if number == 3 and os.environ["TFJOB_ROLE"] == "worker":
        os._exit(0)
    time.sleep(0.1)
"""
SERVER = """
import socket, tensorflow as tf
taken = socket.socket()
taken.bind(("0.0.0.0", 0))
taken.listen()
peers = {"worker": ["localhost:%d" % taken.getsockname()[1]]}
tf.distribute.Server(peers, job_name="worker", task_index=0)
"""
MEETS = "import tensorflow as tf; tf.distribute.MultiWorkerMirroredStrategy()"
WRITES = "import fsspec; fsspec.open('hdfs:///x/y', 'wb').open()"
READS = "import fsspec; fsspec.open('hdfs:///data/nothing.npz', 'rb').open()"
WRONG_TASK = {
    "TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 3}}'
}
HDFS = {"hadoop": {"conf": "inline"}}

# name → the job spec beyond its name, the code, the task, its status, words of the sentence, words
# of the hint
CASES: dict[str, tuple[dict[str, Any], str, str, int, str, str]] = {
    "why-terminated": (
        {**PAIR, "command": by_role("sleep 3600", "kill -TERM $PPID; sleep 3600")},
        *("stopped-from-outside", "worker-0", 143, "SIGTERM", "NodeManager"),
    ),
    "why-no-library": (
        {"command": python("import library_of_the_image")},
        *("module-missing", "worker-0", 1, "library_of_the_image", "image"),
    ),
    "why-hdfs-permission": (
        {"command": python(WRITES), "env": {"HADOOP_USER_NAME": "alice"}, **HDFS},
        *("hdfs-permission", "worker-0", 1, "user alice has no WRITE access to /", "owner"),
    ),
    "why-hdfs-path": (
        {"command": python(READS), **HDFS},
        *("hdfs-path-missing", "worker-0", 1, "/data/nothing.npz", "exist"),
    ),
    "why-tf-config": (
        {"command": python(MEETS), "tf_config": "none", "env": WRONG_TASK, **OF_TENSORFLOW},
        *("tf-config-invalid", "worker-0", 1, "TF_CONFIG", "strategy"),
    ),
    "why-grpc-port": (
        {"command": python(SERVER), **OF_TENSORFLOW},
        *("port-in-use", "worker-0", 1, "in use", "$TFJOB_PORT"),
    ),
    "why-all-reduce": (
        {**PAIR, "command": "python3 all_reduce.py", "files": ["all_reduce.py"], **TWO_OF_IT},
        *("steps-differ", "chief-0", 1, "worker-0 had finished", "the same steps"),
    ),
}
# statuses that Hadoop takes for its own where a container ends with them
OF_HADOOP = (22, 24)


Outcome = tuple[Result, dict[str, Any]]  # what `submit` returned, and the root cause


@pytest.fixture(scope="module")
def outcomes(
    real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcome]]]:
    """Run all the jobs, some at once: each takes 20 s, nearly all of it waiting."""
    tool = Tool(clusters.environment(), real_cluster.profile, tmp_path_factory.mktemp("diagnosis"))
    (tool.cwd / "all_reduce.py").write_text(ALL_REDUCE)

    def run(name: str) -> Outcome:
        command = {"command": f"exit {name.rpartition('-')[2]}"}
        more = CASES[name][0] if name in CASES else command
        content = {"strategy": "single", "roles": {"worker": SMALL}, **more}
        done, cause = failed(name, content)
        if name != "why-grpc-port" and cause.get("code") == "port-in-use":
            # Ports follow from the job, and dozens of jobs share this machine: two may meet, and
            # this is the way out that is told.
            done, cause = failed(name, content)
        return done, cause

    def failed(name: str, content: dict[str, Any]) -> Outcome:
        done = tool("submit", tool.spec(name, **content), "-o", "json")
        is_explained = name in CASES and done.status == 1
        return done, tool.root_cause(name) if is_explained else {}

    with ThreadPoolExecutor(AT_ONCE) as pool:
        names = [*(f"ends-with-{status}" for status in OF_HADOOP), *reversed(CASES)]
        yield {name: pool.submit(run, name) for name in names}
        list(pool.map(lambda job: tool("delete", job, "--force"), tool.jobs))


@pytest.mark.parametrize("name", list(CASES))
def test_each_cause_is_named(outcomes: dict[str, Future[Outcome]], name: str) -> None:
    done, cause = outcomes[name].result()
    assert done.status == 1, done.stderr
    _, code, task, status, sentence, hint = CASES[name]
    assert (cause["code"], cause["task"], cause["status"]) == (code, task, status), cause
    assert sentence in cause["sentence"]
    assert hint in cause["hint"]
    assert cause["host"] == "localhost"
    assert cause["container_id"].startswith("container_")


def test_an_image_that_a_sandbox_does_not_run_is_reported_and_allowed(
    outcomes: dict[str, Future[Outcome]],
) -> None:
    failed, cause = outcomes["why-no-library"].result()
    words = (
        "worker-0 on localhost runs as a plain process of its node: the NodeManager there "
        "does not run the image"
    )
    assert [warning for warning in failed.json["warnings"] if words in warning] == []
    assert cause["facts"]["code"] == "module-missing"
    assert "this sandbox has no Docker, and the image is not used" in cause["hint"]


def test_node_is_healthy_after_statuses_that_hadoop_takes_for_its_own(
    outcomes: dict[str, Future[Outcome]], real_cluster: Cluster
) -> None:
    for status in OF_HADOOP:
        done, _ = outcomes[f"ends-with-{status}"].result()
        assert (done.status, done.json["failure"]["status"]) == (1, status), done
    node = requests.get(f"{real_cluster.nm_url}/ws/v1/node/info", timeout=30).json()["nodeInfo"]
    assert node["nodeHealthy"], node
