"""The job spec's keys, and what people from other tools call them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from submit_tf_job.job import TRAINING_ROLES
from submit_tf_job.specfile.nodes import clip

__all__ = [
    "DOCKER",
    "HADOOP",
    "INPUT",
    "JOB",
    "KERBEROS",
    "OUTPUT",
    "PLACEMENT",
    "PYTHON",
    "RESTART",
    "RESTARTS",
    "ROLE",
    "SCOPES",
    "SHAPE",
    "SHIPPED",
    "SITE",
    "STRATEGIES",
    "Keys",
    "closest",
    "role_meant",
]

# Keys that a job gives all its training roles and that a role may state for itself.
SHARED = ("image", "command", "env", "files", "mounts", "docker")


@dataclass(frozen=True)
class Keys:
    """The keys of one kind of mapping.

    Attributes:
        known: Every key it has.
        synonyms: Other tools' word to our key.
        advice: Other tools' word to a sentence, where no single key of ours does the same.
    """

    known: tuple[str, ...]
    synonyms: Mapping[str, str] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)

    def unknown(self, key: str) -> str:
        """Say what to do about a key that is not known."""
        word = key.strip().lower().replace("-", "_")
        if word in self.advice:
            return f"unknown key {clip(key)}; {self.advice[word]}"
        meant = self.meant_by(key)
        if meant:
            return f"unknown key {clip(key)}; did you mean '{meant}'?"
        return f"unknown key {clip(key)}; the keys here are {', '.join(self.known)}"

    def meant_by(self, key: str) -> str | None:
        """Return the known key that an unknown one most likely means."""
        word = key.strip().lower().replace("-", "_")
        if word in self.advice:
            return None
        near = word if word in self.synonyms else closest(word, (*self.known, *self.synonyms))
        return None if near is None else self.synonyms.get(near, near)


def closest(word: str, candidates: tuple[str, ...] | list[str]) -> str | None:
    """Return the candidate that a mistyped word most likely means."""
    if len(word) > 40:  # the comparison's time grows with the square of the length
        return None
    near = difflib.get_close_matches(word, candidates, n=1, cutoff=0.72)
    return near[0] if near else None


_ROLE_SYNONYMS = {
    "workers": "worker",
    "wrk": "worker",
    "node": "worker",
    "nodes": "worker",
    "chiefs": "chief",
    "leader": "chief",
    "coordinator": "chief",
    "primary": "chief",
    "parameter-server": "ps",
    "parameter-servers": "ps",
    "parameterserver": "ps",
    "pserver": "ps",
    "pservers": "ps",
    "server": "ps",
    "eval": "evaluator",
    "evaluators": "evaluator",
    "validator": "evaluator",
}


def role_meant(name: str) -> str | None:
    """Return TensorFlow's role that a role name most likely means, or None if the name is one of its own."""
    word = name.lower().replace("_", "-")
    if word in TRAINING_ROLES:
        return word if word != name else None
    return _ROLE_SYNONYMS.get(word) or closest(word, [role for role in TRAINING_ROLES if role != "ps"])


