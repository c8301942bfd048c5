"""The sandbox with Docker: the acceptance job on a bridge, small ones on other networks, and what
goes wrong with containers.

Everything runs at once on one cluster, so that one waits for all of it only once. What a
NodeManager refuses is asked for by a service that this tool would not post, and the tool's own
diagnosis reads what the ApplicationMaster wrote of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.diagnose.evidence import by_container, by_program, by_yarn
from submit_tf_job.yarn.amlog import ContainerEnd, container_ends
from tests.cluster.calls import call, until
from tests.cluster.conftest import (
    SPECS,
    DockerCluster,
)
from tests.hdfs import Hdfs
from tests.tool import (
    Result,
    Tool,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine"),
]

SMALL = {"memory": "256Mi"}
AT_ONCE = 3  # jobs: the machine has two cores, and each ApplicationMaster is a Java of its own
AGAIN = "again"  # YARN starts it once more, in the same container
LONG = "c" * 43  # with everything behind it 68 characters
# arguments past YARN, without a shell
RAW = ("three short words", "$HOME", "${COMPONENT_ID}", "it's", "--x=1;2")
MISSING = "localhost:1/nope:1"  # a registry that refuses at once
FINDLESS = "local/findless:1"

# Component -> image, command, network, further environment of YARN's, and what is found: status,
# code, words of the sentence.
ROWS: dict[str, tuple[str, str, str, dict[str, str], int, str, str]] = {
    "missing": (MISSING, "true", "bridge", {}, 7, "image-not-pulled", MISSING),
    "bashless": ("local/bashless:1", "true", "bridge", {}, 7, "image-without-bash", "no bash"),
    "misnamed": ("Local/Base:1", "true", "bridge", {}, -1, "image-name-invalid", "Local/Base:1"),
    "untrusted": (
        "untrusted/base:1",
        "true",
        "bridge",
        {},
        127,
        "image-not-trusted",
        "untrusted/base:1",
    ),
    "secret": (
        "",
        "true",
        "bridge",
        {"MOUNTS": "/etc/shadow:/x:ro"},
        29,
        "mount-refused",
        "/etc/shadow",
    ),
    "writes": (
        "",
        "true",
        "bridge",
        {"MOUNTS": "/etc/passwd:/x:rw"},
        29,
        "mount-refused",
        "/etc/passwd",
    ),
    "nowhere": (
        "",
        "true",
        "bridge",
        {"MOUNTS": "/no/where:/x:ro"},
        29,
        "mount-missing",
        "/no/where",
    ),
    "garbled": ("", "true", "bridge", {"MOUNTS": "abc"}, -1, "mount-invalid", "abc"),
    "foreign": ("", "true", "foo", {}, -1, "network-refused", "foo"),
    LONG: ("", "true", "bridge", {}, -1, "host-name-too-long", "64 characters"),
    "mighty": (
        "",
        "true",
        "bridge",
        {"RUN_PRIVILEGED_CONTAINER": "true"},
        -1,
        "privileged-refused",
        "privileged",
    ),
    "kata": ("", "true", "bridge", {"RUNTIME": "kata"}, -1, "runtime-refused", "kata"),
    "hungry": (
        "",
        # NodeManagers of busy machines take their time
        "exec python3 -c 'held = bytearray(600 << 20); import time; time.sleep(600)'",
        "host",
        {},
        -104,
        "out-of-memory",
        "of the 128 MB",
    ),
    "unheard": ("", "nosuchcommand", "bridge", {}, 127, "command-not-found", "nosuchcommand"),
    "killed": ("", "python3 -c 'import os; os.kill(os.getpid(), 9)'", "jobs", {}, 137, "", ""),
    "entered": ("", 'bash -c "exit 5"', "bridge", {"RUN_OVERRIDE_DISABLE": "true"}, 5, "", ""),
    AGAIN: ("", "test -e /tmp/been || { touch /tmp/been; exit 3; }", "bridge", {}, 0, "", ""),
    "toolless": (FINDLESS, "true", "bridge", {}, 127, "image-without-tools", "no find"),
}
WORDS, TWICE = "hdfs:///tmp/words.txt", "hdfs:///tmp/twice"
FILL = "open('/dev/shm/batch', 'wb').write(bytes(128 << 20))"  # Docker gives it 64 MB
LOOK = (
    "import json, os, socket; cluster = json.loads(os.environ['TF_CONFIG'])['cluster'];"
    " print('MET', *[socket.gethostbyname(a.rpartition(':')[0]) for peers in "
    "cluster.values() for a in peers]);"
    " import fsspec; path = 'hdfs:///tmp/' + socket.gethostname(); fsspec.open(path, "
    "'wb').open().close();"
    " print('WROTE', fsspec.open(path).open().read());"
    " print('AM', os.getuid(), os.environ['HADOOP_USER_NAME'], "
    "os.environ.get('NVIDIA_VISIBLE_DEVICES'))"
)


def component(
    name: str, image: str, command: str, network: str, extra: dict[str, str]
) -> dict[str, Any]:
    """One component of the service that fails in every way."""
    prefix = "YARN_CONTAINER_RUNTIME_DOCKER_"
    env = {
        f"{prefix}CONTAINER_NETWORK": network,
        **{prefix + key: value for key, value in extra.items()},
    }
    return {
        "name": name,
        "number_of_containers": 1,
        "restart_policy": "ON_FAILURE" if name == AGAIN else "NEVER",
        "artifact": {"id": image or "submit_tf_job/base:1", "type": "DOCKER"},
        "launch_command": command,
        "resource": {"cpus": 1, "memory": "128"},
        "configuration": {"env": env},
    }


def run_rows(cluster: DockerCluster) -> dict[str, ContainerEnd]:
    """Post the service, wait for its end, and read how its containers ended."""
    info = cluster
    components = [component(name, *row[:4]) for name, row in ROWS.items()]
    service = {"name": "rows", "version": "1", "lifetime": 600, "components": components}
    status, answer = call("POST", f"{info.rm_url}/app/v1/services?user.name={info.user}", service)
    assert status == 202, answer
    apps = f"{info.rm_url}/ws/v1/cluster/apps"
    app = until(
        lambda: next(
            (app for app in call("GET", apps)[1]["apps"]["app"] if app["name"] == "rows"), None
        )
    )
    until(lambda: call("GET", f"{apps}/{app['id']}")[1]["app"]["state"] == "FINISHED", 200)
    (log,) = (info.home / "run" / "nm-log" / app["id"]).glob("*/serviceam.log")
    node = call("GET", f"{info.nm_url}/ws/v1/node/info")[1]["nodeInfo"]
    assert node["nodeHealthy"], "no status of theirs makes the node ill"
    return {end.task.rpartition("-")[0]: end for end in container_ends(log.read_text())}


def explain(end: ContainerEnd) -> Any:
    """Say why, as the diagnosis of a job would."""
    return (
        by_yarn(end, 128)
        or by_container(end)
        or by_program(end.task, end.status, end.diagnostics)[0]
    )


def ask_every_verb(tool: Tool, cluster: DockerCluster) -> dict[str, tuple[int, str]]:
    """Run a job whose image swallows the command, and ask every verb how it ended: at once, and
    when its logs are collected.
    """
    spec = tool.spec(
        "swallowed",
        image="submit_tf_job/no-exec:1",
        strategy="single",
        command="true",
        roles={"worker": SMALL},
    )
    accepted = tool("submit", spec, "--detach", "-o", "json")
    assert accepted.status == 0, accepted.stderr
    app_id = accepted.json["application_id"]
    url = f"{cluster.rm_url}/ws/v1/cluster/apps/{app_id}"
    until(lambda: call("GET", url)[1]["app"]["state"] == "FINISHED", 200)
    found: dict[str, tuple[int, str]] = {}

    def ask(moment: str, verb: str, *words: object) -> None:
        done = tool(verb, *words, "-o", "json", timeout=400)
        assert done.stdout, done.stderr
        assert done.stdout, done.stderr
        found[f"{verb} {moment}"] = (done.status, done.json["state"])

    for verb in ("status", "describe"):
        ask("at once", verb, "swallowed")
    ask("to the end", "wait", "swallowed")
    until(lambda: call("GET", url)[1]["app"]["logAggregationStatus"] == "SUCCEEDED", 200)
    for verb in ("status", "describe", "wait"):
        ask("later", verb, app_id)
    ask("again", "submit", spec)
    return found


@pytest.fixture(scope="module")
def tools(
    docker_cluster: DockerCluster,
    session_environ: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Tool]:
    """The tool, with a profile for each network; its jobs go with the cluster."""
    return {
        name: Tool(session_environ, docker_cluster.profiles[name], tmp_path_factory.mktemp(name))
        for name in ("bridge", "host", "jobs")
    }


@pytest.fixture(scope="module")
def started(
    docker_cluster: DockerCluster, tools: dict[str, Tool]
) -> Iterator[dict[str, Future[Any]]]:
    """Start everything."""
    pair: dict[str, Any] = {
        "strategy": "multi-worker",
        "command": ["python", "-c", LOOK],
        "roles": {"chief": SMALL, "worker": {**SMALL, "gpus": 1}},
    }
    pair["hadoop"] = {"conf": "inline"}
    waits = "trap 'echo told to stop; exit 0' TERM; echo ready; while :; do sleep 0.2; done"
    stops = {"strategy": "single", "command": ["bash", "-c", waits], "roles": {"worker": SMALL}}
    copies: dict[str, Any] = {
        "strategy": "single",
        "command": "cat $TFJOB_INPUT_WORDS $TFJOB_INPUT_WORDS > $TFJOB_OUTPUT_TWICE/words.txt",
    }
    copies |= {"roles": {"worker": SMALL}, "inputs": {"words": {"uri": WORDS, "download": True}}}
    copies |= {"outputs": {"twice": {"uri": TWICE, "upload": True}}}
    fills: dict[str, Any] = {
        "strategy": "single",
        "command": ["python", "-c", FILL],
        "roles": {"worker": {"memory": "512Mi"}},
    }
    bridge, host, jobs = tools["bridge"], tools["host"], tools["jobs"]
    Hdfs(docker_cluster).write("/tmp/words.txt", b"to be ")

    def submit(tool: Tool, spec: Path, *words: str) -> Result:
        return tool("submit", spec, *words, "-o", "json", timeout=400)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            "trains": pool.submit(
                submit, bridge, SPECS / "parameter-server.yaml", "--name", "trains"
            ),
            "rows": pool.submit(run_rows, docker_cluster),
            "host": pool.submit(submit, host, host.spec("on-host", **pair)),
            "jobs": pool.submit(submit, jobs, jobs.spec("on-jobs", **pair)),
            "stops": pool.submit(submit, bridge, bridge.spec("stops", **stops), "--detach"),
            "copies": pool.submit(submit, bridge, bridge.spec("copies", **copies)),
            "fills": pool.submit(submit, bridge, bridge.spec("fills", **fills)),
            "unpulled": pool.submit(
                submit, bridge, bridge.spec("unpulled", **{**pair, "image": MISSING})
            ),
        }


def test_chief_workers_and_parameter_servers_train_in_containers(
    started: dict[str, Future[Any]],
) -> None:
    done = started["trains"].result()
    assert done.status == 0, (done.stderr, done.json["failure"], done.json["root_cause"])
    assert done.json["warnings"] == [], "it ran in its image"
    assert (done.json["state"], done.json["confirmed"], done.json["tasks"]["missing"]) == (
        "SUCCEEDED",
        True,
        [],
    )


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


def test_an_image_that_is_not_there_is_the_root_cause(started: dict[str, Future[Any]]) -> None:
    done = started["unpulled"].result()
    assert done.status == 1, done.stderr
    cause = done.json["root_cause"]
    assert (cause["code"], cause["status"], cause["host"]) == (
        "image-not-pulled",
        7,
        "localhost",
    ), cause
    assert MISSING in cause["sentence"]


def test_an_image_that_swallows_the_command_has_one_verdict(
    tools: dict[str, Tool], docker_cluster: DockerCluster
) -> None:
    found = ask_every_verb(tools["bridge"], docker_cluster)
    looks = {
        name: found.pop(name) for name in list(found) if name.startswith(("status", "describe"))
    }
    assert set(found.values()) == {(1, "FAILED")}, found
    assert {looks[name] for name in looks if name.endswith("later")} == {(0, "FAILED")}, looks
    assert set(looks.values()) <= {(0, "FAILED"), (0, "FINISHING")}, looks


@pytest.mark.parametrize("name", list(ROWS))
def test_what_goes_wrong_with_a_container_is_explained(
    started: dict[str, Future[Any]], name: str
) -> None:
    *_, status, code, words = ROWS[name]
    end = started["rows"].result()[name]
    assert end.status == status, end
    finding = explain(end)
    if code:
        assert finding is not None, end
        assert (finding.code, words in finding.sentence) == (code, True), (finding, end)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"image": "Local/Base:1"}, "is not an image name that YARN accepts"),
        ({"mounts": ["/no,where:/x"]}, "comma"),
        ({"mounts": ["/etc/shadow:/x"]}, "/etc/shadow"),
        ({"mounts": ["/etc/passwd:/x:rw"]}, "/etc/passwd"),
        ({"network": "foo"}, "host, bridge, none, jobs"),
        (
            {"roles": {"worker": {**SMALL, "gpus": 3}}},
            "3 is more than the 2 yarn.io/gpu one container may have here",
        ),
    ],
)
def test_what_no_node_would_take_is_not_posted(
    tools: dict[str, Tool], content: dict[str, Any], words: str
) -> None:
    tool = tools["bridge"]
    spec = {"strategy": "single", "command": "true", "roles": {"worker": SMALL}, **content}
    done = tool("submit", tool.spec(spec.pop("name", "refused"), **spec))
    assert done.status not in (0, 1), done
    assert words in done.stderr, done.stderr


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
    cause = done.json["root_cause"]
    assert (done.status, cause["code"], cause["status"]) == (1, "docker-unreachable", 29), cause
    assert docker_cluster.heal() == ["dockerd"]
    assert docker_cluster.status()["state"] == "up"
