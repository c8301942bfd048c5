"""Translate a file of YARN's services API ("Yarnfile"), and the job file of YARN-8220, which is one
without artifacts.

Sources: hadoop-yarn-services-api (org.apache.hadoop.yarn.service.api.records) and YARN-8220's
submit_tf_job.py.
"""

from __future__ import annotations

import re

from submit_tf_job.dialects import common
from submit_tf_job.dialects.translation import At, ForeignKeys, Translation, keys
from submit_tf_job.host.located.nodes import Items, Scalar, Table, clip
from submit_tf_job.jobspec.job import Strategy
from submit_tf_job.jobspec.kinds import LABEL as LABEL_PATTERN
from submit_tf_job.jobspec.kinds import NO_LABEL
from submit_tf_job.jobspec.rules import restart_refusal

__all__ = ["KEYS", "LABEL", "RUNTIME", "read", "read_runtime", "recognise"]

LABEL = "Yarnfile"
_WRITTEN = "written by YARN"
_PRIVILEGED = "the cluster's administrator decides about privileged containers"
_DECIDES = "yarn.service.container-state-report-as-service-state"
_OURS = "set by submit_tf_job itself"
RUNTIME = "YARN_CONTAINER_RUNTIME_"
_DOCKER = f"{RUNTIME}DOCKER_"

_SERVICE = f"""
= name | `name`
= description | `description`
= queue | `queue`
= lifetime | `lifetime`
= docker_client_config | `docker_client_config`
= kerberos_principal.principal_name | `kerberos.principal`; one without a host is asked for
= kerberos_principal.keytab | `kerberos.keytab`
~ quicklinks | say `ports` of the role
. version | a job spec has no version
. id | {_WRITTEN}
. state | {_WRITTEN}
. launch_time | {_WRITTEN}
. number_of_running_containers | {_WRITTEN}
"""
_COMPONENT = f"""
= name | the role; master → chief
= number_of_containers | `roles.*.instances`
= launch_command | `roles.*.command`, without the level of quoting that YARN's `bash -c "…"` needs
= restart_policy | `roles.*.restart`: NEVER → never, ON_FAILURE → on-failure; ALWAYS, the default
    there, is a warning
= placement_policy.constraints[].type | `roles.*.placement`: ANTI_AFFINITY → spread, AFFINITY →
    together
= placement_policy.constraints[].scope | node or rack
= placement_policy.constraints[].target_tags | the component itself; others are refused
= placement_policy.constraints[].node_partitions | `placement.node_label`
= placement_policy.constraints[].node_attributes | `placement.node_attributes`
. placement_policy.constraints[].name | a name
x placement_policy.constraints[].min_cardinality | say `placement.spread` or `placement.together`
x placement_policy.constraints[].max_cardinality | say `placement.spread` or `placement.together`
x run_privileged_container | {_PRIVILEGED}
~ dependencies | all tasks start together here
~ readiness_check | the start waits until each task is there
. state | {_WRITTEN}
. containers | {_WRITTEN}
. decommissioned_instances | {_WRITTEN}
"""
_BOTH = f"""
= artifact.id | `roles.*.image`
= artifact.type | DOCKER; others are refused
= resource.cpus | `roles.*.cpus`
= resource.memory | `roles.*.memory`, in MiB
= resource.additional.* | a GPU's → `roles.*.gpus`, `gpu_resource`; others are refused
x resource.profile | write cpus and memory out
= configuration.env.* | `roles.*.env`; {_DOCKER}CONTAINER_NETWORK → `network`, …MOUNTS → `mounts`,
    …TMPFS_MOUNTS → `docker.tmpfs`, …PORTS_MAPPING → `docker.publish`, …RUNTIME → `docker.runtime`,
    …CLIENT_CONFIG → `docker_client_config`; TF_CONFIG is built here
= configuration.properties.* | docker.network → `network`; {_DECIDES} → `deciding_role`; others are
    a warning
x configuration.files | files that YARN writes or fetches are not read; list files of this host
    under `files`, and fetch those on HDFS by `inputs`
"""
KEYS = (
    ForeignKeys(("",), keys(_SERVICE)),
    ForeignKeys(("components[].",), keys(_COMPONENT)),
    ForeignKeys(("", "components[]."), keys(_BOTH)),
)

