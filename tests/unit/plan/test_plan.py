"""(Job, Site) → the service: its fields, what is staged, and the submission's id."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import contract
from submit_tf_job import plan as package
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.job import (
    Command,
    DockerOptions,
    HadoopConf,
    HostFile,
    Job,
    Kerberos,
    Mount,
    PackageKind,
    Packages,
    Place,
    Placement,
    Restart,
    Role,
    ShippedFile,
    Strategy,
    TFConfigMode,
)
from submit_tf_job.jobdata import Input, Output
from submit_tf_job.plan import Plan, Site, check, payload, plan
from submit_tf_job.plan.packing import Pack
from submit_tf_job.tfconfig import rendezvous_port, task_port
from submit_tf_job.yarn.records import dumps
from tests.golden.fixed import SITE, SITE_WITHOUT_STAGING, SPECS, STAGING, SUBMISSION, load, make_job, make_role


def component(planned: Plan, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(planned.body)["components"][index]
    return found


# --- the service ------------------------------------------------------------------------------------------------------


def test_what_is_said_of_the_whole_job() -> None:
    job = make_job(
        description="digits",
        queue="ml",
        lifetime_s=60,
        docker_client_config="hdfs:///config.json",
        kerberos=Kerberos("svc/_HOST@REALM", "hdfs:///svc.keytab"),
    )
    service = json.loads(plan(job, SITE, submission=SUBMISSION).body)
    del service["components"]
    assert service == {
        "name": "mnist",
        "version": SUBMISSION,
        "description": "digits",
        "queue": "ml",
        "lifetime": 60,
        "docker_client_config": "hdfs:///config.json",
        "kerberos_principal": {"principal_name": "svc/_HOST@REALM", "keytab": "hdfs:///svc.keytab"},
        "configuration": {
            "properties": {
                "submit_tf_job.bootstrap": "true",
                "submit_tf_job.deciding-task": "chief-0",
                "submit_tf_job.strategy": "multi-worker",
                "submit_tf_job.submission-id": SUBMISSION,
                "yarn.service.am-restart.max-attempts": "4",
                "yarn.service.container-failure-per-component.threshold": "2147483647",
                "yarn.service.container-failure.retry.max": "0",
                "yarn.service.readiness-check-interval.seconds": "1",
            }
        },
    }


def test_silence_is_left_out() -> None:
    service = json.loads(plan(make_job(), SITE).body)
    assert set(service) == {"name", "version", "configuration", "components"}
    assert set(service["components"][0]) == {
        "name",
        "number_of_containers",
        "artifact",
        "launch_command",
        "resource",
        "restart_policy",
        "configuration",
    }


def test_only_the_deciding_component_decides_and_only_as_a_component() -> None:
    """At service level it would be merged into every component (facts: yarn-services P5)."""
    service = json.loads(plan(make_job(make_role("chief"), make_role("worker"), make_role("board")), SITE).body)
    key = "yarn.service.container-state-report-as-service-state"
    assert [c["configuration"].get("properties", {}).get(key) for c in service["components"]] == ["true", None, None]
    assert key not in service["configuration"]["properties"]


def test_restart_policies() -> None:
    assert component(plan(make_job(make_role()), SITE))["restart_policy"] == "NEVER"
    assert component(plan(make_job(make_role(restart=Restart.ON_FAILURE, max_restarts=1)), SITE))["restart_policy"] == "ON_FAILURE"


def test_resources() -> None:
    role = make_role(cpus=4, memory_mib=16384, gpus=2)
    assert component(plan(make_job(role), SITE))["resource"] == {
        "cpus": 4,
        "memory": "16384",
        "additional": {"yarn.io/gpu": {"value": 2, "unit": ""}},
    }
    other = replace(SITE, gpu_resource="nvidia.com/gpu")
    assert list(component(plan(make_job(role), other))["resource"]["additional"]) == ["nvidia.com/gpu"]


PLACEMENTS = [
    (Placement(spread="node"), {"type": "ANTI_AFFINITY", "scope": "NODE", "target_tags": ["worker"]}),
    (Placement(spread="rack"), {"type": "ANTI_AFFINITY", "scope": "RACK", "target_tags": ["worker"]}),
    (Placement(together="rack"), {"type": "AFFINITY", "scope": "RACK", "target_tags": ["worker"]}),
    (
        Placement(partition="gpu"),
        {
            "type": "AFFINITY_WITH_CARDINALITY",
            "scope": "NODE",
            "target_tags": ["worker"],
            "node_partitions": ["gpu"],
            "min_cardinality": 0,
            "max_cardinality": 3,
        },
    ),
    (
        Placement(spread="node", attributes={"os": ("deb12", "deb13")}),
        {"type": "ANTI_AFFINITY", "scope": "NODE", "target_tags": ["worker"], "node_attributes": {"os": ["deb12", "deb13"]}},
    ),
]


@pytest.mark.parametrize(("placement", "constraint"), PLACEMENTS)
def test_placement(placement: Placement, constraint: dict[str, object]) -> None:
    planned = plan(make_job(make_role(instances=3, placement=placement)), SITE)
    assert component(planned)["placement_policy"] == {"constraints": [constraint]}


def test_the_environment_with_the_bootstrap_is_yarns_own() -> None:
    role = make_role(env={"A": "1"}, mounts=(Mount("/data", "/d"), Mount("/out", "/o", read_only=False)))
    job = make_job(role, network="bridge", hadoop=HadoopConf("node", "/etc/hadoop/conf"))
    assert component(plan(job, SITE))["configuration"]["env"] == {
        "TFJOB_INSTANCE": "${COMPONENT_INSTANCE_NAME}",
        "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "bridge",
        "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": "/data:/d:ro,/out:/o:rw,/etc/hadoop/conf:/etc/hadoop/conf:ro",
    }


def test_the_environment_without_the_bootstrap_is_the_jobs() -> None:
    job = make_job(make_role(env={"A": '"$x"'}), bootstrap=False, tf_config=TFConfigMode.NONE)
    assert component(plan(job, SITE))["configuration"]["env"] == {
        "A": '\\"\\$x\\"',
        "CUDA_VISIBLE_DEVICES": "",
        "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "host",
    }
    own = make_job(make_role(env={"CUDA_VISIBLE_DEVICES": "3"}), bootstrap=False, tf_config=TFConfigMode.NONE)
    assert component(plan(own, SITE))["configuration"]["env"]["CUDA_VISIBLE_DEVICES"] == "3"
    gpus = make_job(make_role(gpus=1), bootstrap=False, tf_config=TFConfigMode.NONE)
    assert "CUDA_VISIBLE_DEVICES" not in component(plan(gpus, SITE))["configuration"]["env"]


def test_launch_commands() -> None:
    assert component(plan(make_job(make_role(), python="/opt/python3.9"), SITE_WITHOUT_STAGING))["launch_command"] == (
        "exec /opt/python3.9 conf/bootstrap.py"
    )
    job = make_job(make_role(command=Command(script="python t.py")), bootstrap=False, tf_config=TFConfigMode.NONE)
    assert component(plan(job, SITE))["launch_command"] == "exec bash -c 'python t.py'"
    assert component(plan(job, SITE))["configuration"].get("files") is None


def test_an_archive_of_hadoop_configuration_is_linked() -> None:
    files = component(plan(make_job(hadoop=HadoopConf("archive", "hdfs:///c.zip")), SITE))["configuration"]["files"]
    assert files[-1] == {"type": "ARCHIVE", "dest_file": "tfjob-hadoop-conf", "src_file": "hdfs:///c.zip"}


# --- what is staged ---------------------------------------------------------------------------------------------------


def types(planned: Plan, index: int = 0) -> list[tuple[str, str]]:
    return [(file["type"], file["dest_file"]) for file in component(planned, index)["configuration"]["files"]]


WITH_FILES = make_role(files=(ShippedFile("t.py", b"print()"),))
ALL_INSIDE = [("TEMPLATE", "bootstrap.py")]
FILES_STAGED = [("STATIC", "tfjob-files.tar"), ("TEMPLATE", "bootstrap.py")]
ALL_STAGED = [("STATIC", "tfjob-files.tar"), ("STATIC", "bootstrap.py")]


@pytest.mark.parametrize(
    ("site", "fitting", "form", "uploads"),
    [
        (SITE, 1, ALL_INSIDE, 0),
        (SITE, 2, FILES_STAGED, 1),
        (SITE, 3, ALL_STAGED, 2),
        (SITE, 9, ALL_STAGED, 2),
        (SITE_WITHOUT_STAGING, 1, ALL_INSIDE, 0),
        (SITE_WITHOUT_STAGING, 9, ALL_INSIDE, 0),
    ],
)
def test_no_more_is_staged_than_must_be(
    monkeypatch: pytest.MonkeyPatch, site: Site, fitting: int, form: list[tuple[str, str]], uploads: int
) -> None:
    """`fitting` is the number of the attempt that is small enough."""
    asked: list[int] = []

    def fits(_service: object) -> bool:
        asked.append(1)
        return len(asked) >= fitting

    monkeypatch.setattr(check, "fits", fits)
    planned = plan(make_job(WITH_FILES), site, submission=SUBMISSION)
    assert (types(planned), len(planned.uploads)) == (form, uploads)


def test_what_fits_is_measured_as_posted() -> None:
    service = plan(make_job(), SITE_WITHOUT_STAGING).service
    size = len(dumps(service))
    assert check.fits(service) is (size <= 60_000)
    assert len(dumps(plan(make_job(*(make_role(f"r{n}") for n in range(9)), deciding_role="r0"), SITE).service)) <= 60_000


def test_uploads_are_named_by_their_content_and_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "fits", lambda _service: False)
    same, other = (ShippedFile("a", b"1"),), (ShippedFile("a", b"2"),)
    job = make_job(make_role("chief", files=same), make_role("worker", files=same), make_role("board", files=other))
    planned = plan(job, SITE)
    assert [upload.uri.rpartition("/")[2] for upload in planned.uploads] == ["tfjob-files.tar", "bootstrap.py", "tfjob-files.tar"]
    for upload in planned.uploads:
        content = upload.content
        found = content.id if isinstance(content, Pack) else hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else ""
        assert upload.uri == f"{STAGING}/files/{job.name}/{found}/{upload.uri.rpartition('/')[2]}"
    used = {file["src_file"] for index in range(3) for file in component(planned, index)["configuration"]["files"]}
    assert used == {upload.uri for upload in planned.uploads}


# --- the submission's id ----------------------------------------------------------------------------------------------


def test_the_id_is_stated_where_it_is_looked_for() -> None:
    planned = plan(make_job(), SITE_WITHOUT_STAGING)
    service = json.loads(planned.body)
    assert len(planned.submission) == 16
    assert int(planned.submission, 16) >= 0
    assert service["version"] == service["configuration"]["properties"]["submit_tf_job.submission-id"] == planned.submission
    content = service["components"][0]["configuration"]["files"][0]["properties"]["content"]
    assert f'"submission": "{planned.submission}"' in content


def test_equal_arguments_give_equal_plans() -> None:
    for spec in SPECS:
        assert plan(load(spec), SITE) == plan(load(spec), SITE)
    assert plan(make_job(), SITE, submission="a").submission == "a"


BASE_ROLE = make_role(instances=2, mounts=(Mount("/a", "/a"),), env={"A": "1"}, files=(ShippedFile("a", b"1"),), gpus=1)
OTHER_ROLE: dict[str, Any] = {
    "name": "other",
    "instances": 3,
    "command": Command(script="python t.py"),
    "image": "library/tf:3",
    "memory_mib": 513,
    "cpus": 2,
    "gpus": 2,
    "env": {"A": "2"},
    "files": (ShippedFile("a", b"2"),),
    "mounts": (Mount("/a", "/a", read_only=False),),
    "placement": Placement(spread="node"),
    "restart": Restart.ON_FAILURE,
    "max_restarts": 1,
    "tolerate": 1,
    "ports": None,  # links only; no part of what is posted
    "docker": DockerOptions(tmpfs=("/scratch",)),
}
OTHER_JOB: dict[str, Any] = {
    "name": "other",
    "strategy": Strategy.CUSTOM,
    "roles": None,  # below, field by field
    "deciding_role": "worker",
    "description": "other",
    "queue": "other",
    "network": "bridge",
    "hadoop": HadoopConf("node", "/etc/hadoop/conf"),
    "kerberos": Kerberos("a/b", "hdfs:///k"),
    "inputs": (Input("data", "hdfs:///d"),),
    "outputs": (Output("model", "hdfs:///m"),),
    "lifetime_s": 1,
    "start_timeout_s": 1,
    "finish_timeout_s": 1,
    "grace_s": 1,
    "tf_config": TFConfigMode.LITERAL,
    "legacy_master": True,
    "bootstrap": None,  # below
    "python": "python3.9",
    "packages": Packages(PackageKind.SITE, HostFile(Path("p.tar.gz"), 1, "0" * 64)),
    "docker_client_config": "hdfs:///c",
    "places": None,  # where a value stands changes nothing
}
OTHER_SITE: dict[str, Any] = {
    "user": "bob",
    "domain": "other.example.com",
    "dns_server": "dns:53",
    "gpu_resource": "nvidia.com/gpu",
    "port_range": (20000, 30000),
    "staging": None,  # where files go changes nothing, as long as they fit; below
    "secure": True,
    "token_life_s": None,  # only whether a job with Kerberos outlives them; test_identity
    **dict.fromkeys(("trusted_registries", "networks", "ro_mounts", "rw_mounts", "runtimes")),  # what is refused; test_plan_docker
}


def test_every_field_is_thought_of() -> None:
    for kind, others in ((Role, OTHER_ROLE), (Job, OTHER_JOB), (Site, OTHER_SITE)):
        assert list(others) == [field.name for field in dataclasses.fields(kind)]


def base_job(role: Role = BASE_ROLE, **values: Any) -> Job:
    return make_job(make_role("chief"), role, **values)


@pytest.mark.parametrize("name", [name for name, value in OTHER_ROLE.items() if value is not None])
def test_the_id_changes_with_a_role(name: str) -> None:
    other = replace(BASE_ROLE, **{name: OTHER_ROLE[name]})
    assert plan(base_job(), SITE).submission != plan(base_job(other), SITE).submission


@pytest.mark.parametrize("name", [name for name, value in OTHER_JOB.items() if value is not None])
def test_the_id_changes_with_the_job(name: str) -> None:
    assert plan(base_job(), SITE).submission != plan(base_job(**{name: OTHER_JOB[name]}), SITE).submission


@pytest.mark.parametrize("name", [name for name, value in OTHER_SITE.items() if value is not None])
def test_the_id_changes_with_the_site(name: str) -> None:
    assert plan(base_job(), SITE).submission != plan(base_job(), replace(SITE, **{name: OTHER_SITE[name]})).submission


def test_the_id_changes_with_the_bootstrap_and_with_what_must_be_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make_job(tf_config=TFConfigMode.NONE)
    assert plan(plain, SITE).submission != plan(replace(plain, bootstrap=False), SITE).submission
    monkeypatch.setattr(check, "fits", lambda _service: False)
    assert plan(base_job(), SITE).submission != plan(base_job(), replace(SITE, staging="hdfs://other/staging")).submission


def test_two_users_never_share_an_id() -> None:
    """Also where the user stands nowhere in the service: ports and the rendezvous of two jobs on one host would meet."""
    nameless = replace(SITE, domain=None)
    assert plan(make_job(), nameless).submission != plan(make_job(), replace(nameless, user="bob")).submission


def test_the_id_does_not_change_with_what_says_nothing() -> None:
    moved = base_job(places={"name": Place("b.yaml", 7, 7)})
    assert plan(base_job(), SITE).submission == plan(moved, SITE).submission


def test_a_run_that_replaces_another_has_an_id_of_its_own() -> None:
    ids = {plan(make_job(), SITE, after=after).submission for after in ("", "application_1_0001", "application_1_0002")}
    assert len(ids) == 3
    assert plan(make_job(), SITE, after="application_1_0001").submission in ids
    first, rerun = (plan(make_job(), SITE, after=after).service.configuration for after in ("", "application_1_0001"))
    assert first is not None
    assert rerun is not None
    assert contract.PROPERTY_RERUN_OF not in first.properties
    assert rerun.properties[contract.PROPERTY_RERUN_OF] == plan(make_job(), SITE).submission


@pytest.mark.parametrize("submission", ["a", "A.b_c-9", "x" * 64, "0"])
def test_a_schedulers_own_id_is_taken(submission: str) -> None:
    assert plan(make_job(), SITE, submission=submission).submission == submission


@pytest.mark.parametrize("submission", ["", "x" * 65, "-a", ".a", "_a", "a b", "a/b", "a\n", "é", "${USER}", "a,b"])
def test_what_is_no_id_is_refused(submission: str) -> None:
    with pytest.raises(UsageError) as error:
        plan(make_job(), SITE, submission=submission)
    assert error.value.message == f"{submission!r} is no submission id"
    assert error.value.hint == "use 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit"


def test_two_submissions_on_one_host_start_at_different_ports() -> None:
    rule, counts = payload.port_rule(make_job(), SITE), make_job().counts
    bases = {rendezvous_port(rule, f"submission-{number}") for number in range(200)}
    assert len(bases) > 190
    assert all(20000 <= base <= 32767 for base in bases)
    taken = [rendezvous_port(rule, "a"), *(task_port(rule, counts, "a", role, n) for role in counts for n in range(counts[role]))]
    assert len(set(taken)) == 4


# --- constant cost ----------------------------------------------------------------------------------------------------


def test_ten_thousand_workers_cost_what_ten_do() -> None:
    few, many = (make_job(make_role("chief"), make_role("worker", instances=n)) for n in (10, 10_000))
    assert len(plan(many, SITE_WITHOUT_STAGING).body) <= 1.05 * len(plan(few, SITE_WITHOUT_STAGING).body)
    assert len(plan(many, SITE).body) <= 1.05 * len(plan(few, SITE).body)
    assert fastest(lambda: plan(many, SITE)) <= 2 * fastest(lambda: plan(few, SITE))


def fastest(call: Callable[[], object]) -> float:
    def once() -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    return min(once() for _ in range(9))


# --- the whole --------------------------------------------------------------------------------------------------------


def test_all_problems_are_reported_before_anything_is_built() -> None:
    with pytest.raises(JobSpecError) as error:
        plan(make_job(make_role(image="UPPER"), name="no_name", network="!"), SITE)
    assert [problem.path for problem in error.value.problems] == ["name", "network", "roles.worker.image"]


def test_the_planner_needs_nothing_but_its_arguments() -> None:
    """No clock, environment, network or randomness: the modules do not even import them."""
    from submit_tf_job.plan import service, shell, site

    for module in (package, check, payload, service, shell, site):
        source = inspect.getsource(module)
        for name in ("time", "datetime", "random", "secrets", "os", "socket", "subprocess", "uuid", "pathlib"):
            assert f"\nimport {name}\n" not in source
            assert f"\nfrom {name} import" not in source
