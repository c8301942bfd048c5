"""Translate a YAML file of Apache Submarine's `job run -f`, and its command line: `… job run --name
N …`, of its YARN services and of its TonY runtime. A key of the file and its flag are one row.

Sources: apache/submarine 0.2 to 0.4 (RunJobCli, CliConstants, ParametersHolder, YamlConfigFile,
ResourceUtils, TensorFlowServiceSpec, Localizer, TonyUtils); Hadoop 3.2's hadoop-yarn-submarine.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from submit_tf_job.dialects import common
from submit_tf_job.dialects.command_line import PREFIX, each, open_file
from submit_tf_job.dialects.rows import Row, Rows, amount, carry, path_of, rows
from submit_tf_job.dialects.translation import At, Dialect, Translation
from submit_tf_job.dialects.yarnfile import RUNTIME, read_runtime
from submit_tf_job.host.located.nodes import Scalar, Table, clip
from submit_tf_job.jobspec.kinds import as_label

__all__ = ["DIALECTS"]

_MXNET = "a scheduler is MXNet's; only TensorFlow is read"
_MORE = "Submarine reads it and does nothing; here it counts"


def _both_spellings(table: str) -> tuple[Row, ...]:
    """Parse rows whose keys of the file have both spellings that Submarine reads
    (UnderscoreConverterPropertyUtils).
    """
    return tuple(replace(row, spellings=tuple(_spellings(row))) for row in rows(table))


def _spellings(row: Row) -> Iterator[str]:
    for key in row.spellings:
        yield key
        if not key.startswith(PREFIX):
            camel = re.sub(r"_([a-z])", lambda match: match[1].upper(), key)
            lower = [k.replace("tensorBoard", "tensorboard") for k in (key, camel)]
            yield from dict.fromkeys(k for k in (camel, *lower) if k != key)


_JOB = _both_spellings(f"""
= spec.name, --name= | `name`, in small letters and with hyphens
. spec.job_type | says which kind of file it is
= --f= | the YAML file; a value in both is refused
= spec.framework, --framework= | tensorflow; others are refused
= configs.docker_image, --docker_image= -> image
= configs.input_path, --input_path= | %input_path% in commands; with a file system also
    `inputs.input_path`
= configs.checkpoint_path, --checkpoint_path= | %checkpoint_path% in commands, and what TensorBoard
    shows
= configs.saved_model_path, --saved_model_path= | %saved_model_path% in commands
= configs.quicklinks, --quicklink=* | `ports` of the role, the label in small letters
. configs.wait_job_finish, --wait_job_finish | `submit` waits; `--detach` does not
= configs.envs.*, --env=* | `env`; YARN_CONTAINER_RUNTIME_* as in a Yarnfile; DOCKER_JAVA_HOME →
    JAVA_HOME
= configs.localizations, --localization=* | `files`; of a file system `inputs`, linked under its
    name before the command
= configs.mounts -> mounts words
= scheduling.queue, --queue= -> queue
= security.keytab, --keytab= | `kerberos.keytab`
= security.principal, --principal= -> kerberos.principal
= security.distribute_keytab, --distribute_keytab | true: the keytab is a file of this host; else
    one of the nodes
= --tensorboard | the sidecar tensorboard, which shows checkpoint_path
= tensorBoard.docker_image, --tensorboard_docker_image= -> roles.tensorboard.image
= tensorBoard.resources, --tensorboard_resources= | `roles.tensorboard`: memory=4G,vcores=1 without
= --insecure | chooses Submarine's TonY runtime: workers stay workers, `variables: tony`
. --verbose | say `-v`
. --h, --help | prints Submarine's help
= --conf tony.containers.resources | `files`, but for jars of Submarine and TonY; `#archive`
    unpacks; of a file system `inputs`, linked under its name
= --conf tony.application.framework | tensorflow; others are refused
. --conf tony.application.** | says how TonY runs
~ --conf tony.** | TonY's property; say --set with a key of the job spec, such as roles.chief.memory
~ --conf ** | a setting of Submarine itself
x roles.scheduler, --num_schedulers=, --scheduler_resources=, --scheduler_docker_image=,
    --scheduler_launch_cmd= | {_MXNET}
""")
_TASKS = {
    role: _both_spellings(f"""
= roles.{role}.replicas, --num_{plural}= | `roles.*.instances`{more}
= roles.{role}.resources, --{role}_resources= | `memory`, `cpus` and `gpus`, as in
    memory=4G,vcores=2,gpu=1
