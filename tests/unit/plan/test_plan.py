"""(Job, Site) → the service: what no golden shows, what is staged, and the submission's key."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import jobspec
from submit_tf_job.errors import UsageError
from submit_tf_job.plan import Plan, Site, plan
from tests.golden.fixed import (
    ROOT,
    SITE,
    SITE_WITHOUT_STAGING,
    SPECS,
    STAGING,
    load,
    spec_job,
    task_of,
)


def parts(planned: Plan) -> dict[str, dict[str, Any]]:
    """Return the components of the posted service by name."""
    return {part["name"]: part for part in json.loads(planned.body)["components"]}


def chief(role: str, text: str = "", site: Site = SITE) -> dict[str, Any]:
    """Return the component of a chief with some keys, beside one worker."""
    roles = f"{{chief: {{memory: 512Mi, {role}}}, worker: {{memory: 512Mi, command: w}}}}"
    return parts(plan(spec_job(text, roles), site))["chief"]


PLAN = "submit_tf_job/plan"


# --- what no golden shows -------------------------------------------------------------------------


def test_deciding_task_without_chief_is_worker_0() -> None:
    text = "strategy: parameter-server\n"
    job = spec_job(text, "{worker: {instances: 3, memory: 1Gi}, ps: {memory: 1Gi}}")
    assert job.deciding_task == "worker-0"
    task = task_of(job)
    kinds = {name: role["kind"] for name, role in task["roles"].items()}
    # without a witness YARN would wait for each worker, also for one that never gets a container
    assert kinds == {"worker": "trains", "ps": "serves", "witness": "sidecar"}
    assert task["cluster_roles"] == ["worker", "ps"]


def test_bounds_of_an_elastic_role_are_told_to_yarn_and_to_the_tasks() -> None:
    roles = "{chief: {memory: 1Gi}, worker: {memory: 1Gi, instances: {min: 2, max: 8}}}"
    job = spec_job("retries: 3\n", roles)
    worker = parts(plan(job, SITE))["worker"]
    assert worker["number_of_containers"] == 8
    assert worker["configuration"]["properties"]["submit_tf_job.instances"] == "2-8"
    task = task_of(job)
    assert (list(task["elastic"]), task["elastic"]["worker"]["min"]) == (["worker"], 2)
    assert task["roles"]["worker"]["count"] == 8
    assert "elastic" not in task_of(spec_job("retries: 3\n"))


@pytest.mark.parametrize("domain", ["example.com", None])
def test_role_without_image_is_a_plain_process(domain: str | None) -> None:
    job = spec_job("", "{chief: {memory: 1Gi, image: none}, worker: {memory: 1Gi}}")
    found = parts(plan(job, replace(SITE, domain=domain)))
    assert ("artifact" in found["chief"], "artifact" in found["worker"]) == (False, True)
    env = found["chief"]["configuration"]["env"]
    assert env["YARN_CONTAINER_RUNTIME_TYPE"] == "default"
    assert ("YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME" in env) is (domain is None)
    assert "YARN_CONTAINER_RUNTIME_TYPE" not in found["worker"]["configuration"]["env"]


# --- what is staged -------------------------------------------------------------------------------

FILES = "tfjob-files.tar"


def test_uploads_are_named_by_content_and_unique(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(os.urandom(60_000))
    roles = ", ".join(
        f"{name}: {{memory: 1Gi, command: x, files: [{{src: {src}, dst: f}}]}}"
        for name, src in (("chief", "a"), ("worker", "a"), ("board", "b"))
    )
    planned = plan(spec_job("", f"{{{roles}}}", base=tmp_path), SITE)
    names = [upload.uri.rpartition("/")[2] for upload in planned.uploads]
    assert sorted(names)[-2:] == [FILES, FILES]
    for upload, name in zip(planned.uploads, names, strict=True):
        content: Any = upload.content
        is_bytes = isinstance(content, bytes)
        found = hashlib.sha256(content).hexdigest() if is_bytes else content.sha256
        place = "bootstrap" if name == "bootstrap.zip" else "files/mnist"
        assert upload.uri == f"{STAGING}/{place}/{found}/{name}"


# --- the run's name, and the submission's key ------------------------------------------------------


def test_a_run_has_a_name_of_its_own_and_its_key_in_version_and_property() -> None:
    planned = plan(spec_job(), SITE_WITHOUT_STAGING)
    posted = json.loads(planned.body)
    properties = posted["configuration"]["properties"]
    assert re.fullmatch(r"mnist-[0-9][a-z2-7]{7}", planned.run)
    assert (posted["name"], properties["submit_tf_job.job"]) == (planned.run, "mnist")
    assert posted["version"] == properties["submit_tf_job.submission-id"] == planned.key
    content = posted["configuration"]["files"][0]["properties"]["content"]
    assert f'"run": "{planned.run}"' in content


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_runs_of_one_submission_differ_by_their_names_alone(spec: Path) -> None:
    """So `render` shows what any run of the submission is."""
    first = plan(load(spec), SITE)
    third = first.at(2)
    assert (third.number, third.key, third.run) == (2, first.key, first.run_of(2))
    assert third.run != first.run
    assert without_run(third) == without_run(first)


def without_run(planned: Plan) -> str:
    return planned.body.replace(planned.run, "RUN")


# One change of a job spec a line; a role's keys are those of its worker.
CHANGES = """\
name: other
image: a/b:2
command: python t.py
env: {A: b}
files: ["hdfs:///x"]
mounts: ["/a:/b"]
workdir: src
docker: {tmpfs: [/x]}
strategy: torch
description: other
queue: other
roles: {worker: {memory: 1Gi}}
network: bridge
hadoop: {conf: /etc/hadoop/conf}
kerberos: {principal: a/b, keytab: "hdfs:///k"}
inputs: {d: "hdfs:///d"}
outputs: {m: "hdfs:///m"}
lifetime: 1s
start_timeout: 1s
finish_timeout: 1s
grace: 1s
stop_grace: 1m
stall_timeout: 20m
hold_on_failure: 30m
checkpoints: hdfs:///c
prepare: "true"
tf_config: counts
variables: tony
keras: legacy
retries: 2
image_policy: warn
python: python3.9
deciding_role: worker
ends_with: all-that-train
docker_client_config: hdfs:///c
"""
WORKER = """\
instances: 3
kind: sidecar
cpus: 2
memory: 2Gi
gpus: 1
gpu_resource: a.com/b
shape: big
image: a/b:3
command: x
env: {A: c}
files: ["hdfs:///y"]
mounts: ["/a:/c"]
workdir: lib
docker: {tmpfs: [/y]}
placement: {spread: node}
after: chief
restart: on-failure
tolerate: 1
python: python3.8
ports: {http: 80}
"""
# a priority is set when YARN has accepted the service; a legacy master needs an Estimator
WITHOUT = {"$schema", "priority", "legacy_master"}


def key_of(change: str = "", worker: str = "") -> str:
    """Return the key of a job of two roles after a change of one key."""
    key = worker.partition(":")[0]
    body = "".join(
        f"{name}: {value}, "
        for name, value in {"memory": "1Gi", "instances": "2", "command": "w"}.items()
        if name != key and (name, key) != ("memory", "shape")
    )
    roles = f"{{chief: {{memory: 1Gi, gpus: 1}}, worker: {{{body}{worker}}}}}"
    stated = change.partition(":")[0]
    plain = {"strategy": "custom", "deciding_role": "chief", "tf_config": "none"}
    if stated == "strategy":
        plain = {}
    if stated == "roles":
        plain["deciding_role"] = "worker"
    lines = [change, *(f"{k}: {v}" for k, v in plain.items() if k != stated)]
    shapes = {"big": {"memory": "9Gi"}}
    defaults = jobspec.Defaults(shapes=shapes)
    job = spec_job("".join(f"{line}\n" for line in lines), roles, defaults=defaults)
    return plan(job, SITE).key


def test_key_changes_with_each_key_of_the_job_spec() -> None:
    """Otherwise the same command with another value would find the first job and change nothing."""
    schema = jobspec.schema()
    stated = {line.partition(":")[0] for line in CHANGES.splitlines()}
    of_role = {line.partition(":")[0] for line in WORKER.splitlines()}
    assert stated == set(schema["properties"]) - WITHOUT
    assert of_role == set(schema["definitions"]["role"]["properties"])
    found = [
        key_of(),
        *(key_of(line) for line in CHANGES.splitlines()),
        *(key_of(worker=line) for line in WORKER.splitlines()),
    ]
    lines = ["nothing", *CHANGES.splitlines(), *WORKER.splitlines()]
    same = [line for line, made in zip(lines, found, strict=True) if found.count(made) > 1]
    assert same == []


def test_key_does_not_change_with_defaults_or_places() -> None:
    """A retry by a scheduler finds its run after an upgrade, and from another directory."""
    key = plan(spec_job(), SITE).key
    for same in (
        spec_job(source="b.yaml"),
        spec_job("start_timeout: 15m\nnetwork: host\nvariables: []\ndescription: ''\n"),
        spec_job("", "{worker: {instances: 2, memory: 512Mi}, chief: {memory: 512Mi, cpus: 1}}"),
    ):
        assert plan(same, SITE).key == key
    assert plan(spec_job(), Site("bob", domain="b.example.com", dns_server="dns:53")).key == key
    names = {plan(spec_job(), replace(SITE, user=user)).run for user in ("alice", "bob")}
    assert len(names) == 2  # two users' jobs on one host share neither ports nor a rendezvous


def test_key_is_the_same_in_every_version() -> None:
    """A newer program finds what an older one has submitted: these values never change."""
    rich = "lifetime: 1h\nqueue: ml\nenv: {B: c, A: b}\nretries: {max: 2}\n"
    assert plan(spec_job(), SITE).key == "6218aef3cd3e409b"
    assert plan(spec_job(rich), SITE).key == "af9258f4c366f761"


def test_key_changes_with_the_content_of_files_and_not_with_their_paths(tmp_path: Path) -> None:
    keys = []
    for number, content in enumerate((b"a" * 9_000_000, b"a" * 9_000_000, b"b" * 9_000_000)):
        base = tmp_path / str(number)
        base.mkdir()
        (base / "data").write_bytes(content)  # large ones are read only as they are uploaded
        (base / "t.py").write_bytes(content[:9])
        jobs = [spec_job(f"files: [{name}]\n", base=base) for name in ("data", "t.py")]
        keys.append([plan(job, SITE).key for job in jobs])
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])


def test_plan_uses_a_given_key() -> None:
    for given in ("a", "A.b_c-9", "x" * 64, "0"):
        assert plan(spec_job(), SITE, key=given).key == given
    for given in ("", "x" * 65, "-a", ".a", "_a", "a b", "a/b", "a\n", "é", "${USER}", "a,b"):
        with pytest.raises(UsageError) as error:
            plan(spec_job(), SITE, key=given)
        assert error.value.message == f"{given!r} is not a valid submission id"


# --- the whole ------------------------------------------------------------------------------------


def test_plan_size_is_constant_in_tasks() -> None:
    few, many = (
        spec_job("", f"{{chief: {{memory: 1Gi}}, worker: {{memory: 1Gi, instances: {count}}}}}")
        for count in (10, 10_000)
    )
    for site in (SITE, SITE_WITHOUT_STAGING):
        assert len(plan(many, site).body) <= 1.05 * len(plan(few, site).body)


def test_plan_modules_import_no_clock_environment_network_or_randomness() -> None:
    names = "time|datetime|random|secrets|os|socket|subprocess|uuid"
    sources = {path.name: path.read_text("utf-8") for path in (ROOT / PLAN).glob("*.py")}
    assert len(sources) > 8
    pattern = re.compile(rf"^(?:import|from) (?:{names})\b", re.MULTILINE)
    assert [name for name, text in sources.items() if pattern.search(text)] == []
