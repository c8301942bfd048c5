"""Put each key of a dialect's table into a file, one at a time, and see what becomes of it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from submit_tf_job.dialects import dialect_of
from submit_tf_job.dialects.conversion import Conversion, convert
from submit_tf_job.dialects.rows import Fate, ForeignKey
from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads, read
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Job
from submit_tf_job.plan import Site, plan

HOST = Host(None, None, (), None, None)
SAMPLES = Path(__file__).parent / "samples"
NO_EFFECT = "has no effect on this job"


def samples(name: str) -> dict[str, Any]:
    """Return path → value of a file of samples."""
    lines = (SAMPLES / f"{name}.txt").read_text("utf-8").splitlines()
    return {path: yaml.safe_load(value) for path, _, value in (x.partition(" | ") for x in lines)}


def keys_of(name: str) -> list[ForeignKey]:
    """Return every key of a format."""
    return [key for group in dialect_of(name).keys for key in group.each()]


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


def left_out(tree: Any, path: list[str | int]) -> Any:
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


def body(job: Job) -> str:
    return plan(job, Site("alice", domain="example.com")).body


class Given(NamedTuple):
    """A file, or the words of a command."""

    content: str | tuple[str, ...]
    sets: Sequence[str] = ()
    source: str = "theirs.json"
    host: Host = HOST

    def converted(self, dialect: str | None = None) -> Conversion:
        more: Any = {"source": self.source, "host": self.host, "overrides": self.sets}
        return convert(read(self.content, dialect=dialect, **more))


@dataclass(frozen=True)
class Effect:
    """What became of a file, or of the words of a command."""

    job: Job | None
    remarks: tuple[tuple[str, str, str], ...] = ()
    problems: tuple[tuple[str, str], ...] = ()


@cache
def effect(given: Given) -> Effect:
    try:
        if isinstance(given.content, str):
            job = loads(given.content, source=given.source, base=None, overrides=given.sets)
        else:
            job = given.converted().job
    except JobSpecError as error:
        return Effect(None, problems=tuple((p.path, p.message) for p in error.problems))
    remarks = tuple((r.level, r.path, r.text) for r in job.remarks)
    return Effect(replace(job, remarks=()), remarks)


def problems(text: str, source: str, *overrides: str) -> list[str]:
    """Return the problems of a file, each with its path."""
    return [f"{path}: {said}" for path, said in effect(Given(text, overrides, source)).problems]


def each(rows: Iterable[ForeignKey], one: Callable[[ForeignKey], None]) -> None:
    """Check every key, and tell all that fail."""
    failures = []
    for row in rows:
        try:
            one(row)
        except (AssertionError, KeyError) as error:
            failures.append(f"{row.path}: {error!r:.300}")
    assert not failures, "\n".join(failures)


def check(key: ForeignKey, path: str, without: Given, given: Given) -> None:
    """Assert that a key has the fate that the table says, by what is given without and with it."""
    before, after = effect(without), effect(given)
    remarks = {(level, path): text for level, path, text in after.remarks}
    if key.fate is Fate.REFUSED:
        assert (path, key.text) in after.problems
    elif key.fate is Fate.DROPPED:
        assert remarks[("warning", path)] == key.text
        assert (before.job, before.problems) == (after.job, after.problems)
    elif key.fate is Fate.SILENT:
        assert path in given.converted().silent
        assert (before.job, before.problems) == (after.job, after.problems)
        assert before.remarks == after.remarks
    else:
        assert remarks.get(("warning", path)) != NO_EFFECT
        assert before != after


def check_conversion(text: str, source: str, sets: list[str]) -> str:
    """Assert that a conversion plans to the same service as its original; return its text."""
    given = Given(text, sets, source)
    made = given.converted()
    direct = loads(text, source=source, base=None, overrides=sets)
    own = loads(made.text, source="job.yaml", base=None)
    assert Given(made.text, source="job.yaml").converted().text == made.text
    assert own == direct
    assert body(own) == body(direct)
    assert direct.remarks == made.remarks
    assert given.converted() == made
    return made.text
