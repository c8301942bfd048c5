"""Translate a file of YARN's services API ("Yarnfile"), the job file of YARN-8220, which is one
without artifacts, and the command line of YARN-8220's script: `submit_tf_job.py --input_spec F …`.

Sources: hadoop-yarn-services-api (org.apache.hadoop.yarn.service.api.records) and YARN-8220's
branch, src/main/tensorflow/scripts/submit_tf_job.py, in three generations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from submit_tf_job.dialects.command_line import PREFIX, after_program, open_file
from submit_tf_job.dialects.rows import Fate, Row, Rows, carry, rows, values_of
from submit_tf_job.dialects.translation import At, Dialect, Translation
from submit_tf_job.host.located.nodes import Items, Node, Scalar, Table, clip
from submit_tf_job.jobspec.job import Strategy
from submit_tf_job.jobspec.kinds import LABEL as LABEL_PATTERN
from submit_tf_job.jobspec.kinds import NO_LABEL
from submit_tf_job.jobspec.rules import restart_refusal

__all__ = ["DIALECTS", "RUNTIME", "read_runtime"]

_WRITTEN = "written by YARN"
_PRIVILEGED = "the cluster's administrator decides about privileged containers"
_DECIDES = "yarn.service.container-state-report-as-service-state"
_OURS = "set by submit_tf_job itself"
RUNTIME = "YARN_CONTAINER_RUNTIME_"
_DOCKER = f"{RUNTIME}DOCKER_"

_SERVICE = rows(f"""
= name -> name
= description -> description
= queue -> queue
= lifetime -> lifetime endless
= docker_client_config -> docker_client_config
= kerberos_principal.principal_name | `kerberos.principal`; one without a host is asked for
= kerberos_principal.keytab -> kerberos.keytab
~ quicklinks | say `ports` of the role
. version | a job spec has no version
. id, state, launch_time, number_of_running_containers | {_WRITTEN}
""")
_COMPONENT = rows(f"""
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
x placement_policy.constraints[].min_cardinality, placement_policy.constraints[].max_cardinality |
    say `placement.spread` or `placement.together`
x run_privileged_container | {_PRIVILEGED}
~ dependencies | all tasks start together here
~ readiness_check | the start waits until each task is there
. state, containers, decommissioned_instances | {_WRITTEN}
""")
_BOTH = rows(f"""
= artifact.id -> roles.*.image
= artifact.type | DOCKER; others are refused
= resource.cpus -> roles.*.cpus count
= resource.memory -> roles.*.memory mebibytes | in MiB
= resource.additional.* | a GPU's → `roles.*.gpus`, `gpu_resource`; others are refused
x resource.profile | write cpus and memory out
= configuration.env.* | `roles.*.env`; variables of Docker's runtime as below; TF_CONFIG is built
    here
= configuration.properties.* | docker.network → `network`; {_DECIDES} → `deciding_role`; others are
    a warning
x configuration.files | files that YARN writes or fetches are not read; list files of this host
    under `files`, and fetch those on HDFS by `inputs`
""")
# variables of Docker's runtime; Submarine's --env may have them, too
_RUNTIME = rows(f"""
= {_DOCKER}CONTAINER_NETWORK -> network
= {_DOCKER}RUNTIME -> roles.*.docker.runtime
= {_DOCKER}CLIENT_CONFIG -> docker_client_config
= {_DOCKER}IMAGE -> roles.*.image
= {_DOCKER}TMPFS_MOUNTS -> roles.*.docker.tmpfs parts
= {_DOCKER}PORTS_MAPPING -> roles.*.docker.publish parts
= {_DOCKER}MOUNTS | `roles.*.mounts`; a file of the service is a warning
x {_DOCKER}RUN_PRIVILEGED_CONTAINER | {_PRIVILEGED}
x {_DOCKER}RUN_OVERRIDE_DISABLE | leave it out: an ENTRYPOINT that ends with exec "$@" runs the
    command
