"""Translate a command line of TonY: `… com.linkedin.tony.cli.ClusterSubmitter [flags]`.

The flags become properties, over those of `--conf_file`, which `tony` then translates.
Sources: tony-framework/TonY (ClusterSubmitter, TonyClient.initTonyConf, buildTaskCommand).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from submit_tf_job.dialects import tony
from submit_tf_job.dialects.command_line import PREFIX, Syntax, each, open_file
from submit_tf_job.dialects.translation import At, ForeignKeys, Translation, keys
from submit_tf_job.host.located.nodes import Pair, Scalar, ScalarKind, Table, clip

__all__ = ["KEYS", "LABEL", "PREFIX", "SYNTAX", "begin", "read"]

LABEL = "TonY's ClusterSubmitter"
_FLAGS = """
= --conf_file | the XML file of properties, as TonY's configuration
= --conf tony.** | a property, as in TonY's configuration; over the file's, or behind its envs and
    resources
. --conf ** | a property of Hadoop
= --executes | `command`, between --python_binary_path and --task_params
= --task_params | behind --executes
= --python_binary_path | before --executes; below venv/ with --python_venv, unless it is absolute
= --python_venv | `files` with `unpack`, as venv/; of a file system `inputs`
= --src_dir | `files`: what is in the directory
= --shell_env | `env`
= --container_env | `env`
= --sidecar_tensorboard_log_dir | the sidecar tensorboard, as tony.application.tensorboard-log-dir
. --hdfs_classpath | jars of TonY
. --rm_app_tags | a scheduler's name for the job
. --debug | prints more; say `-v`
. --help | prints TonY's help
"""
KEYS = (ForeignKeys(("",), keys(_FLAGS)),)
_REPEATED = frozenset({"shell_env", "container_env"})
_SWITCHES = frozenset({"debug", "help"})
SYNTAX = Syntax(
    values=frozenset(row.path.removeprefix(PREFIX) for row in KEYS[0].rows if " " not in row.path)
    - _REPEATED
    - _SWITCHES,
    switches=_SWITCHES,
    repeated=_REPEATED,
    properties=frozenset({"conf"}),
)
_PROGRAM = re.compile(r"(.*\.)?(ClusterSubmitter|TonyClient)")
_COMMAND = "tony.containers.command"
_RESOURCES = "tony.containers.resources"
_BOARD = "tony.application.tensorboard-log-dir"
# properties that --conf extends (TonyClient.initTonyConf: MULTI_VALUE_CONF)
_LISTS = re.compile(r"tony\.(containers|execution)\.envs|tony\.[a-z]+\.resources")


def begin(words: Sequence[str]) -> int | None:
    """Return the index of the first flag: behind the class, and a `--` of gcloud."""
    for index, word in enumerate(words):
        if _PROGRAM.fullmatch(word):
            rest = words[index + 1 :]
            return index + 1 + (rest.index("--") + 1 if "--" in rest else 0)
    return None


def read(root: At, reading: Translation) -> None:
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
    tony.read(properties, reading)
    reading.check_names(properties, tony.KEYS, tony.PREFIX)
    for flag in sorted(_REPEATED):
        for at in each(root, f"{PREFIX}{flag}"):
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
        if name == entry.key or not name.startswith(tony.PREFIX):
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
        _put(entries, _BOARD, board.text(), board)
