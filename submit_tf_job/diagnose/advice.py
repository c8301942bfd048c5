"""Leave out of a cause's hint what the job already does.

What the job already does is known from its posted service: from the description that its tasks read
(`contract.TASK_FILE`), and from the variables of YARN's Docker runtime. The clauses of a hint are
separated by `; `.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.host.units import memory_text
from submit_tf_job.yarn.observed import items, object_of

_DOCKER = "YARN_CONTAINER_RUNTIME_DOCKER_"
_VARIABLE = re.compile(r"\b([A-Za-z_]{1,80})(?:=\S{1,80})? in `env`")


@dataclass(frozen=True)
class JobKeys:
    """The keys of a job and of one of its roles, as far as the posted service shows them.

    Attributes:
        job: The task description, which the tasks read; {} if it is not known.
        role: The role's part of the task description.
        docker: The variables of the role's component, without the prefix of Docker's variables.
    """

    job: Mapping[str, Any] = field(default_factory=dict)
    role: Mapping[str, Any] = field(default_factory=dict)
    docker: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, service: Mapping[str, Any] | None, role: str) -> JobKeys:
        """Read the keys of a job, and of one of its roles, from a service's JSON."""
        files = items(object_of(service, "configuration"), "files")
        texts = (
            object_of(file, "properties").get("content")
            for file in files
            if file.get("dest_file") == contract.TASK_FILE
        )
        try:
            job = json.loads(str(next(texts, "{}")))
        except ValueError:
            job = {}
        job = job if isinstance(job, dict) else {}
        own = next((one for one in items(service, "components") if one.get("name") == role), {})
        env = object_of(object_of(own, "configuration"), "env")
        docker = {key.removeprefix(_DOCKER): str(value) for key, value in env.items()}
        return cls(job, object_of(object_of(job, "roles"), role), docker)

    @property
    def variables(self) -> Mapping[str, Any]:
        """The role's `env`."""
        return object_of(self.role, "env")

    @property
    def data(self) -> Mapping[str, Any]:
        """The job's inputs and outputs."""
        return object_of(self.job, "data")

    def downloaded_input(self, uri: str) -> str | None:
        """Return the name of the input with `download: true` to which a URI belongs; None if there
        is none.
        """
        inputs = object_of(self.data, "inputs")
        for name in inputs:
            given = object_of(inputs, name)
            base = str(given.get("uri") or "").rstrip("/")
            if base and uri.startswith(base) and given.get("download"):
                return name
        return None

    def mount_of(self, path: str) -> str | None:
        """Return the mode, `ro` or `rw`, of the mount that contains a path of the container; None
        if no mount does.
        """
        for mount in self.docker.get("MOUNTS", "").split(","):
            _, _, rest = mount.partition(":")
            target, _, mode = rest.rpartition(":")
            if target and f"{path}/".startswith(f"{target.rstrip('/')}/"):
                return mode
        return None


_Facts = Mapping[str, object]


@dataclass(frozen=True)
class KeyAdvice:
    """One piece of advice in hints, which may not fit a job.

    Attributes:
        words: The words of the clause by which the advice is recognised.
        is_had: Returns whether the job already does what is advised, from its keys and from the
            cause's `facts`.
        instead: The text that replaces the clause; "" to leave the clause out.
    """

    words: str
    is_had: Callable[[JobKeys, _Facts], bool]
    instead: str = ""


def _logs_in_itself(keys: JobKeys, _facts: _Facts) -> bool:
    return object_of(keys.job, "kerberos").get("login") == "always"


def _path_of_facts(facts: _Facts) -> str:
    names = ("path", "file", "folder", "other", "model", "tf", "data")
    return str(next(filter(None, (facts.get(name) for name in names)), ""))


def _all_outputs_kept(keys: JobKeys, _facts: _Facts) -> bool:
    outputs = object_of(keys.data, "outputs")
    every = (object_of(outputs, name) for name in outputs)
    uploaded = [one for one in every if one.get("upload")]
    return bool(uploaded) and all(one.get("on_failure") == "keep" for one in uploaded)


