"""Values in the form of JSON: documents that are printed alone, dataclasses, times; and reading
JSON of other programs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Literal

FORMAT_VERSION: Literal[1] = 1
MOMENT = "_ms"  # at the end of the names of moments, in milliseconds since 1970
_YEAR_10000_MS = 253_402_300_800_000


def instant(milliseconds: int | None) -> str | None:
    """Format a time in UTC, such as `2026-05-04T09:30:00Z`; None for no time, or for a time outside
    of the calendar.
    """
    if not milliseconds or not 0 < milliseconds < _YEAR_10000_MS:
        return None
    return (
        datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )


def document(kind: str, /, **fields: Any) -> dict[str, Any]:
    """Return a JSON object that is printed on its own: `kind` and `format` (the version of the
    format) come before the given fields.
    """
    return {"kind": kind, "format": FORMAT_VERSION, **fields}


def plain(made: Any) -> dict[str, Any]:
    """Return an instance of a dataclass as a dictionary of JSON values, with the names of
    `shown_fields`. A field that is None is kept as null.
    """
    shown = {}
    for name, item in shown_fields(made):
        value = getattr(made, item.name)
        shown[name] = instant(value) if item.name.endswith(MOMENT) else plain_value(value)
    return shown


def shown_fields(kind: Any) -> Iterator[tuple[str, Field[Any]]]:
    """Yield the fields of a dataclass, or of an instance, that its JSON has, with their names in
    JSON. A time `x_ms` has the name `x_at`; the metadata `json` states another name, or None for a
    field that the JSON does not have.
    """
    for item in fields(kind):
        name = item.name.removesuffix(MOMENT) + "_at" if item.name.endswith(MOMENT) else item.name
        if name := item.metadata.get("json", name):
            yield name, item


def plain_value(value: Any) -> Any:
    """Return a value in the form of JSON. A number that is not finite becomes a text ("NaN",
    "Infinity"), and so does a value of a type that JSON does not have, such as a path.
    """
    if is_dataclass(value):
        return plain(value)
    if isinstance(value, Mapping):
        return {str(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain_value(inner) for inner in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)  # "NaN", "Infinity", "-Infinity", which JSON has no numbers for
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


# --- JSON that other programs wrote ---

# control characters but tab and newline, and halves of a surrogate pair, which no encoding has
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_DEEPEST = 32  # the levels that are read
_DIGITS = 308  # of a whole number, which is then also a float
# A string, which the end of the text may cut off, or a bracket: every character is looked at once.
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def clean_text(text: str) -> str:
    """Return text that every encoding, file and terminal accepts: invalid characters are escaped,
    as Python's `backslashreplace` does.
    """
    return _NO_TEXT.sub(_escape_code, text) if _NO_TEXT.search(text) else text


def _escape_code(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def read_foreign_json(content: bytes) -> Any:
    """Parse JSON that another program has written, whatever it contains.

    Texts are cleaned (`clean_text`). A number that is not finite or has hundreds of digits becomes
    None, and so does a value that is nested deeper than `_DEEPEST` levels.

    Raises:
        ValueError: The content is not JSON.
    """
    text = content.decode("utf-8", "replace")
    try:
        value = _parse_strictly(text)
    except RecursionError:
        value = _parse_strictly(_without_deep_parts(text))
    return _clean_value(value, _DEEPEST)


def _parse_strictly(text: str) -> Any:
    return json.loads(
        text,
        parse_constant=lambda _name: None,
        parse_float=lambda number: float(number) if math.isfinite(float(number)) else None,
        parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else None,
        strict=False,
    )


def _without_deep_parts(text: str) -> str:
    """Return JSON in which every value that is nested deeper than `_DEEPEST` levels is replaced by
    null.
    """
    kept, depth, start = [], 0, 0
    for found in _NESTING.finditer(text):
        if found.group() in ("[", "{"):
            if depth == _DEEPEST:
                kept += [text[start : found.start()], "null"]
            depth += 1
        elif found.group() in ("]", "}"):
            depth -= 1
            if depth == _DEEPEST:
                start = found.end()
    return "".join(kept) + (text[start:] if depth < _DEEPEST else "")


def _clean_value(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if not isinstance(value, (dict, list)):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [_clean_value(inner, levels - 1) for inner in value]
    return {clean_text(name): _clean_value(inner, levels - 1) for name, inner in value.items()}
