"""Determine what differs between runs: exactly the keys of the job spec, arguments, variables,
files, packages and images that are not the same in all of them. Pure functions of the runs'
records.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from submit_tf_job.operations.run_values import has_values, values_of_record

UNKNOWN = "?"  # the value of a run whose record does not tell what it was given
KINDS = ("key", "argument", "variable", "file", "package", "image")
_NAMED, _LONGEST_NAME, _LONGEST_PART = 3, 40, 12  # of a proposed name
_NUMBER = re.compile(r"[-+]?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_OPTION = re.compile(r"--?[A-Za-z][^\s=]*")
_ASSIGNED = re.compile(r"(--?[A-Za-z][^\s=]*|\+{0,2}[A-Za-z_][\w.@/]*)=(.*)", re.DOTALL)
_SHELL = re.compile(r"[\n;&|<>`$(]")  # a command for bash that is more than one program's words


@dataclass(frozen=True)
class Difference:
    """One key of the job spec, argument, variable, file, package or image that is not the same in
    all runs.

    Attributes:
        kind: One of `KINDS`.
        name: What has different values, by kind: the path of a key, such as `roles.worker.memory`;
            an argument (`--lr`, `argument 2`); a variable; a file's name in the task; a package's
            archive; or `image`.
        role: The role whose value differs, if the roles have different values; else "".
        values: One value for each run, as text; for a file's content, its hash. None if the run
            does not have it or has the default; `UNKNOWN` if the record does not tell.
    """

    kind: str
    name: str
    role: str
    values: tuple[str | None, ...]

    @property
    def label(self) -> str:
        """The name together with its role, for people."""
        return f"{self.name} of {self.role}" if self.role else self.name


_Item = tuple[str, str]  # kind and name
_OfRoles = Mapping[str, str]  # role → value; "" for the job itself


def differences(records: Sequence[Mapping[str, Any]]) -> tuple[Difference, ...]:
    """Return what differs between runs according to their records: keys first, then the other
    kinds, each sorted by name.

    Args:
        records: Records of runs (docs/json.md#runrecord), also those of earlier versions, whose
            job specs are then compared as they were written.
    """
    written = not all(map(has_values, records))
    found = [values_of_record(record, written=written) for record in records]
    items = [None if values is None else dict(_items_of(values)) for values in found]
    names = {item for known in items if known is not None for item in known}
    made = (one for item in sorted(names, key=_rank_of_item) for one in _compared_item(item, items))
    return tuple(made)


def _rank_of_item(item: _Item) -> tuple[int, str]:
    return KINDS.index(item[0]), item[1]


def _items_of(values: Mapping[str, Any]) -> Iterator[tuple[_Item, _OfRoles]]:
    """Yield what a run was given: each item (kind and name) with its value in each role; the role
    is "" for the keys.
    """
    for path, value in values["keys"].items():
        yield ("key", str(path)), {"": str(value)}
    found: dict[_Item, dict[str, str]] = {}
    for role, own in values["roles"].items():
        parts = {
            "argument": arguments_of(own["command"]),
            "variable": own["variables"],
            "file": own["files"],
            "package": own["packages"],
            "image": {"image": own["image"]},
        }
        for kind, part in parts.items():
            for name, value in part.items():
                found.setdefault((kind, str(name)), {})[str(role)] = str(value)
    yield from found.items()


def _compared_item(
    item: _Item, items: Sequence[Mapping[_Item, _OfRoles] | None]
) -> Iterator[Difference]:
    """Yield the differences in one item. If in each run all roles that have the item have the same
    value, yield one difference without a role; else one for each role whose value differs between
    runs.
    """
    told = [None if known is None else known.get(item, {}) for known in items]
    if all(len(set((one or {}).values())) <= 1 for one in told):
        values = [UNKNOWN if one is None else next(iter(one.values()), None) for one in told]
        yield from _differing_values(item, "", values)
        return
    for role in dict.fromkeys(role for one in told for role in one or ()):
        values = [UNKNOWN if one is None else one.get(role) for one in told]
        yield from _differing_values(item, role, values)


def _differing_values(item: _Item, role: str, values: Sequence[str | None]) -> Iterator[Difference]:
    if len({value for value in values if value != UNKNOWN}) > 1:
        yield Difference(*item, role, tuple(values))


def differing_lines(
    found: Difference, records: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, ...], ...]:
    """Return, for a difference in a text of several lines, each run's lines that are not in all
    runs. Empty for any other difference, and for a file whose text some record does not have.

    Args:
        found: A difference: a program that was sent, or a command, argument or variable.
        records: The records that were compared.
    """
    texts = list(found.values)
    if found.kind == "file":
        programs = [(values_of_record(one) or {}).get("programs") or {} for one in records]
        texts = [
            one.get(found.name) if value else "" for one, value in zip(programs, texts, strict=True)
        ]
    elif not any("\n" in (text or "") for text in texts):
        return ()
    if any(not isinstance(text, str) for text in texts):
        return ()
    lines = [list(filter(None, map(str.strip, str(text).splitlines()))) for text in texts]
    common = set[str].intersection(*map(set, lines))
    return tuple(tuple(line for line in own if line not in common) for own in lines)


def name_of_differences(job: str, found: Sequence[Difference]) -> str:
    """Return a name for a job that differs from another job with the name `job`. The name is made
    from the values of the last run: `churn-lr0-1-units8`; "" if no value tells how they differ.
    """
    parts = [
        _name_part(one.name.rpartition(".")[2]) + _name_part(value)
        for one in sorted(found, key=lambda one: KINDS.index(one.kind) == 0)
        if (value := one.values[-1]) not in (None, UNKNOWN)
    ]
    name = "-".join([job, *filter(None, parts[:_NAMED])])[:_LONGEST_NAME].rstrip("-")
    return name if name != job else ""


def _name_part(text: str | None) -> str:
    return re.sub("[^a-z0-9]+", "-", (text or "").lower()).strip("-")[:_LONGEST_PART]


# --- a command's arguments ---


def arguments_of(command: str | Sequence[Any]) -> dict[str, str]:
    """Return the arguments of a command by name: `--lr` for `--lr 0.1` and `--lr=0.1`, `lr` for
    `lr=0.1`, `argument 1` for the first word after the program that has neither form, and `program`
    for the program. Several values are joined; an option without a value has the value `yes`.

    A command with shell syntax (`;`, `|`, `$`, a redirection), or one that cannot be split into
    words, is one argument with the name `command`. After a variable (`A=1 python`) the program is
    `argument 0`.
    """
    words = _words_of(command)
    if words is None:
        return {"command": str(command)}
    found: dict[str, list[str]] = {}
    plain, at = 0, 0
    while at < len(words):
        word, at = words[at], at + 1
        if assigned := _ASSIGNED.fullmatch(word):
            found.setdefault(assigned[1], []).append(assigned[2])
        elif _OPTION.fullmatch(word):
            values = list(_option_values(words[at:]))
            at += len(values)
            found.setdefault(word, []).append(" ".join(values) or "yes")
        else:
            name = "program" if at == 1 else f"argument {plain}"
            found[name], plain = [word], plain + 1
    return {name: ", ".join(values) for name, values in found.items()}


def _words_of(command: str | Sequence[Any]) -> list[str] | None:
    if not isinstance(command, str):
        return list(map(str, command))
    if _SHELL.search(command):
        return None
    try:
        return shlex.split(command)
    except ValueError:
        return None


def _option_values(words: Sequence[str]) -> Iterator[str]:
    """Yield the values of an option, from the words after it: the next word, and, if that is a
    number, all numbers that follow directly.
    """
    for at, word in enumerate(words):
        if _OPTION.fullmatch(word) or _ASSIGNED.fullmatch(word):
            return
        if at and not (_NUMBER.fullmatch(word) and _NUMBER.fullmatch(words[0])):
            return
        yield word