_ROLES = {"master": "chief"}
_OF_YARN_8220 = ("master", "worker", "ps")
_TOKENS = {
    "${COMPONENT_NAME}": "$TFJOB_ROLE",
    "${COMPONENT_ID}": "$TFJOB_INDEX",
    "${COMPONENT_INSTANCE_NAME}": "$TFJOB_ROLE-$TFJOB_INDEX",
    "${SERVICE_NAME}": "$TFJOB_NAME",
    "${SERVICE_NAME.lc}": "$TFJOB_NAME",
    "${COMPONENT_NAME.lc}": "$TFJOB_ROLE",
}
# variables of Docker's runtime → keys with one value, and keys with a list
_ONE = {
    "CONTAINER_NETWORK": "network",
    "RUNTIME": "{role}.docker.runtime",
    "CLIENT_CONFIG": "docker_client_config",
    "IMAGE": "{role}.image",
}
_SEVERAL = {"TMPFS_MOUNTS": "tmpfs", "PORTS_MAPPING": "publish"}
_OTHER_TOKEN = re.compile(r"\$\{(?:\w+_HOST|\w+_IP|CLUSTER_\w+|DOMAIN)\}|<LOG_DIR>")


def recognise(root: Table) -> str | None:
    """Return "YARN-8220" or "services API"; None for another tree."""
    entry = root.find("components")
    if entry is None or not isinstance(entry.value, Items) or not entry.value.items:
        return None
    found = [item for item in entry.value.items if isinstance(item, Table)]
    asked = ("launch_command", "number_of_containers", "artifact")
    if len(found) < len(entry.value.items) or not all(
        item.find("name") and any(item.find(key) for key in asked) for item in found
    ):
        return None
    names = [entry.value for item in found if (entry := item.find("name"))]
    known = all(isinstance(name, Scalar) and name.text in _OF_YARN_8220 for name in names)
    artifacts = root.find("artifact") or any(item.find("artifact") for item in found)
    return "YARN-8220" if known and not artifacts else "services API"


def read(root: At, reading: Translation) -> None:
    """Translate a Yarnfile."""
    for key in ("name", "description", "queue", "docker_client_config"):
        reading.copy(key, root.get(key))
    if root.get("name") is None:
        reading.need("name", "name=NAME", root, "there is no name")
    reading.copy("lifetime", root.get("lifetime"), common.seconds)
    _read_kerberos(root, reading)
    components = root.get("components")
    roles = _roles(components.items() if components else [], reading)
    if not roles:
        root.fail("there is no component with containers")
        return
    strategy, deciding = _read_strategy(root, roles, reading)
    for role, at in roles.items():
        _read_component(root, at, role, strategy, deciding, reading)


def _read_kerberos(root: At, reading: Translation) -> None:
    principal = root.find("kerberos_principal.principal_name")
    name, _, realm = principal.text().partition("@") if principal else ("", "", "")
    if principal is not None and realm and "/" not in name:  # as in YARN-8220's own examples
        option = f"kerberos.principal={name}/_HOST@{realm}"
        why = (
            f"{clip(principal.text())} has no host, and YARN refuses the principal of a service "
            "without; leave kerberos_principal out where the cluster has no Kerberos, else say one "
            "that the keytab has"
        )
        reading.need("kerberos.principal", option, principal, why)
    else:
        reading.copy("kerberos.principal", principal)
    reading.copy("kerberos.keytab", root.find("kerberos_principal.keytab"))


def _roles(components: list[At], reading: Translation) -> dict[str, At]:
    roles: dict[str, At] = {}
    for at in components:
        name, count = at.get("name"), at.get("number_of_containers")
        role = _ROLES.get(name.text(), name.text()) if name else ""
        if count is not None and count.whole() == 0:
            at.note("the component has no containers and is left out")
            reading.skip(at)
        elif not LABEL_PATTERN.fullmatch(role):
            (name or at).fail(f"{clip(role)} {NO_LABEL}")
            reading.skip(at)
        elif role in roles:
            at.fail(f"{clip(role)} is there already, in {roles[role].path}")
        else:
            roles[role] = at
            reading.put(f"roles.{role}.instances", _count(at), count or at)
    return roles


def _count(at: At) -> int:
    count = at.get("number_of_containers")
    return (count.whole() if count else 1) or 1


