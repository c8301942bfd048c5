"""Translate a job file of TonY: a Hadoop configuration (XML) with properties `tony.…`.

And a command line: `… com.linkedin.tony.cli.ClusterSubmitter [flags]`, whose flags become
properties over those of `--conf_file`.

Sources: tony-framework/TonY (TonyConfigurationKeys, TonyClient, TonySession, TFRuntime,
LocalizableResource, Utils, ClusterSubmitter).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from submit_tf_job.dialects import common
from submit_tf_job.dialects.command_line import PREFIX as FLAG
from submit_tf_job.dialects.command_line import each, open_file
from submit_tf_job.dialects.rows import Row, Rows, amount, carry, rows
from submit_tf_job.dialects.translation import At, Dialect, Translation
from submit_tf_job.host.located.diagnostics import closest
from submit_tf_job.host.located.nodes import Pair, Scalar, ScalarKind, Table, clip
from submit_tf_job.jobspec.job import TRAINING_ROLES

__all__ = ["DIALECTS"]

_PREFIX = "tony."
_NO_TONY = "is about TonY's own processes"
_CLUSTER = "a fact of the cluster, which the settings state"
_ORDER = "all tasks start together here; let the command wait for the others, or submit two jobs"
_FOR_EVER = "3650d"  # the longest duration that a job spec accepts

_JOB = rows(f"""
= tony.application.name | `name`, in small letters and with hyphens
. tony.application.type | {_NO_TONY}
= tony.application.framework | tensorflow, the default → `strategy: custom` with `tf_config:
    counts`; standalone → `single`; others are refused
= tony.application.timeout | `lifetime`
= tony.application.untracked.jobtypes | `kind: sidecar`, but for ps: not waited for
= tony.application.sidecar.jobtypes | `kind: sidecar`: not waited for, and its failure is a warning
= tony.application.stop-on-failure-jobtypes, tony.application.stop.on.failure.jobtypes | types whose
    failed task fails the job: no `tolerate`; an untracked one is `kind: serves`
= tony.application.fail-on-worker-failure-enabled, tony.application.fail.on.worker.failure.enabled,
    tony.application.failed_on_complete_with_failure.enabled | true: no `tolerate`; false, the
    default, lets all tasks but one of a role that does not decide fail
= tony.application.distributed-mode | GANG: as here; FCFS is a warning, and has no TF_CONFIG
~ tony.application.tags | YARN services have tags of their own
= tony.application.node-label -> roles.*.placement.node_label | of each type without its own
= tony.application.placement-spec | `placement` of each role
x tony.application.prepare-stage, tony.application.training-stage | {_ORDER}
= tony.application.group.* | the group that a dependency names
x tony.application.dependency.*.timeout.after.*.ignored | name the type in
    tony.application.sidecar.jobtypes
= tony.application.dependency.*.timeout.after.* | `finish_timeout`, after a group with the deciding
    role; after others a warning
x tony.application.enable-preprocess | a step before the job; begin the command with it
= tony.application.tensorboard-log-dir | the sidecar tensorboard
. tony.application.security.enabled, tony.application.hdfs-conf-path,
    tony.application.yarn-conf-path, tony.application.mapred-conf-path,
    tony.application.hadoop.location, tony.application.hadoop.classpath,
    tony.application.num-client-rm-connect-retries | {_CLUSTER}
= tony.application.single-node | true: as the framework standalone (TonY 0.1)
. tony.application.insecure-mode, tony.application.num-rm-connect-retries | {_CLUSTER}
. tony.application.test.**, tony.application.horovod.** | {_NO_TONY}
. tony.other.namenodes | {_CLUSTER}
= tony.yarn.queue -> queue
= tony.container.allocation.timeout, tony.container.registration.timeout,
    tony.task.executor.registry-timeout-sec | `start_timeout`, the longest of the three
= tony.task.executor.execution-timeout-ms, tony.worker.timeout | `lifetime` of a job of one task,
    else a warning
= tony.task.heartbeat-interval-ms | `grace`, times max-missed-heartbeats
= tony.task.max-missed-heartbeats | `grace`, times heartbeat-interval-ms
. tony.task.** | {_NO_TONY}
= tony.am.retry-count | 0; more is a warning: a scheduler submits the job again
x tony.am.command | a program in the ApplicationMaster; make it a role
. tony.am.** | {_NO_TONY}
= tony.docker.enabled, tony.application.docker.enabled | false is a note, as each task runs in
    Docker here
