"""Apply `--set path=value` to the located tree of a job spec."""

from __future__ import annotations

import re
from collections.abc import Sequence

from submit_tf_job.host.located.tree import (
    Diagnostics,
    Items,
    Location,
    Node,
    Pair,
    Scalar,
    ScalarKind,
    Table,
    Unreadable,
)
from submit_tf_job.host.located.yaml_source import parse_flow
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.keys import JOB, ROLES
from submit_tf_job.jobspec.kinds import Kind, group

SET = "--set"

_STEP = re.compile(r"([^.\[\]]+)((?:\[[0-9]{1,6}\])*)")
_REST = re.compile(r"(.+)()")
_OTHER_SPELLING = {"chief": "master", "master": "chief"}
_Steps = Sequence[tuple[Kind | None, str | int]]  # each with the kind of the value before it
_PLACE = Location(SET)
_NOTHING = Scalar(ScalarKind.NULL, "", _PLACE)


class _Refused(Unreadable):
    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(_PLACE, message, path)


def apply(root: Node, overrides: Sequence[str], notes: Diagnostics) -> Node:
    """Return the tree with the overrides applied in order; a later override replaces an earlier
    one.

    Args:
        root: The job spec.
        overrides: Each `path=value`, such as `roles.worker.instances=8` or `files[0]=train.py`.
        notes: Collects problems; an override with a problem is not applied.
    """
    for override in overrides:
        path, equals, value = override.partition("=")
        try:
            if not equals:
                raise _Refused(
                    f"{clip(override)} has no '='; write path=value, as in roles.worker.instances=8"
                )
            root = _set_value(root, path.strip(), value)
        except Unreadable as error:
            notes.problem(_PLACE, error.path, str(error))
    return root


def _set_value(root: Node, path: str, value: str) -> Node:
    steps, kind = _parse_path(path)
    try:
        is_literal = kind is None or kind.is_literal(value)
        node = Scalar(ScalarKind.TEXT, value, _PLACE) if is_literal else parse_flow(value, _PLACE)
        return _replace_node(root, steps, node, kind)
    except Unreadable as error:
        raise _Refused(str(error), path) from None


def _parse_path(path: str) -> tuple[_Steps, Kind | None]:
    """Return the steps of a path (keys, and indices of lists), and the kind of the value at its end
    (None for any kind).
    """
    steps: list[tuple[Kind | None, str | int]] = []
    kind: Kind | None = group(JOB)
    at = 0
    while at <= len(path):
        step = (_REST if kind and kind.dotted else _STEP).match(path, at)
        if step is None or path[step.end() : step.end() + 1] not in ("", "."):
            raise _Refused(
                f"{clip(path)} is not a valid path; write keys joined by dots, as in "
                f"roles.worker.env.BATCH"
            )
        steps.append((kind, step[1]))
        try:
            kind = kind.member(step[1]) if kind else None
        except ValueError as error:
            raise _Refused(str(error), path) from None
        if kind is None:
            message = f"{clip(step[1])} leads nowhere, {path[: at - 1]} has no keys"
            raise _Refused(message, path)
        for index in re.findall("[0-9]+", step[2]):
            steps.append((kind, int(index)))
            kind = kind and kind.items
        at = step.end() + 1
    return steps, kind


def _replace_node(node: Node, steps: _Steps, new: Node, last: Kind | None) -> Node:
    """Return a copy of the tree in which `new` replaces the node at the end of the steps; mappings
    that are missing on the path are created.

    Args:
        node: The tree.
        steps: Keys, and indices of lists.
        new: The new node.
        last: The kind of the value at the end. If it is that of an input or output, and `new` is a
            text, only its `uri` is replaced.
    """
    if not steps:
        if isinstance(node, Table) and isinstance(new, Scalar) and last and last.short == "uri":
            # the input's or output's other keys stay
            return _replace_node(node, [(last, "uri")], new, last)
        return new
    kind, step = steps[0]
    if isinstance(step, int):
        return _replace_item(node, step, steps[1:], new, last)
    if not isinstance(node, Table):
        node = _as_table(node, kind, step)
    other = _OTHER_SPELLING.get(step, "") if kind is ROLES else ""
    if node.find(step) is None and node.find(other) is not None:
        step = other
    entry = node.find(step)
    inner = entry.value if entry else _NOTHING
    place = entry.place if entry and len(steps) > 1 else _PLACE
    return node.with_entry(Pair(step, place, _replace_node(inner, steps[1:], new, last)))


def _as_table(node: Node, kind: Kind | None, step: str) -> Table:
    """Return a mapping for an absent value, or for a value that is written in its short form."""
    if _is_absent(node):
        return Table((), _PLACE)
    if isinstance(node, Scalar) and kind and kind.short:
        return Table((Pair(kind.short, node.place, node),), node.place)
    raise _Refused(f"nothing can be set below a value that is not a mapping (at {clip(step)})")


def _is_absent(node: Node) -> bool:
    return isinstance(node, Scalar) and node.kind is ScalarKind.NULL


def _replace_item(node: Node, index: int, rest: _Steps, new: Node, last: Kind | None) -> Node:
    items = node.items if isinstance(node, Items) else ()
    if not isinstance(node, Items) and not _is_absent(node):
        raise _Refused("an index needs a list, and this is none")
    if index > len(items):
        raise _Refused(f"the list has {len(items)} items; the next one is [{len(items)}]")
    inner = _replace_node(items[index] if index < len(items) else _NOTHING, rest, new, last)
    return Items((*items[:index], inner, *items[index + 1 :]), node.place)
