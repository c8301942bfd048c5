"""Translate a YAML file of Apache Submarine's `job run -f`; `submarine_flags` shares the reader.

Sources: apache/submarine 0.2 to 0.4 (RunJobCli, ParametersHolder, YamlConfigFile, ResourceUtils,
TensorFlowServiceSpec, Localizer, TonyUtils).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from submit_tf_job.dialects import common
from submit_tf_job.dialects.command_line import each
from submit_tf_job.dialects.translation import (
    At,
    ForeignKeys,
    Translation,
    keys,
)
from submit_tf_job.dialects.yarnfile import RUNTIME, read_runtime
from submit_tf_job.host.located.nodes import Table, clip

__all__ = ["KEYS", "LABEL", "Stated", "read", "read_job", "recognise"]

LABEL = "Submarine"
_ONLY_MXNET = "a scheduler is MXNet's"
_RESOURCES = "`memory`, `cpus` and `gpus`, as in memory=4G,vcores=2,gpu=1"
_MORE = "Submarine reads it and does nothing; here it counts"

_TOP = """
= spec.name | `name`
. spec.job_type | says which kind of file it is
= spec.framework | tensorflow; others are refused
= configs.docker_image | `image`
= configs.input_path | %input_path% in commands; with a file system also `inputs.input_path`
= configs.checkpoint_path | %checkpoint_path% in commands, and what TensorBoard shows
= configs.saved_model_path | %saved_model_path% in commands
= configs.quicklinks | `ports` of the role
. configs.wait_job_finish | `submit` waits; `--detach` does not
= configs.envs.* | `env`
= configs.localizations | `files`; of a file system `inputs`, linked under its name
= configs.mounts | `mounts`
= scheduling.queue | `queue`
= security.keytab | `kerberos.keytab`
= security.principal | `kerberos.principal`
= security.distribute_keytab | true: the keytab is a file of this host; else one of the nodes
= tensorBoard.docker_image | `roles.tensorboard.image`
= tensorBoard.resources | `roles.tensorboard`: memory=4G,vcores=1 without
x roles.scheduler | a scheduler is MXNet's
"""
_ROLE = f"""
= replicas | `roles.*.instances`; the first worker becomes the chief, whose end is the job's end
= resources | {_RESOURCES}
= launch_cmd | `roles.*.command`
= docker_image | `roles.*.image`
= envs.* | `roles.*.env`; {_MORE}
= localizations | `roles.*.files`; {_MORE}
= mounts | `roles.*.mounts`; {_MORE}
"""


def _camel(path: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), path)


def _both(prefix: str, table: str) -> ForeignKeys:
    """Return rows in both spellings that Submarine reads (UnderscoreConverterPropertyUtils)."""
    lines = re.sub(r"\n +", " ", table.strip()).splitlines()
    more = []
    for line in lines:
        fate, path, rest = line.split(" ", 2)
        if _camel(path) != path:
            more.append(f"{fate} {_camel(path)} | as {path}")
        elif path.startswith("tensorBoard"):
            more.append(f"{fate} {path.replace('tensorBoard', 'tensorboard')} {rest}")
    return ForeignKeys((prefix,), keys("\n".join([*lines, *more])))


KEYS = (_both("", _TOP), _both("roles.worker.", _ROLE), _both("roles.ps.", _ROLE))

# flag → path in a file
PATHS = {
    "name": "spec.name",
    "framework": "spec.framework",
    "docker_image": "configs.docker_image",
    "input_path": "configs.input_path",
    "checkpoint_path": "configs.checkpoint_path",
    "saved_model_path": "configs.saved_model_path",
    "quicklink": "configs.quicklinks",
    "localization": "configs.localizations",
    "env": "configs.envs",
    "mounts": "configs.mounts",
    "queue": "scheduling.queue",
    "keytab": "security.keytab",
    "principal": "security.principal",
    "distribute_keytab": "security.distribute_keytab",
    "tensorboard_docker_image": "tensorBoard.docker_image",
    "tensorboard_resources": "tensorBoard.resources",
    **{
        flag.format(role): f"roles.{role}.{key}"
        for role in ("worker", "ps")
        for flag, key in (
            ("{}_resources", "resources"),
            ("{}_launch_cmd", "launch_cmd"),
            ("{}_docker_image", "docker_image"),
            ("{}_envs", "envs"),
            ("{}_localizations", "localizations"),
            ("{}_mounts", "mounts"),
        )
    },
    "num_workers": "roles.worker.replicas",
    "num_ps": "roles.ps.replicas",
}


def recognise(root: Table) -> str | None:
    """Return "YAML" for a file of `job run -f`; None for another tree."""
    found = root.find("spec")
    spec = found.value if found else None
    if root.find("apiVersion") or not isinstance(spec, Table):
        return None
    said = any(spec.find(key) for key in ("framework", "job_type", "jobType", "name"))
    return "YAML" if said and (root.find("configs") or root.find("roles")) else None


@dataclass
class Stated:
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

    def get(self, flag: str) -> At | None:
        """Return the value of a flag, or of its key in the file."""
        stated = self.flags.get(f"--{flag}") if self.flags else None
        found = self._in_file(PATHS[flag]) if flag in PATHS else None
        if stated is not None and found is not None and flag not in self._checked:
            self._checked.add(flag)
            stated.fail(f"{found.path} in the file says it, too; leave one out")
        return stated or found

    def _in_file(self, path: str) -> At | None:
        found = self.file
        for name in path.split("."):
            found = found.get(name, _camel(name), name.lower()) if found else None
        return found

    @property
    def board(self) -> At | None:
        """The flag, or the part of the file, that asks for TensorBoard."""
        flag = self.flags.get("--tensorboard") if self.flags else None
        if flag is not None and flag.text() != "false":
            return flag
        return self.file.get("tensorBoard", "tensor_board", "tensorboard") if self.file else None

    def texts(self, flag: str) -> Iterator[At]:
        """Iterate over the values of a flag that repeats, or of a list in the file."""
        if self.flags is not None:
            yield from each(self.flags, f"--{flag}")
        found = self._in_file(PATHS[flag])
        if found is not None:
            yield from found.items()

    def pairs(self, flag: str) -> Iterator[tuple[str, str, At]]:
        """Iterate over name and value of an environment."""
        for at in each(self.flags, f"--{flag}") if self.flags else ():
            name, _, value = at.text().partition("=")
            yield name.strip(), value.strip(), at
        found = self._in_file(PATHS[flag])
        for name, at in found.members() if found else ():
            yield name, at.text(), at


def read(root: At, reading: Translation) -> None:
    """Translate a file."""
    if root.get("configs") is None:
        root.fail("there is no configs, which Submarine needs; say configs: {docker_image: …}")
    read_job(Stated(None, root), reading)


# --- the job --------------------------------------------------------------------------------------


@dataclass
class _Tasks:
    name: str
    kind: str  # Submarine's: worker, ps, tensorboard
    instances: int
    at: At


def read_job(job: Stated, reading: Translation) -> None:
    """Translate a job that flags or a file state."""
    common.read_name(reading, job.get("name"), job.root, "there is no name")
    tony = job.flags.get("--conf tony.application.framework") if job.flags else None
    for framework in (job.get("framework"), tony):
        if framework is not None and framework.text().lower() != "tensorflow":
            common.refuse_framework(framework)
    roles = list(_roles(job))
    if not roles:
        job.root.fail("there is no task; say --num_workers 1, or --tensorboard")
        return
    _read_strategy(job, roles, reading)
    reading.copy("image", job.get("docker_image"))
    reading.copy("queue", job.get("queue"))
    _read_env(job, "env", "env", roles, reading)
    _read_mounts(job, "mounts", "mounts", reading)
    _read_kerberos(job, reading)
    reading.inputs["input_path"] = ""  # of --input_path, which is put below
    links = [_read_localization(at, "files", reading) for at in job.texts("localization")]
    links += _read_resource_files(job, reading)
    for role in roles:
        _read_role(job, role, [link for link in links if link], reading)
    _read_input(job, reading)
    for link in job.texts("quicklink"):
        _read_quicklink(link, {role.name for role in roles}, reading)


def _roles(job: Stated) -> Iterator[_Tasks]:
    """Iterate over the roles; in Submarine's YARN services the first worker is the master."""
    workers, ps = job.get("num_workers"), job.get("num_ps")
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


