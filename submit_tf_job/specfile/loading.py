"""The way in: bytes of a job spec file → Job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from submit_tf_job.errors import JobSpecError, Problem
from submit_tf_job.job import Job, Place
from submit_tf_job.specfile import overrides as overriding
from submit_tf_job.specfile.json_text import read_json
from submit_tf_job.specfile.native import Defaults, read_job
from submit_tf_job.specfile.nodes import Entry, Kind, Node, Scalar, Table
from submit_tf_job.specfile.notes import Notes, Unreadable
from submit_tf_job.specfile.shipping import Host
from submit_tf_job.specfile.yaml_text import read_yaml

__all__ = ["MAX_BYTES", "NO_DEFAULTS", "load", "loads"]

MAX_BYTES = 1024 * 1024
NO_DEFAULTS = Defaults()
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def load(
    path: Path,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    defaults: Defaults = NO_DEFAULTS,
    hadoop_conf: Path | None = None,
    krb5_conf: Sequence[Path] = (),
    cache: Path | None = None,
) -> Job:
    """Read a job spec file.

    Args:
        path: The file, YAML or (by its suffix, or by its content) JSON; its directory is where `files` start from.
        overrides: `path=value`, as `--set` takes them; a later one wins.
        name: The job's name instead of the file's.
        defaults: What the site's settings say for jobs that are silent.
        hadoop_conf: The Hadoop configuration directory of this host, for `hadoop.conf: inline`.
        krb5_conf: What is krb5.conf on this host, for `kerberos.krb5_conf: inline`.
        cache: Where hashes of files are remembered and packages are made; None for nowhere.

    Raises:
        JobSpecError: The file cannot be read, or is not a valid job spec; it holds every problem found.

    Example:
        >>> load(Path("train.yaml"), overrides=["roles.worker.instances=8"])
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise JobSpecError([Problem(0, 0, "", f"cannot be read: {why[:1].lower()}{why[1:]}", str(path))]) from None
    return loads(
        content,
        source=str(path),
        base=path.parent,
        overrides=overrides,
        name=name,
        defaults=defaults,
        hadoop_conf=hadoop_conf,
        krb5_conf=krb5_conf,
        cache=cache,
    )


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
) -> Job:
    """Read a job spec from text.

    Args:
        text: The job spec.
        source: What to call it in messages; a name that ends in .json makes it JSON.
        base: The directory that `files` start from; None where no file of this host may be read.
        overrides: As for `load`.
        name: As for `load`.
        defaults: As for `load`.
        hadoop_conf: As for `load`.
        krb5_conf: As for `load`.
        cache: As for `load`.

    Raises:
        JobSpecError: It is not a valid job spec; it holds every problem found.
    """
    notes = Notes(source)
    try:
        root = _read(_decode(text, source), notes)
    except Unreadable as error:
        notes.problem(error.place, error.path, str(error))
        raise JobSpecError(notes.problems) from None
    if isinstance(root, Table):
        # An editor of JSON finds the schema by this key.
        root = overriding.apply(root.without("$schema"), overrides, notes)
    if isinstance(root, Table) and name is not None:
        place = Place("--name")
        root = root.with_entry(Entry("name", place, Scalar(Kind.TEXT, name, place)))
    return read_job(root, notes, host=Host(base, hadoop_conf, tuple(krb5_conf), cache), defaults=defaults)


def _decode(text: str | bytes, source: str) -> str:
    if len(text) > MAX_BYTES:
        raise Unreadable(Place(source), "larger than 1 MiB; a job spec holds no data, list files under `files` or put them on HDFS")
    text = (text if isinstance(text, str) else _utf8(text, source)).removeprefix("\ufeff")
    bad = _NO_TEXT.search(text)
    if bad:
        place = _position(text[: bad.start()], source)
        raise Unreadable(place, f"the control character U+{ord(bad.group()):04X}; take it out")
    return text


def _utf8(content: bytes, source: str) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Unreadable(Place(source, 1, 1), "UTF-16, where UTF-8 is expected; save the file as UTF-8")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _position(content[: error.start].decode("utf-8"), source)
        raise Unreadable(place, f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8") from None


def _position(before: str, source: str) -> Place:
    return Place(source, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def _read(text: str, notes: Notes) -> Node:
    """Read JSON by JSON's rules where the name or the content says that it is JSON, and anything else as YAML."""
    if notes.source.lower().endswith(".json"):
        return read_json(text, notes)
    if text.lstrip().startswith("{"):
        trial = Notes(notes.source)
        try:
            root = read_json(text, trial)
        except Unreadable:
            return read_yaml(text, notes)
        notes.problems |= trial.problems
        return root
    return read_yaml(text, notes)
