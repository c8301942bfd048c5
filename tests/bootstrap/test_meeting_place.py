"""Tasks that find the deciding one on HDFS, without Registry DNS."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from tests.bootstrap.harness import FOREVER, UNTIL_GO, Cluster, pair, role
from tests.world.web_hdfs import WebNameNode, web_name_node

NAMELESS = {contract.ENV_HOSTNAME: ""}
SHOW = 'echo "$TF_CONFIG $TFJOB_ADDRESS"'


@pytest.fixture
def name_node() -> Iterator[WebNameNode]:
    with web_name_node() as made:
        yield made


def nameless(
    job: Cluster, name_node: WebNameNode, roles: dict[str, Any], *, dns: bool = False
) -> str:
    """Describe a job whose tasks meet on HDFS; return the directory."""
    meeting = {
        "protocol": "http",
        "addresses": ["127.0.0.1:1", name_node.address],
        "path": "/user/alice/rendezvous/mnist",
        "user": "alice",
        "dns": dns,
    }
    server = job.dns.address if dns else None
    job.job(roles, meeting=meeting, dns_server=server)
    return f"{meeting['path']}/{job.task['run']}"


def test_tasks_meet_without_names_with_addresses(any_job: Cluster, name_node: WebNameNode) -> None:
    job = any_job
    place = nameless(job, name_node, pair(SHOW, workers=2))
    job.start(env=NAMELESS)
    assert set(job.wait_all().values()) == {0}
    ports = job.ports()
    for name in job.names():
        text, _, address = job.stdout(name).strip().rpartition(" ")
        cluster = json.loads(text)["cluster"]
        assert cluster["chief"] == [f"127.0.0.1:{ports['chief-0']}"]
        assert cluster["worker"] == [f"127.0.0.1:{ports[f'worker-{i}']}" for i in (0, 1)]
        assert address == cluster["chief"][0]
    assert f"{place}/1_127.0.0.1" in name_node.directories
    assert {user for _, _, user in name_node.asked} == {"alice"}
    assert job.dns.asked == []


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this system has no IPv6")
@pytest.mark.parametrize("by", ["names", "HDFS"])
def test_tasks_meet_where_names_have_ipv6_addresses_alone(any_job: Cluster, by: str) -> None:
    """Loopback has IPv4 here, as on most hosts of a network without it."""
    job, roles = any_job, pair(SHOW, workers=2)
    job.dns.address_of_all = "::1"
    with web_name_node("::1") as name_node:
        if by == "names":
            job.job(roles, tf_config="addresses")
            job.start()
        else:
            place = nameless(job, name_node, roles)
            job.task["meeting"]["addresses"] = [name_node.address]
            job.start(env=NAMELESS)
        assert set(job.wait_all().values()) == {0}
        if by == "HDFS":
            first = f"[::1]:{job.ports()['chief-0']}"
            assert {job.stdout(name).split()[-1] for name in job.names()} == {first}
            assert f"{place}/1_--1" in name_node.directories


def test_job_of_one_task_has_an_address_without_hdfs(job: Cluster, name_node: WebNameNode) -> None:
    nameless(job, name_node, {"worker": role(1, "trains", SHOW)})
    job.start(env=NAMELESS)
    assert job.wait("worker-0") == 0
    assert job.stdout("worker-0").strip() == f"127.0.0.1:{job.ports()['worker-0']}"
    assert name_node.asked == []


def test_the_entry_of_a_former_container_is_replaced(job: Cluster, name_node: WebNameNode) -> None:
    place = nameless(job, name_node, pair("true"))
    former = f"{place}/7_127.0.0.99"  # nobody listens there
    name_node.answer("PUT", f"/webhdfs/v1{former}?op=MKDIRS")
    job.start("worker-0", env=NAMELESS)
    job.until(lambda: ("GET", "LISTSTATUS", "alice") in name_node.asked)
    job.start("chief-0", env=NAMELESS)
    assert set(job.wait_all().values()) == {0}
    entries = {path for path in name_node.directories if path.startswith(f"{place}/")}
    assert entries == {f"{place}/8_127.0.0.1"}


def test_tasks_wait_for_a_name_node_that_fails_over(job: Cluster, name_node: WebNameNode) -> None:
    nameless(job, name_node, pair("true"))
    name_node.fault = (403, "StandbyException")
    job.start(env=NAMELESS)
    job.until(lambda: len(name_node.asked) > 4)
    name_node.fault = None
    assert set(job.wait_all().values()) == {0}


def test_tasks_wait_while_another_server_answers(any_job: Cluster, name_node: WebNameNode) -> None:
    """A proxy or a login page answers 200, and not as WebHDFS does."""
    job = any_job
    nameless(job, name_node, pair("true"))
    name_node.fault = (200, "a page")
    job.start("worker-0", env=NAMELESS)
    job.until(lambda: name_node.asked.count(("GET", "LISTSTATUS", "alice")) > 1)
    job.start("chief-0", env=NAMELESS)
    job.until(lambda: "what answers is not WebHDFS" in json.dumps(job.report().get("warnings")))
    name_node.fault = None
    assert set(job.wait_all().values()) == {0}
    assert "Traceback" not in job.stderr("chief-0") + job.stderr("worker-0")


def test_address_that_cannot_be_written_ends_the_job(job: Cluster, name_node: WebNameNode) -> None:
    nameless(job, name_node, pair(FOREVER))
    name_node.fault = (403, "AccessControlException")
    job.start("chief-0", env=NAMELESS)
    assert job.wait("chief-0") == contract.EXIT_BOOTSTRAP_ERROR
    message = job.outcome("chief-0")["message"]
    assert "the address of this task cannot be written for the others" in message
    assert "AccessControlException: said" in message


def test_task_that_finds_nobody_says_where_it_looked(job: Cluster, name_node: WebNameNode) -> None:
    place = nameless(job, name_node, pair(FOREVER))
    job.task["start_timeout_s"] = 1
    job.start("worker-0", env=NAMELESS)
    assert job.wait("worker-0") == contract.EXIT_PEERS_MISSING
    said = f"chief-0 has not written its address to {place} yet"
    assert said in job.outcome("worker-0")["message"]


def test_running_job_goes_on_when_hdfs_is_gone(job: Cluster, name_node: WebNameNode) -> None:
    nameless(job, name_node, pair(UNTIL_GO))
    job.start(env=NAMELESS)
    job.started("chief-0", "worker-0")
    name_node.fault = (500, "IOException")
    name_node.directories.clear()
    job.succeeds()


@pytest.mark.parametrize("answers", ["dns", "hdfs"])
def test_auto_finds_the_deciding_task_by_what_answers(
    job: Cluster, name_node: WebNameNode, answers: str
) -> None:
    roles = pair(SHOW)
    nameless(job, name_node, roles, dns=True)
    if answers == "hdfs":
        job.dns.hidden = {"chief-0", "worker-0"}
    else:
        name_node.fault = (403, "AccessControlException")
    job.start()
    assert set(job.wait_all().values()) == {0}
    if answers == "hdfs":
        assert f"127.0.0.1:{job.ports()['chief-0']}" in job.stdout("worker-0")


@pytest.mark.parametrize(("command", "state"), [("true", "succeeded"), ("exit 3", "failed")])
def test_the_deciding_task_leaves_its_last_report_beside_the_record(
    any_job: Cluster, name_node: WebNameNode, command: str, state: str
) -> None:
    path = "/user/alice/staging/records/mnist/mnist-4k3f7qa2.report"
    rule = {"protocol": "http", "addresses": [name_node.address], "path": path, "user": "alice"}
    roles = pair(command, "true")
    any_job.job(roles, record=rule)
    any_job.start()
    any_job.wait_all()
    report = json.loads(name_node.files[path])
    assert (report["state"], report["run"]) == (state, any_job.task["run"])


def test_a_name_node_that_hangs_does_not_hold_the_end_of_a_job(job: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        rule = {"protocol": "http", "addresses": [address], "path": "/x", "user": "alice"}
        job.job({"worker": role(1, "trains", "true")}, record=rule)
        job.start()
        assert job.wait("worker-0") == 0
