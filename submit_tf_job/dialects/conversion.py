"""Convert a job file of another system to the text of a job spec: YAML that the strict reader reads
as the same tree as the converted one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from submit_tf_job.host.located.tree import Items, Node, Scalar, ScalarKind, Table
from submit_tf_job.host.located.yaml_source import kind_of_plain, surprising
from submit_tf_job.jobspec.job import Job, Remark
from submit_tf_job.jobspec.keys import JOB, ROLE
from submit_tf_job.jobspec.reader import ReadJob

_PLAIN = re.compile(r"[A-Za-z0-9_/$][\w./=+@$ -]*(?::[\w./=+@$-]+)*")
_BLOCK = re.compile(r"[^\s#][^\t\r\x00-\x08\x0b-\x1f\x7f-\x9f]*")
_WIDTH = 100
# depth of a path → the order of the keys there
_ORDER = {
    0: {key: index for index, key in enumerate(JOB.rows)},
    1: {key: index for index, key in enumerate(ROLE.rows)},
}


@dataclass(frozen=True)
class Conversion:
    """A job spec that was converted from a file of another format.

    Attributes:
        dialect: The name of the format; "" if the file is a job spec already.
        version: The version of the format, or how it was chosen; "" for a job spec.
        text: The job spec.
        remarks: Warnings about dropped keys, and notes on decisions.
        silent: The keys that have no effect on YARN.
        job: The job.
    """

    dialect: str
    version: str
    text: str
    remarks: tuple[Remark, ...]
    silent: tuple[str, ...]
    job: Job


def convert(found: ReadJob) -> Conversion:
    """Return a job that was read, together with the text of its job spec. A job spec without
    overrides keeps its own text.
    """
    file, made = found.source.rpartition("/")[2], found.translation
    if made is None:
        text = write(found.tree, f"From {file}", ()) if found.text is None else found.text
        return Conversion("", "", text, (), (), found.job)
    remarks = tuple(made.remarks)
    text = write(found.tree, f"From {file}: {made.dialect} ({made.version})", remarks)
    return Conversion(made.dialect, made.version, text, remarks, tuple(made.silent), found.job)


def write(root: Table, title: str, remarks: Sequence[Remark]) -> str:
    """Return the text of a job spec.

    Args:
        root: A valid tree.
        title: The comment in the first line.
        remarks: Notes are written after their value; other remarks at the end.
    """
    comments: dict[str, list[str]] = {}
    left = []
    for remark in remarks:
        if remark.ours:
            comments.setdefault(remark.ours, []).append(remark.sentence)
        else:
            left.append(remark)
    lines = [f"# {title}", *_table_lines(root, "", "", comments)]
    if left:
        lines += ["", "# Read, and not in this job spec as it was:"]
        lines += [f"#   {_one_line(remark.sentence)}" for remark in left]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", text)


def _table_lines(
    table: Table, path: str, indent: str, comments: dict[str, list[str]]
) -> Iterator[str]:
    order = _ORDER.get(path.count(".")) if not path or path.startswith("roles.") else None
    for entry in (
        sorted(table.entries, key=lambda e: order.get(e.key, 99)) if order else table.entries
    ):
        inner = f"{path}.{entry.key}" if path else entry.key
        why = "; ".join(comments.get(inner, ()))
        comment = f"  # {_one_line(why)}" if why else ""
        key = f"{indent}{_quoted_text(entry.key)}:"
        value = entry.value
        if isinstance(value, Table) and value.entries:
            yield key + comment
            yield from _table_lines(value, inner, indent + "  ", comments)
        elif isinstance(value, Items) and len(flow := _flow_text(value)) > _WIDTH:
            yield key + comment
            for item in value.items:
                yield f"{indent}  - {_flow_text(item)}"
        elif isinstance(value, Scalar) and _fits_block(value):
            lines = value.text.removesuffix("\n").split("\n")
            yield f"{key} {'|' if value.text.endswith(chr(10)) else '|-'}{comment}"
            for line in lines:
                yield f"{indent}  {line}" if line else ""
        else:
            yield f"{key} {flow if isinstance(value, Items) else _flow_text(value)}{comment}"


def _fits_block(value: Scalar) -> bool:
    text = value.text
    return (
        value.kind is ScalarKind.TEXT
        and "\n" in text
        and not text.endswith("\n\n")
        and not re.search(r"[ \t]\n|[ \t]$", text)
        and _BLOCK.fullmatch(text) is not None
        and text.isascii()
    )


def _flow_text(node: Node) -> str:
    if isinstance(node, Items):
        return f"[{', '.join(_flow_text(item) for item in node.items)}]"
    if isinstance(node, Table):
        pairs = (f"{_quoted_text(entry.key)}: {_flow_text(entry.value)}" for entry in node.entries)
        return f"{{{', '.join(pairs)}}}"
    return _quoted_text(node.text) if node.kind is ScalarKind.TEXT else node.text


def _quoted_text(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and not text.endswith(" ")
    if plain and kind_of_plain(text) is ScalarKind.TEXT and surprising(text) is None:
        return text
    return json.dumps(text)