def _read_strategy(
    root: At, roles: dict[str, At], reading: Translation
) -> tuple[Strategy, str | None]:
    """Choose the strategy; YARN-8220's master, worker and ps ran a TensorFlow 1 Estimator."""
    marked = [role for role, at in roles.items() if _reports(at)]
    deciding = marked[0] if marked else next((r for r in ("chief", "worker") if r in roles), None)
    if len(roles) == 1:
        deciding = next(iter(roles))
    if set(roles) <= {"chief", "worker"} and sum(map(_count, roles.values())) == 1:
        reading.put("strategy", "single", root)
        return Strategy.SINGLE, deciding
    literal = [at for at in (root, *roles.values()) if at.find("configuration.env.TF_CONFIG")]
    distributed = reading.version == "YARN-8220" and set(roles) == {"chief", "worker", "ps"}
    if distributed or (literal and "chief" in roles and "evaluator" not in roles):
        reading.put("strategy", "estimator", root)
        reading.put("legacy_master", True, roles["chief"])
        reading.put("variables", "cloud", root)
        roles["chief"].note("TF_CONFIG calls the task master, as there", "legacy_master")
        strategy = Strategy.ESTIMATOR
    else:
        reading.put("strategy", "custom", root)
        if literal:
            reading.put("tf_config", "counts", literal[0])
        strategy = Strategy.CUSTOM
    if marked:
        reading.put("deciding_role", deciding, roles[marked[0]])
    elif deciding is None:
        reading.need(
            "deciding_role",
            f"deciding_role={next(iter(roles))}",
            root,
            "a Yarnfile does not say which component's end is the job's end",
        )
    return strategy, deciding


def _reports(at: At) -> bool:
    properties = at.find("configuration.properties")
    value = properties.get(_DECIDES) if properties else None
    return value is not None and value.flag()


def _read_component(
    root: At, at: At, role: str, strategy: Strategy, deciding: str | None, reading: Translation
) -> None:
    where = f"roles.{role}"
    _read_artifact(root, at, where, reading)
    _read_command(at, where, reading)
    _read_resource(root, at, where, reading)
    for level in (root, at):
        _read_env(level, where, reading)
        _read_properties(level, reading)
    _read_restart(at, role, strategy, deciding, reading)
    constraints = at.find("placement_policy.constraints")
    for constraint in constraints.items() if constraints else ():
        _read_constraint(constraint, at, where, reading)


def _read_artifact(root: At, at: At, where: str, reading: Translation) -> None:
    artifact = at.get("artifact") or root.get("artifact")
    kind, image = (artifact.get(key) if artifact else None for key in ("type", "id"))
    if kind is not None and kind.text() != "DOCKER":
        kind.fail(f"a {kind.text()} runs without Docker; say type DOCKER, and an image as id")
    if image is not None:
        reading.put(f"{where}.image", image.text(), image)
    else:
        reading.need(f"{where}.image", "image=IMAGE", root, "there is no Docker image")


def _read_command(at: At, where: str, reading: Translation) -> None:
    found = at.get("launch_command")
    text = found.text() if found else ""
    if found is None or not text.strip():
        reading.need(
            f"{where}.command",
            f"{where}.command=COMMAND",
            at,
            "there is no launch_command, so that the image's own would run, which the bootstrap "
            "cannot start",
        )
        return
    for token, ours in _TOKENS.items():
        text = text.replace(token, ours)
    other = _OTHER_TOKEN.search(text)
    if other:
        found.fail(f"{clip(other.group())} is not known here; TF_CONFIG has the addresses")
    if re.search(r'(?<!\\)"', text):
        found.drop('YARN\'s bash -c "…" takes unescaped double quotes away; here they count')
    # one level of quoting less: YARN runs `bash -c "COMMAND"` (ContainerLaunch)
    plain = re.sub(r'\\([\\"$`])', r"\1", re.sub(r"\{\{(\w+)\}\}", r"$\1", text))
    reading.put(f"{where}.command", plain, found)
    if plain != found.text():
        found.note("without YARN's level of quoting and its tokens", f"{where}.command")


