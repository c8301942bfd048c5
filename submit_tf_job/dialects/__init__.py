"""Recognise job files and command lines of other systems, and translate them into the tree of a job
spec, which the reader of job specs then reads.

A format is a row of `FORMATS` or `COMMANDS`, and a `Dialect` in the `DIALECTS` of its module. The
`Dialect` has the table of the format's keys (`rows.py`), and code for translations that are more
than a renaming.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from submit_tf_job.errors import JobSpecError
from submit_tf_job.host.located.text_source import parse
from submit_tf_job.host.located.tree import (
    Diagnostics,
    Items,
    Location,
    Node,
    Scalar,
    Table,
    Unreadable,
)
from submit_tf_job.host.quoting import clip

if TYPE_CHECKING:
    from submit_tf_job.dialects.translation import Dialect, Translation

__all__ = ["COMMANDS", "FORMATS", "dialect_of", "keys", "read", "read_command", "table"]


class _Format(NamedTuple):
    module: str
    description: str  # what `formats` prints


FORMATS = {
    "submarine": _Format("submarine", "Apache Submarine's YAML, of `job run -f`"),
    "tfjob": _Format(
        "tfjob", "Kubeflow TFJob: kubeflow.org/v1, v1beta*, v1alpha*, KubeDL and Arena"
    ),
    "tony": _Format("tony", "TonY's configuration: XML with properties tony.*"),
    "yarnfile": _Format(
        "yarnfile", "YARN's services API (Yarnfile), and YARN-8220's submit_tf_job"
    ),
}
# the same for command lines, which `convert -- COMMAND` reads
COMMANDS = {
    "hbox-flags": _Format("hbox", "Hbox's and XLearning's hbox-submit, xl-submit"),
    "submarine-flags": _Format("submarine", "Apache Submarine's job run"),
    "tony-flags": _Format("tony", "TonY's ClusterSubmitter"),
    "yarn-8220-flags": _Format("yarnfile", "YARN-8220's submit_tf_job.py"),
}

_TEMPLATE = re.compile(r"\{\{|\{%")
_KUBERNETES = re.compile(r"^apiVersion:", re.MULTILINE)
_KIND = re.compile(r"^kind:[ \t]*['\"]?(\w+)", re.MULTILINE)
_PLACEHOLDER = re.compile(
    r"\{\{-?\s*[.$](Values|Release|Chart|Files)\b|\{%-?\s|\{\{-"
)  # of Helm, Jinja
_TEMPLATE_MESSAGE = (
    "a template ({{ }} or {% %} of Helm, Jinja or Go); fill it in first, as `helm template` does"
)
_KUBERNETES_MESSAGE = (
    "of Kubernetes' objects only a TFJob is read; one job spec replaces Jobs, Pods and Services "
    "(`submit_tf_job help coming-from/kubernetes`)"
)
_SCRIPT = re.compile(
    r"\A#!|\A(?:yarn|java|hadoop|gcloud)\s|^(?:\S*/)?(?:hbox-submit|xl-submit|spark-submit|ydl-tf)\s",
    re.MULTILINE,
)
_PROGRAMS = (
    (
        re.compile(
            r"^(?:import|from) (?:tensorflowonspark|tf_yarn|sparkdl|kubeflow)\b", re.MULTILINE
        ),
        "a Python program, whose job is made by its calls; import them from submit_tf_job.compat "
        "(`submit_tf_job help python`), and run the program",
    ),
    (
        _SCRIPT,
        "a script; its command line is read by `submit_tf_job convert -- COMMAND`, and one of your "
        "own program is run by `submit_tf_job run -- COMMAND`",
    ),
    (
        re.compile(r"^(?:import \w|from [\w.]+ import )", re.MULTILINE),
        "a Python program; run it as a job: `submit_tf_job run -- python FILE`",
    ),
)
# launchers in whose command line there is no job
_LAUNCHERS = {
    "spark-submit": "the job of spark-submit is in its program: import TFCluster from "
    "submit_tf_job.compat there, give `TFCluster.run` the image and memory as job={…}, and run the "
    "program by python (`submit_tf_job help python`, `submit_tf_job help dialects`)",
    "ydl-tf": "ydl-tf starts servers, and the program is started by hand; a job spec has both "
    "(`submit_tf_job help coming-from/tensorflowonyarn`)",
}
_LAUNCHER = re.compile(rf"^(?![^\S\n]*#).*?(?<![\w.-])({'|'.join(_LAUNCHERS)})\s", re.MULTILINE)
_SEPARATOR = re.compile(r"^---(?=\s|$)[^\n]*$", re.MULTILINE)


def dialect_of(name: str) -> Dialect:
    """Import the module of a format, and return its `Dialect`."""
    found = {**FORMATS, **COMMANDS}[name]
    dialects: dict[str, Dialect] = import_module(f"{__name__}.{found.module}").DIALECTS
    return dialects[name]


_FATES = {"=": "mapped", "~": "warning", ".": "no meaning", "x": "refused"}


def keys(name: str) -> Iterator[dict[str, str]]:
    """Yield each key of a format as a mapping: `key`, the prefix `below` which it stands, what
    becomes of it (`fate`, a value of `_FATES`), and a `text` about that.
    """
    from submit_tf_job.dialects.rows import path_of

    for group in dialect_of(name).keys:
        below = " and ".join(filter(None, group.prefixes))
        for row in group.rows:
            fate = {"fate": _FATES[row.fate.value], "text": row.becomes}
            yield from ({"below": below, "key": path_of(key), **fate} for key in row.spellings)


def table(name: str) -> Iterator[str]:
    """Yield the lines of a Markdown table of a format's keys and their translations."""
    from submit_tf_job.dialects.rows import path_of

    for group in dialect_of(name).keys:
        prefixes = " and ".join(f"`{prefix}`" for prefix in group.prefixes if prefix)
        yield f"Below {prefixes}:" if prefixes else "At the top:"
        yield from ("", "| key | | what becomes of it |", "|---|---|---|")
        for row in group.rows:
            spellings = ", ".join(f"`{path_of(key)}`" for key in row.spellings)
            yield f"| {spellings} | {_FATES[row.fate.value]} | {row.becomes} |"
        yield ""


