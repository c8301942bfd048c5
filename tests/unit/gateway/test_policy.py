"""What callers may do, and the record of what they did."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.errors import SettingsError
from submit_tf_job.gateway.policy import Policy
from tests.world.gateway import JOB, World, refused

# a gateway of its own for each test: seconds in all
pytestmark = pytest.mark.slow

EVERYBODY = '"*": {jobs: 2, gpus: 4, queues: [ml], registries: [registry.example.com/ml]}\n'
OWN: dict[str, Any] = {**JOB, "queue": "ml", "image": "registry.example.com/ml/tf:2.15"}
OF_WORKER = "registries: the image of role worker"


def sent(world: World, name: str, caller: str = "alice", **changes: Any) -> Any:
    return world.ask("POST", "/v1/jobs", caller, json={**OWN, "name": name, **changes})


def with_gpus(number: int) -> dict[str, Any]:
    return {"roles": {"worker": {"memory": "256Mi", "gpus": number}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queue": "other"}, "queues: queue other is not one of ml"),
        (
            {"image": "a/b:3.11"},
            f"{OF_WORKER}, docker.io/a/b:3.11, is not from registry.example.com/ml",
        ),
        ({"image": "registry.example.com/ml-of-others/tf"}, "registries: the image of role"),
        ({"image": "registry.example.com/ml"}, ""),
        ({"image": "registry.example.com/ml/../other/tf"}, "registries: the image of role"),
        ({"image": "none"}, f"{OF_WORKER}, none, is not from"),
        (with_gpus(5), "gpus: the job asks for 5 GPUs; your limit is 4"),
    ],
)
def test_job_is_refused_by_a_rule(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    world = World(tmp_path, policy=EVERYBODY)
    answer = sent(world, "a", **changes)
    if not message:
        assert answer.status_code == 201, answer.text
        return
    assert refused(answer, 403, "policy").startswith(message)
    assert answer.json()["details"]["rule"] == message.partition(":")[0]
    assert world.apps == []


def test_jobs_at_once_are_counted_on_the_cluster(tmp_path: Path) -> None:
    world = World(tmp_path, policy=f"{EVERYBODY}bob: {{jobs: 3}}\n")
    assert [sent(world, name).status_code for name in ("a", "b")] == [201, 201]
    third = sent(world, "c")
    assert (
        refused(third, 429, "quota") == "jobs: you have 2 jobs waiting or running; your limit is 2"
    )
    assert (third.json()["details"], third.json()["retryable"]) == ({"rule": "jobs"}, True)
    assert third.headers["retry-after"] == "60"
    assert sent(world, "a").status_code == 200, "the same request finds its job"
    assert [sent(world, f"{n}", "bob").status_code for n in "xyz"] == [201, 201, 201]
    world.ask("POST", "/v1/jobs/a/stop?wait=true")
    assert sent(world, "c").status_code == 201
    world.policy.write_text("alice: {queues: [default]}\n")
    assert sent(world, "d", queue="default").status_code == 201, "the file is read again"


def test_gpus_of_all_jobs_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path, policy="alice: {gpus: 4}\n")
    world.fake.yarn.site.max_gpus = 8
    assert sent(world, "a", **with_gpus(3)).status_code == 201
    # it waits, this gateway has no HDFS, and the services API does not describe it yet
    said = refused(sent(world, "b", **with_gpus(1)), 429, "quota")
    assert said == "gpus: the GPUs of a cannot be counted before it runs"
    assert sent(world, "none").status_code == 201, "a job without GPUs needs no count"
    world.fake.clock.sleep(5)
    said = refused(sent(world, "b", **with_gpus(2)), 429, "quota")
    assert said == (
        "gpus: your waiting and running jobs have 3 GPUs, this one asks for 2; your limit is 4"
    )
    assert sent(world, "b", **with_gpus(1)).status_code == 201


def test_reader_and_caller_of_yesterday(tmp_path: Path) -> None:
    world = World(tmp_path, policy="bob: {role: read}\netl: {expires: 2020-01-31}\n")
    assert sent(world, "mnist").status_code == 201
    assert world.ask("GET", "/v1/jobs?user=*", "bob").json()["jobs"]
    for method, path in (
        ("POST", "/v1/jobs"),
        ("POST", "/v1/jobs/mnist/stop"),
        ("POST", "/v1/jobs/mnist/release"),
        ("DELETE", "/v1/jobs/mnist"),
    ):
        answer = world.ask(method, path, "bob", **({"json": OWN} if path == "/v1/jobs" else {}))
        assert refused(answer, 403, "policy").startswith("role: bob may read")
    answer = world.ask("GET", "/v1/jobs", "etl")
    assert refused(answer, 403, "policy") == "expires: etl was a caller until 2020-01-31"


def test_each_action_is_recorded(tmp_path: Path) -> None:
    world = World(tmp_path, policy="bob: {role: read}\n")
    body = json.dumps({**JOB, "env": {"NOTE": "of-the-body"}}).encode()
    typed = {"Content-Type": "application/json"}
    for _ in range(2):
        posted = world.ask("POST", "/v1/jobs", content=body, headers=typed).json()
    world.ask("POST", "/v1/jobs", content=b"{}", headers=typed)
    world.ask("POST", "/v1/jobs/mnist/stop?wait=true")
    world.ask("DELETE", "/v1/jobs/mnist", "bob")
    world.ask("DELETE", "/v1/jobs/mnist")
    world.ask("GET", "/v1/jobs")
    run, digest = posted["run"], hashlib.sha256(body).hexdigest()
    told = [
        tuple(entry.get(name) for name in ("caller", "action", "job", "run", "result"))
        for entry in world.entries
    ]
    app = world.entries[0]["application_id"]
    assert app == world.entries[3]["application_id"] == posted["application_id"]
    assert told == [
        ("alice", "submit", "mnist", run, "new"),
        ("alice", "submit", "mnist", run, "adopted"),
        ("alice", "submit", None, None, "job-spec"),
        ("alice", "stop", "mnist", run, "STOPPED"),
        ("bob", "delete", "mnist", None, "policy"),
        ("alice", "delete", "mnist", run, "deleted"),
        ("alice", None, None, None, None),
    ]
    assert world.entries[0]["body_sha256"] == digest
    assert "of-the-body" not in json.dumps(world.entries)
    for text in ("1", "2"):
        parts = {"job": ("job.json", body, "application/json"), "files": ("a.py", text)}
        world.ask("POST", "/v1/jobs", files=parts)
    assert len({entry["body_sha256"] for entry in world.entries[-2:]} - {digest}) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alice: 4", "policy.yaml:1:1: alice: rules are a mapping, such as {jobs: 4}"),
        ("alice: {job: 4}", "policy.yaml:1:9: alice.job: not a rule; the rules are jobs, gpus,"),
        ("alice: {jobs: -1}", "alice.jobs: expected a number of jobs, or null for no limit"),
        ("alice: {jobs: true}", "alice.jobs: expected a number of jobs"),
        ("bob: {role: write}", "bob.role: expected submit or read"),
        ("bob: {expires: soon}", "bob.expires: expected the last day, such as 2026-12-31"),
        ("bob: {queues: ml}", "bob.queues: expected a list of queues"),
        ('"*": {jobs: 1}\nal ice: {}', "policy.yaml:2:1: al ice: not a user name"),
        ("bob: {jobs: 1, jobs: 2}", "policy.yaml:1:16: the key 'jobs' stands here again"),
    ],
)
def test_policy_that_is_invalid(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SettingsError) as caught:
        Policy.of(path)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("allowed", "image", "is_allowed"),
    [
        ("registry.example.com", "registry.example.com/x", True),
        ("registry.example.com/", "registry.example.com/x/y:1@sha256:" + "0" * 64, True),
        ("registry.example.com", "registry.example.com:5000/x", False),
        ("registry.example.com", "registry.example.com.evil.test/x", False),
        ("registry.example.com:5000", "registry.example.com:5000/x:1", True),
        ("registry.example.com:5000", "registry.example.com/x", False),
        ("registry.example.com:5000", "registry.example.com:50001/x", False),
        ("registry.example.com:5000", "registry.example.com:5001/x", False),
        ("registry.example.com:5000/ml", "registry.example.com:5000/ml:1", True),
        ("registry.example.com:5000/ml", "registry.example.com:5000/ml/x", True),
        ("registry.example.com:5000/ml", "registry.example.com:5000/ml2", False),
        ("docker.io", "tf:2.15", True),
        ("docker.io", "docker.io:444/library/tf", False),
        ("docker.io/library", "tf", True),
        ("docker.io/library", "a/tf", False),
        ("localhost", "localhost:5000/x", False),
    ],
)
def test_registry_is_a_host_with_its_port(
    tmp_path: Path, allowed: str, image: str, is_allowed: bool
) -> None:
    world = World(tmp_path, policy=f"alice: {{registries: ['{allowed}']}}\n")
    answer = world.post(image=image)
    assert answer.status_code == (201 if is_allowed else 403), answer.text


def test_metrics_count_a_refusal_by_its_own_code(tmp_path: Path) -> None:
    world = World(tmp_path, policy="alice: {jobs: 1, queues: [default]}\n")
    assert world.post(key="1").status_code == 201
    refused(world.post(name="second"), 429, "quota")
    refused(world.post(name="third", queue="other"), 403, "policy")
    refused(world.post(name="X"), 422, "job-spec")
    text = world.http.get("/metrics").text
    counted = dict(re.findall(r'submissions_total\{outcome="([^"]+)"\} (\S+)', text))
    told = dict.fromkeys(("new", "quota", "policy", "job-spec"), "1.0")
    assert counted == {**told, "adopted": "0.0"}
