"""Read a mapping of known keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from submit_tf_job.jobspec.grammar import Keys
from submit_tf_job.jobspec.nodes import Scalar, ScalarKind, Table
from submit_tf_job.jobspec.values import Value

__all__ = ["Section"]


class Section:
    """A mapping of known keys.

    Attributes:
        meant: The likely keys of unknown ones, which are reported already and not missing.
    """

    def __init__(
        self, value: Value, keys: Keys, table: Table, meant: Collection[str | None] = ()
    ) -> None:
        self.value = value
        self.rows = keys.rows
        self.table = table
        self.meant = meant
        self.notes = value.notes

    @classmethod
    def of(cls, value: Value, keys: Keys) -> Section | None:
        """Return a mapping of known keys; report each unknown key."""
        table = value.table(keys.expected)
        if table is None:
            return None
        meant: set[str | None] = set()
        for entry in table.entries:
            if entry.key not in keys.rows and not value.notes.full:
                value.notes.problem(entry.place, value.path, keys.unknown(entry.key))
                meant.add(keys.meant_by(entry.key))
        return cls(value, keys, table, meant)

    @property
    def stated(self) -> frozenset[str]:
        """All keys that the user wrote, including unknown ones."""
        return frozenset(entry.key for entry in self.table.entries)

    def path(self, key: str) -> str:
        """Return the path of a key of this section."""
        return f"{self.value.path}.{key}".removeprefix(".")

    def has(self, key: str) -> bool:
        """Whether the user wrote the key."""
        return self.table.find(key) is not None

    def get(self, name: str, empty: str = "") -> Value | None:
        """Return a key's value; None if the key is absent, or has no value, which is reported with
        the hint `empty`.
        """
        entry = self.table.find(name)
        if entry is None:
            return None
        value = self.value.member(entry)
        if isinstance(entry.value, Scalar) and entry.value.kind is ScalarKind.NULL:
            return value.fail(f"there is no value; {empty or 'write one, or leave the key out'}")
        return value

    def read(self, name: str, reader: Callable[[Value], Any] | None = None) -> Any:
        """Read a key by its row of the table, or by its own reader.

        Returns:
            The value; None if it is wrong or the key is absent. A missing required key is a
            problem, and an absent default is recorded.
        """
        key = self.rows[name]
        if not self.has(name):
            if key.missing and name not in self.meant:
                self.notes.problem(self.value.place, self.path(name), f"missing; {key.missing}")
            elif key.default is not None:
                self.notes.default(self.path(name))
            return None
        value = self.get(name, key.missing)
        return None if value is None else (reader or key.kind.read)(value)

    def read_all(
        self,
        names: Iterable[str] | None = None,
        readers: Mapping[str, Callable[[Value], Any]] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Read several keys.

        Args:
            names: The keys; None for all.
            readers: The readers of keys that have their own.

        Returns:
            The values by the fields of the value class: None for a wrong, missing or misspelt one;
            other absent keys are omitted.
        """
        values = {}
        for name in self.rows if names is None else names:
            value, key = self.read(name, readers.get(name)), self.rows[name]
            if self.has(name) or key.missing or name in self.meant:
                values[key.field or name] = value
        return values
