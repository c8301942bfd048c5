"""Translate a job file of TonY: a Hadoop configuration (XML) with properties `tony.…`.

Also translate a command line: `… com.linkedin.tony.cli.ClusterSubmitter [flags]`. Its flags become
properties that take precedence over those in `--conf_file`.

Sources: tony-framework/TonY (TonyConfigurationKeys, TonyClient, TonySession, TFRuntime,
LocalizableResource, Utils, ClusterSubmitter).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from submit_tf_job.dialects import common
from submit_tf_job.dialects.command_line import PREFIX as FLAG
from submit_tf_job.dialects.command_line import each, open_file, place_of
from submit_tf_job.dialects.rows import Row, Rows, carry, rows
from submit_tf_job.dialects.translation import At, Dialect
from submit_tf_job.host.located.tree import Pair, Scalar, ScalarKind, Table, closest
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.job import TRAINING_ROLES

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
_MEMORY = common.MemoryFormat(  # Utils.parseMemoryString, TonyConfigurationKeys.DEFAULT_MEMORY
    "TonY", re.compile(r"([0-9]{1,12})(?:([mg]).*)?", re.IGNORECASE), 2048, "4g or 4096m"
)
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
    types: dict[str, _Type] = field(default_factory=dict)
    deciding: str | None = None
    framework: str = "tensorflow"
    gang: bool = True

    def get(self, *names: str) -> At:
        """Return the first of several properties that exists and is not empty."""
        found = [self.root.get(f"{_PREFIX}{name}") for name in names]
        return next((at for at in found if at.text()), self.root.get())

    def find(self, row: Row, type_name: str = "*") -> At:
        names = (name.removeprefix(_PREFIX) for name in row.spellings)
        return self.get(*(name.replace("*", type_name) for name in names))

    def listed(self, *names: str) -> list[str]:
        """Return the parts of several properties that are lists separated by commas."""
        return [part for name in names for part in self.root.get(f"{_PREFIX}{name}").parts()]

    @property
    def stops(self) -> list[str]:
        """The types whose failed tasks fail the job."""
        return self.listed(
            "application.stop-on-failure-jobtypes", "application.stop.on.failure.jobtypes"
        )

    @property
    def tracked(self) -> list[_Type]:
        """The types whose tasks the job waits for."""
        return [one for one in self.types.values() if not one.kind and one.name != "ps"]

    @property
    def has_tf_config(self) -> bool:
        """Whether the job's tasks get TF_CONFIG: TonY sets it for TensorFlow in gang mode, if a
        type is one of TensorFlow's roles.
        """
        trains = {"chief", "worker", "ps"} & {one.role for one in self.types.values()}
        return self.framework == "tensorflow" and self.gang and bool(trains)


def _recognise_format(root: At) -> str | None:
    """Return "XML" for a configuration that has a property of TonY; None for any other file."""
    return "XML" if any(key.startswith(_PREFIX) for key in root.keys) else None


def _read_job(root: At) -> None:
    job = _TonyJob(_with_variables_replaced(root))
    why = "there is no tony.application.name"
    common.read_name(job.get("application.name"), job.root, why)
    job.types = {one.name: one for one in _job_types(job)}
    if not job.types:
        job.root.fail("there is no task; say tony.worker.instances")
        return
    _read_strategy(job)
    _read_limits(job)
    _read_shared(job)
    for one in job.types.values():
        _read_type(job, one)
    _read_success(job)
    _drop_without_instances(job)


def _with_variables_replaced(root: At) -> At:
    """Replace `${name}` by the value of the property with that name, as Hadoop does.

    If no property has that name, `${name}` stays as it is in a command, because the shell may
    expand it; in any other value it is a problem.
    """
    values = {e.key: e.value.text for e in root.entries if isinstance(e.value, Scalar)}
    table = Table(root.entries, root.place)
    for entry in (entry for entry in root.entries if entry.key.startswith(_PREFIX)):
        text = _expanded_text(values.get(entry.key, ""), values)
        left = _SUBSTITUTED.search(text)
        if left and not entry.key.endswith("command"):
            at = At(entry.value, entry.key, entry.place, root.reading)
            at.fail(f"{clip(left[0])} is not a property of this file; write the value")
        elif text != values.get(entry.key):
            value = Scalar(ScalarKind.TEXT, text, entry.value.place)
            table = table.with_entry(Pair(entry.key, entry.place, value))
    return At(table, root.path, root.place, root.reading)


def _expanded_text(text: str, values: Mapping[str, str]) -> str:
    for _ in range(_MOST_EXPANSIONS):
        names = [name for name in _SUBSTITUTED.findall(text) if name in values]
        if not names or sum(len(values[name]) for name in names) > _LONGEST_VALUE:
            break
        text = _SUBSTITUTED.sub(lambda match: values.get(match[1], match[0]), text)
    return text


# --- types and roles ------------------------------------------------------------------------------


def _job_types(job: _TonyJob) -> Iterator[_Type]:
    """Iterate over the types that have instances; if a log directory is given, add the type for
    TensorBoard.
    """
    untracked, stops = job.listed("application.untracked.jobtypes"), job.stops
    sidecars = [_BOARD]
    if job.root.get("tony.application.sidecar.jobtypes"):
        sidecars = job.listed("application.sidecar.jobtypes")
    logs = job.get("application.tensorboard-log-dir")
    for name in _type_names(job.root):
        count = job.get(f"{name}.instances")
        if instances := count.whole():
            kind = "sidecar" if name in sidecars else ""
            if name in untracked and name != "ps":
                kind = "serves" if name in stops else "sidecar"
            yield _job_type(name, instances, count, kind)
        elif name != _BOARD:
            count.note("the type has no instances and is left out")
    if logs and not job.get(f"{_BOARD}.instances"):
        yield _job_type(_BOARD, 1, logs, "sidecar")


def _job_type(name: str, instances: int, at: At, kind: str) -> _Type:
    role = {"master": "chief"}.get(name, name)
    if role != name:
        at.drop("TF_CONFIG calls the task chief, where TonY calls it master")
    if kind and role in ("chief", "worker"):
        at.fail("a type that trains is waited for here; take it out of the untracked and sidecars")
    return _Type(name, role, instances, at, kind)


def _type_names(root: At) -> list[str]:
    found = (_TYPE_KEY.fullmatch(entry.key) for entry in root.entries)
    names = dict.fromkeys(match[1] for match in found if match and match[1] not in _NOT_TYPES)
    first = [name for name in TRAINING_ROLES if name in names]
    return [*first, *(name for name in names if name not in first)]


def _read_strategy(job: _TonyJob) -> None:
    framework, mode = job.get("application.framework"), job.get("application.distributed-mode")
    at = framework or job.root
    job.framework = framework.text().lower() or "tensorflow"
    if job.get("application.single-node").flag():
        job.framework = "standalone"
    job.gang = not mode or mode.text().upper() == "GANG"
    if framework and job.framework not in ("tensorflow", "standalone"):
        common.refuse_framework(framework)
    if not job.gang:
        mode.drop("the tasks start together here")
    roles = [one.role for one in job.types.values() if not one.kind]
    chief = job.get("chief.name")
    common.refuse_index(job.get("chief.index"))
    candidates = (chief.text(), "chief", "worker")
    job.deciding = next((role for role in candidates if role in roles), None)
    if job.deciding == chief.text():
        chief.put("deciding_role", job.deciding)
    single = len(roles) == 1 and job.deciding and job.framework == "standalone"
    if single and job.types[roles[0]].instances == 1:
        at.put("strategy", "single")
        return
    at.put("strategy", "custom")
    if job.framework == "tensorflow":
        at.put("variables", "tony")
    if job.has_tf_config:
        at.put("tf_config", "counts")
    others = [role for role in roles if role not in ("ps", "evaluator")]
    if job.deciding is None and others:
        job.deciding = others[0]
        job.types[others[0]].at.put("deciding_role", others[0])
    elif job.deciding is None:
        job.root.fail("nothing ends the job; add tony.worker.instances")


# --- limits of time -------------------------------------------------------------------------------


def _read_limits(job: _TonyJob) -> None:
    limit = job.get("application.timeout")
    each = job.get("task.executor.execution-timeout-ms", "worker.timeout")
    if each.whole():
        if sum(one.instances for one in job.tracked) == 1 and not limit:
            limit = each
        else:
            each.drop("only a job has a limit here: `lifetime`")
    if seconds := _whole_seconds(limit, 1000):
        limit.put("lifetime", f"{seconds}s", "counts from the submission here")
    units = {
        "container.allocation.timeout": 1000,
        "container.registration.timeout": 1000,
        "task.executor.registry-timeout-sec": 1,
    }
    waits = [
        (_whole_seconds(at, unit), at) for name, unit in units.items() if (at := job.get(name))
    ]
    longest, at = max(waits, key=lambda pair: pair[0], default=(0, job.root))
    if longest:
        at.put("start_timeout", f"{longest}s")
    pause, missed = job.get("task.heartbeat-interval-ms"), job.get("task.max-missed-heartbeats")
    if pause or missed:
        milliseconds = pause.whole(1, 1000) * missed.whole(1, 25)
        grace = f"{max(1, -(-milliseconds // 1000))}s"
        (pause or missed).put("grace", grace, "heartbeats times their interval")
    retries = job.get("am.retry-count")
    if retries.whole():
        retries.drop("a failed job is not run again; let a scheduler submit it again")


def _whole_seconds(at: At, unit: int) -> int:
    """Return an amount of time in whole seconds, rounded up; 0 for a limit that is switched off
    (with 0 or a negative number). `unit` is 1 for a value in seconds, 1000 for one in milliseconds.
    """
    if re.fullmatch(r"-[0-9]{1,15}", at.text()):
        return 0
    return -(-at.whole() // unit)


def _read_success(job: _TonyJob) -> None:
    """Put into the job spec for which tasks the job waits, and which of them may fail, as
    TonySession.updateSessionStatus does: for all tracked tasks, or, with a `finish_timeout`, for
    the deciding task and then for the others until that time.
    """
    waited = [one for one in job.tracked if one.role != job.deciding]
    limit = _finish_timeout(job)
    deciding = next((one for one in job.tracked if one.role == job.deciding), None)
    more = deciding is not None and deciding.instances > 1
    if limit:
        limit.put("finish_timeout", f"{limit.whole(1, 1)}s")
    elif deciding is not None and (waited or more):
        deciding.at.put("ends_with", "all-that-train", "TonY waits for all tracked tasks")
    evaluator = next((one for one in waited if one.role == "evaluator"), None)
    if evaluator is not None and not limit:
        evaluator.at.put("finish_timeout", _FOR_EVER, "the evaluator may take as long as it needs")
    strict = job.get(
        "application.fail-on-worker-failure-enabled",
        "application.fail.on.worker.failure.enabled",
        "application.failed_on_complete_with_failure.enabled",
    )
    stops = job.stops
    if strict.flag():
        return
    for one in waited:
        if one.instances > 1 and one.name not in stops:
            note = "a failed task of this type does not fail the job, as in TonY"
            one.at.put(f"roles.{one.role}.tolerate", one.instances - 1, note)
    if deciding is not None and more:
        deciding.at.drop("each task must succeed here; in TonY only task 0 must")


def _finish_timeout(job: _TonyJob) -> At:
    """Return the value for `finish_timeout`: the seconds that tasks of other types have to end
    after the tasks of a group that includes the deciding role. The cursor is false if there is
    none.
    """
    found = job.root.get()
    pattern = re.compile(r"tony\.application\.dependency\.([A-Za-z]+)\.timeout\.after\.([A-Za-z]+)")
    for match in filter(None, [pattern.fullmatch(entry.key) for entry in job.root.entries]):
        at = job.root.get(match[0])
        if at and job.deciding in job.listed(f"application.group.{match[2]}"):
            found = at
            at.note(f"the limit of {match[1]} is that of all tasks here", "finish_timeout")
        else:
            at.drop("only the end of the deciding role limits the other tasks here")
    return found


# --- what the types share, and each type ----------------------------------------------------------


def _read_shared(job: _TonyJob) -> None:
    carry((row for row in _JOB if "*" not in row.target), job.find)
    enabled = job.get("docker.enabled", "application.docker.enabled")
    if not enabled.flag():
        enabled.note("each task runs in a Docker container here")
    for found in (job.get("containers.envs"), job.get("execution.envs")):
        for part in found.text().split(","):
            name, _, value = part.partition("=")
            if name.strip():
                found.put("env", value, key=name.strip())
    roles = [one for one in job.types.values() if one.role in _READERS]
    others = len(job.types) > len(roles)
    _read_resources(job.get("containers.resources"), "files", roles, others)


def _read_resources(at: At, where: str, types: list[_Type], others: bool = False) -> None:
    """Read a comma list of `SOURCE[::NAME][#archive]` (LocalizableResource)."""
    for part in at.parts():
        unpack = part.lower().endswith("#archive")
        source, _, name = (part[: -len("#archive")] if unpack else part).partition("::")
        name = name or common.base_name(source)
        if not source:
            continue
        target = "." if source.endswith("/") else name
        if common.put_file(where, source, target, at, unpack=unpack):
            continue
        if not types:
            at.fail(
                f"{clip(source)} is fetched by chief, workers and evaluator alone; put it into "
                "the image"
            )
            continue
        # a file of a file system comes as an input, and is at its name before the command
        variable = common.put_input(name, source, at)
        for one in types:
            lines = common.link(variable, name, unpack=unpack)
            one.fetched += [line for line in lines if line not in one.fetched]
        if others:
            at.drop(f"{clip(source)} is fetched by chief, workers and evaluator alone")


def _read_type(job: _TonyJob, one: _Type) -> None:
    where = f"roles.{one.role}"
    one.at.put(f"{where}.instances", one.instances)
    if one.kind:
        one.at.put(f"{where}.kind", one.kind)
    _read_amounts(job, one, where)
    carry((*_TYPE, *_JOB_OF_TYPE), lambda row: job.find(row, one.name), one.role)
    if not job.get(f"docker.{one.name}.image"):
        job.root.need_image(where, "there is no Docker image, in which each task runs here")
    types = [one] if one.role in _READERS else []
    _read_resources(job.get(f"{one.name}.resources"), f"{where}.files", types)
    _read_command(job, one, where)
    _read_placement(job, one, where)


def _read_amounts(job: _TonyJob, one: _Type, where: str) -> None:
    memory, cores = job.get(f"{one.name}.memory"), job.get(f"{one.name}.vcores")
    mib = common.put_memory(where, memory, one.at, _MEMORY)
    if mib < _LEAST_MIB:
        memory.fail(f"{clip(memory.text())} is {mib} MiB to TonY; say {mib}g for GiB")
    default = 2 if one.name == _BOARD else 1  # TonyConfigurationKeys.DEFAULT_TB_VCORE
    (cores or one.at).put(f"{where}.cpus", cores.whole(1, 1) if cores else default)


def _read_command(job: _TonyJob, one: _Type, where: str) -> None:
    stated = job.get(f"{one.name}.command")
    found, note = stated or job.get("containers.command"), "behind the files that it needs"
    text = found.text()
    if one.name == _BOARD:
        logs = job.get("application.tensorboard-log-dir")
        one.at.put(f"{where}.ports.http", "auto")
        logs.put(f"{where}.env", logs.text(), key="TB_LOG_DIR")
        if logs and not stated:
            text = 'tensorboard --logdir "$TB_LOG_DIR" --bind_all --port "$TFJOB_PORT_HTTP"'
            found, note = logs, ""
    if found:
        common.put_command(f"{where}.command", one.fetched, text, found, note)
    else:
        why = "there is no tony.containers.command; TonY's command line had it as --executes"
        one.at.need_command(where, why)


def _read_placement(job: _TonyJob, one: _Type, where: str) -> None:
    names = (one.name, "containers", "application")
    found = job.get(*(f"{name}.placement-spec" for name in names))
    tags = job.listed(f"{one.name}.allocation-tags") or job.listed("containers.allocation-tags")
    match = _PLACEMENT.fullmatch(found.text().replace(" ", ""))
    if match is not None and match[3] in tags:
        key = {"notin": "spread", "in": "together"}[match[1]]
        found.put(f"{where}.placement.{key}", match[2])
    elif found:
        found.fail("supported: notin,node,TAG and in,node,TAG, where TAG belongs to the same type")


def _drop_without_instances(job: _TonyJob) -> None:
    """Report each property of a type that does not exist because it has no instances."""
    for entry in job.root.entries:
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


def _first_flag(words: Sequence[str]) -> int | None:
    """Return the index of the first flag: after the class, and after a `--` of gcloud; None if the
    command line does not name the class.
    """
    for index, word in enumerate(words):
        if _PROGRAM.fullmatch(word):
            rest = words[index + 1 :]
            return index + 1 + (rest.index("--") + 1 if "--" in rest else 0)
    return None


def _read_command_line(root: At) -> None:
    file = open_file(root.get("--conf_file") or _file_on_classpath(root))
    if file is None:
        return
    entries = {entry.key: entry for entry in file.entries}
    _add_properties(root, entries)
    _add_flags(root, entries)
    root.reading.translate(_TONY, root.reading.root(Table(tuple(entries.values()), root.place)))
    for flag in ("container_env", "shell_env"):
        for at in each(root, f"{FLAG}{flag}"):
            common.put_variable(at.text(), at)


def _file_on_classpath(root: At) -> At:
    """Return the path of the tony.xml that Java finds (TonyClient.initTonyConf); an absent value if
    no directory of the classpath has one.
    """
    words, base = root.reading.before, root.reading.base or Path()
    for index, word in enumerate(words[1:], 1):
        if words[index - 1] not in ("-cp", "-classpath", "--class-path"):
            continue
        for entry in filter(None, word.split(":")):
            path = posixpath.join(entry, "tony.xml")
            if (base / path).is_file():
                place = place_of(index)
                return At(Scalar(ScalarKind.TEXT, path, place), "-cp", place, root.reading)
    return root.get("--conf_file")


def _put_property(entries: dict[str, Pair], name: str, text: str, at: At) -> None:
    if at:
        entries[name] = Pair(name, at.place, Scalar(ScalarKind.TEXT, text, at.place))


def _extend_property(entries: dict[str, Pair], name: str, text: str, at: At) -> None:
    old = entries.get(name)
    known = old.value.text if old is not None and isinstance(old.value, Scalar) else ""
    _put_property(entries, name, ",".join(filter(None, [known, text])), at)


def _add_properties(root: At, entries: dict[str, Pair]) -> None:
    for entry in root.entries:
        name = entry.key.removeprefix("--conf ")
        if name == entry.key or not name.startswith(_PREFIX):
            continue
        at = root.get(entry.key)
        if _LISTS.fullmatch(name):
            _extend_property(
                entries, name, at.text(), At(entry.value, name, at.place, root.reading)
            )
        else:
            _put_property(entries, name, at.text(), at)


def _add_flags(root: At, entries: dict[str, Pair]) -> None:
    venv, source = root.get("--python_venv"), root.get("--src_dir")
    program, python = root.get("--executes"), root.get("--python_binary_path")
    parameters, board = root.get("--task_params"), root.get("--sidecar_tensorboard_log_dir")
    path = python.text()
    if venv and python and not path.startswith("/"):
        path = f"venv/{path}"
    words = [*([path] if python else []), program.text()]
    words += [parameters.text()] if parameters else []
    _put_property(entries, _COMMAND, " ".join(words), program)
    for lost in (python, parameters):
        if not program:
            lost.drop("has no effect without --executes")
    _extend_property(entries, _RESOURCES, f"{venv.text()}::venv#archive", venv)
    _extend_property(entries, _RESOURCES, f"{source.text().rstrip('/')}/", source)
    _put_property(entries, _BOARD_LOGS, board.text(), board)


_TONY = Dialect("TonY", _KEYS, _read_job, recognise=_recognise_format, prefix=_PREFIX)
DIALECTS = {
    "tony": _TONY,
    "tony-flags": Dialect(
        "TonY's ClusterSubmitter",
        (Rows(("",), _FLAGS),),
        _read_command_line,
        prefix=FLAG,
        begin=_first_flag,
    ),
}
