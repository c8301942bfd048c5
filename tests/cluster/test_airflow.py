"""Jobs from a real Airflow, scheduler and triggerer as processes of their own, on a real cluster;
killed at the worst moments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import clusters
from tests.airflow.harness import ENDED, Airflow, environment, install
from tests.clusters import Cluster
from tests.tool import gone

pytestmark = pytest.mark.cluster


EXAMPLE = "submit_tf_job_digits"


class Applications:
    """What the ResourceManager itself says."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._before = {app["id"] for app in self._all()}

    def _all(self) -> list[dict[str, Any]]:
        found: dict[str, Any] = requests.get(f"{self.url}/ws/v1/cluster/apps", timeout=30).json()
        return list((found["apps"] or {"app": []})["app"])

    def apps(self, begins: str) -> list[dict[str, Any]]:
        """Applications of this test whose name begins so, the oldest first."""
        own = [
            app
            for app in self._all()
            if app["id"] not in self._before and app["name"].startswith(f"{begins}-")
        ]
        return sorted(own, key=lambda app: str(app["id"]))

    def running(self, begins: str) -> bool:
        """Whether there is one, and it runs."""
        return [app["state"] for app in self.apps(begins)] == ["RUNNING"]

    def over(self, begins: str) -> bool:
        """Whether all of them are over."""
        return all(app["state"] in ("FINISHED", "FAILED", "KILLED") for app in self.apps(begins))


def job_of(app: dict[str, Any]) -> str:
    """The name of the job whose run an application is."""
    return str(app["name"]).rpartition("-")[0]


@pytest.fixture
def cluster(real_cluster: Cluster) -> Applications:
    return Applications(real_cluster.rm_url)


@pytest.fixture
def airflow(real_cluster: Cluster, tmp_path: Path) -> Iterator[Airflow]:
    """An Airflow in a home of its own, running."""
    venv = environment()
    connection = {"extra": {"profile": real_cluster.profile}}
    made = Airflow(
        venv,
        install(venv, tmp_path / "site"),
        tmp_path / "airflow",
        clusters.environment(),
        connection,
    )
    try:
        made.start()
        yield made
    finally:
        made.end()


def test_jobs_of_airflow(airflow: Airflow, cluster: Applications) -> None:
    """What ends well or badly, what is killed, and two crashes; all at once."""
    for dag in ("ends", "kills"):
        airflow.run(dag, "one")
    kills(airflow, cluster)
    airflow.run(EXAMPLE, "by-hand")

    # The example is short: while no triggerer runs, nobody would see what it does.
    airflow.until(EXAMPLE, "by-hand", lambda tasks: tasks["train"][0] in ENDED)

    # A triggerer that dies takes nothing with it: another one goes on.
    airflow.until(
        "ends", "one", lambda tasks: tasks["deferred"][0] == "deferred" and cluster.running("waits")
    )
    airflow.until(
        "ends", "one", lambda _tasks: bool(airflow.links("ends", "one", "deferred")["TensorBoard"])
    )
    airflow.kill("triggerer")
    airflow.start("triggerer")
    (airflow.marks / "go").touch()

    ended = airflow.until(
        "ends", "one", lambda tasks: all(state in ENDED for state, _ in tasks.values())
    )
    assert ended == {
        "dies": ("success", 2),
        "deferred": ("success", 1),
        "retried": ("success", 2),
        "sensed": ("success", 1),
        "in_vain": ("failed", 1),
    }

    # Its worker died between the POST and the answer: the next try found the job.
    (died,) = cluster.apps("dies")
    result = airflow.xcom("ends", "one", "dies")
    told = result["kind"], result["state"], result["confirmed"]
    assert told == ("Job", "SUCCEEDED", True), result
    assert result["application_id"] == died["id"]
    assert "an earlier try submitted it" in airflow.log_of("ends", "one", "dies")

    (waited,) = cluster.apps("waits")
    result = airflow.xcom("ends", "one", "deferred")
    found = result["application_id"], result["state"], result["progress"]["step"]
    assert found == (waited["id"], "SUCCEEDED", 7), result
    links = airflow.links("ends", "one", "deferred")
    assert links["YARN application"] == f"{cluster.url}/cluster/app/{waited['id']}"
    assert requests.get(links["YARN application"], timeout=30).status_code == 200
    assert "/node/containerlogs/container_" in links["Logs"], links
    assert links["TensorBoard"].endswith(":6006"), links

    # A job that failed is not taken over: the next try runs it again.
    first, second = cluster.apps("retried")
    assert job_of(first) == job_of(second)
    assert first["name"] != second["name"]
    assert (first["finalStatus"], second["finalStatus"]) == ("FAILED", "SUCCEEDED")
    assert airflow.xcom("ends", "one", "sensed")["application_id"] == second["id"]
    assert "it broke" in airflow.log_of("ends", "one", "retried")

    # No try is spent on a cause that the next one would meet again.
    assert len(cluster.apps("in-vain")) == 1

    # What succeeded has freed its name, unless it was told to keep it.
    services = {
        name: requests.get(f"{cluster.url}/app/v1/services/{name}", timeout=30).status_code
        for name in (waited["name"], died["name"])
    }
    assert services == {waited["name"]: 404, died["name"]: 200}
    example(airflow, cluster)


