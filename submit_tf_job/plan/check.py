"""Everything that YARN or a NodeManager would refuse, refused before the POST: all of it at once, at its place in the job spec.

Several of the server's own refusals come too late to be of use: they leave the name taken, fail in every container, or report success.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from submit_tf_job import contract
from submit_tf_job.errors import Problem
from submit_tf_job.job import HostFile, Job, Kerberos, OwnLogin, Role, TFConfigMode
from submit_tf_job.plan import data, docker, secrets
from submit_tf_job.plan.service import literal_tf_config
from submit_tf_job.plan.site import Site
from submit_tf_job.tfconfig import host_name
from submit_tf_job.yarn.records import Service, dumps

__all__ = ["MAX_SERVICE_BYTES", "MAX_UNSTAGED_BYTES", "check_job", "check_service", "fits"]

MAX_NAME = 63  # a DNS label; ServiceApiUtil.validateNameFormat
MAX_COMPONENT = 44  # 63 less the 19 digits of the largest instance number; ServiceApiUtil with hadoop.registry.dns.enabled
MAX_HOST_NAME = 64  # DockerLinuxContainerRuntime.validateHostname: longer, and every launch fails
MAX_SERVICE_BYTES = 60_000  # Hadoop 3.1 and 3.2 accept more than 64 KiB with a 202 and then cannot read it back (seen)
MAX_UNSTAGED_BYTES = 1_000_000  # where nothing can be staged; only Hadoop 3.3 and later is given so much (see `limits`)
MAX_ENV_ENTRY = 100_000  # over 128 KiB the NodeManager cannot start the shell and reports success (seen)
MAX_ENV_TOTAL = 1_500_000
MAX_LITERAL_TF_CONFIG = 60_000  # Docker reads an env file by lines of 64 KiB
NAME = re.compile(r"[a-z][a-z0-9-]*")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
PYTHON = re.compile(r"[A-Za-z0-9_./+-]+")
# Set by the AM (AbstractLauncher) or the NodeManager (ContainerLaunch.sanitizeEnv) after anything a job could say.
RESERVED_ENV = frozenset(
    {"WORK_DIR", "LOG_DIR", "LANG", "LC_ALL", "LANGUAGE", "HADOOP_USER_NAME", "CONTAINER_ID", "NM_HOST", "NM_PORT", "NM_HTTP_PORT"}
    | {"LOCAL_DIRS", "LOCAL_USER_DIRS", "LOG_DIRS", "USER", "LOGNAME", "HOME", "PWD", "LOCALIZATION_COUNTERS", "JVM_PID"}
    | {"HADOOP_TOKEN_FILE_LOCATION"}
)
# Read-only in bash, or made by it: an export ends the launch script, or is lost (each tried under bash 5.2).
BASH_ENV_NAMES = frozenset(
    {"BASH", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND"}
    | {"BASH_EXECUTION_STRING", "BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO", "BASH_VERSION"}
    | {"COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME"}
    | {"EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "IFS", "LINENO", "OLDPWD", "OPTERR"}
    | {"OPTIND", "PIPESTATUS", "PPID", "PS1", "PS2", "PS4", "RANDOM", "SECONDS", "SHELLOPTS"}
    | {"SHLVL", "SRANDOM", "UID", "_"}
)
# The bootstrap sets the job's variables itself, after YARN: then only what would break the container's own bookkeeping is refused.
RESERVED_WITH_BOOTSTRAP = frozenset(["CONTAINER_ID", "LOG_DIR", "LOG_DIRS", "LOCAL_DIRS", "PWD", "HADOOP_TOKEN_FILE_LOCATION"])


def fits(service: Service) -> bool:
    """Say whether a service is small enough for every Hadoop version."""
    return len(dumps(service)) <= MAX_SERVICE_BYTES


def check_job(job: Job, site: Site) -> list[Problem]:
    """Find every problem that can be known before the service is built."""
    problems = [*_names(job, site), *_network(job, site), *_tf_config(job, site), *_identity(job, site), *data.check(job, site)]
    problems += _packages(job, site)
    for role in job.roles.values():
        problems += _files(job, role, site)
        problems += [*_role(job, role), *_env(job, role), *docker.check_role(job, role, site)]
        problems += [job.problem(path, message) for path, message in secrets.find(role)]
    return sorted(set(problems))


def check_service(job: Job, site: Site, service: Service) -> list[Problem]:
    """Find what only the built service shows: its size."""
    size = len(dumps(service))
    if size <= (MAX_SERVICE_BYTES if site.staging else MAX_UNSTAGED_BYTES):
        return []
    way_out = "put long commands into scripts" if site.staging else "set hadoop_conf (or staging) in the settings: files then go to HDFS"
    if job.tf_config is TFConfigMode.LITERAL:
        way_out = "use `tf_config: counts`"
    return [
        job.problem("", f"the service would have {size} bytes, and Hadoop 3.1 and 3.2 corrupt more than {MAX_SERVICE_BYTES}; {way_out}")
    ]


def _names(job: Job, site: Site) -> Iterator[Problem]:
    if not NAME.fullmatch(job.name) or job.name.endswith("-") or len(job.name) > MAX_NAME:
        yield job.problem(
            "name",
            f"{job.name!r} is no service name; use at most {MAX_NAME} lower-case letters, digits, hyphens; a letter first",
        )
    elif job.name == "version":
        yield job.problem("name", "'version' cannot be asked for again (GET services/version is something else); choose another name")
    if not re.fullmatch(r"[a-z][a-z0-9.-]*", site.registry_user) or len(site.registry_user) > MAX_NAME:
        yield job.problem("", f"user {site.user!r} cannot stand in a host name (as {site.registry_user!r}), which YARN's registry demands")
    for role in job.roles.values():
        yield from _role_name(job, role, site)


def _role_name(job: Job, role: Role, site: Site) -> Iterator[Problem]:
    path = f"roles.{role.name}"
    if not NAME.fullmatch(role.name) or role.name.endswith("-") or len(role.name) > MAX_COMPONENT:
        yield job.problem(
            path,
            f"{role.name!r} is no role name; use at most {MAX_COMPONENT} lower-case letters, digits, hyphens; a letter first",
        )
        return
    if role.name == job.name:
        yield job.problem(path, f"a role must not have the job's own name {job.name!r}; YARN refuses it")
    longest = host_name(role.name, role.instances - 1, job.name, site.registry_user, site.domain)
    if len(longest) > MAX_HOST_NAME:
        yield job.problem(
            "name",
            f"the host name {longest} has {len(longest)} characters and YARN takes {MAX_HOST_NAME}; shorten the job's name",
        )


def _network(job: Job, site: Site) -> Iterator[Problem]:
    if not NETWORK.fullmatch(job.network):
        yield job.problem("network", f"{job.network!r} is no Docker network; say host, bridge, or the name of an allowed network")
    elif site.networks is not None and job.network not in site.networks:
        yield job.problem("network", f"this site does not allow the network {job.network!r}; it allows {', '.join(site.networks)}")
    first, last = site.port_range
    tasks = sum(job.counts.values())
    if job.network == "none" and tasks > 1:
        yield job.problem("network", "without a network the tasks cannot find one another; say host, bridge, or the name of a network")
    if job.network == "host" and tasks + 1 > last - first + 1:
        yield job.problem("roles", f"{tasks} tasks on the host network need {tasks + 1} ports, and {first}-{last} has {last - first + 1}")


def _tf_config(job: Job, site: Site) -> Iterator[Problem]:
    if job.tf_config is TFConfigMode.COUNTS and not job.bootstrap:
        yield job.problem("tf_config", "without the bootstrap nobody builds TF_CONFIG in the container; say `tf_config: literal` or none")
    if job.tf_config is not TFConfigMode.LITERAL:
        return
    if not site.domain:
        yield job.problem("tf_config", "literal needs the domain of Registry DNS; set dns.domain in the settings")
    if site.dns_server:
        yield job.problem("tf_config", "literal writes host names, and with dns.server the containers cannot resolve them; use counts")
    for role in job.roles.values():
        size = len(literal_tf_config(job, role, site, "0" * 16))
        if size > MAX_LITERAL_TF_CONFIG:
            yield job.problem(
                "tf_config",
                f"literal would put {size} bytes into the environment, and Docker takes {MAX_LITERAL_TF_CONFIG}; use `tf_config: counts`",
            )
            return


def _identity(job: Job, site: Site) -> Iterator[Problem]:
    if not PYTHON.fullmatch(job.python):
        yield job.problem("python", f"{job.python!r} is no path of an interpreter")
    if job.kerberos is not None:
        yield from _kerberos(job, job.kerberos, site)


def _kerberos(job: Job, kerberos: Kerberos, site: Site) -> Iterator[Problem]:
    if "/" not in kerberos.principal:
        yield job.problem("kerberos.principal", f"{kerberos.principal!r} has no '/'; YARN takes service principals only: user/_HOST@REALM")
    if kerberos.secret is None and not re.match(r"hdfs://|file:///", kerberos.keytab):
        yield job.problem(
            "kerberos.keytab",
            f"{kerberos.keytab!r} is none that YARN fetches; say hdfs:///path (fetched as you) or file:///path (there on every node)",
        )
    if kerberos.secret is not None and not (site.staging or "").startswith("hdfs://"):
        yield job.problem(
            "kerberos.keytab",
            "a keytab of this host is put on HDFS for the job, and no HDFS is known; set hadoop_conf, or staging: hdfs://…",
        )
    elif kerberos.secret is not None and not site.secure:
        yield job.problem(
            "kerberos.keytab",
            "this cluster believes everybody's name (auth: simple), so that everybody could read a keytab that is put on its HDFS; "
            "leave `kerberos` out, or set auth: kerberos",
        )
    if not job.bootstrap and kerberos.login is OwnLogin.ALWAYS:
        yield job.problem("kerberos.login", "without the bootstrap nobody logs in for the task; leave login out, or the bootstrap in")
    asked = job.places.get("kerberos.krb5_conf")
    if not job.bootstrap and kerberos.krb5_conf.kind == "inline" and asked is not None and asked.source != "default":
        yield job.problem(
            "kerberos.krb5_conf", "without the bootstrap nobody unpacks it in the container; say none, or the path of one there"
        )


def _role(job: Job, role: Role) -> Iterator[Problem]:
    path = f"roles.{role.name}"
    if (size := len(str(role.command).encode())) > MAX_ENV_ENTRY:
        yield job.problem(f"{path}.command", f"the command has {size} bytes; put it into a script and list it in `files`")
    if not job.bootstrap and role.files:
        yield job.problem(f"{path}.files", "without the bootstrap nobody unpacks files in the container; put them into the image")
    if not job.bootstrap and (role.max_restarts or role.tolerate):
        yield job.problem(path, "restart and tolerate are kept by the bootstrap; without it there is nobody to count failures")


def _files(job: Job, role: Role, site: Site) -> Iterator[Problem]:
    if site.staging or not any(isinstance(file.content, HostFile) for file in role.files):
        return
    size = sum(file.size for file in role.files)
    yield job.problem(
        f"roles.{role.name}.files", f"they have {size} bytes, which go to HDFS, and none is known; set hadoop_conf, or staging: hdfs://…"
    )


def _packages(job: Job, site: Site) -> Iterator[Problem]:
    if job.packages is not None and not job.bootstrap:
        yield job.problem("python", "without the bootstrap nobody puts packages where Python finds them; put them into the image")
    if job.packages is not None and not site.staging:
        yield job.problem("python", "packages go to HDFS, and none is known; set hadoop_conf in the settings, or staging: hdfs://…")


def _env(job: Job, role: Role) -> Iterator[Problem]:
    total = 0
    reserved = RESERVED_WITH_BOOTSTRAP if job.bootstrap else RESERVED_ENV
    own = {contract.ENV_TF_CONFIG} if job.tf_config is not TFConfigMode.NONE else set()
    for name, value in role.env.items():
        path = f"roles.{role.name}.env.{name}"
        size = len(f"{name}={value}".encode())
        total += size
        if not ENV_NAME.fullmatch(name):
            yield job.problem(path, f"{name!r} is no name of an environment variable")
        elif name.startswith("YARN_CONTAINER_RUNTIME_"):
            yield job.problem(path, "YARN's runtime variables are this tool's to set; use image, network, mounts and docker")
        elif name in reserved or name in own or name.startswith("TFJOB_"):
            yield job.problem(path, f"{name} is set by YARN or by this tool, and a value from here would be lost or break the task")
        elif name in BASH_ENV_NAMES and not job.bootstrap:
            yield job.problem(path, f"{name} is bash's own, and without the bootstrap a value from here would be lost or break the task")
        if "\0" in value:
            yield job.problem(path, "the value holds a NUL byte, which no environment can carry")
        if size > MAX_ENV_ENTRY:
            yield job.problem(path, f"the value has {size} bytes; over {MAX_ENV_ENTRY} a node may not start the task; put it into a file")
    if total > MAX_ENV_TOTAL:
        yield job.problem(f"roles.{role.name}.env", f"the environment has {total} bytes; {MAX_ENV_TOTAL} is the most a task can be given")