def _read_resource(root: At, at: At, where: str, reading: Translation) -> None:
    resource = at.get("resource") or root.get("resource")
    cpus, memory = (resource.get(key) if resource else None for key in ("cpus", "memory"))
    reading.copy(f"{where}.cpus", cpus, lambda at: at.whole(1) or 1)
    if memory is not None:
        reading.put(f"{where}.memory", common.amount(memory.whole(1) or 1), memory)
    else:
        reading.need_memory(where, at)
    additional = resource.get("additional") if resource else None
    for name, value in additional.members() if additional else ():
        number = value.get("value")
        if "gpu" not in name:
            value.fail(f"tasks ask for memory, cpus and GPUs; {clip(name)} is not among them")
        elif number is not None:
            reading.put(f"{where}.gpus", number.whole() or 0, number)
            if name != "yarn.io/gpu":
                reading.put(f"{where}.gpu_resource", name, value)
        reading.skip(value)


def _read_env(level: At, where: str, reading: Translation) -> None:
    env = level.find("configuration.env")
    for name, value in env.members() if env else ():
        text = value.text()
        if name == "TF_CONFIG":
            value.note("TF_CONFIG is built for each task here")
        elif name.startswith(RUNTIME):
            read_runtime(name, text, value, where, reading)
        else:
            reading.put(f"{where}.env", text, value, name)


def read_runtime(name: str, text: str, at: At, where: str, reading: Translation) -> None:
    key = name.removeprefix(_DOCKER)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if key in _ONE:
        reading.put(_ONE[key].format(role=where), text, at)
    elif key in _SEVERAL:
        reading.put(f"{where}.docker.{_SEVERAL[key]}", parts, at)
    elif key == "MOUNTS":
        for part in parts:
            if part.startswith("/"):
                reading.append(f"{where}.mounts", part, at)
            else:
                at.drop(f"{clip(part)} is a file of the service; say `files`")
    elif key == "RUN_PRIVILEGED_CONTAINER" and text.lower() == "true":
        at.fail(_PRIVILEGED)
    elif key == "RUN_OVERRIDE_DISABLE" and text.lower() == "true":
        at.fail("say docker.entrypoint and bootstrap: false, in a job spec of your own")
    elif key not in ("RUN_PRIVILEGED_CONTAINER", "RUN_OVERRIDE_DISABLE", f"{RUNTIME}TYPE"):
        at.drop(_OURS)


def _read_properties(level: At, reading: Translation) -> None:
    properties = level.find("configuration.properties")
    for name, value in properties.members() if properties else ():
        if name == "docker.network":
            reading.put("network", value.text(), value)
        elif name != _DECIDES:
            value.drop(_OURS)


def _read_restart(
    at: At, role: str, strategy: Strategy, deciding: str | None, reading: Translation
) -> None:
    policy = at.get("restart_policy")
    word = policy.text() if policy else "ALWAYS"
    if word == "ALWAYS":
        (policy or at).drop("a service of ALWAYS, the default, never ends; the job does")
    elif word == "ON_FAILURE" and policy is not None:
        refusal = restart_refusal(strategy, role, deciding)
        if refusal:
            policy.drop(f"{refusal}; a failed task fails the job")
        else:
            reading.put(f"roles.{role}.restart", "on-failure", policy)
    elif word != "NEVER" and policy is not None:
        policy.fail(f"unknown value {clip(word)}; it is NEVER, ON_FAILURE or ALWAYS")


def _read_constraint(at: At, component: At, where: str, reading: Translation) -> None:
    kind, scope, tags = at.get("type"), at.get("scope"), at.get("target_tags")
    labels, attributes = at.get("node_partitions"), at.get("node_attributes")
    name = component.get("name")
    if tags is not None and tags.words() != [name.text() if name else ""]:
        tags.fail("only the component itself can be named; there is no such rule between roles")
    key = {"ANTI_AFFINITY": "spread", "AFFINITY": "together"}.get(kind.text() if kind else "")
    if key is None:
        (kind or at).fail("the type is ANTI_AFFINITY or AFFINITY")
    elif tags is not None:
        reading.put(
            f"{where}.placement.{key}", (scope.text() if scope else "NODE").lower(), scope or at
        )
    elif scope is not None:
        scope.note("is of no use without target_tags")
    if labels is not None and (found := labels.words()):
        reading.put(f"{where}.placement.node_label", found[0], labels)
        if found[1:]:
            labels.fail("a role has one node label")
    if attributes is not None:
        stated = {key: value.words() for key, value in attributes.members()}
        reading.put(f"{where}.placement.node_attributes", stated, attributes)
