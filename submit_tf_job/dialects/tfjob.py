"""Translate Kubeflow's TFJob: `kubeflow.org/v1`, earlier versions with a map of replicas, and the
list form of `v1alpha1`.

Sources: kubeflow/training-operator (pkg/apis/kubeflow.org/v1) and tf-operator
(pkg/apis/tensorflow/v1alpha1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from submit_tf_job.dialects import common, kube
from submit_tf_job.dialects.rows import Rows, carry, rows, values_of
from submit_tf_job.dialects.translation import At, Dialect
from submit_tf_job.host.located.nodes import Scalar, Table, clip
from submit_tf_job.jobspec.job import Strategy
from submit_tf_job.jobspec.rules import restart_refusal

_GROUPS = (
    "kubeflow.org/",
    "tensorflow.org/",
    "training.kubedl.io/",
    "mlkube.io/",
    "kubeflow.alibaba-inc.com/",
)
_ROLES = {
    "chief": "chief",
    "master": "chief",
    "worker": "worker",
    "ps": "ps",
    "evaluator": "evaluator",
    "eval": "evaluator",
}
_ORDER = ("chief", "worker", "ps", "evaluator")

_POLICY = rows("""
. cleanPodPolicy, cleanupPodPolicy, ttlSecondsAfterFinished | everything ends with the job here, and
    logs stay
= activeDeadlineSeconds -> lifetime seconds ! counts from the submission here
= backoffLimit | `restart.max` of the roles that restart, for each task instead of all together
~ schedulingPolicy.minAvailable, schedulingPolicy.minResources, schedulingPolicy.minMember | all
    tasks start together here
~ schedulingPolicy.priorityClass | YARN's priorities are numbers within a queue: say `priority`
= schedulingPolicy.queue -> queue ! is taken for a queue of YARN
= schedulingPolicy.scheduleTimeoutSeconds -> start_timeout seconds
x suspend | a job starts when it is submitted; take it out
. managedBy | Kubernetes'
""")

_JOB = rows("""
. apiVersion, kind | says which form it is
. status | written by Kubernetes
= metadata.name -> name
= metadata.generateName | `name`, without the hyphen at its end
~ metadata.namespace | YARN has no namespaces; choose a queue with --set queue=NAME
= metadata.labels.* | kueue.x-k8s.io/queue-name is a warning that names `queue`; others mean nothing
    to YARN
. metadata.annotations | means nothing to YARN
. metadata.creationTimestamp, metadata.generation, metadata.resourceVersion, metadata.uid,
    metadata.selfLink, metadata.managedFields, metadata.ownerReferences, metadata.finalizers |
    written by Kubernetes
= spec.successPolicy | AllWorkers → `ends_with: deciding-role`; with a chief it counts for nothing,
    as there
x spec.enableDynamicWorker | the number of workers is fixed here; take it out
x spec.onExit | a step behind the job is a second job
x spec.cacheBackend | KubeDL's cache has no equal here; mount the data, or fetch it by `inputs`
x spec.modelVersion | KubeDL's model registry has no equal here; say `outputs`
. spec.schedulerName | YARN is the scheduler; all tasks start together
. spec.RuntimeId, spec.runtimeId | written by the operator
= spec.tfImage | image of a role that has none (list form)
= spec.terminationPolicy.chief.replicaName | `deciding_role` (list form)
= spec.terminationPolicy.chief.replicaIndex | 0; another is refused (list form)
""")
_BOARD = """
= logDir | the sidecar tensorboard's `--logdir` (list form)
. serviceType | links name the port
= volumeMounts[].name | names the volume
= volumeMounts[].mountPath | `roles.tensorboard.mounts`
= volumeMounts[].readOnly | `:ro` or `:rw` of the mount
= volumeMounts[].subPath | joined to the directory of the nodes
= volumes[].name | names the volume
= volumes[].* | as a pod's volumes
"""
_REPLICA = """
= replicas | `roles.*.instances`; 0 leaves the role out
= restartPolicy | `roles.*.restart`: Never → never, the others → on-failure, but never for the
    deciding role
