"""Translate a file of YARN's services API ("Yarnfile"); the job file of YARN-8220, which is a
Yarnfile without artifacts; and the command line of YARN-8220's script: `submit_tf_job.py
--input_spec F …`.

Sources: hadoop-yarn-services-api (org.apache.hadoop.yarn.service.api.records) and YARN-8220's
branch, src/main/tensorflow/scripts/submit_tf_job.py, in three generations.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from submit_tf_job.dialects import common
from submit_tf_job.dialects.command_line import PREFIX, after_program, open_file
from submit_tf_job.dialects.rows import Fate, Row, Rows, carry, rows, values_of
from submit_tf_job.dialects.translation import At, Dialect
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.job import Strategy
from submit_tf_job.jobspec.kinds import LABEL as LABEL_PATTERN
from submit_tf_job.jobspec.kinds import NO_LABEL
from submit_tf_job.jobspec.path_kinds import CONF_ARCHIVE
from submit_tf_job.jobspec.rules import restart_refusal

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


def _recognise_format(root: At) -> str | None:
    """Return "YARN-8220" or "services API"; None for another file."""
    found = root.get("components").items()
    asked = {"launch_command", "number_of_containers", "artifact"}
    if not found or not all("name" in item.keys and asked & item.keys for item in found):
        return None
    known = all(item.get("name").text() in _OF_YARN_8220 for item in found)
    artifacts = any("artifact" in at.keys for at in (root, *found))
    return "YARN-8220" if known and not artifacts else "services API"


def _read_job(root: At) -> None:
    _read_kerberos(root)
    carry(_SERVICE, values_of(root))
    if not root.get("name"):
        root.need("name", "name=NAME", "there is no name")
    roles = _roles_of_components(root.get("components").items())
    if not roles:
        root.fail("there is no component with containers")
        return
    strategy, deciding = _read_strategy(root, roles)
    for role, at in roles.items():
        _read_component(root, at, role, strategy, deciding)


def _read_kerberos(root: At) -> None:
    principal = root.find("kerberos_principal.principal_name")
    name, _, realm = principal.text().partition("@")
    if realm and "/" not in name:  # as in YARN-8220's own examples
        option = f"kerberos.principal={name}/_HOST@{realm}"
        why = (
            f"{clip(principal.text())} has no host, and YARN refuses the principal of a service "
            "without; leave kerberos_principal out where the cluster has no Kerberos, else say one "
            "that the keytab has"
        )
        principal.need("kerberos.principal", option, why)
    else:
        principal.put("kerberos.principal", principal.text())


def _role_of_component(component: At) -> str:
    """Return the role that a component becomes; "" for a component without a name."""
    name = component.get("name").text()
    return _ROLES.get(name, name)


def _roles_of_components(components: list[At]) -> dict[str, At]:
    roles: dict[str, At] = {}
    for at in components:
        role, count = _role_of_component(at), at.get("number_of_containers")
        if count.whole(default=1) == 0:
            at.note("the component has no containers and is left out")
            at.skip()
        elif not LABEL_PATTERN.fullmatch(role):
            (at.get("name") or at).fail(f"{clip(role)} {NO_LABEL}")
            at.skip()
        elif role in roles:
            at.fail(f"{clip(role)} is there already, in {roles[role].path}")
        else:
            roles[role] = at
            (count or at).put(f"roles.{role}.instances", _instance_count(at))
    return roles


def _instance_count(at: At) -> int:
    return at.get("number_of_containers").whole(default=1)


def _read_strategy(root: At, roles: dict[str, At]) -> tuple[Strategy, str | None]:
    """Choose the strategy; YARN-8220's master, worker and ps ran a TensorFlow 1 Estimator."""
    marked = [
        role
        for role, at in roles.items()
        if at.find("configuration.properties").get(_DECIDES).flag()
    ]
    deciding = marked[0] if marked else next((r for r in ("chief", "worker") if r in roles), None)
    if len(roles) == 1:
        deciding = next(iter(roles))
    if set(roles) <= {"chief", "worker"} and sum(map(_instance_count, roles.values())) == 1:
        root.put("strategy", "single")
        return Strategy.SINGLE, deciding
    literal = [at for at in (root, *roles.values()) if at.find("configuration.env.TF_CONFIG")]
    yarn_8220 = root.reading.version == "YARN-8220" and set(roles) == {"chief", "worker", "ps"}
    if yarn_8220 or (literal and "chief" in roles and "evaluator" not in roles):
        root.put("strategy", "estimator")
        note = "TF_CONFIG calls the task master, as there"
        roles["chief"].put("legacy_master", True, note)
        root.put("variables", "cloud")
        strategy = Strategy.ESTIMATOR
    else:
        root.put("strategy", "custom")
        if literal:
            literal[0].put("tf_config", "counts")
        strategy = Strategy.CUSTOM
    if marked:
        roles[marked[0]].put("deciding_role", deciding)
    elif deciding is None:
        option = f"deciding_role={next(iter(roles))}"
        why = "a Yarnfile does not say which component's end is the job's end"
        root.need("deciding_role", option, why)
    return strategy, deciding


