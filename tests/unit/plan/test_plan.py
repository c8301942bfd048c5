"""(Job, Site) → the service: its fields, what is staged, and the submission's id."""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import jobspec, operations
from submit_tf_job import plan as package
from submit_tf_job.container import contract
from submit_tf_job.container.info import Info
from submit_tf_job.container.tfconfig import rendezvous_ports, task_port
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.jobspec.job import (
    AUTO_PORT,
    Command,
    DockerOptions,
    Elastic,
    Ending,
    HadoopConf,
    HostFile,
    ImagePolicy,
    Input,
    Job,
    Kerberos,
    Location,
    Mount,
    Output,
    PackageKind,
    Packages,
    Placement,
    Python,
    RemoteFile,
    Restart,
    Retries,
    Role,
    RoleKind,
    ShippedFile,
    Strategy,
    TFConfigMode,
    Variables,
)
from submit_tf_job.plan import (
    Plan,
    Site,
    check,
    delivery,
    docker,
    kerberos,
    launch,
    payload,
    plan,
    planner,
    site,
)
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.records import dumps
from tests.golden.fixed import (
    SITE,
    SITE_WITHOUT_STAGING,
    SPECS,
    STAGING,
    SUBMISSION,
    load,
    make_job,
    make_role,
    task_of,
)

HOSTNAME = {contract.ENV_HOSTNAME: "ps-0.ps1.alice.example.com"}


def component(planned: Plan, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(planned.body)["components"][index]
    return found


def test_deciding_task_without_chief_is_worker_0() -> None:
    text = """
name: ps1
image: tf
strategy: parameter-server
command: python train.py
roles: {worker: {instances: 3, memory: 1Gi}, ps: {memory: 1Gi}}
"""
    job = jobspec.loads(text, source="train.yaml", base=None)
    assert job.deciding_task == "worker-0"
    task = task_of(job)
    roles = task["roles"]
    assert {name: role["kind"] for name, role in roles.items()} == {
        "worker": "trains",
        "ps": "serves",
        # without it YARN would wait for each worker, also for one that never gets a container
        "witness": "sidecar",
    }
    assert Info(task, {"TFJOB_INSTANCE": "worker-1"}, "/").role_kind("worker") == "trains"
    assert list(
        json.loads(Info(task, {"TFJOB_INSTANCE": "ps-0", **HOSTNAME}, "/").tf_config())["cluster"]
    ) == ["worker", "ps"]
    site = load_settings(environ={"HOME": "/nowhere"}, cwd=Path("/"))
    [warning] = operations.warnings(job, site)
    assert warning.startswith("roles: without a chief worker-0 decides")
    said = jobspec.loads(text, source="train.yaml", base=None, overrides=["deciding_role=worker"])
    assert operations.warnings(said, site) == []


def test_quick_links_of_each_task_and_fixed_port() -> None:
    ports = {"http": AUTO_PORT, "api": 80}
    job = make_job(make_role(), make_role("board", instances=12, ports=ports))
    posted = json.loads(plan(job, SITE).body)
    board = component(plan(job, SITE), 1)
    assert board["configuration"]["properties"][contract.PROPERTY_PORTS] == "http=auto,api=80"
    assert board["quicklinks"] == [f"board-{index} api" for index in range(10)]
    assert (
        posted["quicklinks"]["board-9 api"] == "http://board-9.${SERVICE_NAME}.${USER}.${DOMAIN}:80"
    )
    roles = task_of(job)["roles"]
    assert (roles["board"]["ports"], "ports" in roles["worker"]) == ({"http": 0, "api": 80}, False)


# --- the service ----------------------------------------------------------------------------------


def test_service_fields_of_the_job() -> None:
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
                "submit_tf_job.start-timeout": "900",
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


def test_service_without_optional_fields() -> None:
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


def test_deciding_property_is_on_one_component() -> None:
    """At service level it would apply to all: docs/hadoop-facts.md#dominant-component."""
    service = json.loads(
        plan(make_job(make_role("chief"), make_role("worker"), make_role("board")), SITE).body
    )
    key = "yarn.service.container-state-report-as-service-state"
    assert [c["configuration"].get("properties", {}).get(key) for c in service["components"]] == [
        "true",
        None,
        None,
    ]
    assert key not in service["configuration"]["properties"]


def test_bounds_of_an_elastic_role_are_a_property_of_its_component() -> None:
    roles = make_role("chief"), make_role("worker", instances=8, elastic=Elastic(2))
    service = json.loads(plan(make_job(*roles, retries=Retries(3)), SITE).body)
    found = {item["name"]: item for item in service["components"]}
    bounds = {
        name: item["configuration"].get("properties", {}).get(contract.PROPERTY_INSTANCES)
        for name, item in found.items()
    }
    assert bounds == {"chief": None, "worker": "2-8"}
    assert found["worker"]["number_of_containers"] == 8


def test_restart_policies() -> None:
    assert component(plan(make_job(make_role()), SITE))["restart_policy"] == "NEVER"
    assert (
        component(plan(make_job(make_role(restart=Restart.ON_FAILURE, max_restarts=1)), SITE))[
            "restart_policy"
        ]
        == "ON_FAILURE"
    )


def test_resources() -> None:
    role = make_role(cpus=4, memory_mib=16384, gpus=2)
    assert component(plan(make_job(role), SITE))["resource"] == {
        "cpus": 4,
        "memory": "16384",
        "additional": {"yarn.io/gpu": {"value": 2, "unit": ""}},
    }
    other = replace(SITE, gpu_resource="nvidia.com/gpu")
    assert list(component(plan(make_job(role), other))["resource"]["additional"]) == [
        "nvidia.com/gpu"
    ]


PLACEMENTS = [
    (
        Placement(spread="node"),
        {"type": "ANTI_AFFINITY", "scope": "NODE", "target_tags": ["worker"]},
    ),
    (
        Placement(spread="rack"),
        {"type": "ANTI_AFFINITY", "scope": "RACK", "target_tags": ["worker"]},
    ),
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
        {
            "type": "ANTI_AFFINITY",
            "scope": "NODE",
            "target_tags": ["worker"],
            "node_attributes": {"os": ["deb12", "deb13"]},
        },
    ),
]