def recognise(root: Table) -> tuple[str, str] | None:
    """Return the name and version of a tree's format; None for an unknown format."""
    versions = ((name, _version_of_format(name, root)) for name in FORMATS)
    return next(((name, version) for name, version in versions if version), None)


def _version_of_format(name: str, root: Table) -> str | None:
    """Return the version of a tree of a format; None for a tree of another format."""
    from submit_tf_job.dialects.translation import Translation

    dialect = dialect_of(name)
    looking = Translation(dialect.label, "", Diagnostics(""))  # whose problems nobody hears
    return dialect.recognise(looking.root(root))


def read(text: str, notes: Diagnostics, name: str | None) -> tuple[Node, Translation | None]:
    """Return the located tree of a job spec, and the translation that made it; the translation is
    None for a file that is a job spec already, or has no known format.

    Args:
        text: The file.
        notes: Collects problems.
        name: The format; "jobspec" for a job spec of this package; None to recognise the format.

    Raises:
        Unreadable: The text cannot be parsed; there is no such format; or the file is not a job but
            of a similar kind: a program, a script, a template, another object of Kubernetes, a
            configuration of Hadoop.
    """
    try:
        root = parse(text, notes)
    except Unreadable as error:
        if name == "jobspec":
            raise
        return _read_unparsed(text, notes, error)
    if name == "jobspec":
        return root, None
    if name is not None:
        return _read_as(name, root, notes)
    if isinstance(root, Scalar):
        _refuse_program(text, notes)
    if not isinstance(root, Table) or (root.find("roles") and not root.find("spec")):
        return root, None
    found = recognise(root)
    if found is None:
        _refuse_relatives(root, text)
        return root, None
    _refuse_template(root)
    return translate(*found, root, notes)


