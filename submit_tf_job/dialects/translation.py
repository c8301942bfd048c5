"""Translate the located tree of another system's file ("foreign tree"): a cursor over it, the tree
of the job spec that is built, and remarks about keys that have no equivalent.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from submit_tf_job.dialects.rows import Fate, ForeignKey, KeyTree, Rows, key_tree, matches
from submit_tf_job.errors import JobSpecError
from submit_tf_job.host.located.tree import (
    Diagnostics,
    Items,
    Location,
    Node,
    Pair,
    Scalar,
    ScalarKind,
    Table,
    closest,
    describe,
    from_python,
)
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.job import Remark

_NO_MEMORY = "no memory is stated, and YARN needs an amount"


class At:
    """A cursor: a node of the foreign tree, with its path. A key that is read by a cursor counts as
    used; `Translation.check` reports the others.

    A value that is absent or null has a cursor, too. This cursor is false, and reads as empty: "",
    no items, no members. `put` does nothing for it, and no remark is made about it.

    Attributes:
        node: The node; None for an absent value.
        path: The path of the node; for an absent value, the path of the mapping that lacks it.
        place: The location for messages.
        reading: The translation.
    """

    def __init__(self, node: Node | None, path: str, place: Location, reading: Translation) -> None:
        self.node: Node | None = node
        self.path = path
        self.reading = reading
        self.place = replace(place, path=path)

    def __bool__(self) -> bool:
        """Return whether the value is stated."""
        return self.node is not None

    # --- the foreign tree ---

    @property
    def entries(self) -> tuple[Pair, ...]:
        """The entries of a mapping; () for any other value."""
        return self.node.entries if isinstance(self.node, Table) else ()

    @property
    def keys(self) -> set[str]:
        """The keys of a mapping, including keys without a value."""
        return {entry.key for entry in self.entries}

    def get(self, *names: str) -> At:
        """Return a cursor at the value of the first entry in the file whose key is one of `names`
        and whose value is not null; a false cursor if there is none.
        """
        for entry in self.entries:
            null = isinstance(entry.value, Scalar) and entry.value.kind is ScalarKind.NULL
            if entry.key in names and not null:
                return self._member_cursor(entry)
        return At(None, self.path, self.place, self.reading)

    def _member_cursor(self, entry: Pair) -> At:
        path = f"{self.path}.{entry.key}" if self.path else entry.key
        self.reading.seen.add(path)
        return At(entry.value, path, entry.place, self.reading)

    def find(self, path: str) -> At:
        """Return the value at a dotted path below this value."""
        found = self
        for name in path.split("."):
            found = found.get(name)
        return found

    def members(self) -> Iterator[tuple[str, At]]:
        """Yield key and value of each entry of a mapping; report any other value."""
        if self.node is not None and not isinstance(self.node, Table):
            self.fail(f"expected a mapping, found {describe(self.node)}")
        for entry in self.entries:
            yield entry.key, self._member_cursor(entry)

    def items(self) -> list[At]:
        """Return the items of a list. For any other value, report a problem and return []."""
        if isinstance(self.node, Items):
            return [
                At(node, f"{self.path}[{index}]", node.place, self.reading)
                for index, node in enumerate(self.node.items)
            ]
        if self.node is not None:
            self.fail(f"expected a list, found {describe(self.node)}")
        return []

    def text(self) -> str:
        """Return a scalar as text. For a list or a mapping, report a problem and return ""."""
        if isinstance(self.node, Scalar):
            return self.node.text
        if self.node is not None:
            self.fail(f"expected text, found {describe(self.node)}")
        return ""

    def parts(self) -> list[str]:
        """Return the parts of a text that are separated by commas, without empty parts."""
        return [part.strip() for part in self.text().split(",") if part.strip()]

    def words(self) -> list[str]:
        """Return the texts of a list."""
        return [item.text() for item in self.items()]

    def whole(self, least: int = 0, default: int = 0) -> int:
        """Return a whole number, which may be written as text.

        Args:
            least: The smallest valid number; a smaller number, or a value that is no number, is
                reported.
            default: The result for an absent value and for a reported value.
        """
        if self.node is None:
            return default
        text = self.text().strip()
        if re.fullmatch(r"[0-9]{1,15}", text) and int(text) >= least:
            return int(text)
        self.fail(f"expected a whole number of at least {least}, found {describe(self.node)}")
        return default

    def flag(self) -> bool:
        """Return whether the value is true; False for an absent value. Report any value but true
        and false.
        """
        text = self.text().strip().lower()
        if self.node is not None and text not in ("true", "false"):
            self.fail(f"expected true or false, found {describe(self.node)}")
        return text == "true"

    # --- what becomes of it ---

    def fail(self, message: str) -> None:
        """Report a problem at the location of this cursor; the job is then refused."""
        self.reading.notes.problem(self.place, self.path, message)

    def drop(self, text: str) -> None:
        """If the value is stated, add a warning that it is not carried over as it is; `text` is the
        reason.
        """
        if self:
            self.reading.remark(self, "warning", text)

    def note(self, text: str, ours: str = "") -> None:
        """If the value is stated, add a note on a decision; `ours` is the path in the job spec that
        the decision concerns.
        """
        if self:
            self.reading.remark(self, "note", text, ours)

    def skip(self) -> None:
        """Mark everything below this value as used, so that `Translation.check` does not report
        it.
        """
        self.reading.skipped.add(self.path)

    def put(self, path: str, value: object, note: str = "", *, key: str = "") -> None:
        """Set a value of the job spec; its location is that of this cursor.

        Args:
            path: Keys joined by dots.
            value: The value.
            note: A note about the decision.
            key: One more key, a name chosen by the user, which may contain dots.
        """
        if self:
            names = [*path.split("."), *filter(None, [key])]
            self.reading.tree = _with_value(
                self.reading.tree, names, _node_at_place(value, self.place)
            )
            if note:
                self.note(note, path)

    def put_under(self, strategy: str, path: str, value: object, note: str) -> None:
        """Set a value of the job spec that applies only with the strategy `strategy`: it is not set
        if the overrides choose another strategy.
        """
        node = _node_at_place(value, self.place)
        self.put(path, node, note)
        self.reading.under.append((strategy, path, node))

    def append(self, path: str, value: object) -> None:
        """Add an item to a list of the job spec."""
        items = (*_items_at(self.reading.tree, path), _node_at_place(value, self.place))
        self.put(path, Items(items, self.place))

    def extend(self, path: str, text: str) -> None:
        """Append to a text of the job spec, if the job spec has a text at this path; the location
        of the text stays the same.
        """
        tree = self.reading.tree
        if isinstance(old := _find_node(tree, path), Scalar):
            self.reading.tree = _with_value(
                tree, path.split("."), replace(old, text=old.text + text)
            )

    # --- values that `--set` must provide ---

    def need(self, ours: str, option: str, why: str) -> None:
        """Refuse the job unless the overrides or the settings state a value of the job spec.

        For a key of a role, the key with the same name of the whole job suffices; for `memory`,
        also `shape`, or `task_memory` of the settings (`Translation.complete`).

        Args:
            ours: The path of the value in the job spec.
            option: What the message advises to write after `--set`.
            why: What the file lacks, for the message.
        """
        role, _, key = ours.rpartition(".")
        paths = [ours, re.sub(r"^roles\.[^.]+\.", "", ours)]
        if key == "memory":
            paths.append(f"{role}.shape")
        self.reading.needs.append(
            _Need(
                ours, lambda root: any(_find_node(root, path) for path in paths), option, self, why
            )
        )

    def need_memory(self, role: str, enough: str = "4Gi", why: str = _NO_MEMORY) -> None:
        """Refuse the job unless the memory of a role, such as `roles.ps`, is set."""
        self.need(f"{role}.memory", f"{role}.memory={enough}", why)

    def need_image(self, role: str, why: str = "there is no Docker image") -> None:
        """Refuse the job unless the image of a role, such as `roles.ps`, is set."""
        self.need(f"{role}.image", "image=IMAGE", why)

    def need_command(self, role: str, why: str, example: str = "COMMAND") -> None:
        """Refuse the job unless the command of a role, such as `roles.ps`, is set."""
        self.need(f"{role}.command", f"{role}.command={example}", why)

    def need_mount(self, role: str, target: str, mode: str, why: str) -> None:
        """Refuse the job unless the overrides give a role, such as `roles.ps`, or the whole job, a
        mount at `target`; `mode` is ":rw" or "".
        """

        def satisfied(root: Table) -> bool:
            items = (*_items_at(root, "mounts"), *_items_at(root, f"{role}.mounts"))
            texts = [item.text for item in items if isinstance(item, Scalar)]
            return any(text.split(":")[1:2] == [target] for text in texts)

        option = f"{role}.mounts[]=/DIRECTORY/ON/THE/NODES:{target}{mode}"
        self.reading.needs.append(_Need("", satisfied, option, self, why))


@dataclass(frozen=True)
class Dialect:
    """A format of job files, or of a program's command lines.

    Attributes:
        label: The format's name in messages.
        keys: The table of the format: every key that it has.
        read: Translates a tree, whose keys are checked against the table afterwards.
        recognise: Returns the version of a file; None for a file of another format.
        prefix: For a flat format (properties, flags), the beginning of all its names; "" for a
            format with nested mappings.
        begin: Returns the index of the first flag of a command line; None for another program.
        abbreviations: Other names of flags.
        takes_command: Whether the first word that is not a flag begins the job's command.
    """

    label: str
    keys: tuple[Rows, ...]
    read: Callable[[At], None]
    recognise: Callable[[At], str | None] = lambda _: None
    prefix: str = ""
    begin: Callable[[Sequence[str]], int | None] = lambda _: None
    abbreviations: Mapping[str, str] = field(default_factory=dict)
    takes_command: bool = False


@dataclass(frozen=True)
class _Need:
    """A value that the foreign file lacks, and that `--set` or the settings can provide.

    Attributes:
        ours: The path of the value in the job spec; "" if `satisfied` alone decides.
        satisfied: Returns whether the tree of the job spec has the value.
        option: The text for `--set`; `[]` stands for the next index of a list.
        at: Where a missing value is reported.
        why: The message's beginning: what the file lacks.
    """

    ours: str
    satisfied: Callable[[Table], bool]
    option: str
    at: At
    why: str


class Translation:
    """One translation: the tree of the job spec so far, and the remarks about it.

    Attributes:
        seen: The paths of the keys that were read.
        skipped: Paths below which all values count as read.
        silent: The paths of keys that have no effect on YARN.
        base: The directory of the files that a command line names.
        before: The words of a command line before its flags: the program, and a launcher's options.
        declared: The URIs of inputs and outputs, by their path in the job spec.
        under: Strategy, path and value of each value that applies only under that strategy.
    """

    def __init__(self, dialect: str, version: str, notes: Diagnostics) -> None:
        self.dialect = dialect
        self.version = version
        self.notes = notes
        self.remarks: list[Remark] = []
        self.seen: set[str] = set()
        self.skipped: set[str] = set()
        self.silent: list[str] = []
        self.base: Path | None = None
        self.before: Sequence[str] = ()
        self.declared: dict[str, str] = {}
        self.tree = Table((), Location(notes.source))
        self.needs: list[_Need] = []
        self.under: list[tuple[str, str, Node]] = []

    # --- the foreign tree ---

    def root(self, node: Node) -> At:
        """Return the cursor at the whole file."""
        return At(node, "", node.place, self)

    def translate(self, dialect: Dialect, root: At) -> Table:
        """Translate a tree, and check its keys; return the tree of the job spec."""
        dialect.read(root)
        self.check(dialect, root)
        first = self.tree.entries[0].place if self.tree.entries else root.place
        return replace(self.tree, place=first)

    def check(self, dialect: Dialect, root: At) -> None:
        """Record each key of a tree that is refused, dropped or without effect, and report each key
        that the format does not have.
        """
        if dialect.prefix:
            self._check_names(root, dialect.keys, dialect.prefix)
        else:
            self._check_below(root, key_tree(dialect.keys))

    def _check_names(self, root: At, table: tuple[Rows, ...], prefix: str) -> None:
        """Check the keys of a flat file, which has names with dots instead of nested mappings.

        In the table, `*` stands for one part of a name, and `**` for the rest of it; the first row
        that matches counts. Names without the prefix belong to other programs, and get no remark.
        """
        keys = [key for group in table for key in group.each()]
        names = {key.path for key in keys if "*" not in key.path}
        for entry in root.entries:
            at = At(entry.value, entry.key, entry.place, self)
            key = next((key for key in keys if matches(key.path, entry.key)), None)
            if not entry.key.startswith(prefix):
                self.silent.append(entry.key)
            elif key is not None:
                self._record_fate(at, key)
            else:
                near = closest(entry.key, sorted(names))
                meant = f"did you mean '{near}'?" if near else f"`formats` lists {prefix}… keys"
                at.fail(f"{self.dialect} has no property {clip(entry.key)}; {meant}")

    def _check_below(self, at: At, known: KeyTree) -> None:
        if isinstance(at.node, Items):
            for item in at.items():
                if isinstance(item.node, Items):
                    item.fail("expected a mapping, found a list")
                else:
                    self._check_below(item, known.inner["[]"])
        elif isinstance(at.node, Table):
            for entry in at.entries:
                self._check_entry(at, entry, known)
        elif at.node is not None:
            at.fail(f"expected a mapping, found {describe(at.node)}")

    def _check_entry(self, at: At, entry: Pair, known: KeyTree) -> None:
        rule = known.inner.get(entry.key) or known.inner.get("*")
        path = f"{at.path}.{entry.key}" if at.path else entry.key
        value = At(entry.value, path, entry.place, self)
        if rule is None:
            near = closest(entry.key, [name for name in known.inner if name.isidentifier()])
            meant = (
                f"did you mean '{near}'?" if near else f"the keys here are {_listed_keys(known)}"
            )
            value.fail(f"{self.dialect} has no key {clip(entry.key)}; {meant}")
        elif path in self.skipped:
            return
        elif _is_empty(entry.value) or not rule.inner or rule.is_final:
            self._record_fate(value, rule.key)
        elif ("[]" in rule.inner) is not isinstance(entry.value, Items):
            kind = "a list" if "[]" in rule.inner else "a mapping"
            value.fail(f"expected {kind}, found {describe(entry.value)}")
        else:
            self._check_below(value, rule)

    def _record_fate(self, at: At, key: ForeignKey | None) -> None:
        """Record what becomes of one key that the file has; an empty value is `silent`."""
        fate = key.fate if key else Fate.MAPPED
        if at.node is None or _is_empty(at.node):
            if at.path not in self.seen:
                self.silent.append(at.path)
        elif fate is Fate.MAPPED or key is None:
            if at.path not in self.seen:
                at.drop("has no effect on this job")
        elif fate is Fate.REFUSED:
            at.fail(key.text)
        elif fate is Fate.DROPPED:
            at.drop(key.text)
        else:
            self.silent.append(at.path)

    def remark(self, at: At, level: Literal["warning", "note"], text: str, ours: str = "") -> None:
        """Add a remark. If there is already the same remark about the same key of another role,
        only its count is increased.
        """
        place = at.place
        new = Remark(level, place.source, place.line, place.column, at.path, text, ours=ours)
        like = (level, text, _last_key(at.path))
        for index, old in enumerate(self.remarks):
            if (old.level, old.text, _last_key(old.path)) == like and not ours:
                if old.place != new.place:
                    self.remarks[index] = replace(old, also=old.also + 1)
                return
        self.remarks.append(new)

    # --- the tree with the overrides ---

    def complete(self, root: Table, job: Mapping[str, object], memory: str | None) -> Table:
        """Return the tree with the site's memory; report the values that are still missing.

        Args:
            root: The tree with the overrides.
            job: The settings' partial job spec; the file need not state values that are in it.
            memory: The memory of a task in the settings; None if the settings have none.

        Raises:
            JobSpecError: The translation has problems.
        """
        chosen = _find_node(root, "strategy")
        for strategy, path, node in self.under:
            other = isinstance(chosen, Scalar) and chosen.text != strategy
            if other and _find_node(root, path) == node:  # not one of the overrides
                root = _without_value(root, path.split("."))
                self.remarks = [remark for remark in self.remarks if remark.ours != path]
        missing = []
        for need in self.needs:
            key = need.ours.rpartition(".")[2]
            if need.satisfied(root) or key in job:
                continue
            if key == "memory" and memory is not None:
                value = Scalar(ScalarKind.TEXT, memory, Location("task_memory"))
                root = _with_value(root, need.ours.split("."), value)
                need.at.note(f"{need.why}; {memory} is the settings' task_memory", need.ours)
            else:
                missing.append(need)
        remarks = () if self.notes.problems else self.remarks
        self._report_missing(root, missing)
        if self.notes.problems:
            self._report_files(root)
        if self.notes.problems:
            raise JobSpecError(self.notes.problems, remarks=map(str, remarks))
        return root

    def _report_files(self, root: Table) -> None:
        """Report files of a command line that do not exist here; otherwise only the next attempt
        would report them.
        """
        for item in _items_at(root, "files") if self.base else ():
            src = _find_node(item, "src") if isinstance(item, Table) else item
            if isinstance(src, Scalar) and not re.search(r"://|[*?[]", src.text):
                assert self.base is not None
                if not (self.base / src.text).exists():
                    self.notes.problem(src.place, "", f"{clip(src.text)}: not found in {self.base}")

    def _report_missing(self, root: Table, missing: list[_Need]) -> None:
        together: dict[str, list[_Need]] = {}
        for need in missing:
            together.setdefault(need.why, []).append(need)
        taken: dict[str, int] = {}
        for why, needs in together.items():
            options = " ".join(
                f"--set {shlex.quote(_option_for_set(option, root, taken))}"
                for option in dict.fromkeys(need.option for need in needs)
            )
            places = [path for path in dict.fromkeys(need.at.path for need in needs[1:]) if path]
            others = f" (likewise {', '.join(places)})" if places else ""
            message = f"{why}{others}; add {options}"
            needs[0].at.fail(re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", message))


def _option_for_set(option: str, root: Table, taken: dict[str, int]) -> str:
    appended = re.fullmatch(r"([^=]+)\[\]=(.*)", option, re.DOTALL)
    if appended is None:
        return option
    path, value = appended.groups()
    index = taken.setdefault(path, len(_items_at(root, path)))
    taken[path] += 1
    return f"{path}[{index}]={value}"


def _last_key(path: str) -> str:
    """Return the last key of a path, without an index."""
    return re.sub(r"\[[0-9]+\]", "", path).rpartition(".")[2]


def _with_value(table: Table, names: list[str], value: Node) -> Table:
    """Return a copy of a tree with a value at a path."""
    name, *rest = names
    entry = table.find(name)
    if rest:
        inner = entry.value if entry else None
        value = _with_value(
            inner if isinstance(inner, Table) else Table((), value.place), rest, value
        )
    return table.with_entry(Pair(name, value.place, value))


def _without_value(table: Table, names: list[str]) -> Table:
    name, *rest = names
    entry = table.find(name)
    if not rest or entry is None or not isinstance(entry.value, Table):
        return table.without(name)
    return table.with_entry(Pair(name, entry.place, _without_value(entry.value, rest)))


def _find_node(root: Table, path: str) -> Node | None:
    node: Node | None = root
    for name in path.split("."):
        entry = node.find(name) if isinstance(node, Table) else None
        node = entry.value if entry else None
    return node


def _items_at(root: Table, path: str) -> tuple[Node, ...]:
    """Return the items of a list; () for any other value."""
    found = _find_node(root, path)
    return found.items if isinstance(found, Items) else ()


def _listed_keys(known: KeyTree) -> str:
    return ", ".join(name for name in known.inner if name not in ("*", "[]"))


def _is_empty(node: Node) -> bool:
    """Return whether a value means the same as its absence: null, false, "", [] or {}."""
    if isinstance(node, Table):
        return not node.entries
    if isinstance(node, Items):
        return not node.items
    return node.kind is ScalarKind.NULL or node.text.lower() in ("", "false")


def _node_at_place(value: object, place: Location) -> Node:
    return replace(value, place=place) if isinstance(value, Scalar) else from_python(value, place)
