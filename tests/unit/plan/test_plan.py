"""(Job, Site) → the service: what no golden shows, what is staged, and the submission's id."""

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
from submit_tf_job.errors import JobSpecError, UsageError
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


def refused(job: Any, site: Site = SITE) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        plan(job, site)
    return [str(problem) for problem in caught.value.problems]


PLAN = "submit_tf_job/plan"


# --- what no golden shows -------------------------------------------------------------------------


def test_deciding_task_without_chief_is_worker_0() -> None:
    text = "strategy: parameter-server\n"
    job = spec_job(text, "{worker: {instances: 3, memory: 1Gi}, ps: {memory: 1Gi}}")
    assert job.deciding_task == "worker-0"
    task = task_of(job)
    assert {name: role["kind"] for name, role in task["roles"].items()} == {
        "worker": "trains",
        "ps": "serves",
        # without it YARN would wait for each worker, also for one that never gets a container
        "witness": "sidecar",
    }
    assert task["cluster_roles"] == ["worker", "ps"]


def test_quick_links_of_the_first_ten_tasks_and_fixed_ports() -> None:
    board = "board: {instances: 12, memory: 1Gi, command: b, ports: {http: auto, api: 80}}"
    body = plan(spec_job("", f"{{worker: {{memory: 1Gi}}, {board}}}"), SITE).body
    posted = json.loads(body)
    assert posted["components"][1]["quicklinks"] == [f"board-{index} api" for index in range(10)]
    link = "http://board-9.${SERVICE_NAME}.${USER}.${DOMAIN}:80"
    assert posted["quicklinks"]["board-9 api"] == link
    properties = posted["components"][1]["configuration"]["properties"]
    assert properties["submit_tf_job.ports"] == "http=auto,api=80"


def test_optional_fields_of_a_service_are_there_only_if_asked_for() -> None:
    text = "description: digits\nqueue: ml\nlifetime: 1m\ndocker_client_config: hdfs:///c.json\n"
    plain, rich = (json.loads(plan(spec_job(more), SITE).body) for more in ("", text))
    assert {key: rich[key] for key in set(rich) - set(plain)} == {
        "description": "digits",
        "queue": "ml",
        "lifetime": 60,
        "docker_client_config": "hdfs:///c.json",
    }


def test_bounds_of_an_elastic_role_are_a_property_of_its_component() -> None:
    roles = "{chief: {memory: 1Gi}, worker: {memory: 1Gi, instances: {min: 2, max: 8}}}"
    worker = parts(plan(spec_job("retries: 3\n", roles), SITE))["worker"]
    assert worker["number_of_containers"] == 8
    assert worker["configuration"]["properties"]["submit_tf_job.instances"] == "2-8"


def test_resources() -> None:
    role, other = "cpus: 4, gpus: 2", replace(SITE, gpu_resource="nvidia.com/gpu")
    assert chief(role)["resource"] == {
        "cpus": 4,
        "memory": "512",
        "additional": {"yarn.io/gpu": {"value": 2, "unit": ""}},
    }
    assert list(chief(role, site=other)["resource"]["additional"]) == ["nvidia.com/gpu"]


@pytest.mark.parametrize(
    ("placement", "constraint"),
    [
        ("spread: node", {"type": "ANTI_AFFINITY", "scope": "NODE"}),
        ("spread: rack", {"type": "ANTI_AFFINITY", "scope": "RACK"}),
        ("together: rack", {"type": "AFFINITY", "scope": "RACK"}),
        (
            "spread: node, node_attributes: {os: [deb12, deb13]}",
            {
                "type": "ANTI_AFFINITY",
                "scope": "NODE",
                "node_attributes": {"os": ["deb12", "deb13"]},
            },
        ),
    ],
)
def test_placement(placement: str, constraint: dict[str, object]) -> None:
    [found] = chief(f"placement: {{{placement}}}")["placement_policy"]["constraints"]
    assert found == {**constraint, "target_tags": ["chief"]}


