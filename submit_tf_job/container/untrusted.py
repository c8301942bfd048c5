"""Values that were written by programs, other tasks or strangers. Each value is cleaned once, where
it is read; the result is a text, a finite number, a short list of these, or nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from submit_tf_job.container import contract

DIGITS = 18  # of a whole number: any program can hold it
DEPTH = 20  # of lists and objects in one another
LISTED = 20
LONGEST_S = 1e9  # of a duration: thirty years
# control characters but tabulator and line feed, and halves of a letter (lone surrogates)
_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_STYLE = "\x1b\\[[0-9;?]*[A-Za-z]"


def _escape_code(match: Any) -> str:
    return str(match.group().encode("unicode_escape").decode("ascii"))


def clean_text(value: str) -> str:
    """Return a text in which each control character (but tabulator and line feed) and each lone
    surrogate is replaced by a backslash and its code.
    """
    return value if value.isprintable() else re.sub(_UNPRINTABLE, _escape_code, value)


def clean_line(line: str) -> str:
    """Return a line as a terminal shows it: without colours, and without text that was overwritten
    later.
    """
    return clean_text(re.sub(_STYLE, "", line).rstrip().rpartition("\r")[2])


def clean(value: Any, depth: int = DEPTH) -> Any:
    """Return a value of JSON with clean texts; a number that is not finite becomes None.

    Raises:
        ValueError: The value is nested too deeply.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, (dict, list, tuple)):
        return value
    if not depth:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {clean_text(str(key)): clean(item, depth - 1) for key, item in value.items()}
    return [clean(item, depth - 1) for item in value]


def parse(text: str | bytes, constant: Callable[[str], Any] = lambda _name: None) -> Any:
    """Parse JSON. 1e999 and numbers of many digits become None. For NaN and infinities, `constant`
    gets the name and returns the value.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply.
    """
    try:
        found = json.loads(
            text,
            parse_constant=constant,
            parse_int=lambda digits: int(digits) if len(digits) <= DIGITS else None,
        )
        return clean(found)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def url_parts(url: str) -> SplitResult:
    """Return the parts of a URL; of one with brackets that hold no IPv6 address, which `urlsplit`
    refuses, empty parts.
    """
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


# --- fields ---------------------------------------------------------------------------------------
def text(value: Any, most: int) -> str:
    """Return a text, cut to a length; "" for a value of another type."""
    return value[:most] if isinstance(value, str) else ""


def texts(value: Any, most: int = 500) -> list[str]:
    """Return the texts of a list, each cut to a length, from its first `LISTED` items; [] for a
    value of another type.
    """
    found = value[:LISTED] if isinstance(value, list) else []
    return [item[:most] for item in found if isinstance(item, str)]


def whole(value: Any) -> int | None:
    """Return a whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> float | None:
    """Return a number; None for anything else, and for one that is not finite or 1e300 or more."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if good and abs(value) < 1e300 else None


def metric(value: Any) -> float | str | None:
    """Return a number; for a number that is not finite, or the text that stands for one in JSON
    (`contract.NOT_FINITE`), that text; None for any other value.
    """
    if isinstance(value, float) and not math.isfinite(value):
        sign = "-" if value < 0 else ""
        return "NaN" if math.isnan(value) else sign + "Infinity"
    return value if value in contract.NOT_FINITE else number(value)


def seconds(value: Any) -> float:
    """Return a duration, from 0 to `LONGEST_S`; 0 for a value of another type."""
    return max(0.0, min(float(number(value) or 0), LONGEST_S))


def port(value: Any) -> int:
    """Return a port; 0 for anything else."""
    found = whole(value) or 0
    return found if 0 < found < 65536 else 0


def ports(value: Any, most: int | None = LISTED) -> dict[str, int]:
    """Return the valid ports in an object, by name; at most the first `most`."""
    pairs = list(value.items())[:most] if isinstance(value, Mapping) else []
    return {str(name)[:63]: item for name, item in pairs if port(item)}
