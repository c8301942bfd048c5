"""`--set path=value`: change one value of a job spec before it is read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from submit_tf_job.job import Place
from submit_tf_job.specfile.nodes import Entry, Items, Kind, Node, Scalar, Table, clip
from submit_tf_job.specfile.notes import Notes, Unreadable
from submit_tf_job.specfile.vocabulary import DOCKER, HADOOP, INPUT, JOB, KERBEROS, OUTPUT, PLACEMENT, RESTART, ROLE, SHIPPED, Keys
from submit_tf_job.specfile.yaml_text import parse_flow

__all__ = ["SET", "apply"]

SET = "--set"

_STEP = re.compile(r"([^.\[\]]+)((?:\[[0-9]{1,6}\])*)")
_REST = re.compile(r"(.+)()")
_OWN_KEYS = Keys(())  # any key is the user's own
_INNER: dict[str, Keys] = {
    "roles": _OWN_KEYS,
    "roles.*": ROLE,
    "env": _OWN_KEYS,
    "ports": _OWN_KEYS,
    "placement": PLACEMENT,
    "node_attributes": _OWN_KEYS,
    "restart": RESTART,
    "docker": DOCKER,
    "hadoop": HADOOP,
    "kerberos": KERBEROS,
    "inputs": _OWN_KEYS,
    "inputs.*": INPUT,
    "outputs": _OWN_KEYS,
    "outputs.*": OUTPUT,
    "files[]": SHIPPED,
}
# Where a value is never text, and where it may be something else as well; anywhere else the characters behind `=` are the text.
_NEVER_TEXT = frozenset(
    [
        "instances",
        "cpus",
        "gpus",
        "tolerate",
        "max",
        "legacy_master",
        "bootstrap",
        "roles",
        "roles.*",
        "env",
        "ports",
        "ports.*",
        "placement",
        "node_attributes",
        "docker",
        "entrypoint",
        "accounts",
        "tmpfs",
        "publish",
        "hadoop",
        "kerberos",
        "inputs",
        "outputs",
        "download",
        "upload",
        "overwrite",
        "files",
        "mounts",
    ]
)
_PERHAPS_TEXT = frozenset(("command", "restart", "files[]", "node_attributes.*", "inputs.*", "outputs.*"))
_OTHER_SPELLING = {"chief": "master", "master": "chief"}


def apply(root: Node, overrides: Sequence[str], notes: Notes) -> Node:
    """Apply overrides in their order; a later one wins.

    Args:
        root: The job spec.
        overrides: Each `path=value`, such as `roles.worker.instances=8` or `files[0]=train.py`.
        notes: Where problems go; an override that has one is left out.
    """
    for override in overrides:
        path, equals, value = override.partition("=")
        try:
            if not equals:
                raise Unreadable(Place(SET), f"{clip(override)} has no '='; write path=value, as in roles.worker.instances=8")
            root = _set(root, _Target(path), value)
        except Unreadable as error:
            notes.problem(Place(SET), error.path, str(error))
    return root


class _Target:
    """A path, taken apart and checked against the keys that a job spec has."""

    def __init__(self, path: str) -> None:
        self.path = path.strip()
        self.steps: list[str | int] = []
        self.kind = ""  # the last key, or "env.*" for a member of env, or "files[]" for an item of files
        keys: Keys | None = JOB
        at = 0
        while at <= len(self.path):
            # A node attribute's name may hold dots itself: rm.yarn.io/os.
            step = (_REST if self.kind == "node_attributes" else _STEP).match(self.path, at)
            if step is None or self.path[step.end() : step.end() + 1] not in ("", "."):
                raise Unreadable(Place(SET), f"{clip(path)} is no path; write keys with dots between them, as in roles.worker.env.BATCH")
            keys = self._key(self._name(step.group(1), keys, at), keys)
            for index in re.findall("[0-9]+", step.group(2)):
                self.steps.append(int(index))
                self.kind += "[]"
                keys = _INNER.get(self.kind)
            at = step.end() + 1

    def _name(self, name: str, keys: Keys | None, at: int) -> str:
        if keys is None:
            raise Unreadable(Place(SET), f"{clip(name)} leads nowhere, {self.path[: at - 1]} has no keys", self.path)
        if keys is not _OWN_KEYS and name not in keys.known:
            raise Unreadable(Place(SET), keys.unknown(name), self.path)
        return name

    def _key(self, name: str, keys: Keys | None) -> Keys | None:
        self.steps.append(name)
        self.kind = f"{self.kind}.*" if keys is _OWN_KEYS else name
        return _INNER.get(self.kind)


def _set(root: Node, target: _Target, value: str) -> Node:
    place = Place(SET)
    if target.kind in _NEVER_TEXT or (target.kind in _PERHAPS_TEXT and value.lstrip()[:1] in ("[", "{")):
        try:
            node = parse_flow(value, place)
        except Unreadable as error:
            raise Unreadable(place, str(error), target.path) from None
    else:
        node = Scalar(Kind.TEXT, value, place)
    return _replace(root, target.steps, node, target.path)


def _replace(node: Node, steps: Sequence[str | int], new: Node, path: str) -> Node:
    """Return a copy of the tree with another node at the end of the steps; mappings on the way come into being."""
    if not steps:
        of_uri = isinstance(node, Table) and isinstance(new, Scalar) and path.startswith(("inputs.", "outputs."))
        return _replace(node, ["uri"], new, path) if of_uri else new  # the rest of what is said of the input stays
    step, place = steps[0], Place(SET)
    if isinstance(step, int):
        return _replace_item(node, step, steps[1:], new, path)
    if not isinstance(node, Table):
        node = _as_table(node, step, path)
    other = _OTHER_SPELLING.get(step, "") if path.startswith("roles.") else ""
    if node.find(step) is None and node.find(other) is not None:
        step = other
    entry = node.find(step)
    inner = entry.value if entry else _nothing(place)
    return node.with_entry(Entry(step, place if len(steps) == 1 or entry is None else entry.place, _replace(inner, steps[1:], new, path)))


def _as_table(node: Node, step: str, path: str) -> Table:
    """Make room for a key where there is no mapping yet: where there is nothing, or something in its short form."""
    if isinstance(node, Scalar) and node.kind is Kind.NULL:
        return Table((), Place(SET))
    if isinstance(node, Scalar) and step in RESTART.known:
        return Table((Entry("policy", node.place, node),), node.place)
    if isinstance(node, Scalar) and path.startswith(("inputs.", "outputs.")):
        return Table((Entry("uri", node.place, node),), node.place)
    raise Unreadable(Place(SET), f"nothing can be set below a value that is no mapping (at {clip(step)})", path)


def _replace_item(node: Node, index: int, rest: Sequence[str | int], new: Node, path: str) -> Node:
    items = node.items if isinstance(node, Items) else ()
    if not isinstance(node, Items) and not (isinstance(node, Scalar) and node.kind is Kind.NULL):
        raise Unreadable(Place(SET), "an index needs a list, and this is none", path)
    if index > len(items):
        raise Unreadable(Place(SET), f"the list has {len(items)} items; the next one is [{len(items)}]", path)
    inner = items[index] if index < len(items) else _nothing(Place(SET))
    return Items((*items[:index], _replace(inner, rest, new, path), *items[index + 1 :]), node.place)


def _nothing(place: Place) -> Scalar:
    return Scalar(Kind.NULL, "", place)
