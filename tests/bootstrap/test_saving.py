"""A graceful stop: SIGQUIT and then SIGTERM to the deciding task, which tells the others."""

from __future__ import annotations

import signal
import time

from tests.bootstrap.harness import Cluster, role

# says when it begins to save, and takes until a file is there
SAVE = "trap 'echo begun; until [ -e ../go ]; do sleep 0.05; done; echo saved; exit 0' TERM; "
TRAIN = SAVE + "echo runs; while :; do sleep 0.05; done"


def begun(job: Cluster, *names: str) -> None:
    """Wait until tasks have begun to save."""
    job.until(lambda: all("begun" in job.stdout(name) for name in names))


def started(job: Cluster, **extra: object) -> None:
    """Start a chief, a worker, a parameter server and a board that all can save."""
    job.job(
        {
            "chief": role(1, "trains", TRAIN),
            "worker": role(1, "trains", TRAIN),
            "ps": role(1, "serves", TRAIN),
            "board": role(1, "sidecar", TRAIN),
        },
        **extra,
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
    begun(job, "chief-0", "worker-0")
    # longer than `stop_grace`, and than a task may be silent
    job.until(lambda: job.report().get("state") == "stopped")
    assert sorted(job.report()["saving"]) == ["chief-0", "worker-0"]
    assert not job.report()["ended_at"]
    job.go()
    job.until(lambda: bool(job.report()["ended_at"]))
    assert job.stdout("worker-0").split() == ["runs", "begun", "saved"]
    assert job.stdout("ps-0") + job.stdout("board-0") == "runs\nruns\n"
    assert job.runs["chief-0"].poll() is None  # YARN's stop ends it


def test_sigquit_alone_does_nothing(job: Cluster) -> None:
    job.job({"chief": role(1, "trains", "echo runs; until [ -e ../go ]; do sleep 0.05; done")})
    job.start()
    job.until(lambda: "runs" in job.stdout("chief-0"))
    job.runs["chief-0"].send_signal(signal.SIGQUIT)
    job.go()
    assert job.wait("chief-0") == 0


def test_tasks_save_for_longer_than_stop_grace_while_somebody_waits(job: Cluster) -> None:
    started(job, stop_grace_s=0.2)
    stop(job)
    begun(job, "chief-0", "worker-0")
    time.sleep(2)  # ten times `stop_grace`
    assert "saved" not in job.stdout("worker-0") + job.stdout("chief-0")
    assert job.runs["worker-0"].poll() is None
    job.go()
    job.until(lambda: "saved" in job.stdout("worker-0") and "saved" in job.stdout("chief-0"))