@pytest.mark.parametrize(("placement", "constraint"), PLACEMENTS)
def test_placement(placement: Placement, constraint: dict[str, object]) -> None:
    planned = plan(make_job(make_role(instances=3, placement=placement)), SITE)
    assert component(planned)["placement_policy"] == {"constraints": [constraint]}


def test_env_with_bootstrap() -> None:
    role = make_role(
        env={"A": "1"}, mounts=(Mount("/data", "/d"), Mount("/out", "/o", read_only=False))
    )
    job = make_job(role, network="bridge", hadoop=HadoopConf("node", "/etc/hadoop/conf"))
    assert component(plan(job, SITE))["configuration"]["env"] == {
        "TFJOB_INSTANCE": "${COMPONENT_INSTANCE_NAME}",
        "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "bridge",
        "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": "/data:/d:ro,/out:/o:rw,/etc/hadoop/conf:/etc/hadoop/conf:ro",
    }


def test_env_without_bootstrap() -> None:
    job = make_job(make_role(env={"A": '"$x"'}), bootstrap=False, tf_config=TFConfigMode.NONE)
    assert component(plan(job, SITE))["configuration"]["env"] == {
        "A": '\\"\\$x\\"',
        "CUDA_VISIBLE_DEVICES": "",
        "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "host",
    }
    own = make_job(
        make_role(env={"CUDA_VISIBLE_DEVICES": "3"}), bootstrap=False, tf_config=TFConfigMode.NONE
    )
    assert component(plan(own, SITE))["configuration"]["env"]["CUDA_VISIBLE_DEVICES"] == "3"
    gpus = make_job(make_role(gpus=1), bootstrap=False, tf_config=TFConfigMode.NONE)
    assert "CUDA_VISIBLE_DEVICES" not in component(plan(gpus, SITE))["configuration"]["env"]


def test_launch_commands() -> None:
    assert component(plan(make_job(make_role(), python="/opt/python3.9"), SITE_WITHOUT_STAGING))[
        "launch_command"
    ] == ("exec /opt/python3.9 conf/bootstrap.py")
    job = make_job(
        make_role(command=Command(script="python t.py")),
        bootstrap=False,
        tf_config=TFConfigMode.NONE,
    )
    assert component(plan(job, SITE))["launch_command"] == "exec bash -o pipefail -c 'python t.py'"
    assert component(plan(job, SITE))["configuration"].get("files") is None


