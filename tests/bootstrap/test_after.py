"""`after`: the commands of a role start after those of others."""

from __future__ import annotations

from tests.bootstrap.harness import FOREVER, UNTIL_GO, Cluster, role


def test_role_starts_when_those_before_it_have_succeeded_or_run(any_job: Cluster) -> None:
    job = any_job
    job.job(
        {
            "main": role(1, "trains", "cat ../order; echo main", after=["convert", "server"]),
            "convert": role(2, "trains", f"{UNTIL_GO}; echo converted >> ../order"),
            "server": role(1, "serves", FOREVER),
            "board": role(1, "sidecar", "echo board; sleep 600", after=["main"]),
        },
        deciding="main",
    )
    job.start()
    job.started("convert-0", "convert-1", "server-0")
    assert "starting: " not in job.stderr("main-0") + job.stderr("board-0")
    job.go()
    assert {job.wait(name) for name in job.names()} == {0}
    assert job.stdout("main-0") == "converted\nconverted\nmain\n"
    assert "main starts after convert, server" in str(job.report()["events"])


def test_task_that_comes_back_waits_for_its_turn(job: Cluster) -> None:
    job.job(
        {
            "main": role(1, "trains", "echo main"),
            "late": role(1, "trains", "echo late", after=["convert"], max_restarts=1),
            "convert": role(1, "trains", f"{UNTIL_GO}"),
        },
        deciding="main",
        ends_with="all-that-train",
    )
    job.start()
    job.started("convert-0", "main-0")
    job.replace("late-0")
    job.until(lambda: "registered with" in job.stderr("late-0"))
    assert job.stdout("late-0") == ""
    job.go()
    assert {job.wait(name) for name in job.names()} == {0}
    assert job.stdout("late-0") == "late\n"


def test_failure_before_its_turn_ends_the_job(job: Cluster) -> None:
    roles = {
        "main": role(1, "trains", "echo main", after=["convert"]),
        "convert": role(1, "trains", "exit 3"),
    }
    job.job(roles, deciding="main")
    job.start()
    assert job.wait_all() == {"main-0": 93, "convert-0": 3}
    assert job.stdout("main-0") == ""
    assert job.report()["first_failure"]["task"] == "convert-0"
