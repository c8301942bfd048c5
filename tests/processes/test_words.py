"""What the command line says of a job, asked of a fake cluster behind a real socket."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.yarn.auth import SimpleAuth
from submit_tf_job.yarn.records import Configuration, dumps
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.builders.command_line import Cli, Done
from tests.builders.services import service_of
from tests.world.served import Served, served_cluster

CONTAINER = "container_1700000000000_0001_01_{:06}"


class World:
    """A job `line` of alice with some workers, of which worker-0 decides."""

    def __init__(self, served: Served, cli: Cli) -> None:
        self.served, self.cluster, self._cli = served, served.cluster, cli
        self.yarn, self.clock = served.cluster.yarn, served.cluster.clock
        self.properties = {
            contract.PROPERTY_SUBMISSION: "s1",
            contract.PROPERTY_DECIDING: "worker-0",
        }

    def post(self, name: str = "line", *, workers: int = 2, ports: str = "") -> None:
        service = service_of(name, "s1", "sleep 60")
        [worker] = service.components
        more = {contract.PROPERTY_PORTS: ports} if ports else {}
        worker = replace(worker, configuration=Configuration(more))
        service = replace(
            service, components=(worker,), configuration=Configuration(self.properties)
        )
        ResourceManager([self.served.url], SimpleAuth("alice")).post_service(dumps(service))
        self.yarn.containers["worker"] = [
            {
                "id": CONTAINER.format(2 + index),
                "component_instance_name": f"worker-{index}",
                "bare_host": "node1",
                "state": "READY",
            }
            for index in range(workers)
        ]

    def starts(self) -> None:
        """Let the ApplicationMaster start."""
        self.clock.sleep(6)

    def report(self, **fields: Any) -> None:
        """Write worker-0's report."""
        now = self.clock.epoch_ms() / 1000
        told = {
            "version": 1,
            "run": "s1",
            "state": "running",
            "deciding": "worker-0",
            "wanted": 2,
            "arrived": 2,
            "updated_at": now,
            "roles": {"worker": {"wanted": 2, "arrived": 2, "running": 2}},
            **fields,
        }
        key = CONTAINER.format(2), contract.REPORT_FILE
        self.cluster.node.logs[key] = json.dumps(told).encode()

    def __call__(self, *argv: str) -> Done:
        return self._cli(*argv, "--rm", self.served.url)


@pytest.fixture
def world(cli: Cli) -> Iterator[World]:
    with served_cluster() as served:
        yield World(served, cli)


def test_a_name_that_is_nearly_a_jobs_gets_that_as_a_hint(world: World) -> None:
    world.post()
    assert "hint: did you mean line?" in world("status", "lin").err
    assert "hint: did you mean line?" in world("stop", "linee").err


def test_open_takes_the_only_role_that_serves(world: World) -> None:
    world.post(ports="http=6006")
    world.starts()
    done = world("open", "line")
    assert (done.status, done.out) == (0, "http://node1:6006\n")
    assert "try again, or: submit_tf_job tunnel line worker-0" in done.err


def test_open_without_a_role_says_that_none_serves(world: World) -> None:
    world.post()
    world.starts()
    done = world("open", "line")
    assert (done.status, done.err.splitlines()[0]) == (9, "error: no role of line serves ports")


def test_an_interrupt_tells_the_state(world: World) -> None:
    world.yarn.hold_accepted = True
    world.post()
    words = [sys.executable, "-m", "submit_tf_job", "wait", "line", "--rm", world.served.url]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as waits:
        assert waits.stderr
        assert "PENDING" in waits.stderr.readline()
        waits.send_signal(signal.SIGINT)
        said = waits.stderr.read()
    assert waits.returncode == 130
    assert "Job line is still pending. Reattach: submit_tf_job wait line" in said


STILL = {"task": "worker-1", "step": 3, "since": 1000.0}


def test_a_task_that_stands_still_is_named(world: World) -> None:
    world.post()
    world.starts()
    world.report(
        progress={"step": 40, "total": 100, "metrics": {}},
        updated_at=1190.0,
        standstill={"all": False, "count": 1, "since": 1000.0, "tasks": [STILL], "others_step": 40},
    )
    words = "worker-1 has printed nothing for 3 min, since step 3; the others are at step 40"
    status = world("status", "line")
    assert f"  standstill   {words}" in status.out.splitlines()
    assert "nothing ends such a job but `lifetime`" in status.out
    assert words in world("describe", "line").out
    assert words in world("wait", "line", "--timeout", "1s").err
    assert world("status", "line", "-o", "json").json["standstill"] == {
        "tasks": ["worker-1"],
        "count": 1,
        "since": 1000.0,
        "everything": False,
        "step": 3,
        "others_step": 40,
    }