= roles.{role}.launch_cmd, --{role}_launch_cmd= | `roles.*.command`
= roles.{role}.docker_image, --{role}_docker_image= -> roles.*.image
= roles.{role}.envs.* | `roles.*.env`; {_MORE}
= roles.{role}.localizations | `roles.*.files`; {_MORE}
= roles.{role}.mounts -> roles.*.mounts words | {_MORE}
""")
    for role, plural, more in (
        (
            "worker",
            "workers",
            "; the first worker becomes the chief, whose end is the job's end, but in the TonY "
            "runtime (--insecure, --conf tony.…). 0: TensorBoard alone",
        ),
        ("ps", "ps", ""),
    )
}
_TABLE = Rows(("",), (*_JOB, *_TASKS["worker"], *_TASKS["ps"]))
# a key without the mark of a flag that takes values → its row
_ROWS = {path_of(key): row for row in _TABLE.rows for key in row.spellings}


def _recognise(root: Table) -> str | None:
    """Return "YAML" for a file of `job run -f`; None for another tree."""
    found = root.find("spec")
    spec = found.value if found else None
    if root.find("apiVersion") or not isinstance(spec, Table):
        return None
    said = any(spec.find(key) for key in ("framework", "job_type", "jobType", "name"))
    return "YAML" if said and (root.find("configs") or root.find("roles")) else None


@dataclass
class _SubmarineJob:
    """What a job states: flags, a file, or both.

    Attributes:
        flags: The flags; None where there is only a file.
        file: The file; None where there are only flags.
        tony: Whether Submarine runs the job by TonY.
    """

    flags: At | None
    file: At | None
    tony: bool = False
    _checked: set[str] = field(default_factory=set)

    @property
    def root(self) -> At:
        """What the whole job is reported at."""
        root = self.flags or self.file
        if root is None:
            raise AssertionError("neither flags nor a file")
        return root

    def get(self, key: str) -> At | None:
        """Return the value of a key in the file, or of its flag."""
        return self.find(_ROWS[key])

    def find(self, row: Row) -> At | None:
        """Return the value of a row."""
        key = row.spellings[0]
        found = self._in_file(key)
        flags = [path_of(flag) for flag in row.spellings if flag.startswith(PREFIX)]
        stated = self.flags.get(*flags) if self.flags else None
        if stated is not None and found is not None and key not in self._checked:
            self._checked.add(key)
            stated.fail(f"{found.path} in the file says it, too; leave one out")
        return stated or found

    def _in_file(self, key: str) -> At | None:
        keys = (spelling.removesuffix(".*") for spelling in _ROWS[key].spellings)
        found = (self.file.find(key) for key in keys) if self.file else ()
        return next((value for value in found if value is not None), None)

    @property
    def board(self) -> At | None:
        """The flag, or the part of the file, that asks for TensorBoard."""
        flag = self.flags.get("--tensorboard") if self.flags else None
        if flag is not None and flag.text() != "false":
            return flag
        return self.file.get("tensorBoard", "tensor_board", "tensorboard") if self.file else None

    def texts(self, key: str, flag: str) -> Iterator[At]:
        """Iterate over the values of a flag that repeats, and of a list in the file."""
        if self.flags is not None:
            yield from each(self.flags, flag)
        found = self._in_file(key)
        if found is not None:
            yield from found.items()

    def pairs(self, key: str, flag: str = "") -> Iterator[tuple[str, At]]:
        """Iterate over name and value of an environment."""
        for at in each(self.flags, flag) if self.flags else ():
            name, _, value = at.text().partition("=")
            if isinstance(at.node, Scalar):
                node = replace(at.node, text=value.strip())
                yield name.strip(), At(node, at.path, at.place, at.reading)
        found = self._in_file(key)
        if found is not None:
            yield from found.members()


def _read(root: At, reading: Translation) -> None:
    """Translate a file."""
    if root.get("configs") is None:
        root.fail("there is no configs, which Submarine needs; say configs: {docker_image: …}")
    _read_job(_SubmarineJob(None, root), reading)


# --- the job --------------------------------------------------------------------------------------


@dataclass
class _Tasks:
    name: str
    kind: str  # Submarine's: worker, ps, tensorboard
    instances: int
    at: At


def _read_job(job: _SubmarineJob, reading: Translation) -> None:
    """Translate a job that flags or a file state."""
    common.read_name(reading, job.get("spec.name"), job.root, "there is no name")
    for key in ("spec.framework", "--conf tony.application.framework"):
        framework = job.get(key)
        if framework is not None and framework.text().lower() != "tensorflow":
            common.refuse_framework(framework)
    roles = list(_roles(job))
    if not roles:
        job.root.fail("there is no task; say --num_workers 1, or --tensorboard")
        return
    _read_strategy(job, roles, reading)
    of_job = (row for row in _JOB if not row.target.startswith("roles."))
    carry(reading, of_job, job.find)
    _read_env(job.pairs("configs.envs.*", "--env"), "env", roles, reading)
    _read_kerberos(job, reading)
    reading.inputs["input_path"] = ""  # of --input_path, which is put below
    links = [
        _read_localization(at, "files", reading)
        for at in job.texts("configs.localizations", "--localization")
    ]
    links += _read_resource_files(job, reading)
    for role in roles:
        _read_role(job, role, [link for link in links if link], reading)
    _read_input(job, reading)
    for link in job.texts("configs.quicklinks", "--quicklink"):
        _read_quicklink(link, {role.name for role in roles}, reading)


def _roles(job: _SubmarineJob) -> Iterator[_Tasks]:
    """Iterate over the roles; in Submarine's YARN services the first worker is the master."""
    workers, ps = job.get("roles.worker.replicas"), job.get("roles.ps.replicas")
    count = workers.whole() if workers else 1
    servers = (ps.whole() if ps else 0) or 0
    at = workers or job.root
    if job.tony and count:
        yield _Tasks("worker", "worker", count, at)
    elif count:
        yield _Tasks("chief", "worker", 1, at)
        if count > 1:
            yield _Tasks("worker", "worker", count - 1, at)
    if servers and ps is not None:
        yield _Tasks("ps", "ps", servers, ps)
        if (count or 0) < 2 and not job.tony:
            ps.fail("Submarine refuses parameter servers with one worker; say --num_workers 2")
    board = job.board
    if board is not None:
        yield _Tasks("tensorboard", "tensorboard", 1, board)


