"""SIGQUIT alone to the deciding task: it takes the stacks of all tasks (`submit_tf_job stacks`)."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

from submit_tf_job.container import contract
from tests.bootstrap.harness import FOREVER, UNTIL_GO, Cluster, pair, role

# a program that says its number, and waits in a function of its own
TRAIN = """
import os, sys, time
def wait_for_others():
    print(os.getpid(), flush=True)
    while not os.path.exists("../go"):
        time.sleep(0.05)
        if os.path.exists("../apart") and os.environ["TFJOB_INDEX"] == "1":
            wait_for_data()
def wait_for_data():
    print("data", flush=True)
    while not os.path.exists("../go"):
        time.sleep(0.05)
wait_for_others()
"""


def begin(job: Cluster, **roles: Any) -> None:
    job.files = {"train.py": TRAIN}
    command = [job.python, "train.py"]
    job.job({"worker": role(3, "trains", command), **roles})
    job.start()
    job.until(lambda: all(job.stdout(f"worker-{i}") for i in range(3)))


def taken(job: Cluster) -> dict[str, Any]:
    """Ask for the stacks; return what the deciding task wrote."""
    path = job.places["worker-0"][1] / contract.ALL_STACKS_FILE
    path.unlink(missing_ok=True)
    job.kill("worker-0", signal.SIGQUIT)
    job.until(path.exists)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_stacks_of_all_tasks_name_the_one_that_is_frozen(any_job: Cluster) -> None:
    job = any_job
    begin(job, board=role(1, "sidecar", UNTIL_GO))
    found = taken(job)
    assert found["differs"] is None
    tasks = {task["task"]: task for task in found["tasks"]}
    assert list(tasks) == ["worker-0", "worker-1", "worker-2", "board-0"]
    for name in ("worker-0", "worker-1", "worker-2"):
        assert tasks[name]["where"].startswith("wait_for_others (train.py:")
        assert "line 13 in <module>" in tasks[name]["text"]
        kept = (job.places[name][1] / contract.STACKS_FILE).read_text()
        assert kept.startswith("=== 20")
        assert "in wait_for_others" in kept
    assert tasks["board-0"]["where"].startswith("no Python process runs: bash (process ")
    (job.root / "app" / "apart").touch()
    job.printed("worker-1", "data")
    found = taken(job)
    assert found["differs"] == "worker-1"
    assert found["tasks"][0]["where"].startswith("wait_for_data (train.py:")
    frozen = int(job.stdout("worker-2"))
    os.kill(frozen, signal.SIGSTOP)
    try:
        found = taken(job)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert found["differs"] == found["tasks"][0]["task"] == "worker-2"
    assert found["tasks"][0]["where"].startswith(f"process {frozen} is stopped by a signal")
    said = "worker-2 stands elsewhere than the rest: "
    job.until(lambda: said in job.report()["events"][-1]["text"])
    job.go()
    assert job.wait_all()["worker-2"] == 0


def test_stacks_harm_no_program_that_does_not_listen(job: Cluster, tmp_path: Path) -> None:
    """The signal would end a process without a handler."""
    apart = ["env", "-u", "PYTHONPATH", job.python, "train.py"]
    own = f"import signal; signal.signal({contract.STACKS_SIGNAL}, lambda *_: print('own'))" + TRAIN
    job.files = {"train.py": TRAIN, "own.py": own}
    job.job(pair(apart, [job.python, "own.py"]))
    job.start()
    job.until(lambda: job.stdout("chief-0") and job.stdout("worker-0"))
    path = job.places["chief-0"][1] / contract.ALL_STACKS_FILE
    job.kill("chief-0", signal.SIGQUIT)
    job.until(path.exists)
    said = {task["task"]: task["where"] for task in json.loads(path.read_text())["tasks"]}
    assert "does not listen: " in said["chief-0"]
    assert "the program handles it itself" in said["worker-0"]
    job.go()
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0}
    assert "Error in sitecustomize" not in job.stderr("worker-0")


def test_a_process_that_is_stopped_goes_before_one_that_does_not_answer(job: Cluster) -> None:
    own = f"import signal; signal.signal({contract.STACKS_SIGNAL}, lambda *_: None)" + TRAIN
    job.files = {"train.py": TRAIN, "own.py": own}
    command = f"test $TFJOB_INDEX = 0 && exec {job.python} own.py; exec {job.python} train.py"
    job.job({"worker": role(3, "trains", command)})
    job.start()
    job.until(lambda: all(job.stdout(f"worker-{i}") for i in range(3)))
    frozen = int(job.stdout("worker-2"))
    os.kill(frozen, signal.SIGSTOP)
    try:
        found = taken(job)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert [task["task"] for task in found["tasks"]][:2] == ["worker-2", "worker-0"]
    assert found["differs"] == "worker-2"
    job.succeeds()


# each waits without a word; worker-2 freezes itself in the first generation, worker-1 computes
STILL = """
import os, signal, sys, time
print("begins", flush=True)
if "computes" in sys.argv and os.environ["TFJOB_INDEX"] == "1":
    while not os.path.exists("../go"):
        pass
