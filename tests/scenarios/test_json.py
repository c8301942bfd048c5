"""docs/json.md names the fields that `-o json` prints: those, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.json_page import PAGE, check, documented, produced, typed_page
from tests.world import World

ROOT = Path(__file__).parents[2]


def run(world: World, *argv: object, err: bool = False) -> Any:
    done = world(*argv, "-o", "json")
    assert done.err if err else done.out, done
    return json.loads(done.err if err else done.out)


def running(world: World) -> str:
    """Let a job with a port run; return the container of its chief."""
    role = {"memory": "1Gi", "ports": {"http": 6006}}
    roles = {"chief": role, "worker": {"memory": "1Gi", "instances": 2}}
    return world.running(roles=roles)["chief-0"]


REPORT: dict[str, Any] = {
    "generation": 1,
    "updated_at": 2.0,
    "standstill": {"since": 1.0, "tasks": [{"task": "worker-1"}]},
    "checkpoint": {"uri": "hdfs:///c", "name": "ckpt-3", "step": 3, "at": 1.5},
    "awaited": {"tasks": ["worker-1"], "until": 3.0},
    "progress": {
        "step": 1,
        "total": 2,
        "metrics_step": 1,
        "metrics": {"loss": 0.1},
        "task": "chief-0",
    }
    | {"at": 1.0, "unit": "epoch", "part": 0.5, "left_s": 3.0},
    "retries": {"max": 3, "used": 1},
    "generations": [{"generation": 0, "task": "worker-1", "kind": "lost", "at": 1.0}],
    "outputs": [{"name": "model", "uri": "hdfs:///models/m", "tasks": 1}],
    "warnings": ["worker-1 was slow"],
    "start": {"launched_at": 2e9, "arrived_at": 2e9 + 1, "at": 2e9 + 2, "by_address": 1},
    "tasks": [{"task": "worker-0", "state": "running", "host": "n", "container": "c"}],
}
FAILURE = {"task": "worker-1", "status": 3, "reason": "exited", "host": "node1"}
FAILURE |= {"message": "worker-1 exited with status 3", "last_lines": ["Traceback", "E: x"]}


def test_job_and_description(world: World) -> None:
    chief = running(world)
    service = world.service
    name = "submit_tf_job.resubmission"
    service["configuration"]["properties"][name] = "1 mnist-4k3f7qa2 worker=512"
    world.reports(chief, "waiting", arrived=2, missing=["worker-1"])
    waiting = run(world, "status", "mnist")
    world.reports(chief, "running", **REPORT)
    live = run(world, "status", "mnist")
    description = run(world, "describe", "mnist")

    def fail() -> None:
        later = {"later_failures": [{"task": "chief-0", "status": 93}], "outcome": {"status": 1}}
        held = {"task": "chief-0", "host": "node1", "container": "c", "directory": "/d", "until": 1}
        world.reports(chief, "failed", first_failure=FAILURE, held=held, **later)
        world.cluster.clock.after(5, lambda: world.ends("FAILED"))

    world.cluster.clock.after(10, fail)
    failed = run(world, "wait", "mnist")
    assert set(live["links"][0]) == documented("Link") - {"kind", "format", "reachable"}
    for job in (waiting, live, failed):
        job["links"] = []
    check("Job", waiting, live, failed)
    assert live["warnings"] == REPORT["warnings"]
    assert set(failed) == {name for name in documented("Job") if "." not in name}
    description["links"] = []
    inner = set(produced(description))
    assert inner - documented("JobDescription") - documented("Job") == set()
    assert documented("JobDescription") - inner == set()


def test_lists_events_and_changes(world: World) -> None:
    running(world)
    listed = run(world, "list")
    assert set(listed) == documented("JobList")
    check("ListedJob", *listed["jobs"])
    check("EventList", run(world, "events", "mnist"))
    check("Change", run(world, "priority", "mnist", 0))


def test_links(world: World) -> None:
    chief = running(world)
    world.reports(chief, "running", served=[{"task": "chief-0", "ports": {"http": 6006}}])
    check("Link", run(world, "open", "mnist", "chief"))
    check("Tunnel", run(world, "tunnel", "mnist", "chief"))


def test_logs(world: World) -> None:
    chief = running(world)
    world.writes(chief, "stdout.txt", "hello\n")
    check("LogLine", run(world, "logs", "mnist", "chief-0", "--file", "stdout.txt"))
    check("LogFiles", run(world, "logs", "mnist", "--list"))


def test_stacks(world: World) -> None:
    chief = running(world)
    task = {"task": "chief-0", "host": "node1", "where": "", "text": ""}
    found = {"at": 1.5, "differs": None, "tasks": [task]}
    world.cluster.clock.after(3, lambda: world.writes(chief, "job-stacks.json", found))
    check("Stacks", run(world, "stacks", "mnist"))


REFUSED = [("delete", "mnist"), ("submit", "nosuch.yaml")]


def test_submission_deletion_and_error(world: World) -> None:
    check("Submission", run(world, "submit", world.spec(), "--detach"))
    refused, missing = (run(world, *words, err=True) for words in REFUSED)
    assert "problems" in missing["details"]
    check("Error", refused, missing)
    world.passes(10)
    world.ends()
    check("Deletion", run(world, "delete", "mnist"))


def test_what_needs_no_cluster(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_STAGING", "hdfs://nn.example.com/staging")
    bad = world.home / "bad.yaml"
    bad.write_text("name: 3\n")
    spec = ROOT / "specs" / "parameter-server.yaml"
    theirs = ROOT / "tests/unit/dialects/golden/tfjob-chief-ps-worker.yaml"
    check("Validation", run(world, "validate", bad))
    check("Plan", run(world, "render", spec, "--explain"))
    check("Task", run(world, "render", spec, "--task", "worker-1"))
    check("Conversion", run(world, "convert", theirs))


@pytest.mark.parametrize(
    ("kind", "argv"),
    [
        ("Formats", ["formats", "tfjob"]),
        ("Example", ["init"]),
        ("Settings", ["config", "show"]),
        ("Version", ["version"]),
        ("Help", ["help", "quickstart"]),
        ("GatewayToken", ["gateway", "token", "alice"]),
    ],
)
def test_what_needs_nothing(cli: Any, kind: str, argv: list[str]) -> None:
    printed = cli(*argv, "-o", "json").json
    if kind == "Help":  # by topic
        printed["pages"] = {}
    check(kind, printed)


def test_doctor(world: World) -> None:
    check("Doctor", run(world, "doctor"))


def test_types_of_the_page_are_those_of_the_schemas() -> None:
    assert typed_page() == PAGE, "python -m tests.json_page writes them"


def test_every_json_object_has_a_section() -> None:
    sources = [
        path.read_text("utf-8")
        for folder in ("cli", "report", "operations")
        for path in (ROOT / "submit_tf_job" / folder).glob("*.py")
    ]
    sources.append((ROOT / "submit_tf_job/jsonview.py").read_text("utf-8"))
    written = r'"kind": "(\w+)"|kind: str = "(\w+)"|document\(\s*"(\w+)"'
    kinds = {"".join(found) for source in sources for found in re.findall(written, source)}
    assert kinds == set(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE))
