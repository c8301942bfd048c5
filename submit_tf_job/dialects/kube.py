"""Translate a Kubernetes pod template to a role: container, quantities, `$(NAME)`, volumes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from submit_tf_job.dialects.rows import amount, carry, rows, values_of
from submit_tf_job.dialects.translation import At, Translation
from submit_tf_job.host.located.nodes import Scalar, ScalarKind, clip

__all__ = ["CONTAINER", "POD", "read_mounts", "read_pod"]

_ONE_CONTAINER = "a YARN task is one container; make it a role, or start it from the command"
_INIT = (
    "a YARN task is one container; fetch data by `inputs` or `files`, and run other steps at the "
    "begin of the command"
)
_ADMINISTRATOR = "YARN does not grant this to a job; the cluster's administrator decides about it"
_YARN_DECIDES = "YARN has no such setting"

POD = rows(
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
CONTAINER = rows(
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
_TEMPLATE = re.compile(r"<[^>]*>|\$\(|\$\{|\{\{")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TF_PORT = 2222


def read_pod(template: At, role: str, reading: Translation, image: At | None = None) -> None:
    """Read a pod template as one role.

    Args:
        template: The value of `template`.
        role: The name of the role in the job spec.
        reading: The translation.
        image: The image for a container without one.
    """
    pod = template.get("spec")
    container = _container(pod) if pod else None
    if pod is None or container is None:
        template.fail("there is no container; say spec.containers with one called tensorflow")
        return
    where = f"roles.{role}"
    _read_image(container, where, reading, image)
    carry(reading, CONTAINER, values_of(container), role)
    variables = _read_env(container, where, reading)
    _read_command(container, where, reading, variables)
    _read_resources(container, where, reading)
    _read_ports(container, where, reading)
    read_mounts(container, pod, role, reading)
    _read_placement(pod, where, reading)
    network = pod.get("hostNetwork")
    if network is not None and network.flag():
        network.note("host is the network that tasks have here by default")


def _container(pod: At) -> At | None:
    found = pod.get("containers")
    containers = found.items() if found else []
    names = [name.text() if (name := item.get("name")) else "" for item in containers]
    if not containers:
        return None
    if len(containers) > 1:
        extra = next(
            (item for item, name in zip(containers, names, strict=True) if name != "tensorflow"),
            containers[1],
        )
        extra.fail(f"a second container; {_ONE_CONTAINER}")
    task = containers[names.index("tensorflow")] if "tensorflow" in names else containers[0]
    if "tensorflow" not in names:
        task.note("the only container is the task, though it is not called tensorflow")
    privileged = task.find("securityContext.privileged")
    if privileged is not None and privileged.flag():
        privileged.fail(_ADMINISTRATOR)
    return task


def _read_image(container: At, where: str, reading: Translation, other: At | None) -> None:
    image = container.get("image") or other
    if image is None or not image.text() or _TEMPLATE.search(image.text()):
        reading.need(
            f"{where}.image",
            f"{where}.image=IMAGE",
            image or container,
            "there is no image, or a placeholder for one",
        )
    else:
        reading.put(f"{where}.image", image.node, image)


# --- environment and command ---


def _read_env(container: At, where: str, reading: Translation) -> dict[str, str]:
    """Read the variables; return those with a literal value, for $(NAME)."""
    values: dict[str, str] = {}
    found = container.get("env")
    for item in found.items() if found else ():
        name, value, origin = item.get("name"), item.get("value"), item.get("valueFrom")
        if name is None:
            item.fail("a variable without a name")
        elif not _ENV_NAME.fullmatch(name.text()):
            name.fail(f"{clip(name.text())} is not a name that a shell can export; rename it")
        elif name.text() == "TF_CONFIG":
            item.fail("TF_CONFIG is built for each task here; leave the variable out")
        elif origin is not None:
            _need_variable(origin, name.text(), where, reading)
        elif value is None:
            reading.put(f"{where}.env", "", item, name.text())
            values[name.text()] = ""
        else:
            text = _expand(value.text(), values, value)
            values[name.text()] = text
            same = isinstance(value.node, Scalar) and text == value.node.text
            reading.put(f"{where}.env", value.node if same else text, value, name.text())
    return values


def _need_variable(origin: At, name: str, where: str, reading: Translation) -> None:
    source = next((key for key, _ in origin.members()), "")
    reading.skip(origin)
    why = "YARN has no pod fields, ConfigMaps and secrets, so the value has to be stated"
    if source == "secretKeyRef":
        why = (
            "YARN has no secrets; let the program read a file that only the job's user can read, "
            "or state the value"
        )
    reading.need(f"{where}.env.{name}", f"{where}.env.{name}=VALUE", origin, why)


def _expand(text: str, values: Mapping[str, str], at: At) -> str:
    """Expand $(NAME) as the kubelet does; unknown names are not expanded."""
    left: list[str] = []

    def one(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        name = match.group(2)
        if name not in values:
            left.append(match.group())
        return values.get(name, match.group())

    expanded = _VARIABLE.sub(one, text)
    if left:
        at.note(f"{clip(left[0])} names no variable of this container and stays as it is written")
    return expanded


def _read_command(
    container: At, where: str, reading: Translation, variables: Mapping[str, str]
) -> None:
    command, args = container.get("command"), container.get("args")
    argv = [_argument(item, variables) for item in command.items()] if command else []
    arguments = [_argument(item, variables) for item in args.items()] if args else []
    if not argv or command is None:
        given = ", ".join(["ENTRYPOINT", *(json.dumps(item.text) for item in arguments)])
        why = (
            "there is no command, so that the image's ENTRYPOINT would run, which YARN does not "
            "start; `docker inspect IMAGE` shows it, and `image check IMAGE` whether it is in "
            "YARN's way"
        )
        reading.need_command(where, command or args or container, why, f"[{given}]")
        return
    if any(str(_TF_PORT) in item.text for item in argv + arguments):
        command.drop(f"the port {_TF_PORT} in the command; ports are chosen here, see TF_CONFIG")
    argv += arguments
    reading.put(f"{where}.command", argv, command)


def _argument(item: At, variables: Mapping[str, str]) -> Scalar:
    text = _expand(item.text(), variables, item)
    if isinstance(item.node, Scalar) and text == item.node.text:
        return Scalar(item.node.kind, text, item.place, item.node.plain)
    return Scalar(ScalarKind.TEXT, text, item.place)


# --- amounts ---


def _read_resources(container: At, where: str, reading: Translation) -> None:
    limits, requests = _amounts(container, "limits"), _amounts(container, "requests")
    cpu = requests.pop("cpu", None) or limits.get("cpu")
    limits.pop("cpu", None)
    memory = limits.pop("memory", None) or requests.get("memory")
    requests.pop("memory", None)
    for name in _GPUS:
        gpu = limits.pop(name, None) or requests.get(name)
        requests.pop(name, None)
        if gpu is not None:
            reading.put(f"{where}.gpus", math.ceil(_quantity(gpu)), gpu)
    for name, value in {**requests, **limits}.items():
        value.fail(f"YARN's tasks ask for memory, cpu and GPUs; {clip(name)} is not among them")
    if cpu is not None:
        cores = _quantity(cpu)
        reading.put(f"{where}.cpus", max(1, math.ceil(cores)), cpu)
        if cores != max(1, math.ceil(cores)):
            cpu.note(f"{cpu.text()} cores are rounded up", f"{where}.cpus")
    if memory is not None:
        mib = _quantity(memory) / 1024**2
        reading.put(f"{where}.memory", amount(mib), memory)
        if not memory.text().endswith(("Mi", "Gi")):
            memory.note(f"{memory.text()} is {amount(mib)}, rounded up", f"{where}.memory")
        return
    reading.need_memory(where, container)


def _amounts(container: At, kind: str) -> dict[str, At]:
    found = container.find(f"resources.{kind}")
    return dict(found.members()) if found else {}


def _quantity(at: At) -> float:
    match = _QUANTITY.fullmatch(at.text().strip())
    if match is None:
        at.fail(f"{clip(at.text())} is not a quantity of Kubernetes, such as 500m, 2 or 4Gi")
        return 1.0
    number, unit = match.group(1), match.group(2) or ""
    if unit[:1] in ("e", "E") and unit[1:].isdigit():
        return float(f"{number}e{unit[1:][:2]}")
    return float(number) * _UNITS[unit]


# --- ports, volumes, placement ---


def _read_ports(container: At, where: str, reading: Translation) -> None:
    found = container.get("ports")
    for item in found.items() if found else ():
        name, port = item.get("name"), item.get("containerPort")
        number = port.whole(1) if port else None
        called = name.text() if name else f"port-{number}"
        if number is not None and called != "tfjob-port" and number != _TF_PORT:
            reading.put(f"{where}.ports", number, port or item, called)


def read_mounts(container: At, pod: At, role: str, reading: Translation) -> None:
    """Read `volumeMounts` of a container with the `volumes` of its pod."""
    where = f"roles.{role}"
    volumes: dict[str, At] = {}
    found = pod.get("volumes")
    for item in found.items() if found else ():
        name = item.get("name")
        volumes[name.text() if name else ""] = item
        for _, value in item.members():
            reading.skip(value)
    found = container.get("volumeMounts")
    for mount in found.items() if found else ():
        name, path, inner = mount.get("name"), mount.get("mountPath"), mount.get("subPath")
        read_only = mount.get("readOnly")
        volume = volumes.get(name.text() if name else "")
        if path is None or volume is None:
            mount.fail("names no volume of this pod, or has no mountPath")
            continue
        target = path.text().rstrip("/")
        mode = "" if read_only is not None and read_only.flag() else ":rw"
        below = f"/{inner.text()}" if inner else ""
        kind, value = next((pair for pair in volume.members() if pair[0] != "name"), ("", volume))
        directory = value.get("path") if kind == "hostPath" else None
        if directory is not None:
            reading.append(f"{where}.mounts", f"{directory.text()}{below}:{target}{mode}", mount)
        elif kind in ("emptyDir", "") and _in_memory(value):
            reading.append(f"{where}.docker.tmpfs", target, mount)
        elif kind in ("emptyDir", ""):
            mount.drop(
                f"an empty directory of the pod; {clip(target)} has to be in the image, and is "
                "kept as long as the container"
            )
        else:
            reading.need_mount(
                role,
                target,
                mode,
                mount,
                f"the volume is a {kind}, which YARN does not have; say which directory of the "
                "nodes it is",
            )


def _in_memory(volume: At) -> bool:
    medium = volume.get("medium")
    return medium is not None and medium.text() == "Memory"


def _read_placement(pod: At, where: str, reading: Translation) -> None:
    selector = pod.get("nodeSelector")
    if selector is None:
        return
    labels = {name: value.node for name, value in selector.members()}
    if labels:
        reading.put(f"{where}.placement.node_attributes", labels, selector)
        selector.drop(
            "became node attributes of the same names; they have to exist on YARN's nodes"
        )