def test_environment_and_command_without_the_bootstrap() -> None:
    bare = "bootstrap: false\ntf_config: none\n"
    part = chief("""command: python t.py, env: {A: '"$x"'}""", bare)
    assert part["launch_command"] == "exec bash -o pipefail -c 'python t.py'"
    assert "files" not in part["configuration"]
    assert part["configuration"]["env"] == {
        "A": '\\"\\$x\\"',
        "CUDA_VISIBLE_DEVICES": "",  # no GPU is asked for
        "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "host",
    }
    own = chief("env: {CUDA_VISIBLE_DEVICES: '3'}", bare)["configuration"]["env"]
    assert own["CUDA_VISIBLE_DEVICES"] == "3"
    assert "CUDA_VISIBLE_DEVICES" not in chief("gpus: 1", bare)["configuration"]["env"]


@pytest.mark.parametrize("domain", ["example.com", None])
def test_role_without_image_is_a_plain_process(domain: str | None) -> None:
    job = spec_job("", "{chief: {memory: 1Gi, image: none}, worker: {memory: 1Gi}}")
    found = parts(plan(job, replace(SITE, domain=domain)))
    assert ("artifact" in found["chief"], "artifact" in found["worker"]) == (False, True)
    env = found["chief"]["configuration"]["env"]
    assert env["YARN_CONTAINER_RUNTIME_TYPE"] == "default"
    assert ("YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME" in env) is (domain is None)
    assert "YARN_CONTAINER_RUNTIME_TYPE" not in found["worker"]["configuration"]["env"]


@pytest.mark.parametrize(
    ("role", "text", "message"),
    [
        ("mounts: [/a:/a]", "", "which sees the node's directories"),
        ("docker: {tmpfs: [/s]}", "", "without Docker; leave docker out"),
        ("cpus: 1", "network: bridge\n", "on the node's own network; say network: host"),
    ],
)
def test_role_without_image_refuses_what_needs_a_container(
    role: str, text: str, message: str
) -> None:
    [problem] = refused(
        spec_job(text, f"{{chief: {{memory: 1Gi, image: none, {role}}}, worker: {{memory: 1Gi}}}}")
    )
    assert message in problem


@pytest.mark.parametrize("site", [SITE, SITE_WITHOUT_STAGING])
def test_yarn_copies_files_of_hdfs(site: Site) -> None:
    own = "{src: 'hdfs:///d.zip', dst: data, unpack: true}"
    roles = f"{{chief: {{memory: 1Gi}}, worker: {{memory: 1Gi, files: [{own}]}}}}"
    job = spec_job("files: ['hdfs:///w.bin']\n", roles)
    planned = plan(job, site)
    sources = {
        name: [
            (file["type"], file["src_file"])
            for file in part["configuration"]["files"]
            if str(file.get("src_file")).startswith("hdfs:///")
        ]
        for name, part in parts(planned).items()
    }
    static, archive = ("STATIC", "hdfs:///w.bin"), ("ARCHIVE", "hdfs:///d.zip")
    assert sources == {"chief": [static], "worker": [static, archive]}
    assert set(task_of(job)["files"]["roles"]["worker"]["links"]) == {"w.bin", "data"}


# --- what is staged -------------------------------------------------------------------------------

FILES, BOOT = "tfjob-files.tar", "bootstrap.py"


@pytest.mark.parametrize(("size", "env"), [(9, 9), (60_000, 9), (60_000, 70_000)])
def test_plan_stages_until_the_service_fits(tmp_path: Path, size: int, env: int) -> None:
    (tmp_path / "f").write_bytes(os.urandom(size))
    text = f"strategy: custom\nfiles: [f]\nenv: {{A: {'x' * env}}}\n"
    job = spec_job(text, "{worker: {memory: 1Gi}}", base=tmp_path)
    inside, staged = plan(job, SITE_WITHOUT_STAGING), plan(job, SITE)
    assert inside.uploads == ()
    assert (staged.uploads == ()) is (len(inside.body) <= 60_000)
    assert len(staged.body) <= 60_000
    types = {
        file["dest_file"]: file["type"]
        for file in parts(staged)["worker"]["configuration"]["files"]
    }
    assert types.get(FILES, "STATIC") == "STATIC"
    if env > 60_000:
        assert types == {FILES: "STATIC", BOOT: "STATIC"}


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
        assert upload.uri == f"{STAGING}/files/mnist/{found}/{name}"