def _of_component_or_service(root: At, at: At) -> Callable[[Row], At]:
    """Return a function that finds the value of a row. If a component has its own artifact or
    resource, that replaces the whole artifact or resource of the service.
    """

    def find(row: Row) -> At:
        part = row.spellings[0].partition(".")[0]
        return values_of(at if at.get(part) else root)(row)

    return find


def _read_component(root: At, at: At, role: str, strategy: Strategy, deciding: str | None) -> None:
    where = f"roles.{role}"
    carry(_BOTH, _of_component_or_service(root, at), role)
    _read_artifact(at.get("artifact") or root.get("artifact"), root, where)
    _read_command(at, where)
    _read_resource(at.get("resource") or root.get("resource"), at, where)
    for level in (root, at):
        _read_env(level, where)
        _read_properties(level)
    _read_restart(at, role, strategy, deciding)
    for constraint in at.find("placement_policy.constraints").items():
        _read_constraint(constraint, at, where)


def _read_artifact(artifact: At, root: At, where: str) -> None:
    kind = artifact.get("type")
    if kind and kind.text() != "DOCKER":
        kind.fail(f"a {kind.text()} runs without Docker; say type DOCKER, and an image as id")
    if not artifact.get("id"):
        root.need_image(where)


def _read_command(at: At, where: str) -> None:
    found = at.get("launch_command")
    text = found.text()
    if not text.strip():
        why = "there is no launch_command, so that the image's own would run, which the bootstrap "
        at.need_command(where, f"{why}cannot start")
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
    note = "" if plain == found.text() else "without YARN's level of quoting and its tokens"
    found.put(f"{where}.command", plain, note)


def _read_resource(resource: At, at: At, where: str) -> None:
    if not resource.get("memory"):
        at.need_memory(where)
    for name, value in resource.get("additional").members():
        number = value.get("value")
        if "gpu" not in name:
            value.fail(f"tasks ask for memory, cpus and GPUs; {clip(name)} is not among them")
        elif number:
            number.put(f"{where}.gpus", number.whole())
            if name != "yarn.io/gpu":
                value.put(f"{where}.gpu_resource", name)
        value.skip()


def _read_env(level: At, where: str) -> None:
    for name, value in level.find("configuration.env").members():
        text = value.text()
        if name == "TF_CONFIG":
            value.note("TF_CONFIG is built for each task here")
        elif name.startswith(RUNTIME):
            read_runtime(name, value, where.removeprefix("roles."))
        else:
            value.put(f"{where}.env", text, key=name)


def read_runtime(name: str, at: At, role: str) -> None:
    """Translate a variable of YARN's Docker runtime, for a role."""
    row = next((row for row in _RUNTIME if name in row.spellings), None)
    if row is None:
        at.drop(_OURS)
    elif row.target:
        carry([row], lambda _: at, role)
    elif row.fate is Fate.REFUSED and at.text().lower() == "true":
        at.fail(row.text)
    elif name == f"{_DOCKER}MOUNTS":
        for part in at.parts():
            if part.startswith("/"):
                at.append(f"roles.{role}.mounts", part)
            else:
                at.drop(f"{clip(part)} is a file of the service; say `files`")


def _read_properties(level: At) -> None:
    for name, value in level.find("configuration.properties").members():
        if name == "docker.network":
            value.put("network", value.text())
        elif name != _DECIDES:
            value.drop(_OURS)


