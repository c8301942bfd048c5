"""A graceful stop: SIGQUIT and then SIGTERM to the deciding task, which tells the others."""

from __future__ import annotations

import signal
import time

from tests.bootstrap.harness import Cluster, role

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
    job.until(lambda: all("begun" in job.stdout(name) for name in ("chief-0", "worker-0")))
    time.sleep(2)  # ten times `stop_grace`
    job.until(lambda: job.report().get("state") == "stopped")
    assert sorted(job.report()["saving"]) == ["chief-0", "worker-0"]
    assert not job.report()["ended_at"]
    assert "saved" not in job.stdout("worker-0") + job.stdout("chief-0")
    job.go()
    job.until(lambda: bool(job.report()["ended_at"]))
    assert job.stdout("worker-0").split() == ["runs", "begun", "saved"]
    assert job.stdout("ps-0") + job.stdout("board-0") == "runs\nruns\n"
    assert job.runs["chief-0"].poll() is None  # YARN's stop ends it
