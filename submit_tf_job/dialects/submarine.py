"""Translate a YAML file for Apache Submarine's `job run -f`, and the command line `… job run --name
N …`, for its YARN services and for its TonY runtime. A key of the file and the flag with the same
meaning are one row.

Sources: apache/submarine 0.2 to 0.4 (RunJobCli, CliConstants, ParametersHolder, YamlConfigFile,
ResourceUtils, TensorFlowServiceSpec, Localizer, TonyUtils); Hadoop 3.2's hadoop-yarn-submarine.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from submit_tf_job.dialects import common
from submit_tf_job.dialects.command_line import PREFIX, each, open_file
from submit_tf_job.dialects.rows import Row, Rows, amount, carry, path_of, rows
from submit_tf_job.dialects.translation import At, Dialect
from submit_tf_job.dialects.yarnfile import RUNTIME, read_runtime
from submit_tf_job.host.located.tree import Scalar
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.kinds import as_label

_MXNET = "a scheduler is MXNet's; only TensorFlow is read"
_MORE = "Submarine reads it and does nothing; here it counts"


def _both_spellings(table: str) -> tuple[Row, ...]:
    """Parse rows for keys of the file; each key has the two spellings that Submarine reads
    (UnderscoreConverterPropertyUtils).
    """
    return tuple(replace(row, spellings=tuple(_spellings_of(row))) for row in rows(table))


def _spellings_of(row: Row) -> Iterator[str]:
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
= spec.framework, --framework= | tensorflow, or pytorch (`strategy: torch`); others are refused
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
= --conf tony.application.framework | tensorflow, or pytorch; others are refused
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


def _recognise_format(root: At) -> str | None:
    """Return "YAML" for a file of `job run -f`; None for another file."""
    spec = root.get("spec").keys & {"framework", "job_type", "jobType", "name"}
    is_job = spec and root.keys & {"configs", "roles"} and "apiVersion" not in root.keys
    return "YAML" if is_job else None


@dataclass
class _SubmarineJob:
    """The two sources of a job: flags, a file, or both.

    Attributes:
        root: The place at which problems of the whole job are reported.
        flags: The flags; absent if there is only a file.
        file: The file; absent if there are only flags.
        tony: Whether Submarine runs the job with TonY.
    """

    root: At
    flags: At
    file: At
    tony: bool = False
    _checked: set[str] = field(default_factory=set)

    def get(self, key: str) -> At:
        """Return the value of a key in the file, or of its flag."""
        return self.find(_ROWS[key])

    def find(self, row: Row) -> At:
        key = row.spellings[0]
        found = self._in_file(key)
        flags = [path_of(flag) for flag in row.spellings if flag.startswith(PREFIX)]
        stated = self.flags.get(*flags)
        if stated and found and key not in self._checked:
            self._checked.add(key)
            stated.fail(f"{found.path} in the file says it, too; leave one out")
        return stated or found

    def _in_file(self, key: str) -> At:
        keys = (spelling.removesuffix(".*") for spelling in _ROWS[key].spellings)
        return next(filter(None, map(self.file.find, keys)), self.file.get())

    @property
    def is_pytorch(self) -> bool:
        """Whether the job's framework is PyTorch."""
        keys = ("spec.framework", "--conf tony.application.framework")
        return any(self.get(key).text().lower() == "pytorch" for key in keys)

    @property
    def checkpoints(self) -> str:
        """The directory of checkpoints, as a word of a shell; Submarine has a default for this
        directory.
        """
        if stated := self.get("configs.checkpoint_path").text():
            return common.quoted(stated)
        name = as_label(self.get("spec.name").text())
        return f"hdfs:///user/$USER/submarine/jobs/{name}/staging/checkpoint_path"

    @property
    def board(self) -> At:
        """The flag, or the part of the file, that asks for TensorBoard."""
        flag = self.flags.get("--tensorboard")
        if flag and flag.text() != "false":
            return flag
        return self.file.get("tensorBoard", "tensor_board", "tensorboard")

    def texts(self, key: str, flag: str) -> Iterator[At]:
        """Iterate over the values of a flag that may be repeated, and of a list in the file."""
        yield from each(self.flags, flag)
        yield from self._in_file(key).items()

    def pairs(self, key: str, flag: str = "") -> Iterator[tuple[str, At]]:
        """Iterate over name and value of an environment."""
        for at in each(self.flags, flag):
            name, _, value = at.text().partition("=")
            if isinstance(at.node, Scalar):
                node = replace(at.node, text=value.strip())
                yield name.strip(), At(node, at.path, at.place, at.reading)
        yield from self._in_file(key).members()


