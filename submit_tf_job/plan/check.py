"""Find, before the POST, why a valid job cannot run on this cluster: what its YARN, its version of
Hadoop, its NodeManagers or the settings would refuse.

Settings that YARN accepts, but that are probably mistakes, give warnings. A job that no cluster
accepts is refused earlier, by the job spec's reader (`jobspec/keys.py`, `rules.py`).

Several errors of YARN come too late: the name stays taken, every container fails, or the job is
reported as successful.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from submit_tf_job.container import contract, keytab
from submit_tf_job.errors import JobSpecError, Problem, Refused
from submit_tf_job.host.located.tree import BUILT_IN
from submit_tf_job.host.units import memory_text
from submit_tf_job.jobspec.job import Command, HostFile, Job, Role, Strategy, TFConfigMode
from submit_tf_job.plan.literal_words import literal_words
from submit_tf_job.plan.site import Cap, Names, Site
from submit_tf_job.yarn.records import dumps
from submit_tf_job.yarn.run_names import SUFFIX, head_of, host_name, is_run
from submit_tf_job.yarn.versions import version_tuple

if TYPE_CHECKING:
    from submit_tf_job.plan.planner import Plan

MAX_NAME = 63  # a DNS label; ServiceApiUtil.validateNameFormat
# 63 minus the 19 digits of the largest instance number (ServiceApiUtil with
# hadoop.registry.dns.enabled).
MAX_COMPONENT = 44
MAX_HOST_NAME = 64  # DockerLinuxContainerRuntime.validateHostname fails longer ones at launch
# Above 128 KiB the NodeManager cannot start the shell, and reports success
# (hadoop-facts.md#sizes).
MAX_ENV_ENTRY = 100_000
MAX_ENV_TOTAL = 1_500_000
# The bootstrap sets the job's variables after YARN, so only those are refused that YARN's own
# scripts need.
RESERVED_ENV = frozenset(
    ["CONTAINER_ID", "LOG_DIR", "LOG_DIRS", "LOCAL_DIRS", "PWD", "HADOOP_TOKEN_FILE_LOCATION"]
)


def check_job(job: Job, site: Site, name_limit: int) -> list[Problem]:
    """Return the problems for which YARN or a NodeManager would refuse the job, the caps of the
    settings that it exceeds, and literals in it that are probably secrets.

    Args:
        job: The job.
        site: The cluster.
        name_limit: What `limit_of_run_name` returns.
    """
    problems = [
        *_name_problems(job, site, name_limit),
        *_network_problems(job, site),
        *secret_problems(job),
        *caps_problems(job, site.caps),
    ]
    for role in job.stated_roles:
        problems += [*_role_problems(job, role, site), *_env_problems(job, role)]
    return problems


def _name_problems(job: Job, site: Site, name_limit: int) -> Iterator[Problem]:
    if is_run(job.name):
        yield job.problem(
            "name",
            f"{job.name!r} ends as the name of a run does (a digit and seven characters); choose "
            f"another name",
        )
    elif len(head_of(job.name, name_limit)) + SUFFIX > name_limit:
        longest = max(_longest_host_names(job, site), key=len)
        most = name_limit - SUFFIX
        why = f"a name of at most {most} characters fits, or " if most > 0 else "no name fits; "
        yield job.problem(
            "name",
            f"host names such as {longest.replace('..', '.RUN.')} may have {MAX_HOST_NAME} "
            f"characters, of which the suffix of a run takes {SUFFIX}: {why}shorten the names of "
            f"the roles",
        )
    in_host_names = re.fullmatch(r"[a-z][a-z0-9.-]*", site.registry_user)
    if site.names is Names.DNS and (not in_host_names or len(site.registry_user) > MAX_NAME):
        yield job.problem(
            "",
            f"user {site.user!r} is not valid in a host name (as {site.registry_user!r}), and with "
            f"`names: dns` tasks find each other by such names; write `names: rendezvous`",
        )
    for role in job.roles.values():
        if len(role.name) > MAX_COMPONENT:
            yield job.problem(
                f"roles.{role.name}",
                f"{role.name!r} has {len(role.name)} characters, and YARN takes {MAX_COMPONENT}; "
                f"shorten the role's name",
            )


def limit_of_run_name(job: Job, site: Site) -> int:
    """Return how many characters the name of a run may have, so that YARN accepts the host names of
    its tasks.
    """
    longest = max(map(len, _longest_host_names(job, site)), default=0)
    return min(MAX_NAME, MAX_HOST_NAME - longest)


def _longest_host_names(job: Job, site: Site) -> Iterator[str]:
    """Yield the longest host name of each role, without the name of the run."""
    for role in job.roles.values():
        if len(role.name) <= MAX_COMPONENT:  # a longer one is a problem of its own
            yield host_name(role.name, role.instances - 1, "", site.registry_user, site.domain)


def _network_problems(job: Job, site: Site) -> Iterator[Problem]:
    if site.networks is not None and job.network not in site.networks:
        yield job.problem(
            "network",
            f"this site does not allow the network {job.network!r}; it allows "
            f"{', '.join(site.networks)}",
        )


def _role_problems(job: Job, role: Role, site: Site) -> Iterator[Problem]:
    if (size := len(str(role.command).encode())) > MAX_ENV_ENTRY:
        yield job.problem(
            f"roles.{role.name}.command",
            f"the command has {size} bytes; put it into a script and list it in `files`",
        )
    if not site.staging and any(isinstance(file.content, HostFile) for file in role.files):
        size = sum(file.size for file in role.files)
        yield job.problem(
            f"roles.{role.name}.files",
            f"they have {size} bytes, which go to HDFS, and none is configured; set hadoop_conf, "
            f"or staging: hdfs://…",
        )


def _env_problems(job: Job, role: Role) -> Iterator[Problem]:
    total = 0
    own = {contract.ENV_TF_CONFIG} if job.tf_config is not TFConfigMode.NONE else set()
    for name, value in role.env.items():
        path = f"roles.{role.name}.env.{name}"
        size = len(f"{name}={value}".encode())
        total += size
        if name.startswith("YARN_CONTAINER_RUNTIME_"):
            yield job.problem(
                path,
                "YARN's runtime variables are this tool's to set; use image, network, "
                "mounts and docker",
            )
        elif name in RESERVED_ENV or name in own or name.startswith("TFJOB_"):
            yield job.problem(
                path,
                f"{name} is set by YARN or by this tool, and a value from here would be "
                f"lost or break the task; leave it out",
            )
        if size > MAX_ENV_ENTRY:
            yield job.problem(
                path,
                f"the value has {size} bytes; over {MAX_ENV_ENTRY} a node may not start "
                f"the task; put it into a file",
            )
    if total > MAX_ENV_TOTAL:
        yield job.problem(
            f"roles.{role.name}.env",
            f"the environment has {total} bytes; {MAX_ENV_TOTAL} is the most a task can be given",
        )


# --- caps -----------------------------------------------------------------------------------------

# Cap → the key of a role that counts, and the amount of one role.
_OF_ROLES: dict[str, tuple[str, Callable[[Role], int]]] = {
    "tasks": ("instances", lambda role: role.instances),
    "gpus": ("gpus", lambda role: role.instances * role.gpus),
    "memory": ("memory", lambda role: role.instances * role.memory_mib),
}


def caps_problems(job: Job, caps: tuple[Cap, ...]) -> Iterator[Problem]:
    """Yield a problem for each cap of the settings that a job exceeds: at the key of the role with
    the largest amount, or at `lifetime`, also if a job that needs one states none.
    """
    for cap in caps:
        if cap.name == "lifetime":
            yield from _lifetime_problems(job, cap)
            continue
        key, amount = _OF_ROLES[cap.name]
        total = sum(map(amount, job.roles.values()))
        if total > cap.most:
            largest = max(job.roles.values(), key=amount)
            asked = f"all tasks of the job together ask for {shown(cap.name, total)}"
            yield job.problem(f"roles.{largest.name}.{key}", f"{asked}, and {_cap_words(cap)}")


def _lifetime_problems(job: Job, cap: Cap) -> Iterator[Problem]:
    if job.lifetime_s is None:
        way_out = f"say lifetime: {shown('lifetime', cap.most)}, or less"
        yield job.problem("lifetime", f"missing; {_cap_words(cap)}; {way_out}")
    elif job.lifetime_s > cap.most:
        asked = shown("lifetime", job.lifetime_s)
        yield job.problem("lifetime", f"{asked} is more than a job may have: {_cap_words(cap)}")


def _cap_words(cap: Cap) -> str:
    return f"caps.{cap.name} allows {shown(cap.name, cap.most)} (set by {cap.origin})"


def shown(name: str, amount: int) -> str:
    """Return the amount of a cap (`tasks`, `gpus`, `memory` in MiB, `lifetime` in seconds) for a
    message: `8 tasks`, `2 GPUs`, `64Gi`, `12h`.
    """
    if name == "tasks":
        return f"{amount} task{'s' * (amount != 1)}"
    if name == "gpus":
        return f"{amount} GPU{'s' * (amount != 1)}"
    if name == "memory":
        return memory_text(amount)
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    return next(f"{amount // size}{unit}" for unit, size in units if amount % size == 0)


# --- secrets ---

_WORDS = frozenset({"secret", "apikey", "credential", "credentials", "passphrase"})
# Also PGPASSWORD, dbPassword and MYSQL_PWD.
_PASSWORD = re.compile(r"passw(or)?d$|[_-]pwd$", re.IGNORECASE)
_KEYS = frozenset(["api", "access", "private", "secret", "account", "auth"])  # before "key"
# Tokens of tokenizers: EOS_TOKEN=</s> is not a secret.
_TEXT_TOKENS = frozenset(
    {"blank", "bos", "class", "cls", "end", "eos", "eot", "image", "initializer", "mask", "new"}
    | {"next", "pad", "placeholder", "sep", "sos", "special", "start", "stop", "unk", "video"}
)
_BY_REFERENCE = frozenset(
    {"file", "path", "dir", "location", "url", "uri", "name", "id", "size", "length", "type"}
    | {"provider"}
)
_HARMLESS = re.compile(
    r"|\d+(\.\d+)?|true|false|yes|no|none|null|empty|dummy|<.*>|/.*|[a-z0-9]+://[^@]*|[$`].*|file:.*|-.*",
    re.IGNORECASE | re.DOTALL,
)
_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}"  # noqa: E501
    r"|\beyJ[A-Za-z0-9_-]{10,999}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10}|\bglpat-[A-Za-z0-9_-]{20,}|://[^/\s:@$]*:[^/\s:@$]+@|\bhf_[A-Za-z0-9]{30,}\b"
)
# An option and its value, or a variable that is set in front of a command.
_OPTION = re.compile(
    r"(?:^|(?<=[\s;&|(]))(--?[A-Za-z][\w-]*(?:=|\s+)|[A-Za-z_]\w*=)(?=(\S{1,999}))"
)


# "name": "value"
_MEMBER = re.compile(r"""["']([A-Za-z][\w.-]{0,99})["']\s*:\s*["']([^"'\s]{1,999})""")


def secret_problems(job: Job) -> Iterator[Problem]:
    """Yield a problem for each literal that is probably a secret; messages omit the literal.

    A service is stored in clear text on HDFS, in two logs, and in the response to every GET
    (hadoop-facts.md#where-a-service-is-stored).
    """
    found = [("prepare", what) for what in _secret_in(job.prepare)] if job.prepare else []
    for role in job.stated_roles:
        path = f"roles.{role.name}"
        found += [(f"{path}.env.{name}", f"the value of {name}") for name in secrets_in(role.env)]
        found += [(f"{path}.command", what) for what in _secret_in(role.command)]
    for path, what in found:
        yield job.problem(
            path,
            f"{what} looks like a secret, and anyone who can see the job could read it; put it "
            "into a file that only you can read (on HDFS, or mounted) and pass the file's path",
        )


def secrets_in(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables whose values are probably secrets."""
    for name, value in env.items():
        if _KNOWN.search(value) or _is_secret(name, value.strip()) or any(_named_secrets(value)):
            yield name


def _secret_in(command: Command) -> Iterator[str]:
    text = " ".join(command.argv) if command.argv is not None else command.script or ""
    for name in _named_secrets(text):
        yield f"the value of {name}"
        return
    if _KNOWN.search(text):
        yield "the command holds what"


def _named_secrets(text: str) -> Iterator[str]:
    """Yield the options, assignments and members of JSON in a text whose values are probably
    secrets.
    """
    for form in (_OPTION, _MEMBER):
        for found in form.finditer(text):
            name = found[1].rstrip("= \t\n")
            if _is_secret(name, found[2].strip("\"'")):
                yield name


def _is_secret(name: str, value: str) -> bool:
    if _PASSWORD.search(name) and value.isdigit():
        return True
    return _names_a_secret(name) and not _HARMLESS.fullmatch(value)


def _names_a_secret(name: str) -> bool:
    parts = re.split(r"[_\-.]+|(?<=[a-z0-9])(?=[A-Z])", name)
    words = [word.lower() for word in parts if word]
    if not words or words[-1] in _BY_REFERENCE:
        return False
    if words[-1] == "token":
        return not _TEXT_TOKENS & set(words)
    named = (
        _WORDS & set(words)
        or _PASSWORD.search(name)
        or any(_PASSWORD.search(word) for word in words)
    )
    return bool(named) or any(one in _KEYS and two == "key" for one, two in pairwise(words))


# --- the version of Hadoop ---

# The first that can read back a service of more than 64 KiB, which earlier ones accept with a 202
# (hadoop-facts.md#sizes), and that ends a service with one component (YARN-8489).
_FIRST_WITHOUT_LIMITS = (3, 3)
_MOST_BEFORE = 60_000
_FIRST_WITH_RESTART_POLICY = (3, 1, 1)
# Runtime variables → the first version that supports them.
_FIRST_WITH_VARIABLE = {
    "RUNTIME": ((3, 3), "docker.runtime"),
    "TMPFS_MOUNTS": ((3, 1, 2), "docker.tmpfs"),
    "PORTS_MAPPING": ((3, 1, 2), "docker.publish"),
}
_DIGEST = re.compile(r'"id": "[^"]+@sha256:[0-9a-f]{64}"')


def check_version(body: str, hadoop_version: str) -> None:
    """Raise `Refused` if this version of Hadoop cannot run a service; do nothing for an unknown
    version.

    Args:
        body: The JSON of the service.
        hadoop_version: The version, or "".

    Raises:
        Refused: The version of Hadoop lacks restart policies, a runtime variable, or images by
            digest.
    """
    numbers = version_tuple(hadoop_version)
    if numbers and numbers < _FIRST_WITH_RESTART_POLICY:
        raise Refused(
            f"Hadoop {hadoop_version} does not support restart_policy (YARN-8080), and would "
            f"start finished tasks again without end"
        )
    for variable, (first, key) in _FIRST_WITH_VARIABLE.items():
        if numbers and numbers < first and f'"YARN_CONTAINER_RUNTIME_DOCKER_{variable}"' in body:
            known = ".".join(map(str, first))
            raise Refused(
                f"Hadoop {hadoop_version} does not support {key}; {known} is the first",
                hint="leave it out",
            )
    if (
        numbers
        and not (numbers >= (3, 3, 5) or (3, 2, 5) <= numbers < (3, 3))
        and _DIGEST.search(body)
    ):
        raise Refused(
            f"Hadoop {hadoop_version} does not support images by digest (3.2.5 and 3.3.5 are "
            f"the first), and every container would fail",
            hint="name the image by a tag",
        )


def ends_by_one_component(hadoop_version: str) -> bool:
    """Return whether this version of Hadoop ends an application when the component with the
    property `service_properties.DECIDES` ends (YARN-8489, Hadoop 3.3.0); False for an unknown
    version.
    """
    return version_tuple(hadoop_version) >= _FIRST_WITHOUT_LIMITS


def check_old_hadoop(planned: Plan, hadoop_version: str) -> None:
    """Refuse a job that Hadoop 3.1 and 3.2 would accept, and then could not read again or not end;
    do nothing for later or unknown versions.

    These versions do not end an application when its witness ends (docs/internals/endings.md).

    Raises:
        JobSpecError: The job has `retries` and no `lifetime`: it could hold its containers forever.
        Refused: The service is too large, which is always the case without a staging directory.
    """
    numbers = version_tuple(hadoop_version)
    if not numbers or numbers >= _FIRST_WITHOUT_LIMITS:
        return
    job = planned.job
    if job.retries and not job.lifetime_s:
        message = (
            f"a job with `retries` needs a `lifetime` on Hadoop {hadoop_version}, which does not "
            "end an application while a lost task gets no other container; say lifetime: 12h"
        )
        raise JobSpecError([job.problem("retries", message)])
    size = len(dumps(planned.service.with_files()))
    if size <= _MOST_BEFORE:
        return
    if planned.site.staging is None:
        raise Refused(
            f"Hadoop {hadoop_version} cannot read back a service of more than {_MOST_BEFORE} "
            "bytes, and without a staging directory the bootstrap is inside it",
            hint="set hadoop_conf, or staging: hdfs://…, in the settings",
        )
    raise Refused(
        f"the service has {size} bytes, and Hadoop {hadoop_version} cannot read back "
        f"more than {_MOST_BEFORE}",
        hint="put long commands into scripts, and long values into files",
    )


# --- warnings -------------------------------------------------------------------------------------


def warnings(job: Job, site: Site) -> list[str]:
    """Return a warning, with a possible solution, for each setting of a job that YARN accepts and
    that is probably a mistake.
    """
    return [
        *_without_chief(job),
        *literal_words(job),
        *_without_configuration(job),
        *_of_kerberos(job, site),
    ]


def _without_chief(job: Job) -> list[str]:
    stated = job.places.get("deciding_role", BUILT_IN) != BUILT_IN
    if job.strategy is not Strategy.PARAMETER_SERVER or "chief" in job.roles or stated:
        return []
    return [
        "roles: without a chief worker-0 decides, as in TensorFlow 1's replicated training: say so "
        "by deciding_role: worker. ParameterServerStrategy of TensorFlow 2 needs a chief: add "
        "chief: {memory: 4Gi}"
    ]


def _without_configuration(job: Job) -> list[str]:
    if job.hadoop is not None:
        return []
    copied = [(f"inputs.{item.name}", item.uri) for item in job.inputs if item.download]
    copied += [(f"outputs.{output.name}", output.uri) for output in job.outputs if output.upload]
    return [
        f"{path}: {uri} names no NameNode, and the job sends no Hadoop configuration: the "
        f"image needs one; or say hadoop: {{conf: inline}}"
        for path, uri in copied
        if uri.startswith(("hdfs:///", "viewfs:"))
    ]


def _of_kerberos(job: Job, site: Site) -> list[str]:
    if not site.secure:
        return []
    if job.kerberos is None:
        return [_without_kerberos(site)]
    from submit_tf_job.host.kerberos import short_name

    found = []
    first = short_name(job.kerberos.principal)
    # by Hadoop's default auth_to_local; a cluster may have other rules
    if first != site.user:
        found.append(
            f"the principal {job.kerberos.principal} is {first} to Hadoop, unless the "
            f"cluster maps it to {site.user}, who submits; "
            f"the ApplicationMaster would not be let to {site.user}'s files"
        )
    weak = (
        keytab.weakness(job.kerberos.secret, job.kerberos.principal) if job.kerberos.secret else ""
    )
    return [*found, f"the keytab {job.kerberos.keytab}: {weak}"] if weak else found


def _without_kerberos(site: Site) -> str:
    """Return the warning about a job without a Kerberos principal
    (hadoop-facts.md#kerberos-principal-of-a-service).
    """
    days = site.token_life_s / 86400
    return (
        f"the cluster uses Kerberos and the job names no principal: it will run, but "
        f"status, scale and a stop in good order need one, and "
        f"HDFS shuts it out when its delegation tokens end, after {days:g} days at most; "
        f"write kerberos: {{principal: {site.user}/_HOST@REALM, keytab: <path of its keytab>}}"
    )
