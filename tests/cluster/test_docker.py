"""The sandbox with Docker: jobs on each network, and what goes wrong with containers.

What a NodeManager refuses is told by recorded texts (tests/scenarios/test_why_failed.py).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests import clusters
from tests.cluster.conftest import DockerCluster
from tests.gateways import unused_port
from tests.hdfs import Hdfs
from tests.tool import SUBMIT_S, Result, Tool, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine"),
]

SMALL = {"memory": "256Mi"}
AT_ONCE = 3  # jobs: the machine has two cores, and each ApplicationMaster is a Java of its own
MISSING = "localhost:1/nope:1"  # a registry that refuses at once
SWALLOWS = "submit_tf_job/no-exec:1"  # its entry point does not run its arguments
# Job -> its keys, and what is found: status, code, words of the sentence.
CAUSES: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "unpulled": ({"image": MISSING}, 7, "image-not-pulled", MISSING),
    "bashless": ({"image": "local/bashless:1"}, 7, "image-without-bash", "no bash"),
    "toolless": ({"image": "local/findless:1"}, 127, "image-without-tools", "no find"),
    "hungry": (
        {"command": ["python3", "-c", "held = bytearray(600 << 20); import time; time.sleep(600)"]},
        -104,
        "out-of-memory",
        "of the 256 MB",
    ),
}
WORDS, TWICE = "hdfs:///tmp/words.txt", "hdfs:///tmp/twice"
LOOK = """
import fsspec, json, os, socket
peers = [peer for role in json.loads(os.environ['TF_CONFIG'])['cluster'].values() for peer in role]
print('MET', *[socket.gethostbyname(peer.rpartition(':')[0]) for peer in peers])
path = 'hdfs:///tmp/' + socket.gethostname()
fsspec.open(path, 'wb').open().close()
print('WROTE', fsspec.open(path).open().read())
gpus = os.environ.get('NVIDIA_VISIBLE_DEVICES')
print('AM', os.getuid(), os.environ['HADOOP_USER_NAME'], gpus)
"""


@pytest.fixture(scope="module")
def tools(
    docker_cluster: DockerCluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Tool]:
    """The tool, with a profile for each network; its jobs go with the cluster."""
    return {
        name: Tool(
            clusters.environment(), docker_cluster.profiles[name], tmp_path_factory.mktemp(name)
        )
        for name in ("bridge", "host", "jobs")
    }


@pytest.fixture(scope="module")
def started(
    docker_cluster: DockerCluster, tools: dict[str, Tool]
) -> Iterator[dict[str, Future[Any]]]:
    """Start everything."""
    one: dict[str, Any] = {"strategy": "single", "command": "true", "roles": {"worker": SMALL}}
    roles = {"chief": SMALL, "worker": {**SMALL, "gpus": 1}}
    pair: dict[str, Any] = {
        "strategy": "multi-worker",
        "roles": roles,
        "hadoop": {"conf": "inline"},
    }
    pair["command"] = ["python", "-c", LOOK]
    waits = "trap 'echo told to stop; exit 0' TERM; echo ready; while :; do sleep 0.2; done"
    twice = "cat $TFJOB_INPUT_WORDS $TFJOB_INPUT_WORDS > $TFJOB_OUTPUT_TWICE/words.txt"
    inputs = {"words": {"uri": WORDS, "download": True}}
    copies: dict[str, Any] = {
        "command": twice,
        "inputs": inputs,
        "outputs": {"twice": {"uri": TWICE, "upload": True}},
    }
    Hdfs(docker_cluster).write("/tmp/words.txt", b"to be ")
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def submit(name: str, *words: str, on: str = "bridge", **keys: Any) -> Future[Result]:
            spec = tools[on].spec(name, **{**one, **keys})
            return pool.submit(tools[on], "submit", spec, *words, "-o", "json", timeout=SUBMIT_S)

        yield {
            "host": submit("on-host", on="host", **pair),
            "jobs": submit("on-jobs", on="jobs", **pair),
            "stops": submit("stops", "--detach", command=["bash", "-c", waits]),
            "copies": submit("copies", **copies),
            "swallowed": submit("swallowed", image=SWALLOWS),
            **{name: submit(name, **keys) for name, (keys, *_) in CAUSES.items()},
        }


def test_inputs_and_outputs_in_a_container(
    started: dict[str, Future[Any]], docker_cluster: DockerCluster
) -> None:
    done = started["copies"].result()
    assert done.status == 0, done.stderr
    assert Hdfs(docker_cluster).read("/tmp/twice/words.txt") == b"to be to be "


@pytest.mark.parametrize("network", ["host", "jobs"])
def test_tasks_meet_on_every_network_as_nobody_with_their_gpus(
    started: dict[str, Future[Any]], tools: dict[str, Tool], network: str
) -> None:
    done = started[network].result()
    assert done.status == 0, done.stderr
    logs = tools[network]("logs", f"on-{network}").stdout
    met = [line.split("MET ")[1].split() for line in logs.splitlines() if "MET " in line]
    assert len(met) == 2, logs
    assert all(len(addresses) == 2 for addresses in met)
    assert all(
        (address == "127.0.0.1") is (network == "host")
        for addresses in met
        for address in addresses
    )
    assert logs.count("WROTE b''") == 2, "HDFS is reached from every network"
    seen = {
        line.split()[0]: line.split("AM ")[1].split() for line in logs.splitlines() if "AM " in line
    }
    assert seen["chief-0"][::2] == ["65534", "None"]
    assert seen["worker-0"][0] == "65534"
    assert seen["worker-0"][2] in ("0", "1"), "one of the two devices is its own"


@pytest.mark.parametrize("name", CAUSES)
def test_why_a_container_failed(
    started: dict[str, Future[Any]], tools: dict[str, Tool], name: str
) -> None:
    done = started[name].result()
    _keys, status, code, words = CAUSES[name]
    assert done.status == 1, done.stderr
    cause = tools["bridge"].root_cause(name)
    assert (cause["code"], cause["status"], cause["host"]) == (code, status, "localhost"), cause
    assert words in cause["sentence"]


def test_an_image_that_swallows_the_command_has_failed(
    started: dict[str, Future[Any]], tools: dict[str, Tool]
) -> None:
    done = started["swallowed"].result()
    assert (done.status, done.json["yarn"]["final_status"]) == (1, "SUCCEEDED")
    assert tools["bridge"].root_cause("swallowed")["code"] == "command-never-ran"


def test_a_job_is_told_to_stop(
    started: dict[str, Future[Any]], tools: dict[str, Tool], docker_cluster: DockerCluster
) -> None:
    assert started["stops"].result().status == 0
    tool = tools["bridge"]
    until(lambda: "ready" in tool("logs", "stops").stdout)
    (task,) = tool("describe", "stops", "-o", "json").json["task_list"]
    assert task["container_id"] in docker_cluster.docker("ps", "--format", "{{.Names}}")
    assert tool("stop", "stops").status == 0
    assert "told to stop" in until(
        lambda: (logs := tool("logs", "stops").stdout) and "told" in logs and logs
    )
    assert until(
        lambda: task["container_id"] not in docker_cluster.docker("ps", "--format", "{{.Names}}")
    )


def test_a_published_port_is_linked_where_it_is_reached(tools: dict[str, Tool]) -> None:
    tool, port = tools["bridge"], unused_port()
    board = {
        "command": "exec python3 -m http.server 6006",
        "ports": {"http": 6006, "other": 6007},
        "docker": {"publish": [f"{port}:6006"]},
    }
    roles = {"chief": {**SMALL, "command": "sleep 600"}, "board": {**SMALL, **board}}
    assert (
        tool("submit", tool.spec("served", strategy="single", roles=roles), "--detach").status == 0
    )
    tool.until("served", lambda seen: seen["state"] == "RUNNING")
    links = until(lambda: tool("describe", "served", "-o", "json").json["links"])
    by_name = {link["name"]: link for link in links}
    assert (by_name["http"]["url"], by_name["http"]["via"]) == (f"http://localhost:{port}", None)
    assert (by_name["other"]["url"].startswith("http://172.30."), by_name["other"]["via"]) == (
        True,
        "localhost",
    )
    until(lambda: tool("open", "served", "board", "--port", "http", "-o", "json").json["reachable"])
    assert tool("stop", "served").status == 0


@pytest.mark.long
def test_stop_names_a_container_that_ignores_its_stop_signal(
    tools: dict[str, Tool], docker_cluster: DockerCluster
) -> None:
    tool = tools["bridge"]
    one = {"strategy": "single", "command": "sleep 900", "roles": {"worker": SMALL}}
    spec = tool.spec("stubborn", image="local/immortal:1", **one)
    assert tool("submit", spec, "--detach").status == 0
    tool.until("stubborn", lambda seen: seen["state"] == "RUNNING")
    stopped = tool("stop", "stubborn", "-o", "json")
    assert stopped.status == 8, stopped
    error = json.loads(stopped.stderr[stopped.stderr.index("{") :])
    assert (error["code"], [one["state"] for one in error["details"]["containers"]]) == (
        "deadline-passed",
        ["KILLING"],
    )
    assert error["details"]["containers"][0]["id"] in error["message"]
    left = docker_cluster.docker("ps", "-q", "--filter", "name=container_").split()
    assert left
    docker_cluster.docker("kill", *left)
    assert tool("stop", "stubborn").status == 0


@pytest.mark.alone
def test_a_node_whose_docker_is_down(
    started: dict[str, Future[Any]], tools: dict[str, Tool], docker_cluster: DockerCluster
) -> None:
    for future in started.values():
        future.result()
    tool = tools["bridge"]
    os.kill(docker_cluster.pid_of("dockerd"), signal.SIGTERM)
    until(lambda: docker_cluster.status()["state"] == "degraded")
    done = tool(
        "submit",
        tool.spec("dockerless", strategy="single", command="true", roles={"worker": SMALL}),
        "-o",
        "json",
    )
    assert done.status == 1, done
    cause = tool.root_cause("dockerless")
    assert (cause["code"], cause["status"]) == ("docker-unreachable", 29), cause
    assert docker_cluster.heal() == ["dockerd"]
    assert docker_cluster.status()["state"] == "up"