= tony.docker.containers.image, tony.application.docker.image, tony.docker.image.path -> image
= tony.docker.containers.mount -> mounts parts
= tony.containers.command | the command of each type without its own
= tony.containers.envs, tony.execution.envs | `env`
= tony.containers.resources | `files`; of a file system `inputs`, linked under its name before the
    command; `#archive` unpacks
= tony.containers.placement-spec | `placement` of each role
= tony.containers.allocation-tags | the tag that placement-spec names
= tony.chief.name | the type whose task decides (TonY 0.1)
= tony.chief.index | 0; another is refused
. tony.docker.path | {_CLUSTER}
. tony.init.module, tony.gpu-exec-path, tony.python-exec-path, tony.history.**, tony.portal.**,
    tony.https.**, tony.http.**, tony.version-info.**, tony.keytab.**, tony.secret.**,
    tony.horovod.** | {_NO_TONY}
""")
_TYPE = rows(f"""
= tony.*.instances | `roles.*.instances`; a type exists by it
. tony.*.max-instances | a limit of TonY's users
= tony.*.memory | `roles.*.memory`; 2g without
= tony.*.vcores | `roles.*.cpus`; 1 without
= tony.*.gpus -> roles.*.gpus whole
= tony.*.command | `roles.*.command`
= tony.*.resources | `roles.*.files`, and as tony.containers.resources
= tony.*.node-label -> roles.*.placement.node_label
= tony.docker.*.image -> roles.*.image
= tony.*.placement-spec | `roles.*.placement`: notin,node,TAG → spread, in,node,TAG → together
= tony.*.allocation-tags | the tag that placement-spec names
x tony.*.depends-on | {_ORDER}
""")
_KEYS = (Rows(("",), (*_JOB, *_TYPE)),)
# properties of the job that hold for each type without its own
_JOB_OF_TYPE = tuple(row for row in _JOB if "*" in row.target)

_TYPE_KEY = re.compile(r"tony\.([a-z]+)\.(instances|memory|vcores|gpus|command|resources)")
_NOT_TYPES = ("application", "am", "task", "docker", "container", "containers", "yarn")
_BOARD = "tensorboard"
# TonY's own names; a file may state defaults of types that it does not use
_OWN_TYPES = (*TRAINING_ROLES, "master", "notebook", "driver", _BOARD)
_READERS = ("chief", "worker", "evaluator")  # whose tasks fetch inputs under `custom`
_MEMORY = re.compile(r"([0-9]{1,12})(?:([mg]).*)?")  # Utils.parseMemoryString
_LEAST_MIB = 64
_SUBSTITUTED = re.compile(r"\$\{([^{}$\s]+)\}")  # Configuration.substituteVars
_MOST_EXPANSIONS = 20  # Configuration.MAX_SUBST
_LONGEST_VALUE = 100_000
_PLACEMENT = re.compile(r"(notin|in),(node|rack),([^,]+)")


@dataclass
class _Type:
    """One job type: its name in TonY, and the role that it becomes."""

    name: str
    role: str
    instances: int
    at: At
    kind: str = ""  # "" for what the role's name says
    fetched: list[str] = field(default_factory=list)  # lines before the command


@dataclass
class _TonyJob:
    root: At
    reading: Translation
    types: dict[str, _Type] = field(default_factory=dict)
    deciding: str | None = None
    framework: str = "tensorflow"
    gang: bool = True

    def get(self, *names: str) -> At | None:
        """Return the first of several properties that is there and not empty."""
        found = [self.root.get(f"{_PREFIX}{name}") for name in names]
        return next((at for at in found if at is not None and at.text()), None)

    def find(self, row: Row, type_name: str = "*") -> At | None:
        """Return the value of a row's property."""
        names = (name.removeprefix(_PREFIX) for name in row.spellings)
        return self.get(*(name.replace("*", type_name) for name in names))

    @property
    def tracked(self) -> list[_Type]:
        """The types whose tasks the job waits for."""
        return [one for one in self.types.values() if not one.kind and one.name != "ps"]

    @property
    def has_tf_config(self) -> bool:
        """Whether a task with a role of TensorFlow gets TF_CONFIG."""
        trains = {"chief", "worker", "ps"} & {one.role for one in self.types.values()}
        return self.framework == "tensorflow" and self.gang and bool(trains)


