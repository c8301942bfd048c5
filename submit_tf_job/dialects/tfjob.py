"""Translate Kubeflow's TFJob: `kubeflow.org/v1`, earlier versions with a map of replicas, and the
list form of `v1alpha1`.

Sources: kubeflow/training-operator (pkg/apis/kubeflow.org/v1) and tf-operator
(pkg/apis/tensorflow/v1alpha1).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from submit_tf_job.dialects import common
from submit_tf_job.dialects.rows import Rows, amount, carry, rows, values_of
from submit_tf_job.dialects.translation import At, Dialect
from submit_tf_job.host.located.tree import Scalar, ScalarKind
from submit_tf_job.host.quoting import clip
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

# --- the keys of a pod template ---

_ONE_CONTAINER = "a YARN task is one container; make it a role, or start it from the command"
_INIT = (
    "a YARN task is one container; fetch data by `inputs` or `files`, and run other steps at the "
    "begin of the command"
)
_ADMINISTRATOR = "YARN does not grant this to a job; the cluster's administrator decides about it"
_YARN_DECIDES = "YARN has no such setting"

_POD = rows(
    f"""
. metadata | labels and annotations of pods mean nothing to YARN
x spec.initContainers | {_INIT}
x spec.ephemeralContainers | {_ONE_CONTAINER}
= spec.volumes[].name | names the volume
= spec.volumes[].* | hostPath → `mounts`; emptyDir with medium Memory → `docker.tmpfs`; any other is
    asked for by `--set`, as a directory of the nodes
= spec.nodeSelector.* | `roles.*.placement.node_attributes`, name for name
= spec.restartPolicy | counts in the list form alone; in the map form the replica's does
= spec.hostNetwork | true is `network: host`, the default here; false is a note
~ spec.affinity | say `placement.spread` or `placement.together` of the role
~ spec.topologySpreadConstraints | say `placement.spread` of the role
~ spec.tolerations | YARN has no taints; a node label is `placement.node_label` of the role
~ spec.nodeName | YARN chooses the node; say `placement` of the role
~ spec.activeDeadlineSeconds | only a job has a limit here: `lifetime`
~ spec.priorityClassName | YARN's priorities are numbers within a queue: say `priority`
~ spec.priority | YARN's priorities count within a queue: say `priority`
~ spec.imagePullSecrets | say `docker_client_config`, a config.json on HDFS
~ spec.serviceAccount, spec.serviceAccountName | the job runs as its user
~ spec.securityContext | the container runs as the job's user, by YARN's rules
~ spec.runtimeClassName | say `docker.runtime`
x spec.hostAliases | YARN does not write /etc/hosts; use names that resolve
x spec.hostIPC, spec.hostPID, spec.resourceClaims | {_ADMINISTRATOR}
~ spec.terminationGracePeriodSeconds, spec.dnsConfig | {_YARN_DECIDES}
. spec.dnsPolicy | {_YARN_DECIDES}
. spec.schedulerName | YARN is the scheduler; all tasks start together
. spec.automountServiceAccountToken, spec.enableServiceLinks | {_YARN_DECIDES}
~ spec.shareProcessNamespace | {_ONE_CONTAINER}
. spec.hostname, spec.subdomain, spec.setHostnameAsFQDN | YARN names the container after its task
. spec.os | Linux
. spec.overhead, spec.preemptionPolicy, spec.readinessGates, spec.schedulingGates, spec.hostUsers |
    {_YARN_DECIDES}
"""
)
_CONTAINER = rows(
    f"""
= name | not carried over; the container called tensorflow is the task
= image | `roles.*.image`
= command | `roles.*.command`, with args behind it; $(NAME) is filled in
= args | behind command; without command the image's ENTRYPOINT is asked for
= workingDir -> roles.*.workdir
= env[].name | `roles.*.env`
= env[].value | `roles.*.env`; $(NAME) is filled in
= env[].valueFrom | asked for by `--set`: YARN has no secrets, ConfigMaps or pod fields
x envFrom | YARN has no ConfigMaps and secrets; write the variables into env
= resources.limits.* | memory (else the request) → `memory`; nvidia.com/gpu → `gpus`; cpu where no
    request