def _read_strategy(job: _SubmarineJob, roles: list[_Tasks], reading: Translation) -> None:
    at, names = job.root, [role.name for role in roles]
    first = roles[0]
    trains = [role for role in roles if role.kind != "tensorboard"]
    if not trains:
        reading.put("strategy", "custom", first.at)
        reading.put("deciding_role", "tensorboard", first.at)
        first.at.note("TensorBoard alone runs until it is stopped", "deciding_role")
        return
    reading.put("variables", "tony" if job.tony else "submarine", first.at)
    if sum(role.instances for role in trains) == 1:
        reading.put("strategy", "single", first.at)
    elif job.tony:
        reading.put("strategy", "custom", first.at)
        reading.put("tf_config", "counts", first.at)
        reading.put("ends_with", "all-that-train", first.at)
        first.at.note("TonY waits for all workers", "ends_with")
    elif "ps" in names:
        reading.put("strategy", "estimator", first.at)
        reading.put("legacy_master", True, first.at)
        first.at.note("the first worker is the master, as in Submarine", "legacy_master")
    else:
        reading.put("strategy", "custom", first.at)
        reading.put("tf_config", "none", at)
        first.at.note(
            "the first worker is the master; without parameter servers Submarine sets no "
            "TF_CONFIG, so say --set tf_config=counts where the program reads it",
            "tf_config",
        )


def _read_role(job: _SubmarineJob, role: _Tasks, links: list[str], reading: Translation) -> None:
    where = f"roles.{role.name}"
    reading.put(f"{where}.instances", role.instances, role.at)
    of_role = (row for row in _JOB if row.target.startswith(f"{where}."))
    carry(reading, _TASKS.get(role.kind) or of_role, job.find, role.name)
    if role.kind == "tensorboard":
        _read_board(job, where, reading)
    else:
        _read_training(job, role, where, links, reading)
    reading.need_image(where, job.root)


def _read_training(
    job: _SubmarineJob, role: _Tasks, where: str, links: list[str], reading: Translation
) -> None:
    _read_resources(job.get(f"roles.{role.kind}.resources"), where, role.at, reading)
    own = f"roles.{role.kind}"
    found = job.get(f"{own}.localizations")
    for at in found.items() if found else ():
        links = [*links, *filter(None, [_read_localization(at, f"{where}.files", reading)])]
    _read_env(job.pairs(f"{own}.envs.*"), f"{where}.env", [role], reading)
    command = job.get(f"roles.{role.kind}.launch_cmd")
    if command is None or not command.text().strip():
        reading.need_command(where, command or role.at, f"there is no {role.kind}_launch_cmd")
        return
    text = _filled(command, job)
    reading.put(f"{where}.command", "\n".join([*links, text]), command)
    if links:
        command.note("behind the links to the localized files", f"{where}.command")