def _recognise(root: Table) -> str | None:
    """Return "XML" for a configuration with a property of TonY; None for another tree."""
    return "XML" if any(entry.key.startswith(_PREFIX) for entry in root.entries) else None


def _read(root: At, reading: Translation) -> None:
    """Translate a configuration of TonY."""
    root = _substituted(root, reading)
    job = _TonyJob(root, reading)
    why = "there is no tony.application.name"
    common.read_name(reading, job.get("application.name"), root, why)
    job.types = {one.name: one for one in _types(job)}
    if not job.types:
        root.fail("there is no task; say tony.worker.instances")
        return
    _read_strategy(job)
    _read_limits(job)
    _read_shared(job)
    for one in job.types.values():
        _read_type(job, one)
    _read_success(job)
    _drop_without_instances(job)


def _substituted(root: At, reading: Translation) -> At:
    """Replace `${name}` by the property of that name, as Hadoop does.

    Any other stays for the shell in a command, and is a problem elsewhere.
    """
    if not isinstance(root.node, Table):
        return root
    stated = root.node.entries
    values = {e.key: e.value.text for e in stated if isinstance(e.value, Scalar)}
    table = root.node
    for entry in (entry for entry in stated if entry.key.startswith(_PREFIX)):
        at = At(entry.value, entry.key, entry.place, reading)
        text = _expanded(values.get(entry.key, ""), values)
        left = _SUBSTITUTED.search(text)
        if left and not entry.key.endswith("command"):
            at.fail(f"{clip(left[0])} is not a property of this file; write the value")
        elif text != values.get(entry.key):
            value = Scalar(ScalarKind.TEXT, text, entry.value.place)
            table = table.with_entry(Pair(entry.key, entry.place, value))
    return At(table, root.path, root.place, reading)


def _expanded(text: str, values: Mapping[str, str]) -> str:
    for _ in range(_MOST_EXPANSIONS):
        names = [name for name in _SUBSTITUTED.findall(text) if name in values]
        if not names or sum(len(values[name]) for name in names) > _LONGEST_VALUE:
            break
        text = _SUBSTITUTED.sub(lambda match: values.get(match[1], match[0]), text)
    return text


# --- types and roles ------------------------------------------------------------------------------


def _types(job: _TonyJob) -> Iterator[_Type]:
    """Iterate over the types that have instances; a log directory adds TensorBoard."""
    untracked = _listed(job, "application.untracked.jobtypes", "ps")
    sidecars = _listed(job, "application.sidecar.jobtypes", _BOARD)
    stops = _stops(job)
    logs = job.get("application.tensorboard-log-dir")
    for name in _names(job.root):
        count = job.get(f"{name}.instances")
        instances = 0 if count is None else count.whole() or 0
        if count is not None and instances:
            kind = "sidecar" if name in sidecars else ""
            if name in untracked and name != "ps":
                kind = "serves" if name in stops else "sidecar"
            yield _type(name, instances, count, kind)
        elif count is not None and name != _BOARD:
            count.note("the type has no instances and is left out")
    if logs is not None and job.get(f"{_BOARD}.instances") is None:
        yield _type(_BOARD, 1, logs, "sidecar")


def _type(name: str, instances: int, at: At, kind: str) -> _Type:
    role = {"master": "chief"}.get(name, name)
    if role != name:
        at.drop("TF_CONFIG calls the task chief, where TonY calls it master")
    if kind and role in ("chief", "worker"):
        at.fail("a type that trains is waited for here; take it out of the untracked and sidecars")
    return _Type(name, role, instances, at, kind)


def _stops(job: _TonyJob) -> list[str]:
    """Return the types of which a failed task fails the job."""
    return [
        *_listed(job, "application.stop-on-failure-jobtypes"),
        *_listed(job, "application.stop.on.failure.jobtypes"),
    ]


def _names(root: At) -> list[str]:
    entries = root.node.entries if isinstance(root.node, Table) else ()
    found = (_TYPE_KEY.fullmatch(entry.key) for entry in entries)
    names = dict.fromkeys(match[1] for match in found if match and match[1] not in _NOT_TYPES)
    first = [name for name in TRAINING_ROLES if name in names]
    return [*first, *(name for name in names if name not in first)]


