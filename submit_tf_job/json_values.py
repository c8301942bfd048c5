"""Values as JSON has them: what is printed alone, a dataclass, a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Literal

FORMAT_VERSION: Literal[1] = 1
MOMENT = "_ms"  # at the end of the names of moments, in milliseconds since 1970
_YEAR_10000_MS = 253_402_300_800_000


def instant(milliseconds: int | None) -> str | None:
    """Format a time in UTC, `2026-05-04T09:30:00Z`; None for no time, or one outside of the
    calendar.
    """
    if not milliseconds or not 0 < milliseconds < _YEAR_10000_MS:
        return None
    return (
        datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )


def document(kind: str, /, **fields: Any) -> dict[str, Any]:
    """Return an object that is printed alone: its kind, the version of its format, its fields."""
    return {"kind": kind, "format": FORMAT_VERSION, **fields}


def plain(made: Any) -> dict[str, Any]:
    """Return an object of a dataclass as a dictionary of what JSON has; None stays."""
    shown = {}
    for name, item in shown_fields(made):
        value = getattr(made, item.name)
        shown[name] = instant(value) if item.name.endswith(MOMENT) else plain_value(value)
    return shown


def shown_fields(kind: Any) -> Iterator[tuple[str, Field[Any]]]:
    """Yield the fields of a dataclass that JSON has, with their names there: a moment in `x_ms` is
    `x_at`, and the metadata `json` has another name, or None for a field that JSON lacks.
    """
    for item in fields(kind):
        name = item.name.removesuffix(MOMENT) + "_at" if item.name.endswith(MOMENT) else item.name
        if name := item.metadata.get("json", name):
            yield name, item


def plain_value(value: Any) -> Any:
    """Return a value as JSON has it: what JSON has no kind for, such as a path, becomes text."""
    if is_dataclass(value):
        return plain(value)
    if isinstance(value, Mapping):
        return {str(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain_value(inner) for inner in value]
    if isinstance(value, Enum):
        return value.value
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