_SHARED_SYNONYMS = {
    "args_list": "command",
    "cmd": "command",
    "container": "image",
    "container_image": "image",
    "docker_image": "image",
    "env_vars": "env",
    "environment": "env",
    "envs": "env",
    "launch_cmd": "command",
    "launch_command": "command",
    "run": "command",
    "script": "command",
    "volume_mounts": "mounts",
    "volumemounts": "mounts",
    "volumes": "mounts",
    "binds": "mounts",
    "worker_launch_cmd": "command",
}
_SHARED_ADVICE = {
    "entry_point": "say command; to keep the image's own ENTRYPOINT, docker: {entrypoint: true}",
    "entrypoint": "say command; to keep the image's own ENTRYPOINT, docker: {entrypoint: true}",
    "devices": "GPUs come by `gpus`; other devices are the cluster's administrator's to grant",
    "shm_size": "YARN cannot size /dev/shm; say docker: {tmpfs: [/dev/shm]}, which is bounded by the node's memory alone",
    "shm": "YARN cannot size /dev/shm; say docker: {tmpfs: [/dev/shm]}, which is bounded by the node's memory alone",
    "tmpfs": "say docker: {tmpfs: [/path]}",
    "runtime": "say docker: {runtime: name}",
    "publish": "say docker: {publish: [':8080']}",
    "port_mappings": "say docker: {publish: [':8080']}",
    "args": 'put the arguments into command: [python, train.py, --epochs, "3"]',
    "arguments": 'put the arguments into command: [python, train.py, --epochs, "3"]',
    "priority": "YARN services have no priority; choose a queue",
    "priority_class": "YARN services have no priority; choose a queue",
    "privileged": "privileged containers are not asked for here; the cluster's administrator grants devices and mounts",
    "secrets": "name a file that only the job's user can read (on HDFS, or mounted); a job spec holds no secrets",
    "user": "the user is the one who submits; see `submit_tf_job submit --user`",
    "workdir": "tasks start in YARN's working directory, where `files` are; write cd into the command",
    "working_dir": "tasks start in YARN's working directory, where `files` are; write cd into the command",
}
_RESOURCES_BELONG = {
    key: f"resources belong to a role: roles.worker.{key}"
    for key in ("instances", "cpus", "memory", "gpus", "shape", "placement", "restart", "ports")
}
_PER_ROLE = {
    f"{prefix}{role}{suffix}": f"say roles.{target}.{key}"
    for role, target in (("worker", "worker"), ("workers", "worker"), ("ps", "ps"), ("chief", "chief"), ("evaluator", "evaluator"))
    for prefix, suffix, key in (
        ("num_", "", "instances"),
        ("n_", "", "instances"),
        ("", "_count", "instances"),
        ("", "_replicas", "instances"),
        ("", "_memory", "memory"),
        ("", "_cpus", "cpus"),
        ("", "_gpus", "gpus"),
        ("", "_resources", "cpus, memory and gpus"),
        ("", "_image", "image"),
        ("", "_command", "command"),
        ("", "_launch_cmd", "command"),
    )
}

JOB = Keys(
    (
        "name",
        "description",
        *SHARED,
        "strategy",
        "queue",
        "roles",
        "network",
        "hadoop",
        "kerberos",
        "inputs",
        "outputs",
        "lifetime",
        "start_timeout",
        "finish_timeout",
        "grace",
        "tf_config",
        "legacy_master",
        "bootstrap",
        "python",
        "deciding_role",
        "docker_client_config",
    ),
    {
        **_SHARED_SYNONYMS,
        "components": "roles",
        "desc": "description",
        "distribution": "strategy",
        "distribution_strategy": "strategy",
        "docker_config": "docker_client_config",
        "datasets": "inputs",
        "groups": "roles",
        "input_data": "inputs",
        "interpreter": "python",
        "job_name": "name",
        "max_runtime": "lifetime",
        "queue_name": "queue",
        "schedulerqueue": "queue",
        "task_groups": "roles",
        "tasks": "roles",
        "time_limit": "lifetime",
        "timeout": "lifetime",
        "ttl": "lifetime",
        "walltime": "lifetime",
        "yarn_queue": "queue",
        "input_files": "files",
    },
    {
        **_SHARED_ADVICE,
        **_RESOURCES_BELONG,
        **_PER_ROLE,
        **{role: f"roles stand under `roles:`, as roles.{role}" for role in (*TRAINING_ROLES, "master", "tensorboard")},
        "apiversion": "this looks like a Kubernetes object; write a job spec instead: `submit_tf_job init` shows one",
        "kind": "this looks like a Kubernetes object; write a job spec instead: `submit_tf_job init` shows one",
        "spec": "this looks like a Kubernetes object; write a job spec instead: `submit_tf_job init` shows one",
        "tfreplicaspecs": "this looks like a Kubeflow TFJob; write a job spec instead: `submit_tf_job init` shows one",
        "keytab": "say kerberos.keytab",
        "principal": "say kerberos.principal",
        "hadoop_conf": "say hadoop.conf",
        "hadoop_conf_dir": "say hadoop.conf: inline, or the directory on the nodes",
        "namespace": "YARN has no namespaces; choose a queue",
        "node_label": "say roles.worker.placement.node_label",
        "replicas": "say roles.worker.instances",
        "resources": "resources belong to a role: roles.worker.cpus, memory, gpus",
        "tolerate": "say roles.worker.tolerate",
        "version": "a job spec has no version",
    },
)