def _listed(job: _TonyJob, name: str, default: str = "") -> list[str]:
    found = job.root.get(f"tony.{name}")
    return _parts(default if found is None else found.text())


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _read_strategy(job: _TonyJob) -> None:
    framework, single_node = job.get("application.framework"), job.get("application.single-node")
    job.framework = framework.text().lower() if framework else "tensorflow"
    mode = job.get("application.distributed-mode")
    if single_node is not None and single_node.flag():
        job.framework = "standalone"
    job.gang = mode is None or mode.text().upper() == "GANG"
    if framework is not None and job.framework not in ("tensorflow", "standalone"):
        common.refuse_framework(framework)
    if mode is not None and not job.gang:
        mode.drop("the tasks start together here")
    roles = [one.role for one in job.types.values() if not one.kind]
    chief, index = job.get("chief.name"), job.get("chief.index")
    first = [chief.text()] if chief else []
    job.deciding = next((role for role in (*first, "chief", "worker") if role in roles), None)
    if chief is not None and job.deciding == chief.text():
        job.reading.put("deciding_role", job.deciding, chief)
    if index is not None and index.text() != "0":
        index.fail("task 0 of the deciding role ends the job here; say 0")
    single = len(roles) == 1 and job.deciding and job.framework == "standalone"
    if single and job.types[roles[0]].instances == 1:
        job.reading.put("strategy", "single", framework or job.root)
        return
    job.reading.put("strategy", "custom", framework or job.root)
    if job.framework == "tensorflow":
        job.reading.put("variables", "tony", framework or job.root)
    if job.has_tf_config:
        job.reading.put("tf_config", "counts", framework or job.root)
    others = [role for role in roles if role not in ("ps", "evaluator")]
    if job.deciding is None and others:
        job.deciding = others[0]
        job.reading.put("deciding_role", others[0], job.types[others[0]].at)
    elif job.deciding is None:
        job.root.fail("nothing ends the job; add tony.worker.instances")


# --- limits of time -------------------------------------------------------------------------------


def _read_limits(job: _TonyJob) -> None:
    put = job.reading.put
    limit = job.get("application.timeout")
    each = job.get("task.executor.execution-timeout-ms", "worker.timeout")
    if each is not None and each.whole():
        if sum(one.instances for one in job.tracked) == 1 and limit is None:
            limit = each
        else:
            each.drop("only a job has a limit here: `lifetime`")
    if limit is not None and (seconds := _seconds(limit, 1000)):
        put("lifetime", f"{seconds}s", limit)
        limit.note("counts from the submission here", "lifetime")
    waits = [
        (seconds, at)
        for name, unit in (
            ("container.allocation.timeout", 1000),
            ("container.registration.timeout", 1000),
            ("task.executor.registry-timeout-sec", 1),
        )
        if (at := job.get(name)) is not None and (seconds := _seconds(at, unit))
    ]
    if waits:
        longest = max(waits, key=lambda pair: pair[0])
        put("start_timeout", f"{longest[0]}s", longest[1])
    pause, missed = job.get("task.heartbeat-interval-ms"), job.get("task.max-missed-heartbeats")
    if at := pause or missed:
        milliseconds = (pause.whole(1) if pause else 1000) or 1000
        times = (missed.whole(1) if missed else 25) or 25
        put("grace", f"{max(1, -(-milliseconds * times // 1000))}s", at)
        at.note("heartbeats times their interval", "grace")
    retries = job.get("am.retry-count")
    if retries is not None and retries.whole():
        retries.drop("a failed job is not run again; let a scheduler submit it again")


