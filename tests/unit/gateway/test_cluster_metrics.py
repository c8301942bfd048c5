"""What /metrics tells Prometheus of the cluster's jobs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.sdk.client import Client
from tests.world.gateway import World

ROOT = Path(__file__).parents[3]
QUANTITY = re.compile(r"submit_tf_job_(\w+?)(?:_bucket|\b)")
HOSTILE = 'loss"} 1\nfake{job="x\\'
CONTAINER = "container_1700000000000_0001_01_000002"


@pytest.fixture(autouse=True)
def _a_busy_machine_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submit_tf_job.gateway.cluster_metrics._ANSWER_S", 600)


def samples(world: World) -> dict[tuple[str, str], float]:
    """The samples of the cluster and of jobs: name and labels but those of every job → value."""
    text = world.http.get("/metrics").text
    known = ("user", "run", "queue")
    return {
        (
            one.name.removeprefix("submit_tf_job_"),
            " ".join(value for name, value in one.labels.items() if name not in known),
        ): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if not one.name.startswith("submit_tf_job_gateway_")
    }


def world_with_jobs(tmp_path: Path, series: int) -> World:
    given: dict[str, Any] = {"gateway.job_series": series}
    world = World(tmp_path, **given)
    world.fake.yarn.site.max_gpus = 8
    run = world.post(roles={"worker": {"memory": "256Mi", "gpus": 2}}).json()["run"]
    world.runs_and_writes()
    progress = {"step": 3, "total": 10, "part": 0.3, "metrics": {HOSTILE: 0.25, "other": 1.0}}
    report = {"version": 1, "run": run, "state": "running", "progress": progress}
    world.fake.node.logs[CONTAINER, "job-report.json"] = json.dumps(report).encode()
    spread = {"least": 1.0, "mean": 2.0, "most": 3.0, "least_task": "", "most_task": ""}
    role = {"tasks": 1, "cpu_cores": {"now": spread}, "memory_bytes": {"now": spread}}
    role["gpu_percent"] = {"now": spread}
    usage = {"version": 1, "run": run, "roles": {"worker": role}}
    world.fake.node.logs[CONTAINER, "job-usage.json"] = json.dumps(usage).encode()
    world.fake.yarn.full = True
    world.post(name="patient")
    world.fake.clock.sleep(90)
    return world


def test_metrics_of_jobs_by_state_and_queue(tmp_path: Path) -> None:
    found = samples(world_with_jobs(tmp_path, 0))
    waited = found.pop(("oldest_waiting_seconds", ""))
    assert 90 <= waited < 120
    assert found == {
        ("cluster_up", ""): 1,
        ("jobs", "RUNNING"): 1,
        ("jobs", "PENDING"): 1,
        ("gpus_asked", ""): 2,
        ("gpus_unknown_jobs", ""): 1,  # of a job that waits without a Hadoop configuration
    }, "no series names a job unless the operator says so"


@pytest.mark.parametrize(
    ("most", "names"),
    [
        (2, ["part", "step"]),
        (9, ["metric", "part", "step", "cpu_cores", "memory_bytes", "gpu_percent"]),
    ],
)
def test_metrics_of_a_job_are_as_many_as_the_setting_says(
    tmp_path: Path, most: int, names: list[str]
) -> None:
    found = samples(world_with_jobs(tmp_path, most))
    told = {name: value for name, value in found.items() if name[0].startswith("job_")}
    values = {
        ("job_step", "mnist"): 3,
        ("job_part", "mnist"): 0.3,
        ("job_metric", f"{HOSTILE} mnist"): 0.25,
        ("job_cpu_cores", "mnist worker"): 2,
        ("job_memory_bytes", "mnist worker"): 3,
        ("job_gpu_percent", "mnist worker"): 2,
    }
    assert told == {key: value for key, value in values.items() if key[0][4:] in names}


def test_metrics_without_a_cluster_are_the_gateways_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise ClusterUnavailable("no ResourceManager answers")

    world = World(tmp_path)
    monkeypatch.setattr(Client, "jobs", fail)
    assert samples(world) == {("cluster_up", ""): 0}, "what is not known is no zero"


def test_gpus_of_a_user_who_is_no_caller_are_unknown(tmp_path: Path) -> None:
    world = world_with_jobs(tmp_path, 0)
    for app in world.fake.yarn.apps.values():
        app.user = "carol"
    assert samples(world)["gpus_unknown_jobs", ""] == 2


def test_metrics_have_the_same_names_in_gateway_dashboard_and_docs(tmp_path: Path) -> None:
    world = world_with_jobs(tmp_path, 9)
    text = world.http.get("/metrics").text
    families = re.findall(r"^# TYPE submit_tf_job_(\w+)", text, re.MULTILINE)
    board = json.loads((ROOT / "docs/grafana-dashboard.json").read_text("utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    page = (ROOT / "docs/gateway.md").read_text("utf-8")
    tables = page.partition("| metric of `/metrics`, with")[2].partition("| metric of `/metrics` |")
    told = {
        prefix + name
        for prefix, table in (("gateway_", tables[0]), ("", tables[2]))
        for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert told == set(families) == {name for one in asked for name in QUANTITY.findall(one)}


def test_dashboard_shows_the_labels_by_which_it_sums() -> None:
    board = json.loads((ROOT / "docs/grafana-dashboard.json").read_text("utf-8"))
    for target in (target for panel in board["panels"] for target in panel["targets"]):
        outer = re.match(r"(?:histogram_quantile\([\d.]+, )?\w+ by \((.*?)\)", target["expr"])
        labels = set(outer[1].split(", ")) - {"le"} if outer else set()
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) == labels, target