def _filled(command: At, job: _SubmarineJob) -> str:
    """Replace %input_path% and the like (AbstractLaunchCommand.replacePattern)."""
    text = command.text()
    checkpoint = job.get("configs.checkpoint_path")
    values = {
        "input_path": job.get("configs.input_path"),
        "checkpoint_path": checkpoint,
        "saved_model_path": job.get("configs.saved_model_path") or checkpoint,
    }
    for name, at in values.items():
        if f"%{name}%" in text:
            if at is None:
                command.fail(f"%{name}% is used, and there is no {name}; say --{name}")
            else:
                text = text.replace(f"%{name}%", at.text())
    return text


def _read_input(job: _SubmarineJob, reading: Translation) -> None:
    found = job.get("configs.input_path")
    if found is not None and "://" in found.text():
        reading.put("inputs.input_path.uri", found.text(), found)
        found.note("is looked at before the job is submitted", "inputs.input_path.uri")
    for key in ("configs.checkpoint_path", "configs.saved_model_path"):
        job.get(key)  # stated without use is no loss


def _read_board(job: _SubmarineJob, where: str, reading: Translation) -> None:
    logs, at = job.get("configs.checkpoint_path"), job.board or job.root
    resources = job.get("tensorBoard.resources")
    if logs is None or not logs.text():
        at.fail("TensorBoard shows checkpoint_path, and there is none; say --checkpoint_path")
        return
    common.put_board(reading, where, logs, at, at)
    if resources is not None:
        _read_resources(resources, where, at, reading)
    else:  # CliConstants.TENSORBOARD_DEFAULT_RESOURCES
        reading.put(f"{where}.memory", "4Gi", at)
        at.note("4 GiB, Submarine's default", f"{where}.memory")


def _read_resources(found: At | None, where: str, role: At, reading: Translation) -> None:
    """Read `memory=4G,vcores=2,gpu=1` (ResourceUtils.parseResourcesString)."""
    text = found.text().strip().strip("[]") if found else ""
    amounts: dict[str, int] = {}
    for part in (part.strip() for part in text.split(",")):
        match = re.fullmatch(r"([^=\s]+)\s*=\s*([0-9]{1,12})\s?(\w*)", part)
        if match is None or match[3].lower() not in ("", "m", "g"):
            if found is not None and part:
                found.fail(f"{clip(part)} is not an amount such as memory=4G, vcores=2 or gpu=1")
            continue
        name = {"memory-mb": "memory", "yarn.io/gpu": "gpu"}.get(match[1], match[1])
        amounts[name] = common.mebibytes(match[2], match[3])
    for name, number in amounts.items():
        if found is None:
            continue
        if name == "memory" and number:
            reading.put(f"{where}.memory", amount(number), found)
        elif name == "vcores" and number:
            reading.put(f"{where}.cpus", number, found)
        elif name == "gpu":
            reading.put(f"{where}.gpus", number, found)
        elif name not in ("memory", "vcores"):
            found.fail(f"tasks ask for memory, vcores and gpu; {clip(name)} is not among them")
    if not amounts.get("memory"):
        reading.need_memory(where, found or role)


# --- environment, files, identity, links ----------------------------------------------------------


def _read_env(
    pairs: Iterator[tuple[str, At]], where: str, roles: list[_Tasks], reading: Translation
) -> None:
    joined: dict[str, str] = {}
    for name, at in pairs:
        if name.startswith(RUNTIME):
            for role in roles:
                read_runtime(name, at, role.name, reading)
            continue
        value = at.text()
        ours = name.removeprefix("DOCKER_") if name in _HOMES else name
        if ours != name:
            at.note(f"{ours}, which Submarine sets from it in the container", f"{where}.{ours}")
        if ours in joined:  # EnvironmentUtilities.appendToEnv
            value = f"{joined[ours]}:{value}"
        joined[ours] = value
        reading.put(where, value, at, ours)


_HOMES = ("DOCKER_JAVA_HOME", "DOCKER_HADOOP_HDFS_HOME")


