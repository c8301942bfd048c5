"""Apply `--set path=value` to the located tree of a job spec."""

from __future__ import annotations

import re
from collections.abc import Sequence

from submit_tf_job.host.located.diagnostics import Diagnostics, Unreadable
from submit_tf_job.host.located.nodes import (
    Items,
    Location,
    Node,
    Pair,
    Scalar,
    ScalarKind,
    Table,
    clip,
)
from submit_tf_job.host.located.yaml_source import parse_flow
from submit_tf_job.jobspec.keys import JOB, ROLES
from submit_tf_job.jobspec.kinds import Kind, group

SET = "--set"

_STEP = re.compile(r"([^.\[\]]+)((?:\[[0-9]{1,6}\])*)")
_REST = re.compile(r"(.+)()")
_OTHER_SPELLING = {"chief": "master", "master": "chief"}
_Steps = Sequence[tuple[Kind | None, str | int]]
_PLACE = Location(SET)
_NOTHING = Scalar(ScalarKind.NULL, "", _PLACE)


class _Refused(Unreadable):
    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(_PLACE, message, path)


def apply(root: Node, overrides: Sequence[str], notes: Diagnostics) -> Node:
    """Return the tree with overrides applied in their order; a later one wins.

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
            root = _set(root, _Target(path), value)
        except Unreadable as error:
            notes.problem(_PLACE, error.path, str(error))
    return root


class _Target:
    """The path of an override, parsed and checked against the key table.

    Attributes:
        steps: Keys, and indices of lists.
        kinds: The kind of the value before each step, and of the value at the end; None for any
            kind.
    """

    def __init__(self, path: str) -> None:
        self.path = path.strip()
        self.steps: list[str | int] = []
        self.kinds: list[Kind | None] = [group(JOB)]
        at = 0
        while at <= len(self.path):
            kind = self.kinds[-1]
            pattern = _REST if kind and kind.dotted else _STEP
            step = pattern.match(self.path, at)
            if step is None or self.path[step.end() : step.end() + 1] not in ("", "."):
                raise _Refused(
                    f"{clip(path)} is not a valid path; write keys joined by dots, as in "
                    f"roles.worker.env.BATCH"
                )
            self._add_key(step.group(1), kind, at)
            for index in re.findall("[0-9]+", step.group(2)):
                self.steps.append(int(index))
                self.kinds.append(self.kinds[-1] and self.kinds[-1].items)
            at = step.end() + 1

    def _add_key(self, name: str, kind: Kind | None, at: int) -> None:
        try:
            member = kind.member(name) if kind else None
        except ValueError as error:
            raise _Refused(str(error), self.path) from None
        if member is None:
            raise _Refused(
                f"{clip(name)} leads nowhere, {self.path[: at - 1]} has no keys", self.path
            )
        self.steps.append(name)
        self.kinds.append(member)


def _set(root: Node, target: _Target, value: str) -> Node:
    kind = target.kinds[-1]
    if kind is None or kind.is_literal(value):
        node: Node = Scalar(ScalarKind.TEXT, value, _PLACE)
    else:
        try:
            node = parse_flow(value, _PLACE)
        except Unreadable as error:
            raise _Refused(str(error), target.path) from None
    return _replace(root, list(zip(target.kinds, target.steps, strict=False)), node, target)


def _replace(node: Node, steps: _Steps, new: Node, target: _Target) -> Node:
    """Return a copy of the tree with another node at the end of the steps; create missing mappings
    on the path.
    """
    if not steps:
        kind = target.kinds[-1]
        if isinstance(node, Table) and isinstance(new, Scalar) and kind and kind.short == "uri":
            # the input's or output's other keys stay
            return _replace(node, [(kind, "uri")], new, target)
        return new
    kind, step = steps[0]
    if isinstance(step, int):
        return _replace_item(node, step, steps[1:], new, target)
    if not isinstance(node, Table):
        node = _as_table(node, kind, step, target.path)
    other = _OTHER_SPELLING.get(step, "") if kind is ROLES else ""
    if node.find(step) is None and node.find(other) is not None:
        step = other
    entry = node.find(step)
    inner = entry.value if entry else _NOTHING
    place = entry.place if entry and len(steps) > 1 else _PLACE
    return node.with_entry(Pair(step, place, _replace(inner, steps[1:], new, target)))


def _as_table(node: Node, kind: Kind | None, step: str, path: str) -> Table:
    """Return the mapping for an absent value, or for a value in its short form."""
    if isinstance(node, Scalar) and node.kind is ScalarKind.NULL:
        return Table((), _PLACE)
    if isinstance(node, Scalar) and kind and kind.short:
        return Table((Pair(kind.short, node.place, node),), node.place)
    raise _Refused(
        f"nothing can be set below a value that is not a mapping (at {clip(step)})", path
    )


def _replace_item(node: Node, index: int, rest: _Steps, new: Node, target: _Target) -> Node:
    items = node.items if isinstance(node, Items) else ()
    if not isinstance(node, Items) and not (
        isinstance(node, Scalar) and node.kind is ScalarKind.NULL
    ):
        raise _Refused("an index needs a list, and this is none", target.path)
    if index > len(items):
        raise _Refused(
            f"the list has {len(items)} items; the next one is [{len(items)}]", target.path
        )
    inner = items[index] if index < len(items) else _NOTHING
    return Items(
        (*items[:index], _replace(inner, rest, new, target), *items[index + 1 :]), node.place
    )
