"""Read a command line of another system: find its program, and parse its flags into a flat tree.

The location of a value is the number of its argument, counted from 1. The names of flags are kept
with two hyphens, however the user wrote them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from submit_tf_job.dialects.rows import path_of
from submit_tf_job.dialects.translation import At, Dialect
from submit_tf_job.host.located.text_source import parse_file
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
    closest,
)
from submit_tf_job.host.quoting import clip

PREFIX = "--"
COMMAND = "--command"  # the entry of what follows the flags, where that is the job's command


# what a flag takes
_NOTHING, _VALUE, _VALUES, _PROPERTY = range(4)


def _kinds_of_flags(dialect: Dialect) -> dict[str, int]:
    """Return the kind of value of each flag of a program, by the flag's name without hyphens."""
    flags = {}
    for key in (key for group in dialect.keys for row in group.rows for key in row.spellings):
        name, space, _ = path_of(key).removeprefix(PREFIX).partition(" ")
        takes = _PROPERTY if space else {"=*": _VALUES, "=": _VALUE}.get(key[len(path_of(key)) :])
        flags[name] = takes or _NOTHING
    flags.pop(COMMAND.removeprefix(PREFIX), None)
    return flags


def after_program(words: Sequence[str], *names: str) -> int | None:
    """Return the index after the first word whose last path component is one of `names`; None if
    there is no such word.
    """
    for index, word in enumerate(words):
        if posixpath.basename(word) in names:
            return index + 1
    return None


def place_of(index: int) -> Location:
    """Return the location of a word."""
    return Location(f"argument {index + 1}")


def each(root: At, name: str) -> Iterator[At]:
    """Yield a cursor for each value of a flag that may be repeated."""
    found = root.get(name).node
    for node in found.items if isinstance(found, Items) else ():
        yield At(node, name, node.place, root.reading)


def open_file(at: At) -> At | None:
    """Return a cursor at the mapping in the YAML, JSON or XML file that a flag names; if the file
    cannot be read, is not on this host, or is not a mapping, report a problem and return None.

    If the flag is not given, its own cursor, which is false, is returned.
    """
    reading = at.reading
    if not at:
        return at
    if "://" in at.text():
        at.fail(f"{clip(at.text())} is not a file of this host; fetch it first")
        return None
    trial = Diagnostics(at.text())
    try:
        node = parse_file((reading.base or Path()) / at.text(), trial)
    except Unreadable as error:
        reading.notes.problem(error.place, error.path, str(error))
        return None
    reading.notes.problems |= trial.problems
    if not isinstance(node, Table):
        at.fail("expected a file with a mapping")
        return None
    return reading.root(node)


@dataclass
class _Parser:
    words: Sequence[str]
    dialect: Dialect
    flags: dict[str, int]
    fail: Callable[[Location, str, str], None]
    entries: dict[str, Pair] = field(default_factory=dict)
    lists: dict[str, list[Node]] = field(default_factory=dict)

    def run(self, begin: int) -> Table:
        at = begin
        while at < len(self.words):
            word = self.words[at]
            if word.startswith("-") and len(word.strip("-")) > 0:
                at = self._read_flag(at)
            elif self.dialect.takes_command:
                items = tuple(_text_scalar(word, at + i) for i, word in enumerate(self.words[at:]))
                place = place_of(at)
                self.entries[COMMAND] = Pair(COMMAND, place, Items(items, place))
                break
            else:
                self.fail(
                    place_of(at),
                    "",
                    f"{clip(word)} belongs to no flag; put quotes around a value with blanks",
                )
                at += 1
        for name, listed in self.lists.items():
            place = listed[0].place
            self.entries[name] = Pair(name, place, Items(tuple(listed), place))
        return Table(tuple(self.entries.values()), place_of(begin))

    def _read_flag(self, at: int) -> int:
        """Read a flag with its value; return the index after it."""
        stated, equals, value = self.words[at].lstrip("-").partition("=")
        name = self.dialect.abbreviations.get(stated, stated)
        flag, place = f"{PREFIX}{name}", place_of(at)
        following = at + 1
        takes = self.flags.get(name)
        if takes == _NOTHING:
            bare = not equals and not self.dialect.takes_command
            if bare and list(self.words[following : following + 1]) == ["true"]:
                following += 1  # Java's parser of flags passes over the word
            self._put_entry(flag, place, Scalar(ScalarKind.BOOLEAN, value.lower() or "true", place))
            return following
        known = takes is not None
        if not equals and following < len(self.words) and (known or not self._is_flag(following)):
            value = self.words[following]
            following += 1
        elif not equals and known:
            self.fail(place, flag, "a value is missing")
            return following
        while value.endswith(",") and following < len(self.words) and not self._is_flag(following):
            value += self.words[following]  # a list that goes on in the next line of a guide
            following += 1
        if known:
            self._read_value(takes, flag, value, at)
        else:
            near = closest(name, sorted(self.flags))
            meant = f"did you mean '{PREFIX}{near}'?" if near else "take it out"
            self.fail(place, flag, f"there is no flag {clip(flag)}; {meant}")
        return following

    def _is_flag(self, at: int) -> bool:
        return self.words[at].startswith("-")

    def _read_value(self, takes: int | None, flag: str, value: str, at: int) -> None:
        place, node = place_of(at), _text_scalar(value, at)
        if takes == _VALUES:
            self.lists.setdefault(flag, []).append(node)
        elif takes == _PROPERTY:
            key, separator, text = value.partition("=")
            if not separator or not key.strip():
                self.fail(place, flag, f"expected NAME=VALUE, found {clip(value)}")
            else:
                self._put_entry(f"{flag} {key.strip()}", place, _text_scalar(text.strip(), at))
        else:
            self._put_entry(flag, place, node)

    def _put_entry(self, flag: str, place: Location, node: Scalar) -> None:
        old = self.entries.get(flag)
        if old is not None and isinstance(old.value, Scalar) and old.value.text != node.text:
            message = f"given before, as {old.place.source}, with another value; leave one out"
            self.fail(place, flag, message)
        self.entries[flag] = Pair(flag, place, node)


def _text_scalar(text: str, at: int) -> Scalar:
    return Scalar(ScalarKind.TEXT, text, place_of(at))


def parse(
    words: Sequence[str], begin: int, dialect: Dialect, fail: Callable[[Location, str, str], None]
) -> Table:
    """Parse the flags of a command line.

    Args:
        words: The command line.
        begin: The index of the first word after the program.
        dialect: The format, which has the known flags.
        fail: Called with location, flag and message of each problem.

    Raises:
        Unreadable: There is no flag.
    """
    if begin >= len(words):
        raise Unreadable(place_of(max(len(words) - 1, 0)), "there is no flag behind the program")
    return _Parser(words, dialect, _kinds_of_flags(dialect), fail).run(begin)