. {RUNTIME}TYPE | each task runs in a Docker container here
""")
_KEYS = (
    Rows(("",), _SERVICE),
    Rows(("components[].",), _COMPONENT),
    Rows(("", "components[]."), _BOTH),
    Rows(("configuration.env.", "components[].configuration.env."), _RUNTIME),
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
_OTHER_TOKEN = re.compile(r"\$\{(?:\w+_HOST|\w+_IP|CLUSTER_\w+|DOMAIN)\}|<LOG_DIR>")


def _recognise(root: Table) -> str | None:
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


def _read(root: At, reading: Translation) -> None:
    """Translate a Yarnfile."""
    _read_kerberos(root, reading)
    carry(reading, _SERVICE, values_of(root))
    if root.get("name") is None:
        reading.need("name", "name=NAME", root, "there is no name")
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
    elif principal is not None:
        reading.put("kerberos.principal", principal.text(), principal)


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


def _of_component_or_service(root: At, at: At) -> Callable[[Row], At | None]:
    """Return a function that finds a row's value; a component's own artifact or resource replaces
    the whole one of the service.
    """

    def find(row: Row) -> At | None:
        part = row.spellings[0].partition(".")[0]
        return values_of(root if at.get(part) is None else at)(row)

    return find


def _reports(at: At) -> bool:
    properties = at.find("configuration.properties")
    value = properties.get(_DECIDES) if properties else None
    return value is not None and value.flag()


def _read_component(
    root: At, at: At, role: str, strategy: Strategy, deciding: str | None, reading: Translation
) -> None:
    where = f"roles.{role}"
    carry(reading, _BOTH, _of_component_or_service(root, at), role)
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
    if image is None:
        reading.need_image(where, root)


def _read_command(at: At, where: str, reading: Translation) -> None:
    found = at.get("launch_command")
    text = found.text() if found else ""
    if found is None or not text.strip():
        why = "there is no launch_command, so that the image's own would run, which the bootstrap "
        reading.need_command(where, at, f"{why}cannot start")
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
    if resource is None or resource.get("memory") is None:
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
            read_runtime(name, value, where.removeprefix("roles."), reading)
        else:
            reading.put(f"{where}.env", text, value, name)


def read_runtime(name: str, at: At, role: str, reading: Translation) -> None:
    """Translate a variable of Docker's runtime for a role."""
    row = next((row for row in _RUNTIME if name in row.spellings), None)
    if row is None:
        at.drop(_OURS)
    elif row.target:
        carry(reading, [row], lambda _: at, role)
    elif row.fate is Fate.REFUSED and at.text().lower() == "true":
        at.fail(row.text)
    elif name == f"{_DOCKER}MOUNTS":
        for part in filter(None, (part.strip() for part in at.text().split(","))):
            if part.startswith("/"):
                reading.append(f"roles.{role}.mounts", part, at)
            else:
                at.drop(f"{clip(part)} is a file of the service; say `files`")


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


# --- the command line of YARN-8220's script -------------------------------------------------------

_FLAGS = rows("""
= --input_spec= | the file, a Yarnfile
= --job_name= -> name
= --docker_image=, --image_name= -> image
= --env= | `env`: a=b,c=d; in the first generation a=b:c=d
= --remote_conf_path= | `hadoop.conf`: an archive on HDFS itself, else this host's configuration
= --distributed | TF_CONFIG, for master, worker and ps; without, `tf_config: none`
= --kerberos | `kerberos.krb5_conf: inline`, where the file has kerberos_principal
= --gpu= | `gpus` of all roles; --num-gpus=N is put behind each command, as there
~ --user= | say `submit --user`
~ --domain= | say dns.domain in the settings
= --tf_config_params= | `name`, the third part; the others are facts of the cluster (first
    generation)
. --submit | `submit_tf_job submit` submits
. --dry_run | `submit_tf_job render` prints
. --verbose | say `-v`
. --h, --help | prints the script's help
""")


