"""doctor --deep: run a small job that checks its containers from inside, and delete the job
afterwards. With --file, also check whether the host paths in the job's `mounts` exist on the nodes.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from submit_tf_job import waiting
from submit_tf_job.diagnose.amounts import listed
from submit_tf_job.doctor.findings import FAILURE, OK, Check, Subject
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster, JobRef, connect
from submit_tf_job.settings import Settings
from submit_tf_job.yarn.inspection import all_nodes

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.jobspec.job import Job, Mount
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.yarn.observed_cluster import Node

DEFAULT_IMAGE = "tensorflow/tensorflow:2.15.0"
_MEMORY_MIB = 1024
_FOLLOW_S = 420.0  # a first pull of a TensorFlow image takes minutes


def deep(
    settings: Settings,
    *,
    image: str | None = None,
    queue: str | None = None,
    job: Job | None = None,
    spread: bool = False,
) -> tuple[Check, ...]:
    """Run a job of two small tasks, return the results of the checks inside its containers, and
    delete the job. An error of the submission is a result, too.

    Args:
        settings: The settings.
        image: Image of the containers; by default the image of `job` in the settings, or a
            TensorFlow image.
        queue: Queue of the job.
        job: A job whose image, queue, network and mounts the containers get; then there are as many
            containers (2 to 20) as nodes of its partition have room, and the mounts are checked,
            too.
        spread: Whether the cluster can put each task on a different node.

    Raises:
        SettingsError: As for `connect`.
        AuthError: As for `connect`.
    """
    from submit_tf_job.operations.delete import delete

    name = f"doctor-{secrets.token_hex(3)}"  # with four it might look like the name of a run
    cluster = connect(settings)
    spec = _job_spec(settings, name, image, queue, job)
    nodes: tuple[Node, ...] = ()
    try:
        if job is not None:
            nodes = all_nodes(cluster.client)
            spec = _shaped_like_job(job, spec, nodes, spread=spread)
        status, answers, cause = _run_probe_job(cluster, spec)
    except SubmitTFJobError as error:
        return (Subject("job").failure(error.message, "every job like it", error.hint),)
    finally:
        # where the delete fails too, the job's lifetime ends it
        with contextlib.suppress(SubmitTFJobError):
            delete(cluster, name, force=True)
    found = _probe_findings(status, answers, cause, by_name=settings.names == "dns")
    if job is None:
        return found
    running = [node for node in nodes if node.state == "RUNNING"]
    return (*found, *_check_mounts(_mounts_of(job), answers, running))


def _job_spec(
    settings: Settings, name: str, image: str | None, queue: str | None, job: Job | None
) -> dict[str, Any]:
    from submit_tf_job.doctor import probe

    spec: dict[str, Any] = {
        "name": name,
        "strategy": "custom",
        "deciding_role": "probe",
        "command": ["python3", "probe.py"],
        "files": [{"src": probe.__file__, "dst": "probe.py"}],
        "env": {probe.ENV_NAMENODE: _name_node(settings)},
        "roles": {"probe": {"instances": 2, "memory": f"{_MEMORY_MIB}Mi"}},
        "lifetime": "15m",
        "start_timeout": "5m",
    }
    if image or job is None:
        spec["image"] = image or settings.job.get("image") or DEFAULT_IMAGE
    if queue:
        spec["queue"] = queue
    return spec


def _shaped_like_job(
    job: Job, spec: dict[str, Any], nodes: tuple[Node, ...], *, spread: bool
) -> dict[str, Any]:
    """Return the probe's job spec, with those keys of a job added that determine on which nodes its
    containers run, and what the containers see on these nodes.
    """
    from submit_tf_job.doctor.probe import ENV_MOUNTS

    wanted = _mounts_of(job)
    role = next((role for role in job.roles.values() if role.mounts), None)
    role = role or job.roles[job.deciding_role]
    partition = role.placement.partition if role.placement else None
    free = len(_nodes_for(nodes, partition, _MEMORY_MIB))
    placement = {"spread": "node" if spread and free > 1 else None, "partition": partition}
    probe = {
        **spec["roles"]["probe"],
        "instances": max(2, free),
        "placement": {key: value for key, value in placement.items() if value},
    }
    more = {
        "image": role.image,
        "queue": job.queue,
        "network": job.network,
        "docker_client_config": job.docker_client_config,
    }
    probed = _probe_mounts(wanted)
    return {
        **{key: value for key, value in more.items() if value},
        **spec,
        "mounts": [":".join(mount) for mount in probed],
        "env": {**spec["env"], ENV_MOUNTS: json.dumps(probed)},
        "roles": {"probe": {key: value for key, value in probe.items() if value}},
    }


def _name_node(settings: Settings) -> str:
    """Return the NameNode as host:port; "" if the configuration names none, or names a nameservice
    instead.
    """
    from submit_tf_job.storage import default_fs

    with contextlib.suppress(SubmitTFJobError, ValueError):
        parts = settings.hadoop_conf and urlsplit(default_fs(settings.hadoop_conf))
        if parts and parts.scheme == "hdfs" and parts.port:
            return f"{parts.hostname}:{parts.port}"
    return ""


def _run_probe_job(
    cluster: Cluster, spec: Mapping[str, Any]
) -> tuple[JobStatus, tuple[Mapping[str, Any], ...], Cause | None]:
    from submit_tf_job.operations.follow import follow
    from submit_tf_job.operations.submit import load_job, make_plan, submit
    from submit_tf_job.operations.watch_run import until_end

    path = Path(f"{spec['name']}.json")
    job = load_job(path, cluster.settings, text=json.dumps(spec).encode())
    done = submit(make_plan(job, cluster.settings), cluster)
    end = until_end(follow(cluster, done.ref, done.plan, timeout_s=_FOLLOW_S), cluster.sleep)
    return (
        end.status,
        _read_probe_results(cluster, done.ref, job.roles["probe"].instances),
        end.cause,
    )


def _read_probe_results(cluster: Cluster, ref: JobRef, tasks: int) -> tuple[Mapping[str, Any], ...]:
    """Return the probe results that the tasks printed; wait for logs that are not collected yet."""
    from submit_tf_job.doctor.probe import MARK
    from submit_tf_job.operations.logs import logs

    found: tuple[Mapping[str, Any], ...] = ()
    for _ in waiting.LOGS_ARE_COLLECTED.attempts(cluster.clock, cluster.sleep):
        try:
            job = ref.application_id or ref.name
            lines = [line.text for line in logs(cluster, job, files=["stdout.txt"])]
        except SubmitTFJobError:
            continue
        values = [_json_or_none(line[len(MARK) :]) for line in lines if line.startswith(MARK)]
        found = tuple(value for value in values if isinstance(value, dict))
        if len(found) >= tasks:
            break
    return found


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _probe_findings(
    status: JobStatus,
    answers: tuple[Mapping[str, Any], ...],
    cause: Cause | None,
    *,
    by_name: bool,
) -> tuple[Check, ...]:
    state, reason = status.state.value, status.verdict.reason
    facts = {"application_id": status.application_id, "state": state}
    if state != "SUCCEEDED":
        fix = status.verdict.hint or "see: submit_tf_job help troubleshooting"
        if cause:
            reason, fix, facts["cause"] = cause.sentence, cause.hint or fix, cause.code
        said = f"a job of small tasks ended as {state}: {reason}"
        job = Subject("job", **facts).failure(said, "every job like it", fix)
    else:
        job = Subject("job", **facts).ok("a job of small tasks was submitted, ran and ended well")
    if answers:
        return (job, *_findings_inside(_worst_results(answers), by_name=by_name))
    said = "the checks inside the containers could not be read from the logs"
    fix = "check that log aggregation is on, and that HDFS is readable from here"
    return (job, Subject("inside").warning(said, "reading logs", fix))


def _worst_results(answers: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Return, for each check, the worst result of all tasks."""
    weight: dict[Any, int] = {"failure": 2, "warning": 1}
    found: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.items():
            if isinstance(value, dict) and weight.get(value.get("status"), 0) >= weight.get(
                found.get(name, {}).get("status"), 0
            ):
                found[name] = value
    return found