def _read_tree(root: At) -> None:
    if not root.get("configs"):
        root.fail("there is no configs, which Submarine needs; say configs: {docker_image: …}")
    _read_job(_SubmarineJob(root, root.get(), root))


# --- the job --------------------------------------------------------------------------------------


@dataclass
class _Tasks:
    name: str
    kind: str  # Submarine's: worker, ps, tensorboard
    instances: int
    at: At


def _read_job(job: _SubmarineJob) -> None:
    common.read_name(job.get("spec.name"), job.root, "there is no name")
    for key in ("spec.framework", "--conf tony.application.framework"):
        framework = job.get(key)
        if framework and framework.text().lower() not in ("tensorflow", "pytorch"):
            common.refuse_framework(framework)
    roles = list(_job_roles(job))
    if not roles:
        job.root.fail("there is no task; say --num_workers 1, or --tensorboard")
        return
    _read_strategy(job, roles)
    carry((row for row in _JOB if not row.target.startswith("roles.")), job.find)
    _read_env(job.pairs("configs.envs.*", "--env"), "env", roles)
    _read_kerberos(job)
    job.root.reading.declared["inputs.input_path"] = ""  # of --input_path, which is put below
    links = [
        line
        for at in job.texts("configs.localizations", "--localization")
        for line in _read_localization(at, "files")
    ]
    links += _read_resource_files(job)
    for role in roles:
        _read_role(job, role, links)
    _read_input(job)
    for link in job.texts("configs.quicklinks", "--quicklink"):
        _read_quicklink(link, {role.name for role in roles})


def _job_roles(job: _SubmarineJob) -> Iterator[_Tasks]:
    """Iterate over the roles; in Submarine's YARN services, the first worker is the master, and
    becomes the chief.
    """
    workers, ps = job.get("roles.worker.replicas"), job.get("roles.ps.replicas")
    count = workers.whole() if workers else 1
    at = workers or job.root
    if job.tony and count:
        yield _Tasks("worker", "worker", count, at)
    elif count:
        yield _Tasks("chief", "worker", 1, at)
        if count > 1:
            yield _Tasks("worker", "worker", count - 1, at)
    if servers := ps.whole():
        if job.is_pytorch:
            ps.fail("PyTorch has no parameter servers; leave it out")
        yield _Tasks("ps", "ps", servers, ps)
        if count < 2 and not job.tony:
            ps.fail("Submarine refuses parameter servers with one worker; say --num_workers 2")
    if board := job.board:
        yield _Tasks("tensorboard", "tensorboard", 1, board)


def _read_strategy(job: _SubmarineJob, roles: list[_Tasks]) -> None:
    at = roles[0].at
    trains = [role for role in roles if role.kind != "tensorboard"]
    if not trains:
        at.put("strategy", "custom")
        at.put("deciding_role", "tensorboard", "TensorBoard alone runs until it is stopped")
        return
    at.put("variables", "tony" if job.tony else "submarine")
    if sum(role.instances for role in trains) == 1:
        at.put("strategy", "single")
    elif job.is_pytorch:
        at.put("strategy", "torch", "MASTER_ADDR, RANK and WORLD_SIZE; torchrun finds its own")
    elif job.tony:
        at.put("strategy", "custom")
        at.put("tf_config", "counts")
        at.put("ends_with", "all-that-train", "TonY waits for all workers")
    elif any(role.name == "ps" for role in roles):
        at.put("strategy", "estimator")
        at.put("legacy_master", True, "the first worker is the master, as in Submarine")
    else:
        at.put("strategy", "custom")
        job.root.put("tf_config", "none")
        at.note(
            "the first worker is the master; without parameter servers Submarine sets no "
            "TF_CONFIG, so say --set tf_config=counts where the program reads it",
            "tf_config",
        )


def _read_role(job: _SubmarineJob, role: _Tasks, links: list[str]) -> None:
    where = f"roles.{role.name}"
    role.at.put(f"{where}.instances", role.instances)
    of_role = (row for row in _JOB if row.target.startswith(f"{where}."))
    carry(_TASKS.get(role.kind) or of_role, job.find, role.name)
    if role.kind == "tensorboard":
        _read_board(job, where)
    else:
        _read_training(job, role, where, links)
    job.root.need_image(where)