def _read_kerberos(job: _SubmarineJob, reading: Translation) -> None:
    keytab, sent = job.get("security.keytab"), job.get("security.distribute_keytab")
    if keytab is not None:
        text = keytab.text()
        if not (sent is not None and sent.flag()) and text.startswith("/"):
            text = f"file://{text}"
            keytab.note("a file of every node, as there is no distribute_keytab", "kerberos.keytab")
        reading.put("kerberos.keytab", text, keytab)


def _read_localization(at: At, where: str, reading: Translation) -> str | None:
    """Read `URI:PATH[:rw]` (Localization.parse); return the line that links a fetched file."""
    text = at.text()
    if text.endswith(":ro"):
        at.fail("Submarine has no read-only localization; leave :ro out")
    uri, _, target = text.removesuffix(":rw").removesuffix(":ro").rpartition(":")
    if not uri or uri.endswith(("hdfs", "file", "s3a", "http", "https")):
        at.fail(f"expected URI:PATH, found {clip(text)}; the path is ./NAME or .")
        return None
    if target.startswith("/"):
        at.fail(
            f"{clip(target)} is absolute, and files go to the working directory; say ./NAME, or "
            "mount a directory of the nodes by --set mounts"
        )
        return None
    name = posixpath.normpath(target)
    name = common.base_name(uri) if name == "." else name
    is_here = common.put_file(reading, where, uri, name, at)
    return None if is_here else _fetched(at, uri, name, reading)


def _read_resource_files(job: _SubmarineJob, reading: Translation) -> Iterator[str | None]:
    """Read TonY's list of `SOURCE[#archive]`, which also names the jars that Submarine needs."""
    at = job.flags.get("--conf tony.containers.resources") if job.flags else None
    for part in (part.strip() for part in at.text().split(",")) if at else ():
        source = part.removesuffix("#archive")
        name = common.base_name(source)
        if at is None or not name:
            continue
        if re.fullmatch(r"(hadoop-)?(submarine|tony)[^/]*\.jar", name):
            at.note(f"{name} is not needed here")
        elif not common.put_file(reading, "files", source, name, at, unpack=part != source):
            yield _fetched(at, source, name, reading)


def _fetched(at: At, uri: str, name: str, reading: Translation) -> str:
    key = reading.put_input(name, uri, at)
    variable = f"TFJOB_INPUT_{key.upper()}"
    lines = (*common.make_parent(name), f'[ -z "${variable}" ] || {common.link(variable, name)}')
    return "\n".join(lines)


def _read_quicklink(at: At, roles: set[str], reading: Translation) -> None:
    """Read `LABEL=http://master-0:7070` (Quicklink.parse)."""
    match = re.fullmatch(r"([^=]+)=https?://([a-z]+)-([0-9]+):([0-9]{1,5})", at.text())
    if match is None:
        at.fail(f"expected LABEL=http://ROLE-0:PORT, found {clip(at.text())}")
        return
    role = {"master": "chief"}.get(match[2], match[2])
    label = as_label(match[1])
    if role not in roles:
        at.fail(f"there is no role {clip(match[2])}; the roles are {', '.join(sorted(roles))}")
        return
    reading.put(f"roles.{role}.ports", int(match[4]), at, label)
    if label != match[1]:
        at.note(f"{clip(match[1])}, as a name of a port", f"roles.{role}.ports.{label}")


# --- the command line -----------------------------------------------------------------------------


def _begin(words: Sequence[str]) -> int | None:
    """Return the index of the first flag: behind `job run`."""
    for index in range(len(words) - 1):
        if (words[index], words[index + 1]) == ("job", "run"):
            return index + 2
    return None


def _read_command_line(root: At, reading: Translation) -> None:
    """Translate the flags, and the file that `-f` names."""
    stated = root.get("--f")
    file = open_file(stated) if stated else None
    if stated is not None and file is None:
        return
    names = [entry.key for entry in root.node.entries] if isinstance(root.node, Table) else []
    tony = bool(root.get("--insecure")) or any(re.match(r"--conf tony\.", n) for n in names)
    _read_job(_SubmarineJob(root, file, tony), reading)
    if file is not None:
        reading.check(_FILE, file)


def _is_flag(key: str) -> bool:
    return key.startswith(PREFIX)


_FILE = Dialect(
    "Submarine",
    (_TABLE.spelled(lambda key: not _is_flag(key)),),
    _read,
    recognise=_recognise,
)
DIALECTS = {
    "submarine": _FILE,
    "submarine-flags": Dialect(
        "Submarine's job run",
        (_TABLE.spelled(_is_flag),),
        _read_command_line,
        prefix=PREFIX,
        begin=_begin,
    ),
}