def test_a_job_in_which_nothing_moves_says_for_how_long(world: World) -> None:
    world.post()
    world.starts()
    both = [STILL, {"task": "worker-0", "step": None, "since": 900.0}]
    world.report(
        updated_at=1000.0 + 47 * 60,
        standstill={"all": True, "count": 2, "since": 1000.0, "tasks": both, "others_step": None},
    )
    assert "no task has printed anything for 45 min" in world("status", "line").out


def test_finishing_says_for_whom_and_until_when(world: World) -> None:
    world.post()
    world.starts()
    noon = datetime.now().astimezone().replace(hour=12, minute=34)
    world.report(
        state="finishing",
        awaited={"tasks": ["worker-1"], "count": 1, "until": noon.timestamp()},
    )
    assert "  finishing    waiting for worker-1 until 12:34" in world("status", "line").out
    assert (
        "FINISHING  waiting for worker-1 until 12:34"
        in world("wait", "line", "--timeout", "1s").err
    )
    assert world("status", "line", "-o", "json").json["awaited"]["tasks"] == ["worker-1"]


def test_a_silent_application_master_is_named_and_the_rest_is_told(world: World) -> None:
    world.post()
    world.starts()
    world.report()
    world.served.silent = "/app/v1/services/"
    done = world("status", "line")
    assert (done.status, done.out.splitlines()[0].split()[:2]) == (0, ["line", "STARTING"])
    assert "the ResourceManager answers, and the ApplicationMaster does not" in done.out
    assert "No ResourceManager" not in done.out + done.err


def test_an_application_master_that_is_started_again_is_not_pending(world: World) -> None:
    world.post()
    world.starts()
    [app] = world.yarn.apps.values()
    app.state, app.attempt = "ACCEPTED", 2
    done = world("status", "line")
    assert done.out.splitlines()[1] == (
        "  its ApplicationMaster was lost, and YARN starts it again; tasks that ran go on"
    )
    assert "PENDING" not in done.out


def test_a_report_of_a_container_that_has_ended_is_not_told_as_running(world: World) -> None:
    world.post()
    world.starts()
    dead = world.yarn.containers["worker"][0]
    world.report(updated_at=world.clock.epoch_ms() / 1000 - 300)
    before = world("status", "line").out
    assert "line  RUNNING" in before, "an old report alone says nothing"
    assert re.search(r"^  worker +\d", before, re.MULTILINE)
    dead["state"] = "FAILED"
    done = world("status", "line")
    assert "line  RUNNING" not in done.out
    assert not re.search(r"^  worker +\d", done.out, re.MULTILINE), "its tasks as it saw them"
    assert world("status", "line", "-o", "json").json["roles"] == {}
    assert "the container of worker-0 has ended without a last word" in done.out


def test_a_silent_node_of_a_running_job_is_named(world: World) -> None:
    world.post()
    world.starts()
    world.report()
    world.yarn.service_state = "STABLE"
    world.served.silent = "/ws/v1/node/"
    done = world("status", "line")
    assert "line  RUNNING" in done.out
    assert "not known at this moment: how its tasks stand: " in done.out
    world.yarn.service_state = "STARTED"
    seen = world("status", "line", "-o", "json").json
    assert (seen["state"], seen["reason"][:20]) == ("STARTING", "how its tasks stand:")


def test_logs_go_on_where_a_restarted_resource_manager_lists_no_job_yet(world: World) -> None:
    world.post()
    world.starts()
    key = CONTAINER.format(2), "stdout.txt"
    world.cluster.node.logs[key] = b"before\n"
    [app] = world.yarn.apps.values()

    def restarts() -> None:
        world.cluster.rms[0].die()
        time.sleep(4)  # of our time: 40 s of the cluster's
        world.yarn.apps.clear()
        world.cluster.rms[0].come_back(alone=True)
        time.sleep(2)
        world.yarn.apps[app.id] = app
        world.cluster.node.logs[key] += b"after\n"
        time.sleep(2)
        world.yarn.end(app, "FINISHED", "SUCCEEDED")

    threading.Timer(1.5, restarts).start()
    done = world("logs", "line", "worker-0", "-f", "--no-prefix")
    assert (done.status, done.out.split()) == (0, ["before", "after"]), done.err
