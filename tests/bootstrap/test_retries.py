"""All tasks start again in place (`retries`): real bootstraps, one process for each container."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest

from tests.bootstrap.harness import HOLD, UNTIL_GO, WITNESS, Cluster, generations, pair, role


def retrying(job: Cluster, roles: dict[str, Any], *on: object, most: int = 3) -> None:
    retries = {"max": most, "on": list(on) or ["lost"]}
    job.job({**roles, "witness": WITNESS}, retries=retries, grace_s=20)
    job.start()


def test_lost_worker_starts_all_commands_again_in_their_containers(any_job: Cluster) -> None:
    job = any_job
    retrying(job, pair(HOLD, workers=2))
    for name in ("chief-0", "worker-0", "worker-1"):
        job.printed(name, "generation 0")
    processes = {name: job.runs[name].pid for name in ("chief-0", "worker-0", "witness-0")}
    job.replace("worker-1")
    for name in ("chief-0", "worker-0", "worker-1"):
        job.printed(name, "generation 1")
    job.succeeds()
    assert {name: job.runs[name].pid for name in processes} == processes
    assert generations(job) == [(0, "worker-1", "lost")]
    assert job.report()["state"] == "succeeded"
    assert job.outcome("worker-0")["status"] == 0


def test_a_container_in_place_of_one_that_lives_on_waits_for_its_end(job: Cluster) -> None:
    """YARN gave a node up that only its ResourceManager does not hear: the training goes on, and
    the other container waits for longer than `start_timeout`, because YARN starts no third one.
    """
    retries = {"max": 3, "on": ["lost"]}
    job.job({**pair(HOLD), "witness": WITNESS}, retries=retries, grace_s=20)
    job.start()
    job.printed("worker-0", "generation 0")
    cut_off = job.runs["worker-0"]
    job.start("worker-0", task={**job.task, "start_timeout_s": 20})
    job.until(lambda: "still connected" in job.stderr("worker-0"))
    time.sleep(35)
    assert job.runs["worker-0"].poll() is None, job.stderr("worker-0")
    os.kill(cut_off.pid, signal.SIGKILL)  # the node is back, and ends it
    cut_off.wait()
    job.printed("worker-0", "generation 1")
    job.succeeds()
    assert generations(job) == [(0, "worker-0", "lost")]


def test_lost_deciding_task_is_replaced_and_remembered_by_the_others(any_job: Cluster) -> None:
    job = any_job
    retrying(job, pair(HOLD))
    for generation in range(3):
        job.printed("worker-0", f"generation {generation}")
        job.printed("chief-0", f"generation {generation}")
        if generation < 2:
            job.replace("chief-0")
    job.succeeds()
    assert generations(job) == [(0, "chief-0", "lost"), (1, "chief-0", "lost")]
    assert job.report()["state"] == "succeeded"


def test_command_gets_the_signal_before_it_starts_again(job: Cluster) -> None:
    save = "trap 'echo saved; exit 0' TERM; echo generation $TFJOB_GENERATION; " + UNTIL_GO
    retrying(job, pair(save, HOLD))
    job.printed("worker-0", "generation 0")
    job.replace("worker-0")
    job.printed("chief-0", "saved")
    job.printed("chief-0", "generation 1")
    job.succeeds()


def test_witness_alone_remembers_the_generations_and_that_the_job_is_prepared(job: Cluster) -> None:
    command = "[ $TFJOB_GENERATION = 1 ] || [ $TFJOB_GENERATION = 2 ] || kill -9 $$; " + HOLD
    job.job(
        {"chief": role(1, "trains", command), "witness": WITNESS},
        retries={"max": 3, "on": ["lost"]},
        grace_s=20,
        prepare="echo once >> ../prepared",
    )
    job.start()
    job.printed("chief-0", "generation 1")
    job.replace("chief-0")
    job.printed("chief-0", "generation 2")
    job.go()
    assert job.wait_all() == {"chief-0": 0, "witness-0": 0}
    assert generations(job) == [(0, "chief-0", "lost"), (1, "chief-0", "lost")]
    assert (job.root / "app" / "prepared").read_text() == "once\n"


CRASHES = ["ABRT", "BUS", "FPE", "ILL", "PIPE", "SEGV", "SYS", "TRAP", "XCPU", "XFSZ"]
KILLS = ["ALRM", "HUP", "INT", "IO", "KILL", "PROF", "TERM", "USR1", "USR2", "VTALRM"]
NUMBERS = [int(signal.Signals["SIG" + name]) for name in CRASHES + KILLS]
STATUSES = [*(128 + number for number in NUMBERS), 0]
ITS_OWN = f"import os, sys; sys.exit({STATUSES}[int(os.environ['TFJOB_GENERATION'])])"


def in_turn(line: str) -> str:
    """Return a script whose each generation runs a line, with the next signal."""
    once = "[ $TFJOB_GENERATION != {} ] || {{ {}; }}"
    return "; ".join(once.format(n, line % number) for n, number in enumerate(NUMBERS))


FORMS: dict[str, tuple[Any, bool]] = {
    "a program": (["sh", "-c", in_turn("kill -%d $$")], True),
    "the program of a text": (in_turn("kill -%d $$"), True),
    "a program below the shell of a text": (in_turn("sh -c 'kill -%d $$'; exit $?"), True),
    "a program below a shell": (["sh", "-c", in_turn("sh -c 'kill -%d $$'; exit $?")], True),
    "a status that a program chose": ([sys.executable, "-S", "-c", ITS_OWN], False),
}


@pytest.mark.parametrize("form", FORMS)
def test_signal_tells_a_crash_from_a_kill(job: Cluster, form: str) -> None:
    command, is_signal = FORMS[form]
    retries = {"max": 100, "on": ["any"]}
    job.job({"chief": role(1, "trains", command)}, retries=retries, settle_s=0.0)
    job.start()
    assert job.wait("chief-0") == 0
    told = ("reason", "kind", "signal", "status")
    found = [tuple(map(entry.get, told)) for entry in job.report()["generations"]]
    if is_signal:
        wanted = [("crashed", "")] * len(CRASHES) + [("killed", "lost")] * len(KILLS)
        assert found == [(*w, n, 128 + n) for w, n in zip(wanted, NUMBERS, strict=True)]
    else:
        assert found == [("exited", "", None, 128 + number) for number in NUMBERS]