def test_hadoop_conf_archive_is_linked() -> None:
    files = component(plan(make_job(hadoop=HadoopConf("archive", "hdfs:///c.zip")), SITE))[
        "configuration"
    ]["files"]
    assert files[-1] == {
        "type": "ARCHIVE",
        "dest_file": "tfjob-hadoop-conf",
        "src_file": "hdfs:///c.zip",
    }


# --- what is staged -------------------------------------------------------------------------------


def types(planned: Plan, index: int = 0) -> list[tuple[str, str]]:
    return [
        (file["type"], file["dest_file"])
        for file in component(planned, index)["configuration"]["files"]
    ]


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
def test_plan_stages_until_the_service_fits(
    monkeypatch: pytest.MonkeyPatch,
    site: Site,
    fitting: int,
    form: list[tuple[str, str]],
    uploads: int,
) -> None:
    """`fitting` is the number of the attempt that is small enough."""
    asked: list[int] = []

    def fits(_service: object) -> bool:
        asked.append(1)
        return len(asked) >= fitting

    monkeypatch.setattr(planner, "fits", fits)
    planned = plan(make_job(WITH_FILES), site, submission=SUBMISSION)
    assert (types(planned), len(planned.uploads)) == (form, uploads)


def test_fits_measures_the_posted_bytes() -> None:
    service = plan(make_job(), SITE_WITHOUT_STAGING).service
    size = len(dumps(service))
    assert planner.fits(service) is (size <= 60_000)
    assert (
        len(
            dumps(
                plan(
                    make_job(*(make_role(f"r{n}") for n in range(9)), deciding_role="r0"), SITE
                ).service
            )
        )
        <= 60_000
    )


def test_uploads_are_named_by_content_and_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "fits", lambda _service: False)
    same, other = (ShippedFile("a", b"1"),), (ShippedFile("a", b"2"),)
    job = make_job(
        make_role("chief", files=same),
        make_role("worker", files=same),
        make_role("board", files=other),
    )
    planned = plan(job, SITE)
    assert sorted(upload.uri.rpartition("/")[2] for upload in planned.uploads) == [
        "bootstrap.py",
        "tfjob-files.tar",
        "tfjob-files.tar",
    ]
    for upload in planned.uploads:
        content = upload.content
        if isinstance(content, bytes):
            found = hashlib.sha256(content).hexdigest()
        else:
            found = content.sha256
        assert upload.uri == f"{STAGING}/files/{job.name}/{found}/{upload.uri.rpartition('/')[2]}"
    used = {
        file["src_file"]
        for index in range(3)
        for file in component(planned, index)["configuration"]["files"]
    }
    assert used == {upload.uri for upload in planned.uploads}


# --- the submission's id --------------------------------------------------------------------------


def test_submission_id_is_in_version_property_and_task() -> None:
    planned = plan(make_job(), SITE_WITHOUT_STAGING)
    service = json.loads(planned.body)
    assert len(planned.submission) == 16
    assert int(planned.submission, 16) >= 0
    assert (
        service["version"]
        == service["configuration"]["properties"]["submit_tf_job.submission-id"]
        == planned.submission
    )
    content = service["components"][0]["configuration"]["files"][0]["properties"]["content"]
    assert f'"submission": "{planned.submission}"' in content


def test_plan_is_deterministic() -> None:
    for spec in SPECS:
        assert plan(load(spec), SITE) == plan(load(spec), SITE)
    assert plan(make_job(), SITE, submission="a").submission == "a"