def _read_strategy(job: Stated, roles: list[_Tasks], reading: Translation) -> None:
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


def _read_role(job: Stated, role: _Tasks, links: list[str], reading: Translation) -> None:
    where = f"roles.{role.name}"
    reading.put(f"{where}.instances", role.instances, role.at)
    if role.kind == "tensorboard":
        _read_board(job, where, reading)
    else:
        _read_training(job, role, where, links, reading)
    image = job.get(f"{role.kind}_docker_image")
    if image is not None and image.text():
        reading.put(f"{where}.image", image.text(), image)
    else:
        reading.need(f"{where}.image", "image=IMAGE", job.root, "there is no Docker image")


def _read_training(
    job: Stated, role: _Tasks, where: str, links: list[str], reading: Translation
) -> None:
    _read_resources(job.get(f"{role.kind}_resources"), where, role.at, reading)
    own = job.get(f"{role.kind}_localizations") if job.file else None
    for at in own.items() if own else ():
        links = [*links, *filter(None, [_read_localization(at, f"{where}.files", reading)])]
    if job.file is not None:
        _read_env(job, f"{role.kind}_envs", f"{where}.env", [role], reading)
        _read_mounts(job, f"{role.kind}_mounts", f"{where}.mounts", reading)
    command = job.get(f"{role.kind}_launch_cmd")
    if command is None or not command.text().strip():
        reading.need(
            f"{where}.command",
            f"{where}.command=COMMAND",
            command or role.at,
            f"there is no {role.kind}_launch_cmd",
        )
        return
    text = _filled(command, job)
    reading.put(f"{where}.command", "\n".join([*links, text]), command)
    if links:
        command.note("behind the links to the localized files", f"{where}.command")