def _seconds(at: At, unit: int) -> int:
    """Return whole seconds, rounded up; 0 for a limit that is switched off (0 or negative)."""
    if re.fullmatch(r"-[0-9]{1,15}", at.text()):
        return 0
    return -(-(at.whole() or 0) // unit)


def _read_success(job: _TonyJob) -> None:
    """Wait for all tracked tasks, as TonySession.updateSessionStatus does."""
    waited = [one for one in job.tracked if one.role != job.deciding]
    limit = _finish_timeout(job)
    deciding = next((one for one in job.tracked if one.role == job.deciding), None)
    more = deciding is not None and deciding.instances > 1
    if limit is not None:
        job.reading.put("finish_timeout", f"{limit.whole(1) or 1}s", limit)
    elif deciding is not None and (waited or more):
        job.reading.put("ends_with", "all-that-train", deciding.at)
        deciding.at.note("TonY waits for all tracked tasks", "ends_with")
    evaluator = next((one for one in waited if one.role == "evaluator"), None)
    if evaluator is not None and limit is None:
        job.reading.put("finish_timeout", _FOR_EVER, evaluator.at)
        evaluator.at.note("the evaluator may take as long as it needs", "finish_timeout")
    strict = job.get(
        "application.fail-on-worker-failure-enabled",
        "application.fail.on.worker.failure.enabled",
        "application.failed_on_complete_with_failure.enabled",
    )
    stops = _stops(job)
    if strict is not None and strict.flag():
        return
    for one in waited:
        if one.instances > 1 and one.name not in stops:
            where = f"roles.{one.role}.tolerate"
            job.reading.put(where, one.instances - 1, one.at)
            one.at.note("a failed task of this type does not fail the job, as in TonY", where)
    if deciding is not None and more:
        deciding.at.drop("each task must succeed here; in TonY only task 0 must")


def _finish_timeout(job: _TonyJob) -> At | None:
    """Return the time that other types have after a group with the deciding role."""
    found = None
    pattern = re.compile(r"tony\.application\.dependency\.([A-Za-z]+)\.timeout\.after\.([A-Za-z]+)")
    entries = job.root.node.entries if isinstance(job.root.node, Table) else ()
    for match in [match for entry in entries if (match := pattern.fullmatch(entry.key))]:
        at = job.root.get(match[0])
        group = _listed(job, f"application.group.{match[2]}")
        if at is None:
            continue
        if job.deciding in group:
            found = at
            at.note(f"the limit of {match[1]} is that of all tasks here", "finish_timeout")
        else:
            at.drop("only the end of the deciding role limits the other tasks here")
    return found


# --- what the types share, and each type ----------------------------------------------------------


def _read_shared(job: _TonyJob) -> None:
    carry(job.reading, (row for row in _JOB if "*" not in row.target), job.find)
    enabled = job.get("docker.enabled", "application.docker.enabled")
    if enabled is not None and not enabled.flag():
        enabled.note("each task runs in a Docker container here")
    for key in ("containers.envs", "execution.envs"):
        found = job.get(key)
        for part in found.text().split(",") if found else ():
            name, _, value = part.partition("=")
            if name.strip() and found is not None:
                job.reading.put("env", value, found, name.strip())
    resources = job.get("containers.resources")
    if resources is not None:
        roles = [one for one in job.types.values() if one.role in _READERS]
        _read_resources(job, resources, "files", roles, len(job.types) > len(roles))


def _read_resources(job: _TonyJob, at: At, where: str, types: list[_Type], others: bool) -> None:
    """Read a comma list of `SOURCE[::NAME][#archive]` (LocalizableResource)."""
    for part in (part.strip() for part in at.text().split(",")):
        unpack = part.lower().endswith("#archive")
        source, _, name = (part[: -len("#archive")] if unpack else part).partition("::")
        name = name or common.base_name(source)
        if not source:
            continue
        target = "." if source.endswith("/") else name
        if common.put_file(job.reading, where, source, target, at, unpack=unpack):
            continue
        if not types:
            at.fail(
                f"{clip(source)} is fetched by chief, workers and evaluator alone; put it into "
                "the image"
            )
        else:
            _fetch(job, at, source, name, unpack, types)
            if others:
                at.drop(f"{clip(source)} is fetched by chief, workers and evaluator alone")


def _fetch(job: _TonyJob, at: At, source: str, name: str, unpack: bool, types: list[_Type]) -> None:
    """Fetch a file of a file system by `inputs`, and put it at its name before the command."""
    key = job.reading.put_input(name, source, at)
    action = common.link(f"TFJOB_INPUT_{key.upper()}", name, unpack=unpack)
    for one in types:
        lines = (*common.make_parent(name), action)
        one.fetched += [line for line in lines if line not in one.fetched]


def _read_type(job: _TonyJob, one: _Type) -> None:
    where, reading = f"roles.{one.role}", job.reading
    reading.put(f"{where}.instances", one.instances, one.at)
    if one.kind:
        reading.put(f"{where}.kind", one.kind, one.at)
    _read_amounts(job, one, where)
    carry(reading, (*_TYPE, *_JOB_OF_TYPE), lambda row: job.find(row, one.name), one.role)
    if job.get(f"docker.{one.name}.image") is None:
        why = "there is no Docker image, in which each task runs here"
        reading.need_image(where, job.root, why)
    resources = job.get(f"{one.name}.resources")
    if resources is not None:
        types = [one] if one.role in _READERS else []
        _read_resources(job, resources, f"{where}.files", types, False)
    _read_command(job, one, where)
    _read_placement(job, one, where)


def _read_amounts(job: _TonyJob, one: _Type, where: str) -> None:
    memory, cores = job.get(f"{one.name}.memory"), job.get(f"{one.name}.vcores")
    mib = 2048  # TonyConfigurationKeys.DEFAULT_MEMORY
    match = _MEMORY.fullmatch(memory.text().lower()) if memory else None
    if match is not None:
        mib = common.mebibytes(match[1], match[2])
    if memory is not None and match is None:
        memory.fail(f"{clip(memory.text())} is not an amount of TonY, such as 4g or 4096m")
    elif memory is not None and mib < _LEAST_MIB:
        memory.fail(f"{clip(memory.text())} is {mib} MiB to TonY; say {mib}g for GiB")
    elif memory is None:
        one.at.note("2 GiB, TonY's default", f"{where}.memory")
    reading = job.reading
    reading.put(f"{where}.memory", amount(mib), memory or one.at)
    default = 2 if one.name == _BOARD else 1  # TonyConfigurationKeys.DEFAULT_TB_VCORE
    reading.put(f"{where}.cpus", (cores.whole(1) if cores else default) or 1, cores or one.at)


def _read_command(job: _TonyJob, one: _Type, where: str) -> None:
    stated = job.get(f"{one.name}.command")
    logs = job.get("application.tensorboard-log-dir") if one.name == _BOARD else None
    lines = one.fetched
    if one.name == _BOARD:
        job.reading.put(f"{where}.ports.http", "auto", one.at)
    if logs is not None:
        job.reading.put(f"{where}.env", logs.text(), logs, "TB_LOG_DIR")
    found = stated or job.get("containers.command")
    if logs is not None and stated is None:
        text = 'tensorboard --logdir "$TB_LOG_DIR" --bind_all --port "$TFJOB_PORT_HTTP"'
        job.reading.put(f"{where}.command", "\n".join([*lines, text]), logs)
    elif found is not None:
        job.reading.put(f"{where}.command", "\n".join([*lines, found.text()]), found)
        if lines:
            found.note("behind the files that it needs", f"{where}.command")
    else:
        why = "there is no tony.containers.command; TonY's command line had it as --executes"
        job.reading.need_command(where, one.at, why)


def _read_placement(job: _TonyJob, one: _Type, where: str) -> None:
    names = (one.name, "containers", "application")
    found = job.get(*(f"{name}.placement-spec" for name in names))
    tags = _listed(job, f"{one.name}.allocation-tags") or _listed(job, "containers.allocation-tags")
    if found is None:
        return
    match = _PLACEMENT.fullmatch(found.text().replace(" ", ""))
    if match is None or match[3] not in tags:
        found.fail("supported: notin,node,TAG and in,node,TAG, where TAG belongs to the same type")
    else:
        key = {"notin": "spread", "in": "together"}[match[1]]
        job.reading.put(f"{where}.placement.{key}", match[2], found)


def _drop_without_instances(job: _TonyJob) -> None:
    """Name each property of a type that does not exist, as it has no instances."""
    for entry in job.root.node.entries if isinstance(job.root.node, Table) else ():
        match = _TYPE_KEY.fullmatch(entry.key)
        missing = match and match[1] not in _NOT_TYPES and match[1] not in job.types
        if match and missing and match[2] != "instances" and (at := job.root.get(entry.key)):
            why = f"tony.{match[1]}.instances is absent or 0, and the type exists by it"
            if match[1] in _OWN_TYPES or job.root.get(f"tony.{match[1]}.instances"):
                at.drop(why)
            else:
                near = closest(match[1], job.types)
                at.fail(f"did you mean tony.{near}.{match[2]}? {why}" if near else why)


# --- the command line -----------------------------------------------------------------------------

_FLAGS = rows("""
= --conf_file= | the XML file of properties, as TonY's configuration
= --conf tony.** | a property, as in TonY's configuration; over the file's, or behind its envs and
    resources
. --conf ** | a property of Hadoop
= --executes= | `command`, between --python_binary_path and --task_params
= --task_params= | behind --executes
= --python_binary_path= | before --executes; below venv/ with --python_venv, unless it is absolute
= --python_venv= | `files` with `unpack`, as venv/; of a file system `inputs`
= --src_dir= | `files`: what is in the directory
= --shell_env=*, --container_env=* | `env`
= --sidecar_tensorboard_log_dir= | the sidecar tensorboard, as tony.application.tensorboard-log-dir
. --hdfs_classpath= | jars of TonY
. --rm_app_tags= | a scheduler's name for the job
. --debug | prints more; say `-v`
. --help | prints TonY's help
""")
_PROGRAM = re.compile(r"(.*\.)?(ClusterSubmitter|TonyClient)")
_COMMAND = "tony.containers.command"
_RESOURCES = "tony.containers.resources"
_BOARD_LOGS = "tony.application.tensorboard-log-dir"
# properties that --conf extends (TonyClient.initTonyConf: MULTI_VALUE_CONF)
_LISTS = re.compile(r"tony\.(containers|execution)\.envs|tony\.[a-z]+\.resources")


def _begin(words: Sequence[str]) -> int | None:
    """Return the index of the first flag: behind the class, and a `--` of gcloud."""
    for index, word in enumerate(words):
        if _PROGRAM.fullmatch(word):
            rest = words[index + 1 :]
            return index + 1 + (rest.index("--") + 1 if "--" in rest else 0)
    return None


def _read_command_line(root: At, reading: Translation) -> None:
    """Translate the flags, and the file that they name."""
    stated = root.get("--conf_file")
    file = open_file(stated) if stated else None
    if stated is not None and file is None:
        return
    entries: dict[str, Pair] = {}
    if file is not None and isinstance(file.node, Table):
        entries = {entry.key: entry for entry in file.node.entries}
    _add_properties(root, entries, reading)
    _add_flags(root, entries)
    properties = reading.root(Table(tuple(entries.values()), root.place))
    reading.translate(_TONY, properties)
    for flag in ("container_env", "shell_env"):
        for at in each(root, f"{FLAG}{flag}"):
            name, equals, value = at.text().partition("=")
            if not equals or not name.strip():
                at.fail(f"expected NAME=VALUE, found {clip(at.text())}")
            else:
                reading.put("env", value, at, name.strip())


def _put(entries: dict[str, Pair], name: str, text: str, at: At) -> None:
    entries[name] = Pair(name, at.place, Scalar(ScalarKind.TEXT, text, at.place))


def _extend(entries: dict[str, Pair], name: str, text: str, at: At) -> None:
    old = entries.get(name)
    known = old.value.text if old is not None and isinstance(old.value, Scalar) else ""
    _put(entries, name, ",".join(filter(None, [known, text])), at)


def _add_properties(root: At, entries: dict[str, Pair], reading: Translation) -> None:
    stated = root.node.entries if isinstance(root.node, Table) else ()
    for entry in stated:
        name = entry.key.removeprefix("--conf ")
        if name == entry.key or not name.startswith(_PREFIX):
            continue
        at = root.get(entry.key)
        if at is not None and _LISTS.fullmatch(name):
            _extend(entries, name, at.text(), At(entry.value, name, at.place, reading))
        elif at is not None:
            _put(entries, name, at.text(), at)


def _add_flags(root: At, entries: dict[str, Pair]) -> None:
    venv, source = root.get("--python_venv"), root.get("--src_dir")
    program, python = root.get("--executes"), root.get("--python_binary_path")
    parameters, board = root.get("--task_params"), root.get("--sidecar_tensorboard_log_dir")
    if program is not None:
        words = [program.text()]
        if python is not None:
            path = python.text()
            below = venv is not None and not path.startswith("/")
            words.insert(0, f"venv/{path}" if below else path)
        if parameters is not None:
            words.append(parameters.text())
        _put(entries, _COMMAND, " ".join(words), program)
    for lost in (python, parameters):
        if lost is not None and program is None:
            lost.drop("has no effect without --executes")
    if venv is not None:
        _extend(entries, _RESOURCES, f"{venv.text()}::venv#archive", venv)
    if source is not None:
        _extend(entries, _RESOURCES, f"{source.text().rstrip('/')}/", source)
    if board is not None:
        _put(entries, _BOARD_LOGS, board.text(), board)


_TONY = Dialect("TonY", _KEYS, _read, recognise=_recognise, prefix=_PREFIX)
DIALECTS = {
    "tony": _TONY,
    "tony-flags": Dialect(
        "TonY's ClusterSubmitter",
        (Rows(("",), _FLAGS),),
        _read_command_line,
        prefix=FLAG,
        begin=_begin,
    ),
}
