"""Translate a command line of Hbox (formerly XLearning): `hbox-submit [flags] command args…`.

Sources: Qihoo360/hbox (ClientArguments, HboxConfiguration, HboxContainer, doc/submit.md,
doc/configure.md).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from submit_tf_job.dialects import common
from submit_tf_job.dialects.command_line import COMMAND, PREFIX, after_program, each
from submit_tf_job.dialects.rows import Row, Rows, carry, path_of, rows
from submit_tf_job.dialects.translation import At, Dialect
from submit_tf_job.host.quoting import clip

_STREAM = "a program gets files here, not records; let it read them"
_AM = "is about Hbox's own processes"
_BOARD = "TensorBoard runs in a sidecar here, which needs a --board-logdir on HDFS"
_RETRY = "a failed job is not run again; let a scheduler submit it again"

_JOB = rows(f"""
= --app-name= | `name`, in small letters and with hyphens
= --app-type= | tensorflow → `strategy: custom` with `tf_config: counts` and `variables: hbox`; one
    task → `single`; types of other frameworks are refused
= --worker-num=, --conf *.worker.num | `roles.worker.instances`
= --ps-num=, --conf *.ps.num | `roles.ps.instances`
= --chiefworker-memory=, --conf *.chief.worker.memory | worker 0 becomes the role chief, which
    TF_CONFIG then has
= --evaluatorworker-memory=, --conf *.evaluator.worker.memory | `roles.evaluator.memory`
= --tf-evaluator=, --conf *.tf.evaluator | true: the last worker becomes the role evaluator
= --files= | `files`
= --archiveFiles= | `files` with `unpack`; `#NAME` is the directory
. --jars= | jars of Hbox's Java programs
= --cacheFile= | `inputs`, linked as `#NAME` before the command
= --cacheArchive= | `inputs`, unpacked as `#NAME` before the command
= --input=* | `inputs`, each task its share of the files, linked as `#NAME` before the
    command; several paths for one name are refused
= --s3input=* | as --input
= --input-strategy=, --conf *.input.strategy | DOWNLOAD, the default; PLACEHOLDER is a warning,
    STREAM is refused
= --output=* | `outputs` with `upload`, linked as `#NAME` before the command
= --s3output=* | as --output
= --output-strategy=, --conf *.output.strategy | UPLOAD, the default; STREAM is refused
= --output-index= | 0: the deciding task's output alone; without, that of every task that wrote
= --queue=, --conf *.app.queue -> queue
= --priority= | `priority`, 0 (DEFAULT) to 5 (VERY_HIGH)
~ --duration= | says how long another system lends nodes; say `lifetime`
= --board-enable=, --conf *.tf.board.enable | true with a --board-logdir on HDFS → the sidecar
    tensorboard; else a warning
= --board-logdir=, --conf *.tf.board.log.dir | what the sidecar tensorboard shows;
    without --board-enable a warning
. --board-index=, --board-historydir=, --board-reloadinterval= | {_BOARD}
~ --board-modelpb=, --board-cacheTimeout= | VisualDL is not started here
= --hbox-cmd=, --launch-cmd= | `command`, split at blanks
= {COMMAND} | `command`: what follows the flags
~ --user-path= | say PATH in the command
. --cluster= | the settings say which cluster
. --driver-memory=, --driver-cores= | {_AM}
~ --isRenameInputFile= | files keep their names
. --create-containerid-dir= | each task's output has a directory of its own
. --user-classpath-first= | {_AM}
~ --host-local-enable= | YARN chooses the nodes
x --inputformat-enable=, --outputformat-enable=, --inputformat-shuffle=, --inputformat=,
    --outputformat=, --stream-epoch= | {_STREAM}