def _read_restart(at: At, role: str, strategy: Strategy, deciding: str | None) -> None:
    policy = at.get("restart_policy")
    word = policy.text() if policy else "ALWAYS"
    if word == "ALWAYS":
        (policy or at).drop("a service of ALWAYS, the default, never ends; the job does")
    elif word == "ON_FAILURE":
        refusal = restart_refusal(strategy, role, deciding)
        if refusal:
            policy.drop(f"{refusal}; a failed task fails the job")
        else:
            policy.put(f"roles.{role}.restart", "on-failure")
    elif word != "NEVER":
        policy.fail(f"unknown value {clip(word)}; it is NEVER, ON_FAILURE or ALWAYS")


def _read_constraint(at: At, component: At, where: str) -> None:
    kind, scope, tags = at.get("type"), at.get("scope"), at.get("target_tags")
    labels, attributes = at.get("node_partitions"), at.get("node_attributes")
    if tags and tags.words() != [component.get("name").text()]:
        tags.fail("only the component itself can be named; there is no such rule between roles")
    key = {"ANTI_AFFINITY": "spread", "AFFINITY": "together"}.get(kind.text())
    if key is None:
        (kind or at).fail("the type is ANTI_AFFINITY or AFFINITY")
    elif tags:
        (scope or at).put(f"{where}.placement.{key}", scope.text().lower() or "node")
    else:
        scope.note("is of no use without target_tags")
    if found := labels.words():
        labels.put(f"{where}.placement.node_label", found[0])
        if found[1:]:
            labels.fail("a role has one node label")
    stated = {key: value.words() for key, value in attributes.members()}
    attributes.put(f"{where}.placement.node_attributes", stated)


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


def _read_command_line(root: At) -> None:
    stated = root.get("--input_spec")
    if not stated:
        root.fail("there is no --input_spec, which names the job's file")
        return
    file = open_file(stated)
    if file is None:
        return
    root.reading.version = "YARN-8220"
    root.reading.translate(_YARNFILE, file)
    roles = [role for item in file.get("components").items() if (role := _role_of_component(item))]
    _read_flags(root, file, set(roles))
    gpu = root.get("--gpu")
    number = gpu.whole(default=-1)
    for role in roles if number >= 0 else ():
        gpu.put(f"roles.{role}.gpus", number)
        gpu.extend(f"roles.{role}.command", f" --num-gpus={number}")  # as the second generation


def _read_flags(root: At, file: At, roles: set[str]) -> None:
    name, old = root.get("--job_name"), root.get("--tf_config_params")
    parts = old.text().split(":")
    if old and len(parts) != 5:
        old.fail(f"expected USER:DOMAIN:SERVICE:WORKERS:PS, found {clip(old.text())}")
    elif old and not name:
        old.put("name", parts[2], "the counts of the file count")
    carry(_FLAGS, values_of(root))
    _read_env_flag(root.get("--env"))
    asked = root.get("--distributed")
    if asked and asked.text() != "false":
        if roles != {"chief", "worker", "ps"}:
            asked.fail("there must be master, worker and ps; take the flag out")
    elif not old and len(roles) > 1:
        note = "there is no --distributed, and the script sets TF_CONFIG by it"
        root.put("tf_config", "none", note)
    kerberos, conf = root.get("--kerberos"), root.get("--remote_conf_path")
    if file.get("kerberos_principal"):
        kerberos.put("kerberos.krb5_conf", "inline")
    else:
        kerberos.drop("the file has no kerberos_principal")
    archive = CONF_ARCHIVE.fullmatch(conf.text())
    conf.put("hadoop.conf", conf.text() if archive else "inline")
    if not archive:
        conf.drop(
            "this host's Hadoop configuration travels instead of the files there, and "
            "presetup-tf.sh does not run: the bootstrap sets CLASSPATH and LD_LIBRARY_PATH"
        )


def _read_env_flag(found: At) -> None:
    # a part begins with NAME=; what else stands behind a comma belongs to the value before
    parts = re.split(r"[,:](?=[A-Za-z_][A-Za-z0-9_]*=)", found.text()) if found else ()
    for part in parts:
        if part.startswith(RUNTIME) and "=" in part:
            found.fail(f"say {part.partition('=')[0]} in the file's configuration.env")
        else:
            common.put_variable(part, found)


_YARNFILE = Dialect("Yarnfile", _KEYS, _read_job, recognise=_recognise_format)
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