_LOST = "tasks do not find each other"
_MISSING = "see missing tasks in: submit_tf_job help troubleshooting"
_INSIDE = {
    "resolver": (
        "containers' resolver",
        _LOST,
        "point the nodes' resolv.conf to Registry DNS, or set dns.server",
    ),
    "own-name": ("a task's own name", _LOST, _MISSING),
    "peer-name": ("a peer's name", _LOST, _MISSING),
    "hdfs": (
        "HDFS from a container",
        "programs that read or write HDFS",
        "open the NameNode's port to the nodes' containers",
    ),
    "tokens": (
        "delegation tokens",
        "nothing under simple authentication; HDFS with Kerberos",
        "see: submit_tf_job help kerberos",
    ),
    "gpu": ("GPUs that a task sees", "training on GPUs", "only a job with gpus gets one"),
    "disk": (
        "free disk in the working directory",
        "checkpoints and caches",
        "free space in yarn.nodemanager.local-dirs",
    ),
    "python": ("Python", "the bootstrap needs 3.6 or later", "use an image with a newer Python"),
    "tensorflow": ("TensorFlow", "training with this image", "use an image that has TensorFlow"),
    "keras": (
        "Keras",
        "model.fit under the strategies multi-worker and parameter-server",
        "see: submit_tf_job help frameworks",
    ),
}


_NAMES = ("own-name", "peer-name")
_NAMELESS = "quick links, and programs that look for the names of tasks"


