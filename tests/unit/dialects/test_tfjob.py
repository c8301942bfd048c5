"""Kubeflow's TFJob as a job: each key, who decides, what is asked for, and the goldens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from submit_tf_job.dialects.rows import ForeignKey
from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import Job, RoleKind
from tests.unit.dialects import eachkey

_FORMS = ("tfReplicaSpecs.*", "replicaSpecs[]", "replica_specs[]")


def _of_pods(values: dict[str, Any]) -> dict[str, Any]:
    """Return values by their paths in a pod by the paths in each form of replicas."""
    return {f"spec.{f}.template.{path}": value for f in _FORMS for path, value in values.items()}


_SAMPLES = {**eachkey.samples("tfjob"), **_of_pods(eachkey.samples("pod"))}
_NAMES = {
    "metadata.labels.*": "kueue.x-k8s.io/queue-name",
    "spec.tfReplicaSpecs.*": "PS",
    "spec.tensorboard.volumes[].*": "hostPath",
    "spec.tensorBoard.volumes[].*": "hostPath",
}
_NAMES |= _of_pods(
    {
        "spec.containers[].resources.limits.*": "memory",
        "spec.containers[].resources.requests.*": "cpu",
        "spec.containers[].securityContext.*": "runAsUser",
        "spec.volumes[].*": "hostPath",
        "spec.nodeSelector.*": "gpu_model",
    }
)
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
    volumes = [{"name": "v", "hostPath": {"path": "/mnt/v"}}]
    return {"spec": {"containers": [container], "volumes": volumes}}


def tfjob_of(**replicas: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "j"},
        "spec": {
            "tfReplicaSpecs": {kind: {"template": pod(), **own} for kind, own in replicas.items()}
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


# --- who decides ----------------------------------------------------------------------------------


def read(tree: dict[str, Any], *overrides: str) -> Job:
    return loads(json.dumps(tree, indent=1), source="t.json", base=None, overrides=overrides)


# replicas of each kind of a TFJob, what decides, and the strategy
DECIDING = """\
Worker -> worker single
Chief -> chief single
Worker:2 -> worker custom
PS Worker:2 -> worker custom
PS Worker Chief -> chief custom
ps WORKER master -> chief custom
Master Worker Evaluator -> chief custom
Chief:0 Worker:2 -> worker custom
"""


@pytest.mark.parametrize("row", DECIDING.splitlines())
def test_deciding_role_is_the_one_whose_end_ends_the_tfjob(row: str) -> None:
    stated, _, expected = row.partition(" -> ")
    kinds = (word.partition(":") for word in stated.split())
    job = read(tfjob_of(**{kind: {"replicas": int(count or 1)} for kind, _, count in kinds}))
    assert f"{job.deciding_role} {job.strategy.value}" == expected
    assert job.legacy_master is ("master" in stated.lower())


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


# --- values ---------------------------------------------------------------------------------------


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