BASE_ROLE = make_role(
    instances=2,
    mounts=(Mount("/a", "/a"),),
    env={"A": "1"},
    files=(ShippedFile("a", b"1"),),
    gpus=1,
)
OTHER_ROLE: dict[str, Any] = {
    "name": "other",
    "instances": 3,
    "command": Command(script="python t.py"),
    "image": "library/tf:3",
    "memory_mib": 513,
    "kind": RoleKind.SERVES,
    "cpus": 2,
    "gpus": 2,
    "env": {"A": "2"},
    "files": (ShippedFile("a", b"2"),),
    "remote_files": (RemoteFile("b", "hdfs:///b"),),
    "mounts": (Mount("/a", "/a", read_only=False),),
    "placement": Placement(spread="node"),
    "restart": Restart.ON_FAILURE,
    "max_restarts": 1,
    "tolerate": 1,
    "ports": None,  # quick links only
    "docker": DockerOptions(tmpfs=("/scratch",)),
    "workdir": "src",
    "python": Python("python3.9"),
    "after": ("other",),
    "elastic": Elastic(1, 60),
}
OTHER_JOB: dict[str, Any] = {
    "name": "other",
    "strategy": Strategy.CUSTOM,
    "roles": None,  # below, field by field
    "deciding_role": "worker",
    "ends_with": Ending.ALL_THAT_TRAIN,
    "description": "other",
    "queue": "other",
    "priority": None,  # set when YARN has accepted the service
    "network": "bridge",
    "hadoop": HadoopConf("node", "/etc/hadoop/conf"),
    "kerberos": Kerberos("a/b", "hdfs:///k"),
    "inputs": (Input("data", "hdfs:///d"),),
    "outputs": (Output("model", "hdfs:///m"),),
    "lifetime_s": 1,
    "start_timeout_s": 1,
    "finish_timeout_s": 1,
    "grace_s": 1,
    "stop_grace_s": 60,
    "prepare": Command(script="true"),
    "tf_config": TFConfigMode.LITERAL,
    "legacy_master": True,
    "variables": (Variables.TONY,),
    "keras": None,  # in the roles' env; test_reader
    "retries": Retries(2, ("any",)),
    "bootstrap": None,  # below
    "image_policy": ImagePolicy.WARN,
    "python": "python3.9",
    "packages": Packages(PackageKind.SITE, HostFile(Path("p.tar.gz"), 1, "0" * 64)),
    "docker_client_config": "hdfs:///c",
    "places": None,  # where a value is written changes nothing
    "remarks": None,  # messages only
}
OTHER_SITE: dict[str, Any] = {
    "user": "bob",
    "domain": "other.example.com",
    "dns_server": "dns:53",
    "gpu_resource": "nvidia.com/gpu",
    "port_range": (20000, 30000),
    "staging": None,  # no effect while the files fit; below
    "secure": True,
    "token_life_s": None,  # only for a job with Kerberos
    # only for problems; test_docker
    **dict.fromkeys(("trusted_registries", "networks", "ro_mounts", "rw_mounts", "runtimes")),
    "caps": None,  # only for problems; test_caps
    **dict.fromkeys(("names", "web_hdfs")),  # only together; test_meeting
}


def test_fields_of_job_role_and_site_are_all_varied() -> None:
    for kind, others in ((Role, OTHER_ROLE), (Job, OTHER_JOB), (Site, OTHER_SITE)):
        assert list(others) == [field.name for field in fields(kind)]


def base_job(role: Role = BASE_ROLE, **values: Any) -> Job:
    return make_job(make_role("chief"), role, **values)


@pytest.mark.parametrize("name", [name for name, value in OTHER_ROLE.items() if value is not None])
def test_submission_id_changes_with_role(name: str) -> None:
    other = replace(BASE_ROLE, **{name: OTHER_ROLE[name]})
    assert plan(base_job(), SITE).submission != plan(base_job(other), SITE).submission


@pytest.mark.parametrize("name", [name for name, value in OTHER_JOB.items() if value is not None])
def test_submission_id_changes_with_job(name: str) -> None:
    assert (
        plan(base_job(), SITE).submission
        != plan(base_job(**{name: OTHER_JOB[name]}), SITE).submission
    )


@pytest.mark.parametrize("name", [name for name, value in OTHER_SITE.items() if value is not None])
def test_submission_id_changes_with_site(name: str) -> None:
    assert (
        plan(base_job(), SITE).submission
        != plan(base_job(), replace(SITE, **{name: OTHER_SITE[name]})).submission
    )


def test_submission_id_changes_with_bootstrap_and_staging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = make_job(tf_config=TFConfigMode.NONE)
    assert plan(plain, SITE).submission != plan(replace(plain, bootstrap=False), SITE).submission
    monkeypatch.setattr(planner, "fits", lambda _service: False)
    assert (
        plan(base_job(), SITE).submission
        != plan(base_job(), replace(SITE, staging="hdfs://other/staging")).submission
    )