def _read_training(job: _SubmarineJob, role: _Tasks, where: str, links: list[str]) -> None:
    own = f"roles.{role.kind}"
    _read_resources(job.get(f"{own}.resources"), where, role.at)
    for at in job.get(f"{own}.localizations").items():
        links = [*links, *_read_localization(at, f"{where}.files")]
    _read_env(job.pairs(f"{own}.envs.*"), f"{where}.env", [role])
    command = job.get(f"{own}.launch_cmd")
    if not command.text().strip():
        (command or role.at).need_command(where, f"there is no {role.kind}_launch_cmd")
        return
    note = "behind the links to the localized files"
    common.put_command(f"{where}.command", links, _with_paths_filled(command, job), command, note)


def _with_paths_filled(command: At, job: _SubmarineJob) -> str:
    """Return a text with %input_path% and similar placeholders replaced
    (AbstractLaunchCommand.replacePattern).
    """
    text = command.text()
    checkpoint = job.get("configs.checkpoint_path")
    values = {
        "input_path": job.get("configs.input_path"),
        "checkpoint_path": checkpoint,
        "saved_model_path": job.get("configs.saved_model_path") or checkpoint,
    }
    for name, at in values.items():
        if at:
            text = text.replace(f"%{name}%", at.text())
        elif f"%{name}%" in text and name == "input_path":
            command.fail(f"%{name}% is used, and there is no {name}; say --{name}")
        elif f"%{name}%" in text:
            text = text.replace(f"%{name}%", job.checkpoints)
            command.drop(f"%{name}% is {job.checkpoints}, Submarine's default; say --{name}")
    return text


def _read_input(job: _SubmarineJob) -> None:
    found = job.get("configs.input_path")
    if "://" in found.text():
        found.put("inputs.input_path.uri", found.text(), "is looked at before the job is submitted")
    for key in ("configs.checkpoint_path", "configs.saved_model_path"):
        job.get(key)  # stated without use is no loss


def _read_board(job: _SubmarineJob, where: str) -> None:
    logs, at = job.get("configs.checkpoint_path"), job.board
    resources = job.get("tensorBoard.resources")
    if not logs.text():
        at.drop(f"it shows {job.checkpoints}, Submarine's default; say --checkpoint_path")
    common.put_board(where, job.checkpoints, at, at)
    if resources:
        _read_resources(resources, where, at)
    else:  # CliConstants.TENSORBOARD_DEFAULT_RESOURCES
        at.put(f"{where}.memory", "4Gi", "4 GiB, Submarine's default")


def _read_resources(found: At, where: str, role: At) -> None:
    """Read `memory=4G,vcores=2,gpu=1` (ResourceUtils.parseResourcesString)."""
    amounts: dict[str, int] = {}
    for part in filter(None, map(str.strip, found.text().strip().strip("[]").split(","))):
        match = re.fullmatch(r"([^=\s]+)\s*=\s*([0-9]{1,12})\s?(\w*)", part)
        if match is None or match[3].lower() not in ("", "m", "g"):
            found.fail(f"{clip(part)} is not an amount such as memory=4G, vcores=2 or gpu=1")
            continue
        name = {"memory-mb": "memory", "yarn.io/gpu": "gpu"}.get(match[1], match[1])
        amounts[name] = common.mebibytes(match[2], match[3])
    for name, number in amounts.items():
        if name == "memory" and number:
            found.put(f"{where}.memory", amount(number))
        elif name == "vcores" and number:
            found.put(f"{where}.cpus", number)
        elif name == "gpu":
            found.put(f"{where}.gpus", number)
        elif name not in ("memory", "vcores"):
            found.fail(f"tasks ask for memory, vcores and gpu; {clip(name)} is not among them")
    if not amounts.get("memory"):
        (found or role).need_memory(where)


# --- environment, files, identity, links ----------------------------------------------------------

_HOMES = ("DOCKER_JAVA_HOME", "DOCKER_HADOOP_HDFS_HOME")