def _filled(command: At, job: Stated) -> str:
    """Replace %input_path% and the like (AbstractLaunchCommand.replacePattern)."""
    text = command.text()
    checkpoint = job.get("checkpoint_path")
    values = {
        "input_path": job.get("input_path"),
        "checkpoint_path": checkpoint,
        "saved_model_path": job.get("saved_model_path") or checkpoint,
    }
    for name, at in values.items():
        if f"%{name}%" in text:
            if at is None:
                command.fail(f"%{name}% is used, and there is no {name}; say --{name}")
            else:
                text = text.replace(f"%{name}%", at.text())
    return text


def _read_input(job: Stated, reading: Translation) -> None:
    found = job.get("input_path")
    if found is not None and "://" in found.text():
        reading.put("inputs.input_path.uri", found.text(), found)
        found.note("is looked at before the job is submitted", "inputs.input_path.uri")
    for flag in ("checkpoint_path", "saved_model_path"):
        job.get(flag)  # stated without use is no loss


def _read_board(job: Stated, where: str, reading: Translation) -> None:
    logs, at = job.get("checkpoint_path"), job.board or job.root
    resources = job.get("tensorboard_resources")
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
            reading.put(f"{where}.memory", common.amount(number), found)
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
    job: Stated, flag: str, where: str, roles: list[_Tasks], reading: Translation
) -> None:
    joined: dict[str, str] = {}
    for name, value, at in job.pairs(flag):
        if name.startswith(RUNTIME):
            for role in roles:
                read_runtime(name, value, at, f"roles.{role.name}", reading)
            continue
        ours = name.removeprefix("DOCKER_") if name in _HOMES else name
        if ours != name:
            at.note(f"{ours}, which Submarine sets from it in the container", f"{where}.{ours}")
        if ours in joined:  # EnvironmentUtilities.appendToEnv
            value = f"{joined[ours]}:{value}"
        joined[ours] = value
        reading.put(where, value, at, ours)


_HOMES = ("DOCKER_JAVA_HOME", "DOCKER_HADOOP_HDFS_HOME")


def _read_mounts(job: Stated, flag: str, where: str, reading: Translation) -> None:
    found = job.get(flag) if job.file else None
    for at in found.items() if found else ():
        reading.append(where, at.text(), at)


def _read_kerberos(job: Stated, reading: Translation) -> None:
    keytab, sent = job.get("keytab"), job.get("distribute_keytab")
    reading.copy("kerberos.principal", job.get("principal"))
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
    if common.is_local(uri):
        reading.append(where, {"src": common.local_path(uri), "dst": name}, at)
        return None
    return _fetched(at, uri, name, reading)


def _read_resource_files(job: Stated, reading: Translation) -> Iterator[str | None]:
    """Read TonY's list of `SOURCE[#archive]`, which also names the jars that Submarine needs."""
    at = job.flags.get("--conf tony.containers.resources") if job.flags else None
    for part in (part.strip() for part in at.text().split(",")) if at else ():
        source = part.removesuffix("#archive")
        name = common.base_name(source)
        if at is None or not name:
            continue
        if re.fullmatch(r"(hadoop-)?(submarine|tony)[^/]*\.jar", name):
            at.note(f"{name} is not needed here")
        elif not common.is_local(source):
            yield _fetched(at, source, name, reading)
        else:
            entry = {"src": common.local_path(source), "dst": name}
            unpack = {"unpack": True} if part != source else {}
            reading.append("files", {**entry, **unpack}, at)


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
    label = common.dns_label(match[1])
    if role not in roles:
        at.fail(f"there is no role {clip(match[2])}; the roles are {', '.join(sorted(roles))}")
        return
    reading.put(f"roles.{role}.ports", int(match[4]), at, label)
    if label != match[1]:
        at.note(f"{clip(match[1])}, as a name of a port", f"roles.{role}.ports.{label}")