if os.environ["TFJOB_INDEX"] == "2" and os.environ.get("TFJOB_GENERATION", "0") == "0":
    os.kill(os.getpid(), signal.SIGSTOP)
while not os.path.exists("../go") and os.environ.get("TFJOB_GENERATION", "0") == "0":
    time.sleep(0.2)
"""
STANDS = (
    "no task that trains printed anything or told a step for 3 s (`stall_timeout`), or used CPU "
    "time in 5 s after that; worker-2 stands elsewhere than the rest: process "
)


def stand_still(job: Cluster, *words: str, fail: bool, **extra: Any) -> None:
    job.files = {"still.py": STILL}
    trains = role(3, "trains", [job.python, "still.py", *words])
    job.job({"worker": trains}, stall={"after_s": 3, "fail": fail}, **extra)
    job.start()


def test_a_training_that_stands_still_fails_by_the_task_that_differs(any_job: Cluster) -> None:
    stand_still(any_job, fail=True)
    assert any_job.wait_all()["worker-0"] == contract.EXIT_JOB_FAILED
    failed = any_job.report()["first_failure"]
    assert (failed["task"], failed["status"], failed["reason"]) == ("worker-2", None, "stalled")
    assert failed["message"].startswith(STANDS)
    assert "is stopped by a signal" in failed["message"]


def test_a_training_that_stands_still_is_retried(job: Cluster) -> None:
    rule = {"max": 1, "on": ["lost"], "node_losses": 0}
    stand_still(job, fail=True, retries=rule)
    assert set(job.wait_all().values()) == {0}
    assert job.report()["generations"][0]["kind"] == "stalled"


def test_a_training_that_stands_still_goes_on_with_a_warning(job: Cluster) -> None:
    stand_still(job, fail=False)
    job.until(lambda: job.report().get("warnings"))
    assert job.report()["warnings"][0].startswith(STANDS)
    frozen = int(job.report()["warnings"][0].partition(": process ")[2].split()[0])
    job.go()
    os.kill(frozen, signal.SIGCONT)
    assert set(job.wait_all().values()) == {0}


class Worker:
    """A connection to the deciding task, by which the test plays a worker."""

    def __init__(self, job: Cluster, index: int, call: int = 1, **more: Any) -> None:
        self.sock = socket.create_connection(("127.0.0.1", job.rendezvous()), 60)
        self.lines = self.sock.makefile("r")
        usual = {"run": job.task["run"], "role": "worker", "index": index, "attempt": 0}
        usual |= {"process": f"of {index}", "call": call, "address": "127.0.0.1"}
        self.say("hello", **{**usual, "state": "waiting", **more})
        self.hears("welcome")

    def say(self, kind: str, **fields: Any) -> None:
        self.sock.sendall(json.dumps({"t": kind, **fields}).encode() + b"\n")

    def hears(self, kind: str) -> dict[str, Any]:
        return next(said for line in self.lines if (said := json.loads(line))["t"] == kind)

    def leave(self) -> None:
        self.lines.close()
        self.sock.close()


def test_a_task_that_comes_back_while_the_stacks_are_taken_ends_no_job(job: Cluster) -> None:
    """It was cut off when they were asked for, so that it has told none."""
    roles = {"worker": role(2, "trains", FOREVER), "chief": role(1, "trains", FOREVER)}
    job.job(roles, deciding="chief", stall={"after_s": 3, "fail": False}, ping_s=60)
    job.start("chief-0")
    job.until(lambda: "waiting for 3 tasks" in job.stderr("chief-0"))
    workers = [Worker(job, index) for index in range(2)]
    for worker in workers:
        worker.hears("go")
        worker.say("running")
    workers[0].say("away")
    workers[0].leave()
    asked = workers[1].hears("stacks")
    back = Worker(job, 0, call=2, state="running")
    answer = {"where": "train.py:7", "key": "k", "text": "t", "cores": 0.0}
    workers[1].say("stacks", number=asked["number"], **answer)
    job.until(lambda: job.report().get("warnings"))
    assert job.report()["warnings"][0].startswith("no task that trains printed anything")
    assert job.runs["chief-0"].poll() is None
    for worker in (back, workers[1]):
        worker.leave()


def test_a_task_that_computes_without_a_word_does_not_stand_still(job: Cluster) -> None:
    stand_still(job, "computes", fail=True)
    path = job.places["worker-0"][1] / contract.ALL_STACKS_FILE
    job.until(path.exists)
    frozen = next(one for one in json.loads(path.read_text())["tasks"] if one["task"] == "worker-2")
    job.go()
    os.kill(int(frozen["where"].split()[1]), signal.SIGCONT)
    assert set(job.wait_all().values()) == {0}
    assert job.report()["warnings"] == []