def test_submission_id_changes_with_user() -> None:
    """Also without the user in the service: otherwise two jobs on one host would share ports and
    a rendezvous.
    """
    nameless = replace(SITE, domain=None)
    assert (
        plan(make_job(), nameless).submission
        != plan(make_job(), replace(nameless, user="bob")).submission
    )


def test_submission_id_ignores_places() -> None:
    moved = base_job(places={"name": Location("b.yaml", 7, 7)})
    assert plan(base_job(), SITE).submission == plan(moved, SITE).submission


def test_submission_id_of_a_replacing_run() -> None:
    ids = {
        plan(make_job(), SITE, after=after).submission
        for after in ("", "application_1_0001", "application_1_0002")
    }
    assert len(ids) == 3
    assert plan(make_job(), SITE, after="application_1_0001").submission in ids
    first, rerun = (
        plan(make_job(), SITE, after=after).service.configuration
        for after in ("", "application_1_0001")
    )
    assert first is not None
    assert rerun is not None
    assert contract.PROPERTY_RERUN_OF not in first.properties
    assert rerun.properties[contract.PROPERTY_RERUN_OF] == plan(make_job(), SITE).submission


@pytest.mark.parametrize("submission", ["a", "A.b_c-9", "x" * 64, "0"])
def test_plan_uses_a_given_submission_id(submission: str) -> None:
    assert plan(make_job(), SITE, submission=submission).submission == submission


@pytest.mark.parametrize(
    "submission", ["", "x" * 65, "-a", ".a", "_a", "a b", "a/b", "a\n", "é", "${USER}", "a,b"]
)
def test_plan_refuses_an_invalid_submission_id(submission: str) -> None:
    with pytest.raises(UsageError) as error:
        plan(make_job(), SITE, submission=submission)
    assert error.value.message == f"{submission!r} is not a valid submission id"
    assert (
        error.value.hint
        == "use 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit"
    )


def test_ports_differ_between_submissions() -> None:
    rule, counts = task_of(make_job())["ports"], make_job().counts
    bases = {rendezvous_ports(rule, f"submission-{number}")[0] for number in range(200)}
    assert len(bases) > 190
    assert all(20000 <= base <= 32767 for base in bases)
    taken = [
        rendezvous_ports(rule, "a")[0],
        *(task_port(rule, counts, "a", role, n) for role in counts for n in range(counts[role])),
    ]
    assert len(set(taken)) == 4


# --- constant cost --------------------------------------------------------------------------------


def test_plan_size_and_time_are_constant_in_tasks() -> None:
    few, many = (
        make_job(make_role("chief"), make_role("worker", instances=n)) for n in (10, 100_000)
    )
    assert len(plan(many, SITE_WITHOUT_STAGING).body) <= 1.05 * len(
        plan(few, SITE_WITHOUT_STAGING).body
    )
    assert len(plan(many, SITE).body) <= 1.05 * len(plan(few, SITE).body)
    assert fastest(lambda: plan(many, SITE)) <= 2 * fastest(lambda: plan(few, SITE))


def fastest(call: Callable[[], object]) -> float:
    def once() -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    return min(once() for _ in range(9))


# --- the whole ------------------------------------------------------------------------------------


def test_plan_reports_all_problems_at_once() -> None:
    with pytest.raises(JobSpecError) as error:
        plan(make_job(make_role(image="UPPER"), name="no_name", network="!"), SITE)
    assert [problem.path for problem in error.value.problems] == [
        "name",
        "network",
        "roles.worker.image",
    ]


def test_plan_modules_import_no_clock_or_environment() -> None:
    """The modules import no clock, environment, network or randomness."""
    for module in (package, check, payload, planner, launch, site, delivery, docker, kerberos):
        source = inspect.getsource(module)
        for name in (
            "time",
            "datetime",
            "random",
            "secrets",
            "os",
            "socket",
            "subprocess",
            "uuid",
            "pathlib",
        ):
            assert f"\nimport {name}\n" not in source
            assert f"\nfrom {name} import" not in source


