"""Read a job spec, or a file of another format (docs/dialects.md), as a `Job`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job import dialects
from submit_tf_job.errors import JobSpecError, Problem
from submit_tf_job.host.inputfile import read_input, reason
from submit_tf_job.host.located.diagnostics import Diagnostics, Unreadable
from submit_tf_job.host.located.nodes import Location, Node, Pair, Scalar, ScalarKind, Table
from submit_tf_job.host.located.text_source import MAX_BYTES, decode, parse
from submit_tf_job.jobspec import overrides as overriding
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Job
from submit_tf_job.jobspec.reader import Defaults, read_job

if TYPE_CHECKING:
    from submit_tf_job.dialects.translation import Translation

__all__ = [
    "NO_DEFAULTS",
    "loads",
    "read_file",
    "read_tree",
]

NO_DEFAULTS = Defaults()


def read_file(path: Path) -> bytes:
    """Return the content of a job spec file; of one that is too large only the beginning.

    Raises:
        JobSpecError: The file cannot be read.
    """
    try:
        return read_input(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise JobSpecError(
            [Problem(0, 0, "", f"cannot be read: {reason(error)}", str(path))]
        ) from None


def loads(
    text: str | bytes,
    *,
    source: str,
    base: Path | None,
    overrides: Sequence[str] = (),
    name: str | None = None,
    defaults: Defaults = NO_DEFAULTS,
    hadoop_conf: Path | None = None,
    krb5_conf: Sequence[Path] = (),
    cache: Path | None = None,
    uploads: Path | None = None,
    dialect: str | None = None,
) -> Job:
    """Read a job spec from text.

    Args:
        text: The job spec, YAML or (by the suffix of its source, or by its content) JSON.
        source: Its name in messages.
        base: The directory from which relative paths start; None if no file of this host may be
            read.
        overrides: `path=value`, as `--set` takes them; a later one wins.
        name: The job's name instead of the file's.
        defaults: The site's settings for keys that the job spec does not state.
        hadoop_conf: The Hadoop configuration directory of this host, for `hadoop.conf: inline`.
        krb5_conf: The krb5.conf files of this host, for `kerberos.krb5_conf: inline`.
        cache: The directory for hashes of files and for packages; None for no cache.
        uploads: The directory of the files that came with the text; with `base` None the job spec
            may name only those.
        dialect: The file's format, "jobspec" for none of other systems; None to recognise it.

    Raises:
        JobSpecError: It is not a valid job spec; the error has every problem found.

    Example:
        >>> loads(text, source="train.yaml", base=Path(), overrides=["roles.worker.instances=8"])
    """
    notes = Diagnostics(source)
    root, reading = read_tree(
        text, notes, overrides=overrides, name=name, dialect=dialect, defaults=defaults
    )
    job = read_job(
        root,
        notes,
        host=Host(base, hadoop_conf, tuple(krb5_conf), cache, uploads),
        defaults=defaults,
    )
    return replace(job, remarks=tuple(reading.remarks)) if reading else job


def read_tree(
    content: str | bytes | Sequence[str],
    notes: Diagnostics,
    *,
    base: Path | None = None,
    overrides: Sequence[str] = (),
    name: str | None = None,
    dialect: str | None = None,
    defaults: Defaults = NO_DEFAULTS,
) -> tuple[Node, Translation | None]:
    """Read a file, or a command line of another system, into the tree of a job spec, overrides
    applied.

    Args:
        content: The file; or the words of a command line, with the program.
        notes: Collects problems.
        base: The directory of the files that a command line names.
        overrides: As for `loads`.
        name: As for `loads`.
        dialect: As for `loads`.
        defaults: As for `loads`.

    Returns:
        The tree, and its translation if it has another format.

    Raises:
        JobSpecError: It is not YAML or JSON, or the translation has problems.
    """
    try:
        if isinstance(content, (str, bytes)):
            root, reading = _read(decode(content, notes.source), notes, dialect)
        else:
            root, reading = dialects.read_command(content, notes, base or Path(), dialect)
    except Unreadable as error:
        notes.problem(error.place, error.path, str(error))
        raise JobSpecError(notes.problems) from None
    if isinstance(root, Table):
        # Editors of JSON find the schema by this key.
        root = overriding.apply(root.without("$schema"), overrides, notes)
    if isinstance(root, Table) and name is not None:
        place = Location("--name")
        root = root.with_entry(Pair("name", place, Scalar(ScalarKind.TEXT, name, place)))
    if reading is not None and isinstance(root, Table):
        root = reading.complete(root, defaults.job, defaults.task_memory)
    return root, reading


def _read(text: str, notes: Diagnostics, dialect: str | None) -> tuple[Node, Translation | None]:
    """Return the located tree of a job spec, or of a file of another format, translated."""
    if text.lstrip().startswith("<") and dialect != "jobspec":
        return dialects.read_configuration(text, notes, dialect)
    try:
        root = parse(text, notes)
    except Unreadable as error:
        if dialect == "jobspec":
            raise
        return dialects.read_unparsed(text, notes, error)
    if dialect == "jobspec":
        return root, None
    if dialect is not None:
        return dialects.read_as(dialect, root, notes)
    if isinstance(root, Table) and (root.find("roles") is None or root.find("spec") is not None):
        return dialects.read(root, notes)
    if isinstance(root, Scalar):
        dialects.refuse_program(text, notes)
    return root, None
