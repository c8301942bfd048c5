"""Put each key of a dialect's table into a file, one at a time, and see what becomes of it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.diagnostics import Diagnostics
from submit_tf_job.jobspec.dialects.conversion import Conversion, convert
from submit_tf_job.jobspec.dialects.translation import Fate, ForeignKey
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Job
from submit_tf_job.jobspec.load import read_tree
from submit_tf_job.jobspec.nodes import Node, Scalar, Table
from submit_tf_job.jobspec.reader import Defaults
from submit_tf_job.plan import Site, plan

SAMPLES = Path(__file__).parent / "samples"
NO_EFFECT = "has no effect on this job"


def samples(name: str) -> dict[str, Any]:
    """Return path → value of a file of samples."""
    lines = (SAMPLES / f"{name}.txt").read_text("utf-8").splitlines()
    return {path: yaml.safe_load(value) for path, _, value in (x.partition(" | ") for x in lines)}


def steps(pattern: str, names: Mapping[str, str]) -> list[str | int]:
    """Fill the wildcards of a pattern: `[]` with the first item, `*` with a name."""
    found: list[str | int] = []
    done = ""
    for step in re.findall(r"\[\]|[^.\[\]]+", pattern):
        done += step if step == "[]" or not done else f".{step}"
        if step == "[]":
            found.append(0)
        else:
            found.append(names[done] if step == "*" else step)
    return found


def shown(path: list[str | int]) -> str:
    return re.sub(r"\.\[", "[", ".".join(f"[{x}]" if isinstance(x, int) else x for x in path))


def without(tree: Any, path: list[str | int]) -> Any:
    tree = copy.deepcopy(tree)
    at = tree
    for step in path[:-1]:
        if isinstance(at, Mapping) and step not in at:
            return tree
        at = at[step]
    if isinstance(at, dict):
        at.pop(path[-1], None)
    return tree


def with_value(tree: Any, path: list[str | int], value: Any) -> Any:
    tree = copy.deepcopy(tree)
    at = tree
    for step, following in zip(path, [*path[1:], ""], strict=True):
        if following == "":
            at[step] = value
        elif isinstance(at, list):
            at = at[int(step)]
        else:
            at = at.setdefault(step, [{}] if isinstance(following, int) else {})
    return tree


@dataclass(frozen=True)
class Effect:
    """What became of a file."""

    tree: str
    remarks: tuple[tuple[str, str, str], ...]
    silent: tuple[str, ...]
    problems: tuple[tuple[str, str], ...]


def effect(text: str, overrides: Sequence[str] = (), source: str = "theirs.json") -> Effect:
    notes = Diagnostics(source)
    try:
        root, reading = read_tree(text, notes, overrides=overrides)
    except JobSpecError as error:
        return Effect("", (), (), tuple((p.path, p.message) for p in error.problems))
    assert reading is not None
    remarks = tuple((r.level, r.path, r.text) for r in reading.remarks)
    return Effect(bare(root), remarks, tuple(reading.silent), ())


def bare(node: Node) -> str:
    """Write a tree without its places."""
    return json.dumps(_bare(node))


def _bare(node: Node) -> Any:
    if isinstance(node, Table):
        return {entry.key: _bare(entry.value) for entry in node.entries}
    if isinstance(node, Scalar):
        return [node.kind.value, node.text]
    return [_bare(item) for item in node.items]


def check(key: ForeignKey, path: str, before: Effect, after: Effect) -> None:
    """Assert that a key has the fate that the table says."""
    remarks = {(level, path): text for level, path, text in after.remarks}
    if key.fate is Fate.REFUSED:
        assert (path, key.text) in after.problems
    elif key.fate is Fate.DROPPED:
        assert remarks[("warning", path)] == key.text
        assert (before.tree, before.problems) == (after.tree, after.problems)
    elif key.fate is Fate.SILENT:
        assert path in after.silent
        assert (before.tree, before.problems) == (after.tree, after.problems)
        assert before.remarks == after.remarks
    else:
        assert remarks.get(("warning", path)) != NO_EFFECT
        assert before != after


HOST = Host(None, None, (), None, None)


def body(job: Job) -> str:
    return plan(job, Site("alice", domain="example.com")).body


def converted(text: str, source: str, sets: Sequence[str] = ()) -> Conversion:
    return convert(text, source=source, host=HOST, defaults=Defaults(), overrides=sets)


def check_conversion(text: str, source: str, sets: list[str]) -> str:
    """Assert that a conversion plans to the same service as its original; return its text."""
    made = converted(text, source, sets)
    again = converted(made.text, "job.yaml")
    direct = loads(text, source=source, base=None, overrides=sets)
    own = loads(made.text, source="job.yaml", base=None)
    assert again.text == made.text
    assert own == direct
    assert body(own) == body(direct)
    assert direct.remarks == made.remarks
    assert converted(text, source, sets) == made
    return made.text