def _findings_inside(
    answers: Mapping[str, Mapping[str, Any]], *, by_name: bool
) -> tuple[Check, ...]:
    """Return the findings that follow from the probe's results inside a container (`{id: {status,
    said}}`).

    Args:
        answers: The results.
        by_name: Whether tasks find one another only by the names of Registry DNS.
    """
    found = []
    for name, (what, breaks, fix) in _INSIDE.items():
        answer = answers.get(name, {})
        said = f"{what}: {answer.get('said', 'the probe has no answer')}"
        about = Subject(f"inside-{name}")
        if answer.get("status") == OK:
            found.append(about.ok(said))
        elif name in _NAMES and not by_name:
            found.append(about.warning(said, _NAMELESS))
        elif answer.get("status") == FAILURE:
            found.append(about.failure(said, breaks, fix))
        else:
            found.append(about.warning(said, breaks, fix))
    return tuple(found)


# --- the mounts of a job --------------------------------------------------------------------------

_MOST_NODES = 20  # a container on each; larger clusters are sampled


def _mounts_of(job: Job) -> tuple[Mount, ...]:
    """Return the mounts of all roles, each path of the node once. A mount is writable if any role
    may write to it.
    """
    found: dict[str, Mount] = {}
    for mount in (mount for role in job.roles.values() for mount in role.mounts):
        if not mount.read_only or mount.source not in found:
            found[mount.source] = mount
    return tuple(found.values())


def _probe_mounts(mounts: Sequence[Mount]) -> list[tuple[str, str, str]]:
    """Return, for each mount: the path on the node, the path in the probe's container, and the
    mode.

    Roles may mount different paths at the same place, so in the probe's container each path has a
    place of its own.
    """
    modes = ("ro" if mount.read_only else "rw" for mount in mounts)
    return [
        (mount.source, f"/doctor-mounts/{number}", mode)
        for number, (mount, mode) in enumerate(zip(mounts, modes, strict=True))
    ]


def _nodes_for(nodes: Iterable[Node], partition: str | None, memory_mib: int) -> tuple[Node, ...]:
    """Return the nodes in the job's partition, at most 20, on which a container can start now."""
    return tuple(
        node
        for node in nodes
        if node.state == "RUNNING"
        and (partition or "") in (node.labels or ("",))
        and (node.available_memory_mib or 0) >= memory_mib
    )[:_MOST_NODES]


def _check_mounts(
    mounts: Sequence[Mount], answers: Sequence[Mapping[str, Any]], nodes: Sequence[Node]
) -> Iterator[Check]:
    """Yield a finding about each path of the node, from what the probe's tasks found there; none if
    no task has reported.

    Args:
        mounts: The mounts of the job.
        answers: What each task printed.
        nodes: All nodes that run.
    """
    names = _node_names(nodes)
    seen: dict[str, Mapping[str, Any]] = {}
    for answer in answers:
        found = answer.get("mounts") or {}
        if "paths" in found:
            seen[names.get(found["node"], found["node"])] = found["paths"]
    if not seen:
        return
    unseen = sorted(set(names.values()) - set(seen))
    for mount in mounts:
        yield _judge_mount(
            mount.source, {node: seen[node][mount.source] for node in sorted(seen)}, unseen
        )


def _node_names(nodes: Sequence[Node]) -> dict[str, str]:
    """Return a name for each node id: the host alone, if each host has only one NodeManager."""
    hosts = [node.host for node in nodes]
    return {
        node.id: node.host if node.host and hosts.count(node.host) == 1 else node.id
        for node in nodes
    }


def _judge_mount(path: str, found: Mapping[str, Mapping[str, str]], unseen: Sequence[str]) -> Check:
    groups: dict[tuple[str, str], list[str]] = {}
    for node, there in found.items():
        groups.setdefault((there["kind"], there["said"]), []).append(node)
    said = "; ".join(f"{what} on {listed(on)}" for (_kind, what), on in groups.items())
    said = f"{path}: {said}"
    if unseen:
        said += f"; not seen on {listed(unseen)}"
    about = Subject(
        "inside-mount", path=path, nodes={node: dict(is_) for node, is_ in found.items()}
    )
    by_kind: dict[str, list[str]] = {}
    for (kind, _what), on in groups.items():
        by_kind.setdefault(kind, []).extend(on)
    if "error" in by_kind:
        where = listed(by_kind["error"])
        return about.failure(
            said,
            f"tasks on {where}",
            f"correct the path, or mount it and let the job's user read it on {where}",
        )
    if {"mount", "directory"} <= set(by_kind):
        where = listed(by_kind["directory"])
        return about.failure(
            said,
            f"tasks on {where}: they read and write another directory than the others",
            f"mount it on {where}, or keep tasks away from there by `placement`",
        )
    if "directory" in by_kind:
        return about.warning(
            said,
            "sharing files between nodes: each has a directory of its own there",
            "nothing, if a local directory is meant; else mount the file system on the nodes",
        )
    return about.ok(said)
