"""Yarnfiles and YARN-8220's job files as jobs."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from submit_tf_job.dialects.rows import ForeignKey
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import Job, Strategy
from tests.unit.dialects import eachkey

_RAW = eachkey.samples("yarnfile")
_NAMES = {
    f"{level}{path}": name
    for level in ("", "components[].")
    for path, name in {
        "resource.additional.*": "yarn.io/gpu",
        "configuration.env.*": "BATCH",
        "configuration.properties.*": "docker.network",
    }.items()
}
KEYS = eachkey.keys_of("yarnfile")


def component(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "number_of_containers": 1,
        "launch_command": "python /t.py",
        "restart_policy": "NEVER",
        **more,
    }


def service(*components: dict[str, Any], **more: Any) -> dict[str, Any]:
    shared = {"artifact": {"id": "r/tf:1", "type": "DOCKER"}, "resource": {"memory": "2048"}}
    return {"name": "j", "components": list(components), **shared, **more}


def base_of(key: ForeignKey) -> dict[str, Any]:
    parts = [component(name) for name in ("ps", "master", "worker")]
    constraint = {"type": "ANTI_AFFINITY", "scope": "NODE", "target_tags": ["ps"]}
    parts[0]["placement_policy"] = {"constraints": [constraint]}
    tree = service(*parts)
    if key.path.startswith("kerberos"):
        tree["kerberos_principal"] = {
            "principal_name": "a/_HOST@EXAMPLE.COM",
            "keytab": "hdfs:///a",
        }
    if key.path.startswith("components[].artifact"):
        parts[0]["artifact"] = {"id": "r/tf:1", "type": "DOCKER"}
    if key.path.startswith("components[].resource"):
        parts[0]["resource"] = {"memory": "1024"}
    return tree


@pytest.mark.slow
def test_each_key_has_the_fate_of_the_table() -> None:
    eachkey.each(KEYS, has_its_fate)


def has_its_fate(key: ForeignKey) -> None:
    path = eachkey.steps(key.path, _NAMES)
    base = base_of(key)
    if key.path != "components[].name":  # it is how the file is recognised
        base = eachkey.left_out(base, path)
    sample = _RAW.get(key.path, _RAW.get(key.path.removeprefix("components[].")))
    assert sample is not None
    after = eachkey.Given(json.dumps(eachkey.with_value(base, path, sample)))
    eachkey.check(key, eachkey.shown(path), eachkey.Given(json.dumps(base)), after)


# --- meaning --------------------------------------------------------------------------------------


def read(tree: dict[str, Any], *overrides: str) -> Job:
    return loads(json.dumps(tree, indent=1), source="t.json", base=None, overrides=overrides)


def problems(tree: dict[str, Any], *overrides: str) -> list[str]:
    return eachkey.problems(json.dumps(tree), "t.json", *overrides)


def test_file_of_yarn_8220_is_an_estimator_with_a_master_and_asks_for_the_image() -> None:
    tree = service(component("master"), component("worker"), component("ps"))
    del tree["artifact"]
    (problem,) = problems(tree)
    assert problem.endswith("there is no Docker image; add --set image=IMAGE")
    job = read(tree, "image=r/tf:1.8")
    assert (job.strategy, job.deciding_role) == (Strategy.ESTIMATOR, "chief")
    assert job.legacy_master


def test_file_without_artifacts_and_with_other_components_is_not_yarn_8220_s() -> None:
    tree = service(component("sleeper", number_of_containers=2))
    del tree["artifact"]
    made = eachkey.Given(json.dumps(tree), ["image=i"], "t.json").converted()
    assert (made.version, made.job.deciding_role) == ("services API", "sleeper")


def test_service_without_a_deciding_component_asks_for_one() -> None:
    tree = service(component("store"), component("loader"))
    (problem,) = problems(tree)
    assert problem.endswith("add --set deciding_role=store")
    assert read(tree, "deciding_role=loader").deciding_role == "loader"


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("python a.py", "python a.py"),
        ('echo \\$HOME \\`date\\` \\"x\\" \\\\ \\n', 'echo $HOME `date` "x" \\ \\n'),
        ("echo {{HOME}}", "echo $HOME"),
        ("run ${COMPONENT_NAME} ${COMPONENT_ID}", "run $TFJOB_ROLE $TFJOB_INDEX"),
        ("run ${COMPONENT_INSTANCE_NAME}", "run $TFJOB_ROLE-$TFJOB_INDEX"),
        ("run ${SERVICE_NAME} ${USER}", "run $TFJOB_NAME ${USER}"),
    ],
)
def test_command_loses_yarn_s_level_of_quoting_and_its_tokens(written: str, run: str) -> None:
    job = read(service(component("worker", launch_command=written)))
    assert job.roles["worker"].command.script == run


@pytest.mark.parametrize("token", ["${PS_HOST}", "${CLUSTER_FS_URI}", "<LOG_DIR>"])
def test_command_with_an_unknown_token_is_refused(token: str) -> None:
    (problem,) = problems(service(component("worker", launch_command=f"run {token}")))
    assert problem.startswith(f"components[0].launch_command: '{token}' is not known here")


def test_variables_of_the_docker_runtime_become_keys() -> None:
    env = {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "bridge",
        "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": "/etc/passwd:/etc/passwd:ro,/d:/d:rw",
        "YARN_CONTAINER_RUNTIME_DOCKER_TMPFS_MOUNTS": "/run",
        "YARN_CONTAINER_RUNTIME_DOCKER_PORTS_MAPPING": ":6006",
        "YARN_CONTAINER_RUNTIME_DOCKER_RUNTIME": "nvidia",
        "YARN_CONTAINER_RUNTIME_DOCKER_CLIENT_CONFIG": "hdfs:///c.json",
        "YARN_CONTAINER_RUNTIME_DOCKER_DELAYED_REMOVAL": "true",
    }
    job = read(service(component("worker", configuration={"env": env})))
    role = job.roles["worker"]
    assert (job.network, job.docker_client_config) == ("bridge", "hdfs:///c.json")
    assert [(m.source, m.read_only) for m in role.mounts] == [("/etc/passwd", True), ("/d", False)]
    assert (role.docker.tmpfs, role.docker.publish) == (("/run",), (":6006",))
    assert role.docker.runtime == "nvidia"
    assert dict(role.env) == {}
    [remark] = job.remarks
    assert remark.path.endswith(".YARN_CONTAINER_RUNTIME_DOCKER_DELAYED_REMOVAL")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"artifact": {"type": "TARBALL", "id": "a"}}, "artifact.type: a TARBALL runs without"),
        ({"resource": {"memory": "4g"}}, "resource.memory: expected a whole number"),
        ({"restart_policy": "OFTEN"}, "restart_policy: unknown value 'OFTEN'"),
        ({"launch_comand": "x"}, "launch_comand: Yarnfile has no key 'launch_comand'; did you"),
    ],
)
def test_wrong_values_are_refused_in_its_words(change: dict[str, Any], expected: str) -> None:
    found = problems(service(component("worker", **change)))
    assert any(problem.startswith(f"components[0].{expected}") for problem in found)


def test_restart_on_failure_is_kept_where_it_can_be() -> None:
    tree = service(
        component("master", restart_policy="ON_FAILURE"),
        component("worker", restart_policy="ON_FAILURE", number_of_containers=2),
    )
    job = read(copy.deepcopy(tree))
    assert job.roles["worker"].restart == "on-failure"
    assert job.roles["chief"].restart == "never"
    assert [r.path for r in job.remarks] == ["components[0].restart_policy"]