# --- the submission's id --------------------------------------------------------------------------


def test_submission_id_is_in_version_property_and_task() -> None:
    planned = plan(spec_job(), SITE_WITHOUT_STAGING)
    posted = json.loads(planned.body)
    property_ = posted["configuration"]["properties"]["submit_tf_job.submission-id"]
    assert posted["version"] == property_ == planned.submission
    assert len(planned.submission) == 16
    assert int(planned.submission, 16) >= 0
    content = posted["components"][0]["configuration"]["files"][0]["properties"]["content"]
    assert f'"submission": "{planned.submission}"' in content


def test_plan_is_deterministic() -> None:
    for spec in SPECS:
        assert plan(load(spec), SITE) == plan(load(spec), SITE)


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
prepare: "true"
tf_config: literal
variables: tony
keras: legacy
retries: 2
bootstrap: false
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
SITES: dict[str, Any] = {
    "user": "bob",
    "domain": "other.example.com",
    "dns_server": "dns:53",
    "gpu_resource": "nvidia.com/gpu",
    "port_range": (20000, 30000),
    "secure": True,
}
# a priority is set when YARN has accepted the service; a legacy master needs an Estimator
WITHOUT = {"$schema", "priority", "legacy_master"}


def submission(change: str = "", worker: str = "", **site: Any) -> str:
    """Return the id of a job of two roles after a change of one key."""
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
    return plan(
        spec_job("".join(f"{line}\n" for line in lines), roles, defaults=defaults),
        replace(SITE, **site),
    ).submission


def test_submission_id_changes_with_each_key_and_with_the_site() -> None:
    """Otherwise the same command with another value would find the first job and change nothing."""
    schema = jobspec.schema()
    stated = {line.partition(":")[0] for line in CHANGES.splitlines()}
    of_role = {line.partition(":")[0] for line in WORKER.splitlines()}
    assert stated == set(schema["properties"]) - WITHOUT
    assert of_role == set(schema["definitions"]["role"]["properties"])
    found = [
        submission(),
        *(submission(line) for line in CHANGES.splitlines()),
        *(submission(worker=line) for line in WORKER.splitlines()),
        *(submission(**{name: value}) for name, value in SITES.items()),
    ]
    lines = ["nothing", *CHANGES.splitlines(), *WORKER.splitlines(), *SITES]
    same = [line for line, made in zip(lines, found, strict=True) if found.count(made) > 1]
    assert same == []


def test_submission_id_does_not_depend_on_where_a_value_stands() -> None:
    assert plan(spec_job(source="b.yaml"), SITE).submission == plan(spec_job(), SITE).submission
    # two users' jobs on one host share neither ports nor a rendezvous
    users = [Site(user) for user in ("alice", "bob")]
    assert len({plan(spec_job(), site).submission for site in users}) == 2


def test_submission_id_of_a_replacing_run() -> None:
    first, again, third = (
        plan(spec_job(), SITE, after=after) for after in ("", "application_1_1", "application_1_2")
    )
    assert len({first.submission, again.submission, third.submission}) == 3
    origin = [
        json.loads(planned.body)["configuration"]["properties"].get("submit_tf_job.rerun-of")
        for planned in (first, again)
    ]
    assert origin == [None, first.submission]


def test_plan_uses_a_given_submission_id() -> None:
    for given in ("a", "A.b_c-9", "x" * 64, "0"):
        assert plan(spec_job(), SITE, submission=given).submission == given
    for given in ("", "x" * 65, "-a", ".a", "_a", "a b", "a/b", "a\n", "é", "${USER}", "a,b"):
        with pytest.raises(UsageError) as error:
            plan(spec_job(), SITE, submission=given)
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