ADVICE: tuple[KeyAdvice, ...] = (
    KeyAdvice("ask for GPUs by", lambda keys, _: bool(keys.role.get("gpus"))),
    KeyAdvice("`hadoop: {conf: inline}`", lambda keys, _: keys.job.get("hadoop_conf") is not None),
    KeyAdvice("login of its own", _logs_in_itself),
    KeyAdvice("logs in with its keytab", _logs_in_itself),
    KeyAdvice(
        "`kerberos.krb5_conf`: inline",
        lambda keys, _: bool(object_of(keys.job, "kerberos").get("krb5_conf")),
    ),
    KeyAdvice("who the job is under `kerberos`", lambda keys, _: "kerberos" in keys.job),
    KeyAdvice("`keras: legacy`", lambda keys, _: keys.variables.get("TF_USE_LEGACY_KERAS") == "1"),
    KeyAdvice("`strategy: torch`", lambda keys, _: keys.job.get("strategy") in ("torch", "jax")),
    KeyAdvice(
        "`download: true` of the input",
        lambda keys, facts: bool(
            keys.downloaded_input(str(facts.get("uri") or facts.get("link") or ""))
        ),
        "the job has copied that input: its variable TFJOB_INPUT_… names the copy on the task's "
        "disk, which is to be opened instead",
    ),
    KeyAdvice("`on_failure: keep`", _all_outputs_kept),
    KeyAdvice("`network: host`", lambda keys, _: keys.docker.get("CONTAINER_NETWORK") == "host"),
    KeyAdvice(
        "`docker: {tmpfs: [/dev/shm]}`",
        lambda keys, _: "/dev/shm" in keys.docker.get("TMPFS_MOUNTS", "").split(","),  # noqa: S108
        "the node's memory bounds the mounted one",
    ),
    KeyAdvice(
        "mount its directory",
        lambda keys, facts: keys.mount_of(_path_of_facts(facts)) is not None,
        "its directory is mounted: does that node have the file?",
    ),
    KeyAdvice(
        "unless they end in :rw",
        lambda keys, facts: keys.mount_of(_path_of_facts(facts)) == "rw",
        "the mount is :rw: is the node's own file system read-only?",
    ),
    KeyAdvice(
        "`dns.server`",
        lambda keys, _: bool(keys.job.get("dns_server")),
        "does the server that `dns.server` names answer from the containers?",
    ),
    KeyAdvice(
        "`python.requirements`",
        lambda keys, _: "packages" in keys.job or "role_packages" in keys.job,
        "add it to the job's requirements (`python`), or install it in the image",
    ),
)


def advises(hint: str) -> bool:
    """Return whether a hint advises a key that the job may already have."""
    return bool(_VARIABLE.search(hint)) or any(advice.words in hint for advice in ADVICE)


def fitting(hint: str, keys: JobKeys, facts: _Facts) -> str:
    """Return a hint without the clauses that advise what the job already does; unchanged if the
    keys of the job are not known.

    Args:
        hint: The hint.
        keys: The keys of the job.
        facts: The facts of the cause, which contain paths.
    """
    if not keys.job:
        return hint
    told = (_fitting_clause(clause, keys, facts) for clause in hint.split("; "))
    return "; ".join(filter(None, told))


_MORE_MEMORY = re.compile(r"\.memory is (?P<asked>\S+): try (?P<wanted>\d+)(?P<unit>[MG]i)")


def within_queue(hint: str, asked_mib: int, most_mib: int, queue: str) -> str:
    """Return a hint in which the advised amount of memory is at most that of the largest container
    of the job's queue; unchanged if the hint advises no more than that.

    Args:
        hint: The hint.
        asked_mib: The memory that the container had, in MiB.
        most_mib: The memory of the largest container of the queue, in MiB.
        queue: The queue's name.
    """
    found = _MORE_MEMORY.search(hint)
    wanted = int(found["wanted"]) * (1024 if found["unit"] == "Gi" else 1) if found else 0
    if found is None or wanted <= most_mib:
        return hint
    told = f".memory is {found['asked']}, and queue {queue} gives no more"
    if asked_mib < most_mib:
        told = f".memory is {found['asked']}: try {memory_text(most_mib)}, which is all of {queue}"
    return hint.replace(found[0], told).replace("no more, or make", "no more: make")


def _fitting_clause(clause: str, keys: JobKeys, facts: _Facts) -> str:
    if any(name in keys.variables for name in _VARIABLE.findall(clause)):
        return ""
    for advice in ADVICE:
        if advice.words in clause and advice.is_had(keys, facts):
            return advice.instead
    return clause