def _read_as(name: str, content: Node, notes: Diagnostics) -> tuple[Node, Translation]:
    """Translate a tree as a file of the given format, even if it is not recognised as one.

    Raises:
        Unreadable: There is no such format, or the tree is not a mapping.
    """
    if name not in FORMATS:
        known = ", ".join(["jobspec", *FORMATS])
        raise Unreadable(
            Location("--from"), f"there is no format {clip(name)}; it is one of {known}"
        )
    if not isinstance(content, Table):
        raise Unreadable(Location(notes.source), "expected a mapping")
    return translate(name, _version_of_format(name, content) or "--from", content, notes)


def translate(
    name: str, version: str, root: Table, notes: Diagnostics
) -> tuple[Table, Translation]:
    """Translate a tree of a known format. Problems are collected in `notes`.

    Args:
        name: The format.
        version: The version of the format, for messages.
        root: The tree.
        notes: Collects problems.
    """
    from submit_tf_job.dialects.translation import Translation

    dialect = dialect_of(name)
    reading = Translation(dialect.label, version, notes)
    return reading.translate(dialect, reading.root(root)), reading


def _refuse_template(node: Node, path: str = "") -> None:
    """Refuse a template that can be parsed as YAML only because its placeholders are in quotes."""
    if isinstance(node, Table):
        for entry in node.entries:
            _refuse_template(entry.value, f"{path}.{entry.key}" if path else entry.key)
    elif isinstance(node, Items):
        for index, item in enumerate(node.items):
            _refuse_template(item, f"{path}[{index}]")
    elif _PLACEHOLDER.search(node.text):
        raise Unreadable(node.place, _TEMPLATE_MESSAGE, path)


def read_command(
    words: Sequence[str], notes: Diagnostics, base: Path, name: str | None = None
) -> tuple[Table, Translation]:
    """Translate a command line of another system.

    Args:
        words: The whole command line, with the program.
        notes: Collects problems.
        base: The directory for relative paths in the command line.
        name: The name of the format; None to recognise it.

    Raises:
        Unreadable: The command line starts none of the known programs, or has no flag; or there is
            no such format.
    """
    from submit_tf_job.dialects.command_line import parse
    from submit_tf_job.dialects.translation import Translation

    if name is not None and name not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise Unreadable(
            Location("--from"), f"there is no command line {clip(name)}; it is one of {known}"
        )
    for format_name in [name] if name else COMMANDS:
        dialect = dialect_of(format_name)
        begin = dialect.begin(words)
        if begin is None and name is not None:
            begin = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
        if begin is not None:
            reading = Translation(dialect.label, "flags", notes)
            reading.base, reading.before = base, words[:begin]
            at = reading.root(parse(words, begin, dialect, notes.problem))
            return reading.translate(dialect, at), reading
    for index, word in enumerate(words, 1):
        if message := _LAUNCHERS.get(posixpath.basename(word)):
            raise Unreadable(Location(f"argument {index}"), message)
    raise Unreadable(
        Location("argument 1"),
        f"{clip(words[0])} begins no command line that is read; name one by --from: "
        f"{', '.join(COMMANDS)}",
    )


def _refuse_relatives(root: Table, text: str) -> None:
    """Refuse files of similar kinds: other Kubernetes objects, and other Hadoop configurations."""
    if text.lstrip().startswith("<"):
        for prefix, name in (("hbox.", "Hbox"), ("xlearning.", "XLearning"), ("spark.", "Spark")):
            if any(entry.key.startswith(prefix) for entry in root.entries):
                message = f"a configuration of {name} alone, whose job stands in its command line"
                raise Unreadable(root.place, message)
        message = "a Hadoop configuration without a property of TonY (tony.…); which job is it?"
        raise Unreadable(root.place, message)
    kind = root.find("kind")
    version = root.find("apiVersion")
    if kind and version and isinstance(kind.value, Scalar):
        if kind.value.text.lower() == "tfjob" and isinstance(version.value, Scalar):
            raise Unreadable(
                version.value.place,
                f"a TFJob of {clip(version.value.text)} is not recognised; where it is like "
                "Kubeflow's, say --from tfjob",
                "apiVersion",
            )
        raise Unreadable(
            kind.value.place,
            f"an object of kind {clip(kind.value.text)[1:-1]} is not read; {_KUBERNETES_MESSAGE}",
            "kind",
        )


