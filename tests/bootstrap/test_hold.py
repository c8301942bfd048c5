"""`hold_on_failure`: the container of the first failure stays, and the verdict does not wait."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.bootstrap.harness import FOREVER, WITNESS, Cluster, pair, role

FAIL = "echo failing; exit 7"
HOLD_S = 600.0  # longer than any test waits
GRACE_S = 12.0  # longer than a busy machine stands still
# include/net/tcp_states.h; CLOSE_WAIT is closed by the other side alone
ESTABLISHED, CLOSE_WAIT = "01", "08"


def failed(job: Cluster, **held: Any) -> dict[str, Any]:
    """Wait for the verdict, and return its report, which is there while a container is held."""
    job.until(lambda: job.report().get("state") == "failed")
    report = job.report()
    assert report["ended_at"] is None
    assert report["held"].items() >= held.items()
    return report


def connections_to(port: int) -> set[str]:
    """Return the states of the connections that tasks have made to a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[3] for row in rows if int(row[2].rpartition(":")[2], 16) == port}


def test_container_of_a_failed_worker_stays_until_it_is_released(job: Cluster) -> None:
    job.job({**pair(FOREVER, FAIL), "ps": role(1, "serves", FOREVER)}, hold_s=HOLD_S)
    job.start()
    report = failed(job, task="worker-0", host="node-of-worker-0")
    assert report["first_failure"]["status"] == 7
    assert report["held"]["directory"] == str(job.places["worker-0"][0])
    assert job.wait("ps-0") == 93  # the others end at once
    assert job.runs["worker-0"].poll() is None
    assert "this container stays for" in job.stderr("worker-0")
    job.kill("chief-0", signal.SIGTERM)  # `release`
    assert job.wait_all() == {"chief-0": 93, "worker-0": 7, "ps-0": 93}
    report = job.report()
    assert (report["state"], "held" in report) == ("failed", False)
    assert report["ended_at"] is not None
    assert job.outcome("chief-0")["job"] == "failed"


def test_container_of_a_failed_deciding_task_stays_for_its_time(job: Cluster) -> None:
    job.job(pair(FAIL, FOREVER), hold_s=4)
    job.start()
    assert job.wait("worker-0") == 93
    assert job.wait("chief-0") == 7
    report = job.report()
    held, over = [event for event in report["events"] if "the container of" in event["text"]]
    assert held["text"].startswith("the container of chief-0 stays for 4 s")
    assert over["text"].endswith("no longer held: its time is over")
    assert over["at"] - held["at"] >= 4
    assert (report["state"], "held" in report) == ("failed", False)


def test_witness_ends_after_the_hold(job: Cluster) -> None:
    roles = {"worker": role(2, "trains", "test $TFJOB_INDEX = 0 || exit 7; sleep 600")}
    job.job({**roles, "witness": WITNESS}, hold_s=HOLD_S)
    job.start()
    failed(job, task="worker-1")
    assert job.runs["witness-0"].poll() is None
    job.kill("worker-0", signal.SIGTERM)
    assert job.wait_all() == {"worker-0": 93, "worker-1": 7, "witness-0": 93}


def test_retries_go_before_a_hold(job: Cluster) -> None:
    worker = "echo generation $TFJOB_GENERATION; exit 7"
    rule = {"max": 1, "on": ["any"]}
    job.job({**pair(FOREVER, worker), "witness": WITNESS}, retries=rule, hold_s=HOLD_S)
    job.start()
    report = failed(job, task="worker-0")
    assert (report["generation"], report["retries"]["used"]) == (1, 1)
    assert job.stdout("worker-0").split() == ["generation", "0", "generation", "1"]
    job.kill("chief-0", signal.SIGTERM)
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0, "witness-0": 93}


def test_held_task_comes_back_after_a_lost_connection(job: Cluster) -> None:
    job.job(pair(FOREVER, FAIL), hold_s=HOLD_S, ping_s=0.3, grace_s=GRACE_S)
    job.start()
    failed(job, task="worker-0")
    job.kill("worker-0", signal.SIGSTOP)
    job.until(lambda: CLOSE_WAIT in connections_to(job.rendezvous()))
    job.kill("worker-0", signal.SIGCONT)
    job.until(lambda: connections_to(job.rendezvous()) == {ESTABLISHED})
    time.sleep(GRACE_S + 1)  # one that has not come back is gone then
    assert job.report()["held"]["task"] == "worker-0"
    assert "no longer held" not in str(job.report()["events"])
    job.kill("chief-0", signal.SIGTERM)
    assert job.wait_all() == {"chief-0": 93, "worker-0": 7}


@pytest.mark.parametrize("how", ["the held container is killed", "nothing is there to be held"])
def test_job_ends_without_a_container_to_hold(job: Cluster, how: str) -> None:
    alone = how == "the held container is killed"
    worker = FAIL if alone else "echo runs; sleep 600"
    job.job(pair(FOREVER, worker), hold_s=HOLD_S, grace_s=2)
    job.start()
    if alone:
        failed(job, task="worker-0")
    else:
        job.printed("worker-0", "runs")
    job.kill("worker-0")
    assert job.wait("chief-0") == 93
    assert job.report()["first_failure"]["task"] == "worker-0"


def test_stop_by_yarn_ends_the_held_container(job: Cluster) -> None:
    job.job(pair(FOREVER, FAIL), hold_s=HOLD_S, grace_s=2)
    job.start()
    failed(job, task="worker-0")
    job.kill("worker-0", signal.SIGTERM)
    assert job.wait("worker-0") == 7
    assert job.wait("chief-0") == 93


def test_success_is_not_held(job: Cluster) -> None:
    job.job(pair("exit 0"), hold_s=HOLD_S)
    job.start()
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0}