= resources.requests.* | cpu (else the limit) → `cpus`, rounded up; memory where no limit
x resources.claims | {_ADMINISTRATOR}
= ports[].containerPort | `roles.*.ports`, but for tfjob-port (2222), as the port is chosen here
= ports[].name | the port's name
. ports[].protocol | TCP
~ ports[].hostPort, ports[].hostIP | on the host network each port is the node's
= volumeMounts[].name | names the volume
= volumeMounts[].mountPath | `roles.*.mounts`, the target
= volumeMounts[].readOnly | `:ro` or `:rw` of the mount
= volumeMounts[].subPath | joined to the directory of the nodes
x volumeMounts[].subPathExpr | write the path out as subPath
~ volumeMounts[].mountPropagation, volumeMounts[].recursiveReadOnly | {_YARN_DECIDES}
x volumeDevices | {_ADMINISTRATOR}
. imagePullPolicy | the NodeManager pulls an image that it lacks
x lifecycle | a hook does not run on YARN; put it into the command
~ livenessProbe, readinessProbe, startupProbe | the bootstrap watches each task
= securityContext.privileged | false is read past; true is refused
x securityContext.capabilities | {_ADMINISTRATOR}
~ securityContext.* | the container runs as the job's user, by YARN's rules
. stdin, stdinOnce, tty | tasks have no terminal
. terminationMessagePath, terminationMessagePolicy | the outcome comes from the bootstrap
~ resizePolicy | {_YARN_DECIDES}
~ restartPolicy | the replica's restartPolicy counts
"""
)

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_QUANTITY = re.compile(
    r"\+?([0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]+)?"
)
_UNITS = {"": 1.0, "m": 1e-3}
_UNITS |= {unit: 1000.0 ** (power + 1) for power, unit in enumerate("kMGTPE")}
_UNITS |= {f"{unit}i": 1024.0 ** (power + 1) for power, unit in enumerate("KMGTPE")}
_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "alpha.kubernetes.io/nvidia-gpu")
# k8s.io/kubernetes third_party/forked/golang/expansion/expand.go
_VARIABLE = re.compile(r"\$(\$|\(([^()]*)\))")
_TEMPLATE = re.compile(r"<[^<>]*>|\$[({\w]|\{\{")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TF_PORT = 2222

_TEMPLATES = tuple(
    f"spec.{form}.template." for form in ("tfReplicaSpecs.*", "replicaSpecs[]", "replica_specs[]")
)
_KEYS = (
    Rows(("",), _JOB),
    Rows(("spec.", "spec.runPolicy."), _POLICY),
    Rows(("spec.tfReplicaSpecs.*.",), rows(_REPLICA)),
    Rows(("spec.replicaSpecs[].", "spec.replica_specs[]."), rows(_LIST)),
    Rows(_TEMPLATES, _POD),
    Rows(tuple(f"{template}spec.containers[]." for template in _TEMPLATES), _CONTAINER),
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


def _recognise_format(root: At) -> str | None:
    """Return the version of a TFJob; None for another file."""
    kind, version = root.get("kind").text(), root.get("apiVersion").text()
    return version if kind.lower() == "tfjob" and version.startswith(_GROUPS) else None


def _read_job(root: At) -> None:
    _read_name(root)
    spec = root.get("spec")
    if not spec:
        root.fail("there is no spec; say spec.tfReplicaSpecs")
        return
    replicas = {replica.role: replica for replica in _stated_replica_types(spec)}
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
        _read_pod(replica.template, role, spec.get("tfImage"))
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


def _stated_replica_types(spec: At) -> Iterator[_Replica]:
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
    """Iterate over type, value and restart policy of the replicas, for both forms of the file."""
    for kind, at in spec.get("tfReplicaSpecs").members():
        yield kind, at, at.get("restartPolicy")
    for at in spec.get("replicaSpecs", "replica_specs").items():
        kind = at.get("tfReplicaType", "tf_replica_type").text()
        yield kind or "MASTER", at, at.find("template.spec.restartPolicy")


def _read_strategy(spec: At, replicas: dict[str, _Replica]) -> tuple[Strategy, str | None]:
    """Choose the strategy, which a TFJob does not state, and the task whose end ends the job."""
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
    """Translate TensorBoard, which the list form has, to a sidecar."""
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
    common.put_board(where, common.quoted(logs.text()), logs, board)
    board.need_memory(where, "2Gi")
    _read_mounts(board, board, where)


# --- a pod template as a role: container, quantities, `$(NAME)`, volumes ---


def _read_pod(template: At, role: str, image: At) -> None:
    """Read a pod template as one role; `image` is used for a container that states no image."""
    pod = template.get("spec")
    container = _tensorflow_container(pod)
    if not container:
        template.fail("there is no container; say spec.containers with one called tensorflow")
        return
    where = f"roles.{role}"
    _read_image(container, where, image)
    carry(_CONTAINER, values_of(container), role)
    _read_command(container, where, _read_env(container, where))
    _read_resources(container, where)
    _read_ports(container, where)
    _read_mounts(container, pod, where)
    _read_placement(pod, where)
    network = pod.get("hostNetwork")
    if network.flag():
        network.note("host is the network that tasks have here by default")


def _tensorflow_container(pod: At) -> At:
    containers = pod.get("containers").items()
    if not containers:
        return pod.get()
    names = [item.get("name").text() for item in containers]
    if len(containers) > 1:
        others = (at for at, name in zip(containers, names, strict=True) if name != "tensorflow")
        next(others, containers[1]).fail(f"a second container; {_ONE_CONTAINER}")
    task = containers[names.index("tensorflow")] if "tensorflow" in names else containers[0]
    if "tensorflow" not in names:
        task.note("the only container is the task, though it is not called tensorflow")
    privileged = task.find("securityContext.privileged")
    if privileged.flag():
        privileged.fail(_ADMINISTRATOR)
    return task


def _read_image(container: At, where: str, other: At) -> None:
    image = container.get("image") or other
    if not image.text() or _TEMPLATE.search(image.text()):
        why = "there is no image, or a placeholder for one"
        (image or container).need(f"{where}.image", f"{where}.image=IMAGE", why)
    else:
        image.put(f"{where}.image", image.node)


# --- environment and command ---


def _read_env(container: At, where: str) -> dict[str, str]:
    """Read the variables; return the variables that have a literal value, because $(NAME) may refer
    to them.
    """
    values: dict[str, str] = {}
    for item in container.get("env").items():
        stated, value, origin = item.get("name"), item.get("value"), item.get("valueFrom")
        name = stated.text()
        if not stated:
            item.fail("a variable without a name")
        elif not _ENV_NAME.fullmatch(name):
            stated.fail(f"{clip(name)} is not a name that a shell can export; rename it")
        elif name == "TF_CONFIG":
            item.fail("TF_CONFIG is built for each task here; leave the variable out")
        elif origin:
            _need_variable(origin, name, where)
        else:
            node = _expanded_text(value, values)
            values[name] = node.text
            (value or item).put(f"{where}.env", node, key=name)
    return values


def _need_variable(origin: At, name: str, where: str) -> None:
    source = next((key for key, _ in origin.members()), "")
    origin.skip()
    why = "YARN has no pod fields, ConfigMaps and secrets, so the value has to be stated"
    if source == "secretKeyRef":
        why = (
            "YARN has no secrets; let the program read a file that only the job's user can read, "
            "or state the value"
        )
    origin.need(f"{where}.env.{name}", f"{where}.env.{name}=VALUE", why)


def _expanded_text(at: At, values: Mapping[str, str]) -> Scalar:
    """Return a text in which $(NAME) is expanded as the kubelet does it: unknown names stay as they
    are.
    """
    left: list[str] = []

    def one(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        name = match.group(2)
        if name not in values:
            left.append(match.group())
        return values.get(name, match.group())

    stated = at.text()
    text = _VARIABLE.sub(one, stated)
    if left:
        at.note(f"{clip(left[0])} names no variable of this container and stays as it is written")
    if isinstance(at.node, Scalar) and text == stated:
        return replace(at.node, place=at.place)
    return Scalar(ScalarKind.TEXT, text, at.place)


def _read_command(container: At, where: str, variables: Mapping[str, str]) -> None:
    command, args = container.get("command"), container.get("args")
    argv = [_expanded_text(item, variables) for item in command.items()]
    arguments = [_expanded_text(item, variables) for item in args.items()]
    if not argv:
        given = ", ".join(["ENTRYPOINT", *(json.dumps(item.text) for item in arguments)])
        why = (
            "there is no command, so that the image's ENTRYPOINT would run, which YARN does not "
            "start; `docker inspect IMAGE` shows it, and `image check IMAGE` whether it is in "
            "YARN's way"
        )
        (command or args or container).need_command(where, why, f"[{given}]")
        return
    if any(str(_TF_PORT) in item.text for item in argv + arguments):
        command.drop(f"the port {_TF_PORT} in the command; ports are chosen here, see TF_CONFIG")
    command.put(f"{where}.command", argv + arguments)


# --- amounts ---


def _read_resources(container: At, where: str) -> None:
    limits = dict(container.find("resources.limits").members())
    requests = dict(container.find("resources.requests").members())
    nothing = container.get()

    def stated(name: str, first: dict[str, At], second: dict[str, At]) -> At:
        found = (first.pop(name, nothing), second.pop(name, nothing))
        return found[0] or found[1]

    cpu, memory = stated("cpu", requests, limits), stated("memory", limits, requests)
    for name in _GPUS:
        gpu = stated(name, limits, requests)
        if gpu:
            gpu.put(f"{where}.gpus", math.ceil(_parse_quantity(gpu)))
    for name, value in {**requests, **limits}.items():
        value.fail(f"YARN's tasks ask for memory, cpu and GPUs; {clip(name)} is not among them")
    if cpu:
        cores = _parse_quantity(cpu)
        whole = max(1, math.ceil(cores))
        note = f"{cpu.text()} cores are rounded up" if cores != whole else ""
        cpu.put(f"{where}.cpus", whole, note)
    if memory:
        text = amount(_parse_quantity(memory) / 1024**2)
        plain = memory.text().endswith(("Mi", "Gi"))
        note = "" if plain else f"{memory.text()} is {text}, rounded up"
        memory.put(f"{where}.memory", text, note)
    else:
        container.need_memory(where)


def _parse_quantity(at: At) -> float:
    match = _QUANTITY.fullmatch(at.text().strip())
    if match is None:
        at.fail(f"{clip(at.text())} is not a quantity of Kubernetes, such as 500m, 2 or 4Gi")
        return 1.0
    number, unit = match.group(1), match.group(2) or ""
    if unit[:1] in ("e", "E") and unit[1:].isdigit():
        return float(f"{number}e{unit[1:][:2]}")
    return float(number) * _UNITS[unit]


# --- ports, volumes, placement ---


def _read_ports(container: At, where: str) -> None:
    for item in container.get("ports").items():
        name, port = item.get("name"), item.get("containerPort")
        number = port.whole(1)
        called = name.text() or f"port-{number}"
        if number and called != "tfjob-port" and number != _TF_PORT:
            port.put(f"{where}.ports", number, key=called)


def _read_mounts(container: At, pod: At, where: str) -> None:
    """Read `volumeMounts` of a container with the `volumes` of its pod."""
    volumes: dict[str, At] = {}
    for item in pod.get("volumes").items():
        volumes[item.get("name").text()] = item
        for _, value in item.members():
            value.skip()
    for mount in container.get("volumeMounts").items():
        path, inner = mount.get("mountPath"), mount.get("subPath")
        volume = volumes.get(mount.get("name").text())
        if not path or volume is None:
            mount.fail("names no volume of this pod, or has no mountPath")
            continue
        target = path.text().rstrip("/")
        mode = "" if mount.get("readOnly").flag() else ":rw"
        below = f"/{inner.text()}" if inner else ""
        kind, value = next((pair for pair in volume.members() if pair[0] != "name"), ("", volume))
        directory = value.get("path")
        if kind == "hostPath" and directory:
            mount.append(f"{where}.mounts", f"{directory.text()}{below}:{target}{mode}")
        elif kind in ("emptyDir", "") and value.get("medium").text() == "Memory":
            mount.append(f"{where}.docker.tmpfs", target)
        elif kind in ("emptyDir", ""):
            mount.drop(
                f"an empty directory of the pod; {clip(target)} has to be in the image, and is "
                "kept as long as the container"
            )
        else:
            why = (
                f"the volume is a {kind}, which YARN does not have; say which directory of the "
                "nodes it is"
            )
            mount.need_mount(where, target, mode, why)


def _read_placement(pod: At, where: str) -> None:
    selector = pod.get("nodeSelector")
    labels = {name: value.node for name, value in selector.members()}
    if labels:
        selector.put(f"{where}.placement.node_attributes", labels)
        selector.drop(
            "became node attributes of the same names; they have to exist on YARN's nodes"
        )


DIALECTS = {"tfjob": Dialect("TFJob", _KEYS, _read_job, recognise=_recognise_format)}