# --- files that the readers of YAML and JSON refuse ---


def _read_unparsed(
    text: str, notes: Diagnostics, error: Unreadable
) -> tuple[Node, Translation | None]:
    """Read a file that contains several YAML documents, one of which is a job; else raise `error`,
    or a more specific error.
    """
    _refuse_program(text, notes)
    if _SEPARATOR.search(text) and _KUBERNETES.search(text):
        found = _read_documents(text, notes)
        if found is not None:
            return found
    if _KUBERNETES.search(text) and (at := _TEMPLATE.search(text)):
        raise Unreadable(_place_of(text, at.start(), notes), _TEMPLATE_MESSAGE)
    if _SEPARATOR.search(text) and (at := _KUBERNETES.search(text)):
        kinds = ", ".join(dict.fromkeys(_KIND.findall(text)))
        where = _place_of(text, at.start(), notes)
        raise Unreadable(
            where, f"objects of kind {clip(kinds)[1:-1]} are not read; {_KUBERNETES_MESSAGE}"
        )
    raise error


def _refuse_program(text: str, notes: Diagnostics) -> None:
    """Raise `Unreadable` for a program or a script in place of a job file; the message has the
    command that reads or runs it.
    """
    for pattern, message in _PROGRAMS:
        if found := pattern.search(text):
            start = found.start()
            if launcher := pattern is _SCRIPT and _LAUNCHER.search(text):
                start, message = launcher.start(1), _LAUNCHERS[launcher[1]]
            raise Unreadable(_place_of(text, start, notes), message)


def _place_of(text: str, index: int, notes: Diagnostics) -> Location:
    before = text[:index]
    return Location(notes.source, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _read_documents(text: str, notes: Diagnostics) -> tuple[Table, Translation] | None:
    """Translate the only document that is a job; a warning names the others. Return None if there
    is no such document, or if a document cannot be parsed.

    Raises:
        Unreadable: Several documents are jobs.
    """
    jobs: list[tuple[str, str, Table]] = []
    others: list[tuple[str, Location]] = []
    try:
        for root in _parse_documents(text, notes):
            found = recognise(root)
            kind = root.find("kind")
            if found is not None:
                jobs.append((*found, root))
            else:
                word = kind.value.text if kind and isinstance(kind.value, Scalar) else "document"
                others.append((word, root.place))
    except (Unreadable, JobSpecError):
        return None
    if not jobs:
        return None
    if len(jobs) > 1:
        raise Unreadable(
            jobs[1][2].place, "a second job begins here; put each into a file of its own"
        )
    tree, reading = translate(*jobs[0], notes)
    for word, place in others:
        from submit_tf_job.jobspec.job import Remark

        text = "another document of the file, which is not read"
        reading.remarks.append(
            Remark("warning", place.source, place.line, place.column, word, text)
        )
    return tree, reading


def _parse_documents(text: str, notes: Diagnostics) -> Iterator[Table]:
    """Parse each document of a YAML file; the locations are those in the whole file."""
    from submit_tf_job.host.located.yaml_source import read_yaml

    begin = 0
    for end in [*(match.start() for match in _SEPARATOR.finditer(text)), len(text)]:
        document = _SEPARATOR.sub("", text[begin:end], count=1)
        if document.strip() and re.search(r"^[^#\s]", document, re.MULTILINE):
            trial = Diagnostics(notes.source)
            root = read_yaml("\n" * text.count("\n", 0, begin) + document, trial)
            trial.check()
            if isinstance(root, Table):
                yield root
        begin = end