ROLE = Keys(
    ("instances", "cpus", "memory", "gpus", "shape", *SHARED, "placement", "restart", "tolerate", "ports"),
    {
        **_SHARED_SYNONYMS,
        "affinity": "placement",
        "constraints": "placement",
        "core": "cpus",
        "cores": "cpus",
        "count": "instances",
        "cpu": "cpus",
        "flavor": "shape",
        "gpu": "gpus",
        "mem": "memory",
        "memory_mb": "memory",
        "num": "instances",
        "num_containers": "instances",
        "num_gpus": "gpus",
        "number_of_containers": "instances",
        "num_instances": "instances",
        "num_replicas": "instances",
        "placement_policy": "placement",
        "port": "ports",
        "profile": "shape",
        "ram": "memory",
        "replica": "instances",
        "replicas": "instances",
        "restart_policy": "restart",
        "restartpolicy": "restart",
        "size": "instances",
        "tasks": "instances",
        "vcore": "cpus",
        "vcores": "cpus",
    },
    {
        **_SHARED_ADVICE,
        **{
            key: f"{key} belongs to the whole job, one level above `roles`"
            for key in (
                "queue",
                "network",
                "strategy",
                "lifetime",
                "name",
                "hadoop",
                "kerberos",
                "inputs",
                "outputs",
                "grace",
                "start_timeout",
                "finish_timeout",
            )
        },
        "max_restarts": "say restart: {policy: on-failure, max: 3}",
        "max_retries": "say restart: {policy: on-failure, max: 3}",
        "retries": "say restart: {policy: on-failure, max: 3}",
        "node_attributes": "say placement.node_attributes",
        "node_label": "say placement.node_label",
        "node_selector": "say placement.node_attributes",
        "nodeselector": "say placement.node_attributes",
        "resource": "write cpus, memory and gpus straight into the role",
        "resources": "write cpus, memory and gpus straight into the role",
        "limits": "write cpus, memory and gpus straight into the role",
        "spread": "say placement.spread",
        "template": "this looks like a Kubeflow TFJob; write a job spec instead: `submit_tf_job init` shows one",
        "together": "say placement.together",
    },
)