def _read_command_line(root: At, reading: Translation) -> None:
    """Translate the flags, and the file that they name."""
    stated = root.get("--input_spec")
    if stated is None:
        root.fail("there is no --input_spec, which names the job's file")
        return
    file = open_file(stated)
    if file is None or not isinstance(file.node, Table):
        return
    gpu = root.get("--gpu")
    number = gpu.whole() if gpu else None
    if number is not None:
        node = _with_flag(file.node, f" --num-gpus={number}")
        file = At(node, file.path, file.place, reading)
    reading.version = "YARN-8220"
    reading.translate(_YARNFILE, file)
    _read_flags(root, file, reading)
    if gpu is not None and number is not None:
        for role in _names(file):
            reading.put(f"roles.{role}.gpus", number, gpu)


def _with_flag(root: Table, flag: str) -> Table:
    """Append a flag to the command of each component, as the second generation does."""
    found = root.find("components")
    if found is None or not isinstance(found.value, Items):
        return root
    items: list[Node] = []
    for item in found.value.items:
        command = item.find("launch_command") if isinstance(item, Table) else None
        if isinstance(item, Table) and command and isinstance(command.value, Scalar):
            value = replace(command.value, text=command.value.text + flag)
            item = item.with_entry(replace(command, value=value))
        items.append(item)
    return root.with_entry(replace(found, value=replace(found.value, items=tuple(items))))


def _names(file: At) -> list[str]:
    found = file.get("components")
    names = [item.get("name") for item in found.items()] if found else []
    return [_ROLES.get(name.text(), name.text()) for name in names if name]


def _read_flags(root: At, file: At, reading: Translation) -> None:
    name, old = root.get("--job_name"), root.get("--tf_config_params")
    if old is not None:
        parts = old.text().split(":")
        if len(parts) != 5:
            old.fail(f"expected USER:DOMAIN:SERVICE:WORKERS:PS, found {clip(old.text())}")
        elif name is None:
            reading.put("name", parts[2], old)
            old.note("the counts of the file count", "name")
    carry(reading, _FLAGS, values_of(root))
    _read_env_flag(root, reading)
    _read_distributed(root, file, reading)
    kerberos, conf = root.get("--kerberos"), root.get("--remote_conf_path")
    if kerberos is not None and file.get("kerberos_principal") is not None:
        reading.put("kerberos.krb5_conf", "inline", kerberos)
    elif kerberos is not None:
        kerberos.drop("the file has no kerberos_principal")
    if conf is not None:
        archive = re.fullmatch(r"hdfs://\S+\.(zip|tar\.gz|tgz)", conf.text())
        reading.put("hadoop.conf", conf.text() if archive else "inline", conf)
        if not archive:
            conf.drop(
                "this host's Hadoop configuration travels instead of the files there, and "
                "presetup-tf.sh does not run: the bootstrap sets CLASSPATH and LD_LIBRARY_PATH"
            )


def _read_distributed(root: At, file: At, reading: Translation) -> None:
    asked, roles = root.get("--distributed"), set(_names(file))
    old = root.get("--tf_config_params")
    if asked is not None and asked.text() != "false":
        if roles != {"chief", "worker", "ps"}:
            asked.fail("there must be master, worker and ps; take the flag out")
    elif old is None and len(roles) > 1:
        reading.put("tf_config", "none", root)
        root.note("there is no --distributed, and the script sets TF_CONFIG by it", "tf_config")


def _read_env_flag(root: At, reading: Translation) -> None:
    found = root.get("--env")
    if found is None:
        return
    # a part begins with NAME=; what else stands behind a comma belongs to the value before
    parts = re.split(r"[,:](?=[A-Za-z_][A-Za-z0-9_]*=)", found.text())
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals:
            found.fail(f"expected NAME=VALUE, found {clip(part)}")
        elif name.startswith(RUNTIME):
            found.fail(f"say {name} in the file's configuration.env")
        else:
            reading.put("env", value, found, name)


_YARNFILE = Dialect("Yarnfile", _KEYS, _read, recognise=_recognise)
DIALECTS = {
    "yarnfile": _YARNFILE,
    "yarn-8220-flags": Dialect(
        "YARN-8220's submit_tf_job.py",
        (Rows(("",), _FLAGS),),
        _read_command_line,
        prefix=PREFIX,
        begin=lambda words: after_program(words, "submit_tf_job.py"),
    ),
}