"""
_LIST = """
= tfReplicaType, tf_replica_type | the role: MASTER → chief (list form)
= replicas | `roles.*.instances`
. tfPort, tf_port | ports are chosen here
"""


_TEMPLATES = tuple(
    f"spec.{form}.template." for form in ("tfReplicaSpecs.*", "replicaSpecs[]", "replica_specs[]")
)
_KEYS = (
    Rows(("",), _JOB),
    Rows(("spec.", "spec.runPolicy."), _POLICY),
    Rows(("spec.tfReplicaSpecs.*.",), rows(_REPLICA)),
    Rows(("spec.replicaSpecs[].", "spec.replica_specs[]."), rows(_LIST)),
    Rows(_TEMPLATES, kube.POD),
    Rows(tuple(f"{template}spec.containers[]." for template in _TEMPLATES), kube.CONTAINER),
    Rows(("spec.tensorboard.", "spec.tensorBoard."), rows(_BOARD)),
)


@dataclass(frozen=True)
class _Replica:
    role: str
    master: bool
    instances: int
    at: At
    restart: At

    @property
    def template(self) -> At:
        return self.at.get("template")


def _recognise(root: Table) -> str | None:
    """Return the version of a TFJob; None for another tree."""
    kind, version = (_scalar(root, key) for key in ("kind", "apiVersion"))
    return version if kind.lower() == "tfjob" and version.startswith(_GROUPS) else None


def _scalar(root: Table, key: str) -> str:
    entry = root.find(key)
    return entry.value.text if entry and isinstance(entry.value, Scalar) else ""


def _read(root: At) -> None:
    _read_name(root)
    spec = root.get("spec")
    if not spec:
        root.fail("there is no spec; say spec.tfReplicaSpecs")
        return
    replicas = {replica.role: replica for replica in _replicas(spec)}
    if not replicas:
        spec.fail("there is no replica; say spec.tfReplicaSpecs with Worker, Chief or PS")
        return
    strategy, deciding = _read_strategy(spec, replicas)
    _read_policy(spec, replicas)
    for role in (name for name in _ORDER if name in replicas):
        replica = replicas[role]
        (replica.at.get("replicas") or replica.at).put(f"roles.{role}.instances", replica.instances)
        if role == "worker" and deciding == "chief":
            # UpdateJobStatus of tfjob_controller.go: with a Chief or Master a worker counts only by
            # a failure before the chief's success
            note = "the chief's success is the job's, as there"
            replica.at.put_under("custom", "roles.worker.kind", "serves", note)
        if not replica.template:
            replica.at.fail("there is no template; say template.spec.containers")
            continue
        kube.read_pod(replica.template, role, spec.get("tfImage"))
        _read_restart(spec, replica, strategy, deciding)
    _read_board(spec, replicas)


def _read_name(root: At) -> None:
    name, begin = root.find("metadata.name"), root.find("metadata.generateName")
    carry(_JOB, values_of(root))
    if not name and begin:
        note = "is the whole name here; the same file again is the same job, unless --name differs"
        begin.put("name", begin.text().rstrip("-"), note)
    elif not name:
        root.need("name", "name=NAME", "there is no metadata.name")
    for label, value in root.find("metadata.labels").members():
        if label == "kueue.x-k8s.io/queue-name":
            value.drop(f"Kueue's queue; say --set queue={value.text()} where YARN has one like it")


def _replicas(spec: At) -> Iterator[_Replica]:
    found: dict[str, _Replica] = {}
    for kind, at, restart in _stated_replicas(spec):
        role = _ROLES.get(kind.lower())
        instances = at.get("replicas").whole(default=1)
        if role is None:
            at.fail(
                f"{clip(kind)} is not a type of replica; it is one of Chief, Master, Worker, PS "
                "and Evaluator"
            )
            at.skip()
        elif instances == 0:
            at.note("the role has no replicas and is left out")
            at.skip()
        elif role in found:
            at.fail(f"{clip(kind)} is the {role}, which stands in {found[role].at.path} already")
        else:
            found[role] = _Replica(role, kind.lower() == "master", instances, at, restart)
            yield found[role]


def _stated_replicas(spec: At) -> Iterator[tuple[str, At, At]]:
    """Iterate over type, value and restart policy of the replicas, in either form."""
    for kind, at in spec.get("tfReplicaSpecs").members():
        yield kind, at, at.get("restartPolicy")
    for at in spec.get("replicaSpecs", "replica_specs").items():
        kind = at.get("tfReplicaType", "tf_replica_type").text()
        yield kind or "MASTER", at, at.find("template.spec.restartPolicy")


def _read_strategy(spec: At, replicas: dict[str, _Replica]) -> tuple[Strategy, str | None]:
    """Choose the strategy, which a TFJob does not state, and who ends the job."""
    termination = spec.find("terminationPolicy.chief.replicaName")
    common.refuse_index(spec.find("terminationPolicy.chief.replicaIndex"))
    deciding = next((role for role in _ORDER[:2] if role in replicas), None)
    first = next(iter(replicas.values()))
    if deciding is None:
        first.at.fail("nothing ends the job; add a Chief, a Master or a Worker")
    if sum(replica.instances for replica in replicas.values()) == 1 and deciding:
        first.at.put("strategy", "single")
        return Strategy.SINGLE, deciding
    spec.put("variables", "cloud")
    spec.put(
        "strategy",
        "custom",
        "a TFJob does not say how its tasks train together; multi-worker, parameter-server "
        "and estimator check more",
    )
    spec.put("tf_config", "counts")
    chief = replicas.get("chief")
    if chief is not None and chief.master:
        chief.at.put("legacy_master", True, "TF_CONFIG calls the task master, as there")
    if termination:
        deciding = _ROLES.get(termination.text().lower(), termination.text())
        termination.put("deciding_role", deciding)
    return Strategy.CUSTOM, deciding


def _read_policy(spec: At, replicas: dict[str, _Replica]) -> None:
    for policy in (spec, spec.get("runPolicy")):
        carry(_POLICY, values_of(policy))
    success = spec.get("successPolicy")
    if success.text() not in ("", "AllWorkers"):
        success.fail(f"unknown value {clip(success.text())}; it is AllWorkers or empty")
    elif success.text() and "chief" not in replicas:
        success.put("ends_with", "deciding-role")


def _read_restart(spec: At, replica: _Replica, strategy: Strategy, deciding: str | None) -> None:
    said = replica.restart
    word = said.text() if said else "Never"
    if word == "Never":
        return
    if word not in ("OnFailure", "Always", "ExitCode"):
        said.fail(f"unknown value {clip(word)}; it is one of Never, OnFailure, Always, ExitCode")
        return
    refusal = restart_refusal(strategy, replica.role, deciding)
    if refusal:
        said.drop(f"{refusal}; a failed task fails the job, so let a scheduler submit it again")
        return
    limit = spec.find("runPolicy.backoffLimit") or spec.get("backoffLimit")
    most = limit.whole(default=3)
    if most == 0:
        return
    where = f"roles.{replica.role}.restart"
    said.put(f"{where}.policy", "on-failure")
    limit.put(f"{where}.max", min(most, 1000))
    if word == "ExitCode":
        said.drop("a task restarts after any failure here, also after a status below 128")
    else:
        said.note(f"{word}: a task restarts at most {most} times here", where)


def _read_board(spec: At, replicas: dict[str, _Replica]) -> None:
    """Translate TensorBoard of the list form to a sidecar."""
    board = spec.get("tensorboard", "tensorBoard")
    if not board:
        return
    logs = board.get("logDir")
    if not logs:
        board.fail("there is no logDir; say which directory TensorBoard shows")
        return
    first = next(replicas[role] for role in _ORDER if role in replicas)
    containers = first.template.find("spec.containers").items()
    image = (containers[0].get("image") if containers else board.get()) or spec.get("tfImage")
    where = "roles.tensorboard"
    image.put(f"{where}.image", image.text())
    common.put_board(where, logs, logs, board)
    board.need_memory(where, "2Gi")
    kube.read_mounts(board, board, "tensorboard")


DIALECTS = {"tfjob": Dialect("TFJob", _KEYS, _read, recognise=_recognise)}