. --help | prints Hbox's help
. --version | prints Hbox's version
= --conf *.docker.image -> image
. --conf *.container.type | each task runs in Docker here
= --conf *.container.env.** | `env`
~ --conf *.app.max.attempts, --conf *.worker.mem.autoscale, --conf *.ps.mem.autoscale | {_RETRY}
~ --conf *.container.maxFailures.rate | each task must succeed here; say `tolerate` of the role
= --conf *.app.priority | `priority`
~ --conf *.output.local.dir | name the directory behind `#` of --output
~ --conf *.docker.** | say `docker`, `image` or `mounts`
. --conf *.am.**, --conf *.driver.**, --conf *.history.** | {_AM}
. --conf *.tf.board.** | {_BOARD}
. --conf *.container.heartbeat.** | {_AM}
. --conf *.staging.dir | the settings say where files are staged
~ --conf ** | a setting of Hbox itself
""")
# size → the rows of the roles that have it: worker also of chief and evaluator
_SIZES = {
    size: rows(f"""
= --{size}-memory=, --conf *.{size}.memory | `roles.*.memory`; 1024 MiB without
= --{size}-cores=, --conf *.{size}.cores -> roles.*.cpus whole
= --{size}-gpus=, --conf *.{size}.gpus -> roles.*.gpus whole
= --conf *.{size}.nodeLabelExpression -> roles.*.placement.node_label{more}
""")
    for size, more in (("worker", " | of all roles but ps"), ("ps", ""))
}
_TABLE = Rows(("",), (*_SIZES["worker"], *_SIZES["ps"], *_JOB))
# a flag → its row
_ROWS = {path_of(key): row for row in _TABLE.rows for key in row.spellings}
# the short names of ClientArguments
_ABBREVIATIONS = {
    re.sub(r"-([a-z])", lambda match: match[1].upper(), flag): flag
    for flag in (key.removeprefix(PREFIX) for key in _ROWS)
    if "-" in flag and " " not in flag
} | {
    "chiefWorkerMemory": "chiefworker-memory",
    "evaluatorWorkerMemory": "evaluatorworker-memory",
    "boardReloadInterval": "board-reloadinterval",
    "boardLogDir": "board-logdir",
    "boardHistoryDir": "board-historydir",
    "boardModelPB": "board-modelpb",
    "inputFormatClass": "inputformat",
    "outputFormatClass": "outputformat",
    "createContaineridDir": "create-containerid-dir",
    "worker-gcores": "worker-gpus",  # XLearning's
    "ps-gcores": "ps-gpus",
}
# types whose tasks know nothing of one another
_ALONE = ("", "hbox", "xlearning", "caffe", "tool", "tools", "standalone", "xgboost", "lightgbm")
_MEMORY = common.MemoryFormat(  # ClientArguments.getNormalizedMem
    "Hbox", re.compile(r"([0-9]{1,12})([GgMm]?)"), 1024, "10G or 2048M"
)
_PRIORITIES = ("DEFAULT", "VERY_LOW", "LOW", "NORMAL", "HIGH", "VERY_HIGH")  # JobPriority


@dataclass
class _Flags:
    root: At
    before: list[str] = field(default_factory=list)  # lines before the command

    def get(self, flag: str) -> At:
        return self.find(_ROWS[f"--{flag}"])

    def find(self, row: Row) -> At:
        """Return the value of a row; a flag takes precedence over a property, as in Hbox."""
        keys = [path_of(key) for key in row.spellings]
        names = (k.replace("*", word) for k in keys for word in ("hbox", "xlearning"))
        return next(filter(None, map(self.root.get, names)), self.root.get())

    def is_true(self, flag: str) -> bool:
        return self.get(flag).text().strip().lower() == "true"

    @property
    def kind(self) -> str:
        return self.get("app-type").text().strip().lower()


@dataclass(frozen=True)
class _HboxRole:
    name: str
    instances: int
    at: At
    size: str  # the flags' prefix: worker or ps
    memory: str = ""  # the flag of its own memory


def _read_job(root: At) -> None:
    job = _Flags(root)
    common.read_name(job.get("app-name"), root, "there is no --app-name")
    roles = list(_job_roles(job))
    if not roles:
        root.fail("there is no task; say --worker-num 1")
        return
    _read_strategy(job, roles)
    carry(_JOB, job.find)
    _read_priority(job)
    for entry in root.entries:
        if match := re.fullmatch(r"--conf (?:hbox|xlearning)\.container\.env\.(.+)", entry.key):
            value = root.get(entry.key)
            value.put("env", value.text(), key=match[1])
    _read_files(job)
    _read_data(job)
    for role in roles:
        _read_role(job, role)
    _read_command(job)
    _read_board(job)


def _job_roles(job: _Flags) -> Iterator[_HboxRole]:
    asked_workers, asked_ps = job.get("worker-num"), job.get("ps-num")
    workers, servers = asked_workers.whole(default=1), asked_ps.whole()
    own, evaluator = job.get("chiefworker-memory"), job.is_true("tf-evaluator")
    if evaluator and workers > 1:
        workers -= 1
    if own and workers:
        yield _HboxRole("chief", 1, own, "worker", "chiefworker-memory")
        own.drop("TF_CONFIG calls the task chief 0, where Hbox calls it worker 0")
        workers -= 1
    if workers:
        yield _HboxRole("worker", workers, asked_workers or job.root, "worker")
    if servers and job.kind == "tensorflow":
        yield _HboxRole("ps", servers, asked_ps, "ps")
    elif servers:
        asked_ps.drop("only an --app-type of tensorflow has parameter servers")
    if evaluator:
        found = job.get("tf-evaluator")
        yield _HboxRole("evaluator", 1, found, "worker", "evaluatorworker-memory")
        found.note("the last worker is the evaluator, as in Hbox", "roles.evaluator")


def _read_strategy(job: _Flags, roles: list[_HboxRole]) -> None:
    stated, kind = job.get("app-type"), job.kind
    at = stated or job.root
    if stated and kind not in ("tensorflow", *_ALONE):
        common.refuse_framework(stated)
    at.put("variables", "hbox")
    if sum(role.instances for role in roles) == 1:
        at.put("strategy", "single")
        return
    at.put("strategy", "custom")
    if kind == "tensorflow":
        at.put("tf_config", "counts")
    roles[0].at.put("ends_with", "all-that-train", "Hbox waits for all workers")


def _read_role(job: _Flags, role: _HboxRole) -> None:
    where = f"roles.{role.name}"
    role.at.put(f"{where}.instances", role.instances)
    own = job.get(role.memory) if role.memory else None
    common.put_memory(where, own or job.get(f"{role.size}-memory"), role.at, _MEMORY)
    carry(_SIZES[role.size], job.find, role.name)
    job.root.need_image(where)


def _read_priority(job: _Flags) -> None:
    word, number = job.get("priority"), job.get("conf *.app.priority")
    if word.text() in _PRIORITIES:
        word.put("priority", _PRIORITIES.index(word.text()))
    elif word:
        word.fail(f"unknown value {clip(word.text())}; it is one of {', '.join(_PRIORITIES)}")
    elif (level := number.whole(default=-1)) >= 0:
        number.put("priority", level)


# --- files and data -------------------------------------------------------------------------------


def _comma_parts(at: At) -> Iterator[tuple[str, str, At]]:
    """Yield source, name and cursor of each item of a comma list of `SOURCE[#NAME]`."""
    for part in at.parts():
        source, _, name = part.partition("#")
        if source:
            yield source, name or common.base_name(source), at


def _read_files(job: _Flags) -> None:
    for flag in ("files", "archiveFiles"):
        for source, name, at in _comma_parts(job.get(flag)):
            if not common.put_file("files", source, name, at, unpack=flag == "archiveFiles"):
                at.fail(f"{clip(source)} is not a file of this host; say --cacheFile")
    for flag in ("cacheFile", "cacheArchive"):
        for source, name, at in _comma_parts(job.get(flag)):
            variable = common.put_input(name, *_uri_of_source(source, at))
            _link_file(job, variable, name, unpack=flag == "cacheArchive")


def _read_data(job: _Flags) -> None:
    strategy, stored = job.get("input-strategy"), job.get("output-strategy")
    word = strategy.text().strip().upper() if strategy else "DOWNLOAD"
    if word == "PLACEHOLDER":
        strategy.drop(
            "TFJOB_FILES_<NAME> names the list of the task's files, one per line, where Hbox has "
            "INPUT_FILE_LIST"
        )
    elif word != "DOWNLOAD":
        strategy.fail(_STREAM)
    if stored and stored.text().strip().upper() != "UPLOAD":
        stored.fail(_STREAM)
    names = set()
    for at in (*each(job.root, "--input"), *each(job.root, "--s3input")):
        source, _, name = at.text().partition("#")
        name = name or common.base_name(source)
        if "," in source or name in names:
            at.fail(
                f"an input is one path here, and {clip(name)} has several; say --input for each, "
                "with a name of its own behind #, or one pattern with *, ? or [a-c]"
            )
            continue
        names.add(name)
        key = common.declare("inputs", name, *_uri_of_source(source, at))
        at.put(f"inputs.{key}.shard", "files")
        if word == "DOWNLOAD":
            at.put(f"inputs.{key}.download", value=True)
            _link_file(job, f"TFJOB_INPUT_{key.upper()}", name)
    index = job.get("output-index")
    if index and index.text() not in ("0", "-1"):
        index.fail("only task 0 of the deciding role can store the output alone; say 0")
    for at in (*each(job.root, "--output"), *each(job.root, "--s3output")):
        source, _, name = at.text().partition("#")
        key = common.declare("outputs", name or "output", *_uri_of_source(source, at))
        at.put(f"outputs.{key}.upload", value=True)
        if index.text() != "0":
            at.put(f"outputs.{key}.by", "all-that-write")
        _link_file(job, f"TFJOB_OUTPUT_{key.upper()}", name or "output")


def _uri_of_source(source: str, at: At) -> tuple[str, At, str]:
    """Return the URI of a source, its place, and the note about it."""
    note = "on the default file system, as there" if source.startswith("/") else ""
    return source if "://" in source else f"hdfs://{source}", at, note


def _link_file(job: _Flags, variable: str, name: str, *, unpack: bool = False) -> None:
    """Add a shell line before the command that puts the file which a variable names at a path of
    the working directory; the line does nothing if the variable is not set.
    """
    steps = " && ".join(common.link(variable, name, unpack=unpack))
    # A ps has no inputs and outputs.
    job.before.append(f'[ -z "${variable}" ] || {{ {steps}; }}')


# --- command and TensorBoard ----------------------------------------------------------------------


def _read_command(job: _Flags) -> None:
    found, deprecated = job.root.get(COMMAND), job.get("hbox-cmd") or job.get("launch-cmd")
    words = found.words()
    if words:
        deprecated.drop("the command behind the flags counts, as in Hbox")
    else:
        found, words = deprecated, deprecated.text().split()
    if not words:
        job.root.need("command", "command=COMMAND", "there is no command behind the flags")
    elif job.before:
        text, note = f"exec {shlex.join(words)}", "behind the links to inputs and outputs"
        common.put_command("command", job.before, text, found, note)
    else:
        found.put("command", words)


def _read_board(job: _Flags) -> None:
    asked, logs = job.get("board-enable"), job.get("board-logdir")
    if not asked and "://" in logs.text():
        logs.drop("XLearning shows it by default, Hbox does not; say --board-enable true for it")
    if not job.is_true("board-enable"):
        return
    if "://" not in logs.text():
        asked.drop(f"the events stay on the worker's disk; {_BOARD}")
        return
    common.put_board("roles.tensorboard", common.quoted(logs.text()), logs, asked)
    why = "no memory is stated for TensorBoard, and YARN needs an amount"
    asked.need_memory("roles.tensorboard", "2Gi", why)


DIALECTS = {
    "hbox-flags": Dialect(
        "hbox-submit",
        (_TABLE,),
        _read_job,
        prefix=PREFIX,
        begin=lambda words: after_program(words, "hbox-submit", "xl-submit", "xlearning-submit"),
        abbreviations=_ABBREVIATIONS,
        takes_command=True,
    )
}