def packages(digit: str) -> Packages:
    return Packages(PackageKind.SITE, HostFile(Path("p.tar.gz"), 1, digit * 64), "3.11")


def test_plan_packages_of_the_job_and_of_a_role() -> None:
    own = Python("", packages("1"))
    job = make_job(
        make_role("chief"),
        make_role("worker", python=own),
        make_role("board", python=Python("python3.9")),
        packages=packages("0"),
        python="python3.11",
    )
    planned = plan(job, SITE)
    found = {
        part.name: [
            file.src_file.split("/")[-2]
            for file in part.configuration.files
            if part.configuration and file.dest_file == contract.PACKAGES_LINK and file.src_file
        ]
        for part in planned.service.components
        if part.configuration
    }
    assert found == {"chief": ["0" * 64], "worker": ["1" * 64], "board": []}
    commands = {part.name: part.launch_command for part in planned.service.components}
    assert {name: command and command.split()[1] for name, command in commands.items()} == {
        "chief": "python3.11",
        "worker": "python3.11",
        "board": "python3.9",
    }
    made = planner.Planner.of(job, SITE)
    files: Any = made.task_description(made.deliveries[0]).to_json()["files"]
    of_packages = {"kind": "site", "version": "3.11"}
    assert files["packages"] == of_packages
    assert files["roles"] == {"worker": {"packages": of_packages}, "board": {"packages": None}}


def test_plan_packages_of_a_role_need_staging_and_the_bootstrap() -> None:
    job = make_job(make_role("chief", python=Python("", packages("1"))))
    with pytest.raises(JobSpecError, match=r"packages go to HDFS, and none is configured"):
        plan(job, SITE_WITHOUT_STAGING)


@pytest.mark.parametrize("domain", ["example.com", None])
def test_plan_a_role_without_image_is_a_plain_process(domain: str | None) -> None:
    job = make_job(make_role("chief", image="none"), make_role("worker"))
    planned = plan(job, replace(SITE, domain=domain))
    chief, worker = planned.service.components
    assert chief.artifact is None
    assert worker.artifact is not None
    assert chief.configuration is not None
    assert chief.configuration.env[contract.ENV_RUNTIME] == "default"
    assert (contract.ENV_HOSTNAME in chief.configuration.env) is (domain is None)
    assert worker.configuration is not None
    assert contract.ENV_RUNTIME not in worker.configuration.env


@pytest.mark.parametrize(
    ("role", "job", "message"),
    [
        ({"mounts": (Mount("/a", "/a"),)}, {}, "which sees the node's directories"),
        ({"docker": DockerOptions(tmpfs=("/s",))}, {}, "without Docker; leave docker out"),
        ({}, {"network": "bridge"}, "on the node's own network; say network: host"),
    ],
)
def test_plan_a_role_without_image_refuses_what_needs_a_container(
    role: dict[str, Any], job: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobSpecError, match=message):
        plan(make_job(make_role("chief", image="none", **role), **job), SITE)


@pytest.mark.parametrize("where", [SITE, SITE_WITHOUT_STAGING])
def test_plan_lets_yarn_copy_files_of_hdfs(where: Site) -> None:
    shared = RemoteFile("w.bin", "hdfs:///w.bin")
    own = RemoteFile("data", "hdfs:///d.zip", unpack=True)
    job = make_job(
        make_role("chief", remote_files=(shared,)),
        make_role("worker", remote_files=(shared, own), files=(ShippedFile("a", b"1"),)),
    )
    planned = plan(job, where)
    found = [
        [
            (file.type, file.src_file, file.dest_file)
            for file in component.configuration.files
            if component.configuration and file.dest_file.startswith(contract.REMOTE_LINK)
        ]
        for component in planned.service.components
        if component.configuration
    ]
    static = ("STATIC", "hdfs:///w.bin", shared.link)
    assert found == [[static], [static, ("ARCHIVE", "hdfs:///d.zip", own.link)]]
    assert planned.uploads == () or where is SITE
    assert not any("hdfs:///w.bin" in upload.uri for upload in planned.uploads)
    of_roles = task_of(job)["files"]["roles"]
    assert of_roles["worker"]["links"] == {"w.bin": shared.link, "data": own.link}
