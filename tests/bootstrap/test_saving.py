"""A graceful stop: SIGQUIT and then SIGTERM to the deciding task, which tells the others."""

from __future__ import annotations

import json
import signal
import threading
import time
from typing import Any

import pytest

from tests.bootstrap.harness import Cluster, role
from tests.world.web_hdfs import Fault, WebNameNode, web_name_node

# says when it begins to save, and takes until a file is there
SAVE = "trap 'echo begun; until [ -e ../go ]; do sleep 0.05; done; echo saved; exit 0' TERM; "
TRAIN = SAVE + "echo runs; while :; do sleep 0.05; done"


def started(job: Cluster) -> None:
    """Start a chief, a worker, a parameter server and a board that all can save."""
    job.job(
        {
            "chief": role(1, "trains", TRAIN),
            "worker": role(1, "trains", TRAIN),
            "ps": role(1, "serves", TRAIN),
            "board": role(1, "sidecar", TRAIN),
        },
        stop_grace_s=0.2,
    )
    job.start()
    job.until(lambda: all("runs" in job.stdout(name) for name in job.names()))


def stop(job: Cluster) -> None:
    """Do what `stop --grace` does."""
    job.runs["chief-0"].send_signal(signal.SIGQUIT)
    job.runs["chief-0"].send_signal(signal.SIGTERM)


def test_tasks_that_train_save_and_end_while_the_others_run_on(any_job: Cluster) -> None:
    job = any_job
    started(job)
    stop(job)
    job.until_saved(lambda: all("begun" in job.stdout(name) for name in ("chief-0", "worker-0")))
    time.sleep(2)  # ten times `stop_grace`
    job.until_saved(lambda: job.report().get("state") == "stopped")
    assert sorted(job.report()["saving"]) == ["chief-0", "worker-0"]
    assert not job.report()["ended_at"]
    assert "saved" not in job.stdout("worker-0") + job.stdout("chief-0")
    job.go()
    job.until_saved(lambda: bool(job.report()["ended_at"]))
    assert job.stdout("worker-0").split() == ["runs", "begun", "saved"]
    assert job.stdout("ps-0") + job.stdout("board-0") == "runs\nruns\n"
    assert job.runs["chief-0"].poll() is None  # YARN's stop ends it


# --- the end of the lifetime ----------------------------------------------------------------------


def limited(job: Cluster, hdfs: WebNameNode, record: Any, *, age_s: float = 0.0) -> None:
    """Start a job whose record has this lifetime, and was written so long ago when all tasks run;
    until then HDFS does not answer.
    """
    path = "/staging/records/mnist/mnist-1"
    hdfs.put(f"{path}.json", json.dumps(record).encode())
    may_answer, serve = threading.Event(), hdfs.before

    def hold(operation: str, asked: str) -> None:
        may_answer.wait(240)
        serve(operation, asked)

    hdfs.before = hold
    rule = {"protocol": "http", "addresses": [hdfs.address], "path": f"{path}.report"}
    roles = {"chief": role(1, "trains", TRAIN), "worker": role(1, "trains", TRAIN)}
    job.job(roles, stop_grace_s=200, record={**rule, "user": "alice"})
    job.start()
    job.until(lambda: all("runs" in job.stdout(name) for name in job.names()))
    hdfs.written[f"{path}.json"] = hdfs.clock() - int(age_s * 1000)
    may_answer.set()


@pytest.mark.parametrize(("lifetime_s", "age_s"), [(210, 0), (86_400, 86_190)])
def test_tasks_save_before_the_lifetime_ends(
    any_job: Cluster, lifetime_s: int, age_s: float
) -> None:
    """210 s are `stop_grace` and the margin."""
    job = any_job
    with web_name_node() as hdfs:
        limited(job, hdfs, {"lifetime_s": lifetime_s}, age_s=age_s)
        job.until(lambda: all("begun" in job.stdout(name) for name in ("chief-0", "worker-0")))
        job.go()
        job.until(lambda: bool(job.report()["ended_at"]))
        assert job.report()["state"] == "stopped"
        said = [event["text"] for event in job.report()["events"]]
        assert "the job's lifetime ends; its tasks save" in said
        assert job.runs["chief-0"].poll() is None  # YARN's kill ends it


@pytest.mark.parametrize(
    "record", [{"lifetime_s": None}, {"lifetime_s": 3600}, {}, [], {"lifetime_s": "soon"}]
)
def test_job_with_time_left_or_an_odd_record_trains_on(job: Cluster, record: Any) -> None:
    with web_name_node() as hdfs:
        limited(job, hdfs, record)
        job.until(lambda: ("GET", "DATA", "") in hdfs.asked)
        job.until(lambda: job.report().get("state") == "running")
        assert "begun" not in job.stdout("chief-0")


def test_job_whose_record_cannot_be_read_trains_on(job: Cluster) -> None:
    with web_name_node() as hdfs:
        hdfs.before = lambda _operation, _path: (_ for _ in ()).throw(Fault(403, "SafeMode"))
        limited(job, hdfs, {"lifetime_s": 0})
        job.until(lambda: len(hdfs.asked) > 1)
        assert "begun" not in job.stdout("chief-0")
