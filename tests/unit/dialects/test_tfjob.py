"""Kubeflow's TFJob as a job: each key, who decides, what is asked for, and the goldens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.dialects.rows import ForeignKey
from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import Job, RoleKind, Strategy
from tests.unit.dialects import eachkey

GOLDEN = Path(__file__).parent / "golden"
MAP = "spec.tfReplicaSpecs.*."
_SAMPLES = {
    **eachkey.samples("tfjob"),
    **{
        f"spec.{form}.template.{path}": value
        for form in ("tfReplicaSpecs.*", "replicaSpecs[]", "replica_specs[]")
        for path, value in eachkey.samples("pod").items()
    },
}
_NAMES = {
    "metadata.labels.*": "kueue.x-k8s.io/queue-name",
    "spec.tfReplicaSpecs.*": "PS",
    **{
        f"spec.{form}.template.spec.{path}": name
        for form in ("tfReplicaSpecs.*", "replicaSpecs[]", "replica_specs[]")
        for path, name in {
            "containers[].resources.limits.*": "memory",
            "containers[].resources.requests.*": "cpu",
            "containers[].securityContext.*": "runAsUser",
            "volumes[].*": "hostPath",
            "nodeSelector.*": "gpu_model",
        }.items()
    },
    **{f"spec.{board}.volumes[].*": "hostPath" for board in ("tensorboard", "tensorBoard")},
}
# Keys that count only where another is absent.
_INSTEAD_OF = {
    "metadata.generateName": "metadata.name",
    "spec.replicaSpecs[].tf_replica_type": "spec.replicaSpecs[].tfReplicaType",
    "spec.replica_specs[].tf_replica_type": "spec.replica_specs[].tfReplicaType",
    "spec.tfImage": "spec.replicaSpecs[].template.spec.containers[].image",
}
_WITHOUT_EFFECT = {"spec.tfReplicaSpecs.*.template.spec.restartPolicy"}


def pod(**more: Any) -> dict[str, Any]:
    container = {
        "name": "tensorflow",
        "image": "r/tf:1",
        "command": ["python", "/t.py"],
        "args": ["--all"],
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 7007}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "resources": {"limits": {"memory": "2Gi"}},
        **more,
    }
    return {
        "spec": {
            "containers": [container],
            "volumes": [{"name": "v", "hostPath": {"path": "/mnt/v"}}],
        }
    }


def tfjob_of(**replicas: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "j"},
        "spec": {
            "tfReplicaSpecs": {
                kind: {"template": pod(), **replica} for kind, replica in replicas.items()
            }
        },
    }


def base_of(key: ForeignKey) -> dict[str, Any]:
    if ("replicaSpecs" in key.path or "tfImage" in key.path or "terminationPolicy" in key.path) or (
        "replica_specs" in key.path or "tensor" in key.path
    ):
        form = "replica_specs" if "replica_specs" in key.path else "replicaSpecs"
        items = [{"tfReplicaType": kind, "template": pod()} for kind in ("PS", "MASTER", "WORKER")]
        tree = {
            "apiVersion": "kubeflow.org/v1alpha1",
            "kind": "TFJob",
            "metadata": {"name": "j"},
            "spec": {form: items},
        }
        if "tensor" in key.path:
            tree["spec"][key.path.split(".")[1]] = {  # type: ignore[index]
                "logDir": "/l",
                "volumeMounts": [{"name": "v", "mountPath": "/l"}],
                "volumes": [{"name": "v", "hostPath": {"path": "/mnt/l"}}],
            }
        return tree
    return tfjob_of(PS={"restartPolicy": "OnFailure"}, Worker={"replicas": 2})


KEYS = eachkey.keys_of("tfjob")


@pytest.mark.slow
def test_each_key_has_the_fate_of_the_table() -> None:
    eachkey.each(KEYS, has_its_fate)


def has_its_fate(key: ForeignKey) -> None:
    path = eachkey.steps(key.path, _NAMES)
    base = base_of(key)
    if key.path in _INSTEAD_OF:
        base = eachkey.left_out(base, eachkey.steps(_INSTEAD_OF[key.path], _NAMES))
    base = base if key.path in ("apiVersion", "kind") else eachkey.left_out(base, path)
    board = ("roles.tensorboard.memory=1Gi",) if "tensor" in key.path else ()
    after = eachkey.Given(json.dumps(eachkey.with_value(base, path, _SAMPLES[key.path])), board)
    before = eachkey.Given(json.dumps(base), board)
    if key.path in ("apiVersion", "kind"):
        assert path[0] in after.converted().silent
    elif key.path in _WITHOUT_EFFECT:
        assert ("warning", eachkey.shown(path), eachkey.NO_EFFECT) in eachkey.effect(after).remarks
    else:
        eachkey.check(key, eachkey.shown(path), before, after)


# --- conversions ----------------------------------------------------------------------------------

_SETS = {"tfjob-list-form": ["roles.tensorboard.memory=1Gi"]}
_THEIRS = sorted(path for path in GOLDEN.glob("tfjob-*") if ".job." not in path.name)


@pytest.mark.parametrize("path", _THEIRS, ids=lambda path: path.stem)
def test_convert_gives_the_golden_which_plans_to_the_same_service(path: Path) -> None:
    text = eachkey.check_conversion(path.read_text("utf-8"), path.name, _SETS.get(path.stem, []))
    assert text == (GOLDEN / f"{path.stem}.job.yaml").read_text("utf-8")


# --- who decides ----------------------------------------------------------------------------------


def read(tree: dict[str, Any], *overrides: str) -> Job:
    return loads(json.dumps(tree, indent=1), source="t.json", base=None, overrides=overrides)


def problems(tree: dict[str, Any], *overrides: str) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        read(tree, *overrides)
    return [f"{p.path}: {p.message}" for p in caught.value.problems]


@pytest.mark.parametrize(
    ("replicas", "deciding", "strategy"),
    [
        ({"Worker": {}}, "worker", Strategy.SINGLE),
        ({"Chief": {}}, "chief", Strategy.SINGLE),
        ({"Worker": {"replicas": 2}}, "worker", Strategy.CUSTOM),
        ({"PS": {}, "Worker": {"replicas": 2}}, "worker", Strategy.CUSTOM),
        ({"PS": {}, "Worker": {}, "Chief": {}}, "chief", Strategy.CUSTOM),
        ({"ps": {}, "WORKER": {}, "master": {}}, "chief", Strategy.CUSTOM),
        ({"Master": {}, "Worker": {}, "Evaluator": {}}, "chief", Strategy.CUSTOM),
        ({"Chief": {"replicas": 0}, "Worker": {"replicas": 2}}, "worker", Strategy.CUSTOM),
    ],
)
def test_deciding_role_is_the_one_whose_end_ends_the_tfjob(
    replicas: dict[str, Any], deciding: str, strategy: Strategy
) -> None:
    job = read(tfjob_of(**replicas))
    assert (job.deciding_role, job.strategy) == (deciding, strategy)
    assert job.legacy_master is (
        "master" in map(str.lower, replicas) and strategy is not Strategy.SINGLE
    )


@pytest.mark.parametrize(
    ("replicas", "overrides", "kind"),
    [
        ({"Chief": {}, "Worker": {}}, (), RoleKind.SERVES),
        ({"Master": {}, "Worker": {}, "PS": {}}, (), RoleKind.SERVES),
        ({"Worker": {"replicas": 2}, "PS": {}}, (), RoleKind.TRAINS),
        ({"Chief": {}, "Worker": {}}, ("strategy=multi-worker",), RoleKind.TRAINS),
        ({"Chief": {}, "Worker": {}}, ("roles.worker.kind=trains",), RoleKind.TRAINS),
        ({"Chief": {}, "Worker": {}}, ("strategy=torch", "roles.worker.kind=serves"), "serves"),
    ],
)
def test_worker_beside_a_chief_counts_only_by_its_failure(
    replicas: dict[str, Any], overrides: tuple[str, ...], kind: RoleKind
) -> None:
    assert read(tfjob_of(**replicas), *overrides).roles["worker"].kind == kind


def test_restart_of_the_deciding_role_is_a_warning_and_of_a_ps_is_kept() -> None:
    job = read(tfjob_of(PS={"restartPolicy": "OnFailure"}, Chief={"restartPolicy": "OnFailure"}))
    assert job.roles["ps"].restart == "on-failure"
    assert job.roles["chief"].restart == "never"
    assert [r.path for r in job.remarks if r.level == "warning"] == [
        "spec.tfReplicaSpecs.Chief.restartPolicy"
    ]


def test_all_workers_ends_with_the_deciding_role() -> None:
    tree = tfjob_of(Worker={"replicas": 2})
    tree["spec"]["successPolicy"] = "AllWorkers"
    assert read(tree).ends_with == "deciding-role"


# --- what is asked for ----------------------------------------------------------------------------


def test_missing_memory_is_one_problem_with_every_option_to_add() -> None:
    tree = tfjob_of(PS={}, Worker={})
    for replica in tree["spec"]["tfReplicaSpecs"].values():
        del replica["template"]["spec"]["containers"][0]["resources"]
    worker = "spec.tfReplicaSpecs.Worker.template.spec.containers[0]"
    assert problems(tree) == [
        f"{worker}: no memory is stated, and YARN needs an amount "
        "(likewise spec.tfReplicaSpecs.PS.template.spec.containers[0]); "
        "add --set roles.worker.memory=4Gi --set roles.ps.memory=4Gi"
    ]
    job = read(tree, "roles.worker.memory=4Gi", "roles.ps.memory=4Gi")
    assert {role.memory_mib for role in job.roles.values()} == {4096}


def test_missing_command_is_asked_for_with_the_arguments_behind_it() -> None:
    tree = tfjob_of(Worker={})
    del tree["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]
    (problem,) = problems(tree)
    assert problem.endswith("""add --set 'roles.worker.command=[ENTRYPOINT, "--all"]'""")
    job = read(tree, 'roles.worker.command=[python, /x.py, "--all"]')
    assert job.roles["worker"].command.argv == ("python", "/x.py", "--all")


@pytest.mark.parametrize(
    "volume",
    [
        {"persistentVolumeClaim": {"claimName": "c"}},
        {"secret": {"secretName": "s"}},
        {"nfs": {"server": "s", "path": "/p"}},
    ],
)
def test_volume_that_yarn_lacks_is_asked_for_as_a_directory(volume: dict[str, Any]) -> None:
    tree = tfjob_of(Worker={})
    spec = tree["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["volumes"] = [{"name": "v", **volume}]
    (problem,) = problems(tree)
    assert problem.endswith("add --set 'roles.worker.mounts[0]=/DIRECTORY/ON/THE/NODES:/v:rw'")
    job = read(tree, "roles.worker.mounts[0]=/srv/v:/v:rw")
    assert [mount.source for mount in job.roles["worker"].mounts] == ["/srv/v"]


def test_value_from_a_secret_is_asked_for() -> None:
    tree = tfjob_of(Worker={})
    container = tree["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    (problem,) = problems(tree)
    assert problem.endswith("add --set roles.worker.env.TOKEN=VALUE")
    assert read(tree, "roles.worker.env.TOKEN=/s/t").roles["worker"].env["TOKEN"] == "/s/t"


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "requests", "memory_mib", "cpus", "gpus"),
    [
        ({"memory": "512Mi"}, {}, 512, 1, 0),
        ({"memory": "2G", "cpu": "500m"}, {}, 1908, 1, 0),
        ({"memory": "1e9", "cpu": 3}, {"cpu": "1.5"}, 954, 2, 0),
        ({"cpu": "4"}, {"memory": "2147483648"}, 2048, 4, 0),
        ({"memory": "1Ti", "nvidia.com/gpu": 2}, {"memory": "1Gi"}, 1024 * 1024, 1, 2),
        ({"memory": "1.5Gi", "amd.com/gpu": "1"}, {}, 1536, 1, 1),
        ({"memory": "1000k", "alpha.kubernetes.io/nvidia-gpu": "1"}, {}, 1, 1, 1),
    ],
)
def test_quantities_are_rounded_up_to_what_yarn_counts(
    limits: dict[str, Any], requests: dict[str, Any], memory_mib: int, cpus: int, gpus: int
) -> None:
    tree = tfjob_of(Worker={})
    template = tree["spec"]["tfReplicaSpecs"]["Worker"]
    template["template"] = pod(resources={"limits": limits, "requests": requests})
    role = read(tree).roles["worker"]
    assert (role.memory_mib, role.cpus, role.gpus) == (memory_mib, cpus, gpus)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)/x", "1/x"),
        ("$$(A)", "$(A)"),
        ("$(NOPE) $(A)", "$(NOPE) 1"),
        ("$A ${A} $", "$A ${A} $"),
    ],
)
def test_variables_in_arguments_are_filled_in_as_the_kubelet_does(text: str, expected: str) -> None:
    tree = tfjob_of(Worker={"template": pod(args=[text])})
    argv = read(tree).roles["worker"].command.argv
    assert argv is not None
    assert argv[-1] == expected


def test_problem_of_a_value_stands_at_its_place_in_the_words_of_the_file() -> None:
    text = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: Not_A_Label}
spec:
  tfReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
            - name: tensorflow
              image: a
              command: [x]
              resources: {limits: {memory: 1Gi}}
              env: [{name: A, value: yes}]
"""
    with pytest.raises(JobSpecError) as caught:
        loads(text, source="theirs.yaml", base=None)
    found = [(p.source, p.line, p.column, p.path) for p in caught.value.problems]
    assert found == [
        ("theirs.yaml", 3, 12, "metadata.name"),
        (
            "theirs.yaml",
            14,
            31,
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[0].value",
        ),
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"Driver": {}}, "spec.tfReplicaSpecs.Driver: 'Driver' is not a type of replica"),
        ({"Chief": {}, "Master": {}}, "spec.tfReplicaSpecs.Master: 'Master' is the chief"),
        (
            {"Chief": {"replicas": 2}},
            "spec.tfReplicaSpecs.Chief.replicas: TensorFlow takes at most",
        ),
        ({"Worker": {"restartPolicy": "Often"}}, "spec.tfReplicaSpecs.Worker.restartPolicy: unkno"),
        ({"PS": {}}, "spec.tfReplicaSpecs.PS: nothing ends the job; add a Chief"),
        ({"Worker": {"replica": 2}}, "spec.tfReplicaSpecs.Worker.replica: TFJob has no key"),
        ({"Worker": {"replicas": "many"}}, "spec.tfReplicaSpecs.Worker.replicas: expected a whole"),
        (
            {"Worker": {"template": {}}},
            "spec.tfReplicaSpecs.Worker.template: there is no container",
        ),
    ],
)
def test_wrong_values_are_refused_in_the_words_of_the_file(
    change: dict[str, Any], expected: str
) -> None:
    assert any(problem.startswith(expected) for problem in problems(tfjob_of(**change)))


def test_second_container_is_refused() -> None:
    tree = tfjob_of(Worker={})
    containers = tree["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    containers.append({"name": "sidecar", "image": "b"})
    assert problems(tree) == [
        "spec.tfReplicaSpecs.Worker.template.spec.containers[1]: a second container; a YARN task is "
        "one container; make it a role, or start it from the command"
    ]