def _read_env(pairs: Iterator[tuple[str, At]], where: str, roles: list[_Tasks]) -> None:
    joined: dict[str, str] = {}
    for name, at in pairs:
        if name.startswith(RUNTIME):
            for role in roles:
                read_runtime(name, at, role.name)
            continue
        value = at.text()
        ours = name.removeprefix("DOCKER_") if name in _HOMES else name
        if ours != name:
            at.note(f"{ours}, which Submarine sets from it in the container", f"{where}.{ours}")
        if ours in joined:  # EnvironmentUtilities.appendToEnv, which also repeats a value
            known = joined[ours]
            value = known if value in known.split(":") else f"{known}:{value}"
        joined[ours] = value
        at.put(where, value, key=ours)


def _read_kerberos(job: _SubmarineJob) -> None:
    keytab, sent = job.get("security.keytab"), job.get("security.distribute_keytab")
    text, note = keytab.text(), ""
    if keytab and not sent.flag() and text.startswith("/"):
        text = f"file://{text}"
        note = "a file of every node, as there is no distribute_keytab"
    keytab.put("kerberos.keytab", text, note)


def _read_localization(at: At, where: str) -> list[str]:
    """Read `URI:PATH[:rw]` (Localization.parse); return the lines that link a fetched file."""
    text = at.text()
    if text.endswith(":ro"):
        at.fail("Submarine has no read-only localization; leave :ro out")
    uri, _, target = text.removesuffix(":rw").removesuffix(":ro").rpartition(":")
    if not uri or uri.endswith(("hdfs", "file", "s3a", "http", "https")):
        at.fail(f"expected URI:PATH, found {clip(text)}; the path is ./NAME or .")
        return []
    if target.startswith("/"):
        at.fail(
            f"{clip(target)} is absolute, and files go to the working directory; say ./NAME, or "
            "mount a directory of the nodes by --set mounts"
        )
        return []
    name = posixpath.normpath(target)
    name = common.base_name(uri) if name == "." else name
    return [] if common.put_file(where, uri, name, at) else _fetched_file(at, uri, name)


def _read_resource_files(job: _SubmarineJob) -> Iterator[str]:
    """Read TonY's list of `SOURCE[#archive]`; the list also contains the jars that Submarine itself
    needs.
    """
    at = job.flags.get("--conf tony.containers.resources")
    for part in at.parts():
        source = part.removesuffix("#archive")
        name = common.base_name(source)
        if re.fullmatch(r"(hadoop-)?(submarine|tony)[^/]*\.jar", name):
            at.note(f"{name} is not needed here")
        elif name and not common.put_file("files", source, name, at, unpack=part != source):
            yield from _fetched_file(at, source, name)


def _fetched_file(at: At, uri: str, name: str) -> list[str]:
    """Declare a fetched file, and return the lines that link it."""
    variable = common.put_input(name, uri, at)
    *directory, action = common.link(variable, name)
    return [*directory, f'[ -z "${variable}" ] || {action}']


def _read_quicklink(at: At, roles: set[str]) -> None:
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
    at.put(f"roles.{role}.ports", int(match[4]), key=label)
    if label != match[1]:
        at.note(f"{clip(match[1])}, as a name of a port", f"roles.{role}.ports.{label}")


# --- the command line -----------------------------------------------------------------------------


def _first_flag(words: Sequence[str]) -> int | None:
    """Return the index of the word after `job run`, where the flags begin; None if the command line
    has no `job run`.
    """
    found = [index for index, pair in enumerate(pairwise(words)) if pair == ("job", "run")]
    return found[0] + 2 if found else None


def _read_command_line(root: At) -> None:
    """Translate the flags, and the file that `-f` names."""
    file = open_file(root.get("--f"))
    if file is None:
        return
    tony = bool(root.get("--insecure")) or any(
        entry.key.startswith("--conf tony.") for entry in root.entries
    )
    _read_job(_SubmarineJob(root, root, file, tony))
    if file:
        root.reading.check(_FILE, file)


def _is_flag(key: str) -> bool:
    return key.startswith(PREFIX)


_FILE = Dialect(
    "Submarine",
    (_TABLE.spelled(lambda key: not _is_flag(key)),),
    _read_tree,
    recognise=_recognise_format,
)
DIALECTS = {
    "submarine": _FILE,
    "submarine-flags": Dialect(
        "Submarine's job run",
        (_TABLE.spelled(_is_flag),),
        _read_command_line,
        prefix=PREFIX,
        begin=_first_flag,
    ),
}