DOCKER = Keys(
    ("entrypoint", "accounts", "tmpfs", "publish", "runtime"),
    {
        "entry_point": "entrypoint",
        "use_entrypoint": "entrypoint",
        "run_override_disable": "entrypoint",
        "passwd": "accounts",
        "users": "accounts",
        "port_mapping": "publish",
        "port_mappings": "publish",
        "ports": "publish",
        "ports_mapping": "publish",
        "oci_runtime": "runtime",
        "tmpfs_mounts": "tmpfs",
    },
    {
        "image": "image stands beside `docker`, not in it",
        "mounts": "mounts stand beside `docker`, not in it",
        "volumes": "mounts stand beside `docker`, not in it",
        "network": "network belongs to the whole job",
        "hostname": "YARN names the container after its task",
        "privileged": _SHARED_ADVICE["privileged"],
        "user": _SHARED_ADVICE["user"],
        "devices": _SHARED_ADVICE["devices"],
        "gpus": _SHARED_ADVICE["devices"],
        "shm_size": _SHARED_ADVICE["shm_size"],
        "shm": _SHARED_ADVICE["shm_size"],
        "client_config": "say docker_client_config, for the whole job",
        "pid": "containers keep their own process ids",
        "capabilities": "the cluster's administrator decides about capabilities",
    },
)
PLACEMENT = Keys(
    ("spread", "together", "node_label", "node_attributes"),
    {
        "anti_affinity": "spread",
        "affinity": "together",
        "attributes": "node_attributes",
        "label": "node_label",
        "node_partition": "node_label",
        "node_selector": "node_attributes",
        "partition": "node_label",
    },
)
RESTART = Keys(("policy", "max"), {"max_restarts": "max", "max_retries": "max", "limit": "max", "retries": "max", "when": "policy"})
SHAPE = Keys(("cpus", "memory", "gpus"), {key: meant for key, meant in ROLE.synonyms.items() if meant in ("cpus", "memory", "gpus")})
HADOOP = Keys(("conf",), {"config": "conf", "configuration": "conf", "conf_dir": "conf", "hadoop_conf_dir": "conf"})
INPUT = Keys(("uri", "shard", "download"), {"path": "uri", "url": "uri", "src": "uri", "sharding": "shard", "fetch": "download"})
OUTPUT = Keys(
    ("uri", "upload", "by", "on_failure", "overwrite"),
    {"path": "uri", "url": "uri", "dst": "uri", "publish": "upload", "from": "by", "if_failed": "on_failure", "replace": "overwrite"},
)
KERBEROS = Keys(
    ("principal", "keytab", "krb5_conf", "login"),
    {
        "principal_name": "principal",
        "user": "principal",
        "keytab_file": "keytab",
        "krb5": "krb5_conf",
        "krb5_config": "krb5_conf",
        "conf": "krb5_conf",
        "own_login": "login",
        "renew": "login",
    },
)
SHIPPED = Keys(
    ("src", "dst", "unpack", "project", "wheels"),
    {
        "source": "src",
        "from": "src",
        "path": "src",
        "target": "dst",
        "to": "dst",
        "dest": "dst",
        "name": "dst",
        "extract": "unpack",
        "archive": "unpack",
        "unzip": "unpack",
        "untar": "unpack",
        "wheel": "wheels",
        "package": "project",
    },
)
PYTHON = Keys(
    ("interpreter", "version", "requirements", "wheels", "project", "environment"),
    {
        "executable": "interpreter",
        "path": "interpreter",
        "bin": "interpreter",
        "python_version": "version",
        "requirement": "requirements",
        "requirements_file": "requirements",
        "requires": "requirements",
        "wheel": "wheels",
        "package": "project",
        "conda": "environment",
        "conda_env": "environment",
        "env": "environment",
        "venv": "environment",
        "virtualenv": "environment",
        "archive": "environment",
    },
    {
        "packages": "list wheels under wheels, or write them into a file and say requirements: requirements.txt",
        "pip": "write the packages into a file and say requirements: requirements.txt",
        "dependencies": "write the packages into a file and say requirements: requirements.txt",
    },
)
# Other tools' words for values, without hyphens.
STRATEGIES = {
    "allreduce": "multi-worker",
    "centralstorage": "single",
    "collective": "multi-worker",
    "distributed": "multi-worker",
    "horovod": "multi-worker",
    "local": "single",
    "mirrored": "single",
    "mirroredstrategy": "single",
    "multiworkermirrored": "multi-worker",
    "multiworkermirroredstrategy": "multi-worker",
    "mwms": "multi-worker",
    "none": "single",
    "onedevice": "single",
    "parameterserverstrategy": "parameter-server",
    "ps": "parameter-server",
    "pss": "parameter-server",
    "psv2": "parameter-server",
    "trainandevaluate": "estimator",
}
RESTARTS = {"always": "on-failure", "exitcode": "on-failure", "no": "never", "onfailure": "on-failure", "none": "never"}
SCOPES = {"host": "node", "hostname": "node", "nodemanager": "node"}
_JOBS_OWN = ("name", "description", "command", "files", "inputs", "outputs", "strategy", "roles", "deciding_role", "legacy_master")
# What the site's settings may say for jobs that are silent: nothing that makes one job differ from the next.
SITE = Keys(
    tuple(key for key in JOB.known if key not in _JOBS_OWN),
    JOB.synonyms,
    {**JOB.advice, **dict.fromkeys(_JOBS_OWN, "only a job spec can say this")},
)
