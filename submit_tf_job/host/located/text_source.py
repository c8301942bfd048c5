"""Read the text of a file, and parse it by its content: YAML, JSON or XML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from submit_tf_job.host.inputfile import read_input, reason
from submit_tf_job.host.located.diagnostics import Diagnostics, Unreadable
from submit_tf_job.host.located.json_source import read_json
from submit_tf_job.host.located.nodes import (
    Location,
    Node,
    Scalar,
    ScalarKind,
    Table,
    describe,
    key_places,
    to_python,
)
from submit_tf_job.host.located.yaml_source import EMPTY, read_yaml

MAX_BYTES = 1024 * 1024
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def parse_file(path: Path, notes: Diagnostics) -> Node:
    """Return the located tree of a YAML, JSON or XML file.

    Args:
        path: The file.
        notes: Collects problems; its source is the file's name in messages.

    Raises:
        Unreadable: It cannot be read, or parsed.
    """
    try:
        content = read_input(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise Unreadable(Location(notes.source), f"cannot be read: {reason(error)}") from None
    text = decode(content, notes.source)
    if text.lstrip().startswith("<"):
        from submit_tf_job.host.located.xml_source import read_xml

        return read_xml(text, notes)
    return parse(text, notes)


def read_mapping(text: str, source: str) -> tuple[dict[str, Any], dict[str, Location]]:
    """Return a YAML file of one mapping as plain values, with the location of each key by its
    dotted path; an empty file is an empty mapping.

    Raises:
        Unreadable: The text is not YAML, or not a mapping.
    """
    notes = Diagnostics(source)
    try:
        root = read_yaml(decode(text, source), notes)
    except Unreadable as error:
        if str(error) == EMPTY:
            return {}, {}
        raise
    for first in sorted(notes.problems)[:1]:
        raise Unreadable(Location(source, first.line, first.column), first.message)
    if isinstance(root, Scalar) and root.kind is ScalarKind.NULL:
        return {}, {}
    if not isinstance(root, Table):
        raise Unreadable(
            root.place, f"expected a mapping of names to values, found {describe(root)}"
        )
    content: dict[str, Any] = to_python(root)
    return content, dict(key_places(root))


def decode(text: str | bytes, source: str) -> str:
    """Return text without a byte order mark.

    Args:
        text: The text, or its bytes in UTF-8.
        source: Its name in messages.

    Raises:
        Unreadable: It is too large, is not UTF-8, or contains control characters.
    """
    if len(text) > MAX_BYTES:
        raise Unreadable(
            Location(source),
            "larger than 1 MiB; a job spec holds no data, list files under `files` or put "
            "them on HDFS",
        )
    if isinstance(text, bytes):
        text = _utf8(text, source)
    text = text.removeprefix("\ufeff")
    bad = _NO_TEXT.search(text)
    if bad:
        place = _position(text[: bad.start()], source)
        raise Unreadable(place, f"the control character U+{ord(bad.group()):04X}; take it out")
    return text


def _utf8(content: bytes, source: str) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Unreadable(
            Location(source, 1, 1), "UTF-16, where UTF-8 is expected; save the file as UTF-8"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _position(content[: error.start].decode("utf-8"), source)
        raise Unreadable(
            place, f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def _position(before: str, source: str) -> Location:
    return Location(source, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def parse(text: str, notes: Diagnostics) -> Node:
    """Return the located tree: of JSON by the name or the content of the file, else of YAML.

    Raises:
        Unreadable: It cannot be parsed.
    """
    if notes.source.lower().endswith(".json"):
        return read_json(text, notes)
    if text.lstrip().startswith("{"):
        trial = Diagnostics(notes.source)
        try:
            root = read_json(text, trial)
        except Unreadable:
            return read_yaml(text, notes)
        notes.problems |= trial.problems
        return root
    return read_yaml(text, notes)