def example(airflow: Airflow, cluster: Applications) -> None:
    """The example DAG runs as it ships, triggered by hand, and its log is written for people."""
    ended = airflow.until(
        EXAMPLE, "by-hand", lambda tasks: all(state in ENDED for state, _ in tasks.values())
    )
    assert ended == dict.fromkeys(("train", "evaluate", "evaluated"), ("success", 1))
    result = airflow.xcom(EXAMPLE, "by-hand", "train")
    succeeded = result["roles"]["worker"]["succeeded"]
    assert (result["state"], result["progress"]["step"], succeeded) == ("SUCCEEDED", 10, 1), result
    (evaluated,) = cluster.apps("evaluate")
    assert airflow.xcom(EXAMPLE, "by-hand", "evaluated")["application_id"] == evaluated["id"]
    log = airflow.log_of(EXAMPLE, "by-hand", "train")
    assert " SUCCEEDED" in log
    assert "RUNNING" in log, "the triggerer writes what it sees"
    assert not re.search(r"TriggerEvent<|\{'kind'|<submit_tf_job\.| object at 0x", log), log
    # ten steps of a second each, which a busy machine makes longer, and a line every 30 s
    ids = {app["id"]: app for app in cluster.apps("train")}
    took_ms = ids[result["application_id"]]["elapsedTime"]
    assert len(re.findall(r"RUNNING +step ", log)) <= 2 + took_ms / 30_000


def kills(airflow: Airflow, cluster: Applications) -> None:
    """A task that somebody marks takes its job along, wherever it waits."""
    for task, state in (("in_worker", "running"), ("in_triggerer", "deferred")):
        begins = task.replace("_", "-")
        airflow.until("kills", "one", lambda tasks, task=task, state=state: tasks[task][0] == state)  # type: ignore[misc]
        airflow.until("kills", "one", lambda _tasks, begins=begins: cluster.running(begins))  # type: ignore[misc]
        if state == "deferred":
            followed(airflow, "one", 1)
        airflow.mark_failed("kills", "one", task)
    for begins in ("in-worker", "in-triggerer"):
        airflow.until("kills", "one", lambda _tasks, begins=begins: cluster.over(begins))  # type: ignore[misc]
        gone(cluster.apps(begins)[0]["name"])
    failed = dict.fromkeys(("in_worker", "in_triggerer"), ("failed", 1))
    assert airflow.tasks("kills", "one") == failed


def followed(airflow: Airflow, run: str, attempt: int) -> None:
    """Wait until the triggerer follows a try: one that it has not begun with ends without on_kill,
    and its job goes on (docs/airflow.md).
    """
    logs = airflow.home / f"logs/dag_id=kills/run_id={run}/task_id=in_triggerer"
    pattern = f"attempt={attempt}.log.trigger*"
    says = lambda _tasks: any("RUNNING " in log.read_text() for log in logs.glob(pattern))  # noqa: E731
    airflow.until("kills", run, says)
