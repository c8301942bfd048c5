"""Job specs of specs/ that no other file of tests runs: conversion of tables, in-graph replication,
a notebook and TensorBoard as jobs of their own.
"""

from __future__ import annotations

import json
import re

import pytest
import requests

from tests.cluster.conftest import SPECS
from tests.hdfs import Hdfs
from tests.tool import SUBMIT_S, Tool, gone, until

pytestmark = pytest.mark.cluster

SERVES_S = 500  # a notebook's packages are sent, and unpacked
TABLES = {
    "a": "survived,age,fare,sex\n1,38,71.28,female\n0,,8.05,male\n",
    "b": "survived,age,fare,sex\n1,26,7.92,female\n",
    "c": "survived,age,fare,sex\n",
}


def test_tables_become_records_by_many_tasks(tool: Tool, hdfs: Hdfs) -> None:
    for name, text in TABLES.items():
        hdfs.write(f"/data/titanic/{name}.csv", text.encode())
    tool.jobs.append("csv-to-tfrecords")
    done = tool("submit", SPECS / "csv-to-tfrecords.yaml", "-o", "json")
    assert done.status == 0, done.stderr
    logs = tool("logs", "csv-to-tfrecords").stdout
    assert sorted(re.findall(r"/(\w)\.csv: (\d) rows", logs)) == [
        ("a", "2"),
        ("b", "1"),
        ("c", "0"),
    ]
    records = "/data/titanic-records"
    assert hdfs.list(records) == ["convert-0", "convert-1"]
    found = {
        name.removesuffix(".tfrecord"): hdfs.read(f"{records}/{task}/{name}")
        for task in hdfs.list(records)
        for name in hdfs.list(f"{records}/{task}")
        if name.endswith(".tfrecord")
    }
    assert set(found) == set(TABLES)
    assert (b"female" in found["a"], b"male" in found["a"], found["c"]) == (True, True, b"")
    assert found["a"].count(b"age") == 1, "a missing value is left out"


def test_one_program_places_operations_on_ps_and_workers(tool: Tool) -> None:
    tool.jobs.append("in-graph")
    done = tool("submit", SPECS / "in-graph.yaml", "-o", "json")
    assert done.status == 0, done.stderr
    found = re.search(
        r"weight and bias: \[([\d.]+), ([\d.]+)\]", tool("logs", "in-graph", "chief-0").stdout
    )
    assert found is not None
    assert [round(float(value), 2) for value in found.groups()] == [3.0, 1.0]
    gone("in-graph")


def test_estimator_trains_and_ends(tool: Tool) -> None:
    tool.jobs.append("estimator")
    done = tool("submit", SPECS / "estimator.yaml", "-o", "json")
    assert (done.status, done.json["confirmed"]) == (0, True), done.stderr
    gone("estimator")


def address(tool: Tool, job: str) -> str:
    """Return the address that `open` prints, as soon as the job's role serves."""
    done = tool("wait", job, "--for", "ready", "--timeout", "8m", timeout=SERVES_S)
    assert done.status == 0, done.stderr
    until(lambda: tool("open", job, "-o", "json").status == 0)
    return str(tool("open", job, "-o", "json").json["url"]).rstrip("/")


def status_of(url: str, **given: str) -> int:
    """Return the HTTP status of a page; 0 while nothing listens."""
    try:
        return requests.get(url, params=given, timeout=20).status_code
    except requests.ConnectionError:
        return 0


def test_notebook_has_a_token_that_its_job_does_not_show(tool: Tool) -> None:
    tool.jobs.append("notebook-ann")
    token = tool.cwd / "token"
    token.write_text("not-told")
    (tool.cwd / "requirements.txt").write_text("notebook==7.4.4\n")
    changes = (f"files[0]={token}", f"python.requirements={tool.cwd}/requirements.txt")
    sets = [word for change in changes for word in ("--set", change)]
    name = ("--name", "notebook-ann")
    done = tool("submit", SPECS / "notebook.yaml", *name, *sets, "--detach", timeout=SUBMIT_S)
    assert done.status == 0, done.stderr
    url = address(tool, "notebook-ann")
    contents = f"{url}/api/contents"
    until(lambda: status_of(contents, token="not-told") == 200)
    assert status_of(contents) == 403
    assert "not-told" not in json.dumps(tool("describe", "notebook-ann", "-o", "json").json)
    assert tool("stop", "notebook-ann").status == 0


def test_tensorboard_over_earlier_jobs(tool: Tool, hdfs: Hdfs) -> None:
    hdfs.write("/models/old/events.out.tfevents.1.a", b"")
    tool.jobs.append("tensorboard")
    done = tool("submit", SPECS / "tensorboard.yaml", "--detach")
    assert done.status == 0, done.stderr
    url = address(tool, "tensorboard")
    until(lambda: status_of(f"{url}/data/environment") == 200)
    assert tool("stop", "tensorboard").status == 0
